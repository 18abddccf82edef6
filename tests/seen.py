"""Glances at simulated observations, made by the whole chain in this process, with cables as whoever asks wants them."""

from pathlib import Path

import numpy as np

from ryle.chunk import SampleChunk
from ryle.config import changed, example, load, simulated
from ryle.engines.fx import AsRead, ReadSamples, fx_steps, read_ring
from ryle.engines.glance import GlanceMaker
from ryle.products.observed import metadata
from ryle.products.uvh5 import UVH5Writer
from ryle.simulate import VoltageSimulator
from ryle.stream.engine import Engine


def demo(duration="0.55 s", **tables):
    """The demonstration's array and sky, 1 MHz of it."""
    return changed(
        load(example("demo")),
        observation={"duration": duration},
        band={"sample_rate": "2 MHz"} | tables.pop("band", {}),
        xengine={"integration": "0.262144 s"},
        **tables,
    )


def glances_of(o, directory: Path, order=None, chosen=(), tamper=lambda chunk: chunk):
    """Observe; give the file and a glance at each integration.

    Input i of the correlator gets what input order[i] of the array receives; `tamper` may change chunks further.
    """
    o = simulated(o)
    found = []
    ring = read_ring()
    order = np.arange(o.n_inputs) if order is None else np.asarray(order)

    def chunks():
        for chunk in VoltageSimulator(o, mount=o.array.mount).chunks():
            moved = SampleChunk(
                chunk.timestamp, chunk.data[order].copy(), chunk.present[order].copy(), chunk.packet_samples
            )
            yield 0, tamper(moved)

    path = directory / "seen.uvh5"
    steps = fx_steps(o, ring, AsRead(o.levels), lambda: UVH5Writer(path, metadata(o), overwrite=True), [])
    maker = GlanceMaker(o, 0, o.fengine.channels)
    maker._audience.watch({"products": list(chosen)})
    steps[-1].publish = lambda number, pieces: found.append(maker.glance(number, pieces))
    with Engine([], [ReadSamples(lambda _: chunks(), [ring]), *steps]) as engine:
        engine.start()
        assert engine.wait(120)
    return path, found
