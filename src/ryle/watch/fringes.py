"""What a glance at visibilities shows: bandpasses, fringes, lags, closure phases, coefficients, losses.

Pure functions of glances (`ryle.products.glance`) and sights. Phases are those of the engines' products,
X(a1)·conj(X(a2)) in the order of baseband's channels. A signal that comes to the first antenna later by τ turns them by
−2πfτ, in every Nyquist zone and sideband: baseband's time runs as the sky's does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ryle.chunk import product_inputs
from ryle.products.glance import Glance
from ryle.watch.sight import STAGES, Sight

Floats = NDArray[np.float64]
Complexes = NDArray[np.complex128]


@lru_cache(maxsize=16)
def inputs_of_products(antennas: int, pols: int) -> NDArray[np.int64]:
    """List the inputs (i, j) of each product, shape (product, 2); shared, so not to be written to."""
    found = product_inputs(antennas, pols)
    found.flags.writeable = False
    return found


def product_of(a1: int, p1: int, a2: int, p2: int, pols: int) -> int:
    """Give the product X(a1, p1)·conj(X(a2, p2)); antennas in order, a1 ≤ a2.

    Raises
    ------
    ValueError
        If they are not.
    """
    if not 0 <= a1 <= a2 or not 0 <= p1 < pols or not 0 <= p2 < pols:
        raise ValueError(f"no product of antennas {a1}, {a2} and polarizations {p1}, {p2}: the first antenna is first")
    return pols**2 * (a2 * (a2 + 1) // 2 + a1) + p1 + pols * p2


def auto_products(antennas: int, pols: int) -> NDArray[np.int64]:
    """Product of each input with itself, by input."""
    a, p = np.divmod(np.arange(antennas * pols), pols)
    return np.asarray(pols**2 * (a * (a + 3) // 2) + p * (pols + 1), np.int64)


def parallel_products(glance: Glance, polarization: int = 0) -> NDArray[np.int64]:
    """List products of one polarization and two antennas, each pair once."""
    a2, a1 = np.tril_indices(glance.antennas, -1)
    p = glance.pols
    return np.asarray(p * p * (a2 * (a2 + 1) // 2 + a1) + polarization * (p + 1), np.int64)


def bandpass(glance: Glance) -> Floats:
    """Autocorrelation of each input over the band, dB of squared steps of quantized spectra, shape (input, bin).

    NaN where nothing came, or there is no power.
    """
    power = glance.power.astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(10 * np.log10(np.where(power > 0, power, np.nan)))


@dataclass(frozen=True)
class Fringe:
    """Average of products over the band.

    Parameters
    ----------
    value : ndarray of complex128, shape (..., product)
        Squared steps; NaN where nothing came.
    noise : ndarray of float64, shape (..., product)
        Rms of its real part, or imaginary part, if the inputs have nothing in common.
    """

    value: Complexes
    noise: Floats

    @property
    def amplitude(self) -> Floats:
        """Modulus, squared steps."""
        return np.asarray(np.abs(self.value))

    @property
    def phase(self) -> Floats:
        """Radians, −π to π."""
        return np.asarray(np.angle(self.value))

    @property
    def snr(self) -> Floats:
        """Modulus by the noise of a part: of noise alone 1.25 in the mean, 5 once in 270 000."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(self.amplitude / self.noise)


def _parts(glance: Glance) -> tuple[Complexes, Floats]:
    """Give each part's products, 0 where nothing came, and the noise power of an average of them, inf there."""
    ij = inputs_of_products(glance.antennas, glance.pols)
    value = glance.coarse.astype(np.complex128)
    power = np.maximum(value[:, auto_products(glance.antennas, glance.pols)].real, 0)  # NaN stays
    share = np.clip(np.nan_to_num(glance.present.astype(np.float64)), 0, 1)
    # What two antennas lose they lose independently; what one input lacks, all products of it lack.
    both = np.where(ij[:, 0] == ij[:, 1], share[ij[:, 0]], share[ij[:, 0]] * share[ij[:, 1]])
    counted = glance.integration * np.diff(glance.coarse_edges)[:, np.newaxis] * both
    with np.errstate(invalid="ignore", divide="ignore"):
        variance = power[:, ij[:, 0]] * power[:, ij[:, 1]] / counted
    there = np.isfinite(value) & np.isfinite(variance)
    return np.where(there, value, 0), np.where(there, variance, np.inf)


def fringe(glance: Glance) -> Fringe:
    """Average every product over the band, with the noise that its inputs' power makes.

    An average of M products of independent noise has variance P1·P2/M, half of it in each part; M is channels times
    spectra that both inputs had.
    """
    value, variance = _parts(glance)
    width = np.where(np.isfinite(variance), np.diff(glance.coarse_edges)[:, np.newaxis], 0).astype(np.float64)
    total = width.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(total > 0, (width * value).sum(axis=0) / total, np.nan)
        spread = np.sqrt((width**2 * np.where(width > 0, variance, 0)).sum(axis=0) / 2) / total
    return Fringe(mean, np.where(total > 0, spread, np.nan))


def fringes(glances: Sequence[Glance], products: Sequence[int] | NDArray[np.int64]) -> Fringe:
    """Follow some products through time: `Fringe` of shape (glance, product)."""
    found = [fringe(glance) for glance in glances]
    chosen = np.asarray(products, np.int64)
    if not found:
        return Fringe(np.zeros((0, chosen.size), np.complex128), np.zeros((0, chosen.size)))
    return Fringe(np.stack([f.value[chosen] for f in found]), np.stack([f.noise[chosen] for f in found]))


@dataclass(frozen=True)
class Lags:
    """Products against delay.

    Parameters
    ----------
    seconds : ndarray of float64, shape (lag,)
        Positive: the first antenna's signal comes later.
    amplitude : ndarray of float64, shape (product, lag)
        Modulus, squared steps; a fringe of the whole band has its own at its delay.
    peak : ndarray of float64, shape (product,)
        Seconds, between lags by the parabola through the highest and its neighbours; NaN where nothing came.
    height : ndarray of float64, shape (product,)
        Of the highest.
    """

    seconds: Floats
    amplitude: Floats
    peak: Floats
    height: Floats


def lags(glance: Glance, channel_width: float, products: Sequence[int] | NDArray[np.int64] | None = None) -> Lags:
    """Turn the spectra of products into their lags.

    Parameters
    ----------
    glance : Glance
        What is seen.
    channel_width : float
        Hz.
    products : sequence of int, optional
        Which. Those that somebody chose to see have many lags (`Glance.spectra`), others as many as there are parts of
        the band; all if absent, and then these.

    Returns
    -------
    Lags
        Twice as many lags as bins, evenly around 0.
    """
    chosen = glance.chosen.tolist()
    wanted = None if products is None else np.asarray(products, np.int64).tolist()
    if wanted is not None and wanted and all(p in chosen for p in wanted):
        spectra, edges = glance.spectra[[chosen.index(p) for p in wanted]], glance.power_channels
    else:
        spectra, edges = glance.coarse.T if wanted is None else glance.coarse.T[wanted], glance.coarse_edges
    return _lags(spectra.astype(np.complex128), edges, channel_width)


def _lags(spectra: Complexes, edges: NDArray[np.int64], channel_width: float) -> Lags:
    """Transform spectra, shape (product, bin)."""
    there = np.isfinite(spectra)
    widths = np.diff(edges).astype(np.float64)
    weights = there * widths
    total = weights.sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        weighted = np.where(there, spectra, 0) * weights / total[:, np.newaxis]
    bins = len(widths)
    size = 2 * bins
    step = 1 / (size * channel_width * widths.mean())
    seconds = (np.arange(size) - bins) * step
    if np.ptp(widths) == 0:
        turned = np.fft.fftshift(np.fft.ifft(weighted, size, axis=1) * size, axes=1)
    else:  # bins are not all as wide as each other
        centres = (edges[:-1] + edges[1:]) / 2 * channel_width
        turned = weighted @ np.exp(2j * np.pi * np.outer(centres, seconds))
    amplitude = np.abs(turned)
    good = total > 0
    at = np.where(good[:, np.newaxis], amplitude, 0).argmax(axis=1)
    rows = np.arange(len(at))
    left, middle, right = (amplitude[rows, (at + d) % size] for d in (-1, 0, 1))
    with np.errstate(invalid="ignore", divide="ignore"):
        curve = left - 2 * middle + right
        between = np.where(curve < 0, 0.5 * (left - right) / curve, 0.0)
    peak = np.where(good, seconds[at] + np.clip(np.nan_to_num(between), -0.5, 0.5) * step, np.nan)
    return Lags(seconds, amplitude, peak, np.where(good, middle, np.nan))


def triangles(antennas: int, reference: int = 0) -> NDArray[np.int64]:
    """List the triangles that have a reference antenna, shape (triangle, 3), antennas in order: others follow."""
    others = [a for a in range(antennas) if a != reference]
    found = [sorted((reference, b, c)) for n, b in enumerate(others) for c in others[n + 1 :]]
    return np.array(found, np.int64).reshape(-1, 3)


def closure_phases(glance: Glance, corners: NDArray[np.int64], polarization: int = 0) -> tuple[Floats, Floats]:
    """Phase around triangles of antennas, which no antenna's own phase or delay changes.

    Parameters
    ----------
    glance : Glance
        What is seen.
    corners : ndarray of int64, shape (triangle, 3)
        Antennas, in order (`triangles`).
    polarization : int
        Of all three products.

    Returns
    -------
    phase : ndarray of float64, shape (triangle,)
        Radians, of V(a,b)·V(b,c)·conj(V(a,c)) averaged over the parts of the band; NaN where one of them did not come.
    error : ndarray of float64, shape (triangle,)
        About what noise makes of it, radians, less of strong sources; at most that of no phase at all, π/√3.
    """
    value, variance = _parts(glance)
    p = glance.pols
    sides = [
        p * p * (corners[:, y] * (corners[:, y] + 1) // 2 + corners[:, x]) + polarization * (p + 1)
        for x, y in ((0, 1), (1, 2), (0, 2))
    ]
    ab, bc, ac = (value[:, side] for side in sides)
    there = np.all([np.isfinite(variance[:, side]) for side in sides], axis=0)
    width = np.where(there, np.diff(glance.coarse_edges)[:, np.newaxis], 0)
    product = (width * ab * bc * ac.conj()).sum(axis=0)
    good = width.sum(axis=0) > 0
    with np.errstate(invalid="ignore", divide="ignore"):
        # Of each part the three sides' noises, by their strengths, add up in squares; parts average down.
        relative = sum(
            (width * np.where(there, variance[:, side], 0)).sum(axis=0)
            / 2
            / (width * np.abs(value[:, side]) ** 2).sum(axis=0)
            for side in sides
        )
        error = np.sqrt(relative / np.maximum(there.sum(axis=0), 1))
    most = np.pi / np.sqrt(3)
    return np.where(good, np.angle(product), np.nan), np.where(
        good, np.minimum(np.nan_to_num(error, nan=most), most), np.nan
    )


def coefficients(glance: Glance) -> Complexes:
    """Correlation coefficients of all inputs, averaged over the band, shape (pol, pol, antenna, antenna).

    Element [p1, p2, a1, a2] is X(a1, p1)·conj(X(a2, p2)) by the root of both powers; its transpose's conjugate is
    [p2, p1, a2, a1]. NaN where nothing came or an input has no power.
    """
    mean = fringe(glance).value
    n, p = glance.antennas, glance.pols
    i, j = inputs_of_products(n, p).T
    matrix = np.full((n * p, n * p), np.nan, np.complex128)
    matrix[j, i] = mean.conj()
    matrix[i, j] = mean
    power = np.real(np.diagonal(matrix)).copy()
    with np.errstate(invalid="ignore", divide="ignore"):
        root = np.sqrt(np.where(power > 0, power, np.nan))
        matrix = matrix / (root[:, np.newaxis] * root)
    return np.ascontiguousarray(matrix.reshape(n, p, n, p).transpose(1, 3, 0, 2))


def fringe_strength(glance: Glance) -> Floats:
    """How far each product stands out of its noise at whatever delay, shape (product,).

    Of noise alone the highest of the lags is 2.5 or so, with 32 parts of the band; 6 comes once in a million products.
    """
    value, variance = _parts(glance)
    widths = np.diff(glance.coarse_edges).astype(np.float64)[:, np.newaxis]
    there = np.isfinite(variance)
    spread = np.sqrt((widths**2 * np.where(there, variance, 0)).sum(axis=0) / 2)
    heights = np.abs(np.fft.fft(widths * value, 2 * len(widths), axis=0)).max(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(there.any(axis=0), heights / spread, np.nan))


@dataclass(frozen=True)
class LossMap:
    """What was lost, where on the way and when.

    Parameters
    ----------
    times : ndarray of float64, shape (time,)
        Unix seconds, of each look.
    stages : tuple of str
        Hand-overs, in the order of the signal.
    labels : tuple of str
        Of the inputs.
    present : ndarray of float32, shape (stage, input, time)
        Share of samples or spectra that were there behind each; NaN where nobody told.
    """

    times: Floats
    stages: tuple[str, ...]
    labels: tuple[str, ...]
    present: NDArray[np.float32]


def loss_map(history: Sequence[Sight], most: int = 600) -> LossMap:
    """Lay out what was there of each input, from the newest looks of one run, at most so many."""
    looks = [sight for sight in history if sight.inputs][-most:]
    if looks:
        names = [i.label for i in looks[-1].inputs]
        looks = [s for s in looks if len(s.inputs) == len(names)]
    labels = tuple(i.label for i in looks[-1].inputs) if looks else ()
    present = np.full((len(STAGES), len(labels), len(looks)), np.nan, np.float32)
    for t, sight in enumerate(looks):
        for n, each in enumerate(sight.inputs):
            for s, stage in enumerate(STAGES):
                if (share := each.present.get(stage)) is not None:
                    present[s, n, t] = share
    return LossMap(np.array([s.time for s in looks], np.float64), STAGES, labels, present)


@dataclass(frozen=True)
class Levels:
    """How inputs are driven; arrays of shape (input,), NaN where nobody told.

    Parameters
    ----------
    rms : ndarray of float64
        ADC steps.
    dbfs : ndarray of float64
        The same against a full-scale sine wave, dB.
    clipped, saturated : ndarray of float64
        Shares of ADC values and of quantized spectra.
    """

    rms: Floats
    dbfs: Floats
    clipped: Floats
    saturated: Floats


def levels(sight: Sight) -> Levels:
    """Gather the levels of a sight's inputs."""

    def column(name: str) -> Floats:
        found = [getattr(each, name) for each in sight.inputs]
        return np.array([np.nan if value is None else value for value in found], np.float64)

    return Levels(*(column(name) for name in ("rms", "dbfs", "clipped", "saturated")))


def joined(glances: Sequence[Glance]) -> Glance:
    """Join glances at bands that follow each other, of the same integration, in any order.

    Raises
    ------
    ValueError
        If they do not fit together; between them may be gaps, which are NaN.
    """
    bands = sorted(glances, key=lambda g: g.first_channel)
    first = bands[0]
    if len(bands) == 1:
        return first
    for g in bands[1:]:
        if (g.first_spectrum, g.integration, g.antennas, g.pols) != (
            first.first_spectrum,
            first.integration,
            first.antennas,
            first.pols,
        ):
            raise ValueError("glances at different integrations cannot be joined")
    if any(b.first_channel < a.first_channel + a.channels for a, b in pairwise(bands)):
        raise ValueError("glances at the same channels cannot be joined")
    chosen = sorted(set.intersection(*(set(g.chosen.tolist()) for g in bands)))
    power, coarse, spectra, bins, parts = [], [], [], [], []
    at = 0
    for g in bands:
        offset = g.first_channel - first.first_channel
        if offset > at:  # nobody sees these channels
            power.append(np.full((len(g.power), 1), np.nan, np.float32))
            coarse.append(np.full((1, g.coarse.shape[1]), np.nan, np.complex64))
            spectra.append(np.full((len(chosen), 1), np.nan, np.complex64))
            bins.append(np.array([at]))
            parts.append(np.array([at]))
        power.append(g.power)
        coarse.append(g.coarse)
        which = g.chosen.tolist()
        spectra.append(g.spectra[[which.index(p) for p in chosen]])
        bins.append(g.power_channels[:-1] + offset)
        parts.append(g.coarse_edges[:-1] + offset)
        at = offset + g.channels
    share = np.array([g.channels for g in bands], np.float64)
    present = (np.stack([np.nan_to_num(g.present) for g in bands]) * share[:, np.newaxis]).sum(axis=0) / share.sum()
    return replace(
        first,
        number=max(g.number for g in bands),
        channels=at,
        power=np.concatenate(power, axis=1),
        power_channels=np.append(np.concatenate(bins), at).astype(np.int64),
        coarse=np.concatenate(coarse),
        coarse_edges=np.append(np.concatenate(parts), at).astype(np.int64),
        present=present.astype(np.float32),
        spectra=np.concatenate(spectra, axis=1),
        chosen=np.array(chosen, np.int64),
    )
