"""Progress bars, so that nothing long runs in silence: on a terminal they move, elsewhere lines come at times."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress

#: Seconds after which work that says nothing says that it goes on, and after which it says so again.
_FIRST, _AGAIN = 1.5, 10.0


class PlainLines:
    """Says how far something is, in lines, where there is no terminal on which a bar could move.

    Parameters
    ----------
    console : Console
        Where; nothing is said if it is a terminal.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._due = time.monotonic() + _FIRST

    def say(self, text: Callable[[], str]) -> None:
        """Print a line, if it is time for one. Call it at least each second."""
        now = time.monotonic()
        if not self._console.is_terminal and now >= self._due:
            self._due = now + _AGAIN
            self._console.print(text(), highlight=False, markup=False, soft_wrap=True)


@contextmanager
def track_samples(total: int, text: str) -> Iterator[Callable[[int], None]]:
    """Show a bar with time left while the block runs; call what it gives with the sample count reached.

    The bar is full if the block comes to its end.
    """
    console = Console(stderr=True)
    lines = PlainLines(console)
    with Progress(console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task(text, total=total)

        def advance(count: int) -> None:
            progress.update(task, completed=count)
            lines.say(lambda: f"{text}: {count / max(1, total):.0%}")

        yield advance
        progress.update(task, completed=total)


@contextmanager
def working(text: str, console: Console | None = None) -> Iterator[None]:
    """Say what is being done while the block runs, with the time that it takes; nothing if it is done at once.

    Parameters
    ----------
    text : str
        Such as "writing demo.ms".
    console : Console, optional
        Standard error if absent.
    """
    console = console or Console(stderr=True)
    if console.is_terminal:
        with console.status(text):
            yield
        return
    done, begun, out = threading.Event(), time.monotonic(), console

    def tell() -> None:
        wait = _FIRST
        while not done.wait(wait):
            taken = time.monotonic() - begun
            out.print(f"{text}: {taken:.0f} s", highlight=False, markup=False, soft_wrap=True)
            wait = _AGAIN

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield
    finally:
        done.set()
        teller.join()


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
