"""Offline work with a person watching: a progress bar, an end in good order on Ctrl-C, what became of packets."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from ryle.monitor.progress import PlainLines
from ryle.receive.pcap import CaptureAccount
from ryle.stream.account import Account
from ryle.stream.engine import Engine

_TURN = 0.1  # seconds between two looks at how far it is

_CAPTURES = {b"\xd4\xc3\xb2\xa1", b"\xa1\xb2\xc3\xd4", b"\x4d\x3c\xb2\xa1", b"\xa1\xb2\x3c\x4d", b"\x0a\x0d\x0d\x0a"}


def is_capture(start: bytes) -> bool:
    """Whether a file that begins so is a packet capture."""
    return start[:4] in _CAPTURES


@contextmanager
def interruptible(console: Console) -> Iterator[threading.Event]:
    """Let Ctrl-C ask for an end in good order: what it gives is set. A second one interrupts at once."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return

    def ask(*_: object) -> None:
        asked.set()
        signal.signal(signal.SIGINT, previous)
        console.print("[yellow]stopping: what has been read is being written (Ctrl-C again to leave at once)[/]")

    previous = signal.signal(signal.SIGINT, ask)
    try:
        yield asked
    finally:
        signal.signal(signal.SIGINT, previous)


def progress_bar(console: Console) -> Progress:
    """Make a bar with times passed and left, whose tasks have a field "text"; none where it could not move."""
    return Progress(
        TextColumn("[bold]correlating"), BarColumn(40), TaskProgressColumn(), TextColumn("{task.fields[text]}"),
        TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(), console=console,
        disable=not console.is_terminal,
    )  # fmt: skip


def watched(
    engine: Engine,
    stop: Callable[[], None],
    fraction: Callable[[], float],
    text: Callable[[float], str],
    console: Console,
) -> bool:
    """Run an engine with a progress bar; Ctrl-C ends it in good order.

    Parameters
    ----------
    engine : Engine
        Not yet started.
    stop : callable
        Takes nothing in any more.
    fraction : callable
        Gives the share that is done.
    text : callable
        Says how it goes, from the seconds that it has taken.

    Returns
    -------
    bool
        Whether it came to its end: it was not stopped before.
    """
    lines = PlainLines(console)
    with progress_bar(console) as progress, interruptible(progress.console) as asked:
        task = progress.add_task("", total=1.0, text="")
        engine.start()
        ended = stopped = False
        while not ended:
            ended = engine.wait(_TURN)
            elapsed = progress.tasks[0].elapsed or 1e-9
            done = 1.0 if ended and not stopped else fraction()
            said = text(elapsed)
            progress.update(task, completed=done, text=said)
            if not ended:
                lines.say(lambda done=done, said=said: f"correlating: {done:.0%} · {said}")  # type: ignore[misc]
            if asked.is_set() and not stopped:
                stopped = True
                stop()
    return not stopped


def tell_end(console: Console, integrations: int, file: Path, ended: bool, share: float) -> None:
    """Say at the end what there is, and if it was stopped early, how early.

    Parameters
    ----------
    ended : bool
        Whether all was read.
    share : float
        How much was.
    """
    text = f"{integrations} integrations → {file}"
    if not ended:
        kept = f"{integrations} integrations are kept in {file}" if integrations else "there was no integration to keep"
        text = f"[yellow]stopped after {min(share, 1):.0%}: {kept}[/]"
    console.print(text, highlight=False, soft_wrap=True)


def tell_account(console: Console, account: Account, packets: CaptureAccount, name: str) -> None:
    """Print what became of a capture's datagrams."""

    def say(text: str) -> None:
        console.print(text, highlight=False, soft_wrap=True)

    say(
        f"{account.datagrams} datagrams: {account.placed} placed, {account.late} late, {account.duplicate} duplicate, "
        f"{account.malformed} malformed, {account.foreign} foreign; {account.missing} of {account.expected} missing"
    )
    if packets.truncated:
        say(f"[yellow]{packets.truncated} datagrams were cut by the capture's snapshot length; use tcpdump -s 0[/]")
    if packets.fragments:
        say(f"[yellow]{packets.fragments} IP fragments were dropped; send packets no longer than the network's MTU[/]")
    if packets.cut:
        say(f"[yellow]{name} ends within a packet or is damaged there; what follows is lost[/]")
