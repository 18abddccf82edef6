"""The simulated array as stations would have recorded it: VDIF files, as ``[vdif]`` maps them.

A station's clock that is ahead stamps its samples late. Whole samples of that are a shift of what is recorded; what is
left of a sample goes with the station's cable, so that delays come out as they would.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ryle.array.observed import sync_time
from ryle.array.time import SyncTime
from ryle.config import ConfigError, Observation, Problem, changed
from ryle.config.tables import VdifInputTable
from ryle.monitor.progress import track_samples
from ryle.problems import naming
from ryle.simulate import VoltageSimulator
from ryle.wire.vdif import SCALE, TWO_BIT_THRESHOLD, Header
from ryle.wire.vdif_write import Writer

#: Payload of a frame, at most: it fits an Ethernet frame of 9000 bytes, as recorders make them.
_MOST_BYTES = 8000


@dataclass(frozen=True)
class _File:
    """One station's file: where each of its threads and channels comes from."""

    path: Path
    entries: list[VdifInputTable]
    bands: int

    @property
    def threads(self) -> list[int]:
        return sorted({e.thread for e in self.entries})

    @property
    def channels(self) -> int:
        """A power of two, as the header has it."""
        highest = max(e.channel if e.channel is not None else self.bands - 1 for e in self.entries)
        return 1 << highest.bit_length()

    def sources(self) -> Iterator[tuple[int, int, VdifInputTable, int]]:
        """Thread (its place), channel, entry and band of all that is recorded."""
        for e in self.entries:
            place = self.threads.index(e.thread)
            where = [(b, b) for b in range(self.bands)] if e.channel is None else [(e.channel, e.band or 0)]
            for channel, band in where:
                yield place, channel, e, band


class _Waves:
    """Voltages of all inputs of one band, each made once, a stretch of them at hand."""

    def __init__(self, observation: Observation, reach: int) -> None:
        self.simulator = VoltageSimulator(observation, mount=observation.array.mount)
        self._reach = reach
        self._start, self._made = 0, self.simulator.voltages(0, 1)[:, :0]

    def until(self, end: int) -> None:
        """Make all samples before this one; those far behind are let go."""
        have = self._start + self._made.shape[1]
        if end > have:
            keep = min(self._reach, self._made.shape[1])
            kept = self._made[:, self._made.shape[1] - keep :]
            self._made = np.concatenate([kept, self.simulator.voltages(have, end - have)], axis=1)
            self._start = have - keep

    def of(self, index: int, first: int, count: int) -> NDArray[Any]:
        """One input's samples; before sample 0 there is silence."""
        silent = min(count, max(0, -first))
        from_ = first + silent - self._start
        return np.pad(self._made[index, from_ : from_ + count - silent], (silent, 0))


def record_vdif(observation: Observation, output: Path) -> list[Path]:
    """Write a whole simulated observation as VDIF.

    Parameters
    ----------
    observation : Observation
        With ``[simulate]``, ``[vdif]`` and a duration.
    output : Path
        Directory, made if need be. Files are named after their antennas and replaced.

    Returns
    -------
    list of Path
        In the order in which ``ryle correlate`` takes them.

    Raises
    ------
    ConfigError
        If a table is missing, or no frame length suits sample rate and channels.
    """
    o = observation
    for key, there in (("vdif", o.vdif), ("simulate", o.simulate), ("observation.duration", o.end_sample)):
        if there is None:
            raise ConfigError(o.source, [Problem(key, None, "is missing: recordings of a simulated array need it")])
    assert o.vdif is not None and o.end_sample is not None and o.simulate is not None
    if o.sample_rate.denominator != 1:
        raise ConfigError(
            o.source, [Problem("band.sample_rate", f"{float(o.sample_rate)} Hz", "VDIF needs whole samples a second")]
        )
    output.mkdir(parents=True, exist_ok=True)
    files, bands = _files(o, output), _bands(o)
    clock = sync_time(o)
    epoch, second = _start(clock)
    first = clock.count_at_vdif(epoch, second)
    frame = min(_frame_samples(o, file) for file in files)
    shifts = [_shift(o, e) for e in o.vdif.inputs]
    made = [_Waves(band, first + max(shifts) - min(shifts)) for band in bands]
    step = frame * max(1, made[0].simulator.segments.span // frame)
    levels: dict[tuple[int, int], float] = {}
    writers = [Writer(f.path, _header(o, f, epoch, second), int(o.sample_rate), frame, f.threads) for f in files]
    try:
        with track_samples(o.end_sample, f"writing {', '.join(f.path.name for f in files)}") as advance:
            for at in range(first, o.end_sample - frame + 1, step):
                count = min(step, (o.end_sample - at) // frame * frame)
                for waves in made:
                    waves.until(at + count - min(shifts))
                for file, writer in zip(files, writers, strict=True):
                    with naming(file.path):
                        writer.write(_recorded(o, file, made, at, count, levels))
                advance(at + count)
    finally:
        for writer in writers:
            writer.close()
    return [file.path for file in files]


def _files(o: Observation, output: Path) -> list[_File]:
    assert o.vdif is not None
    entries = sorted(o.vdif.inputs, key=lambda e: e.file)
    found: list[_File] = []
    for number, group in groupby(entries, key=lambda e: e.file):
        own = list(group)
        names = "-".join(dict.fromkeys(e.antenna.lower() for e in own))
        path = output / f"{names}.vdif"
        if any(f.path == path for f in found):
            path = output / f"{names}-{number}.vdif"
        found.append(_File(path, own, max(1, len(o.vdif.bands))))
    return found


def _bands(o: Observation) -> list[Observation]:
    """Each band as an observation of its own, with noise of its own and what is left of clocks in the cables."""
    assert o.vdif is not None and o.simulate is not None
    rest: dict[tuple[str, str], float] = {}
    for e in o.vdif.inputs:
        rest[e.antenna, e.polarization] = float(_offset(e) - Fraction(_shift(o, e)) / o.sample_rate)
    antennas = []
    for antenna in o.antennas:
        own = antenna.cable_delay or [0.0] * o.pols
        cables = [own[p] + rest.get((antenna.name, pol), 0.0) for p, pol in enumerate(o.array.polarizations)]
        antennas.append(antenna.model_copy(update={"cable_delay": cables}))
    arranged = o.model_copy(update={"array": o.array.model_copy(update={"antennas": antennas})})
    tables = [{"lo": b.lo, "sideband": b.sideband} for b in o.vdif.bands] or [{}]
    return [changed(arranged, band=table, simulate={"seed": o.simulate.seed + k}) for k, table in enumerate(tables)]


def _offset(entry: VdifInputTable) -> Fraction:
    return Fraction(str(entry.clock_offset))


def _shift(o: Observation, entry: VdifInputTable) -> int:
    """Whole samples that a station's stamps are late."""
    return round(_offset(entry) * o.sample_rate)


def _start(clock: SyncTime) -> tuple[int, int]:
    """VDIF epoch and the first whole second of it that is not before sample 0."""
    year, month = (int(part) for part in clock.iso(0, 0).split("-")[:2])
    epoch = 2 * (year - 2000) + (month > 6)
    return epoch, -(clock.count_at_vdif(epoch, 0) // int(clock.sample_rate))


def _header(o: Observation, file: _File, epoch: int, second: int) -> Header:
    return Header(
        epoch=epoch,
        seconds=second,
        bits_minus_1=o.digitizer.bits - 1,
        log2_channels=file.channels.bit_length() - 1,
        complex_data=int(o.digitizer.complex),
        station=int.from_bytes(file.entries[0].antenna[:2].ljust(2).encode("ascii", "replace"), "big"),
    )


def _frame_samples(o: Observation, file: _File) -> int:
    """Give the most samples that fill a frame with whole 8-byte units, a whole number of which make a second."""
    bits = o.sample_bits * file.channels
    rate = int(o.sample_rate)
    for samples in range(_MOST_BYTES * 8 // bits, 0, -1):
        if rate % samples == 0 and samples * bits % 64 == 0 and 32 % o.digitizer.bits == 0:
            return samples
    remedy = (
        f"no VDIF frame of {o.digitizer.bits} bits and {file.channels} channels divides it; try 1, 2, 4, 8 or 16 bits"
    )
    raise ConfigError(o.source, [Problem("band.sample_rate", rate, remedy)])


def _recorded(
    o: Observation, file: _File, made: list[_Waves], first: int, count: int, levels: dict[tuple[int, int], float]
) -> NDArray[Any]:
    """Values of a file's threads and channels, shape (thread, sample, channel), in the units of VDIF's levels."""
    kind = np.complex64 if o.digitizer.complex else np.float32
    values = np.zeros((len(file.threads), count, file.channels), kind)
    names = [a.name for a in o.antennas]
    for place, channel, entry, band in file.sources():
        index = names.index(entry.antenna) * o.pols + o.array.polarizations.index(entry.polarization)
        wave = made[band].of(index, first - _shift(o, entry), count)
        if (band, index) not in levels:  # as a station sets its levels: once, from what it sees
            levels[band, index] = _level(o.digitizer.bits, float(np.std(np.ascontiguousarray(wave).view(np.float32))))
        values[place, :, channel] = wave * levels[band, index]
    return values


def _level(bits: int, rms: float) -> float:
    """Factor from ADC steps to the units of VDIF's levels; 2 bits have their threshold at one sigma."""
    return TWO_BIT_THRESHOLD / rms if bits == 2 and rms > 0 else 1 / SCALE.get(bits, 1.0)
