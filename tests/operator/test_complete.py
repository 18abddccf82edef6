"""What an X-engine has sent is in the file before the next integration begins, also if the catcher dies then."""

import contextlib
import signal
import time

import h5py
import pytest

from x_heaps import heap


def integrations(path):
    """What any reader finds in the file as it stands."""
    with contextlib.suppress(OSError, KeyError), h5py.File(path, "r", locking=False) as file:
        return int(file["Header/Ntimes"][()])
    return 0


@pytest.mark.parametrize("speed", [pytest.param('"max"', marks=pytest.mark.long), "1.0"])
def test_killed_after_each_integration(observation, ryle, send, tmp_path, speed):
    path, ports = observation(duration=60, speed=speed)
    catcher = ryle("engine", "catcher", path, "--output", tmp_path)
    catcher.wait_ready()
    for index in range(3):
        for substream in (1, 0):
            send(ports["visibilities"], heap(5 + index, substream, 1))
        until = time.monotonic() + 60
        while integrations(tmp_path / "small.uvh5") <= index:
            assert time.monotonic() < until, f"integration {index} is not in the file: {catcher.said}"
            time.sleep(0.02)
    catcher.signal(signal.SIGKILL)
    assert catcher.end(60) == -signal.SIGKILL
    recovered = ryle("recover", tmp_path / "small.uvh5")
    assert recovered.end(60) == 0, recovered.said
    with h5py.File(tmp_path / "small.uvh5") as file:
        assert int(file["Header/Ntimes"][()]) == 3 and not file["Data/flags"][...].any()
