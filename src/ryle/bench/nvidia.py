"""Find libraries of NVIDIA's that benchmarks compare with."""

from __future__ import annotations

import ctypes
import ctypes.util
from typing import Any

from ryle.gpu.interface import GpuUnavailable


def load_library(name: str, versions: tuple[int, ...], what: str) -> Any:
    """Load a shared library from its Python package or the system.

    Parameters
    ----------
    name : str
        Of the library, without ``lib`` and ``.so``.
    versions : tuple of int
        Major versions to look for, the first that is there.
    what : str
        What the message calls it.

    Raises
    ------
    GpuUnavailable
        If it is not there.
    """
    names: list[str] = []
    try:
        from cuda.pathfinder import load_nvidia_dynamic_lib

        names.append(str(load_nvidia_dynamic_lib(name).abs_path))
    except Exception:  # not installed, or not found: its errors differ from version to version
        pass
    found = ctypes.util.find_library(name)
    for candidate in [*names, *([found] if found else []), *(f"lib{name}.so.{version}" for version in versions)]:
        try:
            return ctypes.CDLL(candidate)
        except OSError:
            continue
    raise GpuUnavailable(f"{what} is not here; install it with: pip install 'ryle[bench]'")
