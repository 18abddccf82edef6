"""Whether machine code writes registers that a matrix instruction of a warpgroup may still read.

Matrix instructions read the rows in their registers while others run. The assembler keeps these registers, but not from
one turn of a loop to the next when several are under way: trial kernels then gave wrong sums, some only now and then, on
some GPUs. Machine code tells; nothing else does. What is looked at is what lies between a loop's ends: not where it waits
for a barrier, which is placed elsewhere.
"""

import re
import subprocess
import tempfile
from pathlib import Path

from cuda.pathfinder import find_nvidia_binary_utility

_MATRIX = re.compile(r"\bIGMMA\S*\s+R\d+, R(\d+), gdesc")
_WAIT = re.compile(r"\bWARPGROUP\.DEPBAR\.LE gsb0, 0x([0-9a-f]+)")
_BACK = re.compile(r"\bBRA `\((\.L_\w+)\)")
_WRITE = re.compile(r"^(?:@!?U?P\w+\s+)?(\S+)\s+(?:!?U?PT?\d*,\s*)*R(\d+)\b")
_READING = ("ISETP", "ST", "RED", "ATOM", "SYNCS", "BAR", "WARP", "IGMMA", "R2UR", "CCTL")


def disassemble(cubin):
    """Instructions and labels of a cubin, one a line."""
    program = find_nvidia_binary_utility("nvdisasm")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "code.cubin"
        file.write_bytes(cubin)
        text = subprocess.run([program, "-c", file], capture_output=True, text=True, check=True).stdout
    lines = []
    for line in text.splitlines():
        if found := re.match(r"\s*/\*[0-9a-f]{4,}\*/\s+(.*?);", line):
            lines.append(found[1].strip())
        elif line.startswith(".L_"):
            lines.append(line.strip())
    return lines


def matrix_instructions(lines):
    """How many there are."""
    return sum(bool(_MATRIX.search(line)) for line in lines)


def loops(lines):
    """Give the lines of the innermost loop around each matrix instruction, each loop once."""
    labels = {line.rstrip(":"): i for i, line in enumerate(lines) if line.startswith(".L_")}
    ends = [(i, back[1]) for i, line in enumerate(lines) if (back := _BACK.search(line))]
    turns = [(labels[label], i) for i, label in ends if labels.get(label, i) < i]
    innermost = set()
    for i, line in enumerate(lines):
        if _MATRIX.search(line):
            around = [turn for turn in turns if turn[0] < i < turn[1]]
            assert around, f"{line} is in no loop"
            # Larger ones are loops over tiles, which wait for all, and ways back from where barriers are waited for.
            innermost.add(min(around, key=lambda turn: turn[1] - turn[0]))
    return [lines[first : last + 1] for first, last in sorted(innermost)]


def written(line):
    """Registers that an instruction writes."""
    found = _WRITE.match(line)
    if not found or found[1].startswith(_READING):
        return set()
    operation, first = found[1], int(found[2])
    words = 1
    if operation.startswith("LDSM"):
        words = 4 if ".M88.4" in operation or ".MT88.4" in operation else 2
    elif ".128" in operation:
        words = 4
    elif ".64" in operation or ".WIDE" in operation:
        words = 2
    return set(range(first, first + words))


def overwritten(body):
    """Instructions of a loop that write what a matrix instruction may still read, in its second turn or its first."""
    under_way, group, found = [], set(), []
    for line in body * 2:
        if matrix := _MATRIX.search(line):
            group |= set(range(int(matrix[1]), int(matrix[1]) + 4))
            if "gsb0" in line:
                under_way.append(group)
                group = set()
        elif wait := _WAIT.search(line):
            under_way = under_way[max(0, len(under_way) - int(wait[1], 16)) :]
        elif any(written(line) & registers for registers in [*under_way, group]):
            found.append(line)
    return found
