"""What is to be sent, settled before the first packet: rates, numbers, faults, and the packets' makers.

A payload is a function of the packet, or of its heap and where in it, alone: `expected_payload` says what a sender with
a seed put into a packet of which the header is known, so that a receiver can check every byte
(``native/send/payload.h`` has the rule, for kernels of a GPU too).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ryle.config.endpoints import Endpoint
from ryle.receive import _native
from ryle.receive.pcap import PcapFile
from ryle.send.streams import SendStream, identity, part_bytes, streams
from ryle.wire.description import Format
from ryle.wire.laid_out import laid_out
from ryle.wire.packets import compiled
from ryle.wire.verdicts import summed

Filling = Literal["random", "ramp", "zeros"]
FILLINGS: tuple[Filling, ...] = ("random", "ramp", "zeros")
#: Bytes that Ethernet, IPv4 and UDP add to a packet on the wire, preamble and gap counted; IPv6 20 more.
WIRE_BYTES = 66
#: What becomes of a packet, in the order of ``native/send/counts.h``.
FATES = (
    "sent",
    "lost",
    "duplicated",
    "reordered",
    "corrupted_invalid",
    "corrupted_foreign",
    "corrupted_misplaced",
    "corrupted_harmless",
    "truncated",
    "foreign_stream",
    "foreign_format",
)
_FOREVER = (1 << 64) - 1
_MOST_SEGMENTS, _MOST_MESSAGE, _MOST_BURST = 64, 65487, 1024
_CALLS = 20_000  # a second, of one thread, that pacing aims at


@dataclass(frozen=True)
class InjectedFaults:
    """Faults to inject: shares of the packets, at most one fault for each packet, the same for the same seed.

    Parameters
    ----------
    loss, duplicate, reorder, corrupt, truncate : float
        Not sent; sent once more later; sent later; sent with a header bit turned; sent short.
    foreign : float
        After this share of the packets comes one of a stream that nobody sends (or of no format, if the format tells no
        streams apart).
    distance : int
        A packet out of order, or the second of a duplicate, comes 1 to this many packets of its stream later.
    seed : int
        Chooses the packets.
    jump_at, jump : float, int
        Seconds after the start at which all timestamps go `jump` packets (or heaps) further, or back.
    restart_at : float, optional
        Seconds after the start at which all streams begin anew.
    skew : sequence of float
        By how many ms each source is behind, over and over.
    """

    loss: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0
    corrupt: float = 0.0
    truncate: float = 0.0
    foreign: float = 0.0
    distance: int = 8
    seed: int = 1
    jump_at: float | None = None
    jump: int = 0
    restart_at: float | None = None
    skew: Sequence[float] = ()

    @property
    def timed(self) -> bool:
        """Whether some need to know how many packets a second there are."""
        return self.jump_at is not None or self.restart_at is not None or any(self.skew)

    def native(self) -> _native.Faults:
        """Give what native code takes."""
        shares = (self.loss, self.duplicate, self.reorder, self.corrupt, self.truncate, self.foreign)
        return _native.Faults(*shares, distance=self.distance, seed=self.seed)


@dataclass(frozen=True)
class Sending:
    """What to send.

    Parameters
    ----------
    to, sender : sequence of Endpoint
        Destinations; own addresses (see `ryle.send.streams.streams`).
    format : Format, optional
        What packets are; None to replay a recording.
    recording : path, optional
        A capture of which the datagrams are sent, instead of packets of a format.
    speed : float
        Of a recording: 1 as recorded, 2 twice as fast, 0 as fast as it goes.
    sources : int
        Boards that send to every destination.
    gbps, pps : float, optional
        Rate of all streams: UDP payload in Gb/s, or packets/s. Neither: as fast as it goes.
    size : int, optional
        Bytes of a packet, where the format allows several.
    burst : int, optional
        Packets of a stream sent back to back; chosen by the rate if absent.
    packets, seconds : int, float, optional
        Packets of each stream, time; until stopped if neither.
    filling, seed
        What payloads hold.
    start : int
        Timestamp of each stream's first packet, in the format's unit.
    fields : mapping of str to int
        Header fields.
    faults : InjectedFaults
        What to spoil.
    threads, cores : int, sequence of int
        Threads that send, and the core that each runs on, over and over.
    realtime : bool
        Run the threads before all that has no real-time priority (SCHED_FIFO): other programs no longer make packets
        late. A thread that never waits takes its core for itself.
    segment, departure : bool or None
        Whether the kernel cuts runs of packets (UDP_SEGMENT), and holds them until they are due (SO_TXTIME; None: if
        it can).
    ttl, buffer : int
        Of multicast; bytes of socket buffer.
    """

    to: Sequence[Endpoint]
    sender: Sequence[Endpoint] = ()
    format: Format | None = None
    recording: str | os.PathLike[str] | None = None
    speed: float = 1.0
    sources: int = 1
    gbps: float | None = None
    pps: float | None = None
    size: int | None = None
    burst: int | None = None
    packets: int | None = None
    seconds: float | None = None
    filling: Filling = "random"
    seed: int = 1
    start: int = 0
    fields: Mapping[str, int] = field(default_factory=dict)
    faults: InjectedFaults = InjectedFaults()
    threads: int = 1
    cores: Sequence[int] = ()
    realtime: bool = False
    segment: bool = True
    departure: bool | None = None
    ttl: int = 4
    buffer: int = 8 << 20


@dataclass
class Plan:
    """A `Sending` with everything settled.

    Parameters
    ----------
    streams : list of SendStream
        All streams.
    packet_bytes : int
        Of a packet (a UDP payload); the longest of a recording.
    rate : float
        Packets/s of each stream; 0 if not paced.
    packets : int or None
        Of each stream; of a recording, of all.
    heap_packets : int
        Packets of a heap; 1 if a packet is all.
    burst : int
        Packets of a stream back to back.
    until : float
        Seconds after which no packet is begun; 0: none.
    sources : list of PacketSource
        One for each thread.
    """

    streams: list[SendStream]
    packet_bytes: int
    rate: float
    packets: int | None
    burst: int
    until: float
    sources: list[_native.PacketSource]
    heap_packets: int = 1
    file: PcapFile | None = None


def plan(s: Sending) -> Plan:
    """Settle what is to be sent.

    Raises
    ------
    ValueError
        If it cannot be sent, with what to ask for instead.
    """
    if not s.to:
        raise ValueError("nowhere to send to; give --to ADDRESS:PORT")
    if (s.format is None) == (s.recording is None):
        raise ValueError("give a format or a recording, one of them")
    if s.sources < 1 or s.threads < 1:
        raise ValueError(f"sources = {s.sources}, threads = {s.threads}: at least 1 of each")
    for name in ("gbps", "pps", "seconds", "packets", "burst"):
        value = getattr(s, name)
        if value is not None and not 0 < value < float("inf"):
            raise ValueError(f"{name} = {value} must be positive; leave it out for no limit")
    for name in ("loss", "duplicate", "reorder", "corrupt", "truncate", "foreign"):
        if not 0 <= (share := getattr(s.faults, name)) <= 1:
            raise ValueError(f"{name} = {share}: a share is from 0 to 1; 0.01 is one packet of a hundred")
    if s.faults.loss > 0.999:
        raise ValueError(f"loss = {s.faults.loss}: at most 0.999, or nothing is left to send")
    if s.gbps is not None and s.pps is not None:
        raise ValueError("give the rate in Gb/s or in packets/s, not both")
    if any(core < 0 or core >= (os.cpu_count() or 1) for core in s.cores):
        raise ValueError(f"cores = {list(s.cores)}: this machine has 0 to {(os.cpu_count() or 1) - 1}")
    return _of_format(s, s.format) if s.format is not None else _of_recording(s)


def _of_format(s: Sending, format: Format) -> Plan:
    wire, format = format, laid_out(format, s.fields or ())
    copies = -(-s.threads // (s.sources * len(s.to)))
    found, payload, trailer = streams(format, s.to, s.sender, s.sources, s.fields, s.size, copies)
    part = part_bytes(format, s.size) if format.heap is not None else 0
    parts = -(-payload // part) if part else 1
    size = format.header.bytes + (min(part, payload) if part else payload) + trailer
    mean = format.header.bytes + payload / parts + trailer  # the last packet of a heap may be shorter
    if size > 65507:
        raise ValueError(f"packets of {size} B: a UDP datagram holds 65507; take a smaller --size")
    total = s.pps if s.pps is not None else s.gbps * 1e9 / 8 / mean if s.gbps is not None else 0.0
    rate = total / len(found)
    if s.faults.timed and not rate:
        raise ValueError("faults at a time need a rate: give --gbps or --pps")
    most = max(1, min(_MOST_SEGMENTS, _MOST_MESSAGE // size))
    burst = s.burst or (max(1, min(most, -(-int(total / s.threads) // _CALLS))) if rate else most)
    if burst > _MOST_BURST:
        raise ValueError(f"burst = {burst}: at most {_MOST_BURST}")
    packets = None if s.packets is None else -(-s.packets // copies)
    if rate and s.seconds is not None:
        packets = min(packets or _FOREVER, max(1, round(s.seconds * rate)))
    if packets is not None:
        packets = -(-packets // parts) * parts  # whole heaps
    f = s.faults
    if any(not 0 <= lag < 1e9 for lag in f.skew):
        raise ValueError(f"skew = {list(f.skew)}: must not be negative; the source that is ahead has 0")
    number = wire.heap.number if wire.heap is not None and wire.header.items is not None else None
    native = _native.FormatPlan(
        compiled(format),
        [list(format.fields).index(name) for name in format.timestamp.stream],
        compiled(wire),
        [list(wire.fields).index(name) for name in format.timestamp.stream],
        first=s.start,
        step=format.timestamp.step,
        payload_bytes=payload,
        trailer_bytes=trailer,
        part_bytes=part,
        number_field=-1 if number is None else list(format.fields).index(number),
        filling=FILLINGS.index(s.filling),
        seed=s.seed,
        packets=_FOREVER if packets is None else packets,
        burst=burst,
        rate=rate,
        jump_at=_FOREVER if f.jump_at is None else round(f.jump_at * rate / parts),
        jump=f.jump * format.timestamp.step,
        restart_at=_FOREVER if f.restart_at is None else round(f.restart_at * rate / parts),
        heads=[[x.fields[name] for name in format.timestamp.stream] for x in found],
        faults=f.native(),
    )
    lags = [round(f.skew[x.source % len(f.skew)] * 1e-3 * rate) if f.skew else 0 for x in found]
    makers: list[_native.PacketSource] = [
        _native.PacketMaker(
            native,
            [
                (i, x.header, x.identity, lags[i], x.turn, x.turns)
                for i, x in enumerate(found)
                if i % s.threads == thread
            ],
        )
        for thread in range(s.threads)
    ]
    until = 0.0 if rate else s.seconds or 0.0
    return Plan(found, size, rate, packets, burst, until, makers, parts)


def _of_recording(s: Sending) -> Plan:
    if s.gbps is not None or s.pps is not None:
        raise ValueError("a recording has its own pace; say --speed, 0 for as fast as it goes")
    if s.faults.timed:
        raise ValueError("clock jumps, restarts and skew need packets of a format, not a recording")
    if not 0 <= s.speed < float("inf"):
        raise ValueError(f"speed = {s.speed} must not be negative")
    assert s.recording is not None
    file = PcapFile(s.recording)
    base = file.bytes.__array_interface__["data"][0]
    starts, lengths, times, ways = [], [], [], []
    known: dict[tuple[bytes, int], int] = {}
    for batch in file.batches():
        n, size = batch.payload.shape
        first = batch.payload.__array_interface__["data"][0] - base
        starts.append(first + np.arange(n, dtype=np.uint64) * batch.payload.strides[0])
        lengths.append(np.full(n, size, np.uint32))
        times.append(batch.time)
        pairs = np.column_stack([batch.address, batch.port.astype(">u2").view(np.uint8).reshape(n, 2)])
        different, first_of, inverse = np.unique(pairs, axis=0, return_index=True, return_inverse=True)
        numbers = np.zeros(len(different), np.uint32)
        for k in np.argsort(first_of).tolist():  # in the order in which they appear
            row = different[k]
            numbers[k] = known.setdefault((row[:-2].tobytes(), int(row[-2]) << 8 | int(row[-1])), len(known))
        ways.append(numbers[inverse.reshape(-1)])
    if not starts:
        raise ValueError(f"{file.name} holds no UDP datagram")
    time = np.concatenate(times)
    count = len(time) if s.packets is None else min(len(time), s.packets)
    due = np.zeros(count)
    if s.speed:
        due = np.maximum.accumulate(time[:count] - time[0]) / s.speed
    if s.seconds is not None and s.speed:
        count = int(np.searchsorted(due, s.seconds * 1e9))
    way = np.concatenate(ways)[:count]
    found = [
        SendStream(s.to[k % len(s.to)], s.sender[k % len(s.sender)] if s.sender else None, k, k % len(s.to))
        for k in range(len(known))
    ]
    if s.threads > len(found):
        raise ValueError(f"the recording has {len(found)} destinations: take at most as many threads")
    length = np.concatenate(lengths)[:count]
    columns = (np.concatenate(starts).astype(np.uint64)[:count], length, way, due[:count].astype(np.int64))
    replays: list[_native.PacketSource] = [
        _native.PacketReplay(file.bytes, *columns, list(range(thread, len(found), s.threads)), s.faults.native())
        for thread in range(s.threads)
    ]
    until = 0.0 if s.speed else s.seconds or 0.0
    return Plan(found, int(length.max(initial=1)), 0.0, count, s.burst or 1, until, replays, file=file)


def payload_place(format: Format, header: Mapping[str, int]) -> tuple[int, int]:
    """Stream and packet, or heap, by which the payload behind this header is known; see `expected_payload`."""
    count = summed(format.timestamp.count, header)
    return identity(format, header), count % format.period // format.timestamp.step


def expected_payload(
    seed: int, stream: int, packet: int, size: int, filling: Filling = "random", offset: int = 0
) -> NDArray[np.uint8]:
    """Say which samples a sender put into a packet.

    Parameters
    ----------
    seed : int
        The sender's.
    stream, packet : int
        What `payload_place` says of the packet's header.
    size : int
        Bytes of samples, header and trailer not counted; of the part of a heap, whatever it holds.
    filling : str
        What the sender was told to send.
    offset : int
        Where in its heap the packet's part begins, a multiple of 8.

    Returns
    -------
    ndarray of uint8, shape (size,)
        The bytes, before any decoding.
    """
    out = np.empty(size, np.uint8)
    _native.fill_payload(FILLINGS.index(filling), seed, stream, packet, out, offset)
    return out
