"""Pictures: the numbers drawn are right, every kind of file gives pictures."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.image import imread

from ryle.products.clean import clean
from ryle.products.image import make_image
from ryle.products.plots import VisibilityFile, health, plot_all
from ryle.products.plots.coverage import sky_image
from ryle.products.plots.fringes import bispectrum, delay_spectrum
from ryle.products.plots.source import averaged, mean
from ryle.products.sources import find_sources
from ryle.products.uvh5 import UVH5Writer


def drawn(path) -> bool:
    picture = imread(path)
    return picture.shape[0] > 200 and picture.shape[1] > 200 and float(picture[..., :3].std()) > 0.01


@pytest.mark.parametrize(
    ("antennas", "pols", "channels", "integrations", "tracked"),
    [(4, "xy", 16, 3, True), (2, "x", 8, 1, False), (1, "rl", 1, 2, True)],
)
def test_every_kind_of_file_gives_its_pictures(
    tmp_path, synthetic, rng, antennas, pols, channels, integrations, tracked
):
    meta = synthetic.metadata(synthetic.enu(antennas, rng), pols=pols, channels=channels, tracked=tracked)
    spectra = round(60 * 64e6 / meta.spectrum_samples)
    with UVH5Writer(tmp_path / "a.uvh5", meta) as writer:
        for i in range(integrations):
            writer.append(synthetic.random_integration(meta, rng, i * spectra, spectra))
        if antennas == 4:
            writer.record("adc_histogram", rng.poisson(100, (8, 256)))
    pictures = plot_all(tmp_path / "a.uvh5", tmp_path / "out")
    names = {p.stem for p in pictures}
    want = {"bandpass", "waterfall", "loss"}
    if antennas >= 2:
        want |= {"fringes", "lags", "matrix", "uv"}
    if antennas >= 3:
        want |= {"closure", "adc"}
    assert names == want and all(drawn(p) for p in pictures)


def test_waterfall_is_the_baseline_whichever_way_round_and_flags_are_nan(tmp_path, synthetic, rng):
    positions = synthetic.enu(3, rng)
    meta = synthetic.metadata(positions)
    path = tmp_path / "a.uvh5"
    spectra = round(60 * 64e6 / meta.spectrum_samples)
    sky = synthetic.correlations(meta, positions, synthetic.ASYMMETRIC, meta.midpoint(0, spectra), meta.phase_centre)
    counts = np.full((2, meta.products), spectra, np.uint32)
    counts[1] = 0
    with UVH5Writer(path, meta) as writer:
        writer.append(synthetic.integration(meta, sky, 0, spectra, counts))
    with VisibilityFile(path) as file:
        forward, back = file.waterfall(1, 3, 0), file.waterfall(3, 1, 0)
        assert forward[0, :8] / synthetic.SCALE == pytest.approx(sky[:8, 0, 2, 0, 0].conj(), abs=1e-5)
        assert np.isnan(forward[0, 8:]).all()
        assert np.array_equal(back, forward.conj(), equal_nan=True)
        assert file.valid(2, 2)[0].tolist() == [1.0] * 8 + [0.0] * 8


def test_averages_of_all_baselines_equal_those_of_each(tmp_path, synthetic, rng):
    meta = synthetic.metadata(synthetic.enu(4, rng))
    spectra = round(60 * 64e6 / meta.spectrum_samples)
    with UVH5Writer(tmp_path / "a.uvh5", meta) as writer:
        for i in range(3):
            part = synthetic.random_integration(meta, rng, i * spectra, spectra, groups=4)
            part.counts[i] = 0
            part.counts[:, 4 * 4 : 4 * 5] = 0  # the fifth baseline, antennas 2 and 3, is lost
            part.visibilities[:, 4 * 4 : 4 * 5] = 0
            writer.append(part)
    with VisibilityFile(tmp_path / "a.uvh5") as file:
        averages = file.averages(2)
        assert len(averages) == 10 and np.isnan(averages.pop((2, 3)))
        for pair, value in averages.items():
            assert value == pytest.approx(complex(np.nanmean(file.waterfall(*pair, 2), dtype=np.complex128)), rel=1e-5)


def test_lag_spectrum_finds_the_delay(rng):
    width, delay = 0.5e6, rng.uniform(-400e-9, 400e-9)
    frequencies = 1e9 + width * np.arange(64)
    values = np.exp(2j * np.pi * frequencies * delay) + 0.05 * rng.normal(size=(20, 64))
    values[:, 10:13] = np.nan
    delays, amplitude, peak = delay_spectrum(values, width)
    assert peak == pytest.approx(delay, abs=3e-9)
    assert amplitude.max() == pytest.approx(1, abs=0.15) and delays[amplitude.argmax()] == pytest.approx(
        delay, abs=5e-9
    )
    turning = values * np.exp(2j * np.pi * rng.random((20, 1)))
    assert delay_spectrum(turning, width, coherent=False)[2] == pytest.approx(delay, abs=3e-9)


def test_closure_phase_of_one_source_is_zero_whatever_the_antennas_do(tmp_path, synthetic, rng):
    positions = synthetic.enu(3, rng)
    meta = synthetic.metadata(positions)
    spectra = round(60 * 64e6 / meta.spectrum_samples)
    sky = synthetic.correlations(
        meta, positions, synthetic.ASYMMETRIC[:1], meta.midpoint(0, spectra), meta.phase_centre
    )
    gain = np.exp(2j * np.pi * rng.random(3))
    sky = sky * gain[None, :, None, None, None] * gain.conj()[None, None, :, None, None]
    with UVH5Writer(tmp_path / "a.uvh5", meta) as writer:
        writer.append(synthetic.integration(meta, sky, 0, spectra))
    with VisibilityFile(tmp_path / "a.uvh5") as file:
        assert np.angle(bispectrum(file, (1, 2, 3), 0)) == pytest.approx(0, abs=1e-4)
        assert np.abs(np.angle(file.waterfall(1, 2, 0))).max() > 1e-3


def test_averages_leave_gaps_out(rng):
    values = rng.normal(size=(10, 3)) + 1j
    values[2:4, 1] = np.nan
    small = averaged(values, 0, 5)
    assert small.shape == (5, 3) and np.isnan(small[1, 1])
    assert small[0] == pytest.approx(values[:2].mean(axis=0)) and small[1, 0] == pytest.approx(values[2:4, 0].mean())
    assert mean(values, 0)[1] == pytest.approx(np.nanmean(values[:, 1]))


def test_adc_histogram_checks_shapes(tmp_path, rng):
    assert drawn(health.adc_histogram(rng.poisson(50, (3, 16)), tmp_path / "adc.png", labels=["a", "b", "c"]))
    with pytest.raises(ValueError, match="needs 16 levels"):
        health.adc_histogram(rng.poisson(50, (3, 16)), tmp_path / "adc.png", levels=np.arange(15))


def test_sky_picture(tmp_path, synthetic, rng):
    positions = synthetic.enu(10, rng, 120.0)
    path = synthetic.observe(
        tmp_path / "a.uvh5", synthetic.metadata(positions, channels=4), positions, synthetic.ASYMMETRIC
    )
    image = make_image(path, pixels=128)
    found = find_sources(image)
    assert drawn(sky_image(image, tmp_path / "d.png", found=found))
    assert drawn(sky_image(image, tmp_path / "r.png", found=found, cleaned=clean(image, found), file="a.uvh5"))


def test_an_empty_file_is_refused(tmp_path, synthetic, rng):
    with UVH5Writer(tmp_path / "a.uvh5", synthetic.metadata(synthetic.enu(2, rng))):
        pass
    with pytest.raises(ValueError, match="no integration"):
        plot_all(tmp_path / "a.uvh5", tmp_path)
