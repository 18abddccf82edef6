"""Slurm: one heterogeneous job, a component for each kind of host, a step for each engine."""

from __future__ import annotations

import shlex

from ryle.deploy.site import Process, Site

#: s before its end at which Slurm tells the job to drain.
_WARNING = 120


def files(site: Site, ryle: str, file: str, data: str, time: str = "") -> dict[str, str]:
    """Make the batch script.

    Parameters
    ----------
    site : Site
        What runs where.
    ryle, file, data : str
        The command, the observation file and the directory for data, as all hosts have them.
    time : str
        Limit of the job's time, as Slurm writes it; the partition's if empty.

    Returns
    -------
    dict of str to str
        Text by path.
    """
    groups = _components(site)
    header = ["#!/bin/bash", f"# Made by `ryle deploy` from {site.source}; submit it by: sbatch ryle.sbatch"]
    for number, hosts in enumerate(groups):
        header += ["#SBATCH hetjob"] if number else []
        header += _wants(site, hosts, time, first=not number)
    body = [_BEGIN]
    group_of = {host: number for number, hosts in enumerate(groups) for host in hosts}
    kinds = list(dict.fromkeys(p.engine for p in site.processes))
    for process in site.processes:
        body.append(_step(process, group_of[process.host], len(groups) > 1, process.command(ryle, file, data)))
    # Stopping goes the other way round: F-engines first, so that nothing on its way is lost.
    order = " ".join(reversed(kinds))
    return {"ryle.sbatch": "\n".join([*header, *body, _END.replace("ORDER", order)]) + "\n"}


_BEGIN = """
set -u
declare -A steps
# start KIND WORDS…: a step in the background.
start() {
    local kind=$1
    shift
    "$@" &
    steps[$kind]="${steps[$kind]-} $!"
}
"""

_END = """
# At the end of its time, or by `scancel --signal=URG --batch JOB`: drain, kind by kind. Whoever else gets that signal
# ignores it; of SIGTERM, srun would kill all at once.
drain() {
    trap '' URG
    for kind in ORDER; do
        kill -USR1 ${steps[$kind]} 2>/dev/null  # which srun hands on
        wait ${steps[$kind]}
    done
    exit 0
}
trap drain URG
status=0
for kind in ORDER; do
    for step in ${steps[$kind]}; do
        wait "$step" || status=1
    done
done
exit $status"""


def _components(site: Site) -> list[list[str]]:
    """Hosts that are of one kind, and have GPUs to give or not, are one component."""
    groups: dict[tuple[str, bool], list[str]] = {}
    for host, server in site.hosts.items():
        on_gpu = any(p.gpu is not None for p in site.on(host))
        groups.setdefault((server.name if server else "", on_gpu), []).append(host)
    return list(groups.values())


def _wants(site: Site, hosts: list[str], time: str, *, first: bool) -> list[str]:
    gpus = max((p.gpu + 1 for host in hosts for p in site.on(host) if p.gpu is not None), default=0)
    found = [f"#SBATCH --job-name=ryle-{site.name}", "#SBATCH --output=ryle-%j.log"] if first else []
    found += [
        f"#SBATCH --nodes={len(hosts)} --ntasks-per-node=1",
        f"#SBATCH --nodelist={','.join(hosts)}",
        "#SBATCH --exclusive --mem=0",
    ]
    found += [f"#SBATCH --gres=gpu:{gpus}"] if gpus else []
    found += [f"#SBATCH --time={time}"] if time else []
    return found + ([f"#SBATCH --signal=B:URG@{_WARNING}"] if first else [])


def _step(process: Process, group: int, several: bool, command: list[str]) -> str:
    words = ["srun", "--overlap", "--nodes=1", "--ntasks=1", f"--nodelist={process.host}", "--kill-on-bad-exit=0"]
    words += [f"--het-group={group}"] if several else []
    words += [f"--job-name={process.name}", f"--output=ryle-%j-{process.name}.log"]
    if process.cores:
        # A mask of cores. Number of CPUs it must not name: then Slurm would choose which.
        words.append(f"--cpu-bind=mask_cpu:{sum(1 << c for c in process.cores):#x}")
    else:
        words.append("--cpu-bind=none")
    words += ["env", *(f"{n}={v}" for n, v in process.environment.items())] if process.environment else []
    return f"start {process.engine} {shlex.join([*words, *command])}"
