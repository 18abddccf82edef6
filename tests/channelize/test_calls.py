"""Calls of the CUDA channelizer that overlap give what they give one by one, on a GPU that does everything late."""

import gc

import numpy as np
import pytest

import fresh
from emulation import EmulatedGpu
from emulation.deferred import DeferredGpu
from ryle.channelize import Blocks, Heaps
from ryle.channelize.channelizer import Pipelined
from ryle.channelize.cuda import CudaChannelizer
from ryle.chunk import SampleChunk
from ryle.gpu.staging import PinnedPool

SETTINGS = {"channels": 64, "taps": 4, "bits": 10}


def calls_of(case, random, layouts):
    """Calls of changing length over changing stretches of a case's samples: (arguments, layout)."""
    calls = []
    for layout in layouts:
        begin, count = 64 * int(random.integers(0, 2)), 64 * int(random.integers(1, 3))
        low = int(random.integers(0, 3))
        chunk = SampleChunk(
            case.chunk.timestamp + low * case.chunk.packet_samples,
            np.ascontiguousarray(case.chunk.data[:, low:]),
            np.ascontiguousarray(case.chunk.present[:, low:]),
            case.chunk.packet_samples,
        )
        delays = type(case.delays)(
            *(getattr(case.delays, n)[:, begin : begin + count] for n in ("coarse", "fine", "phase"))
        )
        calls.append((chunk, case.first + begin, count, delays, layout))
    return calls


def equal(got, wanted):
    assert got.first_spectrum == wanted.first_spectrum and got.layout == wanted.layout
    for name in ("data", "valid", "saturated", "input_power", "input_samples"):
        np.testing.assert_array_equal(getattr(got, name), getattr(wanted, name), err_msg=name)


@pytest.mark.parametrize("layouts", [[Blocks()] * 6, [Blocks(), Heaps(32, 1), Heaps(64), Blocks(), Heaps(32, 1)]])
def test_overlapping_calls_equal_single_ones(cases, layouts):
    seed = fresh.seed()
    random = np.random.default_rng(seed)
    case = cases.make(seed, spectra=192, inputs=4, loss=2, **SETTINGS)
    calls = calls_of(case, random, layouts)
    single, overlapping = CudaChannelizer(case.config, EmulatedGpu()), CudaChannelizer(case.config, DeferredGpu(seed))
    for form in (single, overlapping):
        form.set_gains(case.gains)
    wanted, powers = [], []
    for call in calls:
        wanted.append(single.process(*call))
        powers.append(single.output_power)
    assert any(w.valid.any() for w in wanted), seed
    got, got_powers = [], []
    for i, (chunk, *others) in enumerate(calls):
        mine = SampleChunk(chunk.timestamp, chunk.data.copy(), chunk.present.copy(), chunk.packet_samples)
        overlapping.submit(mine, *others)
        mine.data.fill(0xAA)  # whoever submits may write to them again
        mine.present.fill(0)
        if i:
            got.append(overlapping.collect())
            got_powers.append(overlapping.output_power)
    got.append(overlapping.collect())
    got_powers.append(overlapping.output_power)
    for result, power, w, p in zip(got, got_powers, wanted, powers, strict=True):
        equal(result, w)
        np.testing.assert_array_equal(power, p)
    # One by one, into an array of the caller's, on the same form.
    out = np.empty_like(wanted[0].data)
    result = overlapping.process(*calls[0], out=out)
    assert result.data is out
    equal(result, wanted[0])


def test_one_size_of_call_allocates_once(cases):
    case = cases.make(7, **SETTINGS)
    gpu = DeferredGpu()
    form = CudaChannelizer(case.config, gpu)
    call = case.chunk, case.first, case.spectra, case.delays, Blocks()
    shorter = SampleChunk(
        case.chunk.timestamp,
        case.chunk.data[:, :-1].copy(),
        case.chunk.present[:, :-1].copy(),
        case.chunk.packet_samples,
    )
    form.process(*call)
    allocated, pinned = gpu.allocated, len(gpu._pinned)
    for _ in range(3):
        form.process(*call)
        form.process(shorter, *call[1:])  # a stream's windows cover one packet more or less
    assert gpu.allocated == allocated
    assert len(gpu._pinned) <= pinned + 1  # a result that is still held while the next is made


def test_what_cannot_be_done_is_refused(cases):
    case = cases.make(8, **SETTINGS)
    form = CudaChannelizer(case.config, DeferredGpu())
    call = case.chunk, case.first, case.spectra, case.delays, Blocks()
    assert isinstance(form, Pipelined)
    assert not isinstance(cases.form(case.config, "cpu"), Pipelined)
    with pytest.raises(RuntimeError, match="submit one first"):
        form.collect()
    with pytest.raises(ValueError, match="first_spectrum"):
        form.submit(case.chunk, -64, *call[2:])
    form.submit(*call)
    with pytest.raises(RuntimeError, match="1 submitted calls are under way"):
        form.process(*call)
    form.submit(*call)
    with pytest.raises(RuntimeError, match="2 calls are under way"):
        form.submit(*call)
    first, second = form.collect(), form.collect()
    equal(second, first)


def test_lent_memory_comes_back_with_its_last_view():
    gpu = DeferredGpu()
    pool = PinnedPool(gpu)
    array = pool.take((4, 6), np.int16)
    part = array[1:, ::2].T
    address = array.ctypes.data
    assert gpu.is_pinned(array) and array.flags.writeable and array.flags.c_contiguous
    del array
    gc.collect()
    other = pool.take((48,), np.int8)
    assert other.ctypes.data != address, "lent twice"
    del part
    gc.collect()
    assert pool.take((12,), np.int32).ctypes.data == address
    assert pool.take((13,), np.int32).ctypes.data != address
