"""Accounts: the two equations, and unknown that stays unknown."""

from dataclasses import replace

import pytest

from ryle.stream.account import Account

WHOLE = Account("f", "packets", 21, 10, 1, 2, 3, 5, 12, 2, 0, 1)


def test_balance():
    assert WHOLE.balanced()
    for key in ("datagrams", "placed", "late", "duplicate", "malformed", "foreign", "expected", "missing"):
        assert not replace(WHOLE, **{key: getattr(WHOLE, key) + 1}).balanced(), key
    assert not replace(WHOLE, late=-1, duplicate=4).balanced()


def test_unknown_is_not_zero():
    partly = replace(WHOLE, late=None, duplicate=None)
    assert partly.balanced()
    assert not replace(partly, foreign=12).balanced()
    total = WHOLE + partly
    assert (total.late, total.duplicate, total.malformed, total.datagrams) == (None, None, 6, 42)
    assert total.ring_full == 2 and (WHOLE + replace(WHOLE, ring_full=None)).ring_full is None


def test_sum_and_json():
    total = WHOLE + replace(WHOLE, name="g")
    assert total.name == "f + g" and total.placed == 20 and total.balanced()
    assert (WHOLE + WHOLE).name == "f"
    partly = replace(WHOLE, late=None, kernel_drops=None)
    assert '"late": null' in partly.to_json()
    assert Account.from_json(partly.to_json()) == partly
    with pytest.raises(ValueError, match="cannot add packets of f to heaps of g"):
        WHOLE + Account("g", "heaps")
