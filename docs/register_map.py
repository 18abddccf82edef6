"""The reference of the FPGA core's registers, from the map that core, host and tests read."""

from __future__ import annotations

from ryle.fpga.registers import Register, load


def page() -> str:
    """Write the map as MyST."""
    m = load()
    rows = [
        "| address | register | | meaning |",
        "|---|---|---|---|",
        *map(_row, sorted(m.registers, key=lambda r: r.address)),
    ]
    rows += [f"| {x.address:#06x} | `{x.name}` | rw | {x.means} ({x.bytes} bytes) |" for x in m.memories]
    return "\n".join(rows) + "\n"


def _row(r: Register) -> str:
    address = f"{r.address:#05x}" + ("" if r.high is None else f", {r.high:#05x}")
    bits = [f"bit {f.low}" if f.bits == 1 else f"bits {f.low + f.bits - 1}..{f.low}" for f in r.fields]
    parts = [f"{where} `{f.name}`: {f.means}" for where, f in zip(bits, r.fields, strict=True)]
    means = "<br>".join([r.means + (f", {r.unit}" if r.unit else ""), *parts])
    return f"| {address} | `{r.name}` | {r.access} | {means} |"
