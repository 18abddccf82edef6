"""The benchmark of catchers, on a small array: what it counts, and that nothing is left behind."""

import json
import sys

import numpy as np

from ryle.bench import catcher
from ryle.config import parse


def test_measures_and_leaves_nothing(tmp_path, monkeypatch):
    disks = [tmp_path / "a", tmp_path / "b"]
    for disk in disks:
        disk.mkdir()
    words = ["--catchers", "2", "--seconds", "0.3", "--turns", "1", "--antennas", "3", "--channels", "64"]
    words += ["--integration", "0.25", "--senders", "2", "--buffer", "4", "--json", str(tmp_path / "found.json")]
    monkeypatch.setattr(sys, "argv", ["catcher", *(w for d in disks for w in ("--directory", str(d))), *words])
    catcher.main()
    writer, processes = json.loads((tmp_path / "found.json").read_text())["results"]
    assert writer["directories"] == processes["directories"] == 2
    assert writer["value"] > 0 and writer["ratio"] > 0
    done, count = processes["integrations"]
    assert (done, processes["lost"]) == (count, {}) and count == 3
    rate = 8 * 64 * 4 * 6 * 8e-9 / 0.25
    assert abs(processes["baseline_value"] / rate - 1) < 1e-3
    assert not any(list(disk.iterdir()) for disk in disks)


def test_pieces_are_as_they_come(tmp_path):
    text = catcher._FILE.format(
        names=catcher.antennas_on_a_line(3),
        channels=128,
        share=32,
        integration=0.5,
        packet=8192,
        threads=1,
        buffer=4,
        directories='["a", "b"]',
        spectra=25000,
        port=25500,
    )
    o = parse(text, "caught")
    piece = catcher.random_piece(o, range(1, 3))
    assert piece.visibilities.shape == (64, 24, 2) and piece.visibilities.dtype == ">i8"
    assert piece.counts.shape == (2 * o.groups, 24) and (piece.counts == o.integration_spectra).all()
    assert np.abs(piece.visibilities).max() > 1e8
