"""The X-engine's kernels on a GPU, each checked, then timed in turn with a matrix product and a copy.

Useful TOPS: 8 operations for each sample of each pair of inputs, autos included; what a kernel does beyond the
triangle does not count. Every figure is sustained: a case runs for a second or more before the next takes its turn, and
the second half counts, when power and clock have settled. The spread is that of the turns.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from ryle.bench.ahead import compile_ahead
from ryle.bench.correlations import Case, Work, all_cases, check, headline_cases
from ryle.bench.cublaslt import MatrixProduct
from ryle.bench.gpu_timing import Launch, Sustained, sustain
from ryle.bench.harness import ratios, take_turns
from ryle.bench.memory import copies, random_bytes
from ryle.bench.results import Columns, Row, machine, save, table, wide_console
from ryle.chunk import BLOCK, product_inputs
from ryle.correlate.multiply import kernel_for
from ryle.gpu import Gpu, GpuUnavailable, open_gpu
from ryle.monitor.progress import status_line

GEMM, COPY = "int8 matrix product (cuBLASLt)", "HBM copy"
_GEMM_SIZE = 8192
#: Of spectra that a launch reads, at most, and at most an eighth of the memory: so much that it does not matter when
#: the last tiles are not as many as multiprocessors.
_BYTES = 12 << 30
#: Dense int8 operations a second by data sheet.
PEAKS = {"NVIDIA H200": 1979e12, "NVIDIA H100 80GB HBM3": 1979e12, "NVIDIA A100-SXM4-80GB": 624e12}
#: Useful TOPS that a kernel must reach on one H200, by inputs: K-blocks of eight bits, 4096 times.
TARGETS = {
    "hopper": {64: 490.0, 128: 850.0, 144: 850.0, 256: 1000.0, 512: 1120.0, 1024: 1260.0},
    "portable": {144: 300.0, 1024: 500.0},
}
#: Shares of those rates that samples in another order must reach, and integrations of 1024 times.
SHARES = {"time-major": 0.75, "1024": 0.9}
#: What packed samples must keep of the rate that bytes have.
LEAST = {"packed": 0.95}


@dataclass(slots=True)
class Timed:
    """Something that takes turns: a `Work`, or what it is compared with."""

    name: str
    launch: Launch
    operations: float
    nbytes: float
    case: Case | None = None
    turns: list[Sustained] = field(default_factory=list)

    @property
    def amounts(self) -> list[float]:
        """Operations a second by turn; of copies, bytes."""
        return [(self.operations or self.nbytes) / turn.seconds for turn in self.turns]

    @property
    def median(self) -> float:
        """Median of `amounts`."""
        return statistics.median(self.amounts)


def prepare(gpu: Gpu, cases: Sequence[Case], nbytes: int, progress: Callable[[str], None]) -> list[Timed]:
    """Check all cases and give them with what they are compared with."""
    nbytes = min(nbytes, gpu.memory_bytes // 8 >> 26 << 26)
    source, room, sums = random_bytes(gpu, nbytes, -127), gpu.empty(nbytes, np.int8), gpu.empty(nbytes // 4, np.int32)
    launches, moved = copies(gpu, source, room)
    timed = [Timed(f"{COPY}: {name}", launch, 0.0, moved) for name, launch in launches.items()]
    try:
        product = MatrixProduct(gpu, source, _GEMM_SIZE)
        product(gpu.default_stream)
        timed.append(Timed(GEMM, product, product.operations, product.nbytes))
    except (GpuUnavailable, RuntimeError, ValueError) as error:
        progress(f"without the matrix product: {error}")
    for case in cases:
        progress(f"checking the {case.name}, {case.inputs} inputs")
        check(gpu, case)
        blocks = case.times // BLOCK
        products = len(product_inputs(case.inputs // case.polarizations, case.polarizations))
        channels = max(1, min(65535, nbytes // (case.inputs * 128 * blocks), nbytes // (products * 8)))
        work = Work(gpu, case, source, room, sums, channels, blocks)
        timed.append(Timed(work.name, work, work.operations, work.nbytes, case))
    gpu.default_stream.synchronize()
    return timed


def measure(
    gpu: Gpu,
    cases: Sequence[Case],
    turns: int = 3,
    seconds: float = 200.0,
    nbytes: int = _BYTES,
    progress: Callable[[str], None] = lambda _: None,
) -> list[Row]:
    """Measure all cases, one after the other, `turns` times.

    Parameters
    ----------
    gpu : Gpu
        Device.
    cases : sequence of Case
        What is measured.
    turns : int
        How often each case is run.
    seconds : float
        For all of it, checks included; what they leave is shared out equally.
    nbytes : int
        Of spectra that a launch reads, at most.
    progress : callable
        Told what is done, and what cannot be compared with.

    Raises
    ------
    ArithmeticError
        If a kernel's sums are wrong.
    """
    begin = time.monotonic()
    timed = prepare(gpu, cases, nbytes, progress)
    share = max(0.0, seconds - (time.monotonic() - begin)) / turns / len(timed)
    found = take_turns(
        {number: partial(sustain, each.launch, gpu.default_stream, share) for number, each in enumerate(timed)},
        turns,
        progress=lambda turn: progress(f"turn {turn + 1} of {turns}, {share:.1f} s a case"),
    )
    for number, each in enumerate(timed):
        each.turns = found[number]
    return figures(timed, PEAKS.get(gpu.name, math.nan))


def figures(timed: Sequence[Timed], peak: float) -> list[Row]:
    """Compare what was timed; the copy first, by the faster of its ways.

    Useful operations count, 10¹² a second; of copies, bytes read and written. What rows say more: ``peak`` is the
    share of the dense peak, ``memory`` of the copy's rate, ``product`` of the matrix product's; ``portable`` is how
    many times the portable kernel's, ``joules`` what 10¹² complex products take.
    """
    by_case = {each.case: each for each in timed if each.case is not None}
    product = next((each for each in timed if each.name == GEMM), None)
    copy = max((each for each in timed if not each.operations), key=lambda each: each.median)
    found = [Row(COPY, copy.median / 1e12, "TB/s", spread=_spread(copy))]
    for each in timed:
        case, target, least, baseline = each.case, None, None, product if each.operations else copy
        if case is not None:
            target = TARGETS[case.kernel].get(case.inputs)
        if case is not None and case != case.plain:
            baseline = by_case.get(case.plain, product)
            other = case.form if case.form != "K-blocks" else str(case.times)
            least = LEAST.get(other) if baseline else None
            target = target * SHARES[other] if target and other in SHARES else None
        row = Row(
            each.name,
            each.median / 1e12,
            "TOPS" if each.operations else "TB/s",
            {} if case is None else {"inputs": case.inputs, "times": case.times},
            baseline="" if baseline is None else _named(baseline),
            baseline_value=None if baseline is None else baseline.median / 1e12,
            ratio=_ratio(each, baseline),
            spread=_spread(each),
            target=target,
            least=least,
        )
        seconds = statistics.median(turn.seconds for turn in each.turns)
        joules = statistics.median(turn.joules for turn in each.turns)
        more = {"memory": each.nbytes / seconds / copy.median, "watts": joules / seconds}
        more["sm_clock"] = statistics.median(turn.clock for turn in each.turns)
        if each.operations:
            more |= {"peak": each.median / peak, "joules": 8e12 * joules / each.operations}
            more["product"] = _ratio(each, product) or math.nan
            more["portable"] = _ratio(each, by_case.get(Case("portable", case.inputs)) if case else None) or math.nan
        row.more = {name: value for name, value in more.items() if not math.isnan(value)}
        found.append(row)
    return found


def _named(timed: Timed) -> str:
    return timed.name if timed.case is None else f"{timed.name}, {timed.case.times} times"


def _ratio(timed: Timed, baseline: Timed | None) -> float | None:
    if baseline is None:
        return None
    return statistics.median(ratios(timed.amounts, baseline.amounts))


def _spread(timed: Timed) -> tuple[float, float]:
    return min(timed.amounts) / 1e12, max(timed.amounts) / 1e12


def _share(name: str) -> Callable[[Row], str]:
    return lambda row: f"{row.more[name]:.0%}" if name in row.more else ""


#: Columns of the table, beside those of all rows.
SHOWN: Columns = {
    "product": _share("product"),
    "peak": _share("peak"),
    "copy": _share("memory"),
    "J": lambda row: f"{row.more['joules']:.2f}" if "joules" in row.more else "",
}


def bench_correlate(path: Path | None, turns: int, seconds: float | None = None, quick: bool = False) -> None:
    """Measure on the first GPU, print a table, write the figures as JSON.

    Parameters
    ----------
    path : Path, optional
        JSON file to write; ``docs/figures/correlator.py`` draws it.
    turns : int
        How often each case is run.
    seconds : float, optional
        Time for all of it; by default 220, or 100 if `quick`.
    quick : bool
        Whether to measure only what targets refer to.

    Raises
    ------
    SystemExit
        If there is no GPU; says why.
    """
    console = wide_console()
    try:
        gpu = open_gpu()
    except GpuUnavailable as reason:
        raise SystemExit(f"there is no GPU to measure: {reason}") from None
    begin = time.monotonic()
    kernel = kernel_for(gpu)
    cases = headline_cases(kernel) if quick else all_cases(kernel)
    budget = (100.0 if quick else 220.0) if seconds is None else seconds
    with status_line() as say:
        say("compiling")

        def progress(text: str) -> None:
            say(text)
            if text.startswith("without"):
                console.print(text)

        compile_ahead((case.variant(gpu) for case in cases), gpu.arch)
        found = measure(gpu, cases, turns, budget - (time.monotonic() - begin), progress=progress)
    about = machine(gpu) | {"turns": turns, "seconds": round(time.monotonic() - begin, 1)}
    console.print(f"{about['gpu']}, {about['cuda']}, {about['date']}, {about['seconds']} s")
    console.print(table(found, SHOWN))
    save(path, about, found, console)
