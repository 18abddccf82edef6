"""Each thing that can be wrong with an array is named while it is observed: by its alarm, for its input."""

import time

import pytest

from ports import free_ports
from ryle.config import example
from ryle.watch.watcher import Watcher

pytestmark = [pytest.mark.long, pytest.mark.timeout(240)]


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
def watch(ryle, tmp_path, monkeypatch):
    """Run an observation file, and give the alarms under way at each look, until enough is seen."""
    pages = tmp_path / "pages"
    pages.mkdir()
    monkeypatch.setenv("RYLE_STATUS_DIR", str(pages))

    def looks(text, patience=90.0):
        path = tmp_path / "troubled.toml"
        path.write_text(text)
        run = ryle("run", path, "--output", tmp_path / "out")
        end, last = time.monotonic() + patience, 0.0
        with Watcher("troubled") as watcher:
            while time.monotonic() < end:
                assert run.process.poll() is None, run.said
                sight = watcher.wait(last, 5.0)
                if sight is not None:
                    last = sight.time
                    yield sight, {(a.kind, a.subject) for a in sight.alarms if a.ended is None}

    return looks


def defect(kind, more="", input=""):
    return f'[[simulate.defects]]\nkind = "{kind}"\n' + (f"input = {input}\n" if input else "") + more


CASES = {
    "dead": (defect("dead", input='"A3 x"'), "", ("dead", "A3 x")),
    "clipping": (defect("clipping", input='"A6 y"'), "", ("clipping", "A6 y")),
    "swapped": (defect("swapped", input='"A8"'), "", ("no fringe", "A8")),
    "noise": (defect("noise", input='"A2"'), "", ("no fringe", "A2")),
    "delay": (defect("delay", 'delay = "400 ns"', input='"A4 y"'), "", ("no fringe", "A4 y")),
    "loss": (defect("loss", "loss = 0.01", input='"A1"'), "", ("loss", "F-engine 0")),
    "jump": (defect("jump", 'samples = 409600000\nstart = "8 s"'), "", ("time jump", "F-engine 0")),
    "interference": (
        "",
        'rfi = [{ frequency = "1.4006 GHz", level = 0.7, start = "5 s" }]',
        ("interference", "1400.6"),
    ),
}


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


def test_of_inputs_that_lose_packets_the_antenna_is_named(watch):
    defects, rfi, _ = CASES["loss"]
    texts = set()
    for sight, _ in watch(text_of(defects, rfi)):
        texts |= {a.text for a in sight.alarms if a.kind == "loss"}
        if any("A1 x, A1 y" in text for text in texts):
            return
    raise AssertionError(f"A1 was not named: {texts}")


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
