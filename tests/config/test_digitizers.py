"""Digitizers' packets that an observation file names: their sizes, clock and streams, and what cannot be."""

from fractions import Fraction

import pytest

from ryle.config import ConfigError, parse
from ryle.config.utc import iso, parse_utc, vdif_epoch, vdif_tai
from ryle.wire.description import FORMATS

FILE = """
[observation]
sync_time = "SYNC"
[array]
location = { latitude = "0 deg", longitude = "0 deg", height = "0 m" }
polarizations = ["x", "y"]
antennas = [{ name = "A1", enu = ["0 m", "0 m", "0 m"] }, { name = "A2", enu = ["9 m", "0 m", "0 m"] }]
[band]
sample_rate = "64 MHz"
[digitizer]
DIGITIZER
[fengine]
channels = 256
[xengine]
integration = "1 s"
"""
SYNC = "2026-03-20T20:00:00.25Z"
VDIF = 'packets = "vdif"\nbits = 2\nheap_samples = 16000'


def observe(digitizer=VDIF, sync=SYNC, inputs="", rate="64 MHz"):
    return parse(FILE.replace("SYNC", sync).replace("DIGITIZER", digitizer).replace("64 MHz", rate) + inputs, "test")


def test_sizes_and_clock():
    o = observe()
    f = o.digitizer_format
    assert f.timestamp.count == {
        "seconds": 64_000_000, "frame": 16000, "add": -(78 * 86400 + 20 * 3600) * 64_000_000 - 16_000_000,
    }  # fmt: skip
    assert (f.fields["epoch"].low, f.fields["epoch"].high, f.fields["frame"].high) == (52, 52, 3999)
    assert f.fields["length8"].low == 4000 // 8 + 4
    assert [o.digitizer_head(i) for i in range(4)] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert o.channelized_bits == 32 and o.digitizer_heap_bytes == 4000


def test_another_epoch_and_threads():
    """What stands behind the format's name goes before what follows from the observation."""
    o = observe(VDIF.replace('"vdif"', '"vdif:reference=53,threads=4"'), inputs=_mapped(17, 18, 20, 21))
    f = o.digitizer_format
    start = (vdif_tai(53, 0) - parse_utc(SYNC)) * 64_000_000
    assert f.timestamp.count["add"] == start > 0 and f.fields["epoch"].low == 53
    assert [o.digitizer_head(i) for i in range(4)] == [(4, 1), (4, 2), (5, 0), (5, 1)]


def _mapped(*streams):
    names = [(a, p) for a in ("A1", "A2") for p in "xy"]
    return "".join(
        f'[[inputs]]\nstream = {s}\nantenna = "{a}"\npolarization = "{p}"\n'
        for s, (a, p) in zip(streams, names, strict=True)
    )


@pytest.mark.parametrize(
    ("key", "said", "given"),
    [
        ("digitizer.heap_samples", "the nearest are of 4096", {"digitizer": VDIF.replace("16000", "4064")}),
        ("band.sample_rate", "whole number", {"rate": "64.0000005 MHz"}),
        ("observation.sync_time", '"2026-03-20T20:00:00Z"', {"sync": "2026-03-20T20:00:00.0001Z"}),
        ("observation.sync_time", '"2016-12-31T23:59:60Z"', {"sync": "2016-12-31T23:59:60.0001Z"}),
        ("digitizer.packets", "at most 63", {"digitizer": VDIF.replace('"vdif"', '"vdif:reference=64"')}),
        ("digitizer.packets", "0 to 63", {"sync": "2032-01-01T00:00:00Z"}),
        ("digitizer.packets", "samples do not cross", {"digitizer": VDIF.replace("bits = 2", "bits = 10")}),
        (
            "digitizer.packets",
            "at most 16 bits",
            {"digitizer": VDIF.replace("bits = 2", "bits = 32").replace("16000", "2000")},
        ),
        ("digitizer.select.epoch", "station, thread do", {"digitizer": f"{VDIF}\nselect = {{ epoch = 3 }}"}),
    ],
)
def test_mistakes(key, said, given):
    with pytest.raises(ConfigError) as found:
        observe(**given)
    problems = found.value.problems
    assert {p.key for p in problems} == {key}, str(found.value)
    assert said in problems[0].remedy


@pytest.mark.parametrize(
    ("code", "bits", "taken"),
    [('"twos_complement"', 8, 8), ('"offset_binary"', 8, 32), ('"twos_complement"\nbit_order = "lsb"', 12, 32)],
)
def test_samples_of_any_code_are_accepted(tmp_path, code, bits, taken):
    text = (FORMATS / "alma_like.toml").read_text().replace("bits = 8", f"bits = {bits}")
    file = tmp_path / "mine.toml"
    file.write_text(text.replace('"twos_complement"', code).replace("8192", "4096"))
    o = observe(f'packets = "{file}"\nbits = {bits}\nheap_samples = 4096')
    assert o.channelized_bits == taken and (o.levels is None) == (taken == bits)


def test_samples_in_rows_are_refused(tmp_path):
    text = (FORMATS / "alma_like.toml").read_text().replace("8192", "4096").replace("complex = false", "complex = true")
    file = tmp_path / "mine.toml"
    file.write_text(text.replace('code = "twos', 'arranged = "rows"\ncode = "twos'))
    with pytest.raises(ConfigError, match="arranged in rows"):
        observe(f'packets = "{file}"\nbits = 8\ncomplex = true\nheap_samples = 4096')


def test_reference_epochs():
    for epoch in range(64):
        start = vdif_tai(epoch, 0)
        assert vdif_epoch(start) == epoch and vdif_epoch(start - Fraction(1, 10**9)) == epoch - 1
        assert iso(start, 0) == f"{2000 + epoch // 2}-0{7 if epoch % 2 else 1}-01T00:00:00Z"
