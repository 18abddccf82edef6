"""Faults of simulated arrays, through the whole chain: each is named, and nothing is said of healthy ones."""

from dataclasses import replace

import numpy as np
import pytest

from fresh import rng
from glances import glance_of, noise
from ryle.products.observed import input_labels
from ryle.watch.fringes import inputs_of_products
from ryle.watch.suspicions import Interference, fringe_suspicions
from seen import demo, glances_of


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return tmp_path_factory.mktemp("seen")


def found(o, glance):
    return [(s.kind, s.subject, s.text + " " + s.cure) for s in fringe_suspicions(glance, o, input_labels(o))]


def exchanged(o, *pairs):
    order = np.arange(o.n_inputs)
    for a, b in pairs:
        order[[a, b]] = order[[b, a]]
    return order


def test_nothing_is_said_of_a_healthy_array(directory):
    """Gains, phases and bandpasses as they are in the field; a source beside the phase centre; a lower sideband."""
    bad = {"gain_error": 0.2, "phase_error": "180 deg", "bandpass_ripple": 0.1, "delay_error": "2 ns"}
    for o in (
        demo(simulate=bad),
        demo(phase_centre={"ra": "07h01m00s", "dec": "-29d50m00s"}),
        demo(band={"sideband": "lower"}),
    ):
        _, glances = glances_of(o, directory)
        assert len(glances) == 3  # of the last, the beginning
        for glance in glances:
            assert found(o, glance) == []
            assert Interference(o).look(glance, input_labels(o)) == []


def test_nothing_is_said_where_nobody_has_fringes(directory):
    o = demo(simulate={"sources": []})
    _, (glance, *_) = glances_of(o, directory, exchanged(o, (4, 5)))
    assert found(o, glance) == []
    assert found(o.model_copy(update={"phase_centre": None}), glance) == []


def test_an_antenna_without_fringes(directory):
    """Its receiver is on, but hears something else; the antennas beside it do not suffer from it."""
    o = demo()
    random = rng()

    def deaf(chunk):
        chunk.data[6:8] = random.permuted(chunk.data[6:8].reshape(2, -1, 5), axis=1).reshape(chunk.data[6:8].shape)
        return chunk  # whole groups of four samples, in another order

    _, (glance, *_) = glances_of(o, directory, tamper=deaf)
    ((kind, subject, text),) = found(o, glance)
    assert (kind, subject) == ("no fringe", "A3") and "has no fringe" in text

    def half_deaf(chunk):
        chunk.data[7] = random.permuted(chunk.data[7].reshape(-1, 5), axis=0).reshape(chunk.data[7].shape)
        return chunk

    _, (glance, *_) = glances_of(o, directory, tamper=half_deaf)
    assert [each[:2] for each in found(o, glance)] == [("no fringe", "A3 y")]


def test_swapped_polarizations(directory):
    o = demo()
    _, (glance, *_) = glances_of(o, directory, exchanged(o, (8, 9)))
    ((kind, subject, text),) = found(o, glance)
    assert (kind, subject) == ("no fringe", "A4") and "polarizations swapped?" in text


@pytest.mark.parametrize("sideband", ["upper", "lower"])
def test_exchanged_antennas(directory, sideband):
    o = demo(band={"sideband": sideband})
    _, (glance, *_) = glances_of(o, directory, exchanged(o, (4, 14), (5, 15)))
    ((kind, subject, text),) = found(o, glance)
    assert (kind, subject) == ("no fringe", "A2 and A7") and "exchanged?" in text


def test_a_wrong_cable(directory):
    """400 ns more than is told, of one polarization: its spectra turn by that."""
    o = demo()
    _, (glance, *_) = glances_of(o, directory)
    turns = np.exp(-2j * np.pi * 400e-9 * np.arange(32) * (glance.channels / 32) * o.channel_width)
    i, j = inputs_of_products(10, 2).T
    coarse = glance.coarse.copy()
    coarse[:, i == 15] *= turns[:, np.newaxis]
    coarse[:, j == 15] *= turns[:, np.newaxis].conj()
    ((_, subject, text),) = found(o, replace(glance, coarse=coarse))
    assert subject == "A7 y" and "comes later" in text
    assert 350 < float(text.split("stands ")[1].split(" ns")[0]) < 450


def test_far_antennas_may_have_resolved_the_source(directory):
    """An antenna all of whose baselines are longer than any that shows a fringe proves nothing."""
    o = demo()
    antennas = list(o.antennas)
    antennas[9] = antennas[9].model_copy(update={"enu": (9000.0, 0.0, 0.0)})
    far = o.model_copy(update={"array": o.array.model_copy(update={"antennas": antennas})})
    _, (glance, *_) = glances_of(o, directory)
    coarse = glance.coarse.copy()
    ij = inputs_of_products(10, 2) // 2
    coarse[:, (ij[:, 1] == 9) & (ij[:, 0] != 9)] *= 0.01
    silent = replace(glance, coarse=coarse)
    assert [s[1] for s in found(o, silent)] == ["A9"]
    assert found(far, silent) == []


# -- interference ---------------------------------------------------------------------------------------------------


def plain(random, *, antennas=3, pols=2, channels=128, spectra=128, tone=None, strength=0.0, inputs=None):
    x = 5 * noise(random, antennas, pols, channels, spectra)
    if tone is not None:
        heard = x.reshape(antennas * pols, channels, spectra)
        heard[list(range(antennas * pols)) if inputs is None else inputs, tone] *= np.sqrt(strength)
    return glance_of(x, bins=128)


def labels(antennas=3, pols=2):
    return [f"A{a} {p}" for a in range(antennas) for p in "xy"[:pols]]


def test_tones_are_named(directory):
    o = demo(simulate={"rfi": [{"frequency": "1.4004 GHz", "level": 2.0}]})
    _, glances = glances_of(o, directory)
    (said,) = Interference(o).look(glances[0], input_labels(o))
    frequency = float(said.subject.split()[0])
    assert (
        said.kind == "interference" and abs(frequency - 1400.4) < 2 * o.channel_width / 1e6 and "20 inputs" in said.text
    )


def test_weak_tones_and_those_of_one_input_are_not():
    random = rng()
    assert Interference(None).look(plain(random, tone=40, strength=6), labels()) == []
    assert Interference(None).look(plain(random, tone=40, strength=99, inputs=[2]), labels()) == []
    (said,) = Interference(None).look(plain(random, tone=40, strength=40, inputs=[2, 5]), labels())
    assert said.subject == "channel 40" and "2 of 6" in said.text
    assert Interference(None).look(plain(random, tone=0, strength=99), labels()) == []  # an offset of the ADCs


def test_what_comes_over_a_wide_band():
    random, judge = rng(), Interference(None)

    def burst(strength):
        x = 5 * noise(random, 3, 2, 128, 128)
        x[:, :, 30:80] *= np.sqrt(strength)
        return glance_of(x, bins=128)

    for _ in range(6):
        assert judge.look(plain(random), labels()) == []
    found = judge.look(burst(40), labels())
    assert found and all(30 <= int(s.subject.split()[1]) < 80 for s in found)
    assert judge.look(plain(random), labels()) == []


def test_gains_that_are_set_are_no_interference():
    random, judge = rng(), Interference(None)
    for _ in range(6):
        judge.look(plain(random), labels())
    x = 5 * noise(random, 3, 2, 128, 128)
    x[1] *= 8
    assert judge.look(glance_of(x, bins=128), labels()) == []


def test_losses_and_short_averages_are_no_interference():
    """Powers of few values scatter by more than their ratio allows."""
    random, judge = rng(), Interference(None)
    for _ in range(12):
        valid = random.random((3, 2, 128)) < 0.02
        assert judge.look(glance_of(5 * noise(random, 3, 2, 128, 128), valid, bins=128), labels()) == []
    nothing = glance_of(noise(random, 3, 2, 128, 64), np.zeros((3, 2, 64), bool), bins=128)
    assert judge.look(nothing, labels()) == []
    dead = glance_of(np.zeros((3, 2, 128, 64)), bins=128)
    assert judge.look(dead, labels()) == []


def test_other_shapes():
    random, judge = rng(), Interference(None)
    for antennas, pols, channels in [(1, 1, 1), (2, 1, 2), (1, 2, 3), (3, 1, 33), (3, 2, 128)]:
        x = noise(random, antennas, pols, channels, 64)
        assert judge.look(glance_of(x, bins=channels, parts=min(3, channels)), labels(antennas, pols)) == []
