"""The examples that ship, across four hosts: the files that one host writes, bit for bit."""

import json
import os
import re
import shutil
import subprocess

import pytest

from placements import hosts, plan_of
from rack import BIN, HOSTS, Rack, Ran
from ryle.bench.same_file import differing
from ryle.config import example

pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("ip"), reason="makes network namespaces: root, iproute2"),
    pytest.mark.timeout(1500),
]
NETWORK = """skew = "20 ms"
digitizers = "239.77.5.0:7148"
spectra = "239.77.5.64:{}"
visibilities = "239.77.5.128:7148"
interface = "10.55.0.0/24"
"""


@pytest.fixture(scope="module")
def rack():
    with Rack(memory=16_000_000_000) as made:
        yield made


def demo(text):
    """F-engines on a and b, X-engines on c and d, the catcher on d."""
    places = {"f0": ("a", [0]), "f1": ("b", [0]), "x0": ("c", [0]), "x1": ("d", [0]), "catcher0": ("d", [1])}
    return f"{text}\n[network]\n{NETWORK.format(7148)}", 0.1, places


def paper128(text):
    """Two integrations of the file, 64 times shorter: PAPER's F-engines simulated on a, 16 X-engines on b, c and d."""
    for old, spectra in (("1.34217728", 2**13), ("10.73741824", 2**14), ("42.94967296", 2**15)):
        text = text.replace(f'"{old} s"', f'"{spectra * 10.24e-6:.12g} s"')
    text = re.sub(r'spectra = "127.0.0.1:8511".*\n', NETWORK.format(8511).replace("digitizers", "#"), text)
    places = {f"x{n}": ("bcd"[n % 3], [n // 3]) for n in range(16)} | {"catcher0": ("a", [1])}
    return text, 0.0025, places


@pytest.mark.parametrize("name", ["demo", "paper128"])
def test_the_file_is_that_of_one_host(rack, tmp_path, name):
    there = shutil.copytree(example(name).parent, tmp_path / "examples")
    one = there / f"{name}.toml"
    text, speed, places = {"demo": demo, "paper128": paper128}[name](one.read_text())
    (four := there / "four.toml").write_text(text.replace('speed = "max"', f"speed = {speed}", 1))
    # Short integrations make the catcher's cable too thin, were the signal as fast as the sky; it is slower.
    tables = hosts(**dict.fromkeys(HOSTS, (8, 0))).replace("1e11", "4e11")
    *_, placement = plan_of(four, tmp_path, tables, **places)
    run = Ran(rack, four, placement, tmp_path / "four", "--json", tmp_path / "became.json")
    assert run.wait(900) == 0, run.said()
    became = json.loads((tmp_path / "became.json").read_text())
    assert became["losses"] == 0, became

    # On one host over loopback, as fast as it can; of the example the same stretch.
    if name == "paper128":
        one.write_text(re.sub("visibilities = .*\ninterface = .*\n", "", text.replace("239.77.5.64", "127.0.0.1")))
    subprocess.run([BIN / "ryle", "run", one, "-o", tmp_path / "one"], check=True, env=rack.environment("a"))
    but = {"Header/history", "Ryle/observation"}  # when and where it was, and what the files of the two say
    assert not differing(tmp_path / "four" / f"{name}.uvh5", tmp_path / "one" / f"{name}.uvh5", but)
