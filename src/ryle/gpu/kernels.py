"""Which kernels there are, and in which variants they are compiled.

A module that launches kernels stands beside its ``.cu`` files, is named in `KERNEL_MODULES` and offers
``compile_variants()``: a list of `KernelVariant` or of plain pairs (source, defines). The tests compile each for every
architecture; `ryle.gpu.cache` keeps what they compiled.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from ryle.gpu.compile import ARCHITECTURES

__all__ = ["KERNEL_MODULES", "KernelVariant", "kernel_variants"]

#: Modules with kernels.
KERNEL_MODULES: tuple[str, ...] = (
    "ryle.gpu.fetch",
    "ryle.gpu.verify",
    "ryle.channelize.cuda_kernels",
    "ryle.correlate.cuda",
    "ryle.bench.memory",
    "ryle.bench.three_kernels",
)


class KernelVariant(NamedTuple):
    """One source with one set of macros.

    Attributes
    ----------
    source : Path
        A ``.cu`` file.
    defines : mapping of str to int or str
        Macros and their values.
    architectures : tuple of str
        What it is compiled for; fewer than all only if it uses instructions of some.
    """

    source: Path
    defines: Mapping[str, int | str]
    architectures: tuple[str, ...] = ARCHITECTURES


def kernel_variants() -> list[KernelVariant]:
    """List the variants of all `KERNEL_MODULES`, in their order."""
    return [
        KernelVariant(*variant) for module in KERNEL_MODULES for variant in import_module(module).compile_variants()
    ]
