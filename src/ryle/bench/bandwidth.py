"""How fast bytes move between host memory and GPUs, and within host memory."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ryle.gpu.interface import Gpu

#: As in the paper: 512 MB a copy.
COPY_BYTES = 512 << 20


def host_memory(threads: int | None = None, seconds: float = 1.0, nbytes: int = 128 << 20) -> float:
    """Copy within host memory from several threads; give bytes read and written a second.

    Parameters
    ----------
    threads : int, optional
        How many; one a core that this process may use if absent.
    seconds : float
        How long.
    nbytes : int
        Bytes of each thread's array, much more than caches hold.
    """
    threads = threads or len(os.sched_getaffinity(0))
    words = nbytes // 8
    pairs = [(np.ones(words), np.ones(words)) for _ in range(threads)]  # touched: no page is new
    return _rate([(partial(np.copyto, target, source), 2 * source.nbytes) for source, target in pairs], seconds)


def host_and_gpus(gpus: Sequence[Gpu], seconds: float = 0.5, nbytes: int = COPY_BYTES) -> dict[tuple[str, str], float]:
    """Copy between host memory and GPUs, all at once; give bytes a second by (memory, way).

    Parameters
    ----------
    gpus : sequence of Gpu
        Which.
    seconds : float
        How long each.
    nbytes : int
        Bytes of a copy.

    Returns
    -------
    dict
        Keys ``("pinned" or "pageable", "host to device", "device to host" or "both ways")``.
    """
    found = {}
    for memory in ("pinned", "pageable"):
        lanes = [_Lane(gpu, memory, nbytes) for gpu in gpus]
        for way in ("host to device", "device to host", "both ways"):
            works = [(work, lane.nbytes) for lane in lanes for work in lane.work(way)]
            for work, _ in works:
                work()
            found[memory, way] = _rate(works, seconds)
    return found


class _Lane:
    def __init__(self, gpu: Gpu, memory: str, nbytes: int) -> None:
        def host() -> NDArray[Any]:
            array = gpu.pinned((nbytes,), np.uint8) if memory == "pinned" else np.empty(nbytes, np.uint8)
            array.fill(1)
            return array

        self.gpu, self.nbytes = gpu, nbytes
        self.from_host, self.to_host = host(), host()
        self.down, self.up = gpu.empty((nbytes,), np.uint8), gpu.array(self.from_host)
        self.streams = gpu.stream(), gpu.stream()
        gpu.default_stream.synchronize()

    def work(self, way: str) -> list[Callable[[], None]]:
        """Give what each thread does over and over."""

        def down() -> None:
            self.down.set(self.from_host, self.streams[0])
            self.streams[0].synchronize()

        def up() -> None:
            self.up.copy_to(self.to_host, self.streams[1])
            self.streams[1].synchronize()

        return {"host to device": [down], "device to host": [up], "both ways": [down, up]}[way]


def _rate(works: Sequence[tuple[Callable[[], object], int]], seconds: float) -> float:
    """Do pieces of work over and over, each in a thread of its own; give bytes a second, from the bytes of each."""
    moved, barrier = [0] * len(works), threading.Barrier(len(works) + 1)

    def run(i: int) -> None:
        work, nbytes = works[i]
        barrier.wait()
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            work()
            moved[i] += nbytes

    workers = [threading.Thread(target=run, args=(i,)) for i in range(len(works))]
    for worker in workers:
        worker.start()
    barrier.wait()
    began = time.perf_counter()
    for worker in workers:
        worker.join()
    return sum(moved) / (time.perf_counter() - began)
