"""The emulated GPU against numpy, and against kernels with known mistakes."""

import re
from pathlib import Path

import numpy as np
import pytest

import fresh
from emulation import EmulatedGpu, EmulationError
from emulation.build import INCLUDE, SOURCE, CompilationError, kernels_in

KERNELS = Path(__file__).with_name("kernels.cu")


@pytest.fixture
def gpu():
    return EmulatedGpu(seed=fresh.seed())


def test_barriers_and_shuffles_add_up(gpu, rng):
    values = rng.integers(-(1 << 20), 1 << 20, 12345).astype(np.int32)
    out = gpu.array(np.zeros((), np.int64))
    gpu.kernel(KERNELS, "total", {}).launch(
        7, 256, given=gpu.array(values), out=out, n=np.int32(values.size), shared=32
    )
    assert out.get() == values.sum(dtype=np.int64)


def test_matrix_products(gpu, rng):
    a, b = (rng.integers(-128, 128, (n, 32)).astype(np.int8) for n in (16, 8))
    start = rng.integers(-(1 << 31), 1 << 31, (16, 8)).astype(np.int32)
    expected = (start.astype(np.int64) + a.astype(np.int64) @ b.astype(np.int64).T).astype(np.int32)
    start[0, 0] = 0x7FFFFFFF  # wraps
    expected[0, 0] = np.array(0x7FFFFFFF + a[0].astype(np.int64) @ b[0].astype(np.int64)).astype(np.int32)
    out = gpu.array(start)
    gpu.kernel(KERNELS, "multiply", {}).launch(1, 32, a=gpu.array(a), b=gpu.array(b), d=out)
    np.testing.assert_array_equal(out.get(), expected)


def copy_kernel(gpu, pending, offset=0):
    return gpu.kernel(KERNELS, "copy", {"UNDER_WAY": pending, "OFFSET": offset})


def test_waited_copies_arrive_and_unwanted_ones_are_zero(gpu, rng):
    values = rng.integers(1, 1 << 31, (128, 4)).astype(np.uint32)
    out = gpu.empty((128, 4), np.uint32)
    copy_kernel(gpu, 0).launch(1, 64, given=gpu.array(values), out=out, n=np.int32(100), shared=2048)
    expected = values.copy()
    expected[100:] = 0
    t = np.arange(64) ^ 33
    np.testing.assert_array_equal(out.get(), np.concatenate([expected[t], expected[64 + t]]))


def test_a_copy_not_waited_for_is_poison(gpu, rng):
    values = rng.integers(1, 1 << 31, (128, 4)).astype(np.uint32)
    out = gpu.empty((128, 4), np.uint32)
    copy_kernel(gpu, 1).launch(1, 64, given=gpu.array(values), out=out, n=np.int32(128), shared=2048)
    np.testing.assert_array_equal(out.get()[:64], values[np.arange(64) ^ 33])
    np.testing.assert_array_equal(out.get()[64:], np.full((64, 4), 0xFFFFFFFF, np.uint32))


def test_copies_from_outside_an_array_are_reported(gpu):
    values, out = gpu.empty((128, 4), np.uint32), gpu.empty((128, 4), np.uint32)
    with pytest.raises(
        EmulationError, match=r"kernel copy, block .0, 0, 0., thread .*copy_async<16>.*in no device array"
    ):
        copy_kernel(gpu, 0, 1).launch(1, 64, given=values, out=out, n=np.int32(128), shared=2048)
    with pytest.raises(EmulationError, match=r"of 1024 bytes of shared memory"):
        copy_kernel(gpu, 0).launch(1, 64, given=values, out=out, n=np.int32(128), shared=1024)
    with pytest.raises(EmulationError, match="not a multiple of 8"):
        gpu.kernel(KERNELS, "misaligned_copy", {}).launch(1, 64, given=values, shared=1024)


def test_collectives_that_not_all_reach_are_reported(gpu):
    out = gpu.empty(64, np.int32)
    with pytest.raises(
        EmulationError,
        match=r"block .0, 0, 0.*warp 1 waits in __shfl_xor_sync .kernels.cu:\d+.*reached by 0x000000ff, while 0xffffff00",
    ):
        gpu.kernel(KERNELS, "half_of_a_warp", {}).launch(1, 64, out=out)
    with pytest.raises(
        EmulationError, match=r"32 of 64 threads wait at barrier 1 .*32 of 64 threads wait at barrier 2"
    ):
        gpu.kernel(KERNELS, "different_barriers", {}).launch(1, 64, out=out)


def test_only_whole_warps_may_end_before_a_barrier(gpu):
    out = gpu.array(np.zeros(64, np.int32))
    kernel = gpu.kernel(KERNELS, "return_before_a_barrier", {})
    kernel.launch(1, 64, out=out, lanes=np.int32(32))
    assert out.get().sum() == 32
    with pytest.raises(EmulationError, match=r"barrier 0, line \d+: of warp 1 only lanes 0x000000ff came to it"):
        kernel.launch(1, 64, out=out, lanes=np.int32(40))


def test_an_error_leaves_the_kernel_usable(gpu):
    out = gpu.array(np.zeros(64, np.int32))
    kernel = gpu.kernel(KERNELS, "write_at", {})
    with pytest.raises(EmulationError):
        kernel.launch(1, 64, out=out, index=np.int64(64))
    kernel.launch(1, 64, out=out, index=np.int64(5))
    assert out.get().sum() == out.get()[5] == 0x01010101


def test_named_barriers(gpu):
    out = gpu.empty(32, np.int32)
    gpu.kernel(KERNELS, "hand_over", {}).launch(1, 96, out=out, shared=256)
    np.testing.assert_array_equal(out.get(), 10 * (31 - (np.arange(32) + 1) % 32))


def test_a_missing_barrier_shows(gpu):
    out = gpu.empty(128, np.float32)
    gpu.kernel(KERNELS, "race", {}).launch(1, 128, out=out, shared=512)
    # Of each pair of threads that read each other's value, the first to run reads poison.
    assert np.isnan(out.get()).sum() == 64


def test_atomics(gpu):
    counts, total = gpu.array(np.zeros(10, np.uint32)), gpu.array(np.zeros(1, np.float32))
    most, all_, bits = (
        gpu.array(np.zeros(1, np.int32)),
        gpu.array(np.zeros(1, np.uint64)),
        gpu.array(np.zeros(1, np.uint32)),
    )
    gpu.kernel(KERNELS, "count", {}).launch(3, 250, counts=counts, sum=total, most=most, all=all_, bits=bits)
    np.testing.assert_array_equal(counts.get(), 75)
    assert (total.get(), most.get(), all_.get(), bits.get()) == (375, 749, 750 << 33, 0xFFFFFFFF)


@pytest.mark.parametrize(
    ("index", "message"),
    [
        (63, r"wrote 3 bytes shortly after the end of a device array of 253 bytes"),
        (-1, r"wrote 4 bytes shortly before the start of a device array of 253 bytes"),
        (
            1000,
            r"kernel write_at, block .0, 0, 0., thread .17, 0, 0.: wrote to \d+ bytes after the end of a device array of 253 bytes",
        ),
        (-1023, r"thread .17, 0, 0.: wrote to \d+ bytes before the start of a device array of 253 bytes"),
        (1 << 40, r"which is in no device array"),
    ],
)
def test_writes_outside_an_array_are_reported(gpu, index, message):
    out = gpu.empty(253, np.uint8)
    with pytest.raises(EmulationError, match=message):
        gpu.kernel(KERNELS, "write_at", {}).launch(1, 64, out=out, index=np.int64(index))


def test_writes_outside_shared_memory_are_reported(gpu):
    kernel = gpu.kernel(KERNELS, "write_shared", {})
    kernel.launch(1, 64, index=np.int32(255), shared=256)
    with pytest.raises(EmulationError, match=r"thread .17, 0, 0.: wrote to byte 256 of 256 bytes of shared memory"):
        kernel.launch(1, 64, index=np.int32(256), shared=256)


def test_misaligned_accesses_and_indices_outside_local_arrays_are_reported(gpu):
    values, out = gpu.empty(128, np.float32), gpu.empty(32, np.float32)
    with pytest.raises(EmulationError, match=r"kernels.cu:\d+: misaligned"):
        gpu.kernel(KERNELS, "read_misaligned", {}).launch(1, 32, given=values, out=out)
    with pytest.raises(EmulationError, match=r"kernels.cu:\d+: index outside"):
        gpu.kernel(KERNELS, "index_outside", {}).launch(1, 32, out=out, index=np.int32(4))


def test_endless_loops_end():
    gpu = EmulatedGpu(time_limit=0.2)
    with pytest.raises(EmulationError, match=r"has run for 0.2 s"):
        gpu.kernel(KERNELS, "never_ends", {}).launch(1, 32, flag=gpu.array(np.ones(1, np.int32)))


def test_language(gpu, rng):
    x, y = rng.integers(0, 1 << 32, (2, 32), dtype=np.uint32)
    out = gpu.empty((27, 32), np.uint32)
    gpu.kernel(KERNELS, "language", {}).launch(1, 32, x=gpu.array(x), y=gpu.array(y), out=out)
    results = iter(out.get())
    a, b, lane = x.astype(object), y.astype(object), np.arange(32)
    both, mask = b * 2**32 + a, 0xFFFFFFFF

    def check(expected):
        np.testing.assert_array_equal(next(results), np.array([int(e) & mask for e in expected], np.uint32))

    byte = lambda v, i: [(int(e) >> 8 * i) & 0xFF for e in v]  # noqa: E731
    check(
        [
            p | q << 8 | r << 16 | s << 24
            for p, q, r, s in zip(byte(a, 0), byte(b, 0), byte(a, 2), byte(b, 2), strict=True)
        ]
    )
    check([(v << (s & 31)) >> 32 for v, s in zip(both, b, strict=True)])
    check([v >> (s & 31) for v, s in zip(both, b, strict=True)])
    check([(v << min(s % 64, 32)) >> 32 for v, s in zip(both, b, strict=True)])
    check([v >> min(s % 64, 32) for v, s in zip(both, b, strict=True)])
    check((x.view(np.int8).astype(int) * y.view(np.int8).astype(int)).reshape(32, 4).sum(1) + 7)
    check([int(f"{v:032b}"[::-1], 2) for v in a])
    check([v.bit_count() for v in a])
    check([32 - (v >> s % 32).bit_length() for v, s in zip(a, b, strict=True)])
    low = [(v << s % 32) & mask for v, s in zip(a, b, strict=True)]
    check([(v & -v).bit_length() for v in low])
    check(a * b // 2**32)
    check(a[(lane + 3) % 32])
    check(np.where(lane >= 5, a[lane - 5], a))
    check(np.where(lane % 16 < 11, a[(lane + 5) % 32], a))
    check([sum((v & 1) << i for i, v in enumerate(a))] * 32)
    check([1] * 32)
    check([a.sum()] * 32)
    rounded = np.clip(np.rint((a % 1024 - 512).astype(float) * 0.5), -128, 127).astype(int)
    check(rounded)
    check(rounded & 0xFF)
    check((rounded & 0xFF) << 8 | 1)
    check(a >> 16)
    check(a & 0xFFFF)
    check(a * b & mask)
    check(a * b >> 32)
    angle = x.view(np.int32).astype(np.float32).astype(np.float64) * 2.0**-24
    for exact in (np.sin(np.pi * (angle % 2)), np.cos(np.pi * (angle % 2))):
        np.testing.assert_allclose(next(results).view(np.float32), exact, rtol=1e-6, atol=1e-9)
    halves_of_warp = np.where(lane < 16, a[:16].sum() + 16, b[16 + (lane + 1) % 16])
    check(halves_of_warp)


def test_arguments_must_be_what_the_kernel_takes(gpu):
    kernel = gpu.kernel(KERNELS, "write_at", {})
    out = gpu.empty(64, np.int32)
    assert kernel.parameters == ("out", "index")
    with pytest.raises(TypeError, match=r"^write_at lacks index; it takes out, index$"):
        kernel.launch(1, 64, out=out)
    with pytest.raises(TypeError, match=r"^write_at lacks index, has no parameter at; it takes out, index$"):
        kernel.launch(1, 64, out=out, at=np.int64(0))
    with pytest.raises(TypeError, match=r"^write_at has no parameter at; it takes"):
        kernel.launch(1, 64, out=out, index=np.int64(0), at=np.int64(0))
    with pytest.raises(TypeError, match=r"index: a numpy\.int64 is wanted, not int32"):
        kernel.launch(1, 64, out=out, index=np.int32(0))
    with pytest.raises(TypeError, match="out: a device array is wanted, not int64"):
        kernel.launch(1, 64, index=np.int64(0), out=np.int64(0))
    with pytest.raises(ValueError, match="made for at most 64"):
        kernel.launch(1, 96, out=out, index=np.int64(0))
    with pytest.raises(ValueError, match="has no kernel 'no_such'; it has total"):
        gpu.kernel(KERNELS, "no_such", {})
    with pytest.raises(CompilationError, match="does not compile for the CPU:"):
        gpu.kernel(KERNELS, "copy", {"UNDER_WAY": "no_number", "OFFSET": 0})


def test_kernels_are_found_with_their_launch_bounds():
    text = """extern "C" void [[emulated::bounds(f(g(4)) * 32,
# 7 "a.cu"
 most(1, 2))]]
name (int x) {} extern "C" void [[emulated::bounds(smaller(2, 9), 1)]] other() { f(); }"""
    assert kernels_in(text) == {"name": "f(g(4)) * 32", "other": "smaller(2, 9)"}


def functions(path):
    """Name and parameters of each function in a device.cuh, without the emulation's own last one."""
    text = " ".join(path.read_text().split()).replace(" *", "* ")
    found = re.findall(r"(?:template <([^<>]*)> )?DEVICE (\w+) (\w+)\((.*?)\) \{", text)
    return {
        name: (template, result, re.sub(r"(, )?EMULATED_PLACE$", "", given).replace(" ", ""))
        for template, result, name, given in found
    }


def test_the_emulated_header_has_the_real_ones_functions():
    real = functions(SOURCE / "ryle/gpu/device.cuh")
    assert len(real) > 5
    assert functions(INCLUDE / "ryle/gpu/device.cuh") == real
