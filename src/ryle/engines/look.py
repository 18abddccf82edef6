"""What recordings hold beside what an observation expects of them: a look at their ends, before hours are spent."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import islice
from pathlib import Path

import numpy as np
from rich.console import Console

from ryle.array.observed import sync_time
from ryle.config import ConfigError, Observation, Problem, changed, recorded, show
from ryle.config.tables import DIGITIZER_BITS
from ryle.config.utc import iso, vdif_tai
from ryle.engines.chunk_recordings import ChunkRecordings, is_chunks
from ryle.engines.recordings import vdif_source
from ryle.engines.watching import is_capture
from ryle.problems import listed
from ryle.products.observed import input_labels
from ryle.receive.pcap import PcapFile
from ryle.wire.description import Format
from ryle.wire.packets import Parser
from ryle.wire.vdif_frames import FrameScanner, concatenate, map_file

_FRAMES = 1024  # frames looked at, at each end of a recording
_DATAGRAMS = 4096  # datagrams looked at, from the start of a capture


@dataclass(frozen=True)
class Looked:
    """What was found.

    Parameters
    ----------
    files : list of (str, str)
        Name of each recording, and what is in it.
    bands : list of (str, str)
        Each band's name, and what it is on the sky.
    problems : list of Problem
        With which `ryle correlate` would refuse the recordings.
    cautions : list of Problem
        What works but is probably not meant.
    """

    files: list[tuple[str, str]] = field(default_factory=list)
    bands: list[tuple[str, str]] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    cautions: list[Problem] = field(default_factory=list)


def look(observation: Observation, recordings: Sequence[Path]) -> Looked:
    """Look at VDIF files as ``[vdif]`` maps them, at a capture of packets, or at files of chunks.

    Raises
    ------
    OSError
        If a file cannot be read.
    """
    with recordings[0].open("rb") as file:
        start = file.read(8)
    found = Looked()
    if is_chunks(start):
        _chunks(observation, recordings, found)
    elif is_capture(start):
        _capture(observation, recordings[0], found)
        if len(recordings) > 1:
            remedy = (
                "files, of which the first is a packet capture; give one capture at a time (mergecap joins several)"
            )
            found.problems.append(Problem("input", len(recordings), remedy))
    elif observation.vdif is None:
        name = recordings[0].name
        remedy = (
            f"is missing: {name} is no packet capture and holds no chunks, so it is read as VDIF, which needs [vdif]"
        )
        found.problems.append(Problem("vdif", None, remedy))
    else:
        _vdif(observation, recordings, found)
    return found


def _chunks(o: Observation, recordings: Sequence[Path], found: Looked) -> None:
    """Read what files of chunks say of themselves."""
    try:
        source = ChunkRecordings(o, recordings)
    except ConfigError as error:
        found.problems.extend(error.problems)
        return
    except ValueError as error:
        found.problems.append(Problem("input", None, str(error)))
        return
    clock = sync_time(o)
    for file in source.recorded:
        found.files.append((file.name, f"{file}; {clock.iso(file.first, 6)} to {clock.iso(file.end, 6)}"))
    absent = sorted(set(range(o.n_inputs)) - {i for file in source.recorded for i in file.inputs})
    if absent:
        labels = input_labels(o)
        remedy = f"{listed(labels[i] for i in absent[:8])}{' …' if len(absent) > 8 else ''} are in none of the files"
        found.cautions.append(Problem("inputs", None, remedy))


def _vdif(o: Observation, recordings: Sequence[Path], found: Looked) -> None:
    """Describe each file, compare it with the tables, then open all as correlating would."""
    table = o.vdif
    assert table is not None
    bands = max(1, len(table.bands))
    kinds: set[tuple[int, bool]] = set()
    for number, path in enumerate(recordings):
        try:
            kinds.add(_vdif_file(o, number, path, bands, found))
        except ValueError as error:
            found.problems.append(Problem("input", path.name, str(error)))
    for bits, complex_samples in sorted(kinds):
        kind = "complex" if complex_samples else "real"
        if (bits, complex_samples) != (o.digitizer.bits, o.digitizer.complex):
            remedy = f"is not what the recordings hold, {kind} samples of {bits} bits; correlating takes theirs"
            shown = f"{o.digitizer.bits}, {'complex' if o.digitizer.complex else 'real'}"
            found.cautions.append(Problem("digitizer.bits", shown, remedy))
    if found.problems:
        return
    said = Console(file=io.StringIO(), width=10000)
    try:
        source, _ = vdif_source(o, recordings, bands, said)
    except ConfigError as error:
        found.problems.extend(error.problems)
        return
    except ValueError as error:
        found.problems.append(Problem("input", None, str(error)))
        return
    assert isinstance(said.file, io.StringIO)
    found.cautions.extend(Problem("input", None, line) for line in said.file.getvalue().splitlines())
    end = o.end_sample
    if end is not None and source.stop + o.file_spectra * o.step < end:
        last = show(source.stop / o.sample_rate, "s")
        remedy = f"is longer than what is recorded of it, which ends {last} after sync_time"
        shown = show(float(o.observation.duration or 0), "s")
        found.cautions.append(Problem("observation.duration", shown, remedy))
    named = [(band.name or str(i), band.lo, band.sideband) for i, band in enumerate(table.bands)]
    for i, (name, lo, sideband) in enumerate(named or [("[band]", o.band.lo, o.band.sideband)]):
        if i not in source.parts:
            found.problems.append(Problem(f"vdif.bands[{i}]", name, "no [[vdif.inputs]] entry leads to this band"))
            continue
        complex_samples = source.parts[i] == 2
        found.bands.append((name, _sky(o, lo, sideband, complex_samples, source.packet_samples)))


def _sky(o: Observation, lo: Fraction, sideband: str, complex_samples: bool, packet_samples: int) -> str:
    """Say what a band of a recording is on the sky."""
    if complex_samples and o.band.nyquist_zone != 1:
        return "the recording's samples are complex: band.nyquist_zone must be 1"
    band = recorded(o, lo=lo, sideband=sideband, complex_samples=complex_samples, packet_samples=packet_samples)
    edge = band.channel_width / 2
    low, high = (float(band.sky_frequencies.min()) - edge) / 1e6, (float(band.sky_frequencies.max()) + edge) / 1e6
    direction = "rises" if band.sideband_sign > 0 else "falls"
    return f"{low:.6f} to {high:.6f} MHz; sky frequency {direction} with the channel index"


def _vdif_file(o: Observation, number: int, path: Path, bands: int, found: Looked) -> tuple[int, bool]:
    """Describe one file, and compare its threads and channels with `[[vdif.inputs]]`; give bits and whether complex."""
    assert o.vdif is not None
    _, data = map_file(path)
    scanner = FrameScanner(data, path.name)
    header = scanner.header
    ends = concatenate([scanner.first_frames(_FRAMES), scanner.last_frames(_FRAMES)])
    threads = np.unique(ends.thread).tolist()
    stamps = [
        vdif_tai(int(e), int(s)) + Fraction(int(f) * header.samples) / o.sample_rate
        for e, s, f in zip(ends.epoch, ends.seconds, ends.frame, strict=True)
    ]
    end = max(stamps) + header.samples / o.sample_rate
    kind = "complex" if header.complex_data else "real"
    rate = "" if header.sample_rate is None else f", {show(header.sample_rate, 'sample/s')}"
    found.files.append(
        (
            path.name,
            f"{header.bits} bits {kind}{rate}, {header.channels} channel{'s' * (header.channels > 1)}, "
            f"threads {listed(map(str, threads))}; {iso(min(stamps), 3)} to {iso(end, 3)} by its clock",
        )
    )
    used: set[int] = set()
    for i, entry in enumerate(o.vdif.inputs):
        if entry.file != number:
            continue
        used.add(entry.thread)
        key = f"vdif.inputs[{i}]"
        if entry.thread not in threads:
            remedy = f"{path.name} has threads {listed(map(str, threads))}"
            found.problems.append(Problem(f"{key}.thread", entry.thread, remedy))
        most = bands - 1 if entry.channel is None else entry.channel
        if most >= header.channels:
            has = f"{path.name} has {header.channels} channel{'s' * (header.channels > 1)}, counted from 0"
            if entry.channel is None:
                found.problems.append(Problem("vdif.bands", bands, f"bands, one a channel, but {has}"))
            else:
                found.problems.append(Problem(f"{key}.channel", entry.channel, has))
        elif entry.channel is None and bands < header.channels:
            remedy = f"of the {header.channels} channels of {path.name} become bands; the others are left out"
            found.cautions.append(Problem("vdif.bands", bands, remedy))
    if spare := sorted(set(threads) - used):
        remedy = f"threads {listed(map(str, spare))} of {path.name} are used by no input"
        found.cautions.append(Problem("vdif.inputs", None, remedy))
    return header.bits, bool(header.complex_data)


def _wanted(o: Observation) -> tuple[Format, str, set[tuple[int, ...]] | None]:
    """Give the format of an observation's packets, the key that names it, and the streams that are its own."""
    if o.catcher.packets is not None:
        return Format.load("casper_x"), "catcher.packets", None
    if o.packets is not None:
        return o.packets.format, "fengine.packets", None
    return o.digitizer_format, "digitizer.packets", {o.digitizer_head(i) for i in range(o.n_inputs)}


def _capture(o: Observation, path: Path, found: Looked) -> None:
    """Read the first packets as the observation describes them."""
    format, key, own = _wanted(o)
    datagrams = list(islice(PcapFile(path), _DATAGRAMS))
    payloads = [bytes(d.payload) for d in datagrams]
    if not payloads:
        found.problems.append(Problem("input", path.name, "holds no UDP datagram"))
        return
    fields = Parser(format).parse(payloads)
    names = format.timestamp.stream
    good = np.flatnonzero(fields.valid)
    heads = {tuple(int(fields.header[n][i]) for n in names) for i in good}
    text = f"of the first {len(payloads)} datagrams {len(good)} are of {format.name}"
    if len(good):
        unit = o.step if format.timestamp.unit == "spectra" else 1
        first = int(fields.timestamp[good].min()) * unit
        text += f", of {len(heads)} streams; the earliest is of {sync_time(o).iso(first, 3)}"
    found.files.append((path.name, text))
    if not len(good) and own is not None and (bits := _other_bits(o, payloads)):
        remedy = f"packets of {path.name} hold {bits} bits a sample, if they hold {o.digitizer.heap_samples} samples"
        found.problems.append(Problem("digitizer.bits", o.digitizer.bits, remedy))
        return
    if not len(good):
        sizes = sorted({len(p) for p in payloads})
        wrong = next((i for i in range(len(payloads)) if fields.explain(i)), 0)
        remedy = f"{path.name} has none such, but datagrams of {listed(str(s) for s in sizes[:4])} B. The first: "
        spelled = format.spelled
        remedy += f"{fields.explain(wrong)}; see `ryle wire check {spelled} --pcap {path.name}`"
        found.problems.append(Problem(key, format.name, remedy))
        return
    if own is None:
        return
    shown = f"({', '.join(names)})"
    if not heads & own:
        seen = listed(_head(h) for h in sorted(heads)[:6])
        remedy = f"{shown} of the packets are {seen}; the inputs' are {listed(_head(h) for h in sorted(own)[:6])}"
        found.problems.append(Problem("inputs", None, remedy))
    elif absent := sorted(own - heads):
        remedy = f"{shown} {listed(_head(h) for h in absent[:6])} did not come among the first datagrams"
        found.cautions.append(Problem("inputs", None, remedy))
    if spare := sorted(heads - own):
        remedy = f"{shown} {listed(_head(h) for h in spare[:6])} are of no input"
        found.cautions.append(Problem("inputs", None, remedy))
    end = o.end_sample
    if end is not None and first >= end:
        remedy = f"is over at {sync_time(o).iso(end, 3)}, before the capture begins"
        found.problems.append(Problem("observation.duration", show(float(o.observation.duration or 0), "s"), remedy))


def _other_bits(o: Observation, payloads: Sequence[bytes]) -> int | None:
    """Find what number of bits makes packets those that the observation describes."""
    for bits in DIGITIZER_BITS:
        try:
            format = changed(o, digitizer={"bits": bits}).digitizer_format
        except (ConfigError, ValueError):  # heaps of so many bits cannot be
            continue
        if Parser(format).parse(payloads).valid.any():
            return bits
    return None


def _head(values: tuple[int, ...]) -> str:
    return " ".join(map(str, values))
