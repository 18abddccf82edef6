"""What an array asks for, as numbers: samples, products, and bytes between engines."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from ryle.config import Observation, rates

#: Bytes on the wire over those of payload, for packets of 8 KiB: headers of Ethernet, IP, UDP and format.
WIRE = 1.02
#: Operations of a complex multiplication and addition, as everybody counts them.
COMPLEX_OPERATIONS = 8


@dataclass(frozen=True)
class Work:
    """What a correlator of an array has to do.

    Parameters
    ----------
    name : str
        Of the array.
    antennas, pols : int
        Each antenna has so many inputs.
    bandwidth : float
        Hz of each input.
    bits : int
        Of a sample's part.
    channels, taps : int
        Of the filter bank.
    spectrum_bits : int
        Of each part of a spectrum's value, between F and X.
    integration : float
        s.
    complex : bool
        Whether samples are complex: one a Hz, of two parts; else two a Hz.
    bands : int
        Each of `bandwidth` and `channels`, that are correlated beside one another: sub-bands, or beams.
    wire_in, wire_spectra : float
        Bytes on the wire over those of payloads.
    file_bytes : float or None
        Of the visibility file, bytes a second; about as many as 13 bytes a visibility are if None.
    source : str
        Where the numbers are from.
    """

    name: str
    antennas: int
    pols: int
    bandwidth: float
    bits: int
    channels: int
    taps: int = 16
    spectrum_bits: int = 8
    integration: float = 1.0
    complex: bool = False
    bands: int = 1
    wire_in: float = WIRE
    wire_spectra: float = WIRE
    file_bytes: float | None = None
    source: str = ""

    @classmethod
    def of(cls, o: Observation) -> Work:
        """Take the numbers of an observation."""
        links = {link.name: link for link in rates.links(o)}
        first, spectra = links.get("digitizer stream"), links.get("X-engine in")
        return cls(
            o.observation.name,
            len(o.antennas),
            o.pols,
            float(o.sample_rate) * (1.0 if o.digitizer.complex else 0.5),
            o.digitizer.bits,
            o.fengine.channels,
            o.fengine.taps,
            o.fengine.output_bits,
            float(o.integration_time),
            o.digitizer.complex,
            wire_in=first.wire / first.payload if first else WIRE,
            wire_spectra=_wire_of_spectra(o, spectra) if spectra else WIRE,
            file_bytes=rates.file_rate(o),
            source=o.source,
        )

    @property
    def inputs(self) -> int:
        """Inputs of a band."""
        return self.antennas * self.pols

    @property
    def samples(self) -> float:
        """Samples a second of one input."""
        return self.bandwidth * (1 if self.complex else 2)

    @property
    def sample_bits(self) -> int:
        """Bits of a sample, both parts of a complex one."""
        return self.bits * (2 if self.complex else 1)

    @property
    def products(self) -> int:
        """Visibilities of a channel of a band, autos included."""
        return self.pols**2 * self.antennas * (self.antennas + 1) // 2

    @property
    def x_operations(self) -> float:
        """Operations a second of all X-engines: 8·N(N+1)/2 a channel-sample."""
        return COMPLEX_OPERATIONS * self.inputs * (self.inputs + 1) / 2 * self.bandwidth * self.bands

    @property
    def operations_a_sample(self) -> float:
        """Operations of X for a sample of one input."""
        return self.x_operations / (self.inputs * self.samples * self.bands)

    @property
    def input_wire(self) -> float:
        """Bits a second of one input, on the wire."""
        return self.samples * self.sample_bits * self.wire_in

    @property
    def spectra_wire(self) -> float:
        """Bits a second of one input's spectra, on the wire."""
        return self.bandwidth * 2 * self.spectrum_bits * self.wire_spectra

    @property
    def output_bytes(self) -> float:
        """Bytes a second of the visibility file."""
        value = 13  # complex64, flag, nsamples: as rates.FILE_VALUE
        whole = self.products * self.channels * value * self.bands / self.integration
        return whole if self.file_bytes is None else self.file_bytes


def _wire_of_spectra(o: Observation, link: rates.Link) -> float:
    """Bits on the wire over those of values: rows have a byte a part for values of 4 bits too."""
    if not o.channelizes:
        return link.wire / link.payload
    values = o.n_inputs * o.substream_channels * float(o.sample_rate / o.step)
    return link.wire / (values * 2 * o.fengine.output_bits)


@cache
def telescopes() -> dict[str, Work]:
    """Give arrays that are known, by name, in the order of the file."""
    found = tomllib.loads((files("ryle.plan") / "telescopes.toml").read_text())
    return {name: Work(name, **values) for name, values in found.items()}
