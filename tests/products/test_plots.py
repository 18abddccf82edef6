"""Pictures: the numbers drawn are right, every kind of file gives pictures."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread

from ryle.products.clean import clean
from ryle.products.image import make_image
from ryle.products.plots import VisibilityFile, autos, coverage, fringes, health, plot_all, style
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


def test_each_triangle_has_a_colour_of_its_own(tmp_path, synthetic, rng, monkeypatch):
    meta = synthetic.metadata(synthetic.enu(9, rng), pols="x", channels=8)
    with UVH5Writer(tmp_path / "a.uvh5", meta) as writer:
        writer.append(synthetic.random_integration(meta, rng, 0, round(60 * 64e6 / meta.spectrum_samples)))
    saved = []
    monkeypatch.setattr(Figure, "savefig", lambda drawing, *_: saved.append(drawing))
    with VisibilityFile(tmp_path / "a.uvh5") as file:
        fringes.closure(file, tmp_path / "closure.png")
    of_axes = [{line.get_label(): line.get_color() for line in axes.lines[:6]} for axes in saved[0].axes]
    assert of_axes[0] == of_axes[1] and len(of_axes[0]) == len(set(of_axes[0].values())) == 6


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


@pytest.fixture
def figures(monkeypatch):
    """Figures as they were saved, for what can be read off them."""
    kept = []
    monkeypatch.setattr(
        style.Figure, "savefig", lambda figure, output: (kept.append(figure), output.write_bytes(b""))[0]
    )
    return kept


@pytest.fixture
def edgy(tmp_path, synthetic, rng):
    """A file of 14 antennas whose DC and edge channels are 40 dB below the band, and whose fringes have a delay."""
    positions = synthetic.enu(14, rng)
    meta = synthetic.metadata(positions, channels=64, pols="xy")
    with UVH5Writer(tmp_path / "edgy.uvh5", meta) as writer:
        for k in range(3):
            made = synthetic.random_integration(meta, rng, 1000 * k * 40, 40000)
            made.visibilities[:, :, 0] = np.abs(made.visibilities[:, :, 0]) + 10**8
            made.visibilities[[0, 1, -1]] //= 10**4
            made.counts[:] = 40000
            writer.append(made)
    return VisibilityFile(tmp_path / "edgy.uvh5")


def test_scales_are_those_of_the_band(tmp_path, edgy, figures):
    """The middle of the band fills the picture though some channels are 40 dB lower."""
    assert not edgy.in_band[[0, 1, -1]].any() and edgy.in_band[2:-1].all()
    autos.bandpass(edgy, tmp_path / "b.png")
    for axes in figures[-1].axes:
        low, high = axes.get_ylim()
        assert high - low < 3 and "dB" in axes.get_ylabel()
    autos.waterfalls(edgy, tmp_path / "w.png")
    meshes = [mesh for axes in figures[-1].axes for mesh in axes.collections if axes.get_title(loc="left")]
    assert len(meshes) == 24 and all(np.ptp(mesh.get_clim()) < 3 for mesh in meshes)
    assert "12 of 14 antennas" in figures[-1].get_suptitle()
    first, last = figures[-1].axes[0].get_title(loc="left"), [a.get_title(loc="left") for a in figures[-1].axes]
    assert first.startswith("m000") and any(title.startswith("m013") for title in last)


def test_lags_are_shown_about_their_peak_and_whole(tmp_path, edgy, figures):
    fringes.lags(edgy, tmp_path / "l.png")
    panels = [axes for axes in figures[-1].axes if axes.get_xlabel().startswith("Delay (")]
    assert len(panels) == 6 and "6 of 91 baselines, shortest to longest" in figures[-1].get_suptitle()
    for axes in panels:
        (whole,) = axes.child_axes
        assert np.ptp(whole.lines[0].get_xdata()) > 2 * np.ptp(axes.get_xlim())
        peaks = [line.get_xdata()[0] for line in axes.lines if len(line.get_xdata()) == 1]
        assert peaks and all(abs(peak) < axes.get_xlim()[1] for peak in peaks)


def test_matrix_names_what_it_shows(tmp_path, edgy, figures):
    fringes.baseline_matrix(edgy, tmp_path / "m.png")
    left, right = figures[-1].axes[:2]
    assert left.get_title() == "Correlation coefficient of a – b" and right.get_title() == "Phase of a – b"
    assert [t.get_text() for t in left.get_xticklabels()] == [edgy.names[a] for a in edgy.antennas]


def test_two_bits_have_four_bars_with_their_shares(tmp_path, figures):
    health.adc_histogram(
        np.array([[16, 34, 34, 16], [10, 40, 40, 10]]), tmp_path / "a.png", levels=np.array([-3.0, -1, 1, 3])
    )
    for axes, shares in zip(figures[-1].axes, ((16, 34), (10, 40)), strict=True):
        assert [bar.get_height() for bar in axes.patches] == pytest.approx([s / 100 for s in (*shares, *shares[::-1])])
        assert [text.get_text() for text in axes.texts] == [f"{s} %" for s in (*shares, *shares[::-1])]
        assert axes.get_yscale() == "linear" and axes.get_xticks().tolist() == [-3, -1, 1, 3]


def test_uv_points_are_seen_and_do_not_run_together(tmp_path, synthetic, rng, figures):
    for antennas, integrations, smallest, largest in ((3, 1, 5, 8), (40, 4, 1.4, 2.5)):
        meta = synthetic.metadata(synthetic.enu(antennas, rng), channels=2)
        path = tmp_path / f"{antennas}.uvh5"
        with UVH5Writer(path, meta) as writer:
            for k in range(integrations):
                writer.append(synthetic.random_integration(meta, rng, k * 10**6, 10**6))
        coverage.uv_coverage(VisibilityFile(path), tmp_path / "uv.png")
        assert smallest < figures[-1].axes[0].lines[0].get_markersize() < largest
