"""Memory: large pages, which node it is on, and what a process may lock or open."""

from __future__ import annotations

from collections.abc import Iterator

from ryle.config import show
from ryle.doctor.finding import MERRY, Finding, Hand, Sysctl, Write, judge
from ryle.doctor.machine import Machine
from ryle.doctor.needs import Needs
from ryle.doctor.tree import Tree

_HUGE = "sys/kernel/mm/hugepages"
#: Files of an engine besides its sockets: libraries, status page, output.
_FILES = 256


def memory(machine: Machine, needs: Needs) -> Iterator[Finding]:
    """Look at memory."""
    tree = machine.tree
    yield from _transparent(tree)
    yield from _huge(tree, needs)
    yield from _balancing(tree)
    yield from _reclaim(tree)
    yield from _swap(tree)
    yield from _lock(machine, needs)
    yield from _open(machine, needs)


def _transparent(tree: Tree) -> Iterator[Finding]:
    path = "sys/kernel/mm/transparent_hugepage/enabled"
    chosen = tree.chosen(path)
    if chosen is None:
        yield Finding("thp", "", "unknown", "this kernel has no transparent huge pages")
        return
    yield judge(
        "thp",
        "",
        chosen in ("always", "madvise"),
        "poor",
        chosen,
        "madvise",
        "Ryle asks for pages of 2 MiB for its rings; with 4 KiB each packet needs some that the core must look up",
        Write(f"/{path}", "madvise"),
        effect=f"one F-engine at 95 % of its rate without huge pages, four at 100 % ({MERRY}, Table 2)",
    )


def _huge(tree: Tree, needs: Needs) -> Iterator[Finding]:
    if not needs.dpdk:
        return
    free, sizes = 0, {}
    for name in tree.names(_HUGE):
        size = int(name.removeprefix("hugepages-").removesuffix("kB")) << 10
        sizes[size] = name
        left = (tree.number(f"{_HUGE}/{name}/free_hugepages") or 0) - (
            tree.number(f"{_HUGE}/{name}/resv_hugepages") or 0
        )
        free += size * max(0, left)
    if not sizes:
        yield Finding(
            "hugepages",
            "",
            "bad",
            "this kernel has none",
            show(needs.huge_bytes, "B"),
            "DPDK needs them to drive a card",
        )
        return
    size = min(sizes)
    have = tree.number(f"{_HUGE}/{sizes[size]}/nr_hugepages") or 0
    more = -(-max(0, needs.huge_bytes - free) // size)
    yield judge(
        "hugepages",
        "",
        not more,
        "bad",
        f"{show(free, 'B')} free",
        show(needs.huge_bytes, "B"),
        "packet buffers of DPDK lie there; it does not start without",
        Sysctl("vm.nr_hugepages", f"{have + more}"),
        Hand(
            "if they cannot be had any more, memory is in pieces: set them aside at the start (boot with hugepages=…)"
        ),
    )


def _balancing(tree: Tree) -> Iterator[Finding]:
    nodes = [n for n in tree.names("sys/devices/system/node") if n.startswith("node") and n[4:].isdigit()]
    value = tree.sysctl("kernel.numa_balancing")
    if value is None or len(nodes) < 2:
        return
    yield judge(
        "numa-balancing",
        "",
        value == 0,
        "poor",
        "on",
        "off",
        "the kernel takes pages away to see who uses them; whoever does next waits, some ms now and then",
        Sysctl("kernel.numa_balancing", "0"),
        effect=f"nothing in 20 s; losses now and then in longer runs ({MERRY}, 5.4.2)",
    )


def _reclaim(tree: Tree) -> Iterator[Finding]:
    value = tree.sysctl("vm.zone_reclaim_mode")
    if value is None:
        return
    yield judge(
        "zone-reclaim",
        "",
        value == 0,
        "poor",
        f"{value}",
        "0",
        "a node that is full empties its cache of files, while a thread waits, before it takes memory of another",
        Sysctl("vm.zone_reclaim_mode", "0"),
    )


def _swap(tree: Tree) -> Iterator[Finding]:
    lines = (tree.text("proc/swaps") or "").splitlines()[1:]
    swappiness = tree.sysctl("vm.swappiness")
    yield judge(
        "swap",
        ", ".join(line.split()[0] for line in lines),
        not lines or (swappiness or 0) <= 10,
        "poor",
        f"swappiness {swappiness}" if lines else "none",
        "none, or swappiness 10 at most",
        "parts of a ring that were not touched for a while are written to disk when files fill the memory",
        Sysctl("vm.swappiness", "1"),
    )


def _lock(machine: Machine, needs: Needs) -> Iterator[Finding]:
    if not needs.dpdk or machine.root:
        return
    most = machine.memlock
    yield judge(
        "memlock",
        "",
        most is None or most >= needs.huge_bytes,
        "bad",
        "no limit" if most is None else show(most, "B"),
        "no limit",
        "a card writes to memory that must not move; DPDK without root is refused",
        Hand(
            "LimitMEMLOCK=infinity in the service, memlock unlimited in /etc/security/limits.d, or --ulimit memlock=-1"
        ),
    )


def _open(machine: Machine, needs: Needs) -> Iterator[Finding]:
    most, wanted = machine.open_files, needs.most_sockets + _FILES
    yield judge(
        "open-files",
        "",
        most is None or most >= wanted,
        "bad",
        "no limit" if most is None else f"{most}",
        f"{wanted}",
        "each address that an engine receives at is an open file",
        Hand(f"ulimit -n {wanted}, or LimitNOFILE={wanted} in the service"),
    )
