"""What a machine says of itself: the kernel's files, its network interfaces by netlink, its GPUs, its clock, limits."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ryle.doctor.tree import Tree
from ryle.host_clock import ClockFacts, kernel_clock


@dataclass(frozen=True)
class Interface:
    """A network interface.

    Attributes
    ----------
    name : str
        As the system calls it.
    addresses : tuple of str
        Its own.
    mtu : int
        Bytes of the largest IP packet.
    up : bool
        Whether it is up and has a link.
    loopback : bool
        Whether it leads back to this machine.
    pci : str or None
        Where the card is on its bus; None: there is no card.
    speed : float or None
        Of the link, bit/s; None: not known.
    ring, ring_most : int or None
        Packets that the card's ring of received packets holds, and could hold.
    gro : bool or None
        Whether packets of a flow are put together (generic receive offload).
    """

    name: str
    addresses: tuple[str, ...] = ()
    mtu: int = 1500
    up: bool = True
    loopback: bool = False
    pci: str | None = None
    speed: float | None = None
    ring: int | None = None
    ring_most: int | None = None
    gro: bool | None = None


@dataclass(frozen=True)
class GpuFacts:
    """What the driver says of a GPU; None is what it does not say.

    Attributes
    ----------
    number : int
        In the order of CUDA.
    name, pci : str
        What it is, and where on its bus.
    persistence : bool or None
        Whether the driver keeps it ready while nobody uses it.
    ecc : bool or None
        Whether its memory is corrected.
    uncorrected : int or None
        Errors that were not, since the driver's start.
    clock, clock_most : float or None
        Of the multiprocessors, Hz, that applications are allowed, and that it can do.
    power, power_usual : float or None
        Limit in W, as set and as shipped.
    slowed : tuple of str
        Why its clock is lower than it could be at this moment.
    exclusive : bool or None
        Whether one process alone may use it.
    """

    number: int
    name: str
    pci: str
    persistence: bool | None = None
    ecc: bool | None = None
    uncorrected: int | None = None
    clock: float | None = None
    clock_most: float | None = None
    power: float | None = None
    power_usual: float | None = None
    slowed: tuple[str, ...] = ()
    exclusive: bool | None = None


@dataclass
class Machine:
    """Facts of a machine, read when they are asked for first.

    Parameters
    ----------
    tree : Tree
        Files of the kernel's.
    read_interfaces, read_gpus, read_clock : callable
        What reads the other facts; those of this machine if absent.
    """

    tree: Tree = field(default_factory=Tree)
    read_interfaces: Callable[[Tree], list[Interface]] | None = None
    read_gpus: Callable[[], tuple[list[GpuFacts], str]] | None = None
    read_clock: Callable[[], ClockFacts] | None = None
    #: Largest memory that a process may lock, bytes, and files that it may have open; None: no limit.
    memlock: int | None = field(default_factory=lambda: _limit(resource.RLIMIT_MEMLOCK))
    open_files: int | None = field(default_factory=lambda: _limit(resource.RLIMIT_NOFILE))
    root: bool = field(default_factory=lambda: os.geteuid() == 0)

    @cached_property
    def interfaces(self) -> list[Interface]:
        """All network interfaces."""
        return (self.read_interfaces or network_interfaces)(self.tree)

    @cached_property
    def gpus(self) -> tuple[list[GpuFacts], str]:
        """All GPUs that CUDA shows, and why there are none."""
        return (self.read_gpus or nvidia_gpus)()

    @cached_property
    def clock(self) -> ClockFacts:
        """The clock."""
        return (self.read_clock or kernel_clock)()


def _limit(which: int) -> int | None:
    soft = resource.getrlimit(which)[0]
    return None if soft == resource.RLIM_INFINITY else soft


def network_interfaces(tree: Tree) -> list[Interface]:
    """Ask the kernel for its network interfaces, by netlink."""
    from pyroute2 import IPRoute
    from pyroute2.ethtool import Ethtool

    with IPRoute() as route:
        links, addresses = list(route.get_links()), list(route.get_addr())
    tool = Ethtool()
    try:
        return [_interface(tree, tool, link, addresses) for link in links]
    finally:
        tool.close()


def _interface(tree: Tree, tool: Any, link: Any, addresses: list[Any]) -> Interface:
    name = link.get_attr("IFLA_IFNAME")
    folder = f"sys/class/net/{name}"

    def ask(what: Callable[[str], Any]) -> Any:
        try:
            return what(name)
        except Exception:  # each way of not knowing has an exception of its own
            return None

    rings, features = ask(tool.get_rings), ask(tool.get_features)
    megabits = tree.number(f"{folder}/speed") or -1  # of an interface that is down it cannot be read
    bus = tree.link(f"{folder}/device/subsystem")
    return Interface(
        name,
        tuple(a.get_attr("IFA_ADDRESS") for a in addresses if a["index"] == link["index"]),
        link.get_attr("IFLA_MTU"),
        link.get_attr("IFLA_OPERSTATE") in ("UP", "UNKNOWN"),  # loopback's is unknown
        bool(link["flags"] & 0x8),
        tree.link(f"{folder}/device") if bus == "pci" else None,
        1e6 * megabits if megabits > 0 else None,
        rings.rx if rings else None,
        rings.rx_max if rings else None,
        features.offload_flags.get("generic-receive-offload") if features else None,
    )


def nvidia_gpus() -> tuple[list[GpuFacts], str]:
    """Ask the driver for the GPUs that CUDA shows; gives why there are none too."""
    from ryle.gpu.available import gpu_problem

    if problem := gpu_problem(0):
        return [], problem
    found: list[GpuFacts] = []
    while gpu_problem(len(found)) is None:
        found.append(_gpu(len(found)))
    return found, ""


def _gpu(number: int) -> GpuFacts:
    from ryle.gpu.available import pci_address
    from ryle.gpu.power import open_management

    pci = pci_address(number) or ""
    try:
        nvml, device = open_management(number)
    except Exception:  # the library has one exception for each of its errors; no finding hangs on it alone
        return GpuFacts(number, "GPU", pci)

    def ask(what: str, *arguments: Any) -> Any:
        try:
            return getattr(nvml, what)(device, *arguments)
        except Exception:  # what a card does not have, or a permission does not allow
            return None

    def flag(value: Any) -> bool | None:
        return None if value is None else bool(value)

    def scaled(scale: float, value: Any) -> float | None:
        return None if value is None else scale * float(value)

    sm, kinds, reasons = nvml.ClockType.CLOCK_SM, nvml.MemoryErrorType, nvml.ClocksEventReasons
    slow = {
        "power": reasons.EVENT_REASON_SW_POWER_CAP,
        "heat": reasons.EVENT_REASON_SW_THERMAL_SLOWDOWN | reasons.THROTTLE_REASON_HW_THERMAL_SLOWDOWN,
        "power brake": reasons.THROTTLE_REASON_HW_POWER_BRAKE_SLOWDOWN,
    }
    now = ask("device_get_current_clocks_event_reasons") or 0
    mode = ask("device_get_compute_mode")
    return GpuFacts(
        number,
        str(ask("device_get_name") or "GPU"),
        pci,
        persistence=flag(ask("device_get_persistence_mode")),
        ecc=flag((ask("device_get_ecc_mode") or (None,))[0]),
        uncorrected=ask("device_get_total_ecc_errors", kinds.UNCORRECTED, nvml.EccCounterType.VOLATILE_ECC),
        clock=scaled(1e6, ask("device_get_clock", sm, nvml.ClockId.APP_CLOCK_TARGET)),
        clock_most=scaled(1e6, ask("device_get_max_clock_info", sm)),
        power=scaled(1e-3, ask("device_get_power_management_limit")),
        power_usual=scaled(1e-3, ask("device_get_power_management_default_limit")),
        slowed=tuple(name for name, bits in slow.items() if now & bits),
        exclusive=None if mode is None else mode != nvml.ComputeMode.DEFAULT,
    )
