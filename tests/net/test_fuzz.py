"""The parser and the assembler under sanitizers on random descriptions, plans and packets (native/fuzz/assembly.cpp)."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SECONDS = float(os.environ.get("RYLE_FUZZ_SECONDS", "60"))  # `make soak` takes longer


@pytest.mark.skipif(shutil.which("make") is None or shutil.which("g++") is None, reason="needs make and g++")
@pytest.mark.timeout(SECONDS + 240)
def test_no_input_breaks_parser_or_assembler(tmp_path):
    target = tmp_path / "assembly"
    subprocess.run(["make", "-s", "-C", ROOT, "fuzz", f"FUZZ={target}"], check=True, timeout=200)
    run = subprocess.run([target, str(SECONDS)], capture_output=True, text=True, timeout=SECONDS + 30)
    assert run.returncode == 0, run.stdout + run.stderr
    reached = {name: int(n) for n, name in re.findall(r"(\d+) (placed|late|duplicate|ring full|resyncs)", run.stdout)}
    assert len(reached) == 5 and min(reached.values()) > 10, run.stdout
