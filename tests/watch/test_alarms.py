"""Alarms: each kind when it should be and for as long; none of what healthy correlators do."""

import json
from dataclasses import replace

import numpy as np
import pytest

from fresh import rng
from glances import glance_of, noise
from observations import observe_rows
from ryle.config import changed
from ryle.watch.alarms import REMEMBERED, AlarmLog, Alarms, anchor
from ryle.watch.sight import EngineSight, InputSight, Sight

LABELS = ["A0 x", "A0 y", "A1 x", "A1 y", "A2 x", "A2 y"]


def an_input(index, **figures):
    antenna, polarization = LABELS[index].split()
    usual = {"rms": 40.0, "dbfs": -19.0, "clipped": 0.0, "saturated": 1e-4}
    present = dict.fromkeys(("ring", "F", "X", "file"), 1.0) | figures.pop("present", {})
    return InputSight(index, antenna, polarization, **(usual | figures), present=present)


def an_engine(role="f", index=0, state="running", *, values=None, rates=None, updated=None, **more):
    usual = {"account.expected": 1000.0, "account.missing": 0.0, "integrations": 1.0}
    return EngineSight(
        name=f"{role}{index}",
        role=role,
        index=index,
        pid=100 + index,
        alive=more.pop("alive", True),
        state=state,
        updated=0.0 if updated is None else updated,
        values={"interval": 0.5} | (values or {}),
        rates=usual | (rates or {}),
        **more,
    )


class Play:
    """Shows looks to alarms, half a second apart."""

    def __init__(self, observation=None):
        self.alarms, self.time, self.said = Alarms(observation), 1e9, ()

    def show(self, seconds=0.5, *, engines=None, inputs=None, **figures):
        """Show the same for some time; give the alarms under way."""
        for _ in range(round(2 * seconds)):
            self.time += 0.5
            some = [an_engine()] if engines is None else engines
            some = tuple(replace(e, updated=e.updated or self.time) for e in some)
            each = tuple(an_input(i) for i in range(6)) if inputs is None else tuple(inputs)
            sight = Sight(self.time, observation="o", file="/data/o.uvh5", engines=some, inputs=each, **figures)
            self.said = self.alarms.judge(sight)
        return {(a.kind, a.subject): a for a in self.said if a.ended is None}


def others(*instead):
    changed = {i.index: i for i in instead}
    return [changed.get(i, an_input(i)) for i in range(6)]


def test_a_condition_must_last_and_an_alarm_does_not_flicker():
    play = Play()
    dead = others(an_input(3, rms=0.3))
    assert play.show(0.5, inputs=dead) == {}  # a look is none
    assert play.show(0.5) == {}
    play = Play()
    assert play.show(1.0, inputs=dead) == {}
    (alarm,) = play.show(0.5, inputs=dead).values()
    assert (alarm.kind, alarm.subject, alarm.severity) == ("dead", "A1 y", "error") and alarm.since == play.time
    since = alarm.since
    for _ in range(3):  # it comes and goes
        assert len(play.show(4.0)) == 1
        (alarm,) = play.show(0.5, inputs=dead).values()
    assert alarm.since == since
    assert len(play.show(4.5)) == 1 and play.show(0.5) == {}
    (over,) = play.said
    assert over.ended == play.time and over.since == since
    play.show(REMEMBERED)
    assert play.said == ()


def test_dead_inputs():
    play = Play()
    found = play.show(3, inputs=others(an_input(0, rms=0.0), an_input(4, rms=None, present={"F": 0.0})))
    assert set(found) == {("dead", "A0 x"), ("dead", "A2 x")}
    assert "no signal" in found["dead", "A0 x"].text and "0.0% of its spectra" in found["dead", "A2 x"].text
    # An array that nobody has switched on, or that has stopped, has no dead inputs; nor has one of a weak signal.
    assert Play().show(3, inputs=[an_input(i, rms=0.0) for i in range(6)]) == {}
    assert Play().show(3, inputs=[an_input(i, rms=None, present={"F": 0.0}) for i in range(6)]) == {}
    assert Play().show(3, inputs=others(an_input(1, rms=6.0))) == {}
    assert Play().show(3, inputs=[InputSight(0, "A", "x")]) == {}


def test_clipping():
    found = Play().show(3, inputs=others(an_input(2, clipped=0.05, dbfs=-3.2), an_input(5, saturated=0.2)))
    assert set(found) == {("clipping", "A1 x"), ("clipping", "A2 y")}
    assert "5.0% of its ADC values" in found["clipping", "A1 x"].text and "-3.2 dBFS" in found["clipping", "A1 x"].text
    assert "20.0% of its spectra's values" in found["clipping", "A2 y"].text
    # Converters of few bits have all their levels in use.
    few = changed(observe_rows(antennas=3), digitizer={"bits": 4})
    assert Play(few).show(3, inputs=others(an_input(2, clipped=0.05))) == {}


def test_what_many_inputs_have_is_one_alarm():
    many = [replace(an_input(i % 6, clipped=0.05), index=i, antenna=f"A{i // 2}") for i in range(40)]
    assert len(Play().show(3, inputs=many[:16])) == 16
    ((kind, subject),) = (found := Play().show(3, inputs=many))
    assert (kind, subject) == ("clipping", "many inputs")
    assert found[kind, subject].text.startswith("40 inputs at once: A0 x, A0 y, A1 x, A1 y and others")


def test_losses_name_hand_over_engine_and_input():
    lossy = {"account.missing": 10.0}
    found = Play().show(3, engines=[an_engine("x", 1, rates=lossy), an_engine("x", 0)])
    assert set(found) == {("loss", "X-engine 1")}
    assert "1.00% of the packets that X-engine 1 expects" in found["loss", "X-engine 1"].text
    # All inputs lose: it is the engine's.
    all_of_them = an_engine(rates=lossy, values={"inputs": LABELS, "input_placed": [0.99] * 4 + [1.0] * 2})
    assert set(Play().show(8, engines=[all_of_them])) == {("loss", "F-engine 0")}
    full = Play().show(3, engines=[an_engine("fx", rates=lossy | {"ring_full": 9.0})])["loss", "FX-engine"]
    assert "memory full" in full.text and "too slow" in full.cure
    kernel = Play().show(3, engines=[an_engine(rates=lossy | {"account.kernel_drops": 9.0})])["loss", "F-engine 0"]
    assert "kernel" in kernel.text and "rmem_max" in kernel.cure
    # What is far below a thousandth is none, nor is what an engine that begins or has ended says.
    assert Play().show(3, engines=[an_engine(rates={"account.missing": 0.5})]) == {}
    assert Play().show(3, engines=[an_engine(state="listening", rates=lossy)]) == {}


def one_of_ten(shares):
    """An engine of ten inputs, one of which lost these shares of its packets: its account is at the limit of its own."""
    labels = [f"A{n // 2} {'xy'[n % 2]}" for n in range(10)]
    for share in shares:
        placed = [1.0, 1.0, 1.0, round(1 - share, 6), None, *[1.0] * 5]
        rates = {"account.missing": 100 * share, "account.expected": 1000.0}
        yield an_engine(rates=rates, values={"inputs": labels, "input_placed": placed})


def test_an_input_of_ten_that_loses_one_percent_is_named():
    random, play = rng(), Play()
    # 976 packets a second, of which chance takes one in a hundred: never below the limit, so one alarm, that stays.
    for engine in one_of_ten(random.binomial(976, 0.01, 240) / 976):
        found = play.show(0.5, engines=[engine])
    assert set(found) == {("loss", "A1 y")} and len(play.said) == 1
    alarm = found["loss", "A1 y"]
    assert alarm.severity == "warning" and alarm.since < play.time - 115
    share, _, rest = alarm.text.partition("%")
    assert 0.4 < float(share) < 1.6 and rest == " of the packets of A1 y do not come to F-engine 0 in time"
    for engine in one_of_ten([0.0] * 30):
        found = play.show(0.5, engines=[engine])
    assert found == {} and play.said[0].ended is not None
    play = Play()
    for engine in one_of_ten([0.05] * 20):
        found = play.show(0.5, engines=[engine])
    assert set(found) == {("loss", "A1 y")} and found["loss", "A1 y"].severity == "error"
    # A packet now and then is none, nor is what nobody knows.
    play = Play()
    for n, engine in enumerate(one_of_ten([1 / 976 * (k % 7 < 2) for k in range(120)])):
        assert play.show(0.5, engines=[engine]) == {}, n


def test_a_share_at_the_limit_does_not_come_and_go():
    play = Play()
    for engine in one_of_ten([0.0024] * 20):
        found = play.show(0.5, engines=[engine])
    assert set(found) == {("loss", "A1 y")}
    for engine in one_of_ten([0.0014] * 60):  # less than began it, more than half of that
        assert len(play.show(0.5, engines=[engine])) == 1
    assert Play().show(10, engines=list(one_of_ten([0.0014]))) == {}


def test_of_a_link_between_engines_both_ends_are_named():
    def x(lost, count=8, rates=None):
        return an_engine("x", 1, values={"sender_loss": lost, "senders": count}, rates=rates)

    play = Play()
    for n in range(20):  # chance gives looks in which nothing is lost
        found = play.show(0.5, engines=[x({"F-engine 3": 0.015} if n % 3 else {})])
    assert set(found) == {("loss", "F-engine 3 to X-engine 1")}
    assert "that F-engine 3 should send to X-engine 1 do not come" in found["loss", "F-engine 3 to X-engine 1"].text
    assert play.show(11, engines=[x({})]) == {}
    most = {f"F-engine {n}": 0.01 for n in range(5)}
    assert set(Play().show(8, engines=[x(most, rates={"account.missing": 10.0})])) == {("loss", "X-engine 1")}
    many = {f"the F-engine of A{n}": 0.01 for n in range(17)}
    assert set(Play().show(8, engines=[x(many, 64)])) == {("loss", "many links")}


@pytest.mark.parametrize(("counter", "kind"), [("resyncs", "time jump"), ("late_controls", "late control")])
def test_what_grows_once_is_an_alarm_for_a_while(counter, kind):
    play = Play()
    assert play.show(3, engines=[an_engine(values={counter: 2})]) == {}  # it was so before anybody looked
    found = play.show(3, engines=[an_engine(values={counter: 3})])
    assert set(found) == {(kind, "F-engine 0")} and "3" in found[kind, "F-engine 0"].text
    assert play.show(20, engines=[an_engine(values={counter: 3})]) == {}
    assert play.show(3, engines=[replace(an_engine(values={counter: 0}), pid=7)]) == {}  # started again


def test_disk():
    play = Play()
    writer = [an_engine("catcher")]
    for n in range(60):  # a GB a second
        found = play.show(0.5, engines=writer, disk_free=400e9 - 0.5e9 * n)
    (alarm,) = found.values()
    assert (alarm.kind, alarm.subject, alarm.severity) == ("disk", "/data", "warning")
    assert "6.2 minutes" in alarm.text and "1000 MB a second" in alarm.text
    assert play.show(0.5, engines=[an_engine("catcher", rates={"integrations": 0.0})], disk_free=370e9)  # hysteresis
    play = Play()
    for n in range(60):  # leaps, of a file that is written in large pieces, on a disk with room for hours
        found = play.show(0.5, engines=writer, disk_free=4000e9 - 5e9 * (n // 20))
    assert found == {}
    play = Play()
    assert set(play.show(3, engines=writer, disk_free=0.0)) == {("disk", "/data")}
    full = {"ring": {"open": 1, "ready": 9, "taken": 1, "free": 0}}
    found = Play().show(3, engines=[an_engine("catcher", values=full)])
    assert set(found) == {("disk", "catcher 0")} and "behind" in found["disk", "catcher 0"].text
    fast = changed(observe_rows(antennas=3), observation={"duration": "4 s"}, simulate={"speed": "max"})
    assert Play(fast).show(3, engines=[an_engine("catcher", values=full)]) == {}


def test_engines_that_are_killed_failed_or_silent():
    found = Play().show(3, engines=[an_engine(), an_engine("x", 1, alive=False)], log=("f0: so", "x1: out of memory"))
    assert set(found) == {("engine", "X-engine 1")} and "out of memory" in found["engine", "X-engine 1"].text
    assert set(Play().show(3, engines=[an_engine("x", 1, state="failed")])) == {("engine", "X-engine 1")}
    play = Play()
    assert play.show(3, engines=[an_engine(updated=play.time)]) == {}
    assert set(play.show(6, engines=[an_engine(updated=play.time - 3)])) == {("engine", "F-engine 0")}
    # One that is told to speak every minute is not silent.
    play = Play()
    assert play.show(60, engines=[an_engine(updated=play.time, values={"interval": 60})]) == {}


def test_engines_that_leave():
    play = Play()
    both = [an_engine("x", 0), an_engine("x", 1)]
    play.show(3, engines=both)
    assert play.show(5, engines=both[:1]) == {}
    found = play.show(10, engines=both[:1])
    assert set(found) == {("engine", "X-engine 1")} and "has left" in found["engine", "X-engine 1"].text
    # At the end of a run one kind leaves after the other.
    play = Play()
    run = [an_engine("simulate"), an_engine("f"), *both, an_engine("catcher")]
    for first in range(6):
        play.show(1, engines=run[first:])
    assert play.show(30, engines=[], inputs=[]) == {} and play.said == ()


def test_starts_and_ends_are_no_alarms():
    play = Play(observe_rows(antennas=3))
    unknown = [InputSight(i, f"A{i // 2}", "xy"[i % 2], present={}) for i in range(6)]
    assert play.show(2, engines=[], inputs=[]) == {}
    assert play.show(3, engines=[an_engine(state="starting", rates={"account.expected": 0.0})], inputs=unknown) == {}
    half = [an_input(i, present={"F": 0.4 + 0.1 * i}) for i in range(6)]  # as digitizers begin one after the other
    assert play.show(1, inputs=half) == {}
    assert play.show(20) == {}
    assert play.show(2, engines=[an_engine(state="draining")], inputs=half) == {}
    assert play.show(3, engines=[], inputs=[]) == {} and play.said == ()


def test_clocks_that_step():
    play = Play()
    dead = others(an_input(3, rms=0.3))
    play.show(3, inputs=dead)
    play.time -= 3600
    assert len(play.show(3, inputs=dead)) == 1
    play.time += 7200
    assert len(play.show(2, inputs=dead)) == 1
    assert play.show(6) == {}


def test_visibilities_are_judged_with_the_rest():
    random = rng()
    o = observe_rows(antennas=3)
    x = noise(random, 3, 2, 64, 128)
    x[:, :, 20] *= 9
    play = Play(o)
    found = play.show(3, glance=glance_of(x, bins=64))
    ((kind, subject),) = found
    assert kind == "interference" and subject == f"{o.sky_frequencies[20] / 1e6:.3f} MHz"
    assert found[kind, subject].severity == "warning"
    for _ in range(6):  # healthy ones, and no phase centre
        assert set(play.show(1, glance=glance_of(noise(random, 3, 2, 64, 128), bins=64))) <= {(kind, subject)}
    assert play.show(3, glance=glance_of(noise(random, 3, 2, 64, 128), bins=64)) == {}
    odd = glance_of(noise(random, 2, 1, 8, 64))  # of another array
    assert play.show(3, glance=odd) == {}


def test_noise_alone_raises_nothing():
    random = rng()
    play = Play(observe_rows(antennas=3))
    for _ in range(30):
        glance = glance_of(noise(random, 3, 2, 64, 64), bins=64)
        inputs = [an_input(i, rms=40 * random.uniform(0.5, 2), saturated=0.002) for i in range(6)]
        assert play.show(0.5, inputs=inputs, glance=glance) == {}


def test_alarms_are_kept_in_a_file(tmp_path):
    path, complaints = tmp_path / "alarms.jsonl", []
    log, play = AlarmLog(path, complaints.append), Play()

    def add():
        log.add(Sight(play.time, observation="o", alarms=play.said))

    for inputs in [others(an_input(3, rms=0.3))] * 8 + [None] * 12:
        play.show(0.5, inputs=inputs)
        add()
        add()
    began, ended = (json.loads(line) for line in path.read_text().splitlines())
    assert (began["event"], began["kind"], began["subject"], began["observation"]) == ("alarm", "dead", "A1 y", "o")
    assert (ended["event"], ended["since"]) == ("alarm ended", began["since"]) and ended["time"] == ended["ended"]
    assert anchor(play.said[0]) == "dead" and anchor(replace(play.said[0], kind="time jump")) == "time-jump"
    bad = AlarmLog(tmp_path / "no" / "such.jsonl", complaints.append)
    play = Play()
    for _ in range(4):
        play.show(1, inputs=others(an_input(3, rms=0.3), an_input(1, rms=0.0)))
        bad.add(Sight(play.time, alarms=play.said))
    assert len(complaints) == 1 and "no such file" in complaints[0].lower()


def test_odd_figures_are_survived():
    """Whatever may stand on a page."""
    values = {"inputs": 3, "input_placed": "x", "ring": [1], "resyncs": "many", "late_controls": None, "interval": []}
    values |= {"senders": 1e300, "sender_loss": {"a": "x", "b": 1e300, "c": None}}
    values |= {"integrations": {}, "pending": -1}
    engine = an_engine("catcher", values=values, rates={"account.missing": 1e300})
    Play().show(5, engines=[engine], inputs=[], disk_free=float(np.finfo(float).max))
