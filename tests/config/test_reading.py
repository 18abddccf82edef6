"""A wrong file is answered with every mistake in it and how to mend each; nothing else is ever raised."""

import json
import random
import re
import string
import tomllib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from ryle.config import ConfigError, Observation, load, parse, rates
from ryle.config import example as shipped
from ryle.config.cautions import cautions

DEMO = (Path(__file__).parents[1] / "small.toml").read_text()
WRONG = """
[observation]
name = "two words"
sync_time = 2026-03-20T20:00:00Z
durration = "4 s"

[[inputs]]
stream = 0
antenna = "A0"
polarization = "z"

[array]
name = 5
location = { latitude = "-30.7 deg", longitude = "21.4", height = "1051 m" }
antennas = [
  { name = "A0", enu = ["0 m", "0 m", "0 m"] },
  { name = "A1", enu = [210, "40 m", "0.3 m"] },
]

[band]
taps = 3
sample_rate = "8 Mhz"
lo = 1.4e9
nyquist_zone = 2

[digitizer]
bits = 8
complex = true
heap_samples = 4097

[fengine]
window = "han"
taps = "8"
output_bits = 16
spectra_per_heap = 4
threads = true

[xengine]
integration = "0.25 m"

[network]
packet_size = "1 KiB"

[simulate]
speed = "fast"
sefd = "-400 Jy"
sources = [{ ra = "07h00m20s", dec = "-29d58m00s", flux = "120 Jy", q = "130 Jy" }]
"""


def problems(text):
    with pytest.raises(ConfigError) as error:
        parse(text)
    return error.value.problems


def test_every_mistake_at_once_in_file_order():
    expected = [
        ("observation.name", "two words", "letters, digits"),
        ("observation.sync_time", ..., "in quotes with a final Z"),
        ("observation.durration", "4 s", "did you mean duration?"),
        ("inputs[0].polarization", "z", 'must be one of "x", "y", "r", "l"'),
        ("array.name", 5, 'write "5"'),
        ("array.location.longitude", "21.4", '"21.4 deg"'),
        ("array.antennas[1].enu[0]", 210, '"210 m"'),
        ("band.taps", 3, "it belongs in [fengine]"),
        ("band.sample_rate", "8 Mhz", 'did you mean "8 MHz"?'),
        ("band.lo", 1.4e9, "has no unit"),
        ("digitizer.heap_samples", 4097, "multiple of 4"),  # between two tables, found beside the others
        ("digitizer.heap_samples", 4097, "at most 512 samples"),
        ("fengine.window", "han", "did you mean hann?"),
        ("fengine.taps", "8", "write 8 without quotes"),
        ("fengine.output_bits", 16, "must be one of 4, 8"),
        ("fengine.spectra_per_heap", 4, "at least 8 and at most 4096"),
        ("fengine.threads", True, "whole number"),
        ("fengine.channels", None, "add channels = 4096"),
        ("xengine.integration", "0.25 m", "m is a unit of length"),
        ("simulate.speed", "fast", '"max"'),
        ("simulate.sefd", "-400 Jy", "more than 0"),
        ("simulate.sources[0]", None, "at most flux"),
    ]
    found = problems(WRONG)
    assert [p.key for p in found] == [key for key, *_ in expected]
    for problem, (_, value, remedy) in zip(found, expected, strict=True):
        assert value is ... or problem.value == value
        assert remedy in problem.remedy, str(problem)


@pytest.mark.parametrize(
    ("change", "key", "remedy"),
    [
        (('"4 s"', '"0 s"'), "observation.duration", "more than 0"),
        (('"2026-03-20T20:00:00Z"', '"2026-02-30T20:00:00Z"'), "observation.sync_time", "no date"),
        (('"2026-03-20T20:00:00Z"', '"2026-03-20T20:00:60Z"'), "observation.sync_time", "no date"),
        (('"2026-03-20T20:00:00Z"', '"2026-03-20T23:59:60Z"'), "observation.sync_time", "leap seconds only"),
        (('"2026-03-20T20:00:00Z"', '"9999-01-01T00:00:00Z"'), "observation.sync_time", "after 2100-01-01"),
        (('"2026-03-20T20:00:00Z"', '"5"'), "observation.sync_time", "before 1972"),
        (('"2026-03-20T20:00:00Z"', '"2026-03-20 20:00"'), "observation.sync_time", "final Z"),
        (('"A1"', '"A0"'), "array.antennas", "more than once: A0"),
        (('["x", "y"]', '["x", "l"]'), "array.polarizations", "not mixed"),
        (('["x", "y"]', '["x", "x"]'), "array.polarizations", "differ"),
        (('["x", "y"]', '"xy"'), "array.polarizations", "must be a list"),
        (('["210 m", "40 m", "0.3 m"]', '["210 m", "40 m"]'), "array.antennas[1].enu", "three lengths"),
        (('latitude = "-30.7215 deg", ', ""), "array.location", "latitude, longitude and height"),
        (("[band]\n", ""), "band", "add [band] with sample_rate"),
        (("bits = 10", "bits = 11"), "digitizer.bits", "one of 1, 2"),
        (("bits = 10", "bits = 10.0"), "digitizer.bits", "whole number"),
        (("[digitizer]", "network = 5\n[digitizer]"), "band.network", "unknown key"),
        (("[observation]", "network = 5\n[observation]"), "network", "write [network]"),
        (("[xengine]", '[network]\nspectra = "localhost:7148"\n[xengine]'), "network.spectra", "numeric address"),
        (("[xengine]", '[network]\nspectra = "10.0.0.1:70000"\n[xengine]'), "network.spectra", "address:port"),
        (("[xengine]", '[network]\ninterface = "eth0"\n[xengine]'), "network.interface", "own address"),
        (("[xengine]", "[network]\npacket_size = 8192\n[xengine]"), "network.packet_size", '"8192 B"'),
        (("[xengine]", '[network]\npacket_size = "1000.5 B"\n[xengine]'), "network.packet_size", "whole number"),
        (("[xengine]", '[output]\nformats = ["uvfit"]\n[xengine]'), "output.formats[0]", "did you mean uvfits?"),
        (("[xengine]", "[output]\npictures = 1\n[xengine]"), "output.pictures", "true or false"),
    ],
)
def test_one_mistake(change, key, remedy):
    assert change[0] in DEMO
    found = [p for p in problems(DEMO.replace(*change)) if p.key == key]
    assert len(found) == 1
    assert remedy in found[0].remedy


def test_leap_second_is_a_time():
    parse(DEMO.replace("2026-03-20T20:00:00Z", "2016-12-31T23:59:60Z"))


def test_bad_toml_names_the_line():
    (problem,) = problems('[band]\nsample_rate = 8 MHz\nlo = "0 Hz"')
    assert "line 2" in problem.remedy
    assert "sample_rate = 8 MHz" in problem.remedy
    assert "in quotes" in problem.remedy


def test_missing_file(tmp_path):
    (tmp_path / "array.toml").write_text(DEMO)
    with pytest.raises(ConfigError, match=re.escape("did you mean array.toml?")):
        load(tmp_path / "aray.toml")
    with pytest.raises(ConfigError, match="nor is there a directory"):
        load(tmp_path / "nowhere" / "a.toml")
    with pytest.raises(ConfigError, match="cannot be read"):
        load(tmp_path)


def test_not_text(tmp_path):
    (tmp_path / "a.toml").write_bytes(b"[a]\n\xff\xfe")
    with pytest.raises(ConfigError, match="line 2 is not UTF-8"):
        load(tmp_path / "a.toml")


def test_unknown_example():
    with pytest.raises(ConfigError, match=re.escape("did you mean meerkat_extension?")):
        shipped("meerkat_extensio")
    with pytest.raises(ConfigError):
        shipped("../config/demo")


ANTENNAS = re.compile(r"antennas = \[\n.*?\n\]", re.DOTALL)


@pytest.mark.parametrize(
    ("content", "remedy"),
    [
        (None, "no such file"),
        ("A0 1 2\n", "line 1 of a.txt"),
        ("# none\n", "has no line"),
        ("A0 1 2 3\nA1 1 x 3\n", "line 2 of a.txt"),
        (
            "A0 1 2 3 diameter=wide\n",
            "line 1 of a.txt has diameter=wide; write numbers without blanks and units, such as diameter=13.5",
        ),
        ("A0 1 2 3 diameter=-4\n", "line 1 of a.txt has diameter=-4; a diameter is above 0 m"),
        ("# e\nA0 1 2 3 feed_angles=45;-45\n", "line 2 of a.txt has feed_angles=45;-45; write"),
        ("A0 1 2 3 feed_angle=45,-45\n", "feed_angle=45,-45, which is not known; did you mean feed_angles"),
        ("A0 1 2 3 diameter=4 diameter=5\n", "line 1 of a.txt gives diameter twice"),
        ("A0 diameter=4 1 2\n", "line 1 of a.txt is not 'name east north up'"),
    ],
)
def test_antenna_file_wrong(tmp_path, content, remedy):
    if content is not None:
        (tmp_path / "a.txt").write_text(content)
    (tmp_path / "o.toml").write_text(ANTENNAS.sub('antenna_file = "a.txt"', DEMO).replace("taps = 8", 'taps = "8"'))
    with pytest.raises(ConfigError) as error:
        load(tmp_path / "o.toml")
    assert [p.key for p in error.value.problems] == ["array.antenna_file", "fengine.taps"]
    assert remedy in error.value.problems[0].remedy


def test_what_names_antennas_is_not_blamed_for_an_unread_antenna_file(tmp_path):
    text = ANTENNAS.sub('antenna_file = "none.txt"', DEMO)
    text += '[[inputs]]\nstream = 0\nantenna = "A0"\npolarization = "x"\n'
    with pytest.raises(ConfigError) as error:
        parse(text, str(tmp_path / "o.toml"))
    assert [p.key for p in error.value.problems] == ["array.antenna_file"]


def test_antenna_file(tmp_path):
    (tmp_path / "a.txt").write_text("# name e n u\nA0 0 0 0\nA1, 210.5, -40, 1e-1  # comment\n")
    (tmp_path / "o.toml").write_text(ANTENNAS.sub('antenna_file = "a.txt"', DEMO))
    antennas = load(tmp_path / "o.toml").antennas
    assert [(a.name, a.enu) for a in antennas] == [("A0", (0.0, 0.0, 0.0)), ("A1", (210.5, -40.0, 0.1))]


def test_antenna_file_with_diameters_and_feed_angles(tmp_path):
    (tmp_path / "a.txt").write_text(
        "A0 0 0 0 diameter=13.5, feed_angles=45,-45 239.1.0.64+7:7148\n"
        "A1 9 0 0 239.1.1.64+7:7148 feed_angles=30,120\nA2 0 9 0\n"
    )
    (tmp_path / "o.toml").write_text(ANTENNAS.sub('antenna_file = "a.txt"', DEMO))
    o = load(tmp_path / "o.toml")
    assert [a.diameter for a in o.antennas] == [13.5, 12, 12]
    assert o.feed_angles.tolist() == [[45, -45], [30, 120], [90, 0]]
    assert [str(o.input_endpoints(i)[0]) for i in (1, 2)] == ["239.1.0.64:7148", "239.1.1.64:7148"]
    (tmp_path / "a.txt").write_text("# all\nA0 0 0 0\nA1 9 0 0 feed_angles=30,-150\nA2 0 9 0 feed_angles=1,2,3\n")
    with pytest.raises(ConfigError) as error:
        load(tmp_path / "o.toml")
    parallel, many = error.value.problems
    assert parallel.key == "array.antennas[1].feed_angles"
    assert parallel.remedy.startswith("line 3 of a.txt: x and y are parallel")
    assert many.remedy == "line 4 of a.txt: one angle a polarization is needed: 2, of x, y"


@pytest.mark.parametrize(
    ("array", "key", "remedy"),
    [
        ('feed_angles = ["90 deg"]', "array.feed_angles", "one angle a polarization is needed: 2, of x, y"),
        ('feed_angles = ["90 deg", "270 deg"]', "array.feed_angles", "parallel"),
        ('feed_angles = ["90 deg", "0.1 rd"]', r"array.feed_angles\[1\]", "no unit known here"),
        ("feed_angles = [90]", r"array.feed_angles\[0\]", "has no unit"),
        ('x_orientation = "west"', "array.x_orientation", 'must be one of "east", "north"'),
        (
            'x_orientation = "east"\nfeed_angles = ["90 deg", "0 deg"]',
            "array",
            "x_orientation or feed_angles, not both",
        ),
        ('x_orientation = "east"\npolarizations = ["r", "l"]', "array", "x_orientation is of linear feeds; remove it"),
    ],
)
def test_feeds_that_cannot_be(array, key, remedy):
    with pytest.raises(ConfigError) as error:
        parse(re.sub(r"polarizations = .*\n", "", DEMO).replace("[array]\n", f"[array]\n{array}\n"))
    (problem,) = error.value.problems
    assert re.fullmatch(key, problem.key) and re.search(remedy, problem.remedy), str(problem)


def test_antenna_file_with_addresses(tmp_path):
    (tmp_path / "a.txt").write_text(
        "A0 0 0 0 239.1.0.64+7:7148 239.1.0.72+7:7148\nA1 9 0 0 239.1.1.64+7:7148\nA2 0 9 0\n"
    )
    (tmp_path / "o.toml").write_text(ANTENNAS.sub('antenna_file = "a.txt"', DEMO))
    o = load(tmp_path / "o.toml")
    assert [[str(e) for e in o.input_endpoints(i)][::7] for i in range(6)] == [
        ["239.1.0.64:7148", "239.1.0.71:7148"],
        ["239.1.0.72:7148", "239.1.0.79:7148"],
        *[["239.1.1.64:7148", "239.1.1.71:7148"]] * 2,
        *[[str(o.network.digitizers.nth(2))]] * 2,
    ]
    assert len(o.digitizer_endpoints([0, 1, 2])) == 25
    (tmp_path / "a.txt").write_text("A0 0 0 0 239.1.0.64+7\n")
    with pytest.raises(ConfigError, match=r"(?s)antennas\[0\]\.digitizers.*239\.102\.0\.64\+7:7148"):
        load(tmp_path / "o.toml")


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ('"239.1.0.64+7"', "for that group and 7 more"),
        ('"239.1.0.64+:7148"', "for that group and 7 more"),
        ('"239.1.0.64+7:0"', "for that group and 7 more"),
        ("7148", "for that group and 7 more"),
        ('["239.1.0.64+7:7148", "localhost:7148"]', "localhost"),
        ('"239.255.255.255+1:7148"', "past the multicast addresses"),
        ('"255.255.255.255+1:7148"', "past the last address"),
    ],
)
def test_no_address_range(text, remedy):
    (problem,) = problems(DEMO.replace('name = "A0",', f'name = "A0", digitizers = {text},'))
    assert problem.key == "array.antennas[0].digitizers" and remedy in problem.remedy


def test_inputs_may_have_addresses_of_their_own():
    text = DEMO.replace('name = "A0",', 'name = "A0", digitizers = "10.0.0.1+1:7148",')
    inputs = [(a, p) for a in range(len(parse(DEMO).antennas)) for p in "xy"]
    for i, (a, p) in enumerate(inputs):
        text += f'[[inputs]]\nstream = {i}\nantenna = "A{a}"\npolarization = "{p}"\n'
        text += 'digitizers = ["[ff15::1]:7", "239.1.1.1+1:8"]\n' if i == 1 else ""
    o = parse(text)
    assert [str(e) for e in o.input_endpoints(0)] == ["10.0.0.1:7148", "10.0.0.2:7148"]
    assert [str(e) for e in o.input_endpoints(1)] == ["[ff15::1]:7", "239.1.1.1:8", "239.1.1.2:8"]
    assert len(o.digitizer_endpoints(0)) == 5


@pytest.mark.parametrize(
    ("senders", "read"),
    [
        ('"10.1.0.7"', ["10.1.0.7"]),
        ('["10.1.0.0/16", "10.1.0.7:7148", "10.2.0.0/24:7148"]', ["10.1.0.0/16", "10.1.0.7:7148", "10.2.0.0/24:7148"]),
        ('["fd00::7", "fd00::/64", "[fd00::7]:7148"]', ["fd00::7", "fd00::/64", "[fd00::7]:7148"]),
    ],
)
def test_who_may_send(senders, read):
    o = parse(DEMO + f"[network]\nreceive = {{ senders = {senders} }}\n")
    assert [str(s) for s in o.receive("catcher").senders] == read


@pytest.mark.parametrize(
    ("sender", "why"),
    [
        ('"elsewhere"', "'elsewhere' is none; write an address"),
        ('"10.1.0.7/16"', "begins in the middle of the network 10.1.0.0/16"),
        ('"10.1.0.7:0"', "impossible port"),
        ('"10.1.0.7:"', "is none"),
        ("[7]", "7 is no text"),
    ],
)
def test_who_cannot_send(sender, why):
    with pytest.raises(ConfigError) as raised:
        parse(DEMO + f"[network]\nreceive = {{ senders = {sender} }}\n")
    (problem,) = raised.value.problems
    assert problem.key.startswith("network.receive.senders") and why in problem.remedy


def test_how_engines_receive():
    def found(engine, index=0):
        r = o.receive(engine, index)
        return r.by, r.device, r.threads, r.cores, r.buffer

    o = parse(DEMO)
    assert found("f") == found("catcher") == ("udp", "", 1, [], 64 << 20)
    network = '[network]\nreceive = { by = "packet_ring", device = "eth1", threads = 2 }\n[xengine]\ncores = [8]\n'
    text = DEMO.replace("[xengine]\n", network + 'receive = "udp"\n').replace(
        "taps = 8", "taps = 8\ncores = ['4-6', '7,9']\nreceive.buffer = '1 MiB'"
    )
    o = parse(text)
    assert found("f", 0) == ("packet_ring", "eth1", 2, [4, 5], 1 << 20)
    assert found("f", 1)[3] == [7, 9] and found("f", 2)[3] == [4, 5]
    assert o.engine_cores("f", 2) == (4, 5, 6)
    assert found("x") == ("udp", "eth1", 2, [8], 64 << 20)
    assert found("catcher") == ("packet_ring", "eth1", 2, [], 128 << 20)
    for wrong in ('["1-"]', "[-1]", "[true]", '["3-1"]', "[1024]", '"0-3"', "[[1, 2]]"):
        (problem,) = problems(DEMO.replace("taps = 8", f"taps = 8\ncores = {wrong}"))
        assert problem.key.startswith("fengine.cores") and '"4-7,12"' in problem.remedy
    (problem,) = problems(DEMO.replace("taps = 8", "taps = 8\nnuma = -1"))
    assert problem.key == "fengine.numa"
    (problem,) = problems(DEMO.replace("[xengine]", '[network]\nreceive = "pcap"\n[xengine]'))
    assert problem.key == "network.receive.by" and '"packet_ring"' in problem.remedy


def attempt(text):
    """Reading may refuse with a list of mistakes and in no other way; what it accepts can be reported on."""
    try:
        observation = parse(text)
        json.dumps(rates.summary(observation), allow_nan=False)
        assert all(p.key and p.remedy for p in cautions(observation))
    except ConfigError as error:
        assert error.problems and str(error)
        assert all(p.key and p.remedy for p in error.problems)


PIECES = ["[", "]", "{", "}", '"', "=", ",", ".", "\n", "#", "0", "-1", "1e400", "nan", "inf", "true", "[[", "é", "\0"]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.randoms(use_true_random=False), st.sampled_from(["demo", "vdif2"]), st.integers(1, 4))
def test_mutated_text(rng: random.Random, name, times):
    text = shipped(name).read_text()
    for _ in range(times):
        start = rng.randrange(len(text))
        stop = start + rng.choice([0, 1, 1, 2, 10])
        text = text[:start] + rng.choice([*PIECES, rng.choice(string.printable), ""]) + text[stop:]
    attempt(text)


VALUES = st.recursive(
    st.one_of(
        st.integers(-(2**70), 2**70),
        st.floats(),
        st.booleans(),
        st.sampled_from(
            ["", "x", "8 MHz", "1e30 s", "1e-30 Hz", "99999999 h", "0 s", "-5 m", "A0", "cuda", "max", "a\0b"]
        ),
        st.text(max_size=5),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=2)),
    max_leaves=4,
)


def write(value):
    """Write any value as TOML."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{write(k)} = {write(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(write, value)) + "]"
    if isinstance(value, str):
        return '"' + "".join(c if c.isalnum() and c.isascii() else f"\\U{ord(c):08x}" for c in value) + '"'
    return str(value).lower()


def places(raw, path=()):
    """Every place in a file that a value can be put in the stead of."""
    for key, value in raw.items() if isinstance(raw, dict) else enumerate(raw):
        yield (*path, key)
        if isinstance(value, dict | list):
            yield from places(value, (*path, key))


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data(), st.sampled_from(["demo", "vdif2"]))
def test_any_value_anywhere(data, name):
    raw = tomllib.loads(shipped(name).read_text())
    raw["network"] = {"digitizers": "239.0.0.1:7148", "packet_size": "8 KiB"}
    for table, model in Observation.model_fields.items():
        if table in raw and hasattr(model.annotation, "model_fields"):
            for key in model.annotation.model_fields:
                raw[table].setdefault(key, ...)
    path = data.draw(st.sampled_from(sorted(places(raw), key=str)))
    here = raw
    for part in path[:-1]:
        here = here[part]
    here[path[-1]] = data.draw(VALUES)
    raw = {k: {i: x for i, x in v.items() if x is not ...} if isinstance(v, dict) else v for k, v in raw.items()}
    attempt("\n".join(f"{write(key)} = {write(value)}" for key, value in raw.items()))


@example("[" * 20000)
@example("a = " + "[" * 20000)
@example("a = " + "9" * 5000)
@given(st.text(max_size=60))
@settings(max_examples=50, deadline=None)
def test_any_text(text):
    attempt(text)
