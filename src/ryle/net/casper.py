"""Visibilities of CASPER X-engines, in 0x4b52 packets, as PAPER's sent them to its catcher.

A packet is a 64-bit word ``4b52 0003 0000 N``, N options of 16 bits of name and 48 bits of value, and samples; all of
it big-endian but the samples. Options that matter, in any order: ``0032``, instrument (16 bits: 4), instance and
X-engine; ``0033``, bytes of samples (24 bits) and a count; ``0003``, time; ``0005``, offset of the samples in the
X-engine's dump. A dump is float32 (re, im), little-endian, [channel][baseline][polarization product], channels
contiguous from X-engine to X-engine: product of inputs i and j is the sum of x_i · conj(x_j), times
`CatcherTable.scale`. Source: paper_gpu of 2012 (``paper_gpu_output_thread.c``), casper_correlator (``collate_buffer``).
"""

from __future__ import annotations

import select
import struct
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ..chunk import Integration
from ..config import Observation
from ..correlate import product_inputs
from .accounting import Account
from .pcap import PcapFile
from .sockets import kernel_drops, queued_bytes, receive_socket

MAGIC, VERSION, INSTRUMENT = 0x4B52, 3, 4
#: Options: time, offset, instrument and X-engine, length.
TIME, OFFSET, IDENTITY, LENGTH = 0x03, 0x05, 0x32, 0x33
#: Dumps by which one X-engine may be ahead of another.
_WINDOW = 4


def baseline_order(antennas: int) -> NDArray[np.int64]:
    """List the pairs of antennas (i ≤ j) in the order in which a CASPER X-engine sends them, shape (baseline, 2)."""
    pairs: dict[tuple[int, int], None] = {}
    for wrapped in (False, True):
        for i in range(antennas):
            for distance in range(antennas // 2, -1, -1):
                k = (i - distance) % antennas
                pair = (i, k) if wrapped else (k, i)
                if (i < k) == wrapped:
                    pairs.setdefault(pair)
    return np.array(list(pairs), np.int64)


def dump_products(antennas: int, polarizations: int) -> NDArray[np.int64]:
    """List the inputs (i, j) of each product of a dump: xx, yy, xy, yx of one baseline after the other."""
    p = [(0, 0)] if polarizations == 1 else [(0, 0), (1, 1), (0, 1), (1, 0)]
    pairs = baseline_order(antennas)
    products: NDArray[np.int64] = (pairs[:, np.newaxis] * polarizations + np.array(p)).reshape(-1, 2)
    return products


@dataclass(slots=True)
class _Dump:
    values: NDArray[np.float32]  # (X-engine, channel · product, 2)
    there: NDArray[np.bool_]  # (X-engine, channel · product)


class DumpAssembler:
    """Puts packets of all X-engines together, one integration of the whole band after the other.

    An integration is given when it is complete, or when one that is four later has begun; what did not come has counts
    of zero. Values that are given are divided by the scale; they are sums over that many spectra, exact but for the
    rounding of the X-engine.

    Parameters
    ----------
    observation : Observation
        With ``catcher.packets``.
    """

    def __init__(self, observation: Observation) -> None:
        o = observation
        self._engines, self._channels, self._products = o.substreams, o.substream_channels, o.products
        self._bytes = self._channels * self._products * 8
        self._spectra, self._step = o.integration_spectra, o.step
        self._unit, self._scale = o.catcher.stamp_samples, o.catcher.scale
        offset = o.catcher.stamp_offset
        self._offset = max(0, self._spectra - 1024) if offset is None else offset
        wire = dump_products(len(o.antennas), o.pols)
        place = np.full((o.n_inputs, o.n_inputs), -1, np.int64)
        place[wire[:, 0], wire[:, 1]] = np.arange(len(wire))
        i, j = o.wire_inputs[product_inputs(len(o.antennas), o.pols)].T
        swapped = place[i, j] < 0
        self._place = np.where(swapped, place[j, i], place[i, j])
        self._sign = np.where(swapped, -1.0, 1.0)
        self._open: dict[int, _Dump] = {}
        self._given: int | None = None
        self._time: int | None = None
        self._size = 0
        self._first, self._last = 0, -1
        #: What became of the packets, by class.
        self.counts = dict.fromkeys(("placed", "late", "duplicate", "malformed", "foreign"), 0)

    def take(self, packet: bytes | memoryview) -> Iterator[Integration]:
        """Place a packet; give what is then due."""
        verdict = self._placed(packet)
        self.counts[verdict] += 1
        if verdict != "placed":
            return
        newest = max(self._open)
        for first in sorted(self._open):
            if not self._open[first].there.all() and newest - first < _WINDOW * self._spectra:
                break
            yield self._give(first)

    def flush(self) -> Iterator[Integration]:
        """Give what is open, as it is."""
        for first in sorted(self._open):
            yield self._give(first)

    def account(self, drops: int | None = None) -> Account:
        """Say what became of every packet so far, in the integrations that were given."""
        waiting = sum(int(d.there.sum()) for d in self._open.values()) * 8 // self._size if self._size else 0
        placed = self.counts["placed"] - waiting
        dumps = (self._last - self._first) // self._spectra + 1 if self._given is not None else 0
        expected = dumps * self._engines * -(-self._bytes // self._size) if self._size else 0
        return Account(
            "visibilities",
            datagrams=sum(self.counts.values()) - waiting,
            expected=expected,
            missing=expected - placed,
            kernel_drops=drops,
            placed=placed,
            late=self.counts["late"],
            duplicate=self.counts["duplicate"],
            malformed=self.counts["malformed"],
            foreign=self.counts["foreign"],
        )

    def _placed(self, packet: bytes | memoryview) -> str:
        if len(packet) < 8:
            return "malformed"
        magic, version, zero, count = struct.unpack_from(">4H", packet)
        if magic != MAGIC:
            return "foreign"
        if version != VERSION or zero or len(packet) < 8 + 8 * count:
            return "malformed"
        words = struct.unpack_from(f">{count}Q", packet, 8)
        options = {word >> 48: word & (1 << 48) - 1 for word in words}
        if not {TIME, OFFSET, IDENTITY, LENGTH} <= set(options):
            return "malformed"
        size, offset, engine = options[LENGTH] >> 24, options[OFFSET], options[IDENTITY] & 0xFFFF
        if options[IDENTITY] >> 32 != INSTRUMENT or engine >= self._engines:
            return "foreign"
        whole = len(packet) == 8 + 8 * count + size and not size % 8 and not offset % 8
        samples = self._unwrapped(options[TIME]) * self._unit - self._offset * self._step
        if not whole or not size or offset + size > self._bytes or samples < 0 or samples % self._step:
            return "malformed"
        first = samples // self._step
        if self._given is not None and first <= self._given:
            return "late"
        self._time, self._size = self._unwrapped(options[TIME]), max(self._size, size)
        if first not in self._open:
            shape = self._engines, self._channels * self._products
            self._open[first] = _Dump(np.zeros((*shape, 2), np.float32), np.zeros(shape, np.bool_))
        dump, cells = self._open[first], slice(offset // 8, (offset + size) // 8)
        if dump.there[engine, cells].any():
            return "duplicate"
        dump.values[engine, cells] = np.frombuffer(packet, "<f4", offset=8 + 8 * count).reshape(-1, 2)
        dump.there[engine, cells] = True
        return "placed"

    def _unwrapped(self, count: int) -> int:
        """Give the time, counted in 48 bits, that is nearest to the last."""
        if self._time is None:
            return count
        return self._time + (count - self._time + (1 << 47)) % (1 << 48) - (1 << 47)

    def _give(self, first: int) -> Integration:
        dump = self._open.pop(first)
        if self._given is None:
            self._first = first
        self._given = self._last = first
        band = self._engines * self._channels
        values = dump.values.reshape(band, self._products, 2)[:, self._place].astype(np.float64) / self._scale
        values[..., 1] *= self._sign
        counts = dump.there.reshape(band, self._products)[:, self._place].astype(np.uint32) * np.uint32(self._spectra)
        return Integration(first, self._spectra, 0, values, counts)


class DumpReceiver:
    """Receives others' visibilities by UDP; iterating gives integrations of the whole band until `stop`.

    Parameters
    ----------
    observation : Observation
        With ``catcher.packets``; packets come to ``network.visibilities``.
    """

    def __init__(self, observation: Observation) -> None:
        network = observation.network
        self.assembler = DumpAssembler(observation)
        self._socket = receive_socket(network.visibilities, network.interface, network.receive_buffer)
        self._socket.setblocking(False)
        self._stop = threading.Event()
        self._drops: int | None = None
        self._closed = False

    def __iter__(self) -> Iterator[Integration]:
        poll = select.poll()
        poll.register(self._socket.fileno(), select.POLLIN)
        while True:
            stopped = self._stop.is_set()  # what had come before is still taken
            if poll.poll(0 if stopped else 100):
                yield from self.assembler.take(self._socket.recv(65536))
            elif stopped:
                break
        yield from self.assembler.flush()

    def stop(self) -> None:
        """Receive no more; what has come is still given. From any thread, repeatedly."""
        self._stop.set()

    @property
    def pending(self) -> int:
        """Bytes that wait in the socket."""
        return 0 if self._closed else queued_bytes([self._socket])

    def account(self) -> Account:
        """Say what became of every packet so far."""
        return self.assembler.account(self._drops if self._closed else kernel_drops([self._socket]))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._drops = kernel_drops([self._socket])
        self._closed = True
        self._socket.close()


class DumpCapture:
    """Others' visibilities out of a capture; iterating can be done once.

    Parameters
    ----------
    observation : Observation
        With ``catcher.packets``.
    path : str
        pcap or pcapng file. Addresses and ports do not matter.
    """

    def __init__(self, observation: Observation, path: str) -> None:
        self.assembler = DumpAssembler(observation)
        self.file = PcapFile(path)

    def __iter__(self) -> Iterator[Integration]:
        for datagram in self.file:
            yield from self.assembler.take(datagram.payload)
        yield from self.assembler.flush()

    def account(self) -> Account:
        """Say what became of every packet so far."""
        return self.assembler.account()
