"""Rows on the wire: spectra from Ryle's F-engines to Ryle's X-engines.

A packet is a header of 64 bytes and a slice of what the channelizer has laid out as `ryle.channelize.Rows`: 64 spectra
of a run of channels of one antenna, ``[channel][pol][128]`` (``wire/formats/ryle_rows.toml``). Headers are made
natively and user space copies no payload (``native/send/rows.cpp``).
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ryle.chunk import BLOCK, valid_words
from ryle.config import Endpoint, Observation
from ryle.config.engine_tables import NetworkTable
from ryle.receive import _native
from ryle.receive.sockets import interface_index
from ryle.wire.description import Format

#: The packets' description.
FORMAT = "ryle_rows"
#: Bytes before the rows.
HEADER = Format.load(FORMAT).header.bytes
_SEND_BUFFER = 8 << 20


class RowSender:
    """Sends the spectra of some antennas to every X-engine as packets of rows.

    A packet of which no spectrum is valid is withheld.

    Parameters
    ----------
    observation : Observation
        Sizes and endpoints, with ``fengine.sends = "rows"``.
    antennas : sequence of int, optional
        Antennas that this sender speaks for; all if absent.
    rate : float, optional
        Bytes a second of UDP payload, all antennas and X-engines together; 0 sends as fast as receivers on this host
        take the packets. ``fengine.pace`` times real time if absent.
    """

    def __init__(
        self, observation: Observation, antennas: Sequence[int] | None = None, *, rate: float | None = None
    ) -> None:
        o = observation
        if o.fengine.sends != "rows":
            raise ValueError(f'fengine.sends is "{o.fengine.sends}"; a sender of rows needs "rows"')
        self.antennas = list(range(len(o.antennas)) if antennas is None else antennas)
        self._shape = (len(self.antennas), o.fengine.channels, o.pols, 2 * BLOCK)
        endpoints = [o.spectra_endpoint(s) for s in range(o.substreams)]
        self._socket = _open(endpoints[0], o.network)
        self._closed = False
        self._native = _native.RowSender(
            self._socket.fileno(),
            [(e.host, e.port) for e in endpoints],
            self.antennas,
            o.fengine.channels,
            o.substream_channels,
            o.packet_channels,
            o.pols,
            # F-engines begin with different X-engines, so that not all of them send to one at a time.
            self.antennas[0] * o.substreams // len(o.antennas),
        )
        blocks = len(self.antennas) * float(o.sample_rate) / (o.step * BLOCK)  # a second, of one antenna each
        packets = o.fengine.channels // o.packet_channels
        packet = HEADER + o.packet_channels * o.pols * 2 * BLOCK
        self.rate = o.fengine.pace * blocks * packets * packet if rate is None else rate

    @property
    def rate(self) -> float:
        """Bytes a second that are offered; 0 if not paced. May be changed while another thread sends."""
        return self._native.rate

    @rate.setter
    def rate(self, rate: float) -> None:
        if rate < 0:
            raise ValueError(f"rate = {rate} B/s must not be negative; 0 sends as fast as receivers take the packets")
        self._native.rate = rate

    def send(self, rows: NDArray[np.int8], valid: NDArray[np.bool_] | NDArray[np.uint64], first_block: int) -> None:
        """Send some blocks to all X-engines; blocks for as long as the rate asks, without the interpreter's lock.

        The arrays may be used again when this returns.

        Parameters
        ----------
        rows : ndarray of int8, shape (block, antenna, channel, pol, 128)
            Rows of every channel of the band, C-contiguous.
        valid : ndarray of bool, shape (input, spectrum), or of uint64, shape (block, antenna, pol)
            Which spectra are valid: one by one, or 64 in a word, the first in the least significant bit.
        first_block : int
            Index since sync of the first block of 64 spectra.

        Raises
        ------
        ValueError
            If shapes or the first block do not fit the observation.
        OSError
            If the kernel takes no packets.
        """
        shape = (rows.shape[0], *self._shape)
        if rows.shape != shape or rows.dtype != np.int8 or not rows.flags.c_contiguous:
            raise ValueError(f"rows are {rows.dtype} {rows.shape}; this sender takes C-contiguous int8 {shape}")
        blocks, antennas, pols = shape[0], shape[1], shape[3]
        if valid.dtype == np.bool_:
            if valid.shape != (antennas * pols, blocks * BLOCK):
                raise ValueError(f"valid has shape {valid.shape}, not {(antennas * pols, blocks * BLOCK)}")
            of_inputs = valid_words(np.asarray(valid, np.bool_))
            words: NDArray[Any] = of_inputs.reshape(antennas, pols, blocks).transpose(2, 0, 1)
        else:
            words = valid
        if words.shape != (blocks, antennas, pols) or words.dtype != np.uint64:
            raise ValueError(f"valid is {words.dtype} {words.shape}, not uint64 {(blocks, antennas, pols)}")
        if first_block < 0:
            raise ValueError(f"first_block is {first_block}; blocks are counted from sync, use at least 0")
        if self._closed:
            raise ValueError("this sender is closed")
        self._native.send(rows, np.ascontiguousarray(words), first_block)

    @property
    def packets(self) -> int:
        """Packets sent."""
        return self._native.packets

    @property
    def sent(self) -> int:
        """Packets sent: of rows, each stands for itself."""
        return self._native.packets

    @property
    def withheld(self) -> int:
        """Packets withheld because no spectrum of theirs was valid."""
        return self._native.withheld

    @property
    def bytes(self) -> int:
        """Bytes of UDP payload sent."""
        return self._native.bytes

    @property
    def counts(self) -> dict[str, int]:
        """Give all counts; besides calls of the kernel, times that its queue was full, waits for receivers."""
        names = ("packets", "withheld", "bytes", "calls", "full", "waits")
        return {name: int(getattr(self._native, name)) for name in names}

    def stop(self) -> None:
        """Let `send` return soon, with packets left unsent, now and from now on; from any thread."""
        self._native.stop()

    def close(self) -> None:
        """Send no more; not while another thread is in `send` (`stop` it first)."""
        self._closed = True
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _open(endpoint: Endpoint, network: NetworkTable) -> socket.socket:
    """Open a UDP socket that sends to endpoints like this one; of multicast, through the network's interface."""
    six = ":" in endpoint.host
    s = socket.socket(socket.AF_INET6 if six else socket.AF_INET, socket.SOCK_DGRAM)
    with contextlib.suppress(OSError):  # as much as the kernel grants
        s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
    if endpoint.multicast and six:
        s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, network.ttl)
        s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, interface_index(network.own_address))
    elif endpoint.multicast:
        s.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, network.ttl)
        s.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(network.own_address))
    return s
