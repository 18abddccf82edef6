"""Multiplying time-major samples on Hopper: the kernel makes K-blocks of them on their way.

A pass before it would cost another trip through the GPU's memory, as long as multiplying 64 inputs takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ryle.chunk import BLOCK
from ryle.correlate.multiply import HopperMultiply, check_run, encode_map
from ryle.gpu.interface import DeviceArray, Gpu, Stream


class TimeMajorMultiply(HopperMultiply):
    """`hopper.cu` for time-major samples, which it transposes on their way; parameters as of `PortableMultiply`.

    Raises
    ------
    ValueError
        If the number of inputs is not a multiple of 8, as the copy engine needs it.
    """

    name = "hopper"

    def __init__(self, gpu: Gpu, inputs: int, polarizations: int) -> None:
        if not self.takes(inputs):
            raise ValueError(f"inputs is {inputs}; time-major samples of a multiple of 8 inputs can be multiplied")
        super().__init__(gpu, inputs, polarizations)
        self._threads = 512 if inputs <= 64 or int(self.defines(inputs, polarizations)["TRANSPOSERS"]) > 3 else 384
        self._clamped = gpu.array(np.zeros(1, np.uint64))
        gpu.default_stream.synchronize()

    @staticmethod
    def takes(inputs: int) -> bool:
        """Whether samples of so many inputs can be multiplied."""
        return inputs % 8 == 0

    @staticmethod
    def spare(inputs: int) -> int:
        """Give the inputs that the first run has beyond 128; in longer arrays there is no room for them."""
        return HopperMultiply.spare(inputs) if inputs < 256 else 0

    @classmethod
    def defines(cls, inputs: int, polarizations: int, bits: int = 8, shared: int = 232448) -> Mapping[str, int]:
        """Macros of the kernel."""
        return {**super().defines(inputs, polarizations, bits, shared), "TIME_MAJOR": 1, "TRANSPOSERS": 3}

    def multiply(
        self,
        samples: DeviceArray,
        sums: DeviceArray,
        first_block: int,
        blocks: int,
        integrations: int = 1,
        add: bool = False,
        clamped: DeviceArray | None = None,
        stream: Stream | None = None,
    ) -> None:
        """Enqueue the sums of several integrations that follow each other.

        Parameters
        ----------
        samples : DeviceArray of int8, shape (spectrum, channel, input, 2)
            With zeros where spectra are invalid.
        clamped : DeviceArray of uint64, shape (1,), optional
            Parts of -128 are taken as -127 and counted here; in arrays of more than 160 inputs they are also changed in
            `samples`. Without it there must be none.
        sums, first_block, blocks, integrations, add, stream
            As of `Multiply`; a block is 64 spectra.
        """
        spectra, channels, inputs, parts = samples.shape
        if (inputs, parts) != (self._inputs, 2):
            raise ValueError(f"samples has shape {samples.shape}; it must end with {(self._inputs, 2)}")
        rows = samples.view((channels, spectra // BLOCK, inputs, 2 * BLOCK), np.int8)
        check_run(rows, sums, first_block, blocks, integrations, inputs, 8)
        # Tiles of a run with itself mend what others read after them.
        for mending in (True, False) if clamped is not None and self._runs > 1 else (None,):
            tiles = self._tiles_of(channels, integrations, stream, mending)
            works = tiles.shape[0] - 1
            self._kernel.launch(
                min(works, self._gpu.multiprocessors),
                self._threads,
                self._maps_of(samples, stream),
                tiles,
                sums,
                self._counter,
                *(np.int32(n) for n in (works, channels, first_block, blocks, add)),
                samples,
                self._clamped if clamped is None else clamped,
                np.int32(clamped is not None and mending is not False),
                shared=self._shared,
                stream=stream,
            )

    def _maps_of(self, data: DeviceArray, stream: Stream | None) -> DeviceArray:
        """Describe the samples to the copy engine: boxes of the spare inputs and of 64."""

        def make() -> NDArray[np.uint8]:
            encode = getattr(self._gpu, "encode_samples", encode_samples)
            return np.stack([encode(data, max(16, self.spare(self._inputs))), encode(data, 64)])

        return self._kept(self._maps, (data.pointer, data.shape), make, stream)


def encode_samples(data: DeviceArray, inputs: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Make a ``CUtensorMap`` of samples (spectrum, channel, input, 2) for boxes of 64 spectra and so many inputs.

    Those of 64 inputs are swizzled on their way.

    Raises
    ------
    GpuError
        If the driver refuses it.
    """
    from cuda.bindings import driver

    spectra, channels, held, _ = data.shape
    swizzle = driver.CUtensorMapSwizzle
    return encode_map(
        data,
        driver.CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_UINT16,
        [held, channels, spectra],
        [2 * held, 2 * held * channels],
        [inputs, 1, BLOCK],
        swizzle.CU_TENSOR_MAP_SWIZZLE_128B if inputs == 64 else swizzle.CU_TENSOR_MAP_SWIZZLE_NONE,
    )


def compile_variants() -> list[tuple[Any, ...]]:
    """List what the tests compile: sources, macros and the architecture."""
    source = Path(__file__).with_name("hopper.cu")
    sizes = (8, 1), (64, 2), (128, 2), (144, 2), (160, 2), (256, 2), (511 // 8 * 8, 1), (1024, 2)
    return [(source, TimeMajorMultiply.defines(*size), ("sm_90a",)) for size in sizes]
