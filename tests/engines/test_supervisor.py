"""The supervisor with tiny stand-ins for engines: order of the end, deaths, silence, last words."""

import json
import os
import sys
import threading
import time

import pytest

from ryle.engines import supervisor as module
from ryle.engines.site import Here
from ryle.engines.supervisor import RunError, Supervisor

#: An engine in miniature: ready, listening when told to go, done when told to drain; leaves all times in a file.
ENGINE = r"""
import json, os, pathlib, signal, sys, threading, time
name, behaviour = sys.argv[1:3]
account = {}
signal.signal(signal.SIGINT, signal.SIG_IGN)
state, times, quiet = "ready", [], threading.Event()
def say(state, **more):
    print(json.dumps({"state": state, "received": 0} | account | more), flush=True)
def note(what):
    times.append([time.monotonic(), what])
    with open(name, "w") as file:
        json.dump(times, file)
def repeat():
    while not quiet.wait(0.2):
        say(state)
note("begun")
if behaviour == "die early":
    sys.stderr.write("cannot receive at 127.0.0.1:7\n" * 40 + "the very last word\n")
    sys.exit(3)
if behaviour == "leave early":
    sys.exit(0)
if behaviour == "never ready":
    print("no memory yet", file=sys.stderr)
    sys.stdin.read()
if behaviour.startswith("ready beside"):
    while not all(pathlib.Path(name).with_name(other).exists() for other in behaviour.split()[2:]):
        time.sleep(0.01)
note("ready")
say("ready")
print("17")
print('["not", "ours"]')
print("plain text", flush=True)
threading.Thread(target=repeat, daemon=True).start()
line = sys.stdin.readline()
note(line)
if line == "go\n":
    if behaviour == "never goes":
        time.sleep(600)
    if behaviour.startswith("listens after"):
        time.sleep(float(behaviour.split()[-1]))
    state = "listening"
    note(state)
    say(state)
    if behaviour in ("simulate", "done for ever", "falls silent"):
        quiet.set()
    if behaviour in ("simulate", "done for ever"):
        time.sleep(0.3)
        say("done")
        time.sleep(600 if behaviour == "done for ever" else 0)
        sys.exit(0)
    if behaviour == "falls silent":
        time.sleep(600)
    if behaviour == "die":
        time.sleep(0.3)
        print("dying", file=sys.stderr)
        os.kill(os.getpid(), signal.SIGKILL)
    if behaviour == "event":
        for i in range(5):
            print(json.dumps({"event": "written", "integration": i}), flush=True)
    if behaviour == "begins anew":
        for placed, missing in ((7, 2), (100, 0), (3, 1)):
            account = {"account": {"unit": "packets", "placed": placed, "missing": missing, "kernel_drops": None}}
            say(state)
            if placed != 3:
                print(json.dumps({"event": "again", "why": "it was killed by signal 9", "host": "rack1"}), flush=True)
    note(sys.stdin.readline())
if behaviour == "never ends":
    time.sleep(600)
if behaviour == "fail at the end":
    print("disk full", file=sys.stderr)
    sys.exit(4)
quiet.set()
time.sleep(0.1)
say("done")
"""


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Supervise stand-ins given as (role, index, behaviour); give the supervisor, when each drained and the events.

    How long a machine takes to start them is not tested: it is stopped so long after all listen, and it has patience
    until something is true of the supervisor.
    """
    monkeypatch.setattr(module, "_QUIET", 0.2)
    script = tmp_path / "engine.py"
    script.write_text(ENGINE)

    def noted(what, *names):
        return all((tmp_path / n).exists() and f'"{what}"' in (tmp_path / n).read_text() for n in names)

    def when(condition, do):
        def wait():
            end = time.monotonic() + 60
            while not condition() and time.monotonic() < end:
                time.sleep(0.02)
            do()

        threading.Thread(target=wait, daemon=True).start()

    def start(*children, patience=60.0, until=None, stop_after=None):
        monkeypatch.setattr(module, "_PATIENCE", 60.0 if until else patience)
        events, drained, all_times = [], {}, {}
        commands = [(role, index, [str(tmp_path / f"{role}{index}"), how]) for role, index, how in children]
        here = Here("array.toml", tmp_path / "logs", (sys.executable, str(script)))
        made = Supervisor(commands, here, lambda c, e: events.append((c.name, e)))
        if until is not None:
            when(lambda: until(made), lambda: monkeypatch.setattr(module, "_PATIENCE", patience))
        if stop_after is not None:
            names = [f"{role}{index}" for role, index, _ in children]
            when(lambda: noted("listening", *names), threading.Timer(stop_after, made.stop).start)
        failure = None
        try:
            made.run()
        except RunError as error:
            failure = str(error)
        for role, index, _ in children:
            if (tmp_path / f"{role}{index}").exists():
                times = json.loads((tmp_path / f"{role}{index}").read_text())
                all_times[role, index] = {what: at for at, what in times}
                if "drain\n" in all_times[role, index]:
                    drained[role, index] = all_times[role, index]["drain\n"], "drain\n"
        for child in made.children:
            assert child.exit_code is not None
            with pytest.raises(ProcessLookupError):
                os.kill(child.process.pid, 0)
        made.times = all_times
        return made, failure, drained, events

    start.noted = noted
    return start


def test_stages_drain_in_the_order_of_the_signal_path(run):
    _, failure, drained, events = run(
        ("catcher", 0, "event"), ("x", 0, ""), ("x", 1, ""), ("f", 0, ""), ("f", 1, ""), ("simulate", 0, "simulate")
    )
    assert failure is None
    assert len(drained) == 5
    when = {key: at for key, (at, _) in drained.items()}
    assert max(when["f", 0], when["f", 1]) < min(when["x", 0], when["x", 1])
    assert max(when["x", 0], when["x", 1]) < when["catcher", 0]
    assert [e["integration"] for name, e in events if name == "catcher"] == list(range(5))


def test_what_somebody_may_still_have_sent_is_waited_for(run, monkeypatch):
    """X has said nothing new for long when F drains and sends its last: X must not be told to drain at once."""
    monkeypatch.setattr(module, "_QUIET", 0.8)
    _, failure, drained, _ = run(("f", 0, ""), ("x", 0, ""), ("catcher", 0, ""), stop_after=1.5)
    assert failure is None
    for before, after in (("f", "x"), ("x", "catcher")):
        assert drained[after, 0][0] - drained[before, 0][0] > 0.8


def test_accounts_of_one_that_was_started_again_are_summed(run):
    made, failure, _, events = run(("f", 0, ""), ("x", 0, "begins anew"), ("catcher", 0, ""), stop_after=0.5)
    assert failure is None and [e["event"] for name, e in events] == ["again", "again"]
    (x,) = (child for child in made.children if child.role == "x")
    assert x.status["account"]["placed"] == 3
    assert x.told["account"] == {"unit": "packets", "placed": 110, "missing": 3, "kernel_drops": None}
    assert x.told["state"] == "done"
    assert all("account" not in child.told for child in made.children if child is not x)


def test_stopped_from_outside(run):
    """Without a simulator only a person ends a run."""
    _, failure, drained, _ = run(("f", 0, ""), ("x", 0, ""), ("catcher", 0, ""), stop_after=0.5)
    assert failure is None and len(drained) == 3


@pytest.mark.parametrize("role, name", [("f", "F-engine 0"), ("x", "X-engine 0"), ("catcher", "catcher")])
def test_a_death_is_told_and_the_others_drain(run, role, name):
    roles = ("f", "x", "catcher")
    _, failure, drained, _ = run(*((r, 0, "die" if r == role else "") for r in roles))
    assert f"{name} was killed by signal 9" in failure
    assert "dying" in failure and failure.count("last words") == 1
    assert set(drained) == {(r, 0) for r in roles if r != role}


def test_last_words_of_one_that_never_got_ready(run, tmp_path):
    made, failure, drained, _ = run(("f", 0, "die early"), ("x", 0, ""), ("simulate", 0, "simulate"))
    assert "F-engine 0 ended with exit status 3" in failure
    assert "the very last word" in failure
    assert failure.count("cannot receive") < 40  # only the last ones, the rest is in the log
    assert str(tmp_path / "logs" / "f0.log") in failure
    assert (tmp_path / "logs" / "f0.log").read_text().count("cannot receive") == 40
    assert drained.keys() == {("x", 0), ("simulate", 0)}
    assert not any("go\n" in times for times in made.times.values())  # no input for a correlator that is not whole


@pytest.mark.parametrize("role", ["f", "catcher"])
def test_leaving_unasked_is_a_failure(run, role):
    began = time.monotonic()
    _, failure, _, _ = run((role, 0, "leave early"), ("x", 0, ""), patience=250)
    assert "ended with exit status 0 without having been told to" in failure
    assert time.monotonic() - began < 200


def test_failure_at_the_end(run):
    _, failure, _, _ = run(("f", 0, ""), ("catcher", 0, "fail at the end"), stop_after=0.3)
    assert "catcher ended with exit status 4" in failure and "disk full" in failure


def test_never_ready(run):
    def said(made):
        return run.noted("ready", "x0") and any("no memory yet" in c.words for c in made.children)

    _, failure, _, _ = run(("f", 0, "never ready"), ("x", 0, ""), patience=0.5, until=said)
    assert "F-engine 0 is not ready after 0.5 s; killed" in failure and "no memory yet" in failure


def test_never_goes(run):
    begun = ("f", 0, "never goes"), ("x", 0, "")
    _, failure, _, _ = run(*begun, patience=0.5, until=lambda _: run.noted("go\\n", "f0"))
    assert "F-engine 0 did not begin within 0.5 s of being told to; killed" in failure


def test_all_start_at_once_and_go_from_the_end(run):
    """Nobody goes before all are ready; a stage goes when those that receive from it listen."""
    listens = "listens after 0.4"
    made, failure, _, _ = run(
        ("f", 0, "ready beside x1"), ("x", 0, listens), ("x", 1, "ready beside f0"),  # never, if one waited for the other
        ("catcher", 0, listens), ("simulate", 0, "simulate"),
    )  # fmt: skip
    assert failure is None
    t = made.times
    assert max(each["ready"] for each in t.values()) < min(each["go\n"] for each in t.values())
    assert t["catcher", 0]["listening"] < min(t["x", i]["go\n"] for i in (0, 1))
    assert max(t["x", i]["listening"] for i in (0, 1)) < t["f", 0]["go\n"]
    assert t["f", 0]["listening"] < t["simulate", 0]["go\n"]


def test_never_ends(run):
    _, failure, drained, _ = run(("f", 0, "never ends"), ("x", 0, ""), patience=8, stop_after=0.3)
    assert "F-engine 0 did not end within 8 s of being told to; killed" in failure
    assert ("x", 0) in drained
    assert failure.count("F-engine 0") == 1


@pytest.mark.parametrize("role", ["simulate", "catcher"])
def test_done_but_does_not_end(run, monkeypatch, role):
    monkeypatch.setattr(module, "_FAREWELL", 1.0)
    made, failure, drained, _ = run((role, 0, "done for ever"), ("x", 0, ""), stop_after=0.3)
    assert failure is None and ("x", 0) in drained
    # How long the other takes to leave is a matter of the machine.
    notes = [note for note in made.notes if note.startswith(role)]
    assert notes == [f"{role} said that it was done but did not end within 1 s; killed, nothing is lost"]


@pytest.mark.parametrize(
    "role, name", [pytest.param("simulate", "simulate", marks=pytest.mark.long), ("f", "F-engine 0")]
)
def test_silence_has_an_end(run, monkeypatch, role, name):
    monkeypatch.setattr(module, "_SILENCE", 6.0)
    _, failure, drained, _ = run((role, 0, "falls silent"), ("x", 0, ""))
    assert f"{name} has said nothing for 6 s; killed" in failure and failure.count(f"{name} has") == 1
    assert ("x", 0) in drained


def test_other_lines_are_no_statuses(run):
    """What a library prints on standard output is kept as words and disturbs nothing."""
    made, failure, _, _ = run(("x", 0, ""), stop_after=0.3)
    assert failure is None
    (child,) = made.children
    assert list(child.words) == ["17", '["not", "ours"]', "plain text"]
    assert child.status["state"] == "done"
