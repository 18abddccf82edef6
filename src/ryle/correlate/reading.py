"""Chunks and integrations on their way to and from a device: what is to be waited for before they are used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ryle.chunk import Integration, SpectraChunk
from ryle.stream.block import Event

if TYPE_CHECKING:
    from ryle.gpu import DeviceArray


@dataclass(slots=True)
class DeviceSpectra(SpectraChunk):
    """Spectra that lie on a GPU.

    Parameters
    ----------
    first_block, valid
        As of `ryle.chunk.SpectraChunk`, on the host.
    data : DeviceArray of int8, shape (channel, block, input, 128) or (block, antenna, channel, polarization, 128)
        K-blocks, or rows. Good when `ready` has come.
    ready : Event, optional
        What whoever reads `data` on the GPU waits for there.
    """

    data: Any
    ready: Event | None = None

    @property
    def blocks(self) -> int:
        """Number of K-blocks."""
        return int(self.valid.shape[1])

    @property
    def there(self) -> DeviceArray:
        """The data, as what it is."""
        data: DeviceArray = self.data
        return data


@dataclass(slots=True)
class SpreadSpectra(SpectraChunk):
    """Spectra of all inputs, a run of channels on each of several GPUs.

    Parameters
    ----------
    first_block, valid
        As of `ryle.chunk.SpectraChunk`, on the host, in one channel group.
    data : sequence of DeviceArray of int8
        The channels of each GPU, as of `DeviceSpectra`.
    ready : sequence of Event
        When those of each are good.
    """

    data: Any
    ready: Sequence[Event]

    @property
    def blocks(self) -> int:
        """Number of K-blocks."""
        return int(self.valid.shape[1])

    def on(self, part: int) -> DeviceSpectra:
        """Give what lies on a GPU."""
        there: DeviceArray = self.data[part]
        return DeviceSpectra(self.first_block, there, self.valid, self.ready[part])


@dataclass(frozen=True, slots=True)
class Reading:
    """An integration that is being read.

    Parameters
    ----------
    integration : Integration
        Good when `ready` has come.
    ready : Event or None
        When it is here; None: it is.
    source : object
        What is read, which must live until then.
    """

    integration: Integration
    ready: Event | None = None
    source: Any = None

    def wait(self) -> Integration:
        """Wait until it is here."""
        if self.ready is not None:
            self.ready.synchronize()
        return self.integration
