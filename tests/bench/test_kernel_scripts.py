"""`ryle.bench.compare_kernels` and `ryle.bench.sanitize`: that they check and compare what they say, on emulated kernels."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import typer

import ryle
from emulation import EmulatedGpu
from ryle.bench import compare_kernels as compare
from ryle.bench import sanitize
from ryle.bench.gpu_timing import Sustained
from ryle.gpu.compile import included_files

SOURCES = Path(ryle.__file__).resolve().parent


@pytest.mark.parametrize("shape", [("K-blocks", 3, 1), ("packed", 38, 2), ("time-major", 64, 2), ("heaps", 38, 2)])
def test_what_sanitizers_watch_is_checked(shape, monkeypatch):
    assert sanitize.wrong_sums(EmulatedGpu(), *shape) == 0
    right = sanitize.random_samples

    def first_wrong(*args):
        parts, exact = right(*args)
        exact[:, 0] += 1
        return parts, exact

    monkeypatch.setattr(sanitize, "random_samples", first_wrong)
    assert sanitize.wrong_sums(EmulatedGpu(), *shape) == 2 * 5  # re and im of one product of each channel


def test_every_form_is_watched_in_every_way_that_it_is_cut():
    assert set(sanitize.SHAPES) == {"K-blocks", "packed", "time-major", "heaps"}
    for form, kernel in sanitize.KERNELS.items():
        assert all(kernel.takes(*shape) for shape in sanitize.SHAPES[form])


def test_trial_kernels_are_checked(monkeypatch):
    name, kernel = compare.trial(".")
    assert (name, kernel.SOURCE) == (".", SOURCES / "correlate" / "hopper.cu")
    assert compare.wrong_sums(EmulatedGpu(), kernel(EmulatedGpu(), 8, 2), 8, 2, 3) == 0
    parts, exact = compare.random_samples(2, 3, 8, 2)
    monkeypatch.setattr(compare, "random_samples", lambda *_: (parts, exact + 1))
    assert compare.wrong_sums(EmulatedGpu(), kernel(EmulatedGpu(), 8, 2), 8, 2, 3) == 2 * 2 * 40


def test_a_trial_tree_includes_its_own_files(tmp_path):
    for folder in "correlate", "gpu":
        shutil.copytree(SOURCES / folder, tmp_path / "ryle" / folder, ignore=shutil.ignore_patterns("*.py", "*.so"))
    name, kernel = compare.trial(f"mine={tmp_path},DEPTH=4,PER=2")
    assert name == "mine"
    assert kernel.defines(128, 2).items() >= {"INPUTS": 128, "POLS": 2, "DEPTH": 4, "PER": 2}.items()
    files = included_files(kernel.SOURCE)
    assert len(files) > 5
    assert all(tmp_path in file.parents for file in files)


@pytest.mark.parametrize(
    "argument, message",
    [
        ("nowhere", "there is no nowhere/ryle/correlate/hopper.cu"),
        (".,DEPTH", "MACRO=NUMBER"),
        (".,D=x", "MACRO=NUMBER"),
    ],
)
def test_arguments_that_mean_nothing(argument, message):
    with pytest.raises(typer.BadParameter, match=message):
        compare.trial(argument)


def test_trials_take_turns(monkeypatch):
    order = []

    def sustain(launch, stream, seconds, meter):
        launch(stream)
        return Sustained(seconds, 1.0, 1e9)

    def kernel(name):
        return lambda *args, stream: order.append((name, args))

    monkeypatch.setattr(compare, "sustain", sustain)
    runs = compare.turns_of(EmulatedGpu(), {name: kernel(name) for name in "abc"}, "data", "sums", 4, 3, 0.5)
    assert "".join(name for name, _ in order) == "a" + "abccbaabc"  # the first time to warm up
    assert {args for _, args in order} == {("data", "sums", 0, 4)}
    assert {name: len(each) for name, each in runs.items()} == {"a": 3, "b": 3, "c": 3}


@pytest.mark.parametrize("inputs, tiles", [(66, 1), pytest.param(300, 6, marks=pytest.mark.long)])
def test_cycles_of_tiles(inputs, tiles, monkeypatch):
    """The emulated clock counts how often it was asked: three times a tile by each of a block's warpgroups."""
    monkeypatch.setattr(compare, "_TRACED", 32)
    monkeypatch.setattr(compare, "sustain", lambda launch, stream, seconds: launch(stream) or Sustained(0.25, 1.0, 1.0))
    gpu, blocks, enough = EmulatedGpu(multiprocessors=1), 2, 32 // tiles + 2

    def found(macros, channels):
        data = gpu.array(np.zeros((channels, blocks, inputs, 128), np.int8))
        sums = gpu.array(np.zeros((1, channels, inputs * (inputs // 2 + 1), 2), np.int32))
        _, kernel = compare.trial("." + macros)
        return compare.cycles_of(gpu, kernel(gpu, inputs, 2), inputs, data, sums, blocks, 0.5)

    cycles = found(",TRACED=32", enough)
    assert cycles.tile == pytest.approx(3 * 2, rel=0.5)
    assert 0 < cycles.multiply and 0 < cycles.write and cycles.multiply + cycles.write < cycles.tile
    assert cycles.clock == pytest.approx(cycles.tile * tiles * enough / 0.25)
    assert found("", enough) is None
    assert found(",TRACED=32", enough // 2) is None
