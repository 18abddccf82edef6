"""The whole correlator on one core: packed samples in, integrations out, as `ryle correlate` runs it.

The baseline is the least that any FX correlator does with these samples: Fourier transforms (without a filter bank) and
complex64 matrix products, both timed on a part of the data in the same rounds and scaled to all of it.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ryle.bench.fengine import BITS, PACKET, TAPS, noise_chunk, transform_baseline
from ryle.bench.results import Row
from ryle.bench.timing import compare, interleave
from ryle.bench.xengine import product_baseline, random_voltages
from ryle.channelize import Blocks, Spectra
from ryle.chunk import Integration, SampleChunk
from ryle.config import Observation, example, load, parse
from ryle.engines.f import FEngine
from ryle.engines.x import XEngine
from ryle.wire.samples import pack

BASELINE = "scipy.fft.rfft float32 + complex64 matrix products"
CHANNELS = 4096
SPECTRA = 256  # a heap, and so a batch


def observation(antennas: int) -> Observation:
    """Make an observation of dual-polarization antennas on a line, with a real band 1.712 Gsample/s wide."""
    positions = ",".join(f'{{name = "A{a}", enu = ["{20 * a} m", "{a} m", "0 m"]}}' for a in range(antennas))
    return parse(
        f"""
        observation = {{name = "bench", sync_time = "2026-03-20T20:00:00Z"}}
        band = {{sample_rate = "1.712 GHz", lo = "0.9 GHz"}}
        digitizer = {{bits = {BITS}, heap_samples = {PACKET}}}
        fengine = {{channels = {CHANNELS}, taps = {TAPS}, spectra_per_heap = {SPECTRA}, max_delay = "10 us"}}
        xengine = {{integration = "0.5 s", channels_per_substream = {CHANNELS}}}
        phase_centre = {{name = "field", ra = "07h00m00s", dec = "-30d00m00s"}}
        [array]
        name = "line"
        location = {{latitude = "-30.7 deg", longitude = "21.4 deg", height = "1000 m"}}
        polarizations = ["x", "y"]
        antennas = [{positions}]
        """,
        "bench",
    )


class OneThread:
    """F and X one after the other in one thread, without rings: what their arithmetic costs.

    Parameters
    ----------
    observation : Observation
        What is observed.

    Attributes
    ----------
    f, x : FEngine, XEngine
        Of all antennas and of all channels.
    """

    def __init__(self, observation: Observation) -> None:
        self.f = FEngine(observation, range(len(observation.antennas)), Blocks())
        self.x = XEngine(observation, 0, observation.fengine.channels, groups=1)

    def push(self, chunk: SampleChunk) -> Iterator[Integration]:
        """Add samples in time order; give each integration that they complete."""
        for spectra in self.f.push(chunk):
            yield from self._correlate(spectra)

    def flush(self) -> Iterator[Integration]:
        """Give what is still open; what it lacks counts as missing."""
        for spectra in self.f.flush():
            yield from self._correlate(spectra)
        yield from self.x.flush()

    def _correlate(self, spectra: Spectra) -> Iterator[Integration]:
        if spectra.valid.any():
            yield from self.x.push(spectra.chunk())


class _Stream:
    """Sends the same samples through a correlator again and again, as one endless stream."""

    def __init__(self, observed: Observation, chunk: SampleChunk) -> None:
        self.engine, self._chunk, self._samples = OneThread(observed), chunk, chunk.samples

    def push(self) -> None:
        for _ in self.engine.push(self._chunk):
            pass
        # A new object with the same samples: the correlator still holds the last one.
        chunk = self._chunk
        self._chunk = SampleChunk(chunk.end, chunk.data, chunk.present, chunk.packet_samples)


def run(antennas: int = 32, rounds: int = 9) -> list[Row]:
    """Time F and X together.

    Parameters
    ----------
    antennas : int
        Dual-polarization antennas.
    rounds : int
        How often a batch is pushed through.
    """
    observed = observation(antennas)
    inputs = observed.n_inputs
    probe = OneThread(observed)
    shape = probe.f.shape
    del probe
    chunk = noise_chunk(inputs, shape.batch * shape.step)
    if chunk.samples != shape.batch * shape.step:
        raise ValueError(f"a batch of {shape.batch} spectra is no whole number of packets of {PACKET} samples")
    stream = _Stream(observed, chunk)
    for _ in range(3):  # until each chunk completes one batch
        stream.push()
    spectra, channels = 256, 64
    frames = np.random.default_rng(3).standard_normal((spectra, shape.step)).astype(np.float32)
    times = interleave(
        {
            "transform": transform_baseline(frames),
            "product": product_baseline(random_voltages(inputs, channels, spectra)),
            "correlator": stream.push,
        },
        rounds,
    )
    transforms = inputs * shape.batch / spectra
    products = CHANNELS / channels * shape.batch / spectra
    baseline = [
        transforms * f + products * x for f, x in zip(times["transform"], times["product"], strict=True)
    ]  # fmt: skip
    ratio, spread = compare(times["correlator"], baseline)
    samples = inputs * chunk.samples / 1e9
    sizes = f"{antennas} dual-polarization antennas, {CHANNELS} channels, {TAPS} taps, {BITS} bit"
    return [
        Row(
            f"F and X in one process, {sizes}, batches of {shape.batch} spectra",
            samples / statistics.median(times["correlator"]),
            "Gsample/s",
            baseline=BASELINE,
            baseline_value=samples / statistics.median(baseline),
            ratio=ratio,
            ratio_spread=spread,
            more={"bandwidth_mhz": samples / inputs / statistics.median(times["correlator"]) * 500},
        )
    ]


def memory(batches: int = 20) -> list[Row]:
    """Measure what a process that correlates the demo's array needs, and what it needs ten times later.

    Parameters
    ----------
    batches : int
        Batches of the shorter run.
    """
    observed = load(example("demo"))
    engine = OneThread(observed)
    before = peak_memory()
    shape = engine.f.shape
    digitizer = observed.digitizer
    packets = -(-shape.batch * shape.step // digitizer.heap_samples)
    noise = np.random.default_rng(1).normal(0, 30, (1, packets * digitizer.heap_samples))
    packed, _ = pack(noise, digitizer.bits)
    data = np.tile(packed.reshape(1, packets, -1), (observed.n_inputs, 1, 1))
    chunk = SampleChunk(0, data, np.ones(data.shape[:2], np.uint8), digitizer.heap_samples)
    stream = _Stream(observed, chunk)
    peaks = []
    for count in (batches, 9 * batches):
        for _ in range(count):
            stream.push()
        peaks.append(peak_memory())
    name = f"Peak memory, demo: {len(observed.antennas)} antennas, {observed.fengine.channels} channels"
    return [
        Row(
            name,
            peaks[0],
            "MiB",
            more={"libraries_mib": before, "ten_times_later_mib": peaks[1]},
        )
    ]


def peak_memory() -> float:
    """Peak resident memory of this process so far, in MiB."""
    status = Path("/proc/self/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024
