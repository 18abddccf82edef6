"""Pieces of files to places in memory: many in one call, by several threads."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ryle.wire._native import read_pieces


def read_all(
    paths: Mapping[int, Path],
    files: NDArray[np.int64],
    at: NDArray[np.int64],
    to: NDArray[np.int64],
    sizes: NDArray[np.int64],
    out: NDArray[np.uint8],
    threads: int = 1,
) -> None:
    """Read pieces of files.

    Parameters
    ----------
    paths : mapping of int to Path
        What the open files are called, by their numbers.
    files, at, to, sizes : ndarray of int64, shape (piece,)
        Number of the file; byte of it; byte of `out`; bytes.
    out : ndarray of uint8
        In one piece; no two pieces go to the same place.
    threads : int
        That read at the same time.

    Raises
    ------
    OSError
        If one cannot be read, or its file ends before; names the file.
    """
    failed, why = read_pieces(files, at, to, sizes, out.reshape(-1), threads)
    if failed >= 0:
        path = paths[int(files[failed])]
        raise OSError(why, os.strerror(why), str(path)) if why else OSError(f"{path} became shorter while it was read")


def equal_pieces(path: Path, file: int, at: NDArray[np.int64], size: int) -> NDArray[np.uint8]:
    """Read pieces of one size of an open file, of shape (piece, byte); raises as `read_all`."""
    count = len(at)
    out = np.empty((count, size), np.uint8)
    places = size * np.arange(count)
    read_all({file: path}, np.full(count, file), at, places, np.full(count, size), out)
    return out
