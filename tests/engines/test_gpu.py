"""The F-engine with its GPU form, on an emulated GPU; and its end where there is none."""

import itertools
import os
import subprocess
import sys

import numpy as np
import pytest

import fresh
from emulation.deferred import DeferredGpu
from ryle.bench.fx import OneThread
from ryle.channelize import Blocks, Heaps, cuda
from ryle.chunk import SampleChunk, parts_from_rows
from ryle.config import changed
from ryle.engines.f import FEngine
from ryle.simulate import VoltageSimulator


@pytest.fixture
def gpu(monkeypatch):
    """An emulated GPU where engines look for one, and batches that it can do in reasonable time."""
    monkeypatch.setattr(cuda, "open_gpu", lambda: DeferredGpu(fresh.seed()))
    monkeypatch.setattr("ryle.config.observation._LEAST_SAMPLES", 1 << 14)
    monkeypatch.setattr("ryle.config.observation._F_SPECTRA", 64)


@pytest.fixture
def case(observe):
    """An observation for the GPU, and samples in uneven chunks with holes and a jump."""
    o = changed(observe(antennas=2, bits=10, heap_samples=512), fengine={"backend": "cuda"})
    made = VoltageSimulator(o).chunk(0, 80 * 1024)
    random = fresh.rng()
    present = (random.random(made.present.shape) > 0.05).astype(np.uint8)
    edges = [0, *np.sort(random.choice(np.arange(1, 160), 5, replace=False)), 160]
    pieces = [
        SampleChunk(512 * int(a) + (1 << 20) * (a >= edges[4]), made.data[:, a:b].copy(), present[:, a:b].copy(), 512)
        for a, b in itertools.pairwise(edges)
    ]
    return o, pieces


def run(engine, pieces):
    got, positions = [], []
    for piece in pieces:
        for spectra in engine.push(piece):
            got.append(spectra)
            positions.append(engine.position)
    for spectra in engine.flush():
        got.append(spectra)
        positions.append(engine.position)
    return got, positions


@pytest.mark.parametrize("layout", [Blocks(), Heaps(64)], ids=["blocks", "heaps"])
def test_batches_ahead_equal_batches_one_by_one(gpu, case, layout):
    o, pieces = case
    ahead, single = FEngine(o, range(2), layout), FEngine(o, range(2), layout)
    assert ahead._pipelined is not None
    allocated = ahead._pipelined.gpu.allocated
    single._pipelined = None
    got, positions = run(ahead, pieces)
    assert ahead._pipelined.gpu.allocated == allocated  # all of it before samples came
    wanted, wanted_positions = run(single, pieces)
    assert len(got) > 5 and positions == wanted_positions and any(s.valid.any() for s in wanted)
    for a, b in zip(got, wanted, strict=True):
        assert a.first_spectrum == b.first_spectrum
        np.testing.assert_array_equal(a.valid, b.valid)
        np.testing.assert_array_equal(a.data, b.data)
    for name in ("saturated", "values", "power", "samples"):
        np.testing.assert_array_equal(getattr(ahead, name), getattr(single, name))
    np.testing.assert_array_equal(ahead.adc.counts, single.adc.counts)
    assert list(ahead.flush()) == []  # nothing is given twice
    assert sum(1 for _ in ahead.push(pieces[0])) + sum(1 for _ in ahead.flush()) > 0  # it starts anew


def test_as_on_the_cpu(gpu, case):
    o, pieces = case
    on_cpu = changed(o, fengine={"backend": "cpu"})
    got, _ = run(FEngine(o, range(2), Blocks()), pieces)
    wanted, _ = run(FEngine(on_cpu, range(2), Blocks()), pieces)
    differ = values = 0
    for a, b in zip(got, wanted, strict=True):
        np.testing.assert_array_equal(a.valid, b.valid)
        here = np.broadcast_to(a.valid.reshape(len(a.valid), -1, 64).transpose(1, 0, 2), (*a.data.shape[:3], 64))
        difference = (parts_from_rows(a.data).astype(int) - parts_from_rows(b.data))[here]
        assert np.abs(difference).max(initial=0) <= 1
        differ, values = differ + np.count_nonzero(difference), values + difference.size
    assert differ <= max(5, 1e-4 * values)
    f, c = OneThread(o), OneThread(on_cpu)
    first = [i for e in (f, c) for i in [next(i for p in pieces for i in e.push(p))]]
    np.testing.assert_array_equal(first[0].counts, first[1].counts)
    assert first[0].counts.any()


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
