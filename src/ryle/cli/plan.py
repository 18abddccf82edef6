"""``ryle plan``: engines, GPUs, servers and switch ports that an array needs, and where its engines run."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console, Group, RenderableType
from rich.text import Text

from ryle.cli.check import mistakes
from ryle.cli.completion import files
from ryle.cli.sheet import Sheet

if TYPE_CHECKING:
    from ryle.config import Observation
    from ryle.plan.hardware import Hardware
    from ryle.plan.placement import Placement
    from ryle.plan.size import Plan


class Form(StrEnum):
    """How F and X are spread."""

    AUTO = "auto"
    APART = "f+x"
    TOGETHER = "fx"


def plan(
    file: Annotated[
        Path | None,
        typer.Argument(help="observation file; without it, sizes of known arrays", autocompletion=files(".toml")),
    ] = None,
    hardware: Annotated[
        Path | None,
        typer.Option(
            help="file of GPUs, servers, switch and prices, over those that ship with Ryle",
            autocompletion=files(".toml"),
        ),
    ] = None,
    server: Annotated[str, typer.Option(help="kind of server, a table [servers.NAME] of the hardware")] = "h200",
    margin: Annotated[float, typer.Option(min=0.05, max=1.0, help="share of each resource that may be used")] = 0.8,
    form: Annotated[
        Form, typer.Option(help="F- and X-engines, or both in one process; auto: that where one server takes all")
    ] = Form.AUTO,
    host: Annotated[
        list[str] | None, typer.Option("--host", help="name of a server to place engines on; may be repeated")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="write where engines run to this file", dir_okay=False)
    ] = None,
    here: Annotated[
        bool,
        typer.Option("--here", help="run it here for a moment, twice, and say what all of it takes of this machine"),
    ] = False,
    network: Annotated[
        bool, typer.Option("--network", help="follow packets between F and X: depth of queues, skew, what fails")
    ] = False,
    buffer: Annotated[
        float, typer.Option(min=0, help="--network: MiB of a switch's port; what comes beyond is lost")
    ] = 16,
    leaves: Annotated[int, typer.Option(min=1, help="--network: switches that hosts are spread over")] = 1,
    uplinks: Annotated[int, typer.Option(min=1, help="--network: from each of them to spines")] = 4,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON, in Hz, s, B and bit/s")] = False,
) -> None:
    """Plan a correlator: engines, GPUs, servers, ports, watts, what limits each; place an observation's engines.

    Figures are of measured hardware (`hardware.toml`), or of yours. Without a file a table of known arrays is printed.
    The exit status is 1 if engines of the observation are more than a GPU takes.
    """
    from ryle.config import load
    from ryle.plan.checks import check
    from ryle.plan.hardware import read_hardware
    from ryle.plan.placement import place, written
    from ryle.plan.placement_file import parse_placement
    from ryle.plan.size import TooMuchError
    from ryle.plan.size import plan as size
    from ryle.plan.work import Work, telescopes

    found = read_hardware(hardware)
    if server not in found.servers:
        raise typer.BadParameter(f"{server} is none of {', '.join(found.servers)}", param_hint="--server")
    if file is None:
        if output is not None or host:
            raise typer.BadParameter("engines are of an observation: name its file", param_hint="--output")
        sizes: dict[str, Plan | str] = {}
        for name, work in telescopes().items():
            try:
                sizes[name] = size(work, found, server, margin=margin, form=form.value)
            except TooMuchError as error:
                sizes[name] = str(error)
        if as_json:
            typer.echo(json.dumps({n: p if isinstance(p, str) else _plain(p) for n, p in sizes.items()}, indent=2))
        else:
            Console().print(table(sizes))
        return
    observation = load(file)
    placement = place(observation, found, server, host or (), margin)
    text = written(observation, placement, found.servers[server])
    if not placement.problems:  # what does not fit is said; what is left shows in the whole
        placement = replace(placement, problems=tuple(check(parse_placement(text, file.name), observation)))
    if here:
        _tried(observation, as_json)
        return
    if network:
        _follow(observation, found.servers[server].card, buffer, leaves, uplinks, as_json)
        return
    needed = size(
        Work.of(observation), found, server, margin=margin, skew=float(observation.network.skew), form=form.value
    )
    if as_json:
        typer.echo(json.dumps({"needs": _plain(needed), "engines": [asdict(p) for p in placement.engines]}, indent=2))
    else:
        Console().print(Group(report(needed), placed(observation, found, server, placement, needed)))
    if output is not None:
        output.write_text(text)
        Console(stderr=True).print(f"written: {output}")
    if placement.problems:
        raise typer.Exit(1)


def _tried(o: Observation, as_json: bool) -> None:
    """Run it for a moment, twice, and print what all of it will take."""
    import os

    from ryle.config import show
    from ryle.monitor.progress import status_line
    from ryle.plan.here import predict

    with status_line() as say:
        try:
            found = predict(o, lambda what: say(f"running {what}"))
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="--here") from None
    if as_json:
        typer.echo(json.dumps(asdict(found), indent=2))
        return
    cores = len(os.sched_getaffinity(0))
    sheet = Sheet(f"{o.observation.name}: {show(found.whole.signal, 's')} of signal on this machine", "what", "")
    sheet.row("processor time", f"{found.whole.cpu:.3g} s, {found.begin:.3g} s of them to begin and to end")
    sheet.row("memory, at most", show(found.whole.memory, "B"))
    sheet.row("time", f"{found.whole.wall:.3g} s, if nothing else runs")
    sheet.row("for a second of signal", f"{found.rate:.3g} s of processor time; {cores} cores are here")
    Console().print(sheet)
    if found.rate > cores:
        least = f"{found.rate / cores:.2g} times as many cores, or so much less signal, would keep up in real time"
        Console().print(Text(least, style="yellow"))


def _follow(o: Observation, link: float, buffer: float, leaves: int, uplinks: int, as_json: bool) -> None:
    """Follow packets through the network, in each scenario, and print what queues and rings need."""
    from ryle.config import show
    from ryle.plan.corner_turn import Turn, scenarios, simulate

    if o.fx is not None or not o.channelizes:
        raise typer.BadParameter("its spectra cross no network of Ryle's", param_hint="--network")
    turn = replace(Turn.of(o, link), buffer=buffer * (1 << 20), leaves=leaves, uplinks=uplinks if leaves > 1 else 0)
    found = {name: simulate(each) for name, each in scenarios(turn).items()}
    if as_json:
        told = {name: asdict(f) | {"skew": f.skew(turn.block)} for name, f in found.items()}
        typer.echo(json.dumps({"turn": asdict(turn), "found": told}, indent=2))
        return
    title = (
        f"{turn.senders} F-engines to {turn.receivers} X-engines, {turn.packets} packets of {turn.packet:.0f} B each "
        f"in a block of {show(turn.block, 's')}, links of {show(link, 'b/s')}"
    )
    sheet = Sheet(title, "what", "lost", "waits at a port", "under way", "skew", "blocks open", "busiest link")
    for name, f in found.items():
        skew = f.skew(turn.block)
        sheet.row(
            name,
            f"{1e2 * f.lost:.3g} %",
            show(f.deepest, "B"),
            show(f.latency, "s"),
            show(skew, "s"),
            f"{2 + math.ceil(skew / turn.block)}",
            f"{1e2 * f.busiest:.0f} %",
        )
    Console().print(
        Group(sheet, Text(f"network.skew of the observation: {show(float(o.network.skew), 's')}", style="dim"))
    )


def _plain(p: Plan) -> dict[str, Any]:
    whole = {k: v for k, v in asdict(p).items() if k not in ("work", "server", "gpu", "parts")}
    parts = [
        {"kind": q.kind, "engines": q.engines, "each": q.each, "servers": q.servers, "bottleneck": q.load.bottleneck}
        | {"shares": q.load.shares, "watts": q.load.watts}
        for q in p.parts
    ]
    return whole | {"servers": p.servers, "gpus": p.gpus, "file_bytes_a_day": p.file_bytes_a_day, "parts": parts}


_NAMES = {"f": "F-engines", "x": "X-engines", "fx": "FX, one process"}
_EACH = {"f": "antennas", "x": "channels", "fx": "GPUs"}


def table(sizes: dict[str, Plan | str]) -> RenderableType:
    """Lay out arrays, one a row."""
    sheet = Sheet(
        "Known arrays", "array", "in", "F on GPUs", "X on GPUs", "servers", "ports", "power", "files a day", "limits"
    )
    notes: list[RenderableType] = []
    for name, p in sizes.items():
        if isinstance(p, str):
            sheet.row(name, "", "", "", "", "", "", "", "does not fit")
            notes.append(Text(f"{name}: {p}", style="yellow"))
            continue
        parts = {q.kind: q for q in p.parts}
        counts = [f"{parts[k].engines}" if k in parts else "" for k in ("f", "x")]
        if "fx" in parts:
            counts = [f"{parts['fx'].engines}, with X", "with F"]
        work = p.work
        sheet.row(
            name,
            f"{work.inputs * work.bands * work.samples * work.sample_bits * 1e-12:.3g} Tb/s",
            *counts,
            f"{p.servers}",
            f"{p.ports}",
            f"{p.watts * 1e-3:.3g} kW",
            f"{p.file_bytes_a_day * 1e-12:.3g} TB",
            "; ".join(q.load.bottleneck for q in p.parts),
        )
    return Group(sheet, *notes)


def report(p: Plan) -> RenderableType:
    """Lay out what one array needs."""
    from ryle.config import show

    sheet = Sheet(f"{p.work.name}: what it needs, of {p.gpu.name}", "what", "how many", "each", "servers", "most used")
    for q in p.parts:
        sheet.row(
            _NAMES[q.kind],
            f"{q.engines}",
            f"{q.each} {_EACH[q.kind]}",
            f"{q.servers}",
            f"{q.load.bottleneck} {1e2 * q.load.most:.0f} %",
        )
    sheet.row("catchers", f"{p.catchers}")
    more = Sheet("In all", "what", "")
    more.row(f"servers ({p.server.name})", f"{p.servers}")
    more.row("switch ports", f"{p.ports}, {p.switches} switch{'es' if p.switches > 1 else ''}")
    more.row("addresses or groups", f"{p.groups}")
    more.row("receive rings of a server", f"{show(p.memory, 'B')} of {show(p.server.memory, 'B')}")
    more.row("visibilities a day", f"{p.file_bytes_a_day * 1e-12:.3g} TB")
    more.row("power, without the building", f"{p.watts * 1e-3:.3g} kW")
    if p.price or p.energy_price:
        more.row("price of machines", f"{p.price:,.0f}")
        more.row("price of energy", f"{p.energy_price:,.0f}")
    shares = Sheet(
        "Shares of one engine's GPU, and of its part of the server", "resource", *(_NAMES[q.kind] for q in p.parts)
    )
    for name in dict.fromkeys(name for q in p.parts for name in q.load.shares):
        shares.row(name, *(f"{1e2 * q.load.shares[name]:.0f} %" for q in p.parts))
    return Group(sheet, shares, more)


def placed(o: Observation, hardware: Hardware, server: str, placement: Placement, needed: Plan) -> RenderableType:
    """Lay out where the engines of an observation run, which may be others than those that it was found to need."""
    sheet = Sheet("Where its engines run", "host", "engines", "GPUs", "cores", "most used")
    for host in placement.hosts:
        its = [p for p in placement.engines if p.host == host.name]
        counts = {kind: sum(p.engine == kind for p in its) for kind in o.engines}
        gpus = {p.gpu for p in its if p.gpu is not None}
        shares = host.shares | {
            k: max(g.get(k, 0.0) for g in host.gpus) for k in ("kernels", "power", "bus in", "bus out")
        }
        most = max(shares, key=lambda k: shares[k])
        sheet.row(
            host.name,
            ", ".join(f"{n} {kind}" for kind, n in counts.items() if n),
            f"{len(gpus)} of {hardware.servers[server].gpus}",
            f"{host.cores} of {hardware.servers[server].cores}",
            f"{most} {1e2 * shares[most]:.0f} %" if gpus else "",
        )
    lines: list[RenderableType] = [sheet]
    backends = {"f": o.fengine.backend, "x": o.xengine.backend, "fx": o.fengine.backend}
    asked = {kind: backend for kind, backend in backends.items() if kind in o.engines}
    if "cpu" in asked.values() or {q.kind for q in needed.parts} != set(asked):
        own = " and ".join(f"{_NAMES[kind]} on {backend}" for kind, backend in asked.items())
        lines.append(Text(f"These are the engines that the file asks for, {own}; those above suit its rates.", "dim"))
    if placement.problems:
        from ryle.config import ConfigError

        lines.append(mistakes(ConfigError(o.source, list(placement.problems))))
    return Group(*lines)
