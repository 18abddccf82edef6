"""An array that already sends when the correlator starts: nothing is lost, the first integration is whole."""

import re
import signal
import time

import h5py
import pytest

LOSSES = ("lost", "late", "dup", "bad")


def table(said):
    """Losses of each process in the last table that a run printed."""
    head, rows = None, {}
    for line in said.splitlines():
        words = line.split()
        if words[:2] == ["process", "state"]:
            head, rows = words, {}
        elif head and (found := re.match(r" *(F \d+|X \d+|catcher) +(\w+) +(.*)", line)):
            rows[found[1]] = dict(zip(LOSSES, found[3].split()[3:7], strict=True))
    return rows


def samples(path):
    """Samples of each integration of a file, shape (integration, rest)."""
    with h5py.File(path) as file:
        times, found = int(file["Header/Ntimes"][()]), file["Data/nsamples"][...]
    return found.reshape(times, -1) if times else found


@pytest.fixture
def sending(observation, ryle, tmp_path):
    """Let an array send in real time; then start a run that has no simulator of its own, and wait for integrations."""

    arrays = []

    def start(count=6, spectra=4096, **more):
        path, _ = observation(duration=None, spectra=spectra, speed="1.0", **more)
        path.write_text(path.read_text() + 'replay = "50 ms"\n')
        for earlier in arrays:
            earlier.kill()
        array = ryle("simulate", path)
        arrays.append(array)
        array.wait_for(lambda p: any(s["state"] == "running" and s.get("sent") for s in p.statuses))
        out = tmp_path / f"{time.monotonic_ns()}"
        run = ryle("run", path, "--no-simulate", "--output", out)
        deadline, file = time.monotonic() + 120, out / "small.uvh5"
        while True:
            try:
                if len(samples(file)) >= count:
                    break
            except (OSError, KeyError, ValueError):
                pass  # it is just being made, or written
            assert run.process.poll() is None and time.monotonic() < deadline, run.said
            time.sleep(0.2)
        run.signal(signal.SIGINT)
        assert run.end(60) == 0, run.said
        kept = re.search(r"stopped after [\d.]+ s: (\d+) integrations are kept in \S+small.uvh5", run.said)
        assert kept and int(kept[1]) == len(samples(file)), run.said
        return run, samples(file)

    return start


def test_first_integration_is_whole(sending, steady):
    """Nobody counts what came before everybody was ready; of what came after, nothing is missing anywhere."""

    def body():
        run, each = sending()
        assert (each[:-2] == 1).all(), [float(e.mean()) for e in each]
        rows = table(run.said)
        assert set(rows) == {"F 0", "F 1", "X 0", "X 1", "catcher"}
        assert not any(int(n) for row in rows.values() for n in row.values()), rows
        began = re.search(r"began at integration (\d+), the first whole one", run.said)
        assert began and int(began[1]) > 0

    steady(body)
