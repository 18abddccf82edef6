"""A watcher reads what engines leave, joins it, and survives whatever else lies there."""

import json
import multiprocessing
import os
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from adc_values import gaussian, histograms_of
from fresh import rng
from glances import glance_of, noise
from ryle.config import load
from ryle.monitor.page import read_pages
from ryle.monitor.publish import StatusPage
from ryle.stream.controls import Control
from ryle.watch import looking as module
from ryle.watch.left import consistent
from ryle.watch.looking import Looking
from ryle.watch.watcher import Watcher

TEXT = (Path(__file__).parents[1] / "small.toml").read_text()  # three antennas, two polarizations, 256 channels
KINDS = {"received": ("counter", "packets", "that came"), "position": ("gauge", "s", "how far it is")}


@pytest.fixture(autouse=True)
def directory(tmp_path, monkeypatch):
    pages = tmp_path / "pages"
    pages.mkdir()
    monkeypatch.setenv("RYLE_STATUS_DIR", str(pages))
    return pages


def put(page, text=TEXT, **values):
    """Publish an engine's figures, with the observation file beside them."""
    role = page.name.split("-")[0].rstrip("0123456789")
    index = int(page.name.split("-")[0][len(role) :])
    page.keep("observation.toml", text.encode())
    page.publish({"role": role, "index": index, "state": "running", "interval": 0.5} | values)


def of_inputs(first, count, **figures):
    labels = [f"A{i // 2} {'xy'[i % 2]}" for i in range(first, first + count)]
    return {"first_input": first, "inputs": labels, "full_scale": 512.0} | figures


def seen(**figures):
    """A glance of the whole band."""
    return glance_of(noise(rng(), 3, 2, 256, 64), bins=64, parts=8, **figures)


def test_nothing_runs():
    with Watcher(interval=0.05) as watcher:
        sight = watcher.sight()
        assert (sight.observation, sight.engines, sight.inputs, sight.glance) == ("", (), (), None)
        assert watcher.observation is None and sight.alarms == ()


def test_the_phase_centre_that_was_turned_to_is_followed(tmp_path):
    """By pictures and alarms; what makes no sense is passed over, and what is not written has no file."""
    looking, turned = Looking(), {"ra": 187.5, "dec": -30.25, "name": "other"}
    with StatusPage("catcher0") as catcher:
        put(catcher, integrations=7, file=str(tmp_path / "o.uvh5"), directory=str(tmp_path))
        looking.look()
        first = looking.observation
        put(
            catcher,
            integrations=7,
            file="",
            writes=str(tmp_path),
            directory=str(tmp_path),
            scan={"phase_centre": turned},
        )
        sight = looking.look()
        assert sight.file == "" and sight.disk_free is not None
        o = looking.observation
        assert dict(o.phase_centre) == turned and dict(first.phase_centre)["name"] == "field"
        for bad in (
            5,
            [],
            {},
            {"phase_centre": 3},
            {"phase_centre": {"ra": "x", "dec": 1}},
            {"phase_centre": {"x": 1}},
        ):
            put(catcher, integrations=7, scan=bad)
            looking.look()
            assert looking.observation is o
        put(catcher, integrations=7, scan={"phase_centre": dict(first.phase_centre)})
        looking.look()
        assert dict(looking.observation.phase_centre) == dict(first.phase_centre)


def test_everything_of_a_run_is_joined(tmp_path):
    with StatusPage("f0", kinds=KINDS) as f0, StatusPage("x0") as x0, StatusPage("catcher0") as catcher:
        figures = {
            "input_rms": [40.0, 0.0, None, 30.0],
            "input_clipped": [0.0, 0.5, None, "x"],
            "input_saturated": [0.01] * 4,
            "input_present": [1.0, 0.9, 0.0, 1.0],
            "input_placed": [1.0, 0.8, 0.0, 1.0],
            "input_delay": [1e-6, 2e-6, 3e-6, None],
        }
        put(x0)
        put(
            catcher, integrations=7, begin=0.25, position=1.75, file=str(tmp_path / "o.uvh5"), account={"missing": None}
        )
        put(f0, received=100, **of_inputs(2, 4, **figures))
        catcher.keep("glance", seen(number=7, chosen=[5]).to_bytes())
        looking = Looking()
        sight = looking.look()
    assert (sight.observation, sight.telescope, sight.text) == ("demo", "DEMO", TEXT)
    assert (sight.integrations, sight.begin, sight.position, sight.duration) == (7, 0.25, 1.75, 4.0)
    assert [(e.name, e.role, e.index, e.alive, e.state) for e in sight.engines] == [
        (*("f0", "f", 0), True, "running"),
        (*("x0", "x", 0), True, "running"),
        (*("catcher0", "catcher", 0), True, "running"),
    ]
    assert sight.engines[0].kinds == KINDS and sight.engines[2].account == {"missing": None}
    assert sight.file == str(tmp_path / "o.uvh5") and abs(sight.disk_free - os.statvfs(tmp_path).f_bavail * 4096) < 1e9
    assert [i.label for i in sight.inputs] == ["A0 x", "A0 y", "A1 x", "A1 y", "A2 x", "A2 y"]
    assert sight.inputs[0].rms is None and sight.inputs[0].present == {"ring": None, "F": None, "X": 1.0, "file": 1.0}
    one = sight.inputs[2]
    # 40 steps rms against 512 / √2 of a full-scale sine.
    assert one.rms == 40.0 and one.dbfs == pytest.approx(20 * np.log10(40 / (512 / 2**0.5))) and one.delay == 1e-6
    assert sight.inputs[3].dbfs is None and sight.inputs[3].clipped == 0.5
    assert sight.inputs[3].present == {"ring": 0.8, "F": 0.9, "X": 1.0, "file": 1.0}
    assert sight.inputs[4].rms is None and sight.inputs[4].clipped is None and sight.inputs[5].clipped is None
    assert sight.glance.number == 7 and sight.glance.chosen.tolist() == [5]
    assert looking.observation.antennas[2].name == "A2"


def test_rates(monkeypatch):
    now = [1e9]
    monkeypatch.setattr(time, "time", lambda: now[0])
    with StatusPage("f0", kinds=KINDS) as f0:
        looking = Looking()
        for n in range(8):
            put(f0, received=100 * n, position=float(n), account={"expected": 50 * n, "missing": 5 * n, "name": "x"})
            rates = looking.look().engines[0].rates
            now[0] += 0.5
        assert rates == {"received": 200.0, "account.expected": 100.0, "account.missing": 10.0}
        (an_input, *_) = looking.look().inputs
        assert an_input.present["ring"] is None  # nobody said whose inputs these are
        now[0] -= 3600  # the clock is set back
        for n in range(8, 16):
            put(f0, received=100 * n, **of_inputs(0, 4), account={"expected": 50 * n, "missing": 5 * n})
            sight = looking.look()
            now[0] += 0.5
        assert sight.engines[0].rates["received"] == pytest.approx(200.0)
        assert sight.inputs[0].present["ring"] == pytest.approx(0.9)  # of the engine's account


def die(name, text, ready):
    page = StatusPage(name)
    put(page, text)
    ready.set()
    time.sleep(60)


@pytest.fixture
def killed():
    """Leave the page of an engine that was killed."""

    def kill(name, text=TEXT):
        ready = multiprocessing.get_context("spawn").Event()
        process = multiprocessing.get_context("spawn").Process(target=die, args=(name, text, ready))
        process.start()
        assert ready.wait(120)
        process.kill()
        process.join()

    return kill


def test_engines_that_were_killed_are_seen(killed):
    with StatusPage("x0") as x0:
        put(x0)
        killed("f0")
        sight = Looking().look()
    assert [(e.name, e.alive) for e in sight.engines] == [("f0", False), ("x0", True)]
    assert [e.alive for e in Looking().look().engines] == [False]  # all have gone: the last words


def test_the_run_that_started_last_and_no_other(killed, directory):
    other = TEXT.replace('name = "demo"', 'name = "other"')
    killed("x7", TEXT)  # of a run that had the same file, and ended before
    path = directory / "ryle.x7" / "status.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"updated": 1e9}))
    with StatusPage("x0") as x0, StatusPage("f0") as f0, StatusPage("send") as send:
        put(x0)
        put(f0, other)
        send.publish({"role": "x", "index": 3})  # no engine of an observation
        assert [e.name for e in Looking("demo").look().engines] == ["x0"]
        assert [e.name for e in Looking("other").look().engines] == ["f0"]
        assert Looking("third").look().engines == ()
        assert Looking().look().observation in ("demo", "other")  # of one process, both


def test_an_engine_that_ran_again():
    with StatusPage("f0") as f0, StatusPage("f0") as again:
        assert again.name != "f0"
        put(f0, sent=1)
        put(again, sent=2)
        path = again.path / "status.json"
        page = json.loads(path.read_text())
        path.write_text(json.dumps(page | {"started": page["started"] + 1}))
        (engine,) = Looking().look().engines
        assert engine.values["sent"] == 2


def test_bands_of_several_catchers_are_joined():
    x = noise(rng(), 3, 2, 256, 64)
    low, high = (
        [glance_of(x[:, :, part], first_channel=part.start, first_spectrum=64 * n, number=n) for n in range(4)]
        for part in (slice(0, 128), slice(128, 256))
    )
    with StatusPage("catcher0") as one, StatusPage("catcher1") as two:
        put(one, integrations=1, position=2.0)
        put(two, integrations=2, position=1.0)
        looking = Looking()
        one.keep("glance", low[0].to_bytes())
        sight = looking.look()
        assert sight.glance.channels == 128 and sight.position == 1.0 and sight.integrations == 2
        two.keep("glance", high[0].to_bytes())
        one.keep("glance", low[1].to_bytes())
        sight = looking.look()  # the newest that both have
        assert (sight.glance.number, sight.glance.channels) == (0, 256)
        assert looking.look().glance is sight.glance
        two.keep("glance", high[1].to_bytes())
        assert (looking.look().glance.number, looking.look().glance.channels) == (1, 256)
        for late in low[2:]:  # the other one is slow
            one.keep("glance", late.to_bytes())
            assert looking.look().glance.number == 1


def test_histograms_of_all_engines_are_joined():
    random = rng()
    values = [gaussian(random, 30, 3000) for _ in range(6)]
    values[4] &= ~1
    with StatusPage("f0") as f0, StatusPage("f1") as f1:
        put(f0, **of_inputs(0, 4))
        put(f1, **of_inputs(4, 2))
        looking = Looking()
        assert looking.look().histograms is None
        f0.keep("histograms", histograms_of(values[:4]).to_bytes())
        h = looking.look().histograms
        assert h.lately.shape == (6, 1025) and not h.lately[4:].any()
        f1.keep("histograms", histograms_of(values[4:], first_input=4).to_bytes())
        sight = looking.look()
        np.testing.assert_array_equal(sight.histograms.lately, histograms_of(values).lately)
        assert [i.codes for i in sight.inputs] == ["", "", "", "", "bit 0 stuck at 0", ""]
        assert looking.look().histograms is sight.histograms  # as long as nothing is new
        f1.keep("histograms", b"what is this")
        assert looking.look().histograms is sight.histograms
        f1.keep("histograms", histograms_of(values[:1], first_input=1 << 19).to_bytes())  # of no input of this array
        assert not looking.look().histograms.lately[4:].any()
        f1.close()
        assert looking.look().histograms is not None
    assert Looking().look().histograms is None


def test_of_histograms_the_newest_are_kept():
    with StatusPage("f0") as f0, Watcher(interval=3600) as watcher:
        put(f0, **of_inputs(0, 6))
        for n in range(4):
            f0.keep("histograms", histograms_of([[n]] * 6).to_bytes())
            watcher._look()
        assert [s.histograms is not None for s in watcher.history()][-4:] == [False, False, False, True]


def test_logs(tmp_path):
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "f0.log").write_text("".join(f"line {n}\n" for n in range(5000)) + "last \x1b[31mwords\n\n")
    (logs / "x9.log").write_text("of nobody\n")
    (logs / "catcher0.log").write_text("of an earlier run\n")
    os.utime(logs / "catcher0.log", (1, 1))
    with StatusPage("f0") as f0, StatusPage("catcher0") as catcher:
        put(f0)
        put(catcher, integrations=0, file=str(tmp_path / "o.uvh5"))
        looking = Looking()
        log = looking.look().log
        assert log[-2:] == ("f0: line 4999", "f0: last ?[31mwords") and len(log) == 12
        f0.close()  # it has ended; what it said is still there
        assert looking.look().log == log


def test_watching_is_said_to_those_who_write():
    told = []
    control = Control("json", get=lambda: told[-1] if told else None, set=lambda value: told.append(value))
    with StatusPage("catcher0", {"watch": control}) as catcher, StatusPage("f0") as f0:
        put(f0)
        put(catcher, integrations=0)
        with Watcher(interval=0.05) as watcher:
            wait_for(lambda: told)
            assert told[0] == {"products": []}
            watcher.choose([5, 3])
            wait_for(lambda: told[-1] == {"products": [3, 5]})
            watcher.choose(range(100))
            wait_for(lambda: len(told[-1]["products"]) == 64)
            watcher._asked -= 60  # nobody has looked for a minute
            before = len(told)
            watcher.choose([7])
            time.sleep(0.2)
            assert len(told) <= before + 1


def wait_for(condition, seconds=20):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_many_views_wait_for_the_same_looks():
    with StatusPage("x0") as x0, Watcher(interval=0.05) as watcher:
        put(x0)
        got = []

        def view():
            times = [watcher.sight().time]
            while len(times) < 6:
                times.append(watcher.wait(times[-1], 20).time)
            got.append(times)

        views = [threading.Thread(target=view) for _ in range(8)]
        for each in views:
            each.start()
        for each in views:
            each.join(30)
        assert len(got) == 8 and all(len(set(times)) == 6 for times in got)
        assert watcher.wait(0.0, 0.0) is not None
        last = watcher.sight()
        while (newer := watcher.wait(last.time, 0.0)) is not None:  # a look has come between
            assert newer.time != last.time
            last = newer
        history = watcher.history()
        assert len(history) >= 5 and history[-1].observation == "demo"


def test_a_run_after_another_has_a_history_of_its_own():
    with Watcher(interval=0.05) as watcher:
        for name in ("first", "second"):
            with StatusPage("x0") as x0:
                put(x0, TEXT.replace('name = "demo"', f'name = "{name}"'))
                wait_for(lambda name=name: watcher.sight().observation == name)
                assert {s.observation for s in watcher.history()} <= {name, ""}
                assert watcher.observation.observation.name == name
            wait_for(lambda: watcher.sight().observation == "")


def test_files_that_an_observation_names(tmp_path):
    """They lie beside it; engines say where that is."""
    (tmp_path / "ants.txt").write_text("A0 0 0 0\nA1 10 0 0\nA2 30 0 0\n")
    lines = TEXT.splitlines()
    first = next(n for n, line in enumerate(lines) if line.startswith("antennas"))
    last = next(n for n in range(first, len(lines)) if lines[n] == "]")
    text = "\n".join([*lines[:first], 'antenna_file = "ants.txt"', *lines[last + 1 :]])
    (tmp_path / "o.toml").write_text(text)
    assert len(load(tmp_path / "o.toml").antennas) == 3
    with StatusPage("x0") as x0:
        put(x0, text)
        looking = Looking()
        assert looking.look().inputs == () and looking.observation is None
        put(x0, text, source=str(tmp_path / "o.toml"))
        assert len(looking.look().inputs) == 6


ODD = [
    None,
    "\0",
    3,
    -1,
    1e308,
    float("nan"),
    "x",
    [],
    [1],
    {},
    {"a": [1]},
    True,
    [None] * 4,
    ["x"] * 4,
    [{}] * 4,
    1 << 90,
]


def test_hostile_pages(tmp_path):
    """Any figure may have any type: nothing breaks, and what is right beside it is still seen."""
    names = (
        "begin",
        "position",
        "integrations",
        "file",
        "writes",
        "account",
        "inputs",
        "first_input",
        "full_scale",
        "input_rms",
    )
    names += ("input_present", "input_placed", "state", "interval", "ring", "received", "resyncs", "source")
    random = rng()
    with StatusPage("x0") as x0, StatusPage("fx0", kinds=KINDS) as fx0, Watcher(interval=3600) as watcher:
        put(x0, good=1)
        for _ in range(400):
            picked = random.choice(len(names), 6)
            put(fx0, **{names[n]: ODD[random.integers(len(ODD))] for n in picked})
            watcher._look()
            assert not watcher._said and watcher.sight().engines[0].values["good"] == 1


def test_hostile_files(directory, tmp_path):
    with StatusPage("x0") as x0, StatusPage("catcher0") as catcher:
        put(x0)
        put(catcher, integrations=1)
        looking = Looking()
        good = seen(number=3)
        bad = [
            b"",
            b"RYLEGLN1",
            good.to_bytes()[:-1],
            os.urandom(999),
            good.to_bytes().replace(b"antennas", b"antennae"),
        ]
        for field, value in [
            ("antennas", 4), ("pols", 3), ("channels", 0), ("integration", 0), ("first_channel", 1), ("number", -5),
            ("power", good.power[:3]), ("coarse", good.coarse[:, :4]), ("present", good.present[:2]),
            ("chosen", np.array([99])), ("coarse_edges", good.coarse_edges[::-1]), ("first_spectrum", -1),
        ]:  # fmt: skip
            bad.append(replace(good, **{field: value}).to_bytes())
        for data in bad:
            catcher.keep("glance", data)
            glance = looking.look().glance
            assert glance is None or glance.number in (-5,)
            looking._left.clear()
        (catcher.path / "glance").unlink()
        os.mkfifo(catcher.path / "glance")
        os.mkfifo(catcher.path / "histograms")
        put(catcher, integrations=1, first_input=[])
        os.symlink("/dev/zero", directory / "ryle.zero")
        (directory / "ryle.file").write_text("x")
        (x0.path / "observation.toml").unlink()
        os.mkfifo(x0.path / "observation.toml")
        assert looking.look().glance is None  # and nobody waits
        for text in (b"", b"\xff", b"x = [" * 5000, b"[observation]\nname = 3", b"observation = 3"):
            (directory / "ryle.x0" / "observation.toml").unlink()
            (directory / "ryle.x0" / "observation.toml").write_bytes(text)
            assert [e.name for e in Looking().look().engines] == ["catcher0"]


def test_engines_that_vanish_while_they_are_read():
    """Pages come and go while somebody looks, as fast as they can."""
    ended = threading.Event()

    def churn(name):
        while not ended.is_set():
            with StatusPage(name) as page:
                put(page, integrations=1, **of_inputs(0, 6))
                page.keep("glance", small)

    small = seen().to_bytes()
    threads = [threading.Thread(target=churn, args=(name,)) for name in ("f0", "catcher0")]
    for thread in threads:
        thread.start()
    try:
        with Watcher(interval=3600) as watcher:
            for _ in range(150):
                watcher._look()
            assert not watcher._said
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    assert read_pages() == []


def test_what_goes_wrong_is_said_once(monkeypatch, capsys):
    with Watcher(interval=3600) as watcher:
        monkeypatch.setattr(module.Looking, "look", lambda self: 1 / 0)
        for _ in range(3):
            watcher._look()
        assert watcher.sight().engines == ()
    assert capsys.readouterr().err.count("division by zero") == 1


def test_a_glance_of_another_observation_is_none():
    o = load(Path(__file__).parents[1] / "small.toml")
    assert consistent(seen(), o) and consistent(seen())
    assert not consistent(glance_of(noise(rng(), 2, 2, 256, 64)), o)
    assert not consistent(glance_of(noise(rng(), 3, 2, 200, 64), first_channel=100), o)
