# SPDX-License-Identifier: BSD-3-Clause
"""The list of mutants does not rot: each still applies, is a module that elaborates, and has a bench; the run judges rightly."""

from __future__ import annotations

import subprocess
from collections import defaultdict

import pytest

import mutate
from ryle.fpga.verilate import BUILD, verilator
from simulation import RTL
from untimed import untimed

MUTANTS, BENCHES = mutate.load()
BY_MODULE = defaultdict(list)
for _m in MUTANTS:
    BY_MODULE[_m.module].append(_m)


def test_there_are_many_of_every_module():
    packages = {p.stem for p in RTL.glob("*_pkg.sv")}
    wiring = {
        "traffic",
        "packet_fifo",
        "mac_model",
        "delay_line",
    }  # that have nothing to get wrong which others would not show
    assert {p.stem for p in RTL.glob("*.sv")} - packages - wiring <= BY_MODULE.keys()
    assert len(MUTANTS) >= 60


def test_each_applies():
    for m in MUTANTS:
        m.text()


def test_benches_are_there():
    for bench in BENCHES.values():
        file, _, function = bench.partition("::")
        assert (text := (mutate.TB / file).read_text())
        assert not function or f"def {function.partition('[')[0]}(" in text, bench


@pytest.mark.parametrize("module", sorted(BY_MODULE))
def test_each_elaborates(module):
    """All of a module in one go, under names of their own: what the core's front end refuses would not be a fault, but no core."""
    folder = BUILD / "mutants" / "elaborated" / module
    folder.mkdir(parents=True, exist_ok=True)
    names = []
    for n, m in enumerate(BY_MODULE[module]):
        names.append(f"{module}__{n}")
        text = m.text()
        assert text.count(f"module {module} ") == 1
        (folder / f"{names[-1]}.sv").write_text(text.replace(f"module {module} ", f"module {names[-1]} "))
    command = [
        "verilator",
        "--lint-only",
        "-Wno-lint",
        "-Wno-style",
        "-Wno-MULTITOP",
        "-Wno-fatal",
        "--timing",
        "-y",
        str(RTL),
    ]
    command += map(str, sorted(RTL.glob("*_pkg.sv")))
    command += [str(folder / f"{name}.sv") for name in names]
    with untimed():
        done = subprocess.run(command, env=verilator(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert not done.returncode, done.stdout[-3000:]


def test_a_text_that_is_not_there_is_told():
    with pytest.raises(ValueError, match="0 times, not once: 'no such text'"):
        mutate.Mutant("cdc_bit: none", (("no such text", ""),), ("cdc_bit",)).text()
    with pytest.raises(ValueError, match="nothing changes"):
        mutate.Mutant("cdc_bit: none", (("stage[STAGES-1];", "stage[STAGES-1];"),), ("cdc_bit",)).text()


def test_the_run_tells_killed_from_survived_and_from_what_does_not_build():
    """With the quickest bench; the source is as it was after it."""
    before = (RTL / "cdc_bit.sv").read_bytes()
    last = "assign q = stage[STAGES-1];"
    verdicts = []
    for other in ("assign q = stage[0];", "assign q = !(!stage[STAGES-1]);", "assign q = nothing;"):
        mutant = mutate.Mutant("cdc_bit: a trial", ((last, other),), ("cdc_bit",))
        verdicts.append(mutate.judge(mutant, BENCHES, {"cdc_bit": 30.0}).verdict)
    assert verdicts == ["killed", "survived", "does not build"]
    assert (RTL / "cdc_bit.sv").read_bytes() == before
