"""VDIF over UDP through F-engines: bit for bit what the same frames make of a recording."""

import io
import subprocess
import sys

import h5py
import numpy as np
import pytest
from baseband import vdif as oracle
from rich.console import Console

from ports import free_ports
from ryle.config import ConfigError, load
from ryle.engines.offline import correlate
from ryle.engines.simulator import record
from ryle.receive.pcap import PcapFile
from ryle.store.pcap_write import PcapWriter

#: Before the leap second at the end of 2016, which is in the middle of the observation: seconds go on in epoch 33.
SYNC = "2016-12-31T23:59:59.9Z"
FILE = """
[observation]
sync_time = "{sync}"
duration = "0.3 s"
[array]
location = {{ latitude = "-30.7215 deg", longitude = "21.4284 deg", height = "1051 m" }}
polarizations = ["x", "y"]
antennas = [{{ name = "A0", enu = ["0 m", "0 m", "0 m"] }}, {{ name = "A1", enu = ["40 m", "9 m", "0 m"] }}]
[band]
sample_rate = "8 MHz"
lo = "1.4 GHz"
[digitizer]
packets = "{packets}"
bits = {bits}
complex = {complex}
heap_samples = 3200
[fengine]
channels = 64
taps = 4
gain = {gain}
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
rms = {rms}
speed = "max"
sources = [{{ ra = "07h00m20s", dec = "-29d58m00s", flux = "120 Jy" }}]
[vdif]
inputs = [
  {{ file = 0, thread = 0, antenna = "A0", polarization = "x" }},
  {{ file = 0, thread = 1, antenna = "A0", polarization = "y" }},
  {{ file = 1, thread = 0, antenna = "A1", polarization = "x" }},
  {{ file = 1, thread = 1, antenna = "A1", polarization = "y" }},
]
"""
SIZES = "heap_samples=3200,sample_rate=8000000,reference=33"
#: Width: rms in steps from one code to the next, and the gain that makes 20 of its levels.
LEVELS = {1: (1, 20), 2: (1, 10), 4: (2.95, 20), 8: (25, 28), 16: (300, 0.067)}


def written(directory, bits=2, complex_samples=False, packets="vdif", sync=SYNC):
    """Write an observation file."""
    directory.mkdir(parents=True)
    ports = {"digitizers": free_ports(4), "spectra": free_ports(4), "visibilities": free_ports(1)}
    rms, gain = LEVELS[bits]
    path = directory / "array.toml"
    values = {"bits": bits, "complex": str(complex_samples).lower(), "packets": packets, "rms": rms, "gain": gain}
    path.write_text(FILE.format(sync=sync, **values, **ports))
    return path


def contents(directory):
    """What a file of a directory says of the sky."""
    (path,) = directory.glob("*.uvh5")
    with h5py.File(path) as file:
        return [file[name][()] for name in ("Data/visdata", "Data/nsamples", "Data/flags", "Header/time_array")]


def same(found, wanted):
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(a, b)


def correlated(path, files, output):
    results = correlate(load(path), files, output, Console(file=io.StringIO()))
    return contents(output), results[0].accounts


def frames_of(capture, prefix=0):
    """The frames of a capture, in order."""
    return [bytearray(d.payload[prefix:]) for d in PcapFile(capture)]


def as_recordings(frames, directory):
    """Write frames as files, one a station."""
    files = [directory / f"{station}.vdif" for station in (0, 1)]
    for station, file in enumerate(files):
        file.write_bytes(b"".join(bytes(f) for f in frames if f[12] | f[13] << 8 == station))
    return files


def check_packets(format, capture, bits):
    """Look at a capture with the command line."""
    format += ",code=offset_binary" if bits == 16 else ""
    command = [sys.executable, "-m", "ryle", "wire", "check", format, "--pcap", str(capture)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize(
    ("bits", "complex_samples", "packets"),
    [
        pytest.param(1, False, "vdif", marks=pytest.mark.long),
        (2, False, "vdif_vtp"),
        pytest.param(4, True, "vdif", marks=pytest.mark.long),
        (8, True, "vdif"),
        (16, False, "vdif"),
    ],
)
def test_packets_and_recordings_of_the_same_frames(tmp_path, bits, complex_samples, packets):
    path = written(tmp_path / "run", bits, complex_samples, packets)
    capture = tmp_path / "all.pcap"
    record(load(path), str(capture))
    frames = frames_of(capture, 8 if packets == "vdif_vtp" else 0)
    with oracle.open(io.BytesIO(b"".join(map(bytes, frames[:4]))), "rb") as file:
        header = file.read_frame().header
    assert (header["ref_epoch"], header.bps, header["complex_data"]) == (33, bits, complex_samples)
    assert header.samples_per_frame == 3200 and header["seconds"] == 184 * 86400 - 1 and header["frame_nr"] == 2250
    found, account = correlated(path, [capture], tmp_path / "network")
    wanted, _ = correlated(path, as_recordings(frames, tmp_path), tmp_path / "recorded")
    told = check_packets(f"{packets}:bits={bits},complex={int(complex_samples)},{SIZES}", capture, bits)
    assert told.returncode == 0 and f"{len(frames)} valid" in told.stdout, told.stdout
    assert account["capture"]["missing"] == account["capture"]["malformed"] == 0 and found[1].max() == 1
    assert np.abs(found[0]).max() > 100 and not found[2].all()
    same(found, wanted)


def test_lost_and_invalid_frames_are_missing(tmp_path, rng):
    """Frames that are marked invalid are malformed packets; what either lacks is missing."""
    path = written(tmp_path / "run")
    capture, worse = tmp_path / "all.pcap", tmp_path / "worse.pcap"
    record(load(path), str(capture))
    fate = rng.choice(4, len(frames_of(capture)), p=[0.94, 0.03, 0.02, 0.01])  # kept, lost, invalid, of another epoch
    fate[:4] = fate[-4:] = 0  # the first and last of each thread
    kept = []
    with worse.open("wb") as file:
        writer = PcapWriter(file)
        for datagram, what in zip(PcapFile(capture), fate, strict=True):
            frame = bytearray(datagram.payload)
            if what == 2:
                frame[3] |= 0x80
            if what == 3:
                frame[7] = 40
            if what != 1:
                writer.write(datagram.time, frame, str(datagram.address), datagram.port)
            if what in (0, 2):
                kept.append(frame)
    found, accounts = correlated(path, [worse], tmp_path / "network")
    wanted, _ = correlated(path, as_recordings(kept, tmp_path), tmp_path / "recorded")
    same(found, wanted)
    account = accounts["capture"]
    assert account["malformed"] == np.count_nonzero(fate >= 2) and account["placed"] == np.count_nonzero(fate == 0)
    assert account["missing"] == np.count_nonzero(fate) and found[1].min() < 0.99


def test_frames_of_another_epoch_alone(tmp_path):
    path = written(tmp_path / "run", packets="vdif:reference=32")
    capture = tmp_path / "all.pcap"
    record(load(path), str(capture))
    found, _ = correlated(path, [capture], tmp_path / "out")
    other = written(tmp_path / "other")
    with pytest.raises(
        ConfigError, match=r"3000 are malformed .* `ryle wire check vdif:.*reference=33,start=-"
    ) as told:
        correlate(load(other), [capture], tmp_path / "none", Console(file=io.StringIO()))
    advised = str(told.value).split("`")[1].replace("FILE", str(capture)).split()
    looked = subprocess.run([sys.executable, "-m", *advised], capture_output=True, text=True, timeout=60)
    assert looked.returncode == 1 and "epoch = 32 (0x20), must be 33" in looked.stdout
    # The same sky at the same time, however it is counted.
    record(load(other), str(tmp_path / "usual.pcap"))
    same(found, correlated(other, [tmp_path / "usual.pcap"], tmp_path / "usual")[0])


@pytest.mark.long
def test_run(tmp_path, steady):
    """The command line, processes and sockets."""
    path = written(tmp_path / "captured")
    record(load(path), str(tmp_path / "all.pcap"))
    wanted, _ = correlated(path, [tmp_path / "all.pcap"], tmp_path / "offline")
    attempts = iter(range(100))

    def body():
        path = written(tmp_path / str(next(attempts)))
        command = [sys.executable, "-m", "ryle", "run", str(path), "-o", str(path.parent / "out")]
        made = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert made.returncode == 0, made.stdout + made.stderr
        same(contents(path.parent / "out"), wanted)

    steady(body)


def test_in_process(tmp_path):
    """Samples that cross no network are coded and decoded too."""
    from ryle.engines.offline import run_in_process

    path = written(tmp_path / "run")
    record(load(path), str(tmp_path / "all.pcap"))
    wanted, _ = correlated(path, [tmp_path / "all.pcap"], tmp_path / "captured")
    run_in_process(load(path), tmp_path / "out", Console(file=io.StringIO()))
    same(contents(tmp_path / "out"), wanted)
