"""A machine that exists as files: two processors, a card and a GPU at each, all as it should be; and what can be put wrong."""

import os
from dataclasses import replace

from ryle.doctor import Machine, Needs
from ryle.doctor.machine import GpuFacts, Interface
from ryle.doctor.tree import Tree
from ryle.host_clock import ClockFacts

CARD, GPU = "0000:41:00.0", "0000:42:00.0"
ADDRESS = "10.100.0.1"
CORES = 16
NEEDS = Needs(
    sockets=4,
    most_sockets=4,
    datagram=8316,
    interface=ADDRESS,
    dpdk=(CARD,),
    huge_bytes=1 << 30,
    bits=150e9,
    receiving=(0, 1),
    cores=(0, 1, 2, 3),
    gpus=(0,),
    window=8 << 30,
)


def configuration(control=0x5830):
    """PCI configuration whose second capability is PCI Express, with a device control register."""
    octets = bytearray(256)
    octets[0x34] = 0x40
    octets[0x40:0x42] = b"\x01\x60"
    octets[0x60:0x62] = b"\x10\x00"
    octets[0x68:0x6A] = control.to_bytes(2, "little")
    return bytes(octets)


def files():
    """Give all files by path, and links by path."""
    cpu, hugepages = "sys/devices/system/cpu", "sys/kernel/mm/hugepages/hugepages-2048kB"
    found = {
        "proc/cmdline": "BOOT_IMAGE=/vmlinuz mitigations=off iommu=pt",
        "proc/self/cgroup": "0::/system.slice/ryle.service",
        "proc/stat": "cpu  1000 0 1000 90000 10 0 10 20 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0",
        "proc/swaps": "Filename Type Size Used Priority",
        "proc/net/softnet_stat": "00100000 00000000 00000002 0\n00200000 00000000 00000000 0",
        "proc/1/comm": "systemd",
        "proc/sys/kernel/sched_rt_period_us": "1000000",
        "proc/sys/kernel/sched_rt_runtime_us": "999000",
        "proc/sys/kernel/numa_balancing": "0",
        "proc/sys/vm/zone_reclaim_mode": "0",
        "proc/sys/vm/swappiness": "60",
        "proc/sys/vm/nr_hugepages": "1024",
        "proc/sys/net/core/rmem_max": f"{256 << 20}",
        "proc/sys/net/core/wmem_max": f"{16 << 20}",
        "proc/sys/net/core/netdev_max_backlog": "1000",
        "proc/sys/net/core/netdev_budget": "300",
        "proc/sys/net/core/netdev_budget_usecs": "2000",
        "proc/sys/net/ipv4/udp_mem": "500000 700000 1000000",
        "proc/sys/net/ipv4/conf/all/rp_filter": "0",
        "proc/sys/net/ipv4/conf/eth2/rp_filter": "2",
        "sys/fs/cgroup/cpu.max": "max 100000",
        "sys/fs/cgroup/system.slice/ryle.service/cpu.max": "max 100000",
        "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never",
        f"{hugepages}/nr_hugepages": "1024",
        f"{hugepages}/free_hugepages": "1000",
        f"{hugepages}/resv_hugepages": "0",
        "sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc",
        "sys/devices/system/clocksource/clocksource0/available_clocksource": "tsc hpet acpi_pm",
        "sys/devices/system/node/node0/cpulist": "0-3,8-11",
        "sys/devices/system/node/node1/cpulist": "4-7,12-15",
        f"{cpu}/online": f"0-{CORES - 1}",
        f"{cpu}/smt/active": "1",
        "sys/class/net/eth2/settings/force_local_lb_disable": "1",
        "sys/kernel/iommu_groups/7/type": "identity",
        "sys/kernel/iommu_groups/8/type": "identity",
    }
    for core in range(CORES):
        found[f"{cpu}/cpu{core}/cpufreq/scaling_governor"] = "performance"
        found[f"{cpu}/cpu{core}/topology/thread_siblings_list"] = f"{core % 8},{core % 8 + 8}"
        for number, (name, latency, disable) in enumerate((("POLL", 0, 0), ("C1", 2, 0), ("C6", 170, 1))):
            state = f"{cpu}/cpu{core}/cpuidle/state{number}"
            found |= {f"{state}/name": name, f"{state}/latency": latency, f"{state}/disable": disable}
    for name in ("rx_missed_errors", "rx_fifo_errors", "rx_over_errors", "rx_crc_errors"):
        found[f"sys/class/net/eth2/statistics/{name}"] = "0"
    for line, core in ((90, "2"), (91, "3,8")):
        found[f"sys/bus/pci/devices/{CARD}/msi_irqs/{line}"] = "msix"
        found[f"proc/irq/{line}/smp_affinity_list"] = core
    for address in (CARD, GPU):
        device = f"sys/bus/pci/devices/{address}"
        found |= {
            f"{device}/current_link_width": "16",
            f"{device}/max_link_width": "16",
            f"{device}/current_link_speed": "16.0 GT/s PCIe" if address == CARD else "2.5 GT/s PCIe",
            f"{device}/max_link_speed": "16.0 GT/s PCIe",
            f"{device}/numa_node": "0",
            f"{device}/config": configuration(),
            f"{device}/aer_dev_correctable": "RxErr 0\nTOTAL_ERR_COR 0",
            f"{device}/resource": f"0xd0000000 0xd0ffffff 0x40200\n0x4000000000 {0x4000000000 + (128 << 30) - 1:#x} 0x14220c",
        }
    links = {
        "sys/class/net/eth2/device": f"../../../bus/pci/devices/{CARD}",
        f"sys/bus/pci/devices/{CARD}/iommu_group": "../../../../kernel/iommu_groups/7",
        f"sys/bus/pci/devices/{GPU}/iommu_group": "../../../../kernel/iommu_groups/8",
        f"sys/bus/pci/devices/{CARD}/driver": "../../drivers/mlx5_core",
    }
    return found, links


def write(root, path, content):
    """Write a file, or take it away if there is no content."""
    file = root / path
    if content is None:
        file.unlink()
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content if isinstance(content, bytes) else f"{content}\n".encode())


def build(root):
    """Make the files."""
    found, links = files()
    for path, content in found.items():
        write(root, path, content)
    for path, target in links.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        os.symlink(target, root / path)


def card(**changes):
    """Give the network card."""
    whole = Interface("eth2", (ADDRESS,), 9000, True, False, CARD, 200e9, 8192, 8192, True)
    return replace(whole, **changes)


def gpu(**changes):
    """Give the GPU."""
    whole = GpuFacts(0, "NVIDIA H200", GPU, True, True, 0, 1.98e9, 1.98e9, 700.0, 700.0, (), False)
    return replace(whole, **changes)


def machine(folder, *, interfaces=None, gpus=None, clock=None, **limits):
    """Give the machine of these files."""
    own = interfaces if interfaces is not None else [card(), Interface("lo", ("127.0.0.1",), 65536, loopback=True)]
    shown = gpus if gpus is not None else [gpu()]
    return Machine(
        Tree(folder),
        lambda _: own,
        lambda: (shown, "" if shown else "there is no NVIDIA driver here"),
        lambda: clock or ClockFacts(True, 1e-4),
        **({"memlock": None, "open_files": 65536, "root": False} | limits),
    )
