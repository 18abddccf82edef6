"""What a core's packet generator is to send, and how fast."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor

from ryle.fpga.pattern import Pattern
from ryle.fpga.transport import FpgaError


@dataclass(frozen=True)
class Stream:
    """One of the packet generator's streams.

    Attributes
    ----------
    ip, port : str, int
        Destination.
    id : int
        digitiser_id.
    delay : int
        Samples by which it lags.
    sequence : int
        First packet's number, or timestamp.
    """

    ip: str
    port: int
    id: int = 0
    delay: int = 0
    sequence: int = 0


@dataclass(frozen=True)
class Generate:
    """What the packet generator is to send.

    Attributes
    ----------
    streams : list of Stream
        They take turns, packet by packet.
    length : int
        Bytes of a UDP payload.
    gbps : float
        Gb/s of payload; as fast as it goes if 0.
    packets : int
        Of each stream; without end if 0.
    digitizer : Pattern or None
        Send SPEAD heaps of these samples, not counted packets.
    shared : bool
        All streams share one sequence number.
    source_port : int
        Of all packets.
    """

    streams: list[Stream]
    length: int = 8192
    gbps: float = 0.0
    packets: int = 0
    digitizer: Pattern | None = None
    shared: bool = False
    source_port: int = 10000


def streams_to(destinations: Iterable[tuple[str, int]], **common: int) -> list[Stream]:
    """Make a stream for each destination, with IDs that count up."""
    first = common.pop("id", 0)
    return [Stream(ip, port, id=first + n, **common) for n, (ip, port) in enumerate(destinations)]


def beats_in_period(gbps: float, length: int, beat: int, clock: int) -> tuple[int, int]:
    """Find beats and period of a rate.

    Parameters
    ----------
    gbps : float
        Gb/s of payload; 0 is as fast as it goes.
    length, beat : int
        Bytes of a payload and of a beat.
    clock : int
        Hz.

    Returns
    -------
    beats, period : int
        The beats that may leave in so many clocks: never more than the rate, and less by 0.4 % at most.

    Raises
    ------
    FpgaError
        If the core cannot be so fast, or so slow.
    """
    if not gbps:
        return 0xFFFFFFFF, 1
    beats = -(-length // beat)  # of a packet
    share = Fraction(gbps) * 10**9 / 8 / length * beats / clock
    most = clock / beats * length * 8 / 1e9
    if share > 1:
        raise FpgaError(f"{gbps:g} Gb/s is too much: packets of {length} B leave with {most:g} Gb/s at most")
    if share * 0xFFFFFFFF < 1:
        least = most / 0xFFFFFFFF
        raise FpgaError(f"{gbps:g} Gb/s is too little: packets of {length} B leave with {least:g} Gb/s at least")
    # A short period spreads the beats evenly; of a low rate, beats come one by one.
    if share < Fraction(1, 256):
        return 1, ceil(1 / share)
    near = share.limit_denominator(4096)
    if near > share:
        near = Fraction(floor(share * 65535), 65535)
    return near.numerator, near.denominator
