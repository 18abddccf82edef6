"""The X-engine's kernels on one core against complex64 matrix products.

The baseline is the least that a correlator built on a BLAS does: ``X @ X^H`` for each channel, on data that somebody
else has already converted to complex64 [channel][input][time] and conjugated. Ours starts from int8 K-blocks with
validity words and ends with int64 sums and contribution counts. TOPS are useful ones: 8 operations for each sample of
each pair of inputs, autos included, for the baseline as well.

A Hermitian rank update (``cherk``) needs half of those operations and is timed as well.

The limit of AVX-512 VNNI is how many vpdpbusd, of 128 operations each, a core can start: measured in the same rounds.
A tile reaches into the unused half of the product matrix, which makes 92 % of that the most that 64 inputs can use.
The limit of AMX is measured alike, with tdpbssd of 32768 operations; there, a tile's excess leaves 81 %.
"""

from __future__ import annotations

import ctypes
import statistics
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import cherk

from ryle.bench.results import Row
from ryle.bench.timing import compare, interleave
from ryle.chunk import BLOCK, SpectraChunk
from ryle.correlate import CorrelatorConfig
from ryle.correlate.cpu import CpuCorrelator, available_kernels

INPUTS, CHANNELS, BLOCKS = 64, 16, 64
BASELINE = "complex64 matrix products (BLAS)"
RANK_UPDATE = "complex64 Hermitian rank updates (BLAS)"
TARGETS = {"amx": 0.2, "vnni": 0.5, "avx2": 1.0}

# Independent multiplications in a loop: what the multiplier does when nothing else is in the way.
_LOOPS = 200_000
_VNNI = "".join(f'"vpdpbusd %%zmm31, %%zmm30, %%zmm{n}\\n"' for n in range(12))
_VNNI_CLOBBERS = ", ".join(f'"xmm{n}"' for n in range(12))
_PEAKS = {
    "vnni": (
        f"void peak(void) {{ for (long i = 0; i < {_LOOPS}; ++i) __asm__ volatile({_VNNI} ::: {_VNNI_CLOBBERS}); }}",
        12 * 128,
    ),
    "amx": (
        "#include <immintrin.h>\n"
        "static const struct { unsigned char palette, start, none[14]; unsigned short bytes[16]; "
        "unsigned char rows[16]; } config __attribute__((aligned(64)))\n"
        " = {1, 0, {0}, {64,64,64,64,64,64,64,64}, {16,16,16,16,16,16,16,16}};\n"
        "void peak(void) { _tile_loadconfig(&config);"
        + "".join(f"_tile_zero({n});" for n in range(8))
        + f"for (long i = 0; i < {_LOOPS}; ++i) {{"
        + "".join(f"_tile_dpbssd({n}, 6, 7);" for n in range(6))
        + "} _tile_release(); }",
        6 * 32768,
    ),
}


def useful_operations(inputs: int, samples: int) -> float:
    """Operations that `samples` (channel, spectrum) pairs of all inputs need."""
    return 4.0 * inputs * (inputs + 1) * samples


def multiplier_peak(kernel: str) -> tuple[Callable[[], object], float] | None:
    """Build the loop of multiplications and say how many operations it is; None if no C compiler is found."""
    if kernel not in _PEAKS:
        return None
    source, operations = _PEAKS[kernel]
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "peak.so"
        flags = ["-O2", "-mavx512f", "-mamx-tile", "-mamx-int8", "-shared", "-fPIC"]
        try:
            subprocess.run(
                ["cc", *flags, "-x", "c", "-o", str(library), "-"], input=source, text=True, check=True
            )  # fmt: skip
        except (OSError, subprocess.CalledProcessError):
            return None  # the share of the peak stays unknown
        return ctypes.CDLL(str(library)).peak, operations * _LOOPS


def random_voltages(inputs: int, channels: int, spectra: int) -> NDArray[np.complex64]:
    """Make complex64 whole numbers (channel, input, spectrum)."""
    parts = np.random.default_rng(0).integers(-127, 128, (channels, inputs, spectra, 2), dtype=np.int8)
    return parts.astype(np.float32).view(np.complex64)[..., 0]


def product_baseline(voltages: NDArray[np.complex64]) -> Callable[[], object]:
    """Make the baseline: the product of each channel's voltages (input, spectrum) with their conjugate transpose."""
    channels, inputs, _ = voltages.shape
    conjugated = np.ascontiguousarray(voltages.conj().transpose(0, 2, 1))
    out = np.empty((channels, inputs, inputs), np.complex64)

    def multiply() -> None:
        for channel in range(channels):
            np.matmul(voltages[channel], conjugated[channel], out=out[channel])

    return multiply


def run(rounds: int = 11, channels: int = CHANNELS, blocks: int = BLOCKS) -> list[Row]:
    """Time every kernel that this CPU can run.

    Parameters
    ----------
    rounds : int
        How often each case is timed.
    channels, blocks : int
        How much is correlated in one call.
    """
    rng = np.random.default_rng(0)
    data = rng.integers(-127, 128, (channels, blocks, INPUTS, 2 * BLOCK), dtype=np.int8)
    full = np.full((1, blocks, INPUTS), 2**64 - 1, np.uint64)
    holes = full.copy()
    lossy = rng.random(full.shape) < 0.1
    holes[lossy] = rng.integers(0, 2**64, np.count_nonzero(lossy), dtype=np.uint64)
    kernels = available_kernels()
    sizes = f"{INPUTS} inputs"
    voltages = random_voltages(INPUTS, channels, blocks * BLOCK)
    work: dict[str, Callable[[], object]] = {
        BASELINE: product_baseline(voltages),
        RANK_UPDATE: lambda: [cherk(1, channel.T, trans=2) for channel in voltages],
    }
    cases = {}
    config = CorrelatorConfig(INPUTS, channels, 2)
    for kernel in kernels:
        cases[f"X-engine {kernel}, {sizes}"] = kernel, SpectraChunk(0, data, full)
    cases[f"X-engine {kernels[0]}, {sizes}, 1 row in 10 with holes"] = kernels[0], SpectraChunk(0, data, holes)
    for name, (kernel, chunk) in cases.items():
        correlator = CpuCorrelator(config, kernel=kernel)
        work[name] = lambda correlator=correlator, chunk=chunk: correlator.accumulate(chunk)  # type: ignore[misc]
    peaks = {kernel: peak for kernel in kernels if (peak := multiplier_peak(kernel))}
    times = interleave(work | {kernel: call for kernel, (call, _) in peaks.items()}, rounds)
    seconds = {name: statistics.median(values) for name, values in times.items()}
    useful = useful_operations(INPUTS, channels * blocks * BLOCK)
    ratio, spread = compare(times[RANK_UPDATE], times[BASELINE])
    baseline = useful / seconds[BASELINE] / 1e12
    figures = [
        Row(
            f"{RANK_UPDATE}, {sizes}",
            useful / seconds[RANK_UPDATE] / 1e12,
            "TOPS",
            baseline=BASELINE,
            baseline_value=baseline,
            ratio=ratio,
            ratio_spread=spread,
        )
    ]
    for name, (kernel, chunk) in cases.items():
        ratio, spread = compare(times[name], times[BASELINE])
        figures.append(
            Row(
                name,
                useful / seconds[name] / 1e12,
                "TOPS",
                baseline=BASELINE,
                baseline_value=baseline,
                ratio=ratio,
                ratio_spread=spread,
                most=TARGETS.get(kernel) if chunk.valid is full else None,
                more={"limit": peaks[kernel][1] / seconds[kernel] / 1e12} if kernel in peaks else {},
            )
        )
    return figures
