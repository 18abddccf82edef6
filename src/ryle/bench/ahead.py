"""Compile many kernels at once, before anything is timed: a matrix of cases has a hundred of them."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from ryle.gpu.cache import cached_compile

#: A source and its macros.
Variant = tuple[Path, Mapping[str, int | str]]


def compile_ahead(variants: Iterable[Variant], arch: str, processes: int | None = None) -> int:
    """Compile kernels to the cache on disk, in as many processes as there are cores.

    Parameters
    ----------
    variants : iterable
        Sources and their macros; equal ones are compiled once.
    arch : str
        For which GPU.
    processes : int, optional
        How many at a time.

    Returns
    -------
    int
        Number of different kernels.

    Raises
    ------
    CompileError
        If one does not compile.
    """
    unique = {(source, tuple(sorted(defines.items()))) for source, defines in variants}
    context = multiprocessing.get_context("spawn")
    workers = max(1, min(processes or os.cpu_count() or 1, len(unique)))
    with ProcessPoolExecutor(workers, context) as pool:
        list(pool.map(_compile, *zip(*((source, dict(defines), arch) for source, defines in unique), strict=True)))
    return len(unique)


def _compile(source: Path, defines: Mapping[str, int | str], arch: str) -> None:
    cached_compile(source, defines, arch)
