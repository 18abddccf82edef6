"""Packets of an observation's digitizers: their format with its sizes and clock, and whose is which."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ryle.config.tables import DigitizerTable, InputTable, ObservationTable
from ryle.config.utc import iso, parse_utc, vdif_epoch, vdif_tai
from ryle.problems import Problem

if TYPE_CHECKING:
    from ryle.wire.description import Format

#: Parameters of a format that follow from other tables than ``[digitizer]``.
_OF_OTHERS = {"threads", "sample_rate", "reference", "start"}
#: VDIF's reference epochs: half-years from 2000 to 2031.
_EPOCHS = range(64)


class Digitized(Protocol):
    """What an observation says of its digitizers."""

    @property
    def source(self) -> str:
        """The observation file."""

    @property
    def digitizer(self) -> DigitizerTable:
        """Samples and packets."""

    @property
    def observation(self) -> ObservationTable:
        """The time of sample 0."""

    @property
    def sample_rate(self) -> Fraction:
        """Samples a second."""

    @property
    def sample_bits(self) -> int:
        """Bits of a sample, both parts of a complex one."""

    @property
    def pols(self) -> int:
        """Polarizations of an antenna."""


def described(o: Digitized) -> Format:
    """Read the packets' description.

    Raises
    ------
    ConfigError
        If there is no such format, or it has mistakes.
    """
    from ryle.wire.description import Format

    beside = Path(o.source).parent / o.digitizer.packets
    return Format.load(beside if beside.is_file() else o.digitizer.packets)


def of_digitizer_alone(format: Format) -> bool:
    """Say whether ``[digitizer]`` gives all of a format's parameters that an observation gives."""
    return not _OF_OTHERS & set(format.parameters)


def sized(o: Digitized, format: Format) -> Format:
    """Put an observation's sizes, and where its samples are counted from, into a description that asks for them.

    Raises
    ------
    ConfigError
        If the format does not hold such samples.
    """
    d, wanted = o.digitizer, format.parameters
    coded = "offset_binary" if format.sample.levels == "vdif" else "twos_complement"
    ours: dict[str, int | str] = {
        "bits": d.bits,
        "heap_samples": d.heap_samples,
        "complex": int(d.complex),
        "code": "float" if d.bits == 32 else coded,
    }
    if "threads" in wanted and "threads" not in format.said:
        ours["threads"] = o.pols
    if "sample_rate" in wanted:
        ours["sample_rate"] = math.floor(o.sample_rate)
    if "reference" in wanted:
        epoch = reference_epoch(o, format)
        ours |= {"reference": epoch, "start": math.floor(_reference_start(o, epoch))}
    return format.given(**{name: value for name, value in ours.items() if name in wanted})


def reference_epoch(o: Digitized, format: Format) -> int:
    """Find VDIF's reference epoch that digitizers count from: what stands behind the format's name, or sync's own."""
    said = format.said.get("reference", "any")
    return said if isinstance(said, int) else vdif_epoch(parse_utc(o.observation.sync_time))


def _reference_start(o: Digitized, epoch: int) -> Fraction:
    """Say where a reference epoch begins, in samples since sync."""
    return (vdif_tai(epoch, 0) - parse_utc(o.observation.sync_time)) * o.sample_rate


def clock_mistakes(o: Digitized, format: Format) -> Iterator[Problem]:
    """Find what keeps packets that count seconds and frames from an observation's count of samples."""
    rate, size, sync = o.sample_rate, o.digitizer.heap_samples, o.observation.sync_time
    if "sample_rate" in format.parameters:
        if rate.denominator != 1:
            yield Problem("band.sample_rate", f"{float(rate)} Hz", "VDIF needs a whole number of samples a second")
            return
        if rate.numerator % size:
            whole = (n for n in range(8, 2 * size) if not rate.numerator % n and not n * o.sample_bits % 64)
            near = min(whole, key=lambda n: abs(n - size), default=None)
            nearest = "" if near is None else f"; the nearest are of {near}"
            remedy = f"frames of {o.digitizer.packets} must divide the {rate.numerator} samples of a second{nearest}"
            yield Problem("digitizer.heap_samples", size, remedy)
            return
    if "reference" not in format.parameters:
        return
    epoch = reference_epoch(o, format)
    if epoch not in _EPOCHS:
        known = "VDIF counts the half-years from 2000-01 to 2031-07, 0 to 63"
        yield Problem("digitizer.packets", o.digitizer.packets, f"reference epoch {epoch}: {known}")
    elif _reference_start(o, epoch) % size:
        second = iso(Fraction(math.floor(parse_utc(sync))), 0)
        remedy = f'must be where a frame of {size} samples begins, as they do at each whole second: "{second}"'
        yield Problem("observation.sync_time", sync, remedy)


def head(format: Format, table: DigitizerTable, entry: InputTable) -> tuple[int, ...]:
    """Give the values of the fields that tell an input's packets from those of others.

    Raises
    ------
    ValueError
        If the format's placement has no packet of this input's stream.
    """
    from ryle.wire.spectra import solved

    names = format.timestamp.stream
    fields = {name: format.fields[name].low for name in names} | table.select
    if "input" in format.placement:
        fields |= solved(format, format.placement["input"], entry.stream, "input")
    elif len(names) == 1:
        fields[names[0]] = entry.stream
    elif entry.stream:
        raise ValueError(f"{format.name}: placement.input does not say which packets are of input {entry.stream}")
    return tuple(fields[name] for name in names)
