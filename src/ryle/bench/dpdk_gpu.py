"""0-copy into a GPU, as far as it goes without a network interface: ``python -m ryle.bench.dpdk_gpu [--json FILE]``.

A pool in the GPU's memory holds payloads that its copy engine placed there. A device without a network (net_null)
takes header buffers and payload buffers from their pools as a network interface would that splits packets, headers
are written for it, and from there on everything is as it will be: one core reads headers, fills the ring of
addresses, frees buffers one for one; each block's table of addresses goes to the GPU, whose channelizer reads the
samples where they lie. Some blocks' spectra are compared, bit for bit, with those of the same samples in one buffer.
Meanwhile the copy engine writes other memory of the GPU as fast as it can, in place of the network interface's own
writing.
"""

from __future__ import annotations

import argparse
import json
import os
import threading
import time
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np

from ryle.bench import dpdk as base
from ryle.bench.harness import emulated_gpu
from ryle.channelize import Blocks, ChannelizerConfig, Delays
from ryle.channelize.cuda import CudaChannelizer
from ryle.chunk import SampleChunk
from ryle.gpu import open_gpu
from ryle.receive import dpdk
from ryle.receive.assembly import Assembler
from ryle.send.dpdk import Emulation
from ryle.version import commit

INPUTS, CHANNELS, HISTORY = base.ANTENNAS, 4096, 64  # packets of the block before that a block's windows reach into
BYTES = base.BYTES


class TwoBlocks:
    """Hands tables of addresses to the channelizer, two blocks under way."""

    def __init__(self, gpu: Any, packets: int) -> None:
        self.gpu, self.packets = gpu, packets
        self.config = ChannelizerConfig(INPUTS, CHANNELS, bits=8)
        self.tested, self.oracle = CudaChannelizer(self.config, gpu), CudaChannelizer(self.config, gpu)
        self.stream = gpu.stream()
        total = HISTORY + packets
        self.delays = Delays.zero(INPUTS, packets)
        self.staged, self.works = [], []
        for _ in range(2):
            table = gpu.pinned((INPUTS, total), np.uint64)
            present = gpu.pinned((INPUTS, total), np.uint8)
            table[...] = 0
            present[...] = 0
            self.staged.append((table, present))
            shape = (CHANNELS, packets // 64, INPUTS, 128)
            samples = gpu.empty((INPUTS, total), np.uint64)
            work = self.tested.work(samples, total, BYTES, 0, 0, packets, shape, np.int8)
            for name in ("coarse", "fine", "phase"):
                getattr(work, name).set(np.ascontiguousarray(getattr(self.delays, name)))
            self.works.append(work)
        self.ends: list[Any] = [None, None]
        self.begins: list[Any] = [None, None]
        self.seconds, self.number = 0.0, 0
        self.held: list[Any] = []  # chunks whose payloads the GPU may still read

    def submit(self, chunk: Any) -> None:
        """Enqueue a block; release the chunks that are done with."""
        i = self.number % 2
        self.number += 1
        table, present = self.staged[i]
        work = self.works[i]
        self.wait(i)
        before = self.held[-1] if self.held and self.held[-1].number == chunk.number - 1 else None
        table[:, :HISTORY] = before.addresses[:, -HISTORY:] if before else 0
        table[:, HISTORY:] = chunk.addresses
        np.not_equal(table, 0, out=present.view(np.bool_))
        work.timestamp = chunk.timestamp - HISTORY * BYTES
        work.first_spectrum = work.timestamp // self.config.step
        self.begins[i] = self.stream.record()
        work.samples.set(table, self.stream)
        work.present.set(present, self.stream)
        self.tested.launch(work, Blocks(), stream=self.stream)
        self.ends[i] = self.stream.record()
        self.held.append(chunk)
        self.wait(1 - i)
        while len(self.held) > 2:  # this block, and the one that it begins in
            self.held.pop(0).release()

    def wait(self, i: int) -> None:
        """Wait for the block that was enqueued there."""
        if self.ends[i] is not None:
            self.ends[i].synchronize()
            self.seconds += self.ends[i].seconds_since(self.begins[i])
            self.ends[i] = None

    def check(self, host: np.ndarray, pool: dpdk.Pool) -> bool | None:
        """Compare the newest block, if it is whole, with the same samples in one buffer."""
        i = (self.number - 1) % 2
        self.wait(i)
        table, present = self.staged[i]
        if not present.all():
            return None
        index = (table - pool.addresses()[0]) // np.uint64(pool.native.stride)
        data = host[np.where(present, index, 0).astype(np.int64)]
        chunk = SampleChunk(self.works[i].timestamp, data, present.copy(), BYTES)
        first = self.works[i].first_spectrum
        wanted = self.oracle.process(chunk, first, self.packets, self.delays, Blocks())
        got = self.works[i].out.get()
        return bool(wanted.valid.any() and np.array_equal(got.reshape(-1), wanted.data.reshape(-1).view(np.int8)))

    def end(self) -> None:
        """Release everything."""
        self.wait(0)
        self.wait(1)
        while self.held:
            self.held.pop(0).release()


def copy_beside(gpu: Any, stop: threading.Event, written: list[int], piece: int) -> None:
    """Copy pieces to the GPU, two of them under way at any time.

    Tables of addresses then get there far more slowly, with pieces of 8 MiB even more than with 256 MiB; why is not
    known.
    """
    under_way = 2
    source, target, stream = gpu.pinned((piece,), np.uint8), gpu.empty((piece,), np.uint8), gpu.stream()
    source[...] = 1
    events: deque[Any] = deque()
    while not stop.is_set():
        target.set(source, stream)
        events.append(stream.record())
        if len(events) == under_way:
            events.popleft().synchronize()
            written[0] += piece
    stream.synchronize()


def run(gbps: float, seconds: float, beside: bool, blocks: TwoBlocks, pool: dpdk.Pool, host: np.ndarray, core: int,
        chunks: int, number: int, piece: int) -> dict[str, Any]:  # fmt: skip
    """Hand payloads over at a rate for some seconds, and compare some blocks' spectra."""
    assembler = Assembler(base.plan(blocks.packets, chunks, True))
    headers = dpdk.Pool(4096, 128)
    device = dpdk.Device(f"net_null{number}", [headers], descriptors=512)
    made = Emulation(device, base.HEADER, base.stamps(4 * blocks.packets), BYTES, payloads=pool, rate=gbps / base.GBPS)
    source = dpdk.DpdkSource(assembler, device, [base.PORT], cores=[core], payload_pools=[pool])
    stop, written = threading.Event(), [0]
    copier = threading.Thread(target=copy_beside, args=(blocks.gpu, stop, written, piece))
    checked: list[bool] = []
    if beside:
        copier.start()
        time.sleep(0.5)
    with source:
        warm = time.perf_counter() + 0.5
        while time.perf_counter() < warm:
            if (chunk := assembler.next(0.2)) is not None:
                blocks.submit(chunk)
        began, before, busy, copied = time.perf_counter(), assembler.counts(), blocks.seconds, written[0]
        while time.perf_counter() < began + seconds:
            if (chunk := assembler.next(0.2)) is not None:
                blocks.submit(chunk)
        after, elapsed = assembler.counts(), time.perf_counter() - began
        gpu_busy, copied = (blocks.seconds - busy) / elapsed, written[0] - copied
        queue = source.counts()[0]
        end = time.perf_counter() + 30
        while len(checked) < 3 and time.perf_counter() < end:  # afterwards, as comparing holds everything up
            if (chunk := assembler.next(0.2)) is not None:
                blocks.submit(chunk)
                if (equal := blocks.check(host, pool)) is not None:
                    checked.append(equal)
    stop.set()
    if beside:
        copier.join()
    blocks.end()
    assembler.finish()
    for chunk in assembler:
        chunk.release()
    lost = after.missing - before.missing + after.ring_full - before.ring_full
    return {
        "asked_gbps": gbps or None,
        "handed_over_gbps": (after.placed - before.placed) / elapsed * base.GBPS,
        "packets_per_second": (after.placed - before.placed) / elapsed,
        "seconds": elapsed,
        "lost": lost,
        "no_buffer": made.no_buffer,
        "starved": queue.starved,
        "core_busy": queue.busy,
        "gpu_busy": gpu_busy,
        "piece_bytes": piece if beside else None,
        "copied_beside_gbps": copied * 8e-9 / elapsed,
        "blocks_equal": checked,
        "all_buffers_back": pool.available == pool.buffers,
    }


def main() -> None:
    """Measure at all rates, with and without copies beside."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--json", type=Path)
    arguments.add_argument("--seconds", type=float, default=5.0)
    arguments.add_argument("--packets", type=int, default=8192, help="of an input in a block; a multiple of 64")
    arguments.add_argument("--chunks", type=int, default=8, help="blocks in the ring")
    arguments.add_argument("--rates", type=float, nargs="+", default=[400, 600, 800, 0], help="Gb/s; 0: all it can")
    arguments.add_argument("--piece", type=int, default=8192, help="KiB of a copy beside")
    arguments.add_argument("--emulated", action="store_true", help="try the program without a GPU (PYTHONPATH=tests)")
    given = arguments.parse_args()
    gpu: Any = emulated_gpu() if given.emulated else open_gpu()
    dpdk.start(dpdk.DpdkConfig(huge_pages="no", memory=1 << 30))
    buffers = dpdk.needed(given.packets * given.chunks * INPUTS)
    memory = gpu.empty((dpdk.Pool.memory_bytes(buffers, BYTES, split=True),), np.uint8)
    registered = memory.pointer % 65536 == 0
    began = time.perf_counter()
    pool = dpdk.Pool(buffers, BYTES, memory=memory, split=True, page=None if registered else 0)
    made_in = time.perf_counter() - began
    contents = np.random.default_rng().integers(0, 256, memory.nbytes, np.uint8)
    memory.set(contents)  # the copy engine places all payloads
    host = contents[: buffers * BYTES].reshape(buffers, BYTES)
    core = sorted(os.sched_getaffinity(0))[-1]
    print(f"{gpu.name}: pool of {buffers} payloads, {memory.nbytes >> 20} MiB, made in {made_in:.2f} s, "
          f"{'registered' if registered else 'not registered'} with DPDK; one receiving core, {core}")  # fmt: skip
    blocks = TwoBlocks(gpu, given.packets)
    results = []
    for number, (rate, beside) in enumerate((r, b) for r in given.rates for b in (False, True)):
        r = run(rate, given.seconds, beside, blocks, pool, host, core, given.chunks, number, given.piece << 10)
        results.append(r)
        print(
            f"  asked {rate or 'all':>5} Gb/s{', copying beside' if beside else '':16}: handed over "
            f"{r['handed_over_gbps']:6.1f} Gb/s, lost {r['lost']}, core busy {r['core_busy']:.2f}, GPU busy "
            f"{r['gpu_busy']:.2f}, copied {r['copied_beside_gbps']:.0f} Gb/s, equal {r['blocks_equal']}, buffers back "
            f"{r['all_buffers_back']}",
            flush=True,
        )
    if given.json:
        about = {"gpu": gpu.name, "dpdk": dpdk.environment.native().version(), "pool_seconds": made_in,
                 "pool_registered": registered, "inputs": INPUTS, "channels": CHANNELS, "taps": 16, "bits": 8,
                 "block_packets": given.packets, "commit": commit()}  # fmt: skip
        given.json.write_text(json.dumps({"about": about, "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
