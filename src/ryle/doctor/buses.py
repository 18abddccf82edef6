"""PCI Express: how wide and fast a card's link is, in which order it writes, who translates, at which node it is."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ryle.config import show
from ryle.doctor.cards import used
from ryle.doctor.finding import MERRY, Boot, Command, Finding, Hand, judge
from ryle.doctor.machine import Machine
from ryle.doctor.needs import Needs
from ryle.doctor.tree import Tree, cores_text

#: Share of PCIe's bits that are payload, at 128/130 and payloads of 256 bytes, and before generation 3 at 8/10.
_PAYLOAD, _OLD_PAYLOAD = 0.9, 0.72
_READ_REQUEST = 512


def buses(machine: Machine, needs: Needs) -> Iterator[Finding]:
    """Look at the cards and GPUs on their buses."""
    tree = machine.tree
    names = {i.pci: i.name for i in used(machine, needs) if i.pci}
    names |= {address: address for address in needs.dpdk if address not in names}
    gpus = {g.pci: f"GPU {g.number}" for g in machine.gpus[0] if needs.gpus is None or g.number in needs.gpus}
    for address, name in {**names, **gpus}.items():
        if not tree.exists(_folder(address)):
            continue  # a virtual device, or one that is not here: `drivers` says so
        yield from _width(tree, address, name)
        if address in names:
            yield from _speed(tree, address, name, needs)
        yield from _order(tree, address, name)
        yield from _translation(tree, address, name)
        yield from _corrected(tree, address, name)
    if needs.window:
        for address, name in gpus.items():
            yield from _window(tree, address, name, needs)
    yield from _nodes(tree, names, gpus, needs)


def _folder(address: str) -> str:
    return f"sys/bus/pci/devices/{address}"


def _lanes(tree: Tree, address: str) -> tuple[int, int] | None:
    now, most = (tree.number(f"{_folder(address)}/{which}_link_width") for which in ("current", "max"))
    return (now, most) if now and most and now < 255 else None  # 255: nobody knows


def _width(tree: Tree, address: str, name: str) -> Iterator[Finding]:
    lanes = _lanes(tree, address)
    if lanes is None:
        yield Finding("pcie-width", name, "unknown", "its bus does not say how wide its link is")
        return
    yield judge(
        "pcie-width",
        name,
        lanes[0] >= lanes[1],
        "bad",
        f"x{lanes[0]}",
        f"x{lanes[1]}",
        "it gets that share of what it could take",
        Hand(
            f"put it into a slot of x{lanes[1]}, alone on its part of the processor; clean its contacts if it is in one"
        ),
        effect=f"card and GPU on one quadrant of a processor: 10 % of the rate ({MERRY}, Table 3)",
    )


def _transfers(text: str | None) -> float:
    """Read ``16.0 GT/s PCIe`` as transfers a second of a lane."""
    try:
        return 1e9 * float((text or "").split()[0])
    except (IndexError, ValueError):
        return math.nan


def _speed(tree: Tree, address: str, name: str, needs: Needs) -> Iterator[Finding]:
    """Cards alone: a GPU slows its link down while it has nothing to do."""
    now, most = (_transfers(tree.text(f"{_folder(address)}/{which}_link_speed")) for which in ("current", "max"))
    lanes = _lanes(tree, address)
    if math.isnan(now) or math.isnan(most) or lanes is None:
        yield Finding("pcie-speed", name, "unknown", "its bus does not say how fast its link is")
        return
    carries = now * lanes[0] * (_PAYLOAD if now >= 8e9 else _OLD_PAYLOAD)
    enough = carries >= needs.bits
    yield judge(
        "pcie-speed",
        name,
        now >= most and enough,
        "bad",
        f"{now / 1e9:g} GT/s x{lanes[0]}, {show(carries, 'b/s')} each way",
        f"{most / 1e9:g} GT/s" if enough else show(needs.bits, "b/s"),
        "packets wait on the card, and are lost there",
        Hand("a slot of a newer generation, or this slot's speed in the firmware (auto); a riser can be the limit"),
    )


def _express(config: bytes) -> int | None:
    """Find the PCI Express capability in a device's configuration (PCI Local Bus 3.0, 6.7)."""
    at, seen = config[0x34] if len(config) > 0x34 else 0, set()
    while at and at not in seen and at + 10 <= len(config):
        seen.add(at)
        if config[at] == 0x10:
            return at
        at = config[at + 1]
    return None


def _order(tree: Tree, address: str, name: str) -> Iterator[Finding]:
    config = tree.octets(f"{_folder(address)}/config")
    at = _express(config)
    if at is None:
        yield Finding("relaxed-ordering", name, "unknown", "its configuration cannot be read: try as root")
        return
    control = int.from_bytes(config[at + 8 : at + 10], "little")
    yield judge(
        "relaxed-ordering",
        name,
        bool(control & 0x10),
        "poor",
        "on" if control & 0x10 else "off",
        "on",
        "each write waits for the one before it, whatever memory that goes to",
        Command(f"setpci -s {address} CAP_EXP+8.w=0010:0010"),
        Hand("the firmware's setting 'PCIe relaxed ordering', for good"),
        effect=f"one F-engine at 92 % of its rate without, four at 55 % ({MERRY}, Table 1)",
    )
    request = 128 << (control >> 12 & 7)
    yield judge(
        "read-request",
        name,
        request >= _READ_REQUEST,
        "poor",
        f"{request} B",
        f"{_READ_REQUEST} B or more",
        "what it reads from memory, to send it, it asks for in so small pieces",
        Command(f"setpci -s {address} CAP_EXP+8.w=5000:7000"),
    )


def _translation(tree: Tree, address: str, name: str) -> Iterator[Finding]:
    group = tree.link(f"{_folder(address)}/iommu_group")
    kind = tree.text(f"sys/kernel/iommu_groups/{group}/type") if group else None
    driver = tree.link(f"{_folder(address)}/driver")
    yield judge(
        "iommu",
        name,
        group is None or kind in ("identity", None) or driver == "vfio-pci",
        "poor",
        f"translates ({kind})" if kind and kind != "identity" else "off, or passes through",
        "off, or passing through",
        "each transfer's addresses are translated, and what is mapped is mapped and taken away again",
        Boot("iommu=pt"),
        effect=f"one F-engine at 99.7 % of its rate with it, four at 85 % ({MERRY}, Table 1)",
    )


def _corrected(tree: Tree, address: str, name: str) -> Iterator[Finding]:
    lines = (tree.text(f"{_folder(address)}/aer_dev_correctable") or "").splitlines()
    totals = [int(line.split()[1]) for line in lines if line.startswith("TOTAL") and len(line.split()) > 1]
    if not totals:
        return
    yield judge(
        "pcie-errors",
        name,
        not totals[0],
        "poor",
        f"{totals[0]} corrected errors",
        "none",
        "transfers are repeated; a link that gets worse ends in a narrower or slower one",
        Hand("put the card in anew, another slot, another riser or cable"),
    )


def _window(tree: Tree, address: str, name: str, needs: Needs) -> Iterator[Finding]:
    sizes = []
    for line in (tree.text(f"{_folder(address)}/resource") or "").splitlines()[:6]:
        first, last = (int(word, 16) for word in line.split()[:2])
        sizes.append(last - first + 1 if last else 0)
    largest = max(sizes, default=0)  # BAR1, in NVIDIA's words, whatever its place in the list
    yield judge(
        "bar1",
        name,
        largest >= needs.window,
        "bad",
        show(largest, "B"),
        show(needs.window, "B"),
        "a card that writes packets to a GPU's memory (copies = 0) reaches no more of it",
        Hand("'resizable BAR' and 'above 4G decoding' in the firmware; or copies = 2"),
    )


def _nodes(tree: Tree, names: dict[str, str], gpus: dict[str, str], needs: Needs) -> Iterator[Finding]:
    """Cards, GPUs and cores that work together are to be at one node."""
    at = {n: tree.number(f"{_folder(a)}/numa_node") for a, n in {**names, **gpus}.items() if tree.exists(_folder(a))}
    known = {name: node for name, node in at.items() if node is not None and node >= 0}
    nodes = [n for n in tree.names("sys/devices/system/node") if n.startswith("node") and n[4:].isdigit()]
    if len(nodes) < 2:
        return
    if not known:
        yield Finding(
            "numa", "", "unknown", f"this machine has {len(nodes)} nodes, and does not say which its cards are at"
        )
        return
    apart = len(set(known.values())) > 1
    said = ", ".join(f"{name} at node {node}" for name, node in known.items())
    yield judge(
        "numa",
        "",
        not apart,
        "poor",
        said,
        "cards and GPUs that work together at one node",
        "all data cross the link between processors, which is narrower than the card's or the GPU's",
        Hand("slots of one processor; or an engine a node, each with the card and GPU of its node (numa, gpus, cores)"),
    )
    yield from _cores_apart(tree, set(known.values()), needs.cores)


def _cores_apart(tree: Tree, nodes: set[int], cores: Sequence[int]) -> Iterator[Finding]:
    near = {c for node in nodes for c in tree.cores(f"sys/devices/system/node/node{node}/cpulist")}
    away = sorted(set(cores) - near)
    if not cores or not near:
        return
    yield judge(
        "numa-cores",
        cores_text(away) if away else cores_text(sorted(cores)),
        not away,
        "poor",
        "at another node than cards and GPUs" if away else "at the node of cards and GPUs",
        "at the node of cards and GPUs",
        "each packet is read and written through the link between processors",
        Hand(f"cores in the observation: of {cores_text(sorted(near))}"),
    )
