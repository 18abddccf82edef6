"""`ryle serve`: what runs on this machine, in browsers, for Prometheus and other programs, and for who steers it."""

from __future__ import annotations

import errno
import secrets
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ryle.cli import arguments

if TYPE_CHECKING:
    from ryle.serve.telescope import Telescope
    from ryle.watch.watcher import Watching

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
    record: arguments.Record = None,
    replay: arguments.Replay = None,
    speed: arguments.Speed = 1.0,
) -> None:
    """Watch a correlator in a browser, and give its figures to Prometheus, until Ctrl-C.

    The page at / shows engines, losses, inputs, spectra, fringes, images and alarms, to up to 40 people at once. GET
    /metrics has the figures of all engines on this machine, as text for Prometheus; GET /api/sight has the state and
    the alarms, as JSON; /docs lists it all. It takes nothing from the correlator, and changes nothing without --control
    or --katcp. Start it before, while or after the correlator runs, once on each machine.
    """
    if dashboards is not None:
        from ryle.serve.dashboards import write_dashboards

        for path in write_dashboards(dashboards):
            typer.echo(path)
        return
    if replay is not None and (record is not None or observation is not None or control or katcp is not None):
        raise ValueError("--replay shows a file: leave --record, --observation, --control and --katcp out")
    _be_able_to_serve()
    token = _token(token_file) if control else ""
    from ryle.serve.app import Server, application, server_config
    from ryle.serve.telescope import Telescope
    from ryle.watch.recording import recording
    from ryle.watch.session import Recorder, Replay
    from ryle.watch.watcher import Watcher

    with ExitStack() as stack:
        listening = stack.enter_context(_listening(host, port))
        recorder = None if record is None else stack.enter_context(Recorder(record))
        watcher: Watching
        if replay is not None:
            watcher = stack.enter_context(Replay(replay, speed))
        else:
            watcher = stack.enter_context(Watcher(observation))
        if recorder is not None:
            stack.enter_context(recording(watcher, recorder))
        telescope = stack.enter_context(Telescope(observation))
        app = application(watcher, [host], lambda: _katcp(telescope, watcher, host, katcp))
        if control:
            from ryle.serve.control import add_to

            add_to(app, telescope, token)
        config = server_config(app)
        config.load()
        where = f"http://{_written(host)}:{listening.getsockname()[1]}"
        with suppress(KeyboardInterrupt):
            signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGINT))  # what ends services ends it as Ctrl-C does
            typer.echo(f"watch it at {where}{_from_elsewhere(host, listening)}, scrape {where}/metrics; Ctrl-C ends it")
            if control:
                shown = f"the token in {token_file}" if token_file else f"this token: {token}"
                typer.echo(f"steering at {where}/api/control, with {shown}")
            Server(config).run(sockets=[listening])
    if record is not None:
        typer.echo(f"what was seen is in {record}: ryle serve --replay {record}")


def _from_elsewhere(host: str, listening: socket.socket) -> str:
    """Say how the page is reached from another machine, if only this one reaches it."""
    if host not in ("127.0.0.1", "localhost", "::1"):
        return ""
    port = listening.getsockname()[1]
    return f" (from elsewhere: ssh -L {port}:localhost:{port} {socket.gethostname()})"


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
async def _katcp(telescope: Telescope, watcher: Watching, host: str, port: int | None) -> AsyncIterator[None]:
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
        import websockets  # noqa: F401
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
