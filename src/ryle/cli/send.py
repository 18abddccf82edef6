"""`ryle send`: packets of any format, paced, with faults to order."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ryle.cli.arguments import Payload, numbers, pair, settings, wholes
from ryle.cli.completion import formats

_RATE, _WHAT, _FAULTS, _WAY = "Rate and length", "What is sent", "Faults to inject", "The way out"


def send(
    format: Annotated[
        str | None,
        typer.Argument(
            help="Shipped packet format, or a TOML file; none with --pcap.", metavar="[FORMAT]", autocompletion=formats
        ),
    ] = None,
    to: Annotated[str, typer.Option(help="Where to: 10.0.0.1:7148, 10.0.0.1:7148+4 for four ports, commas.")] = "",
    gbps: Annotated[float | None, typer.Option(help="UDP payload, Gb/s, all streams.", rich_help_panel=_RATE)] = None,
    pps: Annotated[float | None, typer.Option(help="Packets/s, all streams.", rich_help_panel=_RATE)] = None,
    seconds: Annotated[float | None, typer.Option(help="How long.", rich_help_panel=_RATE)] = None,
    packets: Annotated[int | None, typer.Option(help="Packets of each stream.", rich_help_panel=_RATE)] = None,
    burst: Annotated[
        int | None, typer.Option(help="Packets of a stream back to back; by the rate if absent.", rich_help_panel=_RATE)
    ] = None,
    sources: Annotated[
        int, typer.Option(help="Boards (antennas, F-engines), each sends to every destination.", rich_help_panel=_WHAT)
    ] = 1,
    size: Annotated[
        int | None, typer.Option(help="Bytes of a packet where the format allows several.", rich_help_panel=_WHAT)
    ] = None,
    payload: Annotated[Payload, typer.Option(help="What payloads hold.", rich_help_panel=_WHAT)] = Payload.RANDOM,
    seed: Annotated[int, typer.Option(help="Of random payloads.", rich_help_panel=_WHAT)] = 1,
    start: Annotated[
        int, typer.Option(help="Timestamp of the first packets, format's unit.", rich_help_panel=_WHAT)
    ] = 0,
    field: Annotated[
        list[str] | None,
        typer.Option(help="Header field, NAME=VALUE; of a stream's, the first.", rich_help_panel=_WHAT),
    ] = None,
    pcap: Annotated[
        Path | None,
        typer.Option(help="Send this capture's datagrams instead.", exists=True, dir_okay=False, rich_help_panel=_WHAT),
    ] = None,
    speed: Annotated[
        float, typer.Option(help="Of a capture: 1 as recorded, 0 as fast as it goes.", rich_help_panel=_WHAT)
    ] = 1.0,
    loss: Annotated[float, typer.Option(help="Share not sent.", rich_help_panel=_FAULTS)] = 0.0,
    duplicate: Annotated[float, typer.Option(help="Share sent twice.", rich_help_panel=_FAULTS)] = 0.0,
    reorder: Annotated[float, typer.Option(help="Share sent later.", rich_help_panel=_FAULTS)] = 0.0,
    distance: Annotated[
        int, typer.Option(help="At most so many packets of its stream later.", rich_help_panel=_FAULTS)
    ] = 8,
    corrupt: Annotated[float, typer.Option(help="Share with a header bit turned.", rich_help_panel=_FAULTS)] = 0.0,
    truncate: Annotated[float, typer.Option(help="Share cut short.", rich_help_panel=_FAULTS)] = 0.0,
    foreign: Annotated[
        float, typer.Option(help="Packets of no stream, as a share of the others.", rich_help_panel=_FAULTS)
    ] = 0.0,
    jump: Annotated[
        str | None, typer.Option(help="Clock jump, SECONDS:PACKETS (may be negative).", rich_help_panel=_FAULTS)
    ] = None,
    restart: Annotated[
        float | None, typer.Option(help="Begin anew after so many seconds.", rich_help_panel=_FAULTS)
    ] = None,
    skew: Annotated[
        str, typer.Option(help="How far each source is behind, ms: 0,40,100.", rich_help_panel=_FAULTS)
    ] = "",
    fault_seed: Annotated[int, typer.Option(help="Chooses the packets.", rich_help_panel=_FAULTS)] = 1,
    sender: Annotated[
        str, typer.Option("--from", help="Own addresses, with or without ports, of each source.", rich_help_panel=_WAY)
    ] = "",
    threads: Annotated[int, typer.Option(help="Threads that send.", rich_help_panel=_WAY)] = 1,
    cores: Annotated[str, typer.Option(help="Core of each thread: 2,3.", rich_help_panel=_WAY)] = "",
    realtime: Annotated[
        bool,
        typer.Option("--realtime", help="Threads before all other programs (root, SCHED_FIFO).", rich_help_panel=_WAY),
    ] = False,
    plain: Annotated[
        bool, typer.Option("--plain", help="Every packet a message: no segmentation offload.", rich_help_panel=_WAY)
    ] = False,
    departure: Annotated[
        bool | None,
        typer.Option(
            "--departure/--no-departure",
            help="Let the kernel hold packets until they are due (SO_TXTIME); if it can, when absent.",
            rich_help_panel=_WAY,
        ),
    ] = None,
    ttl: Annotated[int, typer.Option(help="Time to live of multicast.", rich_help_panel=_WAY)] = 4,
    json: Annotated[Path | None, typer.Option("--json", help="Write all numbers to this file; - prints them.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No status line.")] = False,
) -> None:
    """Send packets of a format at a steady rate, from many streams, with faults that are counted.

    Ends after --seconds or --packets, or on Ctrl-C, and says what was sent. Without --gbps or --pps it sends as fast as
    it can.
    """
    from rich.console import Console

    from ryle.config.addresses import endpoints, senders
    from ryle.engines.send import send
    from ryle.send.account import write_summary
    from ryle.send.sending import InjectedFaults, Sending
    from ryle.wire.description import Format

    jump_at, jump_by = pair(jump, "--jump") if jump else (None, 0)
    faults = InjectedFaults(
        loss=loss,
        duplicate=duplicate,
        reorder=reorder,
        corrupt=corrupt,
        truncate=truncate,
        foreign=foreign,
        distance=distance,
        seed=fault_seed,
        jump_at=jump_at,
        jump=jump_by,
        restart_at=restart,
        skew=tuple(numbers(skew, "--skew")),
    )
    sending = Sending(
        to=endpoints(to) if to else (),
        sender=senders(sender) if sender else (),
        format=Format.load(format) if format else None,
        recording=pcap,
        speed=speed,
        sources=sources,
        gbps=gbps,
        pps=pps,
        size=size,
        burst=burst,
        packets=packets,
        seconds=seconds,
        filling=payload.value,
        seed=seed,
        start=start,
        fields=settings(field or []),
        faults=faults,
        threads=threads,
        cores=wholes(cores, "--cores"),
        realtime=realtime,
        segment=not plain,
        departure=departure,
        ttl=ttl,
    )
    _, summary = send(sending, quiet=quiet)
    write_summary(summary, json, Console(stderr=True))
