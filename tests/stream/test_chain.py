"""Steps that only enqueue share a thread: each takes its turn, none waits for itself, failures and ends go through."""

import threading
import time

import pytest

from ryle.stream.block import Block
from ryle.stream.chain import Chain, threads
from ryle.stream.engine import Engine
from ryle.stream.ring import Ring
from ryle.stream.step import EachBlock, Step


def ring(name, blocks=2, **more):
    return Ring(name, lambda: Block(None), blocks, **more)


class Make(Step):
    def __init__(self, count, out, apart=0.0):
        super().__init__("make", [out])
        self.count, self.apart = count, apart

    def run(self):
        for i in range(self.count):
            room = self.outputs[0].room()
            room.start = i
            self.outputs[0].put(room)
            time.sleep(self.apart)


class Pass(EachBlock):
    """Enqueues, that is, passes blocks on; notes in which thread."""

    enqueues = True

    def __init__(self, name, source, out):
        super().__init__(name, source, [out] if out else [], waits=False)
        self.used, self.inside, self.finished = [], set(), False

    def use(self, block):
        self.inside.add(threading.current_thread().name)
        self.used.append(block.start)
        if self.outputs:
            room = self.outputs[0].room()
            room.start = block.start
            self.outputs[0].put(room)
        block.release()

    def finish(self):
        self.finished = True


class Join(Step):
    enqueues = True

    def __init__(self, sources, out):
        super().__init__("join", [out])
        self.sources, self.pairs = list(sources), []

    def run(self):
        raise AssertionError("it is one of a chain")

    def turn(self, timeout):
        if not all(source.waiting or source.ended for source in self.sources):
            return False
        blocks = [b for source in self.sources if (b := source.get(timeout)) is not None]
        if not blocks:
            return False
        room = self.outputs[0].room()
        room.start = blocks[0].start
        self.pairs.append([b.start for b in blocks])
        for block in blocks:
            block.release()
        self.outputs[0].put(room)
        return True


class Take(EachBlock):
    def __init__(self, source, apart=0.0):
        super().__init__("take", source)
        self.got, self.apart = [], apart

    def use(self, block):
        time.sleep(self.apart)
        self.got.append(block.start)
        block.release()


def line(count, apart=0.0):
    """Two sources, a step behind each, both joined, one more step, and who takes what comes out."""
    given, made, joined, out = [ring("a"), ring("b")], [ring("ma"), ring("mb")], ring("joined"), ring("out")
    heads = [Pass("pass", g.reader(), m) for g, m in zip(given, made, strict=True)]
    join = Join([m.reader() for m in made], joined)
    last = Pass("last", joined.reader(), out)
    takes = Take(out.reader(), apart)
    makes = [Make(count, g) for g in given]
    return makes, heads, join, last, takes


def test_what_reads_each_other_shares_a_thread():
    makes, heads, join, last, takes = line(1)
    found = threads([*makes, *heads, join, last, takes])
    assert [type(step) for step in found] == [Make, Make, Chain, Take]
    assert found[2].steps == [*heads, join, last] and found[2].name == "pass+join+last"
    other = Pass("other", ring("x").reader(), ring("y"))
    assert threads([makes[0], heads[0], other]) == [
        makes[0],
        heads[0],
        other,
    ]  # these two have nothing to do with each other


@pytest.mark.parametrize("apart", [0.0, 0.002])
def test_all_comes_through_in_one_thread(apart):
    makes, heads, join, last, takes = line(200 if apart == 0 else 40, apart)
    with Engine([], [*makes, *heads, join, last, takes]) as engine:
        engine.start()
        assert engine.wait(120)
    count = makes[0].count
    assert takes.got == last.used == list(range(count)) and join.pairs == [[i, i] for i in range(count)]
    assert {name for step in (*heads, last) for name in step.inside} == {"pass+join+last"}
    assert all(step.finished for step in (*heads, last))


def test_a_source_that_is_behind_holds_nobody_for_ever():
    """The other's blocks fill what lies between; nobody waits for room there, and the late ones are taken."""
    makes, heads, join, last, takes = line(12)
    makes[1].apart = 0.02
    with Engine([], [*makes, *heads, join, last, takes]) as engine:
        engine.start()
        assert engine.wait(120)
    assert takes.got == list(range(12))


def test_room_that_somebody_outside_holds_is_waited_for():
    """A third reader of a ring within the chain keeps its blocks for a while."""
    a, b, out = ring("a"), ring("b", 1), ring("out")
    first = Pass("first", a.reader(), b)
    last = Pass("last", b.reader(), out)
    slow, takes, makes = Take(b.reader(), 0.01), Take(out.reader()), Make(10, a)
    with Engine([], [makes, first, last, slow, takes]) as engine:
        engine.start()
        assert engine.wait(120)
    assert takes.got == slow.got == list(range(10))


def test_a_failure_ends_all_and_is_told():
    makes, heads, join, last, takes = line(1000)
    last.use = lambda block: (_ for _ in ()).throw(ArithmeticError("lost"))
    with Engine([], [*makes, *heads, join, last, takes]) as engine:
        engine.start()
        with pytest.raises(ArithmeticError, match="lost"):
            engine.wait(120)


def test_steps_that_do_not_enqueue_take_no_turns():
    with pytest.raises(NotImplementedError, match="make takes no turns"):
        Make(1, ring("a")).turn(0.0)


def test_a_step_whose_room_was_taken_for_it_needs_no_other():
    """Who makes its inputs has taken all rooms there are; without `Step.has_room` both would wait for ever."""
    source, made, out = (Ring(name, lambda: Block(None), count) for name, count in (("in", 4), ("made", 2), ("out", 2)))
    rooms, seen = {}, []

    class Make(EachBlock):
        enqueues = True

        def use(self, block):
            rooms[block.start] = out.room()
            there = made.room()
            there.start = block.start
            made.put(there)
            block.release()

    class Fill(EachBlock):
        enqueues = has_room = True

        def use(self, block):
            room = rooms.pop(block.start)
            room.start = block.start
            out.put(room)
            block.release()

    class See(EachBlock):
        enqueues = True

        def use(self, block):
            seen.append(block.start)
            block.release()

    steps = [
        Make("make", source.reader(), [made]),
        Fill("fill", made.reader(), [out]),
        See("see", out.reader()),
    ]
    with Engine([], steps) as engine:
        engine.start()
        for start in range(20):
            block = source.room()
            block.start = start
            source.put(block)
        source.close()
        assert engine.wait(60)
    assert seen == list(range(20))
