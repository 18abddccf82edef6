"""Chunks and integrations on their way to and from a device: what is to be waited for before they are used."""

from __future__ import annotations

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
    data : DeviceArray of int8, shape (channel, block, input, 128)
        Good when `ready` has come.
    ready : Event, optional
        What whoever reads `data` on the GPU waits for there.
    """

    data: Any
    ready: Event | None = None

    @property
    def there(self) -> DeviceArray:
        """The data, as what it is."""
        data: DeviceArray = self.data
        return data


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
