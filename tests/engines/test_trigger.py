"""Raw samples around a time, to a file, while they are channelized: bit for bit, and never at the channelizer's cost."""

import json
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from recorded import fresh
from ryle.chunk import SampleChunk
from ryle.config import changed
from ryle.engines import triggered
from ryle.engines.budget import sample_map
from ryle.engines.chunk_recordings import ChunkRecordings
from ryle.engines.trigger import Trigger
from ryle.receive.entrance import MappedEntrance
from ryle.receive.samples import SampleMap
from ryle.send.samples import SampleMaker
from ryle.store import recording
from ryle.store.chunk_file import ChunkFile
from ryle.stream.engine import Engine
from ryle.stream.metrics import Registry
from ryle.stream.step import EachBlock


class ByHand:
    """A source of nothing: the test hands packets over."""

    kernel_drops, running = None, True

    def start(self):
        """Nothing to begin."""

    def stop(self):
        self.running = False

    def join(self):
        return True

    def reports(self):
        return []


class Use(EachBlock):
    """What stands for the channelizer: uses each block at once, and asks for the next."""

    def use(self, block):
        block.release()


class Rig:
    """An engine with a trigger, whose packets a test makes."""

    def __init__(self, o, rng, directory, engine="f0", antennas=None, *, in_place=False):
        self.o, self.rng = o, rng
        self.antennas = antennas or o.f_engine_antennas(0)
        self.map = (
            SampleMap(o, self.antennas, in_place=True, keeps=True) if in_place else sample_map(o, "f", self.antennas)
        )
        self.entrance = MappedEntrance(o, "f", self.map, [], source=lambda sink: ByHand(), name="digitizer")
        self.span, self.size = self.map.plan.span, o.digitizer.heap_samples
        self.metrics = Registry()
        use = Use("use", self.entrance.reader())
        self.trigger = Trigger(o, self.antennas, self.entrance, self.map, engine, directory)
        self.trigger.register(self.metrics)
        self.packets = SampleMaker(o.digitizer_format, self.map.plan.heads)
        self.engine = Engine([self.entrance], [use, self.trigger], self.metrics)
        self.sent, self.present, self.made, self.at = [], [], [], 0

    def __enter__(self):
        self.engine.start()
        return self

    def __exit__(self, *_):
        self.engine.close()

    def feed(self, blocks, lose=0.0, *, paced=True):
        """Send so many blocks of random samples, without some packets, no faster than a disk takes them if `paced`."""
        for _ in range(blocks if paced else 0):
            self.feed(1, lose, paced=False)
            self.until(lambda: self.entrance.assembler.counts().taken <= self.map.history + 2)
        if paced:
            return
        many = blocks * self.map.plan.packets
        inputs = len(self.map.plan.heads)
        data = self.rng.integers(0, 256, (inputs, many, self.o.digitizer_heap_bytes), np.uint8)
        present = (self.rng.random((inputs, many)) >= lose).astype(np.uint8)
        made = self.packets.packets(SampleChunk(self.at, data, present, self.size))
        self.made.append(made[present.T != 0])  # which stays, for those that are read where they lie
        self.entrance.assembler.take(self.made[-1])
        self.sent.append(data)
        self.present.append(present)
        self.at += blocks * self.span
        whole = all(part.all() for part in self.present[-3:])  # else it closes when those behind it have come
        self.until(lambda: (self.figures()["held_to"] or 0) >= self.at - (0 if whole else 2 * self.span))

    def until(self, what):
        end = time.monotonic() + 60
        while not what():
            assert time.monotonic() < end and self.engine.failure is None
            time.sleep(2e-3)

    def figures(self):
        return self.metrics.values()

    def ask(self, **value):
        return self.metrics.controls["trigger"].set(value)

    @property
    def last(self):
        """What the page says, as JSON has it."""
        return json.loads(json.dumps(self.metrics.controls["trigger"].get()))

    def done(self):
        self.until(lambda: self.last["state"] in ("done", "failed"))
        return self.last

    def lost(self):
        counts = self.entrance.assembler.counts()
        return counts.ring_full + counts.late

    def read(self, answer, rows=slice(None), times=None):
        """Compare a file with what was sent, on all that it was promised for, or so many blocks of it; give it."""
        file = ChunkFile(answer["file"])
        data, present = np.concatenate(self.sent, axis=1)[rows], np.concatenate(self.present, axis=1)[rows]
        wanted = range(answer["sample"], answer["end"], self.span)[:times]
        assert [chunk.timestamp for chunk in file] == list(wanted)
        for chunk in file:
            at = slice(chunk.timestamp // self.size, chunk.timestamp // self.size + self.map.plan.packets)
            np.testing.assert_array_equal(chunk.present, present[:, at])
            np.testing.assert_array_equal(chunk.data, data[:, at] * present[:, at, np.newaxis])
            assert chunk.placed == present[:, at].sum()
        assert file.damaged == 0
        return file


@pytest.fixture
def rig(observe, rng, tmp_path):
    def make(history=0.0, *, in_place=False, speed=1.0, **digitizer):
        o = changed(observe(antennas=2, bits=10, heap_samples=512), fengine={"history": history, "batch": 64})
        o = changed(o, simulate={"speed": speed}, digitizer=digitizer)
        return Rig(o, rng, tmp_path / "out", in_place=in_place)

    return make


def test_what_comes_next_is_written_bit_for_bit(rig):
    with rig() as r:
        r.feed(3)
        assert r.last is None
        answer = r.ask(samples=5 * r.span - 17, name="frb-1_a.b")
        assert answer["sample"] == 3 * r.span and answer["end"] == 8 * r.span
        assert answer["file"].endswith(f"/out/small.frb-1_a.b.f0.{3 * r.span}-000000.chunks")
        assert r.last["state"] == "waiting" and r.figures()["triggers"] == 1
        for _ in range(4):
            r.feed(3)
        last = r.done()
        file = r.read(answer)
        assert (last["state"], last["blocks"], last["lost"], last["failure"]) == ("done", 5, 0, "")
        assert {k: last[k] for k in answer} == answer and last["name"] == "frb-1_a.b"
        assert r.figures()["triggered"] == last["bytes"] == 5 * file.layout.record_bytes
        about = file.layout.about
        assert (about["sample"], about["end"], about["engine"]) == (answer["sample"], answer["end"], "f0")
        assert about["inputs"] == ["A0 x", "A0 y", "A1 x", "A1 y"] and about["sync_time"] == "2026-03-20T20:00:00Z"
        # Nothing is kept when it is not asked for.
        r.until(lambda: r.entrance.assembler.counts().taken == 0)


def test_from_exactly_the_promised_sample_on_in_the_future(rig):
    with rig() as r:
        r.feed(1)
        answer = r.ask(sample=4 * r.span + 1, seconds=2 * r.span / float(r.o.sample_rate))
        assert (answer["sample"], answer["end"]) == (4 * r.span, 7 * r.span)
        r.feed(8)
        r.done()
        r.read(answer)


def test_before_anything_has_come(rig):
    with rig() as r:
        with pytest.raises(ValueError, match="no samples have come yet: give sample"):
            r.ask(samples=1)
        answer = r.ask(sample=0, samples=2 * r.span)
        r.feed(3)
        r.done()
        r.read(answer)


@pytest.mark.parametrize("lose", [0.0, 0.2])
def test_what_has_passed_is_taken_as_far_back_as_it_is_held(rig, lose):
    blocks = 12
    with rig(history=1.0) as probe:
        span, rate = probe.span, float(probe.o.sample_rate)
    with rig(history=blocks * span / rate * 0.999) as r:
        assert (
            r.map.history == blocks
            and r.map.plan.chunks
            == sample_map(changed(r.o, fengine={"history": 0.0}), "f", r.antennas).plan.chunks + blocks
        )
        for _ in range(10):
            r.feed(3, lose)
        r.feed(3)  # behind these, nothing waits for what is lost: all that was sent is held
        newest = r.figures()["held_to"]
        assert newest == r.at
        assert newest - r.figures()["held_from"] == blocks * span
        answer = r.ask(sample=3, samples=newest - 3 + 2 * span)
        assert (answer["sample"], answer["end"]) == (newest - blocks * span, newest + 2 * span)
        r.feed(4, lose)
        assert r.done()["lost"] == 0
        r.read(answer)
        # All of it in the past: written at once, while nothing comes.
        r.feed(3)
        newest = r.figures()["held_to"]
        answer = r.ask(sample=newest - 5 * span, samples=3 * span, name="past")
        assert r.done()["blocks"] == 3
        r.read(answer)
        with pytest.raises(
            ValueError, match=rf"late: samples 0 to 100 are held no more, those from {newest - blocks * span} on"
        ):
            r.ask(sample=0, samples=100)


@pytest.mark.parametrize("inputs", [None, [1, 2]])
def test_payloads_that_lie_where_packets_came_to(rig, inputs):
    """As DPDK leaves them to a GPU that reads page-locked memory of the host's."""
    with rig(history=1.0, in_place=True) as r:
        assert r.map.plan.pointers
        r.feed(3, 0.2)
        answer = r.ask(sample=0, samples=6 * r.span, inputs=inputs)
        r.feed(6, 0.2)
        r.feed(2)
        r.done()
        r.read(answer, inputs or slice(None))


def test_samples_that_are_decoded_are_written_as_they_came(rig):
    with rig(history=1.0, packets="vdif", bits=8, heap_samples=800) as r:
        assert not r.map.lent
        r.feed(2)
        answer = r.ask(sample=0, samples=3 * r.span)
        r.feed(2)
        r.done()
        r.read(answer)
        (recorded,) = ChunkRecordings(r.o, [Path(answer["file"])]).recorded
        assert recorded.inputs == list(range(4)) and recorded.placed == recorded.expected


def test_samples_in_the_memory_of_a_gpu_are_not_kept(rig):
    with rig(in_place=True) as r:
        r.trigger._most = r.trigger._history = 0
        with pytest.raises(ValueError, match=r"memory of a GPU, where none are kept: set receive\.copies"):
            r.ask(samples=1)
        r.feed(2 * r.map.plan.chunks)
        assert r.entrance.assembler.counts().taken == 0 and r.lost() == 0


def test_some_inputs(rig):
    with rig() as r:
        r.feed(1)
        answer = r.ask(samples=2 * r.span, inputs=[3, 0, 3])
        r.feed(4, 0.1)
        r.feed(3)
        r.done()
        file = r.read(answer, [0, 3])
        assert file.layout.heads == tuple(r.map.plan.heads[i] for i in (0, 3))
        assert file.layout.about["inputs"] == ["A0 x", "A1 y"]


def test_no_file_is_ever_overwritten(rig, monkeypatch):
    with rig(history=1.0) as r:
        r.feed(4)
        first = r.ask(sample=0, samples=r.span)
        r.done()
        second = r.ask(sample=0, samples=2 * r.span)
        r.done()
        assert second["file"] == first["file"].replace("-000000", "-2-000000")
        r.read(first)
        r.read(second)
        # Nor one that somebody makes between the look at names and the writing.
        monkeypatch.setattr("ryle.engines.trigger.unused_stem", lambda stem: stem)
        r.ask(sample=0, samples=2 * r.span)
        last = r.done()
        assert last["state"] == "failed" and "exists" in last["failure"] and last["lost"] == 2
        r.read(first)


REFUSED = [
    (None, "give samples or seconds"),
    ([], "give samples or seconds"),
    ({"samples": 1, "file": "/etc/passwd"}, "no file"),
    ({}, "give samples, a count, or seconds"),
    ({"samples": 1, "seconds": 1}, "not both"),
    ({"samples": 0}, "samples is 0"),
    ({"samples": 1.5}, "samples is 1.5"),
    ({"samples": True}, "samples is True"),
    ({"samples": 1 << 70}, "samples is"),
    ({"seconds": 0}, "seconds is 0"),
    ({"seconds": -1.0}, "above 0"),
    ({"seconds": float("nan")}, "above 0"),
    ({"seconds": float("inf")}, "above 0"),
    ({"seconds": 1e300}, "at most"),
    ({"seconds": "1"}, "seconds is '1'"),
    ({"samples": 1, "sample": -1}, "time stamp"),
    ({"samples": 1, "sample": 1.0}, "time stamp"),
    ({"samples": 1, "sample": 1 << 63}, "time stamp"),
    ({"samples": 1, "name": "../x"}, "letters, digits"),
    ({"samples": 1, "name": ""}, "letters, digits"),
    ({"samples": 1, "name": "a b"}, "letters, digits"),
    ({"samples": 1, "name": "a\n"}, "letters, digits"),
    ({"samples": 1, "name": "x" * 65}, "letters, digits"),
    ({"samples": 1, "name": 3}, "letters, digits"),
    ({"samples": 1, "inputs": []}, "list of numbers"),
    ({"samples": 1, "inputs": [4]}, "input 4 is not this engine's, whose inputs are 0 to 3"),
    ({"samples": 1, "inputs": ["A0"]}, "list of numbers"),
    ({"samples": 1, "sample": 0}, "late: samples 0 to 1 are held no more"),
    ({"seconds": 1e6}, r"nothing is written: it takes [0-9.]+ TB, and \S+/out has .*B for it"),
    ({"stop": True}, "nothing is to be stopped"),
    ({"stop": 1.5}, "alone"),
]


def test_what_is_refused_changes_nothing(rig, tmp_path):
    with rig() as r:
        r.feed(2)
        for value, why in REFUSED:
            with pytest.raises(ValueError, match=why):
                r.metrics.controls["trigger"].set(value)
            assert r.last is None and r.figures()["triggers"] == 0, value
            r.feed(1)
        answer = r.ask(samples=2 * r.span)
        with pytest.raises(ValueError, match=rf"is still being written, to sample {answer['end']}: wait, or stop it"):
            r.ask(samples=2 * r.span, name="another")
        r.feed(4)
        r.done()
        r.read(answer)
        assert r.figures()["triggers"] == 1 and len(list((tmp_path / "out").iterdir())) == 1
        blocked = tmp_path / "a file"
        blocked.touch()
        r.trigger._directory = blocked / "below"
        with pytest.raises(ValueError, match="nothing is written"):
            r.ask(samples=r.span)
        assert r.last["state"] == "done" and r.figures()["triggers"] == 1
        r.until(lambda: r.entrance.assembler.counts().taken == 0)


def test_a_full_disk_is_left_to_others(rig, monkeypatch):
    left = [10**12]
    monkeypatch.setattr(triggered, "room", lambda directory: left[0])
    with rig() as r:
        r.feed(1)
        answer = r.ask(samples=8 * r.span)
        r.feed(3)
        r.until(lambda: r.last["blocks"] == 3)
        left[0] = 0
        r.feed(2)
        last = r.done()
        assert last["state"] == "failed" and "No space left" in last["failure"] and last["blocks"] == 3
        assert last["lost"] == 1 or last["lost"] == 2
        left[0] = 10**12
        r.feed(2)
        r.until(lambda: r.entrance.assembler.counts().taken == 0)
        r.read(answer, times=3)
        again = r.ask(samples=r.span)
        r.feed(2)
        assert r.done()["state"] == "done"
        r.read(again)


@pytest.fixture
def slow_disk(monkeypatch):
    """A disk that takes nothing until it is let."""
    go, write = threading.Event(), recording._write

    def wait(*arguments):
        go.wait(60)
        write(*arguments)

    monkeypatch.setattr(recording, "_write", wait)
    yield go
    go.set()


@pytest.mark.parametrize("speed", [1.0, "max"])
def test_a_slow_disk_costs_the_recording_and_nobody_else(rig, slow_disk, speed):
    with rig(history=0.05, speed=speed) as r:
        most = r.map.held
        r.feed(r.map.history + 2)
        newest = r.figures()["held_to"]
        answer = r.ask(sample=newest - 4 * r.span, samples=3 * most * r.span)
        wanted = 3 * most
        for _ in range(r.map.plan.chunks):  # twice what the ring has
            r.feed(2, paced=False)
        assert r.at - newest > r.map.plan.chunks * r.span
        assert r.lost() == 0 and r.entrance.account().missing == 0
        assert r.figures()["trigger_lost"] == wanted - most and r.last["state"] == "writing"
        assert r.entrance.assembler.counts().taken <= most
        slow_disk.set()
        last = r.done()
        assert last["state"] == "done" and last["blocks"] == most and last["lost"] == wanted - most
        # The file says which: what it was promised for and has not.
        assert r.read(answer, times=most).layout.about["end"] == answer["end"]
        (recorded,) = ChunkRecordings(r.o, [Path(answer["file"])]).recorded
        assert f"{wanted - most} of {wanted} blocks that were to be recorded are not there" in str(recorded)
        r.until(lambda: r.entrance.assembler.counts().taken == r.map.history)


def test_a_disk_that_stands_still_holds_no_controls_up(rig, slow_disk):
    with rig() as r:
        r.feed(1)
        r.ask(samples=2 * r.span)
        r.feed(4, paced=False)
        began = time.monotonic()
        with pytest.raises(ValueError, match="still being written"):
            r.ask(samples=1)
        assert time.monotonic() - began < 30  # half of what the disk stands still
        slow_disk.set()
        assert r.done()["blocks"] == 2


def test_stop_and_the_end_of_a_run(rig):
    with rig() as r:
        r.feed(2)
        answer = r.ask(samples=1000 * r.span)
        r.feed(3)
        stopped = r.ask(stop=True)
        assert stopped == answer | {"end": 5 * r.span}
        assert r.done()["state"] == "done"
        r.feed(2)
        r.read(stopped)
        far = r.ask(sample=10**12, samples=r.span)
        assert r.ask(stop=True) == far | {"end": far["sample"]}
        assert r.done()["blocks"] == 0
        answer = r.ask(samples=1000 * r.span, name="end")
        r.feed(4)
        r.engine.drain()
        assert r.engine.wait(20)
        last = r.last
        assert last["state"] == "done" and last["end"] == r.at and last["lost"] == 0
        r.read(answer | {"end": last["end"]})


def test_time_stamps_that_jump_end_it(rig):
    with rig(history=1.0) as r:
        r.feed(2)
        answer = r.ask(sample=0, samples=1000 * r.span)
        r.feed(2)
        sent, present, end, r.at = list(r.sent), list(r.present), r.at, 1 << 40
        r.feed(6)
        last = r.done()
        assert last["state"] == "done" and last["end"] == end
        r.sent, r.present = sent, present
        r.read(answer | {"end": end})
        r.until(lambda: r.figures()["held_from"] >= 1 << 40)  # those of before mean another time


def test_files_are_joined_by_time(observe, rng, tmp_path):
    """Two F-engines whose recordings begin and end at other times; packets that were lost; an input twice."""
    o = changed(observe(antennas=3, per_engine=1, heap_samples=512), fengine={"history": 1.0, "batch": 64})
    rigs = [Rig(o, rng, tmp_path, f"f{i}", o.f_engine_antennas(i)) for i in range(3)]
    answers = []
    for number, r in enumerate(rigs):
        with r:
            r.feed(2 + number)
            answers.append(r.ask(sample=0, samples=(2 + 2 * number) * r.span))
            r.feed(3 + 2 * number, 0.1)
            r.feed(4)
            r.done()
    files = [Path(a["file"]) for a in answers]
    source = ChunkRecordings(o, [*files, files[1]])
    chunks = [chunk for _, chunk in source.chunks(fresh)]
    assert [a.end for a in chunks[:-1]] == [b.timestamp for b in chunks[1:]]
    assert (source.start, source.stop) == (0, max(a["end"] for a in answers))
    data, present = (np.concatenate([getattr(c, name) for c in chunks], axis=1) for name in ("data", "present"))
    for number, (r, answer) in enumerate(zip(rigs, answers, strict=True)):
        packets, rows = answer["end"] // r.size, slice(2 * number, 2 * number + 2)
        there = np.concatenate(r.present, axis=1)[:, :packets]
        np.testing.assert_array_equal(present[rows, :packets], there)
        np.testing.assert_array_equal(
            data[rows, :packets], np.concatenate(r.sent, axis=1)[:, :packets] * there[..., np.newaxis]
        )
        assert not present[rows, packets:].any() and not data[rows, packets:].any()
        recorded = source.recorded[number]
        assert (recorded.placed, recorded.expected) == (
            there.sum(),
            there.size,
        ) and recorded.promised == recorded.blocks
