"""The catcher: visibilities of all substreams in, a file of integrations of the whole band out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ryle.chunk import Integration
from ryle.config import FOREIGN_X_HEAPS, ConfigError, Observation, Problem
from ryle.engines.beginning import WholeBand
from ryle.engines.output import open_output, tell_written
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
from ryle.stream.engine import Engine

_STATISTICS_BUFFER = 4 << 20


def catcher_engine(
    observation: Observation,
    writer: UVH5Writer,
    written: Callable[[int, Integration], None],
    beginning: WholeBand | None,
) -> tuple[Engine, Callable[[], None]]:
    """Make the catcher: receive, join the band, sum, write; beside it, collect statistics of F-engines' inputs.

    Returns
    -------
    engine : Engine
        Not yet started.
    record : callable
        Puts the statistics into the file, when the engine has ended.

    Raises
    ------
    OSError
        If it cannot receive.
    """
    o = observation
    sums = DumpMap(o) if o.catcher.packets else SumMap(o, waits=o.at_full_speed, timed=not o.at_full_speed)
    entrance = MappedEntrance(o, "catcher", sums, [o.network.visibilities], name="visibilities")
    write = WriteFile(entrance.reader(), sums.given, lambda: writer, o.file_spectra, written, beginning=beginning)
    packet = o.catcher.packet_payload if o.catcher.packets else o.network.packet_size
    m = entrance_metrics(entrance, packet, "packets of visibilities")
    seconds = o.step / float(o.sample_rate)
    m.gauge("position", "s", "signal up to which the file goes", lambda: write.position * seconds)
    m.counter("integrations", "integrations", "integrations in the file", lambda: writer.integrations)
    if beginning is not None:
        m.counter("left_out", "integrations", "before the first that is whole", lambda: beginning.left_out)
    if o.statistics is None:
        return Engine([entrance], [write], m), lambda: None
    of_inputs = StatisticsMap(o)
    to = o.statistics

    def sockets(assembler: Assembler) -> UdpSource:  # they are few, and a device is taken already
        return UdpSource(assembler, [to], interface=o.network.interface, buffer=_STATISTICS_BUFFER)

    inlet = MappedEntrance(o, "catcher", of_inputs, [to], source=sockets, name="statistics")
    collect = CollectStatistics(inlet.reader(), of_inputs)
    m.counter("statistics", "packets", "of F-engines' statistics", lambda: inlet.account().placed)

    def record() -> None:
        collect.record(writer, o, inlet.account().missing or 0)

    return Engine([entrance, inlet], [write, collect], m), record


def serve(
    observation: Observation,
    output: Path | None,
    supervised: bool,
    *,
    file: Path | None = None,
    overwrite: bool = False,
) -> None:
    """Be the catcher: receive visibilities of all substreams, write one file, until told to drain.

    Parameters
    ----------
    observation : Observation
        What is observed.
    output : Path, optional
        Directory to write to, instead of the observation's.
    supervised : bool
        Whether standard input is a supervisor's pipe.
    file : Path, optional
        File to write, which a supervisor has chosen; else the first that no earlier run has left.
    overwrite : bool
        Replace what an earlier run has left.
    """
    o = observation
    if o.xengine.sends == "meerkat" and o.catcher.packets is None:
        raise ConfigError(o.source, [Problem("xengine.sends", "meerkat", FOREIGN_X_HEAPS)])
    identity = {"role": "catcher", "index": 0}
    with open_output(o, output, file, overwrite=overwrite) as writer:
        reporter: StatusReporter

        # Others' X-engines begin when they like, and give what they give.
        beginning = WholeBand(o.file_spectra) if o.catcher.packets is None else None

        def written(number: int, integration: Integration) -> None:
            tell_written(reporter, beginning, number, integration)

        engine, record = catcher_engine(o, writer, written, beginning)
        reporter = StatusReporter(identity, engine.metrics)
        serve_engine(engine, identity, supervised, reporter, at_end=record)
