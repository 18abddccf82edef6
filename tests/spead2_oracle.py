"""What spead2 makes of datagrams by itself: which heaps came whole, and what they held. It shares no code with Ryle's receivers.

It reads a capture of them, so nothing is lost on the way to it, and puts heaps together in spead2's own memory.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import spead2
import spead2.recv

from ryle.store.pcap_write import PcapWriter

TIMESTAMP, DIGITISER_ID, FENG_ID, FREQUENCY, SPECTRA = 0x1600, 0x3101, 0x4101, 0x4103, 0x4104
ADC_SAMPLES, FENG_RAW, FENG_VALID, XENG_SUMS, XENG_COUNTS = 0x3300, 0x4300, 0x4301, 0x1801, 0x1802


def whole_heaps(datagrams):
    """Give the items of each heap of which every packet is there, in order of completion: numbers, or arrays as bytes."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "datagrams.pcap"
        with PcapWriter(file) as writer:
            for time, datagram in enumerate(datagrams):
                writer.write(time, datagram, "192.0.2.1", 7148)
        stream = spead2.recv.Stream(
            spead2.ThreadPool(),
            spead2.recv.StreamConfig(stop_on_stop_item=False, max_heaps=4096, allow_out_of_order=True),
            spead2.recv.RingStreamConfig(heaps=64),
        )
        stream.add_udp_pcap_file_reader(str(file))
        found = []
        for heap in stream:
            items = heap.get_items()
            if not heap.is_end_of_stream():
                found.append(
                    {i.id: i.immediate_value if i.is_immediate else np.frombuffer(i, np.uint8).tobytes() for i in items}
                )
        return found


def _by(datagrams, array, *names):
    """Whole heaps with an array item, by these numbers; the first of those that are alike."""
    found = {}
    for items in whole_heaps(datagrams):
        if array in items and all(name in items for name in names):
            found.setdefault(tuple(items[name] for name in names), items)
    return found


def digitizer_heaps(datagrams):
    """Give samples as they came, by (digitiser_id, timestamp)."""
    found = _by(datagrams, ADC_SAMPLES, DIGITISER_ID, TIMESTAMP)
    return {key: items[ADC_SAMPLES] for key, items in found.items()}


def f_heaps(datagrams):
    """Give spectra and validity (None if all are valid), by (feng_id, first channel, timestamp)."""
    found = _by(datagrams, FENG_RAW, FENG_ID, FREQUENCY, TIMESTAMP)
    return {key: (items[FENG_RAW], items.get(FENG_VALID)) for key, items in found.items()}


def x_heaps(datagrams):
    """Give sums and counts, by (first channel, timestamp)."""
    found = _by(datagrams, XENG_SUMS, FREQUENCY, TIMESTAMP)
    return {
        key: (np.frombuffer(items[XENG_SUMS], ">i8"), np.frombuffer(items[XENG_COUNTS], ">u4"))
        for key, items in found.items()
    }
