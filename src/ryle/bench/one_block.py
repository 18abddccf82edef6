"""The F-engine's kernel for all of 1024 channels in one block, beside its two kernels: rates in turns, and joules.

``python -m ryle.bench.one_block --json FILE`` measures K-blocks and MeerKAT heaps on the same samples, then each form
alone without a pause.
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

CHANNELS = 1024


def rows_of(gpu: Gpu, arena: Arena, case: Case, seconds: float, sustained: float) -> list[Row]:
    """Time both forms of a case in turns, then each alone without a pause."""
    forms = [FusedMeasured(gpu, arena), FusedMeasured(gpu, arena, one_block=True)]
    prepared = {form.name: ready for form in forms if (ready := form.prepare(case))}
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
    seconds: Annotated[float, typer.Option(help="Time for the turns of a layout.")] = 4.0,
    sustained: Annotated[float, typer.Option(help="Time for each form without a pause; 0: not at all.")] = 4.0,
    json: Annotated[Path | None, typer.Option(help="File for the rows.")] = None,
) -> None:
    """Measure and print."""
    from ryle.gpu import open_gpu

    gpu, console = open_gpu(), wide_console()
    cases = [long_launch(CHANNELS, layout=layout) for layout in ("blocks", "interleaved")]
    arena, rows = Arena(gpu, cases), []
    forms = [FusedMeasured(gpu, arena), FusedMeasured(gpu, arena, one_block=True)]
    compile_ahead((v for case in cases for form in forms for v in form.variants(case)), gpu.arch)
    for case in cases:
        with console.status(str(case)):
            rows += rows_of(gpu, arena, case, seconds, sustained)
    columns = {
        "layout": lambda row: str(row.more["layout"]),
        "sustained": lambda row: f"{row.more['sustained']:.1f}" if "sustained" in row.more else "",
        "J/Gsample": lambda row: f"{row.more['joules']:.3f}" if "joules" in row.more else "",
    }
    console.print(table(rows, columns))
    save(json, machine(gpu), rows, console)


if __name__ == "__main__":
    typer.run(main)
