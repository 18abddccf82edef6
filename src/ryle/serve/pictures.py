"""What the web page draws of a look, in parts, each in bytes that all viewers share.

A part is a header in JSON and arrays. Little-endian: uint32 bytes of the header, uint32 version (1), the header, padded
with spaces to a multiple of 8 bytes, and the arrays in the order of ``header["arrays"]`` ([name, type, shape]), each
padded with zeros to a multiple of 8 bytes. What cannot be drawn has ``header["problem"]``: why.
"""

from __future__ import annotations

import json
import re
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ryle.config import Observation
from ryle.products.glance import Glance
from ryle.serve.plain import plain
from ryle.watch.baseline import Baseline, in_time, of_antennas
from ryle.watch.fringes import (
    bandpass,
    closure_phases,
    coefficients,
    fringe_strength,
    fringes,
    inputs_of_products,
    lags,
    loss_map,
    triangles,
)
from ryle.watch.inputs import input_rows
from ryle.watch.sight import Sight

_HEAD = struct.Struct("<II")
_VERSION = 1
#: What a viewer may want: the state; every look anew. What was lost up to now; once. ADC values; of each second. The
#: rest; of each glance.
WANTED = re.compile(
    r"sight|losses|levels(/[0-9]{1,6})?|bandpass|products|image|closure/[0-9]{1,2}|spectra/[0-9]{1,6}-[0-9]{1,6}"
)
_UNKNOWN = -32768  # what is not known, in arrays of int16
_MOST_TRIANGLES = 10_000
_PIXELS = 128  # along a side of an image

Floats = NDArray[np.float64]


def packed(part: str, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]] | None = None) -> bytes:
    """Put a part into bytes."""
    there = {name: np.ascontiguousarray(array) for name, array in (arrays or {}).items()}
    listed = [[name, array.dtype.newbyteorder("<").str, list(array.shape)] for name, array in there.items()]
    text = json.dumps({"part": part, **header, "arrays": listed}).encode()
    text += b" " * (-len(text) % 8)
    found = [_HEAD.pack(len(text), _VERSION), text]
    for array in there.values():
        data = array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
        found += [data, bytes(-len(data) % 8)]
    return b"".join(found)


def sight_part(sight: Sight, observation: Observation | None) -> bytes:
    """Pack the state: all of a look but its glance, the observation file, and what of figures never changes."""
    said = plain(sight)
    said.pop("text")
    for engine in said["engines"]:
        del engine["kinds"]
        engine["controls"] = sorted(engine["controls"])
    bits = None if observation is None else observation.digitizer.bits
    said["verdicts"] = [
        {"index": row.index, "rank": row.rank, "verdict": row.verdict} for row in input_rows(sight, bits)
    ]
    return packed("sight", {"sight": said})


def losses_part(history: Sequence[Sight]) -> bytes:
    """Pack what was lost lately: times, and codes of shape (stage, input, time) as `loss_codes` has them."""
    found = loss_map(history)
    header = {"stages": found.stages, "labels": found.labels}
    return packed("losses", header, {"times": found.times, "codes": loss_codes(found.present)})


def loss_codes(present: NDArray[np.floating[Any]]) -> NDArray[np.uint8]:
    """Write shares that were there in a byte each: 0 unknown, 1 nothing lost, 255 all of it lost.

    Between them the logarithm of the share lost: code 2 + 50.6·(5 + log10 share), at least 2: five decades.
    """
    lost = 1.0 - present.astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        code = np.clip(np.round(2 + 50.6 * (5 + np.log10(lost))), 2, 255)
    return np.where(np.isnan(lost), 0, np.where(lost <= 0, 1, code)).astype(np.uint8)


class GlancePictures:
    """Parts of one glance, each made when the first viewer wants it, once.

    Parameters
    ----------
    glance : Glance
        What is seen.
    observation : Observation or None
        That it is of; without it there are channels in place of frequencies, and no lags or images.
    history : sequence of Sight
        What was seen before.
    """

    def __init__(self, glance: Glance, observation: Observation | None, history: Sequence[Sight]) -> None:
        self.glance = glance
        self._observation, self._history = observation, history
        self._lock = threading.Lock()
        self._made: dict[str, bytes] = {}

    def part(self, name: str) -> bytes:
        """Give a part, of a name that `WANTED` allows; whatever goes wrong is said in it."""
        kind, _, which = name.partition("/")
        makers: dict[str, Callable[[str], bytes]] = {
            "bandpass": self._bandpass,
            "products": self._products,
            "image": self._image,
            "closure": self._closure,
            "spectra": self._spectra,
        }
        with self._lock:
            if name not in self._made:
                try:
                    self._made[name] = makers[kind](which)
                except Exception as error:  # glances lie in shared memory, where anybody may have written
                    self._made[name] = packed(name, {"problem": str(error) or type(error).__name__})
            return self._made[name]

    def _axis(self, edges: NDArray[np.int64]) -> tuple[Floats, str, slice]:
        """Give the middles of some channels on the sky, their unit, and what puts the lowest first."""
        g, o = self.glance, self._observation
        if o is None:
            return g.first_channel + (edges[:-1] + edges[1:] - 1) / 2, "channel", slice(None)
        sky = o.sky_frequencies[g.first_channel : g.first_channel + g.channels] / 1e6
        middle = np.add.reduceat(sky, edges[:-1]) / np.diff(edges)
        order = slice(None, None, -1) if o.sideband_sign < 0 else slice(None)
        return middle[order], "MHz", order

    def _bandpass(self, _: str) -> bytes:
        axis, unit, order = self._axis(self.glance.power_channels)
        power = hundredths(bandpass(self.glance)[:, order])
        return packed("bandpass", self._said() | {"unit": unit}, {"axis": axis, "power": power})

    def _products(self, _: str) -> bytes:
        """Coefficients, phases and strengths of all products, in the order of products."""
        g = self.glance
        matrix = coefficients(g).transpose(2, 0, 3, 1).reshape(g.antennas * g.pols, -1)
        i, j = inputs_of_products(g.antennas, g.pols).T
        value = matrix[i, j]
        arrays = {
            "coefficient": hundredths(100 * np.minimum(np.abs(value), 3.2)),
            "phase": hundredths(np.where(np.isfinite(value), np.degrees(np.angle(value)), np.nan)),
            "strength": hundredths(np.minimum(fringe_strength(g), 320.0)),
        }
        return packed("products", self._said(), arrays)

    def _image(self, _: str) -> bytes:
        from ryle.watch.snapshot import snapshot  # astropy's is a slow import

        if self._observation is None:
            raise ValueError("there is no image without the observation's file")
        found = snapshot(self._observation, self.glance, _PIXELS)
        header = {
            "pixel": float(np.degrees(found.pixel)),
            "frequency": found.frequency / 1e6,
            "utc": found.time.utc.isot,
            "object": found.object,
            "ra": float(np.degrees(found.ra)),
            "dec": float(np.degrees(found.dec)),
        }
        return packed("image", self._said() | header, {"dirty": found.dirty.astype(np.float32)})

    def _closure(self, which: str) -> bytes:
        g, polarization = self.glance, int(which)
        if polarization >= g.pols:
            raise ValueError(f"there is no polarization {polarization}")
        if g.antennas < 3:
            raise ValueError("closure phases need three antennas")
        corners = triangles(g.antennas)[:_MOST_TRIANGLES]
        phase, error = closure_phases(g, corners, polarization)
        arrays = {
            "corners": corners.astype(np.int16),
            "phase": hundredths(np.degrees(phase)),
            "error": hundredths(np.degrees(error)),
        }
        return packed(f"closure/{which}", self._said(), arrays)

    def _spectra(self, which: str) -> bytes:
        """Draw a baseline: amplitude and phase over the band and in time, lags."""
        g = self.glance
        i, j = (int(n) for n in which.split("-"))
        if max(i, j) >= g.antennas * g.pols:
            raise ValueError("there is no such input")
        base = Baseline.of(i, j, g.pols)
        small = of_antennas(g, base.antennas)
        chosen = small.chosen.tolist()
        fine = base.here in chosen
        axis, unit, order = self._axis(g.power_channels if fine else g.coarse_edges)
        values = small.spectra[chosen.index(base.here)] if fine else small.coarse[:, base.here]
        values = values[order].astype(np.complex128)
        past = in_time(self._history, np.inf, g, base)
        seen = fringes([*(p for p in past if p.number != g.number), small], [base.here])
        arrays: dict[str, NDArray[Any]] = {
            "axis": axis,
            "amplitude": np.abs(values).astype(np.float32),
            "phase": _degrees(values),
            "numbers": np.array([*(p.number for p in past if p.number != g.number), g.number], np.float64),
            "amplitude_in_time": seen.amplitude[:, 0].astype(np.float32),
            "phase_in_time": _degrees(seen.value[:, 0]),
            "snr": seen.snr[:, 0].astype(np.float32),
        }
        header: dict[str, Any] = {"unit": unit, "first": base.first, "second": base.second, "fine": fine}
        if self._observation is not None:
            found = lags(small, self._observation.channel_width, [base.here])
            arrays |= {"lag": found.seconds * 1e9, "lag_amplitude": found.amplitude[0].astype(np.float32)}
            header["peak"] = float(found.peak[0] * 1e9) if np.isfinite(found.peak[0]) else None
        return packed(f"spectra/{which}", self._said() | header, arrays)

    def _said(self) -> dict[str, Any]:
        g = self.glance
        return {"number": g.number, "antennas": g.antennas, "pols": g.pols}


def _degrees(values: NDArray[np.complexfloating[Any, Any]]) -> NDArray[np.float32]:
    with np.errstate(invalid="ignore"):
        return np.where(np.isfinite(values), np.degrees(np.angle(values)), np.nan).astype(np.float32)


def hundredths(values: Floats) -> NDArray[np.int16]:
    """Write numbers within ±327 in hundredths; beyond that they stand at the end, what is not known is −32768."""
    with np.errstate(invalid="ignore"):
        whole = np.clip(np.round(100 * values), -32767, 32767)
    return np.where(np.isfinite(whole), whole, _UNKNOWN).astype(np.int16)
