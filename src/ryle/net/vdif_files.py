"""VDIF recordings as a source of sample chunks: many files, threads and channels on one clock.

Every file is mapped and walked once. Frames are put in time order by their header, not by their place in the file:
threads may be interleaved in any way within about a second, and files may start, pause and end at different times.

Samples become the packed 32-bit big-endian floats of `ryle.wire.samples` (re, im alternating if complex); each output
packet is present only if valid frames cover all of it.
"""

from __future__ import annotations

import math
import mmap
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from ryle.array.time import parse_utc, vdif_tai
from ryle.chunk import SampleChunk
from ryle.wire.vdif import Decoder
from ryle.wire.vdif_frames import Frames, FrameScanner, concatenate, map_file

_EDGE = 1024  # frames looked at, at each end of a file, to find its times and threads
_BATCH = 1 << 16  # most frames read at once
_RECENT = 8  # latest frames of a thread that tell how far it has come
_LOOKS = 512  # frames looked at all over a file, to find how many make a second
_PACKET = 256  # least samples of a packet unless asked otherwise

_PENDING = np.dtype(
    [("time", np.int64), ("offset", np.int64), ("thread", np.int64), ("invalid", np.bool_), ("seen", np.bool_)]
)


@dataclass(frozen=True, slots=True)
class VdifInput:
    """What one channel of one thread of one file is.

    Parameters
    ----------
    file : int
        Index of the file.
    thread, channel : int
        VDIF thread, and channel within its frames.
    antenna, polarization, band : int
        Where it belongs: the chunk of ``band``, input ``antenna * polarizations + polarization``.
    """

    file: int
    thread: int
    channel: int
    antenna: int
    polarization: int
    band: int = 0


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


class NoSamplesError(ValueError):
    """No stretch of time is left to read.

    Attributes
    ----------
    spans : dict of (int, int) to (int, int)
        For each file and thread, its first sample and the one after its last.
    """

    def __init__(self, message: str, spans: dict[tuple[int, int], tuple[int, int]]) -> None:
        super().__init__(message)
        self.spans = spans


class _File:
    """One file's frames on the common clock, a window at a time."""

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

    def advance(self, start: int, stop: int, begin: int, end: int) -> None:
        """Collect the frames that touch samples ``start`` to ``stop`` of a run from ``begin`` to ``end``."""
        batch = min(max((stop - start) // self.samples * max(len(self.threads), 1), 64), _BATCH)
        arrived = [self._pending]
        ahead = int((self._pending["time"] >= stop).sum())
        most = len(self.threads) * (self._rate + stop - start) // self.samples + batch
        while not self._done and ahead < most and self._behind(stop):
            arrived.append(self._read(batch, start, begin, end))
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

    def _read(self, batch: int, start: int, begin: int, end: int) -> NDArray[np.void]:
        frames = self.scanner.read(batch)
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
            self._read(_BATCH, end, begin, end)

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


@dataclass(slots=True)
class _Band:
    index: int
    parts: int
    members: list[tuple[int, VdifInput]] = field(default_factory=list)  # input in the chunk, and what it is
    spare: tuple[NDArray[np.uint8], NDArray[np.uint8]] | None = None


class VdifSource:
    """Sample chunks of each band from VDIF files, aligned to one clock.

    Iterating gives ``(band, SampleChunk)`` pairs, for each stretch of time all bands in order. It can be done once.

    Parameters
    ----------
    files : sequence of path
        The recordings.
    inputs : sequence of VdifInput
        What each thread and channel is. Threads and channels not named are left out; an antenna or polarization not
        named in a band is never present in its chunks.
    sample_rate : int
        Samples per second of one channel (complex samples if the data are complex), Hz.
    sync_time : Fraction or int
        Unix time of sample count 0, exact. Unused if `timestamp_of` is given.
    clock_offsets : sequence of float or Fraction, optional
        For each file, seconds to add to its time stamps to have true time.
    timestamp_of : callable, optional
        ``timestamp_of(epoch, seconds)``: the exact count of samples from sync to the start of a VDIF second. The
        default counts elapsed SI seconds (leap seconds included) times `sample_rate`.
    chunk_samples : int
        Samples of each input in a chunk, rounded up to whole packets; the last chunk may be shorter.
    packet_samples : int, optional
        Samples in a packet, the grain of what is missing. Default: the shortest frame's, or the first multiple of it
        that reaches 256.
    start, stop : int, optional
        Sample counts to begin at the earliest, and to end at the latest.
    overlap : bool
        Read from where all inputs have begun to where the first of them ends; otherwise from where the first begins
        to where the last ends.
    antennas, polarizations : int, optional
        Shape of the input axis. Default: the largest named, plus one.
    reuse : bool
        Overwrite each band's arrays in its next chunk, which saves memory traffic.

    Attributes
    ----------
    start, stop : int
        First sample, and the one after the last: multiples of `packet_samples`.
    residuals : dict of ndarray of float64, shape (input,)
        For each band, what rounding to whole samples left, in samples: the sample stamped t was taken at
        t + residual, so **add** it to the input's delay (output time t reads input t − delay).
    parts : dict of int
        For each band, 2 if its samples are complex, else 1.
    spans : dict of (int, int) to (int, int)
        For each file and thread used, its first sample and the one after its last.
    accounts : list of FileAccount
        What became of each file's frames, kept up to date.
    bytes_total, bytes_done : int
        Size of the files and how much of it has been read.

    Raises
    ------
    ValueError
        If files and inputs do not fit together.
    NoSamplesError
        If no stretch of time is common to all inputs, or none is left between `start` and `stop`.
    """

    def __init__(
        self,
        files: Sequence[str | os.PathLike[str]],
        inputs: Sequence[VdifInput],
        sample_rate: int,
        sync_time: Fraction | int = 0,
        *,
        clock_offsets: Sequence[float | Fraction] | None = None,
        timestamp_of: Callable[[int, int], Fraction | int] | None = None,
        chunk_samples: int = 1 << 20,
        packet_samples: int | None = None,
        start: int | None = None,
        stop: int | None = None,
        overlap: bool = True,
        antennas: int | None = None,
        polarizations: int | None = None,
        reuse: bool = False,
    ) -> None:
        if not inputs:
            raise ValueError("no VDIF inputs are named; map at least one file, thread and channel to an antenna")
        if sample_rate <= 0 or sample_rate != int(sample_rate):
            raise ValueError(f"sample rate {sample_rate} Hz: VDIF needs a positive whole number of samples a second")
        offsets = (
            [Fraction(0)] * len(files) if clock_offsets is None else [Fraction(offset) for offset in clock_offsets]
        )
        if len(offsets) != len(files):
            raise ValueError(f"{len(offsets)} clock offsets for {len(files)} files; give one for each")
        for entry in inputs:
            if not 0 <= entry.file < len(files):
                raise ValueError(f"input {entry} names file {entry.file}; there are {len(files)} files, from 0")
        rate = int(sample_rate)
        stamp = timestamp_of or (lambda epoch, second: (vdif_tai(epoch, second) - parse_utc(sync_time)) * rate)
        used = sorted({entry.file for entry in inputs})
        self._files = {
            i: _File(files[i], [e.thread for e in inputs if e.file == i], rate, offsets[i], stamp) for i in used
        }
        self._polarizations = polarizations or 1 + max(entry.polarization for entry in inputs)
        self._antennas = antennas or 1 + max(entry.antenna for entry in inputs)
        self._bands = self._arrange(inputs)
        shortest = min(file.samples for file in self._files.values())
        self.packet_samples = packet_samples or shortest * -(-_PACKET // shortest)
        self._chunk_packets = max(1, -(-chunk_samples // self.packet_samples))
        self._reuse = reuse
        self.parts = {band.index: band.parts for band in self._bands}
        self.spans = {(i, thread): span for i, f in self._files.items() for thread, span in f.spans.items()}
        self.start, self.stop = self._range(start, stop, overlap)
        self._drain = stop is None or stop > self.stop
        self.accounts = [self._files[i].account if i in self._files else FileAccount() for i in range(len(files))]
        self.bytes_total = sum(len(file.data) for file in self._files.values())
        self.residuals = {
            band.index: self._per_input({i: self._files[e.file].residual for i, e in band.members})
            for band in self._bands
        }

    def _per_input(self, values: dict[int, float]) -> NDArray[np.float64]:
        array = np.zeros(self._antennas * self._polarizations)
        for index, value in values.items():
            array[index] = value
        return array

    def _arrange(self, inputs: Sequence[VdifInput]) -> list[_Band]:
        """Sort inputs into bands and check that they fit."""
        bands: dict[int, _Band] = {}
        for entry in inputs:
            header = self._files[entry.file].header
            name = self._files[entry.file].name
            if not 0 <= entry.channel < header.channels:
                raise ValueError(f"{name} has channels 0 to {header.channels - 1}, not {entry.channel}")
            if not (0 <= entry.antenna < self._antennas and 0 <= entry.polarization < self._polarizations):
                raise ValueError(
                    f"{entry}: allowed are antennas below {self._antennas} and polarizations below "
                    f"{self._polarizations}"
                )
            band = bands.setdefault(entry.band, _Band(entry.band, header.parts))
            if band.parts != header.parts:
                raise ValueError(f"band {entry.band} mixes real and complex samples; {name} differs from the others")
            index = entry.antenna * self._polarizations + entry.polarization
            if any(index == other for other, _ in band.members):
                raise ValueError(
                    f"antenna {entry.antenna}, polarization {entry.polarization}, band {entry.band} is given twice"
                )
            band.members.append((index, entry))
        return [bands[index] for index in sorted(bands)]

    def _range(self, start: int | None, stop: int | None, overlap: bool) -> tuple[int, int]:
        pick_start, pick_stop = (max, min) if overlap else (min, max)
        first = pick_start(span[0] for span in self.spans.values())
        last = pick_stop(span[1] for span in self.spans.values())
        packet = self.packet_samples
        begin = -(-first // packet) * packet
        end = last // packet * packet if overlap else -(-last // packet) * packet
        if start is not None:
            begin = max(begin, -(-start // packet) * packet)
        if stop is not None:
            end = min(end, stop // packet * packet)
        if end <= begin:
            spans = (f"  {self._files[i].name} thread {t}: {a} to {b}" for (i, t), (a, b) in self.spans.items())
            listing = "\n".join(spans)
            wanted = "" if start is None and stop is None else f" from {start} to {'the end' if stop is None else stop}"
            raise NoSamplesError(
                f"no whole packet of {packet} samples lies between samples {first} and {last}{wanted}; "
                f"the inputs cover\n{listing}\n"
                "Check the clock offsets and times, or take the union of their times (overlap=False)",
                self.spans,
            )
        return begin, end

    @property
    def bytes_done(self) -> int:
        """Bytes of the files read so far."""
        return sum(file.scanner.position for file in self._files.values())

    def __iter__(self) -> Iterator[tuple[int, SampleChunk]]:
        step = self._chunk_packets * self.packet_samples
        for start in range(self.start, self.stop, step):
            stop = min(start + step, self.stop)
            for file in self._files.values():
                file.advance(start, stop, self.start, self.stop)
            for band in self._bands:
                yield band.index, self._chunk(band, start, stop)
            for file in self._files.values():
                file.release()
        if self._drain:
            for file in self._files.values():
                file.drain(self.start, self.stop)

    def _chunk(self, band: _Band, start: int, stop: int) -> SampleChunk:
        packets, packet = (stop - start) // self.packet_samples, self.packet_samples
        inputs = self._antennas * self._polarizations
        shape = (inputs, packets, packet * 4 * band.parts)
        if band.spare is not None and band.spare[0].shape == shape:
            data, present = band.spare
        else:
            data, present = np.empty(shape, np.uint8), np.zeros((inputs, packets), np.uint8)
            band.spare = (data, present) if self._reuse else None
        for index, entry in band.members:
            file = self._files[entry.file]
            frames = file.valid(entry.thread)
            file.fill(data[index].reshape(-1), frames, entry.channel, start, stop)
            present[index] = file.covered(frames, start, packets, packet)
        if not present.all():
            data[present == 0] = 0
        return SampleChunk(start, data, present, packet)
