"""What F-engines tell of their inputs, in packets (``formats/ryle_statistics.toml``) and in arrays."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

#: The packets' description.
FORMAT = "ryle_statistics"
#: Levels of a histogram that a packet holds.
LEVELS = 256
#: Numbers that a packet's header has of its input, in the order of arrays.
NUMBERS = ("samples", "power", "values", "saturated")


def histogram_levels(bits: int) -> NDArray[np.int64]:
    """ADC values that histograms count, of digitizers of so many bits; with more than 10, several make a level."""
    reach = 1 << (min(bits, 10) - 1)
    return np.arange(-reach, reach + 1)


def parts(bits: int) -> int:
    """Packets that hold a histogram."""
    return -(-len(histogram_levels(bits)) // LEVELS)
