"""The F-engine's operation: digitizer samples to delayed, phased, scaled and quantized spectra.

`reference` is the double-precision oracle, `cpu` the fast form; `make_channelizer` chooses one.

Spectrum ``m`` of an input reads the window of ``window`` samples that starts at ``step·m − coarse``. With ``n``
channels and ``T`` taps, ``step = 2n`` and ``window = 2nT`` for real samples, ``step = n`` and ``window = nT`` for
complex ones. Real samples give channel ``k`` centred on ``k·fs/(2n)`` (the Nyquist channel is dropped); complex ones
give channel ``k`` centred on ``(k − n/2)·fs/n`` of a band centred on 0.

Reading ``coarse`` samples earlier turns a channel of frequency ``f`` by ``−2πf·coarse/fs``, which is the delay itself;
the turn at the centre of the band is undone, because the phase given with the delays is the total wanted there. For
real samples the centre is ``fs/4`` and a channel turns by::

    −π·fine·(k − n/2)/n + phase + (π/2)·(coarse mod 4)

For complex samples the centre is frequency 0, which a coarse delay does not turn::

    −2π·fine·(k − n/2)/n + phase
"""

from ryle.array.delays import Delays
from ryle.channelize.channelizer import (
    Blocks,
    Channelizer,
    ChannelizerConfig,
    Heaps,
    Layout,
    Rows,
    Spectra,
)
from ryle.channelize.registry import make_channelizer

__all__ = [
    "Blocks",
    "Channelizer",
    "ChannelizerConfig",
    "Delays",
    "Heaps",
    "Layout",
    "Rows",
    "Spectra",
    "make_channelizer",
]
