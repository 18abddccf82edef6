"""An engine that is kept running on this host, by whoever looks after it just now.

The engine is nobody's child: it goes on when its keeper dies, and the next keeper takes it up again. What links them
are files in a directory of the host: the process's number, its exit status, what it prints, and that it has been told
to end.
"""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ryle.engines.places import ranges

#: Stands in a command for the observation file, wherever it is on a host.
OBSERVATION = "OBSERVATION"
#: Seconds until an engine that failed is started again, at first and at most.
AGAIN, AT_MOST = 1.0, 10.0
#: Seconds that an engine may say nothing, besides twice the time between its status lines.
SILENCE = 120.0
#: Times that one which has never been ready is tried.
TRIES = 3
#: Bytes of printed lines after which the disk gets them back.
_KEPT = 16 << 20
_SECONDS = 5.0  # that a process's exit status may take to be there once it is gone
_BEGINS = 60.0  # that a process may take to be there once it is started: to start a second one beside it would be worse
#: Starts the engine and notes its number, and in the end its exit status: nobody is there to wait for it.
_HOLD = """
"$@" </dev/null >>"$RYLE_KEPT.lines" 2>>"$RYLE_KEPT.log" & pid=$!
echo $pid >"$RYLE_KEPT.new" && mv "$RYLE_KEPT.new" "$RYLE_KEPT.pid"
wait $pid
echo $? >"$RYLE_KEPT.new" && mv "$RYLE_KEPT.new" "$RYLE_KEPT.exit"
"""


@dataclass(frozen=True)
class Job:
    """What is to be kept running.

    Parameters
    ----------
    run : str
        Of which run: names the directory on the host.
    name : str
        f0, x12, catcher0.
    host : str
        Where it belongs; elsewhere its GPUs are those that it is given there.
    command : tuple of str
        Arguments of ``ryle``; `OBSERVATION` stands for the observation file, by which its process is known.
    again : tuple of str
        The same, when it is started again.
    files : dict of str to bytes
        The observation file, first, and what it names, by file name.
    cores : tuple of int
        That it may run on; none: any.
    numa : int or None
        Node that its memory is from.
    environment : dict of str to str
        What it needs of its environment.
    restarts : bool
        Whether it is started again when it ends without being told to.
    """

    run: str
    name: str
    host: str
    command: tuple[str, ...]
    again: tuple[str, ...]
    files: Mapping[str, bytes]
    cores: tuple[int, ...] = ()
    numa: int | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    restarts: bool = True


def directory_of(run: str, host: str) -> Path:
    """Say where a host keeps what links engines of a run and their keepers."""
    return Path(tempfile.gettempdir()) / f"ryle-{os.getuid()}" / run / host


class KeptEngine:
    """An engine on this host; see the module.

    Parameters
    ----------
    job : Job
        Which.
    host : str
        What this host is called.

    Attributes
    ----------
    adopted : bool
        Whether it was running already.
    warnings : list of str
        What is not as it was asked for, without harm.
    """

    def __init__(self, job: Job, host: str) -> None:
        self.job, self.host = job, host
        self._directory = directory_of(job.run, host)
        _make_own(self._directory)
        self._base = self._directory / job.name
        self._gone: float | None = None  # since when there has been no process
        self._at = self._freed = 0
        self._rest = b""
        self.warnings: list[str] = []
        for name, data in job.files.items():
            path = self._directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            _replace(path, data)
        self.adopted = self.pid is not None
        if not self.adopted:
            self._file("lines").unlink(missing_ok=True)
        elif self._file("lines").exists():
            self._at = self._file("lines").stat().st_size  # what it said before, its former keeper has told

    def _file(self, ending: str) -> Path:
        return self._base.with_name(f"{self._base.name}.{ending}")

    @property
    def log(self) -> str:
        """Where all its words are, for people."""
        return f"{self.host}:{self._file('log')}"

    # -- the process ------------------------------------------------------------------------------------------------

    def start(self, *, again: bool = False) -> None:
        """Start it, on its cores and with its memory, unless it runs."""
        if self.pid is not None:
            return
        for ending in ("pid", "exit", "draining"):
            self._file(ending).unlink(missing_ok=True)
        observation = str(self._directory / next(iter(self.job.files)))
        words = [observation if w == OBSERVATION else w for w in (self.job.again if again else self.job.command)]
        command = [*self._placed(), sys.executable, "-m", "ryle", *words]
        # Of its own session, and of no parent: signals for its keeper are not for it, and it may outlive it.
        subprocess.run(
            ["setsid", "--fork", "sh", "-c", _HOLD, "sh", *command],
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=True,
        )
        self._gone = None

    def _placed(self) -> list[str]:
        """Words before a command that give it its cores and its memory, as far as this host has them."""
        words: list[str] = []
        allowed = os.sched_getaffinity(0)
        if beyond := set(self.job.cores) - allowed:
            self.warnings.append(
                f"{self.job.name} wants cores {ranges(beyond)}, and {self.host} gives {ranges(allowed)}: it runs on any"
            )
        elif self.job.cores:
            words += ["taskset", "--cpu-list", ranges(self.job.cores).replace(" ", "")]
        if self.job.numa is not None and shutil.which("numactl"):
            words += ["numactl", f"--preferred={self.job.numa}"]
        return words

    def _environment(self) -> dict[str, str]:
        """Give what the engine finds in its environment: of Ray's nothing, which would tell numpy how many threads."""
        ours = {name: text for name, text in os.environ.items() if not name.startswith(("RAY_", "OMP_NUM_THREADS"))}
        told = {n: t for n, t in self.job.environment.items() if self.host == self.job.host or "CUDA" not in n}
        return ours | told | {"PYTHONUNBUFFERED": "1", "RYLE_KEPT": str(self._base)}

    @property
    def pid(self) -> int | None:
        """The number of its process while that runs."""
        try:
            number = int(self._file("pid").read_text())
            words = Path(f"/proc/{number}/cmdline").read_bytes().split(b"\0")
            state = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]
        except (OSError, ValueError, IndexError):
            return None
        # Another may have got its number meanwhile; and one that has ended may not have been waited for yet.
        return number if str(self._directory).encode() in b"\0".join(words) and state != "Z" else None

    def poll(self) -> int | None:
        """Give its exit status, None while it runs; negative for a signal, as far as that is known."""
        if self.pid is not None:
            self._gone = None
            return None
        try:
            status = int(self._file("exit").read_text())
            return status if status < 128 else 128 - status  # a shell's way to say which signal
        except (OSError, ValueError):
            # Who waits for it may not have said so yet; and it may not have begun.
            self._gone = self._gone or time.monotonic()
            patience = _SECONDS if self._file("pid").exists() else _BEGINS
            return -signal.SIGKILL if time.monotonic() - self._gone > patience else None

    def drain(self) -> None:
        """Tell it to finish what it has and end; it is not started again."""
        self._file("draining").touch()
        self._signal(signal.SIGTERM)

    @property
    def draining(self) -> bool:
        """Whether it has been told to."""
        return self._file("draining").exists()

    def kill(self) -> None:
        """End it at once."""
        self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        if (pid := self.pid) is not None:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass  # it has just ended

    # -- what it says -----------------------------------------------------------------------------------------------

    def lines(self) -> list[str]:
        """Give the lines that it has printed since the last call; what has been read does not stay on the disk."""
        try:
            with self._file("lines").open("rb") as file:
                file.seek(self._at)
                found = file.read()
        except FileNotFoundError:
            return []
        self._at += len(found)
        if self._at - self._freed > _KEPT:
            self._free()
        *whole, self._rest = (self._rest + found).split(b"\n")
        return [line.decode(errors="replace") for line in whole]

    def _free(self) -> None:
        """Give back the blocks of what was read; a file system that cannot keeps them until the run's end."""
        done = self._at // 4096 * 4096
        punch = ["fallocate", "--punch-hole", "--offset", "0", "--length", str(done), str(self._file("lines"))]
        subprocess.run(punch, capture_output=True, check=False)
        self._freed = done

    def words(self) -> list[str]:
        """Give the last 30 lines of what else it has said."""
        try:
            with self._file("log").open("rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - 8192))
                return file.read().decode(errors="replace").splitlines()[-30:]
        except FileNotFoundError:
            return []

    def forget(self) -> None:
        """Remove what links it and its keepers, when it has ended for good; its log stays."""
        for ending in ("pid", "exit", "draining", "lines"):
            self._file(ending).unlink(missing_ok=True)


def end_all(run: str, host: str, patience: float) -> list[str]:
    """End every engine of a run on this host that nobody has ended, first with SIGTERM.

    Returns
    -------
    list of str
        Their names.
    """
    found = [KeptEngine(Job(run, p.stem, host, (), (), {}), host) for p in directory_of(run, host).glob("*.pid")]
    left = [engine for engine in found if engine.adopted]
    for engine in left:
        engine.drain()
    end = time.monotonic() + patience
    while any(engine.poll() is None for engine in left) and time.monotonic() < end:
        time.sleep(0.1)
    for engine in left:
        engine.kill()
    return [engine.job.name for engine in left]


def _make_own(directory: Path) -> None:
    """Make a directory, and the one of this user above all runs, where others have no business.

    Raises
    ------
    PermissionError
        If somebody else has made it: what lies there would be run.
    """
    top = directory.parent.parent
    top.mkdir(mode=0o700, exist_ok=True)
    found = top.lstat()
    if found.st_uid != os.getuid() or not stat.S_ISDIR(found.st_mode) or found.st_mode & 0o022:
        raise PermissionError(f"{top} is not only user {os.getuid()}'s directory: remove it, somebody else made it")
    directory.mkdir(parents=True, exist_ok=True)


def _replace(path: Path, data: bytes) -> None:
    """Write a file whole, or leave what is there."""
    new = path.with_name(f".{path.name}.{os.getpid()}.{time.monotonic_ns()}")
    new.write_bytes(data)
    new.replace(path)
