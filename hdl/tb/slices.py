# SPDX-License-Identifier: BSD-3-Clause
"""Other names for ports, and parts of packed ports, for the drivers in `streams`."""

from __future__ import annotations

from typing import Any, ClassVar


class Slice:
    """Bits [low, low + width) of a port, as if it were a port of its own."""

    _driven: ClassVar[dict[Any, int]] = {}  # by port

    def __init__(self, handle: Any, low: int, width: int) -> None:
        self._handle, self._low, self._width = handle, low, width

    def __len__(self) -> int:
        return self._width

    @property
    def value(self) -> int:
        return int(self._handle.value) >> self._low & ((1 << self._width) - 1)

    @value.setter
    def value(self, value: int) -> None:
        # The whole port is written, with what the other slices of it were given last.
        mask = ((1 << self._width) - 1) << self._low
        whole = self._driven.get(self._handle, 0) & ~mask | int(value) << self._low & mask
        self._driven[self._handle] = whole
        self._handle.value = whole


class Ports:
    """A module's ports under other names: ``Ports(dut, s_axis_dst_ip="s_dst_ip")``; of copy `index` in `of`, if given."""

    def __init__(self, dut: Any, index: int = 0, of: int = 1, **names: str) -> None:
        self._dut, self._index, self._of, self._names = dut, index, of, names

    def __getattr__(self, name: str) -> Any:
        handle = getattr(self._dut, self._names.get(name, name))
        if self._of == 1:
            return handle
        width = len(handle) // self._of
        return Slice(handle, self._index * width, width)
