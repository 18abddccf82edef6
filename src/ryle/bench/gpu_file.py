"""Ways from a GPU's memory into a file: cuFile, and what an engine does without it.

    python -m ryle.bench.gpu_file --directory /disk --gigabytes 16 [--block MiB ...] [--turns 5] [--json FILE]

Pieces as large as blocks of raw samples, and as the sums of an integration, are written one after the other into a file
whose place on the disk has been allocated; a turn ends when the disk has all (fsync). The ways take turns:

- cuFile, called once for each piece: directly or, where that cannot be, in its compatibility mode;
- copies to two page-locked buffers, one of which is written past the page cache (O_DIRECT) while the other fills;
- a copy to a page-locked buffer and a plain write of it, one after the other.

First each way writes a file that is read back and compared, untimed. Cores are those that this process kept busy: where
the disk sets the rate, they are what a way saves. The default of a sum is 80 antennas of two polarizations and 1024
channels, 212 MB.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ryle.bench.harness import emulated_gpu, quartiles, ratios, take_turns
from ryle.bench.memory import random_bytes
from ryle.bench.results import Row, host, machine, save, table, wide_console
from ryle.gpu import Gpu, GpuError, GpuUnavailable, open_gpu
from ryle.gpu.files import PAGE, GpuFile
from ryle.gpu.interface import DeviceArray

_STAGED = "two buffers, O_DIRECT"
_SHIFTS = 13  # pieces begin so many pages apart in what is written, in turn


@dataclass(frozen=True)
class Cost:
    """What a way took: seconds, and seconds of CPU time of this process."""

    seconds: float
    cpu: float


class Ways:
    """Pieces in the GPU's memory, a file for them, and the ways between.

    Parameters
    ----------
    gpu : Gpu
        Where they come from.
    path : Path
        What is written; replaced, and removed by `close`.
    piece : int
        Bytes of a piece, a multiple of 4096.
    count : int
        Pieces of the file.
    """

    def __init__(self, gpu: Gpu, path: Path, piece: int, count: int) -> None:
        if piece % PAGE or piece < PAGE:
            raise ValueError(f"pieces of {piece} bytes; use a multiple of {PAGE}")
        self.path, self.piece, self.count = path, piece, count
        self._source = random_bytes(gpu, piece + _SHIFTS * PAGE)
        self._stream, self._buffers = gpu.stream(), [gpu.pinned((piece,), np.uint8) for _ in range(2)]

    def _there(self, k: int) -> DeviceArray:
        return self._source.view((self.piece,), np.uint8, k % _SHIFTS * PAGE)

    def fresh(self) -> None:
        """Make a new file of the full size, on a disk that has nothing else to do."""
        self.close()
        file = os.open(self.path, os.O_WRONLY | os.O_CREAT)
        try:
            os.posix_fallocate(file, 0, self.piece * self.count)
            os.fsync(file)
        finally:
            os.close(file)

    def by_cufile(self) -> None:
        """Give each piece to cuFile."""
        with GpuFile(self.path) as file:
            for k in range(self.count):
                file.write(self._there(k), k * self.piece, self._stream)
            file.flush()

    def by_two_buffers(self) -> None:
        """Write a piece past the page cache while the next is copied from the GPU."""
        file = os.open(self.path, os.O_WRONLY | os.O_DIRECT)
        try:
            with ThreadPoolExecutor(1) as writer:
                writing: list[Future[Any]] = [writer.submit(int) for _ in self._buffers]
                for k in range(self.count):
                    turn = k % len(self._buffers)
                    writing[turn].result()
                    buffer = self._there(k).get(self._buffers[turn], self._stream)
                    writing[turn] = writer.submit(_write, file, buffer, k * self.piece)
                for each in writing:
                    each.result()
            os.fsync(file)
        finally:
            os.close(file)

    def plainly(self) -> None:
        """Copy a piece, then write it."""
        file = os.open(self.path, os.O_WRONLY)
        try:
            for k in range(self.count):
                _write(file, self._there(k).get(self._buffers[0], self._stream), k * self.piece)
            os.fsync(file)
        finally:
            os.close(file)

    def check(self, way: Callable[[], None]) -> None:
        """Raise ArithmeticError unless the file is what the GPU has after a way has written it."""
        self.fresh()
        way()
        expected = self._source.get(stream=self._stream).view(np.uint8)
        with self.path.open("rb") as file:
            for k in range(self.count):
                first = k % _SHIFTS * PAGE
                got = np.fromfile(file, np.uint8, self.piece)
                if not np.array_equal(got, expected[first : first + self.piece]):
                    raise ArithmeticError(f"piece {k} of {self.piece} bytes in {self.path} is not what the GPU has")
            if file.read(1):
                raise ArithmeticError(f"{self.path} is longer than what was written")

    def time(self, way: Callable[[], None]) -> Cost:
        """Write a fresh file."""
        self.fresh()
        began, busy = time.perf_counter(), time.process_time()
        way()
        return Cost(time.perf_counter() - began, time.process_time() - busy)

    def close(self) -> None:
        """Remove the file."""
        self.path.unlink(missing_ok=True)


def _write(file: int, buffer: NDArray[np.uint8], offset: int) -> None:
    left = buffer.data
    while left:
        written = os.pwrite(file, left, offset)
        left, offset = left[written:], offset + written


def measure(ways: Ways, what: str, turns: int) -> list[Row]:
    """Check all ways, then let them take turns.

    Parameters
    ----------
    ways : Ways
        Of one size of piece.
    what : str
        What such a piece is.
    turns : int
        How many.

    Returns
    -------
    list of Row
        GB/s of each way; without a value, and with a note, if it cannot be.

    Raises
    ------
    ArithmeticError
        If a way writes something else.
    """
    all_ways: dict[str, Callable[[], None]] = {
        "cuFile": ways.by_cufile,
        _STAGED: ways.by_two_buffers,
        "plain writes": ways.plainly,
    }
    size = {"piece_bytes": ways.piece, "pieces": ways.count}
    refused, mode = {}, ""
    for name, way in list(all_ways.items()):
        try:
            ways.check(way)
        except (GpuUnavailable, GpuError, OSError) as error:
            refused[name] = str(error)
            del all_ways[name]
    if "cuFile" in all_ways:
        with GpuFile(ways.path) as file:
            mode = "compatibility" if file.compatibility else "direct"
    found = take_turns({name: partial(ways.time, way) for name, way in all_ways.items()}, turns, back_and_forth=True)
    ways.close()
    total = ways.piece * ways.count * 1e-9
    rates = {name: [total / cost.seconds for cost in costs] for name, costs in found.items()}
    rows = []
    for name, each in rates.items():
        row = Row(name, statistics.median(each), "GB/s", size, spread=quartiles(each))
        row.more = {"piece": what, "cores": statistics.median(cost.cpu / cost.seconds for cost in found[name])}
        if name == "cuFile":
            row.more["mode"] = mode
        if name != _STAGED and _STAGED in rates:
            against = ratios(each, rates[_STAGED])
            row.baseline, row.baseline_value = _STAGED, statistics.median(rates[_STAGED])
            row.ratio, row.ratio_spread = statistics.median(against), quartiles(against)
        rows.append(row)
    return rows + [Row(name, None, "GB/s", size, more={"piece": what, "note": why}) for name, why in refused.items()]


def file_system(directory: Path) -> str:
    """Name the kind of file system that a directory lies on, as the system mounts it."""
    inside = [directory.resolve(), *directory.resolve().parents]
    kinds: dict[Path, str] = {}
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, where, kind, *_ = line.split()
        kinds[Path(where)] = kind
    return next((kinds[each] for each in inside if each in kinds), "unknown")


def main(words: Sequence[str] | None = None) -> None:
    """Measure, show, and write down if asked to."""
    parser = argparse.ArgumentParser(
        prog="python -m ryle.bench.gpu_file", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--directory", type=Path, required=True, help="where to write")
    parser.add_argument("--gigabytes", type=float, default=8.0, help="of a file (8)")
    parser.add_argument("--block", type=float, nargs="*", default=[64.0], help="MiB of blocks of raw samples (64)")
    parser.add_argument("--antennas", type=int, default=80, help="of two polarizations, of the sums (80); 0: no sums")
    parser.add_argument("--channels", type=int, default=1024, help="of the sums (1024)")
    parser.add_argument("--turns", type=int, default=5, help="how many (5)")
    parser.add_argument("--gpu", type=int, default=0, help="which (0)")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--emulated", action="store_true", help="try the program without a GPU (PYTHONPATH=tests)")
    asked = parser.parse_args(words)
    console, rows = wide_console(), []
    gpu: Gpu = emulated_gpu() if asked.emulated else open_gpu(asked.gpu)
    pieces = [("raw block", round(mib * 2**20)) for mib in asked.block]
    sums = 16 * asked.channels * 2 * asked.antennas * (asked.antennas + 1)
    pieces += [("sums", sums)] if sums else []
    for what, size in pieces:
        whole = -(-size // PAGE) * PAGE
        count = max(2, round(asked.gigabytes * 1e9 / whole))
        console.print(f"{what}: {count} pieces of {whole / 2**20:.1f} MiB, {asked.turns} turns")
        ways = Ways(gpu, asked.directory / f".ryle-bench-{os.getpid()}", whole, count)
        try:
            rows += measure(ways, what, asked.turns)
        finally:
            ways.close()
    more = {name: partial(_word, name) for name in ("piece", "mode", "cores", "note")}
    console.print(table(rows, more))
    about = host() | ({} if asked.emulated else machine(gpu)) | {"file_system": file_system(asked.directory)}
    save(asked.json, about, rows, console)


def _word(name: str, row: Row) -> str:
    found = row.more.get(name, "")
    return f"{found:.2f}" if isinstance(found, float) else str(found)


if __name__ == "__main__":
    main()
