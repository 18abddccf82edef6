"""The panes of the live view: each draws one look, when it is in front."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.console import RenderableType
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.widgets import DataTable, Static

from ryle.config import Observation
from ryle.watch.baseline import Baseline, newest_glance
from ryle.watch.fringes import loss_map
from ryle.watch.inputs import COLUMNS, InputRow, input_rows, inputs_in_words, ordered
from ryle.watch.sight import Alarm, Sight
from ryle.watch.terminal_draw import Palette
from ryle.watch.terminal_levels import levels
from ryle.watch.terminal_spectra import spectra
from ryle.watch.terminal_text import alarms, log_lines, loss_map_lines, losses, overview

_STAGES = ("worst", "ring", "F", "X", "file")
_MOST_ALARMS = 500  # that have ended and are still listed
#: Columns of the table of inputs, so that all fit a terminal of 80; others have 6.
_WIDTHS = {"verdict": 12, "input": 8, "delay": 9}


@dataclass(frozen=True)
class Shown:
    """What is drawn.

    Parameters
    ----------
    sight, history : Sight, sequence of Sight
        A look, and those before.
    observation : Observation or None
        What is observed, if it is known.
    wanted : str
        Text that lines must have in them; empty for all.
    palette : Palette
        Colours.
    """

    sight: Sight
    history: Sequence[Sight]
    observation: Observation | None
    wanted: str
    palette: Palette

    @property
    def bits(self) -> int | None:
        """Of the converters."""
        return None if self.observation is None else self.observation.digitizer.bits

    def has(self, *texts: str) -> bool:
        """Whether one of some texts has in it what is wanted."""
        return any(self.wanted.lower() in text.lower() for text in texts)


class Scrolled(VerticalScroll):
    """A picture that may be longer than the screen."""

    def __init__(self, name: str, draw: Callable[[Shown, int, int], RenderableType]) -> None:
        super().__init__(id=f"{name}-view", classes="view")
        self._draw, self._picture = draw, Static("", id=f"{name}-text", markup=False)

    def compose(self) -> ComposeResult:
        """Lay it out."""
        yield self._picture

    def show(self, shown: Shown) -> None:
        """Draw a look."""
        area = self.scrollable_content_region
        self._picture.update(self._draw(shown, max(20, area.width), max(4, area.height)))


def overview_pane() -> Scrolled:
    """Engines, progress, alarms."""
    return Scrolled("overview", lambda s, width, height: overview(s.sight, width, s.palette, s.bits))


def log_pane() -> Scrolled:
    """Last lines of the engines' logs."""
    return Scrolled("log", lambda s, width, height: log_lines(s.sight.log, s.wanted, s.palette))


class AlarmsPane(Scrolled):
    """Alarms under way, and those that ended since the view was opened."""

    def __init__(self) -> None:
        super().__init__("alarms", self._list)
        self._ended: deque[Alarm] = deque(maxlen=_MOST_ALARMS)

    def remember(self, sight: Sight) -> None:
        """Keep alarms that have ended: a look has them for some minutes only."""
        known = {(a.kind, a.subject, a.since) for a in self._ended}
        over = [a for a in sight.alarms if a.ended is not None and (a.kind, a.subject, a.since) not in known]
        self._ended.extend(sorted(over, key=lambda a: a.ended or 0.0))

    def _list(self, shown: Shown, width: int, height: int) -> RenderableType:
        now = shown.sight.time
        every = [a for a in shown.sight.alarms if a.ended is None]
        every += [a for a in self._ended if a.ended is not None and a.ended <= now]  # a frozen look knows no later ones
        return alarms((a for a in every if shown.has(a.kind, a.subject, a.severity, a.text)), now, shown.palette)


class LossesPane(VerticalScroll):
    """Hand-overs by class, and a map of what was lost."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("s", "stage", "Next hand-over")]

    def __init__(self) -> None:
        super().__init__(id="losses-view", classes="view")
        self._table, self._map = Static("", id="losses-text", markup=False), Static("", id="losses-map", markup=False)
        self._stage = 0
        self._shown: Shown | None = None

    def compose(self) -> ComposeResult:
        """Lay it out."""
        yield self._table
        yield self._map

    def show(self, shown: Shown) -> None:
        """Draw a look."""
        self._shown = shown
        area = self.scrollable_content_region
        found = loss_map(shown.history)
        chosen = [i for i, label in enumerate(found.labels) if shown.has(label)]
        self._table.update(losses(shown.sight, area.width, shown.palette))
        rows = max(12, area.height - 2 * sum(bool(e.account) for e in shown.sight.engines) - 5)
        self._map.update(loss_map_lines(found, _STAGES[self._stage], max(30, area.width), rows, shown.palette, chosen))

    def action_stage(self) -> None:
        """Draw the map of the next hand-over."""
        self._stage = (self._stage + 1) % len(_STAGES)
        if self._shown is not None:
            self.show(self._shown)


class InputsPane(Vertical):
    """Table of the inputs, sorted by any of its columns."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "sort", "Sort"),
        Binding("r", "turn", "Reverse"),
    ]

    def __init__(self) -> None:
        super().__init__(id="inputs-view")
        self._said = Static("", id="inputs-said", markup=False)
        self._table: DataTable[Text] = DataTable(id="inputs-table", cursor_type="row", cell_padding=0)
        self._column, self._backwards = "verdict", False
        self._drawn: list[tuple[int, tuple[tuple[str, str], ...]]] = []
        self._shown: Shown | None = None

    def compose(self) -> ComposeResult:
        """Lay it out."""
        yield self._said
        yield self._table

    def on_mount(self) -> None:
        """Make the columns."""
        for name, head in COLUMNS.items():
            width = _WIDTHS.get(name, 6)
            text = f" {head}" if name in ("verdict", "input") else head.rjust(width)
            self._table.add_column(Text(text), key=name, width=width)

    def show(self, shown: Shown) -> None:
        """Draw a look; the line that was chosen stays chosen."""
        self._shown = shown
        rows = [r for r in input_rows(shown.sight, shown.bits) if shown.has(r.label, r.verdict)]
        said = inputs_in_words(rows)
        rows = ordered(rows, self._column, self._backwards)
        order = "backwards" if self._backwards else ""
        self._said.update(
            Text(f"{said} · by {COLUMNS[self._column]} {order}".rstrip(), no_wrap=True, overflow="ellipsis")
        )
        drawn = [(row.index, _cells(row, shown.palette)) for row in rows]
        if drawn == self._drawn:
            return
        if [n for n, _ in drawn] == [n for n, _ in self._drawn]:
            for at, ((_, cells), (_, before)) in enumerate(zip(drawn, self._drawn, strict=True)):
                for c, (cell, old) in enumerate(zip(cells, before, strict=True)):
                    if cell != old:
                        self._table.update_cell_at((at, c), _aligned(c, cell))  # type: ignore[arg-type]
        else:
            self._rebuild(drawn)
        self._drawn = drawn

    def _rebuild(self, drawn: list[tuple[int, tuple[tuple[str, str], ...]]]) -> None:
        at, top = self._table.cursor_row, self._table.scroll_y
        chosen = self._drawn[at][0] if at < len(self._drawn) else None
        self._table.clear()
        for n, cells in drawn:
            self._table.add_row(*(_aligned(c, cell) for c, cell in enumerate(cells)), key=str(n))
        place = next((k for k, (n, _) in enumerate(drawn) if n == chosen), 0)
        self._table.move_cursor(row=place, scroll=False)
        self._table.scroll_to(y=top, animate=False)

    def on_data_table_header_selected(self, event: DataTable.HeaderSelected) -> None:
        """Sort by the column whose head was clicked; again: backwards."""
        name = str(event.column_key.value)
        self._sort(name, not self._backwards if name == self._column else False)

    def action_sort(self) -> None:
        """Sort by the next column."""
        names = list(COLUMNS)
        self._sort(names[(names.index(self._column) + 1) % len(names)], False)

    def action_turn(self) -> None:
        """Turn the order round."""
        self._sort(self._column, not self._backwards)

    def _sort(self, column: str, backwards: bool) -> None:
        self._column, self._backwards = column, backwards
        if self._shown is not None:
            self.show(self._shown)


def _cells(row: InputRow, palette: Palette) -> tuple[tuple[str, str], ...]:
    style = (palette.error, palette.warning, palette.faint, palette.good)[row.rank]
    return tuple((row.cells[name], style if name == "verdict" else "") for name in COLUMNS)


def _aligned(column: int, cell: tuple[str, str]) -> Text:
    name = list(COLUMNS)[column]
    width = _WIDTHS.get(name, 6)
    text, style = cell
    fitted = text if len(text) < width else text[: width - 2] + "…"
    return Text(f" {fitted}" if name in ("verdict", "input") else fitted.rjust(width), style)


class SpectraPane(Static, can_focus=True):
    """Bandpasses, fringe and lags of a baseline that arrows choose."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "first(-1)", "First input", show=False),
        Binding("down", "first(1)", "First input", show=False),
        Binding("left", "second(-1)", "Second input", show=False),
        Binding("right", "second(1)", "Second input", show=False),
        Binding("s", "time", "Band or time"),
    ]

    def __init__(self, choose: Callable[[Sequence[int]], None]) -> None:
        super().__init__("", id="spectra-view", markup=False)
        self._choose = choose
        self._inputs: tuple[int, int] | None = None
        self._in_time = False
        self._shown: Shown | None = None

    def show(self, shown: Shown) -> None:
        """Draw a look, and ask for this product's whole spectrum in the next."""
        self._shown = shown
        glance = newest_glance(shown.sight, shown.history)
        if glance is not None:
            count = glance.antennas * glance.pols
            first, second = self._inputs or (0, min(glance.pols, count - 1))
            self._inputs = first % count, second % count
            self._choose([Baseline.of(*self._inputs, glance.pols).product])
        self.update(
            spectra(
                shown.sight,
                shown.history,
                shown.observation,
                self._inputs or (0, 0),
                max(40, self.size.width),
                max(10, self.size.height),
                shown.palette,
                over_time=self._in_time,
            )
        )

    def action_first(self, by: int) -> None:
        """Choose another first input."""
        self._move(by, 0)

    def action_second(self, by: int) -> None:
        """Choose another second input."""
        self._move(0, by)

    def action_time(self) -> None:
        """Draw fringes in time, or over the band."""
        self._in_time = not self._in_time
        self._again()

    def _move(self, first: int, second: int) -> None:
        if self._inputs is not None:
            self._inputs = self._inputs[0] + first, self._inputs[1] + second
            self._again()

    def _again(self) -> None:
        if self._shown is not None:
            self.show(self._shown)


class LevelsPane(Static, can_focus=True):
    """Histogram of the ADC values of an input that arrows choose."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1)", "Input", show=False),
        Binding("down", "move(1)", "Input", show=False),
        Binding("s", "since", "Lately or in all"),
    ]

    def __init__(self) -> None:
        super().__init__("", id="levels-view", markup=False)
        self._input, self._in_all = 0, False
        self._shown: Shown | None = None

    def show(self, shown: Shown) -> None:
        """Draw a look."""
        self._shown = shown
        self._input %= max(1, len(shown.sight.inputs))
        size = max(40, self.size.width), max(10, self.size.height)
        self.update(levels(shown.sight, self._input, *size, shown.palette, in_all=self._in_all))

    def action_move(self, by: int) -> None:
        """Choose another input."""
        self._input += by
        self._again()

    def action_since(self) -> None:
        """Draw what came since the start, or lately."""
        self._in_all = not self._in_all
        self._again()

    def _again(self) -> None:
        if self._shown is not None:
            self.show(self._shown)
