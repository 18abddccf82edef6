"""A table for terminals of any width: rows where they fit, else each row's cells below one another."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

#: Columns that what a row is about needs at least, its words wrapped.
_LEAST = 24


class Sheet:
    """Rows of what they are about, and values, which are never broken.

    Parameters
    ----------
    title : str
        Stands above.
    *headings : str
        Of the columns.
    """

    def __init__(self, title: str, *headings: str) -> None:
        self._title, self._headings = title, headings
        self._rows: list[Sequence[str]] = []
        self._breaks: set[int] = set()

    def row(self, *cells: str) -> None:
        """Add a row; cells may be empty, or left out at the end."""
        self._rows.append((*cells, *[""] * (len(self._headings) - len(cells))))

    def gap(self) -> None:
        """Leave a line free before the next row."""
        self._breaks.add(len(self._rows))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Lay it out, for `rich`."""
        columns = list(zip(self._headings, *self._rows, strict=True))
        widths = [max(map(cell_len, column)) for column in columns]
        yield Text()
        yield Text(self._title, style="bold")
        if min(widths[0], _LEAST) + sum(widths[1:]) + len(widths) - 1 <= options.max_width:
            yield self._table()
        else:
            yield from self._list()

    def _table(self) -> Table:
        table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="dim")
        table.add_column(self._headings[0], style="cyan")
        for heading in self._headings[1:]:
            table.add_column(heading, justify="right", no_wrap=True)
        for i, cells in enumerate(self._rows):
            if i in self._breaks and i:
                table.add_row()
            table.add_row(*map(Text, cells))
        return table

    def _list(self) -> RenderResult:
        for about, *cells in self._rows:
            yield Text(about, style="cyan")
            values = Table.grid(padding=(0, 2, 0, 0))
            for heading, cell in zip(self._headings[1:], cells, strict=True):
                if cell:
                    values.add_row(Text(heading, style="dim"), Text(cell))
            yield Padding(values, (0, 0, 0, 2))
