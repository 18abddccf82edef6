"""Captures as a source: datagrams of a pcap file, at the times at which they were recorded or as fast as it goes."""

from __future__ import annotations

import ipaddress
import os
import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ryle.config.tables import Endpoint

from .assembly import Assembler
from .pcap import Batch, CaptureAccount, PcapFile
from .sources import Discard, ThreadReport

_PATIENCE = 0.02  # s of waiting, after which the thread looks whether it is to stop
_TICK = 0.0005  # s; datagrams due within it go together


class PcapSource:
    """Feed the datagrams of a capture. One thread reads the file in runs of thousands, none of them one by one.

    Parameters
    ----------
    sink : Assembler or Discard
        What to feed.
    path : path
        pcap or pcapng file.
    endpoints : sequence of Endpoint, optional
        Destinations to take, whose place in this list is a packet's port number; all, as number 0, if not given.
    speed : float
        1 as recorded, 2 twice as fast, 0 as fast as it goes.
    loops : int, optional
        Times to go through the file; forever if None. Timestamps start again each time.
    """

    def __init__(
        self,
        sink: Assembler | Discard,
        path: str | os.PathLike[str],
        endpoints: Sequence[Endpoint] | None = None,
        *,
        speed: float = 0.0,
        loops: int | None = 1,
    ) -> None:
        if speed < 0 or (loops is not None and loops < 1):
            raise ValueError(f"speed = {speed} must not be negative, and loops = {loops} must be at least 1")
        self._sink, self._path, self._speed, self._loops = sink.native, path, speed, loops
        self._ends = None if endpoints is None else [(ipaddress.ip_address(e.host).packed, e.port) for e in endpoints]
        self._file = PcapFile(path)  # here, so that a file that cannot be read is known at once
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pcap", daemon=True)
        self._error: Exception | None = None
        self._packets = self._bytes = self._calls = 0
        self._began = self._wall = self._cpu = 0.0

    @property
    def account(self) -> CaptureAccount:
        """What the capture holds, datagrams or not, as far as it was read this time."""
        return self._file.account

    def start(self) -> None:
        """Begin to read."""
        self._began = time.monotonic()
        self._thread.start()

    def stop(self) -> None:
        """Ask the thread to end."""
        self._stop.set()

    def join(self, timeout: float = 10.0) -> bool:
        """Wait for the thread to end; whether it has. Raises RuntimeError if it failed."""
        self._thread.join(timeout)
        if self._error is not None:
            raise RuntimeError(f"{os.fspath(self._path)}: {self._error}") from self._error
        return not self._thread.is_alive()

    @property
    def running(self) -> bool:
        """Whether the file is being read."""
        return self._thread.is_alive()

    @property
    def kernel_drops(self) -> int:
        """0: the kernel has no part in this."""
        return 0

    def reports(self) -> list[ThreadReport]:
        """Say what the thread did so far; its processor time is known once a run of datagrams."""
        wall = time.monotonic() - self._began if self.running else self._wall
        return [ThreadReport("pcap", -1, self.running, self._cpu, wall, self._packets, self._bytes, self._calls, 0)]

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        self.join()

    def _run(self) -> None:
        try:
            turn = 0
            while not self._stop.is_set() and (self._loops is None or turn < self._loops):
                self._play()
                turn += 1
        except Exception as error:
            self._error = error
        self._wall = time.monotonic() - self._began

    def _play(self) -> None:
        zero, start = None, time.monotonic()
        for batch in self._file.batches():
            if zero is None:
                zero = int(batch.time[0])
            due = (batch.time - zero) * (1e-9 / self._speed) if self._speed else None
            for port, run in self._wanted(batch):
                self._hand_over(batch.payload[run], batch.time[run], port, None if due is None else due[run], start)
                if self._stop.is_set():
                    return

    def _wanted(self, batch: Batch) -> list[tuple[int, slice]]:
        """Give runs of datagrams to the same endpoint, with its number, in the order in which they came."""
        if self._ends is None:
            return [(0, slice(None))]
        number = np.full(len(batch.port), -1)
        for i, (address, port) in reversed(list(enumerate(self._ends))):
            if len(address) == batch.address.shape[1]:
                number[(batch.port == port) & (batch.address == np.frombuffer(address, np.uint8)).all(1)] = i
        edges = np.flatnonzero(np.diff(number, prepend=-2)).tolist()
        runs = zip(edges, [*edges[1:], len(number)], strict=True)
        return [(int(number[a]), slice(a, b)) for a, b in runs if number[a] >= 0]

    def _hand_over(
        self,
        payload: NDArray[np.uint8],
        times: NDArray[np.int64],
        port: int,
        due: NDArray[np.floating[Any]] | None,
        start: float,
    ) -> None:
        at, n = 0, len(payload)
        while at < n and not self._stop.is_set():
            upto = n
            if due is not None:
                now = time.monotonic() - start
                if (wait := float(due[at]) - now) > 0:
                    self._stop.wait(min(max(wait, _TICK), _PATIENCE))
                    continue
                upto = at + max(1, int(np.searchsorted(due[at:], now, "right")))
            self._sink.take_rows(payload[at:upto], port, times[at:upto])
            self._packets += upto - at
            self._bytes += (upto - at) * payload.shape[1]
            self._calls += 1
            self._cpu = time.thread_time()
            at = upto
