"""What a look at a correlator says, as tables of Rich: for a live view, and for one that is printed once."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray
from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ryle.watch.finding import engine_name
from ryle.watch.fringes import LossMap
from ryle.watch.inputs import input_rows, inputs_in_words
from ryle.watch.sight import Alarm, EngineSight, Sight
from ryle.watch.terminal_draw import LOST, Palette, ago, bar, line, loss_rows, number, short

#: Classes of what arrives or does not, and their short names.
CLASSES = {
    "missing": "lost",
    "late": "late",
    "duplicate": "dup",
    "malformed": "bad",
    "foreign": "alien",
    "kernel_drops": "kernel",
}
#: Seconds after which an engine that says nothing is called silent, beyond twice its own interval.
SILENT = 3.0
#: Share of its cores' time from which on an engine is marked as using it all.
FULL = 0.9
_MARKS = {"running": "●", "draining": "◐", "done": "■", "failed": "✖"}
_WIDE = 148  # columns from which there is room for everything


def clock(when: float) -> str:
    """Write a time of day, UTC."""
    try:
        return time.strftime("%H:%M:%S", time.gmtime(when))
    except (OverflowError, ValueError, OSError):
        return "?"


def heard(engine: EngineSight, now: float) -> float:
    """Seconds since an engine last said something."""
    return now - engine.updated


def is_silent(engine: EngineSight, now: float) -> bool:
    """Whether an engine that should speak does not."""
    every = number(engine.values.get("interval")) or 0.5
    return engine.alive and engine.state != "done" and heard(engine, now) > SILENT + 2 * every


def verdict(sight: Sight, palette: Palette) -> Text:
    """Say in few words how it stands."""
    now = [a for a in sight.alarms if a.ended is None]
    errors = sum(a.severity == "error" for a in now)
    warnings = len(now) - errors
    if not sight.engines:
        return Text("nothing runs", palette.warning)
    words = [f"{n} {word}{'s' if n > 1 else ''}" for n, word in ((errors, "error"), (warnings, "warning")) if n]
    if words:
        return Text(("✖ " if errors else "▲ ") + ", ".join(words), palette.error if errors else palette.warning)
    if not any(e.alive for e in sight.engines):
        return Text("■ it has ended", palette.warning)
    return Text("● all is well", palette.good)


def progress(sight: Sight, width: int, palette: Palette) -> RenderableType:
    """Say how far the observation is, and what of it is in the file."""
    at, whole = number(sight.position), number(sight.duration)
    at = None if at is None else max(0.0, at - (number(sight.begin) or 0.0))
    text = Text()
    if at is None:
        text.append("no signal yet")
    elif whole:
        text.append(bar(at / whole, max(10, min(40, width // 5))), palette.good)
        text.append(f" {at:.2f} of {whole:.2f} s of signal")
    else:
        text.append(f"{at:.2f} s of signal, without end")
    text.append(f" · {sight.integrations} integrations")
    free = number(sight.disk_free)
    disk = f"disk {'? ' if free is None else short(free)}B free · "
    file, room = line(sight.file) or "no file", max(10, width - len(disk) - 1)
    file = file if len(file) <= room else "…" + file[-room + 1 :]
    return Group(text, Text.assemble(disk, (file, palette.faint)))


def engines(sight: Sight, width: int, palette: Palette) -> RenderableType:
    """Table of the engines along the signal path."""
    wide = width >= _WIDE
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False, pad_edge=False)
    table.add_column("engine", no_wrap=True, max_width=20 if wide else 11)
    table.add_column("state", no_wrap=True, min_width=10)
    names = ["at s", "in Mb/s", "in /s", "out /s"] if wide else ["at s", "Mb/s", "in/s", "out/s"]
    names += ["cpu", "mem", "ring", "lost"] if wide else ["cpu", "ring"]
    names += [*list(CLASSES.values())[1:], "full", "process", "heard s ago"] if wide else ["lost", "other"]
    for name in names:
        table.add_column(name, justify="left" if name == "ring" else "right", no_wrap=True)
    for engine in sight.engines:
        table.add_row(*_engine_cells(engine, sight.time, wide, palette))
    lines = [line for e in sight.engines if e.alive for line in _gpus(e)]
    if lines:
        return Group(table, *lines)
    return table if sight.engines else Text("nothing of Ryle runs on this machine: start it with `ryle run FILE`")


def _engine_cells(engine: EngineSight, now: float, wide: bool, palette: Palette) -> list[Text]:
    values, rates = engine.values, engine.rates
    cells = [Text(line(engine_name(engine))), _state(engine, now, palette)]
    at = number(values.get("position"))
    cells.append(Text("" if at is None else f"{at:.2f}"))
    sends = engine.role == "simulate"  # its bytes go out
    bits = rates.get("bytes")
    cells.append(Text("" if bits is None or sends else short(bits * 8 / 1e6)))
    cells.append(Text("" if "received" not in rates else short(rates["received"])))
    sent = next((rates[name] for name in ("sent", "integrations") if name in rates), None)
    out = "" if sent is None else short(sent)
    if wide and out:
        out += f" {line(_unit(engine))}"
        out += f", {short((bits or 0) * 8 / 1e6)} Mb/s" if sends else ""
    cells.append(Text(out))
    cells.append(_cores(engine, palette))
    if wide:
        memory = number(values.get("memory"))
        cells.append(Text("" if memory is None else f"{short(memory)}B"))
    cells.append(_ring(engine, palette))
    counts = {name: _loss(engine, name) for name in CLASSES}
    if wide:
        cells += [_total(engine, name, palette) for name in CLASSES]
        cells.append(_count(number(values.get("ring_full")), "ring_full" in values, palette))
        cells += [Text(str(engine.pid), palette.faint), Text(f"{max(0.0, heard(engine, now)):.1f}")]
    else:
        others = [counts[name] for name in ("late", "duplicate", "malformed")]
        known = [c for c in others if c is not None]
        cells.append(_count(counts["missing"], "missing" in engine.account, palette))
        cells.append(_count(sum(known) if known else None, bool(engine.account), palette))
    return cells


def _unit(engine: EngineSight) -> str:
    name = "sent" if "sent" in engine.rates else "integrations"
    unit = engine.kinds.get(name, ("", "", ""))[1]
    return {"packets": "pkt", "integrations": "int"}.get(unit, unit)


def _state(engine: EngineSight, now: float, palette: Palette) -> Text:
    ended = engine.state in ("done", "failed")
    if not engine.alive and not ended:
        return Text("✖ gone", palette.error)
    if engine.state == "failed":
        return Text("✖ failed", palette.error)
    if is_silent(engine, now):
        return Text(f"▲ last heard {ago(heard(engine, now))} ago", palette.warning)
    return Text(f"{_MARKS.get(engine.state, '○')} {line(engine.state)}", palette.good)


def _cores(engine: EngineSight, palette: Palette) -> Text:
    """Write how many cores' worth of time an engine uses; marked if that is nearly all that it may run on."""
    used, most = number(engine.rates.get("cpu")), number(engine.values.get("cores"))
    if used is None or not engine.alive:
        return Text("")
    busy = most is not None and most > 0 and used / 1e3 > FULL * most
    return Text(f"{used / 1e3:.2f}" if used < 1e4 else short(used / 1e3), palette.warning if busy else "")


def _gpus(engine: EngineSight) -> list[Text]:
    """Say of each GPU of an engine what is used of it, by whomever."""
    busy, power, used, size = (
        found if isinstance(found := engine.values.get(f"gpu_{what}"), dict) else {}
        for what in ("busy", "power", "memory", "memory_size")
    )
    lines = []
    for name in dict.fromkeys((*busy, *power, *used)):
        share = number(busy.get(name))
        words = f"{'?' if share is None else f'{share:.0f}'} % busy · {short(power.get(name))} W"
        words += f" · {short(used.get(name))}B of {short(size.get(name))}B in use"
        lines.append(Text(f"GPU {line(name)} of {line(engine_name(engine))}: {words}"))
    return lines


def _ring(engine: EngineSight, palette: Palette) -> Text:
    """Draw how full the ring of an engine's entrance is."""
    ring = engine.values.get("ring")
    if not isinstance(ring, dict):
        return Text("")
    blocks = {name: number(ring.get(name)) or 0.0 for name in ("open", "ready", "taken", "free")}
    whole = sum(blocks.values())
    if whole <= 0:
        return Text("?")
    share = 1 - blocks["free"] / whole
    return Text(f"{bar(share, 4)}{share:4.0%}", palette.warning if blocks["free"] == 0 else "")


def _loss(engine: EngineSight, name: str) -> float | None:
    return number(engine.account.get(name))


def _count(count: float | None, counted: bool, palette: Palette) -> Text:
    """Write a count of what was lost: of none that it is none, of one that cannot be seen a question mark."""
    if not counted:
        return Text("")
    if count is None:
        return Text("?", palette.faint)
    return Text(short(count), palette.error if count else "")


def alarms(found: Iterable[Alarm], now: float, palette: Palette, *, cures: bool = True) -> RenderableType:
    """List alarms, each with what to do; those under way first, errors before warnings."""
    lines: list[RenderableType] = []
    for alarm in sorted(found, key=lambda a: (a.ended is not None, a.severity != "error", -(a.ended or a.since))):
        over = alarm.ended is not None
        style = palette.faint if over else palette.error if alarm.severity == "error" else palette.warning
        mark = "○" if over else "✖" if alarm.severity == "error" else "▲"
        head = Text(f"{mark} {line(alarm.severity)}: {line(alarm.kind)}", style)
        head.append(f"  {line(alarm.subject)}", "bold" if not over else palette.faint)
        if alarm.ended is not None:
            head.append(f"  {clock(alarm.since)} to {clock(alarm.ended)} UTC, ended {ago(now - alarm.ended)} ago")
        else:
            head.append(f"  since {clock(alarm.since)} UTC, {ago(now - alarm.since)}")
        lines += [head, Text(f"  {line(alarm.text)}")]
        if cures and not over:
            lines.append(Text(f"  → {line(alarm.cure)}", palette.good))
    return Group(*lines) if lines else Text("no alarms")


def overview(sight: Sight, width: int, palette: Palette, bits: int | None = None) -> RenderableType:
    """Everything at once: alarms, progress, engines, inputs in words."""
    under_way = [a for a in sight.alarms if a.ended is None]
    parts: list[RenderableType] = []
    if sight.engines:
        parts += [progress(sight, width, palette), Text("")]
    parts += [engines(sight, width, palette), Text("")]
    if sight.engines:
        parts.append(Text(inputs_in_words(input_rows(sight, bits))))
        parts += [Text(""), alarms(under_way, sight.time, palette)]
    return Group(*parts)


def losses(sight: Sight, width: int, palette: Palette) -> RenderableType:
    """Table of hand-overs by class: totals, and below them how many a second."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False, pad_edge=False)
    table.add_column("into", no_wrap=True, min_width=12)
    for name in ("expected", "placed", *CLASSES.values(), "full"):
        table.add_column(name, justify="right", no_wrap=True)
    counted = [e for e in sight.engines if e.account]
    for engine in counted:
        names = ("expected", "placed", *CLASSES)
        totals = [_total(engine, name, palette) for name in names]
        totals.append(_count(number(engine.values.get("ring_full")), "ring_full" in engine.values, palette))
        table.add_row(Text(line(engine_name(engine))), *totals)
        each = [_rate(engine, f"account.{name}", palette, name in CLASSES and name != "foreign") for name in names]
        unit = line(engine.account.get("unit", "packets"))
        table.add_row(
            Text(f"  {unit}/s"[:14], palette.faint), *each, _rate(engine, "ring_full", palette, True), end_section=False
        )
    if not counted:
        return Text("no engine counts packets yet")
    said = "? cannot be seen there · full: found no memory free, part of lost · kernel: dropped by it, part of lost"
    return Group(table, Text(said, palette.faint))


def _total(engine: EngineSight, name: str, palette: Palette) -> Text:
    """Write a count of an account; of what is no loss, such as packets for somebody else, without alarm."""
    count = _loss(engine, name)
    if name in CLASSES and name != "foreign":
        return _count(count, name in engine.account, palette)
    return Text(short(count) if name in engine.account else "")


def _rate(engine: EngineSight, name: str, palette: Palette, is_loss: bool) -> Text:
    rate = number(engine.rates.get(name))
    if rate is None:
        return Text("")
    return Text(short(rate), palette.error if is_loss and rate else palette.faint)


def loss_map_lines(
    found: LossMap, stage: str, width: int, height: int, palette: Palette, chosen: Sequence[int] | None = None
) -> RenderableType:
    """Draw what was lost, input by time, behind one hand-over or, of all, the most.

    Parameters
    ----------
    found : LossMap
        What was there.
    stage : str
        A hand-over, or "worst".
    width, height : int
        Columns and lines.
    palette : Palette
        Its colours.
    chosen : sequence of int, optional
        Inputs to draw; all if absent.
    """
    lost: NDArray[np.floating] = 1 - found.present
    if stage in found.stages:
        shown = lost[found.stages.index(stage)]
    else:
        nothing = np.isnan(lost).all(axis=0)
        shown = np.where(nothing, np.nan, np.where(np.isnan(lost), -1, lost).max(axis=0, initial=-1))
    labels = [line(label) for label in found.labels]
    if chosen is not None:
        shown, labels = shown[list(chosen)], [labels[i] for i in chosen]
    title = (
        "the worst hand-over" if stage == "worst" else f"behind {'the ' if stage in ('ring', 'file') else ''}{stage}"
    )
    head = Text(f"lost {title}, input by time", "bold")
    if found.times.size:
        head.append(f" · {clock(float(found.times[0]))} to {clock(float(found.times[-1]))} UTC", palette.faint)
    legend = Text("  ".join(f"{shape} {words}" for _, shape, words in LOST) + "  blank: nobody told", palette.faint)
    return Group(head, *loss_rows(shown, labels, width, max(1, height - 2), palette), legend)


def log_lines(lines: Sequence[str], wanted: str, palette: Palette) -> RenderableType:
    """Show what engines said last, of it what has some text in it."""
    found = [line(each) for each in lines]
    found = [each for each in found if wanted.lower() in each.lower()]
    if not found:
        return Text(
            "nothing in the logs has that text" if wanted and lines else "the engines have said nothing", palette.faint
        )
    shown = []
    for each in found:
        name, colon, rest = each.partition(": ")
        bad = any(word in rest.lower() for word in ("error", "traceback", "fail"))
        shown.append(Text.assemble((name + colon, palette.first), (rest, palette.error if bad else "")))
    return Group(*shown)
