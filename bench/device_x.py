"""First light of the X-engine's kernels on a GPU: exactness against float64 matrix products, then rates.

Every case runs in a process of its own under a time limit, as a wrong kernel may never end.

    PYTHONPATH=src python bench/device_x.py [--out DIR] [--only hopper|portable] [inputs ...]
"""

import argparse
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

LIMIT = 40.0


def oracle(data, pols):
    """Sum the products (product, 2) of one channel's K-blocks (block, input, 128), exact in float64."""
    from ryle.correlate.correlator import product_inputs

    blocks, inputs, _ = data.shape
    parts = data.reshape(blocks, inputs, 4, 2, 16).astype(np.float64)
    re = np.ascontiguousarray(parts[:, :, :, 0].transpose(1, 0, 2, 3).reshape(inputs, -1))
    im = np.ascontiguousarray(parts[:, :, :, 1].transpose(1, 0, 2, 3).reshape(inputs, -1))
    real, cross = re @ re.T + im @ im.T, im @ re.T
    i, j = product_inputs(inputs // pols, pols).T
    return np.stack([real[i, j], (cross - cross.T)[i, j]], -1).astype(np.int64)


def random_rows(rng, shape, bits):
    """Make random rows without the lowest value."""
    if bits == 8:
        return rng.integers(-127, 128, (*shape, 128), dtype=np.int8)
    high, low = rng.integers(-7, 8, (2, *shape, 64), dtype=np.int8)
    return (high << 4 | low & 15).astype(np.int8)


def unpacked(rows, bits):
    """Expand rows of four bits."""
    if bits == 8:
        return rows
    parts = np.stack([rows >> 4, (rows << 4).astype(np.int8) >> 4], -2)  # ..., 2, 64
    return np.ascontiguousarray(parts.reshape(*rows.shape[:-1], 2, 4, 16).swapaxes(-2, -3)).reshape(
        *rows.shape[:-1], 128
    )


def case(kernel, inputs, times, check, seconds):
    """Check and time one kernel; print JSON."""
    from ryle.correlate.correlator import product_inputs
    from ryle.correlate.multiply import make_multiply
    from ryle.gpu import open_gpu
    from ryle.gpu.power import EnergyMeter

    gpu = open_gpu()
    pols = 2 - inputs % 2
    begin = time.perf_counter()
    label, bits = kernel, 4 if kernel.endswith("4") else 8
    kernel = kernel.rstrip("4")
    multiply = make_multiply(gpu, inputs, pols, kernel, bits)
    compiled = time.perf_counter() - begin
    result = dict(case=label, inputs=inputs, times=times, compile_s=round(compiled, 1))
    result["registers"], result["local_bytes"] = multiply._kernel.registers, multiply._kernel.local_bytes
    rng = np.random.default_rng()
    products = len(product_inputs(inputs // pols, pols))
    if check:
        # An odd shape first: several integrations, an offset, odd channels, sums added to.
        wrong = 0
        for channels, blocks, integrations in ((5, 3, 2), (3, 16, 1)):
            held = blocks * integrations + 1
            data = random_rows(rng, (channels, held, inputs), bits)
            sums = gpu.array(np.full((integrations, channels, products, 2), 12345, np.int32))
            device = gpu.array(data)
            for add in (False, True):
                multiply(device, sums, 1, blocks, integrations, add)
            got = sums.get()
            for n in range(integrations):
                for c in range(channels):
                    wrong += int(
                        np.count_nonzero(
                            got[n, c] != 2 * oracle(unpacked(data[c, 1 + n * blocks :][:blocks], bits), pols)
                        )
                    )
        result["wrong"] = wrong
        print("checked", kernel, inputs, "wrong", wrong, file=sys.stderr, flush=True)
    blocks = times // 64
    channels = max(132, min(65535, int(8e9 / (inputs * 128 * blocks)), int(8e9 / (products * 8))))
    data = gpu.empty((channels, blocks, inputs, 16 * bits), np.int8)
    pattern = random_rows(rng, ((1 << 22) // bits,), bits).ravel()
    whole = data.view((data.nbytes,), np.int8)
    filler = gpu.array(pattern)
    stride = len(pattern)
    from cuda.bindings import driver

    gpu.default_stream.synchronize()
    for at in range(0, whole.nbytes, stride):
        driver.cuMemcpyDtoD(whole.pointer + at, filler.pointer, min(stride, whole.nbytes - at))
    driver.cuCtxSynchronize()
    sums = gpu.empty((1, channels, products, 2), np.int32)
    useful = 4.0 * inputs * (inputs + 1) * channels * times
    multiply(data, sums, 0, blocks)
    if check and result["wrong"] == 0:
        gpu.default_stream.synchronize()
        for c in {0, channels // 2, channels - 1}:
            rows, out = np.empty((blocks, inputs, 16 * bits), np.int8), np.empty((products, 2), np.int32)
            driver.cuMemcpyDtoH(rows.ctypes.data, data.pointer + c * rows.nbytes, rows.nbytes)
            driver.cuMemcpyDtoH(out.ctypes.data, sums.pointer + c * out.nbytes, out.nbytes)
            result["wrong"] += int(np.count_nonzero(out != oracle(unpacked(rows, bits), pols)))
    launches, stream = [], gpu.default_stream
    stream.synchronize()
    with EnergyMeter() as meter:
        start = time.perf_counter()
        while time.perf_counter() - start < seconds:
            a = stream.record()
            multiply(data, sums, 0, blocks)
            b = stream.record()
            b.synchronize()
            launches.append(b.seconds_since(a))
    half = sorted(launches[len(launches) // 2 :])

    def pick(s):
        return half[min(len(half) - 1, int(s * len(half)))]

    result["tops"] = round(useful / pick(0.5) / 1e12, 1)
    result["range"] = [round(useful / pick(0.95) / 1e12), round(useful / pick(0.05) / 1e12)]
    result["burst"] = round(useful / min(launches[:8]) / 1e12)
    traffic = data.nbytes + sums.nbytes
    result["hbm_tb_s"] = round(traffic / pick(0.5) / 1e12, 2)
    watts = meter.joules / sum(launches)
    result["watts"] = round(watts) if watts == watts else 0
    print(json.dumps(result))


def main():
    """Run all cases and print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("inputs", nargs="*", type=int)
    parser.add_argument("--out", default=os.environ.get("OUT", "."))
    parser.add_argument("--only")
    parser.add_argument("--case")
    parser.add_argument("--no-check", action="store_true")
    parser.add_argument("--seconds", type=float, default=0.8)
    parser.add_argument("--times", type=int, nargs="*", default=[4096, 1024])
    args = parser.parse_args()
    if args.case:
        kernel, inputs, times, check = args.case.split(":")
        case(kernel, int(inputs), int(times), check == "1", args.seconds)
        return
    begin = time.perf_counter()
    sizes = args.inputs or [64, 128, 144, 160, 256, 512, 1024, 1, 2, 3, 8, 38, 127, 511]
    rated = [n for n in sizes if n >= 64 and n not in (127, 511)]
    kernels = [args.only] if args.only else ["hopper", "portable", "hopper4"]
    os.environ.setdefault("RYLE_CACHE_DIR", "/tmp/ryle-cache")
    # Compile everything beforehand, on all cores.
    code = (
        "import sys; from ryle.gpu.cache import cached_compile; from ryle.correlate import multiply as m; from pathlib import Path\n"
        "k, n = sys.argv[1], int(sys.argv[2]); form = {'hopper': m.HopperMultiply, 'portable': m.PortableMultiply}[k.rstrip('4')]\n"
        "cached_compile(Path(m.__file__).parent / (k.rstrip('4') + '.cu'), form.defines(n, 2 - n % 2, 4 if k[-1] == '4' else 8), 'sm_90a')"
    )
    jobs = [(k, n) for k in kernels for n in sizes]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        outcomes = pool.map(
            lambda job: subprocess.run(
                [sys.executable, "-c", code, job[0], str(job[1])], capture_output=True, text=True
            ),
            jobs,
        )
        for job, outcome in zip(jobs, outcomes, strict=True):
            if outcome.returncode:
                print("compile", *job, outcome.stderr.strip()[-600:])
    print(f"compiled {len(jobs)} kernels in {time.perf_counter() - begin:.0f} s", flush=True)
    results, hung = [], set()

    def measure(job):
        kernel, n, times, check, seconds = job
        if kernel in hung:
            return
        command = [sys.executable, __file__, "--case", f"{kernel}:{n}:{times}:{check:d}", "--seconds", str(seconds)]
        label = f"{kernel:9}{n:5}{times:6}"
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
        except subprocess.TimeoutExpired as late:
            hung.add(kernel)
            results.append(dict(case=kernel, inputs=n, times=times, error="hung"))
            print(f"{label}  HUNG; {(late.stderr or b'').decode()[-300:]}", flush=True)
            return
        if done.returncode:
            results.append(dict(case=kernel, inputs=n, times=times, error=done.stderr.strip()[-1000:]))
            print(f"{label}  FAILED: {done.stderr.strip()[-500:]}", flush=True)
            return
        r = json.loads(done.stdout.splitlines()[-1])
        results.append(r)
        print(
            f"{label}  wrong {r.get('wrong', '-')!s:>6} {r.get('tops', 0):7.1f} TOPS {r.get('range')!s:>14}"
            f" burst {r.get('burst', 0):5} {r.get('hbm_tb_s', 0):5.2f} TB/s {r.get('watts', 0):4} W"
            f" {r['local_bytes']} local  t={time.perf_counter() - begin:.0f}",
            flush=True,
        )
        Path(args.out, "device_x.json").write_text(json.dumps(results, indent=1))

    small = [n for n in sizes if n not in rated]
    rates = [
        (k, n, times, not args.no_check and times == 4096, args.seconds)
        for times in args.times
        for k in kernels
        for n in rated
        if k == "hopper" or n in {"portable": (144, 1024), "hopper4": (64, 128, 1024)}[k]
    ]
    for job in rates:
        measure(job)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(measure, [(k, n, 64, True, 0.02) for k in kernels for n in small]))


if __name__ == "__main__":
    main()
