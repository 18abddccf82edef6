"""CPU hot loops of the X-engine, from ``native/correlate``."""

import numpy as np
from numpy.typing import NDArray

RUN_BLOCKS: int

def kernels() -> dict[str, str | None]: ...

class Accumulator:
    def __init__(self, kernel: str, inputs: int, product: NDArray[np.int32], products: int, threads: int) -> None: ...
    def add(
        self,
        data: NDArray[np.int8],
        valid: NDArray[np.uint64],
        visibilities: NDArray[np.int64],
        counts: NDArray[np.uint32],
    ) -> int: ...
