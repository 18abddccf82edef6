"""Where rows lie in the GPU's memory, and how Hopper's copy engine is told: tensor maps."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np

from ryle.gpu.interface import DeviceArray, GpuError


@dataclass(frozen=True, slots=True)
class Lying:
    """Where rows lie on the GPU, in bytes from one to the next; those of an antenna's polarizations follow one another.

    Parameters
    ----------
    channels, blocks : int
        How many there are.
    row : int
        Bytes of a row.
    channel, block, antenna : int
        From a channel, block or antenna to the next.
    """

    channels: int
    blocks: int
    row: int
    channel: int
    block: int
    antenna: int

    @classmethod
    def of(cls, data: DeviceArray, polarizations: int) -> Lying:
        """Find it for K-blocks (channel, block, input, row), or rows (block, antenna, channel, polarization, row)."""
        row = data.shape[-1]
        if len(data.shape) == 4:
            channels, blocks, inputs, _ = data.shape
            return cls(channels, blocks, row, blocks * inputs * row, inputs * row, polarizations * row)
        blocks, antennas, channels, pols, _ = data.shape
        return cls(channels, blocks, row, pols * row, antennas * channels * pols * row, channels * pols * row)


def encode_rows(data: DeviceArray, inputs: int, polarizations: int, rows: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Make a ``CUtensorMap`` of K-blocks or rows (see `Lying`) for boxes of so many rows of one block.

    Rows of 128 and of 64 bytes are swizzled on their way, by so many bytes.

    Raises
    ------
    GpuError
        If the driver refuses it.
    """
    from cuda.bindings import driver

    swizzle = driver.CUtensorMapSwizzle
    lying = Lying.of(data, polarizations)
    return encode_map(
        data,
        driver.CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_UINT8,
        [lying.row, polarizations, inputs // polarizations, lying.blocks, lying.channels],
        [lying.row, lying.antenna, lying.block, lying.channel],
        [lying.row, polarizations, rows // polarizations, 1, 1],
        swizzle.CU_TENSOR_MAP_SWIZZLE_128B if lying.row == 128 else swizzle.CU_TENSOR_MAP_SWIZZLE_64B,
    )


def encode_map(
    data: DeviceArray, kind: Any, extents: list[int], strides: list[int], box: list[int], swizzle: Any
) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Make a ``CUtensorMap`` of an array of these extents and strides, all but the first, in bytes, for such boxes."""
    from cuda.bindings import driver

    error, tensor_map = driver.cuTensorMapEncodeTiled(
        kind,
        len(extents),
        data.pointer,
        [driver.cuuint64_t(n) for n in extents],
        [driver.cuuint64_t(n) for n in strides],
        [driver.cuuint32_t(n) for n in box],
        [driver.cuuint32_t(1)] * len(extents),
        driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        swizzle,
        driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
        driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
    )
    if error != driver.CUresult.CUDA_SUCCESS:
        raise GpuError(f"the driver refused a tensor map of data of shape {data.shape}: {error}")
    return np.frombuffer(ctypes.string_at(tensor_map.getPtr(), 128), np.uint8)
