"""What one call of the CUDA channelizer works on."""

from __future__ import annotations

from dataclasses import dataclass

from ryle.gpu import DeviceArray


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
