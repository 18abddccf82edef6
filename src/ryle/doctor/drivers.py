"""Devices that DPDK is to take: whether they are there, and whose they are."""

from __future__ import annotations

from collections.abc import Iterator

from ryle.doctor.finding import Boot, Command, Finding, Hand, judge
from ryle.doctor.machine import Machine
from ryle.doctor.needs import Needs
from ryle.receive.dpdk.environment import dpdk_problem, is_pci

#: Drivers that let DPDK work beside them, and those that stand for a device until DPDK takes it.
_SHARED, _GIVEN = ("mlx5_core", "mlx4_core", "mana"), ("vfio-pci", "uio_pci_generic", "igb_uio")


def drivers(machine: Machine, needs: Needs) -> Iterator[Finding]:
    """Look at the devices of DPDK."""
    if not needs.dpdk:
        return
    problem = dpdk_problem()
    yield judge(
        "dpdk",
        "",
        problem is None,
        "bad",
        problem or "can be used",
        "a Ryle that was built with it",
        "the observation receives by it",
        Hand(problem or ""),
    )
    for address in needs.dpdk:
        if is_pci(address):
            yield from _device(machine, address)


def _device(machine: Machine, address: str) -> Iterator[Finding]:
    tree, folder = machine.tree, f"sys/bus/pci/devices/{address}"
    if not tree.exists(folder):
        yield Finding(
            "dpdk-device",
            address,
            "bad",
            "no device has this address",
            "a network card",
            "the observation receives by it",
            (Hand("lspci -D | grep -i ethernet lists those there are"),),
        )
        return
    driver = tree.link(f"{folder}/driver")
    yield judge(
        "dpdk-device",
        address,
        driver in _SHARED or driver in _GIVEN,
        "bad",
        f"driven by {driver}" if driver else "driven by nobody",
        f"driven by {_SHARED[0]} (ConnectX) or {_GIVEN[0]}",
        "the kernel has it, or nobody: DPDK does not see it",
        Command("modprobe vfio-pci"),
        Command(f"dpdk-devbind.py -b vfio-pci {address}"),
    )
    if driver == "vfio-pci":
        group = tree.link(f"{folder}/iommu_group")
        unsafe = tree.text("sys/module/vfio/parameters/enable_unsafe_noiommu_mode") in ("Y", "1")
        yield judge(
            "vfio",
            address,
            group is not None or unsafe,
            "bad",
            "no IOMMU stands between it and memory" if group is None else f"IOMMU group {group}",
            "an IOMMU, or leave to do without",
            "vfio refuses a device that could write anywhere",
            Boot("intel_iommu=on iommu=pt"),
        )
