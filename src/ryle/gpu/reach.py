"""Whether cores can write to a GPU's memory, as ``copies = 1`` needs: ``python -m ryle.gpu.reach [GPU]``.

Each way that CUDA knows is tried with a piece of memory: bytes are written by a core, and compared with what the GPU
has. What refuses is named. Nothing here moves data to the host instead: managed memory does where cores cannot reach.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from cuda.bindings import driver
from numpy.typing import NDArray

from ryle.gpu.device import CudaGpu

_BYTES = 64 << 20


class Refused(Exception):  # noqa: N818 (it says what is the matter, as GpuUnavailable does)
    """A way does not work here; the message says what said so."""


def _ask(name: str, *arguments: Any) -> Any:
    """Call the driver; whatever it answers but success is a refusal."""
    result, *values = getattr(driver, name)(*arguments)
    if result != driver.CUresult.CUDA_SUCCESS:
        raise Refused(f"{name}: {result.name}")
    return values[0] if values else None


def _attribute(gpu: CudaGpu, name: str) -> int:
    attribute = getattr(driver.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}", None)
    if attribute is None:
        raise Refused(f"these bindings do not know {name}")
    return int(_ask("cuDeviceGetAttribute", attribute, gpu.handle))


@contextmanager
def _allocated() -> Iterator[int]:
    pointer = int(_ask("cuMemAlloc", _BYTES))
    try:
        yield pointer
    finally:
        driver.cuMemFree(pointer)


def _compare(pointer: int, host: NDArray[np.uint8]) -> float:
    """Write as a core, read as the GPU; give how many bytes a second were written."""
    wanted = np.random.default_rng(1).integers(0, 256, _BYTES, np.uint8)
    best = 0.0
    for _ in range(3):
        began = time.perf_counter()
        host[...] = wanted
        best = max(best, _BYTES / (time.perf_counter() - began))
    got = np.empty(_BYTES, np.uint8)
    _ask("cuMemcpyDtoH", got.ctypes.data, pointer, _BYTES)
    if not np.array_equal(got, wanted):
        raise Refused("the GPU does not have what was written")
    return best


def by_dma_buf(gpu: CudaGpu, flags: int) -> float:
    """Map the file that other devices' drivers get, by which the memory is shared over the bus."""
    if not _attribute(gpu, "DMA_BUF_SUPPORTED"):
        raise Refused("DMA_BUF_SUPPORTED is 0: the driver's kernel part is not the open one")
    with _allocated() as pointer:
        kind = driver.CUmemRangeHandleType.CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD
        file = int(_ask("cuMemGetHandleForAddressRange", pointer, _BYTES, kind, flags))
        try:
            memory = mmap.mmap(file, _BYTES, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
        except (OSError, ValueError) as error:
            raise Refused(f"mmap of the dma-buf: {error}") from None
        finally:
            os.close(file)
        return _compare(pointer, np.frombuffer(memory, np.uint8))


def by_access(gpu: CudaGpu, where: str) -> float:
    """Ask for the host's access to memory that lies on the GPU."""
    what = driver.CUmemAllocationProp()
    what.type = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    what.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    what.location.id = gpu.ordinal
    handle = _ask("cuMemCreate", _BYTES, what, 0)
    pointer = int(_ask("cuMemAddressReserve", _BYTES, 0, 0, 0))
    try:
        _ask("cuMemMap", pointer, _BYTES, 0, handle, 0)
        may = []
        for kind, number in (("DEVICE", gpu.ordinal), (where, 0)):
            each = driver.CUmemAccessDesc()
            each.location.type = getattr(driver.CUmemLocationType, f"CU_MEM_LOCATION_TYPE_{kind}")
            each.location.id = number
            each.flags = driver.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
            may.append(each)
        _ask("cuMemSetAccess", pointer, _BYTES, may, len(may))
        return _compare(pointer, _at(pointer))
    finally:
        driver.cuMemUnmap(pointer, _BYTES)
        driver.cuMemAddressFree(pointer, _BYTES)
        driver.cuMemRelease(handle)


def by_managed(gpu: CudaGpu) -> float:
    """Use managed memory that stays on the GPU, where cores reach it without moving it."""
    if not _attribute(gpu, "DIRECT_MANAGED_MEM_ACCESS_FROM_HOST"):
        raise Refused("DIRECT_MANAGED_MEM_ACCESS_FROM_HOST is 0: managed memory would move to the host")
    pointer = int(_ask("cuMemAllocManaged", _BYTES, driver.CUmemAttach_flags.CU_MEM_ATTACH_GLOBAL.value))
    try:
        there = driver.CUmemLocation()
        there.type, there.id = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE, gpu.ordinal
        _ask("cuMemAdvise", pointer, _BYTES, driver.CUmem_advise.CU_MEM_ADVISE_SET_PREFERRED_LOCATION, there)
        _ask("cuMemsetD8", pointer, 0, _BYTES)
        return _compare(pointer, _at(pointer))
    finally:
        driver.cuMemFree(pointer)


def by_gdrcopy(gpu: CudaGpu) -> float:
    """Look for GDRCopy's kernel module, which maps what GPUDirect RDMA pins."""
    if not Path("/dev/gdrdrv").exists():
        raise Refused("/dev/gdrdrv is not there: the kernel module gdrdrv is not loaded")
    raise Refused("/dev/gdrdrv is there, and Ryle does not use it yet")


def _at(pointer: int) -> NDArray[np.uint8]:
    return np.frombuffer(memoryview((ctypes.c_uint8 * _BYTES).from_address(pointer)), np.uint8)


WAYS: dict[str, Callable[[CudaGpu], float]] = {
    "dma-buf, mapped": lambda gpu: by_dma_buf(gpu, 0),
    "dma-buf over PCIe, mapped": lambda gpu: by_dma_buf(
        gpu, int(driver.CUmemRangeFlags.CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE)
    ),
    "cuMemSetAccess for the host": lambda gpu: by_access(gpu, "HOST"),
    "cuMemSetAccess for the host's memory node": lambda gpu: by_access(gpu, "HOST_NUMA"),
    "managed memory on the GPU": by_managed,
    "GDRCopy": by_gdrcopy,
}


def window_bytes(gpu: CudaGpu) -> int:
    """Size of the window in which the bus shows the GPU's memory (BAR1), 0 if it is not known."""
    number = _ask("cuDeviceGetPCIBusId", 64, gpu.handle).split(b"\0")[0].decode().lower()
    try:
        line = Path(f"/sys/bus/pci/devices/{number}/resource").read_text().splitlines()[1].split()
    except (OSError, IndexError):
        return 0
    return int(line[1], 16) - int(line[0], 16) + 1 if int(line[1], 16) else 0


def reach(gpu: CudaGpu) -> Iterator[tuple[str, float | str]]:
    """Try each way; give its name and bytes a second by one core, or what refused."""
    for name, way in WAYS.items():
        try:
            with gpu.using(name):
                yield name, way(gpu)
        except Refused as refusal:
            yield name, str(refusal)


def main() -> None:
    """Say what works here."""
    gpu = CudaGpu(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    window = window_bytes(gpu)
    print(f"{gpu.name}, {gpu.driver}, window on the bus (BAR1) {f'{window >> 20} MiB' if window else 'not known'}")
    for name, found in reach(gpu):
        said = f"a core writes {found / 1e9:.2f} GB/s" if isinstance(found, float) else f"refused: {found}"
        print(f"  {name}: {said}", flush=True)


if __name__ == "__main__":
    main()
