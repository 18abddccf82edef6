"""What goes wrong in a run, and what an operator then sees: a clear message, a file that can be read, a new start."""

import os
import signal
import subprocess
import time

import h5py
import pytest

pytestmark = pytest.mark.long


def integrations(path):
    """Integrations that a file holds, by the book."""
    with h5py.File(path) as file:
        return int(file["Header/Ntimes"][()])


def begun(path):
    """Whether a few are there; a file that is just being made cannot be opened."""
    try:
        return integrations(path) >= 3
    except (OSError, KeyError):
        return False


@pytest.fixture
def running(observation, ryle, tmp_path):
    """Start a run in real time of many integrations; wait until it writes."""

    def start(**more):
        path, _ = observation(duration=120, spectra=4096, speed="0.5")  # 0.26 s of signal an integration
        run = ryle("run", path, "--output", tmp_path, **more)
        file = tmp_path / "small.uvh5"
        deadline = time.monotonic() + 120
        while not begun(file):
            assert run.process.poll() is None and time.monotonic() < deadline, run.said
            time.sleep(0.2)
        return run, file

    return start


@pytest.mark.parametrize("victim", ["simulate0", "f0", "x1", "catcher0"])
def test_killed(running, victim):
    """Whoever dies is named, all others end, the file holds what was said to be in it."""
    run, file = running()
    os.kill(run.children()[victim], signal.SIGKILL)
    assert run.end(120) != 0
    assert not run.children()
    names = {"simulate0": "simulate", "f0": "F-engine 0", "x1": "X-engine 1", "catcher0": "catcher"}
    said = " ".join(run.said.split())
    assert f"{names[victim]} was killed by signal 9" in said and "integrations are safe in" in said
    assert integrations(file) > 0


def test_supervisor_killed(running):
    """Engines whose supervisor is gone drain and end by themselves; the file is whole."""
    run, file = running()
    engines = run.children()
    run.signal(signal.SIGKILL)
    run.process.wait()
    deadline = time.monotonic() + 90
    while any(os.path.exists(f"/proc/{pid}") for pid in engines.values()):
        assert time.monotonic() < deadline, engines
        time.sleep(0.2)
    assert integrations(file) > 0


@pytest.mark.parametrize("victim", ["f1", "x0", "catcher0"])
def test_stopped_for_three_seconds(running, victim):
    """A process that stands still for 3 s and goes on: the run goes on, and ends in order."""
    run, file = running()
    before = integrations(file)
    pid = run.children()[victim]
    os.kill(pid, signal.SIGSTOP)
    time.sleep(3)
    os.kill(pid, signal.SIGCONT)
    deadline = time.monotonic() + 60
    while integrations(file) < before + 8:
        assert run.process.poll() is None and time.monotonic() < deadline, run.said
        time.sleep(0.5)
    run.signal(signal.SIGINT)
    assert run.end(120) == 0, run.said
    assert integrations(file) >= before + 8


def test_port_taken(observation, ryle, tmp_path):
    """A second run on the same ports says whose port it wanted; the first goes on."""
    path, ports = observation(duration=120, spectra=4096, speed="0.5")
    first = ryle("engine", "catcher", path, "--output", tmp_path / "first")
    first.wait_ready()
    second = ryle("run", path, "--output", tmp_path / "second")
    assert second.end(120) != 0
    assert f"cannot receive at 127.0.0.1:{ports['visibilities']}" in " ".join(second.said.split())
    assert first.process.poll() is None


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
def test_full_disk(observation, ryle, tmp_path):
    """The run ends with a message that names the file, and the file holds what it says."""
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", disk], check=True)
    try:
        path, _ = observation(duration=120, spectra=1024)
        run = ryle("run", path, "--output", disk)
        assert run.end(200) != 0
        said = " ".join(run.said.split())
        assert "small.uvh5" in said and "No space left" in said and "catcher" in said
        assert integrations(disk / "small.uvh5") > 0
    finally:
        subprocess.run(["umount", disk], check=True)
