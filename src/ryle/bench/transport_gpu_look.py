"""What a machine is, as far as packets between its processes are concerned."""

from __future__ import annotations

import mmap
import os
import platform
import resource
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

UDP_SEGMENT, UDP_GRO, SO_RCVBUFFORCE, IPPROTO_UDP = 103, 104, 33, 17


def read(path: str) -> str:
    """Read a file of the system, or say why not."""
    try:
        return Path(path).read_text().strip()
    except OSError as error:
        return f"({error.strerror})"


def cores_in_order() -> list[int]:
    """Cores of this process, those that share a physical core next to each other."""
    mine = sorted(os.sched_getaffinity(0))
    first = {}
    for core in mine:
        siblings = read(f"/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list")
        digits = siblings.replace("-", ",").split(",")[0]
        first[core] = int(digits) if digits.isdigit() else core
    return sorted(mine, key=lambda core: (first[core], core))


def look(say: Callable[[str], None]) -> dict[str, Any]:
    """Find out what there is."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:

        def option(level: int, name: int, value: int) -> str:
            try:
                s.setsockopt(level, name, value)
                return "yes"
            except OSError as error:
                return str(error.strerror)

        s.bind(("127.0.0.1", 0))
        options = {
            "UDP_GRO": option(IPPROTO_UDP, UDP_GRO, 1),
            "UDP_SEGMENT": option(IPPROTO_UDP, UDP_SEGMENT, 8192),
            "SO_RCVBUFFORCE": option(socket.SOL_SOCKET, SO_RCVBUFFORCE, 256 << 20),
        }
        options["buffer"] = str(s.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF))
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        realtime = "yes"
    except OSError as error:
        realtime = str(error.strerror)
    try:
        mmap.mmap(-1, 2 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x40000).close()
        huge = "yes"
    except OSError as error:
        huge = str(error.strerror)
    memory = {w.split(":")[0]: w.split()[1] for w in read("/proc/meminfo").splitlines() if ":" in w}
    model = next(
        (w.split(":")[1].strip() for w in read("/proc/cpuinfo").splitlines() if w.startswith("model name")), ""
    )
    lscpu = subprocess.run(["lscpu"], capture_output=True, text=True, check=False)
    found = {
        "kernel": " ".join(platform.uname()),
        "user": os.getuid(),
        "processor": model,
        "lscpu": [
            w for w in lscpu.stdout.splitlines() if any(k in w for k in ("Thread", "Core", "NUMA", "L2", "L3", "MHz"))
        ],
        "cores_in_order": cores_in_order(),
        "load": os.getloadavg(),
        "memory_kb": {k: memory.get(k) for k in ("MemTotal", "MemFree", "HugePages_Total", "AnonHugePages")},
        "transparent_huge_pages": read("/sys/kernel/mm/transparent_hugepage/enabled"),
        "huge_page": huge,
        "nr_hugepages": set_huge_pages(),
        "sockets": options,
        "rmem_max": read("/proc/sys/net/core/rmem_max"),
        "udp_mem": read("/proc/sys/net/ipv4/udp_mem"),
        "netdev_max_backlog": read("/proc/sys/net/core/netdev_max_backlog"),
        "realtime": realtime,
        "locked_memory": resource.getrlimit(resource.RLIMIT_MEMLOCK),
        "shm": os.statvfs("/dev/shm").f_blocks * os.statvfs("/dev/shm").f_frsize >> 20
        if Path("/dev/shm").exists()
        else 0,
        "steal": read("/proc/stat").split("\n")[0],
    }
    for name, what in found.items():
        say(f"  {name}: {what}")
    return found


def set_huge_pages(count: int = 2048) -> str:
    """Whether root may set huge pages aside; they are given back."""
    path = Path("/proc/sys/vm/nr_hugepages")
    try:
        before = path.read_text().strip()
        path.write_text(str(count))
        got = path.read_text().strip()
        path.write_text(before)
        return f"{before}, could be {got}"
    except OSError as error:
        return str(error.strerror)


def touch(gib: float, say: Callable[[str], None]) -> None:
    """Write to memory once and give it back: a guest's memory may come from its host only when it is first used."""
    began, size = time.monotonic(), int(gib * 2**30)
    if not size:
        return
    np.frombuffer(mmap.mmap(-1, size), np.uint8)[::4096] = 1
    say(f"  {gib:g} GiB touched in {time.monotonic() - began:.1f} s")
