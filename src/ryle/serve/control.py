"""Steering over HTTP: what `ryle.serve.telescope.Telescope` does, as requests with JSON in them."""

from __future__ import annotations

import hmac
from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Depends, FastAPI, HTTPException, Query, Request, status
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.security import HTTPBearer
from pydantic import BaseModel, ConfigDict, Field
from starlette.types import ASGIApp, Receive, Scope, Send

from ryle.serve import trigger as triggers
from ryle.serve.asking import Change, SteeringError
from ryle.serve.telescope import Telescope

_BELOW = "/api/control"
_T = TypeVar("_T")
_MOST_INPUTS, _MOST_CHANNELS, _MOST_READ = 65536, 1 << 20, 64
_MOST_COEFFICIENTS = 32
Finite = Annotated[float, Field(allow_inf_nan=False)]
File = Annotated[str | None, Field(max_length=100, description="its name, without .uvh5; the next free one if absent")]
Sample = Annotated[int, Field(ge=0, lt=1 << 62, description="time stamp: ADC samples since sync_time")]
Input = Annotated[int, Field(ge=0, lt=_MOST_INPUTS)] | Annotated[str, Field(min_length=1, max_length=200)]


class _Request(BaseModel):
    """What every request has."""

    model_config = ConfigDict(extra="forbid")

    sample: Sample | None = Field(None, description="from which on it is to hold; as soon as can be if absent")
    time: str | None = Field(None, max_length=64, description="the same as UTC, ISO 8601, in place of `sample`")


class _OfInputs(_Request):
    """What a request of inputs has."""

    inputs: list[Input] | None = Field(
        None,
        max_length=_MOST_INPUTS,
        description='numbers, names such as "A1 x", or antennas, with all their polarizations; all if absent',
    )


class Gain(BaseModel):
    """A complex number."""

    model_config = ConfigDict(extra="forbid")

    re: Finite
    im: Finite = 0.0


class GainsRequest(_OfInputs):
    """Complex gains: one for all inputs, one of each, or those of each one's channels."""

    gains: (
        Gain
        | Annotated[list[Gain], Field(max_length=_MOST_INPUTS)]
        | Annotated[list[Annotated[list[Gain], Field(max_length=_MOST_CHANNELS)]], Field(max_length=_MOST_INPUTS)]
    )


class DelayModel(BaseModel):
    """A delay model, linear in time."""

    model_config = ConfigDict(extra="forbid")

    delay: Finite = Field(description="s; positive delays the input")
    rate: Finite = Field(0.0, gt=-1, lt=1, description="s/s")
    phase: Finite = Field(0.0, description="total phase at the centre of the band, rad")
    phase_rate: Finite = Field(0.0, description="rad/s")


class DelaysRequest(_OfInputs):
    """Delay models: one for all inputs, or one of each."""

    models: DelayModel | Annotated[list[DelayModel], Field(max_length=_MOST_INPUTS)]
    start: Sample | None = Field(None, description="time stamp at which the models are reached; `sample` if absent")


_Coefficients = Annotated[list[Finite], Field(min_length=1, max_length=_MOST_COEFFICIENTS)]
_OfEach = _Coefficients | Annotated[list[_Coefficients], Field(min_length=1, max_length=_MOST_INPUTS)]


class PolynomialsRequest(_OfInputs):
    """Delay polynomials: one for all inputs, or one of each."""

    delay: _OfEach = Field(description="c0 + c1·t + c2·t² …: s, s/s, s/s² …; positive delays the input")
    phase: _OfEach = Field([0.0], description="total phase at the centre of the band: rad, rad/s …")
    seconds: Finite = Field(gt=0, description="for how long they hold; what follows is a straight line")
    start: Sample | None = Field(None, description="time stamp at which t is 0; `sample` if absent")


class PhaseCentreRequest(_Request):
    """What is to be tracked; a file of its own begins with it."""

    ra: Finite = Field(ge=-360, le=360, description="right ascension, ICRS, degrees")
    dec: Finite = Field(ge=-90, le=90, description="declination, ICRS, degrees")
    name: str = Field("phase centre", min_length=1, max_length=100, description="in the file")
    file: File = None


class ScanRequest(_Request):
    """Whether integrations are written, how long they are, and to which file."""

    write: bool | None = Field(None, description="false: nothing is written from then on; as before if absent")
    file: File = None
    integration: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = Field(
        None, description="of the file, s, rounded to a multiple of that of the X-engines; as before if absent"
    )


class TriggerRequest(_OfInputs):
    """Raw samples that are to be written; `sample` is the first, which may have passed."""

    samples: Annotated[int, Field(gt=0, lt=1 << 62, description="how many; or `seconds`")] | None = None
    seconds: Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)] | None = None
    name: str = Field("trigger", pattern=r"^[A-Za-z0-9_.-]{1,64}$", description="stands in the files' names")


class Answer(BaseModel):
    """What was done."""

    sample: int = Field(description="time stamp of the first spectrum that has all of it, ADC samples since sync_time")
    utc: str = Field(description="the same, ISO 8601")
    engines: dict[str, int] = Field(description="the same of each engine")


class ScanAnswer(Answer):
    """What is written from then on."""

    file: str = Field(description="file of the whole band; empty: nothing is written")
    integration: float = Field(description="of the file, s")


class GainsAnswer(BaseModel):
    """What inputs have."""

    inputs: list[str]
    re: list[list[float]] = Field(description="real parts, by input and channel")
    im: list[list[float]]


class TriggerFile(BaseModel):
    """What one engine writes."""

    sample: int
    end: int
    file: str = Field(description="where it is, on the engine's machine")


class TriggerAnswer(BaseModel):
    """What is written."""

    sample: int = Field(description="first time stamp that all engines write, ADC samples since sync_time")
    end: int = Field(description="time stamp behind the last that all write")
    utc: str = Field(description="of the first, ISO 8601")
    engines: dict[str, TriggerFile]


class Inputs(BaseModel):
    """What can be steered."""

    observation: str
    inputs: list[str] = Field(description="antenna and polarization, in order")
    channels: int


def _plain(gain: Gain | list[Gain] | list[list[Gain]]) -> Any:
    if isinstance(gain, list):
        return [_plain(each) for each in gain]
    return complex(gain.re, gain.im)


_bearer = HTTPBearer(auto_error=False, description="the token that whoever serves this has printed")


def add_to(app: FastAPI, telescope: Telescope, token: str) -> None:
    """Add the routes below ``/api/control`` to an application.

    Parameters
    ----------
    app : FastAPI
        What is served.
    telescope : Telescope
        What is steered.
    token : str
        What whoever asks has to show (``Authorization: Bearer``).
    """
    app.include_router(_router(telescope))
    app.add_middleware(_Authorized, token=token)
    app.add_exception_handler(RequestValidationError, _malformed)


async def _malformed(_: Request, error: Exception) -> JSONResponse:
    """Say what is wrong with a request, without its values: a NaN among them is no JSON."""
    assert isinstance(error, RequestValidationError)
    wrong = [{"loc": list(map(str, e["loc"])), "msg": e["msg"], "type": e["type"]} for e in error.errors()]
    return JSONResponse({"detail": wrong}, status.HTTP_422_UNPROCESSABLE_CONTENT)


class _Authorized:
    """Refuses who does not show the token, before anything of what he sends is read."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app, self._shown = app, b"Bearer " + token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith(_BELOW) or self._allows(scope):
            await self._app(scope, receive, send)
            return
        detail = "steering needs the token that whoever serves this has printed, as Authorization: Bearer TOKEN"
        refused = JSONResponse({"detail": detail}, status.HTTP_401_UNAUTHORIZED, {"WWW-Authenticate": "Bearer"})
        await refused(scope, receive, send)

    def _allows(self, scope: Scope) -> bool:
        found = [value for name, value in scope["headers"] if name == b"authorization"]
        return len(found) == 1 and hmac.compare_digest(found[0], self._shown)


def _router(telescope: Telescope) -> APIRouter:
    found = APIRouter(prefix=_BELOW, tags=["control"], dependencies=[Depends(_bearer)])
    refusals: dict[int | str, dict[str, Any]] = {
        401: {"description": "no token, or another"},
        409: {"description": "refused, with the reason; nothing has changed"},
    }

    @found.get("/inputs", responses=refusals)
    def inputs() -> Inputs:
        """Say what can be steered."""
        return _done(
            lambda: Inputs(
                observation=telescope.observation.observation.name,
                inputs=telescope.inputs(),
                channels=telescope.observation.fengine.channels,
            )
        )

    @found.put("/gains", responses=refusals)
    def gains(asked: GainsRequest) -> Answer:
        """Set complex gains of inputs."""
        return _done(lambda: _answer(telescope.set_gains(_plain(asked.gains), asked.inputs, _sample(telescope, asked))))

    @found.get("/gains", responses=refusals)
    def read_gains(input: Annotated[list[str], Query(min_length=1, max_length=_MOST_READ)]) -> GainsAnswer:
        """Read the complex gains that some inputs have, or are to have, after all changes so far."""

        def read() -> GainsAnswer:
            gains, names = telescope.gains(input), telescope.inputs()
            numbers = telescope.numbers(input)
            return GainsAnswer(inputs=[names[n] for n in numbers], re=gains.real.tolist(), im=gains.imag.tolist())

        return _done(read)

    @found.put("/delays", responses=refusals)
    def delays(asked: DelaysRequest) -> Answer:
        """Steer inputs by delay models, and by geometry no longer."""
        many = asked.models if isinstance(asked.models, list) else [asked.models]
        rows = [[m.delay, m.rate, m.phase, m.phase_rate] for m in many]
        models = rows if isinstance(asked.models, list) else rows[0]
        return _done(
            lambda: _answer(telescope.set_delays(models, asked.inputs, _sample(telescope, asked), asked.start))
        )

    @found.put("/polynomials", responses=refusals)
    def polynomials(asked: PolynomialsRequest) -> Answer:
        """Steer inputs by delay polynomials, and by geometry no longer."""

        def change() -> Answer:
            sample = _sample(telescope, asked)
            p = asked
            return _answer(telescope.set_polynomials(p.delay, p.seconds, p.phase, p.inputs, sample, p.start))

        return _done(change)

    @found.put("/phase-centre", responses=refusals)
    def phase_centre(asked: PhaseCentreRequest) -> ScanAnswer:
        """Track another phase centre with all inputs, and begin a file for it."""
        return _done(
            lambda: _scan(
                telescope.set_phase_centre(asked.ra, asked.dec, asked.name, _sample(telescope, asked), asked.file)
            )
        )

    @found.put("/scan", responses=refusals)
    def scan(asked: ScanRequest) -> ScanAnswer:
        """Begin a file, with another length of integrations if wanted, or write none."""
        return _done(
            lambda: _scan(telescope.set_scan(asked.write, asked.file, asked.integration, _sample(telescope, asked)))
        )

    @found.put("/trigger", responses=refusals)
    def trigger(asked: TriggerRequest) -> TriggerAnswer:
        """Write raw samples to files, while they are correlated."""
        if (asked.samples is None) == (asked.seconds is None):
            raise HTTPException(status.HTTP_409_CONFLICT, "give samples or seconds, and not both")
        return _done(
            lambda: TriggerAnswer(
                **asdict(
                    triggers.trigger(
                        telescope,
                        samples=asked.samples,
                        seconds=asked.seconds,
                        sample=_sample(telescope, asked),
                        inputs=asked.inputs,
                        name=asked.name,
                    )
                )
            )
        )

    @found.delete("/trigger", responses=refusals)
    def stop_trigger() -> TriggerAnswer:
        """End what a trigger writes; what is written stays."""
        return _done(lambda: TriggerAnswer(**asdict(triggers.stop(telescope))))

    return found


def _scan(change: Change) -> ScanAnswer:
    said = next(each for each in change.said.values() if "file" in each)
    return ScanAnswer(**_answer(change).model_dump(), file=said["file"], integration=said["integration"])


def _sample(telescope: Telescope, asked: _Request) -> int | None:
    if asked.time is None:
        return asked.sample
    if asked.sample is not None:
        raise SteeringError("give sample or time, not both")
    return telescope.sample_at(asked.time)


def _answer(change: Change) -> Answer:
    return Answer(sample=change.sample, utc=change.utc, engines=change.engines)


def _done(what: Callable[[], _T]) -> _T:
    try:
        return what()
    except (SteeringError, OverflowError) as error:
        raise HTTPException(status.HTTP_409_CONFLICT, str(error)) from None
