"""Triggers in whole runs: what was written is what the simulator sent, and correlates to what the run itself made."""

import itertools
import os
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

import h5py
import numpy as np
import pytest
from rich.console import Console

from ports import free_ports
from ryle.cli import load as load_command
from ryle.config import ConfigError, load
from ryle.engines.chunk_recordings import ChunkRecordings
from ryle.engines.look import look
from ryle.engines.offline import correlate
from ryle.monitor.page import read_pages
from ryle.serve.telescope import SteeringError, Telescope
from ryle.serve.trigger import trigger
from ryle.simulate import VoltageSimulator
from ryle.store.chunk_file import ChunkFile

SMALL = (Path(__file__).parents[1] / "small.toml").read_text()
#: Of signal, in real time: seconds of the run, before which nothing is asked for, that are kept, and of what is asked for.
#: Whoever asks may be two seconds late, for what has passed as for what is still being written.
WHOLE, FIRST, KEPT, FROM, LONG = 8, 2.5, 4, 1.9, 3.2


def observation(directory, fx):
    """Three antennas in real time: F-engines of two and of one, or FX."""
    text = SMALL.replace('speed = "max"', "speed = 1.0").replace('duration = "4 s"', f'duration = "{WHOLE} s"')
    text = text.replace('sample_rate = "8 MHz"', 'sample_rate = "1 MHz"')
    if fx:
        text = text.replace("channels_per_substream = 128\n", "") + "\n[fx]\n"
    text = text.replace(
        "taps = 8", f'taps = 8\nbatch = 128\nhistory = "{KEPT} s"\nantennas_per_engine = {3 if fx else 2}'
    )
    network = "".join(
        f'{what} = "127.0.0.1:{free_ports(count)}"\n'
        for what, count in (("digitizers", 3), ("spectra", 2), ("visibilities", 1), ("statistics", 1))
    )
    path = directory / "o.toml"
    path.write_text(f"{text}\n[network]\n{network}\n[output]\npictures = false\n")
    return path


def visibilities(path):
    """First spectrum of each integration, and its data and share."""
    with h5py.File(path) as file:
        firsts = file["Ryle/first_spectrum"][...]
        data, counts = (file[f"Data/{name}"][...] for name in ("visdata", "nsamples"))
    shape = len(firsts), -1, *data.shape[1:]
    return {int(f): (d, c) for f, d, c in zip(firsts, data.reshape(shape), counts.reshape(shape), strict=True)}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("fx", [False, True], ids=["f", "fx"])
def test_a_run_is_triggered(tmp_path, monkeypatch, capsys, steady, fx):
    tries = itertools.count()

    def body():
        (directory := tmp_path / str(next(tries))).mkdir()
        check_a_run(directory, monkeypatch, capsys, fx)

    steady(body)


def check_a_run(tmp_path, monkeypatch, capsys, fx):
    pages, out = tmp_path / "pages", tmp_path / "out"
    pages.mkdir()
    out.mkdir()
    monkeypatch.setenv("RYLE_STATUS_DIR", str(pages))
    path = observation(tmp_path, fx)
    o = load(path)
    command = [sys.executable, "-m", "ryle", "run", str(path), "--output", str(out)]
    with (out / "said").open("w") as said:
        process = subprocess.Popen(command, stdout=said, stderr=said, env=os.environ | {"COLUMNS": "200"})
    names, told = (["fx0"] if fx else ["f0", "f1"]), {}
    try:
        end = time.monotonic() + 60

        def engines():
            assert time.monotonic() < end and process.poll() is None, (out / "said").read_text()
            time.sleep(0.05)
            return {p.name: p for p in read_pages() if p.name in names}

        while len(found := engines()) < len(names) or any(
            (p.values.get("held_to") or 0) < FIRST * float(o.sample_rate) for p in found.values()
        ):
            pass
        sample = int(FROM * float(o.sample_rate))
        if fx:
            arguments = ["trigger", "--at", str(sample), "--seconds", f"{LONG} s", "--name", "frb"]
            load_command("control").main(arguments, standalone_mode=False)
            rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()[1:]]
            told = {name: {"sample": int(first), "end": int(last), "file": file} for name, first, last, file in rows}
        else:
            with Telescope("demo") as telescope:
                done = trigger(telescope, sample=sample, seconds=LONG, name="frb")
                told = {name: asdict(written) for name, written in done.engines.items()}
                assert done.sample == max(t["sample"] for t in told.values())
                with pytest.raises(SteeringError, match=r"is still (being written|writing)"):
                    trigger(telescope, seconds=1.0)
        while any((p.values["trigger"] or {}).get("state") != "done" for p in engines().values()):
            pass
        last = {name: page.values["trigger"] for name, page in engines().items()}
        assert process.wait(60) == 0, (out / "said").read_text()
    finally:
        process.kill()
        process.wait()
    files = [Path(t["file"]) for t in told.values()]
    assert [f.parent for f in files] == [out] * len(files) and all(f.name.startswith("demo.frb.f") for f in files)
    assert all(page["lost"] == 0 and page["failure"] == "" for page in last.values()), last

    # What the simulator sent, bit for bit, from the promised sample on.
    heap, simulator = o.digitizer.heap_samples, VoltageSimulator(load(path))
    sent = simulator.chunk(0, int(WHOLE * float(o.sample_rate)) // heap * heap)
    at = 0
    for answer, file in zip(told.values(), map(ChunkFile, files), strict=True):
        span = file.layout.packets * heap
        assert sample - span < answer["sample"] <= sample < sample + LONG * float(o.sample_rate) <= answer["end"]
        assert [c.timestamp for c in file] == list(range(answer["sample"], answer["end"], file.layout.packets * heap))
        inputs = slice(at, at + len(file.layout.heads))
        at = inputs.stop
        for chunk in file:
            first = chunk.timestamp // heap
            assert chunk.present.all()
            np.testing.assert_array_equal(chunk.data, sent.data[inputs, first : first + file.layout.packets])
    assert at == o.n_inputs

    # Integrations that lie wholly inside are those of the run.
    (result,) = correlate(o, files, tmp_path / "again", Console(file=(tmp_path / "told").open("w")), live=True)
    live, again = visibilities(out / "demo.uvh5"), visibilities(result.file)
    first, stop = max(t["sample"] for t in told.values()), min(t["end"] for t in told.values())
    whole = [f for f in again if f * o.step >= first and (f + o.integration_spectra + 8) * o.step <= stop]
    assert len(whole) >= 4
    for f in whole:
        np.testing.assert_array_equal(again[f][0], live[f][0])
        np.testing.assert_array_equal(again[f][1], live[f][1])
        assert again[f][1].min() == 1
    looked = look(o, files)
    assert not looked.problems and not looked.cautions and "0 missing" in looked.files[0][1]
    if not fx:
        alone = look(o, files[:1])
        assert "A2 x, A2 y are in none" in alone.cautions[0].remedy
        text = path.read_text()
        for (old, new), why in {
            ("heap_samples = 4096", "heap_samples = 2048"): r"digitizer\.heap_samples = 2048\s+is not what packets in",
            ("bits = 10", "bits = 8"): r"digitizer\.bits = 8\s+makes packets of 4096 B",
        }.items():
            (tmp_path / "other.toml").write_text(text.replace(old, new))
            with pytest.raises(ConfigError, match=why):
                ChunkRecordings(load(tmp_path / "other.toml"), files)
