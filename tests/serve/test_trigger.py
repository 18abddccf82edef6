"""Triggers of a whole array: one sample for all engines, and none is asked when one would refuse."""

import contextlib

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from ryle.config import example, load
from ryle.monitor.publish import StatusPage
from ryle.serve.asking import SteeringError
from ryle.serve.control import add_to
from ryle.serve.telescope import Telescope
from ryle.serve.trigger import stop, trigger
from ryle.stream.controls import Control

TOKEN = "secret"


class Engine:
    """A page of an F-engine that notes what is asked of its trigger."""

    def __init__(self, o, index, inputs, held_to):
        self.last, self.asked, self.refuses, self.held_to = None, [], "", held_to
        self.page = StatusPage(f"f{index}", {"trigger": Control("json", get=lambda: self.last, set=self.take)})
        self.page.keep("observation.toml", o.text.encode())
        names = [f"{o.antennas[i // o.pols].name} {o.array.polarizations[i % o.pols]}" for i in inputs]
        self.said = {"role": "f", "index": index, "first_input": inputs[0], "inputs": names, "held_to": held_to}
        self.page.publish(self.said)

    def take(self, value):
        self.asked.append(value)
        if self.refuses:
            raise ValueError(self.refuses)
        if value.get("stop"):
            self.last["state"] = "done"
        else:
            first = value.get("sample", self.held_to) // 1000 * 1000
            end = first + value.get("samples", 5000)
            self.last = {"state": "writing", "sample": first, "end": end, "file": f"/data/{first}"}
        self.page.publish(self.said)
        return {key: self.last[key] for key in ("sample", "end", "file")}


@pytest.fixture
def engines(tmp_path, monkeypatch):
    """Two of an observation, which have come to different samples; and the telescope that they are."""
    monkeypatch.setenv("RYLE_STATUS_DIR", str(tmp_path))
    o = load(example("demo"))
    half = o.n_inputs // 4 * 2
    with contextlib.ExitStack() as stack:
        both = [Engine(o, 0, range(half), 70_500), Engine(o, 1, range(half, o.n_inputs), 81_000)]
        for engine in both:
            stack.callback(engine.page.close)
        yield o, both, stack.enter_context(Telescope())


def test_one_sample_for_all(engines):
    o, (a, b), telescope = engines
    done = trigger(telescope, samples=5000, name="x")
    wanted = 81_000 + int(o.sample_rate)  # a second: what they said may be that old
    assert [e.asked for e in (a, b)] == [
        [{"name": "x", "samples": 5000, "inputs": inputs, "sample": wanted}]
        for inputs in (list(range(o.n_inputs // 4 * 2)), list(range(o.n_inputs // 4 * 2, o.n_inputs)))
    ]
    assert (done.sample, done.end) == (wanted // 1000 * 1000, wanted // 1000 * 1000 + 5000)
    assert done.engines["f1"].file == f"/data/{done.sample}" and done.utc.startswith("20")


def test_some_antennas_in_the_past(engines):
    o, (a, b), telescope = engines
    last = o.antennas[-1].name
    done = trigger(telescope, seconds=0.5, sample=12_345, inputs=[last])
    assert not a.asked and set(done.engines) == {"f1"}
    assert b.asked == [
        {"name": "trigger", "seconds": 0.5, "inputs": [o.n_inputs - 2, o.n_inputs - 1], "sample": 12_345}
    ]
    trigger(telescope, samples=1, inputs=[0])  # alone, an engine knows best what comes next
    assert "sample" not in a.asked[0]


def test_busy_engines_and_refusals(engines):
    _, (a, b), telescope = engines
    with pytest.raises(SteeringError, match="nothing is to be stopped: f0, f1 write no samples"):
        stop(telescope)
    trigger(telescope, samples=1, inputs=[0])
    with pytest.raises(SteeringError, match="f0 is still writing /data/70000, to sample 70001"):
        trigger(telescope, samples=1)
    assert not b.asked
    assert set(stop(telescope).engines) == {"f0"} and a.asked[-1] == {"stop": True} and not b.asked
    b.refuses = "the disk is full"
    with pytest.raises(SteeringError, match="the disk is full; f0 has taken it, from sample 90000 on"):
        trigger(telescope, samples=1, sample=90_000)


def test_over_http(engines):
    _, (a, b), telescope = engines
    app = FastAPI()
    add_to(app, telescope, TOKEN)
    client, shown = TestClient(app), {"Authorization": f"Bearer {TOKEN}"}
    path = "/api/control/trigger"
    assert client.put(path, json={"samples": 1}).status_code == 401 == client.delete(path).status_code
    for wrong in ({"samples": 0}, {"seconds": -1}, {"samples": 1, "name": "../x"}, {"samples": 1, "file": "/x"}):
        assert client.put(path, json=wrong, headers=shown).status_code == 422, wrong
    for refused in ({}, {"samples": 1, "seconds": 1}, {"samples": 1, "inputs": ["nobody"]}):
        assert client.put(path, json=refused, headers=shown).status_code == 409, refused
    assert client.delete(path, headers=shown).status_code == 409
    assert not a.asked and not b.asked
    answer = client.put(path, json={"samples": 3000, "sample": 90_100, "name": "frb.1"}, headers=shown)
    assert answer.status_code == 200 and a.asked[0]["name"] == "frb.1"
    written = {"sample": 90_000, "end": 93_000, "file": "/data/90000"}
    assert answer.json() == {
        "sample": 90_000,
        "end": 93_000,
        "utc": answer.json()["utc"],
        "engines": {"f0": written, "f1": written},
    }
    assert client.delete(path, headers=shown).json()["engines"] == {"f0": written, "f1": written}
