"""Controls of an F-engine's gains and delays: what is asked is checked as a whole, and what is answered is what holds."""

import numpy as np
import pytest

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
