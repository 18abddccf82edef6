"""Measure receiving through DPDK: ``python -m ryle.bench.dpdk [--json FILE] [--seconds S] [ring null memif]``.

ring   1-copy over net_ring beside memcpy of the same payloads to the same places, on the same core, in the same run.
null   0-copy control path (headers read, ring of addresses, deferred freeing) of one core: packets whole, and split.
memif  the highest lossless rate from another process over shared memory, 1-copy and 0-copy.

Two cores are used, the first two of those this process may run on: one receives; the other sends and consumes. Rates
are of payload, by the clock and by the receiving thread's processor time, which other processes on the core do not
shorten. Windows of half a second; median, and the quartiles in brackets.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ryle.bench.cpu import machine
from ryle.bench.harness import Child, say, serve
from ryle.host_time import stolen_seconds
from ryle.receive import dpdk
from ryle.receive.assembly import Assembler, Plan, grid
from ryle.send.dpdk import Emulation, Generator
from ryle.wire.build import build
from ryle.wire.description import Format

PARTS = ("ring", "null", "memif")
BYTES, PORT, ANTENNAS = 8192, 17100, 16
FORMAT = Format.load("alma_like")
HEADER = dpdk.Path(target_port=PORT).headers(FORMAT.header.bytes + BYTES) + build(FORMAT, {}, bytes(BYTES))[:-BYTES]
GBPS = BYTES * 8e-9  # Gb/s of payload a packet a second


def stamps(first: int = 0) -> list[dpdk.Stamp]:
    """Let packets go round the antennas, from a block on."""
    return [
        dpdk.counting(FORMAT, "antenna", modulo=ANTENNAS),
        dpdk.counting(FORMAT, "timestamp", start=first * BYTES, step=BYTES, every=ANTENNAS),
    ]


def spread(values: list[float]) -> dict[str, float]:
    """Give the median, the quartiles and how many there are."""
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return {"median": middle, "low": low, "high": high, "windows": len(values)}


def plan(packets: int, chunks: int, pointers: bool) -> Plan:
    """Tell the assembler what comes: all antennas, so many packets of each in a chunk."""
    heads = grid(FORMAT, antenna=range(ANTENNAS), pol=0, band=0)
    return Plan(FORMAT, heads, packets, chunks=chunks, window=packets * BYTES // 2, pointers=pointers, linger=0.2)


def consume(assembler: Assembler, until: Callable[[], bool]) -> None:
    """Take chunks and release them."""
    while not until():
        if (chunk := assembler.next(0.05)) is not None:
            chunk.release()


def _past(end: float) -> bool:
    return time.perf_counter() > end


class Windows:
    """Rates of half seconds, in packets, by the clock and by the receiving thread's processor time."""

    def __init__(self, assembler: Assembler, source: dpdk.DpdkSource) -> None:
        self.assembler, self.source = assembler, source
        self.clock: list[float] = []
        self.processor: list[float] = []
        self.steal = stolen_seconds()

    def watch(self, seconds: float) -> None:
        """Consume chunks for some time; the first half second, when memory is touched, does not count."""
        ends = time.perf_counter() + np.arange(1, 2 + round(seconds / 0.5)) * 0.5
        before = None
        for end in ends:
            consume(self.assembler, partial(_past, float(end)))
            now = self.assembler.counts().placed, time.perf_counter(), self.source.counts()[0].cpu_seconds
            if before is not None:
                self.clock.append((now[0] - before[0]) / (now[1] - before[1]))
                self.processor.append((now[0] - before[0]) / (now[2] - before[2]))
            before = now

    def result(self, variant: str) -> dict[str, Any]:
        """Sum up."""
        counts = self.assembler.counts()
        return {
            "variant": variant,
            "packets_per_second": spread(self.clock),
            "packets_per_processor_second": spread(self.processor),
            "busy": self.source.counts()[0].busy,
            "received": counts.received,
            "ring_full": counts.ring_full,
            "stolen_s": stolen_seconds() - self.steal,
        }


def copy_limits(pool: dpdk.Pool, places: np.ndarray, core: int, runs: int) -> dict[str, list[float]]:
    """Payloads a processor second that memcpy moves: buffers as the pool gives them out, in order, and by chance."""
    mask = os.sched_getaffinity(0)
    native = dpdk.environment.native()
    ordered = pool.addresses(at=56)[:-1]  # so that places and buffers do not repeat together
    given = np.empty(len(ordered), np.uint64)
    native.order(pool.native, 56, given)
    orders = {"as_given": given, "in_order": ordered, "by_chance": np.random.default_rng().permutation(ordered)}
    rates: dict[str, list[float]] = {name: [] for name in orders}
    packets = 4 * len(places)
    os.sched_setaffinity(0, {core})
    for _ in range(runs):
        for name, sources in orders.items():
            began = time.thread_time()
            native.copy_seconds(sources, places, BYTES, packets)
            rates[name].append(packets / (time.thread_time() - began))
    os.sched_setaffinity(0, mask)
    return rates


def bench_ring(cores: list[int], seconds: float) -> dict[str, Any]:
    """Receive with one copy over net_ring, in turns with memcpy."""
    chunk_packets, chunks, buffers = 256, 6, 16384
    assembler = Assembler(plan(chunk_packets, chunks, pointers=False))
    pool = dpdk.Pool(buffers, BYTES + 64, memory="host", payload_at=56)
    pool.fill(np.random.default_rng().integers(0, 256, 12_345_677, np.uint8))
    device = dpdk.Device("net_ring0", [pool])
    source = dpdk.DpdkSource(assembler, device, [PORT], cores=[cores[0]])
    # The places in which the assembler puts packets, in the order in which they come.
    target = dpdk.pages(chunks * ANTENNAS * chunk_packets * BYTES)
    target[:] = 1
    order = np.arange(ANTENNAS * chunk_packets)
    order = order % ANTENNAS * chunk_packets + order // ANTENNAS
    places = (np.arange(chunks)[:, None] * len(order) + order).ravel() * BYTES
    places = (target.ctypes.data + places).astype(np.uint64)
    windows, limits, busy = Windows(assembler, source), copy_limits(pool, places, cores[0], 0), []
    for _ in range(
        max(2, round(seconds / 2))
    ):  # in turns: other processes and machines take some of the memory's speed
        generator = Generator(
            device, pool, HEADER, stamps(assembler.counts().received // ANTENNAS + 1), BYTES, core=cores[1]
        )
        with source:
            with generator:
                windows.watch(1.5)
                busy.append(source.counts()[0].busy)
            time.sleep(0.05)  # until the last are received: the pool must have all
        for name, values in copy_limits(pool, places, cores[0], 2).items():
            limits[name] += values
    result = windows.result("1-copy over net_ring")
    result["busy"] = statistics.median(busy)
    result["memcpy_per_processor_second"] = {name: spread(values) for name, values in limits.items()}
    mine = result["packets_per_processor_second"]["median"] / result["busy"]
    result["ratio"] = {name: mine / statistics.median(values) for name, values in limits.items()}
    return result


def bench_null(cores: list[int], seconds: float, split: bool) -> dict[str, Any]:
    """Receive without a copy from a device without a network, in whole packets or split from their headers."""
    chunk_packets, chunks = 2048, 5
    assembler = Assembler(plan(chunk_packets, chunks, pointers=True))
    buffers = dpdk.needed(chunk_packets * chunks * ANTENNAS)
    pool = dpdk.Pool(buffers, BYTES if split else BYTES + 64, memory="host", payload_at=0 if split else 56, split=split)
    first = dpdk.Pool(4096, 128) if split else pool
    device = dpdk.Device("net_null1" if split else "net_null0", [first], descriptors=512)
    emulation = Emulation(device, HEADER, stamps(), BYTES, payloads=pool if split else None)
    source = dpdk.DpdkSource(assembler, device, [PORT], cores=[cores[0]], payload_pools=[pool])
    windows = Windows(assembler, source)
    with source:
        windows.watch(seconds)
    result = windows.result("0-copy control path, " + ("headers split" if split else "whole packets"))
    assembler.finish()
    for chunk in assembler:
        chunk.release()
    result["buffers"] = buffers
    result["all_buffers_back"] = pool.available == buffers and first.available == first.buffers
    result["no_buffer"] = emulation.no_buffer
    return result


def memif(role: str, name: str, pool: dpdk.Pool) -> dpdk.Device:
    """Open one end of the memory that two processes share."""
    arguments = (
        f"role={role},id=0,socket-abstract=yes,socket=@{name},bsize=9216,rsize=14"  # 16384 packets: 151 MB, some 20 ms
    )
    return dpdk.Device(f"net_memif{name[-1]},{arguments}", [pool])


def sender(core: int, name: str) -> None:
    """Be the other process, which sends what it is asked to."""
    dpdk.start(dpdk.DpdkConfig(memory=512 << 20))
    pool = dpdk.Pool(32768 + 2048, BYTES + 64, memory="host", payload_at=56)
    pool.fill(np.random.default_rng().integers(0, 256, 12_345_677, np.uint8))
    device = memif("client", name, pool)
    device.begin()
    while not device.up:
        time.sleep(0.01)

    def send(asked: dict[str, Any]) -> dict[str, Any]:
        rate = asked["rate"]
        count = int(rate * asked["seconds"]) // ANTENNAS * ANTENNAS
        made = Generator(
            device, pool, HEADER, stamps(asked["first"]), BYTES, core=core, rate=rate, count=count, wait=False
        )
        began = time.perf_counter()
        with made:
            while made.running:
                time.sleep(0.002)
            took = time.perf_counter() - began
        return {"sent": made.sent, "dropped": made.dropped, "seconds": took}

    say({"ready": os.getpid()})
    serve({"send": send})


def bench_memif(cores: list[int], seconds: float, pointers: bool, tell: Callable[[str], None]) -> dict[str, Any]:
    """Find the highest rate from another process at which nothing is lost."""
    chunk_packets, chunks = (512, 6) if not pointers else (256, 8)
    assembler = Assembler(plan(chunk_packets, chunks, pointers))
    held = chunk_packets * chunks * ANTENNAS if pointers else 0
    pool = dpdk.Pool(dpdk.needed(held + 2048), BYTES + 64, memory="host", payload_at=56)
    assert pool.memory is not None
    pool.memory[:] = 1
    name = f"ryle-bench-{os.getpid()}-{int(pointers)}"
    device = memif("server", name, pool)
    source = dpdk.DpdkSource(assembler, device, [PORT], cores=[cores[0]])
    child = Child("ryle.bench.dpdk", "--sender", str(cores[1]), name)
    done = threading.Event()
    consumer = threading.Thread(target=consume, args=(assembler, done.is_set))
    tried: list[dict[str, Any]] = []
    first = 0

    def trial(rate: float, length: float) -> bool:
        nonlocal first
        before, steal = assembler.counts().placed, stolen_seconds()
        child.ask("send", rate=rate, seconds=length, first=first)
        made = child.answer()
        sent, dropped, took = made["sent"], made["dropped"], made["seconds"]
        first += (sent + dropped) // ANTENNAS
        time.sleep(0.1)
        lost = sent + dropped - (assembler.counts().placed - before)
        offered = (sent + dropped) / took * GBPS
        tried.append({"asked_gbps": rate * GBPS, "gbps": offered, "seconds": took, "lost": lost,
                      "stolen_s": stolen_seconds() - steal})  # fmt: skip
        tell(f"    {offered:6.1f} of {rate * GBPS:.1f} Gb/s for {took:.1f} s: {lost} of {sent + dropped} lost")
        return bool(lost == 0 and offered > 0.97 * rate * GBPS)  # a sender that cannot keep up shows nothing

    try:
        with source:
            child.answer()  # that it is ready
            consumer.start()
            low, high = 1e5, 3e6
            trial(1e5, 1.0)  # everything is touched once
            while high / low > 1.04:  # a loss counts only if it comes three times: other processes cause some too
                middle = (low * high) ** 0.5
                if any(trial(middle, 1.0) for _ in range(3)):
                    low = middle
                else:
                    high = middle
            confirmed = low
            while not any(trial(confirmed, seconds) for _ in range(3)):
                confirmed *= 0.9
            most = assembler.counts()
    finally:
        done.set()
        child.close()
        if consumer.is_alive():
            consumer.join()
    return {
        "variant": f"{0 if pointers else 1}-copy over net_memif between two processes",
        "lossless_gbps": confirmed * GBPS,
        "confirmed_seconds": seconds,
        "searched_gbps": low * GBPS,
        "ring_full": most.ring_full,
        "trials": tried,
    }


def shown(result: dict[str, Any]) -> list[str]:
    """Write a result, line by line."""
    lines = [result["variant"]]
    if "lossless_gbps" in result:
        return [*lines, f"  lossless {result['lossless_gbps']:.1f} Gb/s for {result['confirmed_seconds']:g} s"]
    for what in ("packets_per_second", "packets_per_processor_second"):
        r = result[what]
        lines.append(
            f"  {what:30} {r['median'] / 1e6:6.2f} M [{r['low'] / 1e6:.2f}, {r['high'] / 1e6:.2f}]"
            f" = {r['median'] * GBPS:.0f} Gb/s"
        )
    for name, limit in result.get("memcpy_per_processor_second", {}).items():
        rate = f"{limit['median'] * GBPS:.0f} Gb/s; ratio {result['ratio'][name]:.2f}"
        lines.append(f"  memcpy, buffers {name:12} {rate}")
    lines.append(f"  busy {result['busy']:.2f}, ring full {result['ring_full']}, stolen {result['stolen_s']:.2f} s")
    return lines


def measure(
    parts: Sequence[str] = PARTS, seconds: float = 10.0, tell: Callable[[str], None] = lambda _: None
) -> list[dict[str, Any]]:
    """Measure; once in a process, as DPDK keeps cores and memory for as long as that lives.

    Parameters
    ----------
    parts : sequence of str
        Of `PARTS`.
    seconds : float
        Of each measurement, and to confirm a rate.
    tell : callable
        Is told what comes out.

    Raises
    ------
    RuntimeError
        If there are no two cores, or no DPDK.
    """
    cores = sorted(os.sched_getaffinity(0))[:2]
    if len(cores) < 2:
        raise RuntimeError("two cores are needed: one receives, the other sends")
    if (problem := dpdk.dpdk_problem()) is not None:
        raise RuntimeError(problem)
    dpdk.start(dpdk.DpdkConfig(memory=512 << 20))
    benches: dict[str, list[Callable[[], dict[str, Any]]]] = {
        "ring": [partial(bench_ring, cores, seconds)],
        "null": [partial(bench_null, cores, seconds, split) for split in (False, True)],
        "memif": [partial(bench_memif, cores, seconds, pointers, tell) for pointers in (False, True)],
    }
    results = []
    for part in parts:
        tell(f"{part} ...")
        for bench in benches[part]:
            results.append(bench())
            tell("\n".join(shown(results[-1])))
    return results


def main() -> None:
    """Measure, print and save."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("parts", nargs="*", default=[], help="ring, null, memif; all if absent")
    arguments.add_argument("--json", type=Path, help="write results here")
    arguments.add_argument("--seconds", type=float, default=10.0, help="of each measurement, and to confirm a rate")
    arguments.add_argument("--sender", nargs=2, help=argparse.SUPPRESS)
    given = arguments.parse_args()
    if given.sender is not None:
        return sender(int(given.sender[0]), given.sender[1])
    if wrong := set(given.parts) - set(PARTS):
        arguments.error(f"there is no part {', '.join(wrong)}; {', '.join(PARTS)} are")
    results = measure(given.parts or PARTS, given.seconds, partial(print, flush=True))
    if given.json:
        cores = sorted(os.sched_getaffinity(0))[:2]
        about = {**machine(), "dpdk": dpdk.environment.native().version(), "cores": cores, "payload_bytes": BYTES}
        given.json.write_text(json.dumps({"about": about, "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
