"""VDIF 1.1.1 data frames written: samples quantized, packed into words and put into frames.

Reference and levels: as of `ryle.wire.vdif`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from types import TracebackType
from typing import BinaryIO, Self

import numpy as np
from numpy.typing import NDArray

from ryle.wire.vdif import SCALE, TWO_BIT_THRESHOLD, Header, elements_per_word


def quantize(values: NDArray[np.float32] | NDArray[np.float64], bits: int) -> NDArray[np.uint32]:
    """Find the code of the level nearest to each value (2 bits: by the 1σ threshold); beyond the ends, the end.

    Parameters
    ----------
    values : ndarray of float
        Real values in the units of `levels`; above 8 bits and at odd widths those are code steps.
    bits : int
        Bits of a code, 1 to 32.
    """
    if bits == 1:
        return (values >= 0).astype(np.uint32)
    if bits == 2:
        return np.searchsorted([-TWO_BIT_THRESHOLD, 0.0, TWO_BIT_THRESHOLD], values, side="right").astype(np.uint32)
    zero = 127.5 if bits == 8 else float(1 << (bits - 1))
    codes = np.rint(np.asarray(values, np.float64) * SCALE.get(bits, 1.0) + zero)
    return np.clip(codes, 0, (1 << bits) - 1).astype(np.uint32)


def pack(codes: NDArray[np.uint32], bits: int, complex_data: bool) -> bytes:
    """Pack codes into payload words.

    Parameters
    ----------
    codes : ndarray of uint32, shape (element,)
        Codes in payload order: sample, channel, part.
    bits : int
        Bits of a code.
    complex_data : bool
        Whether parts of complex samples are packed (matters at widths that are no power of two).

    Returns
    -------
    bytes
        Whole 8-byte units; what is left over is code 0.
    """
    per_word = elements_per_word(bits, complex_data)
    padded = np.zeros((-(-len(codes) // (2 * per_word)) * 2, per_word), np.uint32)
    padded.reshape(-1)[: len(codes)] = codes
    shifts = np.arange(per_word, dtype=np.uint32) * np.uint32(bits)
    words: NDArray[np.uint32] = np.bitwise_or.reduce(padded << shifts, axis=1)
    return words.astype("<u4").tobytes()


class Writer:
    """Write VDIF frames of one or more threads, frame by frame in time order.

    Parameters
    ----------
    file : path or binary file
        Where to write. A file that was opened here is closed by `close` or on leaving the ``with`` block.
    header : Header
        Template: epoch, first second and frame, bits, channels, real or complex, station, extended words. Its frame
        length is set from `frame_samples`.
    sample_rate : int
        Samples per second of a channel, Hz.
    frame_samples : int
        Samples of a channel in a frame.
    threads : sequence of int
        Thread numbers, in the order of the first axis of the data.

    Raises
    ------
    ValueError
        If a second does not hold a whole number of frames, or the payload would not be whole 8-byte units of samples.
    """

    def __init__(
        self,
        file: str | os.PathLike[str] | BinaryIO,
        header: Header,
        sample_rate: int,
        frame_samples: int,
        threads: Sequence[int] = (0,),
    ) -> None:
        elements = frame_samples * header.channels * header.parts
        per_word = elements_per_word(header.bits, bool(header.complex_data))
        payload = -(-elements // (2 * per_word)) * 8
        self.header = replace(header, length8=(payload + header.header_bytes) // 8)
        if problem := self.header.problem():
            raise ValueError(f"VDIF frame: {problem}")
        if self.header.samples != frame_samples:
            raise ValueError(
                f"{frame_samples} samples a frame do not fill whole 8-byte units; {self.header.samples} would"
            )
        if sample_rate % frame_samples:
            raise ValueError(
                f"{sample_rate} samples a second are no whole number of frames of {frame_samples} samples; "
                "choose frame samples that divide the sample rate"
            )
        self.frames_per_second = sample_rate // frame_samples
        self.threads = tuple(threads)
        self._owned = isinstance(file, (str, os.PathLike))
        self._file: BinaryIO = open(file, "wb") if isinstance(file, (str, os.PathLike)) else file
        self._next = header.seconds * self.frames_per_second + header.frame

    def write(self, samples: NDArray[np.generic], invalid: bool = False) -> None:
        """Quantize and write whole frames.

        Parameters
        ----------
        samples : ndarray of float or complex, shape (thread, sample, channel)
            Values in the units of `levels`. Complex if and only if the header says so.
        invalid : bool
            Mark these frames invalid.

        Raises
        ------
        ValueError
            If the shape does not fit the threads, channels and whole frames.
        """
        header = self.header
        if np.iscomplexobj(samples) != bool(header.complex_data):
            raise ValueError(
                f"the header says {'complex' if header.complex_data else 'real'} data; got {samples.dtype}"
            )
        wide = np.complex128 if header.complex_data else np.float64
        values = np.ascontiguousarray(samples, wide).view(np.float64)
        self.write_codes(quantize(values, header.bits).reshape(*samples.shape, header.parts), invalid)

    def write_codes(self, codes: NDArray[np.uint32], invalid: bool = False) -> None:
        """Write whole frames of codes as they are, shape (thread, sample, channel, part)."""
        header = self.header
        shape = (len(self.threads), codes.shape[1], header.channels, header.parts)
        if codes.shape != shape or codes.shape[1] % header.samples:
            raise ValueError(
                f"samples of shape {codes.shape[:3]} do not fit: need {len(self.threads)} threads, a multiple of "
                f"{header.samples} samples, {header.channels} channels"
            )
        for start in range(0, codes.shape[1], header.samples):
            seconds, frame = divmod(self._next, self.frames_per_second)
            for index, thread in enumerate(self.threads):
                stamped = replace(header, seconds=seconds, frame=frame, thread=thread, invalid=int(invalid))
                part = np.ascontiguousarray(codes[index, start : start + header.samples]).reshape(-1)
                payload = pack(part, header.bits, bool(header.complex_data))
                self._file.write(stamped.pack() + payload)
            self._next += 1

    def skip(self, frames: int) -> None:
        """Leave out ``frames`` frames of every thread: a gap in the recording."""
        self._next += frames

    def close(self) -> None:
        """Close the file if it was opened here."""
        if self._owned:
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
