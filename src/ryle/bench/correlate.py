"""The X-engine's kernels on a GPU, each checked, then timed in turn with a matrix product and a copy.

Useful TOPS: 8 operations for each sample of each pair of inputs, autos included; what a kernel does beyond the
triangle does not count. The baseline is the vendor library's int8 matrix product (cuBLASLt), which is dense. Every
figure is sustained: a case runs for a second before the next takes its turn, and the second half counts, when power
and clock have settled. The spread is that of the turns.
"""

from __future__ import annotations

import json
import math
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from ..chunk import BLOCK, parts_from_rows
from ..correlate.correlator import product_inputs
from ..correlate.multiply import Multiply, kernel_for, make_multiply
from ..gpu import Gpu, GpuUnavailable, open_gpu
from ..gpu.interface import DeviceArray
from ..gpu.power import EnergyMeter

INPUTS = (64, 128, 144, 160, 256, 512, 1024)
TIMES = (4096, 1024)
GEMM, COPY = "int8 matrix product (cuBLASLt)", "copy in memory"
_GEMM_SIZE = 8192
_REPEAT = Path(__file__).with_name("repeat.cu")
#: Of spectra that a launch reads, at most: enough that it does not matter when the last tiles are not as many as
#: multiprocessors.
_BYTES = 12 << 30
_BATCH = 0.03  # seconds of launches between two events
#: Dense int8 operations a second by data sheet.
PEAKS = {"NVIDIA H200": 1979e12, "NVIDIA H100 80GB HBM3": 1979e12, "NVIDIA A100-SXM4-80GB": 624e12}


@dataclass(slots=True)
class Measured:
    """One case.

    Parameters
    ----------
    case : str
        What was timed.
    inputs, times : int
        Its size; 0 where it has none.
    value : float
        Median of the turns, in `unit`.
    unit : str
        ``"TOPS"`` (useful ones, 10¹² a second) or ``"TB/s"`` (read and written).
    baseline : str
        What it is compared with.
    ratio : float
        `value` over the baseline's.
    spread : tuple of float
        Lowest and highest turn, in `unit`.
    notes : dict
        ``peak``: share of the dense peak, ``memory``: of the copy's rate, ``joules``: for 10¹² complex products.
    """

    case: str
    inputs: int
    times: int
    value: float
    unit: str
    baseline: str
    ratio: float
    spread: tuple[float, float]
    notes: dict[str, float] = field(default_factory=dict)


@dataclass(slots=True)
class _Work:
    """What one launch of a case does."""

    case: str
    inputs: int
    times: int
    launch: Callable[[], object]
    operations: float
    nbytes: float
    rates: list[float] = field(default_factory=list)  # launches a second, by turn
    joules: list[float] = field(default_factory=list)  # of a launch


def useful_operations(inputs: int, samples: float) -> float:
    """Operations that `samples` (channel, spectrum) pairs of all inputs need."""
    return 4.0 * inputs * (inputs + 1) * samples


def exact_sums(data: NDArray[np.int8], polarizations: int) -> NDArray[np.int64]:
    """Sum one channel's products in float64, which holds them exactly.

    Parameters
    ----------
    data : ndarray of int8, shape (block, input, 128)
        K-blocks.
    polarizations : int
        Polarizations of an antenna.

    Returns
    -------
    ndarray of int64, shape (product, 2)
        Sums (re, im).
    """
    inputs = data.shape[1]
    parts = parts_from_rows(data).astype(np.float64).transpose(3, 1, 0, 2).reshape(2, inputs, -1)
    re, im = np.ascontiguousarray(parts[0]), np.ascontiguousarray(parts[1])
    real, cross = re @ re.T + im @ im.T, im @ re.T
    i, j = product_inputs(inputs // polarizations, polarizations).T
    return np.stack([real[i, j], (cross - cross.T)[i, j]], axis=-1).astype(np.int64)


def check(gpu: Gpu, multiply: Multiply, inputs: int, blocks: int) -> None:
    """Compare every product of a kernel with the exact one, on fresh random data.

    Raises
    ------
    ArithmeticError
        If one differs.
    """
    channels, pols = 3, 2 - inputs % 2
    data = np.random.default_rng().integers(-127, 128, (channels, blocks + 1, inputs, 2 * BLOCK), dtype=np.int8)
    expected = np.stack([exact_sums(channel[1:], pols) for channel in data])
    sums = gpu.array(np.full((1, *expected.shape), 77, np.int32))
    multiply(gpu.array(data), sums, 1, blocks)
    wrong = np.count_nonzero(sums.get()[0] != expected)
    if wrong:
        raise ArithmeticError(
            f"kernel {multiply.name}, {inputs} inputs: {wrong} of {expected.size} sums are wrong; please report it"
        )


def random_spectra(gpu: Gpu, nbytes: int) -> DeviceArray:
    """Make random bytes but -128 on the GPU: a pattern of 64 MiB over and over."""
    pattern = np.random.default_rng().integers(-127, 128, min(nbytes, 1 << 26), dtype=np.int8)
    data = gpu.empty((-(-nbytes // len(pattern)), len(pattern)), np.int8)
    first = gpu.array(pattern)
    repeat = gpu.kernel(_REPEAT, "repeat", {})
    words = len(pattern) // 16
    repeat.launch((min(words // 256, 65535), data.shape[0]), 256, data, first, np.int64(words))
    gpu.default_stream.synchronize()
    return data


def cases(gpu: Gpu, inputs: tuple[int, ...], times: tuple[int, ...], nbytes: int) -> list[_Work]:
    """Make, and check, the cases: the device's best kernel for every size, the portable one for the first length."""
    spectra = random_spectra(gpu, nbytes)
    sums = gpu.empty((nbytes // 4,), np.int32)
    best = kernel_for(gpu)
    work = []
    for n in inputs:
        for kernel in dict.fromkeys((best, "portable")):
            multiply = make_multiply(gpu, n, 2 - n % 2, kernel)
            for t in times if kernel == best else times[:1]:
                blocks = t // BLOCK
                check(gpu, multiply, n, blocks)
                products = len(product_inputs(n // (2 - n % 2), 2 - n % 2))
                channels = max(1, min(65535, nbytes // (n * 128 * blocks), nbytes // (products * 8)))
                data = spectra.view((channels, blocks, n, 128), np.int8)
                out = sums.view((1, channels, products, 2), np.int32)
                work.append(
                    _Work(
                        f"{kernel} kernel",
                        n,
                        t,
                        lambda multiply=multiply, data=data, out=out, blocks=blocks: multiply(data, out, 0, blocks),  # type: ignore[misc]
                        useful_operations(n, channels * t),
                        data.nbytes + out.nbytes,
                    )
                )
    half = spectra.nbytes // 2
    target = gpu.empty((half,), np.int8)
    source = spectra.view((half,), np.int8)
    work.append(_Work(COPY, 0, 0, lambda: source.copy_to(target), 0.0, 2.0 * half))
    product = matrix_product(gpu, spectra)
    if product is not None:
        work.append(_Work(GEMM, 0, 0, product, 2.0 * _GEMM_SIZE**3, 6.0 * _GEMM_SIZE**2))
    return work


def matrix_product(gpu: Gpu, data: DeviceArray) -> Callable[[], object] | None:
    """Make the baseline, an int8 product of square matrices by cuBLASLt; None if the library is not there or fails."""
    import ctypes

    try:
        from cuda.pathfinder import load_nvidia_dynamic_lib

        library = ctypes.CDLL(load_nvidia_dynamic_lib("cublasLt").abs_path)
    except (ImportError, RuntimeError, OSError):
        return None
    int8, int32, compute_int32, transpose_a, transposed = 3, 10, 72, 3, 1  # of cublas_api.h, cublasLt.h
    n = _GEMM_SIZE
    out, room = gpu.empty((n, n), np.int32), gpu.empty((1 << 25,), np.uint8)

    def call(name: str, *args: Any) -> None:
        status = getattr(library, name)(*args)
        if status:
            raise RuntimeError(f"{name} failed with status {status}")

    handle, operation, factor, result = (ctypes.c_void_p() for _ in range(4))
    call("cublasLtCreate", ctypes.byref(handle))
    call("cublasLtMatmulDescCreate", ctypes.byref(operation), compute_int32, int32)
    value = ctypes.c_int32(transposed)
    call("cublasLtMatmulDescSetAttribute", operation, transpose_a, ctypes.byref(value), ctypes.c_size_t(4))
    sizes = ctypes.c_uint64(n), ctypes.c_uint64(n), ctypes.c_int64(n)
    call("cublasLtMatrixLayoutCreate", ctypes.byref(factor), int8, *sizes)
    call("cublasLtMatrixLayoutCreate", ctypes.byref(result), int32, *sizes)
    one, zero = ctypes.c_int32(1), ctypes.c_int32(0)
    a, b = data.pointer, data.pointer + n * n

    def multiply() -> None:
        call(
            "cublasLtMatmul",
            handle,
            operation,
            ctypes.byref(one),
            ctypes.c_void_p(a),
            factor,
            ctypes.c_void_p(b),
            factor,
            ctypes.byref(zero),
            ctypes.c_void_p(out.pointer),
            result,
            ctypes.c_void_p(out.pointer),
            result,
            None,
            ctypes.c_void_p(room.pointer),
            ctypes.c_size_t(room.nbytes),
            ctypes.c_void_p(gpu.default_stream.handle),
        )

    try:
        multiply()
    except RuntimeError as error:
        Console(stderr=True).print(f"without the matrix product: {error}")
        return None
    return multiply


def sustain(gpu: Gpu, work: _Work, seconds: float) -> None:
    """Run a case for so long, and note its rate and energy in the second half."""
    stream = gpu.default_stream
    begin = stream.record()
    work.launch()
    batch = max(1, round(_BATCH / max(stream.record().seconds_since(begin), 1e-6)))

    def run(until: float) -> int:
        launches, waited = 0, None
        while time.perf_counter() < until:
            for _ in range(batch):
                work.launch()
            launches += batch
            if waited is not None:
                waited.synchronize()  # one batch is always under way
            waited = stream.record()
        return launches

    now = time.perf_counter()
    run(now + seconds / 2)
    stream.synchronize()
    with EnergyMeter() as meter:
        begin = stream.record()
        launches = run(time.perf_counter() + seconds / 2)
        elapsed = stream.record().seconds_since(begin)
        stream.synchronize()
    work.rates.append(launches / elapsed)
    work.joules.append(meter.joules / launches)


def measure(
    gpu: Gpu,
    inputs: tuple[int, ...] = INPUTS,
    times: tuple[int, ...] = TIMES,
    turns: int = 3,
    seconds: float = 1.0,
    nbytes: int | None = None,
) -> list[Measured]:
    """Measure all cases, one after the other, `turns` times.

    Parameters
    ----------
    gpu : Gpu
        Device.
    inputs, times : tuple of int
        Numbers of inputs, and spectra of an integration (multiples of 64).
    turns : int
        How often each case is run.
    seconds : float
        For how long it runs each time.
    nbytes : int, optional
        Of spectra that a launch reads, at most; by default 12 GiB, or an eighth of the device's memory.

    Raises
    ------
    ArithmeticError
        If a kernel's sums are wrong.
    """
    work = cases(gpu, inputs, times, nbytes or min(_BYTES, gpu.memory_bytes // 8 >> 26 << 26))
    for _ in range(turns):
        for case in work:
            sustain(gpu, case, seconds)
    copy = next(statistics.median(w.rates) * w.nbytes for w in work if w.case == COPY)
    gemm = next((statistics.median(w.rates) * w.operations for w in work if w.case == GEMM), math.nan)
    return [_figure(w, copy, gemm, PEAKS.get(gpu.name, math.nan)) for w in work]


def _figure(work: _Work, copy: float, gemm: float, peak: float) -> Measured:
    moves = work.case == COPY
    amount, unit, baseline = (work.nbytes, "TB/s", COPY) if moves else (work.operations, "TOPS", GEMM)
    value = statistics.median(work.rates) * amount
    notes = {"memory": statistics.median(work.rates) * work.nbytes / copy}
    if not moves:
        notes |= {"peak": value / peak, "joules": 8e12 * statistics.median(work.joules) / work.operations}
    return Measured(
        work.case,
        work.inputs,
        work.times,
        value / 1e12,
        unit,
        baseline,
        value / (copy if moves else gemm),
        (min(work.rates) * amount / 1e12, max(work.rates) * amount / 1e12),
        {name: note for name, note in notes.items() if not math.isnan(note)},
    )


def bench_correlate(path: Path | None, turns: int) -> None:
    """Measure on the first GPU, print a table, write the figures as JSON.

    Raises
    ------
    SystemExit
        If there is no GPU; says why.
    """
    console = Console()
    try:
        gpu = open_gpu()
    except GpuUnavailable as reason:
        raise SystemExit(f"there is no GPU to measure: {reason}") from None
    figures = measure(gpu, turns=turns)
    table = Table(title=f"X-engine on {gpu.name}, {gpu.driver}")
    for column in (
        "case",
        "inputs",
        "times",
        "value",
        "turns",
        "of the matrix product",
        "of peak",
        "of copy",
        "J/TCMAC",
    ):
        table.add_column(column, justify="left" if column == "case" else "right")
    for f in figures:
        shares = [f"{f.notes[name]:.0%}" if name in f.notes else "" for name in ("peak", "memory")]
        joules = f"{f.notes['joules']:.2f}" if "joules" in f.notes else ""
        size = [str(n) if n else "" for n in (f.inputs, f.times)]
        spread = f"{f.spread[0]:.4g} to {f.spread[1]:.4g}"
        ratio = "" if math.isnan(f.ratio) else f"{f.ratio:.2f}"
        table.add_row(f.case, *size, f"{f.value:.4g} {f.unit}", spread, ratio, *shares, joules)
    console.print(table)
    if path is not None:
        rows = [{k: None if v != v else v for k, v in asdict(f).items()} for f in figures]
        path.write_text(json.dumps(rows, indent=2) + "\n")


def compile_variants() -> list[tuple[Path, dict[str, int]]]:
    """List the kernels that the tests compile for every architecture."""
    return [(_REPEAT, {})]
