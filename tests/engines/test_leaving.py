"""A process that ends while engines in it run."""

import subprocess
import sys

import pytest

from ports import free_ports

PROGRAM = """
from ryle.bench.one_engine import OneEngine
from ryle.engines.{kind} import {kind}_engine

made = {kind}_engine(OneEngine("{kind}", port={port}).observation, 0)
engine = made[0] if isinstance(made, tuple) else made
engine.start()
print("leaving")
"""


@pytest.mark.parametrize("kind", ["f", "x"])
def test_python_ends_without_an_abort(kind):
    """A thread that came back from native code into Python that has ended would abort the process (134)."""
    program = PROGRAM.format(kind=kind, port=free_ports(24))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "leaving\n", "")
