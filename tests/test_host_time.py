"""Processor time that somebody took from a measurement."""

import os
import subprocess
import sys
import time

import pytest

from ryle import host_time
from ryle.host_time import TimeTaken, away_seconds, stolen_seconds, used_seconds

SPIN = "import time; print(flush=True)\nwhile time.process_time() < 60: pass"


@pytest.fixture
def stat(tmp_path, monkeypatch):
    """Counters that a test sets, of two processors: what the host took from each, and user time of all."""

    def write(first, second, user=0):
        text = "intr 5\n".join(["".join([
            f"cpu  {user} 0 0 900 0 0 0 {first + second} 0 0\n",
            f"cpu0 {user} 0 0 450 0 0 0 {first} 0 0\n",
            f"cpu1 0 0 0 450 0 0 0 {second} 0 0\n"]), ""])  # fmt: skip
        (tmp_path / "stat").write_text(text)

    write(100, 200)
    monkeypatch.setattr(host_time, "Path", lambda name: tmp_path / "stat" if name == "/proc/stat" else None)
    monkeypatch.setattr(host_time, "_TICKS", 100)
    return write


def test_what_the_host_took_and_from_which_processor_longest(stat):
    taken = TimeTaken()
    stat(150, 450)
    assert away_seconds() == (1.5, 4.5) and stolen_seconds() == 6.0
    assert taken.stolen == 3.0 and taken.longest == 2.5


def test_where_nobody_counts_it_nothing_was_stolen(tmp_path, monkeypatch):
    monkeypatch.setattr(host_time, "Path", lambda _: tmp_path / "none")
    assert stolen_seconds() == 0.0
    (tmp_path / "none").write_text("cpu  1 2 3\n")  # of a kernel that counts no stolen time
    assert stolen_seconds() == 0.0


def test_every_processor_of_this_machine_is_there():
    assert len(away_seconds()) == os.cpu_count()
    assert sum(away_seconds()) == pytest.approx(stolen_seconds(), abs=0.1 * len(away_seconds()) + 1)


def test_processor_time_of_a_process():
    before, own = used_seconds(os.getpid()), time.process_time()
    while time.process_time() < own + 0.1:
        pass
    assert 0.08 <= used_seconds(os.getpid()) - before < 5


def test_time_of_processes_that_take_part_is_not_others():
    """The rest of this machine may be busy as well: of two looks at the same time, one counts the child as its own."""
    with subprocess.Popen([sys.executable, "-c", SPIN], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None and child.stdout.readline()
        before, taken, taking_part = used_seconds(child.pid), TimeTaken(), TimeTaken([child.pid])
        while (used := used_seconds(child.pid) - before) < 0.5:
            time.sleep(0.01)
        with_it, without = taken.others, taking_part.others
        child.kill()
    assert with_it - without == pytest.approx(used, abs=0.2)
