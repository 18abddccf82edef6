"""Run every form of Hopper's X-engine kernel, small, for a sanitizer to watch.

    compute-sanitizer --report-api-errors no --tool racecheck python -m ryle.bench.sanitize [--ahead]

and with memcheck. Each block of threads has several tiles, sums are written, then added to, and compared with exact
ones. Exit status 1 says that some are wrong. ``--ahead`` only compiles, on all cores: do that first, without the
sanitizer.
"""

import sys
from typing import Annotated, Any

import numpy as np
import typer

from ryle.bench.ahead import compile_ahead
from ryle.bench.correlations import in_form, random_samples
from ryle.chunk import BLOCK
from ryle.correlate.multiply import HopperMultiply
from ryle.correlate.samples import HeapsMultiply, SamplesMultiply, TimeMajorMultiply
from ryle.gpu import Gpu, GpuUnavailable, open_gpu

KERNELS: dict[str, type[HopperMultiply]] = {"time-major": TimeMajorMultiply, "heaps": HeapsMultiply}
#: Inputs and polarizations of each form: a size of each way that the kernel cuts them.
SHAPES = {
    "K-blocks": (
        *((n, 1) for n in (1, 3, 97, 127, 129, 157, 160, 270, 513)),
        *((n, 2) for n in (38, 64, 128, 144, 150, 160, 192, 256, 272, 386, 400, 576, 640)),
    ),
    "packed": ((129, 1), (390, 1), *((n, 2) for n in (64, 128, 144, 160, 272, 400))),
    "time-major": ((72, 1), (152, 1), (160, 1), *((n, 2) for n in (64, 128, 144, 160, 256))),
    "heaps": tuple((n, 2) for n in (38, 64, 128, 144, 160, 256)),
}
BLOCKS = 4


class FewBlocks:
    """A GPU that says it has two multiprocessors: each block of threads gets more than one tile."""

    multiprocessors = 2

    def __init__(self, gpu: Gpu) -> None:
        self._gpu = gpu

    def __getattr__(self, name: str) -> Any:
        return getattr(self._gpu, name)


def bits_of(form: str) -> int:
    """Bits of a part."""
    return 4 if form == "packed" else 8


def wrong_sums(gpu: Gpu, form: str, inputs: int, pols: int) -> int:
    """Write sums of random samples, add them again and count those that are not twice the exact ones."""
    channels = 5 if inputs < 300 else 3
    parts, exact = random_samples(channels, BLOCKS, inputs, pols, bits_of(form))
    sums = gpu.array(np.full((1, *exact.shape), 5, np.int32))
    few: Any = FewBlocks(gpu)
    if form in KERNELS:
        samples: Any = KERNELS[form]
        kernel: SamplesMultiply = samples(few, inputs, pols)
        ordered = in_form(parts, form).reshape(samples.shape(inputs, pols, channels, BLOCK * BLOCKS))
        data, clamped = gpu.array(ordered), gpu.array(np.zeros(1, np.uint64))
        gpu.default_stream.synchronize()
        for add in (False, True):
            kernel.multiply(data, sums, 0, BLOCKS, add=add, clamped=clamped)
    else:
        multiply = HopperMultiply(few, inputs, pols, bits_of(form))
        data = gpu.array(in_form(parts, form))
        gpu.default_stream.synchronize()
        for add in (False, True):
            multiply(data, sums, 0, BLOCKS, add=add)
    gpu.default_stream.synchronize()
    return int(np.count_nonzero(sums.get()[0] != 2 * exact))


def main(ahead: Annotated[bool, typer.Option("--ahead", help="Only compile, on all cores.")] = False) -> None:
    """Run all shapes, or compile them."""
    try:
        gpu = open_gpu()
    except GpuUnavailable as error:
        sys.exit(f"there is no GPU to run them on: {error}")
    shapes = [(form, *shape) for form, sizes in SHAPES.items() for shape in sizes]
    if ahead:
        variants = []
        for form, inputs, pols in shapes:
            kernel = KERNELS.get(form, HopperMultiply)
            variants.append((kernel.SOURCE, kernel.defines(inputs, pols, bits_of(form), gpu.shared_bytes)))
        print(f"{compile_ahead(variants, gpu.arch)} kernels compiled")
        return
    failed = 0
    for form, inputs, pols in shapes:
        wrong = wrong_sums(gpu, form, inputs, pols)
        failed += wrong > 0
        print(f"{form}, {inputs} inputs of {pols} polarizations: {f'{wrong} sums wrong' if wrong else 'exact'}")
    print(f"{len(shapes)} shapes, {failed} of them wrong")
    sys.exit(failed > 0)


if __name__ == "__main__":
    typer.run(main)
