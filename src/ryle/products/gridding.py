"""Visibilities of an image: onto a grid of pixels with ducc0's w-gridder, and those of point sources anywhere.

A source at direction cosines (l east, m north) gives V = e^{+2πi(ul+vm+w(n−1))f/c}, so the dirty image is
Re Σ w V e^{−2πi(ul+vm+w(n−1))f/c} / Σ w. ducc0's convention has the opposite sign of u and v for this, hence ``flip_u``
and ``flip_v``. Pixels are (declination, right ascension), north up and east to the left, as in every FITS image.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from ducc0.wgridder import vis2dirty
from numpy.typing import NDArray

LIGHT = 299792458.0
#: Terms of visibilities times sources prepared in memory at a time.
_TERMS = 1 << 21


@dataclass(frozen=True)
class Sampled:
    """Unflagged cross-correlations of one Stokes parameter, weighted for an image.

    Parameters
    ----------
    uvw : ndarray of float64, shape (row, 3)
        Metres.
    frequencies : ndarray of float64, shape (channel,)
        Hertz.
    values : ndarray of complex128, shape (row, channel)
        0 where the weight is.
    weights : ndarray of float64, shape (row, channel)
        Not all 0.
    pixel : float
        Radians (of direction cosine).
    threads : int
        For the gridder.
    """

    uvw: NDArray[np.float64]
    frequencies: NDArray[np.float64]
    values: NDArray[np.complex128]
    weights: NDArray[np.float64]
    pixel: float
    threads: int = 2

    def dirty(self, values: NDArray[np.complex128], side: int) -> NDArray[np.float64]:
        """Dirty image of visibilities at these points, shape (side, side), middle pixel ``(side/2, side/2 - 1)``."""
        plane = vis2dirty(
            uvw=self.uvw,
            freq=self.frequencies,
            vis=values,
            wgt=self.weights,
            npix_x=side,
            npix_y=side,
            pixsize_x=self.pixel,
            pixsize_y=self.pixel,
            epsilon=1e-6,
            do_wgridding=True,
            divide_by_n=False,
            flip_u=True,
            flip_v=True,
            flip_w=False,
            nthreads=self.threads,
        )
        # ducc0 has l along the first axis, growing; a sky image has it along the second, growing to the left.
        upright: NDArray[np.float64] = np.ascontiguousarray(plane.T[:, ::-1]) / self.weights.sum()
        return upright

    def model(self, sources: NDArray[np.float64]) -> NDArray[np.complex128]:
        """Visibilities of point sources, exact: shape (row, channel).

        Parameters
        ----------
        sources : ndarray of float64, shape (source, 3)
            Flux and direction cosines l, m of each.
        """
        total = np.empty(self.values.shape, np.complex128)
        for rows, waves, _ in self._waves(sources):
            total[rows] = waves @ sources[:, 0]
        return total

    def normal_equations(
        self, sources: NDArray[np.float64], left: NDArray[np.complex128]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Least squares for small changes of point sources, weights normalized to a sum of 1.

        Parameters
        ----------
        sources : ndarray of float64, shape (source, 3)
            Flux and direction cosines l, m.
        left : ndarray of complex128, shape (row, channel)
            What they do not explain.

        Returns
        -------
        matrix : ndarray of float64, shape (3 source, 3 source)
            Re JᴴWJ for flux, l, m of each source in turn.
        vector : ndarray of float64, shape (3 source,)
            Re JᴴW·left.
        """
        count = 3 * len(sources)
        matrix, vector = np.zeros((count, count)), np.zeros(count)
        for rows, waves, slopes in self._waves(sources):
            flux = sources[:, 0]
            parts = (waves, flux * slopes[0] * waves, flux * slopes[1] * waves)
            jacobian = np.stack(parts, axis=-1).reshape(-1, count)
            weighted = jacobian.conj() * self.weights[rows].reshape(-1, 1)
            matrix += np.real(weighted.T @ jacobian)
            vector += np.real(weighted.T @ left[rows].reshape(-1))
        total = self.weights.sum()
        return matrix / total, vector / total

    def _waves(
        self, sources: NDArray[np.float64]
    ) -> Iterator[tuple[slice, NDArray[np.complex128], tuple[NDArray[np.complex128], NDArray[np.complex128]]]]:
        """Answers to unit sources, some rows at a time, (row, channel, source), and their slopes along l and m."""
        east, north = sources[:, 1:].T
        n = np.sqrt(np.maximum(1 - east**2 - north**2, 1e-12))
        step = max(1, _TERMS // (self.frequencies.size * max(1, len(sources))))
        turns = 2j * np.pi * self.frequencies[np.newaxis, :, np.newaxis] / LIGHT
        for first in range(0, len(self.uvw), step):
            rows = slice(first, first + step)
            u, v, w = (self.uvw[rows, axis, np.newaxis, np.newaxis] for axis in range(3))
            waves = np.exp(turns * (u * east + v * north + w * (n - 1)))
            yield rows, waves, (turns * (u - w * east / n), turns * (v - w * north / n))
