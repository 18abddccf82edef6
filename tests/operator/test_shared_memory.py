"""/dev/shm is everybody's: others can put anything there, or it may be missing; nobody hangs, or ends for that."""

import json
import os
import signal
import subprocess

import h5py
import pytest

from x_heaps import heap


@pytest.fixture
def shared(tmp_path, monkeypatch):
    directory = tmp_path / "shm"
    directory.mkdir()
    monkeypatch.setenv("RYLE_STATUS_DIR", str(directory))
    return directory


def fifo(path):
    os.mkfifo(path)


def endless(path):
    path.symlink_to("/dev/zero")


def huge(path):
    with path.open("wb") as file:
        file.truncate(1 << 36)  # no block of it is on any disk


def deep(path):
    path.write_text("[" * 10**6)


def test_traps_in_place_of_pages(shared, observation, ryle, send, tmp_path):
    """Somebody made pages under the names of engines, and others; engines start, and people see what is there."""
    path, ports = observation(duration=60)
    for name, trap in {"catcher0": fifo, "x0": endless, "f0": huge, "f1": deep, "anything": fifo}.items():
        (shared / f"ryle.{name}").mkdir()
        trap(shared / f"ryle.{name}" / "status.json")
    catcher = ryle("engine", "catcher", path, "--output", tmp_path)
    catcher.wait_ready(60)
    for index in range(5, 15):
        for substream in (0, 1):
            send(ports["visibilities"], heap(index, substream, 1))
    catcher.wait_for(lambda p: any(s.get("integrations", 0) >= 10 for s in p.statuses), 60)
    status = ryle("status", "--json")
    assert status.end(60) == 0, status.said
    assert [p["values"]["role"] for p in json.loads("\n".join(status.lines))] == ["catcher"]
    assert ryle("status", "clean").end(60) == 0
    catcher.signal(signal.SIGTERM)
    assert catcher.end(60) == 0, catcher.said


def test_traps_in_place_of_a_ring(shared, ryle, ports, tmp_path):
    port = ports(1)
    capture = ryle("capture", "counter_8192", "--at", f"127.0.0.1:{port}", "--chunks", "12")
    capture.wait_for(lambda p: any("waiting" in line for line in p.lines), 60)
    (ring,) = shared.glob("*/ring")
    for trap in (fifo, endless, huge):
        ring.unlink()
        trap(ring)
        dump = ryle("status", "dump", "newest", tmp_path / "chunk")
        assert dump.end(60) != 0
        assert "Traceback" not in dump.said and str(ring) in "".join(dump.said.split()), trap
    capture.signal(signal.SIGTERM)
    assert capture.end(60) == 0


ABSENT = """
d=$(mktemp -d); mount -t tmpfs none $d
for f in null zero full random urandom; do touch $d/$f; mount --bind /dev/$f $d/$f; done
ln -s /proc/self/fd $d/fd; mount --bind $d /dev; exec "$@"
"""
READ_ONLY = 'mount -t tmpfs -o ro none /dev/shm; exec "$@"'
FULL = 'mount -t tmpfs -o size=4k none /dev/shm; head -c 4096 /dev/zero >/dev/shm/full; exec "$@"'


WAYS = {
    "absent": (ABSENT, "there is none: mount it"),
    "read-only": (READ_ONLY, "cannot be written (Read-only file system)"),
    "full": (FULL, "it is full: see 'df /dev/shm'"),
}


@pytest.fixture(params=[way if way == "read-only" else pytest.param(way, marks=pytest.mark.long) for way in WAYS])
def without(request):
    """Give what runs a program where there is no shared memory, and what is then to be said."""
    if subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True).returncode:
        pytest.skip("mount namespaces need root")
    how, why = WAYS[request.param]
    return ["unshare", "-m", "sh", "-c", how, "sh", "env", "-u", "RYLE_STATUS_DIR"], why


def test_an_engine_without_shared_memory(without, observation, ryle, send, tmp_path):
    """It says so, and what to do, and goes on."""
    inside, why = without
    path, ports = observation(duration=60)
    catcher = ryle("engine", "catcher", path, "--output", tmp_path, prefix=inside)
    catcher.wait_ready()
    for index in range(5, 15):
        for substream in (0, 1):
            send(ports["visibilities"], heap(index, substream, 1))
    catcher.wait_for(lambda p: any(s.get("integrations", 0) >= 10 for s in p.statuses), 60)
    catcher.signal(signal.SIGTERM)
    assert catcher.end(60) == 0, catcher.said
    assert why in catcher.said and "Traceback" not in catcher.said
    status = ryle("status", prefix=inside)
    assert status.end(60) == 0 and "nothing of Ryle runs here" in status.said


@pytest.mark.long
def test_a_run_without_shared_memory(without, observation, ryle, tmp_path):
    """It says so once, and loses nothing but its status pages."""
    inside, why = without
    path, _ = observation(duration=0.5)
    run = ryle("run", path, "--output", tmp_path, prefix=inside)
    assert run.end(120) == 0, run.said
    said = " ".join(run.said.split())
    assert "no status pages: /dev/shm, where `ryle status` would find it" in said and why in said
    assert "Traceback" not in said
    with h5py.File(tmp_path / "small.uvh5") as file:
        assert int(file["Header/Ntimes"][()]) > 50
