"""The F-engine with its GPU form, on an emulated GPU; and its end where there is none."""

import copy
import os
import subprocess
import sys
import threading
import time

import h5py
import numpy as np
import pytest

import fresh
from emulation import EmulatedGpu
from emulation.deferred import DeferredGpu, DeferredKernel
from feeding import Given, blocks_of, in_pieces, run, through
from ryle.bench.fx import OneThread
from ryle.channelize import Blocks, Heaps, Rows, cuda
from ryle.chunk import SampleChunk, parts_from_rows
from ryle.config import ConfigError, changed, parse
from ryle.correlate import cuda as correlate_cuda
from ryle.engines import gpus
from ryle.engines.f import FEngine, f_steps
from ryle.engines.fx import fx_steps
from ryle.gpu import GpuError, gpu_problem, open_gpu
from ryle.products.observed import metadata
from ryle.products.uvh5 import UVH5Writer
from ryle.simulate import VoltageSimulator
from ryle.stream.block import Block
from ryle.stream.engine import Engine
from ryle.stream.ring import Ring


@pytest.fixture(params=["late", "real"])
def gpu(request, monkeypatch):
    """Where engines look for a GPU, one that does everything as late as it may; and a real one."""
    if request.param == "real" and (problem := gpu_problem()):
        pytest.skip(f"needs an NVIDIA GPU: {problem}")
    made = DeferredGpu(fresh.seed()) if request.param == "late" else open_gpu()
    single = EmulatedGpu if request.param == "late" else lambda: made
    monkeypatch.setattr(gpus, "open_gpu", lambda number: made)
    monkeypatch.setattr(cuda, "open_gpu", single)
    monkeypatch.setattr(correlate_cuda, "open_gpu", single)
    return made


@pytest.fixture
def case(observe):
    """An observation for the GPU, and samples in uneven chunks with holes, a short gap and a jump."""
    small = observe(antennas=2, bits=10, heap_samples=512, integration_spectra=192)
    o = changed(small, fengine={"backend": "cuda", "batch": 128}, xengine={"backend": "cuda"})
    made = VoltageSimulator(o).chunk(0, 160 * 512)
    present = (fresh.rng().random(made.present.shape) > 0.05).astype(np.uint8)
    return o, in_pieces(made, present, 6, 4)


@pytest.mark.parametrize("layout", [Blocks(), Heaps(64), Rows(2)], ids=["blocks", "heaps", "rows"])
def test_a_stream_equals_batches_one_by_one(gpu, case, layout):
    o, pieces = case
    single = FEngine(o, range(2), layout)
    wanted = run(single, pieces)
    assert len(wanted) > 5 and any(s.valid.any() for s in wanted) and not all(s.valid.all() for s in wanted)
    ring, feed = blocks_of(gpu, pieces)
    totals, steps, out = f_steps(o, range(2), layout, ring.reader(), Given(), gpu)
    allocated, got = getattr(gpu, "allocated", 0), []
    through(steps, feed, out, lambda b: got.append((b.start, b.planes["valid"].copy(), np.array(b.data), b.span)))
    assert getattr(gpu, "allocated", 0) == allocated  # all of it before samples came
    for (first, valid, data, span), b in zip(got, wanted, strict=True):
        assert (first, span) == (b.first_spectrum, b.valid.shape[1])
        np.testing.assert_array_equal(valid, b.valid)
        np.testing.assert_array_equal(data, b.data)
    for name in ("saturated", "values", "power", "samples", "position"):
        np.testing.assert_array_equal(getattr(totals, name), getattr(single, name))
    np.testing.assert_array_equal(totals.adc.counts, single.adc.counts)


class Addresses(Given):
    """Blocks of addresses of payloads."""

    in_place = True


def test_payloads_in_place_are_given_back_when_samples_begin_anew_earlier(gpu, case):
    """More blocks than the ring has, whose numbers go back once: none may be held for those of before."""
    o, given = case
    pieces = [
        SampleChunk(p.timestamp + (1 << 24) * (turn == 0), p.data, p.present, 512) for turn in (0, 1) for p in given
    ]
    wanted = run(FEngine(o, range(2), Blocks()), pieces)
    pool, ring, got = [], Ring("addresses", lambda: Block(None), 4), []

    def feed():
        for piece in pieces:
            pool.append(gpu.array(piece.data))
            gpu.default_stream.synchronize()
            places = np.arange(piece.present.size, dtype=np.uint64).reshape(piece.present.shape)
            block, table = ring.room(), gpu.pinned(places.shape, np.uint64)
            table[...] = np.uint64(pool[-1].pointer) + places * np.uint64(piece.data.shape[-1])
            table[piece.present == 0] = 0
            block.data, block.planes["present"] = table, piece.present
            block.start, block.span = piece.timestamp, piece.samples
            ring.put(block)
        ring.close()

    _, steps, out = f_steps(o, range(2), Blocks(), ring.reader(), Addresses(), gpu)
    through(steps, feed, out, lambda b: got.append((b.start, b.planes["valid"].copy(), np.array(b.data))))
    assert [first for first, *_ in got] == [b.first_spectrum for b in wanted]
    for (_, valid, data), b in zip(got, wanted, strict=True):
        np.testing.assert_array_equal(valid, b.valid)
        np.testing.assert_array_equal(data, b.data)
    deadline = time.monotonic() + 60  # the ring's own thread gives them back when the GPU has read them
    while ring.free < 4:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_spectra_that_stay_there_are_summed_alike(gpu, case):
    """F and X on one GPU give what their operations give one after the other, exactly."""
    o, pieces = case
    thread = OneThread(o)
    wanted = run(thread, pieces)
    assert len(wanted) > 3
    ring, feed = blocks_of(gpu, pieces)
    *steps, _ = fx_steps(o, ring, Given(), lambda: None, [gpu])
    sums, got = steps[-1].outputs[0], []
    sums._readers.clear()
    through(steps, feed, sums, lambda b: got.append(copy.deepcopy(b.data)))
    assert [i.first_spectrum for i in got] == [i.first_spectrum for i in wanted]
    for a, b in zip(got, wanted, strict=True):
        np.testing.assert_array_equal(a.visibilities, b.visibilities)
        np.testing.assert_array_equal(a.counts, b.counts)
        assert a.exposure == b.exposure


def test_as_on_the_cpu(gpu, case):
    o, pieces = case
    on_cpu = changed(o, fengine={"backend": "cpu"})
    got = run(FEngine(o, range(2), Blocks()), pieces)
    wanted = run(FEngine(on_cpu, range(2), Blocks()), pieces)
    differ = values = 0
    for a, b in zip(got, wanted, strict=True):
        np.testing.assert_array_equal(a.valid, b.valid)
        here = np.broadcast_to(a.valid.reshape(len(a.valid), -1, 64).transpose(1, 0, 2), (*a.data.shape[:3], 64))
        difference = (parts_from_rows(a.data).astype(int) - parts_from_rows(b.data))[here]
        assert np.abs(difference).max(initial=0) <= 1
        differ, values = differ + np.count_nonzero(difference), values + difference.size
    assert differ <= max(5, 1e-4 * values)


def test_without_a_gpu_an_engine_ends_with_one_message(observation_text, tmp_path):
    text = observation_text(antennas=2, duration=1).replace("[fengine]", '[fengine]\nbackend = "cuda"')
    file = tmp_path / "o.toml"
    file.write_text(text)
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": "", "COLUMNS": "200"}
    for command in (["engine", "f", str(file)], ["run", str(file)], ["run", str(file), "--in-process"]):
        ended = subprocess.run(
            [sys.executable, "-m", "ryle", *command, *(["-o", str(tmp_path)] if command[0] == "run" else [])],
            env=environment, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert ended.returncode == 1, ended.stdout
        assert "NVIDIA" in ended.stderr and "Traceback" not in ended.stderr
        said = [line for line in ended.stderr.splitlines() if not line.startswith("reading ")]  # on a busy machine
        assert len(said) == 1 and said[0].startswith("error:"), ended.stderr
        assert "ready" not in ended.stdout
    assert not list(tmp_path.glob("**/*.uvh5"))


@pytest.mark.parametrize("gpu", ["late"], indirect=True)
def test_a_gpu_that_is_lost_costs_no_integration_that_was_written(gpu, case, tmp_path, monkeypatch):
    o, given = case
    path, launch = tmp_path / "lost.uvh5", DeferredKernel.launch
    data = np.concatenate([p.data for p in given], axis=1)[:, :32]  # a batch; far more of them than can be under way
    pieces = [SampleChunk(32 * 512 * i, data, np.ones(data.shape[:2], np.uint8), 512) for i in range(40)]

    def fails_later(kernel, *arguments, **more):
        if steps[-1].integrations:
            raise GpuError("launching failed: CUDA_ERROR_ECC_UNCORRECTABLE")
        launch(kernel, *arguments, **more)

    ring, feed = blocks_of(gpu, pieces)
    steps = fx_steps(o, ring, Given(), lambda: UVH5Writer(path, metadata(o)), [gpu])
    monkeypatch.setattr(DeferredKernel, "launch", fails_later)
    with Engine([], steps) as engine, pytest.raises(GpuError, match="ECC"):
        engine.start()
        feeding = threading.Thread(target=feed, daemon=True)
        feeding.start()
        engine.wait()
    written = steps[-1].integrations
    assert written
    with h5py.File(path) as file:
        assert file["Header/Ntimes"][()] == written and (file["Data/nsamples"][...] > 0).any()


def test_engines_take_gpus_in_turn(observe, observation_text, monkeypatch):
    opened = []
    monkeypatch.setattr(gpus, "open_gpu", lambda number: opened.append(number))
    o = changed(observe(antennas=2), fengine={"backend": "cuda", "gpus": [2, 5]}, xengine={"backend": "cuda"})
    for index in range(3):
        gpus.gpus_for(o, "f", index)
    gpus.gpus_for(o, "x", 1)
    assert opened == [2, 5, 2, 0]
    assert gpus.gpus_for(changed(o, fengine={"backend": "cpu", "gpus": []}), "f") == []
    for key, told in (({"gpus": [1]}, "fengine.backend is .cpu."), ({"gpus": [-1], "backend": "cuda"}, "gpus")):
        with pytest.raises(ConfigError, match=told):
            parse(observation_text(antennas=2).replace("[fengine]", "[fengine]\n" + toml(key)), "small.toml")


def toml(keys):
    return "\n".join(f"{k} = {v if isinstance(v, list) else chr(34) + v + chr(34)}" for k, v in keys.items())
