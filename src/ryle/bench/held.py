"""What is seen while a rate is held for long: memory, where packets are counted, losses by the second, stolen time."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from ryle.host_time import stolen_seconds

_STOLEN = 0.02  # seconds of processor time in a second that may cost packets
_LATER = 3  # seconds after which a packet that did not come is counted at the latest: its block is closed then
_TOLD = 20  # seconds with losses that are listed
_CLASSES = ("placed", "ring_full", "late", "duplicate", "malformed", "foreign")  # of what came


class Memory:
    """Looks at a process's memory, and at what is used of the first GPU's, a tenth of the time apart.

    Parameters
    ----------
    pid : int
        Of the process.
    seconds : float
        That it takes.
    """

    def __init__(self, pid: int, seconds: float) -> None:
        self._pid, self._apart, self._stop = pid, seconds / 10, threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        #: MiB of the process and of the GPU, None where nobody says.
        self.seen: list[tuple[int, int | None]] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _look(self) -> None:
        asked = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "--id=0"]
        while not self._stop.wait(self._apart):
            pages = int(Path(f"/proc/{self._pid}/statm").read_text().split()[1])
            try:
                used = int(subprocess.run(asked, capture_output=True, text=True, timeout=10, check=True).stdout)
            except (OSError, ValueError, subprocess.SubprocessError):
                used = None
            self.seen.append(((pages * os.sysconf("SC_PAGESIZE")) >> 20, used))


class Seconds:
    """Notes every second how many packets are missing, and how much processor time the host has taken away.

    Parameters
    ----------
    missing : callable
        Gives the number of packets that are known to be missing.
    """

    def __init__(self, missing: Callable[[], int]) -> None:
        self._missing, self._stop = missing, threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        #: Time by `time.monotonic`, packets missing, seconds stolen, the two since the beginning.
        self.seen: list[tuple[float, int, float]] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._stop.wait(1.0):
            self.seen.append((time.monotonic(), self._missing(), stolen_seconds()))


def whereabouts(sent: int, before: Mapping[str, Any], after: Mapping[str, Any], train: int) -> dict[str, int]:
    """Say where each packet of a run is counted.

    Parameters
    ----------
    sent : int
        Packets.
    before, after : mapping
        `Account.as_dict` of who receives, before the first packet came and after the last did.
    train : int
        Packets that a message, which the kernel drops and counts as one, has at most.

    Returns
    -------
    dict
        What came, by class. Then ``unseen``, sent and not come; ``kernel_drops``, messages; ``uncounted``, those of the
        unseen that these cannot have held: they were lost before the socket, and nobody counted them. Negative numbers
        say that more came than was sent.
    """
    found = {name: int(after[name] or 0) - int(before[name] or 0) for name in (*_CLASSES, "kernel_drops")}
    drops = found.pop("kernel_drops")
    unseen = sent - sum(found.values())
    uncounted = unseen if unseen < 0 else max(0, unseen - drops * train)
    return found | {"unseen": unseen, "kernel_drops": drops, "uncounted": uncounted}


def losses(seen: Sequence[tuple[float, int, float]], began: float, seconds: float) -> dict[str, Any]:
    """Say in which seconds of a run packets were lost, and in which of these the host had taken processor time away.

    Parameters
    ----------
    seen : sequence of (float, int, float)
        What `Seconds` noted.
    began, seconds : float
        Time by `time.monotonic`, and length of the run.

    Returns
    -------
    dict
        Numbers of seconds ``watched``, ``stolen``, ``lossy`` and ``unexplained`` (lossy, and nothing was stolen then
        nor shortly before), and the first ``losses``: second, packets, seconds stolen.
    """
    inside = [look for look in seen if began <= look[0] <= began + seconds + _LATER]
    if len(inside) < 2:
        return {"watched": 0}
    at, missing, stolen = (np.array(column) for column in zip(*inside, strict=True))
    lost, taken = np.diff(missing), np.diff(stolen)
    near = np.array([taken[max(0, i - _LATER) : i + 1].max() for i in range(taken.size)])
    lossy = np.flatnonzero(lost)
    return {
        "watched": taken.size,
        "stolen": int((taken > _STOLEN).sum()),
        "lossy": lossy.size,
        "unexplained": int((near[lossy] <= _STOLEN).sum()),
        "losses": [(round(float(at[i + 1] - began), 1), int(lost[i]), round(float(near[i]), 2)) for i in lossy[:_TOLD]],
    }
