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
def compiler(optimization: str = "-O2") -> tuple[str, ...]:
    """The compiler and its options; ``RYLE_EMULATION_FLAGS`` adds more, as -fsanitize=address (preload libasan)."""
    name = os.environ.get("CXX", "g++")
    machine = ["-march=x86-64-v3"] if os.uname().machine == "x86_64" else []
    options = [
        "-std=c++20",
        optimization,
        *machine,
        "-g1",
        "-fPIC",
        "-fvisibility=hidden",
        "-fno-exceptions",
        "-fno-rtti",
    ]
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
def toolchain(optimization: str) -> str:
    """What a library depends on beside its source: compiler, options and the emulation's own headers."""
    version = subprocess.run([compiler()[0], "--version"], capture_output=True, text=True, check=True).stdout
    headers = (path.read_text() for path in sorted(INCLUDE.rglob("*")) if path.is_file())
    return "\0".join([version, *compiler(optimization), *headers])


def cache_folder() -> Path:
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ryle" / "emulation"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def kernels_in(text: str) -> dict[str, str]:
    """Tell the kernels of a preprocessed source: by name, the expression for the most threads of a block."""
    text = re.sub(r"^#.*$", "", text, flags=re.MULTILINE)
    nested = r"(?:[^(),]|\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))*"  # three deep
    bounds = rf"\[\[emulated::bounds\(({nested}),{nested}\)\]\]\s*(\w+)\s*\("
    return {name: " ".join(threads.split()) for threads, name in re.findall(bounds, text)}


def run_compiler(arguments: list[str], what: str, optimization: str = "-O2") -> str:
    result = subprocess.run([*compiler(optimization), *arguments], capture_output=True, text=True)
    if result.returncode:
        raise CompilationError(f"{what} does not compile for the CPU:\n{result.stderr}")
    return result.stdout


def build(source: Path, defines: Mapping[str, int | str], optimization: str = "-O2") -> tuple[ctypes.CDLL, list[str]]:
    """Compile all kernels of `source` and load them; the library and the kernels' names."""
    source = Path(source).resolve()
    stub = (
        '#include "ryle/gpu/device.cuh"\n'  # before the macros, whose names the emulation may use itself
        + "".join(f"#define {key} {value}\n" for key, value in defines.items())
        + f'#include "{source}"\n'
    )
    with tempfile.TemporaryDirectory(dir=cache_folder()) as scratch:
        stub_path = Path(scratch) / "kernels.cpp"
        stub_path.write_text(stub)
        text = run_compiler(["-E", str(stub_path)], source.name).replace(scratch, "")
        kernels = kernels_in(text)
        key = hashlib.sha256((toolchain(optimization) + text).encode()).hexdigest()[:32]
        library = cache_folder() / f"{source.stem}-{key}.so"
        if not library.exists():
            made = Path(scratch) / library.name
            stub_path.write_text(stub + "".join(f"EMULATED_KERNEL({name}, ({kernels[name]}))\n" for name in kernels))
            run_compiler(["-shared", "-o", str(made), str(stub_path), "-lrt"], source.name, optimization)
            made.rename(library)
    return ctypes.CDLL(str(library)), list(kernels)
