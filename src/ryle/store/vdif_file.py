"""One VDIF recording on the common clock, a window at a time.

The file is mapped and walked once, from where the samples begin that are asked for. Frames are put in time order by
their header, not by their place in the file: threads may be interleaved in any way within about a second.
"""

from __future__ import annotations

import math
import mmap
import os
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from ryle.wire.vdif import Decoder
from ryle.wire.vdif_frames import Frames, FrameScanner, concatenate, map_file

_EDGE = 1024  # frames looked at, at each end of a file, to find its times and threads
_BATCH = 1 << 16  # most frames read at once
_RECENT = 8  # latest frames of a thread that tell how far it has come
_LOOKS = 512  # frames looked at all over a file, to find how many make a second

_PENDING = np.dtype(
    [("time", np.int64), ("offset", np.int64), ("thread", np.int64), ("invalid", np.bool_), ("seen", np.bool_)]
)


@dataclass(slots=True)
class FileAccount:
    """What became of one file's frames.

    ``frames`` is the sum of the next seven, and ``expected = placed + invalid + missing``.

    Parameters
    ----------
    frames : int
        Frames read.
    placed : int
        Put into chunks.
    invalid : int
        Marked invalid by the recorder; their samples are missing.
    duplicate : int
        Second copies of a frame, ignored.
    late : int
        Came after the chunk they belong to had been given out.
    outside : int
        Before the first or after the last sample asked for.
    foreign : int
        Of threads that no input uses.
    bad_time : int
        Frame number beyond those of a second.
    malformed, skipped_bytes : int
        Stretches of bytes that were no frame, and the bytes in them.
    truncated : int
        1 if the file ends within a frame.
    expected : int
        Frames of the used threads between the first and last sample given out so far.
    """

    frames: int = 0
    placed: int = 0
    invalid: int = 0
    duplicate: int = 0
    late: int = 0
    outside: int = 0
    foreign: int = 0
    bad_time: int = 0
    malformed: int = 0
    skipped_bytes: int = 0
    truncated: int = 0
    expected: int = 0

    @property
    def missing(self) -> int:
        """Frames that should have been there and were not."""
        return self.expected - self.placed - self.invalid


class VdifFile:
    """One file's frames on the common clock, a window at a time.

    Parameters
    ----------
    path : path
        The file, which is mapped.
    threads : sequence of int
        Threads that are used.
    sample_rate : int
        Samples per second of a channel, Hz.
    clock_offset : Fraction
        Seconds that are added to the times of the headers.
    timestamp_of : callable
        Gives the timestamp, in samples, at which a second of an epoch begins.

    Raises
    ------
    ValueError
        If headers and sample rate do not agree, or a thread is not there.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        threads: Sequence[int],
        sample_rate: int,
        clock_offset: Fraction,
        timestamp_of: Callable[[int, int], Fraction | int],
    ) -> None:
        self.name = os.fspath(path)
        self._map, self.data = map_file(path)
        self.scanner = FrameScanner(self.data, self.name)
        self.header = self.scanner.header
        self.decoder = Decoder(self.header)
        self.samples = self.header.samples
        self.threads = np.array(sorted(set(threads)), np.int64)
        stated = self.header.sample_rate
        if stated is not None and stated != sample_rate:
            raise ValueError(
                f"{self.name}: its headers (extended data version {self.header.edv}) state {stated} samples a second, "
                f"not {sample_rate}; correct the sample rate (band.sample_rate, that of one channel)"
            )
        if sample_rate % self.samples:
            raise ValueError(
                f"{self.name}: {sample_rate} samples a second are no whole number of frames of {self.samples} samples, "
                "as VDIF demands; correct the sample rate (band.sample_rate, that of one channel)"
            )
        self._rate, self._clock, self._timestamp_of = sample_rate, clock_offset, timestamp_of
        self._seconds: dict[tuple[int, int], int] = {}
        self.residual = 0.0
        self.account = FileAccount()
        self._pending = np.zeros(0, _PENDING)
        self._window = self._pending
        self._recent = {thread: np.zeros(0, np.int64) for thread in self.threads.tolist()}
        self._done = False
        self._freed = 0
        self._block = len(self.threads)  # frames that are read at once
        first, last = self.scanner.first_frames(_EDGE), self.scanner.last_frames(_EDGE)
        self._inspect(first, last)

    def _inspect(self, first: Frames, last: Frames) -> None:
        """Find each used thread's first sample and the one after its last."""
        both = concatenate([first, last])
        found = np.unique(both.thread)
        if absent := sorted(set(self.threads.tolist()) - set(found.tolist())):
            remedy = "correct the threads or the order of the files"
            raise ValueError(f"{self.name} has threads {found.tolist()}, not {absent}; {remedy}")
        frames_per_second = self._rate // self.samples
        self._check_rate(both, frames_per_second)
        self.spans: dict[int, tuple[int, int]] = {}
        for thread in self.threads.tolist():
            mine = both.thread == thread
            ticks = self._supported(self._times(both)[mine & (both.frame < frames_per_second)])
            self.spans[thread] = (int(ticks[0]), int(ticks[-1]) + self.samples)

    def _check_rate(self, ends: Frames, frames_per_second: int) -> None:
        """See whether frame numbers run as far in a second as the sample rate says."""
        anywhere = self.scanner.some_frames(_LOOKS)
        number = np.concatenate([ends.frame, anywhere.frame])
        claim = (
            f"{self.name}: frame numbers reach {{}}, but {self._rate} samples a second in frames of {self.samples} "
            f"make {frames_per_second} frames; the sample rate must be {{}} (band.sample_rate, that of one channel)"
        )
        if np.mean(anywhere.frame >= frames_per_second) > 0.1 or np.median(ends.frame >= frames_per_second) > 0:
            raise ValueError(claim.format(int(number.max()), "higher"))
        # Of the seconds between the first and the last, what was recorded was recorded whole.
        stamp = anywhere.epoch << 32 | anywhere.seconds
        trim = len(stamp) // 50  # a few damaged time stamps must not make ends into middles
        low, high = np.sort(stamp)[[trim, -1 - trim]] if len(stamp) else (0, 0)
        inner = anywhere.frame[(stamp > low) & (stamp < high)]
        if len(inner) > _LOOKS // 8 and int(inner.max()) < 3 * frames_per_second // 4:
            about = (int(inner.max()) + 1) * self.samples
            raise ValueError(claim.format(int(inner.max()), f"lower, about {about}"))

    def _supported(self, times: NDArray[np.int64]) -> NDArray[np.int64]:
        """Sort times, without lone ones more than a second from any other: one flipped bit must not set the span."""
        times = np.unique(times)
        if len(times) < 3:
            return times
        near = np.diff(times) <= self._rate
        kept = times[np.append(near, False) | np.append(False, near)]
        return kept if len(kept) else times

    def _times(self, frames: Frames) -> NDArray[np.int64]:
        """Sample count since sync of each frame's first sample, clock offset included, rounded to whole samples."""
        stamps, index = np.unique(frames.epoch << 32 | frames.seconds, return_inverse=True)
        starts = np.array([self._second(int(s) >> 32, int(s) & 0xFFFFFFFF) for s in stamps], np.int64)
        return (starts[index] if len(starts) else starts) + frames.frame * self.samples

    def _second(self, epoch: int, seconds: int) -> int:
        key = (epoch, seconds)
        if key not in self._seconds:
            if len(self._seconds) > 4096:
                self._seconds.clear()
            exact = Fraction(self._timestamp_of(epoch, seconds)) + self._clock * self._rate
            whole = math.floor(exact + Fraction(1, 2))
            if not self._seconds:
                self.residual = float(exact - whole)
            self._seconds[key] = whole
        return self._seconds[key]

    def begin(self, chunk: int, first: int | None = None) -> None:
        """Get ready to `advance` in steps of ``chunk`` samples, from sample ``first`` on if given: go to its frames.

        Frames are read in blocks that begin at fixed places of the file, so that from wherever it is read the same
        ones come too late. The block to begin with is found by bisection: threads are a second apart at most, so that
        none of two seconds before is missed. (A frame whose time stamp was damaged into a later part is.)
        """
        self._block = min(max(chunk // self.samples * max(len(self.threads), 1), 64), _BATCH)
        if first is None:
            return
        blocks = (len(self.data) - self.scanner.begin) // (self._block * self.header.frame_bytes)
        wanted = first - 2 * self._rate - self.samples * self._block
        before = bisect_right(range(blocks), wanted, key=self._time_of_block)  # blocks that begin no later
        self.scanner.go_to(self._place(max(0, before - 1)))
        self._freed = self.scanner.position // mmap.PAGESIZE * mmap.PAGESIZE

    def _place(self, block: int) -> int:
        """Give the byte from which on a block's frames begin."""
        return self.scanner.begin + block * self._block * self.header.frame_bytes

    def _time_of_block(self, block: int) -> int:
        """Say about when a block begins, from frames enough for damage to some not to matter."""
        found = self.scanner.frames_at(self._place(block), 4 * len(self.threads) + 12)
        times = self._times(found)[np.isin(found.thread, self.threads)]
        return int(np.median(times)) if len(times) else 1 << 62

    def advance(self, start: int, stop: int, begin: int, end: int) -> None:
        """Collect the frames that touch samples ``start`` to ``stop`` of a run from ``begin`` to ``end``."""
        arrived = [self._pending]
        ahead = int((self._pending["time"] >= stop).sum())
        most = len(self.threads) * (self._rate + stop - start) // self.samples + self._block
        while not self._done and ahead < most and self._behind(stop):
            arrived.append(self._read(start, begin, end))
            ahead += int((arrived[-1]["time"] >= stop).sum())
        pending = np.concatenate(arrived)
        pending = pending[pending["time"] + self.samples > start]
        now = pending["time"] < stop
        window, later = pending[now], pending[~now]
        order = np.lexsort((window["offset"], window["invalid"], ~window["seen"], window["time"], window["thread"]))
        window = window[order]
        again = np.zeros(len(window), np.bool_)
        again[1:] = (np.diff(window["time"]) == 0) & (np.diff(window["thread"]) == 0)
        self.account.duplicate += int(again.sum())
        window = window[~again]
        fresh = ~window["seen"]
        self.account.invalid += int((fresh & window["invalid"]).sum())
        self.account.placed += int((fresh & ~window["invalid"]).sum())
        window["seen"] = True
        self._window = window
        self._pending = np.concatenate([window[window["time"] + self.samples > stop], later])
        self._count_expected(begin, stop)

    def _behind(self, stop: int) -> bool:
        """Whether a thread may still have frames before ``stop`` to come.

        The least of a thread's latest times says how far it has come, so that neither frames out of step nor a damaged
        time stamp in the far future end the reading. A thread that pauses is waited for by a second of frames.
        """
        return any(len(times) == 0 or int(times.min()) < stop for times in self._recent.values())

    def _read(self, start: int, begin: int, end: int) -> NDArray[np.void]:
        """Read up to where the next block begins."""
        bytes_of_block = self._block * self.header.frame_bytes
        frames = self.scanner.read_to(self._place((self.scanner.position - self.scanner.begin) // bytes_of_block + 1))
        account, scanner = self.account, self.scanner
        account.malformed, account.skipped_bytes = scanner.malformed, scanner.skipped_bytes
        account.truncated = scanner.truncated
        if not len(frames):
            self._done = True
            return np.zeros(0, _PENDING)
        account.frames += len(frames)
        times = self._times(frames)
        for thread, latest in self._recent.items():
            self._recent[thread] = np.concatenate([latest, times[frames.thread == thread]])[-_RECENT:]
        left = np.ones(len(frames), np.bool_)
        for name, rejected in (
            ("bad_time", frames.frame >= self._rate // self.samples),
            ("foreign", ~np.isin(frames.thread, self.threads)),
            ("outside", (times + self.samples <= begin) | (times >= end)),
            ("late", times + self.samples <= start),
        ):
            setattr(account, name, getattr(account, name) + int((left & rejected).sum()))
            left &= ~rejected
        kept = np.zeros(int(left.sum()), _PENDING)
        kept["time"], kept["offset"] = times[left], frames.offset[left]
        kept["thread"], kept["invalid"] = frames.thread[left], frames.invalid[left] != 0
        return kept

    def _count_expected(self, begin: int, stop: int) -> None:
        grid = next(iter(self.spans.values()))[0]
        frames = -((grid - stop) // self.samples) - (begin - grid) // self.samples
        self.account.expected = frames * len(self.threads)

    def drain(self, begin: int, end: int) -> None:
        """Read what is left, for the account."""
        while not self._done:
            self._read(end, begin, end)

    def valid(self, thread: int) -> NDArray[np.void]:
        """Give the valid frames of one thread in the window, in time order."""
        window = self._window
        mine: NDArray[np.void] = window[(window["thread"] == thread) & ~window["invalid"]]
        return mine

    def fill(self, row: NDArray[np.uint8], frames: NDArray[np.void], channel: int, start: int, stop: int) -> None:
        """Decode one channel of `frames` into a row that begins with sample ``start``."""
        begins = np.maximum(frames["time"], start)
        ends = np.minimum(frames["time"] + self.samples, stop)
        self.decoder.into(
            row, self.data, frames["offset"], begins - frames["time"], ends - begins, begins - start, channel
        )

    def covered(self, frames: NDArray[np.void], start: int, packets: int, packet: int) -> NDArray[np.uint8]:
        """Whether `frames` hold every sample of each packet."""
        if not len(frames):
            return np.zeros(packets, np.uint8)
        edges = start + packet * np.arange(packets + 1, dtype=np.int64)
        index = np.searchsorted(frames["time"], edges, side="right")  # frames begun by each edge
        into = edges - frames["time"][np.maximum(index - 1, 0)]
        before = np.where(index > 0, (index - 1) * self.samples + np.minimum(into, self.samples), 0)
        whole: NDArray[np.uint8] = (np.diff(before) == packet).astype(np.uint8)
        return whole

    def release(self) -> None:
        """Give back the memory of the pages behind the window."""
        oldest = int(self._pending["offset"].min()) if len(self._pending) else self.scanner.position
        upto = oldest // mmap.PAGESIZE * mmap.PAGESIZE
        if upto - self._freed >= 1 << 20 and hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED, self._freed, upto - self._freed)
            self._freed = upto
