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
