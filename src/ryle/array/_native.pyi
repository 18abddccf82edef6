import numpy as np
from numpy.typing import NDArray

def evaluate(
    counts: NDArray[np.int64],
    starts: NDArray[np.int64],
    numbers: NDArray[np.float64],
    ends: NDArray[np.int64],
    coarse: NDArray[np.int64],
    fine: NDArray[np.float64],
    phase: NDArray[np.float64],
) -> None: ...
