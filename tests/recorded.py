"""Small recordings with losses, of fresh random samples, in each form that Ryle reads; and what they are of."""

import numpy as np

from ryle.config import parse
from ryle.engines.simulator import record
from ryle.store.chunk_file import Layout, StoredChunk, file_header, pages, record_header
from ryle.wire.vdif import Header
from ryle.wire.vdif_write import Writer

RATE = 1_000_000
FRAME = 1600  # samples
SYNC, SECONDS = "2026-07-01T00:00:00.25Z", 0  # a quarter of the first second of VDIF's epoch 53


def observation(*, duration=None, integration="0.08 s", batch=1792, more="", rate="1 MHz", complex_samples=False):
    """Two antennas of two polarizations kilometres apart, whose delays move; batches do not divide integrations."""
    return parse(f"""
[observation]
name = "pieces"
sync_time = "{SYNC}"
{f'duration = "{duration} s"' if duration else ""}
[array]
location = {{ latitude = "-30.7215 deg", longitude = "21.4284 deg", height = "1051 m" }}
antennas = [
  {{ name = "A", enu = ["0 m", "0 m", "0 m"], cable_delay = ["0 s", "0.3 us"] }},
  {{ name = "B", enu = ["41000 m", "-23000 m", "1.5 m"] }},
]
[band]
sample_rate = "{rate}"
lo = "1.4 GHz"
[digitizer]
heap_samples = 1024
complex = {str(complex_samples).lower()}
[fengine]
channels = 32
taps = 4
gain = 3.0
max_delay = "200 us"
{f"batch = {batch}" if batch else ""}
[xengine]
integration = "{integration}"
[phase_centre]
ra = "07h00m00s"
dec = "-30d00m00s"
{more}
""")


VDIF = """
[vdif]
bands = [{ name = "low", lo = "1.4 GHz" }, { name = "high", lo = "1.402 GHz", sideband = "lower" }]
inputs = [
  { file = 0, thread = 3, antenna = "A", polarization = "x" },
  { file = 0, thread = 7, antenna = "A", polarization = "y" },
  { file = 1, thread = 1, antenna = "B", polarization = "x", clock_offset = "37.4 us" },
  { file = 1, thread = 0, antenna = "B", polarization = "y", clock_offset = "37.4 us" },
]
"""


def vdif(directory, rng, seconds=6.0, complex_samples=False):
    """Write two stations' recordings: frames lost, one after another out of place, one station beginning later."""
    paths = []
    for name, threads, start in (("a.vdif", (3, 7), 0), ("b.vdif", (1, 0), 77)):
        header = Header(
            epoch=53, seconds=SECONDS, frame=start, bits_minus_1=7, log2_channels=1, complex_data=int(complex_samples)
        )
        samples = FRAME
        frames = int(seconds * RATE) // samples - start
        with Writer(directory / name, header, RATE, samples, threads) as writer:
            for _ in range(frames):
                if rng.random() < 0.02:
                    writer.skip(1)
                    continue
                wave = rng.normal(0, 0.7, (len(threads), samples, 2, 2))
                wave = wave[..., 0] + 1j * wave[..., 1] if complex_samples else wave[..., 0]
                writer.write(wave)
        paths.append(_disordered(directory / name, rng))
    return paths


def _disordered(path, rng):
    """Exchange frames with others up to a second away, spoil some headers, and put bytes between some."""
    data = path.read_bytes()
    length = int.from_bytes(data[8:11], "little") * 8
    frames = [data[at : at + length] for at in range(0, len(data), length)]
    for i in rng.integers(1, len(frames) - 1, len(frames) // 50).tolist():
        j = min(len(frames) - 2, i + int(rng.integers(1, 8 * RATE // (5 * FRAME))))
        frames[i], frames[j] = frames[j], frames[i]
    for i in rng.integers(1, len(frames) - 1, 3).tolist():
        frames[i] = bytes(8) + frames[i][8:11] + bytes(5) + frames[i][16:]
    for i in rng.integers(1, len(frames) - 1, 3).tolist():
        frames[i] += bytes(int(rng.integers(1, 99)))
    path.write_bytes(b"".join(frames))
    return path


def chunks(directory, rng, o, blocks=60, packets=16):
    """Write the samples of each antenna to a file of chunks, with packets and blocks missing."""
    step, found = o.digitizer.heap_samples, []
    for antenna in range(len(o.antennas)):
        heads = tuple(tuple(o.digitizer_head(antenna * o.pols + p)) for p in range(o.pols))
        shape = (o.pols, packets, o.digitizer_heap_bytes)
        fields = tuple(o.digitizer_format.timestamp.stream)
        layout = Layout(o.digitizer_format.name, heads, fields, packets, shape, step, 0, "samples")
        path = directory / f"{'ab'[antenna]}.chunks"
        with path.open("wb") as file:
            file.write(file_header(layout))
            for number in range(3, blocks):
                if rng.random() < 0.05 or number in range(30, 34):
                    continue
                data = rng.integers(0, 256, shape, np.uint8)
                present = (rng.random(shape[:2]) < 0.95).astype(np.uint8)
                data[present == 0] = 0
                chunk = StoredChunk(number, 0, number * packets * step, int(present.sum()), data, present)
                file.write(record_header(chunk))
                for part in (present, data):
                    file.write(part.tobytes().ljust(pages(part.nbytes), b"\0"))
        found.append(path)
    return found


SIMULATE = """
[simulate]
seed = {seed}
sources = [{{ ra = "07h00m20s", dec = "-29d58m00s", flux = "120 Jy" }}]
faults = {{ loss = 0.02 }}
"""


def fresh(shape):
    """Memory for a stretch of chunks, with something in it."""
    return np.full(shape, 77, np.uint8), np.full(shape[:2], 77, np.uint8)


def capture(directory, o):
    """Write a capture of the packets that a simulated observation sends, some of which are lost."""
    record(o, str(directory / "packets.pcap"))
    return [directory / "packets.pcap"]
