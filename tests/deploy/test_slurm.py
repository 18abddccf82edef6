"""Job scripts: what they say, and a job of two kinds of host under a Slurm that is started here, with the file of `ryle run`."""

import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import h5py
import numpy as np
import pytest

from ports import free_ports
from ryle.deploy.slurm import mask, script

RYLE = str(Path(sys.executable).with_name("ryle"))
_WRITTEN = '"event": "written"'
NEEDED = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scancel", "squeue", "scontrol")
needs_slurm = pytest.mark.skipif(
    os.geteuid() != 0 or any(not shutil.which(name) for name in NEEDED) or len(os.sched_getaffinity(0)) < 2,
    reason="needs Slurm and munge (slurm-wlm, munge), root to start them, and two cores",
)


def test_what_a_script_says(planned, tmp_path):
    (text,) = script(
        planned(lambda text: text.replace("taps = 8", 'taps = 8\nbackend = "cuda"'), gpus=((1,), ()))
    ).values()
    head, group = text.split("#SBATCH hetjob\n")
    asked = [shlex.split(line.removeprefix("#SBATCH ")) for line in head.splitlines() if line.startswith("#SBATCH")]
    assert {"--nodelist=a", "--cpus-per-task=2", "--exclusive", "--gres=gpu:2"} <= {
        word for line in asked for word in line
    }
    assert "--nodelist=b" in group and "--cpus-per-task=5" in group and "#SBATCH --gres" not in group
    starts = [shlex.split(line) for line in group.splitlines() if line.startswith("start ")]
    assert [words[2] for words in starts] == ["catcher0", "x0", "x1", "f0"]
    for words in starts:
        host = {"f0": "a", "x0": "a", "x1": "b", "catcher0": "b"}[words[2]]
        assert f"--nodelist={host}" in words and f"--het-group={['a', 'b'].index(host)}" in words
    f = starts[-1]
    assert "--cpu-bind=mask_cpu:0x1" in f and "--gres=gpu:2" in f and "CUDA_VISIBLE_DEVICES=1" in f
    assert "--cpu-bind=mask_cpu:0x13" in starts[2] and not any("gres" in word for word in starts[2])
    assert [line for line in group.splitlines() if line.startswith("finish ")] == [
        "finish f",
        "finish x",
        "finish catcher",
    ]
    assert subprocess.run(["bash", "-n"], input=text, text=True).returncode == 0


def test_one_kind_of_host_is_no_heterogeneous_job(planned):
    d = planned()
    one = type(d)(d.name, d.plan, d.observation, d.hosts[:1], tuple(p for p in d.processes if p.host == "a"))
    (text,) = script(one).values()
    assert "hetjob" not in text and "--het-group" not in text and "--nodelist=a" in text


def test_masks_are_bits():
    assert [int(mask(cores), 16) for cores in ((0,), (1, 3), (127,))] == [1, 10, 1 << 127]


@pytest.fixture(scope="module")
def slurm():
    """A Slurm with two nodes on this machine; gives what runs a command of it."""
    directory = Path(tempfile.mkdtemp(prefix="ryle-slurm-"))
    directory.chmod(0o755)
    ports, host = free_ports(3), socket.gethostname()
    cores = max(8, os.cpu_count() or 1)  # more than there are, so that hosts have what the plan says; it binds to two
    (directory / "state").mkdir()
    (key := directory / "key").write_bytes(os.urandom(1024))
    key.chmod(0o400)
    nodes = "\n".join(
        f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={ports + 1 + n} CPUs={cores}"
        for n, name in enumerate("ab")
    )
    (conf := directory / "slurm.conf").write_text(
        f"""
ClusterName=ryle
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports}
AuthType=auth/munge
AuthInfo=socket={directory}/munge
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation={directory}/state
SlurmdSpoolDir={directory}/spool_%n
SlurmctldPidFile={directory}/ctld.pid
SlurmdPidFile={directory}/%n.pid
SlurmctldLogFile={directory}/ctld.log
SlurmdLogFile={directory}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/affinity
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
MpiDefault=none
SchedulerParameters=bf_interval=1,sched_interval=1
{nodes}
PartitionName=all Nodes=a,b Default=YES MaxTime=INFINITE State=UP
"""
    )
    own = [
        f"--{name}={directory}/munge{end}" for name, end in (("socket", ""), ("pid-file", ".pid"), ("log-file", ".log"))
    ]
    commands = [
        ["munged", "--foreground", "--force", f"--key-file={key}", f"--seed-file={directory}/seed", *own],
        ["slurmctld", "-D", "-c"],
        ["slurmd", "-D", "-N", "a"],
        ["slurmd", "-D", "-N", "b"],
    ]
    environment = os.environ | {"SLURM_CONF": str(conf)}
    running = []
    with (directory / "said").open("w") as said:
        for command in commands:
            running.append(subprocess.Popen(command, env=environment, stdout=said, stderr=said))
            time.sleep(1)

    def call(*command, **options):
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, **options)

    call.logs = [directory / name for name in ("ctld.log", "a.log", "b.log", "said")]
    try:
        until(
            lambda: call("sinfo", "-h", "-o", "%T").stdout.strip() == "idle",
            60,
            lambda: (directory / "said").read_text(),
        )
        yield call
    finally:
        for process in reversed(running):
            process.terminate()
        for process in running:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
        shutil.rmtree(directory, ignore_errors=True)


def until(true, seconds, said=lambda: ""):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, said()
        time.sleep(0.5)


class Job:
    """A job of the small observation: what stands in files, and what is there at its end."""

    def __init__(self, slurm, planned, tmp_path, speed):
        self.slurm, self.data, self.directory = slurm, tmp_path / "data", tmp_path
        self.data.mkdir()

        def change(text):
            return text.replace("speed = 0.1", f"speed = {speed}")

        d = planned(change, program=RYLE, data=str(self.data), simulate=True, cores={"x1": [0], "catcher0": [1]})
        ((name, text),) = script(d).items()
        self.path = tmp_path / name
        self.path.write_text(text)
        self.number = None

    def submit(self):
        tried = self.slurm("sbatch", "--test-only", str(self.path), cwd=self.directory)
        assert tried.returncode == 0 and re.search(r"to start at .* on a,b", tried.stderr), tried.stderr
        ended = self.slurm("sbatch", "--parsable", str(self.path), cwd=self.directory)
        assert ended.returncode == 0, ended.stderr
        self.number = ended.stdout.strip()

    def said(self):
        logs = [*sorted(self.directory.glob("*.log")), *sorted(self.directory.glob("*.out")), *self.slurm.logs]
        return "\n".join(f"{path.name}: {path.read_text(errors='replace')[-1500:]}" for path in logs)

    def log(self, name):
        return "".join(path.read_text(errors="replace") for path in self.directory.glob(f"{name}-*.log"))

    def wait(self, seconds):
        until(lambda: not self.slurm("squeue", "-h").stdout.strip(), seconds, self.said)
        state = self.slurm("scontrol", "show", "job", self.number).stdout
        assert re.findall(r"JobState=(\w+)", state) == ["COMPLETED", "COMPLETED"], state + self.said()


@pytest.fixture
def job(slurm, planned, tmp_path):
    made = []

    def make(speed):
        made.append(Job(slurm, planned, tmp_path, speed))
        return made[0]

    yield make
    for each in made:
        slurm("scancel", str(each.number))
        until(lambda: not slurm("squeue", "-h").stdout.strip(), 60)


def visibilities(path):
    with h5py.File(path) as file:
        return [file[f"Data/{name}"][()] for name in ("visdata", "flags", "nsamples")] + [file["Header/time_array"][()]]


@needs_slurm
@pytest.mark.long
@pytest.mark.timeout(400)
def test_a_job_writes_the_file_of_a_run(job, tmp_path):
    j = job(0.1)
    j.submit()
    j.wait(240)
    ran = tmp_path / "ran"
    observation = str(tmp_path / "small.toml")
    ended = subprocess.run([RYLE, "run", observation, "-o", str(ran)], capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stderr
    for ours, theirs in zip(visibilities(j.data / "demo.uvh5"), visibilities(ran / "demo.uvh5"), strict=True):
        assert np.array_equal(ours, theirs)
    assert len(visibilities(ran / "demo.uvh5")[0]) >= 6 * 6  # integrations by baselines


@needs_slurm
@pytest.mark.long
@pytest.mark.timeout(400)
def test_an_engine_that_is_killed_starts_again_and_the_others_go_on(job):
    j = job(0.04)
    j.submit()
    until(lambda: _WRITTEN in j.log("catcher0"), 200, j.said)
    wanted = ["engine", "x", f"{j.directory}/small.toml", "--index", "1"]
    (process,) = (pid for pid, words in processes() if "python" in Path(words[0]).name and words[2:7] == wanted)
    os.kill(process, signal.SIGKILL)
    before = j.log("catcher0").count(_WRITTEN)
    j.wait(200)
    assert j.log("catcher0").count(_WRITTEN) > before + 2, j.said()
    assert "x1 ended with exit status" in j.said()
    flags = visibilities(j.data / "demo.uvh5")[1].reshape(-1, 6, 256, 4)[:-1]  # of the last not all was sent
    assert not flags[:, :, :128].any(), flags.mean(axis=(1, 3))
    assert flags[:, :, 128:].any() and not flags[[0, -1], :, 128:].any(), flags.mean(axis=(1, 3))


def processes():
    """Give every process of this machine, and its command line as words."""
    for path in Path("/proc").glob("[0-9]*"):
        try:
            words = (path / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue  # it has just ended
        yield int(path.name), words
