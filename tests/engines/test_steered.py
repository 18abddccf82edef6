"""Controls of an F-engine's gains and delays: what is asked is checked as a whole, and what is answered is what holds."""

import numpy as np
import pytest

from ryle.array.delays import window_centres
from ryle.config import changed
from ryle.engines.steered import SteeringControls
from ryle.engines.steering import Steering
from ryle.monitor.control import pack, unpack
from ryle.receive.windows import window_shape
from ryle.stream.metrics import Registry


@pytest.fixture
def steered(observe):
    """Controls of the last two of three antennas, whose inputs are 2 to 5; and what they steer."""
    o = changed(observe(antennas=3, max_delay=1e-5), fengine={"batch": 128})
    steering = Steering(o, range(1, 3))
    m = Registry()
    SteeringControls(o, range(1, 3), steering).register(m)
    return o, steering, m


def batch(o, steering, number):
    """Go on to a batch; give delays in samples and gains, if they are new."""
    first = number * window_shape(o).batch
    found = steering.delays(first)
    return found.coarse + found.fine, steering.new_gains(first)


def test_what_is_answered_is_what_holds(steered, rng):
    o, steering, m = steered
    size, step = window_shape(o).batch, o.step
    geometry = Steering(o, range(1, 3))
    batch(o, steering, 0)
    assert m.values()["next_sample"] == size * step
    gains = rng.normal(size=(2, o.fengine.channels)) + 1j * rng.normal(size=(2, o.fengine.channels))
    answer = m.controls["gains"].set({"gains": gains, "inputs": [5, 2], "sample": 2 * size * step - 1})
    assert answer == {"sample": 2 * size * step}
    # As JSON has them: pairs of reals; on all channels of one input.
    assert m.controls["gains"].set({"gains": [[[0.5, -1.0]]], "inputs": [3]})["sample"] == size * step
    answer = m.controls["delays"].set({"models": [3e-6, 0, 0.5, 0], "inputs": [4], "sample": size * step + 1})
    assert answer == {"sample": (size + 64) * step}
    delays, found = batch(o, steering, 1)
    np.testing.assert_array_equal(found[1], np.full(o.fengine.channels, 0.5 - 1j, np.complex64))
    np.testing.assert_array_equal(found[[0, 2, 3]], o.gains[[2, 4, 5]])
    wanted, _ = batch(o, geometry, 1)
    np.testing.assert_array_equal(delays[:, :64], wanted[:, :64])
    np.testing.assert_array_equal(delays[[0, 1, 3], 64:], wanted[[0, 1, 3], 64:])
    np.testing.assert_allclose(delays[2, 64:], 3e-6 * float(o.sample_rate), rtol=0, atol=1e-9)
    _, found = batch(o, steering, 2)
    np.testing.assert_array_equal(found[3], gains[0].astype(np.complex64))
    np.testing.assert_array_equal(found[0], gains[1].astype(np.complex64))
    values = m.values()
    assert (values["gains_set"], values["delays_set"], values["late_controls"]) == (2, 1, 0)
    assert m.controls["delays"].get() == (size + 64) * step
    np.testing.assert_allclose(values["input_delay"][2], 3e-6, rtol=1e-9)


def test_a_model_is_reached_at_its_start(steered):
    """A tracker sends models with the time at which they hold exactly; they are valid from another on."""
    o, steering, m = steered
    size, step, rate = window_shape(o).batch, o.step, float(o.sample_rate)
    sample, start = 4 * size * step, 4 * size * step - 12345
    m.controls["delays"].set({"models": [[1e-6, 1e-3, 0, 0]] * 4, "sample": sample, "start": start})
    delays, _ = batch(o, steering, 4)
    centres = sample + np.arange(size) * step + step * o.fengine.taps // 2
    wanted = 1e-6 * rate + 1e-3 * (centres - start)
    np.testing.assert_allclose(delays, np.broadcast_to(wanted, delays.shape), rtol=0, atol=1e-6)


REFUSED = [
    ("gains", {}, "give gains, inputs, sample"),
    ("gains", None, "give gains"),
    ("gains", [1], "give gains"),
    ("gains", {"gains": 1, "when": 3}, "no when"),
    ("gains", {"gains": "x"}, "numbers"),
    ("gains", {"gains": [1, [2, 3]]}, "inhomogeneous"),
    ("gains", {"gains": float("nan")}, "finite"),
    ("gains", {"gains": 1e300}, "finite"),
    ("gains", {"gains": {"re": 1}}, "numbers"),
    ("gains", {"gains": np.ones((3, 1), np.complex64)}, "do not fit"),
    ("gains", {"gains": 1, "inputs": [1]}, "input 1 is not this engine's, whose inputs are 2 to 5"),
    ("gains", {"gains": 1, "inputs": [6]}, "input 6 is not"),
    ("gains", {"gains": 1, "inputs": []}, "list of numbers"),
    ("gains", {"gains": 1, "inputs": ["2"]}, "list of numbers"),
    ("gains", {"gains": 1, "inputs": [True]}, "list of numbers"),
    ("gains", {"gains": 1, "inputs": [2, 2]}, "twice"),
    ("gains", {"gains": 1, "sample": -1}, "time stamp"),
    ("gains", {"gains": 1, "sample": 1e9}, "time stamp"),
    ("gains", {"gains": 1, "sample": 1 << 70}, "time stamp"),
    ("gains", {"gains": 1, "sample": 0}, "late: sample 0 has passed; changes can be made from sample"),
    ("delays", {"gains": 1}, "give inputs, models, sample, start"),
    ("delays", {"models": [1, 2, 3]}, "delay, rate, phase, phase_rate of each of 4 inputs"),
    ("delays", {"models": [[1e-9, 0, 0, 0]] * 3}, "of each of 4"),
    ("delays", {"models": [1e-9, 0, float("inf"), 0]}, "finite"),
    ("delays", {"models": [1e-9, 1.0, 0, 0]}, "between"),
    ("delays", {"models": [[1e-9, 0, 0, 0], [0, 0, 0, 0], [2e-5, 0, 0, 0], [0, 0, 0, 0]]}, "of input 4 is beyond"),
    ("delays", {"models": [1e-9, 0.99, 0, 0], "start": 0, "sample": 10**9}, r"beyond fengine\.max_delay"),
    ("delays", {"models": [1e-9, 0, 0, 0], "start": "now"}, "time stamp"),
    ("delays", {"models": [1e-9, 0, 0, 0], "sample": 5}, "late: sample 5"),
    ("delays", {"models": "fast"}, "of each of 4 inputs"),
]


@pytest.mark.parametrize(("key", "value", "why"), REFUSED)
def test_what_is_refused_changes_nothing(steered, observe, key, value, why):
    o, steering, m = steered
    untouched = Steering(o, range(1, 3))
    batch(o, steering, 0), batch(o, untouched, 0)
    with pytest.raises((ValueError, TypeError), match=why):
        m.controls[key].set(value)
    for number in (1, 2, 10**7 // window_shape(o).batch):
        delays, gains = batch(o, steering, number)
        np.testing.assert_array_equal(delays, batch(o, untouched, number)[0])
        assert gains is None
    values = m.values()
    assert values["gains_set"] == values["delays_set"] == 0
    assert values["late_controls"] == ("late" in why)


def test_requests_come_as_they_were_sent(rng):
    """Whatever is packed: arrays that are no C order, integers and floats of other sizes, numpy's scalars."""
    sent = {"a": rng.normal(size=(4, 6))[::2, ::-3], "b": np.arange(5, dtype=np.int16), "c": np.float32(0.1), "d": "ü"}
    data = pack(sent)
    text = int.from_bytes(data[4:8], "little")
    found = unpack(data[12 : 12 + text], data[12 + text :])
    np.testing.assert_array_equal(found["a"], sent["a"])
    np.testing.assert_array_equal(found["b"], sent["b"])
    assert found["b"].dtype == np.int64 and found["c"] == float(np.float32(0.1)) and found["d"] == "ü"


def test_a_phase_centre_holds_from_an_integration_on(steered):
    """Of the X-engines: the first that begins at the time asked for, or later."""
    o, steering, m = steered
    batch(o, steering, 0)
    unit = o.integration_spectra * o.step
    answer = m.controls["phase_centre"].set({"ra": 100.5, "dec": -31, "sample": 3 * unit + 1})
    assert answer == {"sample": 4 * unit}
    towards = Steering(changed(o, phase_centre={"ra": 100.5, "dec": -31.0}), range(1, 3))
    old, size = Steering(o, range(1, 3)), window_shape(o).batch
    for number in range(1, 4 * o.integration_spectra // size + 2):
        wanted = towards if number * size >= 4 * o.integration_spectra else old
        np.testing.assert_array_equal(batch(o, steering, number)[0], batch(o, wanted, number)[0])
    assert m.controls["phase_centre"].set({"ra": None, "dec": None})["sample"] % unit == 0
    assert m.values()["phase_centres_set"] == 2
    for value, why in [
        (None, "give ra and dec"),
        ({"ra": 5}, "give ra and dec"),
        ({"ra": 5, "dec": 5, "name": "x"}, "give ra and dec"),
        ({"ra": 5, "dec": 91}, "give degrees"),
        ({"ra": float("nan"), "dec": 9}, "give degrees"),
        ({"ra": True, "dec": 9}, "give degrees"),
        ({"ra": None, "dec": 9}, "give degrees"),
        ({"ra": "5", "dec": 9}, "give degrees"),
        ({"ra": 5, "dec": 9, "sample": 0.5}, "sample is 0.5"),
        ({"ra": 5, "dec": 9, "sample": 0}, "late: sample 0 has passed"),
    ]:
        with pytest.raises(ValueError, match=why):
            m.controls["phase_centre"].set(value)
    assert m.values()["phase_centres_set"] == 2 and m.values()["late_controls"] == 1


def test_gains_are_read_as_they_will_be(steered, rng):
    o, steering, m = steered
    read = m.controls["read_gains"].set
    batch(o, steering, 0)
    found = read({})
    np.testing.assert_array_equal(found["gains"], o.gains[2:6])
    assert found["sample"] == 0
    new = (rng.normal(size=o.fengine.channels) + 1j).astype(np.complex64)
    told = m.controls["gains"].set({"gains": new[np.newaxis], "inputs": [4]})
    found = read({"inputs": [5, 4]})
    np.testing.assert_array_equal(found["gains"], [o.gains[5], new])
    assert found["sample"] == told["sample"] > 0
    for value in ({"inputs": [1]}, {"gains": 1}, 5, {"inputs": []}):
        with pytest.raises(ValueError, match="input"):
            read(value)


def test_polynomials_are_followed(steered, rng):
    """From the block of 64 spectra on that was promised, wherever in the polynomial that is; then in a straight line."""
    o, steering, m = steered
    size, rate = window_shape(o).batch, float(o.sample_rate)
    batch(o, steering, 0)
    polynomials = m.controls["polynomials"].set
    delay = np.array([[1e-6, 2e-8, -3e-7, 1e-7], [-2e-6, 0, 5e-8, 0]])
    start, seconds = size * o.step // 3, 0.5
    answer = polynomials(
        {
            "delay": delay,
            "phase": [0.5, -1.0],
            "seconds": seconds,
            "inputs": [3, 5],
            "sample": size * o.step,
            "start": start,
        }
    )
    assert answer == {"sample": size * o.step}
    geometry = Steering(o, range(1, 3))
    for number in (1, 2, 5, 40, 400):
        found, first = steering.delays(number * size), number * size
        wanted = geometry.delays(first)
        centres = window_centres(first, size, o.fengine.channels, o.fengine.taps)
        t = (centres - start) / rate
        for row, i in enumerate((1, 3)):
            seen = (found.coarse[i] + found.fine[i]) / rate
            if t[-1] < seconds:
                error = 1e-3 / (2 * np.pi * o.sky_frequencies.max())
                np.testing.assert_allclose(seen, np.polyval(delay[row, ::-1], t), rtol=0, atol=1.01 * error)
                np.testing.assert_allclose(found.phase[i], 0.5 - t, rtol=0, atol=1.01e-3)
            else:
                assert np.abs(np.diff(seen, 2)).max() < 1e-15
        np.testing.assert_array_equal(found.fine[[0, 2]], wanted.fine[[0, 2]])
    assert m.values()["delays_set"] == 1
    for value, why in [
        ({"seconds": 1.0}, "give delay"),
        ({"delay": [1e-9]}, "seconds is None"),
        ({"delay": [], "seconds": 1}, "delay must be finite"),
        ({"delay": [[1e-9], [1e-9]], "seconds": 1}, "each of 4 inputs"),
        ({"delay": ["x"], "seconds": 1}, "coefficients of each"),
        ({"delay": [float("nan")], "seconds": 1}, "finite"),
        ({"delay": [1e-9], "seconds": -1}, "positive time"),
        ({"delay": [1e-9], "seconds": "1"}, "seconds is '1'"),
        ({"delay": [0, 1e-4], "seconds": 1}, r"beyond fengine\.max_delay"),
        ({"delay": [0], "phase": [0, 0, 1e9], "seconds": 3.1}, "straight lines"),
        ({"delay": [0], "seconds": 1, "sample": 0}, "late"),
        ({"delay": [0], "seconds": 1, "models": 0}, "no models"),
    ]:
        with pytest.raises(ValueError, match=why):
            polynomials(value)
    assert m.values()["delays_set"] == 1
