"""Spectra in other orders and in four bits, made into K-blocks on the GPU.

Others' voltages come time-major, channel by channel in antennas' heaps, or packed. The X-engine's kernels take K-blocks
only; what is here rearranges on the GPU, at the speed of its memory. Hopper's kernel can do so on its way, see
`ryle.correlate.samples`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ryle.chunk import BLOCK
from ryle.correlate.correlator import CorrelatorConfig
from ryle.gpu.interface import DeviceArray, Gpu, Stream

_SOURCE = Path(__file__).with_name("prepare.cu")
_THREADS = 256
_TILE = 32  # inputs that a block of threads arranges


@dataclass(frozen=True, slots=True)
class Order:
    """Where samples lie: sample (channel, spectrum, antenna, polarization) at the sum of those times their strides.

    Parameters
    ----------
    channel, spectrum, antenna, polarization : int
        Strides, in samples.
    bits : int
        8: a sample is two bytes (re, im). 4: it is one byte, the real part in the high nibble.
    """

    channel: int
    spectrum: int
    antenna: int
    polarization: int
    bits: int = 8

    def __post_init__(self) -> None:
        if self.bits not in (4, 8):
            raise ValueError(f"bits is {self.bits}; samples of 4 and of 8 bits can be read")

    @classmethod
    def time_major(cls, config: CorrelatorConfig, bits: int = 8) -> Order:
        """Take samples [spectrum][channel][input], as PAPER's and other FPGA F-engines' packets are gathered."""
        return cls(config.inputs, config.inputs * config.channels, config.polarizations, 1, bits)

    @classmethod
    def heaps(cls, config: CorrelatorConfig, spectra: int, bits: int = 8) -> Order:
        """Take samples [antenna][channel][spectrum][polarization]: one MeerKAT F-engine heap an antenna."""
        pols = config.polarizations
        return cls(spectra * pols, pols, config.channels * spectra * pols, 1, bits)


class Foreign:
    """Makes K-blocks of others' spectra.

    Parameters
    ----------
    gpu : Gpu
        Device.
    config : CorrelatorConfig
        Size of the correlation.
    """

    def __init__(self, gpu: Gpu, config: CorrelatorConfig) -> None:
        self._config = config
        self._arrange, self._arrange_pairs, self._unpack = (
            gpu.kernel(_SOURCE, name, {}) for name in ("arrange", "arrange_pairs", "unpack")
        )
        self._clamped = gpu.array(np.zeros(1, np.uint64))

    @property
    def clamped(self) -> int:
        """Valid real or imaginary parts of -8 that were taken as -7, since construction; waits for the GPU.

        A -128 is clamped, and counted, by `ryle.correlate.cuda.CudaCorrelator.accumulate_device` with ``clamp``.
        """
        return int(self._clamped.get()[0])

    def arrange(
        self, samples: DeviceArray, order: Order, valid: DeviceArray, out: DeviceArray, stream: Stream | None = None
    ) -> None:
        """Enqueue making K-blocks of samples in another order.

        Parameters
        ----------
        samples : DeviceArray
            Any shape; its bytes are read.
        order : Order
            Where each sample lies.
        valid : DeviceArray of uint64, shape (channel group, block, input)
            Which spectra are valid.
        out : DeviceArray of int8, shape (channel, block, input, 128)
            Written.
        stream : Stream, optional
            Where it is enqueued.

        Raises
        ------
        ValueError
            If an array has another shape, or samples would be read beyond the array's end.
        """
        config = self._config
        blocks = self._check(valid, out)
        last = (
            order.channel * (config.channels - 1)
            + order.spectrum * (blocks * BLOCK - 1)
            + order.antenna * (config.antennas - 1)
            + order.polarization * (config.polarizations - 1)
        )
        end = (last + 1) * order.bits // 4
        if end > samples.nbytes:
            raise ValueError(f"samples holds {samples.nbytes} bytes; {blocks} blocks in this order reach to {end}")
        if (pair := self._pair_stride(order)) is not None:
            self._arrange_pairs.launch(
                (-(-config.inputs // (2 * _TILE)), blocks, config.channels),
                _THREADS,
                samples=samples,
                data=out,
                inputs=np.int32(config.inputs),
                channel_stride=np.int64(order.channel),
                spectrum_stride=np.int64(order.spectrum),
                pair_stride=np.int64(pair),
                shared=2 * _TILE * 132,
                stream=stream,
            )
            return
        self._arrange.launch(
            (-(-config.inputs // _TILE), blocks, config.channels),
            _THREADS,
            samples=samples,
            valid=valid,
            data=out,
            clamped=self._clamped,
            inputs=np.int32(config.inputs),
            pols=np.int32(config.polarizations),
            channel_stride=np.int64(order.channel),
            spectrum_stride=np.int64(order.spectrum),
            antenna_stride=np.int64(order.antenna),
            pol_stride=np.int64(order.polarization),
            group_channels=np.int32(config.channels // config.groups),
            packed=np.int32(order.bits == 4),
            shared=_TILE * 132,
            stream=stream,
        )

    def _pair_stride(self, order: Order) -> int | None:
        """Stride of pairs of inputs that are neighbours, which go several times as fast; None if they are not."""
        dual = self._config.polarizations == 2
        if order.bits != 8 or self._config.inputs % 2 or (order.polarization if dual else order.antenna) != 1:
            return None
        pair = order.antenna if dual else 2
        return None if any(stride % 2 for stride in (order.channel, order.spectrum, pair)) else pair

    def unpack(self, packed: DeviceArray, valid: DeviceArray, out: DeviceArray, stream: Stream | None = None) -> None:
        """Enqueue making K-blocks of packed ones, of one byte a sample with its real part in the high nibble.

        Parameters
        ----------
        packed : DeviceArray of int8 or uint8, shape (channel, block, input, 64)
            Packed K-blocks.
        valid, out, stream
            As of `arrange`; what is invalid becomes zero.

        Raises
        ------
        ValueError
            If an array has another shape.
        """
        config = self._config
        blocks = self._check(valid, out)
        if packed.shape != (*out.shape[:3], BLOCK):
            raise ValueError(f"packed has shape {packed.shape}; it must be {(*out.shape[:3], BLOCK)}")
        rows = blocks * config.inputs
        self._unpack.launch(
            (-(-rows * 32 // _THREADS), config.channels),
            _THREADS,
            packed=packed,
            valid=valid,
            data=out,
            clamped=self._clamped,
            rows=np.int32(rows),
            group_channels=np.int32(config.channels // config.groups),
            stream=stream,
        )

    def _check(self, valid: DeviceArray, out: DeviceArray) -> int:
        config, blocks = self._config, out.shape[1]
        shapes = (config.channels, blocks, config.inputs, 2 * BLOCK), (config.groups, blocks, config.inputs)
        if (out.shape, valid.shape) != shapes:
            raise ValueError(f"out and valid have shapes {out.shape} and {valid.shape}; they must be {shapes}")
        return blocks
