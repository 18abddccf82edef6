"""Every payload byte of what arrived, against what its sender must have written.

A sender that fills payloads from a seed (`ryle send`) writes bytes that follow from the seed, the stream, the packet's
timestamp and, of a heap of several packets, the part alone, so a receiver can say them again:
``native/send/payload.h`` has the rule, ``verify.cu`` the same for a GPU.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ryle.receive import _native
from ryle.receive.assembly import Plan
from ryle.send.streams import identity
from ryle.store.chunk_file import AnyChunk


class Filling(IntEnum):
    """What payloads are filled with; the numbers are those of native code."""

    RANDOM = 0
    RAMP = 1
    ZEROS = 2


@dataclass(frozen=True)
class PayloadRule:
    """What the payloads of a plan's chunks must be.

    Parameters
    ----------
    filling : Filling
        What the sender fills payloads with.
    seed : int
        Its seed.
    streams : ndarray of uint64, shape (head,)
        What each head is known by: its stream fields side by side.
    step : int
        Timestamp from one packet to the next.
    period : int
        What timestamps count to before they begin again; 0 if never.
    part : int
        Of a heap's payload in its packets, but for the last; 0 if a packet is all.
    """

    filling: Filling
    seed: int
    streams: NDArray[np.uint64]
    step: int
    period: int
    part: int = 0

    @classmethod
    def of(cls, plan: Plan, filling: Filling, seed: int) -> PayloadRule:
        """Give the rule of a plan's heads.

        Raises
        ------
        ValueError
            If the payloads are not as on the wire, or packets have no number of their own.
        """
        f = plan.format
        if plan.order is not None or plan.pointers or plan.placing is not None:
            raise ValueError(
                "payloads can be verified as they come from the wire only: leave order, placing and pointers out"
            )
        part = plan.parts[0].bytes if len(plan.parts) > 1 else 0
        if part % 8 or any((p.offset, p.place) != (i * part, i * part) for i, p in enumerate(plan.parts)):
            raise ValueError(
                f"packets of {part} bytes of a heap: heaps can be verified that are cut into equal parts of whole "
                "64-bit words, one behind the other"
            )
        if f.period % plan.step:
            raise ValueError(
                f"{f.name}: packets cannot be numbered, as {plan.step} does not divide where timestamps begin again "
                f"({f.period}); they cannot be verified"
            )
        names = f.timestamp.stream  # a port behind their values is no part of it
        streams = [identity(f, dict(zip(names, head, strict=False))) for head in plan.heads]
        return cls(filling, seed & (1 << 64) - 1, np.array(streams, np.uint64), plan.step, f.period, part)

    def first(self, chunk: AnyChunk) -> int:
        """Give the number of a chunk's first packets."""
        return (chunk.timestamp % self.period if self.period else chunk.timestamp) // self.step

    @property
    def numbers(self) -> int:
        """Where packets' numbers begin again; 0 if at 2^64."""
        return self.period // self.step & (1 << 64) - 1


@dataclass
class Verified:
    """What was looked at and what was wrong, so far.

    Parameters
    ----------
    packets, wrong_packets, wrong_bytes : int
        Packets looked at, those with a wrong byte, and wrong bytes.
    first_wrong : str
        Where the first wrong packet was; empty if none.
    """

    packets: int = 0
    wrong_packets: int = 0
    wrong_bytes: int = 0
    first_wrong: str = ""

    def add(self, packets: int, wrong_packets: int, wrong_bytes: int, where: str = "") -> None:
        """Add what was found in a chunk."""
        self.packets += packets
        self.wrong_packets += wrong_packets
        self.wrong_bytes += wrong_bytes
        if wrong_packets and not self.first_wrong:
            self.first_wrong = where

    def figures(self) -> dict[str, Any]:
        """Say what was found."""
        found: dict[str, Any] = {
            "packets": self.packets,
            "wrong_packets": self.wrong_packets,
            "wrong_bytes": self.wrong_bytes,
        }
        return found | ({"first_wrong": self.first_wrong} if self.first_wrong else {})


def verify(rule: PayloadRule, chunk: AnyChunk, found: Verified) -> None:
    """Look at every byte of a chunk's packets, on this processor."""
    marks = chunk.present.reshape(len(chunk.present), -1)
    packets, wrong, wrong_bytes, head, packet = _native.verify_payloads(
        int(rule.filling), rule.seed, rule.streams, rule.first(chunk), rule.numbers, chunk.data, marks, rule.part
    )
    found.add(packets, wrong, wrong_bytes, f"chunk {chunk.number}, stream {head}, packet {packet}")
