"""Receive through DPDK into an assembler: one thread a queue, no system calls, in four variants.

==========  ==========================  ======================================  =====================================
copies      pool                        assembler                               consumer
==========  ==========================  ======================================  =====================================
2           any                         ``Plan()`` in page-locked memory        copies ``chunk.data`` to the GPU
1           any                         ``Plan()`` in mapped memory of the GPU  reads it there
0           a GPU's, headers split off  ``Plan(pointers=True)``                 gives the GPU the table of addresses
host-table  page-locked, whole packets  ``Plan(pointers=True)``                 the same; the GPU reads over the bus
==========  ==========================  ======================================  =====================================

`ryle.receive.receiving` makes them as ``receive.copies`` says, for engines.

Without copies the packets of a chunk stay in their buffers until the chunk is released; these are then freed one for
one as packets arrive. The pool must hold them all (`ryle.receive.dpdk.needed` says how many). If it cannot, packets are
dropped and counted as *starved*, and receiving goes on.
"""

from __future__ import annotations

import socket
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from ryle.receive.assembly import Assembler
from ryle.receive.dpdk.buffers import Pool
from ryle.receive.dpdk.device import Device
from ryle.receive.dpdk.environment import native
from ryle.receive.sources import Sink, ThreadReport
from ryle.stream.account import Account


@dataclass(frozen=True, slots=True)
class QueueCounts:
    """What one queue's thread did.

    Parameters
    ----------
    packets, bytes : int
        Frames received, and their bytes.
    foreign : int
        Frames that are no UDP over IPv4, or to other ports.
    malformed : int
        Frames shorter than their headers say, with wrong checksums if the device checks them, or in pieces that cannot
        be read without copying.
    starved : int
        Datagrams dropped because chunks hold too many buffers.
    delivered : int
        Datagrams handed to the sink.
    polls, empty : int
        Times that the device was asked, and had nothing.
    discarded : int
        Frames that lay in the queue at the start; nothing is made of them.
    busy : float
        Share of the time in which there were packets.
    cpu_seconds, wall_seconds : float
        Processor time of the thread, which never sleeps, and time since it began.
    """

    packets: int
    bytes: int
    foreign: int
    malformed: int
    starved: int
    delivered: int
    polls: int
    empty: int
    discarded: int
    busy: float
    cpu_seconds: float
    wall_seconds: float


class DpdkSource:
    """Feed an assembler from queues of a device; a `ryle.receive.sources.Source`.

    Parameters
    ----------
    sink : Assembler or Discard
        What to feed.
    device : Device
        Where packets come from. Steer them first, if it can.
    ports : sequence of int
        UDP ports to receive; a packet's place in this list is its port number. Empty: all.
    queues : sequence of int, optional
        Receive queues to serve; all of them if absent. Sources may share a device, each with queues of its own: one
        source and one assembler a GPU.
    cores : sequence of int
        Core of each queue's thread, in turn; anywhere if empty.
    burst : int
        Packets asked for at once, up to 64.
    payload_pools : sequence of Pool, optional
        One a queue of the device, if payloads lie in other pools than ``device.pools`` (emulated devices).
    holding : sequence of socket
        What tells the kernel that packets are wanted (`ryle.receive.packet_ring.deaf_sockets`); closed with the source.

    Raises
    ------
    ryle.receive._dpdk.DpdkError
        If the device has no such queue or a pool is too small to work at all.
    """

    def __init__(
        self,
        sink: Sink,
        device: Device,
        ports: Sequence[int],
        *,
        queues: Sequence[int] | None = None,
        cores: Sequence[int] = (),
        burst: int = 32,
        payload_pools: Sequence[Pool] | None = None,
        holding: Sequence[socket.socket] = (),
    ) -> None:
        dpdk = native()
        self.device = device
        self._sink = sink
        served = list(range(len(device.pools)) if queues is None else queues)
        pairs = [(queue, cores[i % len(cores)] if cores else -1) for i, queue in enumerate(served)]
        self._returns = None
        #: One a queue: what payloads lie in.
        self.payload_pools = list(payload_pools if payload_pools is not None else device.pools)
        if isinstance(sink, Assembler) and sink.plan.pointers:
            self._returns = dpdk.Returns([pool.native for pool in self.payload_pools])
            sink.on_give_back(self._returns.function, self._returns.context)
            weakref.finalize(sink, lambda _: None, self._returns)  # buffers may come back after this source is gone
        self._native = dpdk.Receiver(device.native, pairs, list(ports), sink.native.address, self._returns, burst, sink)
        self._cores = dict(pairs)
        self._served, self._holding = served, list(holding)
        self._missed = self._dropped()

    def start(self) -> None:
        """Begin to receive; what came before is dropped."""
        self._missed = self._dropped()
        self._native.start()

    def stop(self) -> None:
        """Ask the threads to end."""
        self._native.ask()

    def join(self, timeout: float = 10.0) -> bool:
        """Wait for the threads to end, which they do at once after `stop`."""
        self._native.stop()
        for s in self._holding:
            s.close()
        return True

    @property
    def running(self) -> bool:
        """Whether any thread runs."""
        return bool(self._native.running)

    @property
    def waiting(self) -> int:
        """Buffers of released chunks that are not yet freed."""
        return int(self._returns.waiting) if self._returns is not None else 0

    def counts(self) -> list[QueueCounts]:
        """Say what each queue's thread did."""
        return [QueueCounts(**counts) for counts in self._native.counts()]

    def reports(self) -> list[ThreadReport]:
        """Say what each thread did so far; its processor time is what it had packets in, since it never sleeps."""
        return [
            ThreadReport(
                name=f"dpdk-rx{queue}",
                core=self._cores[queue],
                running=self.running,
                cpu_seconds=c.busy * c.wall_seconds,
                wall_seconds=c.wall_seconds,
                packets=c.delivered,
                bytes=c.bytes,
                calls=c.polls - c.empty,
                kernel_drops=-1,
                discarded=c.discarded,
            )
            for queue, c in zip(self._served, self.counts(), strict=True)
        ]

    @property
    def kernel_drops(self) -> int | None:
        """Packets that the device dropped for want of descriptors or buffers, and that were starved here."""
        return self._dropped() - self._missed + sum(c.starved for c in self.counts())

    def _dropped(self) -> int:
        stats = self.device.stats()
        return stats.missed + stats.no_buffer

    def account(self, name: str = "dpdk") -> Account:
        """Say what became of every datagram: the assembler's counts and those of this source.

        Foreign ones are unknown if the device lets none arrive (`Device.steer`).

        Raises
        ------
        TypeError
            If packets are only discarded.
        """
        if not isinstance(self._sink, Assembler):
            raise TypeError("only an assembler knows what became of packets")
        c, mine = self._sink.counts(), self.counts()
        malformed, foreign = (sum(getattr(q, what) for q in mine) for what in ("malformed", "foreign"))
        return Account(
            name,
            "packets",
            c.datagrams + malformed + foreign,
            c.placed,
            c.late,
            c.duplicate,
            c.malformed + malformed,
            None if self.device.steering == "isolated" else c.foreign + foreign,
            c.expected,
            c.missing,
            self.kernel_drops,
            c.ring_full,
        )

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self.join()
