"""Recordings correlated by a real Ray cluster on this machine: to the bit what one machine makes, whoever is killed."""

import io
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from rich.console import Console

import recorded
from ryle.bench.ray_cluster import cluster
from ryle.config import ConfigError, load
from ryle.deploy.offline import correlate_anywhere
from ryle.engines.offline import correlate
from same_file import assert_same


@pytest.fixture(scope="module")
def address():
    with cluster(cores=6) as found:
        yield found


@pytest.fixture
def array(tmp_path, rng):
    """An observation file, recordings, and what one machine makes of them."""
    o = recorded.observation(more=recorded.VDIF)
    file = tmp_path / "array.toml"
    file.write_text(o.text)
    recordings = recorded.vdif(tmp_path, rng, 4.0)
    o = load(file)
    wholes = correlate(o, recordings, tmp_path / "whole", Console(file=io.StringIO()))
    return file, o, list(map(str, recordings)), [r.file for r in wholes]


def assert_equal(results, wholes):
    for result, whole in zip(results, wholes, strict=True):
        assert result.file.name == whole.name
        assert_same(result.file, whole)
    assert not list(result.file.parent.glob("*.pieces"))


def until(condition, patience=60):
    end = time.monotonic() + patience
    while not (found := condition()):
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.005)
    return found


def under_way(directory):
    """Processes that are at a piece, by the names of directories."""
    return {int(path.name.rpartition(".")[2]): path for path in directory.glob("*.pieces/.0*")}


@pytest.mark.long
def test_a_worker_killed_in_the_middle_changes_nothing(address, array, tmp_path):
    _, o, recordings, wholes = array
    killed = []

    def kill():
        directory = tmp_path / "out"
        for _ in range(2):
            process = until(lambda: [p for p in under_way(directory) if p not in killed])[0]
            os.kill(process, signal.SIGKILL)
            killed.append(process)

    thread = threading.Thread(target=kill)
    thread.start()
    results = correlate_anywhere(
        o, recordings, tmp_path / "out", Console(file=io.StringIO()), address=address, pieces=6
    )
    thread.join()
    assert len(killed) == 2
    assert_equal(results, wholes)


@pytest.mark.long
def test_it_goes_on_after_a_stop(address, array, tmp_path):
    file, _, recordings, wholes = array
    command = [sys.executable, "-m", "ryle", "correlate", str(file), "--on", "ray", "--ray", address, "--pieces", "8"]
    command += ["-i", recordings[0], recordings[1], "-o", str(tmp_path / "out")]
    first = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    until(lambda: list(tmp_path.glob("out/*.pieces/0*")))
    first.send_signal(signal.SIGINT)
    _, said = first.communicate(timeout=60)
    assert first.returncode == 130, said
    finished = {path.name: path.stat().st_mtime_ns for path in tmp_path.glob("out/*.pieces/0*")}
    assert 0 < len(finished) < 8
    assert "pieces are kept in" in said and "the same command does the rest" in said
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    assert f"{len(finished)} of 8 pieces are there already" in done.stderr
    for whole in wholes:
        assert_same(tmp_path / "out" / whole.name, whole)
    assert not list((tmp_path / "out").glob("*.pieces"))


@pytest.mark.long
def test_a_bad_recording_is_told_as_on_one_machine(address, array, tmp_path):
    _, o, recordings, _ = array
    console = Console(file=io.StringIO(), width=400)
    with pytest.raises(ConfigError) as here:
        correlate(o, [Path(recordings[0])], tmp_path / "out", console)
    with pytest.raises(ConfigError) as there:
        correlate_anywhere(o, recordings[:1], tmp_path / "out", console, address=address)
    assert str(here.value) == str(there.value)
    # One that goes bad behind the back of who shared the work out: an error of a piece, which ends it.
    shared = Path(recordings[1])
    seen = threading.Event()

    def spoil():
        until(lambda: list(tmp_path.glob("out/*.pieces/pieces.json")))
        shared.write_bytes(b"")
        seen.set()

    thread = threading.Thread(target=spoil)
    thread.start()
    with pytest.raises(RuntimeError, match=r"b\.vdif has 0 bytes on"):
        correlate_anywhere(o, recordings, tmp_path / "out", console, address=address, pieces=8)
    thread.join()
    assert seen.is_set()


def test_without_a_cluster_it_says_what_to_do(tmp_path):
    (file := tmp_path / "array.toml").write_text(recorded.observation(more=recorded.VDIF).text)
    (tmp_path / "a.vdif").write_bytes(bytes(99))
    recordings = [str(tmp_path / "a.vdif")] * 2
    command = [sys.executable, "-m", "ryle", "correlate", str(file), "--on", "ray", "--ray", "127.0.0.1:1"]
    command += ["-o", str(tmp_path), "-i", *recordings]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 1 and "no Ray cluster answers at 127.0.0.1:1" in done.stderr, done.stderr
    assert "ray start --head" in done.stderr
