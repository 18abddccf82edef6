"""A capture with a person or a script watching: a line a second, a status page, signals."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TextIO

from ryle.engines.capture import LOSSES, Capture
from ryle.engines.control import Orders
from ryle.monitor.status import StatusReporter


def run_with_status(capture: Capture, name: str = "capture", json: Path | None = None) -> dict[str, Any]:
    """Capture until it is over or somebody ends it by Ctrl-C or SIGTERM.

    Parameters
    ----------
    capture : Capture
        What to run.
    name : str
        Of the status page.
    json : Path, optional
        File that gets the figures as JSON lines; ``-``: standard output, instead of lines for people.

    Returns
    -------
    dict
        The last figures.
    """
    with ExitStack() as stack:
        records: TextIO | None = None
        if json is not None:
            records = sys.stdout if str(json) == "-" else stack.enter_context(json.open("w"))
        reporter = StatusReporter(
            {"role": "capture"},
            capture.metrics,
            stream=sys.stdout,
            interval=1.0,
            page=name,
            in_words=in_words,
            records=records,
        )
        with reporter:
            capture.state = reporter.set_state
            Orders(capture.stop, listen=False)
            return capture.run(reporter.page)


def in_words(figures: dict[str, Any]) -> str:
    """Write a status line for people."""
    words = [f"{figures.get('state', '')} {figures.get('elapsed') or 0:.0f} s"]
    if figures.get("state") == "done" and figures.get("mean"):
        mean = figures["mean"]
        words.append(f"mean {mean['payload_gbps']:.3f} Gb/s payload, {mean['wire_gbps']:.3f} wire")
        words.append(f"{figures['packets']} packets")
    elif figures.get("payload_gbps") is not None:
        words.append(f"{figures['payload_gbps']:.3f} Gb/s payload, {figures['wire_gbps']:.3f} wire")
        words.append(f"{figures['packets_per_second']} packets/s")
    account, now = figures.get("account"), figures.get("now") or {}
    if account is not None:
        losses = [
            f"{k.replace('_', ' ')} {account[k]} (+{now.get(k, 0)})" for k in LOSSES if k != "ring_full" or account[k]
        ]
        words.append(" ".join(losses))
        if account["kernel_drops"]:
            words.append(f"kernel drops {account['kernel_drops']}")
    if figures.get("first_loss"):
        words.append("first loss " + time.strftime("%H:%M:%S", time.gmtime(figures["first_loss"])) + " UTC")
    if figures.get("ring_fill") is not None:
        words.append(f"ring {100 * figures['ring_fill']:.0f} %")
    if figures.get("busy"):
        words.append("busy " + " ".join(f"{name} {100 * share:.0f} %" for name, share in figures["busy"].items()))
    if figures.get("disk"):
        words.append(f"disk {figures['disk']['written'] / 1e9:.2f} GB in {figures['disk']['files']} files")
        if figures["disk"].get("unrecorded"):
            words.append(f"{figures['disk']['unrecorded']} packets not recorded")
    if "verified" in figures:
        v = figures["verified"]
        words.append(f"verified {v['packets']} packets, {v['wrong_packets']} wrong")
    if figures.get("warm_up"):
        words.append(f"warm-up of {figures['warm_up']['seconds']:.1f} s not counted")
    return " · ".join(words)
