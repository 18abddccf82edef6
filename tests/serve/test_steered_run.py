"""Gains and delays that are changed in the middle of a run: the file shows them from the promised sample on, and only there."""

import math
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import h5py
import numpy as np
import pytest

from ports import free_ports
from ryle.cli import load
from ryle.monitor.control import ControlClient
from ryle.monitor.page import read_pages
from ryle.receive.windows import window_shape
from ryle.serve.telescope import SteeringError, Telescope

SMALL = (Path(__file__).parents[1] / "small.toml").read_text()
SECONDS = 6


def observation(directory):
    """Three antennas in real time, two of them in one F-engine and one in another."""
    text = SMALL.replace('speed = "max"', "speed = 1.0").replace('duration = "4 s"', f'duration = "{SECONDS} s"')
    text = text.replace('sample_rate = "8 MHz"', 'sample_rate = "1 MHz"')
    text = text.replace("taps = 8", 'taps = 8\nantennas_per_engine = 2\nmax_delay = "50 us"')
    network = "".join(
        f'{what} = "127.0.0.1:{free_ports(count)}"\n'
        for what, count in (("digitizers", 3), ("spectra", 2), ("visibilities", 1), ("statistics", 1))
    )
    path = directory / "o.toml"
    path.write_text(f"{text}\n[network]\n{network}\n[output]\npictures = false\n")
    return path


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run it, and let something happen meanwhile; give the visibilities."""

    def one(name, meanwhile=lambda telescope: None):
        pages, out = tmp_path / f"pages-{name}", tmp_path / name
        pages.mkdir()
        out.mkdir()
        monkeypatch.setenv("RYLE_STATUS_DIR", str(pages))
        path = observation(out)
        command = [sys.executable, "-m", "ryle", "run", str(path), "--output", str(out)]
        with (out / "said").open("w") as said:
            process = subprocess.Popen(command, stdout=said, stderr=said, env=os.environ | {"COLUMNS": "200"})
        try:
            end = time.monotonic() + 60
            while not all(positions := [p.values.get("position") for p in read_pages() if p.name in ("f0", "f1")]) or (
                len(positions) < 2
            ):
                assert time.monotonic() < end and process.poll() is None, (out / "said").read_text()
                time.sleep(0.02)
            with Telescope("demo") as telescope:
                found = meanwhile(telescope)
            assert process.wait(90) == 0, (out / "said").read_text()
        finally:
            process.kill()
            process.wait()
        with h5py.File(out / "demo.uvh5") as file:
            data, counts = file["Data/visdata"][...], file["Data/nsamples"][...]
            inputs = [file[f"Header/ant_{n}_array"][...] - 1 for n in (1, 2)]
        assert counts[: -2 * 6].min() == 1.0, "packets were lost"
        return data.reshape(-1, 6, *data.shape[1:]), [i[:6].tolist() for i in inputs], found, out

    return one


def command(arguments):
    """Do what ``ryle control`` does, without the seconds that a process takes to start."""
    load("control").main(arguments, standalone_mode=False)


def test_the_file_shows_it_from_the_promised_sample_on_and_nowhere_else(run):
    o = None

    def steer(seconds, by_command):
        def meanwhile(telescope):
            nonlocal o
            o = telescope.observation
            unit = math.lcm(o.integration_spectra, window_shape(o).batch) * o.step
            sample = math.ceil(seconds * float(o.sample_rate) / unit) * unit
            for wrong, told in [
                (lambda: telescope.set_gains(np.nan), "finite"),
                (lambda: telescope.set_gains(2.0, ["A7"]), "no input 'A7': there are A0 x, A0 y"),
                (lambda: telescope.set_delays([1.0, 0, 0, 0], ["A1"]), r"beyond fengine\.max_delay"),
                (lambda: telescope.set_delays([0, 0, math.inf, 0], ["A1"]), "finite"),
                (lambda: telescope.set_delays([0, 2.0, 0, 0], ["A1"]), "less than 1"),
                (lambda: telescope.set_gains(2.0, ["A0 x"], 0), "late: sample 0 has passed"),
                (lambda: telescope.set_gains(2.0, None, 0), "late: sample 0 has passed"),
            ]:
                with pytest.raises(SteeringError, match=told):
                    wrong()
            if by_command:
                command(["gains", "2@90", "--input", "A1 y", "--at", str(sample)])
                command(["delays", "0.5 us", "--phase", "60", "--input", "A2", "--at", str(sample)])
                return sample
            change = telescope.set_gains(2j, ["A1 y"], sample)
            assert change.sample == sample and change.engines == {"f0": sample}
            assert telescope.set_delays([0.5e-6, 0, math.pi / 3, 0], ["A2"], sample).sample == sample
            return sample

        return meanwhile

    # Import all that the command needs, now.
    with pytest.raises(SteeringError, match="no observation called none"):
        command(["gains", "1", "--observation", "none"])
    plain, (first, second), _, _ = run("plain")
    early, _, low, _ = run("early", steer(2.5, False))
    late, _, high, _ = run("late", steer(4.0, True))
    length = o.integration_spectra * o.step
    low, high = low // length, high // length
    assert 0 < low < high < len(plain) - 1
    last = min(len(plain), len(early), len(late)) - 1  # which is not whole

    for i in range(6):
        a, b = first[i], second[i]
        for p, (one, two) in enumerate([(0, 0), (1, 1), (0, 1), (1, 0)]):
            mine = [early[:last, i, ..., p], late[:last, i, ..., p], plain[:last, i, ..., p]]
            changed = {a * 2 + one, b * 2 + two} & {3, 4, 5}
            np.testing.assert_array_equal(mine[0][:low], mine[2][:low])
            np.testing.assert_array_equal(mine[1][:high], mine[2][:high])
            if not changed:
                np.testing.assert_array_equal(mine[0], mine[2])
                np.testing.assert_array_equal(mine[1], mine[2])
                continue
            # From the later of the two changes on, it is the same whenever the change was made.
            np.testing.assert_array_equal(mine[0][high:], mine[1][high:])
            if {a * 2 + one, b * 2 + two} == {3}:  # what was multiplied by 2j, to quantization's noise
                ratio = np.median(mine[0][low:].real / mine[2][low:].real)
                assert abs(ratio - 4) < 0.15  # quantization adds the same noise to both
            elif a != b:
                assert (np.abs(mine[0][low:] - mine[2][low:]).max(axis=-1) > 0).all()


def test_as_soon_as_can_be(run):
    """Changes without a time hold for all engines from one sample on, which has not passed."""

    def meanwhile(telescope):
        (page,) = [p for p in read_pages() if p.name == "f1"]
        count = 5000

        def ask():
            begin = time.monotonic()
            for n in range(count):
                time.sleep(max(0.0, begin + n / 2500 - time.monotonic()))
                if n % 2:
                    client.ask("gains", {"gains": 1.0 + n / count, "inputs": [4 + n // 2 % 2]})
                else:
                    client.ask("delays", {"models": [1e-9 * (n % 97), 0, 0, 0], "inputs": [4 + n // 2 % 2]})

        with ControlClient(page) as client:  # 2500 changes a second cost no packet, as `run` sees
            threading.Thread(target=ask).start()
            samples = [client.answer()["sample"] for _ in range(count)]
        assert samples[::2] == sorted(samples[::2]) and samples[1::2] == sorted(samples[1::2])
        told = [telescope.set_gains(0.0, ["A0", "A2"]), telescope.set_gains(0.0, ["A1 x"])]
        assert set(told[0].engines) == {"f0", "f1"} and len(set(told[0].engines.values())) == 1
        o = telescope.observation
        return [t.sample / (o.integration_spectra * o.step) for t in told]

    data, (first, second), (all_of_them, one), _ = run("soon", meanwhile)
    autos = [i for i in range(6) if first[i] == second[i]]
    for i in autos:
        for p in range(2):
            since = {0: all_of_them, 2: all_of_them, 1: one if p == 0 else 1e9}[first[i]]
            power = data[:-1, i, ..., p].real.sum(axis=-1)
            assert (power[: math.floor(since)] > 0).all()
            after = power[math.ceil(since) :]
            # Dither alone is left: a quarter of a step of noise in each part at most.
            assert (after < 0.01 * power[0]).all() and (len(after) > 3 or since == 1e9)
