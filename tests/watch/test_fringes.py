"""What is shown of glances against the same of the voltages, in float64, with their noise, losses and signs."""

import numpy as np
import pytest

from fresh import rng
from glances import glance_of, index, noise
from ryle.watch import fringes
from ryle.watch.sight import STAGES, InputSight, Sight

WIDTH = 15625.0  # Hz of a channel


@pytest.fixture
def random():
    return rng()


def source(random, n, p, channels, spectra, *, strength=1.0, delays=None):
    """Receivers' noise and a common signal, which comes to each antenna so many seconds late."""
    x = noise(random, n, p, channels, spectra)
    late = np.zeros(n) if delays is None else np.asarray(delays)
    turns = np.exp(-2j * np.pi * np.arange(channels) * WIDTH * late[:, np.newaxis])
    return x + np.sqrt(strength) * noise(random, 1, p, channels, spectra) * turns[:, np.newaxis, :, np.newaxis]


def test_products_are_numbered_as_engines_do():
    found = fringes.inputs_of_products(3, 2)
    for a2 in range(3):
        for a1 in range(a2 + 1):
            for p1 in range(2):
                for p2 in range(2):
                    k = fringes.product_of(a1, p1, a2, p2, 2)
                    assert k == index(a1, p1, a2, p2) and found[k].tolist() == [2 * a1 + p1, 2 * a2 + p2]
    assert fringes.auto_products(3, 2).tolist() == [index(a, p, a, p) for a in range(3) for p in range(2)]
    with pytest.raises(ValueError, match="no product"):
        fringes.product_of(2, 0, 1, 0, 2)


def test_bandpass(random):
    x = noise(random, 3, 1, 33, 100) * 7
    x[1] = 0
    found = fringes.bandpass(glance_of(x, bins=11))
    expected = 10 * np.log10((np.abs(x[:, 0].reshape(3, 11, -1)) ** 2).mean(axis=2)[[0, 2]])
    np.testing.assert_allclose(found[[0, 2]], expected, atol=1e-4)
    assert np.isnan(found[1]).all()


@pytest.mark.parametrize("parts", [1, 5, 7])
def test_fringe_is_the_average_of_the_band(random, parts):
    x = source(random, 4, 2, 35, 90)
    found = fringes.fringe(glance_of(x, parts=parts))
    for a1, p1, a2, p2 in [(0, 0, 1, 0), (1, 1, 3, 0), (2, 0, 2, 0), (0, 1, 3, 1)]:
        value = (x[a1, p1] * x[a2, p2].conj()).mean()
        np.testing.assert_allclose(found.value[index(a1, p1, a2, p2)], value, rtol=1e-5)
        np.testing.assert_allclose(found.phase[index(a1, p1, a2, p2)], np.angle(value), atol=1e-5)
        np.testing.assert_allclose(found.amplitude[index(a1, p1, a2, p2)], abs(value), rtol=1e-5)


def test_noise_is_that_of_many_glances(random):
    """Noise that is told is the scatter that there is, with losses too; SNR of noise alone is that of Rayleigh's law."""
    valid = random.random((3, 1, 64)) < 0.7
    gains = np.array([1, 5, 0.2])[:, np.newaxis, np.newaxis, np.newaxis]
    looks = [fringes.fringe(glance_of(noise(random, 3, 1, 20, 64) * gains, valid, parts=4)) for _ in range(1200)]
    cross = [index(0, 0, 1, 0, 1), index(0, 0, 2, 0, 1), index(1, 0, 2, 0, 1)]
    values = np.array([look.value[cross] for look in looks])
    told = np.array([look.noise[cross] for look in looks])
    pairs = [(0, 1), (0, 2), (1, 2)]
    # A scatter of 1200 looks is known to 2 %. What is told takes losses of two antennas to be independent; what they were is known here.
    true = np.array([np.sqrt((valid[i] & valid[j]).mean() / (valid[i].mean() * valid[j].mean())) for i, j in pairs])
    np.testing.assert_allclose(values.real.std(axis=0) * true, told.mean(axis=0), rtol=0.12)
    np.testing.assert_allclose(values.imag.std(axis=0) * true, told.mean(axis=0), rtol=0.12)
    snr = np.array([look.snr[cross] for look in looks])
    np.testing.assert_allclose(snr.mean(axis=0) * true, np.sqrt(np.pi / 2), rtol=0.1)


def test_what_did_not_come_is_no_fringe(random):
    x = source(random, 3, 2, 32, 64)
    valid = np.ones((3, 2, 64), bool)
    valid[1, 0] = False
    found = fringes.fringe(glance_of(x, valid))
    gone = np.isnan(found.value)
    assert gone[index(0, 0, 1, 0)] and gone[index(1, 0, 2, 1)] and gone[index(1, 0, 1, 0)]
    assert not gone[index(0, 0, 1, 1)] and not gone[index(0, 0, 2, 0)]
    assert np.isnan(found.snr[gone]).all() and np.isnan(fringes.fringe_strength(glance_of(x, valid))[gone]).all()
    lags = fringes.lags(glance_of(x, valid), WIDTH)
    assert np.isnan(lags.peak[gone]).all() and np.isfinite(lags.peak[~gone]).all()


def test_fringes_against_time(random):
    glances = [glance_of(source(random, 3, 1, 16, 64)) for _ in range(4)]
    found = fringes.fringes(glances, [1, 3])
    assert found.value.shape == found.snr.shape == (4, 2)
    np.testing.assert_array_equal(found.value[2], fringes.fringe(glances[2]).value[[1, 3]])
    assert fringes.fringes([], [1, 3]).value.shape == (0, 2)


@pytest.mark.parametrize(("channels", "parts", "bins"), [(64, 16, 64), (60, 32, 31), (37, 8, 37)])
def test_lag_is_the_delay(random, channels, parts, bins):
    """Antenna 1 hears it 9.3 µs later, antenna 2 4.1 µs earlier: found with either sign, to a fraction of a lag."""
    delays = np.array([0.0, 9.3e-6, -4.1e-6])
    x = source(random, 3, 1, channels, 500, strength=3.0, delays=delays)
    pairs = [(0, 1), (0, 2), (1, 2)]
    chosen = [index(a, 0, b, 0, 1) for a, b in pairs]
    glance = glance_of(x, parts=parts, bins=bins, chosen=chosen)
    found = fringes.lags(glance, WIDTH, chosen)  # of the chosen spectra
    assert found.amplitude.shape == (3, 2 * bins)
    step = found.seconds[1] - found.seconds[0]
    np.testing.assert_allclose(found.peak, [delays[a] - delays[b] for a, b in pairs], atol=0.15 * step + 2e-7)
    for row, spectrum in zip(found.amplitude, glance.spectra, strict=True):  # by the definition
        centres = (glance.power_channels[:-1] + glance.power_channels[1:]) / 2 * WIDTH
        weights = np.diff(glance.power_channels) / channels
        for lag in (0, bins, 2 * bins - 1):
            expected = abs((weights * spectrum * np.exp(2j * np.pi * centres * found.seconds[lag])).sum())
            np.testing.assert_allclose(row[lag], expected, rtol=1e-3, atol=1e-4)


def test_lags_of_all_products_by_parts_of_the_band(random):
    x = source(random, 3, 1, 64, 300, strength=2.0, delays=[0, 2.2e-6, -3.0e-6])
    found = fringes.lags(glance_of(x, parts=32), WIDTH)
    assert found.amplitude.shape == (6, 64)
    np.testing.assert_allclose(found.peak[index(0, 0, 1, 0, 1)], -2.2e-6, atol=1e-6)
    np.testing.assert_allclose(found.peak[index(1, 0, 2, 0, 1)], 5.2e-6, atol=1e-6)
    value = fringes.fringe(glance_of(x, parts=32)).amplitude
    np.testing.assert_allclose(found.amplitude[:, 32], value, rtol=1e-4)  # lag 0 is the average of the band


def test_closure_phases_are_of_the_source_alone(random):
    """Antennas' own phases and delays go; of three sources' worth of phases per baseline the sum stays."""
    n, channels, spectra = 5, 40, 800
    x = source(random, n, 2, channels, spectra, strength=4.0)
    corners = fringes.triangles(n)
    assert corners.tolist() == [[0, b, c] for b in range(1, n) for c in range(b + 1, n)]
    assert fringes.triangles(4, reference=2).tolist() == [[0, 1, 2], [0, 2, 3], [1, 2, 3]]
    phase, error = fringes.closure_phases(glance_of(x), corners)
    assert np.abs(phase).max() < 0.05 and 0.001 < error.max() < 0.05
    turned = x * np.exp(1j * random.uniform(0, 6, (n, 1, 1, 1)))
    again, _ = fringes.closure_phases(glance_of(turned), corners)
    np.testing.assert_allclose(again, phase, atol=1e-4)
    # A phase of one baseline that is no antenna's shows in its triangles alone.
    glance = glance_of(x)
    glance.coarse[:, index(1, 0, 2, 0)] *= np.exp(0.7j)
    odd, _ = fringes.closure_phases(glance, corners)
    expected = phase + 0.7 * ((corners[:, 1] == 1) & (corners[:, 2] == 2))
    np.testing.assert_allclose(odd, expected, atol=1e-4)


def test_closure_error_is_the_scatter(random):
    looks = [
        fringes.closure_phases(glance_of(source(random, 3, 1, 8, 300, strength=0.15), parts=4), np.array([[0, 1, 2]]))
        for _ in range(300)
    ]
    phases, errors = (np.array(each) for each in zip(*looks, strict=True))
    np.testing.assert_allclose(phases.std(), np.median(errors), rtol=0.35)
    nothing = [
        fringes.closure_phases(glance_of(noise(random, 3, 1, 8, 64)), np.array([[0, 1, 2]]))[1] for _ in range(100)
    ]
    assert np.median(nothing) > 0.5  # nobody takes it for a phase


def test_coefficients(random):
    x = source(random, 3, 2, 20, 200)
    found = fringes.coefficients(glance_of(x))
    assert found.shape == (2, 2, 3, 3)
    flat = x.reshape(3, 2, -1)
    root = np.sqrt((np.abs(flat) ** 2).mean(axis=2))
    for p1, p2, a1, a2 in np.ndindex(2, 2, 3, 3):
        expected = (flat[a1, p1] * flat[a2, p2].conj()).mean() / root[a1, p1] / root[a2, p2]
        np.testing.assert_allclose(found[p1, p2, a1, a2], expected, atol=1e-5)
    x[2, 1] = 0  # without power there is no coefficient
    assert np.isnan(fringes.coefficients(glance_of(x))[0, 1, :, 2]).all()


def test_fringe_strength_finds_delayed_fringes(random):
    x = source(random, 3, 1, 64, 400, strength=0.3, delays=[0, 6e-6, 0])
    glance = glance_of(x, parts=32)
    strength, plain = fringes.fringe_strength(glance), fringes.fringe(glance).snr
    k = index(0, 0, 1, 0, 1)
    assert strength[k] > 20 > 7 > plain[k]
    alone = [fringes.fringe_strength(glance_of(noise(random, 3, 1, 64, 64), parts=32))[[1, 3, 4]] for _ in range(100)]
    assert np.max(alone) < 7 and 2 < np.mean(alone) < 3.2


def test_loss_map():
    def look(time, shares):
        inputs = tuple(InputSight(i, f"A{i}", "x", present=share) for i, share in enumerate(shares))
        return Sight(time, inputs=inputs)

    history = [
        Sight(0.0),  # nothing runs yet
        look(1.0, [{"ring": 1.0, "F": 0.9, "X": None, "file": None}, {"ring": 0.5}]),
        look(2.0, [{"ring": 1.0, "F": 1.0, "X": 0.8, "file": 0.7}, {}]),
    ]
    found = fringes.loss_map(history)
    assert found.stages == STAGES and found.labels == ("A0 x", "A1 x") and found.times.tolist() == [1.0, 2.0]
    nan = np.nan
    expected = [[[1, 1], [0.5, nan]], [[0.9, 1], [nan, nan]], [[nan, 0.8], [nan, nan]], [[nan, 0.7], [nan, nan]]]
    np.testing.assert_allclose(found.present, np.array(expected))
    assert fringes.loss_map(history, most=1).times.tolist() == [2.0]
    assert fringes.loss_map([]).present.shape == (4, 0, 0)


def test_levels():
    inputs = (InputSight(0, "A", "x", rms=3.0, dbfs=-12.0), InputSight(1, "A", "y", clipped=0.5))
    found = fringes.levels(Sight(0.0, inputs=inputs))
    np.testing.assert_array_equal(found.rms, [3.0, np.nan])
    np.testing.assert_array_equal(found.clipped, [np.nan, 0.5])


def test_bands_are_joined(random):
    x = source(random, 3, 2, 48, 70)
    chosen = [1, 4]
    low = glance_of(x[:, :, :20], bins=5, parts=2, chosen=chosen)
    high = glance_of(x[:, :, 20:], bins=7, parts=3, first_channel=20, chosen=[4, 1, 9][:2])
    found = fringes.joined([high, low])
    assert (found.first_channel, found.channels, found.chosen.tolist()) == (0, 48, chosen)
    assert found.power_channels.tolist() == [0, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48]
    np.testing.assert_array_equal(found.power, np.concatenate([low.power, high.power], axis=1))
    np.testing.assert_array_equal(found.spectra[0], np.concatenate([low.spectra[0], high.spectra[1]]))
    whole = fringes.fringe(found).value
    np.testing.assert_allclose(whole, fringes.fringe(glance_of(x)).value, rtol=1e-4, atol=1e-5)
    # A band that nobody sees is none of the average.
    far = glance_of(x[:, :, 30:], bins=3, parts=2, first_channel=30)
    gap = fringes.joined([low, far])
    assert gap.coarse_edges.tolist() == [0, 10, 20, 30, 39, 48] and np.isnan(gap.coarse[2]).all()
    assert np.isfinite(fringes.fringe(gap).value).all()
    with pytest.raises(ValueError, match="same channels"):
        fringes.joined([low, low])
    with pytest.raises(ValueError, match="different integrations"):
        fringes.joined([low, glance_of(x[:, :, 20:], first_channel=20, first_spectrum=1)])
