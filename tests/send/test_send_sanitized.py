"""The packet maker under the address and undefined-behaviour sanitizers."""

import shutil
import subprocess
from pathlib import Path

import pytest

import fresh

ROOT = Path(__file__).parents[2]
FLAGS = ["-std=c++20", "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]


SOURCES = ("wire/packets.cpp", "send/faults.cpp", "send/maker.cpp", "send/payload.cpp")


@pytest.mark.long
def test_random_plans(tmp_path):
    compiler = shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    empty = tmp_path / "empty.cpp"
    empty.write_text("int main() {}\n")
    if subprocess.run([compiler, *FLAGS, "-o", tmp_path / "empty", empty], capture_output=True).returncode:
        pytest.skip("the compiler has no sanitizers")
    program = tmp_path / "fuzz"
    native = ROOT / "native"
    sources = [native / path for path in SOURCES]
    if (
        "X86_64"
        in subprocess.run([compiler, "-dM", "-E", "-"], input="", capture_output=True, text=True).stdout.upper()
    ):
        wide = tmp_path / "wide.o"
        flags = ["-march=x86-64-v4", "-mavx512vbmi", "-c", "-o", wide, native / "send/payload_avx512.cpp"]
        subprocess.run([compiler, *FLAGS, *flags], check=True, timeout=250)
        sources.append(wide)
    main = Path(__file__).with_name("fuzz_send.cpp")
    subprocess.run([compiler, *FLAGS, "-I", native, "-o", program, *sources, main], check=True, timeout=250)
    seed = str(fresh.seed())
    run = subprocess.run([program, seed], capture_output=True, text=True, timeout=250)
    assert run.returncode == 0, f"seed {seed}: {run.stderr[-4000:]}"
    made, faults, refused = (int(n) for n in run.stdout.split())
    assert made > 50_000 and faults > 10_000 and refused < 2000  # else it tried nothing
