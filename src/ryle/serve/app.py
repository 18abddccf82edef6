"""The web application of `ryle serve`: what runs on this machine, for other programs to read.

By itself it has no route that changes anything. Requests that name a host by which this machine is not known are
refused: a web page elsewhere could else let a browser read what only this machine may (DNS rebinding).
"""

from __future__ import annotations

import ipaddress
import json
import socket
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import fields, is_dataclass
from typing import Any

from fastapi import FastAPI, Response
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ryle import __version__
from ryle.serve.metrics import router
from ryle.watch.sight import Sight
from ryle.watch.watcher import Watching

_LONGEST = 256 << 20  # bytes that a request may carry: gains of many channels, spelled out
_DEEPEST = 16  # tables within tables that are told; figures of engines have two

#: Of every answer: a browser runs, frames, guesses and keeps nothing of it.
SECURITY = {
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


def application(
    watcher: Watching,
    names: Iterable[str] = (),
    beside: Callable[[], AbstractAsyncContextManager[object]] = nullcontext,
) -> FastAPI:
    """Make the application.

    Parameters
    ----------
    watcher : Watching
        Where looks come from.
    names : iterable of str
        By which this machine is known, besides its own name, ``localhost`` and addresses.
    beside : callable
        Gives what runs while it is served.

    Returns
    -------
    FastAPI
        With ``GET /metrics``, ``GET /api/sight`` and its description, ``GET /openapi.json``.
    """

    @asynccontextmanager
    async def running() -> AsyncIterator[None]:
        async with beside():
            yield

    # The pages that FastAPI makes of the description load their scripts from elsewhere.
    app = FastAPI(title="Ryle", version=__version__, docs_url=None, redoc_url=None, lifespan=lambda _: running())
    app.include_router(router(watcher))

    @app.get("/api/sight", response_class=Response, summary="All that is known of the correlator now")
    def sight() -> Response:
        return Response(json.dumps(plain(watcher.sight())), media_type="application/json")

    app.add_middleware(_Guard, names=known_names(names))
    return app


def plain(sight: Sight) -> dict[str, Any]:
    """Give a look ready for JSON, without its arrays; what is unknown, or no finite number, is None."""
    found: dict[str, Any] = _plain({f.name: getattr(sight, f.name) for f in fields(sight) if f.name != "glance"}, 0)
    return found


def _plain(value: Any, depth: int) -> Any:
    if depth > _DEEPEST:
        return None
    if is_dataclass(value):
        return {f.name: _plain(getattr(value, f.name), depth + 1) for f in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(member, depth + 1) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(member, depth + 1) for member in value]
    if isinstance(value, float):
        return value if abs(value) < float("inf") else None  # NaN is not
    return value if isinstance(value, str | int | None) else None


def known_names(more: Iterable[str] = ()) -> frozenset[str]:
    """Names of this machine, small letters; more are added."""
    own = socket.gethostname()
    return frozenset(name.lower().rstrip(".") for name in ("localhost", own, socket.getfqdn(own), *more) if name)


def is_known(host: str, names: frozenset[str]) -> bool:
    """Whether a request's Host header is of this machine: one of its names, or any address, which nobody can rebind."""
    name = host[: host.find("]") + 1] if host.startswith("[") else host.partition(":")[0]
    if name.lower().rstrip(".") in names:
        return True
    try:
        ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True


def _too_long(headers: Headers) -> bool:
    """Whether what a request carries is longer than is taken, or of no known length."""
    said = headers.get("content-length", "0" if "transfer-encoding" not in headers else "")
    return not said.isdecimal() or len(said) > 12 or int(said) > _LONGEST


class _Guard:
    """Refuses requests for other hosts, and what is too long, and adds what browsers are told to every answer."""

    def __init__(self, app: ASGIApp, names: frozenset[str]) -> None:
        self._app, self._names = app, names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def secured(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(SECURITY)
            await send(message)

        if scope["method"] not in ("GET", "HEAD") and _too_long(Headers(scope=scope)):
            text = f"send at most {_LONGEST >> 20} MiB, and say how long it is (Content-Length)\n"
            await PlainTextResponse(text, 413)(scope, receive, secured)
            return
        hosts = Headers(scope=scope).getlist("host")
        if len(hosts) == 1 and is_known(hosts[0], self._names):
            await self._app(scope, receive, secured)
            return
        text = f"this is not a name of this machine; ask for its address, or for {' or '.join(sorted(self._names))}\n"
        await PlainTextResponse(text, 421)(scope, receive, secured)
