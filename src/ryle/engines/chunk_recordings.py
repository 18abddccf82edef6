"""Files of chunks, as triggers and captures write them, as a source of samples: any number of them, joined by time."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ryle.chunk import SampleChunk
from ryle.config import ConfigError, Observation, Problem
from ryle.config.observation import EVERY
from ryle.problems import listed
from ryle.receive.windows import window_shape
from ryle.store.chunk_file import MAGIC, ChunkFile, Layout
from ryle.store.pieces import read_all

#: Gives memory for samples of so many inputs, packets and bytes: payloads, and which of them are there.
Room = Callable[[tuple[int, int, int]], tuple[NDArray[np.uint8], NDArray[np.uint8]]]
_LARGEST = 64 << 20  # bytes that are read at once, unless one block is more
_THREADS = 4  # that read: one copies out of the page cache as fast as memory lets a core, and a disk likes many
_LOOKED_AT = 4096  # blocks whose marks are looked at together


def is_chunks(start: bytes) -> bool:
    """Whether a file that begins so is one of chunks."""
    return start.startswith(MAGIC)


@dataclass(frozen=True)
class Recorded:
    """What a file holds.

    Parameters
    ----------
    name : str
        Of the file.
    blocks, promised : int
        Chunks that it has, and that it was to have; as many, if nobody said so.
    inputs : list of int
        Of the observation, that it is of.
    first, end : int
        Time stamps of its first sample and behind its last.
    placed, expected : int
        Packets of these inputs.
    """

    name: str
    blocks: int
    promised: int
    inputs: list[int]
    first: int
    end: int
    placed: int
    expected: int

    def __str__(self) -> str:
        missing = self.expected - self.placed
        text = f"{self.blocks} blocks, {self.placed} packets of {len(self.inputs)} inputs; {missing} missing"
        if (lost := self.promised - self.blocks) > 0:
            text += f"; {lost} of {self.promised} blocks that were to be recorded are not there"
        return text


class ChunkRecordings:
    """Samples of an observation's inputs, in order of time; inputs and stretches that no file has are missing.

    `chunks` gives stretches of time that any file has. Of an observation that is a part of another
    (`ryle.config.part`) only blocks that it can read are looked at.

    Parameters
    ----------
    observation : Observation
        What was observed.
    paths : sequence of Path
        The files, in any order: of several F-engines, or parts of one recording.

    Attributes
    ----------
    recorded : list of Recorded
        What each file holds.
    start, stop : int
        Time stamps of the first sample, and behind the last, of all that was looked at; only blocks that have samples
        which the observation's spectra read are given. Equal if a part has none.

    Raises
    ------
    ConfigError
        If a file is of something else, or files do not fit each other; names the key or the file.
    ValueError
        If one is no file of chunks.
    """

    def __init__(self, observation: Observation, paths: Sequence[Path]) -> None:
        o = self._observation = observation
        self._part = o.spectra != EVERY
        self._cell, self._between = _cell(o, paths[0])
        self._files = _opened(o, paths, self._between if self._part else None)
        heads = {tuple(o.digitizer_head(i)): i for i in range(o.n_inputs)}
        self._rows: list[tuple[list[int], list[int]]] = []  # of each file: its heads, and what inputs they are
        self._at: dict[int, list[tuple[int, int]]] = defaultdict(list)  # time stamp -> files, and chunks of them
        self.recorded: list[Recorded] = []
        first = self._files[0].layout
        for number, (path, file) in enumerate(zip(paths, self._files, strict=True)):
            layout = file.layout
            first_of = {head: row for row, head in reversed(list(enumerate(layout.heads)))}
            rows = [row for row, head in enumerate(layout.heads) if head in heads and first_of[head] == row]
            inputs = [heads[layout.heads[row]] for row in rows]
            if not rows:
                shown = listed(str(head) for head in layout.heads[:4])
                remedy = f"({', '.join(layout.fields)}) of the streams in {path.name} are {shown}; the inputs' are "
                raise ConfigError(o.source, [Problem("inputs", None, remedy + listed(map(str, list(heads)[:4])))])
            self._rows.append((rows, inputs))
            self.recorded.append(self._look(number, path, file))
        self._packets, self._origin, self._threads = first.packets, first.origin, min(_THREADS, len(os.sched_getaffinity(0)))
        if not self._at and not self._part:
            raise _empty(paths[0])
        self.start = min(self._at, default=self._between[0])
        self.stop = max(self._at) + first.packets * first.step if self._at else self.start

    def _look(self, number: int, path: Path, file: ChunkFile) -> Recorded:
        """Note when a file's chunks are."""
        rows, inputs = self._rows[number]
        span, times = file.layout.packets * file.layout.step, file.timestamps
        placed = sum(
            int(np.count_nonzero(file.marks(slice(at, at + _LOOKED_AT))[:, rows]))
            for at in range(0, len(file), _LOOKED_AT)
        )
        odd = times[(times < 0) | ((times - file.layout.origin) % span != 0)]
        if odd.size:
            remedy = f"has a block of time stamp {odd[0]}, which is none of a whole block"
            raise ConfigError(str(path), [Problem("input", path.name, remedy)])
        if np.unique(file.epochs).size > 1:
            remedy = "holds samples from before and after a jump of time stamps, which cannot be told apart"
            raise ConfigError(str(path), [Problem("input", path.name, remedy)])
        for index, timestamp in enumerate(times.tolist()):
            self._at[timestamp].append((number, index))
        about = {} if self._part else file.layout.about
        promised = about.get("end", 0), about.get("sample", 0)
        blocks = (promised[0] - promised[1]) // span if all(type(t) is int for t in promised) else 0
        return Recorded(
            path.name,
            len(times),
            max(len(times), blocks),
            inputs,
            int(times.min()) if times.size else 0,
            int(times.max()) + span if times.size else 0,
            placed,
            len(times) * len(rows) * file.layout.packets,
        )

    def chunks(self, room: Room) -> Iterator[tuple[int, SampleChunk]]:
        """Read them in order of time.

        Parameters
        ----------
        room : callable
            Asked for the memory that each stretch is read into.

        Yields
        ------
        band : int
            0.
        chunk : SampleChunk
            Of all inputs, about a batch of spectra long where blocks follow one another.

        Raises
        ------
        OSError
            If a file cannot be read any more; names it.
        """
        o = self._observation
        for times in self._stretches():
            shape = o.n_inputs, len(times) * self._packets, o.digitizer_heap_bytes
            data, present = room(shape)
            self._read(times, data, present)
            yield 0, SampleChunk(times[0], data, present, o.digitizer.heap_samples)

    def _stretches(self) -> Iterator[list[int]]:
        """Give the time stamps of blocks that are read together: of one cell, and each follows the one before."""
        span, (low, high) = self._packets * self._observation.digitizer.heap_samples, self._between
        times: list[int] = []
        for timestamp in sorted(at for at in self._at if at < high and at + span > low):
            cell = (timestamp - self._origin) // self._cell
            if times and (cell != (times[0] - self._origin) // self._cell or timestamp != times[-1] + span):
                yield times
                times = []
            times.append(timestamp)
        if times:
            yield times

    def _read(self, times: list[int], data: NDArray[np.uint8], present: NDArray[np.uint8]) -> None:
        """Read the blocks of some time stamps; what two files have comes from the first of them."""
        size, packets = data.shape[2], self._packets
        present[...] = 0
        marks = present.reshape(len(present), len(times), packets)
        together: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)  # file, how often -> places, blocks
        for place, timestamp in enumerate(times):
            seen: dict[int, int] = defaultdict(int)
            for number, index in self._at[timestamp]:
                together[number, seen[number]].append((place, index))
                seen[number] += 1
        pieces = []
        for (number, _), blocks in sorted(together.items()):
            file, (rows, inputs) = self._files[number], self._rows[number]
            places, indices = np.array(blocks).T
            to = np.array(inputs)[np.newaxis], places[:, np.newaxis]
            new = (file.marks(indices)[:, rows] != 0) & (marks[to] == 0)  # (block, row, packet)
            marks[to] |= new
            edges = np.diff(new.astype(np.int8), axis=2, prepend=0, append=0)
            block, row, first = np.nonzero(edges == 1)
            run = np.nonzero(edges == -1)[2] - first
            begins = file.bodies[indices][block] + (np.array(rows)[row] * packets + first) * size
            goes = (np.array(inputs)[row] * len(times) + places[block]) * packets + first
            pieces.append((np.full(len(run), file.file.fileno()), begins, goes * size, run * size))
        files, at, to_bytes, sizes = (np.concatenate(each).astype(np.int64) for each in zip(*pieces, strict=True))
        read_all({f.file.fileno(): f.path for f in self._files}, files, at, to_bytes, sizes, data, self._threads)
        if not present.all():
            data[present == 0] = 0


def _cell(o: Observation, path: Path) -> tuple[int, tuple[int, int]]:
    """Say how time is cut into stretches that are read at once, and which samples are read, in whole stretches.

    Both halves of an observation that is cut between them read the whole stretch: which ADC values are counted follows
    from what is read at once.
    """
    layout, shape = ChunkFile(path, (0, 0)).layout, window_shape(o)
    span = layout.packets * layout.step
    size = o.n_inputs * layout.packets * o.digitizer_heap_bytes
    cell = span * max(1, min(shape.batch * shape.step // span, _LARGEST // size))
    low, high = shape.samples
    low, high = ((at - layout.origin) // cell * cell + layout.origin for at in (low, high + cell - 1))
    return cell, (low, high)


def reach(observation: Observation, paths: Sequence[Path]) -> tuple[int, int]:
    """Find the time stamps of the first sample that files of chunks hold and behind the last, by their ends alone.

    Parameters
    ----------
    observation, paths
        As of `ChunkRecordings`.

    Raises
    ------
    ConfigError, ValueError
        As it does; what is wrong with a block between the ends is not seen.
    """
    files = _opened(observation, paths, (0, 0))
    ends = [found for file in files if (found := file.ends()) is not None]
    if not ends:
        raise _empty(paths[0])
    layout = files[0].layout
    return min(first for first, _ in ends), max(last for _, last in ends) + layout.packets * layout.step


def _opened(o: Observation, paths: Sequence[Path], between: tuple[int, int] | None) -> list[ChunkFile]:
    """Open files of one recording of an observation's samples."""
    if not o.channelizes:
        remedy = "are of others' F-engines, and chunks are of digitizers' samples; remove it"
        key = "fengine.packets" if o.packets is not None else "catcher.packets"
        raise ConfigError(o.source, [Problem(key, o.fengine.packets or o.catcher.packets, remedy)])
    files = [ChunkFile(path, between) for path in paths]
    first = files[0].layout
    for path, file in zip(paths, files, strict=True):
        layout = file.layout
        if (problem := _unlike(o, path, layout)) is not None:
            raise ConfigError(o.source, [problem])
        if (layout.packets, layout.origin) != (first.packets, first.origin):
            remedy = f"has blocks of {layout.packets} packets, and {paths[0].name} of {first.packets}"
            raise ConfigError(str(path), [Problem("input", path.name, f"{remedy}: give files of one recording")])
    return files


def _empty(path: Path) -> ConfigError:
    return ConfigError(str(path), [Problem("input", path.name, "holds no block: nothing was recorded")])


def _unlike(o: Observation, path: Path, layout: Layout) -> Problem | None:
    """Say in what a file is not of an observation's packets."""
    wanted = o.digitizer_format
    if layout.format != wanted.name or layout.fields != tuple(wanted.timestamp.stream):
        remedy = f"is not the format of the packets in {path.name}, {layout.format}: set it to that"
        return Problem("digitizer.packets", o.digitizer.packets, remedy)
    if layout.unit != "samples" or layout.step != o.digitizer.heap_samples:
        remedy = f"is not what packets in {path.name} hold, {layout.step} {layout.unit}: set it to that"
        return Problem("digitizer.heap_samples", o.digitizer.heap_samples, remedy)
    if layout.shape != (len(layout.heads), layout.packets, o.digitizer_heap_bytes):
        remedy = f"makes packets of {o.digitizer_heap_bytes} B, and blocks in {path.name} are of shape {layout.shape}"
        return Problem("digitizer.bits", o.digitizer.bits, remedy)
    return None
