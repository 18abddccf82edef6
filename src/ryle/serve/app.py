"""The web application of `ryle serve`: what runs on this machine, for people in browsers and for other programs.

By itself it has no route that changes anything. Requests that name a host by which this machine is not known are
refused: a web page elsewhere could else let a browser read what only this machine may (DNS rebinding). So are
websockets, and requests that change something, of pages that come from elsewhere.
"""

from __future__ import annotations

import ipaddress
import json
import socket
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from types import FrameType
from urllib.parse import urlsplit

import uvicorn
from fastapi import FastAPI, Response, WebSocket
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ryle import __version__
from ryle.serve.live import Live
from ryle.serve.metrics import router
from ryle.serve.pages import add_pages
from ryle.serve.plain import plain
from ryle.watch.watcher import Watching

_LONGEST = 256 << 20  # bytes that a request may carry: gains of many channels, spelled out

#: Of every answer: a browser runs, frames, guesses and keeps nothing of it. Pages have a policy of their own.
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
        With the page at ``/``, its looks at the websocket ``/api/live``, ``GET /metrics``, ``GET /api/sight`` and their
        description, ``GET /docs`` and ``GET /openapi.json``.
    """

    @asynccontextmanager
    async def running() -> AsyncIterator[None]:
        async with beside():
            yield

    # The pages that FastAPI makes of the description load their scripts from elsewhere.
    app = FastAPI(title="Ryle", version=__version__, docs_url=None, redoc_url=None, lifespan=lambda _: running())
    app.include_router(router(watcher))
    add_pages(app)
    live = Live(watcher)

    @app.get("/api/sight", response_class=Response, summary="All that is known of the correlator now")
    def sight() -> Response:
        return Response(json.dumps(plain(watcher.sight())), media_type="application/json")

    @app.websocket("/api/live")
    async def looks(connection: WebSocket) -> None:
        await live.serve(connection)

    app.add_middleware(_Guard, names=known_names(names))
    return app


def server_config(app: FastAPI) -> uvicorn.Config:
    """Say how an application is served."""
    return uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        ws="websockets-sansio",
        ws_max_size=4096,  # bytes that a viewer may say
        # Maps and spectra hardly become smaller, and to compress them anew for each viewer took half of the time.
        ws_per_message_deflate=False,
        limit_concurrency=100,  # connections; a scraper has one, a page a few
        timeout_graceful_shutdown=3,
    )


class Server(uvicorn.Server):
    """Ends in order within the time that its `server_config` gives it, however often it is asked to."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Take a signal; uvicorn's own would break off what ends at the second one, and print where it was."""
        self.should_exit = True


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


def is_own(headers: Headers, host: str) -> bool:
    """Whether a request is of no web page, or of one that came from this host and port: browsers say so in Origin."""
    origins = headers.getlist("origin")
    if not origins:
        return True
    try:
        found = urlsplit(origins[0])
    except ValueError:
        return False
    return len(origins) == 1 and found.scheme in ("http", "https") and found.netloc.lower() == host.lower()


def _too_long(headers: Headers) -> bool:
    """Whether what a request carries is longer than is taken, or of no known length."""
    said = headers.get("content-length", "0" if "transfer-encoding" not in headers else "")
    return not said.isdecimal() or len(said) > 12 or int(said) > _LONGEST


class _Guard:
    """Refuses requests for other hosts, or of others' pages, and what is too long; adds what browsers are told."""

    def __init__(self, app: ASGIApp, names: frozenset[str]) -> None:
        self._app, self._names = app, names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        known = len(hosts) == 1 and is_known(hosts[0], self._names)
        if scope["type"] == "websocket":
            if known and is_own(headers, hosts[0]):
                await self._app(scope, receive, send)
            else:  # before it is accepted: the server answers 403
                await send({"type": "websocket.close", "code": 1008})
            return

        async def secured(message: Message) -> None:
            if message["type"] == "http.response.start":
                found = MutableHeaders(scope=message)
                for name, value in SECURITY.items():
                    found.setdefault(name, value)
            await send(message)

        changes = scope["method"] not in ("GET", "HEAD")
        if changes and _too_long(headers):
            text = f"send at most {_LONGEST >> 20} MiB, and say how long it is (Content-Length)\n"
            await PlainTextResponse(text, 413)(scope, receive, secured)
        elif not known:
            who = " or ".join(sorted(self._names))
            text = f"this is not a name of this machine; ask for its address, or for {who}\n"
            await PlainTextResponse(text, 421)(scope, receive, secured)
        elif changes and not is_own(headers, hosts[0]):
            await PlainTextResponse("a page from elsewhere may change nothing here\n", 403)(scope, receive, secured)
        else:
            await self._app(scope, receive, secured)
