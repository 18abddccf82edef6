"""The account of what was sent: numbers that a receiver's can be compared with, and words for who looks on."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console

from ryle.send.sender import Sender
from ryle.send.sending import FATES, WIRE_BYTES


def account(sender: Sender) -> dict[str, Any]:
    """Say all that a sender sent and injected, as numbers to compare with a receiver's; after `Sender.join`."""
    s, p, counts = sender.sending, sender.plan, sender.counts()
    done = sender.progress()
    fates = dict(zip(FATES, counts[:, : len(FATES)].sum(axis=0).tolist(), strict=True))
    per_packet = WIRE_BYTES + (20 if ":" in s.to[0].host else 0)
    seconds = max(done.seconds, 1e-9)
    events = sorted((e for source in p.sources for e in source.events), key=lambda e: (e[1], e[2]))
    total = sum(source.events_total for source in p.sources)
    return {
        "format": s.format.name if s.format else None,
        "recording": os.fspath(s.recording) if s.recording is not None else None,
        "seconds": done.seconds,
        "packets": int(counts[:, len(FATES)].sum()),
        "pushed": done.packets,
        "payload_bytes": int(counts[:, len(FATES) + 1].sum()),
        "packet_bytes": p.packet_bytes,
        "heap_packets": p.heap_packets,
        "payload_gbps": done.bytes * 8e-9 / seconds,
        "wire_gbps": (done.bytes + per_packet * done.packets) * 8e-9 / seconds,
        "packets_per_s": done.packets / seconds,
        "asked_packets_per_s": p.rate * len(p.streams) or None,
        "pacing": sender.pacing,
        "burst": p.burst,
        "segmentation": sender.segments,
        "threads": s.threads,
        "cores": list(s.cores),
        "busy": done.busy,
        "calls": done.calls,
        "most_behind_s": done.most_behind,
        "full": done.full,
        "unreachable": done.unreachable,
        "stolen_cpu_s": sender.stolen,
        "payload": {"filling": s.filling, "seed": s.seed} if s.format else None,
        "faults": {k: v if not isinstance(v, tuple) else list(v) for k, v in asdict(s.faults).items()},
        "injected": fates,
        "expect": expect(fates, int(counts[:, len(FATES)].sum())),
        "streams": [_stream(sender, i, row) for i, row in enumerate(counts.tolist())],
        "events": {"complete": len(events) == total, "total": total, "list": [_event(e) for e in events]},
    }


def _stream(sender: Sender, index: int, row: list[int]) -> dict[str, Any]:
    s, stream = sender.sending, sender.plan.streams[index]
    said: dict[str, Any] = {
        "to": str(stream.to),
        "from": str(stream.sender) if stream.sender else None,
        "packets": row[-2],
        "bytes": row[-1],
        "injected": {name: n for name, n in zip(FATES, row, strict=False) if n},
    }
    if s.format is None:
        return said
    lag = s.faults.skew[stream.source % len(s.faults.skew)] if s.faults.skew else 0
    return said | {
        "source": stream.source,
        "destination": stream.destination,
        "fields": stream.fields,
        "identity": stream.identity,
        "turn": [stream.turn, stream.turns],
        "lag_ms": lag,
    }


def _event(event: tuple[int, int, int, int, int]) -> dict[str, Any]:
    fate, stream, packet, timestamp, detail = event
    name = FATES[fate]
    what = {"lost": "", "duplicated": "later", "reordered": "later", "truncated": "bytes"}.get(
        name, "bit" if name.startswith("corrupted") else "bytes"
    )
    said = {"what": name, "stream": stream, "packet": packet, "timestamp": timestamp}
    return said | ({what: detail} if what else {})


def write_summary(summary: dict[str, Any], to: Path | None, console: Console) -> None:
    """Print what was sent in words; all of it goes to a file as JSON, or to standard output if that is ``-``."""
    injected = {k.replace("_", " "): n for k, n in summary["injected"].items() if n and k != "sent"}
    asked = summary["asked_packets_per_s"]
    lines = [
        f"sent {summary['packets']} packets, {summary['payload_bytes']} B in {summary['seconds']:.3f} s: "
        f"{summary['payload_gbps']:.3f} Gb/s payload, {summary['wire_gbps']:.3f} Gb/s on the wire, "
        f"{summary['packets_per_s']:.1f} packets/s" + (f" of {asked:.1f} asked for" if asked else ""),
        f"pacing: {summary['pacing']}; bursts of {summary['burst']}; at worst "
        f"{summary['most_behind_s'] * 1e3:.2f} ms late; busy {summary['busy']:.0%}",
    ]
    if injected:
        lines.append("injected: " + ", ".join(f"{n} {what}" for what, n in injected.items()))
    if summary["unreachable"]:
        lines.append(f"nobody received at some time: {summary['unreachable']} answers say so")
    if summary["full"]:
        lines.append(f"the way out was full {summary['full']} times, and the sender waited")
    console.print("\n".join(lines), highlight=False, soft_wrap=True)
    if to is not None:
        text = json.dumps(summary, indent=1) + "\n"
        if str(to) == "-":
            print(text, end="")
        else:
            to.write_text(text)


def expect(fates: dict[str, int], packets: int) -> dict[str, int]:
    """Say what a receiver counts that loses nothing, knows all streams and waits long enough for what is out of order.

    Parameters
    ----------
    fates : dict of str to int
        Packets by what became of them (`FATES`).
    packets : int
        Sent, of all kinds.

    Returns
    -------
    dict of str to int
        ``datagrams = placed + duplicate + malformed + foreign + misplaced``. What is misplaced has a header of another
        packet: a receiver counts it as late, as a duplicate, or takes it for that one. ``missing`` counts it in its own
        place.
    """
    whole = fates["sent"] + fates["duplicated"] + fates["reordered"] + fates["corrupted_harmless"]
    gone = sum(fates[k] for k in ("lost", "corrupted_invalid", "corrupted_foreign", "corrupted_misplaced", "truncated"))
    return {
        "datagrams": packets,
        "placed": whole,
        "duplicate": fates["duplicated"],
        "malformed": fates["corrupted_invalid"] + fates["truncated"] + fates["foreign_format"],
        "foreign": fates["corrupted_foreign"] + fates["foreign_stream"],
        "misplaced": fates["corrupted_misplaced"],
        "missing": gone,
    }
