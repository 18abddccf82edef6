"""What one call of the CUDA channelizer works on, and what whoever enqueues calls needs of a channelizer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from ryle.channelize.channelizer import Layout
from ryle.gpu import DeviceArray, Gpu, Stream


@dataclass(slots=True)
class Work:
    """Buffers on the device for one shape of call, with what they hold.

    Parameters
    ----------
    samples : DeviceArray
        uint8 (input, stride), packets one after the other; or uint64 (input, packet), addresses of payloads.
    packets, packet_samples : int
        Packets of an input, samples in one.
    first_spectrum, spectra : int
        Which spectra are made.
    timestamp : int
        ADC sample count of the first sample.
    """

    samples: DeviceArray
    packets: int
    packet_samples: int
    timestamp: int
    first_spectrum: int
    spectra: int
    groups: int
    present: DeviceArray
    coarse: DeviceArray
    fine: DeviceArray
    phase: DeviceArray
    turns: DeviceArray
    segment: DeviceArray
    passes: DeviceArray
    intermediate: DeviceArray
    out: DeviceArray
    counters: DeviceArray
    output_power: DeviceArray


class Launcher(Protocol):
    """Makes buffers for calls and enqueues their kernels."""

    gpu: Gpu
    slab_bytes: int

    def work(
        self,
        samples: DeviceArray,
        packets: int,
        packet_samples: int,
        timestamp: int,
        first_spectrum: int,
        spectra: int,
        shape: tuple[int, ...],
        dtype: Any,
    ) -> Work:
        """Allocate all that a call needs beside samples that are on the device already."""

    def launch(self, work: Work, layout: Layout | None, *, dithered: bool = True, stream: Stream | None = None) -> None:
        """Enqueue the kernels."""
