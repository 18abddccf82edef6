"""Time trial forms of Hopper's X-engine kernel in turn.

    python -m ryle.bench.compare_kernels . wide=/tmp/trial,DEPTH=4

Equal code varies by 5 % from one start of a machine to the next, and what a kernel does in its first tenths of a second
it does not sustain: only forms that take turns in one process can be told apart. Each argument is a folder that holds
``ryle/correlate/hopper.cu`` and what it includes (``.`` is this repository's), with a name before it and macros after
it. All are checked for exact sums first; those that are wrong are said and timed all the same. ``--cycles`` then tells
where the cycles of a tile go, and at which clock: what the driver says can be 10 % too high under such work.
"""

import statistics
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from ryle.bench.ahead import compile_ahead
from ryle.bench.correlations import random_samples, useful_operations
from ryle.bench.gpu_timing import Sustained, sustain
from ryle.bench.harness import ratios, take_turns
from ryle.bench.memory import random_bytes
from ryle.chunk import BLOCK, rows_from_parts
from ryle.correlate.multiply import HopperMultiply
from ryle.gpu import Gpu, GpuUnavailable, open_gpu
from ryle.gpu.power import EnergyMeter

_BYTES, _SUMS = 12 << 30, 10 << 30
_TRACED, _EVENTS = 64, 3  # tiles of each warpgroup, and what is noted of them, as in hopper_trace.cuh


def trial(argument: str) -> tuple[str, type[HopperMultiply]]:
    """Read ``[NAME=]FOLDER[,MACRO=VALUE...]``: the name and the kernel.

    Raises
    ------
    typer.BadParameter
        If the folder has no kernel or a macro no whole number.
    """
    first, *rest = argument.split(",")
    name, _, folder = first.rpartition("=")
    source = HopperMultiply.SOURCE if folder == "." else Path(folder) / "ryle" / "correlate" / "hopper.cu"
    if not source.is_file():
        raise typer.BadParameter(f"{argument!r}: there is no {source}; name a folder that holds ryle/correlate")
    try:
        macros = {key: int(value) for key, value in (macro.split("=") for macro in rest)}
    except ValueError:
        raise typer.BadParameter(f"{argument!r}: macros are MACRO=NUMBER, with commas before them") from None

    class Trial(HopperMultiply):
        SOURCE = source

        @classmethod
        def defines(cls, *args: Any, **kwargs: Any) -> dict[str, int]:
            return {**HopperMultiply.defines(*args, **kwargs), **macros}

    return name or argument, Trial


def wrong_sums(gpu: Gpu, kernel: HopperMultiply, inputs: int, channels: int = 12, blocks: int = 17) -> int:
    """Count the sums of random samples that are wrong."""
    parts, exact = random_samples(channels, blocks, inputs, 2)
    sums, rows = gpu.array(np.full((1, *exact.shape), 77, np.int32)), gpu.array(rows_from_parts(parts))
    gpu.default_stream.synchronize()
    kernel(rows, sums, 0, blocks)
    return int(np.count_nonzero(sums.get()[0] != exact))


def turns_of(
    gpu: Gpu, kernels: dict[str, HopperMultiply], data: Any, sums: Any, blocks: int, turns: int, seconds: float
) -> dict[str, list[Sustained]]:
    """Let each kernel run in its turn, back and forth; before, the first for the GPU to warm up."""
    stream, meter = gpu.stream(), EnergyMeter()

    def run(kernel: HopperMultiply) -> Sustained:
        return sustain(lambda stream: kernel(data, sums, 0, blocks, stream=stream), stream, seconds, meter)

    run(next(iter(kernels.values())))
    return take_turns({name: partial(run, kernel) for name, kernel in kernels.items()}, turns, back_and_forth=True)


@dataclass(frozen=True)
class Cycles:
    """Where the cycles of a warpgroup's tiles go, in the mean of all warpgroups, and the clock that follows, in Hz."""

    tile: float
    multiply: float
    write: float
    clock: float


def cycles_of(
    gpu: Gpu, traced: HopperMultiply, inputs: int, data: Any, sums: Any, blocks: int, seconds: float
) -> Cycles | None:
    """Run a form that notes the cycles of its first tiles; those of the first quarter do not count.

    None if what is there are no cycles: the form does not know of ``TRACED``, or a warpgroup had fewer tiles.
    """
    stream = gpu.stream()
    settled = sustain(lambda stream: traced(data, sums, 0, blocks, stream=stream), stream, seconds)
    tiles = traced.tiles * sums.shape[1]
    multiprocessors = min(gpu.multiprocessors, tiles)
    noted = sums.view((multiprocessors, 2, _TRACED, _EVENTS), np.int32).get().view(np.uint32)[:, :, _TRACED // 4 :]
    passed = np.diff(noted.reshape(multiprocessors, 2, -1))  # from one event to the next, modulo 2^32
    if passed.min() == 0 or passed.max() >= 1 << 31:
        return None
    begun, multiplied, written = (noted[..., event] for event in range(_EVENTS))
    tile = float(np.mean(np.diff(begun)))
    teams = 2 if inputs <= 64 else 1  # that have tiles of their own
    return Cycles(
        tile,
        float(np.mean(multiplied - begun)),
        float(np.mean(written - multiplied)),
        tile * tiles / settled.seconds / multiprocessors / teams,
    )


def main(
    forms: Annotated[list[str], typer.Argument(help="[NAME=]FOLDER[,MACRO=VALUE...], the one to compare with first.")],
    inputs: Annotated[str, typer.Option(help="Numbers of inputs, all even.")] = "128,144,1024",
    times: Annotated[str, typer.Option(help="Spectra of an integration, multiples of 64.")] = "1024,4096",
    turns: Annotated[int, typer.Option(help="Of each form.", min=1)] = 3,
    seconds: Annotated[float, typer.Option(help="Of a turn; the second half counts.", min=0.1)] = 1.0,
    cycles: Annotated[bool, typer.Option("--cycles", help="Tell where the cycles of a tile go.")] = False,
) -> None:
    """Compare them, for all numbers of inputs and lengths."""
    trials = dict(map(trial, forms))
    try:
        gpu, console = open_gpu(), Console()
    except GpuUnavailable as error:
        sys.exit(f"there is no GPU to time them on: {error}")
    counts = [int(count) for count in inputs.split(",")]
    traced = dict(zip(trials, (trial(f"{form},TRACED={_TRACED}")[1] for form in forms), strict=True)) if cycles else {}
    compile_ahead(
        (
            (kernel.SOURCE, kernel.defines(count, 2, 8, gpu.shared_bytes))
            for kernel in (*trials.values(), *traced.values())
            for count in counts
        ),
        gpu.arch,
    )
    data, room = random_bytes(gpu, _BYTES, -127), gpu.empty(_SUMS, np.int8)
    for count in counts:
        kernels = {name: kernel(gpu, count, 2) for name, kernel in trials.items()}
        wrong = {name: wrong_sums(gpu, kernel, count) for name, kernel in kernels.items()}
        for length in map(int, times.split(",")):
            blocks, products = length // BLOCK, count * (count // 2 + 1)
            channels = min(_BYTES // (blocks * count * 2 * BLOCK), _SUMS // (products * 8))
            rows = data.view((channels, blocks, count, 2 * BLOCK), np.int8)
            sums = room.view((1, channels, products, 2), np.int32)
            runs = turns_of(gpu, kernels, rows, sums, blocks, turns, seconds)
            first = runs[next(iter(runs))]
            operations = useful_operations(count, channels * length)
            table = Table("form", "TOPS", "turns", "to the first", "MHz", "W", title=f"{count} inputs, {length} times")
            for name, each in runs.items():
                rates = [operations / one.seconds / 1e12 for one in each]
                ratio = statistics.median(ratios([one.seconds for one in first], [one.seconds for one in each]))
                table.add_row(
                    name + (f": {wrong[name]} sums wrong" if wrong[name] else ""),
                    f"{statistics.median(rates):.1f}",
                    f"{min(rates):.0f}-{max(rates):.0f}",
                    f"{100 * (ratio - 1):+.1f} %",
                    f"{statistics.median(one.clock for one in each) / 1e6:.0f}",
                    f"{statistics.median(one.joules / one.seconds for one in each):.0f}",
                )
            console.print(table)
            if cycles:
                table = Table("form", "cycles a tile", "multiply", "write", "between", "MHz")
                for name, kernel in traced.items():
                    if one := cycles_of(gpu, kernel(gpu, count, 2), count, rows, sums, blocks, 2 * seconds):
                        between = one.tile - one.multiply - one.write
                        figures = (one.tile, one.multiply, one.write, between, one.clock / 1e6)
                        table.add_row(name, *(f"{figure:.0f}" for figure in figures))
                    else:
                        table.add_row(name, f"not noted, or fewer than {_TRACED} tiles")
                console.print(table)


if __name__ == "__main__":
    typer.run(main)
