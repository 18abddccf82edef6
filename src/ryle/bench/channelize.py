"""The F-engine on a GPU: how many samples a second, beside three kernels, library transforms and plain copies.

Everything runs in one process on random samples. A case and what it is compared with take turns in rounds; a figure is
the median over the rounds, its spread the quartiles, and a ratio is the median of the rounds' ratios.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from ..array.delays import Delays
from ..channelize import ChannelizerConfig
from ..chunk import BLOCK
from ..gpu.interface import DeviceArray, Gpu
from .ahead import compile_ahead
from .cufft import KINDS, Cufft, Plan, cufft_problem
from .cufftdx import DxPlan, compiled_sizes
from .gpu_timing import Budget, Launch, Times, interleave, record
from .measured import Case, Measured, Prepared
from .results import Row, as_json, machine, table
from .three_kernels import SOURCE, ThreeKernels, Tuning, defines, tuning_of

CHANNELS = (1024, 4096, 8192, 32768)
TAPS = (4, 8, 12, 16, 32)
BITS = (4, 8, 10, 12, 16)
LONG = 1 << 28  # samples of a long launch, all streams
SHORT = 1 << 20  # samples of one stream in a short launch
MANY = 512  # slow streams
BASELINE = "three kernels"
#: Rates of the three kernels that show them well written: Gsample/s on one H200 at 10 bit and 16 taps.
BASELINE_TARGETS = {1024: 100.0, 4096: 140.0, 8192: 140.0, 32768: 135.0}
#: Rates that the fused form must reach there.
TARGETS = {1024: 275.0, 4096: 260.0, 8192: 245.0, 32768: 165.0}


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
        room = max(case.streams * case.stream_bytes for case in cases) + 64
        tile = np.random.default_rng(1).integers(0, 1 << 64, -(-min(room, 1 << 28) // 8), np.uint64).view(np.uint8)
        self._samples = gpu.array(np.resize(tile, room))
        self._out = gpu.empty(max(case.bytes_out for case in cases), np.int8)

    def samples(self, case: Case) -> DeviceArray:
        """Packed samples of a case, uint8 (stream, `Case.stream_bytes`), with 64 bytes more after them."""
        return self._samples.view((case.streams, case.stream_bytes), np.uint8)

    def out(self, case: Case) -> DeviceArray:
        """Room for the K-blocks of a case, int8 (channel, block, stream, 128)."""
        return self._out.view((case.channels, case.spectra // BLOCK, case.streams, 2 * BLOCK), np.int8)

    def copies(self, size: int = 1 << 30) -> tuple[Launch, int]:
        """Give what copies memory on the device, and the bytes that it reads and writes."""
        size = min(size, self._samples.nbytes, self._out.nbytes)
        source, result = self._samples.view(size, np.uint8), self._out.view(size, np.uint8)
        return lambda stream: source.copy_to(result, stream), 2 * size


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
    turns = np.random.default_rng(3).uniform(0, 2 * np.pi, (case.streams, case.channels))
    gains: NDArray[np.complex64] = (30 * 24**0.5 / 2**case.bits * np.exp(1j * turns)).astype(np.complex64)
    return gains


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
        return [(SOURCE, macros)] if case.policy == "flat" else []

    def prepare(self, case: Case) -> Prepared | None:
        """Allocate and compile; None for samples in packets."""
        if case.policy != "flat":
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


def long_launch(channels: int, taps: int = 16, bits: int = 10, streams: int = 2, **form: str) -> Case:
    """Make a case of `LONG` samples."""
    return Case(channels, taps, bits, streams, LONG // streams // (2 * channels), **form)


def many_streams(channels: int) -> Case:
    """Make a case of `SHORT` samples, or one K-block, of each of `MANY` streams."""
    return Case(channels, streams=MANY, spectra=max(BLOCK, SHORT // (2 * channels)))


def matrix(full: bool = False) -> list[Case]:
    """All channels, taps and bits at long launches; with `full` also the other powers of two of channels."""
    cases = [long_launch(n, taps, bits) for n in CHANNELS for taps in TAPS for bits in BITS]
    if full:
        cases += [long_launch(1 << k) for k in range(6, 17) if 1 << k not in CHANNELS]
    return cases


def forms(channels: int) -> list[Case]:
    """Other forms of the case that targets refer to: output order, packets, many streams, one, short launches."""
    short = Case(channels, streams=2, spectra=max(BLOCK, SHORT // (2 * channels)))
    return [
        long_launch(channels, layout="interleaved"),
        long_launch(channels, policy="table"),
        long_launch(channels, streams=1),
        many_streams(channels),
        *([short] if channels <= 4096 else []),
    ]


def measure(
    gpu: Gpu,
    fused: Callable[[Gpu, Arena], Measured] | None = None,
    *,
    seconds: float = 150.0,
    full: bool = False,
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
    full : bool
        Whether to measure all powers of two of channels too.
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
    cases = [case for case in matrix(full) if full or case.channels in channels]
    other = [case for n in channels for case in forms(n)]
    begin = time.monotonic()
    progress("allocating memory")
    arena = Arena(gpu, cases + other)
    baseline = ThreeKernelsMeasured(gpu, arena, tuning)
    real = fused(gpu, arena) if fused else None
    transforms = [(kind, 1 << k) for kind in KINDS for k in range(6, 18)]
    transforms += [("cuFFTDx", size) for size in (compiled_sizes(cufftdx, gpu.arch) if cufftdx else [])]
    weights = 2.0 + 0.2 * len(transforms) + sum(map(_weight, cases)) + len(other) + 4.0 * len(channels)
    if compiled_ahead:
        progress("compiling")
        forms_of = [form for form in (real, baseline) if form is not None]
        compile_ahead([v for form in forms_of for case in cases + other for v in form.variants(case)], gpu.arch)
    budget = Budget(seconds - (time.monotonic() - begin), weights)
    rows = copy_rows(gpu, arena, budget.take(2.0))
    for kind, size in transforms:
        progress(f"{kind} transforms, {size}")
        rows += transform_rows(gpu, kind, size, budget.take(0.2), cufftdx)
    for case in cases + other:
        progress(str(case))
        rows += case_rows(gpu, case, real, baseline, budget.take(1.0 if case in other else _weight(case)))
    for n in channels:
        progress(f"energy, {n} channels")
        rows += energy_rows(gpu, long_launch(n), real, baseline, budget.take(4.0))
    return rows


def _weight(case: Case) -> float:
    """Share of time: more for the cases that targets refer to."""
    return 4.0 if (case.taps, case.bits) == (16, 10) else 1.0


def copy_rows(gpu: Gpu, arena: Arena, seconds: float) -> list[Row]:
    """Time plain copies from device memory to device memory."""
    copy, moved = arena.copies()
    times = interleave({"copy": copy}, gpu, seconds)["copy"]
    return [Row("HBM copy", None, None, None, *_rate(times, moved, "GB/s"))]


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
    row = Row(f"cuFFT {kind}" if kind in KINDS else f"{kind} c2c", size, None, None, *_rate(times, values, "Gvalue/s"))
    row.more["bytes"] = 16 * scale
    return [row]


def case_rows(gpu: Gpu, case: Case, real: Measured | None, baseline: Measured, seconds: float) -> list[Row]:
    """Time one case: the fused form, the three kernels, and these alone where their parts are asked for."""
    begin = time.monotonic()
    gc.collect()  # what the case before held: freeing device memory waits for the device, so not while timing
    prepared = {m.name: found for m in (real, baseline) if m is not None and (found := m.prepare(case)) is not None}
    work = {name: p.launch for name, p in prepared.items()}
    parts = prepared[BASELINE].parts if BASELINE in prepared and (case.bits == 10 or case.channels == 32768) else {}
    if case.streams != 2 or case.layout != "blocks":
        parts = {}
    work |= {f"{BASELINE}: {name}": launch for name, launch in parts.items()}
    if not work:
        return []
    left = seconds - (time.monotonic() - begin)
    times = interleave(work, gpu, max(left, 0.02), rounds=7 if left > 0.2 else 5)
    at_target = case == long_launch(case.channels)
    rows = []
    for name, timed in times.items():
        row = Row(name, case.channels, case.taps, case.bits, *_rate(timed, case.samples, "Gsample/s"))
        row.more |= {"streams": case.streams, "spectra": case.spectra, "layout": case.layout, "policy": case.policy}
        row.more["seconds"] = sum(timed.seconds) * timed.repeats
        if real is not None and name == real.name:
            row.target = TARGETS.get(case.channels) if at_target else None
            if BASELINE in times:
                _compare(row, timed, BASELINE, times[BASELINE], case.samples)
        elif name == BASELINE:
            row.target = BASELINE_TARGETS.get(case.channels) if at_target else None
        else:
            row.more["bytes"] = prepared[BASELINE].traffic[name.removeprefix(f"{BASELINE}: ")] / case.samples
        rows.append(row)
    return rows


def energy_rows(gpu: Gpu, case: Case, real: Measured | None, baseline: Measured, seconds: float) -> list[Row]:
    """Run each form for its share of the time without a pause, and read the GPU's energy counter."""
    from ..gpu.power import EnergyMeter

    meter = EnergyMeter()
    if not meter.available:
        return []
    forms = [m for m in (real, baseline) if m is not None]
    rows: list[Row] = []
    stream = gpu.stream()
    for measured in forms:
        prepared = measured.prepare(case)
        if prepared is None:
            continue
        launch = record(prepared.launch, stream)
        launch(stream)
        stream.synchronize()
        launches = 0
        begin = time.monotonic()
        meter.start()
        while (spent := time.monotonic() - begin) < max(0.5, seconds / len(forms)):
            for _ in range(8):
                launch(stream)
            stream.synchronize()
            launches += 8
        clock = meter.sm_clock()
        joules = meter.stop()
        spent = time.monotonic() - begin
        row = Row(
            measured.name, case.channels, case.taps, case.bits, joules / (launches * case.samples) * 1e9, "J/Gsample"
        )
        row.more |= {"watts": joules / spent, "sm_clock": clock, "seconds": spent}
        row.more["sustained"] = launches * case.samples / spent / 1e9  # Gsample/s by the wall clock
        rows.append(row)
    if len(rows) == 2:
        rows[0].baseline, rows[0].baseline_value = rows[1].case, rows[1].value
        rows[0].ratio = rows[0].value / rows[1].value
    return rows


def _rate(times: Times, count: float, unit: str) -> tuple[float, str, str, None, None, tuple[float, float]]:
    """Give the fields of a row from its value to its spread."""
    low, high = times.quartiles
    return count / times.median / 1e9, unit, "", None, None, (count / high / 1e9, count / low / 1e9)


def _compare(row: Row, times: Times, name: str, baseline: Times, count: float) -> None:
    row.baseline, row.baseline_value = name, count / baseline.median / 1e9
    row.ratio = statistics.median(b / a for a, b in zip(times.seconds, baseline.seconds, strict=True))


def bench_channelize(seconds: float, full: bool, path: Path | None = None, cufftdx: Path | None = None) -> None:
    """Measure, print the table and, if a path is given, save it all as JSON.

    Raises
    ------
    GpuUnavailable
        If there is no GPU.
    """
    from ..gpu import open_gpu

    gpu = open_gpu()
    console = Console()
    if not console.is_terminal:
        console = Console(width=160)
    begin = time.monotonic()
    with console.status("measuring") as status:
        rows = measure(gpu, fused_form(), seconds=seconds, full=full, cufftdx=cufftdx, progress=status.update)
    about = machine(gpu) | {"seconds": round(time.monotonic() - begin, 1)}
    console.print(f"{about['gpu']}, {about['cuda']}, {about['date']}", highlight=False)
    console.print(table(rows))
    if path:
        path.write_text(as_json(about, rows))
        console.print(f"written: {path}")


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
