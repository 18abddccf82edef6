"""Packets of PAPER's format with payloads as `ryle send` fills them, for tests of captures."""

import numpy as np

from ryle.receive import _native
from ryle.receive.assembly import Plan, grid
from ryle.send.streams import identity
from ryle.wire.build import build
from ryle.wire.description import Format

FORMAT = Format.load("paper_psa128")
BYTES = 8192


def plan(heads=2, packets=4, chunks=8, **settings):
    return Plan(FORMAT, grid(FORMAT, fid=range(heads), xid=0), packets, chunks=chunks, linger=0.0, **settings)


def payload(head, number, seed=1, filling=0):
    out = np.empty(BYTES, np.uint8)
    place = identity(FORMAT, {"fid": head, "xid": 0})
    _native.fill_payload(
        filling, seed, place, number * FORMAT.timestamp.step % FORMAT.period // FORMAT.timestamp.step, out
    )
    return out


def packet(head, number, seed=1, filling=0):
    fields = {"fid": head, "xid": 0, "mcnt": number % 2**48}
    return build(FORMAT, fields, payload(head, number, seed, filling).tobytes())


def feed(assembler, first, last, skip=()):
    """Send packets of all heads with numbers `first` to `last` − 1, but for those in `skip`: (head, number)."""
    heads = range(len(assembler.plan.heads))
    assembler.take([packet(h, n) for n in range(first, last) for h in heads if (h, n) not in skip])
