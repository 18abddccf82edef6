from typing import Any

import numpy as np
from numpy.typing import NDArray

from ryle.wire._native import Layout

def to_kblocks(
    heaps: NDArray[np.uint8],
    present: NDArray[np.uint8],
    kind: NDArray[np.uint8],
    spectra_per_heap: int,
    pols: int,
    value_bytes: int,
    data: NDArray[np.int8],
    valid: NDArray[np.uint64],
) -> None: ...

class Sink:
    @property
    def address(self) -> int: ...
    def sender(self, address: bytes, port: int) -> int: ...
    def take_bytes(
        self, packets: list[bytes], port: int, times: NDArray[np.int64] | None = None, sender: int = 0
    ) -> None: ...
    def take_rows(self, packets: NDArray[np.uint8], port: int, times: NDArray[np.int64] | None = None) -> None: ...
    def take_buffer(
        self,
        buffer: NDArray[np.uint8],
        starts: NDArray[np.int64],
        lengths: NDArray[np.int64],
        port: int,
        times: NDArray[np.int64] | None = None,
    ) -> None: ...
    def take_at(self, data: list[int], sizes: list[int], payloads: list[int], buffers: list[int]) -> None: ...
    def idle(self, now: int) -> None: ...

class Discard(Sink):
    def __init__(self) -> None: ...
    @property
    def packets(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    @property
    def first(self) -> int: ...
    @property
    def last(self) -> int: ...

class Plan:
    key_fields: list[int]
    key_port: bool
    heads: list[list[int]]
    notes: list[int]
    step: int
    origin: int
    any_phase: bool
    packets: int
    window: int
    skew: int
    outage: int
    slots: int
    data_bytes: int
    offsets: list[int]
    stride: int
    run_bytes: int
    pointers: bool
    waits: bool
    one_sender: bool
    linger: float
    silence: float
    rate: float
    def __init__(self) -> None: ...
    def set_layout(self, layout: Layout) -> None: ...
    def add_loop(self, count: int, source: int, to: int, /) -> None: ...
    def add_sender(self, address: bytes, bits: int, port: int, /) -> None: ...
    def add_part(self, offset: int, bytes: int, place: int, optional: bool, /) -> None: ...
    @property
    def memory_bytes(self) -> int: ...
    @property
    def marks_at(self) -> int: ...
    @property
    def notes_at(self) -> int: ...

class Assembler(Sink):
    def __init__(self, plan: Plan, memory: NDArray[np.uint8] | None) -> None: ...
    @property
    def memory(self) -> NDArray[np.uint8]: ...
    @property
    def page_bytes(self) -> int: ...
    @property
    def slot_bytes(self) -> int: ...
    @property
    def open_most(self) -> int: ...
    def next(self, timeout: float) -> tuple[int, int, int, int, int, int]: ...
    def release(self, handle: int) -> None: ...
    def flush(self) -> None: ...
    def finish(self) -> None: ...
    def stop_waiting(self) -> None: ...
    def reopen(self) -> None: ...
    def ended(self) -> bool: ...
    def on_give_back(self, function: int, context: int) -> None: ...
    def counts(self) -> dict[str, Any]: ...
    def head_counts(self, out: NDArray[np.int64]) -> None: ...

class Source:
    def start(self) -> None: ...
    def stop(self) -> None: ...
    def join(self, timeout: float) -> bool: ...
    @property
    def running(self) -> bool: ...
    @property
    def error(self) -> str: ...
    def reports(self) -> list[dict[str, Any]]: ...

def udp_source(
    sink: Sink, threads: list[list[tuple[int, int]]], gro: bool, largest: int, cores: list[int]
) -> Source: ...
def ring_source(
    sink: Sink,
    interface: str,
    ports: list[int],
    block_bytes: int,
    blocks: int,
    threads: int,
    group: int,
    cores: list[int],
) -> Source: ...

class PcapCounts:
    def __init__(self) -> None: ...
    @property
    def account(self) -> dict[str, int]: ...
    @property
    def bytes(self) -> int: ...

def pcap_source(
    sink: Sink,
    path: str,
    ends: list[tuple[bytes, int]] | None,
    speed: float,
    loops: int,
    threads: int,
    counts: PcapCounts,
    cores: list[int],
) -> Source: ...
def synthetic_source(
    sink: Sink, layout: Layout, heads: list[bytes], first: int, step: int, packets: int, rate: float, cores: list[int]
) -> Source: ...

_Routes = list[tuple[str, int, str, int]]

def fill_payload(
    filling: int, seed: int, stream: int, packet: int, out: NDArray[np.uint8], from_byte: int = 0
) -> None: ...
def payload_differs(filling: int, seed: int, stream: int, packet: int, payload: NDArray[np.uint8]) -> int: ...

class Faults:
    def __init__(
        self,
        loss: float = 0.0,
        duplicate: float = 0.0,
        reorder: float = 0.0,
        corrupt: float = 0.0,
        truncate: float = 0.0,
        foreign: float = 0.0,
        distance: int = 1,
        seed: int = 0,
    ) -> None: ...

class FormatPlan:
    def __init__(
        self,
        layout: Layout,
        stream_fields: list[int],
        wire: Layout,
        wire_fields: list[int],
        first: int,
        step: int,
        payload_bytes: int,
        trailer_bytes: int,
        part_bytes: int,
        number_field: int,
        filling: int,
        seed: int,
        packets: int,
        burst: int,
        rate: float,
        jump_at: int,
        jump: int,
        restart_at: int,
        heads: list[list[int]],
        faults: Faults,
    ) -> None: ...

_Packed = tuple[NDArray[np.uint8], NDArray[np.uint32], NDArray[np.uint32]]

class Injector:
    def __init__(self, faults: Faults, streams: int, layout: Layout) -> None: ...
    def handle(self, packets: NDArray[np.uint8], streams: NDArray[np.uint32], tags: NDArray[np.uint32]) -> _Packed: ...
    def flush(self) -> _Packed: ...
    def counts(self) -> list[int]: ...

def send_datagrams(
    socket: int,
    endpoints: list[tuple[str, int]],
    bytes: NDArray[np.uint8],
    lengths: NDArray[np.uint32],
    to: NDArray[np.uint32],
) -> None: ...

class PacketSource:
    @property
    def streams(self) -> list[int]: ...
    @property
    def most_bytes(self) -> int: ...
    @property
    def events(self) -> list[tuple[int, int, int, int, int]]: ...
    @property
    def events_total(self) -> int: ...
    def counts_into(self, out: NDArray[np.int64]) -> None: ...
    def due(self) -> int: ...
    def make(self) -> tuple[bytes, int, int]: ...

class PacketMaker(PacketSource):
    def __init__(self, plan: FormatPlan, streams: list[tuple[int, bytes, int, int, int, int]]) -> None: ...

class PacketReplay(PacketSource):
    def __init__(
        self,
        file: NDArray[np.uint8],
        starts: NDArray[np.uint64],
        lengths: NDArray[np.uint32],
        streams_of: NDArray[np.uint32],
        dues: NDArray[np.int64],
        streams: list[int],
        faults: Faults,
    ) -> None: ...

class Port: ...

class SocketPort(Port):
    def __init__(
        self, routes: _Routes, most_bytes: int, burst: int, segment: bool, departure: bool, buffer: int, ttl: int
    ) -> None: ...
    @property
    def segments(self) -> bool: ...

class SendThreads:
    def __init__(self) -> None: ...
    def add(self, source: PacketSource, port: Port, core: int, realtime: bool = False) -> None: ...
    def start(self, seconds: float) -> None: ...
    def stop(self) -> None: ...
    @property
    def running(self) -> bool: ...
    def join(self) -> None: ...
    def parts(self) -> list[dict[str, int]]: ...
    def error(self) -> tuple[int, str]: ...
    @property
    def elapsed(self) -> float: ...

class Recorder(Sink):
    def __init__(
        self,
        next: Sink | None,
        stem: str,
        heads: list[bytes],
        file_bytes: int,
        file_seconds: float,
        keep: int,
        buffer_bytes: int,
        buffers: int,
        direct: bool,
    ) -> None: ...
    def close(self) -> None: ...
    def counts(self) -> dict[str, Any]: ...

def verify_payloads(
    filling: int,
    seed: int,
    streams: NDArray[np.uint64],
    first: int,
    period: int,
    data: NDArray[np.uint8],
    present: NDArray[np.uint8],
    part: int = 0,
) -> tuple[int, int, int, int, int]: ...

class RowSender:
    def __init__(
        self,
        socket: int,
        endpoints: list[tuple[str, int]],
        antennas: list[int],
        channels: int,
        share: int,
        packet_channels: int,
        pols: int,
        begin: int,
    ) -> None: ...
    def send(self, rows: NDArray[np.int8], words: NDArray[np.uint64], first_block: int) -> None: ...
    def stop(self) -> None: ...
    rate: float
    @property
    def packets(self) -> int: ...
    @property
    def withheld(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    @property
    def calls(self) -> int: ...
    @property
    def full(self) -> int: ...
    @property
    def waits(self) -> int: ...
    @property
    def segments(self) -> bool: ...
    def fill(self, endpoint: int, table: bool = False) -> int: ...
