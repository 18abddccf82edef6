"""`ryle wire`: packet formats, shipped and own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from ryle.cli import completion

if TYPE_CHECKING:
    from ryle.receive.packet_check import Explained, PacketCheck
    from ryle.wire.description import Format, HeaderField, Total

app = typer.Typer(
    add_completion=False, help="Packet formats: list, show, and check a capture against one.", no_args_is_help=True
)

FormatName = Annotated[
    str,
    typer.Argument(
        help="Name of a shipped format, or a TOML file; parameters may follow: meerkat_f:channels=64,spectra=256.",
        metavar="FORMAT",
        autocompletion=completion.formats,
    ),
]


AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command("list")
def formats(as_json: AsJson = False) -> None:
    """List the shipped packet formats."""
    from ryle.wire.description import Format, names

    if as_json:
        return _print([{"name": name, "title": Format.load(name).title} for name in names()])
    table = Table(box=None)
    table.add_column("format", style="cyan", no_wrap=True)
    table.add_column("what")
    for name in names():
        table.add_row(name, Text(Format.load(name).title))
    Console().print(table)


@app.command()
def show(format: FormatName, as_json: AsJson = False) -> None:
    """Show a packet format: header fields, payload, timestamp; a format of one's own is checked."""
    from ryle.wire.description import Format

    if as_json:
        f = Format.load(format)
        return _print({"name": f.name, "period": f.period, **f.model_dump()})
    Console().print(_described(Format.load(format)))


@app.command()
def check(
    format: FormatName,
    pcap: Annotated[Path, typer.Option("--pcap", help="Capture: pcap or pcapng.", exists=True, dir_okay=False)],
    port: Annotated[int | None, typer.Option(help="Only packets to this UDP port.", min=1, max=65535)] = None,
    packets: Annotated[
        int, typer.Option(help="Packets to print; after as many, only those with something wrong.", min=0)
    ] = 20,
    as_json: AsJson = False,
    most: Annotated[int, typer.Option(help="Packets with something wrong to print in all.", min=0)] = 100,
) -> None:
    """Explain a capture packet by packet: fields, what is wrong, what is missing.

    Ends with status 1 unless all packets are valid and none is missing, late or duplicate.
    """
    from ryle.receive.packet_check import PacketCheck
    from ryle.wire.description import Format

    found = PacketCheck(Format.load(format), pcap, port)
    if as_json:
        _print(found.as_json(most))
        raise typer.Exit(0 if found.clean else 1)
    console = Console(soft_wrap=True, highlight=False)
    wrong = 0
    for number, packet in enumerate(found):
        wrong += bool(packet.remarks)
        if number < packets or (packet.remarks and wrong <= most):
            console.print(_line(packet))
    if wrong > most:
        console.print(f"… {wrong - most} more packets with something wrong")
    console.print(_summary(found))
    if not found.clean:
        raise typer.Exit(1)


def _print(found: object) -> None:
    import json

    print(json.dumps(found, indent=1))


def _line(packet: Explained) -> Text:
    fields = " ".join(f"{name}={value}" for name, value in packet.fields.items())
    time = "" if packet.timestamp is None else f" t={packet.timestamp}"
    line = Text.assemble(
        (f"{packet.number:>7} ", "dim"), f"{packet.size} B to {packet.port}", (time, "cyan"), " ", fields
    )
    line.append(f"  {packet.note}" if packet.note else "", "dim")
    return line.append("".join(f"  ! {remark}" for remark in packet.remarks), "bold red")


def _summary(found: PacketCheck) -> RenderableType:
    format, account = found.format, found.account
    verdicts = [f"{n} {reason.name.lower().replace('_', ' ')}" for reason, n in found.reasons.items() if n]
    others = {
        "fragments": account.fragments,
        "truncated": account.truncated,
        "malformed": account.malformed,
        "not UDP": account.other,
    }
    dropped = [f"{n} {what}" for what, n in others.items() if n]
    lines = [f"packets: {', '.join(verdicts) or 'none'}"]
    if dropped:
        lines.append(f"not looked at: {', '.join(dropped)}")
    if account.cut:
        lines.append("the file ends within a record")
    table = Table(box=None, title="streams", title_justify="left")
    for name in found.stream_fields:
        table.add_column(name, justify="right", style="cyan")
    for heading in ("packets", "missing", "late", "duplicate", "off step", f"first, {format.timestamp.unit}", "last"):
        table.add_column(heading, justify="right")
    for key, s in sorted(found.streams.items())[:50]:
        counts = (s.packets, s.missing, s.late, s.duplicate, s.off, s.first, s.expected - format.timestamp.step)
        table.add_row(*(str(x) for x in (*key, *counts)))
    if len(found.streams) > 50:
        table.caption = f"{len(found.streams) - 50} more streams"
    return Group(Text("\n".join(lines)), *([table] if found.streams else []))


def _total(total: Total) -> str:
    from ryle.wire.description import terms

    parts = [name if factor == 1 else f"{factor} {name}" for name, factor in terms(total).items()]
    text = " + ".join([*parts, *([str(total["add"])] if total.get("add") else [])])
    return text if total.get("over", 1) == 1 else f"({text}) / {total['over']}, rounded down"


def _field(f: Format, field: HeaderField) -> tuple[str | Text, ...]:
    everything = (field.low, field.high) == (0, (1 << field.width) - 1)
    needed = "" if everything else str(field.low) if field.low == field.high else f"{field.low} to {field.high}"
    if field.item is not None:
        otherwise = "" if field.default is None else f"{field.default} if not there"
        otherwise = "no samples if there" if field.control else otherwise
        place, endian = f"item 0x{field.item:04x}", ""
    else:
        otherwise, endian = "", field.endian or f.header.endian
        place = f"{field.byte}-{field.byte + field.bytes - 1}"
    allowed = ", ".join(part for part in (needed, otherwise) if part)
    return field.name, place, field.bits or f"{field.width - 1}:0", endian, allowed, Text(field.means)


def _described(f: Format) -> RenderableType:
    behind = "" if f.header.items is None else f" and {f.header.items} items of 8 B"
    table = Table(title=f"header, {f.header.bytes} B{behind}", title_justify="left", box=None)
    for heading in ("field", "bytes", "bits", "endian", "allowed", "means"):
        table.add_column(heading, style="cyan" if heading == "field" else "")
    for field in f.header.field:
        table.add_row(*_field(f, field))
    sample, rule = f.sample, f.timestamp
    axes = " ".join(f"[{axis} {f.payload.size[axis]}]" for axis in f.payload.order)
    kind = (
        f"{'complex' if sample.complex else 'real'}, {sample.bits} bits a part, {sample.code}, {sample.bit_order} first"
    )
    rows = {
        "payload": f"{axes}, the slowest first",
        "samples": kind + (f", {sample.first} part first" if sample.complex else ""),
        "after them": " or ".join(str(n) for n in f.payload.trailer_bytes) + " B",
        **({"heaps": _heaps(f)} if f.heap is not None else {}),
        "timestamp": f"{_total(rule.count)} {rule.unit}, {rule.step} a packet, starts again at {f.period}",
        "streams": ", ".join(rule.stream) or "one",
        **{f"first {place}": _total(total) for place, total in f.placement.items()},
        **{f"parameter {name}": _parameter(f, name) for name in f.parameters},
        "source": f.source,
    }
    if f.notes:
        rows["notes"] = f.notes
    facts = Table(show_header=False, box=None)
    facts.add_column(style="cyan", no_wrap=True)
    facts.add_column()
    for name, text in rows.items():
        facts.add_row(name, Text(text))
    return Group(Text(f"{f.name}: {f.title}", style="bold"), table, facts)


def _heaps(f: Format) -> str:
    heap = f.heap
    assert heap is not None
    said = f"of {' or '.join(str(n) for n in f.heap_bytes)} B" + (", one packet each" if heap.packets == "one" else "")
    unit = "" if heap.unit == 1 else f", multiples of {heap.unit}"
    return f"{said}; a packet holds {_total(heap.bytes)} from {_total(heap.offset)} on{unit}"


def _parameter(f: Format, name: str) -> str:
    state = "must be given; here" if name in f.lacking else "is"
    return f"{f.parameters[name].means}; {state} {f.values[name]}"
