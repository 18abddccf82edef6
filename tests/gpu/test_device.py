"""What the layer below the operations does on a real GPU."""

import gc
import math
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from ryle.gpu import GpuError
from ryle.gpu.cache import cache_folder, cached_compile
from ryle.gpu.compile import compile_source

PROBE = Path(__file__).parent / "kernels" / "probe.cu"
DEFINES = {"FACTOR": 3}
LIMIT = np.int64(20_000_000_000)  # cycles, some ten seconds: a held kernel ends by itself if nobody lets it go


def kernel(gpu, name):
    return gpu.kernel(PROBE, name, DEFINES)


class Held:
    """A stream that stands still until it is let go.

    Freeing memory waits for all work of the device, so meanwhile nothing may be allocated or collected. Streams that are to
    run past it are made just before it: the driver lays many streams on few queues in turn, eight by default.
    """

    def __init__(self, gpu):
        self.gpu, self.stream, self._other = gpu, gpu.stream(), gpu.stream()
        self._flag, self._out = gpu.empty(1, np.int32), gpu.empty(1, np.int32)
        self._seen = gpu.pinned(1, np.int32)

    def __enter__(self):
        gc.collect()
        gc.disable()
        hold = kernel(self.gpu, "hold")
        # Once beforehand: a kernel that is loaded when first launched would wait for the one that is held.
        self._flag.fill(1)
        hold.launch(1, 1, flag=self._flag, out=self._out, cycles=LIMIT)
        self._flag.fill(0)
        self.gpu.default_stream.synchronize()
        hold.launch(1, 1, flag=self._flag, out=self._out, cycles=LIMIT, stream=self.stream)
        return self

    def let_go(self):
        self._flag.fill(1, self._other)
        self._other.synchronize()
        self._out.get(self._seen, self.stream)
        assert self._seen[0] == 1, "the kernel was not let go by another stream"

    def __exit__(self, *error):
        gc.enable()
        self._flag.fill(1, self._other)
        self.stream.synchronize()


# The device


def test_the_device_says_what_it_is(gpu):
    assert gpu.name.strip()
    assert gpu.arch.startswith("sm_")
    assert gpu.multiprocessors > 0
    assert 48 * 1024 <= gpu.shared_bytes <= 1024 * 1024
    assert gpu.memory_bytes > 2**30
    major, minor = map(int, gpu.driver.removeprefix("CUDA ").split("."))
    assert (major, minor) >= (13, 0)
    assert gpu.name in repr(gpu)


# Memory and copies


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int32, np.uint64, np.float32, np.complex64, np.float64])
@pytest.mark.parametrize("shape", [1, (7,), (3, 5, 7), (0, 4), ()])
def test_an_array_comes_back_as_it_went(gpu, rng, shape, dtype):
    host = np.frombuffer(rng.bytes(math.prod(np.empty(shape).shape) * np.dtype(dtype).itemsize), dtype)
    host = host.reshape(shape)
    array = gpu.array(host)
    assert array.shape == host.shape
    assert array.dtype == host.dtype
    assert array.nbytes == host.nbytes
    assert (array.pointer != 0) == (host.size > 0)
    assert isinstance(array.pointer, int)
    back = array.get()
    assert back.dtype == host.dtype
    assert back.shape == host.shape
    assert back.tobytes() == host.tobytes()


def test_large_copies_through_pageable_and_page_locked_memory(gpu, rng):
    host = rng.integers(-(2**31), 2**31, 20_000_000, dtype=np.int32)
    array = gpu.empty(host.shape, host.dtype)
    array.set(host)
    np.testing.assert_array_equal(array.get(), host)
    pinned, back = gpu.pinned(host.shape, host.dtype), gpu.pinned(host.shape, host.dtype)
    pinned[:] = host[::-1]
    back[:] = 0
    array.set(pinned)
    assert array.get(back) is back
    np.testing.assert_array_equal(back, host[::-1])


def test_pageable_memory_is_read_before_set_returns(gpu, rng):
    for size in (10, 100_000, 5_000_000):
        host = rng.integers(0, 2**31, size, dtype=np.int32)
        wanted = host.copy()
        array = gpu.empty(size, np.int32)
        array.set(host)
        host[:] = -1
        np.testing.assert_array_equal(array.get(), wanted)


def test_a_host_array_in_any_order_is_copied(gpu, rng):
    host = rng.integers(0, 256, (40, 60), dtype=np.uint8)
    for strange in (host[:, ::2], host.T, host[::-1]):
        np.testing.assert_array_equal(gpu.array(strange).get(), strange)
    read_only = host.copy()
    read_only.flags.writeable = False
    np.testing.assert_array_equal(gpu.array(read_only).get(), host)


def test_columns_are_copied_moved_and_filled(gpu, rng):
    wanted = rng.integers(0, 256, (7, 6400), np.uint8)
    array = gpu.array(wanted)
    for host in (rng.integers(0, 256, (7, 30, 16), np.uint8), gpu.pinned((7, 30, 16), np.uint8)):
        host[...] = rng.integers(0, 256, host.shape, np.uint8)
        part = host[:, 5:25]  # rows lie apart
        array.set_columns(1600, part)
        wanted[:, 1600:1920] = part.reshape(7, -1)
        np.testing.assert_array_equal(array.get(), wanted)
    array.move_columns(0, 1500, 1500)
    wanted[:, :1500] = wanted[:, 1500:3000]
    array.fill_columns(4000, 33, 0xA5)
    wanted[:, 4000:4033] = 0xA5
    np.testing.assert_array_equal(array.get(), wanted)
    np.testing.assert_array_equal(array.view((6400,), np.uint8, 6400).get(), wanted[1])
    with pytest.raises(ValueError, match="overlap"):
        array.move_columns(0, 99, 100)
    for at in (-1, 6390):
        with pytest.raises(ValueError, match="of rows of 6400 bytes"):
            array.fill_columns(at, 20, 0)
    with pytest.raises(ValueError, match="44800"):
        array.view((6400,), np.uint8, 40000)


def test_page_locked_memory_is_known(gpu):
    assert gpu.is_locked(gpu.pinned(100, np.int32)[3:]) and not gpu.is_locked(np.zeros(100))


def test_an_event_says_whether_it_has_passed(gpu):
    with Held(gpu) as held:
        event = held.stream.record()
        assert not event.passed
        held.let_go()
        event.synchronize()
        assert event.passed


def test_copies_from_device_to_device(gpu, rng):
    host = rng.standard_normal(1000)
    source, target = gpu.array(host), gpu.array(np.zeros(1000))
    source.copy_to(target)
    source.fill(0)
    np.testing.assert_array_equal(target.get(), host)


def test_fill_sets_every_byte_and_no_other(gpu):
    array = gpu.array(np.zeros(3001, np.uint8))
    array.view(3000, np.uint8).fill(0xA5)
    back = array.get()
    assert np.all(back[:3000] == 0xA5)
    assert back[3000] == 0
    for byte in (-1, 256):
        with pytest.raises(ValueError, match="it must be from 0 to 255"):
            array.fill(byte)


def test_a_view_is_the_same_memory(gpu, rng):
    host = rng.integers(0, 256, (6, 8), dtype=np.uint8)
    array = gpu.array(host)
    view = array.view((3, 4), np.uint32)
    assert view.pointer == array.pointer
    np.testing.assert_array_equal(view.get(), host.view(np.uint32).reshape(3, 4))
    np.testing.assert_array_equal(array.view(10, np.uint8).get(), host.ravel()[:10])
    view.fill(3)
    assert np.all(array.get() == 3)
    with pytest.raises(
        ValueError, match=r"needs 52 bytes from 0 on; the array of shape \(6, 8\) and type uint8 has 48"
    ):
        array.view(13, np.float32)


def test_a_view_keeps_the_memory(gpu):
    array = gpu.empty(2**24, np.uint8)
    array.fill(5)
    view = array.view(2**22, np.uint32)
    del array
    gc.collect()
    others = [gpu.empty(2**24, np.uint8) for _ in range(8)]
    for other in others:
        other.fill(9)
    assert np.all(view.get() == 0x05050505)


def test_memory_is_freed(gpu):
    for _ in range(5):
        array = gpu.empty(int(0.3 * gpu.memory_bytes), np.uint8)
        array.fill(1)
        del array


def test_too_large_an_array_is_a_memory_error_that_harms_nothing(gpu):
    with pytest.raises(MemoryError, match=r"no room for .* GiB on .* are free; ask for less"):
        gpu.empty(2 * gpu.memory_bytes, np.uint8)
    assert np.all(gpu.array(np.ones(10)).get() == 1)


def test_page_locked_memory_lives_as_long_as_a_view_of_it(gpu):
    from cuda.bindings import driver

    def locked(address):
        result, _ = driver.cuMemHostGetFlags(address)
        return result == driver.CUresult.CUDA_SUCCESS

    array = gpu.pinned((100, 3), np.float32)
    assert array.shape == (100, 3)
    assert array.dtype == np.float32
    assert array.flags.c_contiguous and array.flags.writeable
    array[:] = 1
    address = array.ctypes.data
    view = array[50:, 1]
    del array
    gc.collect()
    assert locked(address)
    assert view.sum() == 50
    del view
    gc.collect()
    assert not locked(address)
    assert gpu.pinned((0, 3), np.int8).shape == (0, 3)
    several = [gpu.pinned(100, np.int8) for _ in range(5)]  # rings of packets begin on pages
    assert not any(array.ctypes.data % 4096 for array in several) and all(map(gpu.is_locked, several))


@pytest.mark.parametrize("verb", ["set", "get", "copy_to"])
def test_a_host_array_that_does_not_fit_is_refused(gpu, verb):
    array = gpu.array(np.arange(6, dtype=np.int32).reshape(2, 3))
    with pytest.raises(TypeError, match="is of type int64; it must be int32"):
        getattr(array, verb)(np.zeros((2, 3), np.int64))
    with pytest.raises(ValueError, match=r"has shape \(6,\); it must be \(2, 3\)"):
        getattr(array, verb)(np.zeros(6, np.int32))
    np.testing.assert_array_equal(array.get(), np.arange(6).reshape(2, 3))


def test_a_host_array_that_cannot_be_written_in_order_is_refused(gpu):
    array = gpu.array(np.arange(6, dtype=np.int32).reshape(2, 3))
    read_only = np.zeros((2, 3), np.int32)
    read_only.flags.writeable = False
    for out in (np.zeros((3, 2), np.int32).T, read_only):
        with pytest.raises(ValueError, match="C-contiguous and writeable"):
            array.get(out)


# Streams and events


def test_streams_run_beside_each_other(gpu, rng):
    host = rng.integers(0, 100, 1000, dtype=np.int32)
    array, beside = gpu.array(np.zeros_like(host)), gpu.stream()
    gpu.default_stream.synchronize()
    with Held(gpu) as held:
        array.set(host, beside)
        np.testing.assert_array_equal(array.get(stream=beside), host)
        held.let_go()


def test_copies_with_page_locked_memory_return_at_once(gpu):
    array = gpu.array(np.full(1000, 1, np.int32))
    source, target = gpu.pinned(1000, np.int32), gpu.pinned(1000, np.int32)
    source[:], target[:] = 2, 3
    beside = gpu.stream()
    gpu.default_stream.synchronize()
    with Held(gpu) as held:
        array.set(source, held.stream)
        array.copy_to(target, held.stream)
        time.sleep(0.05)
        assert np.all(target == 3)  # nothing has been copied, and we are here
        assert np.all(array.get(stream=beside) == 1)
        held.let_go()
    assert np.all(target == 2)


def test_a_stream_waits_for_the_event_of_another(gpu):
    array = gpu.array(np.full(1000, 1, np.int32))
    first, second = gpu.pinned(1000, np.int32), gpu.pinned(1000, np.int32)
    first[:], second[:] = 0, 0
    waiting, free = gpu.stream(), gpu.stream()
    gpu.default_stream.synchronize()
    with Held(gpu) as held:
        array.fill(0x02, held.stream)
        waiting.wait(held.stream.record())
        array.copy_to(second, waiting)
        array.copy_to(first, free)
        free.synchronize()
        time.sleep(0.05)
        assert np.all(first == 1)
        assert np.all(second == 0)
        held.let_go()
    waiting.synchronize()
    assert np.all(second == 0x02020202)


def test_events_measure_time(gpu):
    spin = kernel(gpu, "spin")
    spin.launch(1, 32, cycles=np.int64(1))
    gpu.default_stream.synchronize()
    stream = gpu.stream()
    cycles = 200_000_000
    begin = time.perf_counter()
    before = stream.record()
    spin.launch(1, 32, cycles=np.int64(cycles), stream=stream)
    after = stream.record()
    seconds = after.seconds_since(before)
    elapsed = time.perf_counter() - begin
    assert cycles / 4e9 < seconds < 1.01 * elapsed  # no clock reaches 4 GHz
    assert before.seconds_since(after) == pytest.approx(-seconds)
    assert before.seconds_since(before) == 0


def test_waiting_for_a_stream_waits_for_its_work(gpu):
    spin = kernel(gpu, "spin")
    for wait in (lambda stream: stream.synchronize(), lambda stream: stream.record().synchronize()):
        stream = gpu.stream()
        begin = time.perf_counter()
        spin.launch(1, 32, cycles=np.int64(200_000_000), stream=stream)
        wait(stream)
        assert time.perf_counter() - begin > 200_000_000 / 4e9


def test_handles_are_the_drivers(gpu):
    from cuda.bindings import driver

    streams = [gpu.default_stream, gpu.stream(), gpu.stream()]
    assert len({stream.handle for stream in streams}) == 3
    for stream in streams:
        assert isinstance(stream.handle, int)
        result, flags = driver.cuStreamGetFlags(stream.handle)
        assert result == driver.CUresult.CUDA_SUCCESS
        assert int(flags) == int(driver.CUstream_flags.CU_STREAM_NON_BLOCKING)


def test_any_thread_may_use_the_device(gpu, rng):
    host = rng.integers(-1000, 1000, 1000).astype(np.float32)
    problems = []

    def work():
        try:
            a, out = gpu.array(host), gpu.empty(1000, np.float32)
            stream = gpu.stream()
            gpu.default_stream.synchronize()
            scale_add = gpu.kernel(PROBE, "scale_add", {"FACTOR": 11})
            scale_add.launch(4, 256, a=a, b=a, out=out, n=np.int32(1000), stream=stream)
            np.testing.assert_array_equal(out.get(gpu.pinned(1000, np.float32), stream), 12 * host)
        except BaseException as error:  # told below
            problems.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems


# Kernels


def test_a_kernel_computes(gpu, rng):
    n = 1000  # not a multiple of the block
    a, b = rng.integers(-1000, 1000, (2, n)).astype(np.float32)
    out = gpu.empty(n + 1, np.float32)
    out.fill(0)
    for stream in (None, gpu.stream()):
        gpu.default_stream.synchronize()
        left, right = gpu.array(a, stream), gpu.array(b, stream)
        kernel(gpu, "scale_add").launch(4, 256, a=left, b=right, out=out, n=np.int32(n), stream=stream)
        np.testing.assert_array_equal(out.get(stream=stream), [*(3 * a + b), 0])


def test_a_kernel_is_loaded_once_and_each_variant_is_its_own(gpu):
    first = kernel(gpu, "scale_add")
    assert kernel(gpu, "scale_add") is first
    other = gpu.kernel(PROBE, "scale_add", {"FACTOR": 5})
    assert other is not first
    a, out = gpu.array(np.ones(8, np.float32)), gpu.empty(8, np.float32)
    other.launch(1, 256, a=a, b=a, out=out, n=np.int32(8))
    assert np.all(out.get() == 6)


def test_a_kernel_says_what_it_uses(gpu):
    resources = compile_source(PROBE, DEFINES, gpu.arch).resources
    for name, used in resources.items():
        loaded = kernel(gpu, name)
        assert loaded.name == name
        assert loaded.registers == used.registers > 0
        assert loaded.local_bytes == 0
        assert loaded.shared_bytes == 0


def test_what_was_compiled_lies_on_disk(gpu):
    defines = {"FACTOR": 77}
    gpu.kernel(PROBE, "scale_add", defines)
    before = {path: path.stat().st_mtime_ns for path in cache_folder().iterdir()}
    cached_compile(PROBE, defines, gpu.arch)
    assert any(path.name.startswith(f"probe-{gpu.arch}-") for path in before)
    assert {path: path.stat().st_mtime_ns for path in cache_folder().iterdir()} == before


def test_scalars_of_every_kind_arrive(gpu, rng):
    for _ in range(10):
        i32, u32 = np.int32(rng.integers(-(2**31), 0)), np.uint32(rng.integers(2**31, 2**32))
        i64, u64 = np.int64(rng.integers(-(2**63), 0)), rng.integers(2**63, 2**64, dtype=np.uint64)
        f32, f64 = np.float32(rng.standard_normal()), np.float64(rng.standard_normal())
        floats, integers = gpu.empty(2, np.float64), gpu.empty(4, np.int64)
        kernel(gpu, "scalars").launch(
            1, 32, floats=floats, integers=integers, i32=i32, u32=u32, i64=i64, u64=u64, f32=f32, f64=f64
        )
        np.testing.assert_array_equal(floats.get(), [np.float64(f32), f64])
        assert integers.get().tolist() == [int(i32), int(u32), int(i64), int(u64.view(np.int64))]


def test_arguments_that_are_not_the_kernels_are_refused(gpu):
    launch = kernel(gpu, "scale_add").launch
    a = gpu.array(np.ones(8, np.float32))
    arrays = {"a": a, "b": a, "out": a}
    with pytest.raises(TypeError, match=r"^scale_add lacks n; it takes a, b, out, n$"):
        launch(1, 256, **arrays)
    with pytest.raises(TypeError, match=r"^scale_add has no parameter m; it takes a, b, out, n$"):
        launch(1, 256, **arrays, n=np.int32(8), m=np.int32(8))
    for value in (8, 8.0, None, True, a.get(), np.int8(8), np.arange(8)):
        with pytest.raises(TypeError, match=r"n is .*; give a device array, or a scalar of the parameter's own"):
            launch(1, 256, **arrays, n=value)
    with pytest.raises(TypeError, match=r"n is .* of 8 bytes; the kernel takes 4 bytes"):
        launch(1, 256, **arrays, n=np.int64(8))
    with pytest.raises(TypeError, match=r"n is .* of 8 bytes; the kernel takes 4 bytes"):
        launch(1, 256, **arrays, n=a)
    with pytest.raises(TypeError, match=r"a is .* of 4 bytes; the kernel takes 8 bytes"):
        launch(1, 256, **(arrays | {"a": np.int32(0)}), n=np.int32(8))


def test_launches_that_cannot_be_are_refused(gpu):
    scale_add = kernel(gpu, "scale_add")
    a = gpu.array(np.ones(8, np.float32))
    args = {"a": a, "b": a, "out": a, "n": np.int32(8)}
    for grid, block in ((0, 256), ((1, 0), 256), (1, 0), ((1, 1, 1, 1), 256), ((), 256), (-1, 256)):
        with pytest.raises(ValueError, match=r"scale_add: grid .* of blocks .*; give 1 to 3 numbers"):
            scale_add.launch(grid, block, **args)
    with pytest.raises(ValueError, match=r"scale_add: a block of \(512,\) threads; this kernel's limit is 256"):
        scale_add.launch(1, 512, **args)
    for shared in (-1, gpu.shared_bytes + 1):
        with pytest.raises(ValueError, match=rf"{shared} bytes of shared memory; a block can have {gpu.shared_bytes}"):
            scale_add.launch(1, 256, **args, shared=shared)
    with pytest.raises(GpuError, match=f"launching kernel scale_add failed on {re.escape(gpu.name)}"):
        scale_add.launch((1, 70000), 256, **args)  # the driver's own limit: 65535
    assert np.all(a.get() == 1)


def test_a_kernel_that_is_not_there_is_told(gpu):
    with pytest.raises(ValueError, match=r"probe\.cu has no kernel 'nothing'; it has: .*scale_add"):
        kernel(gpu, "nothing")


def test_grids_and_blocks_of_one_to_three_dimensions(gpu):
    places = kernel(gpu, "places")
    for grid, block in ((5, 7), ((5,), (7,)), ((2, 3), (4, 5)), ((2, 3, 5), (3, 4, 5)), ((2, 1, 3), 60)):
        blocks, threads = math.prod(np.atleast_1d(grid)), math.prod(np.atleast_1d(block))
        out = gpu.empty((blocks, threads), np.int32)
        places.launch(grid, block, out=out)
        np.testing.assert_array_equal(out.get(), np.add.outer(1000 * np.arange(blocks), np.arange(threads)))


def test_a_block_may_have_all_shared_memory(gpu, rng):
    host = rng.integers(-(2**30), 2**30, (5, 1024), dtype=np.int32)
    reverse = kernel(gpu, "reverse")
    for shared in (4096, 48 * 1024, 48 * 1024 + 16, gpu.shared_bytes):
        out = gpu.empty(host.shape, np.int32)
        reverse.launch(5, 1024, given=gpu.array(host), out=out, bytes=np.int32(shared), shared=shared)
        np.testing.assert_array_equal(out.get(), host[:, ::-1])


def test_occupancy(gpu):
    reverse = kernel(gpu, "reverse")
    assert reverse.blocks_per_multiprocessor(1024, gpu.shared_bytes) == 1
    assert reverse.blocks_per_multiprocessor(1024, gpu.shared_bytes // 4) in (1, 2)
    assert 8 <= reverse.blocks_per_multiprocessor(32, 0) <= 64


def test_a_kernel_that_fails_is_told_at_the_next_wait(gpu):
    """In a process of its own: after such a failure a process cannot use the device any more."""
    script = f"""
import numpy as np
from pathlib import Path
from ryle.gpu import GpuError, open_gpu
gpu = open_gpu()
out = gpu.empty(32, np.int32)
gpu.kernel(Path({str(PROBE)!r}), "stray", {DEFINES!r}).launch(1, 32, out=out)
try:
    gpu.default_stream.synchronize()
except GpuError as error:
    print("told:", error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert " failed on " in done.stdout, done.stdout + done.stderr
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in done.stdout


# device.cuh


def test_matrix_instructions_hold_their_operands_as_described(gpu, rng):
    a8, b8 = rng.integers(-128, 128, (16, 32), dtype=np.int8), rng.integers(-128, 128, (8, 32), dtype=np.int8)
    integers = gpu.empty((16, 8), np.int32)
    a, b = gpu.array(a8.view(np.uint32)), gpu.array(b8.view(np.uint32))
    kernel(gpu, "matrix").launch(1, 32, a=a, b=b, bytes=integers)
    np.testing.assert_array_equal(integers.get(), a8.astype(np.int32) @ b8.astype(np.int32).T)


def test_matrices_are_loaded_as_described(gpu, rng):
    """Word q of row g of each goes to lane 4g + q."""
    rows, order = rng.integers(0, 2**32, (32, 4), dtype=np.uint32), rng.integers(0, 32, 32, dtype=np.int32)
    out = gpu.empty((6, 32), np.uint32)
    kernel(gpu, "matrices").launch(1, 32, given=gpu.array(rows), order=gpu.array(order), out=out, shared=512)
    given = rows[order].reshape(4, 32)
    np.testing.assert_array_equal(out.get(), np.concatenate([given, given[:2]]))


def test_asynchronous_copies_and_conversions(gpu, rng):
    data = rng.integers(0, 256, (64, 16), dtype=np.uint8)
    values = rng.uniform(-200, 200, 128).astype(np.float32)
    values[:8] = [0.5, 1.5, 2.5, -0.5, -1.5, 127.5, -128.5, 300.0]
    out, rounded = gpu.empty((64, 16), np.uint8), gpu.empty(128, np.int32)
    both, numbers = gpu.empty(128, np.int8), gpu.empty(128, np.float32)
    for wanted in (0, 1, 40, 64):
        source = gpu.array(data[:wanted]) if wanted else gpu.empty((1, 16), np.uint8)
        args = {"given": source, "out": out, "wanted": np.int32(wanted), "values": gpu.array(values)}
        args |= {"rounded": rounded, "both": both.view(64, np.uint16), "numbers": numbers}
        kernel(gpu, "copies").launch(1, 64, **args, shared=1024)
        expected = np.where(np.arange(64)[:, None] < wanted, data, 0)[::-1]
        np.testing.assert_array_equal(out.get(), expected)
    np.testing.assert_array_equal(numbers.get(), values[:64].view(np.uint16))
    nearest = np.clip(np.rint(values), -128, 127)
    np.testing.assert_array_equal(rounded.get(), nearest)
    nearest[1] = 0  # of what is not a number
    np.testing.assert_array_equal(both.get(), nearest)


# Energy


def test_energy_and_clock(gpu):
    from ryle.gpu.power import EnergyMeter

    meter = EnergyMeter()
    if not meter.available:
        pytest.skip(meter.problem)
    spin = kernel(gpu, "spin")
    begin = time.perf_counter()
    with meter:
        while time.perf_counter() - begin < 1.5:
            spin.launch(gpu.multiprocessors, 32, cycles=np.int64(50_000_000))
            gpu.default_stream.synchronize()
            clock = meter.sm_clock()
    elapsed = time.perf_counter() - begin
    assert 5 < meter.joules < 3000 * (elapsed + 0.2)  # an idle card takes some tens of watts, none takes 3 kW
    assert 1e8 < clock < 4e9


def test_load(gpu):
    from ryle.gpu.power import LoadMeter

    meter = LoadMeter()
    if not meter.read():
        pytest.skip("the management library tells nothing here")
    spin, held = kernel(gpu, "spin"), gpu.empty((1 << 28,), np.uint8)
    begin = time.perf_counter()
    while time.perf_counter() - begin < 1.5:
        spin.launch(gpu.multiprocessors, 32, cycles=np.int64(50_000_000))
        gpu.default_stream.synchronize()
    load = meter.read()
    assert held.shape == (1 << 28,) and (1 << 28) <= load["memory"] <= load["memory_size"]
    assert "power" not in load or 5 < load["power"] < 3000
    assert "busy" not in load or 50 < load["busy"] <= 100
