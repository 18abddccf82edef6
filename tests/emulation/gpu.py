"""The emulated GPU: the interface of `ryle.gpu.Gpu` over compiled kernels and host memory."""

import ctypes
import re
import threading
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from emulation.build import build
from emulation.memory import Allocations, DeviceArray, Memory, of_whole_pages
from ryle.correlate.tensor_maps import Lying
from ryle.gpu.parameters import in_order, parameter_names

SHARED_OF_MULTIPROCESSOR = 233472
THREADS_OF_MULTIPROCESSOR = 2048

_RUNNING = threading.Lock()  # a library holds the state of the one launch that it runs


class EmulationError(RuntimeError):
    """A kernel did what a GPU would punish, or not even notice; the message names block, thread and what it did."""


class _Launch(ctypes.Structure):
    _fields_ = [
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("shared", ctypes.c_uint64),
        ("seed", ctypes.c_uint64),
        ("allocations", ctypes.c_void_p),
        ("allocation_count", ctypes.c_uint64),
        ("seconds", ctypes.c_double),
        ("error", ctypes.c_char_p),
        ("error_bytes", ctypes.c_uint64),
    ]


class Event:
    """A moment that has passed."""

    def __init__(self) -> None:
        self.at = time.perf_counter()

    passed = True

    def synchronize(self) -> None:
        pass

    def seconds_since(self, earlier: "Event") -> float:
        return self.at - earlier.at


class Stream:
    """A stream on which everything happens at once when asked for."""

    handle = 0

    def record(self) -> Event:
        return Event()

    def wait(self, event: Event) -> None:
        pass

    def synchronize(self) -> None:
        pass


def _three(size: int | tuple[int, ...]) -> tuple[int, int, int]:
    given = (size,) if isinstance(size, int) else tuple(size)
    x, y, z = (*given, 1, 1, 1)[:3]
    return int(x), int(y), int(z)


class Kernel:
    """A kernel compiled for the CPU."""

    registers = 0
    local_bytes = 0
    shared_bytes = 0

    def __init__(self, gpu: "EmulatedGpu", library: ctypes.CDLL, name: str, source: str) -> None:
        self.name = name
        self._gpu = gpu
        self._run = library[f"emulated_launch_{name}"]
        self._run.argtypes = [ctypes.POINTER(_Launch), ctypes.POINTER(ctypes.c_void_p)]
        signature = library[f"emulated_signature_{name}"]
        signature.restype = ctypes.c_char_p
        # numpy's type of each parameter, None for a pointer
        self._types = [None if p[0] == "p" else np.dtype(p) for p in re.findall("..", signature().decode())]
        self.parameters = parameter_names(source, name, len(self._types))
        self.max_threads = int(library[f"emulated_max_threads_{name}"]())

    def launch(
        self,
        grid: int | tuple[int, ...],
        block: int | tuple[int, ...],
        /,
        *,
        shared: int = 0,
        stream: Stream | None = None,
        **args: DeviceArray | np.generic,
    ) -> None:
        grid3, block3 = _three(grid), _three(block)
        threads = block3[0] * block3[1] * block3[2]
        if min(grid3) < 1 or max(grid3[1:]) > 65535 or grid3[0] > 2**31 - 1:
            raise ValueError(f"{self.name}: no GPU launches a grid of {grid3} blocks")
        if min(block3) < 1 or threads > self.max_threads or block3[2] > 64:
            raise ValueError(
                f"{self.name}: a block of {block3} threads; the kernel is made for at most {self.max_threads}"
            )
        if not 0 <= shared <= self._gpu.shared_bytes:
            raise ValueError(
                f"{self.name}: {shared} bytes of shared memory; a block has at most {self._gpu.shared_bytes}"
            )
        values = self._values(args)
        pointers = (ctypes.c_void_p * max(1, len(values)))(*(v.ctypes.data for v in values))
        with _RUNNING:
            self._enter(grid3, block3, shared, pointers)

    def _values(self, args: Mapping[str, DeviceArray | np.generic]) -> list[NDArray[Any]]:
        values: list[NDArray[Any]] = []
        given = in_order(self.name, self.parameters, args)
        for name, arg, wanted in zip(self.parameters, given, self._types, strict=True):
            if wanted is None:
                if not hasattr(arg, "pointer"):
                    raise TypeError(f"{self.name}: {name}: a device array is wanted, not {type(arg).__name__}")
                values.append(np.array(arg.pointer, np.uint64))
            else:
                if not isinstance(arg, np.generic) or arg.dtype != wanted:
                    raise TypeError(f"{self.name}: {name}: a numpy.{wanted} is wanted, not {type(arg).__name__}")
                values.append(np.array(arg))
        return values

    def _enter(self, grid: tuple[int, ...], block: tuple[int, ...], shared: int, pointers: Any) -> None:
        held, readable = self._gpu.allocations.held(), self._gpu.allocations.readable()
        ranges = np.array([(m.pointer, m.nbytes) for m in readable], np.uint64).reshape(-1, 2)
        error = ctypes.create_string_buffer(4096)
        launch = _Launch(
            (ctypes.c_uint32 * 3)(*grid),
            (ctypes.c_uint32 * 3)(*block),
            shared,
            self._gpu.next_seed(),
            ranges.ctypes.data,
            len(readable),
            self._gpu.time_limit,
            ctypes.cast(error, ctypes.c_char_p),
            len(error),
        )
        if self._run(launch, pointers):
            raise EmulationError(error.value.decode())
        for memory in held:
            if where := memory.overrun():
                raise EmulationError(f"kernel {self.name}: wrote {where}")

    def blocks_per_multiprocessor(self, block: int | tuple[int, ...], shared: int) -> int:
        x, y, z = _three(block)
        by_threads = THREADS_OF_MULTIPROCESSOR // (-(-x * y * z // 32) * 32)
        return min(by_threads, 32, SHARED_OF_MULTIPROCESSOR // (shared + 1024))


class EmulatedGpu:
    """A GPU that is emulated on the CPU.

    Parameters
    ----------
    multiprocessors
        The number that the device claims to have.
    seed
        Of the order in which blocks and threads run; each launch has another.
    time_limit
        CPU seconds after which a launch counts as one that never ends.
    optimization
        Of g++; kernels compile in a third of the time with -O0, and run at half the speed.
    """

    name = "emulated"
    arch = "emulated"
    driver = "none"
    memory_bytes = 1 << 32
    shared_bytes = 232448

    def __init__(
        self, multiprocessors: int = 4, seed: int = 1, time_limit: float = 120.0, optimization: str = "-O2"
    ) -> None:
        self.optimization = optimization
        self.multiprocessors = multiprocessors
        self.time_limit = time_limit
        self.default_stream = Stream()
        self.allocations = Allocations()
        self._seed = seed
        self._built: dict[tuple[object, ...], dict[str, Kernel]] = {}

    def next_seed(self) -> int:
        self._seed = (self._seed * 6364136223846793005 + 1442695040888963407) % 2**64
        return self._seed >> 33

    def empty(self, shape: int | tuple[int, ...], dtype: DTypeLike) -> DeviceArray:
        shape = (shape,) if isinstance(shape, int) else tuple(int(n) for n in shape)
        memory = Memory(int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize)
        self.allocations.add(memory)
        return DeviceArray(memory, shape, dtype)

    def array(self, host: ArrayLike, stream: Stream | None = None) -> DeviceArray:
        host = np.asarray(host)
        made = self.empty(host.shape, host.dtype)
        made.set(host)
        return made

    def pinned(self, shape: int | tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        made = of_whole_pages(shape, dtype)
        self.allocations.add_locked(made)
        return made

    def is_locked(self, host: NDArray[Any]) -> bool:
        return False

    def page_locked(self, host: NDArray[Any]) -> AbstractContextManager[None]:
        return nullcontext()

    def stream(self) -> Stream:
        return Stream()

    def reach(self, other: "EmulatedGpu") -> bool:
        return True

    def kernel(self, source: Path, name: str, defines: Mapping[str, int | str]) -> Kernel:
        key = (Path(source).resolve(), tuple(sorted(defines.items())))
        if key not in self._built:
            library, names = build(source, defines, self.optimization)
            text = Path(source).read_text()
            self._built[key] = {n: Kernel(self, library, n, text) for n in names}
        if name not in self._built[key]:
            raise ValueError(f"{source} has no kernel {name!r}; it has {', '.join(self._built[key]) or 'none'}")
        return self._built[key][name]

    def encode_rows(self, data: DeviceArray, inputs: int, polarizations: int, rows: int) -> NDArray[np.uint8]:
        """What stands for a tensor map in the emulated ``ryle/correlate/hopper.cuh``."""
        lies = Lying.of(data, polarizations)
        fields = np.zeros(16, np.uint64)
        sizes = inputs // polarizations, polarizations, lies.blocks, lies.channels, rows // polarizations, lies.row
        fields[:10] = data.pointer, *sizes, lies.channel, lies.block, lies.antenna
        return fields.view(np.uint8)

    def encode_samples(self, data: DeviceArray, width: int, extents: list[int], box: list[int]) -> NDArray[np.uint8]:
        """What stands for a tensor map of samples there."""
        fields = np.zeros(16, np.uint64)
        fields[:7] = data.pointer, width, *extents, box[0], box[2]
        return fields.view(np.uint8)
