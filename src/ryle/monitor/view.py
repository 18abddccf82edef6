"""Status pages as people see them: once, or live in a terminal."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rich import box
from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from ryle.monitor.page import Page, read_pages
from ryle.monitor.table import Rate

_LONG = 8  # members of a list that are shown


class PagesView:
    """Draws pages, with the rates of whole numbers that rise from one picture to the next."""

    def __init__(self) -> None:
        self._rates: dict[tuple[str, int, str], Rate] = {}

    def render(self, pages: list[Page]) -> RenderableType:
        """One picture of some pages, side by side where there is room."""
        if not pages:
            return Text("no status pages: nothing of Ryle runs here", "dim")
        return Columns([self._page(page) for page in pages], padding=(0, 2))

    def _page(self, page: Page) -> RenderableType:
        age = time.time() - page.updated
        head = Text.assemble((printable(page.name), "bold"), f"  process {page.owner.pid}, {age:.1f} s ago")
        if not page.alive:
            head.append(": it is gone, these are its last words", "bold red")
        table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
        table.add_column("key", style="cyan", no_wrap=True)
        table.add_column("value", overflow="fold")
        table.add_column("a second", justify="right", no_wrap=True)
        for key, value in flat(page.values):
            name = Text(printable(key))
            if key in page.controls:
                name.append(" ⇐", "bold yellow")
            style = "bold red" if key == "state" and value == "failed" else ""
            table.add_row(name, Text(shown(value), style), self._rate(page, key, value))
        parts: list[RenderableType] = [head, table]
        if page.controls:
            parts.append(Text("⇐ can be set: ryle status set KEY VALUE", "dim"))
        return Group(*parts)

    def _rate(self, page: Page, key: str, value: Any) -> str:
        if type(value) is not int:
            return ""
        rate = self._rates.setdefault((page.name, page.owner.started, key), Rate()).update(page.updated, value)
        return f"{rate:.4g}" if rate else ""


def flat(values: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Give the members of nested values one by one, with dots in their keys."""
    for key, value in values.items():
        if isinstance(value, dict) and value:
            yield from flat(value, f"{above}{key}.")
        else:
            yield above + key, value


def shown(value: Any) -> str:
    """Write a value for people; of a long list its beginning, of an unknown count a question mark."""
    if value is None:
        return "?"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list):
        inside = ", ".join(shown(v) for v in value[:_LONG])
        return f"[{inside}, … {len(value)} in all]" if len(value) > _LONG else f"[{inside}]"
    return printable(str(value))


def printable(text: str) -> str:
    """Show what a terminal would obey as question marks: anybody may have written it."""
    return "".join(c if c.isprintable() or c == "\n" else "?" for c in text)


def watch(
    console: Console,
    name: str | None = None,
    *,
    interval: float = 0.25,
    until: Callable[[], bool] = lambda: False,
) -> None:
    """Show pages live until Ctrl-C.

    Parameters
    ----------
    console : Console
        Where.
    name : str, optional
        The page to show; all if absent.
    interval : float
        Seconds between pictures.
    until : callable
        Ends it when it gives True.
    """
    view = PagesView()
    if not console.is_terminal:
        while not until():
            console.print(view.render(read_pages(name)))
            time.sleep(interval)
        return
    with Live(console=console, screen=True, auto_refresh=False, vertical_overflow="crop") as live:
        while not until():
            live.update(view.render(read_pages(name)), refresh=True)
            time.sleep(interval)
