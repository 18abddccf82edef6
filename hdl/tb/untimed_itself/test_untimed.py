# SPDX-License-Identifier: BSD-3-Clause
"""A time limit does not count builds, and goes on behind them."""

from __future__ import annotations

import signal
import time

import pytest

import simulation
from ryle.fpga import verilate
from untimed import untimed


@pytest.mark.timeout(4)
def test_what_is_untimed_may_take_longer_than_the_limit():
    with untimed():
        time.sleep(4.5)


@pytest.mark.timeout(30)
def test_the_limit_goes_on_where_it_stood():
    begun, before = time.monotonic(), signal.getitimer(signal.ITIMER_REAL)[0]
    assert 0 < before <= 30, "pytest-timeout works by this timer"
    with untimed():
        assert signal.getitimer(signal.ITIMER_REAL)[0] == 0
        with untimed():  # one inside another
            time.sleep(1)
    after = signal.getitimer(signal.ITIMER_REAL)[0]
    counted = time.monotonic() - begun - 1  # at most, however slow the machine is
    assert before - counted - 0.05 < after <= before


@pytest.mark.timeout(30)
def test_builds_are_untimed_and_what_they_raise_comes_out(monkeypatch):
    def build(*args, **kwargs):
        assert signal.getitimer(signal.ITIMER_REAL)[0] == 0
        raise verilate.BuildError("no")

    monkeypatch.setattr(verilate, "build", build)
    with pytest.raises(verilate.BuildError):
        simulation.build("skid_buffer")
    assert signal.getitimer(signal.ITIMER_REAL)[0] > 0
