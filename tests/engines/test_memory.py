"""Memory stays flat however long a run is."""

import os
import subprocess
import sys
import time
from pathlib import Path

import h5py
import pytest

PAGE = os.sysconf("SC_PAGE_SIZE")
STEP, LENGTH, COUNT = 2 * 256, 1024, 120


@pytest.mark.long
def test_flat_over_a_long_run(observation_text, tmp_path):
    """Resident memory while the last fifth of the file is written is that of the first fifth, nearly."""
    file, path = tmp_path / "small.toml", tmp_path / "small.uvh5"
    seconds = COUNT * LENGTH * STEP / 2_000_000
    text = observation_text(
        channels=256, heap_samples=2048, integration_spectra=LENGTH, duration=seconds, simulate='replay = "0.2 s"'
    )
    file.write_text(text)
    sizes = []
    command = [sys.executable, "-m", "ryle", "run", "--in-process", str(file), "--output", str(tmp_path)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        while process.poll() is None:
            try:
                resident = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1]) * PAGE
            except (OSError, IndexError):  # it has just ended
                break
            if path.exists():
                sizes.append((path.stat().st_size, resident))
            time.sleep(0.02)
        assert process.wait() == 0, process.stderr.read()
    with h5py.File(path) as written:
        assert written["Header/Ntimes"][()] in (COUNT, COUNT + 1)
    end = path.stat().st_size
    header = min(size for size, _ in sizes)
    early = max(memory for size, memory in sizes if header < size < 0.2 * end)
    late = max(memory for size, memory in sizes if size > 0.8 * end and memory)
    samples = int(6 * 0.6 * seconds * 2_000_000)  # bytes, 8 bits each
    print(f"{early >> 20} MiB early, {late >> 20} MiB late; {samples >> 20} MiB of samples between")
    assert late - early < min(16 << 20, 0.05 * samples)
