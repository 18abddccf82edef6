"""Statistics of an F-engine's inputs on the wire, to the catcher."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ryle.config import Endpoint, Observation
from ryle.receive import _native
from ryle.send.sockets import send_socket
from ryle.wire.description import Format
from ryle.wire.spectra import headers
from ryle.wire.statistics import FORMAT, LEVELS, NUMBERS, histogram_levels, parts


class StatisticsSender:
    """Sends what some antennas' inputs did in an interval; a packet is lost if nobody listens.

    Parameters
    ----------
    observation : Observation
        Network and digitizer.
    antennas : sequence of int
        Antennas that this sender speaks for.
    endpoint : Endpoint
        Where to: ``observation.statistics``.
    """

    def __init__(self, observation: Observation, antennas: Sequence[int], endpoint: Endpoint) -> None:
        o = observation
        self._format = Format.load(FORMAT)
        self._parts, self._levels = parts(o.channelized_bits), len(histogram_levels(o.channelized_bits))
        self._inputs = np.array([a * o.pols + p for a in antennas for p in range(o.pols)], np.uint64)
        self._to = [(endpoint.host, endpoint.port)]
        self._socket = send_socket([endpoint], o.network)
        #: Packets sent.
        self.sent = 0

    def send(self, interval: int, counts: NDArray[np.int64], numbers: NDArray[np.int64]) -> None:
        """Send what was counted in an interval.

        Parameters
        ----------
        interval : int
            Which, counted from sync.
        counts : ndarray of int64, shape (input, level)
            How often each ADC value occurred.
        numbers : ndarray of int64, shape (input, 4)
            `ryle.wire.statistics.NUMBERS` of each input.
        """
        packets = len(self._inputs) * self._parts
        filled = np.zeros((len(self._inputs), self._parts * LEVELS), ">u4")
        filled[:, : self._levels] = np.minimum(counts, (1 << 31) - 1)
        fields: dict[str, NDArray[np.uint64] | int] = {
            "levels": self._levels,
            "input": np.repeat(self._inputs, self._parts),
            "level": np.tile(np.arange(0, self._parts * LEVELS, LEVELS, dtype=np.uint64), len(self._inputs)),
            "interval": interval,
        }
        for i, name in enumerate(NUMBERS):
            fields[name] = np.repeat(numbers[:, i].astype(np.uint64), self._parts)
        made = np.concatenate(
            (headers(self._format, fields, packets), filled.reshape(packets, LEVELS).view(np.uint8)), axis=1
        )
        lengths = np.full(packets, made.shape[1], np.uint32)
        _native.send_datagrams(self._socket.fileno(), self._to, made.reshape(-1), lengths, np.zeros(packets, np.uint32))
        self.sent += packets

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()
