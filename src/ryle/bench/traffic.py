"""Senders and captures as processes of one machine, over loopback: rates to try, and what became of every packet.

Each sender has a port and a thread of its own; captures share the ports out, and each has as many receiving threads.
All senders begin at the same moment, as boards that share a clock do.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from .lossless import Trial
from .transport_link import free_ports

_CLOSING = 64  # packets of each sender after a trial, slowly: what was lost at its end is known once they are there
_AHEAD = 0.05  # s between the telling and the beginning
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


class Traffic:
    """The processes of a setting, from ``with`` to its end.

    Raises
    ------
    RuntimeError
        If a process ends by itself; it has said why.
    """

    def __init__(self, setting: Setting) -> None:
        self.setting = s = setting
        ports = free_ports(s.senders)
        common = {
            "format": s.format,
            "seed": s.seed,
            "priority": s.priority,
            "main_cores": list(s.main_cores),
            "memif": os.getpid() if s.memif else 0,
        }
        self._next = 0  # number of the senders' next packets
        self._gap = 0  # numbers that were skipped and are not yet known as missing
        self._began: list[int] = []
        self._children: list[_Child] = []
        self.captures = self._start(
            "capture",
            [
                common
                | {
                    "ports": ports[i :: s.captures],
                    "threads": len(ports[i :: s.captures]),
                    "cores": list(s.receive_cores[i :: s.captures]),
                    "gpu": s.gpu,
                    "emulated": s.emulated,
                    "verify": s.verify,
                    "packets": s.packets,
                    "spare": s.spare,
                    "skew": s.skew,
                    "linger": s.linger,
                    "buffer": s.buffer,
                    "gro": s.gro,
                }
                for i in range(s.captures)
            ],
        )
        self.senders = self._start(
            "send",
            [
                common | {"port": port, "cores": [s.send_cores[i % len(s.send_cores)]] if s.send_cores else []}
                for i, port in enumerate(ports)
            ],
        )

    def _start(self, role: str, told: list[dict[str, Any]]) -> list[_Child]:
        children = [_Child(role, what) for what in told]
        self._children += children
        try:
            for child in children:
                child.answer()
        except RuntimeError:
            self.close()
            raise
        return children

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End all processes."""
        for child in reversed(self._children):
            child.close()
        self._children = []

    def run(self, gbps: float, seconds: float, say: Callable[[Second], bool | None] | None = None) -> Account:
        """Send for a while at a rate, all senders together, and wait until everything is accounted for.

        Parameters
        ----------
        gbps : float
            Gb/s of packets (UDP payload).
        seconds : float
            How long.
        say : callable, optional
            Is told what was seen, every second; where it returns True, sending ends.
        """
        before, stolen, began = self._figures(), stolen_seconds(), time.monotonic()
        for child in self._children:
            child.waited()
        begin = self._begin(gbps=gbps / len(self.senders), seconds=seconds, packets=None)
        looks: list[Second] = []
        last, then, taken = before, began, stolen
        progress = self._progress()
        while any(p["running"] for p in progress):
            time.sleep(max(0.01, min(then + 1.0 - time.monotonic(), begin + seconds - time.monotonic() + 0.05)))
            if time.monotonic() > begin + seconds + 0.05:  # who is behind would make up for it
                self._tell_senders("stop")
            progress = self._progress()
            if (now := time.monotonic()) - then < 0.9:
                continue
            figures, steal = self._figures(), stolen_seconds()
            look = self._look(now - began, now - then, last, figures, steal - taken)
            if not looks:
                look.missing -= self._gap
            last, then, taken = figures, now, steal
            looks.append(look)
            if say is not None and say(look):
                self._tell_senders("stop")
        busy = {
            "sender": max(p["busy"] for p in progress),
            "captures": [f.get("busy") for f in last],
        }
        sent = [p["packets"] for p in progress]
        self._quiet()
        first = self._advance(max(sent))
        gap = sum(first - (begin_number + n) for begin_number, n in zip(self._began, sent, strict=True))
        closing = self._begin(gbps=0.1, seconds=None, packets=_CLOSING)
        while any(p["running"] for p in self._progress()) or time.monotonic() < closing:
            time.sleep(0.01)
        after = self._quiet()
        first_behind = self._advance(_CLOSING)
        # What the numbers skip before and behind the closing packets is missing too, once it has been passed.
        gap_before, self._gap = self._gap, (first_behind - first - _CLOSING) * len(self.senders)
        total = sum(sent) + _CLOSING * len(self.senders)

        def change(*path: str) -> int:
            return _change(after, before, *path)

        return Account(
            asked=gbps,
            offered=sum(p["gbps"] for p in progress),
            seconds=max(p["seconds"] for p in progress),
            sent=total,
            placed=change("account", "placed"),
            missing=change("account", "missing") - gap - gap_before,
            classes={name: change("account", name) for name in CLASSES},
            kernel_drops=change("account", "kernel_drops"),
            verified={n: change("verified", n) for n in ("packets", "wrong_packets", "wrong_bytes")}
            if self.setting.verify
            else {},
            stolen=stolen_seconds() - stolen,
            behind=max(p["behind"] for p in progress),
            busy=busy,
            resyncs=change("resyncs"),
            looks=looks,
        )

    def _begin(self, **what: Any) -> float:
        """Let all senders begin at the same moment; give that moment."""
        at = time.monotonic() + _AHEAD
        self._began = [self._next] * len(self.senders)
        self._tell_senders("send", start=self._next, at=at, **what)
        return at

    def _advance(self, packets: int) -> int:
        """Go on at the next chunk behind so many packets, as chunks close in silence."""
        chunk = self.setting.packets
        self._next = -(-(self._next + packets) // chunk) * chunk
        return self._next

    def _progress(self) -> list[dict[str, Any]]:
        return self._tell_senders("progress")

    def _tell_senders(self, what: str, **more: Any) -> list[dict[str, Any]]:
        for sender in self.senders:
            sender.ask(what, **more)
        return [sender.answer() for sender in self.senders]

    def _figures(self) -> list[dict[str, Any]]:
        for capture in self.captures:
            capture.ask("figures")
        return [capture.answer() for capture in self.captures]

    def _quiet(self) -> list[dict[str, Any]]:
        """Wait until nothing comes any more, chunks have closed, and consumers are done with them."""
        last, since = None, time.monotonic()
        while True:
            figures = self._figures()
            state = [(f["packets"], f["chunks"], f["ring"], f.get("verified")) for f in figures]
            if state != last:
                last, since = state, time.monotonic()
            elif time.monotonic() - since > self.setting.linger + 0.2:
                return figures
            time.sleep(0.05)

    def _look(
        self, at: float, elapsed: float, last: list[dict[str, Any]], now: list[dict[str, Any]], stolen: float
    ) -> Second:
        placed, missing = (_change(now, last, "account", name) for name in ("placed", "missing"))
        return Second(
            at=round(at, 3),
            gbps=round(placed * now[0]["payload_bytes"] * 8e-9 / elapsed, 3),
            missing=missing,
            stolen=round(stolen, 2),
            waited=round(max(child.waited() for child in self._children), 6),
            ring_fill=max(f["ring_fill"] for f in now),
            rss=[round(child.rss, 1) for child in (*self.senders, *self.captures)],
        )


class _Child:
    """A process that is asked things."""

    def __init__(self, role: str, told: dict[str, Any]) -> None:
        self._role = role
        self._waited: dict[str, float] = {}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "ryle.bench.traffic_child", role],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._tell(told)

    def _tell(self, what: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(what) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise RuntimeError(f"a process ({self._role}) ended by itself; see above") from None

    def ask(self, what: str, **more: Any) -> None:
        self._tell({"ask": what} | more)

    def answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"a process ({self._role}) ended by itself; see above")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def waited(self) -> float:
        """Time since the last call that a thread for packets was ready to run and did not, the unluckiest one's, s."""
        longest = 0.0
        for task in Path(f"/proc/{self._process.pid}/task").iterdir():
            with suppress(OSError, IndexError, ValueError):  # threads come and go
                if not (task / "comm").read_text().startswith(("send", "udp-", "dpdk-")):
                    continue
                now = int((task / "schedstat").read_text().split()[1]) * 1e-9
                longest = max(longest, now - self._waited.get(task.name, 0.0))
                self._waited[task.name] = now
        return longest

    @property
    def pid(self) -> int:
        """Its number."""
        return self._process.pid

    @property
    def rss(self) -> float:
        """Memory that it uses, MB."""
        pages = int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") * 1e-6

    def close(self) -> None:
        """Ask it to end; after some seconds, end it."""
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.close()
        except BrokenPipeError:
            pass
        try:
            self._process.wait(15)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()


def stolen_seconds() -> float:
    """Seconds of processor time since boot that the host has taken away, of all cores."""
    return int(Path("/proc/stat").read_text().split(None, 9)[8]) / os.sysconf("SC_CLK_TCK")


def _change(now: list[dict[str, Any]], before: list[dict[str, Any]], *path: str) -> int:
    """By how much a figure has grown, all captures together."""
    return sum(_at(a, path) - _at(b, path) for a, b in zip(now, before, strict=True))


def _at(figures: dict[str, Any], path: Sequence[str]) -> int:
    value: Any = figures
    for name in path:
        value = value[name]
    return int(value or 0)
