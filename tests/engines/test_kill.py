"""kill -9 of any process of a run: the file keeps what was reported, the run says who died, nobody is left behind.

RYLE_SOAK=n kills each n times, at moments from the very start on.
"""

import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import h5py
import numpy as np
import pytest
from pyuvdata import UVData

from ports import free_ports
from ryle.config import load
from ryle.gpu import gpu_problem
from ryle.monitor.page import read_pages
from ryle.products.uvh5 import recover

PF_EXITING = 4  # of the kernel: no signal comes between a process and its exit status any more
SOAK = int(os.environ.get("RYLE_SOAK", "0"))
ROLES = {
    "simulate": ("simulate", "simulate"),
    "f": ("engine f", "F-engine 0"),
    "x": ("engine x", "X-engine 0"),
    "catcher": ("engine catcher", "catcher"),
    "fx": ("engine fx", "FX"),
}


def processes(file):
    """Commands of all processes that were given `file`, by process ID."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                words = (entry / "cmdline").read_bytes().decode().split("\0")
                state = (entry / "stat").read_text().rsplit(")", 1)[1].split()[0]
            except OSError:
                continue
            if str(file) in words and state != "Z":
                found[int(entry.name)] = " ".join(words)
    return found


def written(path):
    """Integrations that any reader finds in the file as it stands; 0 if it cannot be opened at this moment."""
    try:
        with h5py.File(path, "r", locking=False) as file:
            return int(file["Header/Ntimes"][()])
    except (OSError, KeyError):
        return 0


def small(observation_text, sub=64):
    """Eight integrations a second of two antennas, without end."""
    return observation_text(
        sends="rows",
        antennas=2,
        pols=("x",),
        rate=8_000_000,
        channels=64,
        sub=sub,
        heap_samples=4096,
        packet=8192,
        integration_spectra=8192,
        simulate='speed = 1.0\nreplay = "20 ms"',
    )


class Run:
    """`ryle run` of a small, fast, endless observation."""

    def __init__(self, tmp_path, text):
        self.file = tmp_path / "small.toml"
        self.file.write_text(text)
        self.path = tmp_path / "small.uvh5"
        self.output = (tmp_path / "output.txt").open("w+")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "ryle", "run", str(self.file), "--output", str(tmp_path)],
            stdout=self.output,
            stderr=self.output,
            env=os.environ | {"COLUMNS": "240"},
        )

    def wait_for(self, integrations):
        deadline = time.monotonic() + 120
        while written(self.path) < integrations:
            assert self.process.poll() is None, self.said()
            assert time.monotonic() < deadline, self.said()
            time.sleep(0.05)

    def hear(self, text):
        deadline = time.monotonic() + 60
        while text not in self.said():
            assert time.monotonic() < deadline, self.said()
            time.sleep(0.05)

    def kill(self, role):
        """Kill the process of a role; whether there was one that was not just ending by itself."""
        for pid, command in processes(self.file).items():
            if f"ryle {ROLES[role][0]} " in command:
                try:
                    flags = int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[6])
                    os.kill(pid, signal.SIGKILL)
                except OSError:
                    continue  # it has just ended
                if not flags & PF_EXITING:
                    return True
        return False

    def said(self):
        self.output.seek(0)
        return self.output.read()

    def nothing_left(self, patience):
        """No process remains and the ports are free."""
        deadline = time.monotonic() + patience
        while left := processes(self.file):
            assert time.monotonic() < deadline, left
            time.sleep(0.05)
        o = load(self.file)
        for endpoint in (
            o.digitizer_endpoints(0)[0],
            o.digitizer_endpoints(1)[0],
            o.spectra_endpoint(0),
            o.network.visibilities,
        ):
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
                s.bind((endpoint.host, endpoint.port))

    def opened(self):
        """The file in pyuvdata, as it was left or, failing that, recovered."""
        try:
            return UVData.from_file(self.path)
        except Exception:
            recover(self.path)
            return UVData.from_file(self.path)

    def close(self):
        for pid in processes(self.file):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()
        self.output.close()


@pytest.fixture
def run(tmp_path, observation_text):
    made = Run(tmp_path, small(observation_text))
    yield made
    made.close()


def moment(run):
    """Wait until some time in the middle of the run; in a soak, any time."""
    if SOAK and random.random() < 0.5:
        time.sleep(random.uniform(0, 8))
    else:
        run.wait_for(1)
        time.sleep(random.uniform(0, 0.7))


@pytest.mark.timeout(600)
def test_a_killed_catcher_leaves_the_others_to_go_on(tmp_path, observation_text, steady):
    """The run says so at once; afterwards one file has all that either reported, and the rest of the band is flagged.

    Who listens to the other by TCP has what that wrote meanwhile.
    """
    tries = iter(range(9))

    def body():
        (directory := tmp_path / str(next(tries))).mkdir()
        disks = [directory / "disk0", directory / "disk1"]
        port, copy = free_ports(2), directory / "copy.uvh5"
        more = f'[catcher]\ndirectories = {[str(d) for d in disks]}\n[output]\nstream = "127.0.0.1:{port}"\n'
        run, listener = Run(directory, f"{small(observation_text, sub=16)}\n{more}"), None
        try:
            run.path = disks[1] / "small.band1.uvh5"
            run.wait_for(4)
            command = [sys.executable, "-m", "ryle", "listen", f"127.0.0.1:{port + 1}", "-o", str(copy)]
            listener = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            assert "100.0 % there" in listener.stdout.readline()
            (killed,) = (p for p, c in processes(run.file).items() if "engine catcher" in c and "--index 0" in c)
            os.kill(killed, signal.SIGKILL)
            at = written(run.path)
            run.wait_for(at + 12)
            run.hear("catcher 0 was killed by signal 9")
            run.process.send_signal(signal.SIGINT)
            assert run.process.wait(120) not in (0, None)
            lines = listener.communicate(timeout=60)[0].splitlines()
            assert listener.returncode == 0
        finally:
            run.close()
            if listener is not None:
                listener.kill()
                listener.communicate()
        check_one_band(directory, run.path, copy, len(lines) + 1, at + 12)

    steady(body)


def check_one_band(directory, path, copy, listened, least):
    """What a listener and the file of the whole band have of a band whose catcher went on, and of one that was killed."""
    with h5py.File(copy) as got, h5py.File(path) as wrote:
        same = np.searchsorted(wrote["Ryle/first_spectrum"], got["Ryle/first_spectrum"])
        assert same.size == listened > 6
        for name in ("Data/visdata", "Data/nsamples", "Header/time_array", "Header/uvw_array"):
            a, b = (f[name][()].reshape(f["Header/Ntimes"][()], -1) for f in (got, wrote))
            np.testing.assert_array_equal(a, b[same])
        np.testing.assert_array_equal(got["Header/freq_array"], wrote["Header/freq_array"])
    said = (directory / "output.txt").read_text()
    reported = int(re.search(r"(\d+) integrations are safe in", said)[1])
    files = (directory / f"disk{n}" / f"small.band{n}.uvh5" for n in range(2))
    lost, whole = (recover(file).integrations for file in files)
    assert 0 < lost < whole and least <= whole <= reported
    data = UVData.from_file(directory / "small.uvh5")
    assert (data.Ntimes, data.Nfreqs) == (reported, 64)
    there = data.nsample_array.reshape(data.Ntimes, -1, 2, 32).any(axis=(1, 3))
    assert there.sum(axis=0).tolist() in ([lost, whole], [whole, lost])
    assert data.flag_array[data.nsample_array == 0].all()


@pytest.mark.parametrize("time_of", range(max(1, SOAK)))
@pytest.mark.parametrize("roles", [("simulate", "catcher"), pytest.param(("f", "x"), marks=pytest.mark.long)])
def test_killed_engines(run, roles, time_of):
    """One in mid-run, in a soak at any time, and another soon after, while the rest is being drained."""
    first, second = random.sample(roles, 2)
    moment(run)
    while not run.kill(first):
        time.sleep(0.02)
    time.sleep(random.uniform(0.3, 2))
    both = run.kill(second)
    assert run.process.wait(120) not in (0, None)
    said = run.said()
    assert f"{ROLES[first][1]} was killed by signal 9" in said
    assert (f"{ROLES[second][1]} was killed by signal 9" in said) or not both
    assert "last words" in said
    run.nothing_left(0)
    reported = re.search(r"(\d+) integrations are safe in", said)
    if reported is None:
        assert SOAK and "nothing was written" in said
        return
    assert run.opened().Ntimes >= int(reported[1]) > 0


@pytest.mark.parametrize(
    "backend",
    [
        pytest.param("cpu", marks=pytest.mark.long),
        pytest.param("cuda", marks=pytest.mark.skipif(bool(gpu_problem()), reason=f"no GPU: {gpu_problem()}")),
    ],
)
def test_a_killed_fx_engine_joins_its_array_again(tmp_path, observation_text, backend):
    """F and X in one process: `ryle run` says who died; started again beside senders, it begins at the next integration."""
    text = f'{small(observation_text)}\n[fx]\nbackend = "{backend}"\n'
    run = Run(tmp_path, text)
    try:
        run.wait_for(3)
        assert run.kill("fx")
        assert run.process.wait(120) not in (0, None)
        said = run.said()
        assert "FX was killed by signal 9" in said
        reported = re.search(r"(\d+) integrations are safe in", said)
        assert run.opened().Ntimes >= int(reported[1]) >= 3
        run.nothing_left(0)
    finally:
        run.close()
    run.path.unlink()
    command = [sys.executable, "-m", "ryle", "engine", "fx", str(run.file), "--live", "-o", str(tmp_path)]
    senders = subprocess.Popen(
        [sys.executable, "-m", "ryle", "simulate", str(run.file)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    engines, again = [], tmp_path / "small-2.uvh5"
    try:
        for path, end in ((run.path, signal.SIGKILL), (again, signal.SIGINT)):
            with (tmp_path / f"{path.name}.log").open("w+") as said:
                engines.append(subprocess.Popen(command, stdout=said, stderr=said))
                deadline = time.monotonic() + 120
                while written(path) < 4:
                    assert engines[-1].poll() is None and time.monotonic() < deadline, said.seek(0) or said.read()
                    time.sleep(0.05)
            engines[-1].send_signal(end)
            assert engines[-1].wait(120) == (-signal.SIGKILL if end == signal.SIGKILL else 0)
    finally:
        for process in (senders, *engines):
            process.kill()
            process.wait()
    parts = []
    for path in (run.path, again):
        recover(path)
        assert UVData.from_file(path).Ntimes >= 4
        with h5py.File(path) as file:
            parts.append(
                (file["Ryle/first_spectrum"][()], file["Data/nsamples"][()].reshape(file["Header/Ntimes"][()], -1))
            )
    (before, _), (after, counts) = parts
    assert not np.any(after % 8192) and after[0] > before[-1]
    assert (counts[0] == 1).all()  # none that it had joined in the middle


@pytest.mark.long
@pytest.mark.parametrize("time_of", range(max(1, SOAK)))
def test_a_killed_supervisor(run, time_of):
    """The engines drain by themselves when the supervisor is gone."""
    moment(run)
    before = written(run.path)
    os.kill(run.process.pid, signal.SIGKILL)
    run.process.wait()
    run.nothing_left(120)
    if SOAK and not before:
        return
    assert run.opened().Ntimes >= before > 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM] if SOAK else [signal.SIGINT])
def test_ctrl_c(run, number):
    """All that was sent is drained into the file, which is closed; status 0; nobody leaves a status page."""
    run.wait_for(2)
    deadline, pages = time.monotonic() + 60, {}
    # A page is half a second behind, each by itself.
    while pages.get("catcher0", {}).get("integrations", 0) < 1 or pages["f0"]["account"]["placed"] < 1:
        assert time.monotonic() < deadline, pages
        pages = {p.name: p.values for p in read_pages() if p.alive}
    assert set(pages) == {"simulate0", "f0", "x0", "catcher0"}
    os.kill(run.process.pid, number)
    assert run.process.wait(120) == 0, run.said()
    run.nothing_left(0)
    assert not [p for p in read_pages() if p.alive or p.name in pages]
    said = run.said()
    count = int(re.findall(r"(\d+) integrations written", said)[-1])
    rows = re.findall(r"^ (simulate|[FX] \d+|catcher) +(\w+) +([\d.]+)", said, re.MULTILINE)[-4:]  # the last table
    assert run.opened().Ntimes == count
    # The table tells hundredths of a second; an integration that has only begun is written too.
    fewest, most = ((float(rows[0][2]) + e) * 8e6 / (8192 * 128) for e in (-0.005, 0.005))
    assert int(fewest) <= count <= int(most) + 1
    assert not run.path.with_name(run.path.name + ".journal").exists()
    assert [name for name, _, _ in rows] == ["simulate", "F 0", "X 0", "catcher"]
    assert {state for _, state, _ in rows} == {"done"}


def test_disk_that_takes_no_more(tmp_path, observation_text):
    """The run ends with an error that names the file, which holds all that was reported."""
    file, path = tmp_path / "small.toml", tmp_path / "small.uvh5"
    file.write_text(observation_text(duration=4, channels=256, integration_spectra=512))
    command = [sys.executable, "-m", "ryle", "run", "--in-process", str(file), "--output", str(tmp_path)]
    limit = 1 << 20
    ended = subprocess.run(
        ["prlimit", f"--fsize={limit}", *command], capture_output=True, text=True, timeout=240, check=False
    )
    assert ended.returncode not in (0, None)
    holds = re.search(r"holds the\s+(\d+)\s+integrations", ended.stderr)
    assert holds and str(path) in ended.stderr, ended.stderr
    assert path.stat().st_size <= limit
    assert UVData.from_file(path).Ntimes == int(holds[1]) > 0
