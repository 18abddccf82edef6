"""Engines: steps run until their inputs end, drain in order, and fail loudly."""

import time

import numpy as np
import pytest

from ryle.stream.account import Account
from ryle.stream.block import Block
from ryle.stream.controls import Control
from ryle.stream.engine import Engine
from ryle.stream.metrics import Registry
from ryle.stream.ring import Readable, Ring
from ryle.stream.step import EachBlock, Step


class Numbers(Readable):
    """An entrance that gives 0, 1, 2 … until it is stopped."""

    def __init__(self):
        super().__init__("numbers")
        self._next, self._stopped, self.freed = 0, False, 0

    def start(self):
        pass

    def stop(self):
        self._stopped = True

    def abort(self):
        super().abort()
        self.stop()

    def close(self):
        pass

    pending = 0

    def account(self):
        return Account("numbers")

    def _fetch(self, timeout):
        if self._stopped:
            self._ended = True
            return
        self._spread(Block(self._next, start=self._next))
        self._next += 1
        self._changed.wait(1e-4)

    def _free(self, block):
        self.freed += 1


class Doubled(EachBlock):
    def __init__(self, source, out):
        super().__init__("double", source, [out])

    def use(self, block):
        with block:
            room = self.outputs[0].room()
            room.data[0] = 2 * block.data
            self.outputs[0].put(room)

    def finish(self):
        room = self.outputs[0].room()
        room.data[0] = -1
        self.outputs[0].put(room)


class Kept(EachBlock):
    def __init__(self, source, pause=0.0, fail_at=None):
        super().__init__("keep", source)
        self.kept, self.closed, self._pause, self._fail_at = [], 0, pause, fail_at

    def use(self, block):
        with block:
            time.sleep(self._pause)
            self.kept.append(int(block.data[0]))
            if len(self.kept) == self._fail_at:
                raise RuntimeError("no more room on the disk")

    def close(self):
        self.closed += 1


def chain(**options):
    entrance = Numbers()
    ring = Ring("doubled", lambda: Block(np.zeros(1, np.int64)), 2)
    keep = Kept(ring.reader(), **options)
    return Engine([entrance], [Doubled(entrance.reader(), ring), keep]), entrance, keep


def test_drains_in_order_and_loses_nothing():
    """A slow step at the end holds the others up; all that came in before the drain comes out, then what is flushed."""
    engine, entrance, keep = chain(pause=1e-3)
    with engine:
        engine.start()
        while len(keep.kept) < 50:
            assert not engine.wait(0.01)
        engine.drain()
        assert engine.wait(120)
    assert keep.kept == [*range(0, 2 * entrance._next, 2), -1] and keep.closed == 1
    assert entrance.freed == entrance._next


def test_a_failure_is_raised_and_wakes_everybody():
    engine, _, keep = chain(fail_at=5)
    with pytest.raises(RuntimeError, match="no more room"), engine:
        engine.start()
        engine.wait(120)
    assert len(keep.kept) == 5 and keep.closed == 1
    assert not any(t.is_alive() for t in engine._threads)


def test_leaving_early_ends_all_threads():
    engine, _, keep = chain(pause=0.01)
    with engine:
        engine.start()
        assert not engine.wait(0.05)
    assert keep.closed == 1 and not any(t.is_alive() for t in engine._threads)


class Receiving(Numbers):
    def stop(self):
        super().stop()
        raise RuntimeError("receiving failed: the link is gone")


def test_an_entrance_that_failed_is_the_reason():
    entrance = Receiving()
    reader = entrance.reader()

    class Take(EachBlock):
        def use(self, block):
            block.release()

    engine = Engine([entrance], [Take("take", reader)])
    with pytest.raises(RuntimeError, match="the link is gone"), engine:
        engine.start()
        time.sleep(0.02)
        engine.drain()
        engine.wait(120)


def test_contract_9_metrics_are_typed_and_have_one_name():
    registry = Registry()
    came = []
    registry.counter("packets", "packets", "that came", lambda: len(came))
    registry.gauge("fill", "", "share of the ring", lambda: 0.5)
    assert registry.values() == {"packets": 0, "fill": 0.5}
    came.append(1)
    assert registry.values() == {"packets": 1, "fill": 0.5}
    assert [(m.name, m.kind, m.unit) for m in registry] == [("packets", "counter", "packets"), ("fill", "gauge", "")]
    registry.control("interval", Control("float", 0.0, 1.0))
    for add in (registry.counter, registry.gauge):
        for name in ("packets", "interval"):
            with pytest.raises(ValueError, match=name):
                add(name, "", "again", lambda: 0)
    for name in ("packets", "interval"):
        with pytest.raises(ValueError, match=name):
            registry.control(name, Control("bool"))
    assert list(registry.controls) == ["interval"] and len(list(registry)) == 2


def test_figures_are_of_one_moment():
    looks = []
    registry = Registry(lambda: looks.append(0))
    for name in "ab":
        registry.counter(name, "", "looks", lambda: len(looks))
    assert registry.values() == {"a": 1, "b": 1} and registry.values() == {"a": 2, "b": 2}


def test_steps_are_abstract():
    with pytest.raises(TypeError):
        Step("nothing")
