"""The benchmark of catchers, on a small array: what it counts, and that nothing is left behind."""

import itertools
import json
import sys
import time

import h5py
import numpy as np
import pytest

from ryle.bench import catcher
from ryle.bench.disk_room import DiskRoom, pieces, to_disk
from ryle.bench.results import Row
from ryle.chunk import Integration
from ryle.config import parse
from ryle.products.observed import metadata
from ryle.products.uvh5 import UVH5Writer


def test_measures_and_leaves_nothing(tmp_path, monkeypatch, steady):
    tries = itertools.count()

    def body():
        (directory := tmp_path / str(next(tries))).mkdir()
        check_what_it_measures(directory, monkeypatch)

    steady(body)  # in real time nothing is lost unless the machine stands still


def check_what_it_measures(tmp_path, monkeypatch):
    disks = [tmp_path / "a", tmp_path / "b"]
    for disk in disks:
        disk.mkdir()
    words = ["--catchers", "2", "--seconds", "0.3", "--turns", "1", "--antennas", "3", "--channels", "64"]
    words += [
        "--integration",
        "0.25",
        "--senders",
        "2",
        "--buffer",
        "4",
        "--hold",
        "2",
        "--keep",
        "3",
        "--json",
        str(tmp_path / "found.json"),
    ]
    monkeypatch.setattr(sys, "argv", ["catcher", *(w for d in disks for w in ("--directory", str(d))), *words])
    catcher.main()
    writer, lossy, processes = json.loads((tmp_path / "found.json").read_text())["results"]
    assert lossy["baseline"] == "writer" and lossy["baseline_value"] == writer["value"] and lossy["ratio"] > 0
    assert writer["directories"] == processes["directories"] == 2
    assert writer["value"] > 0 and writer["ratio"] > 0
    done, count = processes["integrations"]
    assert (done, processes["lost"]) == (count, {}) and count == 8
    assert processes["given_back_gb"] > 0
    rate = 8 * 64 * 4 * 6 * 8e-9 / 0.25
    assert abs(processes["offered"] / rate - 1) < 1e-3
    assert processes["baseline"] == "disks alone, before and after"
    before, after = processes["alone"]
    assert min(before, after) > 0 and abs(processes["baseline_value"] * 2 / (before + after) - 1) < 1e-3
    assert not any(list(disk.iterdir()) for disk in disks)


def test_what_was_measured_is_kept_if_the_last_writes_are_cut(tmp_path, monkeypatch):
    rates = iter([8.0])  # of plain writes: before, and not after

    def row(case, value):
        return Row(case=case, value=value, unit="Gb/s", size={}, baseline="offered", baseline_value=8.0)

    monkeypatch.setattr(catcher, "writers", lambda *_: [row("writer", 8.0), row("lossy", 8.0)])
    monkeypatch.setattr(catcher, "processes", lambda *_: row("catchers", 6.0))
    monkeypatch.setattr(catcher, "disks", lambda *_: next(rates))
    words = ["--catchers", "1", "--antennas", "3", "--channels", "64", "--senders", "2", "--hold", "2"]
    words += ["--directory", str(tmp_path), "--json", str(tmp_path / "found.json")]
    monkeypatch.setattr(sys, "argv", ["catcher", *words])
    with pytest.raises(StopIteration):
        catcher.main()
    *_, kept = json.loads((tmp_path / "found.json").read_text())["results"]
    assert (kept["case"], kept["value"], kept["baseline"]) == ("catchers", 6.0, "offered")
    rates = iter([8.0, 4.0])
    catcher.main()
    *_, kept = json.loads((tmp_path / "found.json").read_text())["results"]
    assert (kept["ratio"], kept["alone"], kept["least"]) == (1.0, [8.0, 4.0], 0.8)


def test_a_tenth_of_packets_is_lost():
    o = parse(text_of(channels=8192), "caught")
    whole = catcher.random_piece(o, range(o.substreams))
    lossy = catcher.with_losses(o, whole)
    lost = lossy.counts == 0
    assert 0.05 < lost.mean() < 0.15 and (lossy.counts[~lost] == o.integration_spectra).all()
    assert not (whole.counts == 0).any()


def test_old_integrations_are_given_back(tmp_path, rng):
    """They become holes, and newer ones stay."""
    o = parse(text_of(channels=128), "caught")
    path = tmp_path / "kept.uvh5"
    whole = catcher.random_piece(o, range(o.substreams))
    spectra = o.integration_spectra
    with UVH5Writer(path, metadata(o)) as file, DiskRoom(lambda: [path], keep=2) as room:
        for k in range(5):
            first = k * spectra
            file.append(Integration(first, spectra, 0, whole.visibilities, whole.counts))
        end = time.monotonic() + 60
        while room.given_back < 3 * 8 * 128 * o.products and time.monotonic() < end:
            time.sleep(0.02)
        assert room.problem is None
    assert 3 * 8 * 128 * o.products <= room.given_back < 3.1 * 8 * 128 * o.products
    with h5py.File(path) as found:
        data = found["Data/visdata"][...].reshape(5, -1)
        assert not data[:3].any() and data[3:].any(axis=1).all()
        kept = 3 * len(found["Data/nsamples"]) // 5
        assert (found["Data/nsamples"][kept:] == 1).all() and not found["Data/flags"][kept:].any()
        assert (found["Header/uvw_array"][...] != 0).any(axis=1).reshape(5, -1).any(axis=1).all()
    assert to_disk([path]) < 20


def test_old_pieces_of_plain_writes_are_given_back(tmp_path, rng):
    path, size = tmp_path / "plain", 1 << 16
    with path.open("wb", buffering=0) as file, DiskRoom(lambda: [path], 2, pieces(size)) as room:
        for _ in range(10):
            file.write(rng.bytes(size))
        file.write(b"begun")
        end = time.monotonic() + 60
        while room.given_back < 8 * size and time.monotonic() < end:
            time.sleep(0.02)
    assert room.problem is None and room.given_back == 8 * size
    data = path.read_bytes()
    assert not any(data[: 8 * size]) and any(data[8 * size : 9 * size]) and data.endswith(b"begun")


def text_of(channels):
    return catcher._FILE.format(
        names=catcher.antennas_on_a_line(3),
        channels=channels,
        share=32,
        integration=0.5,
        packet=8192,
        threads=1,
        buffer=4,
        directories='["a", "b"]',
        spectra=25000,
        port=25500,
    )


def test_pieces_are_as_they_come(tmp_path):
    o = parse(text_of(channels=128), "caught")
    piece = catcher.random_piece(o, range(1, 3))
    assert piece.visibilities.shape == (64, 24, 2) and piece.visibilities.dtype == ">i8"
    assert piece.counts.shape == (2 * o.groups, 24) and (piece.counts == o.integration_spectra).all()
    assert np.abs(piece.visibilities).max() > 1e8
