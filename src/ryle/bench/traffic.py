"""Senders and captures as processes of one machine, over loopback: rates to try, and what became of every packet.

Each sender has a port and a thread of its own; captures share the ports out, and each has as many receiving threads.
All senders begin at the same moment, as boards that share a clock do.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from ryle.bench.harness import Child
from ryle.bench.traffic_account import CLASSES, Account, Second, Setting
from ryle.bench.transport_link import free_ports
from ryle.host_time import stolen_seconds

_CLOSING = 64  # packets of each sender after a trial, slowly: what was lost at its end is known once they are there
_AHEAD = 0.05  # s between the telling and the beginning


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

    def __exit__(self, *_: object) -> None:
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


class _Child(Child):
    """A sender or a capture."""

    def __init__(self, role: str, told: dict[str, Any]) -> None:
        super().__init__("ryle.bench.traffic_child", role)
        self._waited: dict[str, float] = {}
        self.tell(told)

    def waited(self) -> float:
        """Time since the last call that a thread for packets was ready to run and did not, the unluckiest one's, s."""
        longest = 0.0
        for task in Path(f"/proc/{self.pid}/task").iterdir():
            with suppress(OSError, IndexError, ValueError):  # threads come and go
                if not (task / "comm").read_text().startswith(("send", "udp-", "dpdk-")):
                    continue
                now = int((task / "schedstat").read_text().split()[1]) * 1e-9
                longest = max(longest, now - self._waited.get(task.name, 0.0))
                self._waited[task.name] = now
        return longest

    @property
    def rss(self) -> float:
        """Memory that it uses, MB."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") * 1e-6


def _change(now: list[dict[str, Any]], before: list[dict[str, Any]], *path: str) -> int:
    """By how much a figure has grown, all captures together."""
    return sum(_at(a, path) - _at(b, path) for a, b in zip(now, before, strict=True))


def _at(figures: dict[str, Any], path: Sequence[str]) -> int:
    value: Any = figures
    for name in path:
        value = value[name]
    return int(value or 0)
