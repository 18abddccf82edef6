"""Receive and send past the kernel, through DPDK. Optional: `dpdk_problem` says whether it can be used."""

from .buffers import Pool, needed, pages
from .device import Device, DeviceStats
from .environment import DpdkConfig, DpdkUnavailable, dpdk_problem, start
from .frames import HEADERS, Path, Stamp, counting
from .made import Emulation, Generator, way_out
from .source import DpdkSource, QueueCounts

__all__ = [
    "HEADERS",
    "Device",
    "DeviceStats",
    "DpdkConfig",
    "DpdkSource",
    "DpdkUnavailable",
    "Emulation",
    "Generator",
    "Path",
    "Pool",
    "QueueCounts",
    "Stamp",
    "counting",
    "dpdk_problem",
    "needed",
    "pages",
    "start",
    "way_out",
]
