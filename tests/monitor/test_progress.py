"""Nothing long runs in silence, bars end full, and what is quick says nothing."""

import io
import time

import pytest
from rich.console import Console

from ryle.monitor import progress
from ryle.monitor.progress import PlainLines, track_samples, working
from ryle.monitor.table import RunTable


@pytest.fixture
def soon(monkeypatch):
    monkeypatch.setattr(progress, "_FIRST", 0.05)
    monkeypatch.setattr(progress, "_AGAIN", 0.05)


def piped():
    return Console(file=io.StringIO(), width=80)


def terminal():
    return Console(file=io.StringIO(), force_terminal=True, width=80)


def until(console, text):
    deadline = time.monotonic() + 30
    while text not in console.file.getvalue():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_work_that_goes_on_says_so_again_and_again(soon):
    console = piped()
    with working("writing a.ms", console):
        until(console, "writing a.ms: 0 s\nwriting a.ms: 0 s\n")
    said = console.file.getvalue()
    time.sleep(0.2)
    assert console.file.getvalue() == said and "\x1b" not in said


def test_work_is_silent_for_less_than_two_seconds(monkeypatch):
    assert progress._FIRST < 2
    monkeypatch.setattr(progress, "_FIRST", 60)  # the machine may stand still for longer than that
    console = piped()
    with working("writing a.ms", console):
        pass
    assert console.file.getvalue() == ""


def test_work_that_fails_ends_its_words(soon):
    console = piped()
    with pytest.raises(ValueError, match="full"), working("writing", console):
        until(console, "writing")
        raise ValueError("full")
    said = console.file.getvalue()
    time.sleep(0.2)
    assert console.file.getvalue() == said


def test_a_terminal_is_told_at_once():
    console = terminal()
    with working("writing a.ms", console):
        until(console, "writing a.ms")


def test_plain_lines_come_at_times_and_not_on_terminals(soon, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    console, moving = piped(), terminal()
    lines, none = PlainLines(console), PlainLines(moving)
    for number in range(5):
        lines.say(lambda number=number: f"at {number}")
        none.say(lambda: "never")
        now[0] += 0.03
    assert console.file.getvalue() == "at 2\nat 4\n" and moving.file.getvalue() == ""


@pytest.mark.parametrize("terminal", [True, False])
def test_bars_of_samples_end_full(terminal, monkeypatch, soon):
    out = io.StringIO()
    monkeypatch.setattr(
        progress, "Console", lambda stderr: Console(file=out, force_terminal=terminal, width=80, color_system=None)
    )
    with track_samples(1000, "writing x.pcap") as advance:
        advance(400)
        time.sleep(0.1)
        advance(900)  # what is left makes no packet
    assert ("100%" if terminal else "writing x.pcap: 90%\n") in out.getvalue()


def test_the_bar_of_a_run_is_full_when_all_is_observed():
    table = RunTable("demo", 10.0)
    rows = [("catcher", {"position": 9.5, "state": "done"})]
    for ended, full in ((False, False), (True, True)):
        console = Console(file=io.StringIO(), width=100)
        console.print(table.render(rows, 9, ended=ended))
        said = console.file.getvalue()
        assert ("━" * 24 in said) == full and "9.50 of 10.00 s · 9 integrations" in said
    assert RunTable("live", None).so_far(rows) == "9.50 s"
    rows[0][1]["begin"] = 2.5  # of an array that had sent for a while
    assert table.so_far(rows) == "7.00 of 10.00 s"


def test_what_made_packets_missing_is_told_beside_the_table():
    """Who looks on should not have to guess whether the network lost them or this machine was too slow."""
    table = RunTable("demo", 10.0)
    account = {"missing": 12, "ring_full": 7, "kernel_drops": None}

    def said(account):
        console = Console(file=io.StringIO(), width=160)
        console.print(table.render([("f0", {"state": "running", "account": account})], 0))
        return console.file.getvalue()

    assert "f0: 7 packets came while the ring was full" in said(account)
    assert "kernel" not in said(account)
    assert "f0: 5 packets were dropped by the kernel" in said(account | {"kernel_drops": 5})
    assert "f0:" not in said({"missing": 12, "ring_full": 0, "kernel_drops": 0})
