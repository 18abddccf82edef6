"""What traffic between processes is to be, and what became of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ryle.bench.lossless import Trial

#: What is counted of what came, besides the packets that were placed.
CLASSES = ("late", "duplicate", "malformed", "foreign", "ring_full")


@dataclass(frozen=True)
class Setting:
    """Which processes there are, and what they do.

    Parameters
    ----------
    senders, captures : int
        Processes. Sender i sends to capture i % captures.
    send_cores, receive_cores : sequence of int
        Core of each sender, and of each receiving thread; anywhere if empty.
    main_cores : sequence of int
        Cores of all other threads; anywhere if empty.
    gpu : int or None
        Where chunks are copied; None: nowhere.
    emulated : bool
        Whether that is the tests' GPU.
    verify : bool
        Whether every byte is compared.
    priority : int
        Real-time priority of all processes (``chrt -f``); 0: none.
    packets, spare : int
        Packets of a sender in a chunk; chunks of a ring besides those that are open.
    skew : int
        Packets by which senders may be apart.
    linger : float
        Seconds of silence after which chunks close.
    buffer : int
        Bytes of each socket's buffer.
    gro : bool
        Receive trains of packets.
    memif : bool
        Through shared memory (DPDK's net_memif) in place of sockets; a sender then waits where a ring is full.
    """

    senders: int = 1
    captures: int = 1
    send_cores: Sequence[int] = ()
    receive_cores: Sequence[int] = ()
    main_cores: Sequence[int] = ()
    gpu: int | None = None
    emulated: bool = False
    verify: bool = False
    priority: int = 0
    format: str = "counter_8192"
    seed: int = 1
    packets: int = 1024
    spare: int = 10
    skew: int = 4096
    linger: float = 0.5
    buffer: int = 64 << 20
    gro: bool = True
    memif: bool = False


@dataclass
class Second:
    """What was seen at one look, about a second after the one before.

    Parameters
    ----------
    at : float
        Seconds since the beginning.
    gbps : float
        Payload placed since the look before, Gb/s.
    missing : int
        Packets found missing since then, by all captures.
    stolen : float
        Seconds of processor time that the host took away since then.
    waited : float
        Time since then that a sending or receiving thread was ready to run and did not, s: the unluckiest one's, all
        waits together, as far as this system knows.
    ring_fill : float
        Share of the fullest ring that was in use.
    rss : list of float
        Memory of each process, MB, senders first.
    """

    at: float
    gbps: float
    missing: int
    stolen: float
    waited: float
    ring_fill: float
    rss: list[float]


@dataclass
class Account:
    """Traffic at one rate, and what became of it.

    ``sent = placed + missing`` if every packet that did not arrive is counted, and ``missing = kernel + late +
    ring_full`` (packets lost in the sockets, those that came after their chunk had closed, those that found no memory).

    Parameters
    ----------
    asked, offered : float
        Gb/s of packets that the senders were asked for, and sent.
    seconds : float
        How long.
    sent, placed, missing : int
        Packets.
    classes : dict of str to int
        What came and was not placed (`CLASSES`).
    kernel_drops : int
        Messages that the kernel says it dropped; of trains, one each.
    verified : dict
        Packets looked at, wrong packets and bytes.
    stolen : float
        Seconds of processor time that the host took away.
    behind : float
        Seconds by which the latest packet was late.
    busy : dict
        Busiest sender; each thread of the captures in the last second.
    resyncs : int
        Times that a capture believed a new time, as it may when its senders drift apart by far more than
        `Setting.skew`. Then it expects packets anew, and `uncounted` means nothing.
    """

    asked: float
    offered: float
    seconds: float
    sent: int
    placed: int
    missing: int
    classes: dict[str, int]
    kernel_drops: int
    verified: dict[str, int]
    stolen: float
    behind: float
    busy: dict[str, Any]
    resyncs: int
    looks: list[Second] = field(default_factory=list)

    @property
    def uncounted(self) -> int:
        """Packets that were sent and are neither placed nor counted as missing: 0."""
        return self.sent - self.placed - self.missing

    def trial(self) -> Trial:
        """Give it as the search wants it."""
        lost = max(self.missing, self.sent - self.placed) + self.verified.get("wrong_packets", 0)
        return Trial(self.asked, self.offered, self.seconds, self.sent, lost, self.stolen)
