"""Delay polynomials to lines: hand-calculated, and within the error that is promised."""

import numpy as np
import pytest
from numpy.polynomial import polynomial

from ryle.array.delays import DelaySchedule
from ryle.array.polynomials import MOST_MODELS, MOST_PHASE_ERROR, DelayPolynomial

RATE = 1e6


def test_a_line_stays_one():
    (model,) = DelayPolynomial([1e-6, 2e-9], [0.5, 0.25], 60.0).models(1000, RATE, 1.4e9)
    assert (model.start, model.delay, model.phase) == (1000, 1e-6, 0.5)
    assert (model.rate, model.phase_rate) == (pytest.approx(2e-9), pytest.approx(0.25))
    (model,) = DelayPolynomial([3e-6], [0.0], 1e-9).models(5, RATE, 1.4e9)  # shorter than a sample
    assert (model.start, model.delay, model.rate) == (5, 3e-6, 0.0)


def test_by_hand():
    """t² with lines of a second: nodes at k² − 1/8, errors of 1/8 either way; L²·τ''/16 is that."""
    error = MOST_PHASE_ERROR / (2 * np.pi)  # at 1 Hz, s
    bend = 16 * error  # so that lines last a second
    models = DelayPolynomial([0.0, 0.0, bend / 2], [0.0], 3.0).models(0, RATE, 1.0)
    assert [m.start for m in models] == [0, 1_000_000, 2_000_000]
    wanted = [bend / 2 * (k * k) - error for k in range(4)]
    assert [m.delay for m in models] == pytest.approx(wanted[:3])
    assert [m.rate for m in models] == pytest.approx(np.diff(wanted))
    middle = models[1].delay + models[1].rate * 0.5
    assert middle - bend / 2 * 1.5**2 == pytest.approx(error)  # bend/8 above the curve, less the shift


@pytest.mark.parametrize("degree", [1, 2, 3, 5])
def test_within_the_error(rng, degree):
    for _ in range(20):
        seconds, highest = float(rng.uniform(0.5, 100)), float(rng.uniform(1e8, 2e10))
        scale = seconds ** np.arange(degree + 1)
        delay = rng.normal(size=degree + 1) * 1e-9 / scale
        phase = rng.normal(size=degree + 1) * 3 / scale
        start = int(rng.integers(0, 1 << 40))
        models = DelayPolynomial(delay.tolist(), phase.tolist(), seconds).models(start, RATE, highest)
        counts = start + np.sort(rng.integers(0, int(seconds * RATE), 2000))
        found = DelaySchedule(models).evaluate_exact(counts)
        times = (counts - start) / RATE
        tau, turn = polynomial.polyval(times, delay), polynomial.polyval(times, phase)
        # And what float64 leaves of counts of samples.
        assert np.abs(2 * np.pi * highest * (found[0] / RATE - tau)).max() <= 1.001 * MOST_PHASE_ERROR
        assert np.abs(found[1] - turn).max() <= 1.001 * MOST_PHASE_ERROR
        ends = np.array([m.start for m in models[1:]], np.int64)
        for a, b, end in zip(models[:-1], models[1:], ends, strict=True):
            assert a.moved(int(end)).delay == pytest.approx(b.delay, abs=1e-18, rel=1e-9)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (([], [0.0], 1.0), "delay is"),
        (([1.0], [], 1.0), "phase is"),
        (([np.nan], [0.0], 1.0), "finite"),
        (([0.0], [np.inf], 1.0), "finite"),
        (([0.0], [0.0], 0.0), "positive"),
        (([0.0], [0.0], np.inf), "positive"),
    ],
)
def test_what_is_none(arguments, why):
    with pytest.raises(ValueError, match=why):
        DelayPolynomial(*arguments)


def test_too_many_lines():
    with pytest.raises(ValueError, match=f"at most {MOST_MODELS}"):
        DelayPolynomial([0, 0, 1e-3], [0.0], 60.0).models(0, RATE, 1.4e9)
