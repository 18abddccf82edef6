"""Sums on the GPU, and how they leave it: by asynchronous copies, while the next integration is being summed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ryle.chunk import Integration
from ryle.correlate.correlator import CorrelatorConfig
from ryle.correlate.forms import Form, Forms
from ryle.correlate.reading import Reading
from ryle.gpu.interface import DeviceArray, Event, Gpu, Stream


@dataclass(slots=True)
class Sums:
    """Exact sums on the GPU: int64 (channel, product, 2) and contributions uint32 (group, product)."""

    visibilities: DeviceArray
    counts: DeviceArray

    @classmethod
    def zero(cls, gpu: Gpu, config: CorrelatorConfig, stream: Stream) -> Sums:
        """Make room for them, and enqueue zeros."""
        sums = cls(
            gpu.empty((config.channels, config.products, 2), np.int64),
            gpu.empty((config.groups, config.products), np.uint32),
        )
        sums.clear(stream)
        return sums

    def clear(self, stream: Stream) -> None:
        """Enqueue zeros."""
        self.visibilities.fill(0, stream)
        self.counts.fill(0, stream)


@dataclass(frozen=True, slots=True)
class FormReading:
    """Sums in another form on their way from the GPU."""

    _values: NDArray[Any]
    _counts: NDArray[np.uint32]
    _done: Event
    _source: Any

    def wait(self) -> tuple[NDArray[Any], NDArray[np.uint32]]:
        """Wait until they are here: values (channel, product, 2), and contributions (channel group, product)."""
        self._done.synchronize()
        return self._values, self._counts


class Results:
    """Starts copies of sums to the host, as they are when it is asked.

    Parameters
    ----------
    gpu : Gpu
        Device.
    config : CorrelatorConfig
        Size of the correlation.
    stream : Stream
        Where the sums are made.
    """

    def __init__(self, gpu: Gpu, config: CorrelatorConfig, stream: Stream) -> None:
        self._gpu, self._config, self._stream = gpu, config, stream
        self._out_stream = gpu.stream()
        self._forms: Forms | None = None
        self._out: Sums | None = None
        self._out_read: Event | None = None

    def room(self) -> Integration:
        """Make page-locked memory for an integration."""
        config = self._config
        visibilities = self._gpu.pinned((config.channels, config.products, 2), np.int64)
        return Integration(0, 0, 0, visibilities, self._gpu.pinned((config.groups, config.products), np.uint32))

    def start(
        self, sums: Sums, first_spectrum: int, spectra: int, first_channel: int, out: Integration | None = None
    ) -> Reading:
        """Begin to read sums as an integration, into `out` if given; the other parameters are its labels."""
        # A copy on the device is quick; the way to the host is slow, and another stream takes it.
        if self._out is None:
            self._out = Sums.zero(self._gpu, self._config, self._stream)
        if self._out_read is not None:
            self._stream.wait(self._out_read)
        sums.visibilities.copy_to(self._out.visibilities, self._stream)
        sums.counts.copy_to(self._out.counts, self._stream)
        self._out_stream.wait(self._stream.record())
        into = self.room() if out is None else out
        visibilities, counts = into.visibilities, into.counts
        self._out.visibilities.copy_to(visibilities, self._out_stream)
        self._out.counts.copy_to(counts, self._out_stream)
        self._out_read = self._out_stream.record()
        return Reading(
            Integration(first_spectrum, spectra, first_channel, visibilities, counts), self._out_read, self._out
        )

    def start_as(self, form: Form, sums: Sums) -> FormReading:
        """Begin to read sums in another form; ValueError if there is no such form."""
        if self._forms is None:
            self._forms = Forms(self._gpu, self._config)
        made = self._forms.make(form, sums.visibilities, sums.counts, self._stream)
        kept = self._gpu.empty(sums.counts.shape, np.uint32)
        sums.counts.copy_to(kept, self._stream)
        self._out_stream.wait(self._stream.record())
        values, counts = (self._gpu.pinned(array.shape, array.dtype) for array in (made, kept))
        made.copy_to(values, self._out_stream)
        kept.copy_to(counts, self._out_stream)
        return FormReading(values, counts, self._out_stream.record(), (made, kept))
