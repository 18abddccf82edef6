"""A heterogeneous job on a Slurm of two hosts, both of them this one, writes the file that ``ryle run`` writes."""

import os
import shutil
import socket
import subprocess
import sys
import time
from contextlib import contextmanager

import numpy as np
import pytest

from ports import free_ports
from ryle.config import load
from ryle.deploy import read_site, slurm
from ryle.monitor.page import read_pages
from ryle.plan.hardware import read_hardware
from steered_runs import observation, visibilities

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch")
#: F-engines on one host, the rest on the other: as those addresses are one host's each.
PLACEMENT = """
[plan]
observation = "o.toml"
[[hosts]]
name = "node0"
[[hosts]]
name = "node1"
kind = "h100"
[[engines]]
kind = "f"
index = 0
host = "node0"
cores = [0]
[[engines]]
kind = "f"
index = 1
host = "node0"
cores = [1]
[[engines]]
kind = "x"
index = 0
host = "node1"
cores = [0]
[[engines]]
kind = "x"
index = 1
host = "node1"
cores = [1]
[[engines]]
kind = "catcher"
index = 0
host = "node1"
"""
CLUSTER = """
ClusterName=test
SlurmctldHost={name}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/affinity
SwitchType=switch/none
MpiDefault=none
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,sched_min_interval=0
ReturnToService=2
KillWait=60
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
NodeName=node0 NodeHostname={name} NodeAddr=127.0.0.1 Port={first} CPUs={cpus}
NodeName=node1 NodeHostname={name} NodeAddr=127.0.0.1 Port={second} CPUs={cpus}
PartitionName=all Nodes=ALL Default=YES
"""


@contextmanager
def cluster(folder):
    """Run munge, a controller and two hosts of one machine; give the environment for Slurm's commands."""
    folder.mkdir(mode=0o755)
    (folder / "state").mkdir()
    (key := folder / "munge.key").write_bytes(os.urandom(1024))
    key.chmod(0o400)
    port = free_ports(3)
    name = socket.gethostname()
    (folder / "slurm.conf").write_text(
        CLUSTER.format(name=name, cpus=os.cpu_count(), folder=folder, port=port, first=port + 1, second=port + 2)
    )
    env = os.environ | {"SLURM_CONF": str(folder / "slurm.conf")}
    munge = [f"--{what}-file={folder}/munge.{what}" for what in ("key", "pid", "log", "seed")]
    running = []

    def start(*words):
        running.append(subprocess.Popen(words, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))

    try:
        start("munged", "--foreground", "--force", *munge, f"--socket={folder}/munge.socket")
        until(lambda: (folder / "munge.socket").exists(), 10)
        start("slurmctld", "-D", "-c")
        for host in ("node0", "node1"):
            start("slurmd", "-D", "-N", host)

        def idle():
            done = subprocess.run(["sinfo", "-h", "-o", "%t %D"], env=env, capture_output=True, text=True)
            return done.stdout.split() == ["idle", "2"]

        until(idle, 30)
        yield env
    finally:
        for process in reversed(running):
            process.terminate()
            process.wait(30)


def until(what, seconds):
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end
        time.sleep(0.1)


@pytest.mark.long
def test_a_job_writes_the_file_that_a_run_does(tmp_path, monkeypatch):
    if missing := [name for name in PROGRAMS if shutil.which(name) is None]:
        pytest.skip(f"{', '.join(missing)} is not installed")
    if os.geteuid():
        pytest.skip("it takes root")
    path = observation(tmp_path)
    text = path.read_text()
    for key in ("spectra", "visibilities", "statistics"):  # those of the second host
        text = text.replace(f'{key} = "127.0.0.1:', f'{key} = "127.0.0.2:')
    path.write_text(text)
    (tmp_path / "placement.toml").write_text(PLACEMENT)
    site = read_site(tmp_path / "placement.toml", read_hardware())
    out, pages = tmp_path / "out", tmp_path / "pages"
    out.mkdir()
    pages.mkdir()
    monkeypatch.setenv("RYLE_STATUS_DIR", str(pages))
    ryle = [sys.executable, "-m", "ryle"]
    (wrapper := tmp_path / "ryle").write_text(f'#!/bin/sh\nexec {" ".join(ryle)} "$@"\n')
    wrapper.chmod(0o755)
    (script,) = slurm.files(site, str(wrapper), str(path), str(out), time="5").values()
    assert "#SBATCH hetjob" in script
    (tmp_path / "ryle.sbatch").write_text(script)
    with cluster(tmp_path / "slurm") as env:
        command = ["sbatch", "--parsable", f"--chdir={tmp_path}", str(tmp_path / "ryle.sbatch")]
        done = subprocess.run(command, env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        job = done.stdout.strip()

        def ready():
            states = {p.name: p.values.get("state") for p in read_pages()}
            return sum(s in ("ready", "listening") for s in states.values()) == len(site.processes)

        try:
            until(ready, 60)
        finally:
            print("".join(f"{p.name}: {p.read_text()[:500]}\n" for p in tmp_path.glob("ryle-*.log")))
        subprocess.run([*ryle, "simulate", str(path)], check=True, capture_output=True)
        subprocess.run(["scancel", "--signal=URG", "--batch", job], env=env, check=True)

        def over():
            return not subprocess.run(["squeue", "-h", "-j", job], env=env, capture_output=True, text=True).stdout

        until(over, 60)
    (whole := tmp_path / "whole").mkdir()
    subprocess.run([*ryle, "run", str(path), "--output", str(whole)], check=True, capture_output=True)
    name = f"{load(path).observation.name}.uvh5"
    (one, _), (other, _) = visibilities(out / name), visibilities(whole / name)
    assert len(one) == len(other) > 10
    np.testing.assert_array_equal(one[:-1], other[:-1])
