"""When a run of an array that sends by itself ends: by what is written, or by silence when its time is over."""

import pytest

from ryle.config import changed, example, load
from ryle.engines import live_end
from ryle.engines.live_end import LiveEnd


@pytest.fixture
def clock(monkeypatch):
    class Clock:
        now = 1000.0

        def monotonic(self):
            return self.now

    made = Clock()
    monkeypatch.setattr(live_end, "time", made)
    return made


def observation(integrations, share=0.0):
    """Of so many integrations and a share of another one."""
    o = load(example("demo"))
    return changed(o, observation={"duration": (integrations + share) * o.file_spectra * o.step / o.sample_rate})


@pytest.mark.parametrize("share", [0.0, 0.7])
def test_as_many_integrations_as_there_is_room_for(clock, rng, share):
    o = observation(5, share)
    first, end = int(rng.integers(1 << 20)), LiveEnd(o)
    begin, length = first * o.file_time, o.file_time
    for n in range(1, 5):
        for _ in range(2):  # it is asked more often than something is written
            assert not end.over(begin, begin + n * length, clock.now)
    assert end.over(begin, begin + 5 * length, clock.now) and end.reached and not end.silent


def test_integrations_that_are_missing_count_by_their_time(clock):
    o = observation(5)
    end, begin, length = LiveEnd(o), 1000.0, o.file_time
    assert not end.over(begin, begin + length, clock.now)
    assert not end.over(begin, begin + 4 * length, clock.now)
    assert end.over(begin, begin + 5 * length, clock.now)


def test_an_engine_that_is_started_again_does_not_begin_anew(clock):
    o = observation(5)
    end, begin, length = LiveEnd(o), 1000.0, o.file_time
    assert not end.over(begin, begin + 2 * length, clock.now)
    assert end.over(begin + 3 * length, begin + 5 * length, clock.now) and end.reached


def test_silence_ends_it_only_when_its_time_is_over(clock):
    o = observation(100)
    end, began = LiveEnd(o), clock.now
    duration = float(o.end_sample / o.sample_rate)
    one = 7.0, 7.0 + o.file_time
    assert not end.over(*one, began)
    clock.now = began + 0.9 * duration
    assert not end.over(*one, began)  # it may go on
    clock.now = began + duration + 5
    assert not end.over(*one, clock.now - 9)
    clock.now = began + 20 * duration
    assert not end.over(*one, clock.now - 9)  # a slow replay
    assert end.over(*one, clock.now - 11) and end.silent and not end.reached


def test_without_a_duration_it_has_no_end(clock):
    o = load(example("demo"))
    end = LiveEnd(changed(o, observation={"duration": None}, simulate={"replay": "50 ms"}))
    assert not end.over(0.0, 1.0, clock.now)
    clock.now += 1e6
    assert not end.over(0.0, 1e6, 0.0)
