"""What an F-engine of an observation computes."""

from __future__ import annotations

from collections.abc import Sequence

from ryle.channelize import ChannelizerConfig
from ryle.config import Observation


def channelizer_config(observation: Observation, antennas: Sequence[int]) -> ChannelizerConfig:
    """Say what the F-engine of some consecutive antennas computes."""
    o, f = observation, observation.fengine
    inputs, first = len(antennas) * o.pols, antennas[0] * o.pols
    return ChannelizerConfig(
        inputs=inputs,
        channels=f.channels,
        taps=f.taps,
        window=f.window,
        w_cutoff=f.w_cutoff,
        bits=o.channelized_bits,
        complex_input=o.digitizer.complex,
        output_bits=f.output_bits,
        dither=f.dither,
        seed=f.seed,
        input_offset=first,
        threads=f.threads,
        conjugated=tuple(i for i in range(inputs) if o.streams[first + i].conjugate),
    )
