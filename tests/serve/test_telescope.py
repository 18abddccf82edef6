"""The engines of an observation steered together: who gets what, from when on, and what is refused."""

import json

import numpy as np
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from ryle.config import example, load
from ryle.serve.asking import SteeringError
from ryle.serve.control import add_to
from ryle.serve.telescope import Telescope


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


def test_polynomials_of_each_input_or_of_all(engines, rng):
    a, b = engines(0, range(0, 4), 1000), engines(1, range(4, 20), 3000)
    delay = rng.normal(size=(2, 4)) * 1e-9
    with Telescope() as telescope:
        telescope.set_polynomials(delay, 60.0, inputs=[5, 1], sample=9000, start=17)
        for engine, i, row in ((a, 1, 1), (b, 5, 0)):
            key, value = engine.asked[-1]
            assert key == "polynomials"
            assert (value["inputs"], value["seconds"], value["start"], value["sample"]) == ([i], 60.0, 17, 9000)
            np.testing.assert_array_equal(value["delay"], delay[[row]])
            np.testing.assert_array_equal(value["phase"], [[0.0]])
        telescope.set_polynomials([1e-9, 0.0, 1e-12], 5.0, [0.5])
        assert a.asked[-1][1]["delay"].shape == (4, 3) and b.asked[-1][1]["phase"].shape == (16, 1)
        for bad, why in ((np.ones((3, 2)), "each input, or of all"), ("x", "coefficients"), ([np.nan], "finite")):
            with pytest.raises(SteeringError, match=why):
                telescope.set_polynomials(bad, 5.0)
        assert len(a.asked) == 2


def test_a_phase_centre_is_set_for_all_from_one_integration_on(engines, tmp_path):
    a, b = engines(0, range(0, 4), 1000), engines(1, range(4, 20), 3000)
    files = tmp_path / "files"
    files.mkdir()
    (files / "demo.uvh5").touch()
    catchers = [engines.catcher(n, files, 500) for n in range(2)]
    unit, rate = a.o.integration_spectra * a.o.step, int(a.o.sample_rate)
    with Telescope() as telescope:
        change = telescope.set_phase_centre(187.5, 12.25, "3C 273")
        assert change.sample == -(-(3000 + rate) // unit) * unit
        assert change.engines == dict.fromkeys(["f0", "f1", "catcher0", "catcher1"], change.sample)
        for engine in (a, b):
            assert engine.asked == [("phase_centre", {"ra": 187.5, "dec": 12.25, "sample": change.sample})]
        centre = {"ra": 187.5, "dec": 12.25, "name": "3C 273"}
        for catcher in catchers:  # the name that is free for all
            assert catcher.asked == [{"phase_centre": centre, "name": "demo-2", "sample": change.sample}]
        assert telescope.set_phase_centre(1.0, 2.0, sample=4 * unit, file="mine").sample == 4 * unit
        assert catchers[1].asked[-1]["name"] == "mine"
        a.next = 10 * unit
        a.publish()
        with pytest.raises(SteeringError, match="late: sample 5 has passed; changes can be made from sample"):
            telescope.set_phase_centre(1.0, 2.0, sample=5)
        assert len(a.asked) == len(catchers[0].asked) == 2


def test_scans_are_the_catchers_alone(engines, tmp_path):
    """One is asked as it is; it knows best when, and of what name."""
    catcher = engines.catcher(0, tmp_path, 700)
    with Telescope() as telescope:
        assert telescope.writes()
        change = telescope.set_scan(False)
        assert (change.sample, change.said["catcher0"]["file"]) == (700, "") and not telescope.writes()
        telescope.set_scan(True, "again", 4.0, 9000)
        assert catcher.asked == [{"write": False}, {"write": True, "name": "again", "integration": 4.0, "sample": 9000}]
        assert telescope.writes()
        with pytest.raises(SteeringError, match="takes phase_centre: its F-engines are not there"):
            telescope.set_phase_centre(1.0, 2.0)
        with pytest.raises(SteeringError, match="takes gains"):
            telescope.set_gains(1.0)


def test_a_part_of_the_array_does_not_turn_alone(engines, tmp_path):
    a, catcher = engines(0, range(0, 12), 1000), engines.catcher(0, tmp_path, 700)
    with Telescope() as telescope:
        with pytest.raises(SteeringError, match=r"inputs 12, 13.* are of no engine that runs on this machine"):
            telescope.set_phase_centre(1.0, 2.0)
        assert not a.asked and not catcher.asked


def test_without_a_catcher_nothing_is_written(engines):
    engines(0, range(0, 20), 1000)
    with Telescope() as telescope:
        for ask in (telescope.set_scan, telescope.writes, lambda: telescope.set_phase_centre(1.0, 2.0)):
            with pytest.raises(SteeringError, match="takes scan: its catcher is not there"):
                ask()


def test_gains_are_read_from_whoever_has_the_inputs(engines):
    a, _ = engines(0, range(0, 4), 1000), engines(1, range(4, 20), 3000)
    with Telescope() as telescope:
        np.testing.assert_array_equal(telescope.gains([7, "1"]), a.o.gains[[7, 1]])
        np.testing.assert_array_equal(telescope.gains(), a.o.gains)


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


def test_scans_over_http(http, engines, tmp_path):
    engine, client = http
    catcher = engines.catcher(0, tmp_path, 700)
    found = client.get(
        "/api/control/gains", params={"input": ["3", client.get("/api/control/inputs").json()["inputs"][0]]}
    )
    np.testing.assert_array_equal(np.array(found.json()["re"]), engine.o.gains[[3, 0]].real)
    assert client.get("/api/control/gains").status_code == 422
    bent = {"delay": [1e-9, 0, 1e-12], "seconds": 4.0, "inputs": [2]}
    assert client.put("/api/control/polynomials", json=bent).json()["sample"] == 1000
    np.testing.assert_array_equal(engine.asked[-1][1]["delay"], [bent["delay"]])
    for wrong in ({"delay": []}, {"seconds": 0}, {"delay": [[]]}, {"phase": "x"}):
        assert client.put("/api/control/polynomials", json=bent | wrong).status_code == 422
    answer = client.put("/api/control/scan", json={"write": False, "sample": 5000}).json()
    assert (answer["sample"], answer["file"], answer["engines"]) == (5000, "", {"catcher0": 5000})
    unit = engine.o.integration_spectra * engine.o.step
    centre = {"ra": 187.5, "dec": -12.5, "name": "a", "file": "on-a", "sample": 3 * unit}
    answer = client.put("/api/control/phase-centre", json=centre).json()
    assert answer["engines"] == {"f0": 3 * unit, "catcher0": 3 * unit}
    assert catcher.asked[-1]["phase_centre"] == {"ra": 187.5, "dec": -12.5, "name": "a"}
    answer = client.put("/api/control/scan", json={"write": True, "integration": 2.5, "file": "x"}).json()
    assert answer["integration"] == 2.5 and answer["file"] == f"{tmp_path}/x.uvh5"
    for path, body in [
        ("scan", {"write": 3}), ("scan", {"integration": 0}), ("scan", {"inputs": [1]}), ("scan", {"file": "a" * 101}),
        ("phase-centre", {"ra": 1}), ("phase-centre", {"ra": 1, "dec": 91}), ("phase-centre", {"ra": "x", "dec": 1}),
    ]:  # fmt: skip
        assert client.put(f"/api/control/{path}", json=body).status_code == 422, body
    assert client.put("/api/control/scan", json={"sample": 5}).status_code == 409


def test_http_without_the_token_changes_nothing(http):
    engine, client = http
    gains = {"gains": {"re": 1.0}}
    for header in (None, "Bearer ", f"Bearer {TOKEN[:-1]}", f"Basic {TOKEN}", f"Bearer {TOKEN}x", "Bearer ü"):
        headers = {} if header is None else {"Authorization": header.encode("latin-1")}
        if header is None:
            client.headers.pop("Authorization")
        for method, path in (
            ("PUT", "gains"), ("PUT", "delays"), ("GET", "inputs"), ("GET", "gains"), ("PUT", "scan"), ("PUT", "phase-centre"),
        ):  # fmt: skip
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
