"""The live view: what it knows is on the screen, at any size, and what anybody wrote into shared memory harms nothing."""

import asyncio
import io
import re
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from adc_values import gaussian, histograms_of
from fresh import rng
from glances import glance_of, index, noise
from ryle.watch.baseline import Baseline, of_antennas
from ryle.watch.inputs import TOO_HIGH, TOO_LOW, input_rows, ordered
from ryle.watch.sight import STAGES, Alarm, EngineSight, InputSight, Sight
from ryle.watch.terminal import Monitor
from ryle.watch.terminal_draw import DARK, LOST, bar, curves, loss_rows, percent, short
from ryle.watch.terminal_levels import levels
from ryle.watch.terminal_once import Health, as_json, health
from ryle.watch.terminal_text import _cores, losses, overview

NOW = 1_700_000_000.0  # 22:13:20 UTC


class Source:
    """Shows the looks that a test gives it."""

    observation = None

    def __init__(self, *sights):
        self.sights, self.chosen = list(sights), []

    def sight(self):
        return self.sights[-1]

    def wait(self, after, timeout):
        return None

    def choose(self, products):
        self.chosen.append(list(products))

    def history(self):
        return tuple(self.sights)


def screen(app):
    return "\n".join(strip.text.rstrip() for strip in app.screen._compositor.render_strips())


def watch(source, steps, size=(80, 24)):
    """Open the view, let a coroutine do something to it, give what that returns."""

    async def run():
        app = Monitor(source, 0.1)
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            return await steps(app, pilot)

    return asyncio.run(run())


async def until(pilot, what):
    for _ in range(400):
        if what():
            return
        await pilot.pause(0.01)
    raise AssertionError("it did not come to that")


def shown(source, keys, size=(200, 60)):
    """What stands on the screen after some keys."""

    async def steps(app, pilot):
        await pilot.press(*keys)
        await pilot.pause(0.05)
        return screen(app)

    return watch(source, steps, size)


def panes(source, size=(200, 60)):
    """What stands on each of the panes."""

    async def steps(app, pilot):
        found = {}
        for key in "1234567":
            await pilot.press(key)
            await pilot.pause(0.05)
            found[key] = screen(app)
        return found

    return watch(source, steps, size)


def plain(picture, width=80):
    """What a table or the like is as text."""
    console = Console(width=width, file=io.StringIO())
    console.print(picture)
    return console.file.getvalue()


def an_engine(role="f", number=0, **values):
    values = {"state": "running", "interval": 0.5} | values
    rates = values.pop("rates", {})
    about = {"alive": True, "updated": NOW - 0.2} | values.pop("about", {})
    return EngineSight(
        name=f"{role}{number}", role=role, index=number, pid=4321 + number, state=values["state"],
        values=values, rates=rates, **about,
    )  # fmt: skip


def random_sight(random, antennas, when=NOW):
    account = {
        name: int(random.integers(1, 10_000))
        for name in ("expected", "placed", "missing", "late", "duplicate", "malformed", "foreign", "kernel_drops")
    }
    engines = tuple(
        an_engine(
            role,
            0,
            position=float(random.uniform(1, 99)),
            account=account,
            ring={"open": 2, "ready": 3, "taken": 1, "free": 2},
            ring_full=3,
            rates={"bytes": 1e6, "received": 777.0, "sent": 55.0, "account.missing": 1.5},
        )
        for role in ("f", "x", "catcher")
    )
    inputs = tuple(
        InputSight(
            a * 2 + p,
            f"A{a}",
            "xy"[p],
            float(random.uniform(5, 90)),
            float(random.uniform(-40, -8)),
            float(random.uniform(0, 0.01)),
            float(random.uniform(0, 0.01)),
            {stage: float(random.uniform(0.9, 1)) for stage in STAGES},
            float(random.uniform(0, 1e-6)),
        )
        for a in range(antennas)
        for p in range(2)
    )
    glance = glance_of(noise(random, antennas, 2, 24, 20)) if 0 < antennas < 10 else None
    values = [gaussian(random, random.uniform(1, 400), 200) for _ in inputs]
    return Sight(
        when, "night", "ARRAY", "text", "/data/night.uvh5", int(random.integers(1, 999)), 12.25, 60.0,
        engines=engines, inputs=inputs, disk_free=2.5e12, log=("f0: hello", "x0: error: no room"), glance=glance,
        histograms=histograms_of(values) if antennas else None,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("antennas", "size"),
    [(0, (80, 24)), (1, (40, 12)), (3, (200, 60)), (3, (80, 24)), (64, (80, 24)), (64, (200, 60))],
)
def test_every_pane_draws_any_array_at_any_size(antennas, size):
    source = Source(*(random_sight(rng(), antennas, NOW + n) for n in range(5)))
    for text in panes(source, size).values():
        assert len(text.splitlines()) <= size[1] and "night" in text
        assert all(len(line) <= size[0] for line in text.splitlines())


def test_the_overview_says_the_numbers():
    sight = random_sight(rng(), 3)
    text = shown(Source(sight), [])
    assert "all is well" in text and "12.25 of 60.00 s" in text and f"{sight.integrations} integrations" in text
    later = shown(Source(replace(sight, begin=864000.0, position=864012.25)), [])
    assert "12.25 of 60.00 s" in later  # an array that had sent for ten days when the file began
    assert "/data/night.uvh5" in text and "2.5TB free" in text and "22:13:20 UTC" in text
    line = next(line for line in text.splitlines() if "F-engine 0" in line)
    engine = sight.engines[0]
    assert f"{engine.values['position']:.2f}" in line and "● running" in line and "4321" in line
    assert re.search(r"\b8\b.*\b777\b.*\b55\b", line)  # Mb/s, packets a second in, out
    assert "75%" in line  # of the ring's blocks two of eight are free
    for name in ("missing", "late", "duplicate", "malformed", "foreign", "kernel_drops"):
        assert f" {engine.account[name]}" in line


def test_what_engines_use_is_told():
    gpus = {"gpu_busy": {"1": 37.0}, "gpu_power": {"1": 212.5, "2": 70.0}, "gpu_memory": {"1": 12e9, "2": None},
            "gpu_memory_size": {"1": 80e9}}  # fmt: skip
    busy = an_engine("f", 0, cores=2, memory=3.2e9, rates={"cpu": 1950.0}, **gpus)
    idle = an_engine("x", 0, cores=2, memory=1e6, rates={"cpu": 650.0})
    gone = an_engine("x", 1, rates={"cpu": 650.0}, about={"alive": False}, **gpus)
    wide = plain(overview(Sight(NOW, "o", engines=(busy, idle, gone)), 200, DARK), 200)
    lines = [line for line in wide.splitlines() if "engine" in line]
    assert "1.95" in lines[1] and "3.2GB" in lines[1] and "0.65" in lines[2] and "1MB" in lines[2]
    assert "0.65" not in lines[3]
    assert "GPU 1 of F-engine 0: 37 % busy · 212 W · 12GB of 80GB in use" in wide
    assert "GPU 2 of F-engine 0: ? % busy · 70 W · ?B of ?B in use" in wide and wide.count("GPU") == 2
    styles = [span.style for span in _cores(busy, DARK).spans] + [_cores(busy, DARK).style, _cores(idle, DARK).style]
    assert styles == [DARK.warning, ""]
    narrow = plain(overview(Sight(NOW, "o", engines=(busy, idle, gone)), 80, DARK), 80)
    assert "1.95" in narrow and "0.65" in narrow and all(len(line) <= 80 for line in narrow.splitlines())


def test_what_nobody_knows_is_a_question_mark():
    none = dict.fromkeys(("expected", "placed", "missing", "late", "duplicate", "malformed", "foreign", "kernel_drops"))
    sight = Sight(
        NOW, "o", "T", engines=(an_engine(account=none, ring={}),), inputs=(InputSight(0, "A", "x", present={}),)
    )
    found = panes(Source(sight))
    assert "no signal yet" in found["1"] and "no file" in found["1"] and "disk ? B free" in found["1"]
    assert not re.search(r"None|\bnan\b", "".join(found.values()))
    line = next(line for line in found["2"].splitlines() if "A x" in line)
    assert line.split() == ["?", "unknown", "A", "x", *["?"] * 9]
    assert next(line for line in found["3"].splitlines() if "F-engine" in line).split()[2:] == ["?"] * 8


def test_nothing_runs():
    found = panes(Source(Sight(NOW)))
    assert "nothing runs" in found["1"] and "ryle run" in found["1"]
    assert "no inputs are known" in found["2"] and "no integration has been seen" in found["4"]


def test_engines_that_are_silent_or_gone_or_failed_are_told_by_words():
    engines = (
        an_engine("f", 0, about={"updated": NOW - 37}),
        an_engine("f", 1, about={"alive": False}),
        an_engine("f", 2, state="failed", about={"alive": False}),
        an_engine("f", 3, state="done", about={"alive": False, "updated": NOW - 100}),
        an_engine("f", 4, interval=60.0, about={"updated": NOW - 37}),
    )
    text = shown(Source(Sight(NOW, "o", engines=engines)), [])
    lines = {n: next(line for line in text.splitlines() if f"F-engine {n}" in line) for n in range(5)}
    assert "last heard 37 s ago" in lines[0] and "gone" in lines[1] and "failed" in lines[2]
    assert "done" in lines[3] and "● running" in lines[4]


def test_hostile_text_is_shown_as_question_marks():
    evil = "\x1b]0;owned\x07\x1b[2J\x9b31m[bold]x\n\r\u202e"
    engine = an_engine(evil, 0, state=evil, account={"missing": evil, "late": [], "unit": evil}, ring={"free": evil},
                       ring_full=evil, position=evil, inputs=evil, interval=evil)  # fmt: skip
    sight = Sight(
        NOW, evil, evil, "", evil, 0, None, None, (engine,), (InputSight(0, evil, evil),),
        (Alarm("dead", evil, "error", evil, evil, NOW - 5), Alarm("loss", evil, "warning", evil, evil, NOW - 9, NOW - 1)),
        None, (f"f0: {evil}",), histograms=histograms_of([range(-100, 100)]),
    )  # fmt: skip
    found = panes(Source(sight))
    for text in found.values():
        assert all(c.isprintable() or c == "\n" for c in text)
        assert "[2J" in text  # as text
    assert "[bold]x??" in found["5"]


def test_figures_of_other_types_harm_no_pane():
    for value in ("x", [], {}, None, float("nan"), float("inf"), -1, 10**400, True, [[[]]]):
        engine = an_engine(
            account={"missing": value, "unit": value}, ring={"free": value, "open": value}, ring_full=value,
            position=value, interval=value, rates={"bytes": 0.0, "cpu": value}, cores=value, memory=value,
            gpu_busy=value, gpu_power={"0": value}, gpu_memory={"1": value},
        )  # fmt: skip
        sight = Sight(NOW, "o", engines=(engine,), inputs=(InputSight(0, "A", "x"),))
        assert "F-engine 0" in plain(overview(sight, 80, DARK)) and "into" in plain(losses(sight, 80, DARK))


def test_levels_of_an_input_are_drawn():
    random = rng()
    values = [gaussian(random, rms, 50_000) for rms in (40.0, 350.0, 40.0)]
    values[2] = values[2][values[2] != 12]
    inputs = tuple(
        InputSight(n, "A", p, 40.0, -19.1, present={}, codes=said)
        for n, (p, said) in enumerate((("x", ""), ("y", ""), ("z", "1 code missing")))
    )
    source = Source(Sight(NOW, "o", engines=(an_engine(),), inputs=inputs, histograms=histograms_of(values, values)))
    first = shown(source, "7")
    level = float(re.search(r"A x  rms ([0-9.]+) steps · -19.1 dBFS  of the last second: 50k values", first)[1])
    assert level == pytest.approx(np.sqrt(np.mean(values[0] ** 2.0)), abs=0.051)
    assert "● 0 % at the ends, ±511 steps" in first and "● codes as they should be" in first
    lines = first.splitlines()
    (foot,) = (line for line in lines if "└" in line)
    assert "▲" not in foot and "×" not in foot
    # High where values are many, and nothing beyond the largest that came.
    picture = [line.partition("┤")[2] for line in lines if "┤" in line]
    heights = [sum(line[c : c + 1] not in ("", " ") for line in picture) for c in range(180)]
    middle = len(foot.partition("└")[2].rstrip()) // 2
    assert max(heights) == len(picture) and heights[middle] > 0.8 * max(heights) > 2 * heights[middle // 8]
    assert sum(heights[: middle // 3]) > 0
    clips = shown(source, ["7", "down", "s"])
    assert "A y" in clips and "since the start: 100k values" in clips
    share = 100 * np.mean((values[1] <= -511) | (values[1] == 511))
    assert f"✖ {percent(share / 100)} % at the ends" in clips
    (foot,) = (line.partition("└")[2].rstrip() for line in clips.splitlines() if "└" in line)
    assert foot[0] == foot[-1] == "▲" and set(foot[5:-5]) == {"─"}
    gone = plain(levels(source.sight(), 2, 100, 30, DARK), 100)
    (foot,) = (line.partition("└")[2].rstrip() for line in gone.splitlines() if "└" in line)
    assert foot.count("×") in (1, 2, 3) and foot.index("×") > len(foot) // 2 and "✖ 1 code missing" in gone
    assert [row.verdict for row in input_rows(source.sight())] == ["codes missing", "ok", "ok"]
    assert "no ADC values have been seen" in plain(levels(Sight(NOW), 0, 80, 24, DARK))


def alarm(kind, subject, severity, since, ended=None):
    return Alarm(kind, subject, severity, f"{subject} is wrong", f"mend {subject}", NOW - since, ended)


def test_alarms_come_first_with_what_to_do():
    alarms = (alarm("loss", "F-engine 1", "warning", 5), alarm("dead", "A2 y", "error", 65),
              alarm("disk", "/data", "error", 400, NOW - 100))  # fmt: skip
    source = Source(replace(random_sight(rng(), 3), alarms=alarms))
    text = shown(source, ["6"])
    assert text.index("A2 y is wrong") < text.index("F-engine 1 is wrong") < text.index("/data is wrong")
    assert "since 22:12:15 UTC, 65 s" in text and "→ mend A2 y" in text and "→ mend /data" not in text
    assert "22:06:40 to 22:11:40 UTC, ended 100 s ago" in text
    assert "✖ 1 error, 1 warning" in text and "/data is wrong" not in shown(source, ["1"])
    table = shown(source, ["2"]).splitlines()
    assert "dead" in table[5] and "A2 y" in table[5]


def test_ended_alarms_are_remembered_for_the_view_but_not_without_end():
    source = Source(random_sight(rng(), 1))

    async def steps(app, pilot):
        for n in range(700):
            over = (alarm("loss", f"engine {n}", "warning", 50, NOW - 10),)
            app._alarms.remember(replace(source.sights[-1], alarms=over))
            app._alarms.remember(replace(source.sights[-1], alarms=over))
        return [a.subject for a in app._alarms._ended]

    kept = watch(source, steps)
    assert kept == [f"engine {n}" for n in range(200, 700)]


def test_inputs_are_judged_and_sorted():
    def one(n, **figures):
        return InputSight(
            n, f"A{n}", "x", **({"rms": 20.0, "dbfs": -20.0, "present": dict.fromkeys(STAGES, 1.0)} | figures)
        )

    inputs = (
        one(0),
        one(1, dbfs=TOO_HIGH + 0.1),
        one(2, dbfs=TOO_LOW - 0.1),
        one(3, present={"ring": 1.0, "F": 0.9, "X": None, "file": None}),
        one(4, present=dict.fromkeys(STAGES, 0.0)),
        one(5, rms=None, dbfs=None, present=dict.fromkeys(STAGES)),
        one(6, rms=0.0, dbfs=None),
        one(7, rms=500.0, dbfs=-7.0),
    )
    sight = Sight(NOW, "o", engines=(an_engine(),), inputs=inputs, alarms=(alarm("clipping", "A7 x", "warning", 1),))
    rows = {r.index: r for r in input_rows(sight)}
    said = {n: r.verdict for n, r in rows.items()}
    assert said == {
        0: "ok",
        1: "too high",
        2: "too low",
        3: "losses",
        4: "nothing",
        5: "unknown",
        6: "too low",
        7: "clipping",
    }
    assert [r.index for r in input_rows(sight)] == [4, 1, 2, 3, 6, 7, 5, 0]
    assert {r.index: r.verdict for r in input_rows(sight, bits=2)}[1] == "ok"  # its level is its threshold
    by = [r.index for r in ordered(list(rows.values()), "rms", backwards=True)]
    assert by[0] == 7 and by[-2:] == [6, 5]
    assert next(r.index for r in ordered(list(rows.values()), "rms")) == 6


def test_keys_sort_filter_and_keep_the_line():
    random = rng()
    sight = random_sight(random, 8)
    source = Source(sight)

    async def steps(app, pilot):
        await pilot.press("2", "s", "s")
        table = app.query_one("#inputs-table")
        await until(pilot, lambda: table.row_count == 16 and "by rms" in screen(app))
        column = [float(table.get_cell_at((row, 2)).plain) for row in range(16)]
        assert column == sorted(column)
        await pilot.press("r")
        await pilot.pause()
        column = [float(table.get_cell_at((row, 2)).plain) for row in range(16)]
        assert column == sorted(column, reverse=True)
        table.move_cursor(row=7)
        chosen = table.get_cell_at((7, 1)).plain
        turned = tuple(replace(i, rms=100 - i.rms) for i in sight.inputs)
        source.sights.append(replace(sight, time=NOW + 1, inputs=turned))
        await until(pilot, lambda: table.get_cell_at((table.cursor_row, 1)).plain == chosen and table.cursor_row == 8)
        await pilot.press("slash", *"a3 ", "enter")
        await until(pilot, lambda: table.row_count == 2)
        assert {table.get_cell_at((row, 1)).plain.strip() for row in (0, 1)} == {"A3 x", "A3 y"}
        assert "only: a3" in screen(app)
        await pilot.press("escape")
        await until(pilot, lambda: table.row_count == 16)

    watch(source, steps)


def test_space_freezes_and_lets_go():
    random = rng()
    source = Source(replace(random_sight(random, 1), integrations=11))

    async def steps(app, pilot):
        await until(pilot, lambda: "11 integrations" in screen(app))
        await pilot.press("space")
        source.sights.append(replace(source.sights[-1], time=NOW + 1, integrations=12))
        await pilot.pause(0.2)
        assert "11 integrations" in screen(app) and "FROZEN" in screen(app)
        await pilot.press("space")
        await until(pilot, lambda: "12 integrations" in screen(app) and "FROZEN" not in screen(app))

    watch(source, steps)


def test_help_comes_and_goes_and_q_leaves():
    async def steps(app, pilot):
        await pilot.press("question_mark")
        await until(pilot, lambda: "freeze the picture" in screen(app))
        await pilot.press("escape")
        await until(pilot, lambda: "freeze the picture" not in screen(app))
        before = app.theme
        await pilot.press("d")
        assert app.theme != before
        await pilot.press("q")
        await pilot.pause()
        return app.return_code

    assert watch(Source(random_sight(rng(), 1)), steps) == 0


def test_the_log_can_be_searched():
    source = Source(random_sight(rng(), 1))
    assert "f0: hello" in shown(source, ["5"]) and "error: no room" in shown(source, ["5"])
    text = shown(source, ["5", "slash", *"room", "enter"])
    assert "error: no room" in text and "hello" not in text


def test_losses_have_totals_and_rates():
    sight = random_sight(rng(), 1)
    lines = shown(Source(sight), ["3"]).splitlines()
    at = next(n for n, line in enumerate(lines) if "F-engine 0" in line)
    account = sight.engines[0].account
    names = ("expected", "placed", "missing", "late", "duplicate", "malformed", "foreign", "kernel_drops")
    assert lines[at].split()[2:] == [str(account[name]) for name in names] + ["3"]
    assert lines[at + 1].split() == ["packets/s", "1.5"]


def test_the_map_of_losses_shows_who_lost_when_and_keys_choose_where():
    def look(n, present):
        inputs = tuple(
            InputSight(k, f"A{k}", "x", present=dict(zip(STAGES, p, strict=True))) for k, p in enumerate(present)
        )
        return Sight(NOW + n, "o", engines=(an_engine(),), inputs=inputs)

    every, half = (1.0, 1.0, 1.0, 1.0), (1.0, 0.4, 1.0, None)
    source = Source(look(0, [every, every]), look(1, [every, half]), look(2, [every, (None,) * 4]))

    def row(keys, label):
        text = shown(source, keys)
        return next(line for line in text.splitlines() if line.strip().startswith(label))[len(" A0 x      ") :]

    assert row(["3"], "A0 x").split() == ["···"] and row(["3"], "A1 x").split() == ["·█"]
    assert row(["3", "s"], "A1 x").split() == ["··"]
    assert "lost behind F" in shown(source, ["3", "s", "s"])


def test_loss_rows_show_the_worst_of_what_shares_a_place():
    lost = np.zeros((7, 5))
    lost[4, 3] = 0.2
    lost[0, :] = np.nan
    rows = loss_rows(lost, [f"A{k}" for k in range(7)], 12, 3, DARK)
    text = [row.plain for row in rows]
    assert len(text) == 3 and all(len(line) <= 12 for line in text)
    assert "▓" in text[2] and "▓" not in text[0] + text[1] and text[1].startswith("A2 +1")
    assert [shape for _, shape, _ in LOST] == ["·", "░", "▒", "▓", "█"]


def test_a_baseline_is_drawn_with_its_figures():
    """A signal that comes 1/32 of a channel later turns the phase by as much of a turn a channel."""
    random = rng()
    common = noise(random, 24, 400)
    x = np.stack([common, noise(random, 24, 400), common * np.exp(1j * np.radians(70))])[:, np.newaxis]
    glance = glance_of(x, number=77, chosen=[index(0, 0, 2, 0, 1)])
    inputs = tuple(InputSight(k, f"A{k}", "x") for k in range(3))
    source = Source(Sight(NOW, "o", engines=(an_engine(),), inputs=inputs, glance=glance))

    async def steps(app, pilot):
        await pilot.press("4")
        await until(pilot, lambda: "A0 x × A1 x" in screen(app))
        await pilot.press("right")
        await until(pilot, lambda: "A0 x × A2 x" in screen(app))
        first = screen(app)
        await pilot.press("s")
        await until(pilot, lambda: "phase in time" in screen(app))
        await pilot.press("s", "down", "down", "left", "left")
        await until(pilot, lambda: "A0 x × A2 x" in screen(app))  # the other way round is the same product
        return first

    text = watch(source, steps)
    value = np.mean(x[0, 0] * x[2, 0].conj())
    assert "integration 77" in text and "16 bins" in text and "channel 0" in text
    # Told of float32, which may be rounded to the next digit.
    phases = [float(found) for found in re.findall(r"([+-]\d+\.\d)°", text)]
    assert any(abs(phase - np.degrees(np.angle(value))) < 0.051 for phase in phases), phases
    (strength,) = re.findall(r"(\d\S*) steps²", text)
    assert float(strength) == pytest.approx(abs(value), rel=0.0051)
    assert source.chosen[-1] == [index(0, 0, 2, 0, 1)]


def test_antennas_are_cut_out_of_a_glance():
    random = rng()
    x, valid = noise(random, 5, 2, 12, 30), random.random((5, 2, 30)) > 0.2
    chosen = [index(1, 0, 4, 1), index(0, 0, 3, 0), index(1, 1, 1, 0)]
    whole = glance_of(x, valid, chosen=chosen)
    cut = of_antennas(whole, [1, 4])
    alone = glance_of(x[[1, 4]], valid[[1, 4]], chosen=[index(0, 0, 1, 1), index(0, 1, 0, 0)])
    assert cut.to_bytes() == alone.to_bytes()
    for i, j in random.integers(0, 10, (30, 2)).tolist():
        base = Baseline.of(i, j, 2)
        small = of_antennas(whole, base.antennas)
        np.testing.assert_array_equal(small.coarse[:, base.here], whole.coarse[:, base.product])


def dots(lines, margin=8):
    """Decode braille to what is set, shape (row, column)."""
    bits = {
        0x01: (0, 0),
        0x02: (1, 0),
        0x04: (2, 0),
        0x40: (3, 0),
        0x08: (0, 1),
        0x10: (1, 1),
        0x20: (2, 1),
        0x80: (3, 1),
    }
    cells = [[0 if c == " " else ord(c) - 0x2800 for c in line[margin:]] for line in lines]
    found = np.zeros((4 * len(cells), 2 * len(cells[0])), bool)
    for r, row in enumerate(cells):
        for c, cell in enumerate(row):
            for bit, (y, x) in bits.items():
                found[4 * r + y, 2 * c + x] = bool(cell & bit)
    return found


def test_curves_stand_where_their_values_are():
    width, height = 29, 8  # 20 columns of 2 dots, 6 rows of 4
    values = np.arange(40.0)
    lines = [line.plain for line in curves("t", [(values, "red")], width, height, joined=False, ends=("a", "b"))]
    assert lines[0] == "t" and lines[1].startswith("     39┤") and lines[-2].startswith("      0┤")
    assert lines[-1].split() == ["a", "b"] and len(lines) == height and max(map(len, lines)) <= width
    found = dots(lines[1:-1])
    assert found.shape == (24, 40) and (found.sum(axis=0) == 1).all()
    np.testing.assert_array_equal(found.argmax(axis=0), np.rint((39 - values) / 39 * 23))
    gaps = values.copy()
    gaps[10:20] = np.nan
    found = dots([line.plain for line in curves("t", [(gaps, "red")], width, height)][1:-1])
    assert not found[:, 10:20].any() and found[:, :10].any(axis=0).all() and found[:, 20:].any(axis=0).all()
    spike = np.zeros(4000)
    spike[2222] = 5.0  # a channel of interference among a hundred in one column is seen
    assert dots([line.plain for line in curves("t", [(spike, "red")], width, height)][1:-1])[0].sum() >= 1


def test_numbers_in_few_columns():
    assert [short(v) for v in (0, 9999, 12345, 1.5e6, 999_999, 0.25, None, float("nan"), "x", True)] == [
        *("0", "9999", "12.3k", "1.5M", "1M", "0.25", "?", "?", "?", "?")
    ]
    assert [percent(v) for v in (0, 1, 0.999999, 0.5, 1e-6, None)] == ["0", "100", "99.99", "50", "<0.01", "?"]
    assert bar(0.5, 4) == "██░░" and bar(1e-9, 4).startswith("▏") and bar(None, 3) == "?  " and bar(7.0, 2) == "██"


def test_health_of_a_look():
    well = random_sight(rng(), 1)
    error, warning = alarm("dead", "A0 x", "error", 3), alarm("loss", "F", "warning", 3)
    assert health(well) == Health.WELL and health(replace(well, alarms=(warning,))) == Health.WELL
    assert health(replace(well, alarms=(warning, error))) == Health.WRONG
    assert health(replace(well, alarms=(replace(error, ended=NOW),))) == Health.WELL
    gone = tuple(replace(e, alive=False) for e in well.engines)
    assert health(Sight(NOW)) == health(replace(well, engines=gone)) == Health.NOTHING
    assert as_json(well)["health"] == "well" and "glance" not in as_json(well)
