"""The highest rate at which an engine loses nothing: F, X, FX and a capture, one of them and several at the same time.

Trials of 20 s as Merry (2023, 5.4) makes them, with a model of losses by chance and of a host that takes processors
away (`ryle.bench.belief`): each trial is made where it says most, the rate found is confirmed by a longer one, and an
interval says where the capacity is. Senders are on the same machine, one to an engine, over loopback, so that their
work is part of what the machine does; a search that ends with a sender's limit says so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from ryle.bench.lossless import Search, Trial, highest_lossless
from ryle.bench.one_engine import Kind, OneEngine, Work, receiver
from ryle.bench.results import Columns, Row, computer, save, table

#: What can be searched: name, kind of engine, what becomes of its packets.
CASES: dict[str, tuple[Kind, Work]] = {
    "F": ("f", "whole"),
    "X": ("x", "whole"),
    "FX": ("fx", "whole"),
    "capture": ("f", "counted"),
}
SHOWN: Columns = {
    "capacity, 95 %": lambda row: row.more["interval"],
    "limited by": lambda row: row.more["limit"],
    "lossless for": lambda row: f"{row.more['confirmed']:.0f} s" + ("" if row.more["in_time"] else ", time was over"),
    "trials": lambda row: f"{row.more['trials']}",
    "disturbed": lambda row: f"{row.more['disturbed']}",
}
_START, _WARM_UP = 1.0, 1.0
_LIMITS = {"receiver": "the engine", "sender": "the sender", "asked for": "nothing: --most"}


def bench_search(
    path: Path | None,
    *,
    copies: Sequence[int] = (1, 4),
    only: str = "",
    seconds: float = 20.0,
    confirm: float = 40.0,
    most: float = 200.0,
    within: float = math.inf,
    backend: str = "cpu",
    threads: int = 1,
    receivers: int = 1,
) -> list[Row]:
    """Search, tell every trial, and print and keep what was found.

    Parameters
    ----------
    path : Path or None
        File for the figures.
    copies : sequence of int
        How many engines at the same time, in turn.
    only : str
        A case, if not all.
    seconds, confirm : float
        Of a trial, and of the last one.
    most : float
        Highest rate to try, Gb/s an engine.
    within : float
        Seconds that each search may take.
    backend, threads : str, int
        Of the arithmetic.
    receivers : int
        Threads that receive, of an engine, and as many that send to it.
    """
    console, rows = Console(stderr=True, highlight=False), []
    for name, (kind, work) in CASES.items():
        if only and only.lower() != name.lower():
            continue
        for count in copies:
            title = f"{count} × {name}" if count > 1 else name
            found = _searched(
                OneEngine(kind, work, backend, threads, receivers),
                count,
                seconds,
                confirm,
                most,
                within,
                title,
                console,
            )
            rows.append(_row(title, kind, found, count, backend, receivers, seconds))
            console.print(table(rows[-1:], SHOWN))
    save(path, computer(backend == "cuda"), rows, console)
    return rows


def _searched(
    engine: OneEngine,
    copies: int,
    seconds: float,
    confirm: float,
    most: float,
    within: float,
    title: str,
    console: Console,
) -> Search:
    receives = receiver(engine, copies)

    def say(trial: Trial, verdict: str) -> None:
        console.print(
            f"{title}: {trial.offered:.2f} of {trial.asked:.2f} Gb/s for {trial.seconds:.1f} s, "
            f"{trial.lost} of {trial.sent} lost, {trial.stolen:.2f} s stolen: {verdict}"
        )

    try:
        receives.trial(0.1, _WARM_UP)
        start = min(_START, most)
        return highest_lossless(receives.attempt, start, most, seconds=seconds, confirm=confirm, within=within, say=say)
    finally:
        receives.close()


def _row(title: str, kind: Kind, found: Search, copies: int, backend: str, receivers: int, seconds: float) -> Row:
    low, high = found.interval
    return Row(
        case=title,
        value=found.rate,
        unit="Gb/s an engine, without loss",
        more={
            "interval": f"{low:.2f} to {high:.2f} Gb/s",
            "low": low,
            "high": high,
            "limit": _LIMITS[found.limit],
            "confirmed": found.confirmed,
            "in_time": found.in_time,
            "trials": len(found.trials),
            "disturbed": sum(t.disturbed for t in found.trials),
            "seconds": seconds,
            "copies": copies,
            "backend": backend,
            "receivers": receivers,
            # Samples are of 10 bits; spectra of 4 + 4.
            "msamples": None if kind == "x" else found.rate * 1e3 / 10,
        },
    )
