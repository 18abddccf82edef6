"""Where packets come from: what all sources are, several as one, and one that makes packets in memory.

All of them feed an `Assembler` or a `Discard`: `ryle.receive.udp`, `ryle.receive.packet_ring`, `ryle.receive.dpdk`,
`ryle.receive.replay`. A source has native threads; Python only starts, stops and watches it.
``docs/explanation/assembly.md`` says which to choose.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from ryle.receive import _native
from ryle.receive.assembly import Assembler, Plan
from ryle.wire.build import build
from ryle.wire.description import terms
from ryle.wire.laid_out import laid_out
from ryle.wire.packets import compiled


@dataclass(frozen=True, slots=True)
class ThreadReport:
    """What one thread did.

    Parameters
    ----------
    name : str
        Name, as the system shows it too.
    core : int
        Core that it is pinned to; -1 if it is not.
    running : bool
        Whether it still runs.
    cpu_seconds, wall_seconds : float
        Processor time used and time since its start.
    packets, bytes, calls : int
        Packets handed over, their bytes, and in how many batches.
    kernel_drops : int
        Messages that the kernel dropped before; -1 if that cannot be seen. A train of packets counts once.
    interruptions : int
        Times that the link went down.
    discarded : int
        Packets that came before the start, as far as that is known; nothing is made of them. A train counts once.
    """

    name: str
    core: int
    running: bool
    cpu_seconds: float
    wall_seconds: float
    packets: int
    bytes: int
    calls: int
    kernel_drops: int
    interruptions: int = 0
    discarded: int = 0

    @property
    def busy(self) -> float:
        """Share of its time that the thread used a processor."""
        return self.cpu_seconds / self.wall_seconds if self.wall_seconds else 0.0


class Source(Protocol):
    """What every source can do. It starts once; `stop` returns at once and the threads end within some 20 ms."""

    def start(self) -> None:
        """Begin to receive."""

    def stop(self) -> None:
        """Ask the threads to end."""

    def join(self, timeout: float = 10.0) -> bool:
        """Wait for the threads to end; whether they have. Raises RuntimeError if one failed."""

    @property
    def running(self) -> bool:
        """Whether any thread runs."""

    def reports(self) -> list[ThreadReport]:
        """Say what each thread did so far."""

    @property
    def kernel_drops(self) -> int | None:
        """Messages that the kernel dropped, a train as one; None if that cannot be seen."""


class Discard:
    """A sink that counts packets and forgets them: what receiving costs by itself.

    Attributes
    ----------
    native : Sink
        What native sources hand packets to.
    """

    def __init__(self) -> None:
        self.native = _native.Discard()

    @property
    def packets(self) -> int:
        """Packets so far."""
        return self.native.packets

    @property
    def bytes(self) -> int:
        """Bytes of these."""
        return self.native.bytes

    @property
    def arrived(self) -> tuple[int, int]:
        """When the first packet arrived and when the newest did, ns since 1970; 0 if unknown."""
        return self.native.first, self.native.last


Sink = Assembler | Discard


class NativeSource:
    """What sources with native threads share. ``with source:`` starts it, stops it and waits for its threads."""

    _native: _native.Source

    def start(self) -> None:
        """Begin to receive."""
        self._native.start()

    def stop(self) -> None:
        """Ask the threads to end."""
        self._native.stop()

    def join(self, timeout: float = 10.0) -> bool:
        """Wait for the threads to end; whether they have. Raises RuntimeError if one failed."""
        ended = self._native.join(timeout)
        if error := self._native.error:
            raise RuntimeError(error)
        return ended

    @property
    def running(self) -> bool:
        """Whether any thread runs."""
        return self._native.running

    def reports(self) -> list[ThreadReport]:
        """Say what each thread did so far."""
        return [ThreadReport(**report) for report in self._native.reports()]

    @property
    def kernel_drops(self) -> int | None:
        """Messages that the kernel dropped, a train as one; None if that cannot be seen."""
        drops = [report.kernel_drops for report in self.reports()]
        return None if min(drops) < 0 else sum(drops)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self.join()


class Together:
    """Several sources that feed the same sink, as one.

    Parameters
    ----------
    sources : sequence of Source
        Which.
    """

    def __init__(self, sources: Sequence[Source]) -> None:
        self._sources = list(sources)

    def start(self) -> None:
        """Begin to receive."""
        for source in self._sources:
            source.start()

    def stop(self) -> None:
        """Ask the threads to end."""
        for source in self._sources:
            source.stop()

    def join(self, timeout: float = 10.0) -> bool:
        """Wait for the threads to end; whether they have. Raises RuntimeError if one failed."""
        return all([source.join(timeout) for source in self._sources])

    @property
    def running(self) -> bool:
        """Whether all of them run."""
        return all(source.running for source in self._sources)

    def reports(self) -> list[ThreadReport]:
        """Say what each thread did so far, under names that tell the sources apart."""
        return [
            replace(report, name=f"{report.name}.{i}") for i, s in enumerate(self._sources) for report in s.reports()
        ]

    @property
    def kernel_drops(self) -> int | None:
        """Messages that the kernel or the devices dropped; None if that cannot be seen."""
        drops = [source.kernel_drops for source in self._sources]
        return None if None in drops else sum(n for n in drops if n is not None)


class SyntheticSource(NativeSource):
    """Make packets in memory, as fast as it goes or at a rate: streams take turns, only their counters change.

    Parameters
    ----------
    sink : Assembler or Discard
        What to feed.
    plan : Plan
        Format and heads.
    payloads : ndarray of uint8, shape (head, payload bytes), optional
        What every packet of a head holds; random if not given.
    packets : int, optional
        Packets of each head; until stopped if not given.
    rate : float
        Packets a second of all heads together; 0: no limit.
    first : int
        Timestamp of the first packets.
    cores : sequence of int
        Core that the thread runs on.
    """

    def __init__(
        self,
        sink: Sink,
        plan: Plan,
        *,
        payloads: NDArray[np.uint8] | None = None,
        packets: int | None = None,
        rate: float = 0.0,
        first: int = 0,
        cores: Sequence[int] = (),
    ) -> None:
        if plan.by_port:
            raise ValueError("a synthetic source has no ports; use a plan without by_port")
        f = laid_out(plan.format)
        if f.heap is not None:
            raise ValueError(f"{f.name} has heaps of several packets; a synthetic source makes packets that are all")
        if payloads is None:
            payloads = np.random.default_rng(0).integers(0, 256, (len(plan.heads), plan.payload_bytes), np.uint8)
        sizes = {s: plan.sizes[s] for s in f.payload.size.values() if isinstance(s, str)}
        counters = dict.fromkeys(terms(f.timestamp.count), 0)
        heads = [
            build(f, {**sizes, **counters, **dict(zip(f.timestamp.stream, head, strict=True))}, payload.tobytes())
            for head, payload in zip(plan.heads, payloads, strict=True)
        ]
        self._native = _native.synthetic_source(
            sink.native,
            compiled(f),
            heads,
            first,
            plan.step,
            -1 if packets is None else packets,
            rate,
            list(cores),
        )
