"""VDIF 1.1.1 data frames: header fields as data, and what samples mean.

Reference: *VLBI Data Interchange Format (VDIF) Specification, Release 1.1.1* (2014), https://vlbi.org/vdif. Words of
header and payload are 32-bit little-endian; samples fill a word from its low bits up and never cross words.

Levels. VDIF codes are offset binary: all zeros is the most negative sample. Codes of 1, 2, 4 and 8 bits become the
levels that the VLBI software correlators agreed on (2 bits: ±1 and ±3.316505, so that low values are 1 for a Gaussian
signal with thresholds at ±1σ; 4 and 8 bits scaled to the same power), so data decoded here equal theirs bit for bit.
Other widths have no such custom; they become ``code - 2**(bits - 1)``, offset binary with its zero at mid-scale.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ryle.wire import _native

#: Extended-data version of Mark 5B payloads carried in VDIF frames: their codes are sign and magnitude.
MARK5B = 0xAB
#: Output level of a large 2-bit sample where a small one is 1, and the threshold between them.
TWO_BIT_HIGH, TWO_BIT_THRESHOLD = 3.316505, 2.174564
#: Code steps per unit output of the wider customary widths.
SCALE = {4: 2.95, 8: 35.5}


@dataclass(frozen=True, slots=True)
class Field:
    """A bit field of the header: ``width`` bits of 32-bit word ``word``, from bit ``shift`` up."""

    name: str
    word: int
    shift: int
    width: int

    @property
    def mask(self) -> int:
        """Mask of the field's width, unshifted."""
        return (1 << self.width) - 1


#: The fields of words 0 to 3, in specification order.
FIELDS = (
    Field("invalid", 0, 31, 1),
    Field("legacy", 0, 30, 1),
    Field("seconds", 0, 0, 30),
    Field("epoch", 1, 24, 6),
    Field("frame", 1, 0, 24),
    Field("version", 2, 29, 3),
    Field("log2_channels", 2, 24, 5),
    Field("length8", 2, 0, 24),
    Field("complex_data", 3, 31, 1),
    Field("bits_minus_1", 3, 26, 5),
    Field("thread", 3, 16, 10),
    Field("station", 3, 0, 16),
)
_FIELD = {field.name: field for field in FIELDS}


def extract(words: NDArray[np.uint32], name: str) -> NDArray[np.int64]:
    """Take one header field from many headers.

    Parameters
    ----------
    words : ndarray of uint32, shape (frame, >= 4)
        Header words of each frame.
    name : str
        Name of a field in `FIELDS`.

    Returns
    -------
    ndarray of int64, shape (frame,)
    """
    field = _FIELD[name]
    return (words[:, field.word].astype(np.int64) >> field.shift) & field.mask


@dataclass(frozen=True, slots=True)
class Header:
    """One VDIF frame header; fields in the specification's units.

    Parameters
    ----------
    invalid, legacy, complex_data : int
        Flags; a legacy header is 16 bytes, otherwise 32.
    seconds : int
        Seconds elapsed since the reference epoch, leap seconds counted.
    epoch : int
        Reference epoch: half-years since 2000-01-01T00:00 UTC.
    frame : int
        Number of the frame within its second.
    version, log2_channels, thread, station : int
        As in the specification.
    length8 : int
        Length of the whole frame in units of 8 bytes.
    bits_minus_1 : int
        Bits of a sample (of one part of a complex sample), less one.
    extended : tuple of int
        Words 4 to 7, passed through; the top byte of word 4 is the extended-data version.
    """

    invalid: int = 0
    legacy: int = 0
    seconds: int = 0
    epoch: int = 0
    frame: int = 0
    version: int = 1
    log2_channels: int = 0
    length8: int = 4
    complex_data: int = 0
    bits_minus_1: int = 1
    thread: int = 0
    station: int = 0
    extended: tuple[int, int, int, int] = (0, 0, 0, 0)

    @classmethod
    def unpack(cls, data: bytes | bytearray | memoryview) -> Header:
        """Read a header from the first 32 (legacy: 16) bytes of a frame.

        Raises
        ------
        ValueError
            If there are too few bytes.
        """
        if len(data) < 16:
            raise ValueError(f"a VDIF header is 32 bytes (legacy: 16), but only {len(data)} bytes are left")
        words = [int(word) for word in np.frombuffer(data, "<u4", min(len(data) // 4, 8))]
        values = {field.name: (words[field.word] >> field.shift) & field.mask for field in FIELDS}
        extended = (0, 0, 0, 0)
        if not values["legacy"]:
            if len(words) < 8:
                raise ValueError(f"a VDIF header is 32 bytes, but only {len(data)} bytes are left")
            extended = (words[4], words[5], words[6], words[7])
        return cls(**values, extended=extended)

    def pack(self) -> bytes:
        """Give the header's 32 (legacy: 16) bytes.

        Raises
        ------
        ValueError
            If a field does not fit its bits.
        """
        words = [0, 0, 0, 0]
        for field in FIELDS:
            value = int(getattr(self, field.name))
            if not 0 <= value <= field.mask:
                raise ValueError(f"VDIF header field {field.name} = {value}: allowed are 0 to {field.mask}")
            words[field.word] |= value << field.shift
        return np.array(words if self.legacy else [*words, *self.extended], "<u4").tobytes()

    @property
    def header_bytes(self) -> int:
        """Bytes of the header."""
        return 16 if self.legacy else 32

    @property
    def frame_bytes(self) -> int:
        """Bytes of the whole frame."""
        return self.length8 * 8

    @property
    def payload_bytes(self) -> int:
        """Bytes of the data array."""
        return self.frame_bytes - self.header_bytes

    @property
    def channels(self) -> int:
        """Channels interleaved in the frame."""
        return 1 << self.log2_channels

    @property
    def bits(self) -> int:
        """Bits of a real sample or of one part of a complex one."""
        return self.bits_minus_1 + 1

    @property
    def parts(self) -> int:
        """2 for complex samples, 1 for real."""
        return 1 + self.complex_data

    @property
    def edv(self) -> int | None:
        """Extended-data version; None for legacy headers."""
        return None if self.legacy else self.extended[0] >> 24

    @property
    def samples(self) -> int:
        """Samples of each channel in the frame."""
        per_word = elements_per_word(self.bits, bool(self.complex_data))
        return self.payload_bytes // 4 * per_word // (self.channels * self.parts)

    @property
    def sample_rate(self) -> int | None:
        """Samples per second of a channel where extended data of version 1 or 3 state it (in Hz), else None.

        The field holds the rate of complex samples, half that of real ones.
        """
        if self.edv not in (1, 3):
            return None
        unit = 1_000_000 if self.extended[0] & 0x800000 else 1_000
        return (self.extended[0] & 0x7FFFFF) * unit * (3 - self.parts) or None

    def problem(self) -> str | None:
        """Say why no data can follow such a header, or None if they can."""
        if self.payload_bytes <= 0:
            return f"frame length {self.frame_bytes} bytes leaves no room for data"
        if self.channels > 1 and self.bits & (self.bits - 1):
            return f"{self.channels} channels of {self.bits} bits: several channels need 1, 2, 4, 8, 16 or 32 bits"
        if self.samples == 0:
            return f"{self.payload_bytes} payload bytes do not hold one sample of {self.channels} channels"
        if self.edv == MARK5B and (self.bits > 2 or self.complex_data):
            return f"Mark 5B payload of {self.bits} bits: allowed are real samples of 1 or 2 bits"
        return None


def elements_per_word(bits: int, complex_data: bool) -> int:
    """Count the elements (real samples, or parts of complex ones) in a 32-bit word.

    A complex sample is kept within one word where two parts fit; of wider parts each takes a word.
    """
    if complex_data and bits & (bits - 1):
        return 2 * (32 // (2 * bits)) if bits <= 16 else 1
    return 32 // bits


def levels(bits: int, edv: int | None = 0) -> NDArray[np.float32]:
    """Give the value of each code, shape (2**bits,), for ``bits`` up to 8."""
    codes = np.arange(1 << bits, dtype=np.float32)
    if bits == 1:
        table = np.array([-1.0, 1.0], np.float32)
    elif bits == 2:
        table = np.array([-TWO_BIT_HIGH, -1.0, 1.0, TWO_BIT_HIGH], np.float32)
    elif bits == 4:
        table = (codes - np.float32(8.0)) / np.float32(SCALE[4])
    elif bits == 8:
        table = (codes - np.float32(127.5)) / np.float32(SCALE[8])
    else:
        table = codes - np.float32(1 << (bits - 1))
    if edv == MARK5B:  # sign in the low bit, magnitude in the high; one bit: set is negative
        table = table[[1, 0]] if bits == 1 else table[[0, 2, 1, 3]]
    return table


def decode(payload: NDArray[np.uint8] | bytes, header: Header) -> NDArray[np.float32] | NDArray[np.complex64]:
    """Decode the data array of one frame: the plain form that `Decoder` is checked against.

    Parameters
    ----------
    payload : bytes or ndarray of uint8, shape (payload_bytes,)
        Data array.
    header : Header
        Its header.

    Returns
    -------
    ndarray of float32 or complex64, shape (sample, channel)

    Raises
    ------
    ValueError
        If the header describes no decodable data.
    """
    if problem := header.problem():
        raise ValueError(f"VDIF frame: {problem}")
    words = np.frombuffer(payload, "<u4", header.payload_bytes // 4)
    per_word = elements_per_word(header.bits, bool(header.complex_data))
    shifts = np.arange(per_word, dtype=np.uint32) * np.uint32(header.bits)
    codes = (words[:, None] >> shifts) & np.uint32((1 << header.bits) - 1)
    elements = codes.reshape(-1)[: header.samples * header.channels * header.parts]
    if header.bits <= 8:
        values: NDArray[np.float32] = levels(header.bits, header.edv)[elements]
    else:
        values = (elements.astype(np.int64) - (1 << (header.bits - 1))).astype(np.float32)
    shape = (header.samples, header.channels)
    return values.view(np.complex64).reshape(shape) if header.complex_data else values.reshape(shape)


class Decoder:
    """Decode one channel of many frames straight into rows of big-endian float32.

    Parameters
    ----------
    header : Header
        Any header of the stream; bits, channels, real or complex, and frame length count.

    Raises
    ------
    ValueError
        If the header describes no decodable data.
    """

    def __init__(self, header: Header) -> None:
        if problem := header.problem():
            raise ValueError(f"VDIF frame: {problem}")
        self.header = header
        table = levels(header.bits, header.edv) if header.bits <= 8 else np.empty(0, np.float32)
        self._levels = table.astype(">f4").view(np.uint32)

    def into(
        self,
        row: NDArray[np.uint8],
        file: NDArray[np.uint8],
        frames: NDArray[np.int64],
        firsts: NDArray[np.int64],
        counts: NDArray[np.int64],
        destinations: NDArray[np.int64],
        channel: int = 0,
    ) -> None:
        """Decode parts of frames.

        Parameters
        ----------
        row : ndarray of uint8, shape (samples * parts * 4,)
            Output, C-contiguous: big-endian float32; re, im alternate if complex.
        file : ndarray of uint8, shape (bytes,)
            The whole file, mapped.
        frames : ndarray of int64, shape (frame,)
            Where each frame's header starts in `file`.
        firsts, counts, destinations : ndarray of int64, shape (frame,)
            Of each frame, take ``counts`` samples from sample ``firsts`` on to sample ``destinations`` of `row`.
        channel : int
            Channel within the frame.

        Raises
        ------
        IndexError
            If a frame reaches beyond the file, its payload or the row.
        """
        header = self.header
        _native.decode_vdif(
            file,
            np.ascontiguousarray(frames + header.header_bytes),
            np.ascontiguousarray(firsts),
            np.ascontiguousarray(counts),
            np.ascontiguousarray(destinations),
            row.view(np.uint32),
            self._levels,
            header.bits,
            bool(header.complex_data),
            header.channels,
            channel,
            header.payload_bytes,
        )
