"""Files of chunks, as triggers and captures write them, as a source of samples: any number of them, joined by time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ryle.chunk import SampleChunk
from ryle.config import ConfigError, Observation, Problem
from ryle.config.observed import EVERY
from ryle.problems import listed
from ryle.receive.windows import window_shape
from ryle.store.chunk_file import MAGIC, ChunkFile, Layout
from ryle.store.joined import Joined

#: Gives memory for samples of so many inputs, packets and bytes: payloads, and which of them are there.
Room = Callable[[tuple[int, int, int]], tuple[NDArray[np.uint8], NDArray[np.uint8]]]
_LARGEST = 64 << 20  # bytes that are read at once, unless one block is more


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
        rows: list[list[int]] = []
        inputs: list[list[int]] = []
        for path, file in zip(paths, self._files, strict=True):
            layout = file.layout
            first_of = {head: row for row, head in reversed(list(enumerate(layout.heads)))}
            rows.append([row for row, head in enumerate(layout.heads) if head in heads and first_of[head] == row])
            inputs.append([heads[layout.heads[row]] for row in rows[-1]])
            if not rows[-1]:
                shown = listed(str(head) for head in layout.heads[:4])
                remedy = f"({', '.join(layout.fields)}) of the streams in {path.name} are {shown}; the inputs' are "
                raise ConfigError(o.source, [Problem("inputs", None, remedy + listed(map(str, list(heads)[:4])))])
            _check_times(path, file)
        first = self._files[0].layout
        self._packets, self._origin, self._span = first.packets, first.origin, first.packets * first.step
        self._joined = Joined(self._files, rows, inputs)
        about = zip(paths, self._files, inputs, self._joined.placed, strict=True)
        self.recorded = [self._recorded(*each) for each in about]
        times = self._joined.times
        if not times.size and not self._part:
            raise _empty(paths[0])
        self.start = int(times[0]) if times.size else self._between[0]
        self.stop = int(times[-1]) + self._span if times.size else self.start

    def _recorded(self, path: Path, file: ChunkFile, inputs: list[int], placed: int) -> Recorded:
        """Say what a file holds."""
        span, times = self._span, file.timestamps
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
            len(times) * len(inputs) * file.layout.packets,
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
        o, times = self._observation, self._joined.times
        for first, end in self._stretches():
            data, present = room((o.n_inputs, (end - first) * self._packets, o.digitizer_heap_bytes))
            self._joined.read(first, end, data, present)
            yield 0, SampleChunk(int(times[first]), data, present, o.digitizer.heap_samples)

    def _stretches(self) -> Iterator[tuple[int, int]]:
        """Cut times into what is read together: of one cell, and each follows the one before."""
        times, (low, high) = self._joined.times, self._between
        first, end = np.searchsorted(times, (low - self._span + 1, high)).tolist()
        read = times[first:end]
        cells = (read - self._origin) // self._cell
        cuts = np.flatnonzero((np.diff(read) != self._span) | (np.diff(cells) != 0)) + first + 1
        bounds = [first, *cuts.tolist(), end] if first < end else []
        yield from pairwise(bounds)


def _check_times(path: Path, file: ChunkFile) -> None:
    """Refuse what cannot be ordered by time."""
    span, times = file.layout.packets * file.layout.step, file.timestamps
    odd = times[(times < 0) | ((times - file.layout.origin) % span != 0)]
    if odd.size:
        remedy = f"has a block of time stamp {odd[0]}, which is none of a whole block"
        raise ConfigError(str(path), [Problem("input", path.name, remedy)])
    if np.unique(file.epochs).size > 1:
        remedy = "holds samples from before and after a jump of time stamps, which cannot be told apart"
        raise ConfigError(str(path), [Problem("input", path.name, remedy)])


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
