"""Captures of packets, of digitizers or of others' F- or X-engines, correlated or collected into a file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from rich.console import Console

from ryle.config import ConfigError, Observation, Problem, show
from ryle.config.observed import EVERY
from ryle.engines.fx import fx_steps
from ryle.engines.gpus import gpus_for, locked
from ryle.engines.run import RunResult
from ryle.engines.watching import tell_account, tell_end, watched
from ryle.engines.write_file import WriteFile
from ryle.engines.x import x_steps
from ryle.problems import listed
from ryle.products.observed import metadata
from ryle.products.uvh5 import UVH5Writer
from ryle.receive.assembly import Assembler
from ryle.receive.dumps import DumpMap
from ryle.receive.entrance import Entrance, MappedEntrance
from ryle.receive.packets import packet_map
from ryle.receive.pcap import PcapFile
from ryle.receive.replay import PcapSource
from ryle.receive.samples import SampleMap
from ryle.receive.windows import window_shape
from ryle.stream.engine import Engine
from ryle.stream.step import Step
from ryle.wire.description import Format
from ryle.wire.packets import Parser

#: Threads that copy datagrams of a capture: more are not faster than memory.
_READERS = 8
_LOOK = 2000  # datagrams that are looked at to say what a capture holds instead


def correlate_packets(
    observation: Observation,
    recordings: Sequence[Path],
    path: Path,
    console: Console,
    overwrite: bool,
    live: bool = False,
) -> RunResult:
    """Write the visibilities of a capture.

    What a live correlator would have made of these packets, at these times of arrival, is what this makes of them.

    Parameters
    ----------
    observation : Observation
        What was observed.
    recordings : sequence of Path
        One pcap or pcapng file. Addresses and ports do not matter.
    path : Path
        UVH5 file.
    console : Console
        Told how far it is and what became of the packets.
    overwrite : bool
        Replace the file if there is one.
    live : bool
        Take the capture's clock for that of an array, whatever ``[simulate]`` says, and begin with the first whole
        integration, as a correlator does that joins an array which is already sending.
    """
    if len(recordings) != 1:
        remedy = "files, of which the first is a packet capture; give one capture at a time (mergecap joins several)"
        raise ConfigError("--input", [Problem("input", len(recordings), remedy)])
    o, file = observation.live if live else observation, recordings[0]
    sources: list[PcapSource] = []

    def source(sink: Assembler) -> PcapSource:
        sources.append(PcapSource(sink, file, threads=min(_READERS, len(os.sched_getaffinity(0)))))
        return sources[-1]

    def open_file() -> UVH5Writer:
        path.parent.mkdir(parents=True, exist_ok=True)
        return UVH5Writer(path, metadata(o), overwrite=overwrite)

    entrance: Entrance
    steps: list[Step]
    if o.catcher.packets is not None:
        dumps = DumpMap(o, waits=True)
        entrance = MappedEntrance(o, "catcher", dumps, [], source=source, name="capture")
        format, fields = dumps.plan.format, "catcher.packets"
        if o.spectra != EVERY:
            remedy = "is of integrations, which somebody has correlated: collect them in one piece"
            raise ConfigError(o.source, [Problem("catcher.packets", o.catcher.packets, remedy)])
        steps = [WriteFile(entrance.reader(), dumps.given, open_file, o.file_spectra)]
    elif o.packets is not None:
        packets = packet_map(o, range(o.substreams), waits=True)
        memory = locked(gpus_for(o, "x"))
        spectra = o.spectra.start, o.spectra.stop
        entrance = MappedEntrance(o, "x", packets, [], source=source, name="capture", memory=memory, only=spectra)
        format, fields = o.packets.format, str(o.fengine.packets)
        steps = x_steps(o, entrance.reader(), packets.given, open_file, joins=live)
    else:
        samples = SampleMap(o, range(len(o.antennas)), waits=True)
        gpus = gpus_for(o, "fx")
        reach = window_shape(o).samples
        entrance = MappedEntrance(o, "f", samples, [], source=source, name="capture", memory=locked(gpus), only=reach)
        format, fields = samples.format, o.digitizer.packets
        steps = fx_steps(o, entrance, samples, open_file, gpus, joins=live)
    read, write = sources[0], steps[-1]
    assert isinstance(write, WriteFile)
    if o.spectra != EVERY:
        write.open()  # what is counted belongs to the whole, also where there is no integration

    def text(elapsed: float) -> str:
        return f"{write.integrations} integrations · {show(8 * read.bytes_done / elapsed, 'b/s')}"

    def done() -> float:
        return read.bytes_done / max(1, read.bytes_total)

    with Engine([entrance], steps) as engine:
        ended = watched(engine, engine.drain, done, text, console)
        account = entrance.account()
        if not account.placed:
            plan = entrance.assembler.plan
            size = plan.parts[0].bytes if plan.parts else plan.payload_bytes
            wanted = (
                f"packets of {size} B of samples as {fields} describes, with ({', '.join(format.timestamp.stream)}) of "
            )
            heads = plan.heads
            wanted += f"{listed(_head(h) for h in heads[:4])}{' …' if len(heads) > 4 else ''}"
            if isinstance(plan.senders, list):
                wanted += f", from receive.senders ({listed(host for host, _ in plan.senders)})"
            remedy = _nothing_found(file, format, account.malformed or 0, account.foreign or 0, wanted)
            raise ConfigError(str(file), [Problem("input", file.name, remedy)])
        write.open()
    tell_end(console, write.integrations, path, ended, done())
    tell_account(console, account, read.account, file.name)
    clamped = sum(getattr(step, "clamped", 0) for step in steps)
    if o.packets is not None and clamped:
        low = -1 << (o.packets.bits - 1)
        console.print(f"{clamped} parts of samples were {low}, and were taken as {low + 1}", highlight=False)
    return RunResult(path, write.integrations, {"capture": account.as_dict()})


def _head(values: tuple[int, ...]) -> str:
    return ", ".join(map(str, values))


def _nothing_found(file: Path, format: Format, malformed: int, foreign: int, wanted: str) -> str:
    """Say what a capture holds that has no packet of the observation."""
    capture, parser = PcapFile(file), Parser(format)
    payloads = [bytes(d.payload) for d in islice(capture, _LOOK)]
    fields = parser.parse(payloads)
    names = format.timestamp.stream
    rows = {tuple(int(fields.header[n][i]) for n in names) for i in range(len(payloads)) if fields.valid[i]}
    seen = f"; it has those of {listed(_head(r) for r in sorted(rows)[:6])}" if rows else ""
    return (
        f"holds none of the observation's packets: of its UDP datagrams {malformed} are malformed and {foreign} "
        f"foreign. Wanted are {wanted}{seen}: see `ryle wire check {format.spelled} --pcap FILE`, and correct the "
        "observation file"
    )
