"""Receive and send past the kernel, through DPDK. Optional: `dpdk_problem` says whether it can be used."""

from ryle.receive.dpdk.buffers import Pool, needed, pages
from ryle.receive.dpdk.device import Device, DeviceStats
from ryle.receive.dpdk.environment import DpdkConfig, DpdkUnavailable, dpdk_problem, start
from ryle.receive.dpdk.frames import HEADERS, Path, Stamp, counting
from ryle.receive.dpdk.source import DpdkSource, QueueCounts

__all__ = [
    "HEADERS",
    "Device",
    "DeviceStats",
    "DpdkConfig",
    "DpdkSource",
    "DpdkUnavailable",
    "Path",
    "Pool",
    "QueueCounts",
    "Stamp",
    "counting",
    "dpdk_problem",
    "needed",
    "pages",
    "start",
]
