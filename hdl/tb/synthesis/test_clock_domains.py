# SPDX-License-Identifier: BSD-3-Clause
"""Clocks are crossed in named modules alone, each of which has its constraints, whose names exist."""

import re
from functools import cache

import pytest

from clock_domains import CARRIERS, Netlist, crossings, faults, of_core
from simulation import ROOT, RTL, changed

CONSTRAINTS = ROOT / "hdl" / "constraints"
#: Modules with crossings of their own, and how each is elaborated alone.
MODULES = {
    "cdc_bit": {}, "cdc_bus": {}, "cdc_call": {}, "cdc_events": {}, "cdc_pulse": {}, "clock_watch": {},
    "reset_domains": {"N": 2}, "async_packet_fifo": {"WIDTH": 64},
}  # fmt: skip


@cache
def core():
    return Netlist("ethernet_core", WIDTH=64, TX_APPS=2)


def test_clocks_are_crossed_in_named_modules_alone():
    found, wrong = crossings(core(), of_core)
    assert not wrong
    pairs = {(c.source_clock, c.clock) for c in found}
    apps = {"app_rx_clk", "app_tx_clk[0]", "app_tx_clk[1]"}
    assert pairs == {("clk", a) for a in apps | {"s_axi_aclk"}} | {(a, "clk") for a in apps | {"s_axi_aclk"}}
    assert faults(core(), of_core) == []


INJECTED = {
    "no synchronizer": (
        "reset_domains", "cdc_bit back (.clk, .d(in_reset[i]), .q(in_reset_seen[i]));",
        "assign in_reset_seen[i] = in_reset[i];", "resets/state_reg.* of clk is fed by resets/g_app",
    ),
    "logic before a synchronizer": (
        "reset_domains", "back (.clk, .d(in_reset[i])", "back (.clk, .d(in_reset[i] && since[0])", "back/stage_reg.* through logic",
    ),
    "one flip-flop": ("cdc_bit", "assign q = stage[STAGES-1];", "assign q = stage[0];", "does not feed a second"),
    "a word past its carrier": (
        "axil_bridge", "{30'd0, !ready, stopped}", "{26'd0, bus_strb, !ready, stopped}",
        r"s_axi_rdata_reg\[[2-5]\] of s_axi_aclk is fed by .*/dst_question_reg",
    ),
    "the wrong clock": ("ethernet_core", ".clk(app_rx_clk), .rst(app_rx_rst)", ".clk, .rst(app_rx_rst)", "of clk is fed by"),
    "a clock that is made": ("ethernet_core", ".clk(app_rx_clk), .rst(app_rx_rst)", ".clk(app_rx_clk && open), .rst(app_rx_rst)", "is no port"),
}  # fmt: skip


@pytest.mark.parametrize("fault", INJECTED)
def test_a_wrong_crossing_is_found(fault):
    module, text, other, says = INJECTED[fault]
    netlist = Netlist("ethernet_core", [changed(module, text, other)], WIDTH=64, TX_APPS=2)
    wrong = faults(netlist, of_core) + crossings(netlist, of_core)[1]
    assert any(re.search(says, w) for w in wrong), wrong[:20]


def patterns(text, command="get_cells"):
    """Give the patterns of names that a constraint file asks for."""
    return [p for names in re.findall(command + r" (?:-quiet )?\{([^}]*)\}", text) for p in names.split()]


def matches(pattern, name):
    """Compare as Vivado does: `*` is anything, brackets are brackets."""
    return re.fullmatch(re.escape(pattern).replace(r"\*", ".*"), name) is not None


def names(netlist):
    """Give all registers' names; of a memory, also those of its parts."""
    return {str(r) for r in netlist.clock}


@pytest.mark.parametrize("module", MODULES)
def test_names_in_constraints_exist(module):
    text = (CONSTRAINTS / f"{module}.xdc").read_text()
    having = names(Netlist(module, **MODULES[module]))
    asked = patterns(text) + [p.rpartition("/")[0] for p in patterns(text, "get_pins")]
    assert asked
    assert [p for p in asked if not any(matches(p, n) for n in having)] == []
    assert text.count("get_cells") == len(re.findall(r"get_cells (?:-quiet )?\{", text)), "a name without braces"


def test_every_crossing_has_a_constraint():
    """Of its module, or of the cdc_bit in which it ends."""
    rules = {}
    for module in MODULES:
        lines = (CONSTRAINTS / f"{module}.xdc").read_text().splitlines()
        parts = [re.fullmatch(r"set_max_delay .*-from (.*) -to (.*) \[get_property.*", n) for n in lines]
        # To a clock: to all registers of it.
        rules[module] = [
            (patterns(p[1]), ["*"] if p[2].startswith("[get_clocks") else patterns(p[2]))
            for p in parts
            if p is not None
        ]
        assert len(rules[module]) == sum(n.startswith("set_max_delay") for n in lines)
    assert re.search(r"-to \[get_cells \{stage_reg\[0\]\}\]", (CONSTRAINTS / "cdc_bit.xdc").read_text())
    inside = [c for c in crossings(core(), of_core)[0] if c.register.module in CARRIERS]
    assert {c.register.module for c in inside} >= {"cdc_call", "async_packet_fifo"}

    def local(register):
        return str(register).removeprefix(register.instance + "/")

    for c in inside:
        assert any(
            any(matches(p, local(c.source)) for p in sources) and any(matches(p, local(c.register)) for p in ends)
            for sources, ends in rules[c.register.module]
        ), str(c)


def test_every_module_with_a_crossing_has_its_constraints():
    """A new module that holds a cdc_bit needs a file, and read.tcl must name it."""
    holding = {p.stem for p in RTL.glob("*.sv") if re.search(r"^\s*cdc_bit\b.*\(", p.read_text(), re.M)}
    files = {p.stem for p in CONSTRAINTS.glob("*.xdc")}
    assert files == set(MODULES) == holding | {"cdc_bit"}
    (listed,) = re.findall(r"foreach module \{([^}]*)\}", (CONSTRAINTS / "read.tcl").read_text())
    assert sorted(listed.split()) == sorted(MODULES)
