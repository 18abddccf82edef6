"""Engines on a GPU without a network: blocks that are full already, on the host or on the GPU, again and again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ryle.chunk import SampleChunk
from ryle.gpu import Gpu
from ryle.stream.block import Block
from ryle.stream.ring import Reader, Ring
from ryle.stream.step import EachBlock, Step

#: Blocks of a ring on the host: one that is copied, others that wait.
_BLOCKS = 4


@dataclass
class Gate:
    """Lets blocks through while it is open."""

    open: threading.Event = field(default_factory=threading.Event)
    ended: threading.Event = field(default_factory=threading.Event)


class Feed(Step):
    """Gives the blocks of a ring as they are, as fast as they come back; only their time goes on.

    Parameters
    ----------
    ring : Ring
        Of full blocks.
    span : int
        Time of a block, in the ring's unit.
    gate : Gate
        When.
    """

    def __init__(self, ring: Ring, span: int, gate: Gate) -> None:
        super().__init__("feed", [ring])
        self._ring, self._span, self._gate = ring, span, gate

    def run(self) -> None:
        """Give blocks until the end."""
        start = 0
        while not self._gate.ended.is_set():
            if not self._gate.open.wait(0.05):
                continue
            block = self._ring.room()
            assert block is not None
            block.start, block.span = start, self._span
            block.planes["fed"] = np.array([time.perf_counter()])
            start += self._span
            self._ring.put(block)


class Sink(EachBlock):
    """Takes what comes out and notes when.

    Attributes
    ----------
    came : list of (float, int)
        When each block was there, and its end in the ring's unit of time.
    """

    def __init__(self, source: Reader) -> None:
        super().__init__("sink", source)
        self.came: list[tuple[float, int]] = []

    def use(self, block: Block) -> None:
        """Note a block."""
        self.came.append((time.perf_counter(), block.start + block.span))
        block.release()


def host_ring(gpu: Gpu, inputs: int, packets: int, packet_bytes: int) -> Ring:
    """Make a ring of page-locked blocks of random samples."""
    rng = np.random.default_rng(1)
    noise = rng.integers(0, 256, 1 << 24, np.uint8)

    def make() -> Block:
        memory = gpu.pinned((inputs, packets, packet_bytes), np.uint8)
        flat = memory.reshape(-1)
        for at in range(0, flat.size, noise.size):
            part = flat[at : at + noise.size]
            part[...] = noise[: part.size]
        present = gpu.pinned((inputs, packets), np.uint8)
        present.fill(1)
        return Block(memory, {"present": present})

    return Ring("samples", make, _BLOCKS)


def table_ring(shared: Sequence[tuple[Gpu, int]], packets: int, packet_bytes: int) -> Ring:
    """Make a ring of tables of addresses of packets of random samples, which lie on GPUs in no order.

    Parameters
    ----------
    shared : sequence of (Gpu, int)
        Where packets lie, and of how many inputs, one after the other.
    packets, packet_bytes : int
        Of an input, and of a packet.
    """
    rng = np.random.default_rng(2)
    noise = rng.integers(0, 256, 1 << 26, np.uint8)
    pools, tables = [], []  # memory, and the addresses of each block
    for gpu, inputs in shared:
        count = _BLOCKS * inputs * packets
        pool = gpu.empty((count * packet_bytes,), np.uint8)
        for at in range(0, pool.nbytes, noise.size):
            size = min(noise.size, pool.nbytes - at)
            pool.view((size,), np.uint8, at).set(noise[:size])
        gpu.default_stream.synchronize()
        places = rng.permutation(count).astype(np.uint64).reshape(_BLOCKS, inputs, packets)
        pools.append(pool)
        tables.append(np.uint64(pool.pointer) + places * np.uint64(packet_bytes))
    of_blocks = iter(np.concatenate(tables, axis=1))

    def make() -> Block:
        addresses = shared[0][0].pinned((sum(inputs for _, inputs in shared), packets), np.uint64)
        addresses[...] = next(of_blocks)
        present = shared[0][0].pinned(addresses.shape, np.uint8)
        present.fill(1)
        return Block(addresses, {"present": present, "pool": _Held(pools)})  # type: ignore[dict-item]

    return Ring("addresses", make, _BLOCKS)


class _Held:
    """Keeps memory of a GPU for as long as a block."""

    def __init__(self, memory: Any) -> None:
        self.memory = memory


class AsFed:
    """What the blocks are: samples, or addresses of them."""

    lent = True

    def __init__(self, packet_samples: int, in_place: bool = False) -> None:
        self._size, self.in_place = packet_samples, in_place

    def given(self, block: Block) -> SampleChunk:
        """View a block."""
        return SampleChunk(block.start, block.data, block.planes["present"], self._size)

    def saturated(self, block: Block) -> int:
        """Nobody reports saturated samples."""
        return 0


def rate_of(came: list[tuple[float, int]], since: float) -> tuple[float, float]:
    """Give units of time a second of what came since a moment, and how many seconds that is of."""
    found = [c for c in came if c[0] >= since]
    if len(found) < 2:
        return float("nan"), 0.0
    seconds = found[-1][0] - found[0][0]
    return (found[-1][1] - found[0][1]) / seconds, seconds


def busy(work: Callable[[], object]) -> tuple[float, float]:
    """Run something; give processor seconds of this process a second, and how long it took."""
    before, began = time.process_time(), time.perf_counter()
    work()
    seconds = time.perf_counter() - began
    return (time.process_time() - before) / seconds, seconds


def filled(array: NDArray[Any], seed: int) -> NDArray[Any]:
    """Fill an array with random bytes, without -128."""
    rng = np.random.default_rng(seed)
    flat = array.reshape(-1).view(np.int8)
    noise = rng.integers(-127, 128, 1 << 24, np.int8)
    for at in range(0, flat.size, noise.size):
        part = flat[at : at + noise.size]
        part[...] = noise[: part.size]
    return array
