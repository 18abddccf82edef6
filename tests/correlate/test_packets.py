"""Packets of others' F-engines as K-blocks: what their bytes say, in any order of axes, on CPU and GPU."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fresh
from emulation import EmulatedGpu
from formats import description
from ryle.chunk import PacketChunk, parts_from_rows, rows_from_parts
from ryle.correlate import CorrelatorConfig
from ryle.correlate.cpu import CpuCorrelator
from ryle.correlate.packets import Unpacker
from ryle.correlate.reference import correlate
from ryle.gpu import gpu_problem, open_gpu
from ryle.wire.build import build
from ryle.wire.description import Format
from ryle.wire.spectra import SpectraLayout

AXES = {"input": ["time", "channel", "input"], "antenna": ["time", "channel", "antenna", "pol"]}


def make_format(order, sizes, **sample):
    fields = {name: {"byte": 4 * i, "bytes": 4} for i, name in enumerate(("count", "from", "chan"))}
    placement = {"input" if "input" in order else "antenna": {"from": 1}, "channel": {"chan": 1}}
    return Format.parse(description(fields, {axis: sizes[axis] for axis in order}, placement, count=1, **sample))


def filled(rng, format, blocks, groups, senders, wanted):
    """Random packets, and the samples (channel, spectrum, input, 2) and validity (group, spectrum, input) they hold."""
    layout = SpectraLayout.of(format)
    bits, times = layout.bits, blocks * 64 // layout.spectra
    low = -(1 << (bits - 1))
    wire = rng.choice(senders * layout.inputs, wanted, replace=False)
    conjugated = rng.random(wanted) < 0.3
    shape = [int(format.payload.size[axis]) for axis in format.axes]
    rows = np.empty((times, groups, senders, layout.payload_bytes), np.uint8)
    samples = np.empty((groups * layout.channels, blocks * 64, senders * layout.inputs, 2), np.int64)
    for t in range(times):
        for g in range(groups):
            for s in range(senders):
                values = rng.integers(low, -low, (*shape, 2))
                values[rng.random(values.shape) < 0.1] = low
                fields = layout.header(t * layout.spectra, s * layout.inputs, g * layout.channels)
                packet = build(format, fields, values)
                assert len(packet) == layout.packet_bytes
                rows[t, g, s] = np.frombuffer(packet, np.uint8)[format.header.bytes :]
                canonical = values.reshape(layout.channels, layout.spectra, layout.inputs, 2)
                spectra = slice(t * layout.spectra, (t + 1) * layout.spectra)
                inputs = slice(s * layout.inputs, (s + 1) * layout.inputs)
                samples[g * layout.channels : (g + 1) * layout.channels, spectra, inputs] = canonical
    present = (rng.random((times, groups, senders)) < 0.8).astype(np.uint8)
    valid = np.repeat(present, layout.spectra, axis=0).transpose(1, 0, 2)  # group, spectrum, sender
    used, pitch = layout.senders(wire), layout.payload_bytes
    order = layout.order(
        blocks * 64,
        groups * layout.channels,
        wire,
        conjugated,
        tuple(s * pitch for s in (groups * senders, senders, 1)),
    )  # rows of all senders, so of those used the rows must be theirs
    order.input[:] += (wire // layout.inputs - np.searchsorted(used, wire // layout.inputs)) * pitch
    parts = samples[:, :, wire]
    there = valid[..., wire // layout.inputs].astype(bool)
    chunk = PacketChunk(5, rows, blocks_of(parts, there)[1], order)
    clamped = np.count_nonzero((parts == low) & np.repeat(there, layout.channels, axis=0)[..., None])
    parts = np.maximum(parts, low + 1)
    parts[:, :, conjugated, 1] *= -1
    return chunk, parts, there, clamped


def blocks_of(parts, there):
    """K-block parts (channel, block, input, 64, 2) and validity words (group, block, input)."""
    channels, spectra, inputs, _ = parts.shape
    blocked = parts.reshape(channels, spectra // 64, 64, inputs, 2).swapaxes(2, 3)
    bits = there.reshape(len(there), spectra // 64, 64, inputs).swapaxes(2, 3)
    words = np.ascontiguousarray(np.packbits(bits, axis=-1, bitorder="little")).view("<u8")[..., 0].astype(np.uint64)
    return blocked, words


def check(chunk, parts, there, clamped):
    unpacker = Unpacker()
    out = unpacker.unpack(chunk)
    expected, words = blocks_of(parts, there)
    np.testing.assert_array_equal(out.valid, words)
    keep = np.unpackbits(np.ascontiguousarray(words).view(np.uint8), bitorder="little").reshape(*words.shape, 64)
    keep = np.repeat(keep, len(parts) // len(there), axis=0).astype(bool)
    np.testing.assert_array_equal(parts_from_rows(out.data)[keep], expected[keep])
    assert unpacker.clamped == clamped
    assert out.first_block == chunk.first_block


@settings(max_examples=40)
@given(
    kind=st.sampled_from(list(AXES)),
    bits=st.sampled_from([4, 8]),
    code=st.sampled_from(["twos_complement", "offset_binary"]),
    bit_order=st.sampled_from(["msb", "lsb"]),
    first=st.sampled_from(["real", "imag"]),
    times=st.sampled_from([1, 2, 8, 16, 64]),
    sizes=st.tuples(st.integers(1, 3), st.integers(1, 9), st.integers(1, 2)),
    data=st.data(),
)
def test_any_order(kind, bits, code, bit_order, first, times, sizes, data):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    order = data.draw(st.permutations(AXES[kind]))
    size = dict(zip(("time", "channel", "antenna", "pol"), (times, *sizes), strict=True))
    if kind == "input":
        size["input"] = size.pop("antenna") * size.pop("pol")
    format = make_format(order, size, bits=bits, code=code, bit_order=bit_order, first=first)
    inputs = SpectraLayout.of(format).inputs * 3
    check(*filled(rng, format, data.draw(st.integers(1, 2)), 2, 3, data.draw(st.integers(1, inputs))))


def test_paper(rng):
    """Runs of eight inputs, which have a way of their own, straight and shuffled."""
    format = Format.load("paper_psa128")
    for wanted in (24, 11):
        chunk, *rest = filled(rng, format, 1, 1, 3, wanted)
        check(chunk, *rest)
    layout = SpectraLayout.of(format)
    strides = tuple(s * layout.payload_bytes for s in (3, 3, 1))
    whole = layout.order(64, 64, np.arange(24), np.zeros(24, bool), strides)
    chunk = PacketChunk(0, chunk.packets, np.full((1, 1, 24), ~np.uint64(0)), whole)
    straight = Unpacker().unpack(chunk).data
    backwards = layout.order(64, 64, np.arange(24)[::-1].copy(), np.zeros(24, bool), strides)
    chunk.order = backwards
    np.testing.assert_array_equal(Unpacker().unpack(chunk).data, straight[:, :, ::-1])


def test_orders_that_point_outside(rng):
    chunk, *_ = filled(rng, make_format(AXES["input"], {"time": 64, "channel": 2, "input": 4}), 1, 1, 2, 8)
    for table, much in (chunk.order.input, -1000), (chunk.order.spectrum, 1024), (chunk.order.channel, 3000):
        table[-1] += much
        with pytest.raises(ValueError, match="outside the packets"):
            Unpacker().unpack(chunk)
        table[-1] -= much
    Unpacker().unpack(chunk)


@pytest.fixture(params=["cpu", "emulated", "cuda"])
def correlator(request):
    """What makes a correlator of a size."""
    if request.param == "cpu":
        return CpuCorrelator
    from ryle.correlate.cuda import CudaCorrelator

    if request.param == "cuda" and (reason := gpu_problem()) is not None:
        pytest.skip(f"no GPU: {reason}")
    gpu = open_gpu() if request.param == "cuda" else EmulatedGpu(seed=fresh.seed())
    return lambda config: CudaCorrelator(config, gpu=gpu, kernel="portable")


FEW, MANY = {"time": 16, "channel": 2, "input": 8}, {"time": 24, "channel": 2, "input": 2}


@pytest.mark.parametrize(
    ("bits", "order", "kind", "sizes", "inputs"),
    [
        (4, ["time", "channel", "input"], {}, FEW, 14),
        (8, ["channel", "input", "time"], {"code": "offset_binary"}, FEW, 14),
        (4, ["input", "time", "channel"], {"bit_order": "lsb", "code": "offset_binary"}, FEW, 14),
        (8, ["time", "input", "channel"], {"first": "imag"}, FEW, 14),
        (8, ["channel", "time", "input"], {}, MANY, 38),  # as heaps, and more than a GPU's tile
        (4, ["time", "channel", "input"], {}, MANY, 38),
    ],
)
def test_sums(correlator, rng, bits, order, kind, sizes, inputs):
    """Visibilities of packets are those of their samples, added in two runs."""
    format = make_format(order, sizes, bits=bits, **kind)
    chunk, parts, there, clamped = filled(rng, format, 3, 2, -(-inputs // sizes["input"]), inputs)
    made = correlator(CorrelatorConfig(inputs, 4, 2, 2))
    made.accumulate(chunk, 0, 1)
    made.accumulate(chunk, 1)
    blocked, words = blocks_of(parts, there)
    keep = np.unpackbits(np.ascontiguousarray(words).view(np.uint8), bitorder="little").reshape(*words.shape, 64, 1)
    rows = rows_from_parts((blocked * np.repeat(keep, 2, axis=0)).astype(np.int8))
    visibilities, counts = correlate(rows, words, 2)
    got = made.read(chunk.first_spectrum, made.spectra, 0)
    np.testing.assert_array_equal(got.visibilities, visibilities)
    np.testing.assert_array_equal(got.counts, counts)
    assert made.clamped == clamped > 0 and made.spectra == 192
    with pytest.raises(ValueError, match=f"{inputs} inputs in 2 groups"):
        correlator(CorrelatorConfig(inputs - 2, 4, 2, 2)).accumulate(chunk)
