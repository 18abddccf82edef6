"""The engines of an observation steered together: who gets what, from when on, and what is refused."""

import json

import numpy as np
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from ryle.config import example, load
from ryle.serve.control import add_to
from ryle.serve.telescope import SteeringError, Telescope


def test_each_engine_gets_its_inputs_share_from_one_sample_on(engines, rng):
    a, b = engines(0, range(0, 4), 1000), engines(1, range(4, 20), 3000)
    rate = int(a.o.sample_rate)
    with Telescope() as telescope:
        assert telescope.inputs() == [f"{x.name} {p}" for x in a.o.antennas for p in "xy"]
        gains = rng.normal(size=(3, a.o.fengine.channels)) + 1j
        change = telescope.set_gains(gains, [telescope.inputs()[5], 1, "2"])
        sample = 3000 + rate
        assert change.sample == sample and change.engines == {"f0": sample, "f1": sample}
        (_, first), (_, second) = *a.asked, *b.asked
        assert (first["inputs"], second["inputs"]) == ([1, 2], [5])
        np.testing.assert_array_equal(first["gains"], gains[1:].astype(np.complex64))
        np.testing.assert_array_equal(second["gains"], gains[:1].astype(np.complex64))
        # One engine alone is not told when: it knows best.
        models = rng.normal(size=(2, 4)) * 1e-9
        assert telescope.set_delays(models, [a.o.antennas[0].name], start=17).sample == 1000
        key, value = a.asked[-1]
        assert key == "delays" and "sample" not in value and value["start"] == 17
        np.testing.assert_array_equal(value["models"], models)
        assert telescope.set_gains(1j, None, 5000).sample == 5000
        assert a.asked[-1][1]["gains"].shape == (4, 1) and b.asked[-1][1]["gains"].shape == (16, 1)
        with pytest.raises(SteeringError, match="late: sample 2999 has passed; changes can be made from sample 3000"):
            telescope.set_gains(1j, None, 2999)
        assert len(a.asked) == 3 and len(b.asked) == 2


def test_engines_that_run_faster_than_time_are_asked_again(engines):
    o = load(example("demo"))
    a = engines(0, range(0, 4), 1000, moves=int(2.5 * o.sample_rate))
    b = engines(1, range(4, 20), 1000)
    with Telescope() as telescope:
        change = telescope.set_gains(2.0)
    assert change.engines["f0"] == change.engines["f1"] == change.sample == a.asked[-1][1]["sample"] > a.next
    assert b.asked[-1][1]["sample"] == change.sample


def test_what_cannot_be(engines):
    with Telescope() as telescope, pytest.raises(SteeringError, match="no observation runs on this machine"):
        telescope.inputs()
    a = engines(0, range(0, 4), 1000)
    c = a.o.fengine.channels
    with Telescope() as telescope:
        for gains, inputs, why in [
            (1, ["0", 0], "name one twice"),
            (1, [20], "no input 20: they are 0 to 19"),
            (1, ["nobody"], "no input 'nobody'"),
            (1, [17], "inputs 17 are of no engine"),
            (np.ones(3), [0, 1], "do not fit 2 inputs"),
            (np.ones((2, c - 1)), [0, 1], "do not fit 2 inputs"),
            (np.ones((1, 2, c)), [0, 1], "do not fit"),
            ("two", [0], "complex numbers"),
            (np.inf, [0], "finite"),
        ]:
            with pytest.raises(SteeringError, match=why):
                telescope.set_gains(gains, inputs)
        with pytest.raises(SteeringError, match="is no time"):
            telescope.sample_at("yesterday")
        with pytest.raises(SteeringError, match="before the observation's sync_time"):
            telescope.sample_at("2001-01-01T00:00:00Z")
        assert not a.asked


TOKEN = "x" * 43


@pytest.fixture
def http(engines):
    engine = engines(0, range(0, 20), 1000)
    app = FastAPI()
    with Telescope() as telescope:
        add_to(app, telescope, TOKEN)
        client = TestClient(app)
        client.headers["Authorization"] = f"Bearer {TOKEN}"
        yield engine, client


def test_over_http(http):
    engine, client = http
    found = client.get("/api/control/inputs").json()
    assert len(found["inputs"]) == 20 and found["channels"] == engine.o.fengine.channels
    gains = {"inputs": [3], "gains": {"re": 1.5, "im": -2.0}, "sample": 5000}
    answer = client.put("/api/control/gains", json=gains)
    assert answer.status_code == 200 and answer.json()["sample"] == 5000
    assert answer.json()["engines"] == {"f0": 5000}
    np.testing.assert_array_equal(engine.asked[-1][1]["gains"], [[1.5 - 2j]])
    time = str(engine.o.observation.sync_time).replace("Z", "") + "Z"
    delays = {"models": [{"delay": 1e-9, "rate": 1e-12}], "inputs": ["ant0 x"], "time": time}
    delays["inputs"] = [found["inputs"][0]]
    refused = client.put("/api/control/delays", json=delays)
    assert refused.status_code == 409 and "late: sample 0" in refused.json()["detail"]
    del delays["time"]
    assert client.put("/api/control/delays", json=delays).json()["sample"] == 1000
    np.testing.assert_array_equal(engine.asked[-1][1]["models"], [[1e-9, 1e-12, 0, 0]])


def test_http_without_the_token_changes_nothing(http):
    engine, client = http
    gains = {"gains": {"re": 1.0}}
    for header in (None, "Bearer ", f"Bearer {TOKEN[:-1]}", f"Basic {TOKEN}", f"Bearer {TOKEN}x", "Bearer ü"):
        headers = {} if header is None else {"Authorization": header.encode("latin-1")}
        if header is None:
            client.headers.pop("Authorization")
        for method, path in (("PUT", "gains"), ("PUT", "delays"), ("GET", "inputs")):
            assert client.request(method, f"/api/control/{path}", json=gains, headers=headers).status_code == 401
            # What is sent is not read before.
            assert client.request(method, f"/api/control/{path}", content=b"{", headers=headers).status_code == 401
    assert not engine.asked


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"gains": "1"},
        {"gains": {"re": "x"}},
        {"gains": {"re": 1}, "sample": -1},
        {"gains": {"re": 1}, "sample": 1 << 63},
        {"gains": {"re": 1}, "inputs": [-1]},
        {"gains": {"re": 1}, "inputs": [[]]},
        {"gains": {"re": 1}, "other": 1},
        {"gains": [[[1]]]},
    ],
)
def test_http_refuses_what_is_malformed(http, body):
    engine, client = http
    assert client.put("/api/control/gains", json=body).status_code == 422
    for text in (b'{"gains": {"re": NaN}}', b'{"gains": {"re": 1e999}}', b"{", b"[" * 5000):
        answer = client.put("/api/control/gains", content=text, headers={"Content-Type": "application/json"})
        assert answer.status_code in (400, 422), (text, answer.text)
        json.loads(answer.text)
    assert not engine.asked


def test_http_refuses_what_cannot_be(http):
    engine, client = http
    for body in (
        {"gains": {"re": 1}, "inputs": ["nobody"]},
        {"gains": {"re": 1}, "inputs": [99]},
        {"gains": [{"re": 1}, {"re": 2}], "inputs": [1]},
        {"gains": [[{"re": 1}], [{"re": 2}, {"re": 3}]], "inputs": [1, 2]},
        {"gains": {"re": 1e300}},
        {"gains": {"re": 1}, "time": "soon"},
        {"gains": {"re": 1}, "time": "2031-01-01T00:00:00Z", "sample": 4},
    ):
        answer = client.put("/api/control/gains", json=body)
        assert answer.status_code == 409, (body, answer.text)
    assert not engine.asked
