"""What lately came of what each sender sends: one bad link among many is lost in the account of all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from ryle.config import Observation
from ryle.engines.totals import Lately
from ryle.receive.entrance import Entrance
from ryle.receive.packets import PacketMap
from ryle.receive.rows import RowMap
from ryle.stream.engine import Inlet
from ryle.stream.metrics import Registry

#: Senders that are told of at most, those that lose most: of a large array every engine has many.
MOST = 16


def measure_senders(metrics: Registry, entrance: Inlet, senders: Sequence[str]) -> None:
    """Add to an engine's metrics what share is lost of the packets of those senders that lose any.

    Parameters
    ----------
    metrics : Registry
        Where to.
    entrance : Inlet
        Where packets come in; of one that does not tell its heads apart nothing is said.
    senders : sequence of str
        Who sends each of its heads, for people.
    """
    if not isinstance(entrance, Entrance) or len(entrance.assembler.plan.heads) != len(senders):
        return
    assembler, names = entrance.assembler, list(dict.fromkeys(senders))
    places = {name: n for n, name in enumerate(names)}
    which = np.array([places[name] for name in senders])

    def counted() -> NDArray[np.float64]:
        counts = assembler.head_counts()
        return np.stack([np.bincount(which, each, len(names)) for each in (counts.missing, counts.expected)])

    lately = Lately(counted)

    def lost() -> dict[str, float]:
        missing, expected = lately.grown()
        share = np.where(expected > 0, missing / np.maximum(expected, 1), 0)
        worst = np.argsort(-share, kind="stable")[:MOST]
        return {names[n]: round(float(share[n]), 6) for n in worst.tolist() if share[n] > 0}

    metrics.gauge("senders", "", "links over which packets come", lambda: len(names))
    metrics.gauge(
        "sender_loss", "", f"share lost lately of the packets of senders that lose any, the {MOST} worst", lost
    )


def f_senders(observation: Observation, antennas: Iterable[int]) -> list[str]:
    """Say which of Ryle's F-engines sends the spectra of each of some antennas."""
    return [f"F-engine {a // observation.fengine.antennas_per_engine}" for a in antennas]


def packet_senders(observation: Observation, packets: PacketMap | RowMap) -> list[str]:
    """Say who sends the packets of each head of an X-engine: one of Ryle's F-engines, or another's of some antennas."""
    o = observation
    if isinstance(packets, RowMap):
        return f_senders(o, (antenna for antenna, _ in packets.heads))
    of_wire = o.wire_inputs // packets.layout.inputs
    names = [
        " and ".join(dict.fromkeys(o.antennas[i // o.pols].name for i in np.flatnonzero(of_wire == sender).tolist()))
        for sender in packets.senders.tolist()
    ]
    groups = len(packets.heads) // len(names)
    return [f"the F-engine of {name}" for name in names for _ in range(groups)]
