"""Run the commands that the papers' entries name, those that this machine can, and keep what they find in a folder.

Each runs in a process group of its own, in an empty folder, for no longer than `commands.toml` allows. What is in the
folder already is not measured again, so that a call that runs out of time goes on at the next.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ryle
from ryle.bench.papers.registry import Command, Paper
from ryle.bench.results import by_line, host
from ryle.gpu import gpu_problem
from ryle.receive.dpdk import environment

_ENDING = 10.0  # s that a command has to end by itself when its time is over


@dataclass
class Done:
    """What became of the commands, by key; what was not done, with why.

    Parameters
    ----------
    measured, already : list of str
        Done now; found done.
    failed, lacking, left : dict of str
        Failed now; cannot be done here; are left for another call.
    """

    measured: list[str] = field(default_factory=list)
    already: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    lacking: dict[str, str] = field(default_factory=dict)
    left: dict[str, str] = field(default_factory=dict)

    def lines(self) -> list[str]:
        """Say it."""
        said = [f"done: {', '.join(self.measured) or 'nothing'}"]
        said += [f"done before: {', '.join(self.already)}"] if self.already else []
        for name, what in (("failed", self.failed), ("not here", self.lacking), ("left", self.left)):
            said += [f"{name}: {key} ({why})" for key, why in what.items()]
        return said


def named(papers: Sequence[Paper], commands: Mapping[str, Command]) -> list[Command]:
    """Give the commands that entries name, in the order of ``commands.toml``."""
    keys = {
        key
        for paper in papers
        for entry in paper.entry
        for key in (entry.command, *(lookup.command for lookup in entry.measured))
    }
    return [command for key, command in commands.items() if key in keys]


def lacking(command: Command) -> str | None:
    """Say what this machine lacks for a command; None if nothing."""
    problems: dict[str, Callable[[], str | None]] = {
        "gpu": gpu_problem,
        "dpdk": lambda: environment.dpdk_problem(),
        "repository": lambda: None if (repository() / "Makefile").is_file() else "Ryle does not run from a clone",
    }
    return next((problem for need in command.needs if (problem := problems[need]())), None)


def repository() -> Path:
    """Top of the clone that Ryle runs from, if it does."""
    return Path(ryle.__file__).parents[2]


def measure(
    commands: Sequence[Command],
    folder: Path,
    limit: float = 540.0,
    say: Callable[[str], None] = print,
    lacks: Callable[[Command], str | None] = lacking,
) -> Done:
    """Run commands, one after another.

    Parameters
    ----------
    commands : sequence of Command
        Which.
    folder : Path
        For their figures, ``key.json``; what those that failed said, ``key.log``, and had found when their time was
        over, ``key.cut``; made if it is not there.
    limit : float
        Seconds for all of it: none is begun that could pass it.
    say : callable
        Is told what happens.
    lacks : callable
        Says what is lacking here for a command.

    Returns
    -------
    Done
        What became of them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    began, done = time.monotonic(), Done()
    # Those that failed before come last, so that one that always fails does not take the others' time.
    for command in sorted(commands, key=lambda one: (folder / f"{one.key}.log").exists()):
        left = limit - (time.monotonic() - began)
        if (folder / f"{command.key}.json").exists():
            done.already.append(command.key)
            say(f"{command.key}: done before")
        elif problem := lacks(command):
            done.lacking[command.key] = problem
            say(f"{command.key}: not here: {problem}")
        elif command.seconds + _ENDING > left:
            done.left[command.key] = f"may take {command.seconds:g} s; {max(0.0, left):.0f} s are left"
            say(f"{command.key}: left: {done.left[command.key]}")
        else:
            say(f"{command.key}: {command.run} (at most {command.seconds:g} s)")
            started = time.monotonic()
            problem = _run(command, folder)
            took = f"{time.monotonic() - started:.1f} s"
            if problem:
                done.failed[command.key] = problem
            else:
                done.measured.append(command.key)
            say(f"{command.key}: " + (f"failed after {took}: {problem}" if problem else f"done in {took}"))
    return done


def _run(command: Command, folder: Path) -> str | None:
    """Run one; keep its figures, or what it said. Give why it failed, or None."""
    words = command.words
    run = {"ryle": [sys.executable, "-m", "ryle"], "python": [sys.executable]}.get(words[0], words[:1]) + words[1:]
    log = folder / f"{command.key}.log"
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="ryle-papers-") as place, log.open("w") as output:
        cwd = repository() if "repository" in command.needs else Path(place)
        try:
            process = subprocess.Popen(
                run, cwd=cwd, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
            )
        except OSError as error:
            return f"{words[0]}: {error.strerror}"
        written = Path(place) / command.writes
        try:
            status: int | None = process.wait(command.seconds)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            _end(process)
        if status is None:
            return f"took more than {command.seconds:g} s" + _saved_from(written, folder / f"{command.key}.cut")
        if status:
            return f"exit status {status}; see {log}"
        try:
            saved = json.loads(written.read_text()) if command.writes else {"results": []}
        except (OSError, ValueError) as error:
            return f"{command.writes}: {error}"
    saved = saved if isinstance(saved, dict) else {"results": saved}
    saved["measured"] = _stamp(command, saved, time.monotonic() - began)
    part = folder / f"{command.key}.part"
    part.write_text(by_line(saved))
    shutil.move(part, folder / f"{command.key}.json")
    log.unlink()
    (folder / f"{command.key}.cut").unlink(missing_ok=True)
    return None


def _saved_from(written: Path, cut: Path) -> str:
    """Keep for people what a command had found when its time was over; the report waits for all of it. Say so."""
    if not written.is_file():
        return ""
    shutil.copy(written, cut)
    return f"; what it had found is in {cut}"


def _stamp(command: Command, saved: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """Say where, when and by what a file came to be."""
    about, inside = host(), saved.get("machine")
    card = (inside.get("gpu") if isinstance(inside, dict) else None) or saved.get("where") or about["cpu"]
    return {"card": card, "command": command.run, "seconds": round(seconds, 1)} | {
        key: about[key] for key in ("date", "commit", "cpu", "cores")
    }


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a command, and what it started, which has its process group."""
    for number, seconds in ((signal.SIGTERM, _ENDING), (signal.SIGKILL, 1.0)):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            break
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            continue
    process.poll()
