# SPDX-License-Identifier: BSD-3-Clause
"""Runs cocotb tests in a simulator that knows X: what no reset and no initial value sets stays unknown, and is seen.

Icarus Verilog 11 cannot read the sources (packages, structures as ports), so it gets what yosys makes of them: registers and
logic of words, where an unknown choice gives an unknown word. A test that reads an X as a number fails.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from prove import read, relative, yosys
from simulation import BUILD, RTL, run_tests


def simulate_four_state(
    top: str,
    test_file: str | Path,
    *,
    only: str = "",
    also: Sequence[Path] = (),
    changed: Sequence[Path] = (),
    **parameters: int,
) -> None:
    """Run the cocotb tests of a test file in the module `top` with four states; skip where there is no Icarus.

    Parameters
    ----------
    top, test_file, only, **parameters
        As of `simulate`.
    also : sequence of path
        Files of modules that are not in hdl/rtl.
    changed : sequence of path
        Files in place of those of hdl/rtl with their names.

    Raises
    ------
    AssertionError
        If a test fails, or none ran.
    """
    if shutil.which("iverilog") is None:
        pytest.skip("needs Icarus Verilog (Debian: iverilog): the other simulators here have two states")
    named = "-".join(["four", top, *(f"{k}{v}" for k, v in parameters.items()), *(c.parent.name for c in changed)])
    (folder := BUILD / named.lower()).mkdir(parents=True, exist_ok=True)
    command = read(top, *(f"-G {k}={v}" for k, v in parameters.items()), also=also)
    for file in changed:
        command = command.replace(relative([RTL / file.name]), relative([file]))
    netlist = folder / "netlist.v"
    yosys(f"{command}; proc; opt_clean; write_verilog -noattr {relative([netlist])}", named)
    (folder / "timescale.f").write_text("+timescale+1ns/1ps\n")
    made = subprocess.run(
        ["iverilog", "-g2012", "-f", str(folder / "timescale.f"), "-s", top, "-o", str(folder / "sim.vvp"), str(netlist)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    assert not made.returncode, f"Icarus, {named}:\n{made.stdout[-4000:]}"
    run_tests("icarus", top, folder, test_file, only, {f"HDL_{k}": str(int(v)) for k, v in parameters.items()})
