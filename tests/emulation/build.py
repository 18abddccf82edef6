"""Compile a kernel for the CPU into a shared library, cached by what it was made of."""

import ctypes
import hashlib
import os
import re
import subprocess
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

INCLUDE = Path(__file__).resolve().parent / "include"
SOURCE = Path(__file__).resolve().parents[2] / "src"
# Checks that cost little and find what a GPU would only call "misaligned address", or nothing at all.
CHECKS = "-fsanitize=alignment,bounds,shift-exponent,integer-divide-by-zero"


class CompilationError(RuntimeError):
    """g++ refused a kernel; the message is what it said."""


@cache
def compiler() -> tuple[str, ...]:
    """The compiler and its options; ``RYLE_EMULATION_FLAGS`` adds more, as -fsanitize=address (preload libasan)."""
    name = os.environ.get("CXX", "g++")
    machine = ["-march=x86-64-v3"] if os.uname().machine == "x86_64" else []
    options = ["-std=c++20", "-O2", *machine, "-g1", "-fPIC", "-fvisibility=hidden", "-fno-exceptions", "-fno-rtti"]
    # As the GPU's compiler does: products and sums contract, and types may be read as others.
    options += [
        "-ffp-contract=fast",
        "-fno-strict-aliasing",
        "-fno-math-errno",
        CHECKS,
        "-fno-sanitize-recover=all",
        "-w",
    ]
    return (name, *options, *os.environ.get("RYLE_EMULATION_FLAGS", "").split(), f"-I{INCLUDE}", f"-I{SOURCE}")


@cache
def compiler_version() -> str:
    return subprocess.run([compiler()[0], "--version"], capture_output=True, text=True, check=True).stdout


def cache_folder() -> Path:
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ryle" / "emulation"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def launch_bound(source: str, name: str) -> str:
    """The expression for the most threads of a block in ``KERNEL(threads, blocks) name(``; 1024 if it is not found."""
    found = re.search(rf"KERNEL\(([^,]+),[^;{{]*?\)\s*{re.escape(name)}\s*\(", source)
    return found[1] if found else "1024"


def run_compiler(arguments: list[str], what: str) -> str:
    result = subprocess.run([*compiler(), *arguments], capture_output=True, text=True)
    if result.returncode:
        raise CompilationError(f"{what} does not compile for the CPU:\n{result.stderr}")
    return result.stdout


def build(source: Path, name: str, defines: Mapping[str, int | str]) -> ctypes.CDLL:
    """Compile kernel `name` of `source` and load it."""
    source = Path(source).resolve()
    stub = (
        '#include "ryle/gpu/device.cuh"\n'  # before the macros, whose names the emulation may use itself
        + "".join(f"#define {key} {value}\n" for key, value in defines.items())
        + f'#include "{source}"\n'
        + f"EMULATED_KERNEL({name}, ({launch_bound(source.read_text(), name)}))\n"
    )
    what = f"{name} of {source.name}"
    with tempfile.TemporaryDirectory(dir=cache_folder()) as scratch:
        stub_path = Path(scratch) / "kernel.cpp"
        stub_path.write_text(stub)
        text = run_compiler(["-E", str(stub_path)], what).replace(scratch, "")
        key = hashlib.sha256("\0".join([compiler_version(), *compiler(), text]).encode()).hexdigest()[:32]
        library = cache_folder() / f"{name}-{key}.so"
        if not library.exists():
            made = Path(scratch) / library.name
            run_compiler(["-shared", "-o", str(made), str(stub_path), "-lrt"], what)
            made.rename(library)
    return ctypes.CDLL(str(library))
