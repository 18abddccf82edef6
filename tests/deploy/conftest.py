"""An observation of four engines on two kinds of host, with groups on the network."""

from pathlib import Path

import pytest

from placements import hosts, plan_of
from ports import free_ports
from ryle.deploy.processes import deployment

SMALL = Path(__file__).parents[1] / "small.toml"


@pytest.fixture
def small(tmp_path):
    """Its file: one F-engine, two X-engines, one catcher; a second and a half of signal."""

    def write(change=lambda text: text):
        text = SMALL.read_text().replace('"4 s"', '"1.6 s"').replace('speed = "max"', "speed = 0.1")
        text = text.replace("taps = 8", "taps = 8\nantennas_per_engine = 3")
        text += (
            f'\n[network]\ndigitizers = "239.77.5.0:{free_ports(1)}"\nspectra = "239.77.5.32:{free_ports(1)}"\n'
            f'visibilities = "239.77.5.64:{free_ports(1)}"\ninterface = "127.0.0.1"\n'
        )
        (path := tmp_path / "small.toml").write_text(change(text))
        return path

    return write


@pytest.fixture
def planned(small, tmp_path):
    """Its plan, on hosts a and b."""

    def plan(change=lambda text: text, gpus=(), cores=None, **options):
        f, x = (gpus or ((), ()))[:2]
        places = {
            "f0": ("a", [0], *f),
            "x0": ("a", [1], *x),
            "x1": ("b", [0, 1, 4]),
            "catcher0": ("b", [2, 3]),
        }
        places |= {name: (places[name][0], its) for name, its in (cores or {}).items()}
        read, o, path = plan_of(small(change), tmp_path, hosts(a=(2, 2), b=(5, 0)), **places)
        return deployment(read, o, path, **options)

    return plan
