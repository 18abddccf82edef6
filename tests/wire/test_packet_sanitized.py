"""The packet parser under the address and undefined-behaviour sanitizers."""

import shutil
import subprocess
from pathlib import Path

import pytest

import fresh

ROOT = Path(__file__).parents[2]
FLAGS = ["-std=c++20", "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]


def test_random_descriptions_and_packets(tmp_path):
    compiler = shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    empty = tmp_path / "empty.cpp"
    empty.write_text("int main() {}\n")
    if subprocess.run([compiler, *FLAGS, "-o", tmp_path / "empty", empty], capture_output=True).returncode:
        pytest.skip("the compiler has no sanitizers")
    program = tmp_path / "fuzz"
    sources = [ROOT / "native/wire/packets.cpp", Path(__file__).with_name("fuzz_packets.cpp")]
    subprocess.run([compiler, *FLAGS, "-I", ROOT / "native", "-o", program, *sources], check=True, timeout=250)
    seed = str(fresh.seed())
    run = subprocess.run([program, seed], capture_output=True, text=True, timeout=250)
    assert run.returncode == 0, f"seed {seed}: {run.stderr[-4000:]}"
    valid, wrong, refused = (int(n) for n in run.stdout.split())
    assert valid > 1000 and wrong > 1000 and refused > 100  # else it tried nothing
