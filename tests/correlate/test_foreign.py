"""Others' spectra on the GPU: K-blocks equal to those made by numpy, and what the X-engine makes of them to the oracle."""

import numpy as np
import pytest

import fresh
from emulation import EmulatedGpu
from ryle.chunk import SpectraChunk, parts_from_rows, rows_from_parts
from ryle.correlate import CorrelatorConfig
from ryle.correlate.cuda import CudaCorrelator
from ryle.correlate.foreign import Foreign, Order
from ryle.correlate.multiply import RUN_BLOCKS
from ryle.correlate.reference import correlate
from ryle.correlate.samples import HeapsMultiply, TimeMajorMultiply
from ryle.gpu import gpu_problem, open_gpu

BLOCKS = 3


@pytest.fixture(params=["emulated", "cuda"])
def gpu(request):
    if request.param == "cuda":
        if (reason := gpu_problem()) is not None:
            pytest.skip(f"no GPU: {reason}")
        return open_gpu()
    return EmulatedGpu(seed=fresh.seed())


def packed(parts):
    """One byte a sample: the real part in the high nibble."""
    return (parts[..., 0] << 4 | parts[..., 1] & 15).astype(np.int8)


def parts_of(rng, config, bits):
    """Random samples (channel, block, input, spectrum, 2) and validity words, with the lowest value among the samples."""
    low = -(2 ** (bits - 1))
    shape = (config.channels, BLOCKS, config.inputs, 64, 2)
    valid = rng.integers(0, 2**64, (config.groups, BLOCKS, config.inputs), dtype=np.uint64)
    parts = rng.integers(low, -low - 1, shape, dtype=np.int8, endpoint=True)
    parts[rng.random(shape) < 0.1] = low
    return parts, valid


def clamped_parts(parts, valid, config, bits):
    """What is to be made of them where they are valid, and how many of them are clamped."""
    present = np.unpackbits(valid.view(np.uint8), bitorder="little").reshape(*valid.shape, 64, 1).astype(bool)
    present = np.repeat(present, config.channels // config.groups, axis=0)
    low = -(2 ** (bits - 1))
    return np.maximum(parts, low + 1) * present, np.count_nonzero((parts == low) & present)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("order", ["time_major", "heaps"])
@pytest.mark.parametrize(("antennas", "pols", "groups"), [(1, 1, 1), (19, 2, 2), (33, 1, 4), (66, 1, 1), (40, 2, 1)])
def test_other_orders(gpu, rng, order, bits, antennas, pols, groups):
    config = CorrelatorConfig(antennas * pols, 4, pols, groups)
    parts, valid = parts_of(rng, config, bits)
    axes = parts.reshape(4, BLOCKS, antennas, pols, 64, 2)
    if order == "time_major":
        samples = axes.transpose(1, 4, 0, 2, 3, 5)
        where = Order.time_major(config, bits)
    else:
        samples = axes.transpose(2, 0, 1, 4, 3, 5)
        where = Order.heaps(config, 64 * BLOCKS, bits)
    samples = np.ascontiguousarray(packed(samples) if bits == 4 else samples)
    foreign = Foreign(gpu, config)
    out = gpu.empty((4, BLOCKS, config.inputs, 128), np.int8)
    words = gpu.array(valid)
    foreign.arrange(gpu.array(samples), where, words, out)
    correlator = CudaCorrelator(config, gpu=gpu, kernel="portable")
    gpu.default_stream.synchronize()
    correlator.accumulate_device(out, words, clamp=bits == 8)
    expected, clamped = clamped_parts(parts, valid, config, bits)
    result = correlator.read(0, correlator.spectra, 0)
    visibilities, counts = correlate(rows_from_parts(expected), valid, pols)
    np.testing.assert_array_equal(parts_from_rows(out.get()), expected)
    np.testing.assert_array_equal(result.visibilities, visibilities)
    np.testing.assert_array_equal(result.counts, counts)
    assert foreign.clamped + correlator.clamped == clamped > 0


def test_packed_blocks(gpu, rng):
    config = CorrelatorConfig(21, 6, 1, 3)
    parts, valid = parts_of(rng, config, 4)
    foreign = Foreign(gpu, config)
    out = gpu.empty((6, BLOCKS, 21, 128), np.int8)
    foreign.unpack(gpu.array(packed(parts)), gpu.array(valid), out)
    expected, clamped = clamped_parts(parts, valid, config, 4)
    np.testing.assert_array_equal(parts_from_rows(out.get()), expected)
    assert foreign.clamped == clamped > 0


@pytest.mark.parametrize("kernel", ["portable", "hopper"])
def test_packed_blocks_as_they_are(rng, kernel):
    """Multiplied without being unpacked to memory; missing ones zeroed, -8 taken as -7 and counted."""
    gpu = EmulatedGpu(seed=fresh.seed())
    config = CorrelatorConfig(14, 6, 2, 3)
    parts, valid = parts_of(rng, config, 4)
    expected, clamped = clamped_parts(parts, valid, config, 4)
    correlator = CudaCorrelator(config, gpu=gpu, kernel=kernel, bits=4)
    correlator.accumulate_device(gpu.array(packed(parts)), gpu.array(valid), clamp=True)
    result = correlator.read(0, correlator.spectra, 0)
    visibilities, counts = correlate(rows_from_parts(expected), valid, 2)
    np.testing.assert_array_equal(result.visibilities, visibilities)
    np.testing.assert_array_equal(result.counts, counts)
    assert correlator.clamped == clamped > 0
    chunk = SpectraChunk(0, rows_from_parts(expected), valid)
    with pytest.raises(ValueError, match="chunks have eight bits"):
        correlator.accumulate(chunk)
    with pytest.raises(ValueError, match="bits is 2"):
        CudaCorrelator(config, gpu=gpu, kernel=kernel, bits=2)


SIZES = [(40, 1, 2), (128, 2, 2), (144, 2, 1), (160, 1, 2), (256, 2, 1), (272, 2, 4)]


@pytest.mark.parametrize(
    ("order", "inputs", "pols", "groups"),
    [("time_major", 8, 2, 1), ("time_major", 72, 1, 1), ("heaps", 38, 2, 1), ("heaps", 64, 2, 4)]
    + [pytest.param("time_major", *size, marks=pytest.mark.long) for size in SIZES]
    + [pytest.param("heaps", *size, marks=pytest.mark.long) for size in (*SIZES, (150, 2, 2)) if size[1] == 2],
)
def test_samples_in_the_kernel(gpu, rng, order, inputs, pols, groups):
    """Transposed on their way: missing spectra are zeroed, -128 becomes -127 and is counted, in runs and in pieces."""
    config = CorrelatorConfig(inputs, 4, pols, groups)
    parts, valid = parts_of(rng, config, 8)
    if inputs > 8:  # mostly complete, some missing altogether
        valid[rng.random(valid.shape) < 0.7] = 2**64 - 1
    valid[0, 0, 0] = 0
    if gpu.arch not in ("emulated", "sm_90a"):
        pytest.skip(f"{gpu.name} cannot run the kernel hopper")

    def ordered(parts):
        if order == "time_major":
            return np.ascontiguousarray(parts.transpose(1, 3, 0, 2, 4)).reshape(64 * BLOCKS, 4, inputs, 2)
        axes = parts.reshape(4, BLOCKS, inputs // pols, pols, 64, 2).transpose(2, 0, 1, 4, 3, 5)
        return np.ascontiguousarray(axes).reshape(inputs // pols, 4, 64 * BLOCKS, pols, 2)

    expected, clamped = clamped_parts(parts, valid, config, 8)
    correlator = CudaCorrelator(config, gpu=gpu, kernel="hopper")
    assert correlator.takes_samples(order)
    words, device = gpu.array(valid), gpu.array(ordered(parts))
    gpu.default_stream.synchronize()
    correlator.accumulate_samples(device, words, order, 0, 1)
    correlator.accumulate_samples(device, words, order, 1)
    result = correlator.read(0, correlator.spectra, 0)
    visibilities, counts = correlate(rows_from_parts(expected), valid, pols)
    np.testing.assert_array_equal(result.visibilities, visibilities)
    np.testing.assert_array_equal(result.counts, counts)
    assert correlator.clamped == clamped > 0
    now, mended = device.get(), ordered(expected)
    np.testing.assert_array_equal(np.maximum(now, -127), mended)
    assert np.count_nonzero(now == -128) == clamped  # only missing spectra have changed there
    # Others that are clean need no look.
    correlator.reset()
    device.set(mended)
    gpu.default_stream.synchronize()
    correlator.accumulate_samples(device, words, order, clamp=False)
    np.testing.assert_array_equal(correlator.read(0, correlator.spectra, 0).visibilities, visibilities)
    assert correlator.clamped == clamped


def test_saturated_samples_do_not_overflow():
    """Extremes for longer than 32 bits hold."""
    gpu, blocks = EmulatedGpu(), RUN_BLOCKS + 3
    config = CorrelatorConfig(8, 1)
    samples = np.full((64 * blocks, 1, 8, 2), -128, np.int8)
    samples[:, :, 1, 1] = 127
    valid = np.full((1, blocks, 8), 2**64 - 1, np.uint64)
    correlator = CudaCorrelator(config, gpu=gpu, kernel="hopper")
    correlator.accumulate_samples(gpu.array(samples), gpu.array(valid), "time_major")
    result = correlator.read(0, correlator.spectra, 0)
    parts = np.maximum(samples, -127).reshape(blocks, 64, 1, 8, 2).transpose(2, 0, 3, 1, 4)
    visibilities, _ = correlate(rows_from_parts(parts), valid, 1)
    np.testing.assert_array_equal(result.visibilities, visibilities)
    assert result.visibilities.max() == 2 * 127**2 * 64 * blocks > 2**31


def test_samples_that_are_refused():
    gpu = EmulatedGpu()
    samples, valid = gpu.empty((64, 2, 12, 2), np.int8), gpu.empty((1, 1, 12), np.uint64)
    for kernel, bits, order in (("portable", 8, "heaps"), ("hopper", 4, "time_major"), ("hopper", 8, "time_major")):
        correlator = CudaCorrelator(CorrelatorConfig(12, 2), gpu=gpu, kernel=kernel, bits=bits)
        with pytest.raises(ValueError, match=r"12 inputs and . bits, .* cannot be multiplied.*Foreign.arrange"):
            correlator.accumulate_samples(samples, valid, order)
    with pytest.raises(ValueError, match="order is 'random'; it must be one of 'time_major', 'heaps'"):
        correlator.accumulate_samples(samples, valid, "random")
    with pytest.raises(ValueError, match="12 inputs of 1 polarizations: the kernel does not take time-major samples"):
        TimeMajorMultiply(gpu, 12, 1)
    with pytest.raises(ValueError, match="12 inputs of 1 polarizations: the kernel does not take heaps"):
        HeapsMultiply(gpu, 12, 1)
    correlator = CudaCorrelator(CorrelatorConfig(16, 2), gpu=gpu, kernel="hopper")
    with pytest.raises(ValueError, match="samples and valid have shapes"):
        correlator.accumulate_samples(samples, valid, "time_major")
    multiply, sums = TimeMajorMultiply(gpu, 16, 1), gpu.empty((1, 2, 136, 2), np.int32)
    with pytest.raises(ValueError, match=r"samples has shape \(64, 2, 12, 2\); it must be \(64, 2, 16, 2\)"):
        multiply.multiply(samples, sums, 0, 1)


def test_wrong_sizes():
    gpu, config = EmulatedGpu(), CorrelatorConfig(4, 2, 2)
    foreign = Foreign(gpu, config)
    out, valid = gpu.empty((2, 1, 4, 128), np.int8), gpu.empty((1, 1, 4), np.uint64)
    samples = gpu.empty((64, 2, 4, 2), np.int8)
    foreign.arrange(samples, Order.time_major(config), valid, out)
    with pytest.raises(ValueError, match="samples holds 1022 bytes; 1 blocks in this order reach to 1024"):
        foreign.arrange(samples.view((1022,), np.int8), Order.time_major(config), valid, out)
    with pytest.raises(ValueError, match="out and valid have shapes"):
        foreign.arrange(samples, Order.time_major(config), out, valid)
    with pytest.raises(ValueError, match="packed has shape"):
        foreign.unpack(out, valid, out)
    with pytest.raises(ValueError, match="bits is 2"):
        Order(1, 1, 1, 1, 2)
