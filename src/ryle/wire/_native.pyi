import numpy as np
from numpy.typing import NDArray

def unpack(data: NDArray[np.uint8], bits: int, first: int, out: NDArray[np.float32], isa: str = "") -> None: ...
def sum_squares(data: NDArray[np.uint8], bits: int, first: int, count: int, isa: str = "") -> int: ...
def sum_squares_float(data: NDArray[np.uint8], first: int, count: int) -> float: ...
def pack(values: NDArray[np.float32], bits: int, group: int, out: NDArray[np.uint8]) -> int: ...
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
