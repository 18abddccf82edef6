"""Accounts: the two equations, and unknown that stays unknown."""

import logging
from dataclasses import replace

import pytest

from ryle.net.accounting import Account, UndecodedPackets

WHOLE = Account("f", "packets", 21, 10, 1, 2, 3, 5, 12, 2, 0)


def test_balance():
    assert WHOLE.balanced()
    for key in ("datagrams", "placed", "late", "duplicate", "malformed", "foreign", "expected", "missing"):
        assert not replace(WHOLE, **{key: getattr(WHOLE, key) + 1}).balanced(), key
    assert not replace(WHOLE, late=-1, duplicate=4).balanced()


def test_unknown_is_not_zero():
    partly = replace(WHOLE, late=None, duplicate=None)
    assert partly.balanced() and partly.unplaced == 11
    assert not replace(partly, foreign=12).balanced()
    assert replace(WHOLE, datagrams=None).unplaced is None
    total = WHOLE + partly
    assert (total.late, total.duplicate, total.malformed, total.datagrams) == (None, None, 6, 42)


def test_sum_and_json():
    total = WHOLE + replace(WHOLE, name="g")
    assert total.name == "f + g" and total.placed == 20 and total.balanced()
    assert (WHOLE + WHOLE).name == "f"
    partly = replace(WHOLE, late=None, kernel_drops=None)
    assert '"late": null' in partly.to_json()
    assert Account.from_json(partly.to_json()) == partly
    with pytest.raises(ValueError, match="cannot add packets of f to heaps of g"):
        WHOLE + Account("g", "heaps")


def record(text):
    return logging.LogRecord("spead2", logging.INFO, "", 0, text, (), None)


def test_undecoded_packets_belong_to_a_lone_receiver():
    log, a, b = UndecodedPackets("test-of-spead2"), object(), object()
    log.watch(a)
    assert not log.filter(record("packet rejected because the items overflow the packet"))
    assert log.filter(logging.LogRecord("spead2", logging.WARNING, "", 0, "something else", (), None))
    assert log.count(a) == 1
    log.watch(b)
    assert log.count(b) == 0
    log.filter(record("discarding packet due to size mismatch (120 != 122)"))
    assert log.count(a) is None and log.count(b) is None  # whose was it?
    log.unwatch(a)
    log.unwatch(b)
    log.watch(a)
    log.filter(record("Log ringbuffer was full - some log messages were dropped"))
    assert log.unwatch(a) is None
    log.watch(b)
    logging.getLogger("test-of-spead2").setLevel(logging.WARNING)
    assert log.unwatch(b) is None
