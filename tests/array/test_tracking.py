from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from astropy import units
from astropy.coordinates import TETE, AltAz, SkyCoord

from ryle.array.delays import DelaySchedule, evaluate_inputs
from ryle.array.direction import ZENITH, Fixed, Sidereal
from ryle.array.geometry import Location
from ryle.array.time import SyncTime
from ryle.array.tracking import SPEED_OF_LIGHT, Antennas, PhaseTracker

KAROO = Location(-30.7128, 21.4436, 1051.0)
RATE = 1712000000
SYNC = SyncTime("2026-03-20T20:00:00Z", RATE)
DAY = 86400 * RATE


def array(enu: list[list[float]], pols: int = 2, location: Location = KAROO) -> Antennas:
    return Antennas(location, [f"m{i:03d}" for i in range(len(enu))], np.array(enu), np.zeros((len(enu), pols)))


def tracker(antennas: Antennas, **changes: object) -> PhaseTracker:
    base = PhaseTracker(SYNC, antennas, Sidereal(187.3, -12.4), 1.284e9, 1.4e9)
    return replace(base, **changes)


LARGE = array([[0, 0, 0], [20e3, 0, 0], [0, 20e3, 0], [-14e3, 14e3, 30]])


def test_a_source_in_the_east_reaches_the_eastern_antenna_first() -> None:
    antennas = array([[-100, 0, 0], [100, 0, 0]])
    find = tracker(antennas)
    counts = np.arange(0, DAY, 600 * RATE)
    times = SYNC.time(counts)
    frame = AltAz(obstime=times, location=KAROO.earth_location, pressure=0 * units.hPa)
    seen = SkyCoord(187.3, -12.4, unit="deg").transform_to(frame)
    east = np.sin(seen.az.rad) * np.cos(seen.alt.rad)
    tau = find.geometric_delays(counts)
    # The wave meets the antenna nearer the source early, so that it must be delayed: tau > 0.
    np.testing.assert_allclose(tau[:, 1], 100 * east / SPEED_OF_LIGHT, atol=1e-17)
    np.testing.assert_allclose(tau[:, 0], -tau[:, 1], atol=1e-17)
    rising = (seen.alt.deg > 0) & (seen.az.deg < 180)
    assert rising.any()
    assert (tau[rising, 1] > 0).all()
    np.testing.assert_allclose(find.elevation(counts), seen.alt.deg, atol=1e-7)


def test_fringe_rate_at_transit() -> None:
    # dτ/dt = −ω cos(dec) E/c at transit: 7.2921e-5 · cos(12.5°) · 100 / c = 2.375e-11 s/s, falling.
    find = tracker(array([[100, 0, 0]]))
    counts = np.arange(0, DAY, 10 * RATE)
    tau = find.geometric_delays(counts)[:, 0]
    slope = np.gradient(tau, 10.0)
    transit = np.flatnonzero((tau[:-1] > 0) & (tau[1:] <= 0))[0]
    declination = np.radians(-12.4 - 0.146)  # of date: 26.2 years of 20.04″ cos(RA)
    assert slope[transit] == pytest.approx(-7.2921150e-5 * np.cos(declination) * 100 / SPEED_OF_LIGHT, rel=3e-4)
    model = find.models(int(counts[transit]), int(counts[transit]) + 1)[0][0]
    assert model.rate == pytest.approx(slope[transit], rel=1e-4)
    assert model.phase_rate == pytest.approx(-2 * np.pi * 1.284e9 * slope[transit], rel=1e-4)


@pytest.mark.parametrize("error", [1e-3, 1e-2])
def test_segments_keep_the_phase_over_a_day(error: float, rng: np.random.Generator) -> None:
    direction = Sidereal(rng.uniform(0, 360), rng.uniform(-90, 90))
    find = tracker(LARGE, direction=direction, max_phase_error=error)
    counts, tau = find.nodes(0, DAY)
    assert counts[0] == 0
    assert counts[-1] >= DAY
    assert (np.diff(counts) == find.segment).all()
    worst = 0.0
    for part in (0.0, 0.5, rng.uniform()):
        exact = find.delays(counts[:-1] + round(part * find.segment))
        line = tau[:-1] + round(part * find.segment) / find.segment * (tau[1:] - tau[:-1])
        worst = max(worst, 2 * np.pi * 1.4e9 * np.abs(line - exact).max())
    assert worst <= error
    # The nearer the pole of date, the slower the delays; no segment is shorter than a source on the equator asks for.
    of_date = SkyCoord(direction.ra, direction.dec, unit="deg").transform_to(TETE(obstime=SYNC.time([DAY // 2])[0]))
    assert worst > 0.9 * error * np.cos(of_date.dec.rad) - 1e-6 * error
    # 2π · 1.4 GHz · (ω² 20 km / c) L²/16 = 0.001 at L = 2.266 s.
    assert find.segment / RATE == pytest.approx(0.95 * 2.266 * np.sqrt(error / 1e-3), rel=1e-3)


def test_models_are_continuous_and_do_not_depend_on_the_range_asked_for(rng: np.random.Generator) -> None:
    find = tracker(LARGE, sideband=-1)
    start = int(rng.integers(10**12, DAY))
    models = find.models(start, start + 60 * RATE)
    assert len(models) == 8
    for queue in models:
        assert queue[0].start <= start
        for a, b in pairwise(queue):
            seconds = (b.start - a.start) / RATE
            assert a.delay + a.rate * seconds == pytest.approx(b.delay, abs=1e-17)
            turn = (a.phase + a.phase_rate * seconds - b.phase) / (2 * np.pi)
            assert turn == pytest.approx(round(turn), abs=1e-8)
    later = find.models(start + 30 * RATE, start + 31 * RATE)
    for queue, again in zip(models, later, strict=True):
        for model in again:
            (same,) = [m for m in queue if m.start == model.start]
            assert model == same  # to the last bit: a value rounds the other way for less


@pytest.mark.parametrize("sideband", [1, -1])
@pytest.mark.parametrize("offset", [0, 1000])
def test_tracking_aligns_a_plane_wave_in_every_channel(sideband: int, offset: int, rng: np.random.Generator) -> None:
    """Follow the carrier e^{j2πft} of each channel through receiver, coarse delay, fine delay and phase (DESIGN §3)."""
    antennas = replace(LARGE, instrumental=rng.uniform(-1e-7, 1e-7, (4, 2)))
    n, taps = 64, 4
    centre = 1.284e9
    find = tracker(antennas, sideband=sideband, offset=offset, highest_frequency=centre + RATE / 4)
    first = int(rng.integers(10**9)) + 10**10
    counts = np.arange(first, first + 5, dtype=np.int64) * 2 * n + n * taps
    schedules = [DelaySchedule() for _ in range(8)]
    find.load(schedules, int(counts[0]), int(counts[-1]) + 1)
    delays = evaluate_inputs(schedules, counts)
    channel = np.arange(n)
    baseband = channel * RATE / (2 * n)
    sky = centre + sideband * (channel - n / 2) * RATE / (2 * n)
    # Input sample j carries phase s·2πf·(t_j + τ_true) less the local oscillator's, which all antennas share.
    arrival = find.geometric_delays(counts)[:, :, None] - antennas.instrumental
    for antenna in range(4):
        for pol in range(2):
            i = 2 * antenna + pol
            received = sideband * 2 * np.pi * sky * arrival[:, antenna, pol, None]
            read = -2 * np.pi * baseband * delays.coarse[i][:, None] / RATE
            turned = (
                -np.pi * delays.fine[i][:, None] * (channel - n / 2) / n
                + delays.phase[i][:, None]
                + np.pi / 2 * (delays.coarse[i][:, None] % 4)
            )
            # What is left must be the same for all inputs: the common offset.
            common = -2 * np.pi * (baseband - RATE / 4) * offset / RATE
            residual = np.exp(1j * (received + read + turned - common))
            assert np.abs(np.angle(residual)).max() < 1.1e-3


def test_w_is_the_tracked_delay(rng: np.random.Generator) -> None:
    for direction in (Sidereal(rng.uniform(0, 360), rng.uniform(-90, 90)), ZENITH, Fixed(70, 40)):
        find = tracker(LARGE, direction=direction, offset=12345)
        counts = rng.integers(0, DAY, 6)
        np.testing.assert_allclose(find.uvw(counts)[:, :, 2], find.geometric_delays(counts) * SPEED_OF_LIGHT, atol=1e-7)
        # Time, delays and uvw are all those of the wave, which the common offset delays.
        np.testing.assert_array_equal(find.wave_time(counts).jd2, SYNC.time(counts - 12345).jd2)
        np.testing.assert_array_equal(find.uvw(counts), replace(find, offset=0).uvw(counts - 12345))


def test_fixed_and_untracked_arrays_have_constant_models() -> None:
    instrumental = np.array([[1e-8, 2e-8], [-3e-8, 0.0]])
    antennas = replace(array([[0, 0, 0], [0, 30, 40]]), instrumental=instrumental)
    for direction, geometric in [(None, 0.0), (ZENITH, 40 / SPEED_OF_LIGHT), (Fixed(0, 0), 30 / SPEED_OF_LIGHT)]:
        models = tracker(antennas, direction=direction).models(5 * RATE, DAY)
        assert [len(queue) for queue in models] == [1, 1, 1, 1]
        for queue, delay in zip(models, [-1e-8, -2e-8, geometric + 3e-8, geometric], strict=True):
            assert queue[0].start <= 5 * RATE
            assert queue[0].delay == pytest.approx(delay, abs=1e-20)
            assert (queue[0].rate, queue[0].phase_rate) == (0, 0)
            turns = -1.284e9 * delay - queue[0].phase / (2 * np.pi)
            assert turns == pytest.approx(round(turns), abs=1e-9)
    find = tracker(antennas, direction=None)
    np.testing.assert_array_equal(find.uvw([0, 5]), [antennas.enu] * 2)
    assert find.elevation([0]).tolist() == [90]
    still = tracker(array([[0, 0, 0]]), direction=None).models(0, DAY)
    assert [(m.delay, m.phase) for queue in still for m in queue] == [(0, 0), (0, 0)]


def test_loading_ahead_in_overlapping_pieces_equals_loading_at_once(rng: np.random.Generator) -> None:
    find = tracker(LARGE)
    pieces, whole = ([DelaySchedule() for _ in range(8)] for _ in range(2))
    find.load(whole, 0, 60 * RATE)
    edges = [0, *sorted(rng.integers(1, 60 * RATE, 4).tolist()), 60 * RATE]
    for first, end in pairwise(edges):
        find.load(pieces, first, end)
    counts = np.sort(rng.integers(0, 60 * RATE, 300))
    a, b = evaluate_inputs(pieces, counts), evaluate_inputs(whole, counts)
    for one, other in ((a.coarse, b.coarse), (a.fine, b.fine), (a.phase, b.phase)):
        assert np.array_equal(one, other)
    with pytest.raises(ValueError, match="3 delay schedules for 8 inputs"):
        find.load(pieces[:3], 0, RATE)


def test_max_delay_names_the_antenna() -> None:
    far = array([[0, 0, 0], [0, 300, 0], [5000, 0, 0]])
    find = tracker(far, max_delay=2e-6)
    with pytest.raises(
        ValueError, match=r"antenna m002, polarization 0: delay -?\d+\.\d+ µs at 2026-03-2.*max_delay 2.000 µs"
    ):
        find.check_max_delay(0, DAY)
    with pytest.raises(ValueError, match="antenna m002"):
        find.models(0, DAY)
    worst = replace(find, max_delay=20e-6).check_max_delay(0, DAY)
    # A circle of 5 km seen from the pole side: ±5000 cos(dec)/c over a day.
    assert worst == pytest.approx(5000 * np.cos(np.radians(12.55)) / SPEED_OF_LIGHT, rel=1e-3)
    # The common offset counts.
    assert replace(find, max_delay=None, offset=1712).check_max_delay(0, DAY) == pytest.approx(worst + 1e-6, abs=2e-9)
    with pytest.raises(ValueError, match="antenna m000"):
        tracker(array([[0, 0, 0]]), direction=None, offset=3424, max_delay=1.9e-6).check_max_delay(0, DAY)


def test_bad_parameters_are_refused() -> None:
    with pytest.raises(ValueError, match="sideband 0"):
        tracker(LARGE, sideband=0)
    with pytest.raises(ValueError, match="must be positive"):
        tracker(LARGE, max_phase_error=0.0)
    with pytest.raises(ValueError, match="not be empty"):
        tracker(LARGE).models(5, 5)
    with pytest.raises(ValueError, match="start before 0"):
        tracker(LARGE).models(-1, 5)
    with pytest.raises(ValueError, match="2 antennas need positions"):
        Antennas(KAROO, ["a", "b"], np.zeros((3, 3)), np.zeros((2, 2)))
    with pytest.raises(ValueError, match="instrumental delays have shape"):
        Antennas(KAROO, ["a", "b"], np.zeros((2, 3)), np.zeros((2,)))
    with pytest.raises(ValueError, match="antenna b"):
        Antennas(KAROO, ["a", "b"], np.array([[0, 0, 0], [0, np.nan, 0]]), np.zeros((2, 1)))
