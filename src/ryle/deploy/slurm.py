"""A Slurm heterogeneous job: one component for each kind of host, one step for each process.

The script starts stages from the end of the signal path, starts an engine again that failed, and when the job is to
end, or the simulator has ended, ends stages in signal-path order: SIGTERM drains an engine. Slurm gives whole hosts,
those that the plan names; which cores of them a process runs on, and which GPUs it sees, is the plan's.
"""

from __future__ import annotations

import shlex

from ryle.deploy.processes import AGAIN, PATIENCE, Deployment, Process, kinds


def script(d: Deployment, *, exclusive: bool = True) -> dict[str, str]:
    """Write a deployment as a job script.

    Parameters
    ----------
    d : Deployment
        Which.
    exclusive : bool
        Whether hosts are wanted whole.

    Returns
    -------
    dict of str to str
        The script's text, by its path.
    """
    groups = kinds(d)
    group_of = {host.name: n for n, hosts in enumerate(groups.values()) for host in hosts}
    gpus = {host.name: host.gpus for host in d.hosts}
    several = len(groups) > 1
    lines = ["#!/bin/bash"]
    lines += d.header(
        f"Run it with: sbatch --time=8:00:00 {d.name}.sbatch     End it with: scancel --batch --signal=TERM JOB",
        f"Try it with: sbatch --test-only {d.name}.sbatch        See it with: squeue, sstat --allsteps",
        "Hosts are those of `ryle plan --host`; each must see the observation file and the directory of files.",
    ).splitlines()
    for n, ((cores, count), hosts) in enumerate(groups.items()):
        names = [host.name for host in hosts]
        if n:
            lines += ["#SBATCH hetjob"]
        # A host that fails costs its own engines; begun anew hours later it would be another observation.
        lines += [
            f"#SBATCH --job-name=ryle-{d.name}",
            f"#SBATCH --nodes={len(hosts)} --nodelist={','.join(names)}",
            f"#SBATCH --ntasks-per-node=1 --cpus-per-task={cores} --no-kill --no-requeue",
        ]
        lines += ["#SBATCH --exclusive --mem=0"] if exclusive else []
        lines += [f"#SBATCH --gres=gpu:{count}"] if count and any(p.gpus for h in names for p in d.on(h)) else []
        if not n:
            # To the script alone, a while before the end: it ends the stages one after the other.
            lines += [f"#SBATCH --signal=B:TERM@{PATIENCE * len(d.stages())}"]
    lines += [_FUNCTIONS.format(again=AGAIN, patience=PATIENCE)]
    for stage in d.stages():
        if stage != "simulate":
            lines += [f"# {_WORDS[stage]}"]
            lines += [_start(p, group_of, several, gpus) for p in d.processes if p.stage == stage]
            lines += ["settle"]
    order = [stage for stage in reversed(d.stages()) if stage != "simulate"]
    simulated = [p for p in d.processes if p.stage == "simulate"]
    if simulated:
        lines += [
            "# The simulator has an end of its own.",
            _step(simulated[0], group_of, several, gpus) + " & simulator=$!",
        ]
        lines += ["wait $simulator; sleep 2"]
    else:
        lines += ["# Until the job's time is over or somebody ends it.", "while [ ! $ending ]; do sleep 1; done"]
    lines += [f"finish {stage}" for stage in order]
    lines += ["exit $failed", ""]
    return {f"{d.name}.sbatch": "\n".join(lines)}


_WORDS = {
    "catcher": "Those who write files, first: nobody sends to nobody.",
    "x": "X-engines.",
    "f": "F-engines.",
    "fx": "F and X in one process.",
}

_FUNCTIONS = """
set -u
ending= failed=0
declare -A keepers                    # of a stage, the processes of this script that keep its engines running
jobs=$(env | sed -n 's/^SLURM_JOB_ID_HET_GROUP_[0-9]*=//p' | paste -sd,)
trap 'ending=1' TERM INT

keep() {{  # keep an engine running: NAME srun ...; one that failed starts again, unless it was asked wrongly (2)
    local name=$1 status asked= step; shift
    trap 'asked=1' TERM               # its step is drained by scancel: of srun itself SIGTERM would be the end
    while [ ! $asked ]; do
        "$@" & step=$!
        while wait $step; status=$?; kill -0 $step 2>/dev/null; do :; done   # a signal ends a wait, not the step
        [ $status = 0 ] || [ $status = 2 ] && break
        echo "$name ended with exit status $status" >&2
        sleep {again}
    done
    exit $status
}}

start() {{  # STAGE NAME srun ...
    local stage=$1; shift
    keep "$@" &
    keepers[$stage]+=" $!"
}}

settle() {{ sleep ${{RYLE_SETTLE:-10}}; }}  # seconds until a stage listens

finish() {{  # drain a stage and wait until its files are closed, at most {patience} s
    local keeper id name end=$((SECONDS + {patience}))
    kill -TERM ${{keepers[$1]}} 2>/dev/null
    squeue --steps --noheader --jobs=${{jobs:-$SLURM_JOB_ID}} --format='%i %j' | while read -r id name; do
        [[ $name =~ ^$1[0-9]+$ ]] && scancel --signal=TERM $id
    done
    for keeper in ${{keepers[$1]}}; do
        while kill -0 $keeper 2>/dev/null && [ $SECONDS -lt $end ]; do sleep 0.2; done
        kill -0 $keeper 2>/dev/null || wait $keeper || failed=1
    done
}}
"""


def _start(p: Process, group_of: dict[str, int], several: bool, gpus: dict[str, int]) -> str:
    return f"start {p.stage} {p.name} {_step(p, group_of, several, gpus)}"


def _step(p: Process, group_of: dict[str, int], several: bool, gpus: dict[str, int]) -> str:
    """Write the step of a process: on its host, on its cores, beside the other steps."""
    words = ["srun"]
    words += [f"--het-group={group_of[p.host]}"] if several else []
    words += [f"--job-name={p.name}", "--nodes=1", "--ntasks=1", f"--nodelist={p.host}", "--overlap"]
    words += [f"--cpu-bind=mask_cpu:{mask(p.cores)}"] if p.cores else ["--cpu-bind=none"]
    words += [f"--mem-bind=prefer,map_mem:{p.numa}"] if p.numa is not None else []
    # All of the host's: which of them it sees, its environment says. Limits are slurmd's, not the submitting shell's.
    words += [f"--gres=gpu:{gpus[p.host]}"] if p.gpus else []
    words += ["--propagate=NONE", f"--output={p.name}-%j.log", "--open-mode=append"]
    environment = [f"{name}={value}" for name, value in p.environment.items()]
    return shlex.join([*words, "env", *environment, *p.command] if environment else [*words, *p.command])


def mask(cores: tuple[int, ...]) -> str:
    """Write cores as the bits of a number, as Slurm wants them.

    Examples
    --------
    >>> mask((0, 1, 4))
    '0x13'
    """
    return hex(sum(1 << core for core in cores))
