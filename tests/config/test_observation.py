"""What is derived from an observation, against figures worked out by hand from the telescopes' papers and code."""

import re
from fractions import Fraction

import numpy as np
import pytest

from observations import own_paper
from ryle.config import ConfigError, changed, example, load, parse


@pytest.fixture(scope="module")
def meerkat():
    return load(example("meerkat_extension"))


@pytest.fixture(scope="module")
def paper():
    return own_paper()


def test_meerkat_sizes(meerkat):
    assert meerkat.n_inputs == 160
    assert meerkat.baselines == 80 * 81 // 2 == 3240
    assert meerkat.products == 12960
    assert meerkat.digitizer_heap_bytes == 5120  # 4096 x 10 bit
    assert meerkat.step == 8192
    assert meerkat.window == 131072
    assert meerkat.channel_width == 208984.375
    assert (meerkat.substreams, meerkat.substream_channels) == (64, 64)
    assert meerkat.spectra_heap_bytes == 64 * 256 * 2 * 2
    assert (meerkat.packet_channels, meerkat.groups) == (8, 8)  # 8 x 256 x 2 x 2 B = 8192 B
    assert meerkat.f_engines == 80
    assert meerkat.max_delay_samples == 136960  # 80 us x 1712 MHz


def test_meerkat_integration(meerkat):
    assert meerkat.batch_spectra == 256
    # 0.5 s x 1712 MHz / 8192 = 104492.19 spectra = 408.17 batches
    assert meerkat.integration_spectra == 408 * 256 == 104448
    assert meerkat.integration_time == 104448 * 8192 / 1.712e9
    # n (M + T - 1) after its start
    assert meerkat.integration_centre(104448) == 104448 * 8192 + 4096 * (104448 + 16 - 1)


def test_meerkat_band(meerkat):
    assert meerkat.sideband_sign == -1
    assert meerkat.sky_frequencies[0] == 1.712e9
    assert meerkat.sky_frequencies[2048] == meerkat.centre_frequency == 1.284e9
    assert meerkat.sky_frequencies[-1] == 856e6 + 208984.375
    assert np.all(np.diff(meerkat.sky_frequencies) < 0)


def test_meerkat_addresses(meerkat):
    """Each polarization goes to eight groups, as MeerKAT's digitizers send it."""
    assert [str(e) for e in meerkat.input_endpoints(0)] == [f"239.102.0.{64 + i}:7148" for i in range(8)]
    assert [str(e) for e in meerkat.input_endpoints(159)] == [f"239.102.79.{72 + i}:7148" for i in range(8)]
    assert [str(e) for e in meerkat.digitizer_endpoints(3)] == [f"239.102.3.{64 + i}:7148" for i in range(16)]
    assert len(meerkat.digitizer_endpoints(range(80))) == 80 * 16
    assert str(meerkat.spectra_endpoint(63)) == "239.102.1.63:7148"


def test_paper(paper):
    assert paper.n_inputs == 128
    assert paper.products == 8320  # N(N/2 + 1) for N = 128
    assert paper.step / paper.sample_rate == Fraction(1024, 10**8)  # 10.24 us
    assert paper.integration_spectra == 1 << 20
    assert paper.integration_time == 10.73741824
    assert (paper.substreams, paper.substream_channels) == (16, 64)
    assert paper.spectra_heap_bytes == 8192 and paper.groups == 1
    # 1024 spectra of 64 channels of 128 inputs, a byte each
    block = 1024 // paper.fengine.spectra_per_heap * len(paper.antennas) * paper.spectra_heap_bytes
    assert block == 8 << 20
    assert paper.end_sample == 4 * (1 << 20) * 2048
    assert [len(paper.f_engine_antennas(e)) for e in range(paper.f_engines)] == [4] * 16
    assert str(paper.spectra_endpoint(15)) == "127.0.0.1:17615"


def test_paper_behind_its_own_f_engines():
    """Schollar's memo: 64 channels of 128 inputs an X-engine, 1024 packets of 8200 B hold 1024 spectra."""
    o = load(example("paper128"))
    layout = o.packets
    assert (layout.spectra, layout.channels, layout.inputs, layout.packet_bytes) == (16, 64, 8, 8200)
    assert o.f_engines == 0 and len(set(o.wire_inputs // layout.inputs)) == 16
    assert (o.batch_spectra, o.packet_channels, o.groups, o.substreams) == (64, 64, 1, 16)
    assert 1024 // layout.spectra * 16 * o.groups == 1024
    assert o.chunk_spectra() == 512  # 4 MiB, 5.24 ms: of these 20 hold the 100 ms that F-engines may be apart
    on_gpu = changed(o, xengine={"backend": "cuda"})
    assert on_gpu.chunk_spectra() == 960  # 10 ms
    assert (on_gpu.chunk_spectra(64), o.chunk_spectra(64)) == (128, 64)  # but not more than 64 MiB
    assert o.skew_chunks() == 20 and changed(o, network={"skew": 0.0}).skew_chunks() == 1
    assert o.file_spectra == 1 << 20 == 8 * o.integration_spectra and o.file_time == 10.73741824
    assert str(o.spectra_endpoint(15)) == "127.0.0.1:8526"
    each = [f"10.10.10.{101 + x}:8511" for x in range(16)]
    assert str(changed(o, network={"x_engines": each}).spectra_endpoint(15)) == "10.10.10.116:8511"


BASE = """
[observation]
sync_time = "2026-03-20T20:00:00Z"
[array]
location = { latitude = "0 deg", longitude = "0 deg", height = "0 m" }
antennas = [{ name = "A", enu = ["0 m", "0 m", "0 m"] }, { name = "B", enu = ["9 m", "0 m", "0 m"] }]
[band]
sample_rate = "8 MHz"
lo = "100 MHz"
[digitizer]
[fengine]
channels = 256
[xengine]
integration = "1 s"
"""


@pytest.mark.parametrize(
    ("sideband", "zone", "sign", "zero"),
    [
        ("upper", 1, 1, 100e6),
        ("upper", 2, -1, 108e6),
        ("upper", 3, 1, 108e6),
        ("upper", 4, -1, 116e6),
        ("lower", 1, -1, 100e6),
        ("lower", 2, 1, 92e6),
        ("lower", 3, -1, 92e6),
    ],
)
def test_zones(sideband, zone, sign, zero):
    o = changed(parse(BASE), band={"sideband": sideband, "nyquist_zone": zone})
    assert o.sideband_sign == sign
    assert o.sky_frequencies[0] == zero
    # A tone at the sky frequency of channel k, mixed and aliased by hand, falls on k · fs/(2n).
    for k in (1, 77, 255):
        mixed = (o.sky_frequencies[k] - 100e6) * (1 if sideband == "upper" else -1)
        folded = abs((mixed + 4e6) % 8e6 - 4e6)
        assert folded == pytest.approx(k * 15625, abs=1e-6)
        assert zone - 1 <= mixed / 4e6 <= zone


def test_complex_band():
    o = changed(parse(BASE), digitizer={"complex": True, "heap_samples": 2048})
    assert (o.step, o.sample_bits, o.channel_width) == (256, 20, 31250.0)
    assert o.sky_frequencies[128] == o.centre_frequency == 100e6
    assert o.sky_frequencies[0] == 96e6


def test_streams_default_and_mapped():
    assert [s.stream for s in parse(BASE).streams] == [0, 1, 2, 3]
    mapped = BASE + "".join(
        f'[[inputs]]\nstream = {s}\nantenna = "{a}"\npolarization = "{p}"\n'
        for s, a, p in ((7, "B", "y"), (5, "A", "x"), (6, "A", "y"), (9, "B", "x"))
    )
    assert [s.stream for s in parse(mapped).streams] == [5, 6, 9, 7]


def test_four_bit_packets_hold_twice_the_channels():
    eight = changed(parse(BASE), fengine={"sends": "meerkat"})
    four = changed(eight, fengine={"output_bits": 4})
    assert (eight.value_bytes, four.value_bytes) == (2, 1)
    assert (eight.packet_channels, four.packet_channels) == (32, 64)


def test_rows_pack_whole_blocks():
    """A channel's rows are 128 bytes a polarization, whatever the bits and the spectra of a heap are."""
    o = changed(parse(BASE), fengine={"sends": "rows", "output_bits": 4, "spectra_per_heap": 24})
    assert (o.sends_rows, o.value_bytes, o.heap_spectra, o.batch_spectra) == (True, 2, 64, 64)
    assert (o.packet_channels, o.spectra_heap_bytes) == (32, o.substream_channels * 2 * 128)
    for size, channels in ((1400, 4), (256, 1), (65000, 128)):
        assert changed(o, digitizer={"heap_samples": 64}, network={"packet_size": size}).packet_channels == channels


def test_odd_substreams_pack_by_their_divisors():
    o = changed(parse(BASE), fengine={"channels": 210}, xengine={"channels_per_substream": 105})
    assert o.packet_channels == 21  # 32 would fit; 21 divides 105
    assert o.groups == 5


def test_gains_file(tmp_path):
    gains = np.arange(4 * 256).reshape(4, 256) * (1 + 2j)
    np.save(tmp_path / "gains.npy", gains)
    text = BASE.replace("channels = 256", 'channels = 256\ngain = 0.5\ngains_file = "gains.npy"')
    (tmp_path / "o.toml").write_text(text)
    o = load(tmp_path / "o.toml")
    np.testing.assert_array_equal(o.gains, (0.5 * gains).astype(np.complex64))
    assert o.text == text and o.source == str(tmp_path / "o.toml")


def test_changed_checks_again_and_forgets_what_was_derived():
    o = parse(BASE)
    assert o.sky_frequencies.shape == (256,)
    assert changed(o, fengine={"channels": 512}).sky_frequencies.shape == (512,)
    with pytest.raises(ConfigError, match="must divide"):
        changed(o, xengine={"channels_per_substream": 100})


@pytest.mark.parametrize(
    ("changes", "remedy"),
    [
        ({"fengine": {"channels": 255}}, "254 or 256"),
        ({"fengine": {"chanels": 256}}, "did you mean channels?"),
        ({"xengine": {"integration": "2"}}, "has no unit"),
        ({"nothing": {"x": 1}}, "unknown key"),
    ],
)
def test_changed_takes_only_what_a_file_may_say(changes, remedy):
    with pytest.raises(ConfigError, match=re.escape(remedy)):
        changed(parse(BASE), **changes)


def test_changed_takes_base_units_and_text():
    o = parse(BASE)
    assert changed(o, xengine={"integration": Fraction(1, 2)}).xengine.integration == Fraction(1, 2)
    assert changed(o, xengine={"integration": "0.5 s"}).xengine.integration == Fraction(1, 2)
    assert changed(o, fengine={"max_delay": 2e-6}).max_delay_samples == 16
    assert changed(o, simulate={"replay": "1 s"}).simulate.replay == 1  # was absent
    assert o.xengine.integration == 1 and o.simulate is None
