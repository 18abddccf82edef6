"""How recordings of chunks are read: with all cores, and into memory that a GPU copies from, used again and again."""

import io
import os

import h5py
import numpy as np
import pytest
from rich.console import Console

import recorded
from emulation import EmulatedGpu
from ryle.config import changed
from ryle.engines import chunk_recordings, gpus, offline


def quiet():
    return Console(file=io.StringIO())


@pytest.mark.parametrize(("f", "x"), [({}, {}), ({"threads": 3, "batch": 64}, {}), ({}, {"threads": 1})])
def test_halves_have_the_cores_that_nobody_names(tmp_path, rng, monkeypatch, f, x):
    o = changed(recorded.observation(batch=None), fengine=f, xengine=x)
    had = []
    monkeypatch.setattr(
        offline,
        "_correlate_chunks",
        lambda o, *_: had.append((o.fengine.threads, o.xengine.threads, o.f_batches)) or "result",
    )
    assert offline.correlate(o, recorded.chunks(tmp_path, rng, o), tmp_path, quiet()) == ["result"]
    usual, batches = len(os.sched_getaffinity(0)), o.f_batches if "batch" in f else 4 * o.f_batches
    assert had == [(f.get("threads", usual), x.get("threads", usual), batches)]
    assert o.fengine.threads == f.get("threads", 1)  # a live engine has one


@pytest.mark.parametrize("backend", ["cpu", "cuda"])
def test_memory_used_again_changes_nothing(tmp_path, rng, monkeypatch, backend):
    o = recorded.observation(integration="0.01 s", batch=64)
    if backend == "cuda":
        monkeypatch.setattr(gpus, "open_gpu", lambda *_: EmulatedGpu())
        o = changed(o, fengine={"backend": "cuda", "channels": 64}, xengine={"backend": "cuda"})
    files, given = recorded.chunks(tmp_path, rng, o, blocks=25, packets=2), []
    monkeypatch.setattr(chunk_recordings, "_LARGEST", 2 * 4 * 2 * o.digitizer_heap_bytes)  # two blocks

    def locked(of):
        allocate = allocated(of)
        return None if allocate is None else lambda nbytes: given.append(nbytes) or allocate(nbytes)

    allocated = gpus.locked
    found = []
    for name, allocator in (("again", locked), ("fresh", lambda _: None)):
        monkeypatch.setattr(offline, "locked", allocator)
        (result,) = offline.correlate(o, files, tmp_path / name, quiet())
        with h5py.File(result.file) as file:
            found.append([file[f"Data/{each}"][...] for each in ("visdata", "nsamples", "flags")])
    assert (0 < len(given) <= 6) == (backend == "cuda") and found[0][0].any() and found[0][1].max() > 0
    for a, b in zip(*found, strict=True):
        np.testing.assert_array_equal(a, b)


def test_what_is_cut_off_while_it_is_read_is_told(tmp_path, rng):
    o = recorded.observation()
    files = recorded.chunks(tmp_path, rng, o)
    source = chunk_recordings.ChunkRecordings(o, files)
    os.truncate(files[1], 100_000)
    with pytest.raises(OSError, match=r"b\.chunks became shorter while it was read"):
        list(source.chunks(recorded.fresh))
