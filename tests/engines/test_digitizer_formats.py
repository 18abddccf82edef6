"""Digitizers of any described format through the whole correlator: the same sky, bit for bit the same file."""

import io
import subprocess
import sys

import h5py
import numpy as np
import pytest
from rich.console import Console

from ports import free_ports
from ryle.config import load
from ryle.engines.offline import correlate
from ryle.engines.simulator import record

FILE = """
[observation]
sync_time = "2026-03-20T20:00:00Z"
duration = "0.3 s"
[array]
location = {{ latitude = "-30.7215 deg", longitude = "21.4284 deg", height = "1051 m" }}
polarizations = ["x", "y"]
antennas = [{{ name = "A0", enu = ["0 m", "0 m", "0 m"] }}, {{ name = "A1", enu = ["40 m", "9 m", "0 m"] }}]
[band]
sample_rate = "8 MHz"
lo = "1.4 GHz"
[digitizer]
bits = 8
heap_samples = 8192
{packets}
[fengine]
channels = 64
taps = 4
[xengine]
integration = "0.05 s"
channels_per_substream = 32
[phase_centre]
ra = "07h00m00s"
dec = "-30d00m00s"
[network]
digitizers = "127.0.0.1:{digitizers}"
spectra = "127.0.0.1:{spectra}"
visibilities = "127.0.0.1:{visibilities}"
[simulate]
seed = 7
speed = {speed}
sources = [{{ ra = "07h00m20s", dec = "-29d58m00s", flux = "120 Jy" }}]
"""
ALMA = """packets = "alma_like"
select = { band = 5 }"""
MEERKAT = """packets = "meerkat_digitizer" """


def written(directory, packets, speed='"max"'):
    """Write an observation file."""
    directory.mkdir(parents=True)
    ports = {"digitizers": free_ports(4), "spectra": free_ports(4), "visibilities": free_ports(1)}
    path = directory / "array.toml"
    path.write_text(FILE.format(packets=packets, speed=speed, **ports))
    return path


def contents(directory):
    """What a file of a directory says of the sky."""
    (path,) = directory.glob("*.uvh5")
    with h5py.File(path) as file:
        return [file[name][()] for name in ("Data/visdata", "Data/nsamples", "Data/flags", "Header/time_array")]


def captured(directory, packets):
    """Simulate into a capture, and correlate that."""
    path = written(directory, packets)
    o, capture = load(path), directory / "capture.pcap"
    record(o, str(capture))
    correlate(o, [capture], directory / "out", Console(file=io.StringIO()))
    return contents(directory / "out")


@pytest.fixture(scope="module")
def meerkat(tmp_path_factory):
    """The file of MeerKAT's heaps."""
    found = captured(tmp_path_factory.mktemp("meerkat") / "run", MEERKAT)
    visibilities, nsamples, flags, times = found
    assert len(np.unique(times)) > 4 and nsamples.max() == 1 and not flags.all() and np.abs(visibilities).max() > 0
    return found


def same(found, wanted):
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(a, b)


def test_of_a_capture(tmp_path, meerkat):
    same(captured(tmp_path / "run", ALMA), meerkat)


@pytest.mark.long
@pytest.mark.parametrize("speed", ['"max"', "0.1"])
def test_of_a_run(tmp_path, meerkat, steady, speed):
    """The command line, processes and sockets; as fast as they take the packets, and in a tenth of real time."""
    attempts = iter(range(100))

    def body():
        path = written(tmp_path / str(next(attempts)), ALMA, speed)
        command = [sys.executable, "-m", "ryle", "run", str(path), "-o", str(path.parent / "out")]
        made = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert made.returncode == 0, made.stdout + made.stderr
        same(contents(path.parent / "out"), meerkat)

    steady(body)
