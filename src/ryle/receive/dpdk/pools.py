"""Packet buffers of an engine's queues: where payloads lie until a core copies them, or a GPU reads them in place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ryle.config.engine_tables import ReceiveTable
from ryle.receive.assembly import Plan
from ryle.receive.dpdk.buffers import GPU_PAGE, DeviceMemory, Pool, needed
from ryle.receive.dpdk.frames import HEADERS
from ryle.wire.build import build

_MBUF = 384  # bytes of DPDK's memory for a buffer that lies elsewhere, with what the pool notes of it
_HEADER_BUFFERS = 8192  # a queue's; each is free again as soon as it has been read
_HEADER_FRAME = 256  # bytes of them
_DEVICE_QUEUE = 1024  # packets that a device's queue holds


class ViewedMemory(DeviceMemory, Protocol):
    """Memory of a GPU of which a part can be viewed."""

    def view(self, shape: Any, dtype: Any, first: int = 0) -> DeviceMemory:
        """View a part."""


class GpuMemory(Protocol):
    """What gives memory of a GPU, and memory that it reads (`ryle.gpu.Gpu`)."""

    def empty(self, shape: Any, dtype: Any) -> ViewedMemory:
        """Allocate memory of the GPU's."""

    def pinned(self, shape: Any, dtype: Any) -> NDArray[Any]:
        """Allocate page-locked memory of the host's."""


@dataclass(frozen=True, slots=True)
class QueuePools:
    """Pools of a device's queues.

    Parameters
    ----------
    payloads : list of Pool
        One a queue: of payloads if headers are split off, else of whole packets.
    headers : list of Pool
        One a queue, of what is split off; none if packets are whole.
    header_bytes : int
        How much that is of each packet, Ethernet's header included; 0 if packets are whole.
    """

    payloads: list[Pool]
    headers: list[Pool]
    header_bytes: int


def header_bytes(plan: Plan) -> int:
    """Count the bytes of a packet before its payload, from Ethernet's header on, without VLAN tags."""
    payload = plan.payload_bytes + plan.format.payload.trailer_bytes[0]
    return HEADERS + len(build(plan.format, {}, bytes(plan.payload_bytes))) - payload


def queue_buffers(receive: ReceiveTable, plan: Plan | None, ports: int, frame: int) -> int:
    """Count the buffers of a queue.

    Packets that are read in place keep theirs as long as the ring's chunks keep them: of each queue as many as come to
    its share of the ports.
    """
    held = plan.chunks * len(plan.heads) * plan.packets if plan is not None and receive.in_place else 0
    share = -(-ports // receive.threads) if ports >= receive.threads else ports
    return max(needed(-(-held * share // max(1, ports)), descriptors=_DEVICE_QUEUE), (receive.buffer or 0) // frame)


def pool_bytes(receive: ReceiveTable, plan: Plan, ports: int, frame: int) -> int:
    """Count the bytes of pools that a GPU reads in place, its own or page-locked; 0 if payloads are copied."""
    if not receive.in_place:
        return 0
    rest = plan.payload_bytes + max(plan.format.payload.trailer_bytes)
    buffer = rest if receive.copies == 0 else frame + 128
    return receive.threads * queue_buffers(receive, plan, ports, frame) * (-(-buffer // 64) * 64)


def dpdk_bytes(receive: ReceiveTable, plan: Plan | None, ports: int, frame: int) -> int:
    """Count the bytes of DPDK's own memory that the pools take, twice over, as it is given out in large pieces."""
    buffers = queue_buffers(receive, plan, ports, frame)
    each = buffers * (_MBUF if receive.in_place else frame + _MBUF)
    if receive.copies == 0:
        each += _HEADER_BUFFERS * (_HEADER_FRAME + _MBUF)
    return max(512 << 20, 2 * receive.threads * each)


def queue_pools(
    receive: ReceiveTable, plan: Plan | None, ports: Sequence[int], frame: int, gpu: GpuMemory | None
) -> QueuePools:
    """Make the pools of an engine's queues; DPDK has been started.

    Parameters
    ----------
    receive : ReceiveTable
        How; its `copies` say where payloads lie.
    plan : Plan, optional
        What is received; None if packets are only discarded.
    ports : sequence of int
        UDP ports.
    frame : int
        Bytes of the longest packet, headers included.
    gpu : GpuMemory or None
        What reads payloads, if they are read in place.

    Raises
    ------
    MemoryError, GpuError
        If there is no memory for them.
    """
    queues = range(receive.threads)
    buffers = queue_buffers(receive, plan, len(ports), frame)
    if plan is None or not receive.in_place:
        return QueuePools([Pool(buffers, frame) for _ in queues], [], 0)
    assert gpu is not None
    before = header_bytes(plan)
    if receive.copies == 0:
        rest = plan.payload_bytes + max(plan.format.payload.trailer_bytes)
        payloads = [_on_gpu(gpu, buffers, rest) for _ in queues]
        return QueuePools(payloads, [Pool(_HEADER_BUFFERS, _HEADER_FRAME) for _ in queues], before)
    nbytes = Pool.memory_bytes(buffers, frame, payload_at=before, page=4096)
    whole = [Pool(buffers, frame, memory=gpu.pinned((nbytes,), np.uint8), payload_at=before) for _ in queues]
    return QueuePools(whole, [], 0)


def _on_gpu(gpu: GpuMemory, buffers: int, payload: int) -> Pool:
    nbytes = Pool.memory_bytes(buffers, payload, split=True)
    memory = gpu.empty((nbytes + GPU_PAGE,), np.uint8)  # devices reach it in whole pages
    return Pool(buffers, payload, memory=memory.view((nbytes,), np.uint8, -memory.pointer % GPU_PAGE), split=True)
