"""Streams of samples through the steps of engines, as if they had been received."""

import itertools
import threading
from contextlib import suppress

import numpy as np

import fresh
from ryle.chunk import SampleChunk
from ryle.stream.block import Block
from ryle.stream.engine import Engine
from ryle.stream.ring import Aborted, Ring
from ryle.stream.step import EachBlock


def run(engine, pieces):
    return [s for piece in pieces for s in engine.push(piece)] + list(engine.flush())


def in_pieces(made, present, count, jump):
    """Samples in uneven chunks, a short gap before the third, and their clock far ahead from chunk `jump` on."""
    packets, random = made.data.shape[1], fresh.rng()
    edges = [0, *np.sort(random.choice(np.arange(1, packets), count - 1, replace=False)), packets]
    size = made.packet_samples
    gap = size * int(random.integers(0, 40))
    return [
        SampleChunk(
            int(size * a + gap * (a >= edges[2]) + (1 << 20) * (a >= edges[jump])),
            made.data[:, a:b].copy(),
            present[:, a:b].copy(),
            size,
        )
        for a, b in itertools.pairwise(edges)
    ]


def blocks_of(gpu, pieces, count=3):
    """A ring of page-locked blocks, written again as soon as they are free, and a thread's work that fills them."""
    most = max(p.data.shape[1] for p in pieces)
    inputs, _, row = pieces[0].data.shape

    def make():
        return Block(gpu.pinned((inputs, most, row), np.uint8), {"present": gpu.pinned((inputs, most), np.uint8)})

    ring = Ring("samples", make, count)
    rooms = {}

    def feed():
        with suppress(Aborted):  # by an engine that failed, which says why itself
            put()

    def put():
        for piece in pieces:
            block = ring.room()
            data, present = rooms.setdefault(id(block), (block.data, block.planes["present"]))
            data.fill(0xAA)
            present.fill(1)
            n = piece.data.shape[1]
            data[:, :n], present[:, :n] = piece.data, piece.present
            block.data, block.planes["present"] = data[:, :n], present[:, :n]
            block.start, block.span = piece.timestamp, piece.samples
            ring.put(block)
        ring.close()

    return ring, feed


class Given:
    """What the blocks are."""

    lent, in_place = True, False

    def given(self, block):
        return SampleChunk(block.start, block.data, block.planes["present"], 512)

    def saturated(self, block):
        return 0


def through(steps, feed, out, use, entrances=()):
    """Run steps as an engine does; use each block that comes out."""

    class Collect(EachBlock):
        def use(self, block):
            use(block)
            block.release()

    with Engine(entrances, [*steps, Collect("collect", out.reader())]) as engine:
        engine.start()
        feeding = threading.Thread(target=feed, daemon=True)
        feeding.start()
        engine.wait()
        feeding.join()
