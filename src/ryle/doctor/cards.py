"""Network cards: link, MTU, ring, interrupts, and what they lost."""

from __future__ import annotations

from collections.abc import Iterator

from ryle.config import show
from ryle.doctor.finding import Command, Finding, Hand, Write, judge
from ryle.doctor.machine import Interface, Machine
from ryle.doctor.needs import Needs
from ryle.doctor.tree import Tree, cores_text

#: Counters below ``statistics`` that say a card or its driver lost packets.
_LOSSES = ("rx_missed_errors", "rx_fifo_errors", "rx_over_errors", "rx_crc_errors")


def used(machine: Machine, needs: Needs) -> list[Interface]:
    """Say which interfaces packets come by: those of the observation, else all that are up and lead elsewhere."""
    if needs.interface is not None or needs.devices:
        return [i for i in machine.interfaces if needs.interface in i.addresses or i.name in needs.devices]
    return [i for i in machine.interfaces if i.up and not i.loopback]


def cards(machine: Machine, needs: Needs) -> Iterator[Finding]:
    """Look at the interfaces that packets come by."""
    found = used(machine, needs)
    if needs.interface is not None and not any(needs.interface in i.addresses for i in found):
        here = ", ".join(a for i in machine.interfaces for a in i.addresses)
        yield Finding(
            "interface",
            needs.interface,
            "bad",
            f"no interface of this machine has it; they have {here}",
            "an interface's own address",
            "groups are joined, and packets sent, there",
            (Hand("[network] interface: the address of the card that packets come by"),),
        )
    for card in found:
        if card.loopback:
            continue
        yield from _link(card, needs)
        yield from _mtu(card, needs)
        yield from _ring(card)
        yield from _gro(card, needs)
        yield from _interrupts(machine.tree, card, needs)
        yield from _losses(machine.tree, card)
        yield from _looped(machine.tree, card, needs)


def _link(card: Interface, needs: Needs) -> Iterator[Finding]:
    if not card.up:
        yield Finding(
            "link", card.name, "bad", "down", "up", "nothing arrives", (Command(f"ip link set dev {card.name} up"),)
        )
    elif card.speed is None:
        yield Finding("link", card.name, "unknown", "the driver does not say how fast the link is")
    else:
        yield judge(
            "link",
            card.name,
            card.speed >= needs.bits,
            "bad",
            show(card.speed, "b/s"),
            show(needs.bits, "b/s") if needs.bits else "",
            "engines of this observation get more than the link carries, if all run here",
            Hand("other machines or cards for some engines, or see why the link is slow (cable, switch port)"),
        )


def _mtu(card: Interface, needs: Needs) -> Iterator[Finding]:
    yield judge(
        "mtu",
        card.name,
        card.mtu >= needs.datagram,
        "bad" if needs.interface else "poor",
        f"{card.mtu} B",
        f"{needs.datagram} B",
        "larger packets are dropped on arrival, and cut into fragments when sent",
        Command(f"ip link set dev {card.name} mtu {max(9000, needs.datagram)}"),
        Hand("the switch's ports too: `ryle doctor FILE` tries the way to other hosts"),
    )


def _ring(card: Interface) -> Iterator[Finding]:
    if card.ring is None or not card.ring_most:
        yield Finding("ring", card.name, "unknown", "the driver does not say how many packets its ring holds")
        return
    yield judge(
        "ring",
        card.name,
        card.ring >= card.ring_most,
        "poor",
        f"{card.ring} packets",
        f"{card.ring_most} packets",
        "packets that come while the kernel is elsewhere wait there; what has no room is lost (rx_missed)",
        Command(f"ethtool -G {card.name} rx {card.ring_most}"),
    )


def _gro(card: Interface, needs: Needs) -> Iterator[Finding]:
    if card.gro is None or not needs.socket_buffer:
        return
    yield judge(
        "gro",
        card.name,
        card.gro,
        "poor",
        "on" if card.gro else "off",
        "on",
        "packets of one sender come to a socket in trains, which cost one call",
        Command(f"ethtool -K {card.name} gro on"),
        effect="a core took 61 Gb/s from sockets with it and 32 without, over loopback (docs/explanation/assembly.md)",
    )


def _interrupts(tree: Tree, card: Interface, needs: Needs) -> Iterator[Finding]:
    folder = f"sys/class/net/{card.name}/device"
    lines = [n for n in tree.names(f"{folder}/msi_irqs") if n.isdigit()]
    if not lines:
        yield Finding("interrupts", card.name, "unknown", "it has no interrupt lines of its own")
        return
    node = tree.number(f"{folder}/numa_node")
    near = tree.cores(f"sys/devices/system/node/node{node}/cpulist") if node is not None and node >= 0 else []
    wanted = [c for c in near or tree.cores("sys/devices/system/cpu/online") if c not in needs.receiving]
    takes = {n: tree.cores(f"proc/irq/{n}/smp_affinity_list") for n in lines}
    wrong = [n for n, on in takes.items() if on and not set(on) <= set(wanted)]
    cores = sorted({c for n in wrong or lines for c in takes[n]})
    yield judge(
        "interrupts",
        card.name,
        not wrong or not wanted,
        "poor",
        f"{len(wrong) or len(lines)} of {len(lines)} come to {cores_text(cores)}",
        f"{cores_text(wanted)}: the card's node, but for receiving threads",
        "the kernel's work for packets takes a receiving thread's core, or crosses to another processor's memory",
        *(Write(f"/proc/irq/{n}/smp_affinity_list", _list(wanted)) for n in wrong),
        *([Command("systemctl stop irqbalance")] if _runs(tree, "irqbalance") else []),
    )


def _list(cores: list[int]) -> str:
    return cores_text(cores).partition(" ")[2].replace(", ", ",")


def _runs(tree: Tree, name: str) -> bool:
    return any(n.isdigit() and tree.text(f"proc/{n}/comm") == name for n in tree.names("proc"))


def _losses(tree: Tree, card: Interface) -> Iterator[Finding]:
    counts = {name: tree.number(f"sys/class/net/{card.name}/statistics/{name}") for name in _LOSSES}
    if all(count is None for count in counts.values()):
        return
    lost = {name: count for name, count in counts.items() if count}
    broken = "rx_crc_errors" in lost
    yield judge(
        "losses",
        card.name,
        not lost,
        "poor",
        ", ".join(f"{name} {count}" for name, count in lost.items()) or "none since the start",
        "none",
        "frames arrive damaged" if broken else "the card had packets that nobody took in time",
        Hand(
            "cable, transceiver, their dirt"
            if broken
            else "what else is found here; then look whether the counters stand"
        ),
    )


def _looped(tree: Tree, card: Interface, needs: Needs) -> Iterator[Finding]:
    path = f"sys/class/net/{card.name}/settings/force_local_lb_disable"
    value = tree.number(path)
    if value is None:
        return
    yield judge(
        "loopback",
        card.name,
        value == 1 or not needs.dpdk,
        "poor",
        "the card gives this machine what it sends to groups" if value == 0 else "off",
        "off, with drivers past the kernel and no receiver of that here",
        "each packet that is sent is looked at as if it had come",
        Write(f"/{path}", "1"),
        effect="four F-engines at 67 % of their rate with it (Merry 2023, Table 2)",
    )
