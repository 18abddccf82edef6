"""The catcher: visibilities of all substreams, or of a share of them, in; a file of integrations of their band out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ryle.config import FOREIGN_X_HEAPS, ConfigError, Observation, Problem
from ryle.engines.beginning import WholeBand
from ryle.engines.links import measure_senders
from ryle.engines.output import choose_file, measure_file, open_file, published, tell, watchable
from ryle.engines.serving import entrance_metrics, serve_engine
from ryle.engines.statistics import CollectStatistics
from ryle.engines.write_file import WriteFile
from ryle.monitor.status import StatusReporter
from ryle.products.uvh5 import UVH5Writer
from ryle.receive.assembly import Assembler
from ryle.receive.dumps import DumpMap
from ryle.receive.entrance import MappedEntrance
from ryle.receive.statistics import StatisticsMap
from ryle.receive.sums import SumMap
from ryle.receive.udp import UdpSource
from ryle.stream.engine import Engine, Inlet
from ryle.stream.step import Step

_STATISTICS_BUFFER = 4 << 20


def catcher_engine(
    observation: Observation,
    opened: Callable[[], UVH5Writer],
    beginning: WholeBand | None,
    index: int = 0,
) -> tuple[Engine, WriteFile, Callable[[], None]]:
    """Make a catcher: receive, join the band, sum, write; beside it the first collects statistics of F-engines' inputs.

    Parameters
    ----------
    observation : Observation
        What is observed.
    opened : callable
        Opens the file.
    beginning : WholeBand, optional
        See `WriteFile`.
    index : int
        Which of those that share the substreams.

    Returns
    -------
    engine : Engine
        Not yet started.
    write : WriteFile
        Its step that writes.
    record : callable
        Puts the statistics into the last file, when the engine has ended.

    Raises
    ------
    OSError
        If it cannot receive.
    """
    o = observation
    mine = o.catcher_substreams(index)
    sums = DumpMap(o) if o.catcher.packets else SumMap(o, mine, waits=o.at_full_speed, timed=not o.at_full_speed)
    entrance = MappedEntrance(o, "catcher", sums, [o.catcher_endpoint(index)], index=index, name="visibilities")
    collected: list[Callable[[UVH5Writer], None]] = []

    def record(writer: UVH5Writer) -> None:
        for put in collected:
            put(writer)

    write = WriteFile(entrance.reader(), sums.given, opened, o.file_spectra, at_end=record, beginning=beginning)
    packet = o.catcher.packet_payload if o.catcher.packets else o.network.packet_size
    m = entrance_metrics(entrance, packet, "packets of visibilities")
    measure_senders(m, entrance, [f"X-engine {s}" for s in mine] if isinstance(sums, SumMap) else [])
    measure_file(m, o, write)
    steps: list[Step] = [write]
    entrances: list[Inlet] = [entrance]
    if o.statistics is not None and not index:
        of_inputs = StatisticsMap(o)
        to = o.statistics

        def sockets(assembler: Assembler) -> UdpSource:  # they are few, and a device is taken already
            return UdpSource(assembler, [to], interface=o.network.own_address, buffer=_STATISTICS_BUFFER)

        inlet = MappedEntrance(o, "catcher", of_inputs, [to], source=sockets, name="statistics")
        collect = CollectStatistics(inlet.reader(), of_inputs)
        m.counter("statistics", "packets", "of F-engines' statistics", lambda: inlet.account().placed)
        collected.append(lambda writer: collect.record(writer, o, inlet.account().missing or 0))
        steps.append(collect)
        entrances.append(inlet)

    def at_end() -> None:
        if write.writer is not None:
            record(write.writer)

    return Engine(entrances, steps, m), write, at_end


def serve(
    observation: Observation,
    index: int,
    output: Path | None,
    supervised: bool,
    *,
    file: Path | None = None,
    overwrite: bool = False,
) -> None:
    """Be a catcher: receive visibilities of all substreams, or of its share, write one file, until told to drain.

    Parameters
    ----------
    observation : Observation
        What is observed.
    index : int
        Which of those that share the substreams.
    output : Path, optional
        Directory to write to, instead of the observation's.
    supervised : bool
        Whether standard input is a supervisor's pipe.
    file : Path, optional
        File to write, of the whole band, which a supervisor has chosen; else the first that no earlier run has left.
    overwrite : bool
        Replace what an earlier run has left.
    """
    o = observation
    if o.xengine.sends == "meerkat" and o.catcher.packets is None:
        raise ConfigError(o.source, [Problem("xengine.sends", "meerkat", FOREIGN_X_HEAPS)])
    if not 0 <= index < o.catchers:
        raise ValueError(f"catcher {index} does not exist: there are {o.catchers}, counted from 0")
    identity = {"role": "catcher", "index": index}
    shared = index if o.catcher.directories else None
    # Others' X-engines begin when they like, and give what they give.
    beginning = None
    if o.catcher.packets is None:
        beginning = WholeBand(o.file_spectra, o.catcher_substreams(index).start)
    whole = choose_file(o, output, file, overwrite=overwrite)
    engine, write, at_end = catcher_engine(
        o, lambda: open_file(o, whole, overwrite=overwrite, catcher=shared), beginning, index
    )
    glances = watchable(o, engine.metrics, write, whole, index)
    reporter = StatusReporter(identity, engine.metrics)
    glances.keep = reporter.keep
    tell(reporter, write)
    write.open()
    with published(o, write, engine.metrics, glances, index):
        serve_engine(engine, o, identity, supervised, reporter, at_end=at_end)
