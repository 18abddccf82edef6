"""What an observation asks of network, memory, processors and disk: arithmetic on its derived sizes.

Packets are counted as Ryle sends them when nothing is missing; descriptors and ARP, a few packets a second, are not.
"""

from __future__ import annotations

import ipaddress
import math
from dataclasses import asdict, dataclass
from typing import Any

from ryle.config.observation import Observation

#: Bytes on the wire around one IP packet: preamble 7 + delimiter 1, header 14, check sequence 4, gap 12 (IEEE 802.3).
ETHERNET = 38
UDP = 8
#: Item pointers of a packet: heap counter, size, offset, payload length, and those of the heap's own items.
SPECTRA_ITEMS, VISIBILITY_ITEMS = 8, 11
#: Header of CASPER's visibility packets: six words. Integrations that the catcher has memory for as they come.
CASPER_HEADER, DUMPS = 48, 8
#: Header of Ryle's packets of rows (wire/formats/ryle_rows.toml).
ROWS_HEADER = 64
#: Bytes of one visibility in a UVH5 file: complex64, flag, nsamples as float32; the last two before compression.
FILE_VALUE = 8 + 1 + 4


@dataclass(frozen=True)
class Link:
    """One kind of network link.

    Attributes
    ----------
    name : str
        What flows there.
    count : int
        How many such links there are.
    heap : int
        Payload of a heap in bytes.
    packet : int
        Payload of the largest packet in bytes.
    datagram : int
        Bytes of the largest IP packet, to compare with the MTU.
    packets : float
        Packets/s on one link.
    payload : float
        Payload in bit/s on one link.
    wire : float
        Ethernet line rate used, in bit/s on one link, preamble and gap included.
    """

    name: str
    count: int
    heap: int
    packet: int
    datagram: int
    packets: float
    payload: float
    wire: float


@dataclass(frozen=True)
class Load:
    """Arithmetic of the whole array.

    Attributes
    ----------
    f_samples : float
        Input samples/s of all inputs.
    f_flops : float
        Floating-point operations/s of all F-engines.
    x_ops : float
        Operations/s of all X-engines: 8 N(N+1)/2 a channel-sample for N inputs, autos included.
    """

    f_samples: float
    f_flops: float
    x_ops: float


def overhead(o: Observation, items: int) -> int:
    """Bytes of one packet besides payload and Ethernet: IP, UDP, SPEAD header and item pointers, 8 bytes each."""
    ip = 40 if ipaddress.ip_address(o.digitizer_endpoints(0)[0].host).version == 6 else 20
    return ip + UDP + 8 + 8 * items


def digitizer_header(o: Observation) -> int:
    """Bytes of a digitizer packet's header, with MeerKAT's status word if the format has one."""
    from ryle.wire.laid_out import laid_out

    format = o.digitizer_format
    return laid_out(format, ("status",) if "status" in format.fields else ()).header.bytes


def links(o: Observation) -> list[Link]:
    """Every kind of link, in the order of the signal path."""
    if not o.channelizes:
        return _others_links(o)
    antennas = len(o.f_engine_antennas(0))
    heaps = float(o.sample_rate / (o.step * o.heap_spectra))  # a second, of one antenna and substream
    digitized = float(o.sample_rate / o.digitizer.heap_samples)
    f_packet = o.spectra_heap_bytes // o.groups

    def spectra(name: str, count: int, streams: int) -> Link:
        items, header = (None, ROWS_HEADER) if o.sends_rows else (SPECTRA_ITEMS, 0)
        return _link(o, name, count, o.spectra_heap_bytes, f_packet, streams * heaps, items, header)

    def samples(name: str, count: int, streams: int) -> Link:
        size = o.digitizer_heap_bytes
        return _link(o, name, count, size, size, streams * digitized, None, digitizer_header(o))

    if o.fx is not None:
        return [samples("digitizer stream", o.n_inputs, 1), samples("FX in", 1, o.n_inputs)]
    return [
        samples("digitizer stream", o.n_inputs, 1),
        samples("F-engine in", o.f_engines, antennas * o.pols),
        spectra("F-engine out", o.f_engines, antennas * o.substreams),
        spectra("X-engine in", o.substreams, len(o.antennas)),
        *_visibility_links(o),
    ]


def _visibility_links(o: Observation) -> list[Link]:
    heap, most = visibility_heap_bytes(o), len(o.catcher_substreams(o.catchers - 1))
    return [
        _link(o, name, count, heap, min(heap, o.network.packet_size), streams / o.integration_time, VISIBILITY_ITEMS)
        for name, count, streams in (("X-engine out", o.substreams, 1), ("catcher in", o.catchers, most))
    ]


def _others_links(o: Observation) -> list[Link]:
    """Links of an observation that begins at others' F-engines, or at their X-engines."""
    if o.packets is None:
        heap = o.substream_channels * o.products * 8
        dumps = o.substreams / o.integration_time
        return [_link(o, "catcher in", 1, heap, min(heap, o.catcher.packet_payload), dumps, None, CASPER_HEADER)]
    layout = o.packets
    packets = o.packet_senders * o.groups * float(o.sample_rate / (o.step * layout.spectra))
    size, header = layout.payload_bytes, layout.packet_bytes - layout.payload_bytes
    return [
        _link(o, "X-engine in", o.substreams, size, size, packets, None, header),
        *_visibility_links(o),
    ]


def _link(
    o: Observation, name: str, count: int, heap: int, packet: int, heaps: float, items: int | None, header: int = 0
) -> Link:
    """Make a link of SPEAD heaps with so many items, or of others' packets with such a header."""
    packets = -(-heap // packet)
    extra = overhead(o, 0) - 8 + header if items is None else overhead(o, items)
    wire = heap + packets * (extra + ETHERNET)
    return Link(name, count, heap, packet, packet + extra, packets * heaps, 8 * heap * heaps, 8 * wire * heaps)


def visibility_heap_bytes(o: Observation) -> int:
    """Payload of one X-engine's heap: int64 real and imaginary sums, uint32 counts of each channel group."""
    return o.products * (o.substream_channels * 16 + o.groups * 4)


def load(o: Observation) -> Load:
    """Arithmetic of the whole array.

    A spectrum of n channels costs, of one input: the filter, 2 operations a tap and real sample; the FFT, 5/2 N log2 N
    for N = 2n real samples (5 n log2 n for complex ones); and 20 a channel for delay, gain, dither and rounding.
    """
    n, parts = o.fengine.channels, 2 if o.digitizer.complex else 1
    spectra = float(o.sample_rate / o.step) * o.n_inputs
    filtered = 2 * o.window * parts
    transformed = 2.5 * o.step * parts * math.log2(o.step)
    return Load(
        f_samples=float(o.sample_rate) * o.n_inputs,
        f_flops=spectra * (filtered + transformed + 20 * n),
        x_ops=8 * o.n_inputs * (o.n_inputs + 1) / 2 * n * float(o.sample_rate / o.step),
    )


def file_rate(o: Observation) -> float:
    """Growth of the UVH5 file in byte/s at most: visibilities, flags and nsamples, as if not compressed."""
    return o.fengine.channels * o.products * FILE_VALUE / o.file_time


def full_scale_spectra(o: Observation, bits: int) -> int:
    """Spectra of full scale, 2 · 127² (2 · 7²) each, that fit a signed sum of so many bits."""
    top = 127 if (o.fengine.output_bits if o.packets is None else o.packets.bits) == 8 else 7
    return int((1 << (bits - 1)) - 1) // (2 * top**2)


def summary(o: Observation) -> dict[str, Any]:
    """Everything derived, in base units, as plain numbers and lists that JSON can hold."""
    edge = o.channel_width / 2
    return {
        "source": o.source,
        "name": o.observation.name,
        "array": {
            "antennas": len(o.antennas),
            "polarizations": list(o.array.polarizations),
            "inputs": o.n_inputs,
            "baselines": o.baselines,
            "products": o.products,
        },
        "band": {
            "sample_rate": float(o.sample_rate),
            "lowest_frequency": float(o.sky_frequencies.min() - edge),
            "highest_frequency": float(o.sky_frequencies.max() + edge),
            "centre_frequency": o.centre_frequency,
            "direction": o.sideband_sign,
            "channels": o.fengine.channels,
            "channel_width": o.channel_width,
        },
        "time": {
            "spectrum": float(o.step / o.sample_rate),
            "batch_spectra": o.batch_spectra,
            "integration_spectra": o.integration_spectra,
            "integration_asked": float(o.xengine.integration),
            "integration": o.integration_time,
            "file_integration": o.file_time,
            "duration": None if o.observation.duration is None else float(o.observation.duration),
        },
        "links": [asdict(link) for link in links(o)],
        "load": asdict(load(o)),
        "file_rate": file_rate(o),
        "int64_headroom": full_scale_spectra(o, 64) / o.file_spectra,
    }
