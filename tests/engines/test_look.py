"""What recordings hold is said, and compared with what an observation expects, before they are correlated."""

import datetime
import json

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from ryle.cli.check import check
from ryle.config import changed, example, load
from ryle.config.tables import InputTable
from ryle.engines.look import look
from ryle.store.pcap_write import PcapWriter
from ryle.wire.build import build
from ryle.wire.vdif import Header
from ryle.wire.vdif_write import Writer

#: 2026-11-20 in VDIF's seconds since 2026-07-01, epoch 53.
SECOND = (datetime.date(2026, 11, 20) - datetime.date(2026, 7, 1)).days * 86400
SECONDS = 2


@pytest.fixture(scope="module")
def vdif():
    """The shipped observation at a rate for tests, as long as the recordings."""
    o = changed(load(example("vdif2")), band={"sample_rate": 64_000}, fengine={"channels": 16})
    return changed(o, observation={"duration": SECONDS}, digitizer={"heap_samples": 1600})


@pytest.fixture(scope="module")
def stations(tmp_path_factory):
    """Records both stations: `write(name, bits, channels, threads, later)`."""
    folder = tmp_path_factory.mktemp("vdif")

    def write(name, bits=2, log2_channels=1, threads=(0, 1), later=0, complex_data=0, rate=64_000):
        header = Header(
            epoch=53, seconds=SECOND + later, bits_minus_1=bits - 1, log2_channels=log2_channels, complex_data=complex_data
        )  # fmt: skip
        path = folder / f"{name}.vdif"
        with Writer(path, header, rate, 1600, threads) as writer:
            for _ in range(SECONDS * rate // 1600):
                shape = (len(threads), 1600, 1 << log2_channels)
                writer.write(np.ones(shape, np.complex64 if complex_data else np.float32))
        return path

    return write


@pytest.fixture(scope="module")
def sound(stations):
    return [stations("jb"), stations("pi")]


def said(problems):
    return [(p.key, p.value) for p in problems]


def test_recordings_that_fit(vdif, sound):
    found = look(vdif, sound)
    assert (found.problems, found.cautions) == ([], [])
    assert dict(found.files)["pi.vdif"] == (
        "2 bits real, 2 channels, threads 0, 1; 2026-11-20T00:00:00.000Z to 2026-11-20T00:00:02.000Z by its clock"
    )
    # Channels are 2 kHz wide, and the first is centred on the band's edge.
    assert found.bands == [
        ("IF1", "1641.999000 to 1642.031000 MHz; sky frequency rises with the channel index"),
        ("IF2", "1657.999000 to 1658.031000 MHz; sky frequency rises with the channel index"),
    ]
    lower = [b.model_copy(update={"sideband": "lower"}) for b in vdif.vdif.bands]
    low = look(changed(vdif, vdif={"bands": lower}), sound).bands[0]
    assert low == ("IF1", "1641.969000 to 1642.001000 MHz; sky frequency falls with the channel index")


def test_what_does_not_fit(vdif, stations, sound):
    """Each with the key that is wrong and what the file has."""
    cases = [
        ([sound[0]], {}, ("input", 1), "counts 2"),
        ([sound[0], stations("t", threads=(0, 3))], {}, ("vdif.inputs[3].thread", 1), "t.vdif has threads 0, 3"),
        ([sound[0], stations("c", log2_channels=0)], {}, ("vdif.bands", 2), "c.vdif has 1 channel"),
        ([sound[0], stations("l", later=3600)], {}, ("input", None), "no two recordings have any time in common"),
        (sound, {"observation": {"sync_time": "2026-11-21T00:00:00Z"}}, ("observation.sync_time",), "end of the rec"),
        (sound, {"observation": {"sync_time": "2026-11-19T00:00:00Z"}}, ("observation.duration",), "before the rec"),
        (sound, {"band": {"sample_rate": 16_000}}, ("input", None), "the sample rate must be higher"),
    ]
    for files, changes, key, advice in cases:
        problems = look(changed(vdif, **changes), files).problems
        assert [p.key for p in problems][:1] == [key[0]] and advice in problems[0].remedy, (key, problems)
        assert len(key) < 2 or problems[0].value == key[1]
    inputs = [i.model_copy(update={"channel": 2, "band": 0}) for i in vdif.vdif.inputs]
    problems = look(changed(vdif, vdif={"inputs": inputs}), sound).problems
    assert said(problems) == [(f"vdif.inputs[{i}].channel", 2) for i in range(4)]
    assert "has 2 channels, counted from 0" in problems[0].remedy


def test_no_vdif_at_all(vdif, sound, tmp_path):
    (tmp_path / "x.vdif").write_bytes(bytes(range(256)) * 40)
    (problem,) = look(vdif, [sound[0], tmp_path / "x.vdif"]).problems
    assert problem.value == "x.vdif"
    (problem,) = look(vdif.model_copy(update={"vdif": None}), sound).problems
    assert problem.key == "vdif" and "is missing" in problem.remedy


def test_what_is_odd(vdif, stations, sound):
    """Bits that differ from the frames', threads and channels left out, a start before sync, and an early end."""
    cases = [
        (sound, {"digitizer": {"bits": 8}}, "digitizer.bits", "real samples of 2 bits"),
        ([sound[0], stations("u", threads=(0, 1, 5))], {}, "vdif.inputs", "threads 5 of u.vdif are used by no input"),
        ([sound[0], stations("v", log2_channels=2)], {}, "vdif.bands", "of the 4 channels of v.vdif become bands"),
        (
            sound,
            {"observation": {"sync_time": "2026-11-20T00:00:00.5Z", "duration": "1 s"}},
            "input",
            "the first 500 ms",
        ),
        (sound, {"observation": {"duration": "20 s"}}, "observation.duration", "ends 2 s after"),
    ]
    for files, changes, key, advice in cases:
        found = look(changed(vdif, **changes), files)
        assert found.problems == [] and key in [p.key for p in found.cautions if advice in p.remedy], (key, found)


@pytest.fixture(scope="module")
def captured(tmp_path_factory):
    """Two antennas' digitizers of MeerKAT's kind, 100 packets of each polarization; and their capture."""
    o = changed(load(example("vdif2")), digitizer={"bits": 8, "heap_samples": 4096}).model_copy(update={"vdif": None})
    path = tmp_path_factory.mktemp("pcap") / "c.pcap"
    with path.open("wb") as file:
        out = PcapWriter(file)
        for k in range(100):
            for stream in range(4):
                fields = {"timestamp": (k + 8) * 4096, "digitiser_id": stream}
                out.write(k, build(o.digitizer_format, fields, np.zeros(4096, np.int8)), "10.0.0.1", 7148)
    return o, path


def test_captures(captured):
    o, path = captured
    found = look(o, [path])
    assert (found.problems, found.cautions) == ([], [])
    (text,) = (text for _, text in found.files)
    assert (
        "of the first 400 datagrams 400 are of" in text
        and "of 4 streams; the earliest is of 2026-11-20T00:00:00.001Z" in text
    )
    (ten,) = look(changed(o, digitizer={"bits": 10}), [path]).problems
    assert (ten.key, ten.value) == ("digitizer.bits", 10) and "hold 8 bits a sample" in ten.remedy
    (other,) = look(changed(o, digitizer={"heap_samples": 3072}), [path]).problems
    assert other.key == "digitizer.packets" and "datagrams of 4160 B" in other.remedy
    (problem,) = look(mapped(o, 9), [path]).problems
    assert problem.key == "inputs" and "of the packets are 0, 1, 2, 3; the inputs' are 9, 10, 11, 12" in problem.remedy
    some = look(mapped(o, 2), [path])
    assert some.problems == []
    assert ["4, 5 did not come" in some.cautions[0].remedy, "0, 1 are of no input" in some.cautions[1].remedy] == [
        True,
        True,
    ]
    (problem,) = look(o, [path, path]).problems
    assert problem.value == 2 and "one capture at a time" in problem.remedy


def mapped(o, first):
    """Have inputs' streams begin at another number."""
    pairs = [(a, p) for a in ("JB", "PI") for p in "rl"]
    rows = [{"stream": first + i, "antenna": a, "polarization": p} for i, (a, p) in enumerate(pairs)]
    copy = o.model_copy(update={"inputs": [InputTable(**row) for row in rows]})
    copy.__dict__.pop("streams", None)  # derived from them
    return copy


app = typer.Typer()
app.command()(check)


def test_the_command(sound, tmp_path, captured):
    """As `ryle correlate` takes them; exit status 2 if they do not fit."""
    path = tmp_path / "v.toml"
    text = example("vdif2").read_text().replace("32 MHz", "64 kHz").replace("= 8000", "= 1600")
    path.write_text(text.replace("channels = 256", "channels = 16").replace('"10.24 s"', '"2 s"'))
    result = CliRunner().invoke(app, [str(path), *map(str, sound)])
    assert result.exit_code == 0 and "Recordings" in result.output and "IF2" in result.output
    result = CliRunner().invoke(app, [str(path), "-i", str(sound[0]), "--json"])
    found = json.loads(result.output)["recordings"]
    assert result.exit_code == 2 and list(found["files"]) == ["jb.vdif"] and found["problems"][0]["key"] == "input"
    assert "What does not fit" in CliRunner().invoke(app, [str(path), str(sound[0])]).output
