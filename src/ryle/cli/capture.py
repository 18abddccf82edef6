"""`ryle capture`: packets of any format to files, shared memory or GPUs, with everything that is lost counted."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ryle.cli.arguments import Payload, whole, wholes
from ryle.cli.completion import formats
from ryle.engines.capture import To

_WHAT, _WHERE, _TIME, _WAY = "What arrives", "Where it goes", "How long", "The way in"


def capture(
    format: Annotated[
        str, typer.Argument(help="Shipped packet format, or a TOML file.", metavar="FORMAT", autocompletion=formats)
    ],
    at: Annotated[str, typer.Option(help="Own addresses: 0.0.0.0:7148, 10.0.0.1:7148+4 for four ports, commas.")],
    to: Annotated[To, typer.Option(help="What becomes of it.", rich_help_panel=_WHERE)] = To.NULL,
    files: Annotated[
        str, typer.Option(help="chunks, pcap: files are FILES-000000.chunks and so on.", rich_help_panel=_WHERE)
    ] = "",
    file_bytes: Annotated[
        str, typer.Option(help="Begin another file before one gets longer: 2e9.", rich_help_panel=_WHERE)
    ] = "0",
    file_seconds: Annotated[float, typer.Option(help="Or after so long.", min=0, rich_help_panel=_WHERE)] = 0.0,
    keep: Annotated[int, typer.Option(help="Keep only so many files, the newest.", min=0, rich_help_panel=_WHERE)] = 0,
    cached: Annotated[
        bool, typer.Option("--cached", help="Write through the page cache.", rich_help_panel=_WHERE)
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an earlier capture's FILES.", rich_help_panel=_WHERE)
    ] = False,
    gpu: Annotated[str, typer.Option(help="gpu: which, chunks in turn: 0,1.", rich_help_panel=_WHERE)] = "0",
    streams: Annotated[
        list[str] | None,
        typer.Option(
            "--stream",
            help="Values of a stream's field: fid=0-15. If absent, what comes in a second.",
            rich_help_panel=_WHAT,
        ),
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Compare every payload byte.", rich_help_panel=_WHAT)
    ] = False,
    payload: Annotated[
        Payload, typer.Option(help="What the sender fills payloads with.", rich_help_panel=_WHAT)
    ] = Payload.RANDOM,
    seed: Annotated[int, typer.Option(help="The sender's seed.", rich_help_panel=_WHAT)] = 1,
    part: Annotated[
        int,
        typer.Option(
            help="Of heaps of several packets: bytes of a heap in a packet; heard if 0.", min=0, rich_help_panel=_WHAT
        ),
    ] = 0,
    chunk: Annotated[
        int,
        typer.Option(
            help="Packets of a stream in a chunk; about 8 MiB if 0.", min=0, max=1 << 24, rich_help_panel=_WHAT
        ),
    ] = 0,
    chunks: Annotated[int, typer.Option(help="Chunks in the ring.", min=2, max=65536, rich_help_panel=_WHAT)] = 24,
    window: Annotated[
        int,
        typer.Option(
            help="Packets by which a stream's may be out of order.", min=0, max=1 << 30, rich_help_panel=_WHAT
        ),
    ] = 32,
    skew: Annotated[
        int, typer.Option(help="Packets by which streams may be apart.", min=0, max=1 << 30, rich_help_panel=_WHAT)
    ] = 256,
    seconds: Annotated[
        float, typer.Option(help="Time to measure; until Ctrl-C if 0.", min=0, rich_help_panel=_TIME)
    ] = 0.0,
    warm_up: Annotated[float, typer.Option(help="Seconds that are not counted.", min=0, rich_help_panel=_TIME)] = 1.0,
    idle: Annotated[
        float, typer.Option(help="End after so many seconds without packets.", min=0, rich_help_panel=_TIME)
    ] = 0.0,
    interface: Annotated[
        str, typer.Option(help="Own address on the network of multicast groups.", rich_help_panel=_WAY)
    ] = "127.0.0.1",
    threads: Annotated[int, typer.Option(help="Threads that receive.", min=1, max=1024, rich_help_panel=_WAY)] = 1,
    cores: Annotated[str, typer.Option(help="Core of each thread: 2,3.", rich_help_panel=_WAY)] = "",
    buffer: Annotated[int, typer.Option(help="MiB of a socket's buffer.", min=1, max=2047, rich_help_panel=_WAY)] = 64,
    plain: Annotated[
        bool, typer.Option("--plain", help="Every packet a message: no UDP_GRO.", rich_help_panel=_WAY)
    ] = False,
    packet_ring: Annotated[
        str,
        typer.Option(help="Receive from a packet ring (AF_PACKET) of this interface: eth1.", rich_help_panel=_WAY),
    ] = "",
    name: Annotated[str, typer.Option(help="Of the status page.")] = "capture",
    json: Annotated[
        Path | None, typer.Option("--json", help="Write the figures to this file, a line a second; - prints them.")
    ] = None,
) -> None:
    """Capture packets of a format, count what is lost, and say so every second.

    Chunks of all streams over the same time lie in a ring in shared memory, wherever they go besides: `ryle status
    dump` copies one out. Ends after --seconds or --idle, with status 1 if nothing came for 20 s, and on Ctrl-C or
    SIGTERM; files are whole then, and whole but for the last chunk or packet after kill -9.
    """
    from ryle.engines.capture import Capture
    from ryle.engines.capture_plan import CaptureRequest, planned
    from ryle.engines.capture_status import run_with_status
    from ryle.store.recording import unused_stem

    if files and to in (To.CHUNKS, To.PCAP):
        asked, files = files, unused_stem(files, overwrite=overwrite)
        if files != asked:
            note = f"{asked}-* are of an earlier capture and stay: this one goes to {files}-* (--overwrite replaces)"
            typer.echo(note, err=True)
    request = CaptureRequest(
        format=format,
        at=at,
        to=to,
        files=files,
        file_bytes=whole(file_bytes, "--file-bytes"),
        file_seconds=file_seconds,
        keep=keep,
        direct=not cached,
        gpus=wholes(gpu, "--gpu"),
        streams=tuple(streams or ()),
        verify=verify,
        filling=payload.value,
        seed=seed,
        chunk=chunk,
        chunks=chunks,
        window=window,
        skew=skew,
        seconds=seconds,
        warm_up=warm_up,
        idle=idle,
        interface=interface,
        threads=threads,
        cores=wholes(cores, "--cores"),
        buffer=buffer << 20,
        gro=not plain,
        packet_ring=packet_ring,
        part=part,
    )
    made = planned(request)
    figures = run_with_status(Capture(*made), name, json)
    if figures.get("verified", {}).get("wrong_packets"):
        raise typer.Exit(1)
