"""Which integrations are believed, and when."""

import pytest

from ryle.net.plausible import Plausible


def run(streams, pushed, skew=2):
    """Push (stream, index) pairs; what was believed at each, what the end gave, and how many were refused."""
    p = Plausible(streams, skew)
    given = [[(s, i) for s, i, _ in p.push(stream, index, "x")] for stream, index in pushed]
    return given, [(s, i) for s, i, _ in p.finish()], p.refused


def test_two_begin():
    given, end, refused = run(2, [(0, 5), (1, 5), (0, 6), (1, 6), (0, 7), (0, 8)])
    assert given == [[], [(0, 5), (1, 5)], [(0, 6)], [(1, 6)], [(0, 7)], [(0, 8)]] and not end and not refused


def test_one_begins():
    given, end, refused = run(1, [(0, 5), (0, 6), (0, 7), (0, 8)])
    assert given == [[], [], [(0, 5), (0, 6), (0, 7)], [(0, 8)]] and not end and not refused


def test_short_observation():
    assert run(1, [(0, 5)]) == ([[]], [(0, 5)], 0)


@pytest.mark.parametrize("streams", [2, 3, 8])
def test_one_lies(streams):
    begin = [(s, 5) for s in range(streams)]
    given, end, refused = run(
        streams, [*begin, (0, 10**6), (0, 6), (1, 10**6 + 1000), *((s, 7) for s in range(streams))]
    )
    assert [g for g in given[streams:]] == [[], [(0, 6)], [], *([(s, 7)] for s in range(streams))]
    assert not end and refused == 2


def test_jump_of_most():
    begin = [(s, 5) for s in range(4)]
    given, end, refused = run(4, [*begin, (0, 100), (1, 100), (2, 101), (3, 100)])
    assert given[4:] == [[], [], [(0, 100), (1, 100), (2, 101)], [(3, 100)]] and not end and not refused


def test_the_dead_do_not_hold_up_the_living():
    given, end, refused = run(2, [(0, 5), (1, 5), *((1, i) for i in range(6, 14))])
    assert [i for g in given for s, i in g if s == 1] == list(range(5, 14)) and not end and not refused


def test_beginning_under_loss():
    given, end, refused = run(2, [(0, 5), (0, 9), (1, 12), (0, 13), (0, 10), (1, 13)])
    assert given[:5] == [[], [], [(0, 5), (0, 9), (1, 12)], [], [(0, 10)]]
    assert sorted(given[5]) == [(0, 13), (1, 13)] and not end and not refused


def test_absurd_at_the_end():
    assert run(2, [(0, 5), (1, 5), (0, 10**6)])[1:] == ([], 1)
