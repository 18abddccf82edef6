"""Highest lossless rates of receiving: assembling chunks next to the same receive mode discarding, and to recvmmsg.

One sender on one core, one receive thread on another, 8192-byte packets, over loopback or a veth pair between network
namespaces (made and removed here; root only). A rate counts as lossless if every packet that was sent was received and,
when assembling, placed. Cases take turns; a trial in which the host took CPU time away (the steal counter) and that
lost packets is tried again. Where a receiver keeps up with a sender at full speed, the sender's rate is given and
marked >=. Nanoseconds of the receive thread's CPU time a packet are given as well: they tell what is left.

    python -m ryle.bench.transport_core [--path lo|veth] [--seconds 2] [--rounds 3] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import threading
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from ryle.bench.harness import Child, serve, take_turns
from ryle.config.endpoints import Endpoint
from ryle.host_time import stolen_seconds
from ryle.receive.assembly import Assembler, Plan, grid
from ryle.receive.packet_ring import RingSource
from ryle.receive.sources import Discard, Source
from ryle.receive.udp import UdpSource
from ryle.send.sender import Sender
from ryle.send.sending import Sending
from ryle.wire.description import Format

PACKET = 8192
#: Receive mode, and whether the sender leaves segmentation to the kernel.
CASES = [
    ("recvmmsg", False),
    ("recvmmsg", True),
    ("recvmmsg + GRO", True),
    ("packet ring", False),
    ("packet ring", True),
]
OUT = Console(stderr=True)


class Kind(NamedTuple):
    """What has its turn."""

    mode: str
    segment: bool
    assemble: bool

    def __str__(self) -> str:
        return f"{self.mode}, {'GSO' if self.segment else 'plain'}, {'assemble' if self.assemble else 'discard'}"


@dataclass(frozen=True)
class Trial:
    """What came of receiving once.

    Parameters
    ----------
    gbps : float
        Gb/s that were sent.
    lost : int
        Packets.
    ns : float
        CPU time of the receive thread a packet.
    stolen : float
        Seconds of CPU time that the host took away.
    full_speed : bool
        Whether the sender could send no faster.
    """

    gbps: float = 0.0
    lost: int = 0
    ns: float = 0.0
    stolen: float = 0.0
    full_speed: bool = False

    def __str__(self) -> str:
        return f"{'>= ' if self.full_speed else ''}{self.gbps:.1f}"


def send(asked: dict[str, Any]) -> dict[str, Any]:
    """Send as asked, in the sender's process."""
    sender = Sender(
        Sending(
            to=(Endpoint(host=asked["host"], port=asked["port"]),),
            sender=(),
            format=Format.load("counter_8192"),
            gbps=asked["gbps"],
            seconds=asked["seconds"],
            filling="zeros",
            cores=(0,),
            segment=asked["segment"],
        )
    )
    sender.start()
    sender.join()
    done = sender.progress()
    return {"packets": done.packets, "seconds": done.seconds}


class Link:
    """A path with a sender at its far end."""

    def __init__(self, path: str) -> None:
        self.host, self.interface, self._name = "127.0.0.1", "lo", ""
        prefix: list[str] = []
        if path == "veth":
            self._name = f"ryle{os.getpid()}"
            self.host, self.interface = "10.77.0.1", f"{self._name}a"
            ip = self._ip
            ip("netns", "add", self._name)
            ip("link", "add", self.interface, "mtu", "9000", "type", "veth", "peer", "name", "far", "netns", self._name)
            ip("addr", "add", f"{self.host}/24", "dev", self.interface)
            ip("link", "set", self.interface, "up")
            for words in ("addr add 10.77.0.2/24 dev far", "link set far mtu 9000 up", "link set lo up"):
                ip("-n", self._name, *words.split())
            prefix = ["ip", "netns", "exec", self._name]
        self._sender = Child("ryle.bench.transport_core", "--serve", prefix=prefix)

    @staticmethod
    def _ip(*words: str) -> None:
        subprocess.run(["ip", *words], check=True)

    def send(self, **asked: Any) -> dict[str, Any]:
        """Send; give packets and seconds."""
        self._sender.ask("send", host=self.host, **asked)
        return self._sender.answer()

    def close(self) -> None:
        """End the sender and remove the path."""
        self._sender.close()
        if self._name:
            self._ip("netns", "del", self._name)


def trial(link: Link, kind: Kind, gbps: float | None, seconds: float) -> Trial:
    """Receive once, at a rate or, for None, as fast as the sender sends."""
    format = Format.load("counter_8192")
    sink: Assembler | Discard = Discard()
    if kind.assemble:
        sink = Assembler(Plan(format, grid(format), packets=1024, window=256, chunks=16))
    with socket.socket(type=socket.SOCK_DGRAM) as s:
        s.bind((link.host, 0))
        end = Endpoint(host=link.host, port=s.getsockname()[1])
    source: Source
    if kind.mode == "packet ring":
        source = RingSource(sink, [end], interface=link.interface, cores=[1])
    else:
        source = UdpSource(sink, [end], gro="GRO" in kind.mode, cores=[1], buffer=64 << 20)
    consumer = threading.Thread(target=lambda: [None for _ in sink] if isinstance(sink, Assembler) else None)
    consumer.start()
    stolen = stolen_seconds()
    with source:
        sent = link.send(port=end.port, gbps=gbps, seconds=seconds, segment=kind.segment)
        last = -1
        while (now := source.reports()[0].packets) != last:
            last = now
            time.sleep(0.05)
    report = source.reports()[0]
    if isinstance(sink, Assembler):
        sink.finish()
    consumer.join()
    got = sink.counts().placed if isinstance(sink, Assembler) else sink.packets
    return Trial(
        sent["packets"] * PACKET * 8e-9 / sent["seconds"],
        sent["packets"] - got,
        report.cpu_seconds / max(report.packets, 1) * 1e9,
        stolen_seconds() - stolen,
        gbps is None,
    )


def lossless(link: Link, kind: Kind, seconds: float) -> Trial:
    """Find the highest rate without loss; its `Trial`, or one of no rate."""

    def attempt(gbps: float | None) -> Trial:
        for _ in range(3):
            found = trial(link, kind, gbps, seconds)
            if found.lost == 0 or found.stolen < 0.03:
                break
        return found

    fastest = attempt(None)
    best = fastest if fastest.lost == 0 else Trial()
    low, high = 0.0, fastest.gbps
    for _ in range(0 if best.full_speed else 5):
        middle = (low + high) / 2
        found = attempt(middle)
        if found.lost == 0:
            low, best = middle, found
        else:
            high = middle
    OUT.print(f"{kind}: {best} Gb/s, {best.ns:.0f} ns")
    return best


def main() -> None:
    """Measure all cases in turns, print a table of the best of each and save it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--path", choices=("lo", "veth"), default="lo")
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        return serve({"send": send})
    loads, link = [os.getloadavg()[0]], Link(options.path)
    kinds = [Kind(*case, assemble) for case in CASES for assemble in (False, True)]
    try:
        found = take_turns({kind: partial(lossless, link, kind, options.seconds) for kind in kinds}, options.rounds)
    finally:
        link.close()
    loads.append(os.getloadavg()[0])
    best = {kind: max(trials, key=lambda t: t.gbps) for kind, trials in found.items()}
    least = {kind: min((t.ns for t in trials if t.ns), default=0.0) for kind, trials in found.items()}
    load = f"load {loads[0]:.1f} to {loads[1]:.1f}"
    table = Table(title=f"lossless, {options.path}, {PACKET}-byte packets, best of {options.rounds}; {load}")
    for column in ("receive", "sender", "discard Gb/s", "assemble Gb/s", "ratio", "over plain recvmmsg"):
        table.add_column(column)
    for column in ("ns discard", "ns assemble"):
        table.add_column(column)
    plain, rows = best[Kind("recvmmsg", False, False)].gbps, []
    for mode, segment in CASES:
        pair = [Kind(mode, segment, assemble) for assemble in (False, True)]
        discard, assemble = (best[kind] for kind in pair)
        ratio = assemble.gbps / discard.gbps if discard.gbps else None
        over = assemble.gbps / plain if plain else None
        name = "GSO" if segment else "plain"
        table.add_row(
            mode,
            name,
            *(str(t) for t in (discard, assemble)),
            *("" if x is None else f"{x:.2f}" for x in (ratio, over)),
            *(f"{least[kind]:.0f}" for kind in pair),
        )
        rows.append(
            {
                "receive": mode,
                "sender": name,
                "discard": discard.gbps,
                "assemble": assemble.gbps,
                "sender_limited": (discard.full_speed, assemble.full_speed),
                "ratio": ratio,
                "over_plain": over,
                "ns": [least[kind] for kind in pair],
            }
        )
    Console().print(table)
    if options.json:
        options.json.write_text(json.dumps({"path": options.path, "load": loads, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
