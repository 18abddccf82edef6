"""The catcher: visibilities of all substreams in, a file of integrations of the whole band out."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from ryle.chunk import Integration
from ryle.config import FOREIGN_X_HEAPS, ConfigError, Observation, Problem
from ryle.engines.beginning import WholeBand
from ryle.engines.serving import entrance_metrics, serve_engine
from ryle.engines.summing import Summing
from ryle.monitor.status import StatusReporter
from ryle.products.observed import kept_note, metadata, output_file
from ryle.products.uvh5 import UVH5Writer
from ryle.receive.dumps import DumpMap
from ryle.receive.entrances import MappedEntrance
from ryle.receive.sums import SumMap
from ryle.stream.block import Block
from ryle.stream.engine import Engine
from ryle.stream.ring import Reader
from ryle.stream.step import EachBlock


class WriteFile(EachBlock):
    """Integrations of the whole band to a file, summed to the file's length first.

    Parameters
    ----------
    source : Reader
        Of blocks of integrations.
    integrations : callable
        Gives a block's integrations.
    open_file : callable
        Opens the file, when there is something to write; closed with the step.
    spectra : int
        Length of an integration in the file.
    written : callable
        Told each integration that is safe, and its number.
    at_end : callable
        Given the file, if there is one, when all has been written.
    beginning : WholeBand, optional
        Chooses the first integration, by the substreams that blocks' plane ``present`` has.
    """

    def __init__(
        self,
        source: Reader,
        integrations: Callable[[Block], Iterable[Integration]],
        open_file: Callable[[], UVH5Writer],
        spectra: int,
        written: Callable[[int, Integration], None] = lambda number, integration: None,
        at_end: Callable[[UVH5Writer], None] = lambda writer: None,
        beginning: WholeBand | None = None,
    ) -> None:
        super().__init__("write", source)
        self._open_file = open_file
        self._writer: UVH5Writer | None = None
        self._integrations, self._summing = integrations, Summing(spectra)
        self._written, self._at_end, self._beginning = written, at_end, beginning
        #: Spectra since sync up to which the file goes.
        self.position = 0

    def use(self, block: Block) -> None:
        """Sum a block's integrations; write what that completes. A block without a packet leaves a gap."""
        with block:
            present = block.planes.get("present")
            if present is None or present.any():
                there = None if present is None else (present != 0).any(axis=tuple(range(1, present.ndim)))
                for integration in self._integrations(block):
                    if self._beginning is None or there is None:
                        self._sum(integration)
                        continue
                    for one in self._beginning.push(integration, there):
                        self._sum(one)

    def _sum(self, integration: Integration) -> None:
        for whole in self._summing.push(integration):
            self._write(whole)

    def finish(self) -> None:
        """Write what is open."""
        if self._beginning is not None:
            for one in self._beginning.flush():
                self._sum(one)
        for whole in self._summing.flush():
            self._write(whole)
        if self._writer is not None:
            self._at_end(self._writer)

    def open(self) -> None:
        """Open the file, if nothing has been written to it yet."""
        if self._writer is None:
            self._writer = self._open_file()

    @property
    def integrations(self) -> int:
        """Integrations that are safe in the file."""
        return 0 if self._writer is None else self._writer.integrations

    def _write(self, integration: Integration) -> None:
        self.open()
        assert self._writer is not None
        number = self._writer.append(integration)
        self.position = integration.first_spectrum + integration.spectra
        self._written(number, integration)

    def close(self) -> None:
        """Close the file."""
        if self._writer is not None:
            self._writer.close()


def catcher_engine(
    observation: Observation,
    writer: UVH5Writer,
    written: Callable[[int, Integration], None],
    beginning: WholeBand | None,
) -> Engine:
    """Make the catcher: receive, join the band, sum, write.

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
    m.gauge("integrations", "integrations", "integrations in the file", lambda: writer.integrations, "counter")
    if beginning is not None:
        m.gauge("left_out", "integrations", "before the first that is whole", lambda: beginning.left_out, "counter")
    return Engine([entrance], [write], m)


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
    path = file or output_file(o, output, overwrite=overwrite)
    if note := kept_note(o, path):
        print(note, file=sys.stderr)
    path.parent.mkdir(parents=True, exist_ok=True)
    identity = {"role": "catcher", "index": 0}
    with UVH5Writer(path, metadata(o), overwrite=overwrite) as writer:
        reporter: StatusReporter

        # Others' X-engines begin when they like, and give what they give.
        beginning = WholeBand(o.file_spectra) if o.catcher.packets is None else None

        def written(number: int, integration: Integration) -> None:
            if number == 1 and beginning is not None:
                index, out = integration.first_spectrum // integration.spectra, beginning.left_out
                reporter.event("began", integration=index, left_out=out, later=beginning.later)
            reporter.event("written", integration=number, first_spectrum=integration.first_spectrum)

        engine = catcher_engine(o, writer, written, beginning)
        reporter = StatusReporter(identity, engine.metrics.values)
        serve_engine(engine, identity, supervised, reporter)
