"""An engine that has fallen behind loses what it cannot take, no more, and nothing any longer once it can."""

import os
import time
from types import SimpleNamespace

from ports import free_ports
from ryle.bench.one_engine import OneEngine
from ryle.bench.receiver import Receiver
from ryle.chunk import BLOCK
from ryle.engines import x

GBPS, BUSY, FASTER = 0.2, 0.7, 3  # what the engine takes with so much of its time, and how much more comes for a while
PAYLOAD = 8192  # 16 spectra of 8 inputs and 64 channels


class Slow:
    """A correlator that takes its time for each block."""

    def __init__(self, correlator, seconds):
        self._correlator, self._seconds = correlator, seconds

    def __getattr__(self, name):
        return getattr(self._correlator, name)

    def accumulate(self, chunk, block, count):
        time.sleep(self._seconds * count)
        return self._correlator.accumulate(chunk, block, count)


def test_an_x_engine_that_fell_behind_catches_up(monkeypatch, steady):
    spectra = GBPS * 1e9 / 8 / PAYLOAD  # a second, as there are 16 boards
    make = x._correlator
    monkeypatch.setattr(x, "_correlator", lambda *given: Slow(make(*given), BUSY * BLOCK / spectra))

    def body():
        one = OneEngine("x", port=free_ports(24))
        engine = x.x_engine(one.observation, 0)
        engine.start()
        here = SimpleNamespace(  # what a benchmark asks of a process that receives
            pid=os.getpid(),
            ask=lambda what: None,
            answer=lambda: {"placed": engine.entrances[0].account().placed},
        )
        receives = Receiver([here], one.format, [[one.endpoints[0].port]], sources=16)

        def lost(times, seconds):
            trial = receives.trial(times * GBPS, seconds)
            return trial.lost / trial.sent

        try:
            assert lost(1, 2) == 0
            assert lost(FASTER, 5) < 1.3 * (1 - 1 / (FASTER * BUSY))
            lost(1, 2)  # what is in the ring still
            assert lost(1, 3) <= 0  # what waited before is placed as well
        finally:
            engine.drain()
            engine.wait(20)
            engine.close()

    steady(body)
