"""An array that already sends when the correlator starts: nothing is lost, the first integration is whole."""

import re
import signal
import time

import h5py
import pytest

from ryle.monitor.page import read_pages

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


def states():
    """Of F- and X-engines and catcher: those who listen were told to go."""
    return {p.values.get("state") for p in read_pages() if p.alive and p.values.get("role") in ("f", "x", "catcher")}


def lasting(path, seconds):
    """The same observation, of so many seconds, beside its file."""
    other = path.with_name("night.toml")
    other.write_text(path.read_text().replace('name = "small"', f'name = "night"\nduration = "{seconds} s"'))
    return other


def test_a_run_ends_when_its_duration_is_over(observation, ryle, tmp_path, steady):
    """Counted from its first integration: the array goes on sending, and has sent for some time before."""
    path, _ = observation(duration=None, spectra=2048, speed="1.0")
    path.write_text(path.read_text() + 'replay = "50 ms"\n')
    night, file = lasting(path, 1.5), tmp_path / "out" / "night.uvh5"
    array = ryle("simulate", path)
    array.wait_for(lambda p: any(s["state"] == "running" and s.get("position", 0) > 3 for s in p.statuses))

    def body():
        run = ryle("run", night, "--no-simulate", "--output", file.parent, "--overwrite")
        assert run.end(60) == 0, run.said
        assert array.process.poll() is None
        # Eleven of 0.131 s fill 1.5 s; what was on its way then is kept too.
        written = len(samples(file))
        assert written >= 11, run.said
        assert re.search(rf"^{written} integrations → \S+night.uvh5", run.said, re.MULTILINE), run.said
        assert "1.50 of 1.50 s" in run.said and "stopped" not in run.said

    steady(body)


@pytest.mark.long
def test_a_run_ends_when_its_time_is_over_and_the_array_is_silent(observation, ryle, tmp_path):
    """An array that ends a little early, or that was joined late, leaves nobody waiting for it."""
    path, _ = observation(duration=2, spectra=2048, speed="1.0")
    night = lasting(path, 3)
    night.write_text(night.read_text().replace('duration = "2 s"', "", 1))
    run = ryle("run", night, "--no-simulate", "--output", tmp_path / "out")
    run.wait_for(lambda _: states() == {"listening"})
    array = ryle("simulate", path)
    assert array.end(60) == 0, array.said
    assert run.end(60) == 0, run.said
    written = len(samples(tmp_path / "out" / "night.uvh5"))
    assert 10 <= written <= 16, run.said
    kept = re.search(r"the array fell silent after [\d.]+ of 3.00 s: (\d+) integrations are kept", run.said)
    assert kept and int(kept[1]) == written, run.said
