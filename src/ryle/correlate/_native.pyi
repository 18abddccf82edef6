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

def unpack_packets(
    packets: NDArray[np.uint8],
    valid: NDArray[np.uint64],
    spectrum: NDArray[np.int64],
    channel: NDArray[np.int64],
    input: NDArray[np.int64],
    conjugated: NDArray[np.uint8],
    bits: int,
    flip: int,
    swapped: bool,
    data: NDArray[np.int8],
) -> int: ...
