from typing import Any

import numpy as np
from numpy.typing import NDArray

COLUMNS: int
TILE: int

def instruction_sets() -> list[str]: ...
def fir(
    samples: NDArray[np.float32],
    starts: NDArray[np.int64],
    weights: NDArray[np.float32],
    taps: int,
    out: NDArray[np.float32],
    step: int,
    isa: str = "",
) -> None: ...
def quantize(
    spectra: NDArray[np.float32],
    valid: NDArray[np.uint8],
    fine: NDArray[np.float64],
    phase: NDArray[np.float64],
    quarters: NDArray[np.int64],
    slope: float,
    gains: NDArray[np.complex64],
    dither: bool,
    seed: int,
    first_spectrum: int,
    input: int,
    limit: int,
    form: int,
    out: NDArray[Any],
    offset: int,
    channel_stride: int,
    group_stride: int,
    spectrum_stride: int,
    group: int,
    out_spectrum: int,
    isa: str = "",
) -> int: ...
def whole_windows(
    starts: NDArray[np.int64],
    window: int,
    present: NDArray[np.uint8],
    packet_samples: int,
    out: NDArray[np.bool_],
) -> None: ...
def rotate(
    spectra: NDArray[np.float32],
    valid: NDArray[np.uint8],
    fine: NDArray[np.float64],
    phase: NDArray[np.float64],
    quarters: NDArray[np.int64],
    slope: float,
    gains: NDArray[np.complex64],
    out: NDArray[np.complex64],
    isa: str = "",
) -> None: ...
