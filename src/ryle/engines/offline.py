"""Correlation in one process, as fast as the machine goes: of recordings, or of a simulated array."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from itertools import chain
from pathlib import Path

import numpy as np
from rich.console import Console

from ..chunk import Integration, SampleChunk
from ..config import ConfigError, Observation, Problem, recorded, show, simulated
from ..config.problems import listed
from ..net.capture import DigitizerCapture
from ..products.observed import input_labels, kept_note, metadata, output_file
from ..products.uvh5 import UVH5Writer
from .fx import FxEngine
from .offline_packets import correlate_packets
from .recordings import vdif_source
from .run import RunResult
from .summing import Summing
from .watching import interruptible, is_capture, progress_bar, tell_account


class BandWriter:
    """One band's correlator and file.

    Parameters
    ----------
    observation : Observation
        Of this band.
    path : Path
        UVH5 file.
    residuals : ndarray of float64, shape (input,), optional
        Samples by which each input's samples were taken after their time stamps.
    overwrite : bool
        Replace the file if there is one.
    """

    def __init__(
        self, observation: Observation, path: Path, residuals: np.ndarray | None = None, *, overwrite: bool = False
    ) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.observation, self.path = observation, path
        self.fx = FxEngine(observation, residuals)
        self._summing = Summing(observation.file_spectra)
        self._writer = UVH5Writer(path, metadata(observation), overwrite=overwrite)

    def push(self, chunk: SampleChunk) -> None:
        """Correlate a chunk; write what it completes."""
        self._write(self.fx.push(chunk))

    def _write(self, integrations: Iterable[Integration]) -> None:
        for integration in integrations:
            for whole in self._summing.push(integration):
                self._writer.append(whole)

    def flush(self) -> None:
        """Correlate and write what has come in so far, which nothing follows."""
        self._write(self.fx.flush())
        for whole in self._summing.flush():
            self._writer.append(whole)
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


def _watched(
    writers: Sequence[BandWriter],
    chunks: Iterable[tuple[int, SampleChunk]],
    fraction: Callable[[SampleChunk], float],
    console: Console,
) -> None:
    """Push (band, chunk) pairs through the writers with a progress bar; Ctrl-C ends it in good order."""
    samples = 0
    with progress_bar(console) as progress, interruptible(progress.console) as asked:
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


def run_in_process(
    observation: Observation, output: Path | None, console: Console | None = None, *, overwrite: bool = False
) -> RunResult:
    """Simulate and correlate in this process, without sockets.

    Parameters
    ----------
    observation : Observation
        Must have a ``[simulate]`` table.
    output : Path, optional
        Directory for what is written, instead of the observation's.
    overwrite : bool
        Replace what an earlier run left; else this one's file gets a new name.
    """
    from ..simulate import VoltageSimulator

    if observation.simulate is None:
        remedy = "is missing: --in-process has no sockets, so it needs [simulate]"
        raise ConfigError(observation.source, [Problem("simulate", None, remedy)])
    console = console or Console(stderr=True)
    path = _output(observation, output, console, overwrite)
    observation = simulated(observation)
    end = observation.end_sample
    chunks = ((0, chunk) for chunk in VoltageSimulator(observation, mount=observation.array.mount).chunks())
    with BandWriter(observation, path, overwrite=overwrite) as writer:
        _watched([writer], chunks, lambda chunk: chunk.end / end if end else 0.0, console)
    return RunResult(path, writer.integrations)


def _output(observation: Observation, output: Path | None, console: Console, overwrite: bool) -> Path:
    """Choose the file to write; say so if it has not the observation's name."""
    path = output_file(observation, output, overwrite=overwrite)
    if note := kept_note(observation, path):
        console.print(f"[yellow]{note}[/]", highlight=False, soft_wrap=True)
    return path


def correlate(
    observation: Observation,
    recordings: Sequence[Path],
    output: Path | None,
    console: Console | None = None,
    *,
    overwrite: bool = False,
) -> list[RunResult]:
    """Correlate recordings: VDIF files as ``[vdif]`` maps them, or one capture of packets.

    Parameters
    ----------
    observation : Observation
        What was observed.
    recordings : sequence of Path
        VDIF files in the order that ``[vdif]`` counts them, or one pcap file.
    output : Path, optional
        Directory for what is written, instead of the observation's.
    overwrite : bool
        Replace what an earlier run left; else this one's files get a new name.

    Returns
    -------
    list of RunResult
        One a band.
    """
    console = console or Console(stderr=True)
    path = _output(observation, output, console, overwrite)
    with recordings[0].open("rb") as file:
        packets = is_capture(file.read(4))
    if packets and (observation.packets is not None or observation.catcher.packets is not None):
        return [correlate_packets(observation, recordings, path, console, overwrite)]
    if packets:
        return [_correlate_capture(observation, recordings, path, console, overwrite)]
    if observation.vdif is None:
        remedy = (
            f"is missing: {recordings[0].name} is no packet capture, so it is read as VDIF, which needs a [vdif] table"
        )
        raise ConfigError(observation.source, [Problem("vdif", None, remedy)])
    return _correlate_vdif(observation, recordings, path, console, overwrite)


def _correlate_capture(
    observation: Observation, recordings: Sequence[Path], path: Path, console: Console, overwrite: bool
) -> RunResult:
    if len(recordings) != 1:
        remedy = "files, of which the first is a packet capture; give one capture at a time (mergecap joins several)"
        raise ConfigError("--input", [Problem("input", len(recordings), remedy)])
    capture = DigitizerCapture(observation, recordings[0])
    file = capture.file
    chunks = iter(capture)
    first = next(chunks, None)
    if first is None:
        problem = Problem("input", recordings[0].name, _nothing_found(observation, capture))
        raise ConfigError(str(recordings[0]), [problem])
    pairs = ((0, chunk) for chunk in chain([first], chunks))
    with BandWriter(observation, path, overwrite=overwrite) as writer:
        _watched([writer], pairs, lambda _: file.bytes_done / file.bytes_total, console)
    account = capture.account()
    tell_account(console, account, file)
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
    observation: Observation, recordings: Sequence[Path], path: Path, console: Console, overwrite: bool
) -> list[RunResult]:
    o, table = observation, observation.vdif
    assert table is not None
    named = [(band.name or str(i), band.lo, band.sideband) for i, band in enumerate(table.bands)]
    bands = named or [("", o.band.lo, o.band.sideband)]
    source, names = vdif_source(o, recordings, len(bands), console)
    plans = []
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
        plans.append((of_band, path if len(bands) == 1 else path.with_name(f"{path.stem}.{name}{path.suffix}")))
    length = source.stop - source.start
    with ExitStack() as stack:
        writers = [
            stack.enter_context(BandWriter(*plan, source.residuals[i], overwrite=overwrite))
            for i, plan in enumerate(plans)
        ]
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
