"""What two tables of an observation file must agree on.

Each check is small, stands alone, and names the tables that it reads: it runs if these are valid by themselves,
whatever is wrong with the others, so that one reading of a file reports every mistake.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ryle.config import (
    defect_checks,  # noqa: F401 (registers its checks)
    digitizers,
    feed_checks,  # noqa: F401 (registers its checks)
    fx_checks,  # noqa: F401
    network_checks,  # noqa: F401
    physical_checks,  # noqa: F401
)
from ryle.config.checking import CHECKS, reads
from ryle.problems import ConfigError, Problem, did_you_mean, listed

if TYPE_CHECKING:
    from ryle.config.observation import Observation


#: What the CUDA channelizer does; on which GPU is another matter (see `ryle.engines.devices`).
GPU_CHANNELS = tuple(1 << k for k in range(6, 17))


def run(observation: Observation, valid: Collection[str] | None = None) -> list[Problem]:
    """Find what tables do not agree on.

    Parameters
    ----------
    observation : Observation
        May lack tables.
    valid : collection of str, optional
        Names of the tables that it has; all if absent.
    """
    readable = set(type(observation).model_fields if valid is None else valid)
    problems = list(_packet_format(observation)) if "fengine" in readable else []
    if problems:
        readable -= {"fengine"}  # what follows from the packets cannot be known
    unknown = list(_digitizer_format(observation, readable)) if "digitizer" in readable else []
    if unknown:
        readable -= {"digitizer"}
    problems += unknown
    return problems + [p for c in CHECKS if c.tables <= readable for p in c.find(observation)]


def _packet_format(o: Observation) -> Iterator[Problem]:
    key, name = "fengine.packets", o.fengine.packets
    try:
        _ = o.packets
    except ConfigError as error:
        for problem in error.problems:
            where = "" if problem.key == "(file)" else f"{error.source}: {problem.key}: "
            yield Problem(key, name, f"{where}{problem.remedy}")
    except ValueError as error:
        yield Problem(key, name, str(error))


def _digitizer_format(o: Observation, readable: Collection[str]) -> Iterator[Problem]:
    key, d = "digitizer.packets", o.digitizer
    if o.digitizer.heap_samples * o.sample_bits % 64 or o.digitizer_heap_bytes > 65000:
        return  # `_digitizer_heap` says so, and what would do
    try:
        f = digitizers.described(o)
        if not digitizers.of_digitizer_alone(f):
            if not {"array", "band", "observation"} <= set(readable):
                return
            if mistakes := list(digitizers.clock_mistakes(o, f)):
                yield from mistakes
                return
        f = o.digitizer_format
    except ConfigError as error:
        for problem in error.problems:
            where = "" if problem.key == "(file)" else f"{error.source}: {problem.key}: "
            yield Problem(key, d.packets, f"{where}{problem.remedy}")
        return
    sample = f.sample
    if f.timestamp.unit != "samples" or f.axes != ("time",) or not f.fixed:
        remedy = f"counts {f.timestamp.unit} and has the axes {listed(f.axes)}; an F-engine needs packets of samples"
        yield Problem(key, d.packets, f"{remedy}: axis time alone, of fixed size, counted in samples")
        return
    if f.payload.size["time"] != d.heap_samples or f.timestamp.step != d.heap_samples:
        remedy = f"holds {f.payload.size['time']} samples every {f.timestamp.step}: set digitizer.heap_samples to that"
        yield Problem("digitizer.heap_samples", d.heap_samples, f"{d.packets} {remedy}")
    if (sample.bits, sample.complex) != (d.bits, d.complex):
        kind = "complex" if sample.complex else "real"
        remedy = f"{d.packets} holds {kind} samples of {sample.bits} bits: set digitizer.bits and complex to that"
        yield Problem("digitizer.bits", d.bits, remedy)
    if f.payload.trailer_bytes != [0]:
        yield Problem(key, d.packets, "has bytes behind its samples; F-engines take packets without a trailer")
    if f.sample.arranged != "pairs":
        yield Problem(key, d.packets, "has samples arranged in rows; F-engines take them one behind the other")
    for name in d.select:
        if name not in f.timestamp.stream:
            remedy = f"does not tell streams of {d.packets} apart; {listed(f.timestamp.stream)} do"
            yield Problem(f"digitizer.select.{name}", d.select[name], remedy)


def _no_antenna(key: str, name: str, o: Observation) -> Problem:
    names = [a.name for a in o.antennas]
    return Problem(key, name, f"no such antenna; {did_you_mean(name, names)}there are {listed(names)}")


def _no_polarization(key: str, name: str, o: Observation) -> Problem:
    return Problem(key, name, f"must be one of array.polarizations: {', '.join(o.array.polarizations)}")


@reads("array")
def _cable_delays(o: Observation) -> Iterator[Problem]:
    for i, antenna in enumerate(o.antennas):
        if len(antenna.cable_delay) not in (0, o.pols):
            key = f"array.antennas[{i}].cable_delay"
            yield Problem(
                key, len(antenna.cable_delay), f"values, but {antenna.name} needs one a polarization: {o.pols}"
            )


@reads("array")
def _antenna_positions(o: Observation) -> Iterator[Problem]:
    seen: dict[tuple[float, ...], str] = {}
    for i, antenna in enumerate(o.antennas):
        position = (0.0, *antenna.enu) if antenna.enu is not None else (1.0, *(antenna.itrf or ()))
        if position in seen:
            remedy = f"{antenna.name} stands where {seen[position]} stands; give each its own place"
            yield Problem(f"array.antennas[{i}]", None, remedy)
        seen.setdefault(position, antenna.name)


@reads("array", "inputs")
def _inputs_exist(o: Observation) -> Iterator[Problem]:
    names = {a.name for a in o.antennas}
    for i, entry in enumerate(o.inputs):
        if entry.antenna not in names:
            yield _no_antenna(f"inputs[{i}].antenna", entry.antenna, o)
        if entry.polarization not in o.array.polarizations:
            yield _no_polarization(f"inputs[{i}].polarization", entry.polarization, o)


@reads("array", "inputs")
def _inputs_complete(o: Observation) -> Iterator[Problem]:
    if o.inputs and len(o.inputs) != o.n_inputs:
        needed = f"{len(o.antennas)} antennas x {o.pols} polarizations need {o.n_inputs}"
        yield Problem("inputs", len(o.inputs), f"tables, but map every input or none: {needed}")


@reads("inputs")
def _inputs_once(o: Observation) -> Iterator[Problem]:
    seen: dict[str, int] = {}
    for i, entry in enumerate(o.inputs):
        stream = f"stream {entry.stream}" + ("" if entry.input is None else f" input {entry.input}")
        for what in (stream, f"{entry.antenna} {entry.polarization}"):
            if what in seen:
                yield Problem(f"inputs[{i}]", None, f"{what} is in inputs[{seen[what]}] already; each may stand once")
            seen.setdefault(what, i)


@reads("digitizer", "fengine", "inputs")
def _conjugate_complex(o: Observation) -> Iterator[Problem]:
    for i, entry in enumerate(o.inputs):
        if entry.conjugate and not o.digitizer.complex and o.fengine.packets is None:
            remedy = "only complex samples can arrive conjugated; remove it, or set digitizer.complex = true"
            yield Problem(f"inputs[{i}].conjugate", True, remedy)


@reads("array", "fengine", "inputs")
def _packet_inputs(o: Observation) -> Iterator[Problem]:
    """Each input of the array is one of others' packets."""
    per = 0 if o.packets is None else o.packets.inputs
    for i, entry in enumerate(o.inputs):
        if entry.input is not None and not entry.input < per:
            allowed = (
                f"a packet holds inputs 0 to {per - 1}" if per else "is for others' F-engines: set fengine.packets"
            )
            yield Problem(f"inputs[{i}].input", entry.input, allowed)
    if len(o.inputs) in (0, o.n_inputs):
        numbers = o.wire_inputs.tolist()
        for i, number in enumerate(numbers):
            if number in numbers[:i] and per:
                a, b = (f"{s.antenna} {s.polarization}" for s in (o.streams[numbers.index(number)], o.streams[i]))
                yield Problem("inputs", None, f"{a} and {b} are both input {number} on the wire; each may stand once")


@reads("fengine", "xengine")
def _packet_channels(o: Observation) -> Iterator[Problem]:
    if o.packets is not None and (o.substream_channels % o.packets.channels or o.fengine.channels % o.packets.channels):
        remedy = f"must be a multiple of the {o.packets.channels} channels of a packet of {o.fengine.packets}"
        yield Problem("xengine.channels_per_substream", o.substream_channels, remedy)


@reads("catcher", "fengine", "inputs", "array", "simulate")
def _others_visibilities(o: Observation) -> Iterator[Problem]:
    if o.catcher.packets is None:
        return
    if o.fengine.packets is not None:
        remedy = "goes to others' X-engines, whose visibilities catcher.packets reads: remove one of the two"
        yield Problem("fengine.packets", o.fengine.packets, remedy)
    if o.simulate is not None:
        yield Problem("simulate", None, "others' X-engines are not simulated: remove it, or catcher.packets")
    numbers = [s.stream for s in o.streams]
    if len(o.inputs) in (0, o.n_inputs) and sorted(numbers) != list(range(o.n_inputs)):
        remedy = (
            f"others' X-engines count the inputs from 0 to {o.n_inputs - 1}; map each to one antenna's polarization"
        )
        yield Problem("inputs", listed(map(str, numbers)), remedy)
    for i, entry in enumerate(o.inputs):
        if entry.conjugate:
            yield Problem(f"inputs[{i}].conjugate", True, "cannot be mended after the X-engine: remove it")


@reads("band", "catcher", "digitizer", "fengine", "xengine")
def _file_integration(o: Observation) -> Iterator[Problem]:
    wanted = o.catcher.integration
    if wanted is not None and wanted < Fraction(o.integration_spectra * o.step, 2) / o.sample_rate:
        remedy = f"must be a multiple of the X-engines' integration, which is {o.integration_time:.6g} s"
        yield Problem("catcher.integration", f"{float(wanted):g} s", remedy)


@reads("band", "digitizer")
def _zone_real(o: Observation) -> Iterator[Problem]:
    if o.digitizer.complex and o.band.nyquist_zone != 1:
        remedy = "must be 1 for complex samples: put the band's centre in band.lo"
        yield Problem("band.nyquist_zone", o.band.nyquist_zone, remedy)


@reads("digitizer", "network")
def _digitizer_heap(o: Observation) -> Iterator[Problem]:
    key, samples = "digitizer.heap_samples", o.digitizer.heap_samples
    unit = 64 // math.gcd(64, o.sample_bits)
    most = o.network.packet_size * 8 // o.sample_bits // unit * unit
    if samples % unit:
        remedy = f"{o.sample_bits}-bit samples of a heap must fill whole 8-byte words: use a multiple of {unit}"
        yield Problem(key, samples, remedy)
    if o.digitizer_heap_bytes > o.network.packet_size:
        remedy = (
            f"a heap must fit one packet of network.packet_size = {o.network.packet_size} B: at most {most} samples"
        )
        yield Problem(key, samples, f"{remedy} of {o.sample_bits} bits")


@reads("fengine", "fx", "xengine")
def _gpu_channels(o: Observation) -> Iterator[Problem]:
    channels = o.fengine.channels
    if o.fengine.backend == "cuda" and channels not in GPU_CHANNELS:
        near = min(GPU_CHANNELS, key=lambda c: abs(math.log(c / channels)))
        allowed = f"the GPU form needs a power of two from {min(GPU_CHANNELS)} to {max(GPU_CHANNELS)}"
        yield Problem("fengine.channels", channels, f'{allowed}, such as {near}; or set {o.backend_key("f")} = "cpu"')


@reads("fengine", "fx", "xengine")
def _gpus_are_used(o: Observation) -> Iterator[Problem]:
    for name, table in (("fengine", o.fengine), ("xengine", o.xengine)):
        if table.gpus and table.backend == "cpu" and o.fx is None:
            remedy = f'needs a backend that uses them, and {name}.backend is "cpu": set it to "cuda", or remove this'
            yield Problem(f"{name}.gpus", table.gpus, remedy)


@reads("fengine", "xengine")
def _substreams_divide(o: Observation) -> Iterator[Problem]:
    channels, share = o.fengine.channels, o.substream_channels
    if channels % share:
        near = min((c for c in range(1, channels + 1) if channels % c == 0), key=lambda c: abs(c - share))
        remedy = f"must divide fengine.channels = {channels}; the nearest that does is {near}"
        yield Problem("xengine.channels_per_substream", share, remedy)


@reads("array", "fengine", "network", "xengine")
def _f_packet(o: Observation) -> Iterator[Problem]:
    if o.packet_channels == 0:  # never of rows: those of a channel are 256 B at most, as small as packets may be
        most = o.network.packet_size // (o.pols * o.value_bytes) // 8 * 8
        remedy = f"one channel of a heap must fit network.packet_size = {o.network.packet_size} B: at most {most} here"
        yield Problem("fengine.spectra_per_heap", o.fengine.spectra_per_heap, remedy)


@reads("band", "catcher", "digitizer", "fengine", "xengine")
def _integration_length(o: Observation) -> Iterator[Problem]:
    batch = o.batch_spectra * o.step / o.sample_rate
    if o.xengine.integration < batch / 2:
        remedy = (
            f"must be at least lcm(64, spectra_per_heap) = {o.batch_spectra} spectra, which is {float(batch):.6g} s"
        )
        yield Problem("xengine.integration", f"{float(o.xengine.integration):g} s", remedy)
    elif o.integration_time < 1e-3 and o.catcher.integration is None:
        remedy = f"becomes {o.integration_time:.3g} s; files cannot tell times less than 1 ms apart: at least 1 ms"
        yield Problem("xengine.integration", f"{float(o.xengine.integration):g} s", remedy)


@reads("array", "fengine")
def _gains_shape(o: Observation) -> Iterator[Problem]:
    if o.fengine.gains_file is None:
        return
    key, path = "fengine.gains_file", Path(o.source).parent / o.fengine.gains_file
    needed = (o.n_inputs, o.fengine.channels)
    try:
        found = np.lib.format.open_memmap(path, mode="r")  # type: ignore[no-untyped-call]
    except (OSError, ValueError, EOFError) as error:
        yield Problem(key, str(path), f"cannot be read: {error}; make it with numpy.save, shape {needed}")
        return
    if found.shape != needed or found.dtype.kind not in "iufc":
        remedy = f"holds {found.dtype} of shape {found.shape}; needs numbers of shape (inputs, channels) = {needed}"
        yield Problem(key, str(path), remedy)
        return
    for i, of_input in enumerate(found):
        if (bad := np.flatnonzero(~np.isfinite(of_input))).size:
            remedy = f"holds {of_input[bad[0]]} for input {i}, channel {bad[0]} ({bad.size} such of this input); "
            yield Problem(key, str(path), remedy + "every gain must be finite: 0 blanks a channel")
            return


@reads("band", "digitizer", "fengine", "simulate")
def _rfi_in_band(o: Observation) -> Iterator[Problem]:
    half = o.channel_width / 2
    low, high = float(o.sky_frequencies.min() - half), float(o.sky_frequencies.max() + half)
    for i, rfi in enumerate(o.simulate.rfi if o.simulate else ()):
        remedy = f"outside the band, {low / 1e6:.10g} to {high / 1e6:.10g} MHz"
        if not low <= rfi.frequency <= high:
            yield Problem(f"simulate.rfi[{i}].frequency", f"{rfi.frequency / 1e6:.10g} MHz", remedy)
        elif not low <= rfi.frequency - rfi.bandwidth / 2 <= rfi.frequency + rfi.bandwidth / 2 <= high:
            yield Problem(f"simulate.rfi[{i}].bandwidth", f"{rfi.bandwidth / 1e6:.10g} MHz", f"reaches {remedy}")


@reads("array", "simulate")
def _rfi_antennas(o: Observation) -> Iterator[Problem]:
    names = {a.name for a in o.antennas}
    for i, rfi in enumerate(o.simulate.rfi if o.simulate else ()):
        for j, name in enumerate(rfi.antennas):
            if name not in names:
                yield _no_antenna(f"simulate.rfi[{i}].antennas[{j}]", name, o)


@reads("observation", "simulate")
def _simulation_ends(o: Observation) -> Iterator[Problem]:
    if o.simulate is not None and o.simulate.replay is None and o.observation.duration is None:
        remedy = 'is missing: a simulation needs an end, such as "4 s" (or simulate.replay, a window to repeat)'
        yield Problem("observation.duration", None, remedy)


@reads("array", "vdif")
def _recordings(o: Observation) -> Iterator[Problem]:
    names = {a.name for a in o.antennas}
    for i, entry in enumerate(o.vdif.inputs if o.vdif else ()):
        if entry.antenna not in names:
            yield _no_antenna(f"vdif.inputs[{i}].antenna", entry.antenna, o)
        if entry.polarization not in o.array.polarizations:
            yield _no_polarization(f"vdif.inputs[{i}].polarization", entry.polarization, o)


@reads("vdif")
def _recorded_bands(o: Observation) -> Iterator[Problem]:
    if o.vdif is None:
        return
    bands = max(1, len(o.vdif.bands))
    names = [band.name for band in o.vdif.bands]
    for i, entry in enumerate(o.vdif.inputs):
        if entry.band is not None and entry.band >= bands:
            yield Problem(f"vdif.inputs[{i}].band", entry.band, f"there are {bands} bands, counted from 0")
    for i, name in enumerate(names):
        if name and name in names[:i]:
            yield Problem(
                f"vdif.bands[{i}].name", name, f"is the name of vdif.bands[{names.index(name)}] too; rename one"
            )
