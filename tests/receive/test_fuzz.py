"""The parser and the assembler under sanitizers on random descriptions, plans and packets (native/fuzz/assembly.cpp)."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(shutil.which("make") is None or shutil.which("g++") is None, reason="needs make and g++")
@pytest.mark.long
def test_no_input_breaks_parser_or_assembler(tmp_path):
    seconds = 20  # `make soak` takes longer
    target = tmp_path / "assembly"
    subprocess.run(["make", "-s", "-C", ROOT, "fuzz", f"FUZZ={target}"], check=True, timeout=200)
    run = subprocess.run([target, str(seconds)], capture_output=True, text=True, timeout=seconds + 30)
    assert run.returncode == 0, run.stdout + run.stderr
    reached = {
        name: int(n)
        for n, name in re.findall(r"(\d+) (placed|late|duplicate|ring full|resyncs|valid with items)", run.stdout)
    }
    assert len(reached) == 6 and min(reached.values()) > 10, run.stdout
