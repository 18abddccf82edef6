"""Correlation in one process, as fast as the machine goes: of recordings, or of a simulated array."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from ..chunk import SampleChunk
from ..config import ConfigError, Observation, Problem, recorded, show
from ..config.problems import listed
from ..net.capture import DigitizerCapture
from ..products.observed import input_labels, metadata, output_file
from ..products.uvh5 import UVH5Writer
from .fx import FxEngine
from .recordings import vdif_source
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

    def flush(self) -> None:
        """Correlate and write what has come in so far, which nothing follows."""
        for integration in self.fx.flush():
            self._writer.append(integration)
        self._writer.record("adc_levels", self.fx.f.adc.levels)
        self._writer.record("adc_histogram", self.fx.f.adc.counts)
        self._writer.record("adc_labels", input_labels(self.observation))

    @property
    def integrations(self) -> int:
        """Integrations safely written."""
        return self._writer.integrations

    def __enter__(self) -> BandWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.close()


@contextmanager
def _interruptible(console: Console) -> Iterator[threading.Event]:
    """Let Ctrl-C ask for an end in good order: what it gives is set. A second one interrupts at once."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return

    def ask(*_: object) -> None:
        asked.set()
        signal.signal(signal.SIGINT, previous)
        console.print("[yellow]stopping: what has been read is being written (Ctrl-C again to leave at once)[/]")

    previous = signal.signal(signal.SIGINT, ask)
    try:
        yield asked
    finally:
        signal.signal(signal.SIGINT, previous)


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
    with Progress(*columns, console=console) as progress, _interruptible(progress.console) as asked:
        task = progress.add_task("", total=1.0, text="")
        for band, chunk in chunks:
            writers[band].push(chunk)
            samples += chunk.inputs * chunk.samples
            elapsed = progress.tasks[0].elapsed or 1e-9
            written = sum(w.integrations for w in writers)
            rate = show(samples / elapsed, "sample/s")
            progress.update(task, completed=fraction(chunk), text=f"{written} integrations · {rate}")
            if asked.is_set() and band == len(writers) - 1:
                break
        for writer in writers:
            writer.flush()
        if not asked.is_set():
            progress.update(task, completed=1.0)
    for writer in writers:
        console.print(f"{writer.integrations} integrations → {writer.path}", highlight=False, soft_wrap=True)


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
        remedy = "is missing: --in-process has no sockets, so it needs [simulate]"
        raise ConfigError(observation.source, [Problem("simulate", None, remedy)])
    path = output_file(observation, output)
    end = observation.end_sample
    chunks = ((0, chunk) for chunk in VoltageSimulator(observation, mount=observation.array.mount).chunks())
    with BandWriter(observation, path) as writer:
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
        remedy = (
            f"is missing: {recordings[0].name} is no packet capture, so it is read as VDIF, which needs a [vdif] table"
        )
        raise ConfigError(observation.source, [Problem("vdif", None, remedy)])
    return _correlate_vdif(observation, recordings, output, console)


def _correlate_capture(
    observation: Observation, recordings: Sequence[Path], output: Path | None, console: Console
) -> RunResult:
    if len(recordings) != 1:
        remedy = "files, of which the first is a packet capture; give one capture at a time (mergecap joins several)"
        raise ConfigError("--input", [Problem("input", len(recordings), remedy)])
    path = output_file(observation, output)
    capture = DigitizerCapture(observation, recordings[0])
    file = capture.file
    chunks = iter(capture)
    first = next(chunks, None)
    if first is None:
        problem = Problem("input", recordings[0].name, _nothing_found(observation, capture))
        raise ConfigError(str(recordings[0]), [problem])
    pairs = ((0, chunk) for chunk in chain([first], chunks))
    with BandWriter(observation, path) as writer:
        _watched([writer], pairs, lambda _: file.bytes_done / file.bytes_total, console)
    account, packets = capture.account(), file.account
    say = partial(console.print, highlight=False, soft_wrap=True)
    say(
        f"{account.datagrams} datagrams: {account.placed} placed, {account.late} late, {account.duplicate} duplicate, "
        f"{account.malformed} malformed, {account.foreign} foreign; {account.missing} of {account.expected} missing"
    )
    if packets.truncated:
        say(f"[yellow]{packets.truncated} datagrams were cut by the capture's snapshot length; use tcpdump -s 0[/]")
    if packets.fragments:
        say(f"[yellow]{packets.fragments} IP fragments were dropped; send packets no longer than the network's MTU[/]")
    if packets.cut:
        say(f"[yellow]{recordings[0]} ends within a packet or is damaged there; what follows is lost[/]")
    return RunResult(path, writer.integrations, {"capture": account.as_dict()})


def _nothing_found(observation: Observation, capture: DigitizerCapture) -> str:
    """Say what a capture holds that has no packet of the observation."""
    account, digitizer = capture.account(), observation.digitizer
    seen = listed(str(stream) for stream in sorted(capture.streams_seen))
    return (
        f"holds none of the observation's packets: of {capture.file.account.datagrams} UDP datagrams "
        f"{account.malformed} are malformed and {account.foreign} foreign{f' (digitiser IDs {seen})' if seen else ''}. "
        f"Wanted are heaps of {digitizer.heap_samples} samples in {observation.digitizer_heap_bytes} B from digitiser "
        f"IDs {listed(str(s.stream) for s in observation.streams)}: correct [digitizer] and [[inputs]]"
    )


def _correlate_vdif(
    observation: Observation, recordings: Sequence[Path], output: Path | None, console: Console
) -> list[RunResult]:
    o, table = observation, observation.vdif
    assert table is not None
    named = [(band.name or str(i), band.lo, band.sideband) for i, band in enumerate(table.bands)]
    bands = named or [("", o.band.lo, o.band.sideband)]
    source, names = vdif_source(o, recordings, len(bands), console)
    plans = []
    base = output_file(o, output)
    for i, (name, lo, sideband) in enumerate(bands):
        if i not in source.parts:
            remedy = "no [[vdif.inputs]] entry leads to this band"
            raise ConfigError(o.source, [Problem(f"vdif.bands[{i}]", name, remedy)])
        complex_samples = source.parts[i] == 2
        if complex_samples and o.band.nyquist_zone != 1:
            remedy = "must be 1: the recording's samples are complex, so put the band's centre in lo"
            raise ConfigError(o.source, [Problem("band.nyquist_zone", o.band.nyquist_zone, remedy)])
        of_band = recorded(
            o, lo=lo, sideband=sideband, complex_samples=complex_samples, packet_samples=source.packet_samples
        )
        plans.append((of_band, base if len(bands) == 1 else base.with_name(f"{base.stem}.{name}{base.suffix}")))
    length = source.stop - source.start
    with ExitStack() as stack:
        writers = [stack.enter_context(BandWriter(*plan, source.residuals[i])) for i, plan in enumerate(plans)]
        _watched(writers, source, lambda chunk: (chunk.end - source.start) / length, console)
    accounts = {n: asdict(a) | {"missing": a.missing} for n, a in zip(names, source.accounts, strict=True)}
    for name, a in zip(names, source.accounts, strict=True):
        console.print(
            f"{name}: {a.frames} frames: {a.placed} placed, {a.invalid} invalid, {a.duplicate} duplicate, "
            f"{a.late} late, {a.outside} outside, {a.foreign} foreign, {a.bad_time} of bad time; "
            f"{a.missing} of {a.expected} missing, "
            f"{a.malformed} stretches malformed",
            highlight=False,
            soft_wrap=True,
        )
    return [RunResult(w.path, w.integrations, accounts) for w in writers]
