# SPDX-License-Identifier: BSD-3-Clause
"""Runs cocotb tests and native benches in modules of hdl/rtl, from pytest.

A test file holds both the cocotb tests, which are coroutines, and the pytest functions that run them::

    @cocotb.test()
    async def every_frame_arrives(dut): ...

    @pytest.mark.parametrize("width", WIDTHS)
    def test_packet_fifo(width):
        simulate("packet_fifo", __file__, WIDTH=width)

`ryle.fpga.verilate` says how modules are found and builds kept.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from xml.etree import ElementTree

from ryle.fpga.verilate import BUILD, ROOT, RTL, Built, build, verilator

__all__ = [
    "BUILD",
    "ROOT",
    "RTL",
    "WIDTHS",
    "Built",
    "build",
    "parameter",
    "ran",
    "run_native",
    "simulate",
    "verilator",
]

WIDTHS = (64, 128, 256, 512, 1024)

#: What ran: module and test, for the summary at the end.
ran: list[tuple[str, str]] = []
_runs = count()


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
