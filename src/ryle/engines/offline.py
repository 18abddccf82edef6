"""Correlation in one process, as fast as the machine goes: of recordings, or of a simulated array."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from ..array.observed import sync_time
from ..array.time import vdif_tai
from ..chunk import SampleChunk
from ..config import ConfigError, Observation, Problem, recorded, show
from ..net.digitizer import DigitizerReceiver
from ..net.vdif_files import VdifInput, VdifSource
from ..products.observed import input_labels, metadata, output_file
from ..products.uvh5 import UVH5Writer
from .fx import FxEngine
from .run import RunResult

_CAPTURES = {b"\xd4\xc3\xb2\xa1", b"\xa1\xb2\xc3\xd4", b"\x4d\x3c\xb2\xa1", b"\xa1\xb2\x3c\x4d", b"\x0a\x0d\x0d\x0a"}


class BandWriter:
    """One band's correlator and file.

    Parameters
    ----------
    observation : Observation
        Of this band.
    path : Path
        UVH5 file; replaced if there is one.
    residuals : ndarray of float64, shape (input,), optional
        Samples by which each input's samples were taken after their time stamps.
    """

    def __init__(self, observation: Observation, path: Path, residuals: np.ndarray | None = None) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.observation, self.path = observation, path
        self.fx = FxEngine(observation, residuals)
        self._writer = UVH5Writer(path, metadata(observation), overwrite=True)

    def push(self, chunk: SampleChunk) -> None:
        """Correlate a chunk; write what it completes."""
        for integration in self.fx.push(chunk):
            self._writer.append(integration)

    @property
    def integrations(self) -> int:
        """Integrations safely written."""
        return self._writer.integrations

    def __enter__(self) -> BandWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            # After Ctrl-C too: what has come in is worth having.
            if kind is None or issubclass(kind, KeyboardInterrupt):
                for integration in self.fx.flush():
                    self._writer.append(integration)
                self._writer.record("adc_levels", self.fx.f.adc.levels)
                self._writer.record("adc_histogram", self.fx.f.adc.counts)
                self._writer.record("adc_labels", input_labels(self.observation))
        finally:
            self._writer.close()


def _watched(
    writers: Sequence[BandWriter],
    chunks: Iterable[tuple[int, SampleChunk]],
    fraction: Callable[[SampleChunk], float],
    console: Console,
) -> None:
    """Push (band, chunk) pairs through the writers with a progress bar; Ctrl-C ends it in good order."""
    columns = (
        TextColumn("[bold]correlating"), BarColumn(40), TaskProgressColumn(), TextColumn("{task.fields[text]}"),
        TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(),
    )  # fmt: skip
    samples = 0
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("", total=1.0, text="")
        try:
            with ExitStack() as stack:
                for writer in writers:
                    stack.enter_context(writer)
                for band, chunk in chunks:
                    writers[band].push(chunk)
                    samples += chunk.inputs * chunk.samples
                    elapsed = progress.tasks[0].elapsed or 1e-9
                    written = sum(w.integrations for w in writers)
                    text = f"{written} integrations · {show(samples / elapsed, 'sample/s')}"
                    progress.update(task, completed=fraction(chunk), text=text)
                progress.update(task, completed=1.0)
        except KeyboardInterrupt:
            console.print("[yellow]stopped; what came before is in the file[/]")
    for writer in writers:
        console.print(f"{writer.integrations} integrations → {writer.path}", highlight=False)


def run_in_process(observation: Observation, output: Path | None, console: Console | None = None) -> RunResult:
    """Simulate and correlate in this process, without sockets.

    Parameters
    ----------
    observation : Observation
        Must have a ``[simulate]`` table.
    output : Path, optional
        Directory for what is written, instead of the observation's.
    """
    from ..simulate import VoltageSimulator

    if observation.simulate is None:
        raise ConfigError(
            observation.source,
            [Problem("simulate", None, "is missing: --in-process has no sockets, so it needs [simulate]")],
        )
    path = output_file(observation, output)
    writer = BandWriter(observation, path)
    end = observation.end_sample
    chunks = ((0, chunk) for chunk in VoltageSimulator(observation, mount=observation.array.mount).chunks())
    _watched([writer], chunks, lambda chunk: chunk.end / end if end else 0.0, console or Console(stderr=True))
    return RunResult(path, writer.integrations)


def correlate(
    observation: Observation, recordings: Sequence[Path], output: Path | None, console: Console | None = None
) -> list[RunResult]:
    """Correlate recordings: VDIF files as ``[vdif]`` maps them, or one capture of digitizer packets.

    Parameters
    ----------
    observation : Observation
        What was observed.
    recordings : sequence of Path
        VDIF files in the order that ``[vdif]`` counts them, or one pcap file.
    output : Path, optional
        Directory for what is written, instead of the observation's.

    Returns
    -------
    list of RunResult
        One a band.
    """
    console = console or Console(stderr=True)
    with recordings[0].open("rb") as file:
        is_capture = file.read(4) in _CAPTURES
    if is_capture:
        return [_correlate_capture(observation, recordings, output, console)]
    if observation.vdif is None:
        raise ConfigError(
            observation.source,
            [
                Problem(
                    "vdif",
                    None,
                    f"is missing: {recordings[0].name} is no packet capture, so it is read as VDIF, which needs a [vdif] table",
                )
            ],
        )
    return _correlate_vdif(observation, recordings, output, console)


def _correlate_capture(
    observation: Observation, recordings: Sequence[Path], output: Path | None, console: Console
) -> RunResult:
    if len(recordings) != 1:
        raise ConfigError(
            "--input", [Problem("input", len(recordings), "give one capture of digitizer packets at a time")]
        )
    path = output_file(observation, output)
    # How far a capture reaches is not known before its end; its size tells nearly.
    total = recordings[0].stat().st_size / (observation.digitizer_heap_bytes + 128) * observation.digitizer.heap_samples
    seen = 0

    with DigitizerReceiver(observation, capture=recordings[0]) as receiver:

        def fraction(chunk: SampleChunk) -> float:
            nonlocal seen
            seen += int(chunk.present.sum()) * chunk.packet_samples
            return min(1.0, seen / total)

        writer = BandWriter(observation, path)
        _watched([writer], ((0, chunk) for chunk in receiver), fraction, console)
        account = receiver.account()
    console.print(f"packets: {account.placed} placed, {account.missing} missing, {account.malformed} malformed, "
                  f"{account.duplicate} duplicate, {account.late} late, {account.foreign} foreign")  # fmt: skip
    return RunResult(path, writer.integrations, {"digitizer": account.as_dict()})


def _correlate_vdif(
    observation: Observation, recordings: Sequence[Path], output: Path | None, console: Console
) -> list[RunResult]:
    o, table = observation, observation.vdif
    assert table is not None
    bands = [(b.name or str(i), b.lo, b.sideband) for i, b in enumerate(table.bands)] or [
        ("", o.band.lo, o.band.sideband)
    ]
    source = _vdif_source(o, recordings, len(bands))
    writers = []
    base = output_file(o, output)
    for i, (name, lo, sideband) in enumerate(bands):
        if i not in source.residuals:
            raise ConfigError(
                o.source, [Problem(f"vdif.bands[{i}]", name, "no [[vdif.inputs]] entry leads to this band")]
            )
        of_band = recorded(
            o, lo=lo, sideband=sideband, complex_samples=source.parts == 2, packet_samples=source.packet_samples
        )
        path = base if len(bands) == 1 else base.with_name(f"{base.stem}.{name}{base.suffix}")
        writers.append(BandWriter(of_band, path, source.residuals[i]))
    _watched(writers, source, lambda _: source.bytes_done / source.bytes_total, console)
    for recording, account in zip(recordings, source.accounts, strict=False):
        console.print(f"{recording.name}: {account.frames} frames, {account.placed} placed, {account.missing} missing, "
                      f"{account.invalid} invalid, {account.malformed} malformed, {account.duplicate} duplicate")  # fmt: skip
    accounts = {r.name: asdict(a) | {"missing": a.missing} for r, a in zip(recordings, source.accounts, strict=False)}
    return [RunResult(w.path, w.integrations, accounts) for w in writers]


def _vdif_source(observation: Observation, recordings: Sequence[Path], bands: int) -> VdifSource:
    """Frames of the recordings as ``[[vdif.inputs]]`` maps them, on the observation's clock."""
    o, table = observation, observation.vdif
    assert table is not None
    names, pols = [a.name for a in o.antennas], o.array.polarizations
    # A file whose inputs have several clock offsets is opened once for each.
    opened: dict[tuple[int, float], int] = {}
    inputs = []
    for number, entry in enumerate(table.inputs):
        if entry.file >= len(recordings):
            raise ConfigError(
                o.source,
                [
                    Problem(
                        f"vdif.inputs[{number}].file",
                        entry.file,
                        f"{len(recordings)} recordings were given, counted from 0",
                    )
                ],
            )
        file = opened.setdefault((entry.file, entry.clock_offset), len(opened))
        where = [(entry.channel, entry.band or 0)] if entry.channel is not None else [(b, b) for b in range(bands)]
        for channel, band in where:
            inputs.append(
                VdifInput(file, entry.thread, channel, names.index(entry.antenna), pols.index(entry.polarization), band)
            )
    clock = sync_time(o)
    stop = o.end_sample
    return VdifSource(
        [recordings[file] for file, _ in opened],
        inputs,
        _whole(o),
        clock_offsets=[-Fraction(str(offset)) for _, offset in opened],
        timestamp_of=lambda epoch, second: (vdif_tai(epoch, second) - clock.tai) * clock.sample_rate,
        antennas=len(names),
        polarizations=len(pols),
        stop=stop,
    )


def _whole(observation: Observation) -> int:
    rate = observation.sample_rate
    if rate.denominator != 1:
        raise ConfigError(
            observation.source,
            [Problem("band.sample_rate", f"{float(rate)} Hz", "VDIF needs a whole number of samples a second")],
        )
    return rate.numerator
