"""What the kernel says of this host's clock: whether something keeps it, and how far it may be from UTC."""

from __future__ import annotations

import ctypes
import struct
from dataclasses import dataclass

_SIZE = 208  # bytes of struct timex, which begins with modes, offset, freq, maxerror, esterror, status
_START = struct.Struct("@Iqqqqi")
_UNSYNCHRONIZED, _NANOSECONDS = 0x0040, 0x2000  # STA_UNSYNC; STA_NANO, the unit of its offset
_ERROR = 5  # TIME_ERROR


@dataclass(frozen=True)
class ClockFacts:
    """What the kernel says of its clock.

    Attributes
    ----------
    synchronized : bool or None
        Whether something keeps it on time; None: not known.
    error : float
        Largest error, s, as whoever keeps it estimates.
    offset : float
        By which it is being corrected, s: positive if it is behind.
    """

    synchronized: bool | None
    error: float
    offset: float = float("nan")


def kernel_clock() -> ClockFacts:
    """Ask the kernel how well its clock is kept (adjtimex, which changes nothing)."""
    buffer = ctypes.create_string_buffer(_SIZE)
    state = ctypes.CDLL(None, use_errno=True).adjtimex(buffer)
    if state < 0:
        return ClockFacts(None, float("nan"))
    _, offset, _, most, _, status = _START.unpack_from(buffer)
    kept = not status & _UNSYNCHRONIZED and state != _ERROR
    return ClockFacts(kept, 1e-6 * most, (1e-9 if status & _NANOSECONDS else 1e-6) * offset)
