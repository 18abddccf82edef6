"""The network between F- and X-engines, packet by packet: how long queues get, how far apart a block's packets arrive.

Packets go through queues in a row, first come first served: the sender's card, where there is more than one switch a
link up to a spine and one down from it, and the port of the receiver. No packet comes to a queue twice, so that each
queue can be followed to its end before the next. A queue that is full drops what comes. What this says is how deep a
switch's buffers must be, and how much skew, and with it how many blocks, receive rings must hold.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ryle.chunk import BLOCK
from ryle.config import Observation, rates

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
#: Bytes of packets that a paced sender lets go at once (native/send/rows.cpp: 250 us of its rate).
_TRAIN = 250e-6


@dataclass(frozen=True)
class Turn:
    """A corner turn.

    Parameters
    ----------
    senders, receivers : int
        F-engines, and X-engines.
    packets : int
        Of a block from each sender to each receiver.
    packet : float
        Bytes of one, on the wire.
    block : float
        Seconds of a block.
    link : float
        Bits a second of every link.
    pace : float
        Rate of senders, times real time; 0: they send a block as fast as their link takes it.
    staggered : bool
        Whether each sender begins a block with another receiver; else all with the first.
    jitter : float
        Seconds by which a sender's block may be late, evenly spread.
    buffer : float
        Bytes of a switch's port.
    leaves : int
        Switches that hosts are spread over; 1: all are at one.
    uplinks : int
        Links from each of them to spines, each to its own.
    failed : int
        Uplinks of the first switch that carry nothing; their packets take the others.
    """

    senders: int
    receivers: int
    packets: int
    packet: float
    block: float
    link: float = 100e9
    pace: float = 1.1
    staggered: bool = True
    jitter: float = 0.0
    buffer: float = math.inf
    leaves: int = 1
    uplinks: int = 0
    failed: int = 0

    @classmethod
    def of(cls, o: Observation, link: float) -> Turn:
        """Take that of an observation, with an engine a host."""
        spectra = next(each for each in rates.links(o) if each.name == "X-engine in")
        block = float(BLOCK * o.step / o.sample_rate)
        packets = spectra.packets * block / o.f_engines
        packet = spectra.wire / spectra.packets / 8
        return cls(o.f_engines, o.substreams, max(1, round(packets)), packet, block, link, o.fengine.pace)


@dataclass(frozen=True)
class Found:
    """What became of packets.

    Parameters
    ----------
    lost : float
        Share of them.
    deepest : float
        Bytes that waited at a switch's port at most.
    latency : float
        Seconds that a packet was under way at most.
    spread : float
        Seconds between the first and the last packet of a block at a receiver, at most.
    busiest : float
        Share of its time that the busiest link sends.
    """

    lost: float
    deepest: float
    latency: float
    spread: float
    busiest: float

    def skew(self, block: float) -> float:
        """Say how far apart senders have to be allowed to be: what packets of a block are apart beyond its time."""
        return max(0.0, self.spread - block)


def simulate(turn: Turn, blocks: int = 8, seed: int = 1) -> Found:
    """Follow the packets of some blocks.

    Parameters
    ----------
    turn : Turn
        Which network.
    blocks : int
        How many; queues that grow from block to block show that a link is too slow.
    seed : int
        Of the jitter, and of which packets take which uplink.
    """
    random = np.random.default_rng(seed)
    sent, sender, receiver, number = _sent(turn, blocks, random)
    seconds = 8 * turn.packet / turn.link
    at, deepest, busiest = sent.copy(), 0.0, 0.0
    alive = np.ones(len(at), np.bool_)
    hops = [(sender, math.inf)]
    leaf_of, leaf_to = sender % turn.leaves, receiver % turn.leaves
    across = leaf_of != leaf_to
    if turn.leaves > 1:
        # The packets of a sender to a receiver stay on one uplink, as switches spread flows.
        flow = random.integers(0, 1 << 30, (turn.senders, turn.receivers))[sender, receiver]
        up = flow % turn.uplinks
        if turn.failed:
            first = (leaf_of == 0) | (leaf_to == 0)
            up = np.where(first, turn.failed + flow % (turn.uplinks - turn.failed), up)
        hops += [
            (np.where(across, leaf_of * turn.uplinks + up, -1), turn.buffer),
            (np.where(across, leaf_to * turn.uplinks + up, -1), turn.buffer),
        ]
    hops.append((receiver, turn.buffer))
    span = blocks * turn.block
    for stage, (port, room) in enumerate(hops):
        for which in np.unique(port[port >= 0]):
            mine = np.flatnonzero((port == which) & alive)
            mine = mine[np.argsort(at[mine], kind="stable")]
            leaves, kept, depth = queue(at[mine], seconds, room / turn.packet)
            at[mine] = leaves
            alive[mine[~kept]] = False
            deepest = max(deepest, depth * turn.packet if stage else 0.0)
            busiest = max(busiest, len(mine) * seconds / span)
    where, arrived = receiver[alive] * blocks + number[alive], at[alive]
    first_of, last_of = np.full(turn.receivers * blocks, np.inf), np.zeros(turn.receivers * blocks)
    np.minimum.at(first_of, where, arrived)
    np.maximum.at(last_of, where, arrived)
    spread = np.where(np.isfinite(first_of), last_of - first_of, 0.0)
    return Found(
        float(1 - alive.mean()),
        deepest,
        float((arrived - sent[alive]).max(initial=0.0)),
        float(spread.max()),
        busiest,
    )


def _sent(turn: Turn, blocks: int, random: np.random.Generator) -> tuple[Floats, Ints, Ints, Ints]:
    """Say when each packet leaves its sender's pace, from whom, to whom and of which block it is."""
    per_block = turn.receivers * turn.packets
    shape = (turn.senders, blocks, turn.receivers, turn.packets)
    sender, number, order, _ = (axis.reshape(-1) for axis in np.indices(shape, np.int64))
    begin = sender * turn.receivers // turn.senders if turn.staggered else 0
    receiver = (begin + order) % turn.receivers
    late = random.uniform(0, turn.jitter, (turn.senders, blocks)) if turn.jitter else np.zeros((turn.senders, blocks))
    index = np.arange(per_block)
    if turn.pace:
        each = turn.block / turn.pace / per_block
        train = max(1, int(_TRAIN / each))
        offsets = index // train * train * each
    else:
        offsets = np.zeros(per_block)
    starts = number[::per_block].reshape(turn.senders, blocks) * turn.block + late
    if turn.pace:  # a sender that is late goes on at its pace, and catches up by as much as that is above real time
        for b in range(1, blocks):
            starts[:, b] = np.maximum(starts[:, b], starts[:, b - 1] + turn.block / turn.pace)
    return (starts[:, :, None] + offsets).reshape(-1), sender, receiver, number


def queue(at: Floats, seconds: float, room: float) -> tuple[Floats, NDArray[np.bool_], float]:
    """Let packets through a queue.

    Parameters
    ----------
    at : ndarray of float, shape (n,)
        When each arrives, in order.
    seconds : float
        That each takes to be sent.
    room : float
        Packets that may wait, the one that is being sent among them.

    Returns
    -------
    leaves : ndarray of float, shape (n,)
        When each has been sent.
    kept : ndarray of bool, shape (n,)
        Whether there was room for it.
    depth : float
        Packets that waited at most.
    """
    n = len(at)
    if not n:
        return at, np.ones(0, np.bool_), 0.0
    steps = seconds * np.arange(1, n + 1)
    leaves = steps + np.maximum.accumulate(at - (steps - seconds))
    waiting = (leaves - at) / seconds
    if waiting.max() <= max(1.0, room):
        return leaves, np.ones(n, np.bool_), float(waiting.max())
    kept, last, depth = np.ones(n, np.bool_), -math.inf, 0.0
    for i, arrives in enumerate(at.tolist()):
        waits = max(0.0, (last - arrives) / seconds) + 1
        if waits > max(1.0, room) + 1e-9:
            kept[i] = False
            continue
        depth = max(depth, waits)
        last = max(last, arrives) + seconds
        leaves[i] = last
    return leaves, kept, depth


def scenarios(turn: Turn) -> dict[str, Turn]:
    """Name what may go wrong with a corner turn, one thing after the other."""
    found = {
        "as planned": turn,
        "senders late by up to a block": replace(turn, jitter=turn.block),
        "all begin with the same X-engine": replace(turn, staggered=False),
        "not paced": replace(turn, pace=0.0),
    }
    if turn.leaves > 1 and turn.uplinks > 1:
        found["an uplink fails"] = replace(turn, failed=1)
    return found
