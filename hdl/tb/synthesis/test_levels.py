# SPDX-License-Identifier: BSD-3-Clause
"""No module has more logic between flip-flops than its clock allows, and all of them are measured."""

import re

import pytest

from levels import LIMITS, TOPS, Levels, latency, levels, measured
from simulation import BUILD, ROOT, RTL

pytestmark = pytest.mark.timeout(3600)  # builds, on a machine that may be busy

MODULES = {p.stem for p in RTL.glob("*.sv") if not p.stem.endswith("_pkg") and "mac_model" not in p.stem}


def check(top, width):
    over = {module: n.most for module, n in levels(top, width).items() if n.most > LIMITS[width]}
    assert not over, f"more than {LIMITS[width]} LUTs in a row at {width} bits: {over}"


@pytest.mark.first  # the core takes one processor as long as all else takes the other
@pytest.mark.parametrize("top", TOPS)
def test_few_luts_between_flip_flops(top):
    check(top, max(LIMITS))


@pytest.mark.soak
@pytest.mark.parametrize("top", TOPS)
def test_few_luts_between_flip_flops_at_512_bits(top):
    check(top, 512)


def test_all_modules_are_measured():
    assert {module for top in TOPS for module in measured(top, max(LIMITS))} == MODULES


def test_every_module_states_its_latency_and_the_readme_has_the_same():
    table = (ROOT / "hdl" / "README.md").read_text().partition("## Streams")[0]
    number = re.compile(r"\d+|CYCLES")
    listed = []
    for names, cell in re.findall(r"^\| (`.*?) \|.*?\| (.*?) \|", table, re.M):
        modules = [m for m in re.findall(r"`(\w+)`", names) if m in MODULES]
        stated = [latency(m) for m in modules]
        assert all(stated), modules
        assert number.findall(cell) == number.findall(" ".join(stated)) or not modules, (modules, cell, stated)
        listed += modules
    assert sorted(listed) == sorted(MODULES), "each module once"


# Functions of sixteen bits, which take two LUTs, and paths that begin and end where they should.
KNOWN = {
    "register": ("always_ff @(posedge clk) begin d <= a; q <= &d; end", Levels(register=2)),
    "inputs": ("always_ff @(posedge clk) q <= &a;", Levels(inputs=2)),
    "outputs": ("always_ff @(posedge clk) d <= a; assign q = &d;", Levels(outputs=2)),
    "through": ("assign q = &a;", Levels(through=2)),
    "instances": ("half one (.a, .q(d[0])); half two (.a(a ^ {16{d[0]}}), .q);", Levels(through=5)),
    "memory": (
        "logic [15:0] m[256]; always_ff @(posedge clk) begin d <= a; m[d[7:0]] <= d; q <= &m[d[7:0] ^ d[15:8]]; end",
        Levels(register=5),
    ),
}


@pytest.mark.parametrize("kind", KNOWN)
def test_known_paths(kind):
    (folder := BUILD / "levels").mkdir(parents=True, exist_ok=True)
    body, expected = KNOWN[kind]
    ports = "(input wire clk, input wire [15:0] a, output logic q)"
    (file := folder / f"known_{kind}.sv").write_text(
        f"module known_{kind} {ports};\nlogic [15:0] d;\n{body}\nendmodule\n"
        "module half (input wire [15:0] a, output logic q);\nassign q = &a;\nendmodule\n"
    )
    assert levels(f"known_{kind}", 0, (file,))[f"known_{kind}"] == expected
