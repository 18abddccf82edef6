"""Where a run's engines are processes: on this host, or wherever another `Site` starts them."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, Protocol, TextIO

from rich.console import Console

from ryle.config import Observation
from ryle.engines.budget import afford
from ryle.gpu import GpuUnavailable, gpu_problem
from ryle.products.observed import band_files, output_file

#: Takes a line that a process has written.
Say = Callable[[str], None]


class Running(Protocol):
    """The process of an engine.

    Attributes
    ----------
    log : str
        Where all its words are, for people.
    host : str
        On which host it is; empty: this one.
    kept : bool
        Whether somebody there starts it again when it fails or falls silent.
    """

    log: str
    host: str
    kept: bool

    def poll(self) -> int | None:
        """Give its exit status, None while it runs; negative for a signal."""

    def tell(self, order: str) -> None:
        """Tell it to "go" or to "drain"; nothing happens if it has just ended."""

    def kill(self) -> None:
        """End it at once."""

    def close(self) -> None:
        """Kill it if it still runs, and hear its last words."""


class Site(Protocol):
    """Where engines run.

    Attributes
    ----------
    observation : str
        What the observation file is called on their command lines.
    """

    observation: str

    def check(self, observation: Observation, simulate: bool) -> None:
        """Refuse what cannot run there, before anything starts."""

    def choose_file(self, observation: Observation, output: Path | None, *, overwrite: bool) -> Path:
        """Choose the file of the whole band, where it will be written."""

    def prepare(self, commands: Sequence[tuple[str, int, Sequence[str]]]) -> None:
        """Make room for all processes, given as (role, index, arguments), before any starts."""

    def launch(self, role: str, index: int, command: Sequence[str], line: Say, word: Say) -> Running:
        """Start a process: arguments of ``ryle``; who takes its lines, and what else it says."""

    def join(self, observation: Observation, file: Path, console: Console, *, overwrite: bool, perhaps: bool) -> int:
        """Make the file of the whole band over what several catchers have left; give its integrations."""


class LocalProcess:
    """A process on this host, with a supervisor's pipe as its standard input; see `Running`."""

    host, kept = "", False

    def __init__(self, command: Sequence[str], log: Path, line: Say, word: Say) -> None:
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            bufsize=1,
            start_new_session=True,  # Ctrl-C reaches the supervisor alone
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
        )
        self.log, self.pid = str(log), self._process.pid
        assert self._process.stdout is not None and self._process.stderr is not None
        lines, words = self._process.stdout, self._process.stderr
        self._readers = [
            threading.Thread(target=target, args=arguments, daemon=True)
            for target, arguments in ((_read, (lines, line)), (_keep, (words, word, log)))
        ]
        for reader in self._readers:
            reader.start()

    def poll(self) -> int | None:
        """See `Running`."""
        status = self._process.poll()
        if status is not None:
            for reader in self._readers:  # its last words may still be in the pipe
                reader.join(timeout=2)
        return status

    def tell(self, order: str) -> None:
        """See `Running`."""
        try:
            assert self._process.stdin is not None
            self._process.stdin.write(order + "\n")
            self._process.stdin.flush()
        except (BrokenPipeError, ValueError):
            pass  # its exit status says how it ended

    def kill(self) -> None:
        """See `Running`."""
        self._process.kill()

    def close(self) -> None:
        """See `Running`."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        for reader in self._readers:
            reader.join(timeout=5)


def _read(lines: TextIO, say: Say) -> None:
    for line in lines:
        say(line)


def _keep(words: TextIO, say: Say, path: Path) -> None:
    with path.open("w") as log:
        for line in words:
            log.write(line)
            log.flush()
            say(line)


class Here:
    """On this host.

    Parameters
    ----------
    observation : str
        The observation file, which each process reads again.
    logs : Path, optional
        Directory for what processes write to standard error; beside the file that is chosen, if absent.
    program : sequence of str
        What to run, arguments following; this installation's ``ryle`` if absent.
    """

    def __init__(
        self, observation: str, logs: Path | None = None, program: Sequence[str] = (sys.executable, "-m", "ryle")
    ) -> None:
        self.observation = observation
        self._logs = logs
        self._program = program

    def check(self, observation: Observation, simulate: bool) -> None:
        """Say once, and not by every engine, that there is no GPU or too little memory.

        Raises
        ------
        ConfigError
            If the engines need more memory than there is.
        GpuUnavailable
            If engines are to run on a GPU and there is none.
        """
        o = observation
        halves: list[tuple[Literal["f", "x"], str]] = [("f", o.fengine.backend), ("x", o.xengine.backend)]
        for half, backend in halves:
            for index in range(o.engines.get(half, o.fx_gpus) if backend == "cuda" else 0):
                if problem := gpu_problem(*o.gpu_of(half, index)):
                    raise GpuUnavailable(f"{o.backend_key(half)} is cuda, but {problem}")
        afford(o if simulate else o.live, o.engines)

    def choose_file(self, observation: Observation, output: Path | None, *, overwrite: bool) -> Path:
        """See `Site`; makes the directory."""
        file = output_file(observation, output, overwrite=overwrite)
        file.parent.mkdir(parents=True, exist_ok=True)
        self._logs = self._logs or file.parent / "logs"
        return file

    def prepare(self, commands: Sequence[tuple[str, int, Sequence[str]]]) -> None:
        """See `Site`; `check` has."""

    def launch(self, role: str, index: int, command: Sequence[str], line: Say, word: Say) -> LocalProcess:
        """See `Site`."""
        assert self._logs is not None, "choose_file comes first"
        self._logs.mkdir(parents=True, exist_ok=True)
        whole = [*self._program, *command, "--supervised"]
        return LocalProcess(whole, self._logs / f"{role}{index}.log", line, word)

    def join(self, observation: Observation, file: Path, console: Console, *, overwrite: bool, perhaps: bool) -> int:
        """See `join`."""

        def say(text: str) -> None:
            console.print(text, highlight=False, soft_wrap=True)

        return join(observation, file, say, overwrite=overwrite, perhaps=perhaps)


def join(
    o: Observation, file: Path, say: Callable[[str], object], *, overwrite: bool = False, perhaps: bool = False
) -> int:
    """Make the file of the whole band over what catchers have left, those that were killed too.

    Parameters
    ----------
    o : Observation
        Whose.
    file : Path
        Of the whole band.
    say : callable
        Takes what is missing in it.
    overwrite : bool
        Replace what is there.
    perhaps : bool
        Whether bands may be missing because nothing came for them.

    Returns
    -------
    int
        Integrations.
    """
    # Here, because they bring astropy and pyuvdata, which a supervisor starts without.
    from ryle.products.readable import UVH5Error
    from ryle.products.uvh5 import recover
    from ryle.products.whole_band import join_bands

    bands = []
    for path in band_files(o, file):
        try:
            recover(path)
            bands.append(path)
        except (FileNotFoundError, UVH5Error) as error:
            if perhaps and not path.exists():
                continue  # it got nothing, and was removed
            say(f"[yellow]{error}; {file} is without it[/]")
    return join_bands(file, bands, overwrite=overwrite) if bands or not perhaps else 0
