"""A process with an engine on a GPU, fed from memory: asked for its rate, and that of its copies or kernels alone."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ryle.bench.engine_alone import copies, exchange, kernels
from ryle.bench.engine_feed import AsFed, Feed, Gate, Sink, busy, filled, host_ring, rate_of, table_ring
from ryle.bench.harness import emulated_gpu, serve
from ryle.channelize import Blocks, Layout, Rows
from ryle.chunk import BLOCK, SpectraChunk
from ryle.config import Observation, parse
from ryle.correlate.cuda import CudaCorrelator
from ryle.correlate.spread import SpreadCorrelator, shares
from ryle.engines.exchange import Exchange
from ryle.engines.f_gpu import Channelize, Download, gpu_f_steps
from ryle.engines.fx import spectra_of, spectra_steps
from ryle.engines.x import Correlate, XEngine
from ryle.gpu import Gpu, open_gpu
from ryle.gpu.power import EnergyMeter
from ryle.receive.windows import window_shape
from ryle.stream.block import Block
from ryle.stream.engine import Engine
from ryle.stream.ring import Reader, Ring
from ryle.stream.step import Step
from ryle.wire.samples import packed_bytes

_WARM = 1.0  # seconds that are not counted

_FILE = """
observation = {{name = "bench", sync_time = "2026-03-20T20:00:00Z"}}
band = {{sample_rate = "1.712 GHz", lo = "0.9 GHz"}}
digitizer = {{bits = {bits}, heap_samples = {packet}}}
{fx}
fengine = {{channels = {channels}, taps = {taps}, max_delay = "10 us", backend = "cuda", batch = {batch}}}
xengine = {{integration = "{integration} s", channels_per_substream = {channels}, backend = "cuda"}}
phase_centre = {{name = "field", ra = "07h00m00s", dec = "-30d00m00s"}}
[array]
name = "line"
location = {{latitude = "-30.7 deg", longitude = "21.4 deg", height = "1000 m"}}
polarizations = ["x", "y"]
antennas = [{antennas}]
"""


def observation(asked: dict[str, Any]) -> Observation:
    """Make the observation that a case is of: antennas on a line, delays that change as the sky turns.

    Of several GPUs each makes as many samples at a time as one would.
    """
    names = ",".join(f'{{name = "A{a}", enu = ["{20 * a} m", "{a} m", "0 m"]}}' for a in range(asked["antennas"]))
    rest = {k: asked[k] for k in ("bits", "packet", "channels", "taps", "integration")}
    gpus = asked["gpus"]
    fx = f"fx = {{gpus = {gpus}}}" if asked["kind"] == "fx" else ""
    return parse(_FILE.format(antennas=names, fx=fx, batch=asked["batch"] * len(gpus), **rest), "bench")


class Bench:
    """An engine that runs whenever its gate is open.

    Parameters
    ----------
    asked : dict
        ``kind`` "f", "fx" or "x"; ``fed`` from "memory" of the host, or samples "resident" on the GPU: a "ring" that is
        full, or a "table" of addresses of packets; ``gpus``, their numbers; sizes as of `observation`.

    Attributes
    ----------
    gpus : list of Gpu
        Several of kind "fx" only.
    parts : list of (Channelize, slice)
        What each GPU channelizes, of which inputs; of an X-engine none.
    exchange : Exchange or None
        Between several GPUs.
    correlators : list
        Of each GPU; of an F-engine none.
    ring, last : Ring
        What is fed, and what comes out.
    """

    def __init__(self, asked: dict[str, Any]) -> None:
        self.kind, self.fed = asked["kind"], asked["fed"]
        self.o = o = observation(asked)
        self.gpus: list[Gpu] = [emulated_gpu() if asked["emulated"] else open_gpu(n) for n in asked["gpus"]]
        self.gpu = self.gpus[0]
        self.exchange: Exchange | None = None
        self.parts: list[tuple[Channelize, slice]] = []
        self.correlators: list[CudaCorrelator] = []
        self.inputs, self.shape, self.gate = o.n_inputs, window_shape(o), Gate()
        self.batch_samples = self.shape.batch * self.shape.step  # of an input
        steps = self._x_steps() if self.kind == "x" else self._f_steps()
        self.sink = Sink(self.last.reader())
        self.engine = Engine([], [self.feed, *steps, self.sink])
        self.engine.start()

    # -- what runs --------------------------------------------------------------------------------------------------

    def _f_steps(self) -> list[Step]:
        o, size, gpu = self.o, self.o.digitizer.heap_samples, self.gpu
        packets = -(-self.batch_samples // size)
        row = packed_bytes(size, o.digitizer.bits)
        table = self.fed == "table"
        shared = [(g, len(some) * o.pols) for g, some in zip(self.gpus, self._antennas(), strict=True)]
        self.ring = table_ring(shared, packets, row) if table else host_ring(gpu, self.inputs, packets, row)
        self.feed = Feed(self.ring, packets * size, self.gate)
        self.upload_bytes = self.inputs * packets * row
        samples, self.unit = AsFed(size, table), self.shape.step  # samples of a unit of what comes out
        if self.kind == "f":
            self.layout: Layout = Rows(o.pols)
            antennas, source = range(len(o.antennas)), self.ring.reader()
            steps, _, made = gpu_f_steps(gpu, o, antennas, self.layout, source, samples)
            out = made.out
        else:
            _, steps, out = spectra_steps(o, self.ring, samples, self.gpus)
            self.exchange = next((step for step in steps if isinstance(step, Exchange)), None)
            self.layout = Blocks() if self.exchange is None else self.exchange.slabs.layout
        channelizers = [step for step in steps if isinstance(step, Channelize)]
        self.parts = [
            (each, slice(some.start * o.pols, some.stop * o.pols))
            for each, some in zip(channelizers, self._antennas(), strict=True)
        ]
        if self.fed == "ring":
            for each in channelizers:
                _fill(each)
        if self.kind == "f":
            shape, dtype = channelizers[0].output
            self.last = Ring("spectra", lambda: Block(filled(gpu.pinned(shape, dtype), 3)), 3)
            return [*steps, Download(gpu, out.reader(), self.last)]
        return [*steps, self._correlate(out.reader(), spectra_of)]

    def _antennas(self) -> list[range]:
        return shares(len(self.o.antennas), len(self.gpus))

    def _correlate(self, source: Reader, chunk: Callable[[Block], SpectraChunk]) -> Step:
        x = XEngine(self.o, 0, self.o.fengine.channels, 1, gpus=self.gpus)
        correlator: Any = x._correlator
        self.correlators = correlator.parts if isinstance(correlator, SpreadCorrelator) else [correlator]
        self.last = Ring("integrations", lambda: Block(x.room()), 3)
        return Correlate(source, x, chunk, self.last)

    def _x_steps(self) -> list[Step]:
        o, gpu, blocks = self.o, self.gpu, self.shape.batch // BLOCK
        shape = blocks, len(o.antennas), o.fengine.channels, o.pols, 2 * BLOCK
        words = np.full((1, blocks, len(o.antennas), o.pols), ~np.uint64(0))
        self.ring = Ring("rows", lambda: Block(filled(gpu.pinned(shape, np.int8), 4)), 4)
        self.feed = Feed(self.ring, self.shape.batch, self.gate)
        self.upload_bytes = int(np.prod(shape))
        self.unit = self.shape.step

        def chunk(block: Block) -> SpectraChunk:
            return SpectraChunk(block.start // BLOCK, block.data.transpose(2, 0, 1, 3, 4), words)

        return [self._correlate(self.ring.reader(), chunk)]

    # -- what is measured -------------------------------------------------------------------------------------------

    def run(self, seconds: float) -> dict[str, Any]:
        """Let it run; give samples of all inputs a second, by what was fed, once it flows."""
        done: list[tuple[float, int]] = []
        fed, self._given = self.ring, self.ring.given
        meters = [EnergyMeter(getattr(gpu, "ordinal", 0)) for gpu in dict.fromkeys(self.gpus)]
        self.gate.open.set()
        time.sleep(_WARM)
        for meter in meters:
            meter.start()
        ended = threading.Event()

        def look() -> None:
            while not ended.wait(0.002):
                done.append((time.perf_counter(), fed.given))

        watcher = threading.Thread(target=look)
        watcher.start()
        cores, took = busy(lambda: self._sleep(seconds))
        ended.set()
        watcher.join()
        joules = sum(meter.stop() for meter in meters)
        self.gate.open.clear()
        self._drain()
        first, last = done[0], done[-1]
        per_block = self.inputs * self.feed._span * (1 if self.kind != "x" else self.shape.step)
        rate = (last[1] - first[1]) * per_block / (last[0] - first[0])
        out, _ = rate_of(self.sink.came, first[0])
        self.sink.came.clear()
        return {
            "rate": rate,
            "out_rate": out * self.unit * self.inputs,
            "cores": cores,
            "joules": joules / (rate * took),
        }

    def _sleep(self, seconds: float) -> None:
        self.engine.wait(seconds)  # which raises what has gone wrong

    def _drain(self) -> None:
        count, since = (-1, 0, 0), time.perf_counter()
        while time.perf_counter() - since < 0.3:
            now = self.ring.given, self.ring.free, self.last.given
            if now != count:
                count, since = now, time.perf_counter()
            time.sleep(0.02)

    def close(self) -> None:
        """End."""
        self.gate.ended.set()
        with contextlib.suppress(Exception):
            self.engine.wait(30)
        self.engine.close()


def _fill(channelize: Channelize) -> None:
    """Fill the ring on the GPU once; what is appended to it from now on is there already."""
    ring = channelize._ring
    noise = np.random.default_rng(6).integers(0, 256, 1 << 26, np.uint8)
    for at in range(0, ring.samples.nbytes, noise.size):
        size = min(noise.size, ring.samples.nbytes - at)
        ring.samples.view((size,), np.uint8, at).set(noise[:size])
    ring.present.fill(1)
    channelize.gpu.default_stream.synchronize()
    ring.append = lambda data, present, needed: ring._room(present.shape[1], needed)  # type: ignore[assignment,method-assign]


def answers() -> Iterator[dict[str, Callable[[dict[str, Any]], dict[str, Any]]]]:
    """Give what this process can be asked; `setup` first."""
    made: list[Bench] = []

    def setup(asked: dict[str, Any]) -> dict[str, Any]:
        while made:
            made.pop().close()
        bench = Bench(asked)
        made.append(bench)
        return {
            "batch": bench.shape.batch,
            "batch_mb": bench.upload_bytes / 1e6,
            "samples": bench.batch_samples * bench.inputs,
            "gpu": bench.gpu.name,
        }

    yield {
        "setup": setup,
        "engine": lambda asked: made[0].run(asked["seconds"]),
        "copies": lambda asked: copies(made[0], asked["seconds"]),
        "kernels": lambda asked: kernels(made[0], asked["seconds"]),
        "exchange": lambda asked: exchange(made[0], asked["seconds"]),
    }
    while made:
        made.pop().close()


def main() -> None:
    """Answer until standard input ends."""
    for table in answers():
        serve(table)


if __name__ == "__main__":
    main()
