"""A simulated array through the whole correlator into a UVH5 file, and what noise such a file must have.

Nothing here, nor in the tests of this folder, takes geometry, signs or noise from the product: the file is read by
pyuvdata, directions come from astropy, visibilities from fftvis, noise from the radiometer equation.
"""

import io
import warnings
from dataclasses import dataclass

import numpy as np
from astropy import units
from astropy.coordinates import AltAz, EarthLocation, SkyCoord
from astropy.time import Time
from pyuvdata import UVData
from rich.console import Console

import fresh
from ryle.config import Observation, parse
from ryle.engines.offline import run_in_process

LIGHT = 299792458.0
PLACE = EarthLocation.from_geodetic(21.4284 * units.deg, -30.7215 * units.deg, 1051 * units.m)
TAPS = 16
CHANNELS = 64
RMS, GAIN = 16, 1.5
#: Channels at either edge that the simulator's anti-alias filter (0.9 % of the band) reaches through the PFB's skirts.
EDGE = 2

BANDS = {
    "first zone": ('lo = "40 MHz"', False),
    "second zone": ('lo = "36 MHz"\nnyquist_zone = 2', False),
    "lower sideband": ('lo = "48 MHz"\nsideband = "lower"', False),
    "complex": ('lo = "44 MHz"', True),
    "complex, lower sideband": ('lo = "44 MHz"\nsideband = "lower"', True),
}


def observation(
    enu: np.ndarray,
    sources: str,
    *,
    band: str = 'lo = "1.4 GHz"',
    complex_samples: bool = False,
    phase_centre: tuple[str, str] | None = None,
    pols: str = '["x", "y"]',
    mount: str = "alt-az",
    sefd: float = 400,
    duration: float = 0.4,
    integration: float = 0.1,
    cables: np.ndarray | None = None,
    errors: str = "",
    seed: int | None = None,
    angles: np.ndarray | None = None,
) -> Observation:
    """8 Msample/s (complex: 4) of an array near the zenith's RA 6.3 h, dec −30.7°; a fresh seed unless one is given."""
    rows = []
    for i, (e, n, u) in enumerate(enu):
        cable = (
            "" if cables is None else ", cable_delay = [" + ", ".join(f'"{c * 1e9:.4f} ns"' for c in cables[i]) + "]"
        )
        feeds = "" if angles is None else f", feed_angles = {[f'{a} deg' for a in angles[i]]}".replace("'", '"')
        rows.append(f'{{ name = "A{i}", enu = ["{e:.4f} m", "{n:.4f} m", "{u:.4f} m"]{cable}{feeds} }}')
    centre = "" if phase_centre is None else '[phase_centre]\nra = "{}"\ndec = "{}"'.format(*phase_centre)
    seed = fresh.seed() if seed is None else seed
    print(f"seed {seed}")  # pytest shows it when the test fails
    return parse(f"""
[observation]
name = "sky"
sync_time = "2026-03-20T17:00:00Z"
duration = "{duration} s"
[array]
location = {{ latitude = "-30.7215 deg", longitude = "21.4284 deg", height = "1051 m" }}
polarizations = {pols}
mount = "{mount}"
antennas = [{", ".join(rows)}]
[band]
sample_rate = "{4 if complex_samples else 8} MHz"
{band}
[digitizer]
bits = 8
complex = {str(complex_samples).lower()}
heap_samples = 4096
[fengine]
channels = {CHANNELS}
taps = {TAPS}
gain = {GAIN}
max_delay = "4 us"
[xengine]
integration = "{integration} s"
{centre}
[simulate]
seed = {seed}
rms = {RMS}
sefd = "{sefd} Jy"
{errors}
sources = {sources}
""")


def correlated(o: Observation, directory) -> UVData:
    """Simulate, channelize, correlate, write, read."""
    result = run_in_process(o, directory, Console(file=io.StringIO()))
    return read(result.file)


def read(path) -> UVData:
    """Read a file with pyuvdata, whose strict check compares uvw with antenna positions and phase centre.

    It turns a file round that has both uvw and visibilities the wrong way, and says so: an error here.
    """
    data = UVData()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.filterwarnings("error", message="(?is).*uvw")
        data.read(str(path), strict_uvw_antpos_check=True)
    return data


@dataclass
class Cube:
    """A file's good channels and integrations in order: correlation matrices of all inputs.

    ``values[t, c, i, j]`` is <conj(X_i) X_j>, input = antenna · feeds + feed; `n` as `values` is how many independent
    samples it averages.
    """

    times: Time
    frequencies: np.ndarray
    values: np.ndarray
    n: np.ndarray

    @property
    def normalized(self) -> np.ndarray:
        """Correlation coefficients: V_ij / sqrt(V_ii V_jj)."""
        power = np.sqrt(np.einsum("tcii->tci", self.values).real)
        return self.values / (power[..., :, None] * power[..., None, :])

    def feed(self, p: int, feeds: int) -> "Cube":
        """One feed's part."""
        return Cube(self.times, self.frequencies, self.values[..., p::feeds, p::feeds], self.n[..., p::feeds, p::feeds])


def cube(data: UVData, o: Observation, least: float = 0.2, every: int = 1) -> Cube:
    """Matrices of channels (one in `every`) off the band's edges, and of the integrations of which `least` is valid."""
    feeds, antennas = o.pols, len(o.antennas)
    jd = np.unique(data.time_array)
    size = antennas * feeds
    values = np.full((len(jd), data.Nfreqs, size, size), np.nan, np.complex128)
    share = np.zeros(values.shape)
    names = [a.name for a in o.antennas]
    where = {
        int(number): names.index(name)
        for number, name in zip(data.telescope.antenna_numbers, data.telescope.antenna_names, strict=True)
    }
    letters = {-1: "rr", -2: "ll", -3: "rl", -4: "lr", -5: "xx", -6: "yy", -7: "xy", -8: "yx"}  # AIPS memo 117
    order = o.array.polarizations
    for row in range(data.Nblts):
        t = np.searchsorted(jd, data.time_array[row])
        a, b = where[int(data.ant_1_array[row])], where[int(data.ant_2_array[row])]
        for k, number in enumerate(data.polarization_array):
            i = a * feeds + order.index(letters[int(number)][0])
            j = b * feeds + order.index(letters[int(number)][1])
            values[t, :, i, j], values[t, :, j, i] = data.data_array[row, :, k], data.data_array[row, :, k].conj()
            share[t, :, i, j] = share[t, :, j, i] = data.nsample_array[row, :, k]
    assert np.isfinite(values).all()
    whole = share.min(axis=(1, 2, 3)) > least
    good = slice(EDGE, data.Nfreqs - EDGE, every)
    samples = data.integration_time[0] * data.channel_width[0] * share
    return Cube(
        Time(jd[whole], format="jd"),
        data.freq_array[good],
        values[whole][:, good],
        samples[whole][:, good] / excess_variance(o),
    )


def weights(step: int) -> np.ndarray:
    """Prototype filter as the design states it."""
    length = step * TAPS
    i = np.arange(length)
    w = np.hanning(length) * np.sinc((i + 0.5 - length / 2) / step)
    return w / np.sqrt(np.sum(w**2))


def excess_variance(o: Observation) -> float:
    """Variance of an average of spectra over that of as many independent ones.

    Consecutive spectra of one channel share samples: 1 + 2 Σ|r_k|², r the correlation of spectra k apart. (Put another
    way: a channel's effective noise bandwidth is a little less than the spacing of channels.)
    """
    step = CHANNELS * (1 if o.digitizer.complex else 2)
    w = weights(step)
    return 1 + 2 * sum(float(w[k * step :] @ w[: -k * step]) ** 2 for k in range(1, TAPS))


def quantization_noise(o: Observation) -> float:
    """Noise of the ADC (1/12 step²) and of the F-engine's dithered rounding (2/12 a part) over receiver noise."""
    parts = 2 if o.digitizer.complex else 1
    power = parts * RMS**2
    return parts / 12 / power + 2 / 6 / (power * GAIN**2)


def arrival(ra: float, dec: float, times: Time) -> np.ndarray:
    """East, north, up of ICRS positions in radians by astropy's AltAz without refraction, shape (time, 3)."""
    seen = SkyCoord(ra * units.rad, dec * units.rad).transform_to(AltAz(obstime=times, location=PLACE))
    az, alt = seen.az.rad, seen.alt.rad
    return np.stack([np.sin(az) * np.cos(alt), np.cos(az) * np.cos(alt), np.sin(alt)], axis=-1)


def unprojected(data: UVData) -> UVData:
    """Take out the phase tracking, by pyuvdata."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data = data.copy()
        if data.phase_center_catalog[int(data.phase_center_id_array[0])]["cat_type"] != "unprojected":
            data.unproject_phase()
    return data


def residuals(got: np.ndarray, rho: np.ndarray, n: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Errors of correlation coefficients along and across their expected direction, in standard deviations.

    For complex Gaussian voltages these are (1 − |ρ|²)/√2n and √(1 − |ρ|²)/√2n: the radiometer equation with the
    source's own noise.
    """
    error = (got - rho) * np.exp(-1j * np.angle(rho))
    rest = 1 - np.abs(rho) ** 2
    return error.real * np.sqrt(2 * n) / rest, error.imag * np.sqrt(2 * n / rest)
