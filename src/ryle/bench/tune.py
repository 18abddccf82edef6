"""Find the sizes with which the three kernels are fastest on a GPU: ``python -m ryle.bench.tune [--seconds S]``.

From the present choice on, one size at a time is varied and the best value kept, twice over. What is found belongs in
`ryle.bench.three_kernels.TUNINGS`.
"""

import time
from dataclasses import replace
from typing import Annotated, Any

import typer

from ryle.bench.channelize import Arena, ThreeKernelsMeasured
from ryle.bench.gpu_timing import interleave
from ryle.bench.measured import CHANNELS, Case, long_launch
from ryle.bench.three_kernels import Tuning, tuning_of
from ryle.gpu import open_gpu

CHOICES: dict[str, list[Any]] = {
    "chunk_samples": [1 << k for k in range(20, 29)],
    "lanes": [1, 2, 3, 4],
    "columns": [1, 2, 4],
    "per_thread": [32, 64, 128, 256, 512],
    "blocks_first": [False, True],
    "split": [False, True],
}


def main(
    seconds: Annotated[float, typer.Option(help="Time for all of it.")] = 60.0,
    taps: int = 16,
    bits: int = 10,
) -> None:
    """Vary the sizes for each number of channels."""
    gpu = open_gpu()
    cases = [long_launch(n, taps, bits) for n in CHANNELS]
    arena = Arena(gpu, cases)

    def rate(case: Case, tuning: Tuning) -> tuple[float, dict[str, float]]:
        prepared = ThreeKernelsMeasured(gpu, arena, lambda _: tuning).prepare(case)
        assert prepared is not None
        times = interleave({"all": prepared.launch, **prepared.parts}, gpu, 0.08, rounds=3)
        rates = {name: case.samples / t.median / 1e9 for name, t in times.items()}
        return rates.pop("all"), rates

    for number, case in enumerate(cases):
        end = time.monotonic() + seconds / len(cases)
        best = tuning_of(case.channels)
        fastest, parts = rate(case, best)
        print(f"{case}\n  {fastest:6.1f} Gsample/s {shown(parts)} {best}", flush=True)
        for name in [*CHOICES, *CHOICES]:
            for value in CHOICES[name]:
                tried = replace(best, **{name: value})
                if tried == best or time.monotonic() > end:
                    continue
                try:
                    found, parts = rate(case, tried)
                except (RuntimeError, MemoryError, ValueError) as error:
                    print(f"         {name} = {value}: {error}")
                    continue
                print(f"  {found:6.1f} {name} = {value} {shown(parts)}", flush=True)
                if found > fastest:
                    fastest, best = found, tried
        print(f"  best: {fastest:.1f} Gsample/s with {best} ({number + 1} of {len(cases)})", flush=True)


def shown(parts: dict[str, float]) -> str:
    """Write the rates of the steps."""
    return f"({', '.join(f'{name} {value:.0f}' for name, value in parts.items())})"


if __name__ == "__main__":
    typer.run(main)
