"""The kernel's network stack: what sockets may hold, and what it dropped or had no time for since the start."""

from __future__ import annotations

from collections.abc import Iterator

from ryle.config import show
from ryle.doctor.finding import Finding, Sysctl, judge
from ryle.doctor.machine import Machine
from ryle.doctor.needs import SEND_BUFFER, Needs
from ryle.doctor.tree import Tree

_PAGE = 4096
#: Bytes of the kernel's memory that a byte of a packet of 8 KiB takes while it waits in a socket.
_OVERHEAD = 2
#: The kernel's own settings.
_BACKLOG, _BUDGET, _BUDGET_US = 1000, 300, 2000


def network(machine: Machine, needs: Needs) -> Iterator[Finding]:
    """Look at the network stack."""
    tree = machine.tree
    yield from _receive_buffer(machine, needs)
    yield from _send_buffer(tree)
    yield from _memory(tree, needs)
    yield from _softnet(tree)
    yield from _reverse_path(tree, machine, needs)


def _receive_buffer(machine: Machine, needs: Needs) -> Iterator[Finding]:
    most = machine.tree.sysctl("net.core.rmem_max")
    if most is None or not needs.socket_buffer:
        return
    yield judge(
        "rmem",
        "",
        most >= needs.socket_buffer,
        "poor" if machine.root else "bad",  # root's sockets take more
        show(most, "B"),
        show(needs.socket_buffer, "B"),
        "a socket holds what comes while its thread waits for its core; what has no room is lost",
        Sysctl("net.core.rmem_max", f"{needs.socket_buffer}"),
    )


def _send_buffer(tree: Tree) -> Iterator[Finding]:
    most = tree.sysctl("net.core.wmem_max")
    if most is None:
        return
    yield judge(
        "wmem",
        "",
        most >= SEND_BUFFER,
        "poor",
        show(most, "B"),
        show(SEND_BUFFER, "B"),
        "a sender without root waits for the card after each few packets, and sends in bursts",
        Sysctl("net.core.wmem_max", f"{SEND_BUFFER}"),
    )


def _memory(tree: Tree, needs: Needs) -> Iterator[Finding]:
    words = (tree.text("proc/sys/net/ipv4/udp_mem") or "").split()
    if len(words) != 3 or not needs.socket_buffer:
        return
    wanted = -(-needs.sockets * needs.socket_buffer * _OVERHEAD // _PAGE)
    low, pressure, most = (int(w) for w in words)
    values = (max(low, wanted // 2), max(pressure, wanted * 3 // 4), wanted)
    yield judge(
        "udp-mem",
        "",
        most >= wanted,
        "bad",
        show(most * _PAGE, "B"),
        f"{show(wanted * _PAGE, 'B')} for {needs.sockets} sockets of {show(needs.socket_buffer, 'B')}",
        "all sockets together hold no more, whatever each of them may",
        Sysctl("net.ipv4.udp_mem", " ".join(map(str, values))),
    )


def _softnet(tree: Tree) -> Iterator[Finding]:
    rows = [line.split() for line in (tree.text("proc/net/softnet_stat") or "").splitlines()]
    if not rows or len(rows[0]) < 3:
        return
    came, dropped, squeezed = (sum(int(row[i], 16) for row in rows) for i in range(3))
    backlog = tree.sysctl("net.core.netdev_max_backlog") or _BACKLOG
    yield judge(
        "backlog",
        "",
        not dropped,
        "poor",
        f"{dropped} packets dropped since the start; it holds {backlog}"
        if dropped
        else f"nothing dropped; it holds {backlog}",
        "nothing dropped",
        "packets of interfaces without a ring of their own (loopback, veth) wait in a queue of each core",
        Sysctl("net.core.netdev_max_backlog", f"{max(16 * _BACKLOG, 4 * backlog)}"),
    )
    budget = tree.sysctl("net.core.netdev_budget") or _BUDGET
    spent = tree.sysctl("net.core.netdev_budget_usecs") or _BUDGET_US
    yield judge(
        "budget",
        "",
        squeezed < 1e-4 * max(came, 1),
        "poor",
        f"cut short {squeezed} times for {came} packets",
        "under once for 10000 packets",
        "the kernel took packets from a card, and stopped before the card's ring was empty",
        Sysctl("net.core.netdev_budget", f"{2 * max(budget, _BUDGET)}"),
        Sysctl("net.core.netdev_budget_usecs", f"{4 * max(spent, _BUDGET_US)}"),
    )


def _reverse_path(tree: Tree, machine: Machine, needs: Needs) -> Iterator[Finding]:
    if not needs.multicast:
        return
    every = tree.number("proc/sys/net/ipv4/conf/all/rp_filter")
    for card in machine.interfaces:
        if card.loopback or not card.up or (needs.interface is not None and needs.interface not in card.addresses):
            continue
        own = tree.number(f"proc/sys/net/ipv4/conf/{card.name}/rp_filter")
        if own is None or every is None:
            continue
        # The larger of the two counts; 1 is strict.
        yield judge(
            "rp-filter",
            card.name,
            max(own, every) != 1,
            "poor",
            {0: "off", 1: "strict"}.get(max(own, every), "loose"),
            "off or loose",
            "multicast from senders to whom no route leads by this interface is dropped, and nobody says so",
            Sysctl(f"net.ipv4.conf.{card.name}.rp_filter", "2"),
        )
