"""Point sources of an image, with what is certain about each: fitted to the visibilities, not to the picture.

The strongest peak becomes a source, all sources are fitted together, the image of what they leave is made anew, and so
on (orthogonal matching pursuit; Pati, Rezaiifar & Krishnaprasad 1993). Side lobes, which a picture cannot tell from
sources, are gone once the source that made them is; a side lobe that was taken for a source loses its flux to the true
ones in the joint fit, and is dropped.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from astropy.coordinates import SkyCoord
from numpy.typing import NDArray

from ryle.products.image import Beam, Image

#: Antennas' gains that are off by 5 % leave artefacts as strong as this fraction of the strongest source, and of few
#: baselines as the second over the square root of their number: nothing weaker is listed.
DYNAMIC_RANGE, _FEW_BASELINES = 0.05, 0.5
#: Side lobes of this height look like their source, even to a fit: nobody can tell which is which.
HOPELESS_SIDE_LOBES = 0.9
#: A source stands out so much above the deepest hole of the residual: holes are no sources, but as deep as artefacts.
_ABOVE_HOLES = 1.2
_FIT_STEPS = 4
#: Below this the strongest peak is a source; above, so many peaks are tried as the first.
_LOW_SIDE_LOBES = 0.25
_STARTS = 6
#: Solutions that leave at most so much more power than the best are as good: nothing tells which is true.
_AS_GOOD = 1.25


@dataclass(frozen=True)
class FoundSource:
    """One source.

    Parameters
    ----------
    position : astropy.coordinates.SkyCoord
        ICRS.
    flux : float
        In units of the file.
    error : float
        Standard deviation of the flux, in the same units.
    position_error : float
        Standard deviation of the position along its worst direction, radians.
    """

    position: SkyCoord
    flux: float
    error: float
    position_error: float

    @property
    def significance(self) -> float:
        """Flux over its standard deviation."""
        return abs(self.flux) / self.error if self.error > 0 else float("inf")


@dataclass(frozen=True)
class Found:
    """Sources, and what they leave.

    Parameters
    ----------
    sources : list of FoundSource
        Strongest first.
    parameters : ndarray of float64, shape (source, 3)
        Flux and direction cosines l, m of each, in the same order.
    residual : ndarray of float64, shape (y, x)
        Dirty image of the visibilities without them.
    noise : float
        Robust standard deviation of `residual`.
    notes : tuple of str
        Why nothing was looked for.
    """

    sources: list[FoundSource]
    parameters: NDArray[np.float64]
    residual: NDArray[np.float64]
    noise: float
    notes: tuple[str, ...] = ()


def find_sources(image: Image, *, most: int = 20, threshold: float = 5.0) -> Found:
    """Find the point sources of a dirty image.

    Where side lobes are so high that the strongest peak may be several of them, each of the strongest peaks is tried
    as the first source; of the solution that explains most, those sources are kept that all others as good have.

    Parameters
    ----------
    image : Image
        With its visibilities. Nothing is found without a beam (see its notes), nor where side lobes reach
        `HOPELESS_SIDE_LOBES`.
    most : int
        At most so many.
    threshold : float
        Least significance. No source is weaker than `DYNAMIC_RANGE` allows either.

    Returns
    -------
    Found
        In Stokes I sources are positive, in Q, U and V of either sign.
    """
    lobe = 1.0 if image.beam is None else image.side_lobe(image.beam)
    if image.beam is None or lobe > HOPELESS_SIDE_LOBES:
        why = "no beam" if image.beam is None else f"side lobes of {lobe:.0%} of the peak"
        note = f"{why}: sources cannot be told from side lobes; take more antennas, or a longer observation"
        return Found([], np.zeros((0, 3)), image.dirty, robust_deviation(image.dirty), (note,))
    search = _Search(image, image.beam, most, threshold)
    tries = 1 if lobe < _LOW_SIDE_LOBES else _STARTS
    best, *others = sorted((search.greedy(start) for start in search.starts(tries)), key=lambda state: state.power)
    agreed = np.ones(len(best.parameters), bool)
    for other in others:
        if other.power <= _AS_GOOD * best.power:
            apart = np.hypot(*(best.parameters[:, np.newaxis, 1:] - other.parameters[np.newaxis, :, 1:]).T).T
            agreed &= (apart < image.beam.major / 2).any(axis=1)
    return search.certain(best if agreed.all() else search.state(best.parameters[agreed])).found(image)


@dataclass(frozen=True)
class _State:
    """Sources fitted together, the inverse of their normal matrix, and the image that they leave."""

    parameters: NDArray[np.float64]
    inverse: NDArray[np.float64]
    residual: NDArray[np.float64]

    @property
    def power(self) -> float:
        """Mean square of the residual image, in which noise has averaged out as far as it will."""
        return float(np.nanmean(self.residual**2))

    @property
    def noise(self) -> float:
        return robust_deviation(self.residual)

    @property
    def errors(self) -> NDArray[np.float64]:
        """Standard deviations of flux, l, m of each source."""
        return np.asarray(self.noise * np.sqrt(np.maximum(np.diag(self.inverse), 0)).reshape(-1, 3))

    def found(self, image: Image) -> Found:
        order = np.argsort(-np.abs(self.parameters[:, 0]))
        sources = [
            FoundSource(
                position=image.wcs.pixel_to_world(*image.place(*self.parameters[k, 1:])[::-1]),
                flux=float(self.parameters[k, 0]),
                error=float(self.errors[k, 0]),
                position_error=float(np.hypot(*self.errors[k, 1:])),
            )
            for k in order
        ]
        return Found(sources, self.parameters[order], self.residual, self.noise)


@dataclass(frozen=True)
class _Search:
    image: Image
    beam: Beam
    most: int
    threshold: float

    @property
    def _floor(self) -> float:
        return max(DYNAMIC_RANGE, _FEW_BASELINES / float(np.sqrt(self.image.baselines)))

    def starts(self, count: int) -> list[tuple[int, int] | None]:
        """Give the strongest peaks of the dirty image; None, for the strongest of all, if one is enough."""
        found: list[tuple[int, int]] = []
        while len(found) < count and (peak := self._highest(self.image.dirty, found)) is not None:
            found.append(peak)
        return [None] if count == 1 else list(found) or [None]

    def greedy(self, start: tuple[int, int] | None) -> _State:
        """One source after the other, the strongest peak of what is left."""
        now = self.state(np.zeros((0, 3)))
        refused: list[tuple[int, int]] = []
        while len(now.parameters) < self.most and len(refused) <= self.most:
            first = start is not None and not len(now.parameters) and not refused
            peak = start if first else self._highest(now.residual, refused)
            if peak is None or not (first or self._stands_out(float(now.residual[peak]), now)):
                break
            height = float(now.residual[peak])
            trial = self.state(np.concatenate([now.parameters, [[height, *self.image.direction(*peak)]]]))
            good = self._good(trial)
            if not good[-1] and good[:-1].all():
                refused.append(peak)
            elif good.all():
                now = trial
            else:  # a side lobe had been taken for a source; that source has come
                refused.append(peak)
                now = self.state(trial.parameters[good])
        return now

    def certain(self, state: _State) -> _State:
        """Leave out what is not significant beside what was left out before, until all is."""
        while not (good := self._good(state)).all():
            state = self.state(state.parameters[good])
        return state

    def state(self, sources: NDArray[np.float64]) -> _State:
        """Fit fluxes and positions together by Gauss-Newton steps, and make the image of what is left."""
        sampled, fitted = self.image.sampled, sources.copy()
        inverse = np.zeros((3 * len(sources), 3 * len(sources)))
        for _ in range(_FIT_STEPS if len(sources) else 0):
            matrix, vector = sampled.normal_equations(fitted, sampled.values - sampled.model(fitted))
            scale = 1 / np.sqrt(np.maximum(np.diag(matrix), np.finfo(float).tiny))  # fluxes and cosines differ by far
            scales = scale * scale[:, np.newaxis]
            inverse = np.linalg.pinv(matrix * scales, hermitian=True) * scales
            change = (inverse @ vector).reshape(-1, 3)
            change[:, 1:] = np.clip(change[:, 1:], -self.beam.minor / 4, self.beam.minor / 4)
            fitted += change
        left = np.where(sampled.weights > 0, sampled.values - sampled.model(fitted), 0)
        residual = self.image.blanked(sampled.dirty(left, len(self.image.dirty)))
        return _State(fitted, inverse, residual)

    def _good(self, state: _State) -> NDArray[np.bool_]:
        flux = state.parameters[:, 0]
        strength = flux if self.image.stokes == "I" else np.abs(flux)
        least = np.maximum(self.threshold * state.errors[:, 0], self._floor * strength.max(initial=0))
        return np.asarray(strength >= least)

    def _stands_out(self, height: float, state: _State) -> bool:
        signed = self.image.stokes != "I"
        hole = 0.0 if signed else _ABOVE_HOLES * float(-np.nanmin(state.residual))
        strongest = float(np.abs(state.parameters[:, 0]).max(initial=0))
        return abs(height) >= max(self.threshold * state.noise, hole, self._floor * strongest)

    def _highest(self, residual: NDArray[np.float64], without: list[tuple[int, int]]) -> tuple[int, int] | None:
        """Pixel of the highest peak that is not at the rim nor within a beam of those."""
        height = np.where(np.isnan(residual), -np.inf, residual if self.image.stokes == "I" else np.abs(residual))
        height[[0, -1]] = height[:, [0, -1]] = -np.inf
        reach = int(np.ceil(self.beam.major / self.image.pixel))
        for y, x in without:
            height[max(0, y - reach) : y + reach + 1, max(0, x - reach) : x + reach + 1] = -np.inf
        y, x = divmod(int(height.argmax()), height.shape[1])
        return (y, x) if height[y, x] > 0 else None


def robust_deviation(values: NDArray[np.float64]) -> float:
    """Give the standard deviation of normal values with the same median magnitude; blank pixels are left out."""
    return 1.4826 * float(np.nanmedian(np.abs(values)))
