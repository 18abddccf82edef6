"""A capture explained packet by packet: what the headers say, what is wrong, what is missing between packets."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, fields
from typing import Any, NamedTuple

import numpy as np

from ryle.receive.pcap import CaptureAccount, PcapFile
from ryle.wire.description import Format
from ryle.wire.packets import ABSENT, Parser, Reason

#: Gaps of a stream that are remembered, to tell late packets from duplicates.
MOST_GAPS = 10000


class Explained(NamedTuple):
    """One datagram.

    Parameters
    ----------
    number : int
        Its place among the capture's datagrams, from 0.
    time : int
        Capture time, ns since 1970 (Unix time).
    port, size : int
        Destination port; bytes of the packet.
    fields : dict of str to int
        Header fields as they stand; empty if it is shorter than the header.
    timestamp : int or None
        Unwrapped; None if the packet is not valid.
    remarks : tuple of str
        What is wrong with it or before it.
    note : str
        What a packet without samples is for.
    """

    number: int
    time: int
    port: int
    size: int
    fields: dict[str, int]
    timestamp: int | None
    remarks: tuple[str, ...]
    note: str = ""


@dataclass(slots=True)
class Stream:
    """Packets of one stream: ``packets`` valid ones, of which some late or duplicate; ``missing`` never came."""

    first: int
    expected: int
    packets: int = 0
    missing: int = 0
    late: int = 0
    duplicate: int = 0
    off: int = 0
    _gaps: list[tuple[int, int]] = field(default_factory=list)

    def take(self, timestamp: int, step: int) -> str:
        """Count a packet; say what its timestamp tells, nothing if it was the expected one."""
        self.packets += 1
        ahead = timestamp - self.expected
        if ahead % step:
            self.off += 1
            return f"timestamp is {ahead % step} off the steps of {step}"
        if ahead >= 0:
            if ahead:
                self.missing += ahead // step
                self._gaps = [*self._gaps[-MOST_GAPS:], (self.expected, timestamp)]
            self.expected = timestamp + step
            return f"gap: {ahead // step} missing before it" if ahead else ""
        for i, (start, stop) in enumerate(self._gaps):
            if start <= timestamp < stop:
                self._gaps[i : i + 1] = [g for g in ((start, timestamp), (timestamp + step, stop)) if g[0] < g[1]]
                self.missing -= 1
                self.late += 1
                return f"late by {-ahead // step} packets"
        if timestamp < self.first:
            self.late += 1
            return "earlier than the first of its stream"
        self.duplicate += 1
        return "duplicate"


class PacketCheck:
    """Go through a capture.

    Parameters
    ----------
    format : Format
        What the packets should be.
    path : path
        pcap or pcapng file.
    port : int, optional
        Only datagrams to this port.

    Attributes
    ----------
    reasons : dict of Reason to int
        Packets by verdict.
    streams : dict of tuple to Stream
        By the values of the `stream_fields`.
    stream_fields : list of str
        The format's stream fields; and, of heaps of several packets, "offset": each part of a heap has a row.
    """

    def __init__(self, format: Format, path: str | os.PathLike[str], port: int | None = None) -> None:
        self.format = format
        self._file = PcapFile(path)
        self._port = port
        self.reasons = dict.fromkeys(Reason, 0)
        self.streams: dict[tuple[int, ...], Stream] = {}
        several = format.heap is not None and format.heap.packets == "several"
        self.stream_fields = [*format.timestamp.stream, *(["offset"] if several else [])]
        # Not all heaps have parts behind the samples, so that nobody misses these.
        self._sure = min(format.heap_bytes) if several else 0

    @property
    def account(self) -> CaptureAccount:
        """What else the capture held."""
        return self._file.account

    @property
    def clean(self) -> bool:
        """Whether there were packets, all valid and in step."""
        bad = sum(n for reason, n in self.reasons.items() if reason != Reason.VALID and not reason.foreign)
        streams = self.streams.values()
        return bool(streams) and not bad and not any(s.missing or s.late or s.duplicate or s.off for s in streams)

    def __iter__(self) -> Iterator[Explained]:
        parser = Parser(self.format)
        rule, names = self.format.timestamp, list(self.format.fields)
        number = 0
        for batch in self._file.batches():
            # Packets to other ports are not parsed at all: they must not move the clock.
            chosen = np.arange(len(batch.port)) if self._port is None else np.flatnonzero(batch.port == self._port)
            fields = parser.parse(batch.payload if self._port is None else batch.payload[chosen])
            size = batch.payload.shape[1]
            for i, at in enumerate(chosen.tolist()):
                reason = Reason(int(fields.reason[i]))
                self.reasons[reason] += 1
                said = fields.explain(i)
                remarks, timestamp = ["" if reason.foreign else said], None
                if reason == Reason.VALID:
                    timestamp = int(fields.timestamp[i])
                    key = tuple(int(fields.header[name][i]) for name in rule.stream)
                    if self._sure:
                        key += (int(fields.offset[i]),)
                    stream = self.streams.setdefault(key, Stream(timestamp, timestamp))
                    if not self._sure or key[-1] < self._sure:
                        remarks.append(stream.take(timestamp, rule.step))
                    else:
                        stream.packets, stream.expected = stream.packets + 1, timestamp + rule.step
                values = {} if reason == Reason.SHORT else {name: int(fields.header[name][i]) for name in names}
                values = {name: value for name, value in values.items() if value != ABSENT}
                where = number + at, int(batch.time[at]), int(batch.port[at]), size
                wrong = tuple(r for r in remarks if r)
                yield Explained(*where, values, timestamp, wrong, said if reason.foreign else "")
            number += len(batch.port)

    def as_json(self, most: int = 100) -> dict[str, Any]:
        """Go through the capture and say what it held, for other programs.

        Parameters
        ----------
        most : int
            Packets with something wrong to list.
        """
        wrong: list[dict[str, Any]] = []
        total = 0
        for packet in self:
            if packet.remarks:
                total += 1
                if total <= most:
                    wrong.append(packet._asdict())
        streams = [
            dict(zip(self.stream_fields, key, strict=True))
            | {f.name: getattr(s, f.name) for f in fields(Stream) if not f.name.startswith("_")}
            for key, s in sorted(self.streams.items())
        ]
        return {
            "format": self.format.name,
            "clean": self.clean,
            "packets": {reason.name.lower(): n for reason, n in self.reasons.items()},
            "capture": asdict(self.account),
            "streams": streams,
            "wrong": {"total": total, "packets": wrong},
        }
