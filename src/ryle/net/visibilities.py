"""X-heaps by UDP: the visibilities of one integration and substream, from X-engines to the catcher."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
import spead2
import spead2.recv
import spead2.send
from numpy.typing import NDArray

from ..chunk import Integration
from ..config import Observation
from ..wire import spead
from .accounting import Account
from .chunks import Span
from .descriptors import Descriptors, visibility_items
from .pacing import LocalQueues
from .plausible import Plausible, limit_heaps
from .receiver import Receiver
from .sockets import Sender, receive_socket

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


class VisibilitySender(Sender):
    """Sends integrations of one substream as heaps.

    Parameters
    ----------
    observation : Observation
        Sizes and endpoint.
    substream : int
        Which share of the band; heap IDs are substream + k · substreams.
    rate : float, optional
        Bytes a second on the wire; 0 sends as fast as possible. If absent, a heap takes half of an integration's time,
        or less if that is slower than 5 MB/s; in a simulation at full speed all substreams together send 100 MB/s, and
        wait for a catcher on this host.
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
        self._observation, self._layout = o, layout
        self._substream, self._substreams = substream, o.substreams
        self._step, self._integration = o.step, o.integration_spectra
        self._shape = (o.substream_channels, o.products, 2)
        self._counts = (o.groups, o.products)
        self._first_channel = substream * o.substream_channels
        size = o.substream_channels * o.products * (16 if layout == "native" else 8) + o.groups * o.products * 4
        at_full_speed = rate is None and o.simulate is not None and o.simulate.speed == "max"
        self._queues = LocalQueues([o.network.visibilities]) if at_full_speed else None
        usual = _FULL_SPEED / o.substreams if at_full_speed else 2 * size / o.integration_time
        #: Bytes a second that are offered; 0 if not paced.
        self.rate = max(_LEAST_RATE, usual) if rate is None else rate
        self._out = self._open(
            [o.network.visibilities], o.network, o.network.packet_size + spead.preamble(5), self.rate
        )
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
            items += [
                spead.immediate(spead.SPECTRA, np.array(i.spectra, ">u8")),
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
        self._opened.append(Descriptors(o, [o.network.visibilities], visibility_items(o, self._layout)))

    def end(self) -> None:
        """Send a stop heap."""
        self._out.send_heap(spead.end_heap(spead.FREQUENCY, self._first_channel))


class VisibilityReceiver(Receiver[Integration]):
    """Receives the integrations of all substreams, in the order in which their heaps are complete.

    The arrays of an integration belong to whoever takes it.

    Parameters
    ----------
    observation : Observation
        Sizes and endpoint.
    end_after : int, optional
        End by itself when this many substreams have sent stop heaps; never if absent.
    skew : int
        Integrations by which substreams may be apart; what is further ahead is believed as `Plausible` says.
    """

    def __init__(
        self, observation: Observation, *, end_after: int | None = None, skew: int = 2, name: str = "visibilities"
    ) -> None:
        o = observation
        network = o.network
        incoming = receive_socket(network.visibilities, network.interface, network.receive_buffer)
        # Stop heaps and descriptors are short, whatever the observation's size.
        limit_heaps(incoming, max(8192, o.substream_channels * o.products * 16 + o.groups * o.products * 4))
        super().__init__(name, [incoming], end_after)
        self._plausible = Plausible[Integration | None](o.substreams, skew)
        self._ready: deque[Integration] = deque()
        self._stops: set[int] = set()
        self._step, self._integration = o.step, o.integration_spectra
        self._channels, self._products, self._groups = o.substream_channels, o.products, o.groups
        self._substreams = o.substreams
        self._span = Span()
        self._counts = dict.fromkeys(("placed", "duplicate", "malformed", "foreign", "incomplete"), 0)
        self._recent: dict[tuple[int, int], None] = {}
        stream = spead2.recv.Stream(
            spead2.ThreadPool(),
            spead2.recv.StreamConfig(
                stop_on_stop_item=False, substreams=o.substreams, max_heaps=2, allow_out_of_order=True
            ),
            spead2.recv.RingStreamConfig(heaps=2 * o.substreams + 2, contiguous_only=False),
        )
        self._listen(stream, stream, stream.fd, network.packet_size + 512)

    @property
    def stops(self) -> int:
        """Substreams that have sent a stop heap and nothing since."""
        return len(self._stops)

    def _take(self, heap: spead2.recv.Heap | spead2.recv.IncompleteHeap) -> Integration | None:
        if isinstance(heap, spead2.recv.IncompleteHeap):
            self._counts["incomplete"] += 1
            index, substream = divmod(heap.cnt, self._substreams)
            self._believe(self._plausible.push(substream, index, None))  # a sign of time nevertheless
            return None
        items: dict[int, Any] = {item.id: item for item in heap.get_items()}

        def number(item: int) -> int:
            return int(items[item].immediate_value) if item in items and items[item].is_immediate else -1

        first = number(spead.FREQUENCY)
        if heap.is_end_of_stream():
            self._stops.add(first)
        if heap.is_end_of_stream() or not ({spead.XENG_SUMS, spead.XENG_COUNTS} & set(items)):
            self._counts["foreign"] += 1
            return None
        timestamp, spectra = number(spead.TIMESTAMP), number(spead.SPECTRA)
        sums = self._values(items, spead.XENG_SUMS, ">i8", (self._channels, self._products, 2))
        counts = self._values(items, spead.XENG_COUNTS, ">u4", (self._groups, self._products))
        whole = self._step * self._integration
        if sums is None or counts is None or spectra != self._integration or timestamp < 0 or timestamp % whole:
            self._counts["malformed"] += 1
            return None
        if first % self._channels or not 0 <= first < self._channels * self._substreams:
            self._counts["foreign"] += 1
            return None
        key = (timestamp, first)
        if key in self._recent:
            self._counts["duplicate"] += 1
            return None
        self._recent[key] = None
        while len(self._recent) > 8 * self._substreams:
            del self._recent[next(iter(self._recent))]
        self._stops.discard(first)
        index = timestamp // whole
        made = Integration(timestamp // self._step, spectra, first, sums.astype(np.int64), counts.astype(np.uint32))
        self._believe(self._plausible.push(first // self._channels, index, made))
        return None

    def _believe(self, believed: Iterator[tuple[int, int, Integration | None]]) -> None:
        for _, index, integration in believed:
            if integration is not None:
                self._counts["placed"] += 1
                self._span.extend(0, index, index)
                self._ready.append(integration)

    def _more(self) -> Integration | None:
        return self._ready.popleft() if self._ready else None

    def _finish(self) -> None:
        self._believe(self._plausible.finish())

    def _values(self, items: dict[int, Any], item: int, dtype: str, shape: tuple[int, ...]) -> NDArray[Any] | None:
        with contextlib.suppress(KeyError, ValueError, BufferError, TypeError):
            return np.frombuffer(items[item], np.uint8).view(dtype).reshape(shape)
        return None

    def account(self) -> Account:
        """Say what became of every heap so far; incomplete ones are missing, their packets are not in `datagrams`."""
        expected = self._span.slots * self._substreams
        c = self._counts | {"malformed": self._counts["malformed"] + self._plausible.refused}
        undecoded = self.undecoded_packets or 0
        c["malformed"] += undecoded
        return Account(
            self.name,
            unit="heaps",
            datagrams=c["placed"] + c["duplicate"] + c["malformed"] + c["foreign"],
            placed=c["placed"],
            duplicate=c["duplicate"],
            malformed=c["malformed"],
            foreign=c["foreign"],
            expected=expected,
            missing=expected - c["placed"],
            kernel_drops=self.dropped_by_kernel,
        )

    @property
    def incomplete(self) -> int:
        """Heaps that lost packets."""
        return self._counts["incomplete"]
