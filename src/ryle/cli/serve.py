"""`ryle serve`: what runs on this machine, for Prometheus, other programs, and who steers it."""

from __future__ import annotations

import errno
import secrets
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from ryle.serve.telescope import Telescope
    from ryle.watch.watcher import Watcher

_SHORTEST = 16  # characters of a token


def serve(
    host: Annotated[
        str, typer.Option(help="Address to listen at; 0.0.0.0 lets every machine that reaches this one read.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="TCP port; 0 takes a free one.", min=0, max=65535)] = 8080,
    observation: Annotated[
        str | None, typer.Option(help="Name of the observation; the run that started last if absent.")
    ] = None,
    dashboards: Annotated[
        Path | None,
        typer.Option(
            help="Write Grafana's dashboards, Prometheus' alert rules and an example of its settings there, and end.",
            metavar="DIR",
            file_okay=False,
        ),
    ] = None,
    control: Annotated[
        bool, typer.Option("--control", help="Let whoever shows the token that is printed steer it, at /api/control.")
    ] = False,
    token_file: Annotated[
        Path | None,
        typer.Option(help="File with the token, of 16 characters or more, in place of a new one.", dir_okay=False),
    ] = None,
    katcp: Annotated[
        int | None,
        typer.Option(
            help="Also let whoever connects to this TCP port of --host steer it by katcp, which knows no tokens.",
            metavar="PORT",
            min=0,
            max=65535,
        ),
    ] = None,
) -> None:
    """Serve a correlator's figures to Prometheus, and its state as JSON, until Ctrl-C.

    GET /metrics has the figures of all engines on this machine, as text for Prometheus; GET /api/sight has the state
    and the alarms, as JSON. It takes nothing from the correlator, and changes nothing without --control or --katcp.
    Start it before, while or after the correlator runs, once on each machine.
    """
    if dashboards is not None:
        from ryle.serve.dashboards import write_dashboards

        for path in write_dashboards(dashboards):
            typer.echo(path)
        return
    _be_able_to_serve()
    token = _token(token_file) if control else ""
    import uvicorn

    from ryle.serve.app import application
    from ryle.serve.telescope import Telescope
    from ryle.watch.watcher import Watcher

    with _listening(host, port) as listening, Watcher(observation) as watcher, Telescope(observation) as telescope:
        app = application(watcher, [host], lambda: _katcp(telescope, watcher, host, katcp))
        if control:
            from ryle.serve.control import add_to

            add_to(app, telescope, token)
        config = uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            server_header=False,
            ws="none",
            limit_concurrency=100,  # connections; a scraper has one
            timeout_graceful_shutdown=3,
        )
        config.load()
        where = f"http://{_written(host)}:{listening.getsockname()[1]}"
        with suppress(KeyboardInterrupt):
            signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGINT))  # what ends services ends it as Ctrl-C does
            typer.echo(f"serving {where}/metrics and {where}/api/sight; Ctrl-C ends it")
            if control:
                shown = f"the token in {token_file}" if token_file else f"this token: {token}"
                typer.echo(f"steering at {where}/api/control, with {shown}")
            uvicorn.Server(config).run(sockets=[listening])


def _token(file: Path | None) -> str:
    """Make the token that whoever steers has to show, or read it."""
    if file is None:
        return secrets.token_urlsafe(32)
    try:
        found = file.read_text().strip()
    except OSError as error:
        raise typer.BadParameter(f"{file} cannot be read: {error.strerror}") from None
    except UnicodeError:
        found = ""
    if len(found) < _SHORTEST or not found.isascii() or not found.isprintable() or " " in found:
        raise typer.BadParameter(f"{file} holds no token: put one line of {_SHORTEST} or more letters and digits there")
    return found


@asynccontextmanager
async def _katcp(telescope: Telescope, watcher: Watcher, host: str, port: int | None) -> AsyncIterator[None]:
    """Serve katcp too, if asked."""
    if port is None:
        yield
        return
    from ryle.serve.katcp import KatcpServer

    server = KatcpServer(telescope, watcher, host, port)
    try:
        await server.start()
    except OSError as error:
        raise OSError(f"cannot serve katcp at {host}, port {port}: {error.strerror}; give another --katcp") from None
    typer.echo(f"steering by katcp at {host} port {server.sockets[0].getsockname()[1]}, for whoever connects")
    try:
        yield
    finally:
        await server.stop()


def _be_able_to_serve() -> None:
    """See that there is what it needs; says what to do."""
    try:
        import fastapi  # noqa: F401
        import prometheus_client  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise RuntimeError(f"ryle serve needs {error.name}: pip install 'ryle[watch]'") from None


def _listening(host: str, port: int) -> socket.socket:
    """Listen at an address.

    Raises
    ------
    OSError
        If that cannot be: says what to do.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        return socket.create_server(address[:2], family=family, backlog=128)
    except (socket.gaierror, UnicodeError):
        raise OSError(f"--host {host!r} is no address of this machine: give one, as 127.0.0.1") from None
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise OSError(f"port {port} of {host} is taken: give another with --port, or end what has it") from None
        if error.errno == errno.EADDRNOTAVAIL:
            raise OSError(f"--host {host!r} is no address of this machine: ip address lists them") from None
        raise OSError(f"cannot listen at {host}, port {port}: {error.strerror}") from None


def _written(host: str) -> str:
    """Write an address as URLs have it."""
    return f"[{host}]" if ":" in host else host
