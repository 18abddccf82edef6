"""The tables of an observation file that stand in for a sky, an array and a network: ``[simulate]`` and below."""

from __future__ import annotations

from fractions import Fraction
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
    """``[[simulate.rfi]]``: interference at every antenna, from a transmitter on the horizon: a tone, or many."""

    frequency: Hertz = Field(description="on the sky", examples=['"1.41 GHz"'])
    level: float = Field(gt=0, description="rms in units of the receiver noise rms", examples=["0.5"])
    bandwidth: Hertz = Field(0.0, ge=0, description="that its 16 carriers are spread over; 0: a tone")
    start: Duration = Field(Fraction(0), ge=0, description="when it begins, from sample 0 on")
    stop: Duration | None = Field(None, gt=0, description="when it is over; never if absent")
    antennas: list[str] = Field(default_factory=list, description="names of those that hear it; all if empty")

    @model_validator(mode="after")
    def _lasts(self) -> RfiTable:
        _check_times(self.start, self.stop)
        return self


#: What each kind of defect needs, may have beside names and times.
_OF_KINDS: dict[str, tuple[set[str], set[str]]] = {
    "dead": (set(), set()),
    "clipping": (set(), {"factor"}),
    "swapped": (set(), set()),
    "exchanged": (set(), set()),
    "delay": ({"delay"}, set()),
    "noise": (set(), set()),
    "loss": ({"loss"}, set()),
    "jump": ({"samples"}, set()),
}


class DefectTable(Table):
    """``[[simulate.defects]]``: something that is wrong with some antennas or inputs, for a while or for good."""

    kind: Literal["dead", "clipping", "swapped", "exchanged", "delay", "noise", "loss", "jump"] = Field(
        description="all zeros; driven beyond the ADC's scale; polarizations exchanged; two antennas exchanged; a "
        "delay that nobody knows of; receiver noise without sky; packets lost; time stamps that jump",
        examples=['"dead"'],
    )
    input: str | list[str] = Field(
        default_factory=list, description='antennas such as "A3", or inputs such as "A3 x"; all if empty'
    )
    start: Duration = Field(Fraction(0), ge=0, description="when it begins, from sample 0 on")
    stop: Duration | None = Field(None, gt=0, description="when it is over; never if absent")
    factor: float | None = Field(
        None, gt=1, le=1e6, description="clipping: gain; if absent, what brings rms to the end of the scale"
    )
    delay: Seconds | None = Field(None, description="delay: how much later the signal comes")
    loss: float | None = Field(None, gt=0, le=1, description="loss: fraction of the packets that never arrive")
    samples: int | None = Field(None, description="jump: what time stamps are advanced by, whole packets")

    @property
    def names(self) -> list[str]:
        """Antennas and inputs as they are named; all if empty."""
        return [self.input] if isinstance(self.input, str) else self.input

    @model_validator(mode="after")
    def _of_its_kind(self) -> DefectTable:
        needed, possible = _OF_KINDS[self.kind]
        for key in ("factor", "delay", "loss", "samples"):
            given = getattr(self, key) is not None
            if key in needed and not given:
                raise ValueError(f'a defect of kind "{self.kind}" needs {key}')
            if given and key not in needed | possible:
                raise ValueError(f'a defect of kind "{self.kind}" has no {key}: remove it')
        if self.delay == 0 or self.samples == 0:
            raise ValueError(f'a defect of kind "{self.kind}" by 0 is none: remove it')
        if len(set(self.names)) < len(self.names):
            raise ValueError("an input is named twice: name each once")
        if self.kind == "exchanged" and len(self.names) != 2:
            raise ValueError('antennas are exchanged in pairs: name two, such as input = ["A1", "A2"]')
        _check_times(self.start, self.stop)
        return self


def _check_times(start: Fraction, stop: Fraction | None) -> None:
    if stop is not None and stop <= start:
        raise ValueError("it is over before it begins: stop must be after start")


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
    rfi: list[RfiTable] = Field(default_factory=list, description="interference")
    defects: list[DefectTable] = Field(default_factory=list, description="what is wrong with the array")
    faults: FaultsTable = Field(FaultsTable(), description="what happens to packets on their way")

    @field_validator("speed", mode="before")
    @classmethod
    def _positive(cls, value: Any) -> Any:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if value != "max" and not (number and 0 < value < 1e9):
            raise ValueError('must be a fraction of real time above 0, such as 0.1, or "max"')
        return float(value) if number else value
