"""Device arrays: host memory of their own pages, with a page that cannot be touched after the end of each."""

import ctypes
import itertools
import mmap
import weakref
from math import prod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from ryle.gpu.interface import check_box, check_columns

PAGE = mmap.PAGESIZE
ALIGNMENT = 256  # of what cudaMalloc gives
POISON = 0xFF
CANARY = 0xA5
PROT_NONE = 0

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


def _bytes(address: int, count: int) -> NDArray[np.uint8]:
    return np.frombuffer((ctypes.c_uint8 * count).from_address(address), np.uint8) if count else np.empty(0, np.uint8)


def of_whole_pages(shape: int | tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """Make a host array that begins on a page, as page-locked memory does."""
    nbytes = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    memory = np.empty(nbytes + PAGE, np.uint8)
    at = -memory.ctypes.data % PAGE
    return memory[at : at + nbytes].view(dtype).reshape(shape)


class Memory:
    """`nbytes` bytes that end (rounded up to `ALIGNMENT`) where a guard page begins; freed with the object.

    What is left over in their first and last page holds canaries.
    """

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes
        room = -(-max(nbytes, 1) // ALIGNMENT) * ALIGNMENT
        pages = -(-room // PAGE)
        self._map = mmap.mmap(-1, (pages + 2) * PAGE)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        end = start + (pages + 1) * PAGE
        for guard in (start, end):
            if _libc.mprotect(guard, PAGE, PROT_NONE):
                raise OSError(ctypes.get_errno(), "mprotect failed")
        self.pointer = end - room
        ctypes.memset(self.pointer, POISON, nbytes)
        self._slack = (_bytes(start + PAGE, self.pointer - start - PAGE), _bytes(self.pointer + nbytes, room - nbytes))
        for slack in self._slack:
            slack.fill(CANARY)

    def overrun(self) -> str | None:
        """Where bytes next to the array have changed, if any have."""
        for slack, where in zip(self._slack, ("before the start", "after the end"), strict=True):
            if np.any(slack != CANARY):
                return f"{np.count_nonzero(slack != CANARY)} bytes shortly {where} of a device array of {self.nbytes} bytes"
        return None


class Locked:
    """Page-locked memory of the host, which kernels read where it lies."""

    def __init__(self, array: NDArray[Any]) -> None:
        self.pointer, self.nbytes = array.ctypes.data, array.nbytes


class Allocations:
    """The memory that a GPU's arrays still hold, and what it reads besides, as a kernel launch needs to know it."""

    def __init__(self) -> None:
        self._held: dict[int, weakref.ref[Memory]] = {}
        self._locked: dict[int, Locked] = {}
        self._keys = itertools.count()

    def add(self, memory: Memory) -> None:
        key = next(self._keys)
        self._held[key] = weakref.ref(memory, lambda _: self._held.pop(key, None))

    def add_locked(self, array: NDArray[Any]) -> None:
        """Let kernels read an array of `of_whole_pages` for as long as it lives."""
        key = next(self._keys)
        self._locked[key] = Locked(array)
        weakref.finalize(array.base, self._locked.pop, key, None)

    def held(self) -> list[Memory]:
        return sorted((m for ref in list(self._held.values()) if (m := ref())), key=lambda m: m.pointer)

    def readable(self) -> list[Memory | Locked]:
        return sorted([*self.held(), *list(self._locked.values())], key=lambda m: m.pointer)


class DeviceArray:
    """An array in the emulated GPU's memory."""

    def __init__(self, memory: Memory, shape: tuple[int, ...], dtype: DTypeLike, first: int = 0) -> None:
        self._memory, self._first = memory, first
        self.shape = shape
        self.dtype = np.dtype(dtype)
        self.nbytes = prod(shape) * self.dtype.itemsize
        self.pointer = memory.pointer + first

    @property
    def host(self) -> NDArray[Any]:
        """The memory itself as a numpy array, valid for as long as this array lives."""
        return _bytes(self.pointer, self.nbytes).view(self.dtype).reshape(self.shape)

    def set(self, host: ArrayLike, stream: object = None) -> None:
        host = np.asarray(host)
        if host.shape != self.shape or host.dtype != self.dtype:
            raise ValueError(f"an array {host.shape} of {host.dtype} set in one {self.shape} of {self.dtype}")
        self.host[...] = host

    def get(self, out: NDArray[Any] | None = None, stream: object = None) -> NDArray[Any]:
        if out is None:
            return self.host.copy()
        self.copy_to(out, stream)
        return out

    def copy_to(self, out: "NDArray[Any] | DeviceArray", stream: object = None) -> None:
        if out.shape != self.shape or out.dtype != self.dtype:
            raise ValueError(f"an array {self.shape} of {self.dtype} copied to one {out.shape} of {out.dtype}")
        (out.host if isinstance(out, DeviceArray) else out)[...] = self.host

    def _columns(self, first: int, count: int) -> NDArray[np.uint8]:
        rows = _bytes(self.pointer, self.nbytes).reshape(self.shape[0], -1)
        check_columns(self.shape, rows.shape[1], first, count)
        return rows[:, first : first + count]

    def set_columns(self, first: int, host: NDArray[Any], stream: object = None) -> None:
        self._columns(first, host[0].nbytes)[...] = np.ascontiguousarray(host).view(np.uint8).reshape(len(host), -1)

    def move_columns(self, to: int, first: int, count: int, stream: object = None) -> None:
        if abs(to - first) < count:
            raise ValueError("they overlap")
        self._columns(to, count)[...] = self._columns(first, count)

    def fill_columns(self, first: int, count: int, byte: int, stream: object = None) -> None:
        self._columns(first, count)[...] = byte

    def take_box(
        self,
        at: tuple[int, int, int],
        source: "DeviceArray",
        first: tuple[int, int, int],
        box: tuple[int, int, int],
        stream: object = None,
    ) -> None:
        check_box(self.shape, at, box)
        check_box(source.shape, first, box)
        if source.dtype != self.dtype:
            raise TypeError(f"a box of {source.dtype} copied to an array of {self.dtype}")
        here, there = (tuple(slice(f, f + n) for f, n in zip(a, box, strict=True)) for a in (at, first))
        self.host[here] = source.host[there]

    def fill(self, byte: int, stream: object = None) -> None:
        ctypes.memset(self.pointer, byte, self.nbytes)

    def view(self, shape: int | tuple[int, ...], dtype: DTypeLike, first: int = 0) -> "DeviceArray":
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        viewed = DeviceArray(self._memory, shape, dtype, self._first + first)
        if first < 0 or first + viewed.nbytes > self.nbytes:
            raise ValueError(f"a view of {viewed.nbytes} bytes of an array of {self.nbytes}")
        return viewed
