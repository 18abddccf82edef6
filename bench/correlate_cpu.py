"""X-engine on CPU against complex64 matrix products: ``python bench/correlate_cpu.py [--json FILE]``.

The baseline is the least that a correlator built on a BLAS does: ``X @ X^H`` for each channel, single thread, on data
that somebody else has already converted to complex64 [channel][input][time] and conjugated. Ours starts from int8
K-blocks with validity words and ends with int64 sums and contribution counts. The two take turns; values are medians.
TOPS are useful ones: 8 operations for each sample of each pair of inputs, autos included, for the baseline as well.

Limits, for a core with two 512-bit multiplier ports: vpdpbusd 256 operations a cycle (1.0 TOPS at 4 GHz), and reading
the spectra once from memory, which is hidden behind the products by prefetching.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")

import numpy as np

from ryle.chunk import BLOCK, SpectraChunk
from ryle.correlate import CorrelatorConfig
from ryle.correlate.cpu import CpuCorrelator, available_kernels

INPUTS, CHANNELS, BLOCKS = 64, 16, 64
ROUNDS = 9


def _seconds(call: Any) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


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

    baseline()
    for case in cases.values():
        case()
    base: list[float] = []
    times: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(ROUNDS):
        base.append(_seconds(baseline))
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
                "spread": (max(values) - min(values)) / median,
            }
        )
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
        )
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
