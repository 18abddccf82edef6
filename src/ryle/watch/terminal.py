"""The live view in a terminal, of a running correlator or of a recorded session.

A timer takes the newest look, which is there at once (`ryle.watch.watcher.Watching`), and the pane in front draws it:
a terminal that is slow, or stopped, holds up nothing but itself.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import ClassVar

from rich.text import Text
from textual import on
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Footer, Input, Static, TabbedContent, TabPane, Tabs

from ryle.watch.sight import Sight
from ryle.watch.terminal_draw import DARK, LIGHT, Palette, ago, line
from ryle.watch.terminal_panes import (
    AlarmsPane,
    InputsPane,
    LevelsPane,
    LossesPane,
    Scrolled,
    Shown,
    SpectraPane,
    log_pane,
    overview_pane,
)
from ryle.watch.terminal_text import clock, verdict
from ryle.watch.watcher import Watching

_NAMES = ("overview", "inputs", "losses", "spectra", "log", "alarms", "levels")
#: Seconds without a new look after which it is said.
_STALE = 5.0
_SOONEST = 0.1  # seconds between pictures, at least: nobody sees more

_HELP = """\
1 to 7      overview, inputs, losses, spectra, log, alarms, levels
arrows      move; in spectra: up and down choose the first input,
            left and right the second; in levels: the input
/           show what has some text in it: inputs, log, alarms
escape      show everything again
space       freeze the picture, and let it go on
s           inputs: sort by the next column (r: turn the order round)
            losses: map of the next hand-over
            spectra: over the band or in time
            levels: of the last second or since the start
d           dark or light
q           leave; nothing that runs takes notice

✖ error     data are lost or spoiled
▲ warning   look at it
● running   ○ not yet   ◐ ending   ■ done
?           nobody knows: it cannot be counted there, or was not told

Inputs: rms in ADC steps; dBFS against a full-scale sine wave, too low
below -45, too high above -6; clip: ADC values at an end of the range;
sat: values of spectra that do not fit; shares that were there behind
the ring, the F-engine, the X-engine, and in the file; the delay that is
applied.

Levels: how often each ADC value came, on a logarithmic scale; ▲ where the
converter clips, × codes that never came though those beside them did."""


class Help(ModalScreen[None]):
    """What the keys do."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark,space,enter", "dismiss", "Back"),
    ]

    def __init__(self) -> None:
        super().__init__(id="help")

    def compose(self) -> ComposeResult:
        """Lay it out."""
        with VerticalScroll():
            yield Static(_HELP, markup=False)


class Monitor(App[None]):
    """Shows what a source sees until it is left.

    Parameters
    ----------
    source : Watching
        A `Watcher` or a `Replay`, whose block lasts as long as the view.
    interval : float
        Seconds between pictures.
    """

    CSS_PATH = "terminal.tcss"
    ENABLE_COMMAND_PALETTE = False
    TITLE = "ryle monitor"
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(str(n + 1), f"pane('{name}')", name, show=False) for n, name in enumerate(_NAMES)),
        Binding("space", "freeze", "Freeze"),
        Binding("slash", "ask", "Filter"),
        Binding("escape", "clear", "Show all", show=False),
        Binding("d", "dark", "Dark/light"),
        Binding("question_mark", "help", "Help"),
        Binding("q", "quit", "Quit"),
        Binding("ctrl+c", "quit", "Quit", show=False, priority=True),
    ]

    def __init__(self, source: Watching, interval: float = 0.5) -> None:
        super().__init__()
        self._source, self._interval = source, max(interval, _SOONEST)
        self.animation_level = "none"  # of lines that are slow, such as SSH's over half the world
        self._wanted = ""
        self._frozen: tuple[Sight, Sequence[Sight]] | None = None
        self._sight = source.sight()
        self._changed = time.monotonic()
        self._panes: dict[str, Scrolled | InputsPane | LossesPane | SpectraPane | LevelsPane] = {
            "overview": overview_pane(),
            "inputs": InputsPane(),
            "losses": LossesPane(),
            "spectra": SpectraPane(source.choose),
            "log": log_pane(),
            "alarms": AlarmsPane(),
            "levels": LevelsPane(),
        }

    def compose(self) -> ComposeResult:
        """Lay it out."""
        yield Static("", id="head", markup=False)
        with TabbedContent(initial="overview"):
            for n, (name, pane) in enumerate(self._panes.items()):
                with TabPane(f"{n + 1} {name.capitalize()}", id=name):
                    yield pane
        yield Input(placeholder="text to look for; enter to go back, escape to show everything", id="filter")
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        """Begin to look."""
        if not _dark_terminal():
            self.theme = "textual-light"
        self.query_one(Tabs).can_focus = False  # arrows are the panes'
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # else the terminal would be left as it is drawn
            with suppress(RuntimeError, ValueError):  # where the loop is not the main thread's
                asyncio.get_running_loop().add_signal_handler(number, self.exit, None, 128 + number)
        self._alarms.remember(self._sight)
        self.set_interval(self._interval, self._look)
        self.call_after_refresh(self._to_front)

    def _look(self) -> None:
        """Take the newest look and draw it."""
        sight = self._source.sight()
        if sight is not self._sight:
            self._sight, self._changed = sight, time.monotonic()
            self._alarms.remember(sight)
        self._draw()

    @property
    def _alarms(self) -> AlarmsPane:
        pane = self._panes["alarms"]
        assert isinstance(pane, AlarmsPane)
        return pane

    @property
    def palette(self) -> Palette:
        """Colours for the background that there is."""
        return DARK if self.current_theme.dark else LIGHT

    def _draw(self) -> None:
        """Draw the pane in front, unless nobody sees it."""
        if not self.is_running or not self.query("#head"):
            return
        sight, history = self._frozen or (self._sight, self._source.history())
        self.query_one("#head", Static).update(self._head(sight))
        name = self.query_one(TabbedContent).active
        if name in self._panes:
            self._panes[name].show(Shown(sight, history, self._source.observation, self._wanted, self.palette))

    def _head(self, sight: Sight) -> Text:
        """Say in one line what is seen, how it stands, and whether that is of now."""
        text = Text(no_wrap=True, overflow="ellipsis")
        text.append_text(verdict(sight, self.palette))
        text.append(f"  {line(sight.observation) or 'ryle monitor'}", "bold")
        text.append(f"  {line(sight.telescope)}  {clock(sight.time)} UTC")
        if self._frozen is not None:
            text.append("  ‖ FROZEN, space goes on", self.palette.warning)
        elif getattr(self._source, "ended", False):
            text.append("  ■ end of the recording", self.palette.warning)
        elif (still := time.monotonic() - self._changed) > _STALE:
            text.append(f"  ▲ last look {ago(still)} ago", self.palette.warning)
        if self._wanted:
            text.append(f"  only: {line(self._wanted)}", self.palette.warning)
        return text

    @on(TabbedContent.TabActivated)
    def _to_front(self) -> None:
        """Draw a pane that has come to the front, and give it the keys."""
        name = self.query_one(TabbedContent).active
        if not self.query_one("#filter").has_class("asked"):
            pane = self._panes[name]
            (pane.query_one("#inputs-table") if isinstance(pane, InputsPane) else pane).focus()
        self.call_after_refresh(self._draw)

    def on_resize(self) -> None:
        """Draw it as large as the terminal is now."""
        self.call_after_refresh(self._draw)

    def action_pane(self, name: str) -> None:
        """Bring a pane to the front."""
        self.query_one(TabbedContent).active = name

    def action_freeze(self) -> None:
        """Keep the picture, or let it go on."""
        self._frozen = (self._sight, tuple(self._source.history())) if self._frozen is None else None
        self._draw()

    def action_dark(self) -> None:
        """Change between dark and light."""
        self.theme = "textual-light" if self.current_theme.dark else "textual-dark"
        self.call_after_refresh(self._draw)

    def action_help(self) -> None:
        """Say what the keys do."""
        self.push_screen(Help())

    def action_ask(self) -> None:
        """Ask for a text to look for."""
        asked = self.query_one("#filter", Input)
        asked.add_class("asked")
        asked.focus()

    def action_clear(self) -> None:
        """Show everything again."""
        self.query_one("#filter", Input).value = ""
        self._answered()

    @on(Input.Changed, "#filter")
    def _filter(self, event: Input.Changed) -> None:
        self._wanted = event.value.strip()
        self._draw()

    @on(Input.Submitted, "#filter")
    def _answered(self) -> None:
        self.query_one("#filter").remove_class("asked")
        self._to_front()


def _dark_terminal() -> bool:
    """Whether the terminal says that its background is dark, or nothing."""
    background = os.environ.get("COLORFGBG", "").rpartition(";")[2]
    return background not in ("7", "15")
