"""Which GPU an engine uses, and the memory that it copies from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ryle.config import Observation
from ryle.gpu import Gpu, open_gpu

#: Gives so many bytes of memory that begin on a page.
Memory = Callable[[int], NDArray[np.uint8]]


def gpu_for(observation: Observation, engine: Literal["f", "x"], index: int = 0) -> Gpu | None:
    """Open the GPU of the engine of a kind, or half of FX, that has a number; None if it runs on a CPU.

    Raises
    ------
    GpuUnavailable
        If there is none that can be used; says why.
    """
    backend = (observation.fengine if engine == "f" else observation.xengine).backend
    return open_gpu(*observation.gpu_of(engine, index)) if backend == "cuda" else None


def locked(gpu: Gpu | None) -> Memory | None:
    """Give what allocates page-locked memory for a GPU's copies; None without a GPU."""
    return None if gpu is None else lambda nbytes: gpu.pinned((nbytes,), np.uint8)
