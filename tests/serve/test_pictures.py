"""Parts that the page draws, read back by the words of their description, against the glance that they are of."""

from dataclasses import replace

import numpy as np
import pytest

from fresh import rng
from glances import glance_of, index, noise
from observations import observe_rows
from ryle.config import changed
from ryle.serve.pictures import WANTED, GlancePictures, loss_codes, losses_part, packed, sight_part
from ryle.watch.sight import STAGES, InputSight, Sight
from serve_parts import unpacked
from sights import alarm, engine, look


@pytest.fixture
def random():
    return rng()


@pytest.fixture
def o():
    return observe_rows(antennas=4, channels=64)


@pytest.fixture
def x(random):
    return noise(random, 4, 2, 64, 50) + 0.5 * noise(random, 1, 2, 64, 50)


def hundredths(values):
    return np.where(values == -32768, np.nan, values / 100)


def test_arrays_of_any_length_are_found(random):
    given = {
        "a": random.random(3),
        "b": random.integers(0, 9, (5, 1)).astype(np.uint8),
        "c": np.zeros((0, 2), np.int16),
    }
    header, arrays = unpacked(packed("some", {"word": "ä"}, given))
    assert header["part"] == "some" and header["word"] == "ä"
    for name, array in given.items():
        np.testing.assert_array_equal(arrays[name], array)


@pytest.mark.parametrize("falling", [False, True])
def test_bandpass_lowest_frequency_first(x, o, falling):
    x[1, 1] = 0
    if falling:
        o = changed(o, band={"sideband": "lower", "lo": "100 MHz"})
        assert o.sideband_sign < 0
    glance = glance_of(x, bins=16)
    header, arrays = unpacked(GlancePictures(glance, o, []).part("bandpass"))
    assert header["unit"] == "MHz" and header["number"] == glance.number and header["antennas"] == 4
    sky = o.sky_frequencies.reshape(16, 4).mean(axis=1) / 1e6
    power = 10 * np.log10(np.where(glance.power > 0, glance.power, np.nan))
    order = np.argsort(sky)
    np.testing.assert_allclose(arrays["axis"], sky[order])
    np.testing.assert_allclose(hundredths(arrays["power"]), power[:, order], atol=0.00501)
    assert np.isnan(hundredths(arrays["power"])[3]).all()


def test_without_an_observation_there_are_channels(x):
    header, arrays = unpacked(GlancePictures(glance_of(x, bins=16, first_channel=8), None, []).part("bandpass"))
    assert header["unit"] == "channel"
    np.testing.assert_allclose(arrays["axis"], 8 + np.arange(64).reshape(16, 4).mean(axis=1))


def test_products_in_the_order_of_products(x, o):
    _, arrays = unpacked(GlancePictures(glance_of(x), o, []).part("products"))
    flat = x.reshape(8, -1)
    for a1, p1, a2, p2 in [(0, 0, 1, 0), (1, 1, 3, 0), (2, 0, 2, 1), (3, 1, 3, 1)]:
        i, j = flat[2 * a1 + p1], flat[2 * a2 + p2]
        value = (i * j.conj()).mean() / np.sqrt((np.abs(i) ** 2).mean() * (np.abs(j) ** 2).mean())
        k = index(a1, p1, a2, p2)
        assert hundredths(arrays["coefficient"])[k] == pytest.approx(100 * abs(value), abs=0.006)
        assert hundredths(arrays["phase"])[k] == pytest.approx(np.degrees(np.angle(value)), abs=0.01)
    assert (hundredths(arrays["strength"])[[index(a, p, a, p) for a in range(4) for p in range(2)]] > 10).all()


@pytest.mark.parametrize("inputs", ["0-2", "2-0", "1-6", "3-3"])
@pytest.mark.parametrize("fine", [False, True])
def test_a_baseline(x, o, inputs, fine):
    i, j = sorted(int(n) for n in inputs.split("-"))
    product = index(i // 2, i % 2, j // 2, j % 2)
    glance = glance_of(x, chosen=[product] if fine else [])
    older = replace(glance, number=2, coarse=glance.coarse * 1j)
    history = [Sight(1.0, engines=(engine(),), glance=older), Sight(2.0, engines=(engine(),), glance=glance)]
    header, arrays = unpacked(GlancePictures(glance, o, history).part(f"spectra/{inputs}"))
    assert (header["first"], header["second"], header["fine"]) == (i, j, fine)
    values = glance.spectra[0] if fine else glance.coarse[:, product]
    if o.sideband_sign < 0:
        values = values[::-1]
    np.testing.assert_allclose(arrays["amplitude"], np.abs(values), rtol=1e-6)
    np.testing.assert_allclose(np.exp(1j * np.radians(arrays["phase"])), values / np.abs(values), atol=1e-5)
    widths = np.diff(glance.coarse_edges)
    mean = (widths * glance.coarse[:, product]).sum() / widths.sum()
    np.testing.assert_allclose(arrays["amplitude_in_time"], [abs(mean)] * 2, rtol=1e-5)
    assert arrays["numbers"].tolist() == [2, 3]
    turned = np.exp(1j * np.radians(arrays["phase_in_time"]))
    np.testing.assert_allclose(turned, [1j * mean / abs(mean), mean / abs(mean)], atol=1e-5)
    assert len(arrays["lag"]) == 2 * len(arrays["axis"]) == len(arrays["lag_amplitude"])


def test_closure_phases_of_both_polarizations(x, o):
    glance = glance_of(x, parts=1)
    for p in range(2):
        _, arrays = unpacked(GlancePictures(glance, o, []).part(f"closure/{p}"))
        assert arrays["corners"].tolist() == [[0, 1, 2], [0, 1, 3], [0, 2, 3]]
        v = {(a, b): (x[a, p] * x[b, p].conj()).mean() for a in range(4) for b in range(a + 1, 4)}
        wanted = [np.degrees(np.angle(v[a, b] * v[b, c] * v[a, c].conj())) for a, b, c in arrays["corners"].tolist()]
        np.testing.assert_allclose(hundredths(arrays["phase"]), wanted, atol=0.02)


@pytest.mark.parametrize("part", ["image", "closure/7", "spectra/0-8", "spectra/999999-0"])
def test_what_cannot_be_drawn_says_why(x, part):
    header, arrays = unpacked(GlancePictures(glance_of(x), None, []).part(part))
    assert header["part"] == part and header["problem"] and not arrays


def test_parts_are_made_once(x, o):
    pictures = GlancePictures(glance_of(x), o, [])
    assert pictures.part("bandpass") is pictures.part("bandpass")


def test_losses_keep_five_decades():
    shares = np.array([1.0, 1 - 1e-5, 1 - 1e-3, 0.99, 0.5, 0.0, np.nan, 1 - 1e-9])
    codes = loss_codes(shares)
    assert codes[0] == 1 and codes[6] == 0 and codes[5] == 255 and codes[7] == 2
    back = 10 ** ((codes[1:5].astype(float) - 2) / 50.6 - 5)
    np.testing.assert_allclose(back, 1 - shares[1:5], rtol=0.025)


def test_losses_in_time():
    def seen(time, share):
        present = dict.fromkeys(STAGES) | {"F": share}
        return Sight(time, inputs=(InputSight(0, "A", "x", present=present), InputSight(1, "A", "y")))

    header, arrays = unpacked(losses_part([seen(5.0, 1.0), seen(6.0, 0.0)]))
    assert header["stages"] == list(STAGES) and header["labels"] == ["A x", "A y"]
    assert arrays["times"].tolist() == [5, 6]
    assert arrays["codes"].shape == (4, 2, 2) and arrays["codes"][1, 0].tolist() == [1, 255]
    assert not arrays["codes"][:, 1].any()


def test_the_state_has_what_views_need_and_nothing_that_never_changes():
    header, _ = unpacked(sight_part(look(alarms=(alarm(),), text="long"), None))
    sight = header["sight"]
    assert sight["observation"] == "night 3" and sight["alarms"][0]["cure"] == "mend it" and "text" not in sight
    assert "kinds" not in sight["engines"][0] and sight["engines"][0]["controls"] == []
    assert {v["index"]: v["verdict"] for v in sight["verdicts"]} == {1: "dead", 0: "losses"}


@pytest.mark.parametrize("name", ["sight", "losses", "closure/0", "spectra/12-3", "image"])
def test_parts_that_can_be_asked_for(name):
    assert WANTED.fullmatch(name)


@pytest.mark.parametrize(
    "name", ["", "sights", "closure", "spectra/1", "spectra/1-2-3", "spectra/1-9999999", "image\n", "../x"]
)
def test_parts_that_cannot(name):
    assert not WANTED.fullmatch(name)
