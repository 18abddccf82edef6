"""A process with an engine on a GPU, fed from memory: asked for its rate, and that of its copies or kernels alone."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ryle.bench.engine_feed import AsFed, Feed, Gate, Sink, busy, filled, host_ring, rate_of, table_ring
from ryle.bench.harness import emulated_gpu, serve
from ryle.channelize import Blocks, Layout, Rows
from ryle.chunk import BLOCK, SpectraChunk, valid_words
from ryle.config import Observation, parse
from ryle.correlate.reading import DeviceSpectra
from ryle.engines.f_gpu import Channelize, Download, gpu_f_steps
from ryle.engines.x import Correlate, XEngine
from ryle.gpu import Event, Gpu, Stream, open_gpu
from ryle.gpu.power import EnergyMeter
from ryle.receive.windows import window_shape
from ryle.stream.block import Block
from ryle.stream.engine import Engine
from ryle.stream.ring import Ring
from ryle.stream.step import Step
from ryle.wire.samples import packed_bytes

_DEPTH = 3  # pieces of work that are under way on a stream
_WARM = 1.0  # seconds that are not counted

_FILE = """
observation = {{name = "bench", sync_time = "2026-03-20T20:00:00Z"}}
band = {{sample_rate = "1.712 GHz", lo = "0.9 GHz"}}
digitizer = {{bits = {bits}, heap_samples = {packet}}}
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
    """Make the observation that a case is of: antennas on a line, delays that change as the sky turns."""
    names = ",".join(f'{{name = "A{a}", enu = ["{20 * a} m", "{a} m", "0 m"]}}' for a in range(asked["antennas"]))
    rest = {k: asked[k] for k in ("bits", "packet", "channels", "taps", "batch", "integration")}
    return parse(_FILE.format(antennas=names, **rest), "bench")


class Bench:
    """An engine that runs whenever its gate is open.

    Parameters
    ----------
    asked : dict
        ``kind`` "f", "fx" or "x"; ``fed`` from "memory" of the host, or samples "resident" on the GPU: a "ring" that is
        full, or a "table" of addresses of packets; sizes as of `observation`.
    """

    def __init__(self, asked: dict[str, Any]) -> None:
        self.kind, self.fed = asked["kind"], asked["fed"]
        self.o = o = observation(asked)
        self.gpu: Gpu = emulated_gpu() if asked["emulated"] else open_gpu()
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
        self.ring = (table_ring if table else host_ring)(gpu, self.inputs, packets, row)
        self.feed = Feed(self.ring, packets * size, self.gate)
        self.upload_bytes = self.inputs * packets * row
        antennas = range(len(o.antennas))
        self.layout: Layout = Rows(o.pols) if self.kind == "f" else Blocks()
        source, samples = self.ring.reader(), AsFed(size)
        steps, _, channelize = gpu_f_steps(gpu, o, antennas, self.layout, source, samples, table=table)
        self.channelize: Channelize = channelize
        if self.fed == "ring":
            _fill(channelize)
        if self.kind == "f":
            shape, dtype = channelize.output
            self.last = Ring("spectra", lambda: Block(filled(gpu.pinned(shape, dtype), 3)), 3)
            self.unit = self.shape.step  # samples of a unit of what comes out
            return [*steps, Download(gpu, channelize.out.reader(), self.last)]
        self.x = XEngine(o, 0, o.fengine.channels, 1, gpus=[gpu])
        self.last = Ring("integrations", lambda: Block(self.x.room()), 3)
        self.unit = self.shape.step
        return [*steps, Correlate(channelize.out.reader(), self.x, _device_spectra, self.last)]

    def _x_steps(self) -> list[Step]:
        o, gpu, blocks = self.o, self.gpu, self.shape.batch // BLOCK
        shape = blocks, len(o.antennas), o.fengine.channels, o.pols, 2 * BLOCK
        words = np.full((1, blocks, len(o.antennas), o.pols), ~np.uint64(0))
        self.ring = Ring("rows", lambda: Block(filled(gpu.pinned(shape, np.int8), 4)), 4)
        self.feed = Feed(self.ring, self.shape.batch, self.gate)
        self.upload_bytes = int(np.prod(shape))
        self.x = XEngine(o, 0, o.fengine.channels, 1, gpus=[gpu])
        self.last = Ring("integrations", lambda: Block(self.x.room()), 3)
        self.unit = self.shape.step

        def chunk(block: Block) -> SpectraChunk:
            return SpectraChunk(block.start // BLOCK, block.data.transpose(2, 0, 1, 3, 4), words)

        return [Correlate(self.ring.reader(), self.x, chunk, self.last)]

    # -- what is measured -------------------------------------------------------------------------------------------

    def run(self, seconds: float) -> dict[str, Any]:
        """Let it run; give samples of all inputs a second, by what was fed, once it flows."""
        done: list[tuple[float, int]] = []
        fed, self._given = self.ring, self.ring.given
        meter = EnergyMeter()
        self.gate.open.set()
        time.sleep(_WARM)
        meter.start()
        joules, ended = 0.0, threading.Event()

        def look() -> None:
            while not ended.wait(0.002):
                done.append((time.perf_counter(), fed.given))

        watcher = threading.Thread(target=look)
        watcher.start()
        cores, took = busy(lambda: self._sleep(seconds))
        ended.set()
        watcher.join()
        joules = meter.stop()
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

    def copies(self, seconds: float) -> dict[str, Any]:
        """Copy what the engine copies, both ways at once, and nothing else."""
        up, down = self.gpu.stream(), self.gpu.stream()
        blocks = list(self.ring._spare)
        rooms = list(self.last._spare) if self.kind == "f" else []
        if self.kind == "x":
            there = [self.gpu.empty(b.data.shape, np.int8) for b in blocks[:_DEPTH]]
        else:
            samples = self.channelize._ring.samples
            outs = list(self.channelize.out._spare)

        def one(i: int) -> list[Event]:
            block = blocks[i % len(blocks)]
            if self.kind == "x":
                there[i % len(there)].set(block.data, up)
            else:
                samples.set_columns(0, block.data, up)
            events = [up.record()]
            if rooms:
                outs[i % len(outs)].data.copy_to(rooms[i % len(rooms)].data, down)
                events.append(down.record())
            return events

        return {"rate": self._in_a_row(one, seconds)}

    def kernels(self, seconds: float) -> dict[str, Any]:
        """Launch what the engine launches in a row, on what the last batch has left, and nothing else."""
        stream, o = self._stream, self.o
        groups, blocks = 1, self.shape.batch // BLOCK
        valid = self.gpu.array(np.full((groups, blocks, self.inputs), ~np.uint64(0)), stream)
        if self.kind == "x":
            shape = blocks, len(o.antennas), o.fengine.channels, o.pols, 2 * BLOCK
            data = self.gpu.array(filled(np.empty(shape, np.int8), 5), stream)
        else:
            data = self.channelize.out._spare[0].data
            self.channelize._work.out = data

        def one(i: int) -> list[Event]:
            if self.kind != "x":
                self.channelize._channelizer.launch(self.channelize._work, self.layout, stream=self.channelize._compute)
            if self.kind == "fx":
                stream.wait(self.channelize._compute.record())
            if self.kind != "f":
                self._correlator.accumulate_device(data, valid, clamp=self.kind == "x")
                if i % 64 == 63:
                    self._correlator.reset()
            return [stream.record()]

        rate = self._in_a_row(one, seconds)
        if self.kind != "f":
            self._correlator.reset()
        return {"rate": rate}

    @property
    def _correlator(self) -> Any:
        return self.x._correlator

    @property
    def _stream(self) -> Stream:
        stream: Stream = self.channelize._compute if self.kind == "f" else self._correlator.stream
        return stream

    def _in_a_row(self, one: Callable[[int], list[Event]], seconds: float) -> float:
        """Keep some of it under way for so long; give samples of all inputs a second."""
        waiting: deque[list[Event]] = deque()
        count, began = 0, 0.0
        end = time.perf_counter() + _WARM + seconds
        for i in range(1 << 40):
            waiting.append(one(i))
            if len(waiting) > _DEPTH:
                for event in waiting.popleft():
                    event.synchronize()
                now = time.perf_counter()
                if not began and now > end - seconds:
                    began = now
                elif began:
                    count += 1
                    if now > end:
                        break
        rate = count * self.batch_samples * self.inputs / (time.perf_counter() - began)
        for events in waiting:
            for event in events:
                event.synchronize()
        return rate

    def close(self) -> None:
        """End."""
        self.gate.ended.set()
        with contextlib.suppress(Exception):
            self.engine.wait(30)
        self.engine.close()


def _device_spectra(block: Block) -> DeviceSpectra:
    words = np.ascontiguousarray(valid_words(block.planes["valid"]).T[np.newaxis])
    return DeviceSpectra(block.start // BLOCK, block.data, words, block.ready)


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
        "copies": lambda asked: made[0].copies(asked["seconds"]),
        "kernels": lambda asked: made[0].kernels(asked["seconds"]),
    }
    while made:
        made.pop().close()


def main() -> None:
    """Answer until standard input ends."""
    for table in answers():
        serve(table)


if __name__ == "__main__":
    main()
