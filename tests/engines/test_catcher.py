"""The catcher's bookkeeping: whole bands in time order, whatever is missing, late, doubled or out of order."""

import itertools

import numpy as np
import pytest

from ryle.chunk import Integration
from ryle.engines.catcher import BandAssembler, assembled, band_assembler
from ryle.engines.window import f_batch
from ryle.engines.x import X_WINDOW
from ryle.net.accounting import Account

CHANNELS, SUBSTREAMS, GROUPS, PRODUCTS, SPECTRA = 12, 3, 2, 4, 128


def part(index, substream, salt=0):
    each = CHANNELS // SUBSTREAMS
    value = 1000 * index + 100 * substream + salt
    return Integration(
        index * SPECTRA,
        SPECTRA,
        substream * each,
        value + np.arange(each * PRODUCTS * 2, dtype=np.int64).reshape(each, PRODUCTS, 2),
        np.full((GROUPS, PRODUCTS), 1 + 10 * index + substream, np.uint32),
    )


@pytest.fixture
def assembler():
    return BandAssembler(CHANNELS, SUBSTREAMS, GROUPS, PRODUCTS, window=3, patience=0)


def check(whole, index, substreams):
    assert (whole.first_spectrum, whole.spectra, whole.first_channel) == (index * SPECTRA, SPECTRA, 0)
    assert whole.visibilities.shape == (CHANNELS, PRODUCTS, 2)
    each = CHANNELS // SUBSTREAMS
    for s in range(SUBSTREAMS):
        channels, groups = slice(s * each, (s + 1) * each), slice(s * GROUPS, (s + 1) * GROUPS)
        wanted = part(index, s)
        if s in substreams:
            assert np.array_equal(whole.visibilities[channels], wanted.visibilities)
            assert np.array_equal(whole.counts[groups], wanted.counts)
        else:
            assert not whole.counts[groups].any() and not whole.visibilities[channels].any()


def indices(integrations):
    return [i.first_spectrum // SPECTRA for i in integrations]


@pytest.mark.parametrize("order", list(itertools.permutations(range(SUBSTREAMS))))
def test_complete_at_once(assembler, order):
    for index in (5, 6, 9):
        *before, last = order
        for s in before:
            assert not list(assembler.push(part(index, s)))
        (whole,) = assembler.push(part(index, last))
        check(whole, index, range(SUBSTREAMS))
    assert not list(assembler.flush())
    assert (assembler.placed, assembler.missing, assembler.late, assembler.duplicate) == (9, 0, 0, 0)


def test_the_parts_memory_is_not_kept(assembler):
    for s in range(SUBSTREAMS):
        p = part(1, s)
        got = list(assembler.push(p))
        p.visibilities[...] = -1
        p.counts[...] = 0
    check(got[0], 1, range(SUBSTREAMS))


def test_a_missing_substream_holds_up_until_the_window_is_past(assembler):
    got = list(assembler.push(part(1, 0)))
    for index in (2, 3):
        for s in range(SUBSTREAMS):
            got += assembler.push(part(index, s))
    assert got == []
    got = list(assembler.push(part(4, 2)))
    assert indices(got) == [1, 2, 3]  # in time order, the complete ones behind the incomplete one
    check(got[0], 1, [0])
    check(got[1], 2, range(SUBSTREAMS))
    check(got[2], 3, range(SUBSTREAMS))
    assert assembler.missing == 2
    (last,) = assembler.flush()
    check(last, 4, [2])
    assert (assembler.placed, assembler.missing) == (8, 4)


def test_late_and_duplicate(assembler):
    assert not list(assembler.push(part(1, 0)))
    assert not list(assembler.push(part(1, 0, salt=7)))  # the first stays
    assert assembler.duplicate == 1
    list(assembler.push(part(1, 1)))
    (whole,) = assembler.push(part(1, 2))
    check(whole, 1, range(SUBSTREAMS))
    for late in (part(1, 1), part(0, 0)):
        assert not list(assembler.push(late))
    assert (assembler.late, assembler.duplicate, assembler.placed) == (2, 1, 3)


def test_out_of_order(assembler, rng):
    """Each X-engine sends in order, up to a window ahead of the others: every integration whole, in order."""
    times = np.sort(np.arange(30) + rng.uniform(0, 1.9, (SUBSTREAMS, 30)), axis=1)
    keys = [(times[s, i], i, s) for i in range(30) for s in range(SUBSTREAMS)]
    got = []
    for _, i, s in sorted(keys):
        got += assembler.push(part(i, s))
    got += assembler.flush()
    assert indices(got) == list(range(30))
    for index, whole in enumerate(got):
        check(whole, index, range(SUBSTREAMS))
    assert (assembler.late, assembler.missing) == (0, 0)


def test_random_losses(assembler, rng):
    """Whatever is lost, what came is in the file once, and the counts add up."""
    there = rng.random((60, SUBSTREAMS)) > 0.3
    got = []
    for i, s in zip(*np.nonzero(there), strict=True):
        got += assembler.push(part(int(i), int(s)))
    got += assembler.flush()
    assert indices(got) == np.flatnonzero(there.any(axis=1)).tolist()
    for whole in got:
        index = whole.first_spectrum // SPECTRA
        check(whole, index, np.flatnonzero(there[index]))
    assert assembler.placed == there.sum() and assembler.late == 0
    assert assembler.placed + assembler.missing == SUBSTREAMS * len(got)


def test_patience_and_its_end():
    now = [0.0]
    assembler = BandAssembler(CHANNELS, SUBSTREAMS, GROUPS, PRODUCTS, window=3, patience=10, clock=lambda: now[0])
    for index in range(10):
        assert not list(assembler.push(part(index, 0)))
    now[0] = 9.9
    assert not list(assembler.push(part(10, 0)))
    now[0] = 10.0
    given = list(assembler.push(part(11, 0)))
    assert [w.first_spectrum // SPECTRA for w in given] == [*range(9)]  # what is not three later has to wait
    assert assembler.missing == 9 * 2


def test_no_more_than_eight_windows_are_kept():
    assembler = BandAssembler(CHANNELS, SUBSTREAMS, GROUPS, PRODUCTS, window=3, patience=1e9)
    for index in range(24):
        assert not list(assembler.push(part(index, 0)))
    (whole,) = assembler.push(part(24, 0))
    check(whole, 0, {0})


def test_what_does_not_get_into_the_file_is_in_the_account(assembler):
    placed = [(0, 0), (0, 1), (5, 0), (0, 2), (5, 0), (5, 1)]  # 0 is given half empty when 5 begins; one comes twice
    for index, substream in placed:
        list(assembler.push(part(index, substream)))
    list(assembler.flush())
    received = Account("visibilities", "heaps", datagrams=7, placed=6, malformed=1, expected=18, missing=12)
    account = assembled(received, assembler)
    assert (account.placed, account.late, account.duplicate, account.missing) == (4, 1, 1, 14)
    assert account.balanced()


def test_the_window_covers_what_a_draining_x_engine_holds(observe):
    o = observe(channels=64, integration_spectra=64, sub=32)
    assembler, held = band_assembler(o), 2 * X_WINDOW * f_batch(o) * o.batch_spectra // o.integration_spectra
    shape = (o.substream_channels, o.products, 2)

    def of(index, substream):
        sums, counts = np.ones(shape, np.int64), np.ones((o.groups, o.products), np.uint32)
        first_channel = substream * o.substream_channels
        return Integration(index * o.integration_spectra, o.integration_spectra, first_channel, sums, counts)

    assert held > 4
    assert not [w for index in range(held) for w in assembler.push(of(index, 0))]
    given = [w for index in range(held) for w in assembler.push(of(index, 1))]
    assert len(given) == held and all(w.counts.all() for w in given)
    assert (assembler.late, assembler.missing) == (0, 0)
