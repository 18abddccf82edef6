"""F-heaps to visibilities: the correlator reads them where the assembler put them, on the CPU and on a GPU."""

import numpy as np
import pytest

import fresh
from emulation.deferred import DeferredGpu
from f_heaps import by_hand, clamped, reference, values
from feeding import through
from ryle.chunk import BLOCK
from ryle.correlate.reference import correlate
from ryle.engines.gpus import locked
from ryle.engines.x import Correlate, XEngine
from ryle.gpu import gpu_problem, open_gpu
from ryle.receive.entrance import MappedEntrance
from ryle.receive.heaps import HeapMap
from ryle.receive.replay import PcapSource
from ryle.send.spectra import packet_bytes
from ryle.store.pcap_write import PcapWriter
from ryle.stream.block import Block
from ryle.stream.ring import Ring


@pytest.fixture(params=["cpu", "late", "cuda"])
def gpus(request):
    """None, one that is emulated and does everything as late as it may, and a real one."""
    if request.param == "cuda" and (reason := gpu_problem()) is not None:
        pytest.skip(f"no GPU: {reason}")
    return [] if request.param == "cpu" else [DeferredGpu(fresh.seed()) if request.param == "late" else open_gpu()]


def packets_of(o, data, flags, first_heap, rng):
    """Packets of heaps, each lost or not, and what is known to be valid of it: [antenna][heap][group][spectrum][pol].

    data: as of `values`; flags: bool [antenna][heap][spectrum][pol], what the F-engines say.
    """
    antennas, heaps, *_ = data.shape
    valid = np.zeros((o.substreams, antennas, heaps, o.groups, *flags.shape[2:]), bool)
    packets = []
    for h in range(heaps):
        for a in range(antennas):
            for s in range(o.substreams):
                channels = slice(s * o.substream_channels, (s + 1) * o.substream_channels)
                flagged = not flags[a, h].all()
                tail = np.packbits(flags[a, h].T, axis=1, bitorder="little").tobytes() if flagged else b""
                at = (first_heap + h) * o.fengine.spectra_per_heap * o.step
                number = (a + antennas * (first_heap + h)) % (1 << 47)
                made = by_hand(number, at, a, channels.start, data[a, h, channels].tobytes(), packet_bytes(o), tail)
                came = rng.random(len(made)) < (0.85 if rng.random() < 0.9 else 0.0)
                known = came[: o.groups] & (came[-1] | (not flagged))  # without the tail nobody knows what is valid
                valid[s, a, h] = known[:, None, None] & flags[a, h]
                packets += [packet for packet, c in zip(made, came, strict=True) if c]
    return packets, valid


@pytest.mark.parametrize(
    "what",
    [
        {},
        {"output_bits": 4, "packet": 512},
        {"pols": ["x"], "antennas": 5, "packet": 512},
        {"pols": ["y"], "antennas": 1, "output_bits": 4, "spectra": 8, "channels": 128, "sub": 64, "packet": 256},
        {"spectra": 24, "antennas": 2, "packet": 512},
        {"spectra": 256, "integration_spectra": 256, "antennas": 5, "packet": 4096},
        {"spectra": 96, "packet": 768, "output_bits": 4},
    ],
    ids=str,
)
def test_what_came_is_correlated_where_it_lies(observe, gpus, tmp_path, what):
    """Lost packets and tails, flagged spectra, heaps shorter and longer than a block: sums and counts are the oracle's.

    The assembler's memory goes round several times, and is written to as soon as it is given back.
    """
    rng = fresh.rng()
    o = observe(**{"channels": 16, "sub": 8, "packet": 1024, "heap_samples": 256, "integration_spectra": 192} | what)
    assert o.groups > 1 and o.integration_spectra <= 256
    xengine = o.xengine.model_copy(update={"backend": "cuda" if gpus else "cpu"})
    o = o.model_copy(update={"xengine": xengine})
    per = o.fengine.spectra_per_heap
    batch = o.batch_spectra // per
    heaps, first_heap = 24 * batch, int(rng.integers(1000)) * batch
    data = values(rng, o, heaps)
    flags = np.ones((len(o.antennas), heaps, per, o.pols), bool)
    some = rng.random(flags.shape[:2]) < 0.4
    flags[some] = rng.random(flags[some].shape) < 0.7
    packets, valid = packets_of(o, data, flags, first_heap, rng)
    path = tmp_path / "heaps.pcap"
    with path.open("wb") as file:
        writer = PcapWriter(file)
        for packet in packets:
            writer.write(0, packet, "127.0.0.1", 7148)
    kept, low = clamped(o, data)
    for s in range(o.substreams):
        rows, words = reference(o, kept, valid[s], s)
        map_ = HeapMap(o, s, 1, waits=True, timed=False)
        entrance = MappedEntrance(
            o, "x", map_, [], source=lambda sink: PcapSource(sink, path), name="heaps", memory=locked(gpus)
        )
        assert map_.plan.chunks < heaps // batch // 2
        x = XEngine(o, map_.first_channel, o.substream_channels, o.groups, gpus=gpus)

        def chunk(block, map_=map_, x=x):
            made = map_.given(block)
            assert np.shares_memory(made.packets, block.data)
            assert not gpus or gpus[0].is_locked(made.packets)  # it is copied from where it lies
            return made

        sums = Ring("integrations", lambda x=x: Block(x.room()), 3)
        got = []

        def keep(block, got=got):
            i = block.data
            got.append((i.first_spectrum, i.visibilities.copy(), i.counts.copy()))

        through([Correlate(entrance.reader(), x, chunk, sums)], lambda: None, sums, keep, [entrance])
        channels = slice(s * o.substream_channels, (s + 1) * o.substream_channels)
        there = np.repeat(valid[s], o.packet_channels, axis=2)
        assert x.clamped == np.count_nonzero(low[:, :, channels] & there[..., None]) > 0
        length, first = o.integration_spectra // BLOCK, first_heap * per // BLOCK
        span = range(first // length, (first + heaps * per // BLOCK - 1) // length + 1)
        parts = [slice(max(0, n * length - first), (n + 1) * length - first) for n in span]
        some = [(n, part) for n, part in zip(span, parts, strict=True) if words[:, part].any()]
        assert [first_spectrum // BLOCK for first_spectrum, *_ in got] == [n * length for n, _ in some]
        for (_, part), (_, visibilities, counts) in zip(some, got, strict=True):
            wanted = correlate(rows[:, part], words[:, part], o.pols)
            np.testing.assert_array_equal(visibilities, wanted[0])
            np.testing.assert_array_equal(counts, wanted[1])
