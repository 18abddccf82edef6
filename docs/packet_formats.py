"""The reference of packet formats, from the shipped descriptions and from what a description may hold."""

from __future__ import annotations

import typing

from pydantic import BaseModel

from ryle.wire.description import Format, HeaderField, names, terms


def page() -> str:
    """Write all shipped formats, then all keys, as MyST."""
    return "\n".join([_overview(), *map(_format, map(Format.load, names())), "## Keys of a description\n", _keys()])


def _overview() -> str:
    rows = ["| | | packet | samples |", "|---|---|---|---|"]
    for f in map(Format.load, names()):
        kind = "complex" if f.sample.complex else "real"
        rows.append(f"| [`{f.name}`](#{f.name}) | {f.title} | {_bytes(f)} | {kind}, {f.sample.bits} bits |")
    return "\n".join(rows) + "\n"


def _format(f: Format) -> str:
    rows = ["| field | bytes | bits | | allowed | means |", "|---|---|---|---|---|---|"]
    rows += [_field(f, field) for field in f.header.field]
    axes = "".join(f"\\[{axis} {f.payload.size[axis]}]" for axis in f.payload.order)
    rule = f.timestamp
    facts = [
        f"Payload {axes}, {f.sample.code}, {f.sample.bit_order} first",
        f"Timestamp {_total(rule.count)} {rule.unit}, {rule.step} from packet to packet",
        *(f"First {place} {_total(total)}" for place, total in f.placement.items()),
        *([f"Streams by {', '.join(rule.stream)}"] if rule.stream else []),
    ]
    if f.parameters:
        given = "; ".join(
            f"`{n}` ({p.means}; {'must be given, here ' if n in f.lacking else ''}{f.values[n]})"
            for n, p in f.parameters.items()
        )
        facts.append(f"Parameters {given}")
    if f.heap is not None:
        facts.append(f"Heaps of {' or '.join(str(n) for n in f.heap_bytes)} B")
    facts.append(f"Source: {f.source}")
    text = [f"## {f.name}", f"{f.title}. {f.notes}".strip(), "\n".join(rows), "\n".join(f"- {fact}" for fact in facts)]
    return "\n\n".join(text) + "\n"


def _field(f: Format, field: HeaderField) -> str:
    everything = (field.low, field.high) == (0, (1 << field.width) - 1)
    allowed = "" if everything else str(field.low) if field.low == field.high else f"{field.low} to {field.high}"
    place = f"{field.byte} to {field.byte + field.bytes - 1}" if field.bytes > 1 else f"{field.byte}"
    endian = field.endian or f.header.endian
    if field.item is not None:
        place, endian = f"item `0x{field.item:04x}`", ""
        allowed += "optional" if field.optional else ""
    cells = f"`{field.name}`", place, field.bits or f"{field.width - 1}:0", endian, allowed, field.means
    return f"| {' | '.join(cells)} |"


def _bytes(f: Format) -> str:
    if not f.fixed:
        return f"{f.header.bytes} B and what the header says"
    if f.heap is not None:
        return ("heaps" if f.heap.packets == "several" else "one a heap") + ", items" * (f.header.items is not None)
    return " or ".join(f"{f.header.bytes + payload}" for payload in f.heap_bytes) + " B"


def _total(total: dict[str, int]) -> str:
    parts = [name if factor == 1 else f"{factor} {name}" for name, factor in terms(total).items()]
    text = " + ".join([*parts, *([str(total["add"])] if total.get("add") else [])])
    return text if total.get("over", 1) == 1 else f"({text}) / {total['over']}, rounded down"


def _keys(model: type[BaseModel] = Format, path: str = "") -> str:
    rows = [] if path else ["| key | | default |", "|---|---|---|"]
    for name, field in model.model_fields.items():
        inner = [a for a in (field.annotation, *typing.get_args(field.annotation)) if isinstance(a, type)]
        tables = [a for a in inner if issubclass(a, BaseModel)]
        if tables:
            rows.append(_keys(tables[0], f"{path}{name}."))
            continue
        default = "required" if field.is_required() else "" if field.default in (None, "", {}) else f"`{field.default}`"
        choices = _choices(field.annotation)
        allowed = f" One of {', '.join(f'`{c}`' for c in choices)}." if choices else ""
        text = (field.description or "")[:1].upper() + (field.description or "")[1:]
        rows.append(f"| `{path}{name}` | {text.rstrip('.')}.{allowed} | {default} |")
    return "\n".join(rows)


def _choices(annotation: object) -> list[str]:
    if typing.get_origin(annotation) is typing.Literal:
        return [str(a) for a in typing.get_args(annotation)]
    return [c for a in typing.get_args(annotation) for c in _choices(a)]
