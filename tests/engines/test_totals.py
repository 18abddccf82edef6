"""What engines say of their inputs: of the last second, exactly what was counted in it."""

import time

import numpy as np
import pytest

from observations import observe_rows
from ryle.config import changed
from ryle.engines.totals import InputTotals, measure
from ryle.stream.metrics import Registry


@pytest.fixture
def o():
    return observe_rows(antennas=3, channels=48, sub=16)


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def counted(totals, first, valid, rms, saturated=0):
    """Count a batch of ten spectra whose samples have an rms."""
    valid = np.asarray(valid)[:, np.newaxis] & np.ones(10, bool)
    power = (np.asarray(rms) ** 2) * valid.sum(axis=1) * totals._step
    totals.count(first, valid, np.full(len(valid), saturated), power)


def test_figures_are_of_the_last_second(o, clock):
    totals, m = InputTotals(o, 4), Registry()
    measure(m, [totals], o, range(1, 3))
    values = m.values()
    assert values["inputs"] == ["A1 x", "A1 y", "A2 x", "A2 y"] and values["first_input"] == 2
    assert values["full_scale"] == 512.0  # 10 bit
    assert values["input_rms"] == values["input_present"] == values["input_saturated"] == [None] * 4
    counted(totals, 1 << 40, [True] * 4, [10.0, 20.0, 30.0, 40.0])  # it joined late
    clock[0] += 0.5
    values = m.values()
    assert values["input_rms"] == [10.0, 20.0, 30.0, 40.0] and values["input_present"] == [1.0] * 4
    for turn in range(4):  # after two seconds, nothing of the first is left
        counted(totals, 10 * turn, [True, False, True, True], [50.0, 1.0, 60.0, 0.0], saturated=2 * turn)
        clock[0] += 0.5
        values = m.values()
    assert values["input_rms"] == [50.0, None, 60.0, 0.0]
    assert values["input_present"] == [1.0, 0.0, 1.0, 1.0]
    assert values["input_saturated"][::2] == [pytest.approx(10 / (2 * 10 * 48), abs=1e-6)] * 2
    clock[0] += 5  # nothing comes any more: they stay
    assert m.values()["input_rms"] == [50.0, None, 60.0, 0.0]


def test_clipping_is_the_share_at_the_ends(o, clock):
    totals, m = InputTotals(o, 2), Registry()
    measure(m, [totals], o, [0])
    levels = totals.adc.levels.tolist()
    totals.adc.counts[0, levels.index(-512)] += 5
    totals.adc.counts[0, levels.index(511)] += 7
    totals.adc.counts[0, levels.index(-511)] += 8  # some converters are as long to both sides
    totals.adc.counts[0, levels.index(100)] += 60
    totals.adc.counts[1, levels.index(510)] += 100
    clock[0] += 1
    assert m.values()["input_clipped"] == [0.25, 0.0]
    totals.adc.counts[0, levels.index(0)] += 100
    clock[0] += 3
    assert m.values()["input_clipped"] == [0.0, 0.0]  # of one that was not looked at since, as before


@pytest.mark.parametrize(
    ("bits", "full", "told"), [(8, 128.0, True), (2, 2.0, False), (12, 2048.0, True), (32, None, False)]
)
def test_converters_of_other_widths(o, clock, bits, full, told):
    o = changed(o, digitizer={"bits": bits})
    totals, m = InputTotals(o, 2), Registry()
    measure(m, [totals], o, [0])
    totals.adc.counts[:, [0, -1]] += 1
    clock[0] += 1
    values = m.values()
    assert values["full_scale"] == full and values["input_clipped"] == [1.0 if told else None] * 2


def test_several_share_the_inputs(o, clock):
    """Of GPUs, each has some antennas."""
    parts, m = [InputTotals(o, 2), InputTotals(o, 4)], Registry()
    measure(m, parts, o, range(3))
    counted(parts[0], 0, [True] * 2, [1.0, 2.0])
    clock[0] += 1
    assert m.values()["input_rms"] == [1.0, 2.0, None, None, None, None]
    counted(parts[1], 0, [True] * 4, [3.0, 4.0, 5.0, 6.0])
    clock[0] += 0.5
    assert m.values()["input_rms"] == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    assert m.values()["inputs"][-1] == "A2 y"
