"""The F-engine's fused kernel, with rings of several depths, beside its two kernels: rates in turns, and joules.

``python -m ryle.bench.rings --json FILE`` measures K-blocks and MeerKAT heaps at each number of channels that the fused
kernel does, on the same samples.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ryle.bench.ahead import compile_ahead
from ryle.bench.channelize import Arena
from ryle.bench.fused import FusedMeasured
from ryle.bench.gpu_timing import interleave, record, sustain
from ryle.bench.harness import ratios
from ryle.bench.measured import Case, long_launch
from ryle.bench.results import Row, machine, save, table, wide_console
from ryle.gpu import Gpu
from ryle.gpu.power import EnergyMeter

CHANNELS, DEPTHS = (1024, 2048, 4096, 8192, 32768), (2, 3, 4, 6, 8)


def forms(gpu: Gpu, arena: Arena, case: Case, depths: list[int]) -> list[FusedMeasured]:
    """Give the two kernels, and the fused one with each depth of ring that it does on this device."""
    found = [FusedMeasured(gpu, arena)]
    for depth in depths:
        fused = FusedMeasured(gpu, arena, depth)
        try:
            fused.plan(case)
        except ValueError:
            continue
        found.append(fused)
    return found


def rows_of(gpu: Gpu, arena: Arena, case: Case, depths: list[int], seconds: float, sustained: float) -> list[Row]:
    """Time the forms of a case in turns, each beside the two kernels, then each alone without a pause."""
    prepared = {form.name: ready for form in forms(gpu, arena, case, depths) if (ready := form.prepare(case))}
    times = interleave({name: ready.launch for name, ready in prepared.items()}, gpu, seconds, rounds=9)
    first = next(iter(times))
    meter, stream, rows = EnergyMeter(), gpu.stream(), []
    for name, timed in times.items():
        low, high = timed.quartiles
        count = case.samples / 1e9
        row = Row(name, count / timed.median, "Gsample/s", {"channels": case.channels})
        row.spread = count / high, count / low
        row.more = {"layout": case.layout}
        if name != first:
            turns = ratios(times[first].seconds, timed.seconds)
            row.baseline, row.baseline_value = first, count / times[first].median
            row.ratio = sorted(turns)[len(turns) // 2]
        if meter.available and sustained > 0:
            found = sustain(record(prepared[name].launch, stream), stream, sustained, meter)
            row.more |= {
                "sustained": count / found.seconds,
                "joules": found.joules / count,
                "watts": found.joules / found.seconds,
                "clock": found.clock,
            }
        rows.append(row)
    return rows


def main(
    channels: Annotated[list[int], typer.Option(help="Numbers of channels.")] = list(CHANNELS),  # noqa: B006 - typer
    depths: Annotated[list[int], typer.Option(help="Tiles of a ring.")] = list(DEPTHS),  # noqa: B006 - typer
    seconds: Annotated[float, typer.Option(help="Time for the turns of a case.")] = 6.0,
    sustained: Annotated[float, typer.Option(help="Time for each form without a pause; 0: not at all.")] = 4.0,
    json: Annotated[Path | None, typer.Option(help="File for the rows.")] = None,
) -> None:
    """Measure and print."""
    from ryle.gpu import open_gpu

    gpu, console = open_gpu(), wide_console()
    cases = [long_launch(n, layout=layout) for n in channels for layout in ("blocks", "interleaved")]
    arena, rows = Arena(gpu, cases), []
    compile_ahead((v for c in cases for form in forms(gpu, arena, c, depths) for v in form.variants(c)), gpu.arch)
    for case in cases:
        with console.status(str(case)):
            rows += rows_of(gpu, arena, case, depths, seconds, sustained)
    columns = {
        "layout": lambda row: str(row.more["layout"]),
        "sustained": lambda row: f"{row.more['sustained']:.1f}" if "sustained" in row.more else "",
        "J/Gsample": lambda row: f"{row.more['joules']:.3f}" if "joules" in row.more else "",
    }
    console.print(table(rows, columns))
    save(json, machine(gpu), rows, console)


if __name__ == "__main__":
    typer.run(main)
