"""Files from a GPU's memory: what is written, and what is said where it cannot be.

Each test runs with an emulated GPU that does everything as late as it may and a library that stands for libcufile
(`cufile.cpp`); with libcufile itself, from the emulated GPU's memory; and on a real GPU.
"""

import ctypes
import errno
import os
import subprocess
import tempfile
from pathlib import Path
from types import SimpleNamespace

import h5py
import numpy as np
import pytest

import fresh
from emulation.deferred import DeferredGpu
from ryle.gpu import GpuError, GpuUnavailable, files, gpu_problem, open_gpu
from ryle.gpu.files import PAGE, GpuFile

SOURCE = Path(__file__).with_name("cufile.cpp")


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    made = tmp_path_factory.mktemp("cufile") / "libcufile.so.0"
    compiler = os.environ.get("CXX", "g++")
    subprocess.run([compiler, "-std=c++20", "-O1", "-shared", "-fPIC", "-o", made, SOURCE], check=True)
    return made


@pytest.fixture(autouse=True)
def anew(monkeypatch, tmp_path):
    """No test has the library of another."""
    monkeypatch.setenv("CUFILE_LOGFILE_PATH", str(tmp_path / "cufile.log"))
    files._library.cache_clear()
    yield
    files._library.cache_clear()


@pytest.fixture
def folder():
    """Where direct writes are taken and libcufile needs no udev: memory."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as made:
        yield Path(made)


@pytest.fixture
def fake(built, monkeypatch):
    """The library that stands for libcufile, its knobs as at first."""
    monkeypatch.setattr(files, "_path", lambda: str(built))
    monkeypatch.setattr(files, "_MODULES", SOURCE)
    library = ctypes.CDLL(str(built))
    library.fake_answer.argtypes = (ctypes.c_size_t, ctypes.c_ssize_t, ctypes.c_int)
    library.fake_most.argtypes = (ctypes.c_size_t,)
    library.fake_answer(0, 0, 0), library.fake_most(0), library.fake_refuse(0), library.fake_kinds(0)
    yield library
    assert library.fake_registered() == 0


@pytest.fixture(params=["fake", "libcufile", "real"])
def gpu(request, folder):
    if request.param == "fake":
        request.getfixturevalue("fake")
        return DeferredGpu(fresh.seed())
    problem = gpu_problem()
    if request.param == "real" and problem:
        pytest.skip(f"needs an NVIDIA GPU: {problem}")
    if request.param == "libcufile" and not problem:
        pytest.skip("with a driver libcufile takes a GPU's memory only")
    gpu = open_gpu() if request.param == "real" else DeferredGpu(fresh.seed())
    try:
        GpuFile(folder / "tried").close()
    except (GpuUnavailable, GpuError) as error:
        pytest.skip(str(error))
    return gpu


def on_gpu(gpu, host, stream):
    """Put an array there on a stream, which has not come to it yet."""
    locked = gpu.pinned(host.shape, host.dtype)
    locked[...] = host
    there = gpu.empty(host.shape, host.dtype)
    there.fill(0, stream)
    there.set(locked, stream)
    return there


@pytest.mark.parametrize(
    ("size", "offset"),
    [
        (3 * PAGE, 0),
        (3 * PAGE, 5 * PAGE),
        (5 * PAGE + 17, 0),
        (3, 0),
        (3, PAGE - 2),
        (PAGE, 1),
        (0, 7),
        (9 * PAGE + 1, 2048),
    ],
)
def test_the_file_has_what_the_gpu_had_and_nothing_else_changes(gpu, folder, rng, size, offset):
    path, stream = folder / "x", gpu.stream()
    before = rng.integers(0, 256, 8 * PAGE + 5, np.uint8)
    path.write_bytes(before.tobytes())
    host = rng.integers(0, 256, size, np.uint8)
    there = on_gpu(gpu, host, stream)
    with GpuFile(path) as file:
        file.write(there, offset, stream)
        file.flush()
    found = np.frombuffer(path.read_bytes(), np.uint8)
    expected = np.zeros(max(before.size, offset + size if size else 0), np.uint8)
    expected[: before.size] = before
    expected[offset : offset + size] = host
    assert np.array_equal(found, expected)


def test_pieces_that_share_pages_follow_each_other(gpu, folder, rng):
    host, stream = rng.integers(-(2**62), 2**62, (40, 301, 2), np.int64), gpu.stream()
    there = on_gpu(gpu, host, stream)
    with GpuFile(folder / "x") as file:
        for k in rng.permutation(40):
            file.write(there.view((301, 2), np.int64, int(k) * 4816), int(k) * 4816, stream)
    assert np.array_equal(np.fromfile(folder / "x", np.int64).reshape(host.shape), host)


def test_integrations_go_into_the_extent_of_an_hdf5_dataset(gpu, folder, rng):
    """As documented: a contiguous dataset, allocated early, whose place in the file HDF5 tells."""
    sums = rng.integers(-(2**40), 2**40, (3, 16, 84, 2), np.int64)
    with h5py.File(folder / "x.h5", "w") as h5:
        layout = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        layout.set_layout(h5py.h5d.CONTIGUOUS)
        layout.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
        space = h5py.h5s.create_simple(sums.shape)
        dataset = h5py.Dataset(h5py.h5d.create(h5.id, b"sums", h5py.h5t.NATIVE_INT64, space, layout))
        dataset.attrs["axes"] = "integration channel product part"
        at = dataset.id.get_offset()
        assert at
    stream = gpu.stream()
    with GpuFile(folder / "x.h5") as file:
        for k in range(2):  # the third never comes
            file.write(on_gpu(gpu, sums[k], stream), at + k * sums[k].nbytes, stream)
    with h5py.File(folder / "x.h5") as h5:
        assert np.array_equal(h5["sums"][:2], sums[:2]) and not h5["sums"][2].any()
        assert h5["sums"].attrs["axes"] == "integration channel product part"


@pytest.mark.parametrize("most", [PAGE, 3 * PAGE + 100, 5 * PAGE])
def test_short_writes_are_gone_on_with(fake, folder, rng, most):
    gpu, host = DeferredGpu(fresh.seed()), rng.integers(0, 256, 11 * PAGE + 77, np.uint8)
    stream = gpu.stream()
    fake.fake_most(most)
    with GpuFile(folder / "x") as file:
        file.write(on_gpu(gpu, host, stream), 100, stream)
    assert (folder / "x").read_bytes()[100:] == host.tobytes()


def test_a_write_that_makes_no_way_ends(fake, folder):
    gpu = DeferredGpu(fresh.seed())
    fake.fake_most(512)
    with GpuFile(folder / "x") as file, pytest.raises(OSError) as refused:
        file.write(gpu.array(np.zeros(2 * PAGE, np.uint8)), 0, gpu.default_stream)
    assert refused.value.errno == errno.EIO


def test_errors_of_the_file_system_are_those_of_python(fake, folder, monkeypatch):
    gpu = DeferredGpu(fresh.seed())
    array, stream = gpu.array(np.full(4 * PAGE, 7, np.uint8)), gpu.default_stream
    fake.fake_most(PAGE)
    with GpuFile(folder / "x") as file:
        for number, free, expected in (
            (errno.ENOSPC, 10**6, errno.ENOSPC),
            (errno.EFBIG, 0, errno.EFBIG),
            (errno.EIO, 10**6, errno.EIO),
            (errno.EIO, 2, errno.ENOSPC),  # what libcufile makes of a full disk
        ):
            room = SimpleNamespace(f_bavail=free, f_frsize=PAGE)
            monkeypatch.setattr(files.os, "fstatvfs", lambda _, room=room: room)
            fake.fake_answer(1, -1, number)
            with pytest.raises(OSError, match="/x") as refused:
                file.write(array, 0, stream)
            assert refused.value.errno == expected
            fake.fake_answer(0, 0, 0)
        fake.fake_answer(1, -5014, 0)
        with pytest.raises(GpuError, match="cuFileWrite failed with 5014"):
            file.write(array, 0, stream)
    assert (folder / "x").read_bytes() == bytes([7]) * PAGE  # what was before the error is there


def test_a_negative_place_is_a_mistake(fake, folder):
    gpu = DeferredGpu(fresh.seed())
    with GpuFile(folder / "x") as file, pytest.raises(ValueError, match="-1"):
        file.write(gpu.array(np.zeros(3, np.uint8)), -1, gpu.default_stream)


@pytest.mark.parametrize(("status", "says"), [(5027, "/run/udev"), (5001, "allow_compat_mode"), (5046, "5046")])
def test_refusals_say_what_is_the_matter(fake, folder, status, says):
    fake.fake_refuse(status)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(GpuError, match=says) as refused:
        GpuFile(folder / "x")
    assert "cuFileHandleRegister" in str(refused.value) and "cufile.log" in str(refused.value)
    assert len(os.listdir("/proc/self/fd")) == before


def test_whether_anything_is_written_directly(fake, folder):
    with GpuFile(folder / "x") as file:
        assert file.compatibility
        fake.fake_kinds(1 << 4)
        assert not file.compatibility


def test_closing_twice_is_closing(fake, folder):
    file = GpuFile(folder / "x")
    assert fake.fake_registered() == 1
    file.close()
    file.close()


def test_a_library_that_is_not_there(monkeypatch, tmp_path):
    monkeypatch.setattr(files, "_MODULES", SOURCE)
    monkeypatch.setattr(files, "_path", lambda: "libthere-is-none.so.0")
    with pytest.raises(GpuUnavailable, match=r"libcufile is not here .*ryle\[cufile\]"):
        GpuFile(tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_a_system_where_the_library_hangs(monkeypatch, tmp_path):
    monkeypatch.setattr(files, "_MODULES", tmp_path / "modules")
    with pytest.raises(GpuUnavailable, match=r"modules cannot be read \(No such file"):
        GpuFile(tmp_path / "x")
