"""The receivers of commit 2c96e5f and of today on the same captures: the same payloads at the same places.

What the former made of them was written down once (`old_receivers`). Accounts are the same, but where a rule was changed
on purpose: these cases are listed with both counts and the reason.
"""

import json
from pathlib import Path

import pytest

import old_captures as old
from f_heaps import rows_of
from old_receivers import of_account, of_samples, of_spectra, of_sums
from ryle.chunk import joined
from ryle.config import parse
from ryle.receive.assembly import Assembler
from ryle.receive.dumps import DumpMap
from ryle.receive.entrance import block_of
from ryle.receive.heaps import HeapMap
from ryle.receive.samples import SampleMap
from ryle.receive.sums import SumMap

FOUND = json.loads((Path(__file__).parents[1] / "old_receivers.json").read_text())
_WINDOW = "a block closes once every stream is past it by a block; formerly four were open"
_CLOCK = "packets of another time wait until the clock is known to have moved, and lose nothing"
_PACKETS = "packets are counted, and each of them; formerly whole heaps only"
#: Rules that were changed: why, counts before and after (None: unknown), and lines that only the old and only the new
#: receiver gave.
CHANGED = {
    "digitizer late": (_WINDOW, {"placed": (466, 464), "late": (14, 16), "missing": (14, 16)}, (2, 2)),
    "digitizer restart": (
        _CLOCK,
        {"placed": (953, 960), "late": (7, 0), "expected": (954, 960), "missing": (1, 0)},
        (1, 4),
    ),
    "f duplicates": ("packets inside a heap are seen", {"late": (None, 0), "duplicate": (None, 7)}, (0, 0)),
    "f late": (  # one of the late packets held validity, which nobody expects
        _WINDOW,
        {"placed": (199, 196), "late": (None, 6), "duplicate": (None, 0), "expected": (202, 201), "missing": (3, 5)},
        (2, 2),
    ),
    "f restart": (
        _CLOCK,
        {"placed": (374, 404), "late": (None, 0), "duplicate": (None, 0), "expected": (378, 404), "missing": (4, 0)},
        (1, 4),
    ),
    "x whole": (_PACKETS, {"datagrams": (48, 192), "placed": (48, 192), "expected": (48, 192)}, (0, 0)),
    "x loss": (_PACKETS, {"datagrams": (38, 182), "placed": (38, 182), "expected": (48, 192)}, (0, 0)),
    "x duplicates": (
        _PACKETS,
        {"datagrams": (48, 207), "placed": (48, 192), "duplicate": (0, 15), "expected": (48, 192)},
        (0, 0),
    ),
    "x disorder": (_PACKETS, {"datagrams": (48, 192), "placed": (48, 192), "expected": (48, 192)}, (0, 0)),
    "x damage": (
        _PACKETS,
        {"datagrams": (41, 192), "placed": (41, 185), "malformed": (0, 7), "expected": (48, 192)},
        (0, 0),
    ),
    "x late": (
        _PACKETS,
        {"datagrams": (43, 192), "placed": (43, 187), "late": (0, 5), "expected": (48, 192)},
        (0, 0),
    ),
    "x restart": (
        _PACKETS + "; and none were expected of a time before",
        {"datagrams": (96, 384), "placed": (96, 384), "expected": (48, 384), "missing": (-48, 0)},
        (0, 0),
    ),
    "casper duplicates": (
        "what repeats a part of a whole dump is no longer late",
        {"late": (1, 0), "duplicate": (4, 5)},
        (0, 0),
    ),
    "casper damage": (
        "another magic number is malformed, as in any format",
        {"malformed": (3, 12), "foreign": (9, 0)},
        (0, 0),
    ),
    "casper restart": (
        "X-engines that begin again, at any time, are believed at the eighth packet; formerly never",
        {"placed": (192, 377), "late": (192, 0), "malformed": (0, 7), "expected": (192, 377)},
        (0, 185),
    ),
}


def observation(kind):
    text = old.CASPER if kind == "casper" else old.TEXT.replace("@", ', sends = "meerkat"')
    for n in range(3):
        text = text.replace(f"PORT{n}", str(7148 + 8 * n))
    return parse(text.replace("@", ""), "old")


def mapped(kind, o):
    """How packets of a kind are received, and the lines of a block."""
    if kind == "digitizer":
        m = SampleMap(o, [0], 0)
        return m, lambda c: of_samples(c.timestamp, c.present == 1, c.data)
    if kind == "f":
        m = HeapMap(o, 1, 2)
        return m, lambda c: of_spectra(c.first_block, rows_of(c), c.valid)
    m, share = (SumMap(o), old.SUB) if kind == "x" else (DumpMap(o), old.CHANNELS // old.ENGINES)

    def lines(integrations):
        for i in map(joined, integrations):
            yield from of_sums(i.first_spectrum, 0, i.visibilities, i.counts, share)

    return m, lines


def received(kind, packets):
    """What the account says, and the lines of all blocks."""
    o = observation(kind)
    m, lines = mapped(kind, o)
    assembler, found = Assembler(m.plan), []

    def take():
        while (chunk := assembler.next(0.0)) is not None:
            with chunk:
                if chunk.present.any():
                    found.extend(lines(m.given(block_of(chunk, m.plan, m.unit))))

    apart = old.apart(kind)
    for n, packet in enumerate(packets):
        assembler.take([packet], times=10**18 + n * apart)
        take()
    assembler.finish()
    take()
    return of_account(assembler.counts().account(kind)), found


def counts_that_differ(was, account):
    """Old and new, by name; None is unknown."""
    return {n: (was.get(n), account.get(n)) for n in account if was.get(n) != account.get(n)}


def cells(lines):
    """Payloads by their line's first word and their place in the line, those that came."""
    words = (line.split() for line in lines)
    return {(key, n): crc for key, *payloads in words for n, crc in enumerate(payloads) if "-" not in crc}


def test_what_changed_is_listed_for_captures_that_there_are():
    assert set(CHANGED) < set(FOUND)


@pytest.mark.parametrize("name", [f"{kind} {case}" for kind in old.KINDS for case in old.CASES])
def test_same_captures(name):
    kind, case = name.split()
    packets = old.capture(kind, case)
    was = FOUND[name]
    assert old.digest(packets) == was["capture"], "not the capture of old_receivers.json: make it again"
    account, lines = received(kind, packets)
    then, now = was["lines"], lines
    if kind == "x" and case != "restart":  # heaps were given in the order in which they were complete
        then, now = sorted(then), sorted(now)
    _, counts, differ = CHANGED.get(name, ("", {}, (0, 0)))
    assert counts_that_differ(was["account"], account) == counts
    assert (len(set(then) - set(now)), len(set(now) - set(then))) == differ
    if differ == (0, 0):
        assert then == now
    elif kind == "digitizer":  # what came of a packet is what it held, whichever receiver placed it
        before, after = cells(then), cells(now)
        assert all(before[at] == after[at] for at in before.keys() & after.keys())
