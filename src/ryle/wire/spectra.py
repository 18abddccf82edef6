"""Packets of others' F-engines: which byte of a described format is which spectrum, channel and input, and back.

Every axis of such a packet has one stride, so a sample lies at the sum of what its spectrum, channel and input add.
That is all that unpacking, on CPU and GPU, and a generator have to know of a format.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ryle.chunk import PacketOrder
from ryle.wire.description import Format, Total, terms

_SPECTRA, _INPUTS = {"time", "channel"}, {"antenna", "input", "pol"}


@dataclass(frozen=True, eq=False)
class SpectraLayout:
    """Where the samples of one packet lie.

    Parameters
    ----------
    format : Format
        Description of the packets.
    spectra, channels, inputs : int
        Of one packet.
    bits : int
        4 (a sample is one byte) or 8 (two bytes) of each part.
    flip : int
        What every byte is exclusive-or-ed with to become two's complement.
    swapped : bool
        Whether the imaginary part comes first: in the high nibble, or the first byte.
    spectrum_bytes, channel_bytes : int
        From one spectrum or channel to the next.
    input_bytes : ndarray of int64, shape (input,)
        Offset of each input.
    """

    format: Format
    spectra: int
    channels: int
    inputs: int
    bits: int
    flip: int
    swapped: bool
    spectrum_bytes: int
    channel_bytes: int
    input_bytes: NDArray[np.int64]

    @classmethod
    def of(cls, format: Format) -> SpectraLayout:
        """Find the layout of a format.

        Raises
        ------
        ValueError
            If its packets do not hold spectra that an X-engine can take; says what is in the way.
        """
        sample, payload, axes = format.sample, format.payload, set(format.axes)
        copy = f"copy {format.name}.toml, change that and name the copy"
        if format.timestamp.unit != "spectra":
            raise ValueError(f"counts {format.timestamp.unit}, but an X-engine needs packets that count spectra")
        if not sample.complex or sample.bits not in (4, 8):
            raise ValueError("needs complex samples of 4+4 or 8+8 bits")
        if sample.code not in ("twos_complement", "offset_binary"):
            raise ValueError(f"has samples coded {sample.code}; twos_complement and offset_binary can be taken")
        if sample.arranged != "pairs":
            raise ValueError('has rows of real and imaginary parts, which Ryle\'s own F-engines send: sends = "rows"')
        if not axes <= _SPECTRA | _INPUTS or ("input" in axes and len(axes & _INPUTS) > 1):
            raise ValueError(
                f"has the axes {', '.join(format.axes)}; those of an X-engine's input are time, channel, and either "
                f"input or antenna and pol: {copy}"
            )
        if not format.fixed:
            varying = ", ".join(f"{a} = {s}" for a, s in payload.size.items() if isinstance(s, str))
            raise ValueError(f"has packets of varying size ({varying}): {copy}, with the numbers that your array sends")
        if "input" in format.placement and "antenna" in format.placement:
            raise ValueError(f"places packets by input and by antenna; one is needed: {copy}")
        sizes = {a: s for a, s in payload.size.items() if isinstance(s, int)}
        if format.timestamp.step != sizes.get("time", 1):
            raise ValueError(
                f"sends packets of {sizes.get('time', 1)} spectra every {format.timestamp.step}; "
                f"timestamp.step and size.time must agree: {copy}"
            )
        strides, stride = {}, 1 if sample.bits == 4 else 2
        for axis in reversed(payload.order):
            strides[axis], stride = stride, stride * sizes[axis]
        offsets = np.zeros(1, np.int64)
        for axis in ("antenna", "input", "pol"):  # of which pol is the fastest
            if axis in sizes:
                offsets = np.add.outer(offsets, strides[axis] * np.arange(sizes[axis])).ravel()
        flip = (0x88 if sample.bits == 4 else 0x80) if sample.code == "offset_binary" else 0
        low_first = sample.bits == 4 and sample.bit_order == "lsb"
        return cls(
            format=format,
            spectra=sizes.get("time", 1),
            channels=sizes.get("channel", 1),
            inputs=len(offsets),
            bits=sample.bits,
            flip=flip,
            swapped=low_first != (sample.first == "imag"),
            spectrum_bytes=strides.get("time", 0),
            channel_bytes=strides.get("channel", 0),
            input_bytes=offsets,
        )

    @property
    def sample_bytes(self) -> int:
        """Bytes of one complex sample."""
        return 1 if self.bits == 4 else 2

    @property
    def payload_bytes(self) -> int:
        """Bytes of a packet's samples."""
        return self.spectra * self.channels * self.inputs * self.sample_bytes

    @property
    def packet_bytes(self) -> int:
        """Bytes of a packet as it is sent: header, samples and trailer."""
        return self.format.header.bytes + self.payload_bytes + self.format.payload.trailer_bytes[0]

    @property
    def numbered_by(self) -> int:
        """What the number that packets are placed by counts, in inputs: 1, or the polarizations of an antenna."""
        pols = self.format.payload.size.get("pol", 1)
        return pols if "antenna" in self.format.placement and isinstance(pols, int) else 1

    def order(
        self,
        spectra: int,
        channels: int,
        inputs: NDArray[np.int64],
        conjugated: NDArray[np.bool_],
        strides: tuple[int, int, int],
    ) -> PacketOrder:
        """Say where samples lie in memory that holds packets.

        Parameters
        ----------
        spectra, channels : int
            What the memory holds, whole packets.
        inputs : ndarray of int64, shape (input,)
            Number on the wire of each input.
        conjugated : ndarray of bool, shape (input,)
            Which inputs are to be conjugated.
        strides : tuple of int
            Bytes from a packet to the next in time, to that of the next channels, and to that of the next of `senders`.
        """
        spectrum, channel = np.arange(spectra), np.arange(channels)
        sender = np.searchsorted(self.senders(inputs), inputs // self.inputs)
        return PacketOrder(
            spectrum=spectrum // self.spectra * strides[0] + spectrum % self.spectra * self.spectrum_bytes,
            channel=channel // self.channels * strides[1] + channel % self.channels * self.channel_bytes,
            input=sender * strides[2] + self.input_bytes[inputs % self.inputs],
            bits=self.bits,
            flip=self.flip,
            swapped=self.swapped,
            conjugated=conjugated.astype(np.uint8),
        )

    def senders(self, inputs: NDArray[np.int64]) -> NDArray[np.int64]:
        """Give the F-engines, or runs of antennas, whose packets hold any of some inputs, in rising order."""
        return np.unique(inputs // self.inputs)

    def first_inputs(self, antenna: NDArray[np.int64], input: NDArray[np.int64]) -> NDArray[np.int64]:
        """Give the first input of packets, counted on the wire, from what `ryle.wire.packets.Fields` says of them."""
        if "input" in self.format.placement:
            return input
        return antenna * self.numbered_by if "antenna" in self.format.placement else np.zeros_like(antenna)

    def header(self, spectrum: int, input: int, channel: int) -> dict[str, int]:
        """Give the header fields of a packet.

        Parameters
        ----------
        spectrum, input, channel : int
            First of the packet: since sync, on the wire, in the whole band. The counter wraps as it does in gateware.

        Raises
        ------
        ValueError
            If the format has no packet that begins there.
        """
        format = self.format
        wanted = {"channel": channel, "input": input, "antenna": input // self.numbered_by}
        fields = solved(format, format.timestamp.count, spectrum % format.period, "spectrum")
        for place, total in format.placement.items():
            for name, value in solved(format, total, wanted[place], place).items():
                if fields.setdefault(name, value) != value:
                    raise ValueError(f"{format.name}: field {name} cannot be {fields[name]} and {value}")
        return fields


def solved(format: Format, total: Total, value: int, what: str) -> dict[str, int]:
    """Find fields of a format whose sum times factors is a value, the greatest factors first.

    Raises
    ------
    ValueError
        If there are none; says that there is no packet that begins with `what` so.
    """
    left, found = value * total.get("over", 1) - total.get("add", 0), {}
    for name, factor in sorted(terms(total).items(), key=lambda item: -item[1]):
        found[name] = min(max(0, left // factor), (1 << format.fields[name].width) - 1)
        left -= found[name] * factor
    if left:
        raise ValueError(f"{format.name} has no packet that begins with {what} {value}")
    return found


def headers(format: Format, fields: Mapping[str, NDArray[np.uint64] | int], count: int) -> NDArray[np.uint8]:
    """Make the headers of many packets.

    Parameters
    ----------
    format : Format
        Description.
    fields : mapping of str to int or ndarray of int, shape (packet,)
        Header fields; those left out are their least allowed value.
    count : int
        Packets.

    Returns
    -------
    ndarray of uint8, shape (packet, bytes)
    """
    out = np.zeros((count, format.header.bytes), np.uint8)
    for field in format.header.field:
        word = np.asarray(fields.get(field.name, field.low)).astype(np.uint64) << np.uint64(field.shift)
        for byte in range(field.bytes):
            big = (field.endian or format.header.endian) == "big"
            at = field.byte + (field.bytes - 1 - byte if big else byte)
            out[:, at] |= (word >> np.uint64(8 * byte) & np.uint64(255)).astype(np.uint8)
    return out
