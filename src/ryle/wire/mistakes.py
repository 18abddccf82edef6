"""Mistakes in a description that no single key can tell: overlaps, unknown names, sizes that do not fill bytes."""

from __future__ import annotations

from itertools import pairwise

from ryle.problems import Problem, did_you_mean, listed
from ryle.wire.tables import MOST_HEAP_SAMPLES, MOST_SAMPLES, Description, HeaderField, Total, terms


def mistakes(f: Description) -> list[Problem]:
    """Find them all."""
    problems = _header_mistakes(f)
    if problems:
        return problems  # what follows counts on the fields
    known = f.fields
    if taken := sorted(set(f.parameters) & set(known)):
        problems += [Problem(f"parameters.{n}", None, "is a field's name too; take another") for n in taken]

    def check_total(
        key: str, total: Total, limit: int, most_add: int = 1 << 62, divided: bool = False, signed: bool = False
    ) -> None:
        if not terms(total):
            problems.append(Problem(key, total, f"names no field; there are {listed(known)}"))
        for name, factor in total.items():
            least, most = (-most_add if signed else 0, most_add) if name == "add" else (1, limit)
            if name == "over" and not divided:
                problems.append(Problem(f"{key}.over", factor, "only a placement can be divided"))
            elif name not in ("add", "over") and name not in known:
                remedy = f"no such field; {did_you_mean(name, known)}there are {listed(known)}, and add for a constant"
                problems.append(Problem(f"{key}.{name}", factor, remedy))
            elif not least <= factor <= most:
                problems.append(Problem(f"{key}.{name}", factor, f"must be {least} to {most}"))

    check_total("timestamp.count", f.timestamp.count, 1 << 62, signed=True)
    for place, total in f.placement.items():
        check_total(f"placement.{place}", total, 1 << 40, 1 << 31, divided=True)
    if f.validity.length is not None:
        check_total("validity.length", f.validity.length, 65536, 65536)
    if f.heap is not None:
        for key in ("length", "offset", "bytes"):
            if (total := getattr(f.heap, key)) is not None:
                check_total(f"heap.{key}", total, 1 << 40, 1 << 40)
        if f.heap.number is not None and f.heap.number not in known:
            remedy = f"no such field; {did_you_mean(f.heap.number, known)}there are {listed(known)}"
            problems.append(Problem("heap.number", f.heap.number, remedy))
        if f.validity.length is not None:
            problems.append(Problem("validity.length", f.validity.length, "is heap.bytes' matter here; remove it"))
    for i, name in enumerate(f.timestamp.stream):
        if name not in known:
            remedy = f"no such field; {did_you_mean(name, known)}there are {listed(known)}"
            problems.append(Problem(f"timestamp.stream[{i}]", name, remedy))
    if not problems and f.period > 1 << 64:
        problems.append(
            Problem("timestamp.count", f.timestamp.count, "counts beyond 64 bits; lower the factors or the field")
        )
    return problems + _payload_mistakes(f)


def _header_mistakes(f: Description) -> list[Problem]:
    problems: list[Problem] = []
    taken: list[tuple[int, int, int, str]] = []  # word (0: the header's start; 1 + key of an item), bit, field, name
    seen: set[str] = set()
    for i, field in enumerate(f.header.field):
        key = f"header.field[{i}]"
        if field.name in seen or field.name in ("add", "over"):
            problems.append(Problem(f"{key}.name", field.name, "is taken; give every field its own name"))
        seen.add(field.name)
        problems += _place_mistakes(f, field, key)
        if field.width < 1 or field.shift + field.width > field.word_bits:
            word = f"the word has {field.bytes} B" if field.item is None else "an item's value has 6 B"
            remedy = f'must be "high:low" with {field.word_bits - 1} >= high >= low >= 0, as {word}'
            problems.append(Problem(f"{key}.bits", field.bits, remedy))
            continue
        most = (1 << field.width) - 1
        for name in ("equals", "min", "max", "default", "stop"):
            value = getattr(field, name)
            if value is not None and value > most:
                problems.append(Problem(f"{key}.{name}", value, f"must be at most {most}: it has {field.width} bits"))
        if field.low > field.high:
            problems.append(Problem(f"{key}.min", field.min, f"must be at most max = {field.max}"))
        if field.equals is not None and (field.min is not None or field.max is not None):
            problems.append(Problem(f"{key}.equals", field.equals, "says all; leave out min and max"))
        endian = (field.endian or f.header.endian) if field.item is None else "little"
        for bit in range(field.shift, field.shift + field.width):  # as places in the packet, 0 the first byte's low
            byte = field.bytes - 1 - bit // 8 if endian == "big" else bit // 8
            at = 8 * (field.byte + byte) + bit % 8 if field.item is None else bit
            taken.append((0 if field.item is None else 1 + field.item, at, i, field.name))
    taken.sort()
    clashes = {(b[2], a[3]) for a, b in pairwise(taken) if a[:2] == b[:2]}
    for i, other in sorted(clashes):
        remedy = f"shares bits with {other}; mend byte, bytes or bits"
        problems.append(Problem(f"header.field[{i}].name", f.header.field[i].name, remedy))
    items = f.header.items
    if items is not None and (items not in f.fields or f.fields[items].item is not None):
        starts = [name for name, field in f.fields.items() if field.item is None]
        remedy = f"must be a field of the header's start; {did_you_mean(items, starts)}there are {listed(starts)}"
        problems.append(Problem("header.items", items, remedy))
    return problems


def _place_mistakes(f: Description, field: HeaderField, key: str) -> list[Problem]:
    """Say what is wrong with where a field stands."""
    given, problems = field.model_fields_set, []
    if field.item is None:
        for name in ("byte", "bytes"):
            if name not in given:
                problems.append(Problem(f"{key}.{name}", None, "is missing; say it, or item for a field in an item"))
        if not problems and field.byte + field.bytes > f.header.bytes:
            remedy = (
                f"the word ends at byte {field.byte + field.bytes}, behind the header's {f.header.bytes} bytes; "
                "mend byte or bytes, or raise header.bytes"
            )
            problems.append(Problem(f"{key}.byte", field.byte, remedy))
        for name in ("default", "control", "stop", "remedy"):
            if name in given:
                problems.append(Problem(f"{key}.{name}", getattr(field, name), "is for fields in items; remove it"))
        return problems
    if f.header.items is None:
        problems.append(Problem(f"{key}.item", field.item, "say in header.items which field counts the items"))
    for name in ("byte", "bytes", "endian"):
        if name in given:
            problems.append(Problem(f"{key}.{name}", getattr(field, name), "an item may be anywhere; remove it"))
    if field.stop is not None and not field.control:
        problems.append(Problem(f"{key}.stop", field.stop, "is for control items; say control = true, or remove it"))
    return problems


def _payload_mistakes(f: Description) -> list[Problem]:
    problems: list[Problem] = []
    payload, sample = f.payload, f.sample
    most = MOST_SAMPLES if f.heap is None else MOST_HEAP_SAMPLES
    if len(set(payload.order)) < len(payload.order):
        problems.append(Problem("payload.order", payload.order, "names an axis twice"))
    if missing := [axis for axis in payload.order if axis not in payload.size]:
        problems.append(Problem("payload.size", None, f"add the size of {', '.join(missing)}"))
    for axis, size in payload.size.items():
        key = f"payload.size.{axis}"
        if axis not in payload.order:
            problems.append(Problem(key, size, "is not in payload.order; add it there or remove it here"))
        elif isinstance(size, str) and size not in f.fields:
            known = [*f.fields, *f.parameters]
            remedy = f"must be a number or a field; {did_you_mean(size, known)}fields are {listed(f.fields)}"
            problems.append(Problem(key, size, remedy))
        elif isinstance(size, str) and f.heap is not None:
            problems.append(Problem(key, size, "must be a number or a parameter: heaps have one shape"))
        elif isinstance(size, int) and not 1 <= size <= most:
            problems.append(Problem(key, size, f"must be 1 to {most}"))
    for i, trailer in enumerate(payload.trailer_bytes):
        if f.heap is None and trailer > 9000:
            problems.append(Problem(f"payload.trailer_bytes[{i}]", trailer, "must be at most 9000"))
    if sample.bits > 16 and sample.bits not in (32, 64):
        problems.append(Problem("sample.bits", sample.bits, "must be at most 16, or 32 or 64"))
    if sample.code == "float" and sample.bits not in (32, 64):
        problems.append(Problem("sample.bits", sample.bits, "must be 32 or 64 for float samples"))
    if sample.bits > 16 and sample.code not in ("float", "twos_complement"):
        problems.append(Problem("sample.code", sample.code, "must be float or twos_complement with so many bits"))
    if sample.bits == 16 and sample.code in ("symmetric", "unsigned"):
        problems.append(Problem("sample.bits", sample.bits, f"must be at most 15 for {sample.code} samples"))
    if not sample.complex and sample.first == "imag":
        problems.append(Problem("sample.first", "imag", "real samples have one part; remove it"))
    if sample.word is not None and sample.word % sample.bits:
        remedy = f"must divide the {sample.word} bits of a word, which samples do not cross"
        problems.append(Problem("sample.bits", sample.bits, remedy))
    if sample.levels == "vdif" and (sample.code not in ("offset_binary", "symmetric") or sample.bits > 16):
        remedy = "are of offset_binary or symmetric codes of at most 16 bits"
        problems.append(Problem("sample.levels", "vdif", remedy))
    if sample.arranged == "rows":
        if (sample.bits, sample.complex, sample.first) != (8, True, "real"):
            problems.append(Problem("sample.arranged", "rows", "needs complex samples of 8 bits, real part first"))
        fastest = payload.size.get(payload.order[-1])
        if not isinstance(fastest, int) or fastest % 64:
            remedy = f"needs a multiple of 64 {payload.order[-1]}, the fastest axis, not {fastest}"
            problems.append(Problem("sample.arranged", "rows", remedy))
    if problems or not f.fixed:
        return problems
    elements = sample.parts
    for size in payload.size.values():
        elements *= int(size)
    if elements * sample.bits % 8:
        remedy = f"{elements * sample.bits} bits are no whole number of bytes; mend the sizes or sample.bits"
        problems.append(Problem("payload.size", payload.size, remedy))
    total = f.header.bytes + 8 * len(f.items) + max(f.heap_bytes)
    if total > 65507 and (f.heap is None or f.heap.packets == "one"):
        problems.append(Problem("payload.size", payload.size, f"makes {total} bytes; a UDP datagram holds 65507"))
    return problems
