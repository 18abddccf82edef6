"""Which way spectra should go from GPU to GPU: copied to their places or in one piece, fetched or pushed, or by NCCL.

``python -m ryle.bench.exchange --gpus 0,1``: what each GPU receives of the others, all ways at once, GB/s.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from rich.console import Console

from ryle.bench.engine_child import observation
from ryle.bench.harness import quartiles, ratios, take_turns
from ryle.bench.nccl import Nccl, find_nccl
from ryle.bench.results import Row, host, machine, save, table
from ryle.engines.exchange import Slabs
from ryle.gpu import DeviceArray, Gpu, GpuUnavailable, Stream, open_gpu

_PLACES = "slabs to their places, fetched"


class Ways:
    """Slabs of a batch on each GPU, and the ways to move them.

    Parameters
    ----------
    gpus : sequence of Gpu
        Where.
    antennas, channels, spectra : int
        Of a batch; antennas of two polarizations.
    """

    def __init__(self, gpus: Sequence[Gpu], antennas: int, channels: int, spectra: int) -> None:
        asked = {"antennas": antennas, "channels": channels, "bits": 8, "packet": 4096, "taps": 4, "batch": spectra}
        o = observation(asked | {"integration": 0.5, "kind": "f", "gpus": [0]})
        self.gpus, self.count = gpus, len(gpus)
        self.slabs = Slabs(o, self.count, spectra)
        self.direct = all(gpu.reach(other) for gpu in gpus for other in gpus)
        row = o.pols * 128
        self._made = [
            gpu.empty((spectra // 64, len(some), channels, row), np.int8)
            for gpu, some in zip(gpus, self.slabs.antennas, strict=True)
        ]
        self._room = [gpu.empty(self.slabs.shape(i), np.int8) for i, gpu in enumerate(gpus)]
        for i, made in enumerate(self._made):
            made.fill(i + 1)
        self.streams = [gpu.stream() for gpu in gpus]
        self.pairs = [[gpu.stream() for _ in gpus] for gpu in gpus]
        for gpu in gpus:
            gpu.default_stream.synchronize()

    @property
    def received(self) -> float:
        """Bytes that a GPU receives of the others, on average."""
        every = range(self.count)
        return sum(self.slabs.nbytes(s, d) for s in every for d in every if s != d) / self.count

    def places(self, stream_of: Callable[[int, int], Stream]) -> None:
        """Move slabs to where they are summed, on the stream of a source and a destination."""
        for d in range(self.count):
            for s in ((d + i) % self.count for i in range(1, self.count)):
                self.slabs.move(s, self._made[s], d, self._room[d], stream_of(s, d))

    def pieces(self) -> None:
        """Move as many bytes, each slab in one piece."""
        for d in range(self.count):
            for s in ((d + i) % self.count for i in range(1, self.count)):
                here, there = self._piece(self._room, d, s, d), self._piece(self._made, s, s, d)
                size = (1, 1, here.nbytes)
                here.view(size, np.int8).take_box(
                    (0, 0, 0), there.view(size, np.int8), (0, 0, 0), size, self.streams[d]
                )

    def nccl(self, by: Nccl) -> None:
        """Send and receive as many bytes, each slab in one piece."""
        every = range(self.count)
        sent = [[self._piece(self._made, s, s, d) if s != d else None for d in every] for s in every]
        received = [[self._piece(self._room, d, s, d) if s != d else None for s in every] for d in every]
        by.exchange(sent, received, self.streams)

    def _piece(self, arrays: Sequence[DeviceArray], on: int, source: int, to: int) -> DeviceArray:
        """Give bytes for a slab in an array; those for several slabs lie one behind the other."""
        others = range(source) if on == to else range(to)
        first = sum(self.slabs.nbytes(i, to) if on == to else self.slabs.nbytes(source, i) for i in others)
        return arrays[on].view((self.slabs.nbytes(source, to),), np.int8, first)

    def wait(self) -> None:
        """Wait until all has arrived."""
        for stream in (*self.streams, *(s for row in self.pairs for s in row)):
            stream.synchronize()

    def check(self, way: Callable[[], None], *, places: bool) -> None:
        """Move once, and look at every byte.

        Raises
        ------
        ArithmeticError
            If one is not what was sent.
        """
        for room in self._room:
            room.fill(0)
        for gpu in self.gpus:
            gpu.default_stream.synchronize()
        way()
        self.wait()
        for d, room in enumerate(self._room):
            for s in range(self.count):
                if s == d:
                    continue
                some = self.slabs.antennas[s]
                got = room.get()[:, some.start : some.stop] if places else self._piece(self._room, d, s, d).get()
                if (got != s + 1).any():
                    raise ArithmeticError(f"GPU {d} has not got what GPU {s} sent; please report it")


def measure(
    ways: Ways, seconds: float, turns: int, nccl: Nccl | None = None, progress: Callable[[int], None] = lambda _: None
) -> list[Row]:
    """Measure each way, in turns.

    Parameters
    ----------
    ways : Ways
        What is moved.
    seconds : float
        Of a way in a turn.
    turns : int
        How many.
    nccl : Nccl, optional
        Measured too.
    progress : callable
        Told which turn begins.
    """
    found: dict[str, Callable[[], None]] = {
        _PLACES: partial(ways.places, lambda s, d: ways.streams[d]),
        "slabs to their places, pushed": partial(ways.places, lambda s, d: ways.streams[s]),
        "slabs to their places, a stream a pair": partial(ways.places, lambda s, d: ways.pairs[d][s]),
        "slabs in one piece": ways.pieces,
    }
    if nccl is not None:
        found["slabs in one piece, NCCL"] = partial(ways.nccl, nccl)
    for name, way in found.items():
        ways.check(way, places="places" in name)

    def rate(way: Callable[[], None]) -> float:
        times, began = 0, time.perf_counter()
        while time.perf_counter() - began < seconds:
            for _ in range(4):
                way()
            ways.wait()
            times += 4
        return times * ways.received / (time.perf_counter() - began) * 1e-9

    rates = take_turns({name: partial(rate, way) for name, way in found.items()}, turns, progress=progress)
    rows = []
    for name, each in rates.items():
        against = ratios(each, rates[_PLACES])
        rows.append(
            Row(
                name,
                statistics.median(each),
                "GB/s",
                {"gpus": ways.count},
                _PLACES if name != _PLACES else "",
                None if name == _PLACES else statistics.median(rates[_PLACES]),
                None if name == _PLACES else statistics.median(against),
                quartiles(each),
                None if name == _PLACES else quartiles(against),
                more={"direct": ways.direct, "megabytes": ways.received / 1e6},
            )
        )
    return rows


def main() -> None:
    """Measure, show, and write down if asked to."""
    parser = argparse.ArgumentParser(prog="python -m ryle.bench.exchange", description=__doc__)
    parser.add_argument("--gpus", default="0,1", help="their numbers (0,1)")
    parser.add_argument("--antennas", type=int, default=72, help="of two polarizations (72)")
    parser.add_argument("--channels", type=int, default=4096, help="of the band (4096)")
    parser.add_argument("--spectra", type=int, default=1024, help="of a batch, for each GPU (1024)")
    parser.add_argument("--seconds", type=float, default=1.0, help="of a way in a turn (1)")
    parser.add_argument("--turns", type=int, default=5, help="how many (5)")
    parser.add_argument("--nccl", type=Path, help="libnccl.so.2, if nvidia-nccl-cu13 is not installed")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    asked = parser.parse_args()
    numbers = [int(n) for n in asked.gpus.split(",")]
    console = Console(highlight=False, width=180)
    gpus = [open_gpu(n) for n in numbers]
    ways = Ways(gpus, asked.antennas, asked.channels, asked.spectra * len(gpus))
    if not ways.direct:
        console.print("[yellow]these GPUs do not reach each other: copies go through the host[/]")
    nccl = None
    if (library := asked.nccl or find_nccl()) is None:
        console.print("without NCCL: install nvidia-nccl-cu13, or say where libnccl.so.2 lies with --nccl")
    else:
        try:
            nccl = Nccl(library, numbers)
        except GpuUnavailable as error:
            console.print(f"without NCCL: {error}")
    rows = measure(ways, asked.seconds, asked.turns, nccl)
    console.print(table(rows))
    save(asked.json, host() | machine(gpus[0]) | {"gpus": numbers}, rows, console)


if __name__ == "__main__":
    main()
