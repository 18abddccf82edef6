"""How long ``ryle`` takes to answer before it does anything, in units of what Python takes to do nothing."""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
from functools import partial

from ryle.bench.harness import take_turns
from ryle.bench.results import Row
from ryle.bench.timing import compare

_ROUNDS = 15
#: What ``ryle --help`` may take.
MOST = 8.0
COMMANDS = {
    "ryle --help": ("--help",),
    "ryle --version": ("--version",),
    "ryle run --help": ("run", "--help"),
}


def run() -> list[Row]:
    """Time each command against ``python -c pass``, in turn, by the processor time of the processes."""
    nothing = [sys.executable, "-c", "pass"]
    work = {name: [sys.executable, "-m", "ryle", *words] for name, words in COMMANDS.items()} | {"nothing": nothing}
    for command in work.values():
        _seconds(command)
    times = take_turns({name: partial(_seconds, command) for name, command in work.items()}, _ROUNDS)
    rows = []
    for name in COMMANDS:
        ratio, spread = compare(times[name], times["nothing"])
        base = 1e3 * statistics.median(times["nothing"])
        most = MOST if name == "ryle --help" else None
        row = Row(
            name, 1e3 * statistics.median(times[name]), "ms", baseline="python -c pass", baseline_value=base, most=most
        )
        row.ratio, row.ratio_spread = ratio, spread
        rows.append(row)
    return rows


def _seconds(command: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
