"""What the writer of visibilities does with every number, from ``native/products``."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

def normalize(
    sums: NDArray[np.int64],
    kind: Literal["int64", "swapped", "float64"],
    counts: NDArray[np.uint32],
    product: NDArray[np.int64],
    sign: NDArray[np.int64],
    first: int,
    step: int,
    out: NDArray[np.float32],
) -> None: ...
