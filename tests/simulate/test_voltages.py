"""Simulated voltages against what they were made from."""

import numpy as np
import pytest
from scipy.stats import chi2, norm
from simulated import ONE, observation

import fresh
from ryle.config import changed
from ryle.simulate import VoltageSimulator
from ryle.wire.samples import unpack

FALSE_ALARM = 1e-9
THREE = (
    """[
  { name = "A", ra = "06h10m00s", dec = "-34d00m00s", flux = "200 Jy", q = "90 Jy", u = "-80 Jy", v = "60 Jy", """
    """spectral_index = -2 },
  { name = "B", ra = "06h50m00s", dec = "-22d00m00s", flux = "150 Jy", q = "-50 Jy", u = "30 Jy", v = "-90 Jy" },
  { name = "C", ra = "06h20m00s", dec = "-43d00m00s", flux = "80 Jy", q = "20 Jy", u = "70 Jy", v = "10 Jy" },
]"""
)
ERRORS = 'gain_error = 0.2\nphase_error = "40 deg"\ndelay_error = "20 ns"\nbandpass_ripple = 0.1'
NO_NOISE = 'sefd = "1e-9 Jy"\nrms = 0.001'


def channels(sim, length):
    """Sky frequencies and indices of FFT bins inside the flat part of the band; True if conjugated."""
    o = sim.observation
    fs = float(o.sample_rate)
    nu = np.fft.fftfreq(length, 1 / fs) if o.digitizer.complex else np.fft.rfftfreq(length, 1 / fs)
    zero = float(o.sky_frequencies[32 if o.digitizer.complex else 0])
    edge = fs / 2 if o.digitizer.complex else fs / 4
    centre = 0 if o.digitizer.complex else fs / 4
    good = np.abs(nu - centre) < 0.975 * edge
    return zero + o.sideband_sign * nu[good], good


def spectra(sim, first, length, count):
    """Windowless spectra in sky sense, shape (input, count, channel), and their frequencies."""
    waves = sim.voltages(first, length * count).reshape(len(sim.inputs), count, length)
    made = np.fft.fft(waves) if np.iscomplexobj(waves) else np.fft.rfft(waves)
    f, good = channels(sim, length)
    made = made[..., good] / np.sqrt(length)
    return (made if sim.observation.sideband_sign > 0 else made.conj()), f


BANDS = {
    "first zone": dict(),
    "second zone": dict(band='lo = "1.4 GHz"\nnyquist_zone = 2'),
    "lower sideband": dict(band='lo = "1.4 GHz"\nsideband = "lower"'),
    "third zone": dict(band='lo = "1.4 GHz"\nnyquist_zone = 3'),
    "complex": dict(complex_samples=True),
    "complex, lower sideband": dict(complex_samples=True, band='lo = "1.4 GHz"\nsideband = "lower"'),
    "circular": dict(pols='["r", "l"]'),
}


@pytest.mark.parametrize("case", BANDS)
def test_visibilities_are_the_expected_ones_within_radiometer_noise(case):
    """All products, three polarized sources, all errors, fresh seeds; the threshold alarms falsely once in 1e9."""
    o = observation(sources=THREE, simulate=ERRORS, spacing=5, **BANDS[case])
    sim = VoltageSimulator(o)
    length, count = 1024, 600
    first = int(fresh.rng().integers(0, 10**12))
    x, f = spectra(sim, first, length, count)
    ideal = sim.expected_visibilities(sim.sky.sync.time(np.array([first + length * count // 2])), f)[0]
    response = sim.receivers.response(f)
    unit = o.simulate.rms**2 / (o.simulate.sefd / 2) * (2 if o.digitizer.complex else 1)
    power = o.simulate.rms**2 * (2 if o.digitizer.complex else 1)
    auto = {}
    zs = []
    wanted = {}
    for a2 in range(3):
        for a1 in range(a2 + 1):
            for p1 in range(2):
                for p2 in range(2):
                    i, j = 2 * a1 + p1, 2 * a2 + p2
                    v = ideal[:, 4 * (a2 * (a2 + 1) // 2 + a1) + p1 + 2 * p2] * unit + (power if i == j else 0)
                    wanted[i, j] = v * response[i] * response[j].conj()
                    if i == j:
                        auto[i] = wanted[i, j].real
    for (i, j), v in wanted.items():
        got = np.mean(x[i] * x[j].conj(), axis=0)
        if i == j:
            zs.append(np.sqrt(count) * (got.real - v.real) / v.real)
            continue
        turn = np.exp(-1j * np.angle(v))  # noise is different along the visibility and across it
        error, size = (got - v) * turn, np.abs(v)
        pp = auto[i] * auto[j]
        zs += [error.real / np.sqrt((pp + size**2) / 2 / count), error.imag / np.sqrt((pp - size**2) / 2 / count)]
    z = np.array(zs)
    means = z.mean(axis=1) * np.sqrt(z.shape[1])
    squares = np.sum(z**2, axis=1)
    seed = f"seed {o.simulate.seed}, first {first}"
    assert np.abs(means).max() < norm.isf(FALSE_ALARM / 2 / len(z)), seed
    # Sums of squares of averages of 600 products of Gaussians are slightly wider than chi-square.
    n = z.shape[1]
    assert squares.max() < n + 1.1 * (chi2.isf(FALSE_ALARM / len(z), n) - n), seed
    assert squares.min() > n - 1.1 * (n - chi2.isf(1 - FALSE_ALARM / len(z), n)), seed


@pytest.mark.parametrize("band", ["first zone", "second zone", "complex"])
def test_fractional_delay_is_exact(band):
    """Without noise, two inputs differ by a delay: the phase slope over the band, and the phase itself."""
    rng = fresh.rng()
    cables = [[f"{rng.uniform(0, 900):.3f} ns"] for _ in range(4)]
    o = observation(
        antennas=4,
        spacing=100,
        pols='["x"]',
        sources=ONE,
        simulate=NO_NOISE + '\ndelay_error = "5 ns"',
        cables=cables,
        bits=32,
        **BANDS[band],
    )
    sim = VoltageSimulator(o)
    length = 1 << 14
    waves = sim.voltages(0, length)
    window = np.hanning(length)
    transform = np.fft.fft if o.digitizer.complex else np.fft.rfft
    x = transform(waves * window)
    f, good = channels(sim, length)
    tau = sim.true_delays([length // 2])[0, 0]
    for i in (1, 2, 3):
        cross = (x[i] * x[0].conj())[good]
        if o.sideband_sign < 0:
            cross = cross.conj()
        d = tau[i] - tau[0]
        left = cross * np.exp(-2j * np.pi * f * d)
        # Different delays of one window leave noise of relative size delay/length.
        assert abs(np.angle(left.sum())) < 0.01
        x0 = (f - f.mean()) / 1e6
        slope = np.sum(np.angle(left) * np.abs(left) * x0) / np.sum(np.abs(left) * x0**2)
        assert abs(slope / (2 * np.pi * 1e6)) < 0.5e-9, f"delay off by {slope / (2 * np.pi * 1e6)} s"


def test_fringes_turn_at_the_true_rate_and_sense():
    o = observation(antennas=2, spacing=800, pols='["x"]', sources=ONE, simulate=NO_NOISE)
    sim = VoltageSimulator(o)
    assert sim.segments.phase_error < 0.01
    counts = np.arange(0, 80_000_000, 2_000_000)
    phases = []
    for first in counts:
        x, f = spectra(sim, int(first), 2048, 1)
        tau = sim.true_delays([first + 1024])[0, 0]
        # Take out what frequency does, keep what time does: refer to the band's centre.
        cross = x[1] * x[0].conj() * np.exp(-2j * np.pi * (f - f.mean()) * (tau[1] - tau[0]))
        phases.append(np.angle(cross.sum(-1))[0])
    tau = sim.true_delays(counts + 1024)[:, 0]
    wanted = 2 * np.pi * f.mean() * (tau[:, 1] - tau[:, 0])
    assert np.ptp(wanted) > 1  # it does turn
    error = np.angle(np.exp(1j * (np.array(phases) - wanted)))
    assert np.abs(error).max() < 0.03
    assert abs(np.polyfit(counts / 8e6, np.unwrap(phases), 1)[0] / np.polyfit(counts / 8e6, wanted, 1)[0] - 1) < 0.01


def test_spectral_index():
    source = ONE.replace('"100 Jy"', '"100 Jy", spectral_index = -3, reference_frequency = "12 MHz"')
    noise = 'sefd = "1e-6 Jy"\nrms = 0.001'
    o = observation(antennas=1, pols='["x"]', band='lo = "10 MHz"', sources=source, simulate=noise)
    sim = VoltageSimulator(o)
    count = 4000
    x, f = spectra(sim, 0, 256, count)
    logs = np.log(np.mean(np.abs(x[0]) ** 2, axis=0) / 0.001**2 / 1e8) + 0.5 / count  # mean of the log of an average
    # A power law through the reference frequency: slope and offset, each with its error.
    (slope, offset), covariance = np.polyfit(np.log(f / 12e6), logs, 1, cov="unscaled")
    limit = norm.isf(FALSE_ALARM / 4)
    assert abs(slope + 3) < limit * np.sqrt(covariance[0, 0] / count), o.simulate.seed
    assert abs(offset) < limit * np.sqrt(covariance[1, 1] / count), o.simulate.seed


def test_a_source_below_the_horizon_is_silent():
    o = observation(antennas=1, sources='[{ ra = "19h00m00s", dec = "40d00m00s", flux = "100 Jy" }]', simulate=NO_NOISE)
    assert np.abs(VoltageSimulator(o).voltages(0, 1024)).max() < 0.01


@pytest.mark.parametrize("complex_samples", [False, True])
def test_same_seed_same_bits(complex_samples):
    """However time is cut and whichever antennas are made."""
    o = observation(
        antennas=4,
        sources=THREE,
        simulate=ERRORS + '\nrfi = [{ frequency = "1.401 GHz", level = 0.5 }]',
        complex_samples=complex_samples,
    )
    rng = fresh.rng()
    total = 400 * 512
    whole = VoltageSimulator(o).chunk(0, total)
    cuts = np.unique(np.r_[0, rng.integers(0, 400, 7), 400])
    sim = VoltageSimulator(o)
    for k in rng.permutation(len(cuts) - 1):
        part = sim.chunk(int(cuts[k]) * 512, int(cuts[k + 1] - cuts[k]) * 512)
        np.testing.assert_array_equal(part.data, whole.data[:, cuts[k] : cuts[k + 1]])
        np.testing.assert_array_equal(part.saturated, whole.saturated[:, cuts[k] : cuts[k + 1]])
    some = VoltageSimulator(o, which=[3, 1]).chunk(0, 64 * 512)
    np.testing.assert_array_equal(some.data, whole.data[[6, 7, 2, 3], :64])
    other = VoltageSimulator(changed(o, simulate={"seed": o.simulate.seed + 1})).chunk(0, 512)
    assert (other.data != whole.data[:, :1]).mean() > 0.5


def test_batches_join_without_a_seam():
    """Overlap-save against one long transform: the same stream, filtered in one piece."""
    o = observation(antennas=1, pols='["x"]', simulate=ERRORS + "\nrms = 1", cables=[["100.3 us"]])
    sim = VoltageSimulator(o)
    start, samples = sim.segments.span - 5000, 10_000
    margin = 4096
    noise = sim._receiver_noise[0].window(start - margin, samples + 2 * margin).copy()
    f = np.fft.rfftfreq(len(noise), 1 / 8e6)
    response = sim.receivers.response(1.4e9 + f)[0]
    wanted = np.fft.irfft(np.fft.rfft(noise) * response, len(noise))[margin:-margin]
    np.testing.assert_allclose(sim.voltages(start, samples)[0], wanted, atol=5e-4)


@pytest.mark.parametrize(
    ("bits", "complex_samples"), [(1, False), (2, False), (8, False), (8, True), (12, True), (32, False)]
)
def test_quantization_saturation_and_statistics(bits, complex_samples):
    greatest = (1 << (bits - 1)) - 1
    rms = 0.6 * max(greatest, 1) if bits < 32 else 30
    o = observation(antennas=2, bits=bits, complex_samples=complex_samples, simulate=f"rms = {rms}", sources=ONE)
    sim = VoltageSimulator(o)
    chunk = sim.chunk(512, 20 * 512)
    waves = VoltageSimulator(o).voltages(512, 20 * 512).reshape(4, 20, 512)
    values = unpack(chunk.data, bits, complex_samples=complex_samples)
    parts = waves.view(np.float32)
    if bits == 32:
        np.testing.assert_array_equal(values, waves)
        wanted = np.zeros((4, 20))
    elif bits == 1:
        np.testing.assert_array_equal(values, np.where(waves >= 0, 1, -1))
        wanted = np.zeros((4, 20))
    else:
        np.testing.assert_array_equal(values.view(np.float32), np.clip(np.rint(parts), -greatest, greatest))
        over = np.abs(np.rint(parts)) > greatest
        wanted = (over.reshape(*waves.shape, -1).any(-1)).sum(-1)
        assert wanted.sum() > 0
    np.testing.assert_array_equal(chunk.saturated, wanted)
    d = sim.digitizer
    np.testing.assert_array_equal(d.saturated, wanted.sum(-1))
    assert d.samples == 20 * 512
    np.testing.assert_allclose(
        d.rms, np.sqrt(np.mean(values.view(np.float32).astype(float) ** 2, axis=(1, 2))), rtol=1e-5
    )
    assert (d.histogram.sum(1) == parts[0].size).all()
    if bits < 10:
        for code, count in zip(d.codes, d.histogram[1], strict=True):
            assert count == np.count_nonzero(values[1].view(np.float32) == code)


def test_receiver_noise_has_the_rms_asked_for():
    sim = VoltageSimulator(observation(antennas=1, simulate="rms = 25"))
    waves = sim.voltages(0, 1 << 18)
    # The filter's edges take 2 % of the band: 0.9 % of the power is lost to them.
    assert np.std(waves, axis=1) == pytest.approx(25 * np.sqrt(0.99), rel=0.01)


@pytest.mark.parametrize("case", ["first zone", "second zone", "complex, lower sideband"])
def test_tones_have_their_level_frequency_and_reach(case):
    frequency = {"first zone": "1.4013", "second zone": "1.4053", "complex, lower sideband": "1.3981"}[case]
    o = observation(
        antennas=2,
        pols='["x"]',
        simulate=f'rfi = [{{ frequency = "{frequency} GHz", level = 2, antennas = ["A1"] }}]',
        **BANDS[case],
    )
    sim = VoltageSimulator(o)
    length = 16000  # a whole number of cycles
    first = 800_000_000_000  # a day on
    x, f = spectra(sim, first, length, 1)
    k = int(np.argmin(np.abs(f - float(frequency) * 1e9)))
    powers = np.abs(x[:, 0, k]) ** 2 / length
    parts = 2 if o.digitizer.complex else 1
    tone = powers[1] / parts * (1 if o.digitizer.complex else 2) / o.simulate.rms**2
    assert tone == pytest.approx(4, rel=0.1)
    assert powers[0] < powers[1] / 100


def test_a_replayed_window_loops_with_advancing_time():
    o = observation(antennas=1, simulate='replay = "3 ms"', duration="20 ms", sources=ONE)
    sim = VoltageSimulator(o)
    window = sim.replay_samples
    assert window == 47 * 512  # 24000 samples, rounded up to packets
    chunks = list(sim.chunks(10 * 512))
    assert chunks[-1].end == 160_000 // 512 * 512
    time = 0
    data = []
    for chunk in chunks:
        assert chunk.timestamp == time
        time = chunk.end
        data.append(chunk.data)
    data = np.concatenate(data, axis=1)
    np.testing.assert_array_equal(data[:, 47 : 2 * 47], data[:, :47])
    plain = VoltageSimulator(changed(o, simulate={"replay": None}))
    np.testing.assert_array_equal(plain.chunk(0, window).data, data[:, :47])


def test_conjugated_inputs():
    inputs = "".join(
        f'[[inputs]]\nstream = {i}\nantenna = "A{i // 2}"\npolarization = "{"xy"[i % 2]}"\n'
        f"conjugate = {str(i == 1).lower()}\n"
        for i in range(4)
    )
    settings = dict(antennas=2, complex_samples=True, sources=ONE, simulate="seed = 5")
    plain = VoltageSimulator(observation(**settings)).voltages(0, 600)
    turned = VoltageSimulator(observation(**settings, inputs=inputs)).voltages(0, 600)
    np.testing.assert_array_equal(turned[1], plain[1].conj())
    np.testing.assert_array_equal(turned[[0, 2, 3]], plain[[0, 2, 3]])


def test_clear_errors():
    o = observation()
    sim = VoltageSimulator(o)
    with pytest.raises(ValueError, match=r"multiples of .*512"):
        sim.chunk(3, 512)
    with pytest.raises(ValueError, match=r"no \[simulate\] table"):
        VoltageSimulator(o.model_copy(update={"simulate": None}))
    with pytest.raises(ValueError, match="too large"):
        VoltageSimulator(observation(antennas=2, spacing=4_000_000))
