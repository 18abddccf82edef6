"""Sizes against what was measured, and against sums that are made here; engines that all have a place, none too full."""

import json
import time
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ryle.cli import app
from ryle.config import ConfigError, changed, example, load, parse
from ryle.plan.hardware import read_hardware
from ryle.plan.loads import f_load, fx_load, fx_rate, x_load
from ryle.plan.placement import place, written
from ryle.plan.size import TooMuchError, plan
from ryle.plan.work import Work, telescopes

RESULTS = Path(__file__).parents[2] / "bench/results"
HARDWARE = read_hardware()
H200, SERVER = HARDWARE.gpus["h200"], HARDWARE.servers["h200"]


def fx_of(inputs, bits, channels=4096):
    return Work("measured", inputs // 2, 2, 1e9, bits, channels)


def measured(case, **size):
    files = [json.loads((RESULTS / f"engine_{which}_h200.json").read_text()) for which in ("f", "fx")]
    rows = [row for file in files for row in file["results"]]
    found = [r["value"] * 1e9 for r in rows if r["case"] == case and size.items() <= r.items()]
    assert found, (case, size)
    return found


@pytest.mark.parametrize(
    "case, channels, bits, fed",
    [
        ("FX from host memory", 4096, 10, True),
        ("FX resident, ring", 1024, 10, False),
        ("FX resident, ring", 4096, 8, False),
        ("FX resident, ring", 4096, 10, False),
        ("FX resident, pointer table", 4096, 8, False),
        ("FX resident, pointer table", 4096, 10, False),
    ],
)
def test_rate_of_fx_on_an_h200_is_what_was_measured_within_10_percent(case, channels, bits, fed):
    for rate in measured(case, inputs=144, channels=channels, bits=bits):
        assert fx_rate(fx_of(144, bits, channels), H200, fed=fed) == pytest.approx(rate, rel=0.1)


@pytest.mark.parametrize("channels, inputs", [(4096, 16), (4096, 144), (32768, 16), (32768, 144)])
def test_rate_of_f_from_host_to_host_is_what_was_measured_within_10_percent(channels, inputs):
    work = fx_of(inputs, 10, channels)
    work = replace(work, wire_in=1.0, wire_spectra=1.0)  # copies have no headers
    shares = f_load(work, 1.0, H200, SERVER).shares
    predicted = work.samples / max(shares[name] for name in ("kernels", "power", "bus in", "bus out"))
    for rate in measured("F from host memory and back", inputs=inputs, channels=channels):
        assert predicted == pytest.approx(rate, rel=0.1)


def test_sums_of_an_array_are_those_of_the_papers():
    """MeerKAT's extension (Merry 2023): 1.75 Gsample/s, 10 bit, 32768 channels; Romein's 1.2 Tb/s from 8-bit samples."""
    work = telescopes()["MeerKAT extension"]
    assert work.samples == 1.75e9
    assert work.input_wire / work.wire_in == 17.5e9
    assert work.spectra_wire / work.wire_spectra == 14e9
    assert work.products == 4 * 80 * 81 // 2
    assert work.x_operations == 8 * 160 * 161 / 2 * 875e6
    assert work.output_bytes == work.products * 32768 * 13 / 0.5
    heap = work.products * 32768 * 8
    assert heap == pytest.approx(3.4e9, rel=0.01)
    assert work.operations_a_sample == pytest.approx(8 * 161 / 4)


def test_shares_follow_from_rates():
    work = fx_of(128, 8)
    one, two = f_load(work, 10, H200, SERVER), f_load(work, 20, H200, SERVER)
    for name in ("kernels", "power", "bus in", "bus out", "card in", "card out", "host memory"):
        assert two.shares[name] == pytest.approx(2 * one.shares[name])
    assert one.shares["kernels"] == pytest.approx(10 * 2e9 / (H200.engine * 258e9))
    assert one.shares["card in"] == pytest.approx(10 * 2e9 * 8 * 1.02 / 400e9)
    assert one.shares["host memory"] == pytest.approx(10 * 1e9 * (16 + 16) * 1.02 * 2 * 4 / 4e12)
    half, whole = x_load(work, 5e8, H200, SERVER), x_load(work, 1e9, H200, SERVER)
    assert whole.shares["kernels"] == pytest.approx(2 * half.shares["kernels"])
    assert whole.shares["kernels"] == pytest.approx(8 * 128 * 129 / 2 * 1e9 / (H200.engine * 943e12))
    both = fx_load(work, 0.5, H200, SERVER)
    assert both.shares["kernels"] == pytest.approx(6.4 * one.shares["kernels"] + half.shares["kernels"])
    assert both.shares["bus out"] < 0.1


@pytest.mark.parametrize("name", telescopes())
@pytest.mark.parametrize("margin", [0.5, 0.8])
def test_engines_of_known_arrays_take_all_of_it_and_no_more_than_allowed(name, margin):
    work = telescopes()[name]
    p = plan(work, HARDWARE, margin=margin)
    for part in p.parts:
        assert part.load.most <= margin
        assert part.servers * SERVER.gpus >= part.engines
        whole = {"f": work.antennas, "x": work.channels, "fx": part.each}[part.kind]
        assert part.engines * part.each >= whole * (1 if part.kind == "fx" else work.bands)
    apart = plan(work, HARDWARE, margin=margin, form="f+x")
    for part, more in zip(apart.parts, (f_load, x_load), strict=True):
        # One more antenna, or channel, for each would be too much, or there are no more.
        each = part.each + 1
        size = each * work.pols if part.kind == "f" else each * work.bandwidth / work.channels
        whole = work.antennas if part.kind == "f" else work.channels
        fewer = -(-whole // each) * work.bands < part.engines
        assert more(work, size, H200, SERVER).most > margin or not fewer
    assert apart.servers >= p.servers
    assert p.watts > 700 and p.ports > p.servers


def test_known_arrays_are_those_that_were_asked_for():
    names = ["PAPER", "HERA-350", "MeerKAT extension", "ALMA WSU", "DSA-2000", "ngVLA", "SKA-Low", "SKA-Mid"]
    assert list(telescopes()) == names
    assert all(work.source for work in telescopes().values())


def test_what_is_too_much_for_any_gpu_is_said():
    work = replace(telescopes()["ngVLA"], bands=1, bandwidth=100e9)
    with pytest.raises(TooMuchError, match=r"an antenna of ngVLA uses \d.* of a GPU's host memory.*cut the band"):
        plan(work, HARDWARE)
    with pytest.raises(TooMuchError, match=r"F and X of DSA-2000 in one process use .* plan F- and X-engines apart"):
        plan(telescopes()["DSA-2000"], HARDWARE, form="fx")


def test_prices_are_the_users(tmp_path):
    (file := tmp_path / "mine.toml").write_text(
        "gpus.h200.price = 30000\nservers.h200.price = 20000\nswitch.price = 40000\n"
        "money = { kilowatt_hour = 0.2, overhead = 1.5, years = 10 }\n"
    )
    work = telescopes()["MeerKAT extension"]
    p = plan(work, read_hardware(file))
    assert p.price == p.servers * (20000 + 4 * 30000) + 40000 * p.switches
    assert p.energy_price == pytest.approx(p.watts / 1000 * 1.5 * 10 * 365.25 * 24 * 0.2)
    assert plan(work, HARDWARE).price == plan(work, HARDWARE).energy_price == 0


def test_a_file_of_hardware_lies_over_what_is_shipped_and_says_what_is_wrong(tmp_path):
    (file := tmp_path / "mine.toml").write_text("[servers.h200]\ncards = 2\n[gpus.h200]\nf = { 4096 = 100e9 }\n")
    mine = read_hardware(file)
    assert mine.servers["h200"].cards == 2 and mine.servers["h200"].cores == SERVER.cores
    assert mine.gpus["h200"].f == {4096: 100e9} and mine.gpus["h200"].f_rate(1024) == pytest.approx(100e9 * H200.engine)
    energy = HARDWARE.gpus["h200"].f_energy
    assert energy(512) == energy(1024) < energy(2048) < energy(4096) and energy(1 << 20) == energy(32768)
    file.write_text(
        '[servers.h200]\ncard = "fast"\nspeed = 3\n[servers.own]\ngpu = "a100"\n[gpus.h200]\nengine = 1.5\nf_joules = 1e-9\n'
    )
    with pytest.raises(ConfigError) as raised:
        read_hardware(file)
    keys = {p.key for p in raised.value.problems}
    assert {"servers.h200.card", "servers.h200.speed", "gpus.h200.engine", "gpus.h200.f_joules"} <= keys
    file.write_text('[servers.h200]\ngpu = "a100"\n')
    with pytest.raises(ConfigError, match=r"is no GPU here: h200, h100; or add \[gpus\.a100\]"):
        read_hardware(file)
    with pytest.raises(ConfigError, match="no such file"):
        read_hardware(tmp_path / "none.toml")


def seen(o, margin=0.8, hosts=()):
    placement = place(o, HARDWARE, "h200", hosts, margin)
    assert [(p.engine, p.index) for p in placement.engines] == [(e, i) for e, n in o.engines.items() for i in range(n)]
    for host in placement.hosts:
        its = [p for p in placement.engines if p.host == host.name]
        assert its
        cores = [c for p in its for c in p.cores]
        assert len(set(cores)) == len(cores) and max(cores) < SERVER.cores
        for gpu in range(SERVER.gpus):
            on = [p for p in its if p.gpu == gpu]
            for name in ("kernels", "power", "bus in", "bus out"):
                assert sum(p.load.shares[name] for p in on) <= margin or len(on) == 1
        loads = [p.load for p in its if p.load is not None]
        for name in ("card in", "card out", "host memory"):
            assert sum(load.shares[name] for load in loads) / SERVER.gpus <= margin or len(loads) == 1
    return placement


@pytest.mark.parametrize("margin", [0.4, 0.8])
@pytest.mark.parametrize("name", ["demo", "paper128", "meerkat_extension", "vdif2"])
def test_every_engine_has_a_place_and_no_host_is_too_full(name, margin):
    o = load(example(name))
    placement = seen(o, margin)
    assert not placement.problems
    told = tomllib.loads(written(o, placement, SERVER))
    assert told["plan"]["engines"] == len(told["engines"]) == sum(o.engines.values())
    names = {h["name"] for h in told["hosts"]}
    for engine, p in zip(told["engines"], placement.engines, strict=True):
        assert (engine["kind"], engine["index"], engine["cores"]) == (p.engine, p.index, list(p.cores))
        assert engine["host"] in names and engine.get("gpu") == p.gpu
    f = [e for e in told["engines"] if e["kind"] == "f"]
    if f:
        come = [a for e in f for a in e["receives"]]
        assert come == [str(e) for a in range(len(o.antennas)) for e in o.digitizer_endpoints(a)]
        assert f[0]["sends"] == [e["receives"][0] for e in told["engines"] if e["kind"] == "x"]


def test_hosts_that_are_named_are_filled_in_their_order_and_may_be_too_few():
    o = load(example("meerkat_extension"))
    named = seen(o, hosts=("rack1", "rack2", "rack3", "rack4", "rack5", "spare"))
    assert [h.name for h in named.hosts] == ["rack1", "rack2", "rack3", "rack4", "rack5"]
    few = place(o, HARDWARE, "h200", ("rack1",))
    assert "have no room for" in few.problems[0].remedy and few.problems[0].key == "hosts"


def test_an_engine_that_is_too_much_is_said_with_what_fits():
    o = changed(load(example("meerkat_extension")), fengine={"antennas_per_engine": 10})
    (problem,) = place(o, HARDWARE).problems
    assert problem.key == "fengine.antennas_per_engine" and problem.value == 10
    fits = int(problem.remedy.split("at most ")[1].split()[0])
    assert not place(changed(o, fengine={"antennas_per_engine": fits}), HARDWARE).problems
    assert place(changed(o, fengine={"antennas_per_engine": fits + 1}), HARDWARE).problems


def test_two_thousand_antennas_are_planned_and_placed_within_seconds():
    names = ", ".join(f'{{ name = "A{a}", enu = ["{15 * a} m", "{a % 7} m", "0 m"] }}' for a in range(2000))
    o = parse(
        f"""
        observation = {{ name = "many", sync_time = "2026-03-20T20:00:00Z" }}
        band = {{ sample_rate = "2.6 GHz" }}
        digitizer = {{ bits = 8, heap_samples = 4096 }}
        fengine = {{ channels = 16384, output_bits = 4, backend = "cuda", antennas_per_engine = 5 }}
        xengine = {{ integration = "1.5 s", channels_per_substream = 64, backend = "cuda" }}
        network = {{ digitizers = "239.100.0.0:7148", spectra = "239.110.0.0:7148", visibilities = "10.0.0.1:7148" }}
        array = {{ location = {{ latitude = "0 deg", longitude = "0 deg", height = "0 m" }}, polarizations = ["x", "y"], antennas = [{names}] }}
        """,
        "many",
    )
    began = time.monotonic()
    placement = place(o, HARDWARE)
    text = written(o, placement, SERVER)
    took = time.monotonic() - began
    assert len(placement.engines) == 400 + 256 + 1
    assert len(tomllib.loads(text)["engines"]) == 657
    assert took < 10
    seen(o)


def run(*arguments):
    return CliRunner().invoke(app, ["plan", *map(str, arguments)], env={"COLUMNS": "140"})


def test_commands(tmp_path):
    known = run()
    assert known.exit_code == 0
    for name in telescopes():
        assert name in known.output
    assert json.loads(run("--json").output)["DSA-2000"]["servers"] > 50
    out = tmp_path / "placement.toml"
    planned = run(example("meerkat_extension"), "-o", out)
    assert planned.exit_code == 0 and "Where its engines run" in planned.output
    small = " ".join(run(example("demo")).output.split())  # what suits its rates is one process on a GPU
    assert "the engines that the file asks for, F-engines on cpu and X-engines on cpu; those above" in small
    assert len(tomllib.loads(out.read_text())["engines"]) == 145
    told = json.loads(run(example("meerkat_extension"), "--json", "--form", "f+x").output)
    assert [p["kind"] for p in told["needs"]["parts"]] == ["f", "x"] and len(told["engines"]) == 145
    assert run(example("alma72")).exit_code == 1
    turn = run(example("meerkat_extension"), "--network", "--leaves", "4", "--uplinks", "8")
    assert turn.exit_code == 0 and "an uplink fails" in turn.output
    for mebibytes, lost in (("0.1", True), ("16", False)):
        deep = json.loads(run(example("meerkat_extension"), "--network", "--buffer", mebibytes, "--json").output)
        assert all((f["lost"] > 0) == lost for f in deep["found"].values() if f["skew"] == 0)
    assert run(example("alma72"), "--network").exit_code == 2
    assert run("--server", "abacus").exit_code == 2
    assert run("-o", out).exit_code == 2
    wrong = tmp_path / "wrong.toml"
    wrong.write_text("[money]\nyears = -1\n")
    assert CliRunner().invoke(app, ["plan", "--hardware", str(wrong)]).exit_code != 0
