"""The F-engine on a GPU: how many samples a second, beside three kernels, library transforms and plain copies.

Everything runs in one process on random samples. A case and what it is compared with take turns in rounds; a figure is
the median over the rounds, its spread the quartiles, and a ratio is the median of the rounds' ratios.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ryle.array.delays import Delays
from ryle.bench.ahead import compile_ahead
from ryle.bench.cufft import KINDS, Cufft, Plan, cufft_problem
from ryle.bench.cufftdx import DxPlan, compiled_sizes
from ryle.bench.gpu_timing import Budget, Times, interleave, record, sustain
from ryle.bench.harness import ratios
from ryle.bench.measured import CHANNELS, KEPT, LAYOUTS, Case, Measured, Prepared, forms, long_launch, matrix
from ryle.bench.memory import copy_times, random_bytes
from ryle.bench.results import Row, machine, save, table, wide_console
from ryle.bench.three_kernels import SOURCE, ThreeKernels, Tuning, defines, tuning_of
from ryle.channelize import ChannelizerConfig
from ryle.chunk import BLOCK
from ryle.gpu.interface import DeviceArray, Gpu
from ryle.gpu.power import EnergyMeter
from ryle.monitor.progress import status_line

BASELINE = "three kernels"
#: Rates of the three kernels that show them well written: Gsample/s on one H200 at 10 bit and 16 taps.
BASELINE_TARGETS = {1024: 100.0, 4096: 140.0, 8192: 140.0, 32768: 135.0}
#: Rates that the fused form must reach there, to K-blocks and to heaps.
TARGETS = {
    "": {1024: 275.0, 4096: 260.0, 8192: 245.0, 32768: 165.0},
    "interleaved": {1024: 190.0, 4096: 200.0, 8192: 195.0, 32768: 170.0},
}
_GROUP = 6.0  # share of the time, of all forms of a number of channels
_ENERGY = 4.0  # s for which a form runs that its energy is measured of; 3 of them count
_MOST_ENERGY = 0.4  # share of the time, of all forms' energy
_ROUNDS = 15


class Arena:
    """Device memory that all cases share: random packed samples and room for spectra.

    Parameters
    ----------
    gpu : Gpu
        Where.
    cases : iterable of Case
        What must fit.
    """

    def __init__(self, gpu: Gpu, cases: Iterable[Case]) -> None:
        self.gpu = gpu
        cases = list(cases)
        self._samples = random_bytes(gpu, max(case.streams * case.stream_bytes for case in cases) + 64)
        self._out = gpu.empty(max(case.bytes_out for case in cases), np.int8)

    def samples(self, case: Case) -> DeviceArray:
        """Packed samples of a case, uint8 (stream, `Case.stream_bytes`), with 64 bytes more after them."""
        return self._samples.view((case.streams, case.stream_bytes), np.uint8)

    def out(self, case: Case) -> DeviceArray:
        """Room for the K-blocks of a case, int8 (channel, block, stream, 128)."""
        return self._out.view((case.channels, case.spectra // BLOCK, case.streams, 2 * BLOCK), np.int8)

    def copy_times(self, seconds: float) -> tuple[dict[str, Times], int]:
        """Time copies on the device, and give the bytes that each reads and writes."""
        return copy_times(self.gpu, self._samples, self._out, seconds)


def config_of(case: Case) -> ChannelizerConfig:
    """Give the configuration of a case."""
    return ChannelizerConfig(case.streams, case.channels, case.taps, bits=case.bits, seed=1)


def delays_of(case: Case) -> Delays:
    """Delays of a case: another fine delay and phase for each spectrum, another coarse delay for each stream."""
    rng = np.random.default_rng(2)
    shape = case.streams, case.spectra
    coarse = np.repeat(rng.integers(-2 * case.channels, 1, (case.streams, 1)), case.spectra, axis=1)
    return Delays(coarse, rng.uniform(-0.5, 0.5, shape), rng.uniform(-3, 3, shape))


def gains_of(case: Case) -> NDArray[np.complex64]:
    """Gains of a case, complex64 (stream, channel), that bring uniform samples to 30 levels r.m.s. in each part."""
    turns = np.random.default_rng(3).uniform(0, 2 * np.pi, (min(case.streams, 8), case.channels))
    gains = (30 * 24**0.5 / 2**case.bits * np.exp(1j * turns)).astype(np.complex64)
    return np.resize(gains, (case.streams, case.channels))  # the same again for every eight streams


class ThreeKernelsMeasured:
    """The three kernels as something that can be timed."""

    name = BASELINE

    def __init__(self, gpu: Gpu, arena: Arena, tuning: Callable[[Case], Tuning] | None = None) -> None:
        self.gpu, self.arena = gpu, arena
        self._tuning = tuning or (lambda case: tuning_of(case.channels))

    def variants(self, case: Case) -> list[tuple[Path, Mapping[str, int | str]]]:
        """List what `prepare` compiles."""
        interleaved = case.layout == "interleaved"
        macros = defines(case.channels, case.taps, case.bits, self._tuning(case), interleaved=interleaved)
        return [(SOURCE, macros)] if self._does(case) else []

    @staticmethod
    def _does(case: Case) -> bool:
        return case.policy == "flat" and case.layout != "rows"

    def prepare(self, case: Case) -> Prepared | None:
        """Allocate and compile; None for samples in packets, and for rows."""
        if not self._does(case):
            return None
        interleaved = case.layout == "interleaved"
        kernels = ThreeKernels(
            self.gpu, config_of(case), case.spectra, Cufft(), interleaved=interleaved, tuning=self._tuning(case)
        )
        kernels.set_delays(delays_of(case))
        kernels.set_gains(gains_of(case))
        samples, out = self.arena.samples(case), self.arena.out(case)
        parts = {name: partial(kernels.part, name, samples, out) for name in ("FIR", "FFT", "rest")}
        traffic = {"FIR": case.bits / 8 + 4, "FFT": 8.0, "rest": 5.0}
        return Prepared(
            lambda stream: kernels.launch(samples, out, 0, stream),
            parts,
            {name: bytes_ * case.samples for name, bytes_ in traffic.items()},
        )


def measure(
    gpu: Gpu,
    fused: Callable[[Gpu, Arena], Measured] | None = None,
    *,
    seconds: float = 150.0,
    full: bool = False,
    quick: bool = False,
    tuning: Callable[[Case], Tuning] | None = None,
    cufftdx: Path | None = None,
    compiled_ahead: bool = True,
    progress: Callable[[str], None] = lambda _: None,
    channels: Sequence[int] = CHANNELS,
) -> list[Row]:
    """Measure everything.

    Parameters
    ----------
    gpu : Gpu
        What to measure.
    fused : callable, optional
        Makes the channelizer that is compared with the three kernels; without it they are measured alone.
    seconds : float
        Time for all of it, allocation and compilation included.
    full, quick : bool
        Whether to measure all powers of two of channels too; whether only what targets refer to.
    tuning : callable, optional
        Sizes of the three kernels for a case.
    cufftdx : Path, optional
        Folder with cuFFTDx's transforms (`ryle.bench.cufftdx.compile_all`).
    compiled_ahead : bool
        Whether to compile all kernels beforehand, on all cores.
    progress : callable
        Told what is being measured.
    channels : sequence of int
        Numbers of channels to keep of the matrix.
    """
    begin = time.monotonic()
    cases = [] if quick else [case for case in matrix(full) if full or case.channels in channels]
    groups = {n: forms(n) for n in channels}
    everything = cases + [case for group in groups.values() for case in group.values()]
    progress("allocating memory")
    arena = Arena(gpu, everything)
    baseline = ThreeKernelsMeasured(gpu, arena, tuning)
    real = fused(gpu, arena) if fused else None
    sizes = [2048, 8192, 16384, 65536] if quick else [1 << k for k in range(6, 18)]
    transforms = [(kind, size) for kind in KINDS if not (quick and kind.endswith("half")) for size in sizes]
    transforms += [("cuFFTDx", size) for size in (compiled_sizes(cufftdx, gpu.arch) if cufftdx else [])]
    if compiled_ahead:
        progress("compiling")
        compile_ahead((v for m in (real, baseline) if m for case in everything for v in m.variants(case)), gpu.arch)
    left = max(0.0, seconds - (time.monotonic() - begin))
    each = min(_ENERGY, _MOST_ENERGY * left / (len(channels) * (2 * len(LAYOUTS) - 1)))  # the three make no rows
    energy: list[Row] = []
    for n in channels:
        for layout in LAYOUTS:
            progress(f"energy, {n} channels, {layout}")
            energy += energy_rows(gpu, long_launch(n, layout=layout), real, baseline, each)
    weights = 2.0 + 0.2 * len(transforms) + len(cases) + _GROUP * len(channels)
    budget = Budget(seconds - (time.monotonic() - begin), weights)
    rows = copy_rows(arena, budget.take(2.0))
    for n, group in groups.items():
        progress(f"{n} channels in all forms")
        rows += form_rows(gpu, group, real, baseline, budget.take(_GROUP))
    rows += energy
    for kind, size in transforms:
        progress(f"{kind} transforms, {size}")
        rows += transform_rows(gpu, kind, size, budget.take(0.2), cufftdx)
    for case in cases:
        progress(str(case))
        rows += case_rows(gpu, case, real, baseline, budget.take(1.0))
    return rows


def copy_rows(arena: Arena, seconds: float) -> list[Row]:
    """Time plain copies from device memory to device memory; the first row is the fastest that is not recorded."""
    times, moved = arena.copy_times(seconds)
    rows = [Row(f"HBM copy: {way}", **_rate(t, moved, "GB/s")) for way, t in times.items()]
    best = max((row for row in rows if "recorded" not in row.case), key=lambda row: row.value or 0.0)
    return [replace(best, case="HBM copy"), *rows]


def form_rows(
    gpu: Gpu, group: Mapping[str, Case], real: Measured | None, baseline: Measured, seconds: float
) -> list[Row]:
    """Time all forms of one number of channels in turn: beside the three kernels, and beside each other."""
    gc.collect()
    begin = time.monotonic()
    prepared = {
        (m.name, form): found
        for form, case in group.items()
        for m in (real, baseline)
        if m is not None and (found := m.prepare(case)) is not None
    }
    work = {key: found.launch for key, found in prepared.items()}
    for form in ("", "8 bit")[: 2 if group[""].channels == max(CHANNELS) else 1]:
        parts = prepared[BASELINE, form].parts
        work |= {(f"{BASELINE}: {part}", form): launch for part, launch in parts.items()}
    left = seconds - (time.monotonic() - begin)
    # No turn is longer than a few launches: whoever is timed is as warm as the others.
    times = interleave(work, gpu, max(left, 0.02), rounds=min(_ROUNDS, max(5, round(left / 0.25))))
    rows = []
    for (name, form), timed in times.items():
        case = group[form]
        row = _row(name, case, timed)
        rows.append(row)
        if real is not None and name == real.name:
            row.target = TARGETS.get(form, {}).get(case.channels)
            if (BASELINE, form) in times:
                _compare(row, timed, BASELINE, times[BASELINE, form], case.samples, case.samples)
            if form in KEPT:
                other, least = KEPT[form]
                kept = _row(name, case, timed)
                _compare(
                    kept, timed, f"{name}, {other or 'plain'}", times[name, other], case.samples, group[other].samples
                )
                kept.least = least
                rows.append(kept)
        elif name == BASELINE:
            row.target = None if form else BASELINE_TARGETS.get(case.channels)
        else:
            row.more["bytes"] = prepared[BASELINE, form].traffic[name.removeprefix(f"{BASELINE}: ")] / case.samples
    return rows


def transform_rows(gpu: Gpu, kind: str, size: int, seconds: float, cufftdx: Path | None = None) -> list[Row]:
    """Time a library's transforms alone: 2^25 complex results in batches of `size`, input and output apart."""
    if kind in KINDS and cufft_problem():
        return []
    values = 1 << 25
    real = kind.startswith("r2c")
    length = 2 * size if real else size
    item, scale = (2, 0.5) if kind.endswith("half") else (4, 1.0)
    batch = values // size
    source = gpu.empty(batch * length * (1 if real else 2) * item, np.uint8)
    noise = np.random.default_rng(4).standard_normal(1 << 16).astype(np.float16 if item == 2 else np.float32)
    source.set(np.resize(noise.view(np.uint8), source.nbytes))
    result = gpu.empty(batch * (size + (1 if real else 0)) * 2 * item, np.uint8)
    try:
        plan = DxPlan(gpu, cufftdx, length, batch) if cufftdx and kind not in KINDS else Plan(kind, length, batch)
    except (RuntimeError, ValueError):  # not in all sizes and batches
        return []
    times = interleave({kind: lambda stream: plan(source, result, stream)}, gpu, seconds)[kind]
    name = f"cuFFT {kind}" if kind in KINDS else f"{kind} c2c"
    row = Row(name, **_rate(times, values, "Gvalue/s"), size={"channels": size})
    row.more["bytes"] = 16 * scale
    return [row]


def case_rows(gpu: Gpu, case: Case, real: Measured | None, baseline: Measured, seconds: float) -> list[Row]:
    """Time one case: the fused form, the three kernels, and at 32768 channels these one by one too."""
    begin = time.monotonic()
    gc.collect()  # what the case before held: freeing device memory waits for the device, so not while timing
    prepared = {m.name: found for m in (real, baseline) if m is not None and (found := m.prepare(case)) is not None}
    work = {name: p.launch for name, p in prepared.items()}
    plain = prepared[BASELINE]
    if case.bits == 10 or case.channels == max(CHANNELS):
        work |= {f"{BASELINE}: {part}": launch for part, launch in plain.parts.items()}
    left = seconds - (time.monotonic() - begin)
    times = interleave(work, gpu, max(left, 0.02), rounds=7 if left > 0.2 else 5)
    rows = []
    for name, timed in times.items():
        row = _row(name, case, timed)
        if real is not None and name == real.name:
            _compare(row, timed, BASELINE, times[BASELINE], case.samples, case.samples)
        elif name != BASELINE:
            row.more["bytes"] = plain.traffic[name.removeprefix(f"{BASELINE}: ")] / case.samples
        rows.append(row)
    return rows


def energy_rows(gpu: Gpu, case: Case, real: Measured | None, baseline: Measured, seconds: float) -> list[Row]:
    """Run each form for some seconds without a pause, and read the GPU's energy counter."""
    meter = EnergyMeter()
    if not meter.available:
        return []
    rows: list[Row] = []
    stream = gpu.stream()
    for measured in (real, baseline):
        if measured is None or (prepared := measured.prepare(case)) is None:
            continue
        found = sustain(record(prepared.launch, stream), stream, seconds, meter)
        row = Row(measured.name, found.joules / case.samples * 1e9, "J/Gsample", _size(case))
        row.more |= {"layout": case.layout, "watts": found.joules / found.seconds, "sm_clock": found.clock}
        row.more["sustained"] = case.samples / found.seconds / 1e9  # Gsample/s
        rows.append(row)
    joules = [row.value for row in rows if row.value is not None]
    if len(joules) == 2:
        rows[0].baseline, rows[0].baseline_value = rows[1].case, rows[1].value
        rows[0].ratio = joules[0] / joules[1]
    return rows


def _row(name: str, case: Case, times: Times) -> Row:
    row = Row(name, **_rate(times, case.samples, "Gsample/s"), size=_size(case))
    row.more = {"streams": case.streams, "spectra": case.spectra, "layout": case.layout, "policy": case.policy}
    row.more["seconds"] = sum(times.seconds) * times.repeats
    return row


def _size(case: Case) -> dict[str, int]:
    return {"channels": case.channels, "taps": case.taps, "bits": case.bits}


def _rate(times: Times, count: float, unit: str) -> dict[str, Any]:
    """Give a row's value, unit and spread."""
    low, high = times.quartiles
    return {"value": count / times.median / 1e9, "unit": unit, "spread": (count / high / 1e9, count / low / 1e9)}


def form_of(row: Row) -> str:
    """Say what is unusual of how a case was launched."""
    streams = row.more.get("streams", 2)
    form = [f"{streams} streams"] if streams != 2 else []
    form += [row.more["layout"]] if row.more.get("layout", "blocks") != "blocks" else []
    form += ["packets"] if row.more.get("policy", "flat") != "flat" else []
    return ", ".join(form)


def _compare(row: Row, times: Times, name: str, baseline: Times, count: float, baseline_count: float) -> None:
    """Note the baseline and the ratio of rates, the median of the rounds' ratios."""
    row.baseline, row.baseline_value = name, baseline_count / baseline.median / 1e9
    row.ratio = statistics.median(ratios(baseline.seconds, times.seconds)) * count / baseline_count


def bench_channelize(
    seconds: float | None, full: bool, path: Path | None = None, cufftdx: Path | None = None, quick: bool = False
) -> None:
    """Measure, print what targets refer to and, if a path is given, save it all as JSON.

    Parameters
    ----------
    seconds : float, optional
        Time for all of it; by default 260, or 55 if `quick`.
    full, quick, cufftdx
        As of `measure`.
    path : Path, optional
        JSON file to write; ``docs/figures/channelizer.py`` draws it.

    Raises
    ------
    GpuUnavailable
        If there is no GPU.
    """
    from ryle.gpu import open_gpu

    gpu = open_gpu()
    console = wide_console()
    begin = time.monotonic()
    limit = (55.0 if quick else 260.0) if seconds is None else seconds
    with status_line() as say:
        rows = measure(gpu, fused_form(), seconds=limit, full=full, quick=quick, cufftdx=cufftdx, progress=say)
    about = machine(gpu) | {"seconds": round(time.monotonic() - begin, 1)}
    console.print(f"{about['gpu']}, {about['cuda']}, {about['date']}, {about['seconds']} s")
    # The matrix and the library's transforms are for the file and its pictures.
    plain = [row for row in rows if row.size.get("taps", 16) == 16 and row.size.get("bits", 8) in (8, 10)]
    console.print(table([row for row in plain if row.unit != "Gvalue/s"], {"form": form_of}))
    save(path, about, rows, console)


def fused_form() -> Callable[[Gpu, Arena], Measured] | None:
    """Give the adapter of `ryle.channelize.cuda`, where there is one."""
    try:
        module = import_module("ryle.bench.fused")
    except ModuleNotFoundError as error:
        if error.name != "ryle.bench.fused":
            raise
        return None
    make: Callable[[Gpu, Arena], Measured] = module.FusedMeasured
    return make
