from typing import Any

import numpy as np
from numpy.typing import NDArray

class _Place:
    @property
    def function(self) -> Any: ...
    @property
    def user_data(self) -> Any: ...
    def chunk(self, id: int) -> tuple[int, int]: ...
    @property
    def heaps(self) -> int: ...
    @property
    def placed(self) -> int: ...
    @property
    def late(self) -> int: ...
    @property
    def duplicate(self) -> int: ...
    @property
    def malformed(self) -> int: ...
    @property
    def foreign(self) -> int: ...
    @property
    def stops(self) -> int: ...

class DigitizerPlace(_Place):
    def __init__(
        self, streams: list[int], heap_samples: int, heap_bytes: int, chunk_packets: int, window: int
    ) -> None: ...
    @property
    def saturated(self) -> int: ...

class SpectraPlace(_Place):
    def __init__(
        self,
        antennas: int,
        first_channel: int,
        heap_samples: int,
        heap_bytes: int,
        tail_bytes: int,
        packet_bytes: int,
        slot_bytes: int,
        chunk_heaps: int,
        window: int,
    ) -> None: ...
    @property
    def split(self) -> tuple[int, int, int]: ...

def to_kblocks(
    heaps: NDArray[np.uint8],
    present: NDArray[np.uint8],
    kind: NDArray[np.uint8],
    spectra_per_heap: int,
    pols: int,
    value_bytes: int,
    data: NDArray[np.int8],
    valid: NDArray[np.uint64],
) -> None: ...
