from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from ryle.array.delays import DelaySchedule, LinearDelayModel, evaluate_inputs, window_centres


def test_linear_model_by_hand() -> None:
    # 100 ns and 1 ns/s at 1 GHz: 100 samples, one more a second.
    model = LinearDelayModel(5_000_000_000, 1e9, delay=100e-9, rate=1e-9, phase=0.5, phase_rate=-2.0)
    got = model.evaluate([5_000_000_000, 5_250_000_000, 6_000_000_000, 7_500_000_000, 4_000_000_000])
    np.testing.assert_array_equal(got.coarse, [100, 100, 101, 102, 99])
    np.testing.assert_allclose(got.fine, [0, 0.25, 0, 0.5, 0], atol=1e-12)
    np.testing.assert_allclose(got.phase, [0.5, 0.0, -1.5, -4.5, 2.5], atol=1e-12)
    assert got.coarse.dtype == np.int64
    assert got.fine.dtype == got.phase.dtype == np.float64


def test_halves_round_to_even_and_fine_stays_within_half() -> None:
    got = LinearDelayModel(0, 1.0, rate=0.5).evaluate(np.arange(8))
    np.testing.assert_array_equal(got.coarse, [0, 0, 1, 2, 2, 2, 3, 4])
    np.testing.assert_array_equal(got.fine, [0, 0.5, 0, -0.5, 0, 0.5, 0, -0.5])


def test_precision_at_large_counts(rng: np.random.Generator) -> None:
    start = 10**15 + int(rng.integers(10**6))
    rate_hz, delay, rate, phase_rate = 1.712e9, 79.53e-6, 1.37e-9, 7.25
    model = LinearDelayModel(start, rate_hz, delay, rate, 0.25, phase_rate)
    counts = start + rng.integers(0, 10 * 1712000000, 100)
    got = model.evaluate(counts)
    for count, coarse, fine, phase in zip(counts.tolist(), got.coarse.tolist(), got.fine, got.phase, strict=True):
        past = count - start
        exact = Fraction(delay) * Fraction(rate_hz) + Fraction(rate) * past
        assert abs(coarse + Fraction(float(fine)) - exact) < Fraction(1, 10**9)
        assert abs(phase - (0.25 + phase_rate * past / rate_hz)) < 1e-12
        assert abs(fine) <= 0.5
    # Neighbouring samples at 1e15 are told apart.
    steep = LinearDelayModel(start, 1.0, rate=0.25).evaluate([start + 1, start + 2])
    np.testing.assert_array_equal(steep.fine, [0.25, 0.5])


def test_window_centres() -> None:
    # Spectrum m of 8 channels and 4 taps covers [16m, 16m + 64) of real input.
    np.testing.assert_array_equal(window_centres(0, 3, 8, 4), [32, 48, 64])
    np.testing.assert_array_equal(window_centres(10**11, 1, 4096, 16), [2 * 4096 * 10**11 + 4096 * 16])
    # Complex input: [8m, 8m + 32).
    np.testing.assert_array_equal(window_centres(5, 2, 8, 4, real=False), [56, 64])
    assert window_centres(0, 1, 8, 4).dtype == np.int64


def test_schedule_switches_at_the_sample() -> None:
    schedule = DelaySchedule([LinearDelayModel(100, 1.0, 3.0), LinearDelayModel(200, 1.0, 7.0, phase=1.0)])
    got = schedule.evaluate([0, 99, 100, 199, 200, 10**15])
    np.testing.assert_array_equal(got.coarse, [0, 0, 3, 3, 7, 7])
    np.testing.assert_array_equal(got.phase, [0, 0, 0, 0, 1, 1])
    np.testing.assert_array_equal(schedule.evaluate([250, 0, 150]).coarse, [7, 0, 3])
    assert schedule.evaluate(np.zeros(0, np.int64)).coarse.shape == (0,)
    assert DelaySchedule().evaluate([1, 2]).fine.tolist() == [0, 0]


def test_a_new_model_drops_those_that_start_at_or_after_it() -> None:
    schedule = DelaySchedule([LinearDelayModel(start, 1.0, start) for start in (10, 20, 30)])
    schedule.add(LinearDelayModel(20, 1.0, -1.0))
    assert [(m.start, m.delay) for m in schedule.models] == [(10, 10), (20, -1)]
    schedule.add(LinearDelayModel(5, 1.0, 5.0))
    assert [m.start for m in schedule.models] == [5]
    schedule.extend([LinearDelayModel(start, 1.0) for start in (5, 6, 9)])
    assert [m.start for m in schedule.models] == [5, 6, 9]
    schedule.extend([LinearDelayModel(start, 1.0) for start in (7, 8)])
    assert [m.start for m in schedule.models] == [5, 6, 7, 8]
    schedule.extend([])
    with pytest.raises(ValueError, match="increasing order"):
        schedule.extend([LinearDelayModel(9, 1.0), LinearDelayModel(9, 1.0)])


def test_prune_keeps_what_is_still_needed(rng: np.random.Generator) -> None:
    starts = np.unique(rng.integers(0, 1000, 50)).tolist()
    schedule = DelaySchedule([LinearDelayModel(start, 1.0, start / 2, rate=0.1) for start in starts])
    counts = np.arange(1200)
    before = schedule.evaluate(counts)
    for now in sorted(rng.integers(0, 1200, 8).tolist()):
        schedule.prune(now)
        after = schedule.evaluate(counts[now:])
        np.testing.assert_array_equal(after.coarse, before.coarse[now:])
        np.testing.assert_array_equal(after.fine, before.fine[now:])
    assert len(schedule.models) < len(starts)


def test_schedule_against_a_plain_loop(rng: np.random.Generator) -> None:
    starts = np.unique(rng.integers(0, 10**6, 40)).tolist()
    models = [
        LinearDelayModel(s, 1e6, rng.normal(0, 1e-4), rng.normal(0, 1e-3), rng.normal(), rng.normal()) for s in starts
    ]
    schedule = DelaySchedule(models)
    counts = rng.integers(starts[0], 2 * 10**6, 500)
    got = schedule.evaluate(counts)
    for i, count in enumerate(counts.tolist()):
        model = [m for m in models if m.start <= count][-1]
        one = model.evaluate([count])
        assert (got.coarse[i], got.fine[i], got.phase[i]) == (one.coarse[0], one.fine[0], one.phase[0])


def test_inputs_are_stacked() -> None:
    models = [LinearDelayModel(0, 1.0, 1.25), DelaySchedule(), LinearDelayModel(0, 1.0, -2.25, phase_rate=1.0)]
    got = evaluate_inputs(models, [0, 4])
    np.testing.assert_array_equal(got.coarse, [[1, 1], [0, 0], [-2, -2]])
    np.testing.assert_array_equal(got.fine, [[0.25, 0.25], [0, 0], [-0.25, -0.25]])
    np.testing.assert_array_equal(got.phase, [[0, 0], [0, 0], [0, 4]])
    assert evaluate_inputs([], [0, 4]).coarse.shape == (0, 2)


def test_inputs_together_are_as_each_alone(rng):
    """Schedules that change at the same counts, as those from geometry do, and others: the same bits."""

    def schedule(starts, rate=1.7e9):
        numbers = rng.normal(size=(len(starts), 4)) * [1e-7, 1e-9, 2.0, 30.0]
        return DelaySchedule([LinearDelayModel(s, rate, *map(float, n)) for s, n in zip(starts, numbers, strict=True)])

    counts = np.sort(rng.integers(0, 10**13, 50)) + np.arange(50)
    starts = sorted({int(s) for s in rng.integers(0, 10**13, 6)})
    later = [s + 1 for s in starts]
    cases = (
        [schedule(starts) for _ in range(7)],
        [schedule(starts[:1])] * 2,
        [schedule(starts), schedule(later)],
        [schedule(starts), schedule(starts, 1.6e9)],
        [schedule(starts), DelaySchedule()],
        [schedule([int(counts[-1]) + 1])] * 2,
        [schedule(starts), LinearDelayModel(3, 1e9, 1e-6)],
    )
    for models in cases:
        for at in (counts, counts[::-1].copy(), counts[:1]):
            got, wanted = evaluate_inputs(models, at), [m.evaluate(at) for m in models]
            for name in ("coarse", "fine", "phase"):
                np.testing.assert_array_equal(getattr(got, name), [getattr(w, name) for w in wanted])


def test_many_at_once_are_as_each_alone(rng):
    """So many that several threads share them; some of delays beyond those that are rounded by adding."""
    starts, counts = [0, 10**6, 3 * 10**6], np.sort(rng.integers(0, 5 * 10**6, 4000))
    models = []
    for n in range(150):
        numbers = rng.normal(size=(3, 4)) * [1e-3 if n % 7 else 1e7, 1e-9, 2.0, 30.0]
        chosen = zip(starts[n % 3 :], numbers, strict=False)
        models.append(DelaySchedule([LinearDelayModel(start, 1.7e9, *map(float, m)) for start, m in chosen]))
    got, wanted = evaluate_inputs(models, counts), [m.evaluate(counts) for m in models]
    for name in ("coarse", "fine", "phase"):
        np.testing.assert_array_equal(getattr(got, name), [getattr(w, name) for w in wanted])
    assert np.abs(got.coarse).max() > 2.0**51


def test_bad_models_are_refused() -> None:
    for arguments, message in [
        ({"rate": 1.0}, "between −1 and 1"),
        ({"rate": -1.5}, "between −1 and 1"),
        ({"delay": float("nan")}, "delay is nan"),
        ({"phase_rate": float("inf")}, "phase_rate is inf"),
        ({"start": -1}, "lies before sync_time"),
        ({"sample_rate": 0.0}, "must be positive"),
    ]:
        with pytest.raises(ValueError, match=message):
            LinearDelayModel(**{"start": 0, "sample_rate": 1.0, **arguments})
