"""A run in real time, as processes, is seen while it goes on, and what is seen of it is what is in its file."""

import os
import subprocess
import sys
import time
from pathlib import Path

import h5py
import numpy as np
import pytest

from ports import free_ports
from ryle.config import load
from ryle.watch.codes import rms
from ryle.watch.fringes import inputs_of_products
from ryle.watch.watcher import Watcher

TEXT = (Path(__file__).parents[1] / "small.toml").read_text()


@pytest.fixture
def start(tmp_path, monkeypatch):
    """Start an observation of six seconds; give its file. One that was started before is over then."""
    running = []

    def end():
        for process in running:
            process.kill()
            process.wait()

    def start():
        end()
        place = tmp_path / f"{len(running)}"
        pages = place / "pages"
        pages.mkdir(parents=True)
        monkeypatch.setenv("RYLE_STATUS_DIR", str(pages))
        text = TEXT.replace('speed = "max"', "speed = 1.0").replace('duration = "4 s"', 'duration = "6 s"')
        text = text.replace('sample_rate = "8 MHz"', 'sample_rate = "1 MHz"')
        network = "".join(
            f'{what} = "127.0.0.1:{free_ports(count)}"\n'
            for what, count in (("digitizers", 3), ("spectra", 2), ("visibilities", 1), ("statistics", 1))
        )
        source = place / "o.toml"
        source.write_text(f"{text}\n[network]\n{network}\n[output]\npictures = false\n")
        command = [sys.executable, "-m", "ryle", "run", str(source), "--output", str(place / "out")]
        with (place / "said").open("w") as said:
            running.append(subprocess.Popen(command, stdout=said, stderr=said, env=os.environ | {"COLUMNS": "200"}))
        return source, place / "out" / "demo.uvh5", running[-1], place / "said"

    yield start
    end()


def test_what_is_seen_is_what_is_written(start, steady):
    def body():
        source, file, process, said = start()
        glances, sights = {}, []
        with Watcher(interval=0.1) as watcher:
            end = time.monotonic() + 90
            while process.poll() is None:
                assert time.monotonic() < end, said.read_text()
                sight = watcher.wait(watcher.sight().time, 1) or watcher.sight()
                watcher.choose([0, 1])
                if sight.engines:
                    sights.append(sight)
                if sight.glance is not None:
                    glances[sight.glance.number] = sight.glance
        assert process.returncode == 0, said.read_text()
        o = load(source)
        assert {e.name for s in sights for e in s.engines} >= {"f0", "x0", "x1", "catcher0"}
        assert {s.file for s in sights if s.file} == {str(file)}
        told = [s.inputs[0] for s in sights if s.inputs and s.inputs[0].rms]
        # Receivers' noise of 30 steps, and a source of 120 Jy, of 400 Jy, in each polarization.
        assert told and abs(np.median([i.rms for i in told]) - 30 * (1 + 60 / 400) ** 0.5) < 3
        middle = told[len(told) // 2]
        assert middle.present["ring"] == middle.present["F"] == 1.0 and middle.clipped == 0.0
        # Of ADC values, some packets of 4096 a second of each input.
        h = max((s.histograms for s in sights if s.histograms is not None), key=lambda h: int(h.in_all.sum()))
        assert h.lately.shape == (6, 1025) and h.lately.sum(axis=1).min() >= 8 * 4096
        assert np.abs(rms(h) - 30 * (1 + 60 / 400) ** 0.5).max() < 4
        assert (h.in_all >= h.lately).all() and h.in_all.sum() > h.lately.sum()
        assert {i.codes for i in told} | {None} == {None, ""}  # None until enough have come
        assert not any(s.alarms for s in sights), [a for s in sights for a in s.alarms]

        assert len(glances) >= 3 and any(g.chosen.tolist() == [0, 1] for g in glances.values())
        with h5py.File(file) as written:
            data, nsamples = written["Data/visdata"][...], written["Data/nsamples"][...]
            first, second = written["Header/ant_1_array"][...] - 1, written["Header/ant_2_array"][...] - 1
            names = written["Header/polarization_array"][...]
        rows = len(o.antennas) * (len(o.antennas) + 1) // 2
        places = {(a, b): n for n, (a, b) in enumerate(zip(first[:rows], second[:rows], strict=True))}
        products = {-5: (0, 0), -6: (1, 1), -7: (0, 1), -8: (1, 0)}
        for glance in glances.values():
            which = slice((glance.number - 1) * rows, glance.number * rows)
            assert (nsamples[which] > 0.9).all()
            for k, (i, j) in enumerate(inputs_of_products(3, 2)):
                (a1, p1), (a2, p2) = divmod(i, 2), divmod(j, 2)
                row = data[which][places[a1, a2]]
                # Files have conj(X_a)·X_b; counts are the same all over.
                of = row[:, next(n for n, name in enumerate(names) if products[name] == (p1, p2))].conj()
                expected = [
                    of[low:high].mean()
                    for low, high in zip(glance.coarse_edges[:-1], glance.coarse_edges[1:], strict=True)
                ]
                np.testing.assert_allclose(glance.coarse[:, k], expected, rtol=2e-3, atol=1e-2)

    steady(body)
