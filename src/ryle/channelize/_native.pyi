from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

COLUMNS: int
TILE: int
LEAD: int

def instruction_sets() -> list[str]: ...
def whole_windows(
    coarse: NDArray[np.int64],
    origin: int,
    step: int,
    window: int,
    present: NDArray[np.uint8],
    packet_samples: int,
    out: NDArray[np.bool_],
) -> None: ...

class Some:
    def __init__(
        self,
        pieces: Sequence[NDArray[np.uint8]],
        values: Sequence[int],
        starts: NDArray[np.int64],
        valid: NDArray[np.uint8],
        fine: NDArray[np.float64],
        phase: NDArray[np.float64],
        coarse: NDArray[np.int64],
        gains: NDArray[np.complex64],
        conjugated: bool,
    ) -> None: ...

class Workspace:
    def __init__(self, rows: NDArray[np.float32], transform: Callable[[int, int], None]) -> None: ...

class Channelizer:
    def __init__(
        self,
        bits: int,
        parts: int,
        taps: int,
        channels: int,
        weights: NDArray[np.float32],
        group: int,
        slope: float,
        isa: str = "",
    ) -> None: ...
    def quantize(
        self,
        some: Some,
        work: Workspace,
        dither: bool,
        seed: int,
        input: int,
        limit: int,
        first_spectrum: int,
        form: int,
        out: NDArray[Any],
        offset: int,
        channel_stride: int,
        group_stride: int,
        spectrum_stride: int,
        group: int,
        out_spectrum: int,
    ) -> tuple[int, int, float]: ...
    def rotate(self, some: Some, work: Workspace, out: NDArray[np.complex64]) -> None: ...
