"""Nothing hangs at exit, on a busy machine, whatever way the end comes."""

import signal
import time

import pytest


def test_simulate_ends(observation, ryle):
    """A paced simulator ends, also when its sender's thread still waits for the time of the packet after the last."""
    path, _ = observation(duration=0.002)
    running = [ryle("simulate", path, "--speed", "0.0006") for _ in range(3)]  # 0.2 s a packet
    assert [p.end(60) for p in running] == [0, 0, 0]


@pytest.mark.long
def test_simulate_ends_on_a_busy_machine(observation, ryle, load):
    """Twenty times."""
    path, _ = observation(duration=0.002)
    with load():
        for _ in range(5):
            running = [ryle("simulate", path, "--speed", speed) for speed in ("max", "0.002", "0.001", "0.0006")]
            assert [p.end(100) for p in running] == [0, 0, 0, 0]


@pytest.mark.parametrize("number", [pytest.param(signal.SIGINT, marks=pytest.mark.long), signal.SIGTERM])
def test_told_to_end(observation, ryle, load, tmp_path, number):
    path, _ = observation(duration=600, speed="0.2")
    with load():
        engines = ryle("engine", "f", path), ryle("engine", "x", path), ryle("engine", "catcher", path, "-o", tmp_path)
        running = [ryle("simulate", path), *engines]
        for process in running:
            process.wait_ready()
        time.sleep(1)
        for process in running:
            process.signal(number)
        assert [p.end(60) for p in running] == [0, 0, 0, 0]


@pytest.mark.long
def test_an_error_on_the_way_ends_it(observation, ryle):
    """An engine whose port is taken ends with a message, though its sender is open already."""
    path, _ = observation()
    first = ryle("engine", "f", path)
    first.wait_ready()
    for _ in range(3):
        second = ryle("engine", "f", path)
        assert second.end(60) != 0
        assert "cannot receive at" in second.said and "Traceback" not in second.said
