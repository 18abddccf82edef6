"""Blocks of several files of chunks, joined: side by side by input, one behind the other by time, read by threads."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ryle.store.chunk_file import ChunkFile
from ryle.store.pieces import read_all

#: Threads that read, if there are twice as many cores: each copies out of the page cache as fast as a core can, and
#: disks like to be asked for much at once.
_THREADS = 8
_LOOKED_AT = 4096  # blocks whose marks are looked at together

#: Numbers of open files, bytes of them, bytes of the memory, and sizes: what `read_all` reads.
_Pieces = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]


class Joined:
    """Blocks of files of chunks, in order of time.

    Parameters
    ----------
    files : sequence of ChunkFile
        Of as many packets of one size in each block, whose time stamps are whole blocks apart.
    rows, inputs : sequence of sequence of int
        Of each file, which of its heads are wanted, and which inputs they are.

    Attributes
    ----------
    times : ndarray of int64, shape (time,)
        Time stamps of the blocks, each once.
    placed : list of int
        Packets of the wanted heads that each file has.
    """

    def __init__(
        self, files: Sequence[ChunkFile], rows: Sequence[Sequence[int]], inputs: Sequence[Sequence[int]]
    ) -> None:
        self._files, layout = files, files[0].layout
        self._packets, self._span = layout.packets, layout.packets * layout.step
        self._threads = max(1, min(_THREADS, len(os.sched_getaffinity(0)) // 2))
        self._paths = {file.file.fileno(): file.path for file in files}
        looks = [_look(file, some) for file, some in zip(files, rows, strict=True)]
        self.placed = [placed for placed, _ in looks]

        counts = np.array([len(some) for some in rows])
        self._counts, self._starts = counts, np.cumsum(counts) - counts  # of a file's heads in the two below
        self._rows, self._inputs = (np.array([n for some in each for n in some], np.int64) for each in (rows, inputs))

        # One entry for each block of each file, by time, then by file.
        time = np.concatenate([file.timestamps for file in files])
        number = np.repeat(np.arange(len(files)), [len(file) for file in files])
        order = np.lexsort((number, time))
        self._time, self._file = time[order], number[order]
        self._block = np.concatenate([np.arange(len(file)) for file in files])[order]
        self._body = np.concatenate([file.bodies for file in files])[order]
        self._whole = np.concatenate([whole for _, whole in looks])[order]
        self.times, first = np.unique(self._time, return_index=True)
        self._first = np.append(first, len(order))  # entry of each time
        again = (np.diff(self._time) == 0) & (np.diff(self._file) == 0)
        self._once = len(np.unique(self._inputs)) == len(self._inputs) and not again.any()

    def read(self, first: int, end: int, data: NDArray[np.uint8], present: NDArray[np.uint8]) -> None:
        """Read the blocks of some times, each a block after the one before; of what two have, the first file's.

        Parameters
        ----------
        first, end : int
            Places in `times`.
        data : ndarray of uint8, shape (input, packet, byte)
            For the payloads; zeros where packets are missing.
        present : ndarray of uint8, shape (input, packet)
            Says which are there.

        Raises
        ------
        OSError
            If a file cannot be read; names it.
        """
        entries = slice(int(self._first[first]), int(self._first[end]))
        places = (self._time[entries] - self.times[first]) // self._span
        present[...] = 0
        marks = present.reshape(len(present), end - first, self._packets)
        if self._once and self._whole[entries].all():
            pieces = self._whole_rows(entries, places, marks, data.shape[2])
        else:
            pieces = self._runs(entries, places, marks, data.shape[2])
        read_all(self._paths, *pieces, data, self._threads)
        if not present.all():
            data[present == 0] = 0

    def _whole_rows(self, entries: slice, places: NDArray[np.int64], marks: NDArray[np.uint8], size: int) -> _Pieces:
        """Give the pieces of blocks that have all their packets, a head each, and mark them."""
        files, length = self._file[entries], self._packets * size
        counts = self._counts[files]
        entry = np.repeat(np.arange(len(files)), counts)
        head = np.arange(len(entry)) - np.repeat(np.cumsum(counts) - counts, counts) + self._starts[files][entry]
        inputs, places = self._inputs[head], places[entry]
        marks[inputs, places] = 1
        at = self._body[entries][entry] + self._rows[head] * length
        to = (inputs * marks.shape[1] + places) * length
        return self._numbers(files[entry]), at, to, np.full(len(to), length)

    def _runs(self, entries: slice, places: NDArray[np.int64], marks: NDArray[np.uint8], size: int) -> _Pieces:
        """Give the pieces of any blocks: runs of packets that are there and that nobody else has, and mark them."""
        files, blocks, bodies = self._file[entries], self._block[entries], self._body[entries]
        pieces: list[_Pieces] = []
        for number in np.unique(files).tolist():
            mine = np.flatnonzero(files == number)
            turn = np.arange(len(mine)) - np.searchsorted(places[mine], places[mine])  # of blocks of one time
            heads = slice(int(self._starts[number]), int(self._starts[number] + self._counts[number]))
            rows, inputs = self._rows[heads], self._inputs[heads]
            for some in (mine[turn == n] for n in range(int(turn.max()) + 1)):
                to = inputs[np.newaxis], places[some][:, np.newaxis]
                new = (self._files[number].marks(blocks[some])[:, rows] != 0) & (marks[to] == 0)  # (block, row, packet)
                marks[to] |= new
                edges = np.diff(new.astype(np.int8), axis=2, prepend=0, append=0)
                block, row, first = np.nonzero(edges == 1)
                run = np.nonzero(edges == -1)[2] - first
                at = bodies[some][block] + (rows[row] * self._packets + first) * size
                goes = (inputs[row] * marks.shape[1] + places[some][block]) * self._packets + first
                pieces.append((self._numbers(np.full(len(run), number)), at, goes * size, run * size))
        files, at, to_bytes, sizes = (np.concatenate(each).astype(np.int64) for each in zip(*pieces, strict=True))
        return files, at, to_bytes, sizes

    def _numbers(self, files: NDArray[np.int64]) -> NDArray[np.int64]:
        """Give the operating system's numbers of files."""
        return np.fromiter(self._paths, np.int64, len(self._files))[files]


def _look(file: ChunkFile, rows: Sequence[int]) -> tuple[int, NDArray[np.bool_]]:
    """Count the packets of some heads, and say which blocks have all of theirs."""
    placed, whole = 0, np.zeros(len(file), np.bool_)
    for at in range(0, len(file), _LOOKED_AT):
        some = slice(at, at + _LOOKED_AT)
        there = file.marks(some)[:, rows] != 0
        placed += int(np.count_nonzero(there))
        whole[some] = there.all(axis=(1, 2))
    return placed, whole
