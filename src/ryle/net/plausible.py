"""What of X-heaps is believed: lengths that an observation can have, and integrations that the others agree with."""

from __future__ import annotations

import ctypes
import socket
import struct
from collections.abc import Iterator
from typing import Generic, TypeVar

from ..wire import spead

T = TypeVar("T")
_SO_ATTACH_FILTER = 26
_ITEMS = 16  # of a packet, at most: Ryle's have 9
_TRIMMED = 8 + 12  # UDP header, and too little to be SPEAD: whoever reads it counts it malformed
_REACH = 64  # integrations that heavy loss may leave out


class Plausible(Generic[T]):
    """Holds back what claims to be far ahead of the others until there is more reason to believe it.

    An index is believed if it is at most `skew` ahead of the median of those that the streams were last believed at. A
    jump is believed when more than half of the streams, two at least, are near it, or when one has been there three
    times in a row; so is the beginning. Near is what is within 64 steps, or `skew` if that is more: packets get lost.

    Parameters
    ----------
    streams : int
        Streams, which count alike.
    skew : int
        Steps by which streams may be apart.
    """

    def __init__(self, streams: int, skew: int) -> None:
        self._streams, self._skew, self._reach = streams, skew, max(skew, _REACH)
        self._last: dict[int, int] = {}
        self._held: dict[int, list[tuple[int, T]]] = {}
        #: Of what was pushed (None is a sign of time alone), how many were refused.
        self.refused = 0

    def push(self, stream: int, index: int, what: T) -> Iterator[tuple[int, int, T]]:
        """Add something of a stream; give what is believed now: (stream, index, what)."""
        if self._believed(index):
            if stream in self._held and self._held[stream][-1][0] > index + self._reach:
                self._refuse(stream)  # the stream is here, not there
            yield from self._give(stream, index, what)
            for other in list(self._held):
                if self._believed(self._held[other][-1][0]):
                    yield from self._release(other)
            return
        held = self._held.setdefault(stream, [])
        if held and abs(index - held[-1][0]) > self._reach:
            self._refuse(stream)
            held = self._held.setdefault(stream, [])
        held.append((index, what))
        near = [s for s, h in self._held.items() if abs(h[-1][0] - index) <= self._reach]
        if len(near) > max(1, self._streams // 2) or len({i for i, _ in held}) == 3:
            self._last.clear()  # this is another time: where streams were before says nothing
            for other in sorted(near, key=lambda s: self._held[s][0][0]):
                yield from self._release(other)

    def finish(self) -> Iterator[tuple[int, int, T]]:
        """Nothing comes any more: give what is held and not absurd."""
        for stream in list(self._held):
            if not self._last or self._held[stream][-1][0] <= self._median() + self._reach:
                yield from self._release(stream)
            else:
                self._refuse(stream)

    def _believed(self, index: int) -> bool:
        return bool(self._last) and index <= self._median() + self._skew

    def _median(self) -> int:
        return sorted(self._last.values())[(len(self._last) - 1) // 2]

    def _refuse(self, stream: int) -> None:
        self.refused += sum(what is not None for _, what in self._held.pop(stream, []))

    def _give(self, stream: int, index: int, what: T) -> Iterator[tuple[int, int, T]]:
        self._last[stream] = max(index, self._last.get(stream, index))
        yield stream, index, what

    def _release(self, stream: int) -> Iterator[tuple[int, int, T]]:
        for index, what in sorted(self._held.pop(stream), key=lambda held: held[0]):
            yield from self._give(stream, index, what)


def limit_heaps(s: socket.socket, most: int) -> None:
    """Let the kernel cut short each datagram that is no SPEAD-64-48 or that claims a heap longer than `most` bytes.

    spead2 takes the memory that the first packet of a heap asks for, and its thread dies if there is none. Where `most`
    is beyond 4 GiB the limit is the next multiple of that.
    """
    code: list[tuple[int, int, int, int]] = []
    load, half, word, equal, greater, at_least, give = 0x80, 0x28, 0x20, 0x15, 0x25, 0x35, 0x06

    def unless(operation: int, value: int, then: int) -> None:
        """Leave by `then` bytes kept, unless the comparison holds."""
        code.extend([(operation, 1, 0, value), (give, 0, 0, then)])

    def cut_if(operation: int, value: int) -> None:
        code.extend([(operation, 0, 1, value), (give, 0, 0, _TRIMMED)])

    code.append((load, 0, 0, 0))
    unless(at_least, 16, _TRIMMED)
    code.append((word, 0, 0, 8))
    unless(equal, 0x53040206, _TRIMMED)
    code.append((half, 0, 0, 14))
    cut_if(greater, _ITEMS)
    for at in range(16, 16 + 8 * _ITEMS, 8):
        code.append((load, 0, 0, 0))
        unless(at_least, at + 8, 0xFFFFFFFF)  # all items were looked at
        code.append((half, 0, 0, at))
        code.append((equal, 0, 6, 0x8000 | spead.HEAP_LENGTH))
        code.append((half, 0, 0, at + 2))
        cut_if(greater, most >> 32)
        code.append((word, 0, 0, at + 4))
        cut_if(greater, 0xFFFFFFFF if most >> 32 else most)
    code.append((give, 0, 0, 0xFFFFFFFF))
    program = b"".join(struct.pack("HBBI", *instruction) for instruction in code)
    memory = ctypes.create_string_buffer(program)
    s.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("HxxxxxxP", len(code), ctypes.addressof(memory)))
