"""A folder of files that commands are given by mistake: each kind, whole, cut, damaged, empty, or another's."""

from __future__ import annotations

import random
import shutil
import struct
from pathlib import Path

import h5py
import numpy as np

from ryle.array.geometry import Location
from ryle.chunk import Integration
from ryle.config import example_files
from ryle.products.metadata import ObservationMetadata, PhaseCentre
from ryle.products.uvh5 import UVH5Writer
from ryle.store.pcap_write import PcapWriter
from ryle.wire.vdif import Header
from ryle.wire.vdif_write import Writer

SMALL = Path(__file__).parent / "small.toml"


def visibilities(path: Path, integrations: int = 2) -> Path:
    """Write a UVH5 file of three antennas on a line across, random numbers for sky."""
    rng = np.random.default_rng(1)
    place = Location(-30.7, 21.4, 1050.0)
    from astropy.coordinates import EarthLocation

    meta = ObservationMetadata(
        telescope="Bad",
        location=EarthLocation.from_geodetic(21.4, -30.7, 1050.0),
        antenna_names=("A0", "A1", "A2"),
        antenna_positions=place.enu_to_offsets(np.array([[0, 0, 0], [120, 40, 0], [-60, 150, 1.0]])),
        polarizations=("x", "y"),
        frequencies=1.4e9 + np.arange(8) * 2e6,
        channel_width=2e6,
        sideband=1,
        sync_time="1767225600.25",
        sample_rate=64_000_000,
        spectrum_samples=16,
        taps=4,
        phase_centre=PhaseCentre("field", 2.06, -0.44),
        mount="equatorial",
        observation='{"name": "bad"}',
    )
    spectra = 4_000_000
    with UVH5Writer(path, meta) as writer:
        for i in range(integrations):
            sums = rng.integers(-(10**6), 10**6, (8, meta.products, 2))
            counts = np.full((1, meta.products), spectra, np.uint32)
            writer.append(Integration(i * spectra, spectra, 0, sums, counts))
    return path


def _damaged(path: Path, source: Path, change) -> None:
    """Copy a UVH5 file and change what HDF5 finds in it."""
    shutil.copy(source, path)
    with h5py.File(path, "r+") as file:
        change(file)


def _replaced(name: str, value):
    def change(file: h5py.File) -> None:
        del file[name]
        if value is not None:
            file[name] = value

    return change


def pcapng(offset: int = 0) -> bytes:
    """Write a section, an interface with a time offset in s, and one UDP packet to port 7148."""

    def block(kind: int, body: bytes) -> bytes:
        size = 12 + len(body)
        return struct.pack("<II", kind, size) + body + struct.pack("<I", size)

    packet = bytes(12) + b"\x08\0" + b"\x45\0" + struct.pack("!H", 36) + bytes(4) + b"\x40\x11" + bytes(10)
    packet += struct.pack("!HHHH", 1, 7148, 16, 0) + bytes(8)
    packet += bytes(-len(packet) % 4)
    return b"".join(
        (
            block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)),
            block(1, struct.pack("<HHI", 1, 0, 0) + struct.pack("<HHq", 14, 8, offset) + bytes(4)),
            block(6, struct.pack("<IIIII", 0, 1 << 20, 1, len(packet), len(packet)) + packet),
        )
    )


def make(folder: Path) -> Path:
    """Fill a folder; its names say what is wrong with them."""
    rng = random.Random(7)
    (folder / "directory").mkdir()
    (folder / "empty").write_bytes(b"")
    (folder / "text.txt").write_text("Call me Ishmael.\n" * 300)
    (folder / "random.bin").write_bytes(rng.randbytes(50_000))
    (folder / "loop").symlink_to("loop")
    (folder / "dangling").symlink_to("nowhere/at/all")
    good = SMALL.read_text()
    small = good.replace("channels = 256", "channels = 64").replace("channels_per_substream = 128", "")
    (folder / "small.toml").write_text(small)
    (folder / "bom.toml").write_bytes(b"\xef\xbb\xbf" + small.encode())
    (folder / "utf16.toml").write_text(small, encoding="utf-16")
    (folder / "latin.toml").write_bytes(small.replace("demo", "d\xe9mo").encode("latin-1"))
    (folder / "cut.toml").write_text(small[: len(small) // 2])
    (folder / "no-simulate.toml").write_text(small[: small.index("[simulate]")])
    for name, old, new in (
        ("nan", 'sample_rate = "8 MHz"', "sample_rate = nan"),
        ("inf", 'sample_rate = "8 MHz"', "sample_rate = inf"),
        ("negative", 'sample_rate = "8 MHz"', 'sample_rate = "-8 MHz"'),
        ("unit", 'sample_rate = "8 MHz"', 'sample_rate = "8 Mhz"'),
        ("key", "taps = 8", "tops = 8"),
        ("type", "taps = 8", 'taps = "8"'),
        ("zero", "taps = 8", "taps = 0"),
        ("huge", "taps = 8", "taps = 99999999999999999999999"),
        ("table", "[band]", "[bond]"),
        ("twice", "taps = 8", "taps = 8\ntaps = 9"),
        ("date", "2026-03-20T20:00:00Z", "2026-02-30T20:00:00Z"),
    ):
        (folder / f"{name}.toml").write_text(small.replace(old, new))
    antennas = "antennas = [" + small.partition("antennas = [")[2].partition("\n]")[0] + "\n]"
    for name in ("nowhere.txt", "random.bin", "empty", "directory", "text.txt"):
        text = small.replace(antennas, f'antenna_file = "{name}"')
        (folder / f"antennas-{Path(name).stem}.toml").write_text(text)
    for path in example_files("vdif2"):
        shutil.copy(path, folder / path.name)
    whole = visibilities(folder / "good.uvh5")
    raw = whole.read_bytes()
    (folder / "cut.uvh5").write_bytes(raw[: len(raw) // 2])
    (folder / "head.uvh5").write_bytes(raw[:600])
    (folder / "zeros.uvh5").write_bytes(raw[:8] + bytes(len(raw) - 8))
    visibilities(folder / "nothing.uvh5", 0)
    with h5py.File(folder / "other.h5", "w") as file:
        file["x"] = np.arange(10)
    for name, change in (
        ("no-header", _replaced("Header", None)),
        ("no-data", _replaced("Data/visdata", None)),
        ("short-data", _replaced("Data/visdata", np.zeros((2, 3, 4), np.complex64))),
        ("flat-data", _replaced("Data/visdata", np.zeros(5, np.float32))),
        ("short-times", _replaced("Header/time_array", np.zeros(3))),
        ("nan-times", _replaced("Header/time_array", np.full(12, np.nan))),
        ("text-times", _replaced("Header/time_array", "tomorrow")),
        ("far-times", _replaced("Header/time_array", np.full(12, 1e300))),
        ("no-frequencies", _replaced("Header/freq_array", np.zeros(0))),
        ("nan-uvw", _replaced("Header/uvw_array", np.full((12, 3), np.nan))),
        ("unknown-polarization", _replaced("Header/polarization_array", np.array([77, 78, 79, 80]))),
        ("number-times", _replaced("Header/Ntimes", "three")),
        ("negative-times", _replaced("Header/Ntimes", -5)),
        ("unknown-antennas", _replaced("Header/ant_1_array", np.full(12, 99))),
        ("no-catalog", _replaced("Header/phase_center_catalog", None)),
        ("group-for-array", lambda f: (f.__delitem__("Header/freq_array"), f.create_group("Header/freq_array"))),
    ):
        _damaged(folder / f"{name}.uvh5", whole, change)
    for name, journal in (
        ("journal-count", _journal(struct.pack("<Q", 1 << 60))),
        ("journal-length", _journal(struct.pack("<QQI", 1, 0, 1 << 31))),
        ("journal-offset", _journal(struct.pack("<QQI", 1, 1 << 62, 4) + b"abcd")),
        ("journal-foreign", b"somebody's notes, not a journal of Ryle's\n" * 20),
    ):
        shutil.copy(whole, folder / f"{name}.uvh5")
        (folder / f"{name}.uvh5.journal").write_bytes(journal)
    with PcapWriter(folder / "good.pcap") as writer:
        for i in range(8):
            writer.write(1_800_000_000 * 10**9 + i, bytes(8) + i.to_bytes(8, "big") * 1023, "127.0.0.1", 7148)
    raw = (folder / "good.pcap").read_bytes()
    (folder / "cut.pcap").write_bytes(raw[:20_000])
    (folder / "head.pcap").write_bytes(raw[:24])
    (folder / "short.pcap").write_bytes(raw[:20])
    (folder / "offset.pcapng").write_bytes(pcapng(1 << 40))
    (folder / "farthest.pcapng").write_bytes(pcapng((1 << 63) - 1))
    (folder / "earliest.pcapng").write_bytes(pcapng(-(1 << 63)))
    header = Header(epoch=52)
    with Writer(folder / "good.vdif", header, 8_000_000, 8000) as out:
        for _ in range(8):
            out.write_codes(np.zeros((1, 8000, 1, 1), np.uint32))
    raw = (folder / "good.vdif").read_bytes()
    (folder / "cut.vdif").write_bytes(raw[:3000])
    return folder


def _journal(body: bytes) -> bytes:
    import zlib

    whole = b"RYLEJNL1" + body
    return whole + struct.pack("<I", zlib.crc32(whole))
