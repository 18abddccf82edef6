"""Engines on a GPU beside their limits: what they reach, fed from memory or resident, and copies and kernels alone.

Each case is a process (several engines on a GPU: as many processes, which take turns on it, as without MPS they do). In
each of some turns the engine runs for seconds, then its copies alone, then its kernels alone.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from ryle.bench.harness import Child, quartiles, ratios
from ryle.bench.results import Columns, Row, computer, save, table
from ryle.gpu import GpuUnavailable

_CHILD = "ryle.bench.engine_child"


@dataclass(frozen=True)
class Case:
    """An engine to measure.

    Parameters
    ----------
    kind : str
        "f", "fx" or "x".
    fed : str
        From "memory" of the host; or samples are on the GPU: in a "ring" that is full, or by a "table" of addresses.
    limit : str
        What it is compared with: "copies" or "kernels" alone; or the engine on "one" of its GPUs.
    least : float
        What the ratio is to reach.
    antennas, channels, bits, taps, packet : int
        Of two polarizations; packets of so many samples.
    batch : int
        Spectra made at a time.
    integration : float
        Seconds of signal.
    engines : int
        How many at once.
    gpus : tuple of int
        Numbers of those that an FX engine is spread over.
    """

    kind: str
    fed: str
    limit: str
    least: float
    antennas: int
    channels: int
    bits: int = 10
    taps: int = 16
    packet: int = 4096
    batch: int = 1024
    integration: float = 0.5
    engines: int = 1
    gpus: tuple[int, ...] = (0,)

    @property
    def name(self) -> str:
        """What people call it."""
        what = {"f": "F", "fx": "FX", "x": "X"}[self.kind]
        fed = {"memory": "from host memory", "ring": "resident, ring", "table": "resident, pointer table"}[self.fed]
        back = " and back" if self.kind == "f" and self.fed == "memory" else ""
        return f"{what} {fed}{back}" + (f", {self.engines} engines" if self.engines > 1 else "") + self._on

    @property
    def _on(self) -> str:
        count = len(set(self.gpus))
        shares = f"{len(self.gpus)} shares on " if count < len(self.gpus) else ""
        return f", {shares}{count} GPU{'s' if count > 1 else ''}" if len(self.gpus) > 1 else ""

    @property
    def size(self) -> dict[str, int]:
        """Numbers of a row."""
        inputs = {"inputs": 2 * self.antennas, "channels": self.channels, "bits": self.bits, "taps": self.taps}
        return inputs | {"batch": self.batch * len(self.gpus)}


#: What is measured if nothing else is said.
CASES = (
    Case("f", "memory", "copies", 0.9, 8, 1024, batch=4096),
    Case("f", "memory", "copies", 0.9, 8, 4096),
    Case("f", "memory", "copies", 0.9, 72, 4096, batch=256),
    Case("f", "memory", "copies", 0.9, 8, 32768, batch=256),
    Case("f", "memory", "copies", 0.9, 72, 32768, batch=128),
    Case("f", "memory", "copies", 0.9, 8, 4096, batch=512, engines=4),
    Case("fx", "memory", "copies", 0.9, 72, 4096, batch=512),
    Case("fx", "ring", "kernels", 0.95, 72, 1024, batch=4096),
    Case("fx", "ring", "kernels", 0.95, 72, 4096, bits=8, batch=1024),
    Case("fx", "table", "kernels", 0.95, 72, 4096, bits=8, batch=1024),
    Case("fx", "ring", "kernels", 0.95, 72, 4096, batch=1024),
    Case("fx", "table", "kernels", 0.95, 72, 4096, batch=1024),
    Case("x", "memory", "copies", 0.9, 72, 4096, bits=8, batch=256),
)


def measure(case: Case, seconds: float, turns: int, *, emulated: bool = False) -> Row:
    """Measure a case.

    Parameters
    ----------
    case : Case
        Which.
    seconds : float
        Of the engine in a turn; its limits take half of it each.
    turns : int
        How many.
    emulated : bool
        On the tests' GPU, to try this program.
    """
    asked = asdict(case) | {"emulated": emulated}
    with ExitStack() as stack:
        children = [stack.enter_context(Child(_CHILD)) for _ in range(case.engines)]
        about = _ask(children, "setup", **asked)[0]
        found: dict[str, list[Any]] = {"engine": [], "copies": [], "kernels": []}
        several = len(case.gpus) > 1
        if several:
            found |= {"exchange": [], "one": []}
            one = stack.enter_context(Child(_CHILD))
            _ask([one], "setup", **asked | {"gpus": case.gpus[:1]})
        for _ in range(turns):
            found["engine"].append(_ask(children, "engine", seconds=seconds))
            # What one process reaches alone is what all of them share.
            found["copies"].append(_ask(children[:1], "copies", seconds=seconds / 2))
            found["kernels"].append(_ask(children[:1], "kernels", seconds=seconds / 2))
            if several:
                found["exchange"].append(_ask(children, "exchange", seconds=seconds / 2))
                found["one"].append(_ask([one], "engine", seconds=seconds))
    rates = {name: [1e-9 * sum(e["rate"] for e in turn) for turn in each] for name, each in found.items()}
    against = ratios(rates["engine"], rates[case.limit])
    value = statistics.median(rates["engine"])
    cores = statistics.median(sum(e["cores"] for e in turn) for turn in found["engine"])
    joules = statistics.median(1e9 / sum(1 / e["joules"] for e in turn) for turn in found["engine"])
    others = {f"{name}_alone": statistics.median(each) for name, each in rates.items() if name != "engine"}
    return Row(
        case=case.name,
        value=value,
        unit="Gsample/s",
        size=case.size,
        spread=quartiles(rates["engine"]),
        baseline="one GPU" if case.limit == "one" else f"{case.limit} alone",
        baseline_value=statistics.median(rates[case.limit]),
        ratio=statistics.median(against),
        ratio_spread=quartiles(against),
        least=case.least,
        more={
            "gbps": value * case.bits,
            "of": case.limit,
            **others,
            "cores": cores,
            "joules_per_gsample": joules,
            "batch_mb": about["batch_mb"],
            "engines": case.engines,
            "gpus": list(case.gpus),
            "seconds": seconds,
        },
    )


def _ask(children: Sequence[Child], what: str, **more: Any) -> list[dict[str, Any]]:
    """Ask processes the same at the same time."""
    for child in children:
        child.ask(what, **more)
    return [child.answer() for child in children]


def _beside(row: Row) -> str:
    """Say what else was measured of a case, beside what it is compared with."""
    names = [n for n in ("copies", "kernels", "exchange", "one") if n != row.more["of"] and f"{n}_alone" in row.more]
    return ", ".join(f"{name} {row.more[f'{name}_alone']:.4g}" for name in names)


#: Columns of the table, beside those of all rows.
SHOWN: Columns = {
    "Gb/s": lambda row: f"{row.more['gbps']:.0f}",
    "others alone": _beside,
    "cores": lambda row: f"{row.more['cores']:.2f}",
    "J/Gsample": lambda row: f"{row.more['joules_per_gsample']:.3g}",
}


def over(gpus: Sequence[int]) -> list[Case]:
    """Give the cases of FX over several GPUs: resident beside one of them, host-fed beside copies to all."""
    found = []
    for case in CASES:
        if case.kind == "fx":
            resident = case.fed != "memory"
            limit, least = ("one", 0.95 * len(gpus)) if resident else (case.limit, case.least)
            found.append(replace(case, gpus=tuple(gpus), limit=limit, least=least))
    return found


def bench_gpu_engines(
    path: Path | None = None,
    *,
    seconds: float = 3.0,
    turns: int = 3,
    cases: Sequence[Case] = CASES,
    only: str = "",
    emulated: bool = False,
) -> list[Row]:
    """Measure engines on this computer's GPU and write the figures down if asked to.

    Parameters
    ----------
    path : Path, optional
        File for the figures, written after each case.
    seconds : float
        Of the engine in a turn.
    turns : int
        Of each case.
    cases : sequence of Case
        Which.
    only : str
        Words that a case's name and channels ("1024 channels") have to have.
    emulated : bool
        On the tests' GPU.

    Raises
    ------
    GpuUnavailable
        If there is no GPU.
    """
    console = Console(stderr=True, highlight=False, width=200)
    about = computer(not emulated)
    rows: list[Row] = []
    for case in cases:
        if only not in f"{case.name}, {case.channels} channels":
            continue
        console.print(f"{case.name}: {case.size}")
        try:
            rows.append(measure(case, seconds, turns, emulated=emulated))
        except (RuntimeError, GpuUnavailable) as error:
            console.print(f"[red]{case.name}: {error}[/]")
            continue
        console.print(table(rows[-1:], SHOWN))
        save(path, about, rows, Console(quiet=True))
    console.print(table(rows, SHOWN))
    return rows


def tiny(case: Case) -> Case:
    """Make a case so small that an emulated GPU takes it."""
    return replace(
        case, antennas=len(case.gpus), channels=64, taps=4, packet=512, batch=128 // len(case.gpus), integration=2e-3
    )
