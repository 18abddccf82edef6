"""What is timed of the F-engine on GPUs: a channelizer prepared for one case, whoever wrote it.

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

#: Orders of the output: K-blocks of sixteens of real and imaginary parts; or plainly (re, im) of one spectrum after the
#: other, channel by channel: MeerKAT's heaps with both polarizations, or K-blocks like that from who makes no heaps; or
#: rows, as packets hold them.
LAYOUTS = ("blocks", "interleaved", "rows")
#: Where samples lie: in one buffer, or in packets of which a table holds the addresses.
POLICIES = ("flat", "table")
PACKET = 4096  # samples of one packet, for the table

CHANNELS = (1024, 4096, 8192, 32768)
TAPS = (4, 8, 12, 16, 32)
BITS = (4, 8, 10, 12, 16)
LONG = 1 << 28  # samples of a long launch, all streams
SHORT = 1 << 20  # samples of one stream in a short launch
GROUP = 128  # spectra of one stream in a launch on many slow streams, or more: what a form may filter together
MANY = 512  # slow streams
#: What a form (see `forms`) must keep of another's rate.
KEPT = {
    "8 bit": ("", 1.0),
    "interleaved": ("", None),
    "rows": ("", 0.97),
    "packet table": ("", 0.85),
    "many streams": ("one stream", 0.9),
    "short launch": ("", 0.8),
    "two short streams": ("", None),
}


@dataclass(frozen=True, slots=True)
class Case:
    """One shape of work: real samples in, 8-bit spectra out.

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

    @property
    def form(self) -> str:
        """What is special about it, beside channels, taps and bits; empty if nothing is."""
        parts = [f"{self.streams} stream{'s' * (self.streams > 1)}"] if self.streams != 2 else []
        parts += [self.layout] if self.layout != "blocks" else []
        parts += ["packet table"] if self.policy == "table" else []
        return ", ".join(parts)

    def __str__(self) -> str:
        parts = [f"{self.channels} channels, {self.taps} taps, {self.bits} bit"]
        parts.append(f"{self.streams} streams of {self.spectra} spectra")
        parts += [self.layout] if self.layout != "blocks" else []
        parts += ["packet table"] if self.policy == "table" else []
        return ", ".join(parts)


def long_launch(channels: int, taps: int = 16, bits: int = 10, streams: int = 2, **form: str) -> Case:
    """Make a case of `LONG` samples."""
    return Case(channels, taps, bits, streams, LONG // streams // (2 * channels), **form)


def many_streams(channels: int) -> Case:
    """Make a case of twice `SHORT` samples, or `GROUP` spectra if that is more, of each of `MANY` streams."""
    return Case(channels, streams=MANY, spectra=max(GROUP, SHORT // channels))


def matrix(full: bool = False) -> list[Case]:
    """All channels, taps and bits at long launches, but what `forms` has; with `full` all powers of two of channels."""
    cases = [long_launch(n, taps, bits) for n in CHANNELS for taps in TAPS for bits in BITS]
    cases = [case for case in cases if case.taps != 16 or case.bits not in (8, 10)]
    if full:
        cases += [long_launch(1 << k) for k in range(6, 17) if 1 << k not in CHANNELS]
    return cases


def forms(channels: int) -> dict[str, Case]:
    """Cases that targets refer to, by what is special about them; the first is the plain one."""
    found = {
        "": long_launch(channels),
        "8 bit": long_launch(channels, bits=8),
        "interleaved": long_launch(channels, layout="interleaved"),
        "rows": long_launch(channels, layout="rows"),
        "packet table": long_launch(channels, policy="table"),
        "one stream": long_launch(channels, streams=1),
        "many streams": many_streams(channels),
    }
    if channels <= 4096:
        spectra = max(BLOCK, SHORT // (2 * channels))
        found["short launch"] = Case(channels, streams=MANY, spectra=spectra)
        found["two short streams"] = Case(channels, streams=2, spectra=spectra)
    return found


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
