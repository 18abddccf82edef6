"""Small arrays that a GPU's threads read from page-locked memory: as the copy engine brings them, and no others."""

import numpy as np
import pytest

import fresh
from emulation.deferred import DeferredArray, DeferredGpu
from ryle.gpu import fetch, gpu_problem, open_gpu


@pytest.fixture(params=["late", "real"])
def gpu(request):
    if request.param == "real" and (problem := gpu_problem()):
        pytest.skip(f"needs an NVIDIA GPU: {problem}")
    return DeferredGpu(fresh.seed()) if request.param == "late" else open_gpu()


@pytest.mark.parametrize(
    ("dtype", "first", "count"), [(np.uint64, 16, 37), (np.uint64, 4, 5), (np.uint8, 3, 301), (np.uint8, 8, 4096)]
)
def test_columns_are_those_that_the_copy_engine_brings(gpu, dtype, first, count, monkeypatch):
    rows, rng = 5, fresh.rng()
    memory = gpu.pinned((rows, count + 9), dtype)
    memory.view(np.uint8)[...] = rng.integers(0, 256, memory.view(np.uint8).shape)
    stream, found = gpu.stream(), []
    for most in (fetch.MOST, 0):
        monkeypatch.setattr(fetch, "MOST", most)
        to = gpu.empty((rows, 8 * count + 64), np.uint8)
        to.fill(7, stream)
        fetch.Fetch(gpu).columns(to, first, memory[:, 4 : 4 + count], stream)
        found.append(to.get(stream=stream))
    assert np.array_equal(*found) and (found[0] == 7).any() and not (found[0] == 7).all()
    with pytest.raises(ValueError, match="of rows"):
        fetch.Fetch(gpu).columns(gpu.empty((rows, 8), np.uint8), 1, memory[:, :count], stream)


def test_only_what_is_small_and_page_locked_is_fetched(gpu, monkeypatch):
    launched, stream = [], gpu.stream()
    fetched = fetch.Fetch(gpu)
    monkeypatch.setattr(fetched, "_launch", lambda *arguments: launched.append(arguments))
    locked = gpu.pinned((1000,), np.uint64)
    monkeypatch.setattr(fetch, "MOST", 8000)
    fetched.whole(gpu.empty((1000,), np.uint64), locked, stream)
    assert len(launched) == 1
    monkeypatch.setattr(fetch, "MOST", 7999)
    fetched.whole(gpu.empty((1000,), np.uint64), locked, stream)
    fetched.whole(gpu.empty((4,), np.uint64), np.zeros(4, np.uint64), stream)
    stream.synchronize()
    assert len(launched) == 1


def test_it_is_read_when_its_turn_comes(gpu):
    if not isinstance(gpu.empty((1,), np.uint8), DeferredArray):
        pytest.skip("a real GPU may read at once")
    locked, stream = gpu.pinned((64,), np.uint64), gpu.stream()
    to = gpu.empty((64,), np.uint64)
    fetch.Fetch(gpu).whole(to, locked, stream)
    locked[...] = 5  # too early: what comes is this
    assert (to.get(stream=stream) == 5).all()
