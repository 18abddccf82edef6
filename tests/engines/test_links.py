"""Of those who send to an engine, the ones that lose are named, each with its own share of the last second."""

import time

import numpy as np
import pytest

from fresh import rng
from observations import observe_rows
from ryle.config import changed, example, load
from ryle.engines.catcher import catcher_engine
from ryle.engines.links import MOST, f_senders, measure_senders, packet_senders
from ryle.engines.x import x_engine
from ryle.receive.assembly import HeadCounts
from ryle.receive.packets import packet_map
from ryle.stream.metrics import Registry


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


class Counting:
    """Counts of heads that a test gives, in place of an assembler's."""

    def __init__(self, heads):
        self.placed, self.missing = np.zeros((2, heads), np.int64)

    def __call__(self):
        nothing = np.zeros_like(self.placed)
        return HeadCounts(self.placed.copy(), nothing, nothing, nothing, nothing, self.missing.copy())


@pytest.mark.parametrize("sends", ["rows", "meerkat"])
def test_an_x_engine_says_which_f_engine_loses(clock, monkeypatch, sends):
    o = changed(observe_rows(antennas=5, channels=64, packet=2048, sends=sends), fengine={"antennas_per_engine": 2})
    engine = x_engine(o, 1)
    (entrance,) = engine.entrances
    with engine:
        heads = entrance.assembler.plan.heads
        counts = Counting(len(heads))
        monkeypatch.setattr(entrance.assembler, "head_counts", counts)
        values = engine.metrics.values()
        assert (values["senders"], values["sender_loss"]) == (3, {})
        for _ in range(4):  # antenna 3 is F-engine 1's, antenna 4 all that F-engine 2 has
            for head, (antenna, *_) in enumerate(heads):
                counts.placed[head] += {3: 90, 4: 95}.get(antenna, 100)
                counts.missing[head] += {3: 10, 4: 5}.get(antenna, 0)
            clock[0] += 0.5
            values = engine.metrics.values()
        assert values["sender_loss"] == {"F-engine 1": 0.05, "F-engine 2": 0.05}
        for _ in range(4):  # it is mended
            counts.placed += 100
            clock[0] += 0.5
            values = engine.metrics.values()
        assert values["sender_loss"] == {}


def test_a_catcher_says_which_x_engine_loses(clock, monkeypatch, tmp_path):
    """By their numbers in the whole band, also where it has a share of them."""
    disks = [str(tmp_path / name) for name in "ab"]
    o = changed(observe_rows(antennas=2, channels=64, sub=16), catcher={"directories": disks})
    engine, _, _ = catcher_engine(o, lambda: None, None, 1)
    with engine:
        counts = Counting(len(engine.entrances[0].assembler.plan.heads))
        monkeypatch.setattr(engine.entrances[0].assembler, "head_counts", counts)
        engine.metrics.values()
        counts.placed += [100, 96]
        counts.missing += [0, 4]
        clock[0] += 1.5
        values = engine.metrics.values()
    assert (values["senders"], values["sender_loss"]) == (2, {"X-engine 3": 0.04})


def test_of_very_many_the_worst_are_told(clock, monkeypatch):
    random, o = rng(), observe_rows(antennas=40, channels=32, sub=32)
    engine = x_engine(o, 0)
    (entrance,) = engine.entrances
    with engine:
        counts = Counting(len(entrance.assembler.plan.heads))
        monkeypatch.setattr(entrance.assembler, "head_counts", counts)
        engine.metrics.values()
        lost = random.permutation(40)
        each = np.array([lost[antenna] for antenna, *_ in entrance.assembler.plan.heads])
        counts.placed += 1000 - each
        counts.missing += each
        clock[0] += 1
        told = engine.metrics.values()["sender_loss"]
    worst = np.argsort(-lost)[:MOST]
    assert told == {f"F-engine {a}": round(lost[a] / 1000, 6) for a in worst}


def test_senders_have_names(tmp_path):
    o = changed(observe_rows(antennas=5), fengine={"antennas_per_engine": 3})
    assert f_senders(o, range(5)) == ["F-engine 0"] * 3 + ["F-engine 1"] * 2
    path = tmp_path / "paper.toml"
    path.write_text(example("paper128").read_text())
    (tmp_path / "paper128.txt").write_text(example("paper128").with_suffix(".txt").read_text())
    o = load(path)
    packets = packet_map(o, [0])
    names = packet_senders(o, packets)
    assert len(names) == len(packets.heads) and len(set(names)) == o.packet_senders
    of_sender = o.wire_inputs // packets.layout.inputs
    first = int(np.flatnonzero(of_sender == packets.senders[0])[0]) // o.pols
    assert names[0].startswith(f"the F-engine of {o.antennas[first].name}")


def test_who_tells_no_heads_apart_tells_nothing():
    o = observe_rows(antennas=3)
    engine = x_engine(o, 0)
    with engine:
        m = Registry()
        measure_senders(m, engine.entrances[0], ["one"])
        assert m.values() == {}
