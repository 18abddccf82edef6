"""What every form of the channelizer has in common: its configuration, its inputs and its results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ryle.array.delays import Delays
from ryle.channelize.pfb import normalized, pfb_weights
from ryle.chunk import BLOCK, SampleChunk, SampleWindow, SpectraChunk, valid_words
from ryle.wire.samples import check_bits, packed_bytes


@dataclass(frozen=True, slots=True, eq=False)
class ChannelizerConfig:
    """What to compute.

    Parameters
    ----------
    inputs : int
        Inputs of each chunk.
    channels : int
        Channels ``n`` of a spectrum, even and at least 4.
    taps : int
        Length of the filter in units of the Fourier transform, 1 to 256.
    window : str
        Window of the filter, one of `ryle.channelize.pfb.WINDOWS`.
    w_cutoff : float
        Passband in units of the channel spacing.
    weights : array_like of float, shape (window_samples,), optional
        Filter to use instead of a windowed sinc; it is scaled to ``Σw² = 1``.
    bits : int
        Bits of a digitizer sample (of each part, if complex).
    complex_input : bool
        Whether samples are complex.
    output_bits : int
        8 or 4.
    dither : str
        "uniform" or "none" (see `ryle.channelize.dither`).
    seed : int
        Seed of the dither, 0 to 2^64 - 1.
    input_offset : int
        Index in the whole array of the first input, so that no two inputs share their dither.
    threads : int
        Inputs that may be processed at the same time, for a form that runs on a CPU.
    conjugated : sequence of int
        Inputs whose complex samples arrive conjugated (I and Q exchanged) and are turned back.

    Raises
    ------
    ValueError
        If a value is not allowed; the message names it.
    """

    inputs: int
    channels: int
    taps: int = 16
    window: str = "hann"
    w_cutoff: float = 1.0
    weights: ArrayLike | None = None
    bits: int = 10
    complex_input: bool = False
    output_bits: int = 8
    dither: str = "uniform"
    seed: int = 0
    input_offset: int = 0
    threads: int = 1
    conjugated: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.inputs < 1:
            raise ValueError(f"inputs is {self.inputs}; use at least 1")
        if self.channels < 4 or self.channels % 2:
            raise ValueError(f"channels is {self.channels}; use an even number, at least 4")
        if not 1 <= self.taps <= 256:
            raise ValueError(f"taps is {self.taps}; use 1 to 256")
        check_bits(self.bits)
        if self.output_bits not in (4, 8):
            raise ValueError(f"output_bits is {self.output_bits}; use 4 or 8")
        if self.dither not in ("uniform", "none"):
            raise ValueError(f"dither is {self.dither!r}; use 'uniform' or 'none'")
        if not 0 <= self.seed < 1 << 64:
            raise ValueError(f"seed is {self.seed}; use 0 to 2^64 - 1")
        if self.input_offset < 0 or self.input_offset + self.inputs > 1 << 32:
            raise ValueError(f"input_offset is {self.input_offset}; input numbers must lie in 0 to 2^32 - 1")
        if self.conjugated and not self.complex_input:
            raise ValueError(f"inputs {self.conjugated} are conjugated, but samples are real; only complex ones can be")
        if not set(self.conjugated) <= set(range(self.inputs)):
            raise ValueError(f"conjugated is {self.conjugated}; inputs are 0 to {self.inputs - 1}")
        if self.threads < 1:
            raise ValueError(f"threads is {self.threads}; use at least 1")
        self.prototype()

    @property
    def step(self) -> int:
        """Samples from one spectrum to the next."""
        return self.channels if self.complex_input else 2 * self.channels

    @property
    def window_samples(self) -> int:
        """Samples that one spectrum reads."""
        return self.step * self.taps

    @property
    def limit(self) -> int:
        """Greatest quantized value of a part: 127 or 7."""
        return int((1 << (self.output_bits - 1)) - 1)

    @property
    def slope(self) -> float:
        """Turn of successive channels for a fine delay of one sample, radians."""
        return -(2 if self.complex_input else 1) * np.pi / self.channels

    def prototype(self) -> NDArray[np.float64]:
        """Weights of the filter, shape (window_samples,), ``Σw² = 1``."""
        if self.weights is None:
            return pfb_weights(self.step, self.taps, self.window, self.w_cutoff)
        weights = np.asarray(self.weights, np.float64)
        if weights.shape != (self.window_samples,):
            raise ValueError(
                f"weights has shape {weights.shape}; {self.channels} channels and {self.taps} taps need "
                f"({self.window_samples},)"
            )
        return normalized(weights)


@dataclass(frozen=True, slots=True)
class Blocks:
    """Output as K-blocks: int8 (channel, block, input, 128), rows ordered as `ryle.chunk.rows_from_parts` does.

    Four-bit values take a byte for each part here.
    """


@dataclass(frozen=True, slots=True)
class Heaps:
    """Output as payloads of MeerKAT F-heaps.

    int8 (antenna, heap, channel, spectrum, pol, 2), or with 4 bits uint8 (antenna, heap, channel, spectrum, pol) with
    the real part in the high nibble.

    Parameters
    ----------
    spectra : int
        Spectra in a heap.
    pols : int
        Polarizations of an antenna; input = antenna·pols + pol.
    """

    spectra: int
    pols: int = 2


@dataclass(frozen=True, slots=True)
class Rows:
    """Output as Ryle's packets of rows hold it: int8 (block, antenna, channel, pol, 128), rows as those of `Blocks`.

    A run of channels of one antenna and block is the payload of a packet as it lies (`ryle.send.rows`).

    Parameters
    ----------
    pols : int
        Polarizations of an antenna; input = antenna·pols + pol.
    """

    pols: int = 2


Layout = Blocks | Heaps | Rows


@dataclass(slots=True)
class Spectra:
    """What a channelizer returns.

    Parameters
    ----------
    first_spectrum : int
        Index since sync of the first spectrum.
    data : ndarray of int8 or uint8
        Quantized values in the layout asked for; zero where not valid.
    valid : ndarray of bool, shape (input, spectrum)
        Whether the spectrum's whole window was there.
    saturated : ndarray of int64, shape (input,)
        Complex values clamped.
    input_power : ndarray of int64 (float64 for 32-bit samples), shape (input,)
        Sum of the squared magnitudes of the first `step` samples of each valid spectrum's window: without steps of the
        delay, of every sample that the valid spectra advance over, once. Exact for integer samples.
    input_samples : ndarray of int64, shape (input,)
        Number of those samples, valid spectra times `step`.
    layout : Blocks, Heaps or Rows
        Layout of `data`.
    """

    first_spectrum: int
    data: NDArray[Any]
    valid: NDArray[np.bool_]
    saturated: NDArray[np.int64]
    input_power: NDArray[Any]
    input_samples: NDArray[np.int64]
    layout: Layout

    def chunk(self) -> SpectraChunk:
        """Make a chunk of one channel group from spectra laid out as K-blocks or rows; it views `data`."""
        words = valid_words(self.valid).T[np.newaxis]  # (group, block, input)
        first_block = self.first_spectrum // BLOCK
        if isinstance(self.layout, Blocks):
            return SpectraChunk(first_block, self.data, np.ascontiguousarray(words))
        if isinstance(self.layout, Rows):
            split = words.reshape(*words.shape[:2], -1, self.layout.pols)
            return SpectraChunk(first_block, self.data.transpose(2, 0, 1, 3, 4), np.ascontiguousarray(split))
        raise ValueError("these spectra are laid out as heaps; ask process() for layout=Blocks() or Rows()")


class Channelizer(Protocol):
    """The operation, whatever carries it out. It remembers nothing between calls but the gains."""

    config: ChannelizerConfig

    def set_gains(self, gains: ArrayLike) -> None:
        """Set the complex gains, broadcast to (input, channel)."""
        ...

    def process(
        self,
        chunk: SampleChunk | SampleWindow,
        first_spectrum: int,
        spectra: int,
        delays: Delays,
        layout: Layout,
        out: NDArray[Any] | None = None,
    ) -> Spectra:
        """Channelize the spectra [first_spectrum, first_spectrum + spectra).

        A spectrum whose window leaves the chunk or touches a missing packet is invalid, no other; so a caller who keeps
        ``window_samples`` and the greatest change of delay from one chunk to the next loses nothing. K-blocks and rows
        need `first_spectrum` and `spectra` to be multiples of 64, heaps multiples of the heap's length.

        Parameters
        ----------
        chunk : SampleChunk or SampleWindow
            Samples; its timestamp may be any number.
        first_spectrum, spectra : int
            Which spectra.
        delays : Delays
            Delays of these spectra.
        layout : Blocks, Heaps or Rows
            How to lay out the result.
        out : ndarray, optional
            Array of the layout's shape and type to write to, C-contiguous.

        Raises
        ------
        ValueError
            If an argument does not fit the configuration; the message names it.
        """
        ...

    def spectra_float(
        self, chunk: SampleChunk | SampleWindow, first_spectrum: int, spectra: int, delays: Delays
    ) -> tuple[NDArray[np.complexfloating[Any, Any]], NDArray[np.bool_]]:
        """Give the values before dither, complex (input, spectrum, channel), zero where invalid, and validity."""
        ...


def output_shape(config: ChannelizerConfig, spectra: int, layout: Layout) -> tuple[tuple[int, ...], type[np.generic]]:
    """Shape and type of the output array of a layout."""
    if isinstance(layout, Blocks):
        return (config.channels, spectra // BLOCK, config.inputs, 2 * BLOCK), np.int8
    if isinstance(layout, Rows):
        antennas = config.inputs // layout.pols
        return (spectra // BLOCK, antennas, config.channels, layout.pols, 2 * BLOCK), np.int8
    shape = (config.inputs // layout.pols, spectra // layout.spectra, config.channels, layout.spectra, layout.pols)
    return (shape, np.uint8) if config.output_bits == 4 else ((*shape, 2), np.int8)


def prepared_output(
    config: ChannelizerConfig, first_spectrum: int, spectra: int, layout: Layout, out: NDArray[Any] | None
) -> NDArray[Any]:
    """Check that the spectra fill the layout; give `out` if it fits, or a new array."""
    unit, name = (layout.spectra, "heaps") if isinstance(layout, Heaps) else (BLOCK, "K-blocks")
    pols = 1 if isinstance(layout, Blocks) else layout.pols
    if unit < 1 or pols < 1:
        raise ValueError(f"{name} of {unit} spectra and {pols} pols; use at least 1 of each")
    if config.inputs % pols:
        raise ValueError(f"{config.inputs} inputs are no whole number of antennas of {pols} pols")
    if first_spectrum % unit or spectra % unit or spectra < 1:
        raise ValueError(
            f"spectra {first_spectrum} to {first_spectrum + spectra} are not whole {name}; use multiples of {unit}"
        )
    shape, dtype = output_shape(config, spectra, layout)
    if out is None:
        return np.empty(shape, dtype)
    if out.shape != shape or out.dtype != dtype or not out.flags.c_contiguous:
        raise ValueError(
            f"out is {out.dtype} {out.shape}; this call needs a C-contiguous {np.dtype(dtype)} array of shape {shape}"
        )
    return out


def check_arguments(
    config: ChannelizerConfig, chunk: SampleChunk | SampleWindow, first_spectrum: int, spectra: int, delays: Delays
) -> None:
    """Raise ValueError unless chunk and delays fit the configuration."""
    row = packed_bytes(chunk.packet_samples, config.bits, complex_samples=config.complex_input)
    follows = chunk.timestamp
    for piece in chunk.pieces:
        shape = piece.data.shape
        if piece.data.ndim != 3 or shape[0] != config.inputs or shape[2] != row:
            raise ValueError(
                f"chunk.data has shape {shape}; {config.inputs} inputs in packets of {chunk.packet_samples} "
                f"samples of {config.bits} bits need ({config.inputs}, packets, {row})"
            )
        if piece.data.dtype != np.uint8 or not piece.data[0].flags.c_contiguous:
            raise ValueError("chunk.data must be uint8, the packets of an input contiguous")
        if piece.present.shape != shape[:2]:
            raise ValueError(f"chunk.present has shape {piece.present.shape}; use that of packets, {shape[:2]}")
        if piece.timestamp != follows or piece.packet_samples != chunk.packet_samples:
            raise ValueError(
                f"a piece of {piece.packet_samples} samples a packet begins at {piece.timestamp}; pieces must follow "
                f"one another in equal packets, here at {follows}"
            )
        follows = piece.end
    check_delays(config, first_spectrum, spectra, delays)


def check_delays(config: ChannelizerConfig, first_spectrum: int, spectra: int, delays: Delays) -> None:
    """Raise ValueError unless there are such spectra and their delays fit the configuration."""
    if first_spectrum < 0:
        raise ValueError(f"first_spectrum is {first_spectrum}; spectra are counted from sync, use at least 0")
    for name in ("coarse", "fine", "phase"):
        shape = getattr(delays, name).shape
        if shape != (config.inputs, spectra):
            raise ValueError(f"delays.{name} has shape {shape}; use (input, spectrum) = ({config.inputs}, {spectra})")
    if delays.coarse.dtype.kind != "i":
        raise ValueError(f"delays.coarse is {delays.coarse.dtype}; use whole samples as int64")
    if np.any(np.abs(delays.fine) > 0.5 + 1e-9) or not np.all(np.isfinite(delays.fine)):
        raise ValueError("delays.fine must lie in [-0.5, 0.5]; move whole samples to delays.coarse")
    if not np.all(np.isfinite(delays.phase)):
        raise ValueError("delays.phase must be finite")


def checked_gains(config: ChannelizerConfig, gains: ArrayLike) -> NDArray[np.complex64]:
    """Gains as complex64 (input, channel); ValueError if they do not broadcast or are not finite."""
    shape = (config.inputs, config.channels)
    try:
        full = np.array(np.broadcast_to(np.asarray(gains), shape), dtype=np.complex64)
    except ValueError:
        raise ValueError(f"gains of shape {np.shape(gains)} do not fit (input, channel) = {shape}") from None
    if not np.all(np.isfinite(full)):
        raise ValueError("gains must be finite")
    return full
