"""Traffic between processes: every packet accounted for, whether it arrives or not; and what a soak makes of it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dpdk_support import needs_dpdk
from ryle.bench.soak import in_words, summary
from ryle.bench.traffic import Traffic
from ryle.bench.traffic_account import CLASSES, Account, Second, Setting


def account(looks, lost=0, uncounted=0, **verified):
    return Account(
        asked=1.0,
        offered=1.0,
        seconds=float(len(looks)),
        sent=1000,
        placed=1000 - lost - uncounted,
        missing=lost,
        classes=dict.fromkeys(CLASSES, 0),
        kernel_drops=0,
        verified=verified,
        stolen=0.0,
        behind=0.0,
        busy={},
        resyncs=0,
        looks=looks,
    )


def second(at, missing=0, stolen=0.0, rss=(50.0, 100.0)):
    return Second(at, 1.0, missing, stolen, 0.0, 0.1, list(rss))


def test_losses_are_laid_to_the_host_only_where_it_took_time():
    quiet = [second(t) for t in range(100)]
    found = summary(account(quiet), Setting())
    assert all(found["passed"].values()) and found["losses"] == [] and len(found["passed"]) == 3
    blamed = [*quiet[:50], second(50, 3, 0.02), second(51, 4), *quiet[52:]]
    found = summary(account(blamed, 7), Setting())
    assert all(found["passed"].values()) and [s["explained"] for s in found["losses"]] == [True, True]
    found = summary(account([*blamed[:52], second(52, 5), *quiet[53:]], 12), Setting())
    assert found["passed"]["no loss but when the host took processor time"] is False
    assert (found["seconds_with_unexplained_loss"], found["lost_in_unexplained"]) == (1, 5)
    assert "NO: no loss but when" in "\n".join(in_words(found))


def test_what_else_a_soak_does_not_pass():
    quiet = [second(t) for t in range(100)]
    assert not summary(account(quiet, uncounted=1), Setting())["passed"]["every packet counted"]
    grown = [*quiet[:-1], second(99, rss=(50.0, 103.0))]
    assert not summary(account(grown), Setting())["passed"]["memory flat"]
    right = {"packets": 1000, "wrong_packets": 0, "wrong_bytes": 0}
    assert summary(account(quiet, **right), Setting())["passed"]["every byte right"]
    for wrong in ({"wrong_packets": 1}, {"packets": 999}):
        assert not summary(account(quiet, **right | wrong), Setting())["passed"]["every byte right"]


@pytest.mark.long
def test_what_arrives_and_what_does_not_is_counted():
    """Several senders and one capture; then a socket so small that it must lose."""
    with Traffic(Setting(senders=2, packets=32, skew=2048, verify=True)) as traffic:
        looks = []
        for _ in range(2):  # the numbers go on
            a = traffic.run(0.05, 1.1, looks.append)
            assert a.sent > 128 and a.uncounted == 0
            assert a.verified["wrong_packets"] == 0 and a.verified["packets"] == a.placed
        assert looks and min(looks[0].rss) > 10 and len(looks[0].rss) == 3
    with Traffic(Setting(buffer=4096, gro=False, packets=256, linger=1.0)) as traffic:
        a = traffic.run(20.0, 0.5)
        assert a.missing > 0 and a.uncounted == 0 and not a.trial().lossless


def test_sending_can_be_ended(steady):
    def body():
        with Traffic(Setting(packets=32)) as traffic:
            a = traffic.run(0.02, 60.0, lambda s: s.at > 0.5)
            assert a.seconds < 20 and a.uncounted == 0

    steady(body)


def test_a_process_that_fails_is_told():
    absent = Setting(send_cores=[4096 + os.cpu_count()])
    with pytest.raises(RuntimeError, match="ended by itself"), Traffic(absent) as traffic:
        traffic.run(1.0, 1.0)
    with pytest.raises(RuntimeError, match="ended by itself"):
        Traffic(Setting(format="no_such_format"))


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_nothing_is_left_when_it_is_killed():
    program = """
from ryle.bench.traffic import Traffic
from ryle.bench.traffic_account import Setting
with Traffic(Setting()) as traffic:
    traffic.run(0.1, 60.0, lambda s: print(*(c.pid for c in (*traffic.senders, *traffic.captures)), flush=True))
"""
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    children = [int(word) for word in process.stdout.readline().split()]
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert len(children) == 2
    deadline = time.monotonic() + 60
    while any(map(alive, children)):
        assert time.monotonic() < deadline
        time.sleep(0.05)


@needs_dpdk
def test_through_shared_memory(steady):
    def body():
        with Traffic(Setting(senders=2, packets=32, skew=2048, verify=True, memif=True, linger=1.0)) as traffic:
            a = traffic.run(0.05, 1.0)
            assert a.uncounted == 0 and a.verified["packets"] == a.placed and a.verified["wrong_packets"] == 0

    steady(body)
