"""Placements checked as a whole, and what schedulers get of them, seen by their own checkers where these are installed."""

import json
import shutil
import subprocess
import sys
import time
import tomllib

import pytest
from typer.testing import CliRunner

from ryle.cli import app
from ryle.config import ConfigError, example_files, load, parse
from ryle.deploy import kubernetes, read_site, slurm, systemd
from ryle.deploy.checks import problems
from ryle.deploy.placement_file import PlacementFile
from ryle.plan.hardware import read_hardware
from ryle.plan.placement import place, written

HARDWARE = read_hardware()
WORDS = (shutil.which("true"), "/etc/ryle/array.toml", "/data")  # systemd looks whether there is such a program


@pytest.fixture
def planned(tmp_path):
    """MeerKAT's extension, whose engines take several hosts, and where they are planned to run."""
    for path in example_files("meerkat_extension"):
        shutil.copy(path, tmp_path)
    o = load(tmp_path / "meerkat_extension.toml")
    path = tmp_path / "placement.toml"
    path.write_text(written(o, place(o, HARDWARE), "h200", tmp_path))
    return path


def test_what_is_planned_is_right_and_starts_from_the_end_of_the_signal_path(planned):
    site = read_site(planned, HARDWARE)
    o = site.observation
    assert len(site.hosts) > 2 and len(site.processes) == sum(o.engines.values())
    assert [p.engine for p in site.processes] == ["catcher"] + ["x"] * o.substreams + ["f"] * o.f_engines
    f = next(p for p in site.processes if p.name == "f7")
    assert f.command("ryle", "a.toml", "/d") == "ryle engine f a.toml --index 7 --output /d".split()
    assert f.environment == {"CUDA_VISIBLE_DEVICES": str(f.gpu)}


def changed_text(planned, old, new, count=1):
    text = planned.read_text()
    assert old in text
    planned.write_text(text.replace(old, new, count))


#: What is done to the plan, and what must be told of it.
WRONG = [
    ('kind = "f"\nindex = 3\n', 'kind = "f"\nindex = 4\n', ["f4", "placed 2 times", "lack f3"]),
    ('kind = "f"\nindex = 3\n', 'kind = "f"\nindex = 300\n', ["f300", "is no engine of", "80 f"]),
    ('host = "node1"', 'host = "nobody"', ["engines.host", "nobody", "node0"]),
    ('name = "node1"', 'name = "node0"', ["hosts.name", "twice"]),
    ('kind = "h200"', 'kind = "h3"', ["hosts.kind", "h100", "h200", "--hardware"]),
    ('kind = "h200"', 'kindly = "h200"', ["kindly"]),
    ("cores = [2, 3]", "cores = [0, 3]", ["engines.cores", "is given to"]),
    ("cores = [2, 3]", "cores = [2, 300]", ["engines.cores = 300", "cores 0 to 127"]),
    ("gpu = 1\n", "gpu = 9\n", ["engines.gpu = 9", "GPUs 0 to 3"]),
    ('receives = ["239', 'receives = ["238', ["engines.receives", "make the plan again"]),
    ("index = 3\n", 'index = "three"\n', ["engines", "index", "three"]),
]


@pytest.mark.parametrize(("old", "new", "told"), WRONG)
def test_what_is_wrong_is_told(planned, old, new, told):
    changed_text(planned, old, new)
    with pytest.raises(ConfigError) as error:
        read_site(planned, HARDWARE)
    assert all(word in str(error.value) for word in told), str(error.value)


def test_cards_that_would_carry_too_much_and_addresses_of_one_host(planned):
    raw = tomllib.loads(planned.read_text())
    o = load(planned.parent / raw["plan"]["observation"])
    assert not list(problems(PlacementFile.model_validate(raw), o, HARDWARE))
    for engine in raw["engines"]:  # all on one host; cores and GPUs are then used too often as well
        engine["host"] = "node0"
    found = [p for p in problems(PlacementFile.model_validate(raw), o, HARDWARE) if p.key == "hosts.name"]
    assert [p.value for p in found] == ["node0", "node0"] and "Gb/s" in found[0].remedy
    text = (planned.parent / raw["plan"]["observation"]).read_text()
    (start,) = [line for line in text.splitlines() if line.startswith("spectra = ")]
    unicast = parse(text.replace(start, 'spectra = "10.1.2.3:7148"'), str(planned.parent / "other.toml"))
    raw = tomllib.loads(written(unicast, place(unicast, HARDWARE), "h200"))
    (found,) = problems(PlacementFile.model_validate(raw), unicast, HARDWARE)
    assert found.value == "10.1.2.3" and "multicast groups" in found.remedy


def test_units_are_those_that_systemd_takes(planned, tmp_path):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    site = read_site(planned, HARDWARE)
    made = systemd.files(site, *WORDS, user="daemon")
    assert len(made) == len(site.processes) + len(site.hosts)
    for host in site.hosts:
        units = tmp_path / "units" / host
        units.mkdir(parents=True)
        for name, text in made.items():
            if name.startswith(f"{host}/"):
                (units / name.partition("/")[2]).write_text(text)
        paths = sorted(map(str, units.iterdir()))
        command = ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", *paths]
        done = subprocess.run(command, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, ""), host
    broken = units / "ryle-broken.service"
    broken.write_text(made[next(n for n in made if n.endswith(".service"))].replace("CPUAffinity=", "CPUAffinity=x"))
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", str(broken)], capture_output=True, text=True)
    assert "CPU" in done.stderr


def test_manifests_have_what_kubernetes_asks_for(planned):
    """By hand: one object each, names that are DNS labels, labels that select their own pods, volumes that are there."""
    site = read_site(planned, HARDWARE)
    (text,) = kubernetes.files(site, *WORDS, image="site/ryle:1").values()
    first, *rest = json.loads(text)["items"]
    assert first["kind"] == "ConfigMap" and set(first["data"]) == {"array.toml", "meerkat_extension.txt"}
    parse(first["data"]["array.toml"], site.observation.source)
    assert len(rest) == len(site.processes)
    for made, process in zip(rest, site.processes, strict=True):
        name, spec = made["metadata"]["name"], made["spec"]
        assert len(name) <= 63 and name.replace("-", "").isalnum() and name == name.lower()
        pod = spec["template"]["spec"]
        assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"]
        (container,) = pod["containers"]
        assert {m["name"] for m in container["volumeMounts"]} == {v["name"] for v in pod["volumes"]}
        assert pod["nodeSelector"] == {"kubernetes.io/hostname": process.host} and pod["hostNetwork"]
        assert container["command"][1:4] == ["engine", process.engine, "/etc/ryle/array.toml"]
        assert ("nvidia.com/gpu" in container["resources"]["limits"]) == (process.gpu is not None)


def test_a_job_has_a_component_for_each_kind_of_host_and_is_a_script(planned):
    other = HARDWARE.servers["h200"].model_copy(update={"name": "another server"})
    changed_text(planned, 'name = "node1"\nkind = "h200"', 'name = "node1"\nkind = "other"')
    site = read_site(planned, HARDWARE.model_copy(update={"servers": HARDWARE.servers | {"other": other}}))
    (script,) = slurm.files(site, *WORDS, time="1:00:00").values()
    assert script.count("#SBATCH hetjob") == 1 and script.count("#SBATCH --nodelist") == 2
    assert script.count("\nstart ") == len(site.processes)
    assert "for kind in f x catcher" in script
    done = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_two_thousand_antennas_are_planned_and_checked_in_seconds(tmp_path):
    """As 250 F-engines and 256 X-engines; ten seconds are asked for."""
    (tmp_path / "antennas.txt").write_text("".join(f"A{n} {n % 50 * 40} {n // 50 * 40} 0\n" for n in range(2000)))
    path = tmp_path / "large.toml"
    path.write_text(
        """
[observation]
name = "large"
sync_time = "2026-11-20T22:00:00Z"
[array]
name = "LARGE"
location = { latitude = "-30.7 deg", longitude = "21.4 deg", height = "1087 m" }
polarizations = ["x", "y"]
antenna_file = "antennas.txt"
[band]
sample_rate = "500 MHz"
[digitizer]
bits = 8
heap_samples = 4096
[fengine]
channels = 4096
antennas_per_engine = 8
backend = "cuda"
[xengine]
integration = "30 s"
channels_per_substream = 16
backend = "cuda"
[network]
digitizers = "239.10.0.0:7148"
spectra = "239.20.0.0:7148"
visibilities = "10.0.0.1:7148"
"""
    )
    begin = time.monotonic()
    done = CliRunner().invoke(app, ["plan", str(path), "-o", str(tmp_path / "placement.toml")])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.output
    site = read_site(tmp_path / "placement.toml", HARDWARE)
    took = time.monotonic() - begin
    print(f"{took:.1f} s for {len(site.processes)} engines on {len(site.hosts)} hosts")
    assert len(site.processes) == 250 + 256 + 1
    assert took < 10


@pytest.mark.parametrize("to", ["systemd", "slurm", "kubernetes"])
def test_the_command_writes_what_it_says(planned, tmp_path, to):
    out = tmp_path / "made"
    command = [sys.executable, "-m", "ryle", "deploy", str(planned), "--to", to, "-o", str(out), "--ryle", "/opt/ryle"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    files = [p for p in out.rglob("*") if p.is_file()]
    assert f"{len(files)} files" in " ".join(done.stderr.split()) and "/opt/ryle" in "".join(
        p.read_text() for p in files
    )
    changed_text(planned, 'host = "node0"', 'host = "nowhere"')
    done = subprocess.run([*command, "--check"], capture_output=True, text=True)
    assert done.returncode == 2 and "nowhere" in done.stderr
