"""VDIF recordings as an observation file maps them: files, threads and channels to inputs and bands, on its clock."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path

from rich.console import Console

from ryle.array.observed import sync_time
from ryle.array.time import SyncTime
from ryle.config import ConfigError, Observation, Problem, recorded, show
from ryle.config.utc import vdif_tai
from ryle.store.vdif_files import NoSamplesError, VdifInput, VdifSource

Spans = dict[tuple[int, int], tuple[int, int]]


def vdif_source(
    observation: Observation, recordings: Sequence[Path], bands: int, console: Console
) -> tuple[VdifSource, list[str]]:
    """Open recordings.

    The source runs from where the first recording begins, but not before sync, to where the last or the observation
    ends.

    Parameters
    ----------
    observation : Observation
        Must have a ``[vdif]`` table.
    recordings : sequence of Path
        VDIF files in the order that ``[[vdif.inputs]]`` counts them.
    bands : int
        Number of bands.
    console : Console
        Where what is odd about their times is said.

    Returns
    -------
    source : VdifSource
    names : list of str
        Of its files; one with several clock offsets is opened, and stands here, once for each.

    Raises
    ------
    ConfigError
        If they do not fit the observation in number, rate or time.
    ValueError
        If they hold no VDIF, or not the threads and channels that the table names.
    """
    o, table = observation, observation.vdif
    assert table is not None
    needed = 1 + max(entry.file for entry in table.inputs)
    if len(recordings) != needed:
        remedy = (
            f"files were given, but [[vdif.inputs]] counts {needed}, file = 0 to {needed - 1}: give these, in order"
        )
        raise ConfigError("--input", [Problem("input", len(recordings), remedy)])
    antennas, pols = [a.name for a in o.antennas], o.array.polarizations
    # A file whose inputs have several clock offsets is opened once for each.
    opened: dict[tuple[int, float], int] = {}
    inputs = []
    for entry in table.inputs:
        file = opened.setdefault((entry.file, entry.clock_offset), len(opened))
        where = [(entry.channel, entry.band or 0)] if entry.channel is not None else [(b, b) for b in range(bands)]
        for channel, band in where:
            antenna, pol = antennas.index(entry.antenna), pols.index(entry.polarization)
            inputs.append(VdifInput(file, entry.thread, channel, antenna, pol, band))
    clock = sync_time(o)
    paths = [recordings[file] for file, _ in opened]
    try:
        source = VdifSource(
            paths,
            inputs,
            _whole(o),
            clock_offsets=[-Fraction(str(offset)) for _, offset in opened],
            timestamp_of=lambda epoch, second: (vdif_tai(epoch, second) - clock.tai) * clock.sample_rate,
            antennas=len(antennas),
            polarizations=len(pols),
            start=0,
            stop=o.end_sample,
            overlap=False,
        )
    except NoSamplesError as error:
        raise ConfigError(o.source, [_no_time(o, clock, paths, error.spans)]) from None
    _check_times(o, clock, paths, source, console)
    return source, [path.name if paths.count(path) == 1 else f"{path.name} ({i})" for i, path in enumerate(paths)]


def vdif_bands(
    observation: Observation, recordings: Sequence[Path], console: Console
) -> tuple[VdifSource, list[str], dict[str, Observation]]:
    """Open recordings, and say what is observed in each of their bands.

    Parameters
    ----------
    observation, recordings, console
        As of `vdif_source`.

    Returns
    -------
    source : VdifSource
    names : list of str
        Of its files.
    bands : dict of str to Observation
        What each is, by name, in the order in which the source counts them.

    Raises
    ------
    ConfigError, ValueError
        As `vdif_source`; and if nothing leads to a band.
    """
    o, table = observation, observation.vdif
    assert table is not None
    named = [(band.name or str(i), band.lo, band.sideband) for i, band in enumerate(table.bands)]
    found = named or [("", o.band.lo, o.band.sideband)]
    source, names = vdif_source(o, recordings, len(found), console)
    bands: dict[str, Observation] = {}
    for i, (name, lo, sideband) in enumerate(found):
        if i not in source.parts:
            remedy = "no [[vdif.inputs]] entry leads to this band"
            raise ConfigError(o.source, [Problem(f"vdif.bands[{i}]", name, remedy)])
        complex_samples = source.parts[i] == 2
        if complex_samples and o.band.nyquist_zone != 1:
            remedy = "must be 1: the recording's samples are complex, so put the band's centre in lo"
            raise ConfigError(o.source, [Problem("band.nyquist_zone", o.band.nyquist_zone, remedy)])
        bands[name] = recorded(
            o, lo=lo, sideband=sideband, complex_samples=complex_samples, packet_samples=source.packet_samples
        )
    return source, names, bands


def _file_spans(spans: Spans) -> dict[int, tuple[int, int]]:
    """Join the threads of each file."""
    files = {file for file, _ in spans}
    of_file = {f: [span for (file, _), span in spans.items() if file == f] for f in sorted(files)}
    return {f: (min(a for a, _ in found), max(b for _, b in found)) for f, found in of_file.items()}


def _listing(clock: SyncTime, paths: Sequence[Path], spans: Spans) -> str:
    return "; ".join(
        f"{paths[f].name} {clock.iso(a, 3)} to {clock.iso(b, 3)}" for f, (a, b) in _file_spans(spans).items()
    )


def _no_time(observation: Observation, clock: SyncTime, paths: Sequence[Path], spans: Spans) -> Problem:
    """Say why nothing of the recordings lies within the observation."""
    files, times = _file_spans(spans), _listing(clock, paths, spans)
    first, last = min(a for a, _ in files.values()), max(b for _, b in files.values())
    if last <= 0:
        remedy = f'is after the end of the recordings; set it to "{clock.iso(first, 0)}" or later ({times})'
        return Problem("observation.sync_time", observation.observation.sync_time, remedy)
    end = observation.end_sample
    if end is not None and first >= end:
        remedy = (
            f"from sync_time on ends at {clock.iso(end, 3)}, before the recordings begin; set sync_time to "
            f'"{clock.iso(first, 0)}" ({times})'
        )
        return Problem("observation.duration", show(float(observation.observation.duration or 0), "s"), remedy)
    return Problem("input", None, f"the recordings are shorter than one packet: {times}")


def _check_times(
    observation: Observation, clock: SyncTime, paths: Sequence[Path], source: VdifSource, console: Console
) -> None:
    """Refuse recordings that have no time in common; say so if some has none, or if some begins before sync."""
    files = _file_spans(source.spans)
    alone = [f for f, (a, b) in files.items() if not any(a < d and c < b for g, (c, d) in files.items() if g != f)]
    remedy = "correct clock_offset, or take recordings of the same time"
    if len(files) > 1 and len(alone) == len(files):
        times = _listing(clock, paths, source.spans)
        problem = Problem("input", None, f"no two recordings have any time in common: {times}; {remedy}")
        raise ConfigError(observation.source, [problem])
    say = partial(console.print, highlight=False, soft_wrap=True)
    for f in alone if len(files) > 1 else ():
        say(f"[yellow]{paths[f].name} has no time in common with another recording; {remedy}[/]")
    first = min(a for a, _ in files.values())
    if first <= -source.packet_samples:
        lost = show(-first / float(clock.sample_rate), "s")
        say(
            f"[yellow]the first {lost} of the recordings lie before observation.sync_time and are left out; "
            f'set it to "{clock.iso(first, 0)}" to have them[/]'
        )


def _whole(observation: Observation) -> int:
    rate = observation.sample_rate
    if rate.denominator != 1:
        remedy = "VDIF needs a whole number of samples a second"
        raise ConfigError(observation.source, [Problem("band.sample_rate", f"{float(rate)} Hz", remedy)])
    return rate.numerator
