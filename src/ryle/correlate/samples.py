"""Multiplying samples in the orders of others on Hopper: the kernel makes K-blocks of them on their way.

A pass before it would cost another trip through the GPU's memory, as long as multiplying 64 inputs takes.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ryle.chunk import BLOCK
from ryle.correlate.correlator import CorrelatorConfig
from ryle.correlate.foreign import Order
from ryle.correlate.multiply import HopperMultiply, check_run
from ryle.correlate.tensor_maps import encode_map
from ryle.gpu.interface import DeviceArray, Gpu, Stream

_FOLDER = Path(__file__).parent
_THREADS = 256


class SamplesMultiply(HopperMultiply):
    """`hopper.cu` for samples of 8 bits, which it transposes on their way; parameters as of `PortableMultiply`.

    Raises
    ------
    ValueError
        If it does not take so many inputs or polarizations.
    """

    #: The order of the samples, as in messages, and the kernel's macro.
    order: str
    macro: str
    BESIDE = True

    def __init__(self, gpu: Gpu, inputs: int, polarizations: int) -> None:
        if not self.takes(inputs, polarizations):
            raise ValueError(
                f"{inputs} inputs of {polarizations} polarizations: the kernel does not take {self.order} of so many; "
                "make K-blocks of them with ryle.correlate.foreign.Foreign.arrange"
            )
        super().__init__(gpu, inputs, polarizations)
        self._polarizations = polarizations
        self._zero_samples = gpu.kernel(_FOLDER / "prepare.cu", "zero_samples", {})
        self._none = gpu.array(np.zeros(1, np.uint64))
        gpu.default_stream.synchronize()

    @classmethod
    @abstractmethod
    def takes(cls, inputs: int, polarizations: int) -> bool:
        """Whether samples of so many inputs can be multiplied."""

    @classmethod
    @abstractmethod
    def shape(cls, inputs: int, polarizations: int, channels: int, spectra: int) -> tuple[int, ...]:
        """Give the shape of samples."""

    @abstractmethod
    def _sizes(self, samples: DeviceArray) -> tuple[int, int]:
        """Give the channels and spectra of samples."""

    @abstractmethod
    def _order(self, config: CorrelatorConfig, spectra: int) -> Order:
        """Say where samples lie."""

    @abstractmethod
    def _map(self, samples: DeviceArray, inputs: int) -> NDArray[np.uint8]:
        """Describe samples to the copy engine, for boxes of so many inputs."""

    @staticmethod
    def spare(inputs: int) -> int:
        """Give the inputs that the first run has beyond 128; in longer arrays there is no room for them."""
        return HopperMultiply.spare(inputs) if inputs < 256 else 0

    @classmethod
    def defines(cls, inputs: int, polarizations: int, bits: int = 8, shared: int = 232448) -> Mapping[str, int]:
        """Macros of the kernel."""
        return {**super().defines(inputs, polarizations, bits, shared), cls.macro: 1}

    def zero_invalid(
        self, samples: DeviceArray, valid: DeviceArray, first_block: int, blocks: int, stream: Stream | None = None
    ) -> None:
        """Enqueue zeros where spectra are invalid.

        Parameters
        ----------
        samples : DeviceArray of int8, shape as of `shape`
            Changed in place.
        valid : DeviceArray of uint64, shape (channel group, block, input)
            Bit ``s`` is set where spectrum ``s`` of the block is valid.
        first_block, blocks : int
            The run of blocks of 64 spectra that is looked at.
        stream : Stream, optional
            Where it is enqueued.
        """
        channels, spectra = self._sizes(samples)
        groups, held, _ = valid.shape
        group_channels = channels // groups
        lies = self._order(CorrelatorConfig(self._inputs, channels, self._polarizations), spectra)
        self._zero_samples.launch(
            (-(-blocks * self._inputs * 32 // _THREADS), min(group_channels, 64), groups),
            _THREADS,
            samples=samples,
            valid=valid,
            inputs=np.int32(self._inputs),
            pols=np.int32(self._polarizations),
            channel_stride=np.int64(lies.channel),
            spectrum_stride=np.int64(lies.spectrum),
            antenna_stride=np.int64(lies.antenna),
            pol_stride=np.int64(lies.polarization),
            all_blocks=np.int32(held),
            first_block=np.int32(first_block),
            blocks=np.int32(blocks),
            group_channels=np.int32(group_channels),
            stream=stream,
        )

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
        samples : DeviceArray of int8, shape as of `shape`
            With zeros where spectra are invalid.
        clamped : DeviceArray of uint64, shape (1,), optional
            Parts of -128 are taken as -127 and counted here. Without it there must be none.
        sums, first_block, blocks, integrations, add, stream
            As of `Multiply`; a block is 64 spectra.
        """
        channels, spectra = self._sizes(samples)
        expected = self.shape(self._inputs, self._polarizations, channels, spectra)
        if samples.shape != expected or spectra % BLOCK:
            raise ValueError(
                f"samples has shape {samples.shape}; it must be {expected}, and the spectra a multiple of {BLOCK}"
            )
        rows = samples.view((channels, spectra // BLOCK, self._inputs, 2 * BLOCK), np.int8)
        check_run(rows, sums, first_block, blocks, integrations, self._inputs, 8)
        counter = self._none if clamped is None else clamped
        clamp = np.int32(clamped is not None)
        self._launch(samples, sums, first_block, blocks, add, stream, clamped=counter, clamp=clamp)

    def _maps_of(self, data: DeviceArray, stream: Stream | None) -> DeviceArray:
        """Describe the samples to the copy engine: boxes of 64 inputs."""

        def make() -> NDArray[np.uint8]:
            return self._map(data, 64)

        return self._kept(self._maps, (data.pointer, data.shape), make, stream)

    def _encode(self, data: DeviceArray, width: int, extents: list[int], box: list[int]) -> NDArray[np.uint8]:
        """Make a tensor map of elements of 2 or 4 bytes; boxes of 128 bytes a row are swizzled on their way."""
        if hasattr(self._gpu, "encode_samples"):  # an emulated GPU has maps of its own
            made: NDArray[np.uint8] = self._gpu.encode_samples(data, width, extents, box)
            return made
        from cuda.bindings import driver

        kinds, swizzle = driver.CUtensorMapDataType, driver.CUtensorMapSwizzle
        return encode_map(
            data,
            kinds.CU_TENSOR_MAP_DATA_TYPE_UINT16 if width == 2 else kinds.CU_TENSOR_MAP_DATA_TYPE_UINT32,
            extents,
            [width * extents[0], width * extents[0] * extents[1]],
            box,
            swizzle.CU_TENSOR_MAP_SWIZZLE_128B if width * box[0] == 128 else swizzle.CU_TENSOR_MAP_SWIZZLE_NONE,
        )


class TimeMajorMultiply(SamplesMultiply):
    """Samples [spectrum][channel][input], as PAPER's and other FPGA F-engines' packets are gathered."""

    order, macro = "time-major samples", "TIME_MAJOR"

    @classmethod
    def takes(cls, inputs: int, polarizations: int) -> bool:
        """Multiples of 8, as the copy engine needs it."""
        return inputs % 8 == 0

    @classmethod
    def shape(cls, inputs: int, polarizations: int, channels: int, spectra: int) -> tuple[int, ...]:
        """(spectrum, channel, input, 2)."""
        return spectra, channels, inputs, 2

    def _sizes(self, samples: DeviceArray) -> tuple[int, int]:
        return samples.shape[1], samples.shape[0]

    def _order(self, config: CorrelatorConfig, spectra: int) -> Order:
        return Order.time_major(config)

    def _map(self, samples: DeviceArray, inputs: int) -> NDArray[np.uint8]:
        spectra, channels, held, _ = samples.shape
        return self._encode(samples, 2, [held, channels, spectra], [inputs, 1, BLOCK])


class HeapsMultiply(SamplesMultiply):
    """Samples [antenna][channel][spectrum][polarization]: one MeerKAT F-engine heap an antenna."""

    order, macro = "heaps", "HEAPS"

    @classmethod
    def takes(cls, inputs: int, polarizations: int) -> bool:
        """Antennas of two polarizations."""
        return polarizations == 2

    @classmethod
    def shape(cls, inputs: int, polarizations: int, channels: int, spectra: int) -> tuple[int, ...]:
        """(antenna, channel, spectrum, polarization, 2)."""
        return inputs // polarizations, channels, spectra, polarizations, 2

    def _sizes(self, samples: DeviceArray) -> tuple[int, int]:
        return samples.shape[1], samples.shape[2]

    def _order(self, config: CorrelatorConfig, spectra: int) -> Order:
        return Order.heaps(config, spectra)

    def _map(self, samples: DeviceArray, inputs: int) -> NDArray[np.uint8]:
        antennas, channels, spectra, _, _ = samples.shape
        return self._encode(samples, 4, [spectra, channels, antennas], [32, 1, inputs // 2])


SampleOrder = Literal["time_major", "heaps"]
SAMPLES: dict[str, type[SamplesMultiply]] = {"time_major": TimeMajorMultiply, "heaps": HeapsMultiply}


def compile_variants() -> list[tuple[Any, ...]]:
    """List what the tests compile: sources, macros and the architecture."""
    source = HopperMultiply.SOURCE
    variants: list[tuple[Any, ...]] = []
    for inputs in (72, 160, 504):
        variants.append((source, TimeMajorMultiply.defines(inputs, 1), ("sm_90a",)))
    for form in TimeMajorMultiply, HeapsMultiply:
        for inputs in (8, 64, 128, 144, 160, 256, 504, 1024):
            variants.append((source, form.defines(inputs, 2), ("sm_90a",)))
    return variants
