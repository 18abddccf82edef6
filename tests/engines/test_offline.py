"""Recordings through the product: fringes, times and weights where truth puts them, and every packet accounted for."""

import io
import os
import re
import signal
import struct
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import baseband.data
import h5py
import numpy as np
import pytest
from astropy.time import Time, TimeDelta
from baseband import vdif as oracle
from rich.console import Console

import fresh
from emulation import EmulatedGpu
from ryle.chunk import SampleChunk
from ryle.config import ConfigError, changed, parse
from ryle.engines import gpus
from ryle.engines.offline import correlate, correlate_samples, run_in_process
from ryle.engines.simulator import record
from ryle.products.uvh5 import UVH5Writer
from ryle.receive.entrance import MappedEntrance
from ryle.receive.pcap import PcapFile
from ryle.receive.replay import PcapSource
from ryle.receive.samples import SampleMap
from ryle.simulate import VoltageSimulator
from ryle.store.pcap_write import PcapWriter
from ryle.wire.vdif import TWO_BIT_THRESHOLD, Header
from ryle.wire.vdif_write import Writer

RATE = 1_000_000
# A second before the leap second at the end of 2016; VDIF counts from 2016-07-01 (epoch 33) or 2016-01-01 (32).
SYNC = "2016-12-31T23:59:59.9Z"
SECOND = {33: 184 * 86400 - 1, 32: 366 * 86400 - 1}
BEFORE = 900_000  # samples of the sync second before sync
CLOCK = Fraction(374, 10)  # samples that B's clock reads too much

ARRAY = """
[array]
location = { latitude = "-30.7215 deg", longitude = "21.4284 deg", height = "1051 m" }
antennas = [
  { name = "A", enu = ["0 m", "0 m", "0 m"], cable_delay = ["0 s", "0.3 us"] },
  { name = "B", enu = ["4100 m", "-2300 m", "1.5 m"] },
]
"""
VDIF = """
[vdif]
bands = [{ name = "low", lo = "149 MHz" }, { name = "high", lo = "151 MHz", sideband = "SIDEBAND" }]
inputs = [
  { file = 1, thread = 3, antenna = "A", polarization = "x" },
  { file = 1, thread = 700, antenna = "A", polarization = "y" },
  { file = 0, thread = 1, antenna = "B", polarization = "x", clock_offset = "37.4 us" },
  { file = 0, thread = 0, antenna = "B", polarization = "y", clock_offset = "37.4 us" },
]
"""


def two_stations(complex_samples, sideband="upper", seed=1):
    channels = 32
    return parse(f"""
[observation]
sync_time = "{SYNC}"
duration = "1.35 s"
{ARRAY}
[band]
sample_rate = "1 MHz"
lo = "149 MHz"
[digitizer]
bits = 8
complex = {str(complex_samples).lower()}
heap_samples = 800
[fengine]
channels = {channels}
taps = 4
gain = 12.0
max_delay = "50 us"
[xengine]
integration = "0.1 s"
[phase_centre]
ra = "09h00m00s"
dec = "-30d00m00s"
[simulate]
seed = {seed}
sefd = "400 Jy"
sources = [{{ ra = "09h00m00s", dec = "-30d00m00s", flux = "1500 Jy" }}]
{VDIF.replace("SIDEBAND", sideband)}
""")


def voltages(o):
    """Band, input, sample: what the digitizers see in units of its rms; true time is sample count."""
    made = []
    for band in o.vdif.bands:
        of_band = changed(o, band={"lo": band.lo, "sideband": band.sideband})
        wave = VoltageSimulator(of_band).voltages(0, int(1.35 * RATE))
        made.append(wave / np.sqrt(np.mean(np.abs(wave) ** 2) / (1 + np.iscomplexobj(wave))))
    return np.array(made)


def late(waves, samples):
    """The same waves, read by an instrument whose time stamps are `samples` too large."""
    frequency = np.fft.fftfreq(waves.shape[-1])
    turned = np.fft.ifft(np.fft.fft(waves) * np.exp(-2j * np.pi * frequency * float(samples)))
    return turned if np.iscomplexobj(waves) else turned.real


def write(path, waves, bits, epoch, first_frame, frame_samples, threads, lose=range(0), later=0):
    """Write waves (band, thread, sample) from a frame of the sync second on, or stamped some seconds later."""
    header = Header(
        epoch=epoch, seconds=SECOND[epoch] + later, frame=first_frame, bits_minus_1=bits - 1, log2_channels=1,
        complex_data=int(np.iscomplexobj(waves)),
    )  # fmt: skip
    level = TWO_BIT_THRESHOLD if bits == 2 else 0.7
    data = waves.transpose(1, 2, 0) * level
    with Writer(path, header, RATE, frame_samples, threads) as writer:
        start = first_frame * frame_samples - BEFORE
        for number in range((data.shape[1] - start) // frame_samples):
            if number in lose:
                writer.skip(1)
            else:
                at = start + number * frame_samples
                writer.write(data[:, at : at + frame_samples])
    return path


def quiet():
    return Console(file=io.StringIO(), width=200)


def read(path):
    """UVH5: times (integration,), visibilities and nsamples by antenna pair, shape (integration, channel, pol)."""
    with h5py.File(path) as file:
        a, b = file["Header/ant_1_array"][()], file["Header/ant_2_array"][()]
        names = [n.decode() for n in file["Header/antenna_names"][()]]
        numbers = file["Header/antenna_numbers"][()].tolist()
        name = {number: n for number, n in zip(numbers, names, strict=True)}
        vis, weight, times = file["Data/visdata"][()], file["Data/nsamples"][()], file["Header/time_array"][()]
        frequency = file["Header/freq_array"][()].reshape(-1)
    pairs = sorted(set(zip(a.tolist(), b.tolist(), strict=True)))
    found = {name[i] + name[j]: (a == i) & (b == j) for i, j in pairs}
    first = next(iter(found.values()))
    return (
        times[first],
        {p: vis[rows] for p, rows in found.items()},
        {p: weight[rows] for p, rows in found.items()},
        frequency,
    )


def test_bands_take_gpus_in_turn(tmp_path, observe, monkeypatch):
    opened = []
    monkeypatch.setattr(gpus, "open_gpu", lambda *number: opened.append(number) or EmulatedGpu())
    o = changed(observe(antennas=2), fengine={"backend": "cuda", "gpus": [3, 5]}, xengine={"backend": "cuda"})
    bands = [(o, tmp_path / f"{name}.uvh5", None) for name in "abc"]
    correlate_samples(bands, lambda _: iter(()), lambda at: 0.0, quiet(), False)
    assert opened == [(3,), (5,), (3,)] and len(list(tmp_path.glob("*.uvh5"))) == 3


@pytest.mark.parametrize(("complex_samples", "bits", "sideband"), [(False, (2, 8), "lower"), (True, (8, 2), "upper")])
def test_two_stations_fringe_where_they_should(tmp_path, complex_samples, bits, sideband):
    seed = fresh.seed()
    print(f"seed = {seed}")
    o = two_stations(complex_samples, sideband, seed)
    waves = voltages(o)
    frame = (1600, 800)
    lose = range(300, 340)  # of A: 64000 samples, through the whole of the fifth and sixth of a second
    a = write(tmp_path / "a.vdif", waves[:, :2], bits[0], 33, 563, frame[0], (3, 700), lose)
    b = write(tmp_path / "b.vdif", late(waves[:, 2:], CLOCK)[:, ::-1], bits[1], 32, 1140, frame[1], (0, 1))
    results = correlate(o, [b, a], tmp_path, quiet())
    assert [r.file.name for r in results] == ["observation.low.uvh5", "observation.high.uvh5"]
    spectra, step, taps = o.integration_spectra, o.step, o.fengine.taps
    gap = (800 + lose.start * frame[0], 800 + lose.stop * frame[0])
    for result in results:
        times, vis, weight, frequency = read(result.file)
        assert len(times) == result.integrations >= 13
        assert (np.diff(frequency) > 0).all()
        # Times, through the leap second, and lengths: the first and the last integration are what there was of them.
        bounds = np.arange(len(times) + 1) * spectra * step
        begin, end = np.maximum(bounds[:-1], 800), np.minimum(bounds[1:], waves.shape[-1] - step * (taps - 1))
        middle = ((begin + end) / 2 + step * (taps - 1) / 2) / RATE
        truth = (Time("2016-12-31T23:59:59.9", scale="utc").tai + TimeDelta(middle, format="sec")).utc
        off, least = np.abs(times - truth.jd) * 86400, (1600 + 50 + 2 * step) / RATE  # a packet, and delays
        assert off[1:-1].max() < 1e-4 and max(off[0], off[-1]) < least < (bounds[-1] - end[-1]) / RATE / 4
        with h5py.File(result.file) as file:
            lengths = file["Header/integration_time"][()].reshape(len(times), -1)
        assert (lengths[1:-1] == spectra * step / RATE).all() and (lengths == lengths[:, :1]).all()
        assert np.abs(lengths[[0, -1], 0] - (end - begin)[[0, -1]] / RATE).max() < 2 * least
        # Fringes: the source is tracked, so that every phase is zero, in time and over the band.
        used = slice(2, -2)
        for pol in (0, 1):  # the parallel hands
            cross = vis["AB"][1:-1, used, pol].astype(complex)
            auto = np.sqrt(vis["AA"][1:-1, used, pol].real * vis["BB"][1:-1, used, pol].real)
            assert (np.abs(cross) / auto).mean() > 0.5
            noise = 1 / np.sqrt(spectra * weight["AB"][1:-1, used, pol])
            assert (np.abs(np.angle(cross)) < 8 * noise + 0.02).all()
            mean = cross.mean(axis=0)
            slope = np.angle((mean[1:] * mean[:-1].conj()).sum()) / (2 * np.pi * (frequency[1] - frequency[0]))
            assert abs(slope) * RATE < 0.02  # samples
        # Weights: B starts late, A has a gap.
        window = step * taps
        for pair, starts in (("AA", 800), ("BB", 12000 - float(CLOCK)), ("AB", 12000 - float(CLOCK))):
            bad = [(-(10**9), starts)] + ([gap] if "A" in pair else [])
            expected = np.ones(len(times))
            for lost in bad:
                inside = np.minimum(bounds[1:], lost[1]) - np.maximum(bounds[:-1], lost[0] - window)
                expected -= np.clip(inside, 0, None) / (spectra * step)
            # To within two packets and the delays, which say what a spectrum reads.
            slack = (2 * 1600 + 2 * 50) / (spectra * step)
            assert np.abs(weight[pair][:-1] - expected[:-1, None, None]).max() < slack
        assert weight["BB"][1:-1].min() == 1.0
    for account in results[0].accounts.values():
        assert account["placed"] == account["frames"] == account["expected"] - account["missing"]
    assert 0 <= results[0].accounts["a.vdif"]["missing"] - 2 * len(lose) <= 4  # and what no packet holds at the ends


def test_a_clock_that_is_not_corrected_shows_as_a_lag(tmp_path):
    o = two_stations(False, seed=fresh.seed())
    waves = voltages(o)[:, :, : 500 * 1600]
    a = write(tmp_path / "a.vdif", waves[:, :2], 8, 33, 563, 1600, (3, 700))
    b = write(tmp_path / "b.vdif", late(waves[:, 2:], CLOCK)[:, ::-1], 8, 33, 1140, 800, (0, 1))
    for offset, lag in ((0.0, 37.4), (20e-6, 17.4), (37.9e-6, -0.5)):
        table = o.vdif
        inputs = [i.model_copy(update={"clock_offset": offset if i.antenna == "B" else 0.0}) for i in table.inputs]
        wrong = o.model_copy(update={"vdif": table.model_copy(update={"inputs": inputs})})
        result = correlate(wrong, [b, a], tmp_path, quiet())[0]
        _, vis, _, frequency = read(result.file)
        mean = vis["AB"][1:-1, 2:-2, 0].mean(axis=0)
        delays = np.arange(-60, 60, 0.1)
        # conj(A)·B of a source that B hears `lag` later turns by -2π f lag.
        beam = np.abs(np.exp(2j * np.pi * delays[:, None] * (frequency[2:-2] - frequency[0]) / RATE) @ mean)
        width = 2 * 32 / 2  # the channels repeat it every 64 samples
        found = delays[np.argmax(beam)]
        assert abs((found - lag + width) % (2 * width) - width) < 0.3, (offset, found)


SAMPLE = Path(__file__).parents[2] / "docs" / "figures" / "vdif_sample.toml"


def test_real_recording_on_the_command_line(tmp_path):
    command = [sys.executable, "-m", "ryle", "correlate", SAMPLE, "-i", baseband.data.SAMPLE_VDIF, "-o", tmp_path]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "16 frames: 16 placed, 0 invalid" in done.stderr and "2 integrations → " in done.stderr
    times, vis, weight, _ = read(tmp_path / "vdif_sample.uvh5")
    # The same in double precision from the samples as baseband decodes them.
    with oracle.open(baseband.data.SAMPLE_VDIF, "rs") as file:
        samples = file.read()
        start = file.start_time
    spectra, taps, step = 256, 4, 128
    assert abs((Time(times[0], format="jd") - start).to_value("s") - (spectra + taps - 1) * step / 2 / 32e6) < 1e-4
    i = np.arange(taps * step) + 0.5 - taps * step / 2
    prototype = np.sinc(i / step) * np.hanning(taps * step)
    prototype /= np.sqrt((prototype**2).sum())
    windows = np.lib.stride_tricks.sliding_window_view(samples, taps * step, axis=0)[::step][:spectra]
    spectrum = np.fft.fft((windows * prototype).reshape(spectra, 8, taps, step).sum(axis=2), axis=-1)[..., :64] * 12
    spectrum = np.clip(spectrum.real, -127, 127) + 1j * np.clip(spectrum.imag, -127, 127)  # thread 5 has a strong tone
    rounding = 1 / 3  # variance of dither and rounding, 1/12 each in each part: a bias of the autocorrelations
    for a in range(4):
        for b in range(a, 4):
            for pol, (p, q) in enumerate([(0, 0), (1, 1), (0, 1), (1, 0)]):
                pair = f"T{2 * a}{2 * a + 1}T{2 * b}{2 * b + 1}"
                x, y = spectrum[:, 2 * a + p], spectrum[:, 2 * b + q]
                truth = (x.conj() * y).mean(axis=0) + (2 * a + p == 2 * b + q) * rounding
                power = (np.abs(x) ** 2).mean(axis=0) + (np.abs(y) ** 2).mean(axis=0)
                error = np.abs(vis[pair][0, :, pol] - truth) / np.sqrt(power * rounding / spectra)
                assert error[1:].max() < 6 and (weight[pair][0] == 1).all(), (pair, pol, error.max())


# -- captures ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def simulated(tmp_path_factory):
    """A small simulated observation, its visibilities made in process, and a capture of its packets."""
    directory = tmp_path_factory.mktemp("simulated")
    o = parse(f"""
[observation]
sync_time = "2026-03-20T20:00:00Z"
duration = "0.4 s"
{ARRAY}
[band]
sample_rate = "2 MHz"
lo = "1.4 GHz"
[digitizer]
heap_samples = 1024
[fengine]
channels = 32
taps = 4
max_delay = "20 us"
[xengine]
integration = "0.05 s"
[phase_centre]
ra = "07h00m00s"
dec = "-30d00m00s"
[simulate]
seed = {fresh.seed()}
sources = [{{ ra = "07h00m20s", dec = "-29d58m00s", flux = "120 Jy" }}]
""")
    result = run_in_process(o, directory / "direct", quiet())
    record(o, str(directory / "packets.pcap"))
    return o, result.file, directory / "packets.pcap"


def datasets(path):
    with h5py.File(path) as file:
        return [file[name][()] for name in ("Data/visdata", "Data/nsamples", "Header/time_array", "Data/flags")]


def same(a, b):
    return all(np.array_equal(x, y) for x, y in zip(datasets(a), datasets(b), strict=True))


def test_capture_equals_run_in_process(simulated, tmp_path):
    o, direct, capture = simulated
    (result,) = correlate(o, [capture], tmp_path, quiet())
    assert result.integrations == len(read(direct)[0]) >= 8 and same(result.file, direct)
    account = result.accounts["capture"]
    assert account["placed"] == account["datagrams"] == account["expected"] == 4 * (800_000 // 1024)


def packets(capture):
    return [(d.time, bytes(d.payload), str(d.address), d.port) for d in PcapFile(capture)]


def test_vlan_nanoseconds_and_microseconds(simulated, tmp_path):
    """The same capture with VLAN tags and another clock; what libpcap-based readers often do not take."""
    o, direct, capture = simulated
    raw = capture.read_bytes()
    out, at = [struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, 1)], 24
    while at < len(raw):
        second, nanosecond, size, _ = struct.unpack_from("<IIII", raw, at)
        packet = raw[at + 16 : at + 16 + size]
        tagged = packet[:12] + b"\x81\x00\x00\x64" + packet[12:]
        out.append(struct.pack("<IIII", second, nanosecond // 1000, size + 4, size + 4) + tagged)
        at += 16 + size
    (tmp_path / "vlan.pcap").write_bytes(b"".join(out))
    (result,) = correlate(o, [tmp_path / "vlan.pcap"], tmp_path, quiet())
    assert same(result.file, direct)


def captured(o, path):
    """Chunks of a capture's samples as an F-engine of all antennas gets them, and the account."""
    samples = SampleMap(o, range(len(o.antennas)), waits=True)
    entrance = MappedEntrance(o, "f", samples, [], source=lambda sink: PcapSource(sink, path), name="capture")
    blocks, chunks = entrance.reader(), []
    entrance.start()
    for block in blocks:
        with block:
            chunk = samples.given(block)
            chunks.append(SampleChunk(chunk.timestamp, chunk.data.copy(), chunk.present.copy(), chunk.packet_samples))
    return chunks, entrance.account(), entrance.assembler.counts()


def test_loss_duplicates_disorder_and_damage(simulated, tmp_path):
    """What is wrong with a capture is counted, and costs only what it touches."""
    o, _, capture = simulated
    rng = fresh.rng()
    good = packets(capture)
    count, draw = len(good), rng.uniform(size=len(good))
    fate = np.select([draw < 0.02, draw < 0.04, draw < 0.05, draw < 0.06], [1, 2, 3, 4], 0)  # lost, twice, cut, garbled
    place = np.arange(count) + np.where(rng.uniform(size=count) < 0.05, rng.uniform(0, 40, count), 0)
    garbage = overfull = 0
    with PcapWriter(tmp_path / "bad.pcap") as writer:
        for i in np.argsort(place, kind="stable"):
            time, payload, address, port = good[i]
            if fate[i] == 3:
                payload = payload[: int(rng.integers(1, len(payload)))]
            if fate[i] == 4:
                offset = int(rng.choice([0, 1, 2, 3, 6, 7]))
                wrong = payload[offset] ^ int(rng.integers(1, 256))
                overfull += offset == 7 and wrong > payload[offset]
                payload = payload[:offset] + bytes([wrong]) + payload[offset + 1 :]
            for _ in range((1, 0, 2, 1, 1)[fate[i]]):
                writer.write(time, payload, address, port)
            if rng.uniform() < 0.01:
                writer.write(time, bytes(rng.integers(0, 256, 60).astype(np.uint8)), "192.0.2.7", 53)
                garbage += 1
    chunks, a, _ = captured(o, tmp_path / "bad.pcap")
    assert a.balanced() and a.late == 0
    # What is no heap at all is malformed: addresses do not matter, so it cannot be known to be for others.
    # But of a head that says too many items, samples are read as items, and one may happen to steer a stream.
    assert a.duplicate == (fate == 2).sum() and a.foreign <= overfull
    assert a.foreign + a.malformed == (fate >= 3).sum() + garbage
    assert a.placed == count - np.isin(fate, (1, 3, 4)).sum()
    # Every sample is where the sender put it, and no other is called present.
    heap, inputs = 1024, 4
    present = np.zeros((inputs, count // inputs), np.uint8)
    for chunk in chunks:
        at = chunk.timestamp // heap
        width = min(chunk.present.shape[1], present.shape[1] - at)
        assert not chunk.present[:, width:].any()
        present[:, at : at + width] = chunk.present[:, :width]
        for i, p in np.argwhere(chunk.present):
            assert chunk.data[i, p].tobytes() == good[(at + p) * inputs + i][1][-1280:]
    assert np.array_equal(present.T.ravel() == 1, np.isin(fate, (0, 2)))
    # The same losses without the other faults give the same visibilities.
    with PcapWriter(tmp_path / "lost.pcap") as writer:
        for i in np.flatnonzero(np.isin(fate, (0, 2))):
            writer.write(*good[i])
    (bad,) = correlate(o, [tmp_path / "bad.pcap"], tmp_path / "bad", quiet())
    (lost,) = correlate(o, [tmp_path / "lost.pcap"], tmp_path / "lost", quiet())
    assert same(bad.file, lost.file)
    assert 0 < datasets(bad.file)[1].min() < 1


def test_faults_reach_the_capture(simulated, tmp_path):
    o, _, _ = simulated
    rates = {"loss": 0.05, "duplicate": 0.05, "reorder": 0.05, "corrupt": 0.03}
    faulty = changed(o, simulate={"faults": o.simulate.faults.model_copy(update=rates)})
    record(faulty, str(tmp_path / "faulty.pcap"))
    chunks, a, _ = captured(o, tmp_path / "faulty.pcap")
    assert sum(int(chunk.present.sum()) for chunk in chunks) == a.placed
    sent = 4 * (800_000 // 1024)
    # Of a head that was made to say too many items samples are read as items, and now and then one names another stream.
    assert a.balanced() and a.late == 0 and a.foreign <= 3
    for found, rate in ((a.duplicate, 0.05), (a.malformed, 0.03), (sent - a.placed, 0.08)):
        assert abs(found / sent - rate) < 0.02
    assert sent - a.placed > a.malformed


def test_wild_time_stamps_late_packets_and_a_restart(simulated, tmp_path, monkeypatch):
    monkeypatch.setattr("ryle.config.observation._LEAST_SAMPLES", 1 << 12)  # blocks of 16 packets
    o, _, capture = simulated
    o = changed(o, network={"skew": 0.01})
    good = packets(capture)

    def at(payload, packet):
        """Write packet `packet`'s time stamp (the fifth item) into a payload."""
        return payload[:42] + (packet * 1024).to_bytes(6, "big") + payload[48:]

    with PcapWriter(tmp_path / "wild.pcap") as writer:
        for i, (time, payload, address, port) in enumerate(good[:2000]):
            writer.write(time, payload, address, port)
            if i == 1000:
                writer.write(time, at(payload, 1 << 34), address, port)  # implausible
                writer.write(time, at(payload, 1), address, port)  # long closed
        for time, payload, address, port in good[:400]:  # every sender starts again
            writer.write(time, payload, address, port)
    chunks, a, counts = captured(o, tmp_path / "wild.pcap")
    assert a.balanced() and counts.resyncs == 1
    # Eight packets of a sender in a row are needed to believe that its time went back; a gap between epochs is no loss.
    assert (a.placed + a.late + a.duplicate, a.malformed, a.missing) == (2000 + 400 + 1, 1, 0)
    assert 1 <= a.late + a.duplicate <= 1 + 4 * 8
    block = 16 * 1024
    assert [c.timestamp for c in chunks] == [*range(0, 500 * 1024, block), *range(0, 100 * 1024, block)]


def test_a_capture_of_something_else_is_refused(simulated, tmp_path):
    o, _, capture = simulated
    other = changed(o, digitizer={"heap_samples": 2048})
    wanted = r"malformed.*Wanted are packets of 2560 B .* as meerkat_digitizer describes, with \(digitiser_id\) of 0"
    with pytest.raises(ConfigError, match=wanted):
        correlate(other, [capture], tmp_path, quiet())
    with pytest.raises(ConfigError, match="one capture at a time"):
        correlate(o, [capture, capture], tmp_path, quiet())
    assert not list(tmp_path.glob("*.uvh5"))


def test_interrupt_leaves_what_came_before(simulated, tmp_path, monkeypatch):
    o, direct, capture = simulated
    append = UVH5Writer.append

    def interrupted(self, integration):
        if self.integrations == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return append(self, integration)

    good, held = packets(capture), tmp_path / "held.pcap"  # else all may be read before Ctrl-C is heard
    with PcapWriter(held) as writer:
        for i, (time, *rest) in enumerate(good):
            writer.write(time + (10**12 if i > 0.7 * len(good) else 0), *rest)
    as_recorded = lambda sink, path, **_: PcapSource(sink, path, speed=1.0)  # noqa: E731
    monkeypatch.setattr("ryle.engines.offline_packets.PcapSource", as_recorded)
    monkeypatch.setattr(UVH5Writer, "append", interrupted)
    monkeypatch.setattr("ryle.config.observation._LEAST_SAMPLES", 1 << 12)  # a whole recording would be one block
    before = signal.getsignal(signal.SIGINT)
    console = quiet()
    (result,) = correlate(o, [held], tmp_path, console)
    assert signal.getsignal(signal.SIGINT) is before and "stopping" in console.file.getvalue()
    assert 2 <= result.integrations < 8
    said = re.search(r"stopped after (\d+)%: (\d+) integrations are kept in (.*\.uvh5)\n", console.file.getvalue())
    assert 0 < int(said[1]) < 100 and said.groups()[1:] == (str(result.integrations), str(result.file))
    whole, cut = datasets(direct), datasets(result.file)
    full = slice(0, 3 * (result.integrations - 1))  # three baselines each; the last integration is a part
    assert np.array_equal(whole[0][full], cut[0][full]) and (cut[1][full] == 1).all()


# -- mistakes ----------------------------------------------------------------------------------------------------------


def test_mistakes_say_what_to_do(tmp_path):
    o = two_stations(False)
    rng = fresh.rng()
    waves = rng.standard_normal((2, 2, 200 * 1600))
    a = write(tmp_path / "a.vdif", waves, 2, 33, 563, 1600, (3, 700))
    b = write(tmp_path / "b.vdif", waves, 8, 33, 1130, 800, (0, 1))
    (tmp_path / "none.vdif").touch()

    def refused(observation, recordings, *words):
        with pytest.raises((ConfigError, ValueError)) as error:
            correlate(observation, recordings, tmp_path / "refused", quiet())
        text = str(error.value)
        for word in words:
            assert word in text, text

    def mapped(**change):
        inputs = [i.model_copy(update=change if i.file == 1 else {}) for i in o.vdif.inputs]
        return o.model_copy(update={"vdif": o.vdif.model_copy(update={"inputs": inputs})})

    refused(o, [b], "input = 1", "[[vdif.inputs]] counts 2, file = 0 to 1")
    refused(o, [b, a, a], "input = 3", "counts 2")
    refused(o, [a, b], "b.vdif has threads [0, 1], not [3, 700]; correct", "order of the files")
    refused(o.model_copy(update={"vdif": None}), [b, a], "needs a [vdif] table")
    refused(mapped(thread=5), [b, a], "a.vdif has threads [3, 700], not [5]")
    refused(mapped(channel=2, band=0), [b, a], "a.vdif has channels 0 to 1, not 2")
    refused(o, [b, tmp_path / "none.vdif"], "none.vdif is empty")
    for rate, word in (("1.0001 MHz", "no whole number of frames"), ("0.8 MHz", "must be higher")):
        refused(changed(o, band={"sample_rate": rate}), [b, a], word, "band.sample_rate")
    # Far too high a rate shows once a second was recorded from end to end.
    long = write(tmp_path / "long.vdif", np.zeros((2, 2, 2_200_000)), 8, 33, 1130, 800, (0, 1))
    refused(changed(o, band={"sample_rate": "2 MHz"}), [long, a], "must be lower, about 1000000")
    # Headers that state the rate, of complex samples: half that of real ones.
    stated = tmp_path / "stated.vdif"
    header = Header(epoch=33, bits_minus_1=7, log2_channels=1, extended=(3 << 24 | 1000, 0xACABFEED, 0, 0))
    with Writer(stated, header, RATE, 800, (0, 1)) as writer:
        writer.write(np.zeros((2, 8000, 2)))
    refused(o, [stated, a], "extended data version 3", "state 2000000 samples a second, not 1000000")
    # Times.
    early = changed(o, observation={"sync_time": "2017-01-01T00:01:00Z"})
    refused(early, [b, a], "observation.sync_time", '"2016-12-31T23:59:59Z"', "a.vdif 2016-12-31T23:59:59.900Z")
    before = changed(o, observation={"sync_time": "2016-12-31T23:00:00Z"})
    refused(before, [b, a], "observation.duration", "before the recordings")
    apart = write(tmp_path / "apart.vdif", waves, 2, 32, 563, 1600, (3, 700), later=2)
    refused(o, [b, apart], "no two recordings have any time in common", "apart.vdif 2017-", "clock_offset")
    refused(mapped(clock_offset=3.0), [b, a], "no two recordings have any time in common")
    assert not (tmp_path / "refused").exists()


def test_recording_that_began_before_sync_is_read_from_there(tmp_path):
    o = two_stations(False)
    waves = fresh.rng().standard_normal((2, 2, 300_000))
    a = write(tmp_path / "a.vdif", waves, 2, 33, 563, 1600, (3, 700))
    b = write(tmp_path / "b.vdif", waves, 8, 33, 1130, 800, (0, 1))
    later = changed(o, observation={"sync_time": "2016-12-31T23:59:60.0005Z", "duration": "0.15 s"})
    console = quiet()
    result = correlate(later, [b, a], tmp_path, console)[0]
    said = console.file.getvalue()
    assert "lie before observation.sync_time" in said and 'set it to "2016-12-31T23:59:59Z"' in said
    times, _, weight, _ = read(result.file)
    assert len(times) == 2 and weight["AB"][0].min() > 0.95
    assert result.accounts["b.vdif"]["outside"] > 0
