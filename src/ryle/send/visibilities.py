"""X-heaps by UDP: the visibilities of one integration and substream, from X-engines to the catcher."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ryle.chunk import Integration
from ryle.config import Observation
from ryle.send.descriptors import Descriptors, visibility_items
from ryle.send.heaps import HeapSender
from ryle.send.pacing import LocalQueues
from ryle.wire import spead

#: Least rate of a paced sender in B/s: small heaps need not be stretched over an integration, but even the socket
#: buffer of an untuned machine (some 200 kB) must hold what comes in the 20 ms that a busy one may take to look at it.
_LEAST_RATE = 5e6
#: Rate in B/s of all senders of one host together in a simulation at full speed, which has no time to pace to.
_FULL_SPEED = 100e6


def meerkat_values(integration: Integration) -> NDArray[np.int32]:
    """Visibilities as MeerKAT's X-heaps hold them: saturated at ±(2³¹ − 1), (−2³¹, 1) where nothing contributed.

    Returns
    -------
    ndarray of int32, shape (channel, product, 2)
    """
    most = 2**31 - 1
    values = np.clip(integration.visibilities, -most, most).astype(np.int32)
    group = integration.channels // integration.counts.shape[0]
    values[np.repeat(integration.counts == 0, group, axis=0)] = spead.MISSING
    return values


class VisibilitySender(HeapSender):
    """Sends integrations of one substream as heaps.

    Parameters
    ----------
    observation : Observation
        Sizes and endpoint.
    substream : int
        Which share of the band; heap IDs are substream + k · substreams.
    rate : float, optional
        Bytes a second on the wire; 0 sends as fast as possible. If absent, a heap takes half of the time in which an
        integration comes, or less if that is slower than 5 MB/s; in a simulation at full speed all substreams together
        send 100 MB/s, and wait for a catcher on this host.
    layout : "native" or "meerkat", optional
        int64 sums with counts, or MeerKAT's int32; ``xengine.sends`` if absent.
    """

    def __init__(
        self,
        observation: Observation,
        substream: int,
        *,
        rate: float | None = None,
        layout: Literal["native", "meerkat"] | None = None,
    ) -> None:
        super().__init__()
        o = observation
        layout = o.xengine.sends if layout is None else layout
        if layout not in ("native", "meerkat"):
            raise ValueError(f'layout {layout!r} must be "native" or "meerkat"')
        if not 0 <= substream < o.substreams:
            raise ValueError(f"substream {substream} must be from 0 to {o.substreams - 1}")
        self._observation, self._layout, self._to = o, layout, o.visibilities_endpoint(substream)
        self._substream, self._substreams = substream, o.substreams
        self._step, self._integration = o.step, o.integration_spectra
        self._shape = (o.substream_channels, o.products, 2)
        self._counts = (o.groups, o.products)
        self._first_channel = substream * o.substream_channels
        size = o.substream_channels * o.products * (16 if layout == "native" else 8) + o.groups * o.products * 4
        at_full_speed = rate is None and o.simulate is not None and o.simulate.speed == "max"
        self._queues = LocalQueues([self._to]) if at_full_speed else None
        a_second = o.arrival_rate / (o.step * o.integration_spectra)  # integrations; of a slowly simulated sky fewer
        usual = _FULL_SPEED / o.substreams if at_full_speed else 2 * size * a_second
        #: Bytes a second that are offered; 0 if not paced.
        self.rate = max(_LEAST_RATE, usual) if rate is None else rate
        self._out = self._open([self._to], o.network, o.network.packet_size + spead.preamble(7), self.rate)
        #: Heaps sent so far.
        self.sent = 0

    def send(self, integration: Integration) -> None:
        """Send one integration; blocks until it is on the wire, for as long as the rate asks.

        Raises
        ------
        ValueError
            If shapes, channel or length are not those of the observation.
        """
        i = integration
        found = (i.visibilities.shape, i.counts.shape, i.first_channel, i.spectra)
        wanted = (self._shape, self._counts, self._first_channel, self._integration)
        if found != wanted:
            raise ValueError(
                "visibilities, counts, first channel and spectra of the integration are "
                f"{', '.join(map(str, found))}; this sender's are {', '.join(map(str, wanted))}"
            )
        items = [
            spead.immediate(spead.TIMESTAMP, np.array(self._step * i.first_spectrum, ">u8")),
            spead.immediate(spead.FREQUENCY, np.array(i.first_channel, ">u8")),
        ]
        if self._layout == "native":
            begin, end = i.exposed.span
            items += [
                spead.immediate(spead.SPECTRA, np.array(i.spectra, ">u8")),
                spead.immediate(spead.BEGIN, np.array(begin - i.first_spectrum, ">u8")),
                spead.immediate(spead.END, np.array(end - i.first_spectrum, ">u8")),
                spead.array(spead.XENG_SUMS, i.visibilities.astype(">i8")),
                spead.array(spead.XENG_COUNTS, i.counts.astype(">u4")),
            ]
        else:
            items.append(spead.array(spead.XENG_RAW, meerkat_values(i).astype("<i4")))
        if self._queues is not None:
            self._queues.wait()
        count = i.first_spectrum // self._integration
        self._out.send_heap(spead.heap(items), cnt=self._substream + count * self._substreams)
        self.sent += 1

    def describe(self) -> None:
        """Send SPEAD descriptors from now on, every 5 s."""
        o = self._observation
        self._opened.append(Descriptors(o, [self._to], visibility_items(o, self._layout)))

    def end(self) -> None:
        """Send a stop heap."""
        self._out.send_heap(spead.end_heap(spead.FREQUENCY, self._first_channel))
