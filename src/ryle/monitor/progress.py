"""Progress bars, so that nothing long runs in silence."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress


@contextmanager
def track_samples(total: int, text: str) -> Iterator[Callable[[int], None]]:
    """Show a bar with time left while the block runs; call what it gives with the sample count reached."""
    with Progress(console=Console(stderr=True)) as progress:
        task = progress.add_task(text, total=total)
        yield lambda count: progress.update(task, completed=count)


@contextmanager
def status_line(quiet: bool = False) -> Iterator[Callable[[str], None]]:
    """Show one line that changes, or a line each time where there is no terminal; call what it gives with the text."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    if quiet:
        yield lambda text: None
    elif console.is_terminal:
        with console.status("", spinner="dots") as status:
            yield lambda text: status.update(text)
    else:
        yield lambda text: console.print(text, markup=False)
