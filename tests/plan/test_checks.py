"""A plan that `ryle plan` made is right; each thing that is changed in it is found, at its key, and nothing else is."""

import re
import time
import tomllib
from types import SimpleNamespace

import pytest

from ryle.config import ConfigError, changed, example, load, parse, rates
from ryle.plan.checks import Traffic, check, load_placement
from ryle.plan.hardware import read_hardware
from ryle.plan.placement import place, written
from ryle.plan.placement_file import parse_placement
from ryle.plan.work import Work

HARDWARE = read_hardware()
SERVER = HARDWARE.servers["h200"]


def made(o, hosts=()):
    return written(o, place(o, HARDWARE, "h200", hosts), SERVER)


def found(o, text):
    return check(parse_placement(text, "placement.toml"), o)


@pytest.fixture(scope="module")
def meerkat():
    o = load(example("meerkat_extension"))
    text = made(o)
    assert not found(o, text)
    return SimpleNamespace(o=o, text=text)


def edited(text, name, **values):
    """Give other values, as TOML, to an engine; None removes it."""
    head, *engines = text.split("\n\n[[engines]]\n")
    for n, engine in enumerate(engines):
        of = tomllib.loads(engine)
        if f"{of['kind']}{of['index']}" == name:
            if not values:
                del engines[n]
                break
            for key, value in values.items():
                engine = re.sub(rf"^{key} = .*$", f"{key} = {value}", engine, flags=re.M)
            engines[n] = engine
            break
    else:
        raise AssertionError(name)
    head = re.sub(r"^engines = \d+$", f"engines = {len(engines)}", head, flags=re.M)
    return "\n\n[[engines]]\n".join([head, *engines])


def engine(text, name):
    (found,) = (e for e in tomllib.loads(text)["engines"] if f"{e['kind']}{e['index']}" == name)
    return found


def neighbours(text, kind):
    """Two engines of a kind on one host but not on one GPU, and one on another host."""
    its = [e for e in tomllib.loads(text)["engines"] if e["kind"] == kind]
    first = its[0]
    second = next(e for e in its if e["host"] == first["host"] and e["gpu"] != first["gpu"])
    third = next(e for e in its if e["host"] != first["host"])
    return first, second, third


def said(problems):
    return [(p.key.split(".")[-1], p.value, p.remedy) for p in problems]


def test_an_engine_nowhere_twice_or_too_many(meerkat):
    nowhere = found(meerkat.o, edited(meerkat.text, "x3"))
    assert {key for key, _, _ in said(nowhere)} == {"engines", "sends"}
    assert "places nowhere: x3; add a table [[engines]]" in nowhere[0].remedy
    assert all("where no engine receives" in p.remedy for p in nowhere[1:])
    twice = found(meerkat.o, edited(meerkat.text, "f1", index=0))
    assert any(p.key.endswith(".index") and "f0 is placed by engines[0] already" in p.remedy for p in twice)
    assert any(p.key == "engines" and "places nowhere: f1;" in p.remedy for p in twice)
    many = found(meerkat.o, edited(meerkat.text, "x3", index=4000))
    assert any(p.value == 4000 and "x4000 is no engine of" in p.remedy for p in many)


def test_a_host_that_is_not_there(meerkat):
    host = engine(meerkat.text, "f0")["host"]
    (problem,) = found(meerkat.o, edited(meerkat.text, "f0", host=f'"{host}x"'))
    assert problem.key == "engines[0].host" and problem.value == f"{host}x"
    assert f"did you mean {host}?" in problem.remedy


def test_cores(meerkat):
    first, second, _ = neighbours(meerkat.text, "f")
    name = f"f{second['index']}"
    (shared,) = found(meerkat.o, edited(meerkat.text, name, cores=first["cores"]))
    assert shared.key.endswith(".cores") and f"{name} shares" in shared.remedy and "with f0" in shared.remedy
    (beyond,) = found(meerkat.o, edited(meerkat.text, name, cores=[127, 128]))
    assert f"{second['host']} has the cores 0 to 127, not 128" in beyond.remedy
    (none,) = found(meerkat.o, edited(meerkat.text, name, cores="[]"))
    assert "needs a core at least" in none.remedy
    own = changed(meerkat.o, fengine={"cores": ["40-41"]})
    problems = found(own, meerkat.text)
    elsewhere = [e for e in tomllib.loads(meerkat.text)["engines"] if e["kind"] == "f" and e["cores"] != [40, 41]]
    assert len(problems) == len(elsewhere) > 0 and "fengine.cores of" in problems[0].remedy


def test_gpus(meerkat):
    first, second, _ = neighbours(meerkat.text, "f")
    text = edited(meerkat.text, f"f{second['index']}", gpu=first["gpu"])
    assert not found(meerkat.o, text)  # both have room there
    full = re.sub(r'"kernels" = [\d.]+', '"kernels" = 0.6', text)
    gpus = [p for p in found(meerkat.o, full) if p.key.endswith(".gpu")]
    assert gpus and any("of the kernels of GPU" in p.remedy and "at most 1" in p.remedy for p in gpus)
    (beyond,) = found(meerkat.o, edited(meerkat.text, "f0", gpu=4))
    assert "f0 needs GPU 4" in beyond.remedy and "has the GPUs 0 to 3" in beyond.remedy
    own = changed(meerkat.o, fengine={"gpus": [first["gpu"]]})
    other = found(own, meerkat.text)
    assert other and all("fengine.gpus of" in p.remedy and p.value != first["gpu"] for p in other)


def test_addresses_and_groups(meerkat):
    x = engine(meerkat.text, "x0")["receives"][0]
    twice = found(meerkat.o, edited(meerkat.text, "x1", receives=f'["{x}"]'))
    assert any("is received by x0 already" in p.remedy and p.value == x for p in twice)
    assert any("which nobody would join" in p.remedy for p in twice)
    silent = found(meerkat.o, edited(meerkat.text, "x1", receives='["239.9.9.9:7148"]'))
    assert any("where nobody sends" in p.remedy and p.value == "239.9.9.9:7148" for p in silent)
    (unheard,) = found(meerkat.o, edited(meerkat.text, "x0", sends='["239.9.9.9:7148"]'))
    assert unheard.key.endswith(".sends") and "where no engine receives" in unheard.remedy
    (none,) = found(meerkat.o, edited(meerkat.text, "x0", sends='["fast"]'))
    assert none.key.endswith(".sends[0]") and 'write "address:port"' in none.remedy


def test_an_address_of_one_host_on_another():
    o = changed(load(example("meerkat_extension")), network={"spectra": "10.1.0.1:7000"})
    problems = found(o, made(o))
    x = {e["host"] for e in tomllib.loads(made(o))["engines"] if e["kind"] == "x"}
    assert len(x) > 1 and problems
    assert all(p.value == "10.1.0.1" and "or use multicast groups" in p.remedy for p in problems)


def test_loopback_does_not_leave_a_host():
    o = load(example("demo"))
    text = made(o)
    assert not found(o, text)
    host = tomllib.loads(text)["hosts"][0]["name"]
    other = text.replace(
        "\n[[engines]]", '\n[[hosts]]\nname = "far"\ncores = 64\ngpus = 0\nlink = 1e9\n\n[[engines]]', 1
    )
    assert not found(o, other)
    problems = found(o, edited(other, "catcher0", host='"far"'))
    assert problems and all("is an address within a host" in p.remedy and p.key.endswith(".sends") for p in problems)
    assert all(f"not on {host}" in p.remedy for p in problems)


def test_a_link_takes_what_its_engines_receive(meerkat):
    o, text = meerkat.o, meerkat.text
    plan = parse_placement(text, "placement.toml")
    name = plan.hosts[0].name
    come = sum(Traffic(o).of(e)[0] for e in plan.engines if e.host == name)
    samples = float(o.sample_rate) * o.digitizer.bits
    antennas = sum(len(o.f_engine_antennas(e.index)) for e in plan.engines if e.host == name and e.kind == "f")
    assert come > antennas * o.pols * samples > 0

    def with_link(bits):
        return found(o, text.replace("link = 1.6e+12", f"link = {bits:.0f}", 1))

    assert not with_link(come * 1.01)
    (problem,) = with_link(come * 0.99)
    assert (
        problem.key == "hosts[0].link"
        and "receive" in problem.remedy
        and "place some of them elsewhere" in problem.remedy
    )


def test_a_file_that_is_wrong_is_said_whole(tmp_path, meerkat):
    (path := tmp_path / "placement.toml").write_text("[plan]\nobservation = 3\n")
    with pytest.raises(ConfigError) as raised:
        load_placement(path)
    assert {"plan.observation", "plan.engines", "hosts", "engines"} == {p.key for p in raised.value.problems}
    with pytest.raises(ConfigError, match=r"ryle plan array\.toml"):
        load_placement(tmp_path / "none.toml")
    path.write_text(meerkat.text.replace("engines = 145", "engines = 144"))
    with pytest.raises(ConfigError, match="145 tables"):
        load_placement(path)
    path.write_text(meerkat.text)
    plan, o = load_placement(path)
    assert len(plan.engines) == sum(o.engines.values())


def test_what_rows_of_4_bits_take_of_a_card_is_what_is_sent():
    """A byte a part: twice what the bits are."""
    o = many(40, "15 s", 32)
    (link,) = (link for link in rates.links(o) if link.name == "X-engine in")
    assert Work.of(o).spectra_wire * o.n_inputs / o.substreams == pytest.approx(link.wire)
    assert link.payload == pytest.approx(2 * o.n_inputs * 1.3e9 * 2 * 4 / o.substreams, rel=0.02)


def many(antennas, integration, substream):
    names = ", ".join(f'{{ name = "A{a}", enu = ["{15 * a} m", "{a % 7} m", "0 m"] }}' for a in range(antennas))
    return parse(
        f"""
        observation = {{ name = "many", sync_time = "2026-03-20T20:00:00Z" }}
        band = {{ sample_rate = "2.6 GHz" }}
        digitizer = {{ bits = 8, heap_samples = 4096 }}
        fengine = {{ channels = 16384, output_bits = 4, backend = "cuda", antennas_per_engine = 5 }}
        xengine = {{ integration = "{integration}", channels_per_substream = {substream}, backend = "cuda" }}
        network = {{ digitizers = "239.100.0.0:7148", spectra = "239.110.0.0:7148", visibilities = "10.0.0.1:7148" }}
        array = {{ location = {{ latitude = "0 deg", longitude = "0 deg", height = "0 m" }}, polarizations = ["x", "y"], antennas = [{names}] }}
        """,
        "many",
    )


def test_two_thousand_antennas_are_planned_and_checked_within_seconds(steady):
    o = many(2000, "15 s", 32)

    def body():
        began = time.process_time()
        text = made(o)
        problems = found(o, text)
        took = time.process_time() - began
        assert not problems and len(tomllib.loads(text)["engines"]) == 400 + 512 + 1
        assert took < 10, took  # 1.4 s on one core of 2026

    steady(body)
    # 1.5 s integrations are more than the cards of any host take: one catcher is not enough.
    short = many(2000, "1.5 s", 32)
    (problem,) = found(short, made(short))
    assert "catcher0 with 11.5 Tb/s first" in problem.remedy
