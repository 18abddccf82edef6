"""An engine runs on its cores, with its memory near; what there is not is said before it starts."""

import json
import os
import subprocess
import sys

import pytest

from ryle.config import ConfigError, changed
from ryle.engines import places

HERE = sorted(os.sched_getaffinity(0))


@pytest.fixture
def system(tmp_path, monkeypatch):
    """A computer of two nodes: a GPU and a DPDK device near one, an interface near the other."""
    files = {
        "devices/system/node/node0/cpulist": "0-3\n",
        "devices/system/node/node1/cpulist": "4-5,8\n",
        "bus/pci/devices/0000:41:00.0/numa_node": "1\n",
        "bus/pci/devices/0000:42:00.0/numa_node": "-1\n",
        "class/net/eth1/device/numa_node": "0\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(places, "_SYSTEM", tmp_path)
    monkeypatch.setattr(places, "pci_address", lambda *number: f"0000:4{1 + sum(number)}:00.0")


def test_the_node_of_what_it_uses(system, observe):
    o = observe(antennas=2)

    def node(engine="f", **tables):
        return places.node_of(changed(o, **tables), engine)

    auto, ring = {"numa": "auto"}, {"by": "packet_ring", "device": "eth1"}
    assert node() is None and node(fengine=auto) is None and node(fengine={"numa": 1}) == 1
    assert node(fengine=auto | {"backend": "cuda"}) == 1
    assert node(fengine=auto | {"backend": "cuda", "gpus": [1], "receive": ring}) == 0  # whose node is not known
    assert node(fengine=auto | {"receive": ring}) == 0
    assert node(fengine=auto | {"receive": {"by": "dpdk", "device": "0000:41:00.0,x=1"}}) == 1
    assert node("catcher", catcher=auto | {"cores": ["8,5"]}) == 1
    assert places.nodes() == [0, 1] and places.cores_of_node(1) == [4, 5, 8]


def test_what_there_is_not(system, observe):
    o = observe(antennas=2)
    for tables, told in (
        ({"cores": [1000]}, r"fengine.cores = .1000.\n.*may use the cores"),
        ({"numa": 7}, r"fengine.numa = 7\n.*nodes 0-1"),
    ):
        with pytest.raises(ConfigError, match=told):
            places.settle(changed(o, fengine=tables), "f")


def test_an_engine_goes_there(observe, tmp_path):
    """All its threads, those of before too; receiving ones have the first core."""
    if len(HERE) < 2:
        pytest.skip("needs two cores")
    first, second = HERE[:2]
    program = (
        "import os, sys, threading, time\n"
        "from ryle.config import load\nfrom ryle.engines.places import settle\n"
        "threading.Thread(target=time.sleep, args=(5,), daemon=True).start()\n"
        "o = load(sys.argv[1])\nsettle(o, 'f', 1)\n"
        "print([sorted(os.sched_getaffinity(int(t))) for t in os.listdir('/proc/self/task')])\n"
        "print(o.receive('f', 1).cores, o.receive('f', 0).cores)\n"
    )
    o = observe(antennas=2)
    text = o.text.replace("[fengine]", f'[fengine]\ncores = [{first}, "{first},{second}"]')
    file = tmp_path / "o.toml"
    file.write_text(text)
    done = subprocess.run([sys.executable, "-c", program, str(file)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    places_of, receiving = done.stdout.strip().splitlines()[-2:]
    assert set(map(tuple, json.loads(places_of))) == {(second,)} and receiving == f"[{first}] [{first}]"


def test_memory_is_asked_for_nearby(system, observe, monkeypatch, capsys):
    asked = []
    monkeypatch.setattr(places, "_prefer", lambda node: asked.append(node) or "not permitted")
    monkeypatch.setattr(places.os, "sched_setaffinity", lambda task, cores: asked.append(list(cores)))
    monkeypatch.setattr(places.os, "sched_getaffinity", lambda task: set(range(16)))
    places.settle(changed(observe(antennas=2), fengine={"numa": 1}), "f")
    assert asked[-1] == 1 and all(cores == [4, 5, 8] for cores in asked[:-1])
    assert "does not let a process choose its memory (not permitted)" in capsys.readouterr().err


def test_the_system_takes_the_request():
    """Node 0 is there everywhere; a container may refuse."""
    program = "from ryle.engines.places import _prefer\nprint(_prefer(0), _prefer(1000))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    first, absent = done.stdout.split(" ", 1)
    assert absent.strip() != "None"
    if first != "None":
        pytest.skip(f"the system refuses: {done.stdout}")


def test_ranges():
    assert places.ranges([8, 0, 1, 2]) == "0-2, 8" and places.ranges([]) == ""
