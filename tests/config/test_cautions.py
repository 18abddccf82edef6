"""Each doubt is raised by what it is about, and not by a sound file."""

from pathlib import Path

import numpy as np
import pytest

from observations import own_paper
from ryle.config import changed, example, load
from ryle.config.cautions import cautions, largest_delay

SMALL = Path(__file__).parents[1] / "small.toml"


C = 299792458.0


@pytest.fixture(scope="module")
def sound():
    assert cautions(load(example("paper128"))) == []
    o = own_paper()
    assert cautions(o) == []
    return o


REMOTE = "10.0.0.1:7148"


@pytest.mark.parametrize(
    ("changes", "key", "advice"),
    [
        ({"fengine": {"gain": 1.0}}, "fengine.gain", "rms near 3"),
        ({"fengine": {"gain": 1.0}}, "fengine.gain", "saturates"),
        ({"fengine": {"gain": 0.01}}, "fengine.gain", "lost in rounding"),
        ({"simulate": {"rms": 60.0}}, "simulate.rms", "saturates"),
        ({"phase_centre": {"ra": 0.0, "dec": 0.0}, "fengine": {"max_delay": 3e-7}}, "fengine.max_delay", "353.3 ns"),
        ({"network": {"digitizers": REMOTE}}, "network.packet_size", "jumbo"),
        (
            {"network": {"digitizers": REMOTE, "packet_size": 9192}, "digitizer": {"heap_samples": 9192}},
            "network.packet_size",
            "fragmented",
        ),
        ({"network": {"digitizers": "127.0.0.1:80"}}, "network.digitizers", "root"),
        ({"network": {"digitizers": "127.0.0.1:32760"}}, "network.digitizers", "32768"),
        ({"simulate": {"speed": 1.0}, "network": {"receive_buffer": 1 << 20}}, "network.receive_buffer", "10 ms"),
        (
            {"network": {"receive": {"senders": ["10.0.0.0/8", "127.0.0.2"]}}},
            "receive.senders",
            "catcher receive at 127.0.0.1, where only this host sends",
        ),
        ({"xengine": {"integration": "1 ms"}}, "xengine.integration", "becomes 0.00131072 s"),
        ({"catcher": {"integration": "16 s"}}, "catcher.integration", "becomes 10.7374 s: 1 integrations"),
        ({"observation": {"duration": "1 s"}}, "observation.duration", "shorter than one"),
        ({"observation": {"duration": "12 s"}}, "observation.duration", "10.73741824 s"),
    ],
)
def test_raised(sound, changes, key, advice):
    found = [p for p in cautions(changed(sound, **changes)) if p.key == key and advice in p.remedy]
    assert len(found) == 1, [str(p) for p in cautions(changed(sound, **changes))]


def test_engines_on_one_core(sound):
    apart = {"xengine": {"cores": ["0-3"]}, "catcher": {"cores": [4]}}
    assert cautions(changed(sound, **apart)) == []
    (caution,) = cautions(changed(sound, **apart | {"catcher": {"cores": ["3-4"]}}))
    assert (caution.key, caution.value) == ("catcher.cores", "3,4")
    assert caution.remedy.startswith("core 3 is also in xengine.cores")


def test_receiving_threads_want_cores_of_their_own(sound):
    (caution,) = cautions(changed(sound, xengine={"cores": ["2-3"], "receive": {"threads": 2}}))
    assert (caution.key, caution.value) == ("xengine.cores", "2,3") and "beside those of 2 receiving" in caution.remedy
    assert cautions(changed(sound, xengine={"cores": ["2-4"], "receive": {"threads": 2}})) == []


def test_a_gpu_that_has_two_shares():
    o = load(example("alma72"))
    (caution,) = cautions(changed(o, fx={"gpus": [1, 0, 1]}))[len(cautions(o)) :] or [None]
    assert caution.key == "fx.gpus" and caution.remedy.startswith("GPU 1 gets several shares")
    assert len(cautions(changed(o, fx={"gpus": [1, 0]}))) == len(cautions(o))


def test_int32_saturates(sound):
    """Only where noise of usual levels does: half of full scale, 63.5, needs 266 287 spectra."""

    def said(spectra):
        seconds = spectra * sound.step / sound.sample_rate
        o = changed(sound, xengine={"sends": "meerkat", "integration": seconds}, fengine={"output_bits": 8})
        return [p.remedy for p in cautions(o.live) if p.key == "xengine.integration"]

    sound = changed(sound.live, observation={"duration": None})
    assert said(262144) == []
    (remedy,) = said(1 << 20)
    assert "1048576 spectra saturate int32 where parts of values have an rms of 32 or more, of 127" in remedy


def test_small_packets_need_no_jumbo_frames(sound):
    small = {"digitizers": REMOTE, "packet_size": 1024}
    o = changed(sound, network=small, digitizer={"heap_samples": 1024})
    assert not [p for p in cautions(o) if "jumbo" in p.remedy]


def test_largest_delay():
    paper = load(example("paper128"))
    assert largest_delay(paper) == pytest.approx(np.hypot(105, 14) / C)
    vdif = load(example("vdif2"))
    ef, on = (np.array(a.itrf) for a in vdif.antennas)
    assert largest_delay(vdif) == pytest.approx(np.linalg.norm(on - ef) / C)


def test_largest_delay_of_itrf_positions_about_a_geodetic_place():
    # Greenwich meridian, equator, height 0: x is the WGS84 semi-major axis; the antenna stands 300 m higher.
    where = {"location": {"latitude": "0 deg", "longitude": "0 deg", "height": "0 m"}}
    antennas = [
        {"name": "A", "itrf": ["6378437 m", "0 m", "0 m"], "cable_delay": ["-2 us", "1 us"]},
        {"name": "B", "itrf": ["6378137 m", "3 m", "0 m"]},
    ]
    o = changed(load(SMALL), array=where | {"antennas": antennas})
    assert largest_delay(o) == pytest.approx(300 / C + 2e-6)
