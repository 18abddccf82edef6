"""What one call of the CUDA channelizer works on."""

from __future__ import annotations

from dataclasses import dataclass

from ryle.gpu import DeviceArray


@dataclass(frozen=True, slots=True)
class Own:
    """Where some channels of rows go, apart from the others: those that are summed on the GPU that makes them.

    Parameters
    ----------
    array : DeviceArray
        Begins with the rows of the first antenna that is made.
    first, end : int
        Channels.
    block_bytes, antenna_bytes : int
        From a block of 64 spectra, and from an antenna, to the next.
    """

    array: DeviceArray
    first: int
    end: int
    block_bytes: int
    antenna_bytes: int


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
    own : Own, optional
        Where some channels of the output go, if it is `Rows`.
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
    own: Own | None = None
