import numpy as np
from numpy.typing import NDArray

def read_pieces(
    files: NDArray[np.int64],
    at: NDArray[np.int64],
    to: NDArray[np.int64],
    sizes: NDArray[np.int64],
    out: NDArray[np.uint8],
    threads: int = 1,
) -> tuple[int, int]: ...
def unpack(data: NDArray[np.uint8], bits: int, first: int, out: NDArray[np.float32], isa: str = "") -> None: ...
def sum_squares(data: NDArray[np.uint8], bits: int, first: int, count: int, isa: str = "") -> int: ...
def sum_squares_float(data: NDArray[np.uint8], first: int, count: int) -> float: ...
def count_levels(
    data: NDArray[np.uint8],
    bits: int,
    first: int,
    count: int,
    level: float,
    counts: NDArray[np.int64],
    isa: str = "",
) -> None: ...
def pack(values: NDArray[np.float32], bits: int, group: int, out: NDArray[np.uint8]) -> int: ...
def look_up(bytes: NDArray[np.uint8], table: NDArray[np.uint32], out: NDArray[np.uint32]) -> None: ...
def sample_instruction_sets() -> list[str]: ...
def decode_vdif(
    file: NDArray[np.uint8],
    payloads: NDArray[np.int64],
    firsts: NDArray[np.int64],
    counts: NDArray[np.int64],
    destinations: NDArray[np.int64],
    row: NDArray[np.uint32],
    levels: NDArray[np.uint32],
    bits: int,
    complex_data: bool,
    channels: int,
    channel: int,
    payload_bytes: int,
) -> None: ...

#: Terms (field, factor), constant, divisor.
Sum = tuple[list[tuple[int, int]], int, int]
#: Byte, bytes, shift, width, big-endian, low, high, item, value without the item.
Field = tuple[int, int, int, int, bool, int, int, int, int]
#: Header bytes, fields, count field, items, trailers, sizes, heap, bits, parts, code, msb first, stated length,
#: timestamp, period, placement.
Layout = tuple[
    int,
    list[Field],
    int,
    list[tuple[int, bool, int]],
    list[int],
    list[tuple[int, int]],
    list[tuple[list[Sum], Sum, Sum, int, bool]],
    int,
    int,
    int,
    bool,
    list[Sum],
    Sum,
    int,
    list[Sum],
]

class PacketParser:
    def __init__(self, layout: Layout) -> None: ...
    def parse_bytes(
        self,
        packets: list[bytes],
        values: NDArray[np.uint64],
        reasons: NDArray[np.uint8],
        details: NDArray[np.int64],
        timestamps: NDArray[np.int64],
        places: NDArray[np.int64],
        /,
    ) -> None: ...
    def parse_rows(
        self,
        rows: NDArray[np.uint8],
        values: NDArray[np.uint64],
        reasons: NDArray[np.uint8],
        details: NDArray[np.int64],
        timestamps: NDArray[np.int64],
        places: NDArray[np.int64],
        /,
    ) -> None: ...
    def parse_buffer(
        self,
        buffer: NDArray[np.uint8],
        starts: NDArray[np.int64],
        lengths: NDArray[np.int64],
        values: NDArray[np.uint64],
        reasons: NDArray[np.uint8],
        details: NDArray[np.int64],
        timestamps: NDArray[np.int64],
        places: NDArray[np.int64],
        /,
    ) -> None: ...
    def decode_bytes(self, packets: list[bytes], out: NDArray[np.int8] | NDArray[np.int16], /) -> None: ...
    def decode_rows(self, rows: NDArray[np.uint8], out: NDArray[np.int8] | NDArray[np.int16], /) -> None: ...
    def decode_payloads(self, rows: NDArray[np.uint8], out: NDArray[np.int8] | NDArray[np.int16], /) -> None: ...
    def set_reference(self, reference: int, /) -> None: ...
    def forget(self) -> None: ...
