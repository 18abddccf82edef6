"""SPEAD descriptors: names, shapes and types of what heaps hold, for readers who know no more than SPEAD.

They are katgpucbf's where it sends such heaps, so that a plain ``spead2.ItemGroup`` reads either.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import spead2
import spead2.send

from ryle.config import Endpoint, Observation
from ryle.send.heaps import HeapStream
from ryle.wire import spead

#: Seconds between descriptors, as MeerKAT sends them.
INTERVAL = 5.0
#: Descriptors' heap IDs begin here, far from those of data.
_FIRST_ID = 1 << 46
_IMMEDIATE = [("u", 48)]
_TIMESTAMP = (spead.TIMESTAMP, "timestamp", "ADC samples since sync of the first sample that contributed", ())
_FREQUENCY = (spead.FREQUENCY, "frequency", "Index in the whole band of the heap's first channel", ())


def digitizer_items(o: Observation) -> spead2.send.ItemGroup:
    """Describe digitizer heaps."""
    shape = (o.digitizer.heap_samples,) + (2,) * o.digitizer.complex
    kind = "f" if o.digitizer.bits == 32 else "i"
    group = _group(
        _TIMESTAMP,
        (spead.DIGITISER_ID, "digitiser_id", "Number of the stream: antenna and polarization", ()),
        (spead.STATUS, "digitiser_status", "Bits 32 to 47: saturated samples", ()),
    )
    group.add_item(spead.ADC_SAMPLES, "adc_samples", "Samples", shape, format=[(kind, o.digitizer.bits)])
    return group


def spectra_items(o: Observation) -> spead2.send.ItemGroup:
    """Describe F-heaps."""
    group = _group(_TIMESTAMP, (spead.FENG_ID, "feng_id", "Antenna", ()), _FREQUENCY)
    shape = (o.substream_channels, o.fengine.spectra_per_heap, o.pols)
    text = "Channelized samples: channel, spectrum, polarization"
    if o.value_bytes == 2:
        group.add_item(spead.FENG_RAW, "feng_raw", f"{text}, real and imaginary part", (*shape, 2), "i1")
    else:
        group.add_item(spead.FENG_RAW, "feng_raw", f"{text}; 4 bits, the real part above", shape, "u1")
    valid = (o.pols, o.fengine.spectra_per_heap // 8)
    group.add_item(spead.FENG_VALID, "feng_valid", "Only if some are not: valid spectra, a bit each", valid, "u1")
    return group


def visibility_items(o: Observation, layout: str) -> spead2.send.ItemGroup:
    """Describe X-heaps of a layout."""
    group = _group(_TIMESTAMP, _FREQUENCY)
    shape = (o.substream_channels, o.products, 2)
    if layout == "meerkat":
        group.add_item(spead.XENG_RAW, "xeng_raw", "Integrated baseline correlation products", shape, "<i4")
        return group
    group.add_item(spead.SPECTRA, "spectra", "Length of the integration", (), format=_IMMEDIATE)
    group.add_item(spead.BEGIN, "begin", "First spectrum summed, from the timestamp", (), format=_IMMEDIATE)
    group.add_item(spead.END, "end", "Spectrum behind the last summed", (), format=_IMMEDIATE)
    group.add_item(spead.XENG_SUMS, "xeng_sums", "Sums of products", shape, ">i8")
    counts = (o.groups, o.products)
    group.add_item(spead.XENG_COUNTS, "xeng_counts", "Spectra summed: channel group, product", counts, ">u4")
    return group


def _group(*immediates: tuple[int, str, str, tuple[int, ...]]) -> spead2.send.ItemGroup:
    group = spead2.send.ItemGroup(flavour=spead.FLAVOUR)
    for immediate in immediates:
        group.add_item(*immediate, format=_IMMEDIATE)
    return group


class Descriptors:
    """Sends descriptors at once and every `INTERVAL` until closed, from a thread and a socket of its own.

    Parameters
    ----------
    observation : Observation
        Its network.
    endpoints : sequence of Endpoint
        Where to.
    items : ItemGroup
        What is described.
    """

    def __init__(self, observation: Observation, endpoints: Sequence[Endpoint], items: spead2.send.ItemGroup) -> None:
        # A packet may be longer than data's: one that is cut in two could not be told from a heap that lost a packet.
        self._stream = HeapStream(endpoints, observation.network, max(1472, observation.network.packet_size), 0.0)
        self._endpoints = len(endpoints)
        self._items = items
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="descriptors", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        count = 0
        while True:
            for substream in range(self._endpoints):
                heap = self._items.get_heap(descriptors="all", data="none")
                heap.repeat_pointers = True
                self._stream.send_heap(heap, _FIRST_ID + count, substream)
                count += 1
            if self._closed.wait(INTERVAL):
                return

    def close(self) -> None:
        """Send no more."""
        self._closed.set()
        self._thread.join()
        self._stream.close()
