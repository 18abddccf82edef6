"""Each thing that can be wrong with an array is named while it is observed: by its alarm, for its input."""

import os
import re
import signal
import subprocess
import time

import pytest

from ports import free_ports
from ryle.config import example
from ryle.monitor.control import ControlClient
from ryle.monitor.page import read_pages
from ryle.stream.controls import StatusError
from ryle.watch.watcher import Watcher

pytestmark = pytest.mark.timeout(240)


def text_of(defects, rfi=""):
    """The shipped array in trouble, with other trouble, on free ports."""
    text = example("troubled").read_text()
    text = text[: text.index("rfi = [")] + rfi + "\n" + defects + "\n" + text[text.index("[output]") :]
    return text.replace(
        "[simulate]",
        f"""[network]
digitizers = "127.0.0.1:{free_ports(20)}"
spectra = "127.0.0.1:{free_ports(4)}"
visibilities = "127.0.0.1:{free_ports(1)}"

[simulate]""",
        1,
    )


@pytest.fixture
def seen(ryle, tmp_path, monkeypatch):
    """Run an observation file; give the run, and the alarms under way at each look, until enough is seen.

    An earlier run of the same test is over then, and its pages are elsewhere.
    """
    watching, runs = [], []

    def start(path, name, output=None, patience=90.0, ends=False):
        for earlier in watching:
            earlier.close()
        for earlier in runs:
            earlier.kill()
        pages = tmp_path / f"pages{len(runs)}"
        pages.mkdir()
        monkeypatch.setenv("RYLE_STATUS_DIR", str(pages))
        run = ryle("run", path, "--output", output or tmp_path / f"out{len(runs)}")
        runs.append(run)

        def looks():
            end, last = time.monotonic() + patience, 0.0
            with Watcher(name) as watcher:
                while time.monotonic() < end:
                    assert ends or run.process.poll() is None, run.said
                    sight = watcher.wait(last, 5.0)
                    if sight is not None:
                        last = sight.time
                        yield sight, {(a.kind, a.subject): a for a in sight.alarms if a.ended is None}

        watching.append(looks())
        return run, watching[-1]

    yield start
    for each in watching:
        each.close()


@pytest.fixture
def watch(seen, tmp_path):
    """Run an observation of the shipped array; give the alarms under way at each look."""

    def looks(text, patience=90.0):
        path = tmp_path / "troubled.toml"
        path.write_text(text)
        _, found = seen(path, "troubled", patience=patience)
        for sight, alarms in found:
            yield sight, set(alarms)

    return looks


def defect(kind, more="", input=""):
    return f'[[simulate.defects]]\nkind = "{kind}"\n' + (f"input = {input}\n" if input else "") + more


CASES = {
    "dead": (defect("dead", input='"A3 x"'), "", ("dead", "A3 x")),
    "clipping": (defect("clipping", input='"A6 y"'), "", ("clipping", "A6 y")),
    "swapped": (defect("swapped", input='"A8"'), "", ("no fringe", "A8")),
    "exchanged": (defect("exchanged", input='["A2", "A7"]'), "", ("no fringe", "A2 and A7")),
    "noise": (defect("noise", input='"A2"'), "", ("no fringe", "A2")),
    "delay": (defect("delay", 'delay = "400 ns"', input='"A4 y"'), "", ("no fringe", "A4 y")),
    "loss": (defect("loss", "loss = 0.01", input='"A1"'), "", ("loss", "A1 x")),
    "jump": (defect("jump", 'samples = 409600000\nstart = "8 s"'), "", ("time jump", "F-engine 0")),
    "interference": (
        "",
        'rfi = [{ frequency = "1.4006 GHz", level = 0.7, start = "5 s" }]',
        ("interference", "1400.6"),
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("case", CASES)
def test_what_is_wrong_is_named(watch, case):
    defects, rfi, (kind, subject) = CASES[case]
    seen = set()
    for _, alarms in watch(text_of(defects, rfi)):
        seen |= alarms
        if any(k == kind and s.startswith(subject) for k, s in alarms):
            break
    else:
        raise AssertionError(f"no alarm of {subject} for {kind}; there were {sorted(seen) or 'none'}")


@pytest.mark.long
def test_of_one_bad_link_both_inputs_are_named_and_no_engine(watch):
    """1 % of one antenna of five is 0.2 % of its F-engine, and nothing of what that sends."""
    defects, rfi, _ = CASES["loss"]
    seen = set()
    for sight, alarms in watch(text_of(defects, rfi)):
        seen |= {alarm for alarm in alarms if alarm[0] == "loss"}
        if sight.position is not None and sight.position > 15:
            break
    assert seen == {("loss", "A1 x"), ("loss", "A1 y")}


@pytest.mark.long
def test_of_a_healthy_array_nothing_is_said(watch):
    """Judged for 20 integrations, each half a second of signal."""
    seen = set()
    for sight, alarms in watch(text_of(""), patience=120):
        seen |= alarms
        if sight.integrations >= 20:
            break
    else:
        raise AssertionError("not 20 integrations in two minutes")
    assert not {a for a in seen if a[0] != "disk"}, seen


@pytest.fixture
def small(observation):
    """Two antennas and two X-engines, a quarter as fast as time passes: 0.26 s of signal an integration."""
    return lambda: observation(duration=60, spectra=4096, speed="0.25")[0]


def test_a_control_that_comes_too_late_is_named_for_a_while(seen, small, steady):
    def body():
        _, looks = seen(small(), "small", patience=60)
        refused, since = None, None
        for sight, alarms in looks:
            f0 = next((e for e in sight.engines if e.name == "f0"), None)
            if refused is None and f0 is not None and (f0.values.get("position") or 0) > 0.2:
                assert ("late control", "F-engine 0") not in alarms
                (page,) = read_pages("f0")
                with ControlClient(page) as client, pytest.raises(StatusError, match="late") as told:
                    client.set("gains", {"gains": 2.0, "sample": 0})
                refused = told.value
            alarm = alarms.get(("late control", "F-engine 0"))
            if alarm is not None and since is None:
                since = alarm.since
                assert "1 so far, which were refused" in alarm.text and alarm.severity == "warning"
            if since is not None and alarm is None:
                assert 4 < sight.time - since < 30
                break
        else:
            raise AssertionError(f"it was {'never named' if since is None else 'named for ever'}: {refused}")

    steady(body)


@pytest.mark.parametrize(
    ("victim", "name"), [("x1", "X-engine 1"), pytest.param("f0", "F-engine 0", marks=pytest.mark.long)]
)
def test_an_engine_that_is_killed_is_named(seen, small, steady, victim, name):
    def body():
        run, looks = seen(small(), "small", patience=60, ends=True)
        pid = None
        for sight, alarms in looks:
            if pid is None and sight.integrations >= 1:
                assert not [key for key in alarms if key[0] == "engine"]
                pid = run.children()[victim]
                os.kill(pid, signal.SIGKILL)
            alarm = alarms.get(("engine", name))
            if alarm is not None:
                assert pid is not None and f"(process {pid}) is gone: it was killed" in alarm.text
                break
        else:
            raise AssertionError(f"{name} was not named; {run.said}")

    steady(body)


def test_a_disk_that_fills_is_named_before_it_is_full(seen, observation, tmp_path, steady):
    """Where the file lies there is room for minutes: as many as there will be, by the rate at which it grows."""
    place = tmp_path / "small"
    place.mkdir()

    def body():
        path, _ = observation(duration=120, spectra=128, speed="0.25")  # a quarter of 122 integrations a second
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=64m", "none", str(place)], capture_output=True, text=True
        )
        if mounted.returncode:
            pytest.skip(f"a small disk cannot be made here: {mounted.stderr.strip()}")
        try:
            run, looks = seen(path, "small", place)
            free = []
            for sight, alarms in looks:
                free.append((sight.time, os.statvfs(place).f_bavail * os.statvfs(place).f_frsize))
                alarm = alarms.get(("disk", str(place)))
                if alarm is not None:
                    break
            else:
                raise AssertionError(f"it was not named; it had {free[0]}, and {free[-1]} in the end")
            free = [each for each in free if each[0] > free[-1][0] - 20]
            rate = (free[0][1] - free[-1][1]) / (free[-1][0] - free[0][0])
            told = re.search(r"has ([0-9.]+) GB left, full in ([0-9.]+) minutes at", alarm.text)
            assert float(told[1]) == pytest.approx(free[-1][1] / 1e9, rel=0.1)
            assert float(told[2]) == pytest.approx(free[-1][1] / rate / 60, rel=0.5)
            assert alarm.severity == ("error" if free[-1][1] < 60 * rate else "warning")
            run.kill()
        finally:
            subprocess.run(["umount", "-l", str(place)], check=False)

    steady(body)
