"""``ryle monitor``: once for scripts, live in a real terminal, which is left as it was found."""

import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time

import pyte
import pytest

from ryle.monitor.publish import StatusPage
from ryle.watch.session import looks, record
from ryle.watch.sight import Alarm, EngineSight, InputSight, Sight

NOW = 1_700_000_000.0
RYLE = (sys.executable, "-m", "ryle", "monitor")


def an_engine(alive=True):
    values = {"state": "running", "account": {"missing": 17, "late": None}}
    return EngineSight("f0", "f", 0, 99, alive, "running", NOW, values, {"received": 12.5})


def a_session(path, *, alive=True, alarms=(), looks=3):
    with record(path) as recorder:
        for n in range(looks):
            recorder.add(
                Sight(
                    NOW + n / 2,
                    "night",
                    "ARRAY",
                    "",
                    "/data/night.uvh5",
                    5 + n,
                    1.5,
                    60.0,
                    (an_engine(alive),),
                    (InputSight(0, "A0", "x", 20.0, -21.5),),
                    tuple(alarms),
                    1e12,
                    ("f0: ready",),
                )
            )
    return path


def once(*arguments, pages=None, **environment):
    env = os.environ | environment | ({"RYLE_STATUS_DIR": str(pages)} if pages else {})
    return subprocess.run([*RYLE, "--once", *map(str, arguments)], capture_output=True, env=env, timeout=60)


ERROR = Alarm("dead", "A0 x", "error", "A0 x has no signal", "Look at its cable.", NOW - 5)
WARNING = Alarm("loss", "F-engine 0", "warning", "1 % is lost", "Look at the switch.", NOW - 5)


@pytest.mark.parametrize(
    ("alive", "alarms", "status", "word"),
    [
        (True, [], 0, "well"),
        (True, [WARNING], 0, "well"),
        (True, [WARNING, ERROR], 1, "wrong"),
        (False, [ERROR], 3, "nothing"),
    ],
)
def test_the_exit_status_says_how_it_stands(tmp_path, alive, alarms, status, word):
    session = a_session(tmp_path / "s", alive=alive, alarms=alarms)
    done = once("--replay", session, "--speed", 100, COLUMNS="100")
    text = done.stdout.decode()
    assert done.returncode == status and not done.stderr, done.stderr
    assert "night" in text and "F-engine 0" in text and "7 integrations" in text and "17" in text
    assert "\x1b" not in text  # a pipe is no terminal
    assert ("Look at its cable." in text) == (ERROR in alarms)
    done = once("--json", "--replay", session, "--speed", 100)
    found = json.loads(done.stdout)
    assert done.returncode == status and found["health"] == word and found["integrations"] == 7
    assert found["inputs"][0]["dbfs"] == -21.5 and found["engines"][0]["values"]["account"]["missing"] == 17


def test_nothing_runs(tmp_path):
    done = once(pages=tmp_path)
    assert done.returncode == 3 and "nothing of Ryle runs" in done.stdout.decode()
    assert json.loads(once("--json", pages=tmp_path).stdout)["health"] == "nothing"


def test_a_recording_that_was_begun_before_the_run_is_looked_at_further(tmp_path):
    with record(tmp_path / "s") as recorder:
        recorder.add(Sight(NOW))
        recorder.add(Sight(NOW + 1))
        recorder.add(Sight(NOW + 2, "night", engines=(an_engine(),)))
    done = once("--replay", tmp_path / "s", "--speed", 100)
    assert done.returncode == 0 and b"F-engine 0" in done.stdout


def test_once_looks_at_what_runs_and_records_it(tmp_path, monkeypatch):
    monkeypatch.setenv("RYLE_STATUS_DIR", str(tmp_path))
    with StatusPage("x3") as page:
        page.keep("observation.toml", b"[observation]\nname = 'here'\n")
        page.publish({"role": "x", "index": 3, "state": "running", "position": 4.5, "interval": 100.0})
        done = once("--record", tmp_path / "seen", PYTHONIOENCODING="ascii", COLUMNS="100")
        assert done.returncode == 0, done.stderr
        assert b"X-engine 3" in done.stdout and b"4.50" in done.stdout and b"here" in done.stdout
        assert once("--observation", "other").returncode == 3
    (look,) = looks(tmp_path / "seen")
    assert look.observation == "here" and look.engines[0].name == "x3"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--json"], "--json is of --once"),
        ([], "ryle monitor --once"),  # no terminal
        (["--replay", "there", "--record", "x"], "leave --record"),
        (["--once", "--replay", "other"], "ryle monitor --record"),
    ],
)
def test_mistakes_say_what_to_do(tmp_path, arguments, said):
    a_session(tmp_path / "there")
    (tmp_path / "other").write_text("something else")
    done = subprocess.run([*RYLE, *arguments], capture_output=True, text=True, cwd=tmp_path, stdin=subprocess.DEVNULL)
    assert done.returncode == 2 and said in done.stderr and len(done.stderr.splitlines()) == 1


def test_without_textual_it_says_what_to_install_and_once_works(tmp_path):
    session = a_session(tmp_path / "s", looks=1)
    code = "import sys; sys.modules['textual'] = None; from ryle.cli import main; main({})"
    done = subprocess.run([sys.executable, "-c", code.format(["monitor"])], capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr.splitlines() == [
        "error: the live view needs Textual: pip install 'ryle[watch]'; --once works without"
    ]
    arguments = ["monitor", "--once", "--replay", str(session)]
    done = subprocess.run([sys.executable, "-c", code.format(arguments)], capture_output=True, text=True)
    assert done.returncode == 0 and "night" in done.stdout


class Terminal:
    """A terminal of 80 columns in which a command runs."""

    def __init__(self, *command, term="xterm-256color"):
        self.screen = pyte.Screen(80, 24)
        self._stream, self.raw = pyte.ByteStream(self.screen), b""
        self.master, self.slave = pty.openpty()
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.before = termios.tcgetattr(self.slave)
        env = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES", "NO_COLOR")} | {"TERM": term}
        self.process = subprocess.Popen(
            command, stdin=self.slave, stdout=self.slave, stderr=self.slave, env=env, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )  # fmt: skip

    def read(self, seconds=0.05):
        if select.select([self.master], [], [], seconds)[0]:
            data = os.read(self.master, 65536)
            self.raw += data
            self._stream.feed(data)

    def until(self, what, seconds=60):
        end = time.monotonic() + seconds
        while not what():
            assert time.monotonic() < end, "\n".join(self.screen.display)
            self.read()

    def shows(self, text):
        return any(text in line for line in self.screen.display)

    def ended(self):
        self.until(lambda: self.process.poll() is not None)
        for _ in range(5):
            self.read()
        return self.process.returncode

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.master)
        os.close(self.slave)


@pytest.fixture
def terminal():
    opened = []

    def start(*command, **options):
        opened.append(Terminal(*command, **options))
        return opened[-1]

    yield start
    for each in opened:
        each.close()


@pytest.mark.parametrize("end", ["ctrl-c", "q", signal.SIGINT, signal.SIGTERM])
def test_in_a_terminal_which_is_left_as_it_was(tmp_path, terminal, end):
    t = terminal(*RYLE, "--replay", str(a_session(tmp_path / "s")), term="xterm" if end == "q" else "xterm-256color")
    t.until(lambda: t.shows("all is well") and t.shows("F-engine 0") and t.shows("1.50 of 60.00 s"))
    t.until(lambda: t.shows("1 Overview  2 Inputs  3 Losses  4 Spectra  5 Log  6 Alarms") and t.shows("q Quit"))
    os.write(t.master, b"2")
    t.until(lambda: t.shows("A0 x") and t.shows("-21.5"))
    os.write(t.master, b"5")
    t.until(lambda: t.shows("f0: ready"))
    if isinstance(end, str):
        os.write(t.master, b"\x03" if end == "ctrl-c" else b"q")
    else:
        t.process.send_signal(end)
    status = t.ended()
    assert status == (0 if isinstance(end, str) else 128 + end)
    assert b"Traceback" not in t.raw
    assert t.raw.rindex(b"\x1b[?1049l") > t.raw.rindex(b"\x1b[?1049h")  # the screen that was there before
    assert t.raw.rindex(b"\x1b[?25h") > t.raw.rindex(b"\x1b[?25l")  # with its cursor
    assert t.raw.rindex(b"\x1b[?1000l") > t.raw.rindex(b"\x1b[?1000h")  # the mouse is the terminal's again
    assert termios.tcgetattr(t.slave) == t.before


def test_what_is_seen_can_be_recorded_and_shown_again(tmp_path, terminal, monkeypatch):
    pages = tmp_path / "pages"
    pages.mkdir()
    monkeypatch.setenv("RYLE_STATUS_DIR", str(pages))
    with StatusPage("x3") as page:
        page.keep("observation.toml", b"[observation]\nname = 'here'\n")
        page.publish({"role": "x", "index": 3, "state": "running", "position": 4.5, "interval": 100.0})
        t = terminal(*RYLE, "--record", str(tmp_path / "seen"), "--interval", "0.1")
        t.until(lambda: t.shows("X-engine 3") and t.shows("4.50"))
        page.publish({"role": "x", "index": 3, "state": "running", "position": 5.5, "interval": 100.0})
        t.until(lambda: t.shows("5.50"))
        os.write(t.master, b"q")
        assert t.ended() == 0 and b"ryle monitor --replay" in t.raw
    positions = [look.engines[0].values["position"] for look in looks(tmp_path / "seen")]
    assert positions[0] == 4.5 and positions[-1] == 5.5 and positions == sorted(positions)
