"""What the core's packet generator puts into packets, computed again: the same integers, in numpy.

`hdl/rtl/packet_generator.sv` and `hdl/rtl/sample_pattern.sv` say the same in SystemVerilog.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ryle.wire import spead

#: Bytes of a digitizer packet before its samples.
DIGITIZER_HEADER = spead.preamble(4)
#: Bytes of a counter packet before its ramp.
COUNTER_HEADER = 8
#: A shift that leaves nothing.
OFF = 8


@dataclass(frozen=True)
class Pattern:
    """Samples as a function of their index.

    Attributes
    ----------
    tone_step : int
        Turns of the tone in a sample, in units of 1/256: it is at that multiple of the sample rate.
    tone_shift, noise_shift : int
        Tone and noise are divided by 2 so many times (arithmetic shift); 8 leaves them out.
    seed : int
        Of the noise, 32 bits.
    """

    tone_step: int = 0
    tone_shift: int = OFF
    noise_shift: int = 0
    seed: int = 0

    def samples(self, first: int, count: int) -> NDArray[np.int8]:
        """Compute samples `first`, `first` + 1, ...; indices count modulo 2^32, negative ones too."""
        index = (first + np.arange(count, dtype=np.int64)).astype(np.uint32)
        sum_ = _scaled(tone(index, self.tone_step), self.tone_shift).astype(np.int16)
        sum_ += _scaled(noise(index, self.seed), self.noise_shift)
        return np.clip(sum_, -127, 127).astype(np.int8)


def _scaled(values: NDArray[np.int8], shift: int) -> NDArray[np.int8]:
    return np.zeros_like(values) if shift >= OFF else values >> np.int8(shift)


def tone(index: NDArray[np.uint32], step: int) -> NDArray[np.int8]:
    """round(127 cos(2π (index · step mod 256) / 256))."""
    table = np.rint(127 * np.cos(2 * np.pi * np.arange(256) / 256)).astype(np.int8)
    turned: NDArray[np.int8] = table[(index * np.uint32(step)).astype(np.uint8)]
    return turned


def noise(index: NDArray[np.uint32], seed: int) -> NDArray[np.int8]:
    """Byte `index` mod 4, lowest first, of the hash of (`index` div 4) ^ `seed`: white and uniform."""
    word = hashed(index >> np.uint32(2) ^ np.uint32(seed))
    return (word >> (index & np.uint32(3)) * np.uint32(8)).astype(np.uint8).view(np.int8)


def hashed(k: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Hash 32-bit numbers by additions and shifts alone, modulo 2^32."""
    u = np.uint32
    k = ~k + (k << u(15))
    k ^= k >> u(12)
    k = k + (k << u(2))
    k ^= k >> u(4)
    k = k + (k << u(3)) + (k << u(11))
    k ^= k >> u(16)
    k = k + (k << u(13))
    return k ^ k >> u(15)


def counter_packet(sequence: int, length: int) -> bytes:
    """Make a UDP payload of the counter format: the number, then bytes that count up from it."""
    ramp = (sequence % 256 + np.arange(max(0, length - COUNTER_HEADER))).astype(np.uint8)
    return (sequence % (1 << 64)).to_bytes(COUNTER_HEADER, "big")[:length] + ramp.tobytes()


def digitizer_packet(timestamp: int, stream: int, length: int, pattern: Pattern, delay: int = 0) -> bytes:
    """Make a UDP payload of the digitizer format, `length` bytes in all: a heap of a stream that lags by `delay`."""
    samples = pattern.samples(timestamp - delay, length - DIGITIZER_HEADER)
    return spead.digitizer_packet(timestamp, stream, 0, samples.tobytes())
