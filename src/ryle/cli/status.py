"""`ryle status`: what runs on this machine, and its controls."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from ryle.cli.completion import controls, pages

app = typer.Typer(
    add_completion=False, help="What runs on this machine says of itself; set its controls, clean up after it."
)

PageName = Annotated[
    str | None, typer.Option("--page", "-p", help="Only the page of this name.", metavar="NAME", autocompletion=pages)
]


@app.callback(invoke_without_command=True)
def status(
    context: typer.Context,
    page: PageName = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Show it live until Ctrl-C.")] = False,
    interval: Annotated[float, typer.Option(help="--watch: seconds between pictures.", min=0.05)] = 0.25,
    json: Annotated[bool, typer.Option("--json", help="Print JSON; with --watch a line each time.")] = False,
) -> None:
    """Print the status pages of all engines, captures and senders that run on this machine.

    Each process publishes a page in shared memory. Keys marked ⇐ are controls, which `ryle status set` changes.
    """
    if context.invoked_subcommand is not None:
        return
    from ryle.monitor.page import read_pages
    from ryle.monitor.view import PagesView
    from ryle.monitor.view import watch as watch_pages
    from ryle.stream.controls import StatusError

    pages = read_pages(page)
    if page is not None and not pages:
        raise StatusError(f"no process has the status page {page}: `ryle status` lists those there are")
    if watch and not json:
        with suppress(KeyboardInterrupt):
            watch_pages(Console(), page, interval=interval)
    elif json:
        _print_json(page, interval if watch else None)
    else:
        Console().print(PagesView().render(pages))


def _print_json(page: str | None, interval: float | None) -> None:
    import json
    import time

    from ryle.monitor.page import read_pages

    if interval is None:
        typer.echo(json.dumps([p.as_dict() for p in read_pages(page)], indent=1))
        return
    with suppress(KeyboardInterrupt, BrokenPipeError):
        while True:
            typer.echo(json.dumps([p.as_dict() for p in read_pages(page)]))
            time.sleep(interval)


@app.command("set")
def set_(
    key: Annotated[str, typer.Argument(help="A control.", autocompletion=controls)],
    value: Annotated[str, typer.Argument(help="What it is to be.")],
    page: PageName = None,
) -> None:
    """Set a control of a running process; says what is allowed if it cannot be."""
    from ryle.monitor.control import set_control

    found, answer = set_control(key, value, page)
    typer.echo(f"{found.name}: {key} = {answer['value']}")


@app.command()
def dump(
    block: Annotated[str, typer.Argument(help="Number of a chunk in the ring, or newest.")],
    file: Annotated[Path, typer.Argument(help="File to write it to (.chunks).", dir_okay=False)],
    page: PageName = None,
) -> None:
    """Copy a block out of the ring of a live capture into a file; the capture takes no notice.

    Of a capture that was killed, what its ring still holds can be copied too.
    """
    from ryle.monitor.page import read_pages
    from ryle.store.chunk_file import write_chunk
    from ryle.store.ring_file import RingReader
    from ryle.stream.controls import StatusError

    having = [p for p in read_pages(page) if (p.path / "ring").exists()]
    if len(having) != 1:
        names = ", ".join(p.name for p in having)
        raise StatusError(f"rings are of {names}: say which with --page NAME" if having else "there is no ring here")
    reader = RingReader(having[0].path / "ring")
    try:
        chunk = reader.copy(None if block == "newest" else int(block))
    except ValueError:
        raise StatusError(f"{block!r} is no block: give the number of a chunk, or newest") from None
    except LookupError as error:
        raise StatusError(str(error)) from None
    write_chunk(file, reader.layout, chunk)
    typer.echo(
        f"chunk {chunk.number} of {having[0].name}, {chunk.placed} of {chunk.present.size} packets, "
        f"timestamp {chunk.timestamp}: {file}"
    )


@app.command()
def clean() -> None:
    """Remove the pages and rings of processes that are gone."""
    from ryle.monitor.page import clean_pages

    removed = clean_pages()
    typer.echo("\n".join(f"removed {name}" for name in removed) or "nothing to remove")
