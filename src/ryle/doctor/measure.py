"""What some findings cost here: benchmarks of a few seconds, each beside the same work with the other setting."""

from __future__ import annotations

import mmap
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from ryle.bench.bandwidth import host_and_gpus
from ryle.config import show
from ryle.doctor.machine import Machine
from ryle.doctor.needs import Needs
from ryle.gpu.available import open_gpu
from ryle.host_time import stolen_seconds

_ROW = 8192  # bytes of a packet
_RING = 512 << 20  # of memory that packets are put into, in any order
_BATCH = 4096  # packets


def measured(machine: Machine, needs: Needs, say: Callable[[str], None] = lambda _: None) -> Mapping[str, str]:
    """Measure.

    Parameters
    ----------
    machine, needs : Machine, Needs
        What is there, and what is wanted.
    say : callable
        Is told what is measured now.

    Returns
    -------
    dict of str to str
        By the key of a finding, what was found of it.
    """
    found: dict[str, str] = {}
    for what, work in (
        ("how late threads wake up, 3 s", _wakes),
        ("how fast the clock rises, 2 s", _rise),
        ("what huge pages give, 3 s", _pages),
        ("what a socket holds, 1 s", lambda: _socket(needs)),
        ("copies to the GPUs, 2 s", lambda: _gpus(machine, needs)),
    ):
        say(what)
        found |= dict(work())
    return found


def _wakes(seconds: float = 3.0) -> Iterator[tuple[str, str]]:
    """Sleep for 1 ms, again and again; what is missing at the end is what a thread that waits for packets loses."""
    late, stolen = [], stolen_seconds()
    end = time.monotonic() + seconds
    while (now := time.monotonic()) < end:
        time.sleep(1e-3)
        late.append(1e3 * (time.monotonic() - now) - 1)
    half, most, worst = np.percentile(late, [50, 99.9, 100])
    text = f"threads wake {half:.2g} ms late, 1 of 1000 by {most:.2g} ms, at worst by {worst:.2g} ms"
    yield "idle", text
    share = (stolen_seconds() - stolen) / seconds / (os.cpu_count() or 1)
    yield "steal", f"{1e2 * share:.2g} % of {seconds:g} s; {text}"


def _rise() -> Iterator[tuple[str, str]]:
    """Compare a few ms of work after a pause with the same work in the middle of more of it."""
    block = np.random.default_rng().random(1 << 15)

    def work() -> float:
        begin = time.perf_counter()
        for _ in range(40):
            np.sqrt(block)
        return time.perf_counter() - begin

    after_pause = []
    for _ in range(12):
        time.sleep(0.1)
        after_pause.append(work())
    for _ in range(100):
        work()
    steady = np.median([work() for _ in range(50)])
    ratio = float(np.median(after_pause) / steady)
    yield "governor", f"the first ms of work after a pause take {ratio:.2f} times as long as later ones"


def _pages() -> Iterator[tuple[str, str]]:
    """Put packets into a ring in random order, of small pages and of huge ones, in turns."""
    random = np.random.default_rng()
    packets = random.integers(0, 256, (_BATCH, _ROW), np.uint8)
    rings = [_ring(advice) for advice in (mmap.MADV_NOHUGEPAGE, mmap.MADV_HUGEPAGE)]
    rates: list[list[float]] = [[], []]
    for _ in range(12):
        for ring, of in zip(rings, rates, strict=True):
            places = random.permutation(len(ring))[:_BATCH]
            begin = time.thread_time()  # what others take of this core is not in it
            ring[places] = packets
            of.append(packets.nbytes / (time.thread_time() - begin))
    small, huge = (float(np.median(of)) for of in rates)
    yield (
        "thp",
        (
            f"packets of 8 KiB are put into memory at {show(8 * huge, 'b/s')} with huge pages, "
            f"{show(8 * small, 'b/s')} without: {huge / small:.2f} times"
        ),
    )


def _ring(advice: int) -> NDArray[np.uint8]:
    memory = mmap.mmap(-1, _RING)
    memory.madvise(advice)
    ring = np.frombuffer(memory, np.uint8)
    ring[:] = 1  # no page is new later
    return ring.reshape(-1, _ROW)


def _socket(needs: Needs) -> Iterator[tuple[str, str]]:
    """Send to a socket that nobody reads, until it takes no more."""
    if not needs.socket_buffer:
        return
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
    ):
        receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, needs.socket_buffer)
        receiver.bind(("127.0.0.1", 0))
        sender.connect(receiver.getsockname())
        for _ in range(2 * needs.socket_buffer // _ROW):
            sender.send(bytes(_ROW))
        kept = 0
        receiver.setblocking(False)
        try:
            while receiver.recv(_ROW):
                kept += 1
        except BlockingIOError:
            pass
    rate = 10e9
    yield (
        "rmem",
        (
            f"a socket that asks for {show(needs.socket_buffer, 'B')} holds {kept} packets of 8 KiB: a thread may wait "
            f"{1e3 * kept * 8 * _ROW / rate:.3g} ms at {show(rate, 'b/s')}"
        ),
    )


def _gpus(machine: Machine, needs: Needs) -> Iterator[tuple[str, str]]:
    numbers = [g.number for g in machine.gpus[0] if needs.gpus is None or g.number in needs.gpus]
    if not numbers:
        return
    rates = host_and_gpus([open_gpu(n) for n in numbers], 0.5)
    down = rates["pinned", "host to device"]
    yield "pcie-width", f"{show(8 * down, 'b/s')} from memory to {len(numbers)} GPU{'s' if len(numbers) > 1 else ''}"
