"""F and X in one process, live: the same file as from engines of their own, whatever becomes of packets and processes."""

import json
import os
import re
import signal
import time

import h5py
import numpy as np
import pytest

DATA = "Data/visdata", "Data/flags", "Data/nsamples", "Header/time_array", "Header/integration_time"
STATISTICS = "adc_histogram", "adc_levels", "adc_power", "adc_samples", "spectra_saturated", "spectra_values"
REPLAY = '\nreplay = "50 ms"\n'


def same(one, other):
    """Two files say the same of the sky, to the last bit, and of the inputs."""
    with h5py.File(one) as a, h5py.File(other) as b:
        assert a["Header/Ntimes"][()] == b["Header/Ntimes"][()] > 2
        for name in (*DATA, *(f"Ryle/{name}" for name in STATISTICS)):
            np.testing.assert_array_equal(a[name][()], b[name][()], err_msg=name)


def nsamples(path):
    """Samples of each integration of a file, shape (integration, rest); none while it is being made, or written."""
    try:
        with h5py.File(path) as file:
            times, found = int(file["Header/Ntimes"][()]), file["Data/nsamples"][...]
        return found.reshape(times, -1) if times else np.empty((0, 1))
    except (OSError, KeyError, ValueError):
        return np.empty((0, 1))


def wait_for(path, count, process):
    deadline = time.monotonic() + 120
    while len(nsamples(path)) < count:
        assert process.process.poll() is None and time.monotonic() < deadline, process.said
        time.sleep(0.1)


def events(process):
    found = [json.loads(line) for line in list(process.lines) if line.startswith("{")]
    return [e for e in found if "event" in e]


@pytest.fixture
def one(observation):
    """Write a small observation file with F and X in one process; give its path and ports."""

    def make(more="", **kwargs):
        path, ports = observation(sub=64, **kwargs)
        text = path.read_text().replace("[phase_centre]", '[fx]\nbackend = "cpu"\n[phase_centre]')
        path.write_text(text + more)
        return path, ports

    return make


def test_as_engines_of_their_own(observation, ryle, tmp_path, steady):
    """At full speed, held up by back-pressure: one process writes what F-engine, two X-engines and catcher write."""
    path, _ = observation(duration=1)
    apart = path.read_text().replace("[fengine]", "[fengine]\nantennas_per_engine = 2")
    fx = apart.replace("channels_per_substream = 32", "").replace("[phase_centre]", "[fx]\n[phase_centre]")

    def body():
        for name, text in (("apart", apart), ("fx", fx)):
            path.write_text(text)
            run = ryle("run", path, "-o", tmp_path / name, "--overwrite", "--json", tmp_path / f"{name}.json")
            assert run.end() == 0, run.said
        same(tmp_path / "fx/small.uvh5", tmp_path / "apart/small.uvh5")
        found = json.loads((tmp_path / "fx.json").read_text())
        assert set(found["statuses"]) == {"simulate", "FX"} and found["losses"] == 0
        account, status = found["accounts"]["FX"], found["statuses"]["FX"]
        assert account["placed"] == account["expected"] == found["statuses"]["simulate"]["sent"]
        assert status["integrations"] == found["integrations"] == len(nsamples(tmp_path / "fx/small.uvh5"))
        assert re.search(r"^ FX +done ", run.said, re.M)

    steady(body)


@pytest.mark.long
def test_lossy_in_real_time(one, ryle, tmp_path, steady):
    """What is lost is missing in the account and in nsamples, number by number, as correlating the packets says it."""
    path, _ = one(REPLAY + "[simulate.faults]\nloss = 0.03\nduplicate = 0.01\n", duration=3, spectra=4096, speed="1.0")
    capture = tmp_path / "packets.pcap"
    for command in (["simulate", path, "--pcap", capture], ["correlate", path, "-i", capture, "-o", tmp_path / "file"]):
        process = ryle(*command)
        assert process.end() == 0, process.said
    missing, expected = map(int, re.search(r"(\d+) of (\d+) missing", process.said).groups())

    def body():
        found = tmp_path / "run.json"
        run = ryle("run", path, "-o", tmp_path / "live", "--overwrite", "--json", found)
        assert run.end() == 0, run.said
        account, faults = (json.loads(found.read_text())["statuses"][name] for name in ("FX", "simulate"))
        account, faults = account["account"], faults["faults"]
        assert (account["missing"], account["expected"]) == (missing, expected)
        assert 0 <= faults["lost"] - missing <= 4 < 100 < missing  # of the last packets of the four inputs nobody knows
        assert account["duplicate"] == faults["duplicated"] and not account["late"] + account["malformed"]
        assert 0.5 < nsamples(tmp_path / "live/small.uvh5")[:-1].mean() < 0.97
        same(tmp_path / "live/small.uvh5", tmp_path / "file/small.uvh5")

    steady(body)


@pytest.mark.long
def test_joins_an_array_that_is_already_sending(one, ryle, tmp_path, steady):
    """It begins with the first whole integration, says which that is, and loses nothing from there on."""
    path, _ = one(REPLAY, duration=None, spectra=4096, speed="1.0")
    file = tmp_path / "out/small.uvh5"

    def body():
        array = ryle("simulate", path)
        try:
            array.wait_for(lambda p: any(s["state"] == "running" and s.get("sent") for s in p.statuses))
            run = ryle("run", path, "--no-simulate", "-o", tmp_path / "out", "--overwrite")
            wait_for(file, 5, run)
            run.signal(signal.SIGINT)
            assert run.end(60) == 0, run.said
        finally:
            array.kill()
        each = nsamples(file)
        assert (each[:-2] == 1).all(), [float(e.mean()) for e in each]
        kept = re.search(r"stopped after [\d.]+ s: (\d+) integrations are kept in \S+small.uvh5", run.said)
        assert kept and int(kept[1]) == len(each), run.said
        began = re.search(r"began at integration (\d+), the first whole one", run.said)
        assert began and int(began[1]) > 0 and "Traceback" not in run.said

    steady(body)


def test_by_hand(one, ryle, tmp_path, steady):
    """Started alone it says what a catcher says, keeps an earlier run's file, and drains at SIGTERM."""
    path, _ = one(duration=2, spectra=2048, speed="1.0")
    (tmp_path / "out").mkdir()
    (tmp_path / "out/small.uvh5").write_text("somebody's work")

    def body():
        fx = ryle("engine", "fx", path, "-o", tmp_path / "out", "--live")
        fx.wait_for(lambda p: any(s["state"] == "ready" for s in p.statuses))
        array = ryle("simulate", path)
        assert array.end() == 0, array.said
        last = fx.statuses[-1]
        fx.signal(signal.SIGTERM)
        assert fx.end(60) == 0, fx.said
        assert (last["role"], last["state"]) == ("fx", "running") and fx.statuses[-1]["state"] == "done"
        began, *written = events(fx)
        assert began["event"] == "began" and began["left_out"] == 0
        assert [e["integration"] for e in written] == list(range(1, len(written) + 1))
        assert [e["first_spectrum"] % 2048 for e in written] == [0] * len(written)
        (kept,) = re.findall(r"this one goes to (\S+)", fx.said)
        assert len(nsamples(kept)) == len(written) == fx.statuses[-1]["integrations"] > 5

    steady(body)
    assert (tmp_path / "out/small.uvh5").read_text() == "somebody's work"


def test_killed(one, ryle, tmp_path):
    """All that was reported can be read, at once or after `ryle recover`; the run says who died and ends."""
    path, _ = one(REPLAY, duration=60, spectra=4096, speed="1.0")
    file = tmp_path / "small.uvh5"
    run = ryle("run", path, "-o", tmp_path)
    wait_for(file, 2, run)
    run.wait_for(lambda p: {"simulate0", "fx0"} == set(p.children()))
    children = run.children()
    time.sleep(np.random.default_rng().uniform(0, 0.5))
    os.kill(children["fx0"], signal.SIGKILL)
    assert run.end(60) not in (0, -signal.SIGKILL)
    said = " ".join(run.said.split())
    assert "FX was killed by signal 9" in said and "last words" in said and "Traceback" not in said
    safe = int(re.search(r"(\d+) integrations are safe in", said)[1])
    recovered = ryle("recover", file)
    assert recovered.end(60) == 0, recovered.said
    assert len(nsamples(file)) >= safe >= 2
    assert not any(os.path.exists(f"/proc/{pid}") for pid in children.values())


def test_ctrl_c(one, ryle, tmp_path):
    """Quietly, with all that came in the file."""
    path, _ = one(REPLAY, duration=60, spectra=4096, speed="1.0")
    run = ryle("run", path, "-o", tmp_path)
    wait_for(tmp_path / "small.uvh5", 2, run)
    run.signal(signal.SIGINT)
    assert run.end(60) == 0, run.said
    kept = re.search(r"stopped after [\d.]+ of 60.00 s: (\d+) integrations are kept in \S+small.uvh5", run.said)
    assert kept and int(kept[1]) == len(nsamples(tmp_path / "small.uvh5")) >= 2, run.said
    assert "Traceback" not in run.said and not list(tmp_path.glob("*.journal"))


@pytest.mark.parametrize("role", ["f", "x", "catcher", "fx"])
def test_engines_that_there_are_not(observation, one, ryle, tmp_path, role):
    """Engines of their own are refused beside [fx], and the one process without it, before anything is opened."""
    path, _ = observation() if role == "fx" else one()
    engine = ryle("engine", role, path)
    assert engine.end() == 2
    assert "fx" in engine.said and ("is missing" if role == "fx" else "start `ryle engine fx`") in engine.said
    assert not list(tmp_path.glob("*.uvh5"))
