"""Whole numbers and arrays in bytes: what engines leave for who watches, which anybody may have put there.

Magic of 8 bytes, uint64 bytes of the header, the header in JSON with the numbers and the arrays' shapes, padded with
spaces to a multiple of 8 bytes, the arrays one behind the other, little-endian.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

_HEAD = struct.Struct("<8sQ")  # magic and version, bytes of the header
_LONGEST = 1 << 20  # header


class BundleError(ValueError):
    """What should be a bundle of some kind is none."""


def bundled(magic: bytes, numbers: Mapping[str, int], arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Write numbers and arrays, which have the types that they are to have."""
    header: dict[str, Any] = {name: int(value) for name, value in numbers.items()}
    header["shapes"] = {name: list(array.shape) for name, array in arrays.items()}
    text = json.dumps(header).encode()
    text += b" " * (-(_HEAD.size + len(text)) % 8)
    return b"".join([_HEAD.pack(magic, len(text)), text, *(np.ascontiguousarray(a).tobytes() for a in arrays.values())])


def unbundled(magic: bytes, data: bytes, kinds: Mapping[str, str]) -> dict[str, Any]:
    """Read what `bundled` wrote: numbers and arrays by their names.

    Parameters
    ----------
    magic : bytes
        With which it must begin.
    data : bytes
        All of it.
    kinds : mapping of str to str
        Types of the arrays, in their order.

    Raises
    ------
    BundleError
        If it is something else, or cut.
    """
    try:
        found, size = _HEAD.unpack_from(data)
        if found != magic or size > _LONGEST:
            raise BundleError(f"it begins with {found!r}")
        header = json.loads(data[_HEAD.size : _HEAD.size + size])
        shapes, at = header.pop("shapes"), _HEAD.size + size
        values: dict[str, Any] = {name: int(value) for name, value in header.items()}
        for name, kind in kinds.items():
            shape = tuple(int(n) for n in shapes[name])
            if min(shape, default=0) < 0:
                raise BundleError(f"{name} has shape {shape}")
            count = int(np.prod(shape, dtype=object))
            values[name] = np.frombuffer(data, kind, count, at).reshape(shape)
            at += values[name].nbytes
    except (struct.error, KeyError, TypeError, ValueError, ArithmeticError, AttributeError, RecursionError) as error:
        raise BundleError(str(error)) from None
    return values
