"""What host code asks of a GPU: memory, copies, streams, events and kernels.

Operations are written against these protocols. `ryle.gpu.open_gpu` gives the real thing; tests also run the operations
on an emulated one. Everything that takes a stream is enqueued and returns at once unless it says that it waits; without
a stream it goes to the device's `Gpu.default_stream`. Work of one stream runs in order, work of different streams in
any order unless one waits for an event of the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from threading import Lock
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ryle.stream import block

__all__ = [
    "DeviceArray",
    "Event",
    "Gpu",
    "GpuError",
    "GpuUnavailable",
    "Kernel",
    "Scalar",
    "Stream",
    "check_box",
    "check_columns",
]

#: What a kernel takes beside arrays: a scalar of exactly the type that its parameter has.
Scalar: TypeAlias = np.int32 | np.uint32 | np.int64 | np.uint64 | np.float32 | np.float64
Shape: TypeAlias = int | tuple[int, ...]
Index3: TypeAlias = tuple[int, int, int]

#: Held where cuda-core is first imported: another thread that imports it meanwhile may find it half made.
IMPORTING = Lock()


class GpuUnavailable(RuntimeError):  # noqa: N818 - a state of the computer, not a mistake
    """There is no GPU that can be used; the message says what is missing and how to mend it."""


class GpuError(RuntimeError):
    """The driver refused something or a kernel failed; after a failed kernel the process must start anew."""


class Event(block.Event, Protocol):
    """A point in a stream's work; who waits for it burns no processor core."""

    def seconds_since(self, earlier: Event) -> float:
        """Wait for this event, then tell the time since an earlier one, in seconds by the GPU's clock."""


class Stream(Protocol):
    """A queue of work that runs in order."""

    @property
    def handle(self) -> int:
        """The ``CUstream``, for other libraries."""

    def record(self) -> Event:
        """Mark the point that the work enqueued so far ends at."""

    def wait(self, event: block.Event) -> None:
        """Let work that is enqueued from now on begin only when the event has passed."""

    def synchronize(self) -> None:
        """Wait until all work enqueued so far is done."""


class DeviceArray(Protocol):
    """An array in the GPU's memory, in C order; freed with the last object that refers to it.

    Freeing waits for all work of the device: keep arrays that are used again.
    """

    @property
    def shape(self) -> tuple[int, ...]:
        """Length of each axis."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of an element."""

    @property
    def nbytes(self) -> int:
        """Size in bytes."""

    @property
    def pointer(self) -> int:
        """Address on the device."""

    def set(self, host: NDArray[Any], stream: Stream | None = None) -> None:
        """Enqueue a copy from a host array of the same shape and type.

        From a page-locked array (`Gpu.pinned`) the copy is asynchronous: the array must neither change nor go before
        the stream has come past. Any other array is read before this returns.
        """

    def get(self, out: NDArray[Any] | None = None, stream: Stream | None = None) -> NDArray[Any]:
        """Copy to a host array (a new one if none is given), wait for the copy and return the array."""

    def copy_to(self, out: NDArray[Any] | DeviceArray, stream: Stream | None = None) -> None:
        """Enqueue a copy to a C-contiguous host array or to another device array, of the same shape and type."""

    def take_box(
        self, at: Index3, source: DeviceArray, first: Index3, box: Index3, stream: Stream | None = None
    ) -> None:
        """Enqueue a copy of a box of another array, which may lie on another GPU, to a place in here.

        Both arrays have three axes and elements of one type.

        Parameters
        ----------
        at, first : tuple of three int
            The box's first element, here and there.
        source : DeviceArray
            Where it lies.
        box : tuple of three int
            Elements along each axis.
        stream : Stream, optional
            Where the copy is enqueued; of either GPU.

        Raises
        ------
        ValueError
            If an array has not three axes, or the box leaves it.
        TypeError
            If the types differ.
        """

    def set_columns(self, first: int, host: NDArray[Any], stream: Stream | None = None) -> None:
        """Enqueue a copy from a host array (row, …) to the bytes of each row from `first` on, as `set` does.

        Rows are what lies behind the first axis. Those of the host array may lie apart, each is contiguous.

        Raises
        ------
        ValueError
            If the rows do not fit in here.
        """

    def move_columns(self, to: int, first: int, count: int, stream: Stream | None = None) -> None:
        """Enqueue a copy of `count` bytes of each row from `first` on to those from `to` on, which lie apart.

        Raises
        ------
        ValueError
            If they overlap or leave the rows.
        """

    def fill_columns(self, first: int, count: int, byte: int, stream: Stream | None = None) -> None:
        """Set `count` bytes of each row, from `first` on, to a value.

        Raises
        ------
        ValueError
            If they leave the rows.
        """

    def fill(self, byte: int, stream: Stream | None = None) -> None:
        """Set every byte to a value from 0 to 255."""

    def view(self, shape: Shape, dtype: DTypeLike, first: int = 0) -> DeviceArray:
        """See the same memory, from byte `first` on, as another array, which may be smaller but not larger."""


class Kernel(Protocol):
    """A kernel, compiled and loaded."""

    @property
    def name(self) -> str:
        """Its name in the source."""

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of its parameters, in order."""

    @property
    def registers(self) -> int:
        """Registers of a thread."""

    @property
    def local_bytes(self) -> int:
        """Local memory of a thread, bytes."""

    @property
    def shared_bytes(self) -> int:
        """Static shared memory of a block, bytes."""

    def launch(
        self,
        grid: Shape,
        block: Shape,
        /,
        *,
        shared: int = 0,
        stream: Stream | None = None,
        **args: DeviceArray | Scalar,
    ) -> None:
        """Enqueue a run.

        Parameters
        ----------
        grid, block : int or tuple of up to 3 int
            Blocks of the grid and threads of a block.
        shared : int
            Dynamic shared memory of a block, bytes.
        stream : Stream, optional
            Where it is enqueued.
        **args : DeviceArray or numpy scalar
            One for each of the kernel's parameters, by the name that it has in the source; a device array is passed as
            its pointer, a scalar must be of exactly the parameter's type.

        Raises
        ------
        TypeError
            If an argument is missing, not the kernel's, or not of the type or size that the kernel takes.
        ValueError
            If the grid is empty or a block asks for more threads or shared memory than there is.
        GpuError
            If the driver refuses the launch.
        """

    def blocks_per_multiprocessor(self, block: int, shared: int) -> int:
        """Tell how many blocks of so many threads and bytes of shared memory run at once on a multiprocessor."""


class Gpu(Protocol):
    """One device."""

    @property
    def name(self) -> str:
        """What its maker calls it."""

    @property
    def arch(self) -> str:
        """What kernels are compiled for: ``"sm_80"``, ``"sm_90a"``, ``"sm_120"`` and the like."""

    @property
    def multiprocessors(self) -> int:
        """Number of multiprocessors."""

    @property
    def shared_bytes(self) -> int:
        """The most shared memory that one block can have, bytes."""

    @property
    def memory_bytes(self) -> int:
        """Size of the memory, bytes."""

    @property
    def driver(self) -> str:
        """The driver's CUDA version, ``"CUDA 13.0"``."""

    @property
    def default_stream(self) -> Stream:
        """Where work goes that names no stream."""

    def empty(self, shape: Shape, dtype: DTypeLike) -> DeviceArray:
        """Allocate an array whose contents are undefined.

        Raises
        ------
        MemoryError
            If the device has no room for it; the message says how much there is.
        """

    def array(self, host: NDArray[Any], stream: Stream | None = None) -> DeviceArray:
        """Allocate an array and enqueue a copy of a host array to it, as `DeviceArray.set` does."""

    def pinned(self, shape: Shape, dtype: DTypeLike) -> NDArray[Any]:
        """Allocate a page-locked host array that begins on a page, with undefined contents.

        It is freed with the last array that refers to it.
        """

    def is_locked(self, host: NDArray[Any]) -> bool:
        """Whether a host array lies in page-locked memory, which copies to and from are asynchronous of."""

    def page_locked(self, host: NDArray[Any]) -> AbstractContextManager[None]:
        """Page-lock memory that exists, while the block runs: copies from and to it are asynchronous on every device.

        Raises
        ------
        GpuError
            If the driver refuses it; memory must begin on a page.
        """

    def stream(self) -> Stream:
        """Make a stream that runs beside all others."""

    def reach(self, other: Gpu) -> bool:
        """Let this GPU read and write another's memory directly, and say whether it can.

        If not, copies between them go through the host. A GPU reaches itself.
        """

    def kernel(self, source: Path, name: str, defines: Mapping[str, int | str]) -> Kernel:
        """Compile a kernel, or take it from the cache on disk, and load it; the same kernel is loaded once.

        Raises
        ------
        ryle.gpu.compile.CompileError
            If the source does not compile; the message holds the compiler's log.
        ValueError
            If the source has no kernel of that name.
        """


def check_columns(shape: tuple[int, ...], pitch: int, first: int, count: int) -> None:
    """Raise ValueError unless rows of an array of a shape, `pitch` bytes long, have `count` bytes from `first` on."""
    if first < 0 or count < 0 or first + count > pitch:
        raise ValueError(f"bytes {first} to {first + count} of rows of {pitch} bytes of an array of shape {shape}")


def check_box(shape: tuple[int, ...], first: Index3, box: Index3) -> None:
    """Raise ValueError unless an array of a shape has three axes and a box that begins at `first`."""
    if len(shape) != 3 or any(f < 0 or n < 0 or f + n > size for f, n, size in zip(first, box, shape, strict=True)):
        raise ValueError(f"no box of {box} from {first} on in an array of shape {shape}")
