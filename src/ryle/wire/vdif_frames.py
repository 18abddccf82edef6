"""Find the frames of a VDIF file: whole blocks of headers at a time, and past damage to the next sound frame."""

from __future__ import annotations

import mmap
import os
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ryle.wire.vdif import FIELDS, Header, extract

_SEARCH = 1 << 22  # bytes searched at once for the next sound header
_AHEAD = 1 << 16  # most frames looked at at once
_FIRST = 1 << 26  # bytes searched for the first frame of a file
_THREAD = next(field for field in FIELDS if field.name == "thread")
_SIGNATURE_3 = 0xFFFFFFFF & ~(_THREAD.mask << _THREAD.shift)  # complex, bits, station: alike in all frames of a file


@dataclass(slots=True)
class Frames:
    """Where frames lie in a file and what their headers say; equally long arrays of int64.

    Parameters
    ----------
    offset : ndarray
        Byte at which the header starts.
    epoch, seconds, frame, thread, invalid : ndarray
        Header fields.
    """

    offset: NDArray[np.int64]
    epoch: NDArray[np.int64]
    seconds: NDArray[np.int64]
    frame: NDArray[np.int64]
    thread: NDArray[np.int64]
    invalid: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.offset)


def map_file(path: str | os.PathLike[str]) -> tuple[mmap.mmap, NDArray[np.uint8]]:
    """Map a file for reading: the map itself, and its bytes as an array of shape (bytes,).

    Raises
    ------
    ValueError
        If the file is empty.
    """
    with open(path, "rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            raise ValueError(f"{os.fspath(path)} is empty; nothing can be read from it")
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    if hasattr(mmap, "MADV_SEQUENTIAL"):
        mapped.madvise(mmap.MADV_SEQUENTIAL)
    return mapped, np.frombuffer(mapped, np.uint8)


class FrameScanner:
    """Walk the frames of one file in the order they lie in it.

    All frames of a file share length, bits, channels, real or complex, station and header kind (those of the first
    sound frame); whatever differs is damage: it is counted and skipped up to the next header that fits.

    Parameters
    ----------
    data : ndarray of uint8, shape (bytes,)
        The mapped file.
    name : str
        Its name, for messages.

    Attributes
    ----------
    header : Header
        The first sound frame's header.
    begin : int
        Byte at which the first sound frame begins.
    position : int
        Byte from which the next frame is read.
    malformed : int
        Stretches of bytes that were no frame and had to be skipped.
    skipped_bytes : int
        Bytes in them.
    truncated : int
        1 if the file ends within a frame.

    Raises
    ------
    ValueError
        If no VDIF frame is found at all.
    """

    def __init__(self, data: NDArray[np.uint8], name: str = "file") -> None:
        self.data, self.name = data, name
        self.malformed = self.skipped_bytes = self.truncated = 0
        first = self._first_frame()
        self.header = Header.unpack(data[first : first + 32].tobytes())
        if first:
            self.malformed, self.skipped_bytes = 1, first
        self.position = self.begin = first
        self._ahead = _AHEAD
        words = np.frombuffer(data[first : first + 16].tobytes(), "<u4")
        self._word2, self._word3 = int(words[2]), int(words[3]) & _SIGNATURE_3

    def _first_frame(self) -> int:
        """Find two headers, a frame length apart, that agree; or a lone whole frame at the start of the file."""
        size = len(self.data)
        if size >= 16:
            head = self.data[:32].tobytes()
            legacy = bool(head[3] & 0x40)
            if legacy or size >= 32:
                header = Header.unpack(head)
                fits = header.problem() is None and header.frame_bytes <= size
                if fits and (header.frame_bytes + 16 > size or self._agree(0, header)):
                    return 0
        for base in range(0, min(size, _FIRST), _SEARCH):
            for phase in range(4):  # damage can shift frames by any number of bytes
                found = [at for at in self._pairs(base + phase, min(size, base + _SEARCH + 16)) if self._sound_pair(at)]
                if found:
                    return found[0]
        reason = Header.unpack(self.data[:32].tobytes()).problem() if size >= 32 else f"it has {size} bytes"
        raise ValueError(
            f"{self.name} holds no VDIF frames: no two sound headers a frame length apart agree "
            f"in its first {min(size, _FIRST)} bytes"
            + (f"; read as a header, its first bytes say: {reason}" if reason else "")
        )

    def _pairs(self, start: int, stop: int) -> list[int]:
        """Find where, every 4 bytes from `start`, words 2 could be of two frames on end."""
        count = (stop - start) // 4
        if count < 4:
            return []
        words = np.frombuffer(self.data[start : start + 4 * count].tobytes(), "<u4")
        length = (words[2:-1] & 0xFFFFFF).astype(np.int64) * 8
        offset = start + 4 * np.arange(len(length), dtype=np.int64)
        # There is room for data after the header, and the top two bits of word 1 are unassigned.
        likely = np.flatnonzero((length >= 24) & (offset + length + 16 <= len(self.data)) & (words[1:-2] >> 30 == 0))
        after = offset[likely] + length[likely] + 8
        repeated = self.data[after[:, None] + np.arange(4)].view("<u4").reshape(-1) == words[likely + 2]
        return [int(at) for at in offset[likely[repeated]]]

    def _sound_pair(self, offset: int) -> bool:
        header = Header.unpack(self.data[offset : offset + 32].tobytes().ljust(32, b"\0"))
        return header.problem() is None and self._agree(offset, header)

    def _agree(self, offset: int, header: Header) -> bool:
        """Whether the header a frame length on belongs to the same recording."""
        after = offset + header.frame_bytes
        if after + 16 > len(self.data):
            return False
        here = np.frombuffer(self.data[offset : offset + 16].tobytes(), "<u4")
        there = np.frombuffer(self.data[after : after + 16].tobytes(), "<u4")
        return bool(
            here[2] == there[2]
            and (int(here[3]) ^ int(there[3])) & _SIGNATURE_3 == 0
            and (int(here[0]) ^ int(there[0])) & 0x40000000 == 0
            and here[1] >> 24 == there[1] >> 24
            and abs((int(here[0]) & 0x3FFFFFFF) - (int(there[0]) & 0x3FFFFFFF)) <= 1
        )

    def _resynchronise(self, start: int) -> int:
        """Find the next header with this file's signature, at or after `start`; the file's size if there is none."""
        size = len(self.data)
        pattern = self._word2.to_bytes(4, "little")
        step = 1 << 12
        while start + 16 <= size:
            stop, step = min(size, start + step), min(2 * step, _SEARCH)
            window = self.data[start:stop].tobytes()
            at = window.find(pattern, 8)
            while at >= 0:
                if at + 8 <= len(window):
                    word0 = int.from_bytes(window[at - 8 : at - 4], "little")
                    word3 = int.from_bytes(window[at + 4 : at + 8], "little")
                    if word3 & _SIGNATURE_3 == self._word3 and bool(word0 >> 30 & 1) == bool(self.header.legacy):
                        return start + at - 8
                at = window.find(pattern, at + 1)
            if stop == size:
                break
            start = stop - 15
        return size

    def read(self, most: int) -> Frames:
        """Read up to ``most`` further frames; none are left when the result is empty."""
        while True:
            begun = self.position
            found = self._read_ahead(min(most, self._ahead))
            if len(found) or self.position == begun:
                return found

    def read_to(self, place: int) -> Frames:
        """Read all further frames that begin before byte ``place``; none are left when the result is empty."""
        parts: list[Frames] = []
        while (left := place - self.position) > 0 and len(found := self.read(-(-left // self.header.frame_bytes))):
            parts.append(found)
        return concatenate(parts)

    def go_to(self, place: int) -> None:
        """Go on with the first frame that begins at byte ``place`` or behind it; what is passed over is not counted."""
        self.position = self._resynchronise(place)

    def frames_at(self, place: int, count: int) -> Frames:
        """Read ``count`` frames from byte ``place`` on without moving or counting anything."""
        return self._peek(self._resynchronise(place), count)

    def _read_ahead(self, most: int) -> Frames:
        """Read frames up to the next damage; none may be found before it."""
        length = self.header.frame_bytes
        left = len(self.data) - self.position
        count = min(most, left // length)
        if count <= 0:
            self._finish()
            return concatenate([])
        # One header more than frames wanted: what follows the last frame says whether it is whole.
        looked = min(count + 1, (left - 16) // length + 1)
        words: NDArray[np.uint32] = np.ndarray(
            (looked, 4), "<u4", buffer=self.data, offset=self.position, strides=(length, 4)
        ).copy()
        sound = self._sound(words)
        good = count if sound.all() else min(count, int(np.argmin(sound)))
        offset = self.position + length * np.arange(good, dtype=np.int64)
        self.position += good * length
        # Where damage is dense, no more is looked at than will be used: time stays in proportion to the file.
        self._ahead = min(2 * self._ahead, _AHEAD) if sound.all() else max(16, 4 * good)
        if not sound.all():
            # The next header may lie within the last frame: then that frame lost its tail.
            found = self._resynchronise(self.position - length + 16 if good else self.position + 1)
            lost = found - self.position
            if found < len(self.data) and lost % length and good:
                # Frames go on off the grid: bytes went missing or came in, most likely within the last frame.
                good, lost = good - 1, lost + length
            self.malformed += 1
            self.skipped_bytes += lost
            self.position = found
        return _frames(words[:good], offset[:good])

    def _finish(self) -> None:
        rest = len(self.data) - self.position
        if rest:
            self.truncated = 1
            self.position = len(self.data)

    def first_frames(self, count: int) -> Frames:
        """Read the first ``count`` frames without moving or counting anything."""
        return self._peek(self.begin, count)

    def last_frames(self, count: int) -> Frames:
        """Read about the last ``count`` frames without moving or counting anything."""
        start = max(self.begin, len(self.data) - count * self.header.frame_bytes)
        return self._peek(self._resynchronise(start), count)

    def some_frames(self, count: int) -> Frames:
        """Read headers of up to ``count`` frames from all over the file, as far as frames lie without damage.

        Places are spread evenly but not in step with threads or seconds; what is not a header of this file is left out.
        """
        length = self.header.frame_bytes
        frames = (len(self.data) - self.begin) // length
        chosen = np.arange(frames) if frames <= count else np.random.default_rng(0).integers(0, frames, count)
        offset = self.begin + length * np.unique(chosen).astype(np.int64)
        words = self.data[offset[:, np.newaxis] + np.arange(16)].view("<u4")
        return _frames(words[self._sound(words)], offset[self._sound(words)])

    def _sound(self, words: NDArray[np.uint32]) -> NDArray[np.bool_]:
        """Whether headers, shape (frame, 4), are of this file."""
        sound: NDArray[np.bool_] = (
            (words[:, 2] == self._word2)
            & (words[:, 3] & np.uint32(_SIGNATURE_3) == self._word3)
            & (words[:, 0] >> 30 & 1 == self.header.legacy)
        )
        return sound

    def _peek(self, position: int, count: int) -> Frames:
        kept = self.position, self.malformed, self.skipped_bytes, self.truncated
        self.position = position
        parts: list[Frames] = []
        while (left := count - sum(map(len, parts))) > 0 and len(part := self.read(left)):
            parts.append(part)
        self.position, self.malformed, self.skipped_bytes, self.truncated = kept
        return concatenate(parts)


def _frames(words: NDArray[np.uint32], offset: NDArray[np.int64]) -> Frames:
    return Frames(offset, *(extract(words, name) for name in ("epoch", "seconds", "frame", "thread", "invalid")))


def concatenate(parts: list[Frames]) -> Frames:
    """Join lists of frames in order."""
    if not parts:
        return _frames(np.zeros((0, 4), np.uint32), np.zeros(0, np.int64))
    names = ("offset", "epoch", "seconds", "frame", "thread", "invalid")
    return Frames(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))
