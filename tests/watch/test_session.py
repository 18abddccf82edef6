"""Sessions: what was recorded is what is shown, at any speed, also of files that were cut."""

import json
import time
from dataclasses import asdict, replace

import numpy as np
import pytest

from adc_values import gaussian, histograms_of
from fresh import rng
from glances import glance_of, noise
from ryle.products.glance import Glance
from ryle.watch.session import Recorder, SessionError, looks, record, replay
from ryle.watch.sight import Alarm, EngineSight, InputSight, Sight


def a_sight(when, number, glance=None, text="[observation]\nname = 'o'"):
    engine = EngineSight(
        *("f0", "f", 0, 17, True, "running", when),
        values={"account": {"missing": number, "late": None}, "inputs": ["A x"], "ring": {"free": 3}},
        rates={"received": 10.5},
        kinds={"received": ("counter", "packets", "that came")},
        controls={"interval": {"type": "float", "minimum": 0.05}},
    )
    alarm = Alarm("loss", "F-engine 0", "warning", "1 %", "look", since=when - 1, ended=None)
    an_input = InputSight(0, "A", "x", rms=3.5, present={"ring": 1.0, "F": None, "X": 0.5, "file": 0.5})
    return Sight(
        *(when, "o", "ARRAY", text, "/data/o.uvh5", number, 1.5, None),
        engines=(engine,), inputs=(an_input,), alarms=(alarm,), disk_free=1e9, log=("f0: ä",), glance=glance,
    )  # fmt: skip


def same(a, b):
    """Whether two looks are equal, their glances to the last bit."""
    assert replace(a, glance=None) == replace(b, glance=None)
    assert (a.glance is None) == (b.glance is None)
    return a.glance is None or a.glance.to_bytes() == b.glance.to_bytes()


@pytest.fixture
def session(tmp_path):
    random = rng()
    glances = [glance_of(noise(random, 2, 2, 16, 64), number=n, chosen=[1]) for n in range(4)]
    sights = [a_sight(1e9 + n / 2, n, None if n < 2 else glances[(n - 2) // 3]) for n in range(12)]
    path = tmp_path / "session"
    with record(path, glances=0.0) as recorder:
        for sight in sights:
            recorder.add(sight)
    return path, sights


def test_what_was_recorded_is_read(session):
    path, sights = session
    read = list(looks(path))
    assert len(read) == len(sights) and all(same(a, b) for a, b in zip(read, sights, strict=True))
    assert read[3].glance is read[4].glance and read[4].glance is not read[5].glance
    assert len({id(sight.text) for sight in read}) == 1


def test_histograms_are_kept_too_each_second(tmp_path):
    random, path = rng(), tmp_path / "session"
    made = [histograms_of([gaussian(random, 30, 100) for _ in range(4)], position=n) for n in range(6)]
    with record(path, glances=1.0) as recorder:
        for n in range(13):
            some = None if n == 0 else made[(n - 1) // 2]
            recorder.add(replace(a_sight(1e9 + n / 2, n), histograms=some))
    read = [s.histograms for s in looks(path)]
    assert read[0] is None and [h.position for h in read[1:]] == [n // 2 for n in range(12)]
    np.testing.assert_array_equal(read[5].lately, made[2].lately)
    np.testing.assert_array_equal(read[5].in_all, made[2].in_all)
    assert read[5] is read[6]
    # Looks of earlier versions say nothing of them.
    with Recorder(tmp_path / "old") as recorder:
        look = json.dumps({k: v for k, v in asdict(a_sight(1e9, 0)).items() if k != "histograms"} | {"glance": False})
        recorder._write(b"s", look.encode())
    (old,) = looks(tmp_path / "old")
    assert old.histograms is None and old.integrations == 0


def test_a_session_that_was_cut_is_read_up_to_there(session, tmp_path):
    path, sights = session
    whole, counts = path.read_bytes(), []
    for end in range(0, len(whole), 97):
        cut = tmp_path / "cut"
        cut.write_bytes(whole[:end])
        try:
            read = list(looks(cut))
        except SessionError as error:
            assert end < 40 and "no recorded session" in str(error)
            continue
        assert all(same(a, b) for a, b in zip(read, sights[: len(read)], strict=True))
        counts.append(len(read))
    assert counts == sorted(counts) and counts[-1] >= len(sights) - 1


def test_damage_is_noticed(session, tmp_path):
    path, sights = session
    whole, random = path.read_bytes(), rng()
    for _ in range(300):
        data = bytearray(whole)
        for at in random.integers(0, len(data), random.integers(1, 4)):
            data[at] ^= 1 << random.integers(8)
        bad = tmp_path / "bad"
        bad.write_bytes(data)
        try:
            read = list(looks(bad))
        except SessionError:
            continue
        assert all(same(a, b) for a, b in zip(read, sights[: len(read)], strict=True))


def test_glances_are_kept_as_often_as_asked(tmp_path):
    random = rng()
    with Recorder(tmp_path / "s", glances=1.0) as recorder:
        for n in range(20):
            recorder.add(a_sight(1e9 + n / 4, n, glance_of(noise(random, 2, 1, 8, 64), number=n)))
    read = list(looks(tmp_path / "s"))
    assert [s.glance.number if s.glance else None for s in read][::4] == [0, 4, 8, 12, 16]
    assert len({s.glance.number for s in read if s.glance}) == 5


def test_replay_is_a_watcher(session):
    path, sights = session
    with replay(path, float("inf")) as shown:
        sight = shown.sight()
        while not shown.ended:
            sight = shown.wait(sight.time, 10) or sight
        assert shown.sight().time == sights[-1].time and shown.wait(sights[-1].time, 10) is None
        assert [s.time for s in shown.history()] == [s.time for s in sights]
        shown.choose([3])
        assert shown.observation is None  # of this text none can be read


def test_speed(session, steady):
    def body():
        path, _ = session
        began = time.monotonic()
        with replay(path, 11.0) as shown:
            while not shown.ended:
                shown.wait(shown.sight().time, 10)
        assert 0.5 <= time.monotonic() - began < 5  # 5.5 s

    steady(body)


def test_an_end_in_the_middle(session):
    path, _ = session
    with replay(path, 1e-3) as shown:
        first = shown.sight()
    assert shown.sight() is first


@pytest.mark.parametrize("speed", [0, -1, float("nan")])
def test_speeds_that_are_none(session, speed):
    with pytest.raises(ValueError, match="positive"):
        replay(session[0], speed)


def test_files_that_are_none(tmp_path):
    (tmp_path / "empty").write_bytes(b"")
    with pytest.raises(SessionError, match="no recorded session"):
        replay(tmp_path / "empty")
    with record(tmp_path / "none"):
        pass
    with pytest.raises(SessionError, match="no look"):
        replay(tmp_path / "none")
    with pytest.raises(OSError):
        replay(tmp_path / "missing")


def test_an_hour_takes_little_memory(tmp_path):
    """Glances of looks that are long past are not kept."""
    random = rng()
    glance = glance_of(noise(random, 2, 2, 16, 64))
    with record(tmp_path / "s", glances=0.0) as recorder:
        for n in range(3000):
            recorder.add(a_sight(1e9 + n, n, replace(glance, number=n)))
    with replay(tmp_path / "s", float("inf")) as shown:
        while not shown.ended:
            shown.wait(shown.sight().time, 10)
        history = shown.history()
        assert len(history) == 1200 and history[-1].time == 1e9 + 2999
        kept = [s.glance for s in history if s.glance is not None]
        assert len(kept) == 120 and isinstance(kept[0], Glance) and kept[0].number == 2880
        assert history[0].engines[0].values == {"account": {"missing": 1800, "late": None}} and not history[0].log
        assert history[-1].engines[0].controls and np.isfinite(history[-1].time)
