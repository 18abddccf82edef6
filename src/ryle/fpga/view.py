"""What a core says of itself, for people: status, rates, counters, and the register map."""

from __future__ import annotations

import dataclasses
import json as json_
import time
from contextlib import suppress

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from ryle.config.units import show as with_unit
from ryle.fpga.core import Core, Status
from ryle.fpga.registers import RegisterMap


def show(core: Core, *, interval: float | None, json: bool, everything: bool, console: Console | None = None) -> None:
    """Print a core's status once, or every `interval` seconds until Ctrl-C.

    Parameters
    ----------
    core : Core
        Of which.
    interval : float or None
        Seconds between pictures; once if None.
    json : bool
        A line of JSON each time.
    everything : bool
        Counters that are 0 too.
    """
    console = console or Console(highlight=False)
    if json:
        while True:
            console.print(json_.dumps(dataclasses.asdict(core.status())), soft_wrap=True, markup=False)
            if interval is None:
                return
            time.sleep(interval)
    if interval is None:
        console.print(picture(core, core.status(), everything))
        return
    with suppress(KeyboardInterrupt), Live(console=console, auto_refresh=False) as live:
        while True:
            live.update(picture(core, core.status(), everything), refresh=True)
            time.sleep(interval)


def picture(core: Core, status: Status, everything: bool = False) -> Group:
    """Draw a status."""
    up = status.link == "up"
    member = "" if status.multicast == "none" else f" ({status.igmp})"
    head = Text.assemble(
        "link ", (status.link, "bold green" if up else "bold red"), " · ",
        ("enabled" if status.enabled else "disabled", "bold" if status.enabled else "bold yellow"),
        f" · {status.mac} · {status.ip} netmask {status.netmask} gateway {status.gateway}"
        f" · port {status.port} · multicast {status.multicast}{member} · TTL {status.ttl} DSCP {status.dscp}"
        f" VLAN {status.vlan} · pause {'honoured' if status.pause else 'refused'}"
        f" · pings {'answered' if status.answer_ping else 'to the processor'}",
    )  # fmt: skip
    c = status.counters
    rates = (
        f"sent {with_unit(c['tx_byte_rate'] * 8, 'b/s')}, {c['tx_packet_rate']} packets/s · "
        f"received {with_unit(c['rx_byte_rate'] * 8, 'b/s')}, {c['rx_packet_rate']} packets/s"
    )
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(justify="right")
    table.add_column(style="dim")
    for name, value in c.items():
        r = core.map.find(name)
        if name.endswith("_rate") or not (value or everything or name in ("tx_packets", "rx_packets")):
            continue
        loss = value and (name.startswith("drop") or "overflow" in name or "bad" in name or name == "tx_no_arp")
        table.add_row(name, Text(str(value), "bold red" if loss else ""), r.means)
    g, k = status.generator, status.checker
    running = "running" if g["enable"] & 2 else "stopped"
    pace = "as fast as it goes" if g["beats"] == 0xFFFFFFFF else f"{g['beats']} beats in {g['period']} clocks"
    generator = f"generator {running}: {g['sent']} packets of {g['length']} B, {pace}"
    checker = "checker: {packets} packets, {lost} lost, {late} late, {wrong} wrong, {short} of wrong length".format(**k)
    return Group(head, rates, table, generator, checker)


def register_table(map_: RegisterMap) -> Table:
    """Draw a register map."""
    table = Table(title=f"{map_.title}, version {map_.version}")
    for heading in ("address", "register", "access", "meaning"):
        table.add_column(heading, overflow="fold")
    for r in sorted(map_.registers, key=lambda r: r.address):
        address = f"{r.address:03x}" if r.high is None else f"{r.address:03x} {r.high:03x}"
        parts = "".join(f"\n  [{f.low + f.bits - 1}:{f.low}] {f.name}: {f.means}" for f in r.fields)
        unit = f" ({r.unit})" if r.unit else ""
        table.add_row(address, r.name, r.access, f"{r.means}{unit}{parts}")
    for m in map_.memories:
        table.add_row(f"{m.address:04x}", m.name, "rw", f"{m.means} ({m.bytes} B)")
    return table
