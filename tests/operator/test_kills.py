"""Any process of a live run is killed at any time: the others end, the file is whole, and the next run just starts."""

import os
import re
import signal
import subprocess
import time

import h5py
import numpy as np
import pytest

NAMES = {"simulate": "simulate", "f": "F-engine {}", "x": "X-engine {}", "catcher": "catcher"}


def begun(file, count):
    try:
        with h5py.File(file) as f:
            return int(f["Header/Ntimes"][()]) >= count
    except (OSError, KeyError):
        return False  # it is just being made


def whole(file):
    """What a reader finds: integrations that agree with each other in all that is said of them."""
    with h5py.File(file) as f:
        times, rows = int(f["Header/Ntimes"][()]), int(f["Header/Nblts"][()])
        names = "Data/visdata", "Data/nsamples", "Data/flags", "Header/time_array", "Header/uvw_array"
        assert {f[name].shape[0] for name in names} == {rows} and rows == times * int(f["Header/Nbls"][()])
        each = np.unique(f["Header/time_array"][()])
        assert len(each) == times and np.isfinite(f["Data/visdata"][()]).all()
        return times


def ended(pids, seconds):
    """Wait until none of some processes is there any more."""
    deadline = time.monotonic() + seconds
    while left := [pid for pid in pids if os.path.exists(f"/proc/{pid}")]:
        assert time.monotonic() < deadline, subprocess.run(
            ["ps", "-o", "pid,stat,etime,args", *map(str, left)], capture_output=True, text=True
        ).stdout
        time.sleep(0.1)


@pytest.fixture(scope="module")
def workplace(tmp_path_factory):
    """One directory and the same ports for all runs: what a killed one leaves is in the way of the next."""
    return tmp_path_factory.mktemp("kills")


@pytest.fixture
def live(observation, ryle, workplace):
    """Start a run in real time, with one F- and one X-engine or two each; give it and its processes."""

    def start(engines):
        path = workplace / f"small{engines}.toml"
        if not path.exists():
            made, _ = observation(duration=120, spectra=4096, speed="0.5", sub=64 // engines)  # 0.26 s an integration
            text = made.read_text().replace("[fengine]", f"[fengine]\nantennas_per_engine = {2 // engines}")
            path.write_text(text)
        run = ryle("run", path, "--output", workplace / "out")
        run.wait_for(lambda p: len(p.children()) == 2 + 2 * engines, 60)
        return run, run.children() | {"supervisor": run.process.pid}

    return start


# A minute each on a busy machine.
KILLS = int(os.environ.get("RYLE_KILLS", "4"))


@pytest.mark.long
@pytest.mark.parametrize(("engines", "number"), [(1 + n % 2, n) for n in range(KILLS)])
def test_killed_at_any_time(live, rng, workplace, engines, number):
    before = set((workplace / "out").glob("*.uvh5"))
    run, processes = live(engines)
    victim = rng.choice(sorted(processes))
    starting = rng.random() < 0.2
    if not starting:
        files = (workplace / "out" / f"small{n}.uvh5" for n in ("", *(f"-{n}" for n in range(2, 99))))
        file = next(f for f in files if f not in before)
        deadline = time.monotonic() + 120
        while not begun(file, 2):
            assert run.process.poll() is None and time.monotonic() < deadline, run.said
            time.sleep(0.1)
    time.sleep(rng.random() * (8 if starting else 3))
    os.kill(processes[victim], signal.SIGKILL)
    code, safe = run.end(120), 0
    said = " ".join(run.said.split())
    if victim == "supervisor":
        assert code == -signal.SIGKILL
    else:
        role, index = re.fullmatch(r"([a-z]+)(\d+)", victim).groups()
        assert code not in (0, -signal.SIGKILL), said
        assert f"{NAMES[role].format(index)} was killed by signal 9" in said and "Traceback" not in said, said
        found = re.search(r"(\d+) integrations are safe in|nothing was written", said)
        assert found, said
        safe = int(found[1] or 0)
    ended(processes.values(), 90)
    new = set((workplace / "out").glob("*.uvh5")) - before
    assert len(new) == 1 or (starting and not new), said
    for file in new:
        try:
            assert whole(file) >= max(safe, 0 if starting else 2)
        except OSError:
            assert starting and not safe, f"{file} cannot be read: {said}"  # it was just being made
