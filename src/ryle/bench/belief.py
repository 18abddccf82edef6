"""What trials say of a capacity, when some lose packets by chance and some lose none above it: a posterior.

The model: a trial at rate r loses nothing with probability (1 - chance)·Φ(ln(c/r) / width), c the capacity. Near it
loss is a random event, so that figures differ by a few percent from search to search (Merry 2023, 5.4): that is the
width. Far below it packets are lost by chance: seldom on a machine that nobody disturbs, often while a host takes its
processor away. So a loss while it was disturbed says little, and a trial without loss says the same whenever it was
made.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

#: Relative width of the edge between no loss and loss.
WIDTH = 0.01
#: Chance of a loss that capacity has nothing to do with, in a trial of a usual length.
UNDISTURBED, DISTURBED = 0.05, 0.7
_STEP = 0.001  # of ln c
#: Chance that a trial above capacity shows no loss: luck, and buffers, which hold what comes in a short one.
HIDDEN, BRIEF = 0.005, 0.3


class Belief:
    """A distribution over capacities, at first the same for equal ratios.

    Parameters
    ----------
    least, most : float
        Between which the capacity is; the ends stand for all that is beyond.
    """

    def __init__(self, least: float, most: float) -> None:
        steps = max(2, math.ceil(math.log(most / least) / _STEP))
        self._capacities: NDArray[np.float64] = np.linspace(math.log(least), math.log(most), steps)
        self._weights: NDArray[np.float64] = np.full(steps, 1.0 / steps)

    def learn(self, rate: float, lossless: bool, chance: float = UNDISTURBED, hidden: float = HIDDEN) -> None:
        """Take a trial in.

        Parameters
        ----------
        rate : float
            At which packets were sent.
        lossless : bool
            Whether none was lost.
        chance : float
            Of a loss for other reasons, in a trial like this.
        hidden : float
            Chance that a trial like this shows no loss above capacity.
        """
        edge = ndtr((self._capacities - math.log(rate)) / WIDTH)
        good = (1 - chance) * (edge + hidden * (1 - edge))
        self._weights *= good if lossless else 1 - good
        self._weights /= self._weights.sum()

    def quantile(self, share: float) -> float:
        """Give the capacity that the true one is below with a probability."""
        total = np.cumsum(self._weights)
        return float(np.exp(np.interp(share, total, self._capacities)))
