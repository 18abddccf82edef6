"""Every payload byte compared with what its sender wrote: on this processor and by the GPU's kernel, which agree."""

import numpy as np
import pytest

from emulation import EmulatedGpu
from emulation.deferred import DeferredGpu
from paper import FORMAT, feed, packet, payload, plan
from ryle.gpu.verify import ChunkVerifier, GpuSink
from ryle.receive import _native
from ryle.receive.assembly import Assembler, Plan
from ryle.store.chunk_file import Layout, StoredChunk
from ryle.store.verify import Filling, PayloadRule, Verified, verify
from ryle.wire.description import Format

PERIOD = 2**48  # of PAPER's counter of packets


def chunk_of(p, first, skip=(), seed=1, filling=0):
    assembler = Assembler(p)
    heads = range(len(p.heads))
    for n in range(first, first + p.packets):
        assembler.take([packet(h, n, seed, filling) for h in heads if (h, n - first) not in skip])
    assembler.finish()
    c = assembler.next(1.0)
    return StoredChunk(c.number, c.epoch, c.timestamp, c.placed, c.data.copy(), c.present.copy())


def spoil(chunk, rng, count, part=0):
    """Change some bytes of packets that are there; give how many packets and bytes are wrong."""
    flat = chunk.data.reshape(-1, chunk.data.shape[-1])
    part = part or flat.shape[1]
    marks = chunk.present.reshape(len(flat), -1)
    there = [(r, b) for r, b in np.ndindex(flat.shape) if marks[r, b // part]]
    places = {there[i] for i in rng.integers(len(there), size=count)}
    for place in places:
        flat[place] ^= rng.integers(1, 256)
    return len({(row, byte // part) for row, byte in places}), len(places)


@pytest.mark.parametrize("filling", list(Filling))
@pytest.mark.parametrize("first", [0, 8 * 77, PERIOD - 4])  # the last one: the counter begins again within the chunk
def test_wrong_bytes_are_found(rng, filling, first):
    p, seed = plan(heads=3, packets=8, origin=(first % 8) * 16), int(rng.integers(1 << 40))
    chunk = chunk_of(p, first, {(1, 2), (2, 7)}, seed, int(filling))
    rule = PayloadRule.of(p, filling, seed)
    found = Verified()
    verify(rule, chunk, found)
    assert (found.packets, found.wrong_packets, found.first_wrong) == (22, 0, "")
    wrong = spoil(chunk, rng, 9)
    found = Verified()
    verify(rule, chunk, found)
    assert (found.packets, found.wrong_packets, found.wrong_bytes) == (22, *wrong)
    assert found.first_wrong.startswith(f"chunk {chunk.number}, stream ")


def test_another_seed_is_wrong():
    p = plan()
    found = Verified()
    verify(PayloadRule.of(p, Filling.RANDOM, 2), chunk_of(p, 0, seed=1), found)
    assert found.wrong_packets == 8


@pytest.mark.parametrize(("filling", "nbytes", "part"), [(0, 64, 0), (0, 13, 0), (1, 64, 24), (2, 13, 0), (0, 77, 32)])
def test_the_gpu_finds_the_same(rng, filling, nbytes, part):
    """In whole words where payloads have them, else byte by byte; where the counter begins again; parts of heaps."""
    seed, streams, period = int(rng.integers(1 << 63)), rng.integers(0, 1 << 63, 2).astype(np.uint64), 1000
    rule = PayloadRule(Filling(filling), seed, streams, 1, period, part)
    parts = -(-nbytes // part) if part else 1
    layout = Layout("x", ((0,), (1,)), ("a",), 5, (2, 5, nbytes), 1, 0, "spectra", parts)
    data = np.zeros(layout.shape, np.uint8)
    for h in range(2):
        for n in range(5):
            _native.fill_payload(filling, seed, int(streams[h]), (998 + n) % period, data[h, n])
    present = np.ones(layout.marks_shape, np.uint8)
    present[1, 3] = 0
    if part:  # of one more heap only a part
        data[0, 4, part:] = 7
        present[0, 4, 1:] = 0
    there = int(present.sum())
    chunk = StoredChunk(33, 0, 998, there, data, present)
    gpu = EmulatedGpu(multiprocessors=1, optimization="-O0")
    verifier = ChunkVerifier(gpu, layout, rule)
    for wrong in (0, 5):
        expected = (there, *(spoil(chunk, rng, wrong, part) if wrong else (0, 0)))
        found = Verified()
        verify(rule, chunk, found)
        assert (found.packets, found.wrong_packets, found.wrong_bytes) == expected
        results = gpu.array(np.zeros(3, np.uint64))
        verifier.launch(rule.first(chunk), gpu.array(data), gpu.array(present), results, gpu.default_stream)
        assert tuple(results.get().tolist()) == expected


def test_what_cannot_be_verified():
    with pytest.raises(ValueError, match="as they come from the wire only"):
        PayloadRule.of(
            Plan(FORMAT, [(0, 0)], 4, order=("head", "packet", "time", "channel", "input")), Filling.ZEROS, 0
        )
    with pytest.raises(ValueError, match="packets cannot be numbered"):
        odd = FORMAT.timestamp.model_copy(update={"step": 17})
        PayloadRule.of(Plan(FORMAT.model_copy(update={"timestamp": odd}), [(0, 0)], 4), Filling.ZEROS, 0)


def test_identities_are_the_senders():
    """What a stream is known by: its fields side by side, the first the highest."""
    p = Plan(FORMAT, [(3, 7), (15, 200)], 4)
    assert PayloadRule.of(p, Filling.RANDOM, 1).streams.tolist() == [3 << 8 | 7, 15 << 8 | 200]
    assert PayloadRule.of(Plan(Format.load("counter_8192"), [()], 4), Filling.RANDOM, 1).streams.tolist() == [0]


@pytest.mark.parametrize("devices", [1, 2])
def test_chunks_reach_their_gpu(rng, devices):
    """In turn, whole, before their memory is given back."""
    p = plan(packets=4, chunks=8)
    gpus = [DeferredGpu(int(rng.integers(1 << 30))) for _ in range(devices)]
    assembler, back = Assembler(p), []
    for gpu in gpus:  # the ring is page-locked: copies are made late
        gpu._pinned.append((assembler, assembler.memory.ctypes.data, assembler.memory.nbytes))
    sink = GpuSink(gpus, Layout.of(p))

    def done(chunk):
        back.append(chunk.number)
        chunk.release()

    for n in range(11):
        feed(assembler, 4 * n, 4 * n + 4, skip={(0, 4 * n + n % 4)})
        assembler.flush()
        assert assembler.counts().ring_full == 0
        sink.put(assembler.next(1.0), done)
    sink.wait()
    assert back == list(range(11)) and assembler.counts().free == 8
    shares = [g["chunks"] for g in sink.figures().values()]
    assert sum(shares) == 11 and max(shares) - min(shares) <= 1
    for n in range(11 - 2 * devices, 11):  # what lies there last
        found = sink._lanes[n % devices].data[n // devices % 2].get()
        for k in range(4):
            assert (found[1, k] == payload(1, 4 * n + k)).all()
            assert found[0, k].any() == (k != n % 4)


def test_wrong_bytes_on_a_gpu_are_told():
    """A capture that copies to a GPU verifies there."""
    p = plan(packets=1, chunks=4)
    sink = GpuSink([EmulatedGpu(optimization="-O0")], Layout.of(p))
    rule = PayloadRule.of(p, Filling.RAMP, 1)
    sink.verify_with(rule)
    assembler = Assembler(p)
    for n in range(3):
        assembler.take([packet(h, n, filling=1 if n != 1 or h else 2) for h in range(2)])
        assembler.flush()
        sink.put(assembler.next(1.0), lambda c: c.release(), rule)
    sink.wait()
    v = sink.verified
    assert (v.packets, v.wrong_packets, v.first_wrong) == (6, 1, "chunk 1") and v.wrong_bytes == 8192 - 32
