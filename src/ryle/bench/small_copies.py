"""How long a small array takes to a GPU while large ones are copied to it: by its threads, or by its copy engine.

    python -m ryle.bench.small_copies [--pieces 0 1 8 64 256] [--sizes 8 256 3072] [--seconds 1] [--json FILE]

Engines bring delays, tables of addresses and validity of every batch to the GPU by threads that read page-locked memory
(`ryle.gpu.fetch`), beside the copies of samples or those of another program. A copy of each size is made again and
again, each waited for, while pieces of one size after the other go to the same GPU without a pause.
"""

from __future__ import annotations

import argparse
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from ryle.bench.harness import emulated_gpu
from ryle.bench.results import Row, host, machine, save, table, wide_console
from ryle.gpu import Gpu, fetch, open_gpu

_LEAST = 3  # copies of a case, however long they take
_BLOCKS = (16, 132)  # of threads that fetch


class CopyBeside:
    """Copies pieces to the GPU without end, two of them under way at any time, in a thread.

    Parameters
    ----------
    gpu : Gpu
        Where to.
    piece : int
        Bytes.

    Attributes
    ----------
    gbps : float
        Copied from the first piece to the last.
    """

    def __init__(self, gpu: Gpu, piece: int) -> None:
        self._gpu, self._piece = gpu, piece
        self.gbps, self._stop = 0.0, threading.Event()
        self._thread = threading.Thread(target=self._run, name="beside")

    def _run(self) -> None:
        source, target = self._gpu.pinned((self._piece,), np.uint8), self._gpu.empty((self._piece,), np.uint8)
        source[...], stream = 1, self._gpu.stream()
        under_way: deque[Any] = deque()
        began, copied = time.perf_counter(), 0
        while not self._stop.is_set():
            target.set(source, stream)
            under_way.append(stream.record())
            if len(under_way) == 2:
                under_way.popleft().synchronize()
                copied += self._piece
                self.gbps = copied * 8e-9 / (time.perf_counter() - began)
        stream.synchronize()

    def __enter__(self) -> CopyBeside:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


def waits(gpu: Gpu, size: int, blocks: int, seconds: float) -> list[float]:
    """Copy so many bytes again and again; give the seconds that each took, from the call until it had come.

    Parameters
    ----------
    gpu : Gpu
        Where to.
    size : int
        Bytes, a multiple of 8.
    blocks : int
        Of the GPU's threads, which fetch them; 0: the copy engine copies them.
    seconds : float
        For how long.

    Raises
    ------
    ArithmeticError
        If something else came.
    """
    stream, there = gpu.stream(), gpu.empty((size,), np.uint8)
    source = gpu.pinned((size,), np.uint8)
    source[...] = np.random.default_rng().integers(0, 256, size, np.uint8)
    by_threads = fetch.Fetch(gpu, blocks) if blocks else None
    found: list[float] = []
    end = time.perf_counter() + seconds
    while len(found) < _LEAST or time.perf_counter() < end:
        began = time.perf_counter()
        if by_threads is not None:
            by_threads.whole(there, source, stream)
        else:
            there.set(source, stream)
        stream.synchronize()
        found.append(time.perf_counter() - began)
    if not np.array_equal(there.get(stream=stream), source):
        raise ArithmeticError(f"{size} bytes that were fetched by {blocks} blocks are not what was there")
    return found


def measure(gpu: Gpu, pieces: Sequence[int], sizes: Sequence[int], seconds: float) -> Iterator[Row]:
    """Measure each size beside pieces of each size, by each way; bytes."""
    for piece in pieces:
        with CopyBeside(gpu, piece) if piece else nullcontext() as beside:
            for size in sizes:
                for blocks in (0, *_BLOCKS):
                    each = 1e3 * np.array(waits(gpu, size, blocks, seconds)[1:])
                    low, middle, high = (float(v) for v in np.quantile(each, (0.25, 0.5, 0.75)))
                    name = f"{blocks} blocks of threads" if blocks else "copy engine"
                    row = Row(name, middle, "ms", {"size": size, "beside": piece}, spread=(low, high))
                    row.more = {"longest": float(each.max()), "copies": len(each)}
                    row.more["beside_gbps"] = 0.0 if beside is None else beside.gbps
                    yield row


def main(words: Sequence[str] | None = None) -> None:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--pieces", type=float, nargs="+", default=[0, 1, 8, 64, 256], help="MiB that are copied beside"
    )
    parser.add_argument("--sizes", type=float, nargs="+", default=[8, 256, 3072], help="KiB of what is waited for")
    parser.add_argument("--seconds", type=float, default=1.0, help="of each case")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--emulated", action="store_true", help="try the program without a GPU (PYTHONPATH=tests)")
    given = parser.parse_args(words)
    gpu: Any = emulated_gpu() if given.emulated else open_gpu()
    console, rows = wide_console(), []
    pieces, sizes = [int(p * 2**20) for p in given.pieces], [int(s * 1024) // 8 * 8 for s in given.sizes]
    for row in measure(gpu, pieces, sizes, given.seconds):
        rows.append(row)
        about = f"{row.size['size'] / 1024:g} KiB by {row.case}, beside pieces of {row.size['beside'] / 2**20:g} MiB"
        console.print(f"{about}: {row.value:.3g} ms, at most {row.more['longest']:.3g}")
    console.print(table(rows))
    save(given.json, host() | ({} if given.emulated else machine(gpu)), rows, console)


if __name__ == "__main__":
    main()
