"""NCCL, for a comparison: each GPU of a process sends to each other, and receives, at once."""

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ryle.gpu import DeviceArray, GpuUnavailable, Stream

_INT8 = 0


def find_nccl() -> Path | None:
    """Find the library where the package nvidia-nccl-cu13 puts it; None if it is not installed."""
    try:
        found = importlib.util.find_spec("nvidia.nccl")
    except ModuleNotFoundError:
        return None
    folders = found.submodule_search_locations or [] if found is not None else []
    return next((each for folder in folders for each in Path(folder).glob("lib/libnccl.so.2")), None)


class Nccl:
    """Communicators of some GPUs, all of this process.

    Parameters
    ----------
    library : Path
        libnccl.so.2.
    numbers : sequence of int
        GPUs, no two alike.

    Raises
    ------
    GpuUnavailable
        If the library is not there or refuses these GPUs.
    """

    def __init__(self, library: Path, numbers: Sequence[int]) -> None:
        try:
            self._library = ctypes.CDLL(str(library))
        except OSError as error:
            raise GpuUnavailable(f"NCCL cannot be loaded: {error}") from error
        self._library.ncclGetErrorString.restype = ctypes.c_char_p
        count = len(numbers)
        self._all = (ctypes.c_void_p * count)()
        self._call("ncclCommInitAll", self._all, ctypes.c_int(count), (ctypes.c_int * count)(*numbers))

    def exchange(
        self,
        sent: Sequence[Sequence[DeviceArray | None]],
        received: Sequence[Sequence[DeviceArray | None]],
        streams: Sequence[Stream],
    ) -> None:
        """Enqueue all that is sent and received.

        Parameters
        ----------
        sent, received : sequences of DeviceArray
            By GPU, and by the GPU that it goes to or comes from; None: nothing.
        streams : sequence of Stream
            Of each GPU.
        """
        self._call("ncclGroupStart")
        for here, stream in enumerate(streams):
            for name, arrays in (("ncclSend", sent[here]), ("ncclRecv", received[here])):
                for other, array in enumerate(arrays):
                    if array is not None:
                        self._move(name, array, other, self._all[here], stream)
        self._call("ncclGroupEnd")

    def _move(self, name: str, array: DeviceArray, other: int, own: Any, stream: Stream) -> None:
        size, handle = ctypes.c_size_t(array.nbytes), ctypes.c_void_p(stream.handle)
        self._call(name, ctypes.c_void_p(array.pointer), size, _INT8, other, ctypes.c_void_p(own), handle)

    def _call(self, name: str, *arguments: Any) -> None:
        if result := getattr(self._library, name)(*arguments):
            raise GpuUnavailable(f"{name} failed: {self._library.ncclGetErrorString(result).decode()}")

    def close(self) -> None:
        """Give up the communicators."""
        for each in self._all:
            self._call("ncclCommDestroy", ctypes.c_void_p(each))
