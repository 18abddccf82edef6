"""The tables of an observation file, each with what may stand in it.

Only what one table can say by itself is checked here; what two tables must agree on is checked in `observation`.
"""

from __future__ import annotations

import ipaddress
import re
from fractions import Fraction
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from .units import Angle, Bytes, Duration, Flux, Frequency, Hertz, Length, Seconds

DIGITIZER_BITS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 16, 32)


class Table(BaseModel):
    """A table of the file: unknown keys are errors, values do not change after reading."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True, allow_inf_nan=False)


def _read_endpoint(value: Any) -> Any:
    if isinstance(value, str):
        match = re.fullmatch(r"\[?([0-9a-fA-F.:]+?)\]?:(\d+)", value)
        if match and 0 < int(match.group(2)) < 65536:
            try:
                return Endpoint(host=str(ipaddress.ip_address(match.group(1))), port=int(match.group(2)))
            except ValueError:
                pass
    if isinstance(value, Endpoint):
        return value
    raise ValueError('write "address:port" with a numeric address, such as "127.0.0.1:7148" or "239.102.0.64:7148"')


class Endpoint(BaseModel):
    """A UDP address and port, the first of a run: `nth` gives the others."""

    model_config = ConfigDict(frozen=True)
    host: str
    port: int

    @property
    def multicast(self) -> bool:
        """Whether the address is a multicast group."""
        return ipaddress.ip_address(self.host).is_multicast

    def nth(self, index: int) -> Endpoint:
        """Endpoint `index` of the run: multicast counts the group up, unicast the port."""
        if self.multicast:
            return Endpoint(host=str(ipaddress.ip_address(self.host) + index), port=self.port)
        return Endpoint(host=self.host, port=self.port + index)

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


EndpointText = Annotated[Endpoint, BeforeValidator(_read_endpoint)]
Position = tuple[Length, Length, Length]


class ObservationTable(Table):
    """``[observation]``: what it is called, when sample 0 was taken, how long it lasts."""

    name: str = Field("observation", pattern=r"^[A-Za-z0-9_.+-]+$")
    sync_time: str = Field(description='UTC of ADC sample 0: "2026-03-20T20:00:00Z", or Unix seconds in quotes')
    duration: Duration | None = Field(None, description="how much signal; until stopped if absent")

    @field_validator("sync_time", mode="before")
    @classmethod
    def _sync_text(cls, value: Any) -> Any:
        if not isinstance(value, str) or not re.fullmatch(
            r"\d+(\.\d+)?|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", value
        ):
            raise ValueError('write UTC in quotes with a final Z, such as "2026-03-20T20:00:00Z", or Unix seconds in quotes')
        return value


class LocationTable(Table):
    """``array.location``: WGS84 latitude, longitude and height, or ITRF x, y, z."""

    latitude: Angle | None = None
    longitude: Angle | None = None
    height: Length | None = None
    itrf: Position | None = None

    @model_validator(mode="after")
    def _one_form(self) -> LocationTable:
        geodetic = [self.latitude, self.longitude, self.height]
        if self.itrf is None and any(v is None for v in geodetic):
            raise ValueError('give latitude, longitude and height, or itrf = ["x m", "y m", "z m"]')
        if self.itrf is not None and any(v is not None for v in geodetic):
            raise ValueError("give either latitude, longitude and height, or itrf, not both")
        if self.latitude is not None and abs(self.latitude) > 90:
            raise ValueError("latitude must be between -90 and 90 deg")
        return self


class AntennaTable(Table):
    """``[[array.antennas]]``: a name, a position and what is known of its signal path."""

    name: str = Field(pattern=r"^\S+$")
    enu: Position | None = Field(None, description="east, north, up from the array's location")
    itrf: Position | None = Field(None, description="geocentric x, y, z")
    diameter: Length = Field(12.0, gt=0)
    cable_delay: list[Seconds] = Field(default_factory=list, description="signal path delay, one a polarization")

    @model_validator(mode="after")
    def _one_position(self) -> AntennaTable:
        if (self.enu is None) == (self.itrf is None):
            raise ValueError('give one position: enu = ["east m", "north m", "up m"] or itrf = ["x m", "y m", "z m"]')
        return self


class ArrayTable(Table):
    """``[array]``: where it is and what stands there."""

    name: str = "array"
    location: LocationTable
    polarizations: list[Literal["x", "y", "r", "l"]] = Field(default=["x", "y"], min_length=1, max_length=2)
    antennas: list[AntennaTable] = Field(default_factory=list)
    antenna_file: str | None = Field(None, description="text file of name, east, north, up (m) a line, beside this file")

    @model_validator(mode="after")
    def _distinct(self) -> ArrayTable:
        if len(set(self.polarizations)) != len(self.polarizations):
            raise ValueError("polarizations must differ")
        if {"x", "y"} & set(self.polarizations) and {"r", "l"} & set(self.polarizations):
            raise ValueError("polarizations are linear (x, y) or circular (r, l), not mixed")
        if bool(self.antennas) == bool(self.antenna_file):
            raise ValueError("describe the antennas once: [[array.antennas]] tables or antenna_file")
        names = [a.name for a in self.antennas]
        if len(set(names)) != len(names):
            twice = sorted({n for n in names if names.count(n) > 1})
            raise ValueError(f"antenna names must differ; more than once: {', '.join(twice)}")
        for antenna in self.antennas:
            if len(antenna.cable_delay) not in (0, len(self.polarizations)):
                raise ValueError(
                    f"antenna {antenna.name}: cable_delay takes one value a polarization ({len(self.polarizations)}), "
                    f"not {len(antenna.cable_delay)}"
                )
        return self


class BandTable(Table):
    """``[band]``: how baseband maps to the sky."""

    sample_rate: Frequency = Field(gt=0)
    lo: Frequency = Field(Fraction(0), description="sum of the local oscillators")
    sideband: Literal["upper", "lower"] = "upper"
    nyquist_zone: int = Field(1, ge=1)


class InputTable(Table):
    """``[[inputs]]``: which stream carries which antenna and polarization."""

    stream: int = Field(ge=0, description="digitiser ID on the wire")
    antenna: str
    polarization: Literal["x", "y", "r", "l"]
    conjugate: bool = Field(False, description="complex samples arrive conjugated (I and Q exchanged)")


class DigitizerTable(Table):
    """``[digitizer]``: what a sample is."""

    bits: int = 10
    complex: bool = False
    heap_samples: int = Field(4096, ge=8, le=1 << 20)

    @field_validator("bits")
    @classmethod
    def _known_bits(cls, value: int) -> int:
        if value not in DIGITIZER_BITS:
            raise ValueError("bits must be one of " + ", ".join(map(str, DIGITIZER_BITS)) + " (32 is IEEE float)")
        return value


class FengineTable(Table):
    """``[fengine]``: the channelizer."""

    channels: int = Field(ge=4, le=1 << 17)
    taps: int = Field(16, ge=1, le=32)
    window: Literal["hann", "hamming", "blackman", "rect"] = "hann"
    w_cutoff: float = Field(1.0, gt=0, le=4)
    gain: float = Field(1.0, gt=0)
    gains_file: str | None = Field(None, description=".npy, complex [input][channel], multiplied with gain")
    output_bits: Literal[4, 8] = 8
    dither: Literal["uniform", "none"] = "uniform"
    seed: int = Field(1, ge=0, lt=1 << 64)
    spectra_per_heap: int = Field(64, ge=8, le=4096)
    max_delay: Seconds = Field(1e-6, ge=0, description="largest delay, either sign, that overlaps allow for")
    antennas_per_engine: int = Field(1, ge=1)
    backend: Literal["cpu", "cuda"] = "cpu"
    threads: int = Field(1, ge=1)

    @field_validator("channels")
    @classmethod
    def _even(cls, value: int) -> int:
        if value % 2:
            raise ValueError("channels must be even")
        return value

    @field_validator("spectra_per_heap")
    @classmethod
    def _whole_bytes(cls, value: int) -> int:
        if value % 8:
            raise ValueError("spectra_per_heap must be a multiple of 8")
        return value


class XengineTable(Table):
    """``[xengine]``: the correlator proper."""

    integration: Duration = Field(gt=0)
    channels_per_substream: int | None = Field(None, ge=1, description="channels of one X-engine; all if absent")
    backend: Literal["cpu", "cuda"] = "cpu"
    threads: int = Field(1, ge=1)


class PhaseCentreTable(Table):
    """``[phase_centre]``: where delays are tracked to; without it data are not phase-tracked (unprojected)."""

    name: str = "phase centre"
    ra: Angle
    dec: Angle = Field(ge=-90, le=90)


class NetworkTable(Table):
    """``[network]``: addresses. Each is the first of a run: unicast counts the port up, multicast the group."""

    digitizers: EndpointText = Endpoint(host="127.0.0.1", port=17100)
    spectra: EndpointText = Endpoint(host="127.0.0.1", port=17600)
    visibilities: EndpointText = Endpoint(host="127.0.0.1", port=17900)
    interface: str = Field("127.0.0.1", description="address of the interface that sends and receives multicast")
    packet_size: Bytes = Field(8192, ge=256, le=65000, description="largest payload of a datagram")
    ttl: int = Field(4, ge=0, le=255)
    receive_buffer: Bytes = Field(64 << 20, ge=4096, description="socket buffer asked for")

    @field_validator("interface")
    @classmethod
    def _address(cls, value: str) -> str:
        try:
            return str(ipaddress.ip_address(value))
        except ValueError:
            raise ValueError('write the interface\'s own address, such as "127.0.0.1" or "10.0.0.5"') from None


class OutputTable(Table):
    """``[output]``: what is written."""

    directory: str = "."
    formats: list[Literal["uvh5", "ms", "uvfits", "miriad"]] = ["uvh5"]
    pictures: bool = True


class SourceTable(Table):
    """``[[simulate.sources]]``: a point source with full Stokes parameters at a reference frequency."""

    name: str = ""
    ra: Angle
    dec: Angle = Field(ge=-90, le=90)
    flux: Flux = Field(ge=0, description="Stokes I")
    q: Flux = 0.0
    u: Flux = 0.0
    v: Flux = 0.0
    spectral_index: float = Field(0.0, ge=-5, le=5)
    reference_frequency: Hertz | None = Field(None, description="where flux holds; band centre if absent")

    @model_validator(mode="after")
    def _physical(self) -> SourceTable:
        if self.q**2 + self.u**2 + self.v**2 > self.flux**2 * (1 + 1e-12):
            raise ValueError("polarized flux exceeds the total: sqrt(q² + u² + v²) must be at most flux")
        return self


class RfiTable(Table):
    """``[[simulate.rfi]]``: a tone at every antenna."""

    frequency: Hertz
    level: float = Field(gt=0, description="rms in units of the receiver noise rms")
    antennas: list[str] = Field(default_factory=list, description="all if empty")


class FaultsTable(Table):
    """``[simulate.faults]``: what happens to packets on their way, each a fraction of all packets."""

    loss: float = Field(0.0, ge=0, le=1)
    duplicate: float = Field(0.0, ge=0, le=1)
    reorder: float = Field(0.0, ge=0, le=1)
    reorder_distance: int = Field(8, ge=1, le=1024, description="packets that a delayed one is overtaken by, at most")
    corrupt: float = Field(0.0, ge=0, le=1)
    seed: int = Field(1, ge=0)

    @property
    def any(self) -> bool:
        """Whether anything goes wrong at all."""
        return self.loss + self.duplicate + self.reorder + self.corrupt > 0


class SimulateTable(Table):
    """``[simulate]``: the sky, the receivers and the digitizers that stand in for an array."""

    seed: int = Field(1, ge=0)
    speed: float | Literal["max"] = Field(1.0, description="fraction of real time; max: as fast as it can be made")
    replay: Duration | None = Field(None, description="make this much signal once and send it again and again")
    sources: list[SourceTable] = Field(default_factory=list)
    sefd: Flux = Field(400.0, gt=0, description="system equivalent flux density without sources, one polarization")
    rms: float = Field(30.0, gt=0, description="receiver noise rms in ADC steps")
    gain_error: float = Field(0.0, ge=0, lt=1, description="rms fractional amplitude error of an input")
    phase_error: Angle = Field(0.0, description="rms phase error of an input")
    delay_error: Seconds = Field(0.0, ge=0, description="rms delay that the F-engines do not know of")
    bandpass_ripple: float = Field(0.0, ge=0, lt=0.5, description="rms fractional ripple over the band")
    rfi: list[RfiTable] = Field(default_factory=list)
    faults: FaultsTable = FaultsTable()

    @field_validator("speed")
    @classmethod
    def _positive(cls, value: float | str) -> float | str:
        if not isinstance(value, str) and value <= 0:
            raise ValueError('speed must be positive, or "max"')
        return value


class VdifInputTable(Table):
    """``[[vdif.inputs]]``: which file, thread and channel carry which antenna and polarization."""

    file: int = Field(0, ge=0, description="index of the file on the command line")
    thread: int = Field(0, ge=0, le=1023)
    channel: int | None = Field(None, ge=0, description="VDIF channel; if absent, channel b is band b")
    band: int | None = Field(None, ge=0, description="index into [[vdif.bands]]; with channel only; 0 if absent")
    antenna: str
    polarization: Literal["x", "y", "r", "l"]
    clock_offset: Seconds = Field(0.0, description="how late the station's clock runs: subtracted from its time stamps")

    @model_validator(mode="after")
    def _band_needs_channel(self) -> VdifInputTable:
        if self.band is not None and self.channel is None:
            raise ValueError("band is given without channel: name the VDIF channel that it is in")
        return self


class VdifBandTable(Table):
    """``[[vdif.bands]]``: what one band of the recording is on the sky; it has the sample rate of ``[band]``."""

    name: str = Field("", pattern=r"^[A-Za-z0-9_.+-]*$")
    lo: Frequency
    sideband: Literal["upper", "lower"] = "upper"


class VdifTable(Table):
    """``[vdif]``: how recordings map to the array."""

    inputs: list[VdifInputTable] = Field(min_length=1)
    bands: list[VdifBandTable] = Field(default_factory=list, description="[band] alone if absent")
