"""PAPER end to end on this machine: 16 simulated F-engines, 16 X-engines and the catcher as processes over UDP.

    python -m ryle.bench.paper --signal 1.34217728 --json paper.json

How long a stretch of the shipped example ``paper128`` takes, at what rate packets pass, and whether the file holds
all of it. With `--signal 42.94967296` it is the example as it is shipped.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import tempfile
import time
from pathlib import Path

import h5py
from rich.console import Console

from ryle.config import example, load
from ryle.engines.deliver import deliver
from ryle.engines.run import run_processes


def shortened(directory: Path, seconds: str) -> Path:
    """Write the example with this much signal: one integration of the file, or whole ones of its own length."""
    text = example("paper128").read_text()
    if float(seconds) < 10.73741824:
        eighth = f"{float(seconds) / 8:.12g}"
        text = text.replace('integration = "1.34217728 s"', f'integration = "{eighth} s"')
        text = text.replace('integration = "10.73741824 s"', f'integration = "{seconds} s"')
    text = text.replace('duration = "42.94967296 s"', f'duration = "{seconds} s"')
    shutil.copy(example("paper128").with_suffix(".txt"), directory)
    path = directory / "paper128.toml"
    path.write_text(text)
    return path


def main() -> None:
    """Run it and say how it went."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--signal", default="1.34217728", help="s of signal, a power of two of 10.24 us")
    arguments.add_argument("--json", type=Path, help="write the figures here")
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as place:
        observation = load(shortened(Path(place), options.signal))
        console = Console()
        began = time.monotonic()
        result = run_processes(observation, Path(place) / "out", console=console)
        ran = time.monotonic() - began
        deliver(observation, result.file, console)
        x = [result.accounts[f"X {i}"] for i in range(observation.substreams)]
        with h5py.File(result.file) as file:
            least = float(file["Data/nsamples"][()].min())
    payload = sum(a["placed"] for a in x) * 8192 * 8
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    figures = {
        "signal_s": float(options.signal),
        "run_s": round(ran, 1),
        "processor_s": round(used.ru_utime + used.ru_stime, 1),
        "cores": os.cpu_count(),
        "load_after": os.getloadavg()[0],
        "payload_gbit": payload / 1e9,
        "gbps": payload / ran / 1e9,
        "packets_missing": sum(a["missing"] for a in x),
        "integrations": result.integrations,
        "least_nsamples": least,
    }
    console.print(figures)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
