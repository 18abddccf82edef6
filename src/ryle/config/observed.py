"""What is observed: the tables of an observation file, and the numbers of the signal that follow from them.

Everything that two parts of the correlator must agree on (integration length, channel frequencies, what is on the wire)
is derived here or in `ryle.config.observation`, once.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PrivateAttr, model_validator

from ryle.chunk import BLOCK
from ryle.config import digitizers
from ryle.config.engine_tables import CatcherTable, FengineTable, FxTable, NetworkTable, XengineTable
from ryle.config.simulation import SimulateTable
from ryle.config.tables import (
    AntennaTable,
    ArrayTable,
    BandTable,
    DigitizerTable,
    InputTable,
    ObservationTable,
    OutputTable,
    PhaseCentreTable,
    Table,
    VdifTable,
)

if TYPE_CHECKING:
    from ryle.wire.description import Format
    from ryle.wire.levels import Levels
    from ryle.wire.spectra import SpectraLayout

#: Degrees, by ``array.x_orientation``; circular feeds have their phase 0 at north.
_POINTING = {"east": {"x": 90.0, "y": 0.0}, "north": {"x": 0.0, "y": 90.0}}

#: Spectra of an observation that is not cut: 2**62 of them outlast any.
EVERY = range(1 << 62)


class Observed(Table):
    """The tables of an observation file, and what follows from them of the array, the packets, band and time."""

    observation: ObservationTable
    array: ArrayTable
    band: BandTable
    inputs: list[InputTable] = Field(default_factory=list, description="stream = input if absent")
    digitizer: DigitizerTable = DigitizerTable()
    fengine: FengineTable
    xengine: XengineTable
    catcher: CatcherTable = CatcherTable()
    fx: FxTable | None = None
    phase_centre: PhaseCentreTable | None = None
    network: NetworkTable = NetworkTable()
    output: OutputTable = OutputTable()
    simulate: SimulateTable | None = None
    vdif: VdifTable | None = None
    _source: str = PrivateAttr("observation")
    _text: str = PrivateAttr("")
    _integrations: range | None = PrivateAttr(None)

    @model_validator(mode="after")
    def _one_process(self) -> Self:
        """Say in the tables of both halves what ``[fx]`` rules: one backend, all antennas."""
        if self.fx is not None:
            backend = self.fx.backend or self.fengine.backend
            f: dict[str, Any] = {"backend": backend}
            if "antennas_per_engine" not in self.fengine.model_fields_set:
                f["antennas_per_engine"] = len(self.antennas)
            self.__dict__["fengine"] = self.fengine.model_copy(update=f)
            if self.fx.backend is not None or "backend" not in self.xengine.model_fields_set:
                self.__dict__["xengine"] = self.xengine.model_copy(update={"backend": backend})
        return self

    @property
    def live(self) -> Self:
        """The same without ``[simulate]``: an array sends, which waits for nobody."""
        return self.model_copy(update={"simulate": None})

    @property
    def at_full_speed(self) -> bool:
        """Whether it is simulated without a clock, as fast as everything goes."""
        return self.simulate is not None and self.simulate.speed == "max"

    @property
    def arrival_rate(self) -> float:
        """Samples of an input that come in a second; 0 if they are simulated without a clock."""
        if self.simulate is None:
            return float(self.sample_rate)
        return 0.0 if self.simulate.speed == "max" else float(self.sample_rate) * self.simulate.speed

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
    def spectra(self) -> range:
        """Spectra since sync that are correlated: all, or those of some integrations (`ryle.config.part`)."""
        if (some := self._integrations) is None:
            return EVERY
        return range(some.start * self.file_spectra, min(some.stop * self.file_spectra, EVERY.stop))

    @property
    def antennas(self) -> list[AntennaTable]:
        """The antennas, in the order that indices refer to."""
        return self.array.antennas

    @property
    def pols(self) -> int:
        """Polarizations of an antenna."""
        return len(self.array.polarizations)

    @cached_property
    def feed_angles(self) -> NDArray[np.float64]:
        """Position angle of every feed in degrees, from north (zenith if steered) through east, (antenna, pol)."""
        pointing = _POINTING[self.array.x_orientation]
        common = self.array.feed_angles or [pointing.get(p, 0.0) for p in self.array.polarizations]
        return np.array([a.feed_angles or common for a in self.antennas], np.float64)

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
        """What stands in ``[[inputs]]`` for each input, by input index; without it, stream = input."""
        by_key = {(i.antenna, i.polarization): i for i in self.inputs}
        found: list[InputTable] = []
        for antenna in self.antennas:
            for pol in self.array.polarizations:
                default = InputTable(stream=len(found), antenna=antenna.name, polarization=pol)
                found.append(by_key.get((antenna.name, pol), default))
        return found

    # -- what is on the wire ----------------------------------------------------------------------------------------

    @cached_property
    def packets(self) -> SpectraLayout | None:
        """Layout of the packets of others' F-engines; None if Ryle channelizes.

        Raises
        ------
        ConfigError
            If there is no such format, or it has mistakes.
        ValueError
            If its packets do not hold spectra.
        """
        if self.fengine.packets is None:
            return None
        from ryle.wire.description import Format
        from ryle.wire.spectra import SpectraLayout

        beside = Path(self._source).parent / self.fengine.packets
        return SpectraLayout.of(Format.load(beside if beside.is_file() else self.fengine.packets))

    @cached_property
    def digitizer_format(self) -> Format:
        """Format of digitizers' packets, with this observation's sizes.

        Raises
        ------
        ConfigError
            If there is no such format, or it has mistakes, or does not hold such samples.
        """
        return digitizers.sized(self, digitizers.described(self))

    @cached_property
    def levels(self) -> Levels | None:
        """What decodes digitizers' samples for the channelizer; None if it takes them as they are."""
        from ryle.wire.levels import Levels, plain

        return None if plain(self.digitizer_format.sample) else Levels(self.digitizer_format)

    @property
    def channelized_bits(self) -> int:
        """Bits of a sample, or of each part of a complex one, as the channelizer takes it."""
        from ryle.wire.levels import DECODED_BITS

        return self.digitizer.bits if self.levels is None else DECODED_BITS

    def digitizer_head(self, index: int) -> tuple[int, ...]:
        """Values of the fields that tell an input's packets from those of others.

        Raises
        ------
        ValueError
            If the format's placement has no packet of this input's stream.
        """
        return digitizers.head(self.digitizer_format, self.digitizer, self.streams[index])

    @cached_property
    def wire_inputs(self) -> NDArray[np.int64]:
        """Number on the wire of each input, as others' F-engines count them, shape (input,)."""
        per = self.packets.inputs if self.packets is not None else 1
        found = [s.stream if s.input is None else s.stream * per + s.input for s in self.streams]
        return np.array(found, np.int64)

    @property
    def packet_senders(self) -> int:
        """Others' F-engines, or runs of antennas, whose packets hold inputs of this array."""
        return 0 if self.packets is None else len(self.packets.senders(self.wire_inputs))

    @property
    def sample_bits(self) -> int:
        """Bits of one sample, both parts of a complex one."""
        return self.digitizer.bits * (2 if self.digitizer.complex else 1)

    @property
    def sends_rows(self) -> bool:
        """Whether Ryle's F-engines send packets of rows (`ryle.send.rows`)."""
        return self.fengine.packets is None and self.fengine.sends == "rows"

    @property
    def heap_spectra(self) -> int:
        """Spectra of an F-heap, or of packets of rows: a block."""
        return BLOCK if self.sends_rows else self.fengine.spectra_per_heap

    # -- band -------------------------------------------------------------------------------------------------------

    @property
    def sample_rate(self) -> Fraction:
        """Samples (complex ones counted once) a second, exact."""
        return self.band.sample_rate

    @property
    def sideband_sign(self) -> int:
        """Sign s of the design: +1 if sky frequency rises with baseband frequency, else -1."""
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
        return np.asarray(self._zero_frequency + self.sideband_sign * k * self.channel_width, np.float64)

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
        """Spectra that every stage can handle at once: lcm(64, spectra per heap, or of others' packet)."""
        return math.lcm(BLOCK, self.heap_spectra if self.packets is None else self.packets.spectra)

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
    def file_spectra(self) -> int:
        """Length in spectra of an integration in the file: a multiple of `integration_spectra`."""
        wanted = (self.catcher.integration or 0) * self.sample_rate / self.step
        return max(1, round(wanted / self.integration_spectra)) * self.integration_spectra

    @property
    def file_time(self) -> float:
        """True length in s of an integration in the file."""
        return float(self.file_spectra * self.step / self.sample_rate)

    @property
    def max_delay_samples(self) -> int:
        """Largest delay, either sign, in samples, rounded up."""
        return math.ceil(self.fengine.max_delay * self.sample_rate)

    def integration_centre(self, first_spectrum: int) -> Fraction:
        """Centre of an integration in samples since sync: t0 + step · (M + T - 1) / 2."""
        spectra = self.integration_spectra
        return Fraction(self.step * (2 * first_spectrum + spectra + self.fengine.taps - 1), 2)

    # -- gains ------------------------------------------------------------------------------------------------------

    @cached_property
    def gains(self) -> NDArray[np.complex64]:
        """Complex gain of each input and channel, shape (input, channel)."""
        gains = np.full((self.n_inputs, self.fengine.channels), self.fengine.gain, np.complex64)
        if self.fengine.gains_file is not None:
            gains *= np.load(Path(self._source).parent / self.fengine.gains_file)
        return gains
