"""The recorder's threads under the thread sanitizer, and whole packets in its files."""

import shutil
import subprocess
from pathlib import Path

import pytest

from ryle.receive.pcap import PcapFile

ROOT = Path(__file__).parents[2]
FLAGS = ["-std=c++20", "-O1", "-g", "-fsanitize=thread", "-pthread", "-I", ROOT / "native"]


def test_threads(tmp_path):
    compiler = shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    program, main = tmp_path / "threads", Path(__file__).with_name("recorder_threads.cpp")
    sources = [main, ROOT / "native/receive/recorder.cpp"]
    built = subprocess.run([compiler, *FLAGS, "-o", program, *sources], capture_output=True, text=True, timeout=250)
    if "tsan" in built.stderr:
        pytest.skip("the compiler has no thread sanitizer")
    assert built.returncode == 0, built.stderr
    files = tmp_path / "files"
    files.mkdir()
    run = subprocess.run(
        [program, files], capture_output=True, text=True, timeout=250, env={"TSAN_OPTIONS": "exitcode=9"}
    )
    if "unexpected memory mapping" in run.stderr:
        pytest.skip("the thread sanitizer does not run with this kernel")
    assert run.returncode == 0, run.stderr
    for number, line in enumerate(run.stdout.splitlines()):
        packets, unrecorded, nbytes, passed = (int(n) for n in line.split())
        assert packets + unrecorded == passed == 3000 and packets > 100
        paths = sorted(files.glob(f"{number}-*.pcap"))
        raw = [p.read_bytes() for p in paths]
        assert sum(map(len, raw)) == nbytes
        assert sum(PcapFile(p).account.cut for p in paths) == 0
        found = 0
        for data in raw:
            at = 24
            while at < len(data):
                size = int.from_bytes(data[at + 8 : at + 12], "little")
                head = 42 if data[at + 16 + 14 + 2 : at + 16 + 14 + 4] != bytes(2) else 62
                body = data[at + 16 + head : at + 16 + size]
                assert len(set(body)) <= 1  # one thread's packet
                at, found = at + 16 + size, found + 1
            assert at == len(data)
        assert found == packets
