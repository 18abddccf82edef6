"""Glances at integrations: exact sums by exact counts, from pieces as they come off the wire; made only while watched."""

import time
from dataclasses import replace

import numpy as np
import pytest

from fresh import rng
from observations import observe_rows
from ryle.chunk import Integration
from ryle.engines import glance as module
from ryle.engines.glance import GlanceMaker
from ryle.monitor.publish import StatusPage
from ryle.products.glance import Glance
from ryle.stream.metrics import Registry


@pytest.fixture
def o():
    return observe_rows(antennas=3, channels=48, sub=16)


def pieces_of(o, random, *, kind=">i8", groups=(2, 4, 16), lost=0.3):
    """Integration of three pieces with sums up to 2^55, counts a group of channels, some of them 0."""
    spectra = o.integration_spectra
    found = []
    for n, many in enumerate(groups):
        counts = random.integers(0, spectra + 1, (many, o.products)).astype(np.uint32)
        counts[random.random(counts.shape) < lost] = 0
        sums = random.integers(-(1 << 55), 1 << 55, (16, o.products, 2))
        sums[np.repeat(counts, 16 // many, axis=0) == 0] = 0
        found.append(Integration(7 * spectra, spectra, 16 * n, sums.astype(kind), counts))
    return found


def averaged(pieces, product, low, high):
    """Average a product over channels, in whole numbers; None where nothing contributed."""
    re = im = count = 0
    for piece in pieces:
        run = piece.channels // len(piece.counts)
        for c in range(piece.channels):
            if low <= piece.first_channel + c < high:
                re += int(piece.visibilities[c, product, 0])
                im += int(piece.visibilities[c, product, 1])
                count += int(piece.counts[c // run, product])
    return None if count == 0 else complex(re / count, im / count)


@pytest.mark.parametrize("kind", [">i8", "<i8", "float64"])
@pytest.mark.parametrize(("most", "parts"), [(1024, 32), (48, 5), (7, 48)])
def test_averages_are_exact(o, monkeypatch, kind, most, parts):
    monkeypatch.setattr(module, "MOST_CHANNELS", most)
    monkeypatch.setattr(module, "PARTS", parts)
    random = rng()
    pieces = pieces_of(o, random, kind=kind)
    maker = GlanceMaker(o, 0, 48)
    maker._audience.watch({"products": [5, 2]})
    glance = Glance.from_bytes(maker.glance(9, pieces).to_bytes())
    assert (glance.number, glance.first_spectrum, glance.integration) == (
        9,
        pieces[0].first_spectrum,
        pieces[0].spectra,
    )
    assert (glance.antennas, glance.pols, glance.channels, glance.chosen.tolist()) == (3, 2, 48, [2, 5])
    fine, coarse = glance.power_channels, glance.coarse_edges
    assert len(fine) == min(most, 48) + 1 and len(coarse) == min(parts, 48) + 1

    def check(found, product, low, high):
        expected = averaged(pieces, product, low, high)
        if expected is None:
            assert np.isnan(found)
        else:
            np.testing.assert_allclose(found, expected, rtol=1e-6 if np.iscomplexobj(found) else 1e-5)

    for part in range(len(coarse) - 1):
        for product in range(0, o.products, 5):
            check(glance.coarse[part, product], product, coarse[part], coarse[part + 1])
    autos = [0, 3, 8, 11, 20, 23]
    for part in range(len(fine) - 1):
        for i, product in enumerate(autos):
            expected = averaged(pieces, product, fine[part], fine[part + 1])
            np.testing.assert_allclose(
                glance.power[i, part], np.nan if expected is None else expected.real, rtol=1e-6, atol=1e30
            )
        for row, product in enumerate([2, 5]):
            check(glance.spectra[row, part], product, fine[part], fine[part + 1])
    for i, product in enumerate(autos):
        each = [np.repeat(p.counts[:, product], 16 // len(p.counts)) for p in pieces]
        np.testing.assert_allclose(glance.present[i], np.mean(each) / o.integration_spectra, rtol=1e-6)


def test_many_products_are_shared_among_threads(monkeypatch):
    o = observe_rows(antennas=20, channels=64, sub=32)
    random = rng()
    spectra = o.integration_spectra
    sums = random.integers(-(1 << 40), 1 << 40, (64, o.products, 2)).astype(">i8")
    counts = np.full((1, o.products), spectra, np.uint32)
    monkeypatch.setattr(module, "_PIECE", 1 << 10)
    maker = GlanceMaker(o, 0, 64)
    glance = maker.glance(1, [Integration(0, spectra, 0, sums, counts)] * 1)
    assert maker._pool is not None
    native = sums.astype(np.int64).reshape(32, 2, -1, 2).sum(axis=1) / (2 * spectra)
    np.testing.assert_allclose(glance.coarse, native[..., 0] + 1j * native[..., 1], rtol=1e-6)
    maker.close()


def test_a_band_of_several(o):
    """A catcher's pieces count channels from its own band's first."""
    pieces = pieces_of(o, rng())[:2]
    glance = GlanceMaker(o, 16, 32).glance(1, pieces)
    assert (glance.first_channel, glance.channels, glance.coarse_edges[-1]) == (16, 32, 32)
    found, expected = glance.coarse[3, 7], averaged(pieces, 7, 3, 4)
    assert np.isnan(found) if expected is None else np.isclose(found, expected, rtol=1e-5)


def test_nothing_is_made_unless_somebody_watches(o, monkeypatch, capsys):
    made, kept = [], []
    maker = GlanceMaker(o, 0, 48)
    maker.keep = lambda name, data: kept.append((name, data))
    metrics = Registry()
    maker.register(metrics)
    control = metrics.controls["watch"]
    whole = GlanceMaker.glance
    monkeypatch.setattr(GlanceMaker, "glance", lambda self, *a: made.append(1) or whole(self, *a))
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    random = rng()
    integration = pieces_of(o, random)

    def publish(index):
        first = index * o.integration_spectra
        maker.publish(index, [replace(p, first_spectrum=first) for p in integration])

    publish(0)
    assert not made and control.get() == {"products": []}
    control.set({"products": [3, 1]})
    assert control.get() == {"products": [1, 3]}
    publish(0)
    assert len(made) == len(kept) == 1 and kept[0][0] == "glance"
    assert Glance.from_bytes(kept[0][1]).chosen.tolist() == [1, 3]
    publish(maker._every)  # not so soon
    assert len(made) == 1
    now[0] += 0.25
    publish(maker._every)
    assert len(made) == 2
    now[0] += 0.25
    publish(maker._every + 1)  # other bands' makers leave that out too
    assert len(made) == 2 + (maker._every == 1)
    now[0] += 5
    control.set({"products": [7]})  # somebody else, who sees other products
    assert control.get() == {"products": [1, 3, 7]}
    now[0] += 9
    assert control.get() == {"products": [7]}
    publish(2 * maker._every)
    before = len(made)
    now[0] += 1.1
    publish(3 * maker._every)  # nobody has said for 10 s that he watches
    assert len(made) == before and control.get() == {"products": []}

    control.set({})
    maker.keep = lambda name, data: (_ for _ in ()).throw(OSError(28, "No space left on device"))
    for turn in range(4, 7):
        now[0] += 1
        publish(turn * maker._every)
    assert capsys.readouterr().err.count("No space left") == 1  # said once; the data go on


@pytest.mark.parametrize(
    "value",
    [None, 3, [], *({"products": p} for p in (1, ["1"], [True], [1 << 80], [-1], list(range(65)), [1.0], [[1]]))],
)  # fmt: skip
def test_what_is_no_choice_is_refused(o, value):
    maker = GlanceMaker(o, 0, 48)
    with pytest.raises(ValueError, match=r"watch|products"):
        maker._audience.watch(value)
    assert not maker._audience.there


def test_it_lies_beside_the_page(o, tmp_path, monkeypatch):
    monkeypatch.setenv("RYLE_STATUS_DIR", str(tmp_path))
    maker = GlanceMaker(o, 0, 48)
    maker._audience.watch({"products": []})
    with StatusPage("catcher0") as page:
        maker.keep = page.keep
        maker.publish(1, [replace(p, first_spectrum=0) for p in pieces_of(o, rng())])
        assert Glance.from_bytes((tmp_path / "ryle.catcher0" / "glance").read_bytes()).number == 1
