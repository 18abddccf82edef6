"""The F-engine by itself: what it refuses, and what it finds out about its inputs on the way."""

import numpy as np
import pytest

import fresh
from ryle.array.tracking import PhaseTracker
from ryle.channelize import Blocks
from ryle.config import changed
from ryle.engines.f import FEngine
from ryle.engines.steering import Steering
from ryle.simulate import VoltageSimulator


def test_a_delay_that_will_be_too_long_is_told_beforehand(observe):
    o = observe(max_delay=1e-9)
    with pytest.raises(ValueError, match=r"antenna A\d.*max_delay"):
        FEngine(o, range(3), Blocks())


def test_input_power_and_adc_histogram(observe):
    o = changed(observe(duration=0.2), simulate={"rms": 20.0})
    simulator, engine = VoltageSimulator(o), FEngine(o, range(3), Blocks())
    for chunk in simulator.chunks():
        list(engine.push(chunk))
    list(engine.flush())
    rms = np.sqrt(engine.power / engine.samples)
    np.testing.assert_allclose(rms, simulator.digitizer.rms, rtol=0.01)
    levels, counts = engine.adc.levels, engine.adc.counts
    assert counts.sum(axis=1).min() > 0
    assert np.ptp(counts.sum(axis=1)) <= o.digitizer.heap_samples  # inputs take turns
    spread = np.sqrt((counts * levels**2).sum(axis=1) / counts.sum(axis=1))
    np.testing.assert_allclose(spread, rms, rtol=0.2)
    assert (engine.values > 0).all() and (engine.saturated <= engine.values).all()


def test_astrometry_is_ready_before_samples_come(observe, monkeypatch):
    """The first batch of an observation without an end stalls for no tables: packets would be lost meanwhile."""
    endless = changed(observe(), observation={"duration": None}, simulate={"replay": "20 ms"})
    assert endless.end_sample is None
    engine = FEngine(endless, range(3), Blocks())
    monkeypatch.setattr(PhaseTracker, "load", lambda *_: pytest.fail("delays were not there"))
    for chunk in VoltageSimulator(observe(duration=0.2)).chunks():
        list(engine.push(chunk))
    list(engine.flush())
    assert (engine.samples > 0).all()


def test_engines_of_some_antennas_track_as_one_of_all_does(observe):
    """Delays are the same to the last bit, however antennas are shared among engines: so are the spectra, then."""
    o = observe(antennas=4)
    first = int(fresh.rng().integers(0, 1 << 30))
    whole = Steering(o, range(4)).delays(first)
    assert (whole.fine != 0).any()
    for part in (range(0, 1), range(1, 3), range(3, 4)):
        some = Steering(o, part).delays(first)
        for name in ("coarse", "fine", "phase"):
            here = slice(part.start * o.pols, part.stop * o.pols)
            np.testing.assert_array_equal(getattr(some, name), getattr(whole, name)[here])
