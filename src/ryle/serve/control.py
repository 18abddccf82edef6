"""Steering over HTTP: what `ryle.serve.telescope.Telescope` does, as requests with JSON in them."""

from __future__ import annotations

import hmac
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Depends, FastAPI, HTTPException, Request, status
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.security import HTTPBearer
from pydantic import BaseModel, ConfigDict, Field
from starlette.types import ASGIApp, Receive, Scope, Send

from ryle.serve.telescope import Change, SteeringError, Telescope

_BELOW = "/api/control"
_T = TypeVar("_T")
_MOST_INPUTS, _MOST_CHANNELS = 65536, 1 << 20
Finite = Annotated[float, Field(allow_inf_nan=False)]
Sample = Annotated[int, Field(ge=0, lt=1 << 62, description="time stamp: ADC samples since sync_time")]
Input = Annotated[int, Field(ge=0, lt=_MOST_INPUTS)] | Annotated[str, Field(min_length=1, max_length=200)]


class _Request(BaseModel):
    """What every request has."""

    model_config = ConfigDict(extra="forbid")

    inputs: list[Input] | None = Field(
        None,
        max_length=_MOST_INPUTS,
        description='numbers, names such as "A1 x", or antennas, with all their polarizations; all if absent',
    )
    sample: Sample | None = Field(None, description="from which on it is to hold; as soon as can be if absent")
    time: str | None = Field(None, max_length=64, description="the same as UTC, ISO 8601, in place of `sample`")


class Gain(BaseModel):
    """A complex number."""

    model_config = ConfigDict(extra="forbid")

    re: Finite
    im: Finite = 0.0


class GainsRequest(_Request):
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


class DelaysRequest(_Request):
    """Delay models: one for all inputs, or one of each."""

    models: DelayModel | Annotated[list[DelayModel], Field(max_length=_MOST_INPUTS)]
    start: Sample | None = Field(None, description="time stamp at which the models are reached; `sample` if absent")


class Answer(BaseModel):
    """What was done."""

    sample: int = Field(description="time stamp of the first spectrum that has all of it, ADC samples since sync_time")
    utc: str = Field(description="the same, ISO 8601")
    engines: dict[str, int] = Field(description="the same of each engine")


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

    @found.put("/delays", responses=refusals)
    def delays(asked: DelaysRequest) -> Answer:
        """Steer inputs by delay models, and by geometry no longer."""
        many = asked.models if isinstance(asked.models, list) else [asked.models]
        rows = [[m.delay, m.rate, m.phase, m.phase_rate] for m in many]
        models = rows if isinstance(asked.models, list) else rows[0]
        return _done(
            lambda: _answer(telescope.set_delays(models, asked.inputs, _sample(telescope, asked), asked.start))
        )

    return found


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
