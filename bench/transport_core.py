"""Highest lossless rates of receiving: assembling chunks next to the same receive mode discarding, and to recvmmsg.

One sender on one core, one receive thread on another, 8192-byte packets, over loopback or a veth pair between network
namespaces (made and removed here; root only). A rate counts as lossless if every packet that was sent was received and,
when assembling, placed. Cases take turns; a trial in which the host took CPU time away (the steal counter) and that
lost packets is tried again. Where a receiver keeps up with a sender at full speed, the sender's rate is given and
marked >=. Nanoseconds of the receive thread's CPU time a packet are given as well: they tell what is left.

    python bench/transport_core.py [--path lo|veth] [--seconds 2] [--rounds 3] [--json FILE]
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from ryle.config.tables import Endpoint
from ryle.net.assembly import Assembler, Plan, grid
from ryle.net.sources import Discard, RingSource, UdpSource
from ryle.wire.description import Format

PACKET = 8192
CASES = [  # receive mode, sender's segmentation offload
    ("recvmmsg", False),
    ("recvmmsg", True),
    ("recvmmsg + GRO", True),
    ("packet ring", False),
    ("packet ring", True),
]
OUT = Console(stderr=True)


def serve():
    """Send as asked on standard input, line by line (in the sender's namespace)."""
    from ryle.net.send import Sender, Sending

    for line in sys.stdin:
        ask = json.loads(line)
        to = Endpoint(host=ask["host"], port=ask["port"])
        sender = Sender(
            Sending(
                to=(to,),
                sender=(),
                format=Format.load("counter_8192"),
                gbps=ask["gbps"],
                seconds=ask["seconds"],
                filling="zeros",
                cores=(0,),
                segment=ask["segment"],
            )
        )
        sender.start()
        sender.join()
        done = sender.progress()
        print(json.dumps({"packets": done.packets, "seconds": done.seconds, "busy": done.busy}), flush=True)


class Link:
    """A path with a sender at its far end."""

    def __init__(self, path):
        self.host, self.interface, prefix, self._name = "127.0.0.1", "lo", [], None
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
        self._sender = subprocess.Popen(
            [*prefix, sys.executable, __file__, "--serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    @staticmethod
    def _ip(*words):
        subprocess.run(["ip", *words], check=True)

    def send(self, **ask):
        """Send; what was sent."""
        self._sender.stdin.write(json.dumps(ask | {"host": self.host}) + "\n")
        self._sender.stdin.flush()
        return json.loads(self._sender.stdout.readline())

    def close(self):
        """End the sender and remove the path."""
        self._sender.stdin.close()
        self._sender.wait(10)
        if self._name:
            self._ip("netns", "del", self._name)


def steal():
    return int(Path("/proc/stat").read_text().split()[8])


def trial(link, mode, segment, assemble, gbps, seconds):
    """Receive once; what came of it."""
    f = Format.load("counter_8192")
    sink = Assembler(Plan(f, grid(f), packets=1024, window=256, chunks=16)) if assemble else Discard()
    with socket.socket(type=socket.SOCK_DGRAM) as s:
        s.bind((link.host, 0))
        end = Endpoint(host=link.host, port=s.getsockname()[1])
    if mode == "packet ring":
        source = RingSource(sink, [end], interface=link.interface, cores=[1])
    else:
        source = UdpSource(sink, [end], gro="GRO" in mode, cores=[1], buffer=64 << 20)

    def consume():
        for _ in sink:
            pass

    consumer = threading.Thread(target=consume) if assemble else None
    if consumer:
        consumer.start()
    stolen = steal()
    with source:
        sent = link.send(port=end.port, gbps=gbps, seconds=seconds, segment=segment)
        last = -1
        while (now := source.reports()[0].packets) != last:
            last = now
            time.sleep(0.05)
    report = source.reports()[0]
    if consumer:
        sink.finish()
        consumer.join()
        counts = sink.counts()
        got, full = counts.placed, counts.ring_full
    else:
        got, full = sink.packets, 0
    return {
        "gbps": sent["packets"] * PACKET * 8e-9 / sent["seconds"],
        "sent": sent["packets"],
        "lost": sent["packets"] - got,
        "ring_full": full,
        "ns": report.cpu_seconds / max(report.packets, 1) * 1e9,
        "steal": steal() - stolen,
    }


def lossless(link, mode, segment, assemble, seconds):
    """Highest rate without loss, Gb/s; whether the sender set it; CPU time a packet at it."""

    def attempt(gbps):
        for _ in range(3):
            result = trial(link, mode, segment, assemble, gbps, seconds)
            if result["lost"] == 0 or result["steal"] < 3:
                break
        return result

    best = attempt(None)
    if best["lost"] == 0:
        return best | {"sender_limited": True}
    low, high, best = 0.0, best["gbps"], None
    for _ in range(5):
        middle = (low + high) / 2
        result = attempt(middle)
        if result["lost"] == 0:
            low, best = middle, result
        else:
            high = middle
    return (best or {"gbps": 0.0, "ns": 0.0, "steal": 0}) | {"sender_limited": False}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--path", choices=("lo", "veth"), default="lo")
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        return serve()
    loads = [os.getloadavg()[0]]
    link = Link(options.path)
    found = {}
    try:
        for round in range(options.rounds):
            for mode, segment in CASES:
                for assemble in (False, True):
                    name = (mode, "GSO" if segment else "plain", "assemble" if assemble else "discard")
                    result = lossless(link, mode, segment, assemble, options.seconds)
                    found.setdefault(name, []).append(result)
                    mark = ">= " if result["sender_limited"] else ""
                    OUT.print(
                        f"round {round + 1}: {', '.join(name)}: {mark}{result['gbps']:.1f} Gb/s, {result['ns']:.0f} ns"
                    )
    finally:
        link.close()
    loads.append(os.getloadavg()[0])
    best = {name: max(results, key=lambda r: r["gbps"]) for name, results in found.items()}
    least = {
        name: min(r["ns"] for r in results if r["ns"]) if any(r["ns"] for r in results) else 0
        for name, results in found.items()
    }
    table = Table(
        title=f"lossless, {options.path}, {PACKET}-byte packets, best of {options.rounds}; load {loads[0]:.1f} to {loads[1]:.1f}"
    )
    for column in (
        "receive",
        "sender",
        "discard Gb/s",
        "assemble Gb/s",
        "ratio",
        "over plain recvmmsg",
        "ns discard",
        "ns assemble",
    ):
        table.add_column(column)
    plain = best["recvmmsg", "plain", "discard"]["gbps"]
    rows = []
    for mode, segment in CASES:
        kind = "GSO" if segment else "plain"
        a, b = best[mode, kind, "discard"], best[mode, kind, "assemble"]
        row = {
            "receive": mode,
            "sender": kind,
            "discard": a["gbps"],
            "assemble": b["gbps"],
            "sender_limited": (a["sender_limited"], b["sender_limited"]),
            "ratio": b["gbps"] / a["gbps"] if a["gbps"] else None,
            "over_plain": b["gbps"] / plain if plain else None,
            "ns": (least[mode, kind, "discard"], least[mode, kind, "assemble"]),
        }
        rows.append(row)
        text = [
            f"{'>= ' if s else ''}{x:.1f}"
            for x, s in zip((row["discard"], row["assemble"]), row["sender_limited"], strict=True)
        ]
        ratios = [f"{x:.2f}" if x is not None else "" for x in (row["ratio"], row["over_plain"])]
        table.add_row(mode, kind, *text, *ratios, *(f"{x:.0f}" for x in row["ns"]))
    Console().print(table)
    if options.json:
        options.json.write_text(json.dumps({"path": options.path, "load": loads, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
