"""A real NVIDIA GPU behind the protocols of `ryle.gpu.interface`, by cuda-core.

cuda-core gives devices, streams, events, loading and launching. Memory comes from the driver itself: cuda-core's own
allocations are ordered by one stream and may be given to others while another stream still reads them, and it has no
copies between host arrays and the device.
"""

from __future__ import annotations

import ctypes
import math
import threading
import weakref
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from cuda.bindings import driver
from cuda.core import Device, EventOptions, LaunchConfig, ObjectCode, launch
from cuda.core._utils.cuda_utils import CUDAError
from numpy.typing import DTypeLike, NDArray

from ryle.gpu.cache import cached_compile
from ryle.gpu.interface import (
    DeviceArray,
    Event,
    Gpu,
    GpuError,
    Index3,
    Scalar,
    Shape,
    Stream,
    check_box,
    check_columns,
)
from ryle.gpu.parameters import in_order, parameter_names
from ryle.stream import block

__all__ = ["CudaArray", "CudaEvent", "CudaGpu", "CudaKernel", "CudaStream", "architecture"]

_PAGE = 4096
_SLEEPS = EventOptions(timing_enabled=True, blocking_sync=True)
SCALARS = (np.int32, np.uint32, np.int64, np.uint64, np.float32, np.float64)


class CudaEvent:
    """See `ryle.gpu.interface.Event`."""

    def __init__(self, gpu: CudaGpu, event: Any) -> None:
        self._gpu, self.core = gpu, event

    @property
    def passed(self) -> bool:
        with self._gpu.using("looking at an event"):
            return bool(self.core.is_done)

    def synchronize(self) -> None:
        with self._gpu.using("waiting for an event"):
            self.core.sync()

    def seconds_since(self, earlier: Event) -> float:
        assert isinstance(earlier, CudaEvent)
        earlier.synchronize()
        self.synchronize()
        with self._gpu.using("comparing two events"):
            return float(self.core - earlier.core) * 1e-3


class CudaStream:
    """See `ryle.gpu.interface.Stream`."""

    def __init__(self, gpu: CudaGpu, stream: Any) -> None:
        self._gpu, self.core = gpu, stream
        self.handle = int(stream.handle)

    def record(self) -> CudaEvent:
        with self._gpu.using("recording an event"):
            # Whoever waits sleeps: a spinning core is missed by the receiving threads.
            return CudaEvent(self._gpu, self.core.record(options=_SLEEPS))

    def wait(self, event: block.Event) -> None:
        assert isinstance(event, CudaEvent)
        with self._gpu.using("letting a stream wait"):
            self.core.wait(event.core)

    def synchronize(self) -> None:
        self.record().synchronize()

    def using(self, what: str) -> AbstractContextManager[None]:
        """See `CudaGpu.using`."""
        return self._gpu.using(what)


class CudaArray:
    """See `ryle.gpu.interface.DeviceArray`; made by `CudaGpu.empty`."""

    def __init__(
        self, gpu: CudaGpu, memory: _Memory, shape: tuple[int, ...], dtype: np.dtype[Any], first: int = 0
    ) -> None:
        self._gpu, self._memory, self._first = gpu, memory, first
        self.shape, self.dtype = shape, dtype
        self.nbytes = math.prod(shape) * dtype.itemsize
        self.pointer = memory.pointer + first

    def __repr__(self) -> str:
        return f"CudaArray(shape={self.shape}, dtype={self.dtype}, pointer={self.pointer:#x})"

    def set(self, host: NDArray[Any], stream: Stream | None = None) -> None:
        host = np.asarray(host)
        self._check(host, "the host array")
        host = np.ascontiguousarray(host)  # the driver reads pageable memory before it returns: a temporary may go
        if self.nbytes:
            with self._gpu.using("copying to the device"):
                _call(driver.cuMemcpyHtoDAsync, self.pointer, host.ctypes.data, self.nbytes, self._gpu.queue(stream))

    def get(self, out: NDArray[Any] | None = None, stream: Stream | None = None) -> NDArray[Any]:
        out = np.empty(self.shape, self.dtype) if out is None else out
        self.copy_to(out, stream)
        (self._gpu.default_stream if stream is None else stream).synchronize()
        return out

    def copy_to(self, out: NDArray[Any] | DeviceArray, stream: Stream | None = None) -> None:
        self._check(out, "the array to copy to")
        if isinstance(out, np.ndarray) and not (out.flags.c_contiguous and out.flags.writeable):
            raise ValueError("the array to copy to must be C-contiguous and writeable; copy to a fresh one")
        if not self.nbytes:
            return
        with self._gpu.using("copying from the device"):
            queue = self._gpu.queue(stream)
            if isinstance(out, np.ndarray):
                _call(driver.cuMemcpyDtoHAsync, out.ctypes.data, self.pointer, self.nbytes, queue)
            else:
                _call(driver.cuMemcpyDtoDAsync, out.pointer, self.pointer, self.nbytes, queue)

    def take_box(
        self, at: Index3, source: DeviceArray, first: Index3, box: Index3, stream: Stream | None = None
    ) -> None:
        assert isinstance(source, CudaArray)
        check_box(self.shape, at, box)
        check_box(source.shape, first, box)
        if source.dtype != self.dtype:
            raise TypeError(f"the source is of type {source.dtype}; it must be {self.dtype}")
        if not all(box):
            return
        # Two devices have two contexts, which the driver wants named; in one it takes the plain copy alone.
        far, size = source._gpu._context != self._gpu._context, self.dtype.itemsize
        copy = driver.CUDA_MEMCPY3D_PEER() if far else driver.CUDA_MEMCPY3D()
        copy.srcMemoryType = copy.dstMemoryType = driver.CUmemorytype.CU_MEMORYTYPE_DEVICE
        copy.srcDevice, copy.dstDevice = source.pointer, self.pointer
        copy.srcPitch, copy.dstPitch = source.shape[2] * size, self.shape[2] * size
        copy.srcHeight, copy.dstHeight = source.shape[1], self.shape[1]
        copy.srcZ, copy.srcY, copy.srcXInBytes = first[0], first[1], first[2] * size
        copy.dstZ, copy.dstY, copy.dstXInBytes = at[0], at[1], at[2] * size
        copy.Depth, copy.Height, copy.WidthInBytes = box[0], box[1], box[2] * size
        queue = self._gpu.default_stream if stream is None else stream
        assert isinstance(queue, CudaStream)
        with queue.using("copying a box"):
            if far:
                copy.srcContext, copy.dstContext = source._gpu._context, self._gpu._context
                _call(driver.cuMemcpy3DPeerAsync, copy, queue.handle)
            else:
                _call(driver.cuMemcpy3DAsync, copy, queue.handle)

    def set_columns(self, first: int, host: NDArray[Any], stream: Stream | None = None) -> None:
        rows, pitch, width = self.shape[0], self._row, host[0].nbytes
        check_columns(self.shape, pitch, first, width)
        if len(host) != rows or not host[0].flags.c_contiguous:
            raise ValueError(f"the host array has shape {host.shape}; use {rows} rows, each contiguous")
        copy = driver.CUDA_MEMCPY2D()
        copy.srcMemoryType = driver.CUmemorytype.CU_MEMORYTYPE_HOST
        copy.srcHost, copy.srcPitch = host.ctypes.data, host.strides[0]
        copy.dstMemoryType = driver.CUmemorytype.CU_MEMORYTYPE_DEVICE
        copy.dstDevice, copy.dstPitch, copy.dstXInBytes = self.pointer, pitch, first
        copy.WidthInBytes, copy.Height = width, rows
        with self._gpu.using("copying columns to the device"):
            _call(driver.cuMemcpy2DAsync, copy, self._gpu.queue(stream))

    def move_columns(self, to: int, first: int, count: int, stream: Stream | None = None) -> None:
        pitch = self._row
        check_columns(self.shape, pitch, first, count)
        check_columns(self.shape, pitch, to, count)
        if abs(to - first) < count:
            raise ValueError(f"{count} bytes from {first} on and from {to} on overlap")
        copy = driver.CUDA_MEMCPY2D()
        copy.srcMemoryType = copy.dstMemoryType = driver.CUmemorytype.CU_MEMORYTYPE_DEVICE
        copy.srcDevice = copy.dstDevice = self.pointer
        copy.srcPitch = copy.dstPitch = pitch
        copy.srcXInBytes, copy.dstXInBytes = first, to
        copy.WidthInBytes, copy.Height = count, self.shape[0]
        if count:
            with self._gpu.using("copying columns"):
                _call(driver.cuMemcpy2DAsync, copy, self._gpu.queue(stream))

    def fill_columns(self, first: int, count: int, byte: int, stream: Stream | None = None) -> None:
        check_columns(self.shape, self._row, first, count)
        if count:
            with self._gpu.using("filling columns"):
                at, queue = self.pointer + first, self._gpu.queue(stream)
                _call(driver.cuMemsetD2D8Async, at, self._row, byte, count, self.shape[0], queue)

    @property
    def _row(self) -> int:
        """Bytes of a row."""
        return self.nbytes // self.shape[0]

    def fill(self, byte: int, stream: Stream | None = None) -> None:
        if not 0 <= byte <= 255:
            raise ValueError(f"byte is {byte}; it must be from 0 to 255")
        if self.nbytes:
            with self._gpu.using("filling memory"):
                _call(driver.cuMemsetD8Async, self.pointer, byte, self.nbytes, self._gpu.queue(stream))

    def view(self, shape: Shape, dtype: DTypeLike, first: int = 0) -> CudaArray:
        view = CudaArray(self._gpu, self._memory, _shape(shape), np.dtype(dtype), self._first + first)
        if first < 0 or first + view.nbytes > self.nbytes:
            raise ValueError(
                f"a view of shape {view.shape} and type {view.dtype} needs {view.nbytes} bytes from {first} on; "
                f"the array of shape {self.shape} and type {self.dtype} has {self.nbytes}"
            )
        return view

    def _check(self, other: NDArray[Any] | DeviceArray, name: str) -> None:
        if other.dtype != self.dtype:
            raise TypeError(f"{name} is of type {other.dtype}; it must be {self.dtype}")
        if other.shape != self.shape:
            raise ValueError(f"{name} has shape {other.shape}; it must be {self.shape}")


class CudaKernel:
    """See `ryle.gpu.interface.Kernel`; made by `CudaGpu.kernel`, from machine code and the source that it came from."""

    def __init__(self, gpu: CudaGpu, name: str, cubin: bytes, source: str) -> None:
        self._gpu, self.name = gpu, name
        with gpu.using(f"loading kernel {name}"):
            self._code = ObjectCode.from_cubin(cubin, name=name)
            self.core = self._code.get_kernel(name)
            attributes = self.core.attributes[gpu.ordinal]
            self.registers = int(attributes.num_regs)
            self.local_bytes = int(attributes.local_size_bytes)
            self.shared_bytes = int(attributes.shared_size_bytes)
            self._most_threads = int(attributes.max_threads_per_block)
            self._sizes = [int(size) for _, size in self.core.arguments_info]
            self.parameters = parameter_names(source, name, len(self._sizes))
            # Beyond 48 KiB a block gets shared memory only if its kernel says so beforehand.
            self._most_shared = gpu.shared_bytes - self.shared_bytes
            _call(
                driver.cuKernelSetAttribute,
                driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                self._most_shared,
                self.core.handle,
                gpu.handle,
            )

    def __repr__(self) -> str:
        return f"CudaKernel({self.name}: {self.registers} registers, {self.local_bytes} bytes of local memory)"

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
        grid, block = _shape(grid), _shape(block)
        if not all(1 <= len(sizes) <= 3 and min(sizes) >= 1 for sizes in (grid, block)):
            raise ValueError(f"{self.name}: grid {grid} of blocks {block}; give 1 to 3 numbers of at least 1 each")
        if math.prod(block) > self._most_threads:
            raise ValueError(f"{self.name}: a block of {block} threads; this kernel's limit is {self._most_threads}")
        if not 0 <= shared <= self._most_shared:
            raise ValueError(f"{self.name}: {shared} bytes of shared memory; a block can have {self._most_shared} here")
        given = in_order(self.name, self.parameters, args)
        values = [self._value(*each) for each in zip(self.parameters, given, self._sizes, strict=True)]
        config = LaunchConfig(grid=grid, block=block, shmem_size=shared)
        with self._gpu.using(f"launching kernel {self.name}"):
            launch(self._gpu.core_stream(stream), config, self.core, *values)

    def blocks_per_multiprocessor(self, block: int, shared: int) -> int:
        with self._gpu.using(f"asking for the occupancy of kernel {self.name}"):
            return int(self.core.occupancy.max_active_blocks_per_multiprocessor(block, shared))

    def _value(self, name: str, arg: DeviceArray | Scalar, size: int) -> Any:
        value: Any
        if isinstance(arg, CudaArray):
            value, given = arg.pointer, 8  # cuda-core passes Python integers as addresses
        elif isinstance(arg, SCALARS):
            value, given = arg, arg.dtype.itemsize
        else:
            raise TypeError(
                f"{self.name}: {name} is {arg!r}; give a device array, "
                "or a scalar of the parameter's own type, such as numpy.int32"
            )
        if given != size:
            raise TypeError(f"{self.name}: {name} is {arg!r} of {given} bytes; the kernel takes {size} bytes")
        return value


class CudaGpu:
    """See `ryle.gpu.interface.Gpu`; made by `ryle.gpu.open_gpu`. May be used from any thread."""

    def __init__(self, ordinal: int) -> None:
        self.ordinal = ordinal
        self.core = Device(ordinal)
        _THREAD.context = None  # cuda-core sets another
        self.core.set_current()
        self._context = _call(driver.cuCtxGetCurrent)
        self.handle = _call(driver.cuDeviceGet, ordinal)
        self.name = str(self.core.name)
        self.arch = architecture(*self.core.compute_capability)
        properties = self.core.properties
        self.multiprocessors = int(properties.multiprocessor_count)
        self.shared_bytes = int(properties.max_shared_memory_per_block_optin)
        self.memory_bytes = int(_call(driver.cuDeviceTotalMem, self.handle))
        version = _call(driver.cuDriverGetVersion)
        self.driver = f"CUDA {version // 1000}.{version % 1000 // 10}"
        self._kernels: dict[tuple[Any, ...], CudaKernel] = {}
        self._loading = threading.Lock()
        self.default_stream = self.stream()

    def __repr__(self) -> str:
        return f"CudaGpu({self.name}, {self.arch}, {self.memory_bytes / 2**30:.0f} GiB, {self.driver})"

    def empty(self, shape: Shape, dtype: DTypeLike) -> CudaArray:
        shape, element = _shape(shape), np.dtype(dtype)
        return CudaArray(self, _Memory(self, math.prod(shape) * element.itemsize), shape, element)

    def array(self, host: NDArray[Any], stream: Stream | None = None) -> CudaArray:
        host = np.asarray(host)
        array = self.empty(host.shape, host.dtype)
        array.set(host, stream)
        return array

    def pinned(self, shape: Shape, dtype: DTypeLike) -> NDArray[Any]:
        shape, element = _shape(shape), np.dtype(dtype)
        nbytes = math.prod(shape) * element.itemsize
        if not nbytes:
            return np.empty(shape, element)
        with self.using(f"allocating {nbytes} bytes of page-locked host memory"):
            # The driver puts several small pieces on one page.
            address = int(_call(driver.cuMemHostAlloc, nbytes + _PAGE, driver.CU_MEMHOSTALLOC_PORTABLE))
        # Every numpy view holds on to `held`, so the memory goes with the last of them.
        held = (ctypes.c_uint8 * nbytes).from_address(-(-address // _PAGE) * _PAGE)
        weakref.finalize(held, _free, driver.cuMemFreeHost, address, self._context).atexit = False
        return np.frombuffer(memoryview(held), element).reshape(shape)

    def is_locked(self, host: NDArray[Any]) -> bool:
        # The driver knows no address that it has not allocated or been told of.
        kind = driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_MEMORY_TYPE
        with self.using("looking at memory"):
            result, found = driver.cuPointerGetAttribute(kind, host.ctypes.data)
        return bool(
            result == driver.CUresult.CUDA_SUCCESS and int(found) == int(driver.CUmemorytype.CU_MEMORYTYPE_HOST)
        )

    @contextmanager
    def page_locked(self, host: NDArray[Any]) -> Iterator[None]:
        address = host.ctypes.data
        with self.using(f"page-locking {host.nbytes} bytes of host memory"):
            _call(driver.cuMemHostRegister, address, host.nbytes, driver.CU_MEMHOSTREGISTER_PORTABLE)
        try:
            yield
        finally:
            with self.using("unlocking host memory"):
                _call(driver.cuMemHostUnregister, address)

    def stream(self) -> CudaStream:
        with self.using("making a stream"):
            return CudaStream(self, self.core.create_stream())

    def reach(self, other: Gpu) -> bool:
        assert isinstance(other, CudaGpu)
        if other._context == self._context:
            return True
        with self.using(f"asking for access to GPU {other.ordinal}"):
            if not _call(driver.cuDeviceCanAccessPeer, self.handle, other.handle):
                return False
            (result,) = driver.cuCtxEnablePeerAccess(other._context, 0)
            if result != driver.CUresult.CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED:
                _check(result)
        return True

    def kernel(self, source: Path, name: str, defines: Mapping[str, int | str]) -> CudaKernel:
        key = (source.resolve(), name, tuple(sorted(defines.items())))
        with self._loading:
            if key not in self._kernels:
                compiled = cached_compile(source, defines, self.arch)
                if name not in compiled.resources:
                    there = ", ".join(compiled.resources) or "none"
                    raise ValueError(f"{source.name} has no kernel {name!r}; it has: {there}")
                self._kernels[key] = CudaKernel(self, name, compiled.cubin, source.read_text())
            return self._kernels[key]

    def using(self, what: str) -> _Using:
        """Make the device the calling thread's, and name what is done in the errors of the driver."""
        return _Using(self, what)

    def core_stream(self, stream: Stream | None) -> Any:
        """Give cuda-core's stream of a stream, the default one of None."""
        stream = self.default_stream if stream is None else stream
        assert isinstance(stream, CudaStream)
        return stream.core

    def queue(self, stream: Stream | None) -> int:
        """Give the driver's handle of a stream, of the default one for None."""
        return (self.default_stream if stream is None else stream).handle


def architecture(major: int, minor: int) -> str:
    """Give what kernels are compiled for on a device of a compute capability.

    Parameters
    ----------
    major, minor : int
        Compute capability.

    Returns
    -------
    str
        ``"sm_90a"`` for 9.0, whose matrix instructions exist only there; else plain, as ``"sm_86"``.
    """
    return f"sm_{major}{minor}" + ("a" if (major, minor) == (9, 0) else "")


class _DriverError(Exception):
    """The driver returned an error."""


#: The context that is current in each thread; everything that sets one is in this module.
_THREAD = threading.local()


class _Using:
    """See `CudaGpu.using`; engines enter thousands a second."""

    __slots__ = ("_gpu", "_what")

    def __init__(self, gpu: CudaGpu, what: str) -> None:
        self._gpu, self._what = gpu, what

    def __enter__(self) -> None:
        if getattr(_THREAD, "context", None) is not self._gpu._context:
            try:
                _set_current(self._gpu._context)
            except _DriverError as error:
                raise GpuError(f"{self._what} failed on {self._gpu.name}: {error}") from error

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, CUDAError | _DriverError):
            raise GpuError(f"{self._what} failed on {self._gpu.name}: {error}") from error


def _set_current(context: Any) -> None:
    _THREAD.context = None
    _call(driver.cuCtxSetCurrent, context)
    _THREAD.context = context


class _Memory:
    """A piece of the device's memory, freed with this object."""

    def __init__(self, gpu: CudaGpu, nbytes: int) -> None:
        self.pointer = 0
        if not nbytes:
            return
        with gpu.using(f"allocating {nbytes} bytes"):
            result, pointer = driver.cuMemAlloc(nbytes)
            if result == driver.CUresult.CUDA_ERROR_OUT_OF_MEMORY:
                free, total = _call(driver.cuMemGetInfo)
                raise MemoryError(
                    f"no room for {nbytes / 2**30:.2f} GiB on {gpu.name}, of whose {total / 2**30:.2f} GiB "
                    f"{free / 2**30:.2f} are free; ask for less at a time, or end other programs that use this GPU"
                )
            _check(result)
        self.pointer = int(pointer)
        # The end of the process frees everything without our help.
        weakref.finalize(self, _free, driver.cuMemFree, self.pointer, gpu._context).atexit = False


def _free(release: Any, address: int, context: Any) -> None:
    """Free memory in whatever thread the last reference went; errors have been told by the work that caused them."""
    _THREAD.context = None
    driver.cuCtxSetCurrent(context)
    release(address)


def _call(function: Any, *args: Any) -> Any:
    """Call the driver; give its result, or all of them if there are several."""
    result, *values = function(*args)
    _check(result)
    return values[0] if len(values) == 1 else tuple(values) if values else None


def _check(result: Any) -> None:
    if result != driver.CUresult.CUDA_SUCCESS:
        _, text = driver.cuGetErrorString(result)
        raise _DriverError(f"{result.name} ({text.decode() if text else 'no explanation'})")


def _shape(shape: Shape) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, int) else tuple(shape)
