"""A glance at an integration: what live views draw of it, small whatever the array, in a file.

While somebody watches, an engine that writes visibilities leaves one beside its status page, each in the place of the
one before. Visibilities are normalized: sums by the number of spectra that contributed. Where nothing did, they are
NaN. As in the engines, baseline (a1, a2), a1 ≤ a2, has index a2(a2+1)/2 + a1, product = p²·baseline + p1 + p·p2, the
value is X(a1,p1)·conj(X(a2,p2)), and channels are in the order of baseband.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ryle.products.bundle import BundleError, bundled, unbundled

_MAGIC = b"RYLEGLN1"
#: Arrays of a glance, in the order of a file, and their types.
_ARRAYS = {
    "power": "<f4",
    "power_channels": "<i8",
    "coarse": "<c8",
    "coarse_edges": "<i8",
    "present": "<f4",
    "spectra": "<c8",
    "chosen": "<i8",
}
_NUMBERS = ("number", "first_spectrum", "integration", "first_channel", "channels", "antennas", "pols")
#: Channels that a spectrum has at most; of more, neighbours are averaged. Parts of the band that all products are
#: averaged over.
MOST_CHANNELS, PARTS = 1024, 32


class GlanceError(ValueError):
    """What should be a glance is none."""


@dataclass(frozen=True)
class Glance:
    """What is seen of an integration.

    Parameters
    ----------
    number : int
        Which it is in the file, counted from 1.
    first_spectrum, integration : int
        Spectra since sync, and how many it spans.
    first_channel, channels : int
        Those that whoever made it writes: all, or a band.
    antennas, pols : int
        Of the array.
    power : ndarray of float32, shape (input, bin)
        Autocorrelation of each input, mean square of its quantized spectra.
    power_channels : ndarray of int64, shape (bin + 1,)
        Edges of the bins, channels.
    coarse : ndarray of complex64, shape (part, product)
        Every product, averaged over parts of the band.
    coarse_edges : ndarray of int64, shape (part + 1,)
        Edges of the parts, channels.
    present : ndarray of float32, shape (input,)
        Share of the integration's spectra that each input had.
    spectra : ndarray of complex64, shape (chosen, bin)
        Of the products that somebody chose to see, bins as of `power`.
    chosen : ndarray of int64, shape (chosen,)
        Those products.
    """

    number: int
    first_spectrum: int
    integration: int
    first_channel: int
    channels: int
    antennas: int
    pols: int
    power: NDArray[np.float32]
    power_channels: NDArray[np.int64]
    coarse: NDArray[np.complex64]
    coarse_edges: NDArray[np.int64]
    present: NDArray[np.float32]
    spectra: NDArray[np.complex64]
    chosen: NDArray[np.int64]

    def to_bytes(self) -> bytes:
        """Write it (`ryle.products.bundle`)."""
        arrays = {name: getattr(self, name).astype(kind, copy=False) for name, kind in _ARRAYS.items()}
        return bundled(_MAGIC, {name: getattr(self, name) for name in _NUMBERS}, arrays)

    @classmethod
    def from_bytes(cls, data: bytes) -> Glance:
        """Read what `to_bytes` wrote.

        Raises
        ------
        GlanceError
            If it is something else, or cut.
        """
        try:
            return cls(**unbundled(_MAGIC, data, _ARRAYS))
        except (BundleError, TypeError) as error:
            raise GlanceError(f"no glance at visibilities: {error}") from None


def bins(channels: int, most: int) -> NDArray[np.int64]:
    """Divide channels into at most so many bins, as even as may be; give their edges, shape (bin + 1,)."""
    count = min(channels, most)
    return np.arange(count + 1, dtype=np.int64) * channels // count
