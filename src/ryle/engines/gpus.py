"""Which GPUs an engine uses, and the memory that it copies from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, cast

import numpy as np
from numpy.typing import NDArray

from ryle.config import Observation
from ryle.gpu import Gpu, open_gpu

#: Gives so many bytes of memory that begin on a page.
Memory = Callable[[int], NDArray[np.uint8]]


def gpus_for(observation: Observation, engine: Literal["f", "x", "fx"], index: int = 0) -> list[Gpu]:
    """Open what the engine of a kind that has a number runs on: a GPU, all that F and X share, or none: a CPU.

    Raises
    ------
    GpuUnavailable
        If one cannot be used; says why.
    """
    return [open_gpu(number) for number in gpu_numbers(observation, engine, index)]


def gpu_numbers(observation: Observation, engine: str, index: int = 0) -> list[int]:
    """Give the numbers of the GPUs, in the order of CUDA, that an engine of any kind runs on; none: a CPU."""
    o, half = observation, cast(Literal["f", "x"], engine[0])
    if engine not in ("f", "x", "fx") or (o.fengine if half == "f" else o.xengine).backend != "cuda":
        return []
    count = o.fx_gpus if engine == "fx" else 1
    return [next(iter(o.gpu_of(half, index + i)), 0) for i in range(count)]


def locked(gpus: Sequence[Gpu]) -> Memory | None:
    """Give what allocates page-locked memory, which all GPUs copy from; None without a GPU."""
    return (lambda nbytes: gpus[0].pinned((nbytes,), np.uint8)) if gpus else None
