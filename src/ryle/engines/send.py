"""`ryle send`: send until all is sent or somebody asks it to stop, and say meanwhile how far it is."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from ryle.monitor.progress import status_line
from ryle.monitor.publish import published
from ryle.send.account import account
from ryle.send.sender import Progress, Sender
from ryle.send.sending import FATES, Sending


def send(sending: Sending, *, quiet: bool = False) -> tuple[Sender, dict[str, Any]]:
    """Send all of it, with a status line a second, until it ends or Ctrl-C (or SIGTERM) asks it to.

    Parameters
    ----------
    sending : Sending
        What, where to, how fast.
    quiet : bool
        Show nothing.

    Returns
    -------
    sender : Sender
        That has ended.
    summary : dict
        See `ryle.send.account.account`.

    Raises
    ------
    OSError
        If a packet could not be sent.
    """
    sender = Sender(sending)
    with sender, _asked_to_stop(sender), status_line(quiet) as say, published("send") as publish:
        sender.start()
        last, due = Progress(0, 0, 0, 0, 0, 0, 0, 0, 0), time.monotonic()
        while sender.running:
            time.sleep(0.02)
            if time.monotonic() >= due + 1:
                due += 1
                now = sender.progress()
                say(_line(sender, last, now))
                publish({"role": "send", "to": [str(e) for e in sending.to[:8]]} | asdict(now))
                last = now
        sender.join()
    return sender, account(sender)


def _line(sender: Sender, before: Progress, now: Progress) -> str:
    seconds = max(now.seconds - before.seconds, 1e-9)
    packets = now.packets - before.packets
    words = [
        f"{now.seconds:6.1f} s",
        f"{(now.bytes - before.bytes) * 8e-9 / seconds:.3f} Gb/s",
        f"{packets / seconds:.0f} packets/s",
        f"{now.packets} packets",
        f"busy {now.busy:.0%}",
    ]
    if now.behind > 1e-3:
        words.append(f"{now.behind * 1e3:.1f} ms behind")
    for what, n in (("full", now.full), ("unreachable", now.unreachable)):
        if n:
            words.append(f"{n} {what}")
    injected = int(sender.counts()[:, 1 : len(FATES)].sum())
    if injected:
        words.append(f"{injected} faults")
    return " · ".join(words)


@contextmanager
def _asked_to_stop(sender: Sender) -> Iterator[None]:
    """Stop sending when the process is asked to end, in place of ending it at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    signals = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(n, lambda *_: sender.stop()) for n in signals]
    try:
        yield
    finally:
        for n, handler in zip(signals, before, strict=True):
            signal.signal(n, handler)
