"""Runs as processes, in real time, while something happens to them: what is in their files."""

import itertools
import math
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import h5py

from ports import free_ports
from ryle.monitor.page import read_pages
from ryle.receive.windows import window_shape
from ryle.serve.telescope import Telescope

SMALL = (Path(__file__).parent / "small.toml").read_text()
SECONDS = 6


def observation(directory, fx=False, backend="cpu", **other):
    """Three antennas in real time, two of them in one F-engine and one in another, or all in one of FX."""
    text = SMALL.replace('speed = "max"', "speed = 1.0").replace('duration = "4 s"', f'duration = "{SECONDS} s"')
    text = text.replace('sample_rate = "8 MHz"', 'sample_rate = "1 MHz"')
    text = text.replace("taps = 8", 'taps = 8\nmax_delay = "50 us"' + ("" if fx else "\nantennas_per_engine = 2"))
    if fx:
        text = text.replace("channels_per_substream = 128\n", "")
    for key, value in other.items():
        text, count = re.subn(f'^{key} = ".*"$', f'{key} = "{value}"', text, flags=re.MULTILINE)
        assert count == 1
    network = "".join(
        f'{what} = "127.0.0.1:{free_ports(count)}"\n'
        for what, count in (("digitizers", 3), ("spectra", 2), ("visibilities", 1), ("statistics", 1))
    )
    path = directory / "o.toml"
    on = f'backend = "{backend}"\n'
    if fx:
        text += f"\n[fx]\n{on}"
    else:
        text = text.replace("[fengine]\n", f"[fengine]\n{on}").replace("[xengine]\n", f"[xengine]\n{on}")
    path.write_text(f"{text}\n[network]\n{network}\n[output]\npictures = false\n")
    return path


_PLAIN = {}  # what runs gave in which nothing happened: it is the same each time


def runs(tmp_path, monkeypatch, steady, backend="cpu"):
    """Give what runs it on a backend, lets something happen meanwhile, and gives the visibilities.

    In real time: `steady` has it done again where the machine stood still, and what was to happen came too late or packets
    were lost.
    """

    def one(name, meanwhile=None, fx=False, **other):
        if meanwhile is None:
            if (known := (backend, fx, *sorted(other.items()))) not in _PLAIN:
                _PLAIN[known] = one(name, lambda telescope: None, fx, **other)
            return _PLAIN[known]
        tries = itertools.count()
        return steady(lambda: once(f"{name}-{next(tries)}", meanwhile, fx, **other))

    def once(name, meanwhile, fx, **other):
        pages, out = tmp_path / f"pages-{name}", tmp_path / name
        pages.mkdir()
        out.mkdir()
        monkeypatch.setenv("RYLE_STATUS_DIR", str(pages))
        path = observation(out, fx, backend, **other)
        command = [sys.executable, "-m", "ryle", "run", str(path), "--output", str(out)]
        with (out / "said").open("w") as said:
            process = subprocess.Popen(command, stdout=said, stderr=said, env=os.environ | {"COLUMNS": "200"})
        try:
            end = time.monotonic() + 60
            names = ["fx0"] if fx else ["f0", "f1"]
            while not all(positions := [p.values.get("position") for p in read_pages() if p.name in names]) or (
                len(positions) < len(names)
            ):
                assert time.monotonic() < end and process.poll() is None, (out / "said").read_text()
                time.sleep(0.02)
            with Telescope("demo") as telescope:
                found = meanwhile(telescope)
            assert process.wait(150) == 0, (out / "said").read_text()
        finally:
            process.kill()
            process.wait()
        check_whole(out)
        data, inputs = visibilities(out / "demo.uvh5")
        return data, inputs, found, out

    return one


def check_whole(directory):
    """Nothing is missing in the files of scans; the last may lack something at its end."""
    files = []
    for path in directory.glob("*.uvh5"):
        with h5py.File(path) as file:
            files.append((file["Ryle/first_spectrum"][0], file["Header/Ntimes"][()], path))
    *others, (_, count, last) = sorted(files)
    for *_, path in others:
        visibilities(path, 0)
    visibilities(last, min(2, count - 1))


def visibilities(path, last=2):
    """Give what is in a file, by integration and baseline, and the antennas of these; the last few may lack something."""
    with h5py.File(path) as file:
        data, counts = file["Data/visdata"][...], file["Data/nsamples"][...]
        inputs = [file[f"Header/ant_{n}_array"][...] - 1 for n in (1, 2)]
    assert counts[: len(counts) - last * 6].min() == 1.0, "packets were lost"
    return data.reshape(-1, 6, *data.shape[1:]), [i[:6].tolist() for i in inputs]


def boundary(o, seconds):
    """Give the first sample after so many seconds with which an integration begins, and a batch."""
    unit = math.lcm(o.integration_spectra, window_shape(o).batch) * o.step
    return math.ceil(seconds * float(o.sample_rate) / unit) * unit
