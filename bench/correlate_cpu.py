"""X-engine on CPU against complex64 matrix products: ``python bench/correlate_cpu.py [--json FILE]``.

The baseline is the least that a correlator built on a BLAS does: ``X @ X^H`` for each channel, single thread, on data
that somebody else has already converted to complex64 [channel][input][time] and conjugated. Ours starts from int8
K-blocks with validity words and ends with int64 sums and contribution counts. The two take turns; values are medians.
TOPS are useful ones: 8 operations for each sample of each pair of inputs, autos included, for the baseline as well.

The limit of AVX-512 VNNI is how many vpdpbusd, of 128 operations each, a core can start: measured in the same rounds.
A tile reaches into the unused half of the product matrix, which makes 92 % of that the most that 64 inputs can use.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")

import numpy as np

from ryle.chunk import BLOCK, SpectraChunk
from ryle.correlate import CorrelatorConfig
from ryle.correlate.cpu import CpuCorrelator, available_kernels, kernel_status

INPUTS, CHANNELS, BLOCKS = 64, 16, 64
ROUNDS = 11


#: Independent vpdpbusd on twelve registers: what the multiplier does when nothing else is in the way.
_PEAK = "".join(f'"vpdpbusd %%zmm31, %%zmm30, %%zmm{n}\\n"' for n in range(12))
_PEAK_CLOBBERS = ", ".join(f'"xmm{n}"' for n in range(12))
_PEAK_LOOPS = 500_000
_PEAK_SOURCE = (
    f"void peak(void) {{ for (long i = 0; i < {_PEAK_LOOPS}; ++i) __asm__ volatile({_PEAK} ::: {_PEAK_CLOBBERS}); }}"
)


def _vnni_peak() -> Callable[[], object] | None:
    """Build the loop of multiplications; None where the CPU lacks VNNI or no C compiler is found."""
    if kernel_status().get("vnni", "not built") is not None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "peak.so"
        command = ["cc", "-O2", "-mavx512f", "-shared", "-fPIC", "-x", "c", "-o", str(library), "-"]
        try:
            subprocess.run(command, input=_PEAK_SOURCE, text=True, check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"VNNI peak not measured: {error}")
            return None
        return ctypes.CDLL(str(library)).peak


def _seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def _spread(values: list[float]) -> float:
    """Interquartile range over median."""
    low, middle, high = statistics.quantiles(values, n=4)
    return (high - low) / middle


def run() -> list[dict[str, Any]]:
    """Time every kernel that this CPU can run against the baseline; `ratio` is time over the baseline's time."""
    rng = np.random.default_rng(0)
    data = rng.integers(-127, 128, (CHANNELS, BLOCKS, INPUTS, 2 * BLOCK), dtype=np.int8)
    full = np.full((1, BLOCKS, INPUTS), 2**64 - 1, np.uint64)
    holes = full.copy()
    lossy = rng.random(full.shape) < 0.1
    holes[lossy] = rng.integers(0, 2**64, np.count_nonzero(lossy), dtype=np.uint64)
    parts = data.reshape(CHANNELS, BLOCKS, INPUTS, 2, BLOCK).transpose(0, 2, 1, 4, 3).astype(np.float32)
    voltages = np.ascontiguousarray(parts).view(np.complex64).reshape(CHANNELS, INPUTS, BLOCKS * BLOCK)
    conjugated = np.ascontiguousarray(voltages.conj().transpose(0, 2, 1))
    out = np.empty((CHANNELS, INPUTS, INPUTS), np.complex64)

    def baseline() -> None:
        for channel in range(CHANNELS):
            np.matmul(voltages[channel], conjugated[channel], out=out[channel])

    config = CorrelatorConfig(INPUTS, CHANNELS, 2)
    cases = {}
    for kernel in available_kernels():
        correlator = CpuCorrelator(config, kernel=kernel)
        chunk = SpectraChunk(0, data, full)
        cases[f"x-engine {kernel}"] = lambda c=correlator, s=chunk: c.accumulate(s)
    fastest = CpuCorrelator(config, kernel=available_kernels()[0])
    gappy = SpectraChunk(0, data, holes)
    cases[f"x-engine {fastest.kernel}, 1 row in 10 with holes"] = lambda: fastest.accumulate(gappy)

    peak = _vnni_peak()
    peaks: list[float] = []
    baseline()
    for case in cases.values():
        case()
    base: list[float] = []
    times: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(ROUNDS):
        base.append(_seconds(baseline))
        if peak:
            peaks.append(12 * 128 * _PEAK_LOOPS / _seconds(peak))
        for name, case in cases.items():
            times[name].append(_seconds(case))

    useful = 8 * INPUTS * (INPUTS + 1) / 2 * CHANNELS * BLOCKS * BLOCK
    baseline_s = statistics.median(base)
    results = []
    for name, values in times.items():
        median = statistics.median(values)
        results.append(
            {
                "case": f"{name}, {INPUTS} inputs, 1 thread",
                "value": useful / median / 1e12,
                "unit": "TOPS",
                "baseline": useful / baseline_s / 1e12,
                "ratio": median / baseline_s,
                "spread": _spread(values),
            }
        )
        if peaks and " vnni" in name:
            results[-1]["limit"] = statistics.median(peaks) / 1e12
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="also write the results here")
    arguments = parser.parse_args()
    results = run()
    for result in results:
        print(
            f"{result['case']:58} {result['value']:7.3f} {result['unit']}  baseline {result['baseline']:.3f}  "
            f"time ratio {result['ratio']:.3f}  spread {result['spread']:.2f}"
            + (
                f"  {result['value'] / result['limit']:.0%} of the limit {result['limit']:.3f}"
                if "limit" in result
                else ""
            )
        )
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
