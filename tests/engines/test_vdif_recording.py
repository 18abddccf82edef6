"""A simulated array as VDIF: others read it, and correlated it gives the fringes of its sky."""

from fractions import Fraction

import baseband.vdif
import numpy as np
import pytest
from astropy import units
from rich.console import Console

from ryle.config import ConfigError, changed, example, load
from ryle.engines.offline import correlate
from ryle.engines.vdif_recording import record_vdif
from ryle.products.plots.fringes import delay_spectrum
from ryle.products.plots.source import VisibilityFile

RATE = 2_000_000


def small(offset="0 s", **tables):
    """The shipped example at a lower rate, half a second long; Pickmere's clock is ahead by as much."""
    o = load(example("vdif2"))
    inputs = [e.model_dump() | ({"clock_offset": offset} if e.file else {}) for e in o.vdif.inputs]
    made = {
        "band": {"sample_rate": RATE},
        "fengine": {"channels": 32},
        "xengine": {"integration": Fraction(128, 1000)},
        "observation": {"duration": Fraction(1, 2)},
        "vdif": {"inputs": inputs},
        "digitizer": {"heap_samples": 1600},
    }
    return changed(o, **{name: made.get(name, {}) | tables.get(name, {}) for name in made | tables})


@pytest.mark.parametrize("offset", ["0 s", "10 us", "-3.2 us"])
def test_fringes_of_a_recorded_sky(tmp_path, offset):
    """20 Jy against 200 Jy, at 2 bits, give a coherence of 0.88 · 20/220; delays vanish whatever the clocks."""
    o = small(offset)
    paths = record_vdif(o, tmp_path)
    assert [path.name for path in paths] == ["jb.vdif", "pi.vdif"]
    results = correlate(o, paths, tmp_path, Console(quiet=True))
    assert [result.file.name for result in results] == ["vdif2.IF1.uvh5", "vdif2.IF2.uvh5"]
    for result in results:
        with VisibilityFile(result.file) as file:
            for k in file.parallel:
                cross = file.waterfall(1, 2, k)
                power = [np.nanmean(np.real(file.waterfall(a, a, k))[:, 2:-2]) for a in (1, 2)]
                coherence = abs(np.nanmean(cross[:, 2:-2])) / np.sqrt(power[0] * power[1])
                assert coherence == pytest.approx(0.88 * 20 / 220, abs=0.008)
                assert abs(delay_spectrum(cross, file.channel_width)[2]) < 0.03e-6  # a sample is 0.5 us


def test_baseband_reads_what_is_recorded(tmp_path):
    """Threads, channels, times, and levels set at one sigma: 16, 34, 34 and 16 %."""
    o = small()
    for path, station in zip(record_vdif(o, tmp_path), ("JB", "PI"), strict=True):
        with baseband.vdif.open(str(path), "rs", sample_rate=RATE * units.Hz) as file:
            assert file.sample_shape == (2, 2) and file.header0.bps == 2 and file.header0.station == station
            assert abs((file.start_time - file.header0.time).sec) < 1e-9
            assert file.start_time.isot.startswith("2026-11-20T00:00:00")
            samples = file.read(200_000)
        low = np.abs(samples) < 2
        assert low.mean(axis=0) == pytest.approx(np.full((2, 2), 0.683), abs=0.01)
        assert np.abs((samples > 0).mean(axis=0) - 0.5).max() < 0.01


def test_what_is_missing_is_said(tmp_path):
    o = small()
    for gone, key in (({"vdif": None}, "vdif"), ({"simulate": None}, "simulate")):
        with pytest.raises(ConfigError, match=rf"{key}\n    is missing"):
            record_vdif(o.model_copy(update=gone), tmp_path)
    with pytest.raises(ConfigError, match=r"duration"):
        record_vdif(changed(o, observation={"duration": None}), tmp_path)
    with pytest.raises(ConfigError, match="no VDIF frame"):
        record_vdif(changed(o, band={"sample_rate": 1_000_003}), tmp_path)
