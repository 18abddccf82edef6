"""Page-locked memory, copies of chunks to a GPU and their verification there, against the processor's."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from ryle.bench.harness import emulated_gpu
from ryle.config.endpoints import Endpoint
from ryle.engines.capture import Capture, CaptureOptions, To
from ryle.gpu import open_gpu
from ryle.gpu.verify import ChunkVerifier, GpuSink
from ryle.receive import _native
from ryle.receive.assembly import PORT, Assembler, Plan, grid
from ryle.receive.udp import UdpSource
from ryle.store.chunk_file import Layout, StoredChunk
from ryle.store.verify import Filling, PayloadRule, Verified, verify
from ryle.wire.build import build
from ryle.wire.description import Format

FORMAT = Format.load("counter_8192")
PAYLOAD, SEED = 8184, 20261121

Say = Callable[[str], None]


def check(emulated: bool, say: Say) -> dict[str, Any]:
    """Do all of it; "passed" says whether all was right."""
    gpu: Any = emulated_gpu() if emulated else open_gpu()
    say(f"  {gpu.name}, driver {gpu.driver}")
    found = {
        "gpu": gpu.name,
        "driver": gpu.driver,
        "page_locked": page_locked(gpu, emulated, say),
        "verifier": verifier(gpu, say),
        "sink": sink(gpu, say),
        "capture": capture(gpu, say),
    }
    passed = all(part["passed"] for part in found.values() if isinstance(part, dict))
    say(f"  check: {'all right' if passed else 'NOT right'}")
    return found | {"passed": passed}


def page_locked(gpu: Any, emulated: bool, say: Say) -> dict[str, Any]:
    """Lock an assembler's ring: copies from it are then asynchronous and faster, and it can be locked again."""
    plan = Plan(FORMAT, grid(FORMAT, **{PORT: range(2)}), 16 if emulated else 4096, chunks=4, by_port=True)
    ring = Assembler(plan).memory
    place, stream = gpu.empty(ring.shape, np.uint8), gpu.stream()

    def once() -> tuple[float, float]:
        began = time.perf_counter()
        for _ in range(4):
            place.set(ring, stream)
        returned = time.perf_counter() - began
        stream.synchronize()
        return returned, 4 * ring.nbytes * 8e-9 / (time.perf_counter() - began)

    def registered() -> bool | None:
        if emulated:
            return None
        from cuda.bindings import driver

        kind = driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_MEMORY_TYPE
        with gpu.using("asking what memory is"):
            error, value = driver.cuPointerGetAttribute(kind, ring.ctypes.data)
        return int(error) == 0 and int(value) == int(driver.CUmemorytype.CU_MEMORYTYPE_HOST)

    once()
    pageable, states = once(), [registered()]
    for _ in range(2):
        began = time.perf_counter()
        with gpu.page_locked(ring):
            took = time.perf_counter() - began
            states.append(registered())
            once()
            locked = once()
        states.append(registered())
    same = bool(np.array_equal(place.get(), ring))
    passed = same and (emulated or states[1] == states[3] is True)
    say(
        f"  page_locked: {ring.nbytes >> 20} MiB in {took:.3f} s; to the GPU {locked[1]:.0f} Gb/s (4 copies returned "
        f"after {1e3 * locked[0]:.2f} ms), pageable {pageable[1]:.0f} Gb/s ({1e3 * pageable[0]:.2f} ms); "
        f"registered: {states}"
    )
    return {
        "passed": passed,
        "mib": ring.nbytes >> 20,
        "lock_seconds": took,
        "locked_gbps": locked[1],
        "locked_returned_ms": 1e3 * locked[0],
        "pageable_gbps": pageable[1],
        "pageable_returned_ms": 1e3 * pageable[0],
        "registered": states,
    }


def spoil(data: np.ndarray, present: np.ndarray, rng: np.random.Generator, count: int) -> tuple[int, int]:
    """Change some bytes of packets that are there; give how many packets and bytes are wrong."""
    flat, there = data.reshape(-1, data.shape[-1]), np.flatnonzero(present.reshape(-1))
    places = {(int(rng.choice(there)), int(rng.integers(flat.shape[1]))) for _ in range(count)}
    for row, byte in places:
        flat[row, byte] ^= rng.integers(1, 256)
    return len({row for row, _ in places}), len(places)


def verifier(gpu: Any, say: Say) -> dict[str, Any]:
    """Compare the GPU's findings with the processor's, and with what was spoilt: fillings, sizes, a counter's wrap."""
    rng, cases, right = np.random.default_rng(), 0, 0
    for filling in Filling:
        for nbytes in (8192, PAYLOAD, 4097, 13):
            for period in (0, 1000):
                heads, packets = 3, 40
                seed, streams = int(rng.integers(1 << 63)), rng.integers(0, 1 << 63, heads).astype(np.uint64)
                rule = PayloadRule(filling, seed, streams, 1, period)
                layout = Layout(
                    "x", tuple((h,) for h in range(heads)), ("a",), packets, (heads, packets, nbytes), 1, 0, ""
                )
                first = 980 if period else (1 << 40) + 7
                data = np.zeros(layout.shape, np.uint8)
                for h in range(heads):
                    for n in range(packets):
                        number = (first + n) % period if period else first + n
                        _native.fill_payload(int(filling), seed, int(streams[h]), number, data[h, n])
                present = (rng.random((heads, packets)) < 0.9).astype(np.uint8)
                placed = int(present.sum())
                chunk = StoredChunk(first // packets, 0, first, placed, data, present)
                on_gpu = ChunkVerifier(gpu, layout, rule)
                for wrong in (0, 1, int(rng.integers(2, 200))):
                    # Spoilt from scratch each time: what was spoilt twice might be right again.
                    clean = data.copy()
                    expected = (placed, *(spoil(data, present, rng, wrong) if wrong else (0, 0)))
                    on_cpu = Verified()
                    verify(rule, chunk, on_cpu)
                    results = gpu.array(np.zeros(3, np.uint64))
                    on_gpu.launch(rule.first(chunk), gpu.array(data), gpu.array(present), results, gpu.default_stream)
                    got = tuple(int(n) for n in results.get())
                    host = on_cpu.packets, on_cpu.wrong_packets, on_cpu.wrong_bytes
                    cases, right = cases + 1, right + (got == host == expected)
                    if got != expected or host != expected:
                        found = f"GPU {got}, processor {host}, spoilt {expected}"
                        say(f"  {filling.name} {nbytes} B, period {period}: {found}")
                    data[...] = clean
    say(f"  verifier: {right} of {cases} cases right")
    return {"passed": right == cases, "cases": cases, "right": right}


def packet(number: int) -> np.ndarray:
    """Write a packet as `ryle send` does."""
    payload = np.empty(PAYLOAD, np.uint8)
    _native.fill_payload(int(Filling.RANDOM), SEED, 0, number, payload)
    return np.frombuffer(build(FORMAT, {"counter": number}, payload.tobytes()), np.uint8).copy()


def sink(gpu: Any, say: Say) -> dict[str, Any]:
    """Put chunks with spoilt and with missing packets through `GpuSink`; look at what lies on the GPU, too."""
    rng, packets, chunks = np.random.default_rng(), 16, 12
    plan = Plan(FORMAT, grid(FORMAT, **{PORT: range(2)}), packets, chunks=6, by_port=True, linger=0.0)
    assembler, rule = Assembler(plan), PayloadRule.of(plan, Filling.RANDOM, SEED)
    to = GpuSink([gpu], Layout.of(plan))
    to.verify_with(rule)
    given, spoilt, spoilt_bytes, equal, back = 0, 0, 0, True, []

    def done(chunk: Any) -> None:
        back.append(chunk.number)
        chunk.release()

    with gpu.page_locked(assembler.memory):
        for c in range(chunks):
            for port in range(2):
                batch = np.stack([packet(n) for n in range(packets * c, packets * (c + 1))])
                keep = rng.random(packets) < 0.9
                wrong = keep & (rng.random(packets) < 0.3)
                for row in np.flatnonzero(wrong):
                    at = rng.choice(np.arange(8, 8 + PAYLOAD), int(rng.integers(1, 50)), replace=False)
                    batch[row, at] ^= rng.integers(1, 256, len(at)).astype(np.uint8)
                    spoilt_bytes += len(at)
                given, spoilt = given + int(keep.sum()), spoilt + int(wrong.sum())
                assembler.take(np.ascontiguousarray(batch[keep]), port=port)
            assembler.flush()
            chunk = assembler.next(1.0)
            assert chunk is not None
            lane = to._lanes[0]
            place, wanted = lane.turn, np.array(chunk.data)
            to.put(chunk, done, rule)
            equal &= bool(np.array_equal(lane.data[place].get(stream=lane.streams[place]), wanted))
        to.wait()
    v = to.verified
    got = v.packets, v.wrong_packets, v.wrong_bytes
    passed = got == (given, spoilt, spoilt_bytes) and equal and back == list(range(chunks))
    say(
        f"  sink: found {got} (packets, wrong packets, wrong bytes), given {(given, spoilt, spoilt_bytes)}; "
        f"chunks equal {equal}"
    )
    return {"passed": passed, "found": got, "given": (given, spoilt, spoilt_bytes), "equal": equal}


def capture(gpu: Any, say: Say) -> dict[str, Any]:
    """Send spoilt packets through a socket to a whole capture to the GPU."""
    rng, total = np.random.default_rng(), 512
    plan = Plan(FORMAT, grid(FORMAT), 64, chunks=8, linger=0.2)
    options = CaptureOptions(to=To.GPU, warm_up=0.0, rule=PayloadRule.of(plan, Filling.RANDOM, SEED), verify=True)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    endpoint = [Endpoint(host="127.0.0.1", port=port)]
    running = Capture(plan, options, lambda to: UdpSource(to, endpoint), (), lambda _: gpu)
    waiting, last = threading.Event(), {}
    running.state = lambda state: waiting.set() if state == "waiting" else None
    thread = threading.Thread(target=lambda: last.update(running.run(None)))
    thread.start()
    waiting.wait(30)
    wrong = rng.random(total) < 0.1
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        for n in range(total):
            p = packet(n)
            if wrong[n]:
                p[int(rng.integers(8, len(p)))] ^= int(rng.integers(1, 256))
            s.sendto(p.tobytes(), ("127.0.0.1", port))
            if n % 16 == 0:
                time.sleep(0.001)
    time.sleep(1.0)
    running.stop()
    thread.join()
    v, placed = last["verified"], last["account"]["placed"]
    passed = v["packets"] == placed == total and v["wrong_packets"] == v["wrong_bytes"] == int(wrong.sum())
    say(f"  capture: sent {total}, {int(wrong.sum())} spoilt; placed {placed}, found {v}")
    return {"passed": passed, "sent": total, "spoilt": int(wrong.sum()), "found": v}
