"""Samples on a GPU: what is still needed lies in one stretch, and little of it is copied."""

import numpy as np
import pytest

from emulation import EmulatedGpu
from ryle.channelize.cuda_samples import SampleRing

INPUTS, BYTES = 2, 24


class Moves:
    """Counts the columns that are copied within an array."""

    def __init__(self, array):
        self._array, self.columns = array, 0

    def move_columns(self, to, first, columns, stream):
        self.columns += columns
        self._array.move_columns(to, first, columns, stream)

    def __getattr__(self, name):
        return getattr(self._array, name)


def ring_of(gpu, packets):
    ring = SampleRing(gpu, INPUTS, BYTES, packets, gpu.default_stream)
    ring.samples, ring.present = Moves(ring.samples), Moves(ring.present)
    ring.restart(7)
    return ring


def check(ring, sent, there, needed):
    """Whether the packets from `needed` on are those that were sent; packet 7 was the first."""
    first = needed - ring.first
    columns = slice(first, ring.end - ring.first)
    samples = ring.samples.get()[:, : ring.packets * BYTES].reshape(INPUTS, -1, BYTES)
    np.testing.assert_array_equal(samples[:, columns], np.concatenate(sent, axis=1)[:, needed - 7 :])
    np.testing.assert_array_equal(ring.present.get()[:, columns], np.concatenate(there, axis=1)[:, needed - 7 :])


def test_whatever_is_needed_is_there(rng):
    gpu = EmulatedGpu()
    ring, sent, there, needed = ring_of(gpu, 40), [], [], 7
    for _ in range(120):
        packets = int(rng.integers(1, 11))
        sent.append(rng.integers(0, 256, (INPUTS, packets, BYTES), np.uint8))
        there.append(rng.integers(0, 2, (INPUTS, packets), np.uint8))
        ring.append(sent[-1], there[-1], needed)
        check(ring, sent, there, needed)
        needed = int(rng.integers(max(needed, ring.end - 10), ring.end + 1))


@pytest.mark.parametrize("overlap", [1, 3])
def test_appended_batch_by_batch_little_is_copied(rng, overlap):
    """A batch of 32 packets and the overlap complete what is read; then only the overlap is needed."""
    gpu, batch = EmulatedGpu(), 32
    ring, sent, there, needed, appended = ring_of(gpu, 5 * batch + 7), [], [], 7, 0
    for _ in range(40):
        for packets in (overlap, batch - overlap):
            sent.append(rng.integers(0, 256, (INPUTS, packets, BYTES), np.uint8))
            there.append(np.ones((INPUTS, packets), np.uint8))
            ring.append(sent[-1], there[-1], needed)
            check(ring, sent, there, needed)
            appended += packets
            if packets == overlap and appended > overlap:
                needed += batch
    assert 0 < ring.present.columns <= appended * overlap // (3 * batch)
    assert ring.samples.columns == BYTES * ring.present.columns


def test_what_has_no_room_is_refused(rng):
    ring = ring_of(EmulatedGpu(), 10)
    ring.append(np.zeros((INPUTS, 8, BYTES), np.uint8), np.ones((INPUTS, 8), np.uint8), 7)
    with pytest.raises(ValueError, match="4 packets more than the 7 still needed do not fit into a ring of 10"):
        ring.append(np.zeros((INPUTS, 4, BYTES), np.uint8), np.ones((INPUTS, 4), np.uint8), 8)
