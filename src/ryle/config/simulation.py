"""The tables of an observation file that stand in for a sky, an array and a network: ``[simulate]`` and below."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from ryle.config.tables import Table
from ryle.config.units import Angle, Duration, Flux, Hertz, Seconds


class SourceTable(Table):
    """``[[simulate.sources]]``: a point source with full Stokes parameters at a reference frequency."""

    name: str = Field("", description="for tables and pictures")
    ra: Angle = Field(ge=-360, le=360, description="right ascension, ICRS", examples=['"12h30m49.4s"'])
    dec: Angle = Field(ge=-90, le=90, description="declination, ICRS", examples=['"-30d43m17.5s"'])
    flux: Flux = Field(ge=0, description="Stokes I", examples=['"2.5 Jy"'])
    q: Flux = Field(0.0, description="Stokes Q")
    u: Flux = Field(0.0, description="Stokes U")
    v: Flux = Field(0.0, description="Stokes V")
    spectral_index: float = Field(0.0, ge=-5, le=5, description="a of flux ∝ frequency to the power a")
    reference_frequency: Hertz | None = Field(None, gt=0, description="where flux holds; band centre if absent")

    @model_validator(mode="after")
    def _physical(self) -> SourceTable:
        if self.q**2 + self.u**2 + self.v**2 > self.flux**2 * (1 + 1e-12):
            raise ValueError("polarized flux exceeds the total: sqrt(q² + u² + v²) must be at most flux")
        return self


class RfiTable(Table):
    """``[[simulate.rfi]]``: a tone at every antenna."""

    frequency: Hertz = Field(description="on the sky", examples=['"1.41 GHz"'])
    level: float = Field(gt=0, description="rms in units of the receiver noise rms", examples=["0.5"])
    antennas: list[str] = Field(default_factory=list, description="names of those that hear it; all if empty")


class FaultsTable(Table):
    """``[simulate.faults]``: what happens to packets on their way, one thing at most; fractions of all."""

    loss: float = Field(0.0, ge=0, le=1, description="fraction that never arrive")
    duplicate: float = Field(0.0, ge=0, le=1, description="fraction that arrive twice")
    reorder: float = Field(0.0, ge=0, le=1, description="fraction that are overtaken by later ones")
    reorder_distance: int = Field(8, ge=1, le=1024, description="packets that a delayed one is overtaken by, at most")
    corrupt: float = Field(0.0, ge=0, le=1, description="fraction that arrive damaged: unreadable, or cut short")
    seed: int = Field(1, ge=0, lt=1 << 63, description="same seed, same faults")

    @model_validator(mode="after")
    def _shares(self) -> FaultsTable:
        if self.loss + self.duplicate + self.reorder + self.corrupt > 1 + 1e-12:
            raise ValueError(
                "a packet suffers at most one fault: loss, duplicate, reorder, corrupt must be at most 1 in all"
            )
        return self

    @property
    def any(self) -> bool:
        """Whether anything goes wrong at all."""
        return self.loss + self.duplicate + self.reorder + self.corrupt > 0


class SimulateTable(Table):
    """``[simulate]``: the sky, the receivers and the digitizers that stand in for an array."""

    seed: int = Field(1, ge=0, lt=1 << 63, description="same seed, same bits")
    speed: float | Literal["max"] = Field(1.0, description="fraction of real time; max: as fast as it can be made")
    replay: Duration | None = Field(None, gt=0, description="make this much signal once and send it again and again")
    sources: list[SourceTable] = Field(default_factory=list, description="the sky")
    sefd: Flux = Field(400.0, gt=0, description="system equivalent flux density without sources, one polarization")
    rms: float = Field(30.0, gt=0, description="receiver noise rms in ADC steps")
    gain_error: float = Field(0.0, ge=0, lt=1, description="rms fractional amplitude error of an input")
    phase_error: Angle = Field(0.0, ge=0, description="rms phase error of an input")
    delay_error: Seconds = Field(0.0, ge=0, description="rms delay that the F-engines do not know of")
    bandpass_ripple: float = Field(0.0, ge=0, lt=0.5, description="rms fractional ripple over the band")
    rfi: list[RfiTable] = Field(default_factory=list, description="tones of interference")
    faults: FaultsTable = Field(FaultsTable(), description="what happens to packets on their way")

    @field_validator("speed", mode="before")
    @classmethod
    def _positive(cls, value: Any) -> Any:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if value != "max" and not (number and 0 < value < 1e9):
            raise ValueError('must be a fraction of real time above 0, such as 0.1, or "max"')
        return float(value) if number else value
