"""What the GPU's filter is told to pass over (`windows.cu`): each spectrum once, at its own delay, few tiles twice."""

import numpy as np
import pytest

from ryle.channelize.cuda_kernels import FOLDER
from ryle.channelize.cuda_plan import GROUP, PASS_BYTES, PASSES, TILE

STEP, TAPS, PACKET = 64, 4, 32
TILES = GROUP // TILE
PASS = np.dtype(
    {
        "names": ["start", "stream", "first", "wanted", "tiles", "left"],
        "formats": ["i8", "i4", "i4", ("u2", TILES + 2), "u1", "u1"],
        "offsets": [0, 8, 12, 16, 36, 37],
        "itemsize": PASS_BYTES,
    }
)


def passes_of(gpu, coarse, present):
    """Place the windows of (stream, spectrum) in whole groups; list each unit's passes, and what spectra are valid."""
    streams, spectra = coarse.shape
    groups = spectra // GROUP
    table, segment = gpu.empty((streams * groups * PASSES, PASS_BYTES), np.uint8), gpu.empty(coarse.shape, np.uint8)
    table.fill(0xFF)
    i32, zeros = np.int32, gpu.array(np.zeros(coarse.shape))
    kernel = gpu.kernel(FOLDER / "windows.cu", "place_windows", {"STEP": STEP, "TAPS": TAPS, "PARTS": 1})
    kernel.launch(
        (groups, streams, 1), GROUP, coarse=gpu.array(coarse), fine=zeros, phase=zeros, present=gpu.array(present),
        turns=gpu.empty((*coarse.shape, 8), np.float32), segment=segment, passes=table, spectra=i32(spectra),
        before=i32(0), groups=i32(groups), first_group=i32(0), packets=i32(present.shape[1]),
        packet_samples=i32(PACKET), first_value=np.int64(STEP * TAPS), shared=GROUP * 16,
    )  # fmt: skip
    units = []
    for unit in table.get().view(PASS)[:, 0].reshape(streams * groups, PASSES):
        units.append(unit[: unit["left"][0] + 1])
        assert units[-1]["left"].tolist() == list(range(len(units[-1])))[::-1]
    return units, segment.get() != 255


@pytest.mark.parametrize("steps", [0, 1, 12, 300])
def test_each_valid_spectrum_is_in_one_pass_at_its_delay(cases, cuda_form, rng, steps):
    streams, groups = 2, 2
    coarse = np.zeros((streams, groups * GROUP), np.int64)
    for _ in range(steps):
        coarse[rng.integers(streams), rng.integers(coarse.shape[1]) :] += rng.integers(-3, 4)
    coarse = np.clip(coarse, -STEP, STEP)
    present = np.ones((streams, (groups * GROUP + 3 * TAPS) * STEP // PACKET), np.uint8)
    present[0, rng.integers(present.shape[1], size=3)] = 0
    units, valid = passes_of(cases.gpu(cuda_form), coarse, present)
    for number, unit in enumerate(units):
        stream, group = divmod(number, groups)
        found = np.zeros(GROUP, int)
        passed = np.zeros(TILES, int)
        for each in unit:
            tile = each["first"] - number * TILES
            assert each["stream"] == stream and not each["wanted"][each["tiles"] :].any()
            passed[tile : tile + each["tiles"]] += 1
            wanted = each["wanted"][: each["tiles"], None] >> np.arange(TILE) & 1
            for spectrum in tile * TILE + np.flatnonzero(wanted):
                found[spectrum] += 1
                window = STEP * (TAPS + group * GROUP + spectrum) - coarse[stream, group * GROUP + spectrum]
                assert each["start"] == window - STEP * (spectrum - tile * TILE)
        here = valid[stream].reshape(groups, GROUP)[group]
        np.testing.assert_array_equal(found, here)
        of_tiles = [
            len(set(delays[good])) for delays, good in zip(coarse[stream].reshape(groups, TILES, TILE)[group],
                                                           here.reshape(TILES, TILE), strict=True)
        ]  # fmt: skip
        np.testing.assert_array_equal(passed, np.maximum(of_tiles, 1))


def test_one_step_costs_one_tile_more(cases, cuda_form):
    coarse = np.zeros((1, GROUP), np.int64)
    coarse[0, 3 * TILE + 5 :] = 1
    units, _ = passes_of(cases.gpu(cuda_form), coarse, np.ones((1, (GROUP + 3 * TAPS) * STEP // PACKET), np.uint8))
    assert [(int(each["first"]), int(each["tiles"])) for each in units[0]] == [(0, 3), (3, 1), (3, 1), (4, 4)]
