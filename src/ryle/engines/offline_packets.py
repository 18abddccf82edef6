"""Captures of others' packets, of their F-engines or their X-engines, correlated or collected into a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path

from rich.console import Console

from ..chunk import Integration
from ..config import ConfigError, Observation, Problem, show
from ..net.casper import DumpCapture
from ..net.packets import PacketCapture
from ..products.observed import metadata
from ..products.uvh5 import UVH5Writer
from .run import RunResult
from .summing import Summing
from .watching import interruptible, progress_bar, tell_account
from .x import XEngine


def correlate_packets(
    observation: Observation, recordings: Sequence[Path], path: Path, console: Console, overwrite: bool
) -> RunResult:
    """Write the visibilities of a capture.

    Parameters
    ----------
    observation : Observation
        With ``fengine.packets`` or ``catcher.packets``.
    recordings : sequence of Path
        One pcap or pcapng file.
    path : Path
        UVH5 file.
    console : Console
        Told how far it is and what became of the packets.
    overwrite : bool
        Replace the file if there is one.
    """
    if len(recordings) != 1:
        remedy = "files, of which the first is a packet capture; give one capture at a time (mergecap joins several)"
        raise ConfigError("--input", [Problem("input", len(recordings), remedy)])
    o = observation
    capture: PacketCapture | DumpCapture
    engine = None
    if o.packets is not None:
        capture = PacketCapture(o, recordings[0])
        engine = XEngine(o, 0, o.fengine.channels, o.groups * o.substreams)
        steps = _correlated(capture, engine)
    else:
        capture = DumpCapture(o, str(recordings[0]))
        steps = ([dump] for dump in capture)
    first = next(steps, None)
    if first is None or not (capture.account().placed or first):
        raise ConfigError(str(recordings[0]), [Problem("input", recordings[0].name, _nothing_found(o, capture))])
    path.parent.mkdir(parents=True, exist_ok=True)
    with UVH5Writer(path, metadata(o), overwrite=overwrite) as writer:
        _write(o, chain([first], steps), capture, writer, console)
    console.print(f"{writer.integrations} integrations → {path}", highlight=False, soft_wrap=True)
    account = capture.account()
    tell_account(console, account, capture.file)
    if engine is not None and o.packets is not None and engine.clamped:
        low = -1 << (o.packets.bits - 1)
        console.print(f"{engine.clamped} parts of samples were {low}, and were taken as {low + 1}", highlight=False)
    return RunResult(path, writer.integrations, {"capture": account.as_dict()})


def _correlated(capture: PacketCapture, engine: XEngine) -> Iterator[list[Integration]]:
    """Give what each chunk of a capture completes."""
    for chunk in capture:
        yield list(engine.push(chunk))
    yield list(engine.flush())


def _write(
    o: Observation,
    steps: Iterable[list[Integration]],
    capture: PacketCapture | DumpCapture,
    writer: UVH5Writer,
    console: Console,
) -> None:
    """Write integrations as the observation wants them, with a progress bar; Ctrl-C ends it in good order."""
    summing, file = Summing(o.file_spectra), capture.file
    with progress_bar(console) as progress, interruptible(progress.console) as asked:
        task = progress.add_task("", total=1.0, text="")
        for step in steps:
            for part in step:
                for whole in summing.push(part):
                    writer.append(whole)
            rate = show(8 * file.bytes_done / (progress.tasks[0].elapsed or 1e-9), "b/s")
            text = f"{writer.integrations} integrations · {rate}"
            progress.update(task, completed=file.bytes_done / file.bytes_total, text=text)
            if asked.is_set():
                break
        for whole in summing.flush():
            writer.append(whole)


def _nothing_found(o: Observation, capture: PacketCapture | DumpCapture) -> str:
    """Say what a capture holds that has no packet of the observation."""
    account = capture.account()
    if o.packets is not None and isinstance(capture, PacketCapture):
        heads = capture.plan.heads
        names = ", ".join(o.packets.format.timestamp.stream)
        wanted = (
            f"packets of {o.packets.packet_bytes} B as {o.fengine.packets} describes, with ({names}) of {heads[0]} to "
            f"{heads[-1]}: see `ryle wire check {o.fengine.packets} --pcap FILE`, and correct [fengine] and [[inputs]]"
        )
    else:
        wanted = (
            f"0x4b52 packets of X-engines 0 to {o.substreams - 1}: correct [xengine] channels_per_substream, and "
            "stamp_samples and stamp_offset of [catcher]"
        )
    return (
        f"holds none of the observation's packets: of {capture.file.account.datagrams} UDP datagrams "
        f"{account.malformed} are malformed and {account.foreign} foreign. Wanted are {wanted}"
    )
