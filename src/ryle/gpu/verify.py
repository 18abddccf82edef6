"""Captures to GPUs: chunks are copied to each GPU in turn, and every payload byte is verified there if it should be.

Copies are asynchronous if the ring is page-locked; a chunk is given back when its copy has ended.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ryle.gpu.interface import DeviceArray, Event, Gpu
from ryle.receive.assembly import Chunk
from ryle.store.chunk_file import Layout
from ryle.store.verify import Filling, PayloadRule, Verified

SOURCE = Path(__file__).with_name("verify.cu")


class ChunkVerifier:
    """Verify chunks that lie in a GPU's memory.

    Parameters
    ----------
    gpu : Gpu
        Where.
    layout : Layout
        What the chunks are.
    rule : PayloadRule
        What their payloads must be.
    """

    def __init__(self, gpu: Gpu, layout: Layout, rule: PayloadRule) -> None:
        self._rule, self._layout = rule, layout
        self._bytes = layout.shape[-1]
        self._part = rule.part or self._bytes
        self._kernel = gpu.kernel(SOURCE, "verify", defines(rule.filling, self._bytes))
        self._streams = gpu.array(rule.streams)
        self._grid = max(1, min(8 * gpu.multiprocessors, -(-layout.cells // 8)))

    def launch(self, first: int, data: DeviceArray, present: DeviceArray, found: DeviceArray, stream: Any) -> None:
        """Enqueue the verification of a chunk.

        Parameters
        ----------
        first : int
            Number of its first packets (`PayloadRule.first`).
        data, present : DeviceArray of uint8
            Payloads and marks.
        found : DeviceArray of uint64, shape (3,)
            Packets, wrong packets and wrong bytes are added to it.
        stream : Stream
            Where it is enqueued.
        """
        rule = self._rule
        self._kernel.launch(
            self._grid,
            256,
            data=data,
            present=present,
            streams=self._streams,
            found=found,
            seed=np.uint64(rule.seed),
            first=np.uint64(first),
            period=np.uint64(rule.numbers),
            marks=np.int64(self._layout.cells),
            packets=np.int64(self._layout.packets),
            bytes=np.int64(self._bytes),
            part=np.int64(self._part),
            stream=stream,
        )


class _Lane:
    """One GPU's share: places for two chunks, each with a stream of its own."""

    def __init__(self, gpu: Gpu, layout: Layout, depth: int) -> None:
        self.gpu = gpu
        self.streams = [gpu.stream() for _ in range(depth)]
        self.data = [gpu.empty(layout.shape, np.uint8) for _ in range(depth)]
        self.present = [gpu.empty(layout.marks_shape, np.uint8) for _ in range(depth)]
        self.found = [gpu.array(np.zeros(3, np.uint64)) for _ in range(depth)]
        self.results = [gpu.pinned((3,), np.uint64) for _ in range(depth)]
        self.turn = 0
        self.chunks = 0


class GpuSink:
    """Copy chunks to GPUs in turn; used by one thread.

    Parameters
    ----------
    gpus : sequence of Gpu
        Where chunks go, one after the other.
    layout : Layout
        What the chunks are.
    depth : int
        Chunks that are under way to a GPU at once.

    Attributes
    ----------
    verified : Verified
        What was looked at on the GPUs and what was wrong.
    """

    def __init__(self, gpus: Sequence[Gpu], layout: Layout, depth: int = 2) -> None:
        self._layout, self._depth = layout, depth
        self._lanes = [_Lane(gpu, layout, depth) for gpu in gpus]
        self._verifiers: list[ChunkVerifier] = []
        self._next = 0
        self._under_way: deque[tuple[Event, _Lane, int, Chunk, Callable[[Chunk], None], bool]] = deque()
        self.verified = Verified()

    def verify_with(self, rule: PayloadRule) -> None:
        """Load what verifies chunks; `put` may ask for it from now on."""
        self._verifiers = [ChunkVerifier(lane.gpu, self._layout, rule) for lane in self._lanes]

    @property
    def fill(self) -> float:
        """Share of the copies that may be under way that are."""
        return len(self._under_way) / (self._depth * len(self._lanes))

    def put(self, chunk: Chunk, done: Callable[[Chunk], None], verify: PayloadRule | None = None) -> None:
        """Enqueue a chunk's copy and verification; `done` gets it after the copy, from a later call."""
        self._collect(self._depth * len(self._lanes) - 1)
        index = self._next
        self._next = (index + 1) % len(self._lanes)
        lane = self._lanes[index]
        place = lane.turn
        lane.turn = (place + 1) % self._depth
        stream = lane.streams[place]
        lane.data[place].set(chunk.data, stream)
        if verify is not None:
            lane.present[place].set(chunk.present, stream)
            lane.found[place].fill(0, stream)
            data, present, found = lane.data[place], lane.present[place], lane.found[place]
            self._verifiers[index].launch(verify.first(chunk), data, present, found, stream)
            found.copy_to(lane.results[place], stream)
        self._under_way.append((stream.record(), lane, place, chunk, done, verify is not None))

    def _collect(self, most: int) -> None:
        while len(self._under_way) > most:
            event, lane, place, chunk, done, verified = self._under_way.popleft()
            event.synchronize()
            lane.chunks += 1
            if verified:
                packets, wrong, wrong_bytes = (int(n) for n in lane.results[place])
                self.verified.add(packets, wrong, wrong_bytes, f"chunk {chunk.number}")
            done(chunk)

    def wait(self) -> None:
        """Wait for everything that is under way."""
        self._collect(0)

    def figures(self) -> dict[str, Any]:
        """Say how far it is: chunks of each GPU."""
        return {f"gpu{i}": {"name": lane.gpu.name, "chunks": lane.chunks} for i, lane in enumerate(self._lanes)}


def defines(filling: Filling, nbytes: int) -> dict[str, int]:
    """Macros for payloads of so many bytes."""
    return {"FILLING": int(filling), "WORDS": int(nbytes % 8 == 0)}


def compile_variants() -> list[tuple[Path, dict[str, int]]]:
    """List the kernels that the tests compile for every architecture."""
    return [(SOURCE, defines(filling, nbytes)) for filling in Filling for nbytes in (8192, 8191)]
