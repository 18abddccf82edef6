"""A capture: packets of any format assembled into chunks, and what becomes of them said every second.

Chunks go nowhere, to files, to a ring that other processes map, or to GPUs. The assembler's memory is that ring, in
shared memory beside the capture's status page, wherever chunks go: so a block can always be copied out of it. Counting
begins after a warm-up, in which sockets and memory settle.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any, Literal

from ryle.engines.capture_steps import Count, EachChunk, Show, Store, ToGpu, Verify, used
from ryle.gpu import Gpu, open_gpu
from ryle.gpu.verify import GpuSink
from ryle.monitor.publish import StatusPage
from ryle.receive.assembly import Assembler, Plan
from ryle.receive.entrance import Entrance
from ryle.receive.sources import Source
from ryle.store.chunk_file import Layout
from ryle.store.recording import ChunkRecorder, Files, PacketRecorder
from ryle.store.ring_file import RingFile
from ryle.store.verify import PayloadRule, Verified
from ryle.stream.controls import Control
from ryle.stream.engine import Engine
from ryle.stream.metrics import Registry

#: Ethernet header and checksum, preamble and gap, IPv4 and UDP headers: what a UDP payload takes besides itself.
WIRE_OVERHEAD = 14 + 4 + 20 + 20 + 8
#: What is counted besides packets that were placed.
LOSSES = ("missing", "late", "duplicate", "malformed", "foreign", "ring_full")
#: What a capture says of itself: kind, name, unit, meaning.
_FIGURES: tuple[tuple[Literal["counter", "gauge"], str, str, str], ...] = (
    ("gauge", "elapsed", "s", "from the end of the warm-up to the last packet"),
    ("gauge", "warm_up", "", "how long it took, and packets that were not counted"),
    ("gauge", "payload_gbps", "Gb/s", "payload of packets that were placed, over the time since somebody looked"),
    ("gauge", "wire_gbps", "Gb/s", "all that crossed the wire, over that time"),
    ("gauge", "packets_per_second", "1/s", "over that time"),
    ("gauge", "now", "packets", "lost and refused in that time"),
    ("gauge", "busy", "", "share of a core that threads used in that time"),
    ("gauge", "mean", "Gb/s", "since the end of the warm-up"),
    ("counter", "packets", "packets", "that were received since then"),
    ("counter", "bytes", "B", "of these, headers included"),
    ("gauge", "account", "packets", "what became of every one of them"),
    ("gauge", "faults", "packets", "that were malformed, by what was wrong, since the start"),
    ("gauge", "first_loss", "s", "when the first packet was missing, since 1970"),
    ("gauge", "ring", "chunks", "in which state they are"),
    ("gauge", "ring_fill", "", "share of them that is not free"),
    ("counter", "chunks", "chunks", "that were filled"),
    ("counter", "resyncs", "", "epochs that began after the first"),
)
_FIRST = 20.0  # seconds that a capture with an end waits for its first packet, at least
_PATIENCE = 0.05  # seconds between two looks at how far it is
_SHORTEST = 0.2  # seconds that a rate is taken over at least


class To(StrEnum):
    """Where chunks go."""

    NULL = "null"
    SHM = "shm"
    CHUNKS = "chunks"
    PCAP = "pcap"
    GPU = "gpu"


@dataclass(frozen=True)
class CaptureOptions:
    """What a capture does with what arrives, and for how long.

    Parameters
    ----------
    to : To
        Where chunks go.
    files : Files, optional
        Of `To.CHUNKS` and `To.PCAP`.
    gpus : tuple of int
        Of `To.GPU`: which devices, that get chunks in turn.
    seconds : float
        How long to measure; 0: until stopped.
    warm_up : float
        Seconds after the first packet that are not counted.
    idle : float
        End after so many seconds without packets; 0: never.
    rule : PayloadRule, optional
        What payloads must be.
    verify : bool
        Verify every byte from the beginning.
    hold : int
        Chunks that stay readable in the ring after use.
    """

    to: To = To.NULL
    files: Files | None = None
    gpus: tuple[int, ...] = (0,)
    seconds: float = 0.0
    warm_up: float = 1.0
    idle: float = 0.0
    rule: PayloadRule | None = None
    verify: bool = False
    hold: int = 4


def first_patience(seconds: float, idle: float) -> float:
    """Seconds to wait for the first packet: without end if the capture is to have none."""
    return max(_FIRST, seconds, idle) if seconds or idle else math.inf


def nothing_came(patience: float) -> str:
    """Say that no packet came, and what to look at."""
    return (
        f"no packet came within {patience:g} s: does anybody send to --at, and does a firewall or `ip route` keep it "
        "away? Without --seconds and --idle a capture waits until Ctrl-C"
    )


class Capture:
    """One capture, from the first packet to the last.

    Parameters
    ----------
    plan : Plan
        What chunks look like.
    options : CaptureOptions
        What to do with them.
    make_source : callable
        Gives the source that feeds a sink.
    endpoints : sequence of Endpoint
        Where packets come to, for recordings.

    Attributes
    ----------
    metrics : Registry
        Counts since the end of the warm-up, rates over the time since somebody looked; and what others may set.
    state : callable
        Is told "waiting", "warming up", "running" and "draining".
    """

    def __init__(
        self,
        plan: Plan,
        options: CaptureOptions,
        make_source: Callable[[Any], Source],
        endpoints: Sequence[Any] = (),
        open_device: Callable[[int], Gpu] = open_gpu,
    ) -> None:
        if options.verify and options.rule is None:
            raise ValueError("verifying needs to know what payloads must be: give the sender's seed and filling")
        self.plan, self.options = plan, options
        self.layout = Layout.of(plan)
        self.verifying = options.verify
        self.state: Callable[[str], None] = lambda _: None
        self._make_source, self._endpoints, self._open_device = make_source, endpoints, open_device
        self._stop = threading.Event()
        self._steps: list[EachChunk] = []
        self._verify: Verify | None = None
        self._assembler: Assembler | None = None
        self._source: Source | None = None
        self._ring: RingFile | None = None
        self._recorder: ChunkRecorder | PacketRecorder | None = None
        self._gpu: GpuSink | None = None
        self._base: dict[str, Any] = {}
        self._warm: dict[str, float] | None = None
        self._measured_from = self._last_packet = 0.0
        self._first_loss = self._unheard = 0.0
        self._before: tuple[float, dict[str, Any], dict[str, tuple[float, float]]] | None = None
        self._rates: dict[str, Any] = {}
        self._seen: dict[str, Any] = {}
        self.metrics = self._metrics()

    def stop(self) -> None:
        """End soon, in order. Safe in any thread."""
        self._stop.set()

    def _metrics(self) -> Registry:
        m = Registry(self._look)
        for kind, name, unit, means in _FIGURES:
            add = m.counter if kind == "counter" else m.gauge
            add(name, unit, means, partial(lambda key: self._seen.get(key), name))
        if self.options.to in (To.CHUNKS, To.PCAP):
            m.gauge("disk", "", "what the files hold", lambda: self._recorder and self._recorder.figures())
        if self.options.to is To.GPU:
            m.gauge("gpu", "", "chunks of each GPU", lambda: self._gpu and self._gpu.figures())
        if self.options.rule is not None:
            m.gauge("verified", "", "payloads that were compared, and what was wrong", self._verified)
            m.control("verify", Control("bool", means="compare every payload byte", get=self._verifies, set=self._set))
        return m

    def _verified(self) -> dict[str, Any]:
        of = self._gpu if self._gpu is not None else self._verify
        return (of.verified if of is not None else Verified()).figures()

    def _verifies(self) -> bool:
        return self.verifying

    def _set(self, verifying: bool) -> None:
        self.verifying = verifying

    # -- from the first packet to the last -----------------------------------------------------------------------------

    def run(self, page: StatusPage | None) -> dict[str, Any]:
        """Capture until it is over.

        Parameters
        ----------
        page : StatusPage, optional
            The ring is put beside it; without one it is private.

        Returns
        -------
        dict
            The last figures.

        Raises
        ------
        OSError
            If a disk takes no more or shared memory is short; files are whole.
        RuntimeError
            If a receiving thread failed.
        TimeoutError
            If nothing came, and the capture is to have an end.
        """
        with ExitStack() as stack:
            entrance = self._open(page, stack)
            with Engine([entrance], self._steps) as engine:
                engine.start()
                self.state("waiting")
                try:
                    self._watch(engine)
                finally:
                    self.state("draining")
                    engine.drain()
                engine.wait()
        if self._unheard:
            raise TimeoutError(nothing_came(self._unheard))
        return self.metrics.values()

    def _open(self, page: StatusPage | None, stack: ExitStack) -> Entrance:
        """Make the steps: count, and any of show, verify and store."""
        o = self.options
        if page is not None:
            self._ring = RingFile(page.path / "ring", self.plan, o.hold)
            self._assembler = self._ring.assembler
            stack.callback(self._ring.clear)
        else:
            self._assembler = Assembler(self.plan)
        sink: Any = self._assembler
        chunks: ChunkRecorder | None = None
        if o.to in (To.CHUNKS, To.PCAP):
            assert o.files is not None
            Path(o.files.stem).parent.mkdir(parents=True, exist_ok=True)
            if o.to is To.PCAP:
                self._recorder = sink = PacketRecorder(o.files, self._endpoints, self._assembler)
            else:
                self._recorder = chunks = ChunkRecorder(o.files, self.layout, self._assembler)
            stack.callback(self._recorder.close)
        if o.to is To.GPU:
            gpus = [self._open_device(ordinal) for ordinal in o.gpus]
            stack.enter_context(gpus[0].page_locked(self._assembler.memory))
            self._gpu = GpuSink(gpus, self.layout)
            if o.rule is not None:
                self._gpu.verify_with(o.rule)
        self._source = self._make_source(sink)
        entrance = Entrance("capture", self._assembler, self._source)
        self._steps = [Count(entrance)]
        if self._ring is not None:
            self._steps.append(Show(entrance, self._ring))
        if self._gpu is not None:
            self._steps.append(ToGpu(entrance, self._gpu, self._rule))
        elif o.rule is not None:
            self._verify = Verify(entrance, self._rule)
            self._steps.append(self._verify)
        if chunks is not None:
            self._steps.append(Store(entrance, chunks))
        return entrance

    def _rule(self) -> PayloadRule | None:
        return self.options.rule if self.verifying else None

    def _watch(self, engine: Engine) -> None:
        """Warm up, measure, and come back when it is over."""
        assert self._source is not None
        o, began, packets = self.options, 0.0, 0
        patience, opened = first_patience(o.seconds, o.idle), time.monotonic()
        while not self._stop.is_set() and not engine.wait(_PATIENCE):
            if isinstance(self._recorder, PacketRecorder):
                self._recorder.check()
            now, arrived = time.monotonic(), sum(r.packets for r in self._source.reports())
            if arrived > packets:
                packets, self._last_packet = arrived, now
            if not packets and now - opened >= patience:
                self._unheard = patience
                return
            if not began and packets:
                began = now
                self.state("warming up" if o.warm_up else "running")
                if not o.warm_up:
                    self._measured_from = now
            if began and not self._measured_from and now - began >= o.warm_up:
                self._base = self._counted()
                self._warm = {"seconds": round(now - began, 3), "packets": self._base["received"]}
                self._measured_from = now
                self.state("running")
            if self._measured_from and not self._first_loss and self._lost() > 0:
                self._first_loss = time.time()
            if self._measured_from and o.seconds and now - self._measured_from >= o.seconds:
                return
            if began and o.idle and now - self._last_packet >= o.idle:
                return

    def _lost(self) -> int:
        assert self._assembler is not None
        return self._assembler.counts().missing - int(self._base.get("missing", 0))

    # -- what is said of it --------------------------------------------------------------------------------------------

    def _counted(self) -> dict[str, Any]:
        """All counters since the start."""
        assert self._assembler is not None and self._source is not None
        counts, reports = self._assembler.counts(), self._source.reports()
        found = {name: getattr(counts, name) for name in ("received", "datagrams", "placed", "expected", *LOSSES)}
        return found | {
            "kernel_drops": self._source.kernel_drops,
            "bytes": sum(r.bytes for r in reports),
            "packets": sum(r.packets for r in reports),
        }

    def _since_warm_up(self, counted: dict[str, Any]) -> dict[str, Any]:
        if not self._measured_from:
            return {key: None if value is None else 0 for key, value in counted.items()}
        return {k: None if v is None else v - (self._base.get(k) or 0) for k, v in counted.items()}

    def _look(self) -> None:
        """Take all figures of one moment."""
        if self._assembler is None or self._source is None:
            return
        now, counted, counts = time.monotonic(), self._counted(), self._assembler.counts()
        if self._before is None or now - self._before[0] >= _SHORTEST:
            self._rates = self._rates_since(now, counted)
        total = self._since_warm_up(counted)
        elapsed = max(0.0, min(now, self._last_packet or now) - self._measured_from) if self._measured_from else 0.0
        ring = {"open": counts.open, "ready": counts.ready, "taken": counts.taken, "free": counts.free}
        self._seen = {
            "elapsed": round(elapsed, 3),
            "warm_up": self._warm,
            **self._rates,
            "mean": _gbps(total, elapsed, self._packet_payload) if elapsed > 0 else None,
            "packets": total["received"],
            "bytes": total["bytes"],
            "account": total,
            "faults": {k: v for k, v in counts.faults.items() if v},
            "first_loss": self._first_loss or None,
            "ring": ring,
            "ring_fill": round((counts.open + counts.ready + counts.taken - self._held()) / self.plan.chunks, 3),
            "chunks": counts.chunks,
            "resyncs": counts.resyncs,
        }

    @property
    def _packet_payload(self) -> float:
        """Bytes of samples of a packet; their mean, if packets are parts of heaps that all heaps have."""
        parts = [part.bytes for part in self.plan.parts if not part.optional]
        return sum(parts) / len(parts) if parts else self.plan.payload_bytes

    def _held(self) -> int:
        return 0 if self._ring is None else self._ring.held

    def _rates_since(self, now: float, counted: dict[str, Any]) -> dict[str, Any]:
        assert self._source is not None
        threads = {r.name: (r.cpu_seconds, r.wall_seconds) for r in self._source.reports()}
        threads["consumer"] = used(self._steps)
        if self._recorder is not None:
            threads["disk"] = (self._recorder.busy_seconds, now)
        before, self._before = self._before, (now, counted, threads)
        if before is None:
            return {}
        then, last, last_threads = before
        change = {k: v - last[k] for k, v in counted.items() if v is not None and last[k] is not None}
        busy = {}
        for name, (cpu, wall) in threads.items():
            cpu_then, wall_then = last_threads.get(name, (0.0, 0.0))
            busy[name] = round((cpu - cpu_then) / (wall - wall_then), 3) if wall > wall_then else 0.0
        return {
            **_gbps(change, now - then, self._packet_payload),
            "packets_per_second": round(change["received"] / (now - then)),
            "now": {k: change[k] for k in (*LOSSES, "kernel_drops") if k in change},
            "busy": busy,
        }


def _gbps(change: dict[str, Any], seconds: float, payload_bytes: float) -> dict[str, float]:
    """Rates of payload that was placed, and of all that crossed the wire."""
    wire = change["bytes"] + change["packets"] * WIRE_OVERHEAD
    return {
        "payload_gbps": round(change["placed"] * payload_bytes * 8e-9 / seconds, 4),
        "wire_gbps": round(wire * 8e-9 / seconds, 4),
    }
