"""What recordings are, and which integrations they can contribute to, before anything is correlated."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from rich.console import Console

from ryle.config import ConfigError, Observation, Problem
from ryle.engines.chunk_recordings import is_chunks, reach
from ryle.engines.recordings import vdif_bands
from ryle.engines.watching import is_capture
from ryle.receive.assembly import Assembler
from ryle.receive.entrance import MappedEntrance
from ryle.receive.packets import packet_map
from ryle.receive.replay import PcapSource
from ryle.receive.samples import SampleMap

_READERS = 8  # threads that copy datagrams of a capture, at most

Kind = Literal["packets", "chunks", "vdif"]


def kind_of(observation: Observation, recording: Path) -> Kind:
    """Say what a recording is, by its first bytes.

    Raises
    ------
    ConfigError
        If it can only be VDIF, and the observation has no ``[vdif]`` table.
    """
    with recording.open("rb") as file:
        start = file.read(8)
    if is_capture(start):
        return "packets"
    if is_chunks(start):
        return "chunks"
    if observation.vdif is None:
        remedy = (
            f"is missing: {recording.name} is no packet capture and holds no chunks, so it is read as VDIF, which "
            "needs a [vdif] table"
        )
        raise ConfigError(observation.source, [Problem("vdif", None, remedy)])
    return "vdif"


def extent(observation: Observation, recordings: Sequence[Path], console: Console) -> tuple[range, int]:
    """Say which integrations recordings can contribute to.

    Of VDIF the headers are looked at, of chunks the ends; a capture of packets is read through once.

    Parameters
    ----------
    observation : Observation
        What was observed.
    recordings : sequence of Path
        As `ryle.engines.offline.correlate` takes them.
    console : Console
        Where what is odd about them is said.

    Returns
    -------
    integrations : range
        Counted from sync as in `ryle.config.part`; all there are, and at most some more at the ends.
    samples : int
        Of all inputs and bands, that they stand for.

    Raises
    ------
    ConfigError, ValueError
        If they do not fit the observation.
    """
    kind, o = kind_of(observation, recordings[0]), observation
    bands = [o]
    if kind == "vdif":
        source, _, found = vdif_bands(o, recordings, console)
        first, end, bands = source.start, source.stop, list(found.values())
    elif kind == "chunks":
        first, end = reach(o, recordings)
    else:
        first, end = _of_capture(o, recordings)
    ranges = []
    for band in bands:
        length = band.file_spectra * band.step
        around = band.window + band.max_delay_samples
        ranges.append(range(max(0, first - around) // length, max(0, end + around) // length + 1))
    samples = (end - first) * o.n_inputs * len(bands)
    return range(min(r.start for r in ranges), max(r.stop for r in ranges)), samples


def _of_capture(o: Observation, recordings: Sequence[Path]) -> tuple[int, int]:
    """Read a capture through: its first sample, and the one after its last."""
    if o.catcher.packets is not None:
        remedy = "is of integrations, which somebody has correlated: collect them on one machine, without --on"
        raise ConfigError(o.source, [Problem("catcher.packets", o.catcher.packets, remedy)])

    def source(sink: Assembler) -> PcapSource:
        return PcapSource(sink, recordings[0], threads=min(_READERS, len(os.sched_getaffinity(0))))

    entrance: MappedEntrance[object]
    if o.packets is not None:
        packets = packet_map(o, range(o.substreams), waits=True)
        entrance, unit = MappedEntrance(o, "x", packets, [], source=source, name="capture"), o.step
    else:
        samples = SampleMap(o, range(len(o.antennas)), waits=True)
        entrance, unit = MappedEntrance(o, "f", samples, [], source=source, name="capture"), 1
    reader, first, end = entrance.reader(), 1 << 62, 0
    entrance.start()
    try:
        for block in reader:
            if block.planes["present"].any():
                first, end = min(first, block.start), max(end, block.end)
            block.release()
    finally:
        entrance.close()
    return (first * unit, end * unit) if first < end else (0, 0)
