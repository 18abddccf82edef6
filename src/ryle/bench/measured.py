"""What is timed: a channelizer prepared for one case, whoever wrote it.

A case is a shape of work; a `Measured` makes a `Prepared` of it, with all arrays allocated and all kernels compiled,
whose `launch` only enqueues. The adapter of a channelizer has nothing else to know about timing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from ryle.chunk import BLOCK
from ryle.gpu.interface import Stream

#: Orders of the bytes in a row of a K-block: sixteens of real and imaginary parts, or the two in turn.
LAYOUTS = ("blocks", "interleaved")
#: Where samples lie: in one buffer, or in packets of which a table holds the addresses.
POLICIES = ("flat", "table")
PACKET = 4096  # samples of one packet, for the table


@dataclass(frozen=True, slots=True)
class Case:
    """One shape of work: real samples in, 8-bit K-blocks out.

    Parameters
    ----------
    channels, taps, bits : int
        As of `ryle.channelize.ChannelizerConfig`.
    streams : int
        Inputs of a launch.
    spectra : int
        Spectra of each of them, a multiple of 64.
    layout : str
        One of `LAYOUTS`.
    policy : str
        One of `POLICIES`.
    """

    channels: int
    taps: int = 16
    bits: int = 10
    streams: int = 2
    spectra: int = BLOCK
    layout: str = "blocks"
    policy: str = "flat"

    @property
    def samples(self) -> int:
        """Samples that a launch channelizes, of all streams."""
        return self.streams * self.spectra * 2 * self.channels

    @property
    def bytes_in(self) -> int:
        """Packed samples of a launch, bytes; what windows overlap is not counted."""
        return self.samples * self.bits // 8

    @property
    def bytes_out(self) -> int:
        """Quantized spectra of a launch, bytes."""
        return self.samples

    @property
    def stream_bytes(self) -> int:
        """Packed samples of one stream that a launch reads, the last windows' included, in whole packets, bytes."""
        samples = (self.spectra + self.taps) * 2 * self.channels
        return -(-samples // PACKET) * PACKET * self.bits // 8

    @property
    def floor(self) -> float:
        """Bytes that a sample must at least move: in once, out once."""
        return self.bits / 8 + 1

    def __str__(self) -> str:
        parts = [f"{self.channels} channels, {self.taps} taps, {self.bits} bit"]
        parts.append(f"{self.streams} streams of {self.spectra} spectra")
        parts += [self.layout] if self.layout != "blocks" else []
        parts += ["packet table"] if self.policy == "table" else []
        return ", ".join(parts)


@dataclass(slots=True)
class Prepared:
    """A case, ready to run again and again on the same samples.

    Parameters
    ----------
    launch : callable
        Enqueues one whole launch on a stream, and what it enqueues on other streams it ties to that one.
    parts : mapping
        Steps of it that can run alone, in order; empty where it has no steps.
    traffic : mapping
        Bytes of device memory that each part must read and write for a launch if caches hold nothing between parts.
    """

    launch: Callable[[Stream], None]
    parts: Mapping[str, Callable[[Stream], None]] = field(default_factory=dict)
    traffic: Mapping[str, float] = field(default_factory=dict)


class Measured(Protocol):
    """A channelizer that can be timed."""

    name: str

    def variants(self, case: Case) -> list[tuple[Path, Mapping[str, int | str]]]:
        """List the sources and macros that a case compiles, so that this can be done beforehand."""
        ...

    def prepare(self, case: Case) -> Prepared | None:
        """Allocate, upload and compile all that a case needs; None where the channelizer has no such form.

        Delays that change from spectrum to spectrum, phases, complex gains and dither are on. Samples are random bytes.
        """
        ...
