"""Units that systemd takes, and that say what the plan says."""

import configparser
import shutil
import signal
import subprocess

import pytest

from ryle.deploy.systemd import units


def written(d, tmp_path):
    for name, text in units(d).items():
        (path := tmp_path / "units" / name).parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "units"


def read(text):
    parser = configparser.ConfigParser(strict=False, interpolation=None, delimiters="=")
    parser.optionxform = str
    parser.read_string(text)
    return {name: dict(parser[name]) for name in parser.sections()}


def verify(*paths):
    return subprocess.run(["systemd-analyze", "verify", "--man=no", *map(str, paths)], capture_output=True, text=True)


verifies = pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is not installed (systemd)")


@verifies
@pytest.mark.parametrize("data", ["/data", '/a "b" $c %d \\e'])
def test_systemd_takes_them(planned, tmp_path, data):
    directory = written(planned(program=shutil.which("true"), data=data, simulate=True), tmp_path)
    for host in ("a", "b"):
        found = verify(*sorted((directory / host).iterdir()))
        assert found.returncode == 0 and not found.stderr, found.stderr


@verifies
@pytest.mark.parametrize(
    "right, wrong",
    [
        ("CPUAffinity=", "CPUAfinity="),
        ("KillSignal=SIGTERM", "KillSignal=SIGEND"),
        ("TimeoutStopSec=150", "TimeoutStopSec=x"),
    ],
)
def test_systemd_would_say_so(planned, tmp_path, right, wrong):
    """What the test before trusts."""
    path = written(planned(program=shutil.which("true")), tmp_path) / "a/ryle-demo-f0.service"
    path.write_text(path.read_text().replace(right, wrong))
    assert wrong.split("=")[0 if "Afinity" in wrong else 1] in verify(path).stderr


def test_what_they_say(planned):
    found = {name: read(text) for name, text in units(planned(simulate=True, data="/data")).items()}
    assert set(found) == {
        "a/ryle-demo.target",
        "a/ryle-demo-f0.service",
        "a/ryle-demo-x0.service",
        "a/ryle-demo-simulate.service",
        "b/ryle-demo.target",
        "b/ryle-demo-x1.service",
        "b/ryle-demo-catcher0.service",
    }
    x = found["b/ryle-demo-x1.service"]
    assert x["Service"]["CPUAffinity"] == "0-1,4" and x["Service"]["LimitMEMLOCK"] == "infinity"
    assert (x["Service"]["NUMAPolicy"], x["Service"]["NUMAMask"]) == ("preferred", "0")
    assert x["Service"]["Restart"] == "on-failure" and float(x["Service"]["RestartSec"]) <= 2
    assert signal.Signals[x["Service"]["KillSignal"]] == signal.SIGTERM
    after = x["Unit"]["After"].split()
    assert {"network-online.target", "time-sync.target", "ryle-demo-catcher0.service"} == set(after)
    # Those that send start after those that receive; systemd ends them the other way round.
    assert "ryle-demo-x0.service" in found["a/ryle-demo-f0.service"]["Unit"]["After"]
    assert "ryle-demo-f0.service" not in found["a/ryle-demo-x0.service"]["Unit"]["After"]
    assert "Restart" not in found["a/ryle-demo-simulate.service"]["Service"]
    wants = found["b/ryle-demo.target"]["Unit"]["Wants"].split()
    assert set(wants) == {"ryle-demo-x1.service", "ryle-demo-catcher0.service"}
