"""From what somebody asks of a capture to the plan, options and source that it needs."""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ryle.config.addresses import endpoints
from ryle.config.endpoints import Endpoint
from ryle.config.engine_tables import Receiving
from ryle.engines.capture import CaptureOptions, To, first_patience, nothing_came
from ryle.receive.assembly import Part, Plan, heap_parts
from ryle.receive.discover import discover
from ryle.receive.receiving import open_source
from ryle.receive.sources import Source
from ryle.store.recording import Files
from ryle.store.verify import Filling, PayloadRule
from ryle.wire.description import Format

_CHUNK_BYTES = 8 << 20
_LISTEN = 1.0  # seconds
_SPARE = 4  # chunks between those that are open and those that are held for readers
_MOST_STREAMS = 65536


@dataclass(frozen=True)
class CaptureRequest:
    """What `ryle capture` is told; its options have the same names and say what they mean."""

    format: str
    at: str
    to: To = To.NULL
    files: str = ""
    file_bytes: int = 0
    file_seconds: float = 0.0
    keep: int = 0
    direct: bool = True
    gpus: tuple[int, ...] = (0,)
    streams: tuple[str, ...] = ()
    verify: bool = False
    filling: str = "random"
    seed: int = 1
    chunk: int = 0
    chunks: int = 24
    window: int = 32
    skew: int = 256
    seconds: float = 0.0
    warm_up: float = 1.0
    idle: float = 0.0
    interface: str = "127.0.0.1"
    threads: int = 1
    cores: tuple[int, ...] = ()
    buffer: int = 64 << 20
    gro: bool = True
    packet_ring: str = ""
    part: int = 0


def planned(
    request: CaptureRequest, stop: Callable[[], bool] = lambda: False
) -> tuple[Plan, CaptureOptions, Callable[[Any], Source], list[Endpoint]]:
    """Settle everything; listen first for the streams that come, if they were not given.

    Returns
    -------
    tuple
        Arguments of `ryle.engines.capture.Capture`.

    Raises
    ------
    ValueError
        If it cannot be; says what can.
    """
    r, format, to = request, Format.load(request.format).usable(), endpoints(request.at, "--at")
    if r.to in (To.CHUNKS, To.PCAP) and not r.files:
        raise ValueError(f"--to {r.to}: say where with --files, such as --files /data/run1")
    given, sizes = _given(format, r.streams)
    by_port = not format.timestamp.stream and len(to) > 1
    if by_port:
        heads: Sequence[tuple[int, ...]] = [(port,) for port in range(len(to))]
    elif given is not None:
        heads = given
    elif not format.timestamp.stream:
        heads = [()]
    else:
        heads = ()
    sizing = {s for s in format.payload.size.values() if isinstance(s, str)} - set(sizes)
    in_parts = format.heap is not None and format.heap.packets == "several"
    part = r.part
    if part and not in_parts:
        raise ValueError(f"--part {part}: packets of {format.name} are no parts of heaps; leave it out")
    if not heads or sizing or (in_parts and not part):
        print(f"listening to {request.at} until {_LISTEN:g} s after the first packet", file=sys.stderr)
        patience, since = first_patience(r.seconds, r.idle), time.monotonic()
        heard = discover(
            format, to, r.interface, _LISTEN, lambda: stop() or time.monotonic() - since >= patience + _LISTEN
        )
        heads, sizes, part = heads or heard.heads, heard.sizes | sizes, part or heard.part
        if not heads or (in_parts and not part):
            if not stop():
                raise TimeoutError(f"no {format.name} packets came to {request.at}: {nothing_came(patience)}")
            raise ValueError(f"no {format.name} packets came to {request.at}")
        print(f"{len(heads)} streams: {_listed(format, heads)}", file=sys.stderr)
    step = format.timestamp.step
    parts = _parts(format, part) if in_parts else ()
    one = Plan(format, heads, 1, sizes=sizes, by_port=by_port, parts=parts)
    packets = r.chunk or max(1, _CHUNK_BYTES // (len(heads) * one.payload_bytes))
    plan = Plan(
        format,
        heads,
        packets,
        chunks=r.chunks,
        window=r.window * step,
        skew=r.skew * step if len(heads) > 1 else 0,
        linger=0.5,
        sizes=sizes,
        by_port=by_port,
        parts=parts,
    )
    least = plan.open_most + _SPARE
    if plan.chunks < least:
        raise ValueError(
            f"--chunks {plan.chunks}: {plan.open_most} are open at once with --window {r.window} and --skew {r.skew}; "
            f"give {least} or more, or a longer --chunk than {packets}"
        )
    options = CaptureOptions(
        to=r.to,
        files=Files(r.files, r.file_bytes, r.file_seconds, r.keep, r.direct) if r.files else None,
        gpus=r.gpus,
        seconds=r.seconds,
        warm_up=r.warm_up,
        idle=r.idle,
        rule=_rule(plan, r),
        verify=r.verify,
        hold=plan.chunks - least if r.to is To.SHM else min(4, plan.chunks - least),
    )
    largest = max(9216, plan.packet_bytes)
    receive = Receiving(
        by="packet_ring" if r.packet_ring else "udp",
        device=r.packet_ring,
        threads=r.threads,
        cores=list(r.cores),
        buffer=r.buffer,
    )

    def make_source(sink: Any) -> Source:
        return open_source(receive, sink, to, interface=r.interface, largest=largest, gro=r.gro)

    return plan, options, make_source, to


def _parts(format: Format, nbytes: int) -> tuple[Part, ...]:
    """Cut heaps as their senders do; nobody misses what stands behind the samples in some heaps only.

    That can be taken if it has packets of its own; else only heaps without it are.
    """
    shortest, longest = min(format.heap_bytes), max(format.heap_bytes)
    if shortest % nbytes:
        longest = format.heap_bytes[0]
    return tuple(
        dataclasses.replace(part, optional=part.offset >= shortest) if longest > shortest else part
        for part in heap_parts(longest, nbytes)
    )


def _rule(plan: Plan, request: CaptureRequest) -> PayloadRule | None:
    try:
        return PayloadRule.of(plan, Filling[request.filling.upper()], request.seed)
    except ValueError:
        if request.verify:
            raise
        return None


def _given(format: Format, texts: Sequence[str]) -> tuple[list[tuple[int, ...]] | None, dict[str, int]]:
    """Read fields with lists of values: ``fid=0-15``, ``xid=1,3``; give the streams, and the sizes of packets."""
    sizing = {s for s in format.payload.size.values() if isinstance(s, str)}
    names = format.timestamp.stream
    values: dict[str, list[int]] = {}
    for text in texts:
        name, _, rest = text.partition("=")
        if name not in (*names, *sizing) or not re.fullmatch(r"\d+(-\d+)?(,\d+(-\d+)?)*", rest):
            known = " or ".join((*names, *sizing)) or "none: its streams have no fields"
            raise ValueError(f"--stream {text!r}: write FIELD=0-15 or FIELD=1,3; fields of {format.name}: {known}")
        values[name] = []
        for part in rest.split(","):
            low, _, high = part.partition("-")
            if int(high or low) - int(low) >= _MOST_STREAMS:
                raise ValueError(f"--stream {text!r}: a capture takes at most {_MOST_STREAMS} streams; give fewer")
            values[name] += range(int(low), int(high or low) + 1)
    sizes = {name: values[name][0] for name in sizing if name in values}
    if not any(name in values for name in names):
        return None, sizes
    if missing := [name for name in names if name not in values]:
        raise ValueError(f"--stream: give values of {', '.join(missing)} too")
    if math.prod(len(values[name]) for name in names) > _MOST_STREAMS:
        raise ValueError(f"--stream: a capture takes at most {_MOST_STREAMS} streams; give fewer values")
    return list(itertools.product(*(values[name] for name in names))), sizes


def _listed(format: Format, heads: Sequence[tuple[int, ...]]) -> str:
    names = format.timestamp.stream
    shown = [" ".join(f"{n}={v}" for n, v in zip(names, head, strict=True)) for head in heads[:6]]
    return "; ".join(shown) + ("; …" if len(heads) > 6 else "")
