# SPDX-License-Identifier: BSD-3-Clause
"""Runs cocotb tests and native benches in modules of hdl/rtl, from pytest.

A test file holds both the cocotb tests, which are coroutines, and the pytest functions that run them::

    @cocotb.test()
    async def every_frame_arrives(dut): ...

    @pytest.mark.parametrize("width", WIDTHS)
    def test_packet_fifo(width):
        simulate("packet_fifo", __file__, WIDTH=width)

`ryle.fpga.verilate` says how modules are found and builds kept. The time limit of a test does not count its builds.

In cocotb's benches registers and memories power up with random bits, so that one that needs a reset and has none is found. HDL_SEED repeats a
run: these bits, and the numbers that the tests draw.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import subprocess
import sys
import zlib
from collections.abc import Sequence
from contextlib import suppress
from functools import wraps
from pathlib import Path
from tempfile import mkdtemp
from typing import Any
from unittest.mock import patch
from xml.etree import ElementTree

from ryle.fpga import verilate
from ryle.fpga.verilate import BUILD, ROOT, RTL, Built, verilator
from untimed import untimed

__all__ = [
    "BUILD",
    "ROOT",
    "RTL",
    "WIDTHS",
    "Built",
    "build",
    "changed",
    "parameter",
    "ran",
    "run_native",
    "simulate",
    "skewed",
    "verilator",
]

WIDTHS = (64, 128, 256, 512, 1024)

#: Of a simulation, which is a process with a Python of its own. Modules are kept compiled, as CI asks for none to be written and
#: each of some hundred simulations would compile cocotb and scapy anew; pytest prepares the assertions of the tests alone, not of
#: all that they import. Together that is nine tenths of what a simulation takes to begin.
_PYTHON = {
    "PYTHONDONTWRITEBYTECODE": "",
    "PYTHONPYCACHEPREFIX": str(ROOT / "build" / "pycache"),
    "COCOTB_REWRITE_ASSERTION_FILES": "test_*.py",
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    "COCOTB_ANSI_OUTPUT": "0",
}

#: What ran: module and test, for the summary at the end.
ran: list[tuple[str, str]] = []


@wraps(verilate.build)
def build(*args: Any, **kwargs: Any) -> Built:
    with untimed():
        return verilate.build(*args, **kwargs)


def power_up(what: str) -> list[str]:
    """Arguments of a simulation that let it power up with random bits.

    They are the same in every run of a bench, as a flip-flop without a reset is one whatever the traffic is;
    HDL_POWER_UP (a number) chooses others. Verilator takes seeds from 1 to 2^31 - 1.
    """
    seed = int(os.environ.get("HDL_POWER_UP") or zlib.crc32(what.encode()))
    return ["+verilator+rand+reset+2", f"+verilator+seed+{seed % 0x7FFFFFFF + 1}"]


def a_seed() -> int:
    """HDL_SEED, or any."""
    return int(os.environ.get("HDL_SEED") or secrets.randbits(31))


def simulate(
    top: str,
    test_file: str | Path,
    *,
    only: str = "",
    also: Sequence[Path | str] = (),
    public: int = 1,
    env: dict[str, str] | None = None,
    options: Sequence[str] = (),
    **parameters: int,
) -> None:
    """Run the cocotb tests of a test file in the module `top`; parameters are tests' too, see `parameter`.

    Parameters
    ----------
    top, also, public, options, **parameters
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
    made = build(top, also=also, public=public, options=options, **parameters)
    # The runner expects a program of the top's name.
    link = made.folder / top
    with suppress(FileExistsError):
        link.symlink_to("simulation")
    run_tests(
        "verilator",
        top,
        made.folder,
        test_file,
        only,
        {f"HDL_{k}": str(int(v)) for k, v in parameters.items()} | (env or {}),
    )


def run_tests(simulator: str, top: str, folder: Path, test_file: str | Path, only: str, env: dict[str, str]) -> None:
    """Run the cocotb tests of a test file in a simulation that has been built in a folder; raises as `simulate`."""
    from cocotb_tools.runner import get_runner

    (folder / "runs").mkdir(exist_ok=True)
    runs = Path(mkdtemp(prefix=f"{Path(test_file).stem}-", dir=folder / "runs"))
    results, log = runs / "results.xml", runs / "log.txt"
    for path in (str(Path(__file__).parent), str(Path(test_file).parent)):
        if path not in sys.path:
            sys.path.insert(0, path)  # cocotb hands sys.path on
    seed = a_seed()
    runner = get_runner(simulator)
    runner.log.setLevel("CRITICAL")
    with suppress(SystemExit, RuntimeError), patch.dict(os.environ, _PYTHON):  # which the runner puts before extra_env
        runner.test(
            test_module=Path(test_file).stem,
            hdl_toplevel=top,
            hdl_toplevel_lang="verilog",
            build_dir=folder,
            test_dir=runs,
            results_xml=str(results),
            test_filter=only or None,
            seed=seed,
            plusargs=power_up(f"{top} {sorted(env.items())}") if simulator == "verilator" else [],
            extra_env=env,
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
        raise AssertionError(f"{top} {env}: {what} ({log}; HDL_SEED={seed} repeats it):\n{said}")
    ran.extend((top, str(c.get("name"))) for c in cases)
    shutil.rmtree(runs)


def skewed(ps: int) -> list[str]:
    """Options for a build in which crossings of clocks take bits late at random: see cdc_bit. 0: none."""
    return [f"-DCDC_SKEW={ps}", "-Wno-SYNCASYNCNET"] if ps else []


def changed(module: str, *texts: str, folder: Path = RTL) -> Path:
    """Write a module with texts replaced, and return the file: `also` of `simulate` puts it in its place.

    Parameters
    ----------
    module : str
    *texts : str
        What to replace and by what, in turn.
    folder : Path
        Where the module is; hdl/rtl if not said.

    Raises
    ------
    AssertionError
        If a text is not there, or more than once.
    """
    made = (folder / f"{module}.sv").read_text()
    for text, other in zip(texts[::2], texts[1::2], strict=True):
        assert made.count(text) == 1, f"{module} has no {text!r} to change, or more than one"
        made = made.replace(text, other)
    place = BUILD / "changed" / hashlib.sha256(made.encode()).hexdigest()[:12]
    place.mkdir(parents=True, exist_ok=True)
    if not (file := place / f"{module}.sv").exists():  # another bench may be reading it: it comes as a whole, and stays
        (part := place / f"{os.getpid()}.part").write_text(made)
        part.rename(file)
    return file


def parameter(name: str) -> int:
    """Read a parameter that `simulate` was called with, in a cocotb test."""
    return int(os.environ[f"HDL_{name}"])


def run_native(
    top: str, *, also: Sequence[Path | str] = (), plusargs: Sequence[str] = (), seconds: float = 900, **parameters: int
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
