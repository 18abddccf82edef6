"""Correlation in one process, as fast as the machine goes: of recordings, or of a simulated array.

The steps are those of live engines; only what they read comes from a file, and every ring waits.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from ryle.config import ConfigError, Observation, Problem, at_leisure, show, simulated
from ryle.config.observed import EVERY
from ryle.engines.chunk_recordings import ChunkRecordings
from ryle.engines.extent import kind_of
from ryle.engines.fx import AsRead, ReadChunks, ReadSamples, fx_steps, read_ring
from ryle.engines.gpus import gpus_for, locked
from ryle.engines.offline_packets import correlate_packets
from ryle.engines.recordings import vdif_bands
from ryle.engines.run import RunResult
from ryle.engines.steering import Steering
from ryle.engines.watching import tell_end, watched
from ryle.engines.write_file import WriteFile
from ryle.products.observed import kept_note, metadata, output_file
from ryle.products.uvh5 import UVH5Writer
from ryle.receive.windows import window_shape
from ryle.stream.engine import Engine
from ryle.stream.step import Step

# An observation of one band, its file, and samples by which each input's samples were taken after their time stamps.
Band = tuple[Observation, Path, NDArray[np.float64] | None]


def correlate_samples(
    bands: Sequence[Band],
    chunks: ReadChunks,
    fraction: Callable[[int], float],
    console: Console,
    overwrite: bool,
    joins: bool = False,
) -> list[RunResult]:
    """Correlate samples that come in no packets, with a progress bar.

    Parameters
    ----------
    bands : sequence of Band
        What they are, and the files to write.
    chunks : callable
        Reads them (see `ReadSamples`), in order of time; the bands take turns.
    fraction : callable
        Says how far a sample count is.
    console : Console
        Where the bar is shown.
    overwrite : bool
        Replace files that are there.
    joins : bool
        Begin with the first whole integration.

    Returns
    -------
    list of RunResult
        One a band.
    """
    rings = [read_ring() for _ in bands]
    gpus = [gpus_for(o, "fx", band) for band, (o, _, _) in enumerate(bands)]
    read = ReadSamples(chunks, rings, locked(gpus[0]))
    steps: list[Step] = [read]
    writes: list[WriteFile] = []
    for (o, path, residuals), ring, of_gpus in zip(bands, rings, gpus, strict=True):

        def open_file(o: Observation = o, path: Path = path) -> UVH5Writer:
            path.parent.mkdir(parents=True, exist_ok=True)
            return UVH5Writer(path, metadata(o), overwrite=overwrite)

        steering = Steering(o, range(len(o.antennas)), residuals)
        of_band = fx_steps(o, ring, AsRead(o.levels), open_file, of_gpus, steering, joins=joins)
        steps += of_band
        assert isinstance(of_band[-1], WriteFile)
        writes.append(of_band[-1])

    def text(elapsed: float) -> str:
        written = sum(w.integrations for w in writes)
        return f"{written} integrations · {show(read.samples / elapsed, 'sample/s')}"

    for (o, _, _), write in zip(bands, writes, strict=True):
        if o.spectra != EVERY:
            write.open()  # what is counted belongs to the whole, also where there is no integration
    with Engine([], steps) as engine:
        ended = watched(engine, read.stop, lambda: fraction(read.position), text, console)
        for write in writes:
            write.open()
    results = [RunResult(path, w.integrations) for (_, path, _), w in zip(bands, writes, strict=True)]
    for result in results:
        tell_end(console, result.integrations, result.file, ended, fraction(read.position))
    return results


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
    from ryle.simulate import VoltageSimulator

    if observation.simulate is None:
        remedy = "is missing: --in-process has no sockets, so it needs [simulate]"
        raise ConfigError(observation.source, [Problem("simulate", None, remedy)])
    console = console or Console(stderr=True)
    path = _output(observation, output, console, overwrite)
    observation = at_leisure(simulated(observation), len(os.sched_getaffinity(0)))
    end = observation.end_sample
    simulator = VoltageSimulator(observation, mount=observation.array.mount)
    band: Band = (observation, path, None)
    made = ((0, chunk) for chunk in simulator.chunks())
    return correlate_samples([band], lambda _: made, lambda at: at / end if end else 0.0, console, overwrite)[0]


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
    live: bool = False,
) -> list[RunResult]:
    """Correlate recordings: VDIF files as ``[vdif]`` maps them, one capture of packets, or files of chunks.

    Both halves have as many threads as there are cores where the observation names no number; the system gives more of
    them to whichever is behind.

    Parameters
    ----------
    observation : Observation
        What was observed.
    recordings : sequence of Path
        VDIF files in the order that ``[vdif]`` counts them, one pcap file, or files of chunks in any order.
    output : Path, optional
        Directory for what is written, instead of the observation's.
    overwrite : bool
        Replace what an earlier run left; else this one's files get a new name.
    live : bool
        See `correlate_packets`; VDIF files have no clock but their own. Of chunks: begin with the first whole
        integration.

    Returns
    -------
    list of RunResult
        One a band.
    """
    console = console or Console(stderr=True)
    observation = at_leisure(observation, len(os.sched_getaffinity(0)))
    path = _output(observation, output, console, overwrite)
    kind = kind_of(observation, recordings[0])
    if kind == "packets":
        return [correlate_packets(observation, recordings, path, console, overwrite, live)]
    if kind == "chunks":
        return [_correlate_chunks(observation, recordings, path, console, overwrite, live)]
    return _correlate_vdif(observation, recordings, path, console, overwrite)


def _correlate_chunks(
    o: Observation, recordings: Sequence[Path], path: Path, console: Console, overwrite: bool, live: bool
) -> RunResult:
    source = ChunkRecordings(o, recordings)
    band: Band = (o, path, None)
    low, high = window_shape(o).samples
    first = max(source.start, low)
    length = max(1, min(source.stop, high) - first)
    (result,) = correlate_samples(
        [band], source.chunks, lambda at: max(0, at - first) / length, console, overwrite, joins=live
    )
    for file in source.recorded:
        console.print(f"{file.name}: {file}", highlight=False, soft_wrap=True)
    accounts = {r.name: {k: v for k, v in asdict(r).items() if k != "name"} for r in source.recorded}
    return RunResult(result.file, result.integrations, accounts)


def _correlate_vdif(
    observation: Observation, recordings: Sequence[Path], base: Path, console: Console, overwrite: bool
) -> list[RunResult]:
    source, names, found = vdif_bands(observation, recordings, console)
    bands: list[Band] = []
    for i, (name, of_band) in enumerate(found.items()):
        path = base if len(found) == 1 else base.with_name(f"{base.stem}.{name}{base.suffix}")
        bands.append((of_band, path, source.residuals[i]))
    read = [window_shape(of_band).samples for of_band, _, _ in bands]
    source.take(min(low for low, _ in read), max(high for _, high in read))
    length = max(1, source.last - source.first)
    results = correlate_samples(
        bands, lambda _: source, lambda at: max(0, at - source.first) / length, console, overwrite
    )
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
    return [RunResult(r.file, r.integrations, accounts) for r in results]
