"""Plans of engines' rings: how many chunks they have, and how far streams may be apart.

A map (`ryle.receive.entrance.Map`) says which packets there are and how long a chunk is; the rest is the same for all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ryle.config import Observation
from ryle.config.observation import SPARE_CHUNKS
from ryle.receive.assembly import Plan
from ryle.wire.description import Format

#: Chunks that an engine has besides those that may be open: for its steps.
SPARE = 5
#: Seconds by which steps may be late on a host that is busy, and bytes that this may take: what finds the ring full is
#: lost, though sockets' buffers have room.
_LATE, _LATE_BYTES = 0.5, 256 << 20


def silence_after(o: Observation, period: float = 0.0) -> float:
    """Say how long, in seconds, nobody waits for a stream that is not heard, of which packets come every so often.

    Parameters
    ----------
    period : float
        Seconds of signal from a packet to the next of a stream.
    """
    rate = float(o.sample_rate)
    return max(1.0, 2.5 * period * rate / (o.arrival_rate or rate))


def f_period(o: Observation) -> float:
    """Seconds of signal that an F-engine channelizes, and sends, at a time; 0 if others do."""
    return 0.0 if o.packets is not None else o.f_batches * o.batch_spectra * o.step / float(o.sample_rate)


def open_chunks(skew: float, span: float) -> int:
    """Chunks of `span` seconds by which streams that are `skew` seconds apart may be, at least one."""
    return max(1, math.ceil(skew / span))


def late_chunks(seconds: float, size: int) -> int:
    """Chunks that a live engine has for its steps to be late.

    Parameters
    ----------
    seconds : float
        Of a chunk.
    size : int
        Of a chunk, bytes.
    """
    return min(math.ceil(_LATE / seconds), _LATE_BYTES // max(1, size))


def ring_plan(
    format: Format,
    heads: Sequence[tuple[int, ...]],
    *,
    packets: int,
    chunks: int,
    span: int,
    apart: int,
    rate: float,
    silence: float,
    waits: bool,
    timed: bool,
    **more: Any,
) -> Plan:
    """Plan a ring of samples or spectra.

    Parameters
    ----------
    format, heads, packets, chunks
        As of `ryle.receive.assembly.Plan`.
    span : int
        Length of a chunk, in units of the format's timestamps; so far may packets of a stream be out of order.
    apart : int
        Chunks by which streams may be apart.
    rate : float
        Units of the format's timestamps that come in a second; 0 if they come without a clock.
    silence : float
        Seconds for which others wait for a stream that is not heard.
    waits : bool
        Whether the source can be held up.
    timed : bool
        Whether streams are apart by `apart` at most; else, with `waits`, by as much as memory allows.
    **more
        Further arguments of the plan.
    """
    return Plan(
        format,
        heads,
        packets=packets,
        chunks=chunks,
        window=span,
        skew=apart * span if timed else None,
        linger=0.0,
        waits=waits,
        silence=silence if timed else 0.0,
        rate=rate if timed else 0.0,
        **more,
    )


def spectra_plan(
    observation: Observation,
    format: Format,
    heads: Sequence[tuple[int, ...]],
    *,
    channels: int,
    packet_spectra: int,
    waits: bool,
    timed: bool,
    **more: Any,
) -> Plan:
    """Plan a ring of packets of spectra, of whole batches; parameters as of `ring_plan`.

    Parameters
    ----------
    channels : int
        Channels of all substreams together.
    packet_spectra : int
        Spectra of a packet.
    """
    substreams = channels // observation.substream_channels
    spectra, apart = observation.chunk_spectra(substreams), observation.skew_chunks(substreams)
    size = observation.batch_bytes * substreams * spectra // observation.batch_spectra
    late = late_chunks(spectra * observation.step / float(observation.sample_rate), size) if timed else 0
    return ring_plan(
        format,
        heads,
        packets=spectra // packet_spectra,
        chunks=apart + SPARE_CHUNKS + late,
        span=spectra,
        apart=apart,
        rate=observation.arrival_rate / observation.step,
        silence=silence_after(observation, f_period(observation)),
        waits=waits,
        timed=timed,
        **more,
    )
