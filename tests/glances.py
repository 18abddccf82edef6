"""Glances made of voltages, one product at a time: nothing of the engines' arithmetic is in them."""

from itertools import pairwise

import numpy as np

from ryle.products.glance import Glance


def edges(channels, count):
    count = min(count, channels)
    return np.array([k * channels // count for k in range(count + 1)])


def glance_of(x, valid=None, *, bins=16, parts=5, first_channel=0, first_spectrum=640, number=3, chosen=()):
    """Look at spectra x, (antenna, pol, channel, spectrum), of which some may not be valid, (antenna, pol, spectrum)."""
    n, p, channels, spectra = x.shape
    valid = np.ones((n, p, spectra), bool) if valid is None else valid
    pairs = [(a1, p1, a2, p2) for a2 in range(n) for a1 in range(a2 + 1) for p2 in range(p) for p1 in range(p)]

    def averaged(pair, cuts):
        a1, p1, a2, p2 = pair
        there = valid[a1, p1] & valid[a2, p2]
        product = (x[a1, p1] * x[a2, p2].conj())[:, there]
        found = []
        for low, high in pairwise(cuts):
            found.append(product[low:high].mean() if there.any() else np.nan)
        return found

    fine, coarse = edges(channels, bins), edges(channels, parts)
    return Glance(
        number=number,
        first_spectrum=first_spectrum,
        integration=spectra,
        first_channel=first_channel,
        channels=channels,
        antennas=n,
        pols=p,
        power=np.array([np.real(averaged((a, q, a, q), fine)) for a in range(n) for q in range(p)], np.float32),
        power_channels=fine,
        coarse=np.array([averaged(pair, coarse) for pair in pairs], np.complex64).T.copy(),
        coarse_edges=coarse,
        present=valid.mean(axis=2).reshape(-1).astype(np.float32),
        spectra=np.array([averaged(pairs[k], fine) for k in chosen], np.complex64).reshape(len(chosen), len(fine) - 1),
        chosen=np.array(chosen, np.int64),
    )


def noise(random, *shape):
    return (random.standard_normal(shape) + 1j * random.standard_normal(shape)) / np.sqrt(2)


def index(a1, p1, a2, p2, pols=2):
    return pols**2 * (a2 * (a2 + 1) // 2 + a1) + p1 + pols * p2
