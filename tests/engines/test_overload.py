"""An engine that has fallen behind loses what it cannot take, no more, and nothing any longer once it can."""

import time

from ports import free_ports
from ryle.bench.one_engine import OneEngine
from ryle.chunk import BLOCK
from ryle.config import Endpoint
from ryle.engines import x
from ryle.send.sender import Sender
from ryle.send.sending import Sending

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
        format, engine, start = one.format, x.x_engine(one.observation, 0), 0
        engine.start()

        def lost(times, seconds):
            nonlocal start
            before = engine.entrances[0].account().placed
            to = [Endpoint(host="127.0.0.1", port=e.port) for e in one.endpoints[:1]]
            sending = Sending(to=to, format=format, sources=16, gbps=times * GBPS, seconds=seconds, start=start)
            sender = Sender(sending)
            sender.start()
            sender.join()
            sent = sender.progress().packets
            start += -(-sent // 16) * format.timestamp.step
            time.sleep(0.3)
            return 1 - (engine.entrances[0].account().placed - before) / sent

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
