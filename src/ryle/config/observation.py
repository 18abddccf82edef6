"""The observation file as one object, and the numbers that follow from it.

`load` reads TOML and reports every mistake at once. Everything that two parts of the correlator must agree on (heap
sizes, integration length, channel frequencies, endpoints) is derived here, once.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PrivateAttr, ValidationError

from ..chunk import BLOCK
from . import tables
from .problems import ConfigError, Problem, explain
from .tables import (
    AntennaTable,
    ArrayTable,
    BandTable,
    DigitizerTable,
    Endpoint,
    FengineTable,
    InputTable,
    NetworkTable,
    ObservationTable,
    OutputTable,
    PhaseCentreTable,
    SimulateTable,
    VdifTable,
    XengineTable,
)


class Observation(tables.Table):
    """An observation file, read and checked, with everything derived from it."""

    observation: ObservationTable
    array: ArrayTable
    band: BandTable
    inputs: list[InputTable] = Field(default_factory=list)
    digitizer: DigitizerTable = DigitizerTable()
    fengine: FengineTable
    xengine: XengineTable
    phase_centre: PhaseCentreTable | None = None
    network: NetworkTable = NetworkTable()
    output: OutputTable = OutputTable()
    simulate: SimulateTable | None = None
    vdif: VdifTable | None = None
    _source: str = PrivateAttr("observation")
    _text: str = PrivateAttr("")

    # -- array ------------------------------------------------------------------------------------------------------

    @property
    def source(self) -> str:
        """The file that this was read from."""
        return self._source

    @property
    def text(self) -> str:
        """The file's text, kept for the history of what is written."""
        return self._text

    @property
    def antennas(self) -> list[AntennaTable]:
        """The antennas, in the order that indices refer to."""
        return self.array.antennas

    @property
    def pols(self) -> int:
        """Polarizations of an antenna."""
        return len(self.array.polarizations)

    @property
    def n_inputs(self) -> int:
        """Inputs of the X-engine; input = antenna · pols + pol."""
        return len(self.antennas) * self.pols

    @property
    def baselines(self) -> int:
        """Pairs of antennas, autos included."""
        return len(self.antennas) * (len(self.antennas) + 1) // 2

    @property
    def products(self) -> int:
        """Visibilities of one channel and integration."""
        return self.baselines * self.pols**2

    @cached_property
    def streams(self) -> list[InputTable]:
        """The digitizer stream of each input, by input index; without ``[[inputs]]``, stream = input."""
        by_key = {(i.antenna, i.polarization): i for i in self.inputs}
        found = []
        for antenna in self.antennas:
            for pol in self.array.polarizations:
                default = InputTable(stream=len(found), antenna=antenna.name, polarization=pol)
                found.append(by_key.get((antenna.name, pol), default))
        return found

    # -- band -------------------------------------------------------------------------------------------------------

    @property
    def sample_rate(self) -> Fraction:
        """Samples (complex ones counted once) a second, exact."""
        return self.band.sample_rate

    @property
    def sideband_sign(self) -> int:
        """s of the design: +1 if sky frequency rises with baseband frequency, else -1."""
        zone = -1 if self.band.nyquist_zone % 2 == 0 else 1
        return zone * (-1 if self.band.sideband == "lower" else 1)

    @property
    def step(self) -> int:
        """Samples from one spectrum to the next: 2 · channels if real, channels if complex."""
        return self.fengine.channels * (1 if self.digitizer.complex else 2)

    @property
    def window(self) -> int:
        """Samples that one spectrum reads."""
        return self.step * self.fengine.taps

    @property
    def channel_width(self) -> float:
        """Channel width and spacing in Hz."""
        return float(self.sample_rate / self.step)

    @cached_property
    def sky_frequencies(self) -> NDArray[np.float64]:
        """Sky frequency in Hz of each channel's centre, by channel index (it falls with the index if s = -1)."""
        k = np.arange(self.fengine.channels) - (self.fengine.channels // 2 if self.digitizer.complex else 0)
        return self._zero_frequency + self.sideband_sign * k * self.channel_width

    @property
    def _zero_frequency(self) -> float:
        """Sky frequency of baseband zero."""
        if self.digitizer.complex:
            return float(self.band.lo)
        edge = self.band.nyquist_zone // 2 * self.sample_rate  # zones 2 and 3 fold at fs, 4 and 5 at 2 fs
        return float(self.band.lo + (edge if self.band.sideband == "upper" else -edge))

    @property
    def centre_frequency(self) -> float:
        """Sky frequency in Hz of channel n/2, where phases are referred to."""
        return float(self.sky_frequencies[self.fengine.channels // 2])

    # -- time -------------------------------------------------------------------------------------------------------

    @property
    def end_sample(self) -> int | None:
        """Sample count at which the observation ends, or None."""
        duration = self.observation.duration
        return None if duration is None else math.floor(duration * self.sample_rate)

    @property
    def batch_spectra(self) -> int:
        """Spectra that every stage can handle at once: lcm(64, spectra per heap)."""
        return math.lcm(BLOCK, self.fengine.spectra_per_heap)

    @property
    def integration_spectra(self) -> int:
        """Length of an integration in spectra: what was asked for, rounded to a multiple of `batch_spectra`."""
        wanted = self.xengine.integration * self.sample_rate / self.step
        return max(1, round(wanted / self.batch_spectra)) * self.batch_spectra

    @property
    def integration_time(self) -> float:
        """True length of an integration in s."""
        return float(self.integration_spectra * self.step / self.sample_rate)

    @property
    def max_delay_samples(self) -> int:
        """Largest delay, either sign, in samples, rounded up."""
        return math.ceil(self.fengine.max_delay * self.sample_rate)

    def integration_centre(self, first_spectrum: int) -> Fraction:
        """Centre of an integration in samples since sync: t0 + step · (M + T - 1) / 2."""
        spectra = self.integration_spectra
        return Fraction(self.step * (2 * first_spectrum + spectra + self.fengine.taps - 1), 2)

    # -- heaps and packets ------------------------------------------------------------------------------------------

    @property
    def sample_bits(self) -> int:
        """Bits of one sample, both parts of a complex one."""
        return self.digitizer.bits * (2 if self.digitizer.complex else 1)

    @property
    def digitizer_heap_bytes(self) -> int:
        """Payload of a digitizer heap, which is one packet."""
        return self.digitizer.heap_samples * self.sample_bits // 8

    @property
    def substream_channels(self) -> int:
        """Channels of one substream, the share of one X-engine."""
        return self.xengine.channels_per_substream or self.fengine.channels

    @property
    def substreams(self) -> int:
        """Number of substreams and X-engines."""
        return self.fengine.channels // self.substream_channels

    @property
    def value_bytes(self) -> int:
        """Bytes of one complex value in an F-heap."""
        return 2 if self.fengine.output_bits == 8 else 1

    @property
    def packet_channels(self) -> int:
        """Channels of one F packet: the most that divide a substream and fit the packet size; 0 if none fit."""
        column = self.fengine.spectra_per_heap * self.pols * self.value_bytes
        most = self.network.packet_size // column
        return max((c for c in range(1, min(most, self.substream_channels) + 1) if self.substream_channels % c == 0), default=0)

    @property
    def groups(self) -> int:
        """Channel groups (packets of an F-heap) of one substream."""
        return self.substream_channels // self.packet_channels

    @property
    def spectra_heap_bytes(self) -> int:
        """Payload of an F-heap whose spectra are all valid."""
        return self.substream_channels * self.fengine.spectra_per_heap * self.pols * self.value_bytes

    # -- processes --------------------------------------------------------------------------------------------------

    @property
    def f_engines(self) -> int:
        """Number of F-engines."""
        return -(-len(self.antennas) // self.fengine.antennas_per_engine)

    def f_engine_antennas(self, engine: int) -> range:
        """Antennas of one F-engine."""
        per = self.fengine.antennas_per_engine
        return range(engine * per, min(len(self.antennas), (engine + 1) * per))

    def digitizer_endpoint(self, antenna: int) -> Endpoint:
        """Where the digitizers of an antenna send to."""
        return self.network.digitizers.nth(antenna)

    def spectra_endpoint(self, substream: int) -> Endpoint:
        """Where F-engines send the heaps of a substream."""
        return self.network.spectra.nth(substream)

    # -- gains ------------------------------------------------------------------------------------------------------

    @cached_property
    def gains(self) -> NDArray[np.complex64]:
        """Complex gain of each input and channel, shape (input, channel)."""
        gains = np.full((self.n_inputs, self.fengine.channels), self.fengine.gain, np.complex64)
        if self.fengine.gains_file is not None:
            gains *= np.load(Path(self._source).parent / self.fengine.gains_file)
        return gains


def _read_antennas(path: Path) -> list[dict[str, Any]]:
    """Antennas from lines of ``name east north up`` in metres; # starts a comment."""
    antennas = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        words = line.split("#")[0].replace(",", " ").split()
        if not words:
            continue
        try:
            name, *enu = words
            e, n, u = (float(x) for x in enu)
        except ValueError:
            raise ValueError(f"line {number} of {path.name} is not 'name east north up' in metres: {line!r}") from None
        antennas.append({"name": name, "enu": [f"{e!r} m", f"{n!r} m", f"{u!r} m"]})
    return antennas


def _cross_checks(o: Observation) -> Iterator[Problem]:
    """What two tables must agree on."""
    names = {a.name for a in o.antennas}
    seen: dict[Any, int] = {}
    for i, entry in enumerate(o.inputs):
        if entry.antenna not in names:
            yield Problem(f"inputs[{i}].antenna", entry.antenna, f"no such antenna; there are {_some(names)}")
        if entry.polarization not in o.array.polarizations:
            yield Problem(f"inputs[{i}].polarization", entry.polarization, f"must be one of array.polarizations {o.array.polarizations}")
        if entry.conjugate and not o.digitizer.complex:
            yield Problem(f"inputs[{i}].conjugate", True, "only complex samples can arrive conjugated; remove it, or set digitizer.complex = true")
        for key in (("stream", entry.stream), (entry.antenna, entry.polarization)):
            if key in seen:
                yield Problem(f"inputs[{i}]", None, f"{key[0]} {key[1]} stands already in inputs[{seen[key]}]; each may stand once")
            seen[key] = i
    if o.inputs and len(o.inputs) != o.n_inputs:
        yield Problem("inputs", len(o.inputs), f"map every input or none: {len(o.antennas)} antennas x {o.pols} polarizations need {o.n_inputs}")
    if o.digitizer.complex and o.band.nyquist_zone != 1:
        yield Problem("band.nyquist_zone", o.band.nyquist_zone, "must be 1 for complex samples: put the band's centre in band.lo")
    if o.digitizer.heap_samples * o.sample_bits % 64:
        yield Problem("digitizer.heap_samples", o.digitizer.heap_samples, f"{o.sample_bits}-bit samples of a heap must fill whole 8-byte words: use a multiple of {64 // math.gcd(64, o.sample_bits)}")
    elif o.digitizer_heap_bytes > o.network.packet_size:
        most = o.network.packet_size * 8 // o.sample_bits
        yield Problem("digitizer.heap_samples", o.digitizer.heap_samples, f"a heap must fit one packet of network.packet_size ({o.network.packet_size} B): at most {most} samples of {o.sample_bits} bits")
    if o.fengine.channels % o.substream_channels:
        divisors = [c for c in range(1, o.fengine.channels + 1) if o.fengine.channels % c == 0]
        near = min(divisors, key=lambda c: abs(c - o.substream_channels))
        yield Problem("xengine.channels_per_substream", o.substream_channels, f"must divide fengine.channels = {o.fengine.channels}; the nearest that does is {near}")
    elif o.packet_channels == 0:
        most = o.network.packet_size // (o.pols * o.value_bytes) // 8 * 8
        yield Problem("fengine.spectra_per_heap", o.fengine.spectra_per_heap, f"one channel of a heap must fit a packet of network.packet_size: at most {most} here")
    wanted = float(o.xengine.integration)
    if wanted < 0.5 * o.batch_spectra * o.step / o.sample_rate:
        least = float(o.batch_spectra * o.step / o.sample_rate)
        yield Problem("xengine.integration", f"{wanted:g} s", f"shorter than lcm(64, spectra_per_heap) = {o.batch_spectra} spectra; at least {least:.6g} s")
    if o.fengine.gains_file is not None:
        path = Path(o.source).parent / o.fengine.gains_file
        try:
            shape = np.load(path, mmap_mode="r").shape
            if shape != (o.n_inputs, o.fengine.channels):
                yield Problem("fengine.gains_file", str(path), f"has shape {shape}; needs (inputs, channels) = ({o.n_inputs}, {o.fengine.channels})")
        except (OSError, ValueError) as error:
            yield Problem("fengine.gains_file", str(path), f"cannot be read: {error}")
    endpoints = {}
    runs = (("digitizers", o.network.digitizers, len(o.antennas)), ("spectra", o.network.spectra, o.substreams), ("visibilities", o.network.visibilities, 1))
    for key, first, count in runs:
        if not first.multicast and first.port + count > 65536:
            yield Problem(f"network.{key}", str(first), f"{count} ports from {first.port} on run past 65535; start lower")
            continue
        for i in range(count):
            where = str(first.nth(i))
            if where in endpoints:
                yield Problem(f"network.{key}", str(first), f"{where} (number {i} of {count}) is used by network.{endpoints[where]} too; move one of them")
                break
            endpoints[where] = key
    if o.simulate is not None:
        for i, rfi in enumerate(o.simulate.rfi):
            low, high = sorted((float(o.sky_frequencies[0]), float(o.sky_frequencies[-1])))
            if not low <= rfi.frequency <= high:
                yield Problem(f"simulate.rfi[{i}].frequency", f"{rfi.frequency / 1e6:g} MHz", f"outside the band, {low / 1e6:g} to {high / 1e6:g} MHz")
            for name in set(rfi.antennas) - names:
                yield Problem(f"simulate.rfi[{i}].antennas", name, f"no such antenna; there are {_some(names)}")
        if o.simulate.replay is None and o.observation.duration is None:
            yield Problem("observation.duration", None, "is missing: a simulation needs an end (or simulate.replay, a window to repeat)")
    if o.vdif is not None:
        for i, entry in enumerate(o.vdif.inputs):
            if entry.antenna not in names:
                yield Problem(f"vdif.inputs[{i}].antenna", entry.antenna, f"no such antenna; there are {_some(names)}")
            if entry.polarization not in o.array.polarizations:
                yield Problem(f"vdif.inputs[{i}].polarization", entry.polarization, f"must be one of array.polarizations {o.array.polarizations}")
            if entry.band is not None and entry.band >= max(1, len(o.vdif.bands)):
                yield Problem(f"vdif.inputs[{i}].band", entry.band, f"there are {len(o.vdif.bands)} [[vdif.bands]], counted from 0")


def _some(names: set[str]) -> str:
    listed = sorted(names)
    return ", ".join(listed[:8]) + (f" … ({len(listed)} in all)" if len(listed) > 8 else "")


def parse(text: str, source: str = "observation") -> Observation:
    """Read an observation from TOML text; see `load`."""
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(source, [Problem("(file)", None, f"not valid TOML: {error}")]) from None
    problems: list[Problem] = []
    array = raw.get("array")
    if isinstance(array, dict) and isinstance(array.get("antenna_file"), str) and not array.get("antennas"):
        try:
            found = _read_antennas(Path(source).parent / array["antenna_file"])
            raw["array"] = {k: v for k, v in array.items() if k != "antenna_file"} | {"antennas": found}
        except (OSError, ValueError) as error:
            problems.append(Problem("array.antenna_file", array["antenna_file"], f"cannot be read: {error}"))
    try:
        observation = Observation.model_validate(raw)
    except ValidationError as error:
        raise ConfigError(source, problems + explain(error, Observation)) from None
    observation._source, observation._text = source, text
    problems += _cross_checks(observation)
    if problems:
        raise ConfigError(source, problems)
    return observation


def load(path: str | Path) -> Observation:
    """Read an observation file.

    Parameters
    ----------
    path : path-like
        A TOML file; ``docs/reference/observation-file.md`` lists what may stand in it.

    Raises
    ------
    ConfigError
        With every mistake found: key, value, what is allowed and how to mend it.
    """
    path = Path(path)
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(str(path), [Problem("(file)", None, f"cannot be read: {error}")]) from None
    return parse(text, str(path))


def changed(observation: Observation, **changes: Self | Any) -> Observation:
    """A copy with some tables' keys changed: ``changed(o, xengine={"integration": Fraction(1)})``."""
    tables_ = {k: getattr(observation, k).model_copy(update=v) for k, v in changes.items()}
    copy = observation.model_copy(update=tables_)
    copy._source, copy._text = observation._source, observation._text
    for name in ("streams", "sky_frequencies", "gains"):
        copy.__dict__.pop(name, None)
    problems = list(_cross_checks(copy))
    if problems:
        raise ConfigError(copy.source, problems)
    return copy
