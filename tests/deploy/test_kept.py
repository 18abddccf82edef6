"""Engines that outlive who keeps them, and those who do: on this host alone, without Ray."""

import contextlib
import json
import os
import shutil
import signal
import sys
import time
from pathlib import Path

import pytest

from ryle.deploy import keeper as keeping
from ryle.deploy import kept
from ryle.deploy.keeper import Keeper
from ryle.deploy.kept import Job, KeptEngine, directory_of, end_all

#: Stands for `ryle`: says how it was started, waits to be told to end, or does as its argument says.
PROGRAM = """#!{python}
import json, os, signal, sys, time
words = sys.argv[3:]
print(json.dumps({"state": "running", "interval": 0.01, "words": words, "pid": os.getpid()}), flush=True)
print("a word", os.environ.get("OWN"), file=sys.stderr, flush=True)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
if "fail" in words:
    sys.exit(3)
if "wrong" in words:
    sys.exit(2)
while "mute" in words or not print(json.dumps({"state": "running", "interval": 0.01}), flush=True):
    time.sleep(0.005)
"""


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """Directories of hosts under this test's own, and a program in the place of `ryle`."""
    (program := tmp_path / "python").write_text(PROGRAM.replace("{python}", sys.executable))
    program.chmod(0o755)
    monkeypatch.setattr(kept.tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(program))
    monkeypatch.setattr(kept, "AGAIN", 0.05)
    monkeypatch.setattr(keeping, "AGAIN", 0.05)
    yield tmp_path
    for path in tmp_path.glob("ryle-*/*/*/*.pid"):
        with contextlib.suppress(OSError, ValueError):
            os.kill(int(path.read_text()), signal.SIGKILL)


def job(*words, **more):
    given = {"files": {"array.toml": b"[observation]"}, "environment": {"OWN": "mine"}} | more
    return Job("run-1", "x0", "rack1", ("engine", "OBSERVATION", *words), ("again", "OBSERVATION", *words), **given)


def until(true, seconds=60):
    end = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < end
        time.sleep(0.005)
    return found


def heard(engine):
    """The first line of an engine that has just been started, once who waits for it has noted its number."""
    lines = []
    until(lambda: lines.extend(engine.lines()) or lines)
    until(lambda: engine.pid is not None)
    return json.loads(lines[0])


def test_it_is_nobodys_child_and_the_next_keeper_finds_it():
    first = KeptEngine(job(), "rack1")
    assert not first.adopted
    first.start()
    said = heard(first)
    assert said["words"] == ["engine", str(directory_of("run-1", "rack1") / "array.toml")]
    assert Path(said["words"][1]).read_text() == "[observation]"
    stat = Path(f"/proc/{said['pid']}/stat").read_text().rpartition(")")[2].split()
    assert int(stat[3]) != os.getsid(0)  # of a session of its own
    second = KeptEngine(job(), "rack1")
    assert second.adopted and second.pid == first.pid == said["pid"] and second.poll() is None
    second.start()  # it runs: nothing happens
    assert second.pid == said["pid"]
    second.drain()
    assert until(lambda: second.poll() is not None) and second.poll() == first.poll() == 0
    assert second.draining and second.words()[-1] == "a word mine"
    second.forget()
    left = {path.name for path in directory_of("run-1", "rack1").iterdir()}
    assert left == {"array.toml", "x0.log"}


@pytest.mark.parametrize(("words", "status"), [(("fail",), 3), (("wrong",), 2)])
def test_it_says_how_it_ended(words, status):
    engine = KeptEngine(job(*words), "rack1")
    engine.start()
    until(lambda: engine.poll() is not None)
    assert engine.poll() == status


def test_one_that_takes_long_to_begin_is_not_taken_for_killed(monkeypatch):
    """Else it would be started again, beside itself."""
    monkeypatch.setattr(kept, "_SECONDS", 0.05)
    slow = kept._HOLD.replace('"$@"', 'sleep 1.5; "$@"')
    monkeypatch.setattr(kept, "_HOLD", slow)
    engine = KeptEngine(job(), "rack1")
    engine.start()
    begun, seen = time.monotonic(), []
    while not seen or (seen[-1] is None and engine.pid is None and time.monotonic() - begun < 60):
        seen.append(engine.poll())
        time.sleep(0.02)
    assert set(seen) == {None} and len(seen) > 10 and engine.pid == heard(engine)["pid"]


def test_one_that_is_killed_and_he_who_waits_for_it_too():
    engine = KeptEngine(job(), "rack1")
    engine.start()
    pid = heard(engine)["pid"]
    engine.kill()
    until(lambda: engine.poll() is not None)
    assert engine.poll() == -signal.SIGKILL
    engine.lines()  # what it went on to say until then
    engine.start(again=True)
    assert heard(engine)["pid"] != pid
    # Nobody is left to say how it ended: it is known after a while.
    parent = int(Path(f"/proc/{engine.pid}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(parent, signal.SIGKILL)
    os.kill(engine.pid, signal.SIGTERM)
    until(lambda: engine.pid is None)
    assert engine.poll() is None
    assert until(lambda: engine.poll() is not None, 2 * kept._SECONDS) and engine.poll() == -signal.SIGKILL


def test_another_process_of_its_number_is_none_of_it():
    engine = KeptEngine(job(), "rack1")
    engine._file("pid").write_text(str(os.getpid()))
    assert engine.pid is None and not KeptEngine(job(), "rack1").adopted
    engine.forget()


def test_what_others_have_put_in_its_place_is_refused(here):
    top = here / f"ryle-{os.getuid()}"
    top.mkdir()
    top.chmod(0o777)
    with pytest.raises(PermissionError, match="somebody else made it"):
        KeptEngine(job(), "rack1")
    top.rmdir()
    (here / "elsewhere").mkdir()
    top.symlink_to(here / "elsewhere")
    with pytest.raises(PermissionError, match="somebody else made it"):
        KeptEngine(job(), "rack1")


def test_cores_that_a_host_lacks_are_told_and_do_no_harm():
    engine = KeptEngine(job(cores=(0, 4000)), "rack1")
    engine.start()
    assert "wants cores 4000" in engine.warnings[0]
    one = KeptEngine(Job("run-1", "f0", "rack1", ("engine", "OBSERVATION"), (), {"a.toml": b""}, cores=(0,)), "rack1")
    one.start()
    assert os.sched_getaffinity(heard(one)["pid"]) == {0}
    engine.kill(), one.kill()


def test_lines_that_were_read_do_not_stay_on_the_disk(monkeypatch):
    monkeypatch.setattr(kept, "_KEPT", 8192)
    engine = KeptEngine(job(), "rack1")
    engine.start()
    count = 0

    def enough():
        nonlocal count
        count += len(engine.lines())
        return count > 600

    until(enough, 60)
    file = engine._file("lines").stat()
    assert file.st_size > 20_000 and file.st_blocks * 512 <= file.st_size - 8192, file
    engine.kill()


def report(keeper, since=None):
    return keeper.report(keeper._number if since is not None else "", since or 0)


def events(keeper):
    return [json.loads(line) for line in report(keeper).lines if '"event"' in line]


def test_a_keeper_starts_again_what_failed_and_not_what_ended():
    keeper = Keeper(job(), "rack1", begun=False)
    keeper.start()
    pid = until(lambda: keeper._engine.pid)
    keeper._engine.kill()
    again = until(lambda: keeper._engine.pid not in (None, pid) and keeper._engine.pid)
    (event,) = events(keeper)
    assert event["event"] == "again" and "was killed by signal 9" in event["why"] and event["host"] == "rack1"
    until(lambda: any('"words": ["again"' in line for line in report(keeper).lines))
    keeper.tell("drain")
    until(lambda: report(keeper).ended is not None)
    assert report(keeper).ended == 0 and report(keeper).words[-1] == "a word mine"
    assert again and keeper._engine.pid is None


@pytest.mark.parametrize(("words", "more", "status"), [(("wrong",), {}, 2), (("fail",), {"restarts": False}, 3)])
def test_a_keeper_does_not_repeat_what_cannot_help(words, more, status):
    keeper = Keeper(job(*words, **more), "rack1", begun=False)
    keeper.start()
    until(lambda: report(keeper).ended is not None)
    assert report(keeper).ended == status and not events(keeper)


def test_a_keeper_kills_who_says_nothing(monkeypatch):
    monkeypatch.setattr(keeping, "SILENCE", 0.3)
    keeper = Keeper(job("mute"), "rack1", begun=False)
    keeper.start()
    pid = until(lambda: keeper._engine.pid)
    until(lambda: keeper._engine.pid not in (None, pid))
    silent, again = events(keeper)[:2]
    assert silent["event"] == "silent" and again["event"] == "again"
    keeper.kill()
    until(lambda: report(keeper).ended is not None)


def test_the_next_keeper_takes_up_what_runs_or_starts_what_went():
    first = Keeper(job(), "rack1", begun=False)
    first.start()
    pid = until(lambda: first._engine.pid)
    second = Keeper(job(), "rack1", begun=True)
    assert events(second)[0]["event"] == "kept" and second._engine.pid == pid
    # Lines are counted by each keeper for itself: whoever asks a new one gets all that it has.
    assert report(second).until == len(report(second).lines) or until(lambda: report(second).lines)
    second.kill()
    until(lambda: report(second).ended is not None and report(first).ended is not None)
    second.forget()
    third = Keeper(job(), "rack2", begun=True)  # on a spare host, where nothing runs
    assert events(third)[0]["event"] == "again"
    until(lambda: third._engine.pid)
    third.kill()
    until(lambda: report(third).ended is not None)


def test_all_of_a_run_is_ended_on_a_host():
    keepers = [
        KeptEngine(Job("run-1", name, "rack1", ("engine", "OBSERVATION"), (), {"a.toml": b""}), "rack1")
        for name in ("f0", "x3")
    ]
    for engine in keepers:
        engine.start()
    assert all(until(lambda e=engine: e.pid) for engine in keepers)
    assert sorted(end_all("run-1", "rack1", 10.0)) == ["f0", "x3"]
    assert all(engine.pid is None for engine in keepers)
    assert end_all("run-1", "rack1", 10.0) == [] == end_all("run-2", "rack1", 10.0)


def test_the_program_is_this_one(monkeypatch):
    monkeypatch.undo()
    engine = KeptEngine(Job(f"test-{os.getpid()}", "f0", "rack1", ("--version",), (), {"a.toml": b""}), "rack1")
    engine.start()
    lines = []
    until(lambda: lines.extend(engine.lines()) or lines)
    assert lines[0].startswith("ryle "), lines
    shutil.rmtree(directory_of(f"test-{os.getpid()}", "rack1").parent)
