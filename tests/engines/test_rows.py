"""Rows from F- to X-engines: what comes through packets is what was channelized, to the last bit."""

import time
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pytest

import fresh
from observations import observe_rows
from ryle.channelize import Blocks, Rows
from ryle.chunk import BLOCK, SampleChunk, SpectraChunk
from ryle.config import changed
from ryle.correlate import reference
from ryle.engines.f import FEngine
from ryle.engines.x import XEngine
from ryle.receive.assembly import Assembler
from ryle.receive.entrance import MappedEntrance, block_of
from ryle.receive.packets import packet_map
from ryle.receive.rows import RowMap
from ryle.send.rows import RowSender
from ryle.wire.build import build
from ryle.wire.description import Format


def packets_of(o, rows, words, first_block, rng, loss):
    """Packets of rows [block][antenna][channel][pol][128], some lost, some twice, those of some blocks shuffled.

    Also the words of what came, [group][block][input].
    """
    blocks, antennas, channels, pols, _ = rows.shape
    per, f = o.packet_channels, Format.load("ryle_rows")
    came = np.zeros((channels // per, blocks, antennas, pols), np.uint64)
    packets = []
    for b in range(blocks):
        for a in range(antennas):
            for g in range(channels // per):
                if rng.random() < loss:
                    continue
                fields = {"channels": per, "pols": pols, "antenna": a, "channel": g * per, "block": first_block + b}
                fields |= {f"valid_{p}": int(words[b, a, p]) for p in range(pols)}
                packet = build(f, fields, rows[b, a, g * per : (g + 1) * per].tobytes())
                packets += [packet] * (1 + (rng.random() < 0.1))
                came[g, b, a] = words[b, a]
    order = np.argsort(np.arange(len(packets)) + rng.uniform(0, antennas * (channels // per), len(packets)))
    return [packets[i] for i in order], came.reshape(channels // per, blocks, antennas * pols)


@pytest.mark.parametrize(
    "what",
    [
        {"channels": 32, "sub": 16, "packet": 1024},
        {"channels": 24, "sub": 24, "packet": 1400, "antennas": 5, "pols": ["y"]},
        {"channels": 12, "sub": 6, "packet": 900, "antennas": 2},
        {"channels": 16, "sub": 16, "packet": 256, "antennas": 1},
    ],
    ids=str,
)
def test_what_came_is_correlated_where_it_lies(what, monkeypatch):
    """Lost, repeated and shuffled packets, random validity, odd sizes: sums and counts are the oracle's."""
    rng = fresh.rng()
    o = changed(observe_rows(**what), network={"skew": 0.0})
    inputs, blocks = o.n_inputs, 40
    monkeypatch.setattr("ryle.config.observation._CHUNK_BYTES", 7 * o.batch_bytes)
    shape = (blocks, len(o.antennas), o.fengine.channels, o.pols, 2 * BLOCK)
    rows = rng.integers(-127, 128, shape, dtype=np.int8)
    words = rng.integers(0, 1 << 64, (blocks, len(o.antennas), o.pols), dtype=np.uint64)
    words[rng.random(words.shape) < 0.5] = np.uint64(2**64 - 1)
    chunk_blocks = RowMap(o, [0]).plan.packets
    first = chunk_blocks * int(rng.integers(0, 1 << 20)) + int(rng.integers(0, chunk_blocks))
    packets, came = packets_of(o, rows, words, first, rng, 0.1)
    for substream in range(o.substreams):
        map_ = RowMap(o, [substream])
        assembler = Assembler(map_.plan)
        engine = XEngine(o, map_.first_channel, o.substream_channels, o.groups)
        got = []
        for n in range(0, len(packets), 200):
            assembler.take(packets[n : n + 200])
            while (chunk := assembler.next(0)) is not None:
                with chunk:
                    given = map_.given(block_of(chunk, assembler.plan))
                    assert np.shares_memory(given.data, chunk.data) and np.shares_memory(given.valid, chunk.notes)
                    got += engine.push(given)
        assembler.finish()
        for chunk in assembler:
            got += engine.push(map_.given(block_of(chunk, assembler.plan)))
        got += engine.flush()
        channels = slice(map_.first_channel, map_.first_channel + o.substream_channels)
        mine = rows[:, :, channels].transpose(2, 0, 1, 3, 4).reshape(o.substream_channels, blocks, inputs, 128)
        valid = came[channels.start // o.packet_channels : channels.stop // o.packet_channels]
        length = o.integration_spectra // BLOCK
        assert [i.first_spectrum // BLOCK // length for i in got] == list(
            range(first // length, (first + blocks - 1) // length + 1)
        )
        for integration in got:
            at = integration.first_spectrum // BLOCK - first
            part = slice(max(0, at), at + length)
            sums, counts = reference.correlate(mine[:, part], valid[:, part], o.pols)
            np.testing.assert_array_equal(integration.visibilities, sums)
            np.testing.assert_array_equal(integration.counts, counts)
        placed = sum(1 for p in set(packets) if channels.start <= int.from_bytes(p[12:16], "big") < channels.stop)
        assert assembler.counts().placed == placed


def samples(o, rng, packets, loss):
    """Noise of every input with some packets missing."""
    size = o.digitizer.heap_samples
    data = rng.integers(0, 256, (o.n_inputs, packets, o.digitizer_heap_bytes), dtype=np.uint8)
    present = (rng.random((o.n_inputs, packets)) >= loss).astype(np.uint8)
    return SampleChunk(0, data, present, size)


def part(chunk, inputs):
    return SampleChunk(chunk.timestamp, chunk.data[inputs], chunk.present[inputs], chunk.packet_samples)


@pytest.mark.parametrize("pols", [("x", "y"), ("x",)], ids=len)
def test_f_to_x_over_udp(pols, steady):
    """Two F-engines, two X-engines, lost samples: integrations are those of one process."""
    rng = fresh.rng()
    o = observe_rows(antennas=3, pols=pols, channels=64, sub=32, packet=1400)
    o = changed(o, xengine={"integration": Fraction(1, 100)})
    engines = [range(2), range(2, 3)]
    chunk = samples(o, rng, 20_000, 0.01)

    def spectra(antennas, layout):
        engine = FEngine(o, antennas, layout)
        inputs = slice(antennas[0] * o.pols, (antennas[-1] + 1) * o.pols)
        yield from engine.push(part(chunk, inputs))
        yield from engine.flush()

    wanted = []
    xs = [XEngine(o, s * o.substream_channels, o.substream_channels, 1) for s in range(o.substreams)]
    for of_engines in zip(*(spectra(antennas, Blocks()) for antennas in engines), strict=True):
        data = np.concatenate([s.chunk().data for s in of_engines], 2)
        valid = np.concatenate([s.chunk().valid for s in of_engines], 2)
        first = of_engines[0].first_spectrum // BLOCK
        for x in xs:
            wanted += x.push(SpectraChunk(first, data[x.first_channel : x.first_channel + o.substream_channels], valid))
    wanted += [i for x in xs for i in x.flush()]
    assert len(wanted) > 2 * len(xs)

    def body():
        receivers = [
            MappedEntrance(
                o, "x", packet_map(o, [s], waits=True, timed=False), [o.spectra_endpoint(s)], index=s, name="x"
            )
            for s in range(o.substreams)
        ]
        found = []

        def receive(receiver):
            x = XEngine(o, receiver.map.first_channel, o.substream_channels, o.groups)
            for block in receiver.reader():
                with block:
                    found.extend(x.push(receiver.chunk(block)))
            found.extend(x.flush())
            assert x.late_blocks == 0

        def send(antennas):
            with RowSender(o, antennas, rate=0.0) as sender:
                for s in spectra(antennas, Rows(o.pols)):
                    sender.send(s.data, s.valid, s.first_spectrum // BLOCK)
                return sender.counts

        with ThreadPoolExecutor(4) as pool:
            for r in receivers:
                r.start()
            takers = [pool.submit(receive, r) for r in receivers]
            sent = sum(s.result()["packets"] for s in [pool.submit(send, a) for a in engines])
            deadline = time.monotonic() + 60
            while sum(r.account().datagrams for r in receivers) < sent and time.monotonic() < deadline:
                time.sleep(0.01)
            for r in receivers:
                r.stop()
            for taker in takers:
                taker.result()
            accounts = [r.account() for r in receivers]
        assert all(a.balanced() and not a.kernel_drops for a in accounts)
        assert sum(a.placed for a in accounts) == sent
        order = lambda i: (i.first_channel, i.first_spectrum)  # noqa: E731
        assert len(found) == len(wanted)
        for got, expected in zip(sorted(found, key=order), sorted(wanted, key=order), strict=True):
            assert order(got) == order(expected) and got.spectra == expected.spectra
            np.testing.assert_array_equal(got.visibilities, expected.visibilities)
            np.testing.assert_array_equal(got.counts, np.repeat(expected.counts, o.groups, 0))

    steady(body)
