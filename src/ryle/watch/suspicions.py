"""What visibilities give away of an array's faults: interference, antennas without fringes, exchanged cables.

Only what a strong source at the tracked place proves is said: where nobody has fringes, or an antenna's baselines are
longer than all that show any, nothing is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ryle.config import Observation
from ryle.products.glance import Glance
from ryle.watch.fringes import Floats, fringe_strength, inputs_of_products, lags

#: Power by its surroundings, or by its own before, that interference has: 10 dB.
INTERFERES = 10.0
_AROUND = 16  # bins of a block; a bin's neighbourhood is its block and those beside it
_BEFORE, _ENOUGH = 15, 5  # glances whose median is what was there before, and from how many on there is one
_AVERAGED = 64  # values that a power must be a mean of: with few, noise alone makes any ratio
_NEAR = 2  # bins by which a tone may seem to move
_MOST = 4  # tones that are named
#: What noise does not reach (`fringe_strength`), and what a strong fringe has.
NOTHING, STRONG = 6.0, 15.0
_FARTHER = 0.8  # share of an antenna's shortest baseline that those it is compared with must have
#: How far a fringe must be off: in widths of the peak of lags (36° over the band), and medians of how far others are.
_OFF_LAGS, _OFF_OTHERS = 0.1, 10.0
_MATCHES = 0.05  # widths of the peak within which two antennas' delays are each other's, beside a tenth of them
_LEAST = 5  # antennas of which one's delay can be told from the place of a source


@dataclass(frozen=True)
class Suspicion:
    """Something that visibilities show.

    Parameters
    ----------
    kind, subject, text, cure : str
        As of `ryle.watch.sight.Alarm`.
    spoils : bool
        Whether data are spoiled by it.
    """

    kind: str
    subject: str
    text: str
    cure: str
    spoils: bool = True


class Interference:
    """Looks for tones in bandpasses: beside their neighbours, and beside what was there before.

    Parameters
    ----------
    observation : Observation or None
        Tells frequencies; channels are named if absent.
    """

    def __init__(self, observation: Observation | None) -> None:
        self._observation = observation
        self._before: deque[NDArray[np.float32]] = deque(maxlen=_BEFORE)
        self._usual: Floats | None = None  # their median, and how many looks ago it was taken
        self._usual_age = 0
        self._known: list[int] = []  # bins that tones were seen at

    def look(self, glance: Glance, labels: Sequence[str]) -> list[Suspicion]:
        """Name the strongest tones that at least two inputs have."""
        power = glance.power
        if self._before and self._before[-1].shape != power.shape:
            self._before.clear()
            self._usual = None
        values = glance.integration * np.outer(np.nan_to_num(glance.present), np.diff(glance.power_channels))
        with np.errstate(invalid="ignore", divide="ignore"):
            ratio = self._ratio(power.astype(np.float64))
        ratio[values < _AVERAGED] = 0
        ratio[:, glance.power_channels[:-1] + glance.first_channel == self._zero] = 0  # offsets of ADCs
        several = np.partition(ratio, -2, axis=0)[-2] if len(ratio) > 1 else ratio[0]
        found = []
        for low, high in _stretches(several > INTERFERES):
            at = low + int(several[low:high].argmax())
            found.append((float(several[at]), self._same(at), int((ratio[:, at] > INTERFERES).sum()), at))
        # Tones are not what was there before.
        self._before.append(np.where(ratio > INTERFERES, np.nan, power).astype(np.float32))
        found.sort(reverse=True)
        self._known = [known for _, known, _, _ in found[:_MOST]]
        heard = {known: (ratio[:, at], count, height) for height, known, count, at in found[:_MOST]}
        return [self._said(glance, at, *what, labels) for at, what in heard.items()]

    @property
    def _zero(self) -> int:
        """Channel of frequency 0, where offsets are."""
        o = self._observation
        return o.fengine.channels // 2 if o is not None and o.digitizer.complex else 0

    def _ratio(self, power: Floats) -> Floats:
        """Divide power by the median of its neighbourhood, or of its own before if it rose more than the level."""
        around = _around(power)
        ratio = np.where(around > 0, power / around, 0)
        if len(self._before) >= _ENOUGH:
            if self._usual is None or self._usual_age >= _ENOUGH:  # it changes slowly, and takes a while
                self._usual, self._usual_age = _nanmedian(np.stack(self._before)), 0
            self._usual_age += 1
            rise = power / np.where(self._usual > 0, self._usual, np.nan)
            level = np.nanmedian(np.where(np.isfinite(rise), rise, 1), axis=1, keepdims=True)
            ratio = np.fmax(ratio, np.nan_to_num(rise / np.maximum(level, 1)))
        return np.asarray(np.nan_to_num(ratio, posinf=0))

    def _same(self, at: int) -> int:
        """Give the bin that a tone was seen at before, if it seems to have moved a little."""
        near = [known for known in self._known if abs(known - at) <= _NEAR]
        return min(near, key=lambda known: abs(known - at), default=at)

    def _said(
        self, glance: Glance, at: int, ratio: Floats, count: int, height: float, labels: Sequence[str]
    ) -> Suspicion:
        low, high = (int(c) + glance.first_channel for c in glance.power_channels[at : at + 2])
        subject = f"channel {(low + high) // 2}"
        if self._observation is not None:
            frequency = self._observation.sky_frequencies[low : high or None].mean()
            subject = f"{frequency / 1e6:.3f} MHz"
        loudest, strongest = labels[int(ratio.argmax())], max(height, float(ratio.max()))
        text = (
            f"interference at {subject}, {10 * np.log10(strongest):.0f} dB above what is beside it, "
            f"in {count} of {len(labels)} inputs, most in {loudest}"
        )
        cure = "Find what sends there; it spoils these channels only, unless inputs clip: flag them in the data."
        return Suspicion("interference", subject, text, cure, spoils=False)


def _around(power: Floats) -> Floats:
    """Give the median of each bin's neighbourhood: of the medians of its block of bins and of those beside it."""
    inputs, count = power.shape
    blocks = -(-count // _AROUND)
    if blocks < 3:
        return np.broadcast_to(np.median(power, axis=1, keepdims=True), power.shape)
    padded = np.pad(power, ((0, 0), (0, blocks * _AROUND - count)), mode="reflect")
    medians = np.median(padded.reshape(inputs, blocks, _AROUND), axis=2)
    ends = np.concatenate([medians[:, 2:3], medians, medians[:, -3:-2]], axis=1)
    smooth = np.median(np.stack([ends[:, :-2], ends[:, 1:-1], ends[:, 2:]]), axis=0)
    return np.repeat(smooth, _AROUND, axis=1)[:, :count]


def _nanmedian(stack: NDArray[np.float32]) -> Floats:
    """Median over the first axis of what is there; 0 where nothing is."""
    ordered = np.sort(stack, axis=0)  # NaN last
    count = np.isfinite(stack).sum(axis=0)
    middle = np.take_along_axis(ordered, np.maximum(count - 1, 0)[np.newaxis] // 2, axis=0)[0]
    return np.where(count > 0, middle, 0).astype(np.float64)


def _stretches(marked: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """List runs of marked bins."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], marked, [False])).astype(np.int8)))
    return [(int(a), int(b)) for a, b in edges.reshape(-1, 2)]


def fringe_suspicions(glance: Glance, observation: Observation, labels: Sequence[str]) -> list[Suspicion]:
    """Name antennas that lack the fringes that others have, or have them elsewhere.

    Parameters
    ----------
    glance : Glance
        What is seen.
    observation : Observation
        That it is of; if it tracks nothing, nothing is said.
    labels : sequence of str
        Of the inputs.
    """
    o = observation
    if o.phase_centre is None or len(o.antennas) < 3:
        return []
    from ryle.array.observed import antennas  # it brings astropy

    enu = antennas(o).enu
    apart = np.linalg.norm(enu[:, np.newaxis] - enu, axis=2)
    strength = _matrix(glance, np.nan_to_num(fringe_strength(glance)))
    heard = np.nan_to_num(glance.present).reshape(glance.antennas, glance.pols) > 0.1
    names = [a.name for a in o.antennas]
    found: list[Suspicion] = []
    silent: dict[int, list[int]] = {}
    for p in range(glance.pols):
        for a in _silent(strength[p, p], apart, heard[:, p]):
            silent.setdefault(a, []).append(p)
    for a, pols in silent.items():
        found.append(_without_fringes(a, pols, strength, names, labels, glance.pols, len(silent)))
    width = 1 / (glance.channels * o.channel_width)
    for p in range(glance.pols):
        off = _off(glance, o, p, strength[p, p], enu, width)
        found += _off_suspicions(off, glance, o, p, names, labels, width, {s.subject for s in found})
    return found


def _matrix(glance: Glance, values: Floats) -> Floats:
    """Lay values of products out by polarizations and antennas, (p1, p2, a1, a2), the same in both orders."""
    n, p = glance.antennas, glance.pols
    i, j = inputs_of_products(n, p).T
    matrix = np.zeros((n * p, n * p))
    matrix[i, j] = values
    matrix[j, i] = values
    return matrix.reshape(n, p, n, p).transpose(1, 3, 0, 2)


def _silent(strength: Floats, apart: Floats, heard: NDArray[np.bool_]) -> list[int]:
    """List antennas that have no fringe with anybody, though others as far apart have strong ones."""
    count = len(strength)
    found = []
    self_pairs = np.eye(count, dtype=bool)
    good = heard[:, np.newaxis] & heard & ~self_pairs
    best = np.where(good, strength, 0).max(axis=1)
    mute = heard & (best < NOTHING)
    others = good & ~mute[:, np.newaxis] & ~mute
    for a in np.flatnonzero(mute).tolist():
        shortest = apart[a][heard & (np.arange(count) != a)].min(initial=np.inf)
        like = np.triu(others & (apart >= _FARTHER * shortest))
        if like.any() and np.median(strength[like]) >= STRONG:
            found.append(a)
    return found


def _without_fringes(
    a: int, pols: list[int], strength: Floats, names: Sequence[str], labels: Sequence[str], count: int, many: int
) -> Suspicion:
    """Say of an antenna that has no fringes why that may be."""
    others = np.arange(len(names)) != a
    if count == 2 and len(pols) == 2 and min(np.median(strength[p, 1 - p, a][others]) for p in pols) >= STRONG:
        return Suspicion(
            "no fringe",
            names[a],
            f"{names[a]} has fringes in cross-hands only: cross-hands are stronger than parallel hands",
            f"Are the cables of its polarizations swapped? Exchange them, or the entries of {names[a]} in [[inputs]].",
        )
    subject = labels[a * count + pols[0]] if len(pols) < count else names[a]
    hint = " Two antennas at once: are these exchanged?" if many == 2 else ""
    best = max(float(strength[p, p, a][others].max()) for p in pols)
    return Suspicion(
        "no fringe",
        subject,
        f"{subject} has no fringe with any other antenna (at most {best:.1f} times the noise), while these have",
        "Look whether it points at the source, whether its oscillator is locked, and at its position and cable delay."
        + hint,
    )


def _off(glance: Glance, o: Observation, p: int, strength: Floats, enu: Floats, width: float) -> Floats:
    """Find by how much each antenna's fringes are off, s: beyond what one place of the source explains; NaN if not."""
    n, pols = glance.antennas, glance.pols
    a2, a1 = np.tril_indices(n, -1)
    products = pols * pols * (a2 * (a2 + 1) // 2 + a1) + p * (pols + 1)
    clear = strength[a1, a2] >= STRONG
    a1, a2, products = a1[clear], a2[clear], products[clear]
    unknown = np.full(n, np.nan)
    if not len(products):
        return unknown
    peak = lags(glance, o.channel_width, products).peak
    # Delays of antennas, by least squares of those of their baselines.
    matrix, right = np.zeros((n, n)), np.zeros(n)
    np.add.at(matrix, (a1, a1), 1)
    np.add.at(matrix, (a2, a2), 1)
    np.add.at(matrix, (a1, a2), -1)
    np.add.at(matrix, (a2, a1), -1)
    np.add.at(right, a1, peak)
    np.add.at(right, a2, -peak)
    there = np.diagonal(matrix) > 0
    if there.sum() < _LEAST:
        return unknown
    delay = np.linalg.lstsq(matrix, right, rcond=None)[0]
    # A source beside the phase centre makes a plane over the array. Most antennas are right: it is fitted to those.
    use = there.copy()
    plane = np.zeros(n)
    for _ in range(4):
        terms = np.column_stack([enu[:, :2], np.ones(n)])
        if use.sum() < 4:
            return unknown
        plane = terms @ np.linalg.lstsq(terms[use], delay[use], rcond=None)[0]
        rest = np.abs(delay - plane)
        use = there & (rest <= max(3 * float(np.median(rest[use])), 0.1 * width))
    rest = delay - plane
    scatter = float(np.median(np.abs(rest[use]))) if use.any() else np.inf
    if use.sum() < max(3, there.sum() // 2 + 1):
        return unknown
    return np.where(there & (np.abs(rest) > max(_OFF_LAGS * width, _OFF_OTHERS * scatter)), rest, np.nan)


def _off_suspicions(
    off: Floats,
    glance: Glance,
    o: Observation,
    p: int,
    names: Sequence[str],
    labels: Sequence[str],
    width: float,
    known: set[str],
) -> list[Suspicion]:
    """Say whose fringes are off; if two antennas' are where the other's would be, that they are exchanged."""
    wrong = np.flatnonzero(np.isfinite(off)).tolist()
    if not wrong:
        return []
    found = []
    left = list(wrong)
    if len(wrong) > 1:
        tau = _tracked(o, glance)[:, p]
        for x, a in enumerate(wrong):
            for b in wrong[x + 1 :]:
                # Where b's signal is taken for a's, it comes later by what b should have been delayed less.
                expected = tau[a] - tau[b]
                near = _MATCHES * width + 0.1 * abs(expected)
                if a in left and b in left and abs(off[a] - expected) < near and abs(off[b] + expected) < near:
                    left = [each for each in left if each not in (a, b)]
                    subject = f"{names[a]} and {names[b]}"
                    if subject not in known:
                        found.append(
                            Suspicion(
                                "no fringe",
                                subject,
                                f"fringes of {subject} stand where the other's would, {abs(expected) * 1e9:.0f} ns off",
                                "Are these two antennas exchanged? Exchange their cables, or their [[inputs]].",
                            )
                        )
    for a in left:
        label = labels[a * glance.pols + p]
        if names[a] in known or label in known:
            continue
        found.append(
            Suspicion(
                "no fringe",
                label,
                f"the fringe of {label} stands {off[a] * 1e9:+.0f} ns off the others': over the band it averages out",
                f"It comes {'later' if off[a] > 0 else 'earlier'} than is told: add that to its cable_delay, or mend "
                "its position.",
                spoils=False,  # or it sees another source
            )
        )
    return found


def _tracked(o: Observation, glance: Glance) -> Floats:
    """Delays that are tracked in the middle of a glance, s, shape (antenna, polarization)."""
    from ryle.array.observed import phase_centre, phase_tracker

    middle = (glance.first_spectrum + glance.integration // 2) * o.step
    tau: Floats = phase_tracker(o, phase_centre(o)).delays([middle])[0]
    return tau
