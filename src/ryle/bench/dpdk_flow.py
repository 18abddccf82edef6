"""F and X in one process, fed by DPDK without a network: headers are made, payloads lie in the pools once for all.

The engine is `ryle.engines.fx_engine`'s own, from ``[network] receive`` on. A device without a network (net_null) takes
buffers from the pools as an interface does, and `Emulation` writes headers that count; payloads do not move. What comes
out first is compared with what the same operations make of copies of the pools' samples, one after another in memory of
their own, without packets and DPDK.
"""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ryle.bench.network_engine import antennas_on_a_line
from ryle.chunk import Integration, SampleChunk
from ryle.config import Observation, parse
from ryle.engines.fx import AsRead, ReadSamples, fx_steps, read_ring
from ryle.engines.fx_engine import fx_engine
from ryle.gpu import Gpu
from ryle.gpu.interface import DeviceArray
from ryle.receive import dpdk
from ryle.receive.dpdk.source import DpdkSource
from ryle.receive.entrance import Entrance
from ryle.send.dpdk import Emulation
from ryle.stream.block import Block
from ryle.stream.engine import Engine
from ryle.stream.ring import Reader
from ryle.stream.step import EachBlock
from ryle.wire.build import build

BYTES = 8192  #: samples of 8 bits, and bytes, of a packet
PATTERN = 12_345_677  #: bytes after which the pools' contents repeat; no two buffers near each other are alike

_FILE = """
observation = {{name = "pool", sync_time = "2026-03-20T20:00:00Z"}}
band = {{sample_rate = "{rate} Hz", lo = "1.4 GHz"}}
digitizer = {{packets = "alma_like", select = {{band = 0}}, bits = 8, heap_samples = 8192}}
xengine = {{integration = "{integration} s"}}
fx = {{backend = "cuda", cores = {cores}}}
network = {{digitizers = "10.0.0.2:17100", skew = "{skew} s"}}
phase_centre = {{name = "field", ra = "07h00m00s", dec = "-30d00m00s"}}
[fengine]
channels = {channels}
taps = {taps}
max_delay = "10 us"
batch = {batch}
receive = {{by = "dpdk", device = "{device}", copies = {copies}, threads = {queues}}}
[array]
name = "line"
location = {{latitude = "-30.7 deg", longitude = "21.4 deg", height = "1000 m"}}
polarizations = ["x", "y"]
antennas = [{antennas}]
"""


@dataclass(frozen=True)
class Asked:
    """What flows.

    Parameters
    ----------
    copies : 2, 1, 0 or "host-table"
        As of ``receive.copies``.
    gbps : float
        Payload of all inputs, in real time.
    antennas, channels, taps, batch : int
        Of two polarizations; spectra made at a time.
    integration : float
        Seconds of signal.
    skew : float
        Seconds of signal that the ring has room for besides what the engine holds.
    queues : int
        Receiving threads, each with a queue of its own and a share of the antennas.
    cores : tuple of int
        That the engine runs on; the first are receiving threads'. Anywhere if empty.
    device : str
        Of DPDK's, without a network.
    """

    copies: int | str = 0
    gbps: float = 400.0
    antennas: int = 32
    channels: int = 1024
    taps: int = 16
    batch: int = 2048
    integration: float = 0.04
    skew: float = 0.1
    queues: int = 4
    cores: tuple[int, ...] = ()
    device: str = "net_null0"

    @property
    def inputs(self) -> int:
        """Streams."""
        return 2 * self.antennas

    @property
    def packets_per_second(self) -> float:
        """Of an input."""
        return self.gbps * 1e9 / 8 / BYTES / self.inputs

    def observation(self) -> Observation:
        """Make the observation."""
        rate = round(self.packets_per_second * BYTES)
        copies = f'"{self.copies}"' if isinstance(self.copies, str) else self.copies
        cores = json.dumps([",".join(map(str, self.cores))] if self.cores else [])
        names = antennas_on_a_line(self.antennas)
        keys = {k: getattr(self, k) for k in ("channels", "taps", "batch", "integration", "skew", "queues", "device")}
        return parse(_FILE.format(**keys, rate=rate, copies=copies, cores=cores, antennas=names), "pool")


class Kept:
    """Stands for the file: keeps the first integrations, and counts them all."""

    def __init__(self, most: int) -> None:
        self.found: list[Integration] = []
        self.integrations, self._most = 0, most

    def append(self, pieces: Sequence[Integration]) -> int:
        """Take an integration, in one piece; its memory is used again."""
        if self.integrations < self._most:
            (integration,) = pieces
            self.found.append(copy.deepcopy(integration))
        self.integrations += 1
        return self.integrations

    def record(self, name: str, value: Any) -> None:
        """Leave statistics out."""

    def close(self) -> None:
        """Nothing is open."""


class Record(EachBlock):
    """Keeps the tables of the first blocks: which buffer each packet came to."""

    def __init__(self, source: Reader, most: int) -> None:
        super().__init__("record", source)
        self._most = most
        self.tables: list[tuple[int, NDArray[np.uint64], NDArray[np.uint8]]] = []

    def use(self, block: Block) -> None:
        """Look at a block."""
        if len(self.tables) < self._most:
            self.tables.append((block.start, block.data.copy(), block.planes["present"].copy()))
        block.release()


class Placed(AsRead):
    """What blocks of addresses are, of payloads that stay there: read as an engine reads pools.

    Samples that are not read by their addresses may take another kernel, which differs by rounding.
    """

    in_place = True


class Contents:
    """What lies in pools, written there once: pattern after pattern, in each pool from another place on."""

    def __init__(self, pools: list[dpdk.Pool], in_place: bool, gpu: Gpu) -> None:
        self._noise = np.random.default_rng(3).integers(0, 256, PATTERN, np.uint8)
        self._twice = np.concatenate((self._noise, self._noise[:BYTES]))
        self._pools: list[tuple[int, int, int]] = []  # address, bytes and first byte of the pattern
        for number, pool in enumerate(pools):
            first = 7919 * number
            pattern = np.roll(self._noise, -first)
            if not in_place:
                pool.fill(pattern)
            elif pool.memory is not None:
                memory = pool.memory
                for at in range(0, memory.nbytes, PATTERN):
                    memory[at : at + PATTERN] = pattern[: memory.nbytes - at]
                self._pools.append((memory.ctypes.data, memory.nbytes, first))
            else:
                there: Any = pool.device_memory
                for at in range(0, there.nbytes, PATTERN):
                    part = pattern[: there.nbytes - at]
                    there.view((part.size,), np.uint8, at).set(part)
                self._pools.append((there.pointer, there.nbytes, first))
        gpu.default_stream.synchronize()

    def payloads(self, addresses: NDArray[np.uint64], present: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Give the payloads at addresses, uint8 (input, packet, byte); zeros where none is."""
        starts = np.zeros(addresses.shape, np.int64)
        known = present == 0
        for address, nbytes, first in self._pools:
            at = addresses.astype(np.int64) - address
            here = (present != 0) & (at >= 0) & (at < nbytes)
            starts[here] = (at[here] + first) % PATTERN
            known |= here
        if not known.all():
            raise RuntimeError(f"{np.count_nonzero(~known)} payloads lie in no pool")
        windows = np.lib.stride_tricks.sliding_window_view(self._twice, BYTES)
        return np.where(present[..., np.newaxis] != 0, windows[starts], np.uint8(0))


class Flow:
    """An engine and what feeds it.

    Parameters
    ----------
    asked : Asked
        What flows.
    gpu : Gpu
        The engine's too; for copies beside, and for the comparison.
    seconds : float
        How long; then the device has nothing more.
    keep : int
        Integrations to compare.
    """

    def __init__(self, asked: Asked, gpu: Gpu, seconds: float, keep: int = 3) -> None:
        self.asked, self._gpus, self.o = asked, [gpu], asked.observation()
        o = self.o
        self.kept = Kept(keep)
        self.engine, self._write = fx_engine(o, lambda: self.kept)  # type: ignore[arg-type,return-value]
        entrance, in_place = self.engine.entrances[0], o.receive("fx").in_place
        assert isinstance(entrance, Entrance) and isinstance(entrance.source, DpdkSource)
        self.entrance, self.source = entrance, entrance.source
        self.contents = Contents(self.source.payload_pools, in_place, gpu)
        plan = entrance.assembler.plan
        samples = (keep + 2) * o.integration_spectra * o.step
        self.record = Record(entrance.reader(), -(-samples // plan.span) + 1 if in_place else 0)
        self.engine.steps.append(self.record)
        blocks = max(1, round(seconds * asked.packets_per_second / plan.packets))
        self._copies: list[DeviceArray] = []  # of payloads, while they are compared
        self.packets = blocks * plan.packets * asked.inputs  # whole blocks: every stream ends with one
        self.emulations = [self._emulation(queue, blocks * plan.packets) for queue in range(asked.queues)]

    def _emulation(self, queue: int, packets: int) -> Emulation:
        asked, form = self.asked, self.o.digitizer_format
        first, end = (asked.antennas * q // asked.queues for q in (queue, queue + 1))
        streams = 2 * (end - first)
        port = self.o.digitizer_endpoints(range(asked.antennas))[0].port
        header = dpdk.Path(target_port=port).headers(form.header.bytes + BYTES) + build(form, {}, bytes(BYTES))[:-BYTES]
        stamps = [
            dpdk.counting(form, "pol", modulo=2),
            dpdk.counting(form, "antenna", start=first, every=2, modulo=end - first),
            dpdk.counting(form, "timestamp", step=BYTES, every=streams),
        ]
        split = self.source.payload_pools[queue] if self.asked.copies == 0 else None
        rate = asked.packets_per_second * streams
        return Emulation(
            self.source.device, header, stamps, BYTES, queue=queue, payloads=split, rate=rate, count=packets * streams
        )

    def run(self, limit: float) -> dict[str, Any]:
        """Let everything flow, from the first packet to the last.

        Parameters
        ----------
        limit : float
            Seconds after which it is given up.
        """
        began, before = time.perf_counter(), time.process_time()
        self.engine.start()
        while self._seen < self.packets and time.perf_counter() < began + limit:
            self.engine.wait(0.02)  # which raises what has gone wrong
        took, cores = time.perf_counter() - began, time.process_time() - before
        source = self.source.counts()
        self.engine.drain()
        if not self.engine.wait(60.0 + limit):
            raise TimeoutError("the engine did not end")
        account = self.entrance.assembler.counts()
        return {
            "gbps": account.placed * BYTES * 8e-9 / took,
            "packets": self.packets,
            "made": sum(e.made for e in self.emulations),
            "placed": account.placed,
            "missing": account.missing,
            "ring_full": account.ring_full,
            "no_buffer": sum(e.no_buffer for e in self.emulations),
            "starved": sum(q.starved for q in source),
            "lost": self.packets - account.placed,
            "seconds": took,
            "cores": cores / took,
            "queue_busy": [q.busy for q in source],
            "integrations": self.kept.integrations,
            "buffers_back": self._back(),
        }

    def _back(self, patience: float = 5.0) -> bool:
        """Whether all buffers come back; a thread of the entrance's waits for the GPU's last reads."""
        end = time.perf_counter() + patience
        while not (back := all(pool.available == pool.buffers for pool in self.source.payload_pools)):
            if time.perf_counter() > end:
                break
            time.sleep(0.01)
        return back

    @property
    def _seen(self) -> int:
        """Packets that are there or lost."""
        lost = sum(e.no_buffer for e in self.emulations) + sum(q.starved for q in self.source.counts())
        return self.entrance.assembler.counts().received + lost

    def equal(self) -> tuple[int, bool]:
        """Compare the first integrations with those that steps of their own make of copies of the pools' samples.

        Returns
        -------
        compared : int
            Integrations.
        equal : bool
            Whether all are, in every bit.
        """
        wanted = Kept(1 << 30)
        ring = read_ring()
        o = self.o
        steps = fx_steps(o, ring, Placed(), lambda: wanted, self._gpus, joins=True)  # type: ignore[arg-type,return-value]
        with Engine([], [ReadSamples(lambda _: self._samples(), [ring]), *steps]) as engine:
            engine.start()
            engine.wait()
        self._copies.clear()
        whole = {i.first_spectrum: i for i in wanted.found[:-1]}
        pairs = [(i, whole[i.first_spectrum]) for i in self.kept.found if i.first_spectrum in whole]
        return len(pairs), all(
            np.array_equal(a.visibilities, b.visibilities) and np.array_equal(a.counts, b.counts) for a, b in pairs
        ) and any(a.visibilities.any() for a, _ in pairs)

    def _samples(self) -> Iterator[tuple[int, SampleChunk]]:
        for start, addresses, present in self.record.tables:
            copies = self._gpus[0].array(self.contents.payloads(addresses, present))
            self._gpus[0].default_stream.synchronize()
            self._copies.append(copies)
            there = copies.pointer + BYTES * np.arange(present.size, dtype=np.uint64).reshape(present.shape)
            yield 0, SampleChunk(start, np.where(present != 0, there, np.uint64(0)), present, BYTES)

    def close(self) -> None:
        """End."""
        self.engine.close()
        self.emulations.clear()
