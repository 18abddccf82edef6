"""What each engine of an observation receives and sends, on the wire."""

from __future__ import annotations

from ryle.config import Observation
from ryle.config.observation import Engine
from ryle.plan.work import Work


def traffic(o: Observation) -> dict[tuple[Engine, int], tuple[float, float]]:
    """Give what comes to and leaves each engine, bit/s, by its kind and index; files are not in it."""
    work = Work.of(o)
    spectra, products = work.inputs * work.spectra_wire, 8 * work.output_bytes
    found: dict[tuple[Engine, int], tuple[float, float]] = {}
    for kind, n in o.engines.items():
        for index in range(n):
            if kind == "f":
                inputs = len(o.f_engine_antennas(index)) * work.pols
                found[kind, index] = inputs * work.input_wire, inputs * work.spectra_wire
            elif kind == "x":
                found[kind, index] = spectra / n, products / n
            elif kind == "fx":
                found[kind, index] = work.inputs * work.input_wire, 0.0
            else:
                found[kind, index] = products / n, 0.0
    return found
