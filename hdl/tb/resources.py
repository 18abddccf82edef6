# SPDX-License-Identifier: BSD-3-Clause
"""What yosys makes of the core: `python hdl/tb/resources.py` writes hdl/SYNTHESIS.md."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import levels
from prove import read, relative, yosys
from simulation import BUILD, ROOT

LATCHES = "t:$dlatch t:$adlatch t:$dlatchsr t:$sr t:$_DLATCH*"


def sane(top: str, also: list[Path] | None = None, **parameters: int) -> str:
    """Elaborate `top` whole and raise AssertionError for a latch, a combinational loop or a wire of two drivers."""
    command = read(top, *(f"-G {k}={v}" for k, v in parameters.items()), also=also or [])
    return yosys(
        f"{command}; proc; flatten; opt_clean; check -assert; select -assert-none {LATCHES}", f"{top} {parameters}"
    )


def resources(top: str, **parameters: int) -> dict[str, Counter[str]]:
    """Flip-flops, memory bits, adders and multiplexers of each module and all instances under it, by path."""
    (folder := BUILD / "synthesis").mkdir(parents=True, exist_ok=True)
    out = folder / f"{top}.json"
    command = read(top, "--keep-hierarchy", *(f"-G {k}={v}" for k, v in parameters.items()))
    yosys(
        f"{command}; proc; opt; tee -o {relative([out])} stat -json -width",
        f"resources of {top}",
    )
    text = out.read_text()
    found: dict[str, Counter[str]] = {}
    for name, module in json.loads(text[text.index("{") :])["modules"].items():
        path = name.lstrip("\\").partition("$")[2] or top
        counts: Counter[str] = Counter(memory=module["num_memory_bits"])
        for cell, number in module["num_cells_by_type"].items():
            kind, _, width = cell.rpartition("_")
            if not width.isdigit():
                continue
            if re.fullmatch(r"\$\w*dff\w*", kind):
                counts["flip_flops"] += number * int(width)
            elif kind in ("$add", "$sub", "$alu", "$lt", "$le", "$gt", "$ge", "$eq", "$ne"):
                counts["arithmetic"] += number * int(width)
            elif kind in ("$mux", "$pmux", "$bmux", "$shr", "$shl", "$shiftx", "$shift", "$sshr"):
                counts["multiplexers"] += number * int(width)
            elif kind in ("$and", "$or", "$xor", "$not"):
                counts["logic"] += number * int(width)
            elif kind == "$mul":
                counts["multipliers"] += number
        found[path] = counts
    # A module's own and all below it.
    return {
        path: sum((c for p, c in found.items() if p == path or p.startswith(path + ".") or path == top), Counter())
        for path in found
    }


def table(top: str, **parameters: int) -> list[str]:
    rows = resources(top, **parameters)
    lines = [
        f"| instance of `{top}` | flip-flops | memory, bits | arithmetic | multiplexers | logic |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for path, c in sorted(rows.items()):
        if path.count(".") <= 2:
            name = "all" if path == top else path.partition(".")[2]
            cells = [c[k] for k in ("flip_flops", "memory", "arithmetic", "multiplexers", "logic")]
            lines.append(f"| {name} | {' | '.join(f'{n:,}' for n in cells)} |")
    return lines


TEXT = """# What synthesis makes of the core

Written by `python hdl/tb/resources.py`: yosys 0.70 (PyPI) with its slang front end, words, after optimization and
before mapping to an FPGA. Columns are bits: of registers, of memories (also arrays of registers), and of the outputs of adders and
comparators, of multiplexers and shifters, and of bitwise logic. No latch, no combinational loop and no wire with two drivers is in
it, at any width: `hdl/tb/synthesis` fails otherwise. Rows include what is below them.

**Not done**: no placement, no timing. Whether 390.625 MHz is reached in some FPGA is not known. What can be known before is how
much logic lies between flip-flops, and that is measured:

## LUTs between flip-flops

The most LUTs of six inputs in a row on any path, after yosys and abc (`tb/levels.py`). Adders are counted as logic, without
carry chains, so that theirs are overestimated; wires and the load of ready signals are not counted at all. A module's row has all
below it in it: the row of `ethernet_core` is its longest path, whatever modules that runs through. `hdl/tb/synthesis` measures every
module and fails if one has more than 7 at 1024 bits (in `make hdl-test`, and so in continuous integration) or 6 at 512 (in `make
hdl-soak`). Not measured: 64 to 256 bits, paths from one top to another (`traffic` to the core: both sides begin and end in flip-flops but
for ready signals), and the behavioural MAC.

What took most before it was cut: the place where tkeep ends, byte by byte (now `keep_count`: a few LUTs); adders behind
adders in the checksums (now `ones_layer`: words are added without carries until two are left); lengths in bytes (now in beats, and the
last beat's bytes alone); 64-bit numbers that go up in a clock (now `sequence_numbers` and `event_counter`: a part of them a clock, the
carry kept beside it). The 1024-bit multiplexers of header insertion and removal are 2 or 3 LUTs deep: what they need is wires.

"""


def main() -> None:
    parts = [TEXT + "\n".join(levels.table()) + "\n"]
    for width in (64, 1024):
        parts.append(f"## {width} bits\n")
        for top in ("ethernet_core", "traffic"):
            parts.append("\n".join(table(top, WIDTH=width)) + "\n")
    (ROOT / "hdl" / "SYNTHESIS.md").write_text("\n".join(parts))


if __name__ == "__main__":
    main()
