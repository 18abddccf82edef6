"""A run over four hosts, each with a node of a real Ray cluster: the file of one host, whatever is killed meanwhile."""

import json
import os
import shutil
import signal
import subprocess
import time

import h5py
import numpy as np
import pytest

from rack import BIN, Rack, Ran, small, until

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("ip"), reason="makes network namespaces: root, iproute2"),
    pytest.mark.timeout(900),
]
#: Seconds in which what was killed must run again.
PROMPTLY = 10.0


@pytest.fixture(scope="module")
def rack():
    with Rack() as made:
        yield made


def file_of(path):
    with h5py.File(path) as file:
        return [file[f"Data/{name}"][()] for name in ("visdata", "flags", "nsamples")] + [file["Header/time_array"][()]]


def said_to(rack, host, *words):
    """What a command of `ryle` on a host says."""
    ran = rack.on(host, BIN / "ryle", *words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    said, _ = ran.communicate(timeout=200)
    assert ran.returncode == 0, said
    return said


@pytest.mark.long
def test_the_file_is_that_of_one_host(rack, tmp_path):
    observation, placement = small(tmp_path, "2 s")
    run = Ran(rack, observation, placement, tmp_path / "four", "--json", tmp_path / "became.json")
    assert run.wait() == 0, run.said()
    assert said_to(rack, "a", "run", observation, "-o", tmp_path / "one")
    four, one = file_of(tmp_path / "four" / "demo.uvh5"), file_of(tmp_path / "one" / "demo.uvh5")
    for ours, theirs in zip(four, one, strict=True):
        assert np.array_equal(ours, theirs)
    assert len(one[0]) >= 6 * 6 and not one[1][:-6].any()  # integrations by baselines; of the last not all was sent
    became = json.loads((tmp_path / "became.json").read_text())
    assert became["losses"] == 0 and became["integrations"] == len(one[0]) // 6, became
    assert all(rack.engine(kind) is None for kind in ("f", "x", "catcher"))


@pytest.mark.soak
def test_engines_are_watched_and_steered_where_the_run_was_started(rack, tmp_path):
    observation, placement = small(tmp_path, speed=0.05)
    run = Ran(rack, observation, placement, tmp_path / "out")
    run.reach(2)
    pages = {page["name"]: page for page in json.loads(said_to(rack, "a", "status", "--json"))}
    there = {name for name in os.listdir(rack.directory / "pages-b") if name.startswith("ryle.")}
    assert len(there) == 1, there
    (f1,) = (name.removeprefix("ryle.") for name in there)
    assert len(pages) >= 6 and pages[f1]["alive"], pages.keys()
    assert pages[f1]["values"]["state"] == "running"
    # A control of an engine on another host, set here: there it is as it was set, and so says the page here.
    key, control = next((k, c) for k, c in pages[f1]["controls"].items() if k == "interval")
    assert control["type"] == "float", control
    said_to(rack, "a", "status", "set", key, "0.7", "--page", f1)
    (there,) = json.loads(said_to(rack, "b", "status", "--json"))
    assert there["values"][key] == 0.7
    until(
        lambda: {p["name"]: p for p in json.loads(said_to(rack, "a", "status", "--json"))}[f1]["values"][key] == 0.7, 20
    )
    run.process.send_signal(signal.SIGINT)  # to the `ip` that became it
    assert run.wait() == 0, run.said()
    assert not list((rack.directory / "pages-a").glob("ryle.*"))


@pytest.mark.long
def test_a_plan_of_hosts_that_are_not_there_is_refused(rack, tmp_path):
    observation, placement = small(tmp_path)
    placement.write_text(placement.read_text().replace('"d"', '"z"'))
    run = Ran(rack, observation, placement, tmp_path / "out")
    assert run.wait(60) == 2, run.said()
    assert "no node of the Ray cluster is z; it has a, b, c, d" in " ".join(run.said().split())
    assert "ryle-host=NAME" in run.said() and "left the cluster" not in run.said()


class Again:
    """Kills a process, and waits for its successor."""

    def __init__(self, rack, run):
        self.rack, self.run = rack, run

    def __call__(self, kind, index=0):
        before = self.rack.engine(kind, index)
        os.kill(before, signal.SIGKILL)
        killed = time.monotonic()
        until(lambda: self.rack.engine(kind, index) not in (None, before), PROMPTLY, self.run.said)
        print(f"{kind} {index} runs again after {time.monotonic() - killed:.1f} s")


@pytest.mark.soak
def test_whatever_is_killed_the_run_goes_on(rack, tmp_path):
    observation, placement = small(tmp_path, "14 s", 0.05)
    arguments = (rack, observation, placement, tmp_path / "out")
    run = Ran(*arguments, "--json", tmp_path / "became.json")
    again = Again(rack, run)
    run.reach(3)
    again("x", 1)
    run.reach(run.integrations() + 5)
    again("f", 1)
    run.reach(run.integrations() + 4)
    again("catcher")
    run.hear("starts again")
    time.sleep(12)
    # A node of Ray's: what it kept goes on, and is taken up again.
    x0 = rack.engine("x")
    rack.kill_node("c")
    run.hear("its keeper at c does not answer")
    rack.start_node("c")
    run.hear("it runs already, and was taken up as it is")
    assert rack.engine("x") == x0
    # A cable, for 5 s.
    rack.link("b", False)
    time.sleep(5)
    rack.link("b", True)
    time.sleep(5)
    # The command that watches: the next one finds all engines.
    engines = [rack.engine(*e) for e in (("f", 0), ("f", 1), ("x", 0), ("x", 1), ("catcher", 0))]
    assert None not in engines
    run.process.kill()
    run.wait()
    run = Ran(*arguments, "--json", tmp_path / "became.json")
    run.hear("6 engines run already")
    time.sleep(5)
    assert engines == [rack.engine(*e) for e in (("f", 0), ("f", 1), ("x", 0), ("x", 1), ("catcher", 0))]
    # The head, with all that Ray knows.
    rack.kill_node("a")
    assert run.wait(90) == 1 and "engines go on without it" in " ".join(run.said().split()), run.said()
    for host in "bcd":
        rack.kill_node(host)
    for host in "abcd":
        rack.start_node(host)
    assert engines == [rack.engine(*e) for e in (("f", 0), ("f", 1), ("x", 0), ("x", 1), ("catcher", 0))]
    run = Ran(*arguments, "--json", tmp_path / "became.json")
    run.hear("it runs already", 90)
    assert run.wait() == 0, run.said()
    assert not any(rack.engine(*e) for e in (("f", 0), ("f", 1), ("x", 0), ("x", 1), ("catcher", 0)))
    first, second = (file_of(tmp_path / "out" / f"demo{end}.uvh5") for end in ("", "-2"))
    times = np.concatenate([np.unique(first[-1]), np.unique(second[-1])])
    assert np.all(np.diff(times) > 0)
    assert (np.diff(times) < 10 * 0.25 / 86400 / 0.05).all()


@pytest.mark.soak
def test_a_spare_host_takes_over_what_a_lost_one_had(rack, tmp_path):
    observation, placement = small(tmp_path, "6 s", 0.05)
    run = Ran(rack, observation, placement, tmp_path / "out")
    run.reach(2)
    rack.end("c")  # its power
    rack.start_node("c", label="spare")
    begun = time.monotonic()
    until(lambda: rack.engine("x") is not None, 3 * PROMPTLY, run.said)
    print(f"X 0 runs on the spare host {time.monotonic() - begun:.1f} s after that was there")
    assert run.wait() == 0, run.said()
    flags = file_of(tmp_path / "out" / "demo.uvh5")[1].reshape(-1, 6, 256, 4)
    assert not flags[:-1, :, 128:].any() and flags[:, :, :128].any() and not flags[0].any() and not flags[-2].any()
