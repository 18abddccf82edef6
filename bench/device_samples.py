"""Samples in the orders of others on a GPU: exactness, then the rate beside that of K-blocks and of a pass before.

    PYTHONPATH=src python bench/device_samples.py [--seconds S] [inputs ...]

Forms take turns in one process, for a GPU's clock depends on what it did before. Each is the median of its second half.
"""

import argparse
import json
import os
import time
from pathlib import Path

import numpy as np

from ryle.chunk import BLOCK, rows_from_parts
from ryle.correlate import CorrelatorConfig
from ryle.correlate.foreign import Foreign, Order
from ryle.correlate.multiply import HopperMultiply
from ryle.correlate.reference import correlate
from ryle.correlate.samples import HeapsMultiply, TimeMajorMultiply
from ryle.gpu import open_gpu


def check(gpu, multiply, inputs, pols, rng):
    """Count wrong sums, of several integrations, with and without -128, of time-major samples or of heaps."""
    channels, blocks = 3, 6
    raw = rng.integers(-128, 128, (blocks * BLOCK, channels, inputs, 2), dtype=np.int8)
    parts = np.maximum(raw, -127)
    kept = parts.reshape(blocks, BLOCK, channels, inputs, 2).transpose(2, 0, 3, 1, 4)
    full = np.full((1, blocks, inputs), 2**64 - 1, np.uint64)
    expected = np.stack([correlate(rows_from_parts(kept[:, i : i + 3]), full[:, i : i + 3], pols)[0] for i in (0, 3)])
    if isinstance(multiply, HeapsMultiply):
        raw, parts = (
            np.ascontiguousarray(x.reshape(blocks * BLOCK, channels, inputs // pols, pols, 2).transpose(2, 1, 0, 3, 4))
            for x in (raw, parts)
        )
    wrong, count = 0, gpu.array(np.zeros(1, np.uint64))
    for samples, clamped in ((raw, count), (parts, None)):
        sums = gpu.array(np.full(expected.shape, 12345, np.int32))
        multiply.multiply(gpu.array(samples), sums, 0, 3, 2, clamped=clamped)
        wrong += int(np.count_nonzero(sums.get() != expected))
    return wrong + abs(int(count.get()[0]) - np.count_nonzero(raw == -128))


def fill(gpu, array, pattern):
    """Repeat a pattern over a device array."""
    from cuda.bindings import driver

    filler = gpu.array(pattern)
    gpu.default_stream.synchronize()
    for at in range(0, array.nbytes, pattern.nbytes):
        driver.cuMemcpyDtoD(array.pointer + at, filler.pointer, min(pattern.nbytes, array.nbytes - at))
    driver.cuCtxSynchronize()


def case(gpu, inputs, times, seconds, rng):
    """Measure one number of inputs; rates in useful TOPS by form."""
    pols, blocks = 2, times // BLOCK
    plain, fused = HopperMultiply(gpu, inputs, pols), TimeMajorMultiply(gpu, inputs, pols)
    wrong = sum(check(gpu, form, inputs, pols, rng) for form in (fused, HeapsMultiply(gpu, inputs, pols)))
    channels = max(132, min(16384, int(4e9 / (inputs * 2 * times)), int(6e9 / (4 * inputs**2))))
    config = CorrelatorConfig(inputs, channels, pols)
    rows = gpu.empty((channels, blocks, inputs, 128), np.int8)
    samples = gpu.empty((times, channels, inputs, 2), np.int8)
    pattern = rng.integers(-127, 128, 1 << 22, dtype=np.int8)
    fill(gpu, rows, pattern)
    fill(gpu, samples, pattern)
    heaps, as_heaps = HeapsMultiply(gpu, inputs, pols), samples.view((inputs // 2, channels, times, 2, 2), np.int8)
    valid = gpu.array(np.full((1, blocks, inputs), 2**64 - 1, np.uint64))
    sums = gpu.empty((1, channels, config.products, 2), np.int32)
    clamped, foreign, order = gpu.array(np.zeros(1, np.uint64)), Foreign(gpu, config), Order.time_major(config)

    def before():
        foreign.arrange(samples, order, valid, rows)
        plain(rows, sums, 0, blocks)

    forms = {
        "K-blocks": lambda: plain(rows, sums, 0, blocks),
        "time-major": lambda: fused.multiply(samples, sums, 0, blocks),
        "time-major, clamped": lambda: fused.multiply(samples, sums, 0, blocks, clamped=clamped),
        "heaps": lambda: heaps.multiply(as_heaps, sums, 0, blocks),
        "heaps, clamped": lambda: heaps.multiply(as_heaps, sums, 0, blocks, clamped=clamped),
        "pass before": before,
    }
    stream, spent = gpu.default_stream, {name: [] for name in forms}
    for _ in range(3):  # turns
        for name, form in forms.items():
            form()
            stream.synchronize()
            took, start = [], time.perf_counter()
            while time.perf_counter() - start < seconds:
                begin = stream.record()
                form()
                end = stream.record()
                end.synchronize()
                took.append(end.seconds_since(begin))
            spent[name] += took[len(took) // 2 :]
    useful = 4.0 * inputs * (inputs + 1) * channels * times
    rates = {name: round(useful / np.median(took) / 1e12, 1) for name, took in spent.items()}
    return {"inputs": inputs, "times": times, "wrong": wrong, "local": fused._kernel.local_bytes, **rates}


def main():
    """Run all cases."""
    parser = argparse.ArgumentParser()
    parser.add_argument("inputs", nargs="*", type=int)
    parser.add_argument("--seconds", type=float, default=0.4)
    parser.add_argument("--times", type=int, default=4096)
    args = parser.parse_args()
    gpu, rng, results = open_gpu(), np.random.default_rng(), []
    for inputs in args.inputs or (64, 128, 144, 256, 512, 1024):
        result = case(gpu, inputs, args.times, args.seconds, rng)
        results.append(result)
        base = result["K-blocks"]
        print(
            *(
                f"{k} {v}" + (f" ({v / base:.0%})" if k.startswith(("time-major", "heaps", "pass")) else "")
                for k, v in result.items()
            ),
            sep="; ",
            flush=True,
        )
        Path(os.environ.get("OUT", "."), "device_samples.json").write_text(json.dumps(results, indent=1, default=float))


if __name__ == "__main__":
    main()
