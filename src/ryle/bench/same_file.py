"""Whether two HDF5 files hold the same, bit for bit."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import h5py
import numpy as np


def contents(path: Path) -> dict[str, tuple[Any, ...]]:
    """Give type, layout and bytes of each dataset, by name."""
    found: dict[str, tuple[Any, ...]] = {}

    def note(name: str, item: h5py.HLObject) -> None:
        if isinstance(item, h5py.Dataset):
            value = item[()]
            layout = (item.shape, item.maxshape, item.chunks, item.compression, item.compression_opts)
            text = item.dtype.kind == "O"
            found[name] = item.dtype.str, layout, np.asarray(value).tolist() if text else value.tobytes()

    with h5py.File(path) as file:
        file.visititems(note)
    return found


def differing(one: Path, other: Path, but: Collection[str] = ()) -> list[str]:
    """Name the datasets that differ in anything, or that one file lacks; all `but` some are compared."""
    a, b = contents(one), contents(other)
    return sorted(name for name in (a.keys() | b.keys()) - set(but) if a.get(name) != b.get(name))
