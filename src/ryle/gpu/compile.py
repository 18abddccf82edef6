"""CUDA C++ to machine code by NVRTC, on any computer: neither a GPU nor a driver nor the CUDA toolkit is needed.

What comes out is a cubin for one architecture, never PTX: a driver runs the cubins of every compiler of its own major
version, but PTX only up to its own minor version. The compiler's log is read for what each kernel uses; where it says
that matrix instructions could not run asynchronously that is an error, for such a kernel is several times slower.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import ryle
from ryle.gpu.interface import IMPORTING, GpuUnavailable

__all__ = ["ARCHITECTURES", "INCLUDE_ROOT", "CompileError", "Compiled", "Resources", "compile_source", "included_files"]

#: What every kernel is compiled for by the tests: Ampere, Ada, Hopper and Blackwell, for servers and for desks.
ARCHITECTURES = ("sm_80", "sm_86", "sm_89", "sm_90a", "sm_100", "sm_120")

#: Where ``#include "ryle/gpu/device.cuh"`` begins.
INCLUDE_ROOT = Path(ryle.__file__).resolve().parent.parent

INSTALL = "install them with: pip install 'ryle[cuda]'"


class CompileError(RuntimeError):
    """A kernel that does not compile, or not to what was meant; the message holds the compiler's log."""


@dataclass(frozen=True, slots=True)
class Resources:
    """What one kernel uses, as the assembler reports it.

    Attributes
    ----------
    registers : int
        Of one thread; 0 for a device function that was not inlined.
    stack : int
        Bytes of local memory of one thread, among them what was spilled.
    spill_stores, spill_loads : int
        Bytes that one thread writes to and reads from local memory for want of registers.
    shared : int
        Bytes of static shared memory of a block.
    """

    registers: int = 0
    stack: int = 0
    spill_stores: int = 0
    spill_loads: int = 0
    shared: int = 0


@dataclass(frozen=True, slots=True)
class Compiled:
    """Machine code of one source file for one architecture.

    Attributes
    ----------
    cubin : bytes
        What the driver loads.
    log : str
        All that the compiler and the assembler said.
    resources : dict of str to Resources
        By kernel.
    """

    cubin: bytes
    log: str
    resources: dict[str, Resources]

    @property
    def warnings(self) -> list[str]:
        """Lines of the log that warn."""
        return [line for line in self.log.splitlines() if re.search(r"\bwarning\b.*: ", line)]


def compile_source(source: Path, defines: Mapping[str, int | str], arch: str) -> Compiled:
    """Compile a source file.

    Parameters
    ----------
    source : Path
        CUDA C++, in C++20. Includes are sought in its folder and below the folder that holds ``ryle/``.
    defines : mapping of str to int or str
        Macros and their values.
    arch : str
        ``"sm_90a"`` and the like.

    Returns
    -------
    Compiled
        Machine code, log and resources.

    Raises
    ------
    CompileError
        If the source does not compile, or if the assembler serialised matrix instructions or ignored a change of the
        number of registers.
    GpuUnavailable
        If the compiler is not installed.
    FileNotFoundError
        If there is no such source.
    """
    from_nvrtc = _nvrtc()
    log = io.StringIO()
    program = from_nvrtc.Program(source.read_text(), "c++", program_options(source, defines, arch))
    try:
        cubin = bytes(program.compile("cubin", logs=log).code)
    except from_nvrtc.NVRTCError as error:
        raise CompileError(f"{_described(source, defines, arch)} does not compile:\n{error}") from None
    finally:
        program.close()
    # Without the times, equal compilations have equal logs.
    text = "\n".join(line for line in log.getvalue().strip("\0 \n").splitlines() if "Compile time =" not in line)
    slow = [line for line in text.splitlines() if "Potential Performance Loss" in line]
    if slow:
        raise CompileError(
            f"{_described(source, defines, arch)} compiles to something slower than was written:\n" + "\n".join(slow)
        )
    return Compiled(cubin, text, read_resources(text))


def program_options(source: Path, defines: Mapping[str, int | str], arch: str) -> Any:
    """Give the compiler's options, as cuda-core's ``ProgramOptions``; parameters as of `compile_source`."""
    return _nvrtc().ProgramOptions(
        name=str(source.resolve()),  # so that errors, and profilers through the line information, name the file
        arch=arch,
        std="c++20",
        define_macro=[(name, _macro(name, value)) for name, value in sorted(defines.items())] or None,
        include_path=[str(folder) for folder in _include_folders(source)],
        lineinfo=True,
        device_as_default_execution_space=True,  # NVRTC 13.0 takes lambdas for functions of the host otherwise
        ptxas_options=["-v"],
        no_cache=True,  # what NVRTC has kept comes without the log, from which the resources are read
    )


def _include_folders(source: Path) -> list[Path]:
    """Give the folders that includes are sought in: where ``ryle/`` of the source's own tree lies, and the source's."""
    parents = source.resolve().parents
    own = (folder for folder in parents if (folder / "ryle/gpu/device.cuh").is_file())
    return [next(own, INCLUDE_ROOT), parents[0]]


def compiler_version() -> str:
    """Give the version of NVRTC, for instance ``"13.0"``.

    Raises
    ------
    GpuUnavailable
        If it is not installed.
    """
    return str(_nvrtc().version)


def included_files(source: Path) -> list[Path]:
    """List a source and all that it includes by ``#include "..."``, each file once, those that are found.

    Parameters
    ----------
    source : Path
        A source file.

    Returns
    -------
    list of Path
        The source itself first.

    Raises
    ------
    FileNotFoundError
        If there is no such source.
    """
    found, folders = [source.resolve(strict=True)], _include_folders(source)
    for file in found:  # grows on the way
        for name in re.findall(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', file.read_text(), re.MULTILINE):
            for folder in (file.parent, *folders):
                included = (folder / name).resolve()
                if included.is_file():
                    if included not in found:
                        found.append(included)
                    break
    return found


def read_resources(log: str) -> dict[str, Resources]:
    """Read what each kernel uses from the assembler's part of a log.

    Parameters
    ----------
    log : str
        As NVRTC gives it with ``--ptxas-options=-v``.

    Returns
    -------
    dict of str to Resources
        By kernel, or device function that was not inlined.
    """
    counts: dict[str, dict[str, int]] = {}
    kernel = function = ""
    for line in log.splitlines():
        if match := re.search(r"Compiling entry function '(\w+)'", line):
            kernel = function = match[1]
            counts.setdefault(kernel, {})
        elif match := re.search(r"Function properties for '?(\w+)", line):
            function = match[1]
        elif match := re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", line):
            stack, stores, loads = map(int, match.groups())
            counts.setdefault(function, {}).update(stack=stack, spill_stores=stores, spill_loads=loads)
        elif match := re.search(r"Used (\d+) registers", line):
            shared = re.search(r"(\d+) bytes smem", line)
            counts.setdefault(kernel, {}).update(registers=int(match[1]), shared=int(shared[1]) if shared else 0)
    return {name: Resources(**count) for name, count in counts.items()}


def _macro(name: str, value: int | str) -> str:
    if isinstance(value, str):
        return value
    try:
        return str(value.__index__())
    except AttributeError:
        raise TypeError(f"macro {name} is {value!r}; give an integer, or the text that is meant") from None


def _described(source: Path, defines: Mapping[str, int | str], arch: str) -> str:
    macros = ", ".join(f"{name}={value}" for name, value in sorted(defines.items()))
    return f"{source.name} for {arch}" + (f" with {macros}" if macros else "")


@dataclass(frozen=True, slots=True)
class _Nvrtc:
    """What is used of the compiler's Python side."""

    Program: Any
    ProgramOptions: Any
    NVRTCError: Any
    version: str


@cache
def _nvrtc() -> _Nvrtc:
    """Import the compiler when it is first asked for: the rest of Ryle runs without it."""
    try:
        with IMPORTING:
            from cuda.bindings import nvrtc
            from cuda.core import Program, ProgramOptions
            from cuda.core._utils.cuda_utils import NVRTCError
    except ImportError as error:
        raise GpuUnavailable(f"cuda-core 1.2 and cuda-bindings 13 are not installed ({error}); {INSTALL}") from error
    try:
        _, major, minor = nvrtc.nvrtcVersion()
    except RuntimeError as error:  # the library is sought at the first call
        raise GpuUnavailable(f"NVIDIA's run-time compiler NVRTC is not here ({error}); {INSTALL}") from error
    return _Nvrtc(Program, ProgramOptions, NVRTCError, f"{major}.{minor}")
