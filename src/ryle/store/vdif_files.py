"""VDIF recordings as a source of sample chunks: many files, threads and channels on one clock.

Every file is mapped and walked once, or the part of it that is asked for. Frames are put in time order by their header,
not by their place in the file: threads may be interleaved in any way within about a second, and files may start, pause
and end at different times.

Samples become the packed 32-bit big-endian floats of `ryle.wire.samples` (re, im alternating if complex); each output
packet is present only if valid frames cover all of it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from ryle.chunk import SampleChunk
from ryle.config.utc import parse_utc, vdif_tai
from ryle.store.vdif_file import FileAccount, VdifFile

_PACKET = 256  # least samples of a packet unless asked otherwise


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
    first, last : int
        The same of what is given, which `take` makes less.
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
            i: VdifFile(files[i], [e.thread for e in inputs if e.file == i], rate, offsets[i], stamp) for i in used
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
        self.first, self.last = self.start, self.stop
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

    def take(self, low: int, high: int) -> None:
        """Give only the chunks that have any of the samples from `low` to before `high`, each as it is without this."""
        step = self._chunk_packets * self.packet_samples
        chunks_before = max(0, low - self.start) // step
        self.first = min(self.start + chunks_before * step, self.stop)
        self.last = max(self.first, min(high, self.stop))

    @property
    def bytes_done(self) -> int:
        """Bytes of the files read so far."""
        return sum(file.scanner.position for file in self._files.values())

    def __iter__(self) -> Iterator[tuple[int, SampleChunk]]:
        step = self._chunk_packets * self.packet_samples
        for file in self._files.values():
            file.begin(step, self.first if self.first > self.start else None)
        for start in range(self.first, self.last, step):
            stop = min(start + step, self.stop)
            for file in self._files.values():
                file.advance(start, stop, self.first, self.stop)
            for band in self._bands:
                yield band.index, self._chunk(band, start, stop)
            for file in self._files.values():
                file.release()
        if self._drain and self.last == self.stop:
            for file in self._files.values():
                file.drain(self.first, self.stop)

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
