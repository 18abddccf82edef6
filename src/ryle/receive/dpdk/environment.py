"""DPDK's environment: what it is started with, in one place, and what it leaves behind (nothing).

DPDK keeps packet buffers in memory that is mapped for the life of a process. With huge pages that memory is anonymous
(``--in-memory``), without them it is ordinary (``--no-huge``); either way no file holds it, so that a process that is
killed gives all of it back. Only one environment can be started in a process, once.
"""

from __future__ import annotations

import atexit
import os
import re
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Literal

from pydantic import Field, field_validator

from ryle.config.tables import Table
from ryle.config.units import Bytes

INSTALL = (
    "this Ryle was built without DPDK: install DPDK 22.11 or later with its headers and pkg-config (Debian, Ubuntu: "
    "apt install dpdk-dev pkg-config) and build Ryle again (make clean setup, or pip install .)"
)
_OURS = {
    "--in-memory", "--no-huge", "--no-shconf", "--file-prefix", "--lcores", "-l", "-c", "-m", "-a", "--allow",
    "--no-pci", "--no-telemetry", "--proc-type", "--huge-unlink", "-h", "--help", "-v",
}  # fmt: skip
_PCI = re.compile(r"(?:[0-9a-fA-F]{4}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7](?:,.*)?")


class DpdkUnavailable(RuntimeError):  # noqa: N818 (it says what is the matter, as GpuUnavailable does)
    """DPDK is not there, or did not start. The message says what to do."""


class DpdkConfig(Table):
    """What DPDK is started with."""

    devices: list[str] = Field(
        default_factory=list,
        description="network interfaces by PCI address, with driver arguments if any; virtual ones need no mention",
        examples=['["0000:41:00.0,dv_flow_en=1"]'],
    )
    huge_pages: Literal["auto", "yes", "no"] = Field(
        "auto", description="use them; auto: if at least `memory` is free in them and set aside by the system"
    )
    memory: Bytes = Field(
        512 << 20, ge=64 << 20, description="for packet buffers and rings; with huge pages it grows as needed"
    )
    drivers: list[str] = Field(default_factory=list, description="further driver libraries or folders of them")
    extra: list[str] = Field(default_factory=list, description="further EAL arguments, at your own risk")

    @field_validator("devices")
    @classmethod
    def _pci(cls, value: list[str]) -> list[str]:
        for device in value:
            if not is_pci(device):
                raise ValueError(f'{device!r} is no PCI address; write it as lspci -D does, such as "0000:41:00.0"')
        return value

    @field_validator("extra")
    @classmethod
    def _not_ours(cls, value: list[str]) -> list[str]:
        if taken := [a for a in value if a.split("=")[0] in _OURS]:
            raise ValueError(f"{', '.join(taken)}: Ryle sets this itself")
        return value


def is_pci(device: str) -> bool:
    """Whether a device is named by a PCI address."""
    return _PCI.fullmatch(device) is not None


def native() -> ModuleType:
    """Give the native module, or raise DpdkUnavailable."""
    if (problem := dpdk_problem()) is not None:
        raise DpdkUnavailable(problem)
    from ryle.receive import _dpdk

    module: ModuleType = _dpdk
    return module


def dpdk_problem() -> str | None:
    """Say why DPDK cannot be used, and what to do; None if it can."""
    try:
        from ryle.receive import _dpdk  # noqa: F401
    except ModuleNotFoundError:
        return INSTALL
    except ImportError as error:
        return f"DPDK cannot be loaded: {error}; install the version that Ryle was built with, or build Ryle again"
    return None


def free_huge_bytes() -> int:
    """Bytes in huge pages that the system has set aside and nobody uses."""
    total = 0
    for folder in Path("/sys/kernel/mm/hugepages").glob("hugepages-*kB"):
        with suppress(OSError, ValueError):
            size = int(folder.name.removeprefix("hugepages-").removesuffix("kB")) << 10
            free, reserved = (int((folder / f"{what}_hugepages").read_text()) for what in ("free", "resv"))
            total += size * max(0, free - reserved)
    return total


def eal_arguments(config: DpdkConfig) -> list[str]:
    """Write DPDK's command line.

    Raises
    ------
    DpdkUnavailable
        If huge pages are demanded and too few are free.
    """
    huge = config.huge_pages != "no" and free_huge_bytes() >= config.memory
    if config.huge_pages == "yes" and not huge:
        raise DpdkUnavailable(
            f"{free_huge_bytes() >> 20} MiB are free in huge pages, {config.memory >> 20} MiB are wanted; set some "
            f'aside: echo {config.memory >> 21} > /proc/sys/vm/nr_hugepages (or huge_pages = "no")'
        )
    if config.devices and not huge:
        raise DpdkUnavailable(
            f"{config.devices[0].split(',')[0]} needs huge pages, which a network interface writes to: "
            f"{free_huge_bytes() >> 20} MiB are free, {config.memory >> 20} MiB are wanted; set some aside: "
            f"echo {config.memory >> 21} > /proc/sys/vm/nr_hugepages"
        )
    cpus = ",".join(map(str, sorted(os.sched_getaffinity(0))))
    arguments = [
        f"--lcores=0@({cpus})",  # the calling thread alone; receiving threads are ours and join later
        f"--file-prefix={_prefix()}",
        "--no-telemetry",
        "--in-memory" if huge else "--no-huge",
        "--log-level=lib.eal:warning",  # error texts end with what was logged
    ]
    if not huge:
        arguments += ["--no-shconf", "-m", str(config.memory >> 20)]
    arguments += [f"--allow={device}" for device in config.devices] or ["--no-pci"]
    for driver in config.drivers:
        arguments += ["-d", driver]
    return arguments + config.extra


def _prefix() -> str:
    return f"ryle-{os.getpid()}"


def start(config: DpdkConfig | None = None) -> None:
    """Start DPDK in this process unless it runs; it stops when the process ends.

    Raises
    ------
    DpdkUnavailable
        If it is not there or does not start; the message ends with what DPDK says.
    """
    dpdk = native()
    if dpdk.started():
        return
    try:
        dpdk.start(eal_arguments(config or DpdkConfig()))
    except dpdk.DpdkError as error:
        raise DpdkUnavailable(str(error)) from None
    finally:
        # An empty folder, where processes that share memory would meet: nobody needs it, and if this process is
        # killed nobody removes it.
        for base in (os.environ.get("RUNTIME_DIRECTORY"), "/var/run", os.environ.get("XDG_RUNTIME_DIR"), "/tmp"):
            if base:
                with suppress(OSError):
                    (Path(base) / "dpdk" / _prefix()).rmdir()
    atexit.register(dpdk.stop)
