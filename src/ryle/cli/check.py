"""``ryle check``: read an observation file and print what follows from it."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ryle.array.horizon import horizon_cautions
from ryle.cli.arguments import RECORDINGS
from ryle.cli.completion import files
from ryle.cli.sheet import Sheet
from ryle.config import ConfigError, Observation, Problem, load, rates, show
from ryle.config.cautions import cautions, told_senders
from ryle.engines import budget
from ryle.engines import devices as gpu
from ryle.engines.look import Looked, look
from ryle.engines.machine import machine_cautions
from ryle.problems import listed, toml


def check(
    file: Annotated[Path, typer.Argument(help="observation file (TOML)", autocompletion=files(".toml"))],
    recordings: Annotated[
        list[Path] | None,
        typer.Argument(
            help="recordings to compare with it, as `ryle correlate` takes them",
            exists=True,
            dir_okay=False,
            autocompletion=files(*RECORDINGS),
        ),
    ] = None,
    inputs: Annotated[
        list[Path] | None,
        typer.Option(
            "--input",
            "-i",
            help="the same; may be repeated",
            exists=True,
            dir_okay=False,
            autocompletion=files(*RECORDINGS),
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON, in Hz, s, B and bit/s")] = False,
) -> None:
    """Check an observation file and print its rates, sizes, memory and arithmetic; look at recordings.

    The exit status is 2 if the file has mistakes, or the recordings do not fit it.
    """
    try:
        observation = load(file)
    except ConfigError as error:
        if as_json:
            typer.echo(json.dumps({"source": error.source, "problems": _plain(error.problems)}, indent=2))
        else:
            Console(stderr=True, soft_wrap=True).print(mistakes(error))
        raise typer.Exit(2) from None
    given = [*(inputs or []), *(recordings or [])]
    looked = look(observation, given) if given else None
    if as_json:
        found = rates.summary(observation) | {
            "memory": [asdict(m) for m in budget.memory(observation)],
            "latency": budget.latency(observation),
            "cautions": _plain(_cautions(observation)),
        }
        if looked is not None:
            lists = {"problems": _plain(looked.problems), "cautions": _plain(looked.cautions)}
            found["recordings"] = {"files": dict(looked.files), "bands": dict(looked.bands)} | lists
        typer.echo(json.dumps(found, indent=2))
    else:
        Console().print(report(observation, looked))
    if looked is not None and looked.problems:
        raise typer.Exit(2)


def report(observation: Observation, looked: Looked | None = None) -> RenderableType:
    """Lay out everything derived from an observation as tables, and what recordings hold."""
    found = _cautions(observation)
    if looked is None:
        return Group(_overview(observation), _links(observation), _resources(observation), _notes(found))
    recordings: list[RenderableType] = [Text("\nRecordings", style="bold"), _grid(looked.files)]
    if looked.bands:
        recordings += [Text("\nBands of the recordings", style="bold"), _grid(looked.bands)]
    if looked.problems:
        recordings += [Text("\nWhat does not fit", style="bold red"), *_listed(looked.problems, "red")]
    notes = _notes([*looked.cautions, *found])
    return Group(_overview(observation), _links(observation), _resources(observation), *recordings, notes)


def _grid(rows: list[tuple[str, str]]) -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="cyan")
    for name, text in rows:
        grid.add_row(Text(name), Text(text))
    return grid


def mistakes(error: ConfigError) -> RenderableType:
    """Lay out the mistakes of a file: key and value, below them what to write."""
    if len(error.problems) == 1:
        return Text.assemble(("error: ", "bold red"), str(error))
    count = f"{len(error.problems)} mistakes"
    lines: list[RenderableType] = [Text.assemble((error.source, "bold"), ": ", (count, "bold red"))]
    return Group(*lines, *_listed(error.problems, "red"))


def _listed(problems: list[Problem], style: str) -> list[RenderableType]:
    lines: list[RenderableType] = []
    for problem in problems:
        value = "" if problem.value is None else f" = {toml(problem.value)}"
        lines += [Text.assemble("  ", (problem.key, style), value), Padding(Text(problem.remedy), (0, 0, 0, 6))]
    return lines


def _plain(problems: list[Problem]) -> list[dict[str, Any]]:
    return [{"key": p.key, "value": None if p.value is None else str(p.value), "remedy": p.remedy} for p in problems]


def _cautions(observation: Observation) -> list[Problem]:
    finders = (gpu.gpu_cautions, cautions, horizon_cautions, machine_cautions, budget.cautions)
    return [caution for find in finders for caution in find(observation)]


def _overview(o: Observation) -> Table:
    title = Text(f"{o.observation.name}: {o.source}")
    table = Table(title=title, title_justify="left", show_header=False, box=None)
    table.add_column(style="cyan")
    table.add_column()
    edge, direction = o.channel_width / 2, "rises" if o.sideband_sign > 0 else "falls"
    low, high = (o.sky_frequencies.min() - edge) / 1e6, (o.sky_frequencies.max() + edge) / 1e6
    asked, true, spectrum = float(o.xengine.integration), o.integration_time, show(o.step / o.sample_rate, "s")
    off = f"{1e2 * (true / asked - 1):+.3f} %"
    sums = rates.full_scale_spectra(o, 64) / o.file_spectra
    tracked = f"tracks {o.phase_centre.name}" if o.phase_centre else "no phase centre: data are not phase-tracked"
    recorded = f" (of [band]; the recording has {len(o.vdif.bands)} of its own)" if o.vdif and o.vdif.bands else ""
    rows = {
        "array": f"{len(o.antennas)} antennas x {o.pols} polarizations = {o.n_inputs} inputs; {tracked}",
        "products": f"{o.baselines} baselines with autos, {o.products} products a channel",
        "band": f"{low:.6f} to {high:.6f} MHz{recorded}; sky frequency {direction} with the channel index",
        "channels": f"{o.fengine.channels} of {show(o.channel_width, 'Hz')}, one spectrum in {spectrum}",
        "integration": f"{true:.9g} s = {o.integration_spectra} spectra; {asked:.9g} s asked, rounded by {off}",
        "64-bit sums": f"hold {sums:.3g} integrations of full scale",
    }
    if o.catcher.integration is not None:
        dumps = o.file_spectra // o.integration_spectra
        summed = "summed before the file" if o.fx is not None else "of the X-engines, summed by the catcher"
        rows["in the file"] = f"{o.file_time:.9g} s = {dumps} integrations {summed}"
    if o.fx is not None:
        rows["F and X"] = "one process (FX) in place of F-engines, X-engines and catcher: spectra cross no network"
    if o.sends_rows and o.f_engines:
        link = next(link for link in rates.links(o) if link.name == "F-engine out")
        share = f"{1e2 * (link.wire / link.payload - 1):.1f} % more on the wire"
        rows["F to X"] = f"rows: {o.packet_channels} channels x {o.pols} polarizations in a packet, {share}"
    if o.packets is not None:
        layout = o.packets
        rows["F-engines"] = (
            f"others', {o.fengine.packets}: {layout.spectra} spectra x {layout.channels} channels x {layout.inputs} "
            f"inputs of {layout.bits}+{layout.bits} bits in a packet"
        )
    if o.catcher.packets is not None:
        rows["X-engines"] = "others', which send CASPER's 0x4b52 packets"
    if any((told := told_senders(o)).values()):
        rows["senders"] = "; ".join(f"to {who}: {listed(map(str, found)) or 'anybody'}" for who, found in told.items())
    if o.fengine.backend == "cuda" and o.channelizes:
        who, takes = "F-engine", ""
        if o.fx is not None:
            whose = "its memory" if o.fx_gpus == 1 else f"the memory of each of {o.fx_gpus}"
            who, takes = "FX", f"; takes {show(gpu.fx_bytes(o), 'B')} of {whose}"
        rows[f"{who} on GPU"] = f"{gpu.needs(o)}{takes}; here: {gpu.here(o)[0]}"
    for name, text in rows.items():
        table.add_row(name, Text(text))  # Text: names may hold what looks like markup
    return table


def _links(o: Observation) -> RenderableType:
    ip = rates.overhead(o, 0) - rates.UDP - 8
    spead = f"SPEAD {8 + 8 * rates.SPECTRA_ITEMS} B a packet (X-engine out {8 + 8 * rates.VISIBILITY_ITEMS} B)"
    if o.fx is not None:
        spead = f"header {rates.digitizer_header(o)} B a packet"
    elif o.catcher.packets is not None:
        spead = f"header {rates.CASPER_HEADER} B a packet"
    elif o.sends_rows:
        spead = spead.replace(")", f", rows of F-engines {rates.ROWS_HEADER} B)")
    elif o.packets is not None:
        header = o.packets.packet_bytes - o.packets.payload_bytes
        spead = f"header {header} B a packet (X-engine out SPEAD {8 + 8 * rates.VISIBILITY_ITEMS} B)"
    if o.channelizes and o.fx is None and (header := rates.digitizer_header(o)) != 8 + 8 * rates.SPECTRA_ITEMS:
        spead = spead.replace(")", f", digitizer stream {header} B)")
    ethernet = f"Ethernet {rates.ETHERNET} B, preamble and gap included"
    caption = f"wire: payload + {spead} + UDP {rates.UDP} B + IP {ip} B + {ethernet}"
    sheet = Sheet("Each link", "link", "how many", "heap", "packet", "packets/s", "payload", "wire")
    for link in rates.links(o):
        packets = f"{link.packets:,.2f}".replace(",", " ").removesuffix(".00")
        sizes = f"{link.heap} B", f"{link.packet} B", packets
        sheet.row(link.name, f"{link.count}", *sizes, show(link.payload, "b/s"), show(link.wire, "b/s"))
    return Group(sheet, Text(caption, style="italic"))


def _resources(o: Observation) -> RenderableType:
    sheet = Sheet("Memory, arithmetic, disk", "what", "of one", "how many", "in all")
    buffers = budget.memory(o)
    for buffer in buffers:
        sheet.row(buffer.name, show(buffer.bytes, "B"), f"{buffer.count}", show(buffer.bytes * buffer.count, "B"))
    total = sum(buffer.bytes * buffer.count for buffer in buffers)
    sheet.row("all of these", "", "", show(total, "B"))
    sheet.row("available here, now", "", "", show(budget.available(), "B"))
    sheet.gap()
    for engine, seconds in budget.latency(o).items():
        sheet.row(f"live {budget.NAMES[engine]}: packets wait, at worst", show(seconds, "s"))
    sheet.gap()
    work, fx = rates.load(o), o.engines.get("fx", 0)
    if f := fx or o.f_engines:
        name = "FX" if fx else "F-engine"
        sheet.row(f"{name} input", show(work.f_samples / f, "sample/s"), f"{f}", show(work.f_samples, "sample/s"))
        flops = show(work.f_flops / f, "FLOP/s")
        sheet.row(f"{'F' if fx else name} arithmetic, about", flops, f"{f}", show(work.f_flops, "FLOP/s"))
    if x := fx or o.engines.get("x", 0):
        operations, name = show(work.x_ops / x, "OP/s"), "X arithmetic" if fx else "X-engine"
        sheet.row(f"{name}, 8·N(N+1)/2 a channel-sample", operations, f"{x}", show(work.x_ops, "OP/s"))
    sheet.gap()
    growth = rates.file_rate(o)
    sheet.row("UVH5 file, at most", "", "", f"{growth / 1e6:.4g} MB/s, {growth * 3.6e-6:.4g} GB/h")
    return sheet


def _notes(found: list[Problem]) -> RenderableType:
    if not found:
        return Text("\nNothing to be wary of.", style="green")
    return Group(Text(f"\nTo be wary of: {len(found)}", style="bold yellow"), *_listed(found, "yellow"))
