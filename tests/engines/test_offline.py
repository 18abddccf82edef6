"""Recordings through the product: fringes, times and weights where truth puts them, and every packet accounted for."""

import io
from fractions import Fraction

import h5py
import numpy as np
import pytest
from astropy.time import Time, TimeDelta
from rich.console import Console

from ryle.config import changed, parse
from ryle.engines.offline import correlate
from ryle.simulate import VoltageSimulator
from ryle.wire.vdif import TWO_BIT_THRESHOLD, Header, Writer

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


def write(path, waves, bits, epoch, first_frame, frame_samples, threads, lose=range(0)):
    """Write waves (band, thread, sample) from a frame of the sync second on."""
    header = Header(
        epoch=epoch, seconds=SECOND[epoch], frame=first_frame, bits_minus_1=bits - 1, log2_channels=1,
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


@pytest.mark.parametrize(("complex_samples", "bits", "sideband"), [(False, (2, 8), "lower"), (True, (8, 2), "upper")])
def test_two_stations_fringe_where_they_should(tmp_path, complex_samples, bits, sideband):
    seed = int(np.random.default_rng().integers(1 << 31))
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
        # Times, through the leap second.
        middle = (np.arange(len(times)) * spectra * step + step * (spectra + taps - 1) / 2) / RATE
        truth = (Time("2016-12-31T23:59:59.9", scale="utc").tai + TimeDelta(middle, format="sec")).utc
        assert np.abs(times - truth.jd).max() * 86400 < 1e-4
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
        bounds = np.arange(len(times) + 1) * spectra * step
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
    o = two_stations(False, seed=int(np.random.default_rng().integers(1 << 31)))
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
