"""The tables of an observation file, each with what may stand in it.

Only what one table can say by itself is checked here; what two tables must agree on is checked in `checks`. The
descriptions and examples stand in error messages and in ``docs/reference/observation-file.md``.
"""

from __future__ import annotations

import re
from collections import Counter
from fractions import Fraction
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from ryle.config.endpoints import EndpointRanges, EndpointText
from ryle.config.units import Angle, Duration, Frequency, Length, Seconds
from ryle.config.utc import iso, parse_utc

_LAST_TIME = parse_utc("2100-01-01T00:00:00Z")
DIGITIZER_BITS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 16, 32)


class Table(BaseModel):
    """A table of the file: unknown keys are errors, ``"8"`` is no number, values do not change after reading."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, arbitrary_types_allowed=True, allow_inf_nan=False
    )


def _read_position(value: Any) -> Any:
    if isinstance(value, list | tuple) and len(value) == 3:
        return tuple(value)
    raise ValueError('write three lengths, such as ["120 m", "-35.5 m", "0 m"]')


Position = Annotated[tuple[Length, Length, Length], BeforeValidator(_read_position)]
Polarization = Literal["x", "y", "r", "l"]
FeedAngles = list[Annotated[Angle, Field(ge=-360, le=360)]]


class ObservationTable(Table):
    """``[observation]``: what it is called, when sample 0 was taken, how long it lasts."""

    name: str = Field(
        "observation", pattern=r"^[A-Za-z0-9_.+-]+$", description="names the files: letters, digits and _ . + -"
    )
    sync_time: str = Field(
        description="UTC of ADC sample 0, with a final Z, or Unix seconds in quotes",
        examples=['"2026-03-20T20:00:00Z"'],
    )
    duration: Duration | None = Field(
        None, gt=0, description="how much signal, live from the first integration on; until stopped if absent"
    )
    observer: str = Field("", max_length=64, description="who observes, in the files")
    project: str = Field("", max_length=64, description="proposal or project code, in the files")

    @field_validator("sync_time", mode="before")
    @classmethod
    def _sync_text(cls, value: Any) -> Any:
        wanted = 'write UTC in quotes with a final Z, such as "2026-03-20T20:00:00Z", or Unix seconds in quotes'
        if not isinstance(value, str):
            raise ValueError(wanted)
        if not re.fullmatch(r"\d{1,11}(\.\d{1,12})?|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,12})?Z", value, re.ASCII):
            raise ValueError(wanted)
        try:
            tai = parse_utc(value)
        except ValueError as error:
            raise ValueError(f"is no date and time: {error}") from None
        if tai >= _LAST_TIME:
            raise ValueError(f"lies after {iso(_LAST_TIME, 0)}, beyond what is known of the Earth's rotation; {wanted}")
        return value


class LocationTable(Table):
    """``array.location``: WGS84 latitude, longitude and height, or ITRF x, y, z."""

    latitude: Angle | None = Field(None, ge=-90, le=90, description="geodetic, WGS84, north positive")
    longitude: Angle | None = Field(None, ge=-360, le=360, description="east positive")
    height: Length | None = Field(None, description="above the WGS84 ellipsoid")
    itrf: Position | None = Field(None, description="geocentric x, y, z instead of the three above")

    @model_validator(mode="after")
    def _one_form(self) -> LocationTable:
        geodetic = [self.latitude, self.longitude, self.height]
        if self.itrf is None and any(v is None for v in geodetic):
            raise ValueError('give latitude, longitude and height, or itrf = ["x m", "y m", "z m"]')
        if self.itrf is not None and any(v is not None for v in geodetic):
            raise ValueError("give either latitude, longitude and height, or itrf, not both")
        return self


class AntennaTable(Table):
    """``[[array.antennas]]``: a name, a position and what is known of its signal path."""

    name: str = Field(pattern=r"^\S+$", description="without spaces, no two alike", examples=['"A0"'])
    enu: Position | None = Field(None, description="east, north, up from the array's location")
    itrf: Position | None = Field(None, description="geocentric x, y, z")
    diameter: Length = Field(12.0, gt=0, description="of the dish")
    feed_angles: FeedAngles = Field(
        default_factory=list,
        description="position angles of this antenna's feeds, one a polarization; the array's if absent",
        examples=['["45 deg", "-45 deg"]'],
    )
    cable_delay: list[Seconds] = Field(default_factory=list, description="signal path delay, one a polarization")
    digitizers: EndpointRanges = Field(
        default_factory=list,
        description="where its digitizers send to, in place of network.digitizers: one for all polarizations, or a "
        "list with one a polarization; packets take turns in the groups of a range",
        examples=['["239.102.0.64+7:7148", "239.102.0.72+7:7148"]'],
    )

    @model_validator(mode="after")
    def _one_position(self) -> AntennaTable:
        if (self.enu is None) == (self.itrf is None):
            raise ValueError('give one position: enu = ["east m", "north m", "up m"] or itrf = ["x m", "y m", "z m"]')
        return self


class ArrayTable(Table):
    """``[array]``: where it is and what stands there."""

    name: str = Field("array", description="telescope name in the files")
    location: LocationTable = Field(
        description="the origin of east, north, up",
        examples=['{ latitude = "-30.7 deg", longitude = "21.4 deg", height = "1050 m" }'],
    )
    polarizations: list[Polarization] = Field(
        default=["x", "y"], min_length=1, max_length=2, description="of every antenna, in input order; x, y or r, l"
    )
    x_orientation: Literal["east", "north"] = Field(
        "east", description="where linear feeds x point, y to the other of the two; feed_angles says it otherwise"
    )
    feed_angles: FeedAngles = Field(
        default_factory=list,
        description="in place of x_orientation: position angle of each polarization's feed, from north (zenith for a "
        "steerable mount) through east; of circular feeds where their phase is 0",
        examples=['["90 deg", "0 deg"]'],
    )
    antennas: list[AntennaTable] = Field(default_factory=list, description="the antennas, in input order")
    mount: Literal["alt-az", "fixed", "equatorial"] = Field(
        "alt-az", description="how dishes are mounted; feeds turn on the sky unless it is equatorial"
    )
    antenna_file: str | None = Field(
        None,
        description="instead: a text file beside this one, a line an antenna: name, east, north, up (m); then, where "
        "they differ, diameter=13.5 (m), feed_angles=45,-45 (degrees) and the addresses of its digitizers",
    )

    @field_validator("polarizations")
    @classmethod
    def _one_basis(cls, value: list[str]) -> list[str]:
        if len(set(value)) != len(value):
            raise ValueError("polarizations must differ")
        if {"x", "y"} & set(value) and {"r", "l"} & set(value):
            raise ValueError("polarizations are linear (x, y) or circular (r, l), not mixed")
        return value

    @field_validator("antennas")
    @classmethod
    def _distinct(cls, value: list[AntennaTable]) -> list[AntennaTable]:
        names = Counter(a.name for a in value)
        if twice := sorted(name for name, count in names.items() if count > 1):
            raise ValueError(f"antenna names must differ; more than once: {', '.join(twice)}")
        return value

    @model_validator(mode="after")
    def _oriented_once(self) -> ArrayTable:
        if "x_orientation" in self.model_fields_set:
            if self.feed_angles:
                raise ValueError("give x_orientation or feed_angles, not both")
            if not {"x", "y"} & set(self.polarizations):
                raise ValueError("x_orientation is of linear feeds; remove it, circular ones may have feed_angles")
        return self

    @model_validator(mode="after")
    def _described_once(self) -> ArrayTable:
        if bool(self.antennas) == bool(self.antenna_file):
            raise ValueError("describe the antennas once: [[array.antennas]] tables or antenna_file")
        return self


class BandTable(Table):
    """``[band]``: how baseband maps to the sky."""

    sample_rate: Frequency = Field(gt=0, description="of the ADC; complex samples count once", examples=['"1.712 GHz"'])
    lo: Frequency = Field(
        Fraction(0), description="sky frequency that the mixers bring to zero: the sum of the local oscillators"
    )
    sideband: Literal["upper", "lower"] = Field(
        "upper", description="lower: sky frequency falls as the frequency after the mixers rises"
    )
    nyquist_zone: int = Field(1, ge=1, le=1000, description="of the ADC; zone 2 is sample_rate / 2 to sample_rate")


class InputTable(Table):
    """``[[inputs]]``: which stream carries which antenna and polarization."""

    stream: int = Field(
        ge=0,
        lt=1 << 48,
        description="digitizer ID on the wire; with fengine.packets the number of the input there, or of the F-engine",
        examples=["0"],
    )
    input: int | None = Field(
        None, ge=0, lt=1 << 16, description="input within the packets of F-engine stream; with fengine.packets only"
    )
    antenna: str = Field(description="name of the antenna", examples=['"A0"'])
    polarization: Polarization = Field(description="one of array.polarizations", examples=['"x"'])
    conjugate: bool = Field(False, description="complex samples, or others' spectra, arrive conjugated")
    digitizers: EndpointRanges = Field(
        default_factory=list,
        description="where this input's digitizer sends to, in place of its antenna's: one or more",
    )


class DigitizerTable(Table):
    """``[digitizer]``: what a sample is, and the packets that it comes in."""

    packets: str = Field(
        "meerkat_digitizer",
        description="format of the packets: a shipped name or a TOML file beside this one; see `ryle wire list`",
    )
    select: dict[str, int] = Field(
        default_factory=dict,
        description="values of header fields that tell streams apart and that [[inputs]] does not give, such as a band",
    )
    bits: int = Field(10, description="of a sample, or of each part of a complex one: 1 to 10, 12, 16, or 32 (float)")
    complex: bool = Field(False, description="samples are complex, real part first")
    heap_samples: int = Field(4096, ge=8, le=1 << 20, description="samples in a heap, which is one packet")

    @field_validator("bits")
    @classmethod
    def _known_bits(cls, value: int) -> int:
        if value not in DIGITIZER_BITS:
            raise ValueError("bits must be one of " + ", ".join(map(str, DIGITIZER_BITS)) + " (32 is IEEE float)")
        return value


class PhaseCentreTable(Table):
    """``[phase_centre]``: where delays are tracked to; without it data are not phase-tracked (unprojected)."""

    name: str = Field("phase centre", description="in the files")
    ra: Angle = Field(ge=-360, le=360, description="right ascension, ICRS", examples=['"12h30m49.4s"'])
    dec: Angle = Field(ge=-90, le=90, description="declination, ICRS", examples=['"-30d43m17.5s"'])


class OutputTable(Table):
    """``[output]``: what is written."""

    directory: str = Field(".", description="where files are written")
    formats: list[Literal["uvh5", "ms", "uvfits", "miriad"]] = Field(
        ["uvh5"], description="of the visibilities; all but uvh5 are exported from it at the end"
    )
    min_fraction: float = Field(
        0.5,
        ge=0,
        le=1,
        description="of an integration that must have contributed to a visibility; with less it is kept and flagged",
    )
    split_polarizations: bool = Field(False, description="one MIRIAD dataset for each polarization product")
    as_recorded: bool = Field(
        False, description="exports keep x and y as they are, though readers take x to the north; uvh5 always does"
    )
    stream: EndpointText | None = Field(
        None,
        description="serve integrations here by TCP as they are written; of several catchers each at the next port",
        examples=['"127.0.0.1:17950"'],
    )
    pictures: bool = Field(False, description="draw bandpass, fringes, losses and the like at the end")


class VdifInputTable(Table):
    """``[[vdif.inputs]]``: which file, thread and channel carry which antenna and polarization."""

    file: int = Field(0, ge=0, description="index of the file on the command line")
    thread: int = Field(0, ge=0, le=1023, description="VDIF thread ID")
    channel: int | None = Field(None, ge=0, description="VDIF channel; if absent, channel b is band b")
    band: int | None = Field(None, ge=0, description="index into [[vdif.bands]]; with channel only; 0 if absent")
    antenna: str = Field(description="name of the antenna", examples=['"A0"'])
    polarization: Polarization = Field(description="one of array.polarizations", examples=['"x"'])
    clock_offset: Seconds = Field(0.0, description="the station's clock minus UTC: subtracted from its time stamps")

    @model_validator(mode="after")
    def _band_needs_channel(self) -> VdifInputTable:
        if self.band is not None and self.channel is None:
            raise ValueError("band is given without channel: name the VDIF channel that it is in")
        return self


class VdifBandTable(Table):
    """``[[vdif.bands]]``: what one band of the recording is on the sky; it has the sample rate of ``[band]``."""

    name: str = Field("", pattern=r"^[A-Za-z0-9_.+-]*$", description="stands in the file name")
    lo: Frequency = Field(description="as in [band]", examples=['"1.4 GHz"'])
    sideband: Literal["upper", "lower"] = Field("upper", description="as in [band]")


class VdifTable(Table):
    """``[vdif]``: how recordings map to the array."""

    inputs: list[VdifInputTable] = Field(min_length=1, description="what carries which antenna and polarization")
    bands: list[VdifBandTable] = Field(default_factory=list, description="[band] alone if absent")
