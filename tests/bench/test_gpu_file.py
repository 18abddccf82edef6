"""The benchmark of files from a GPU's memory: every way writes the same, what is wrong is seen, nothing is left behind."""

import json
import tempfile
from pathlib import Path

import pytest

from emulation import EmulatedGpu
from ryle.bench import gpu_file
from ryle.gpu import GpuUnavailable
from ryle.gpu.files import PAGE


@pytest.fixture
def folder():
    """Where direct writes are taken whatever disk there is: memory."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as made:
        yield Path(made)


class StandIn:
    """What stands for `GpuFile`: writes what the emulated GPU has, or a byte of it wrong."""

    compatibility, wrong = True, False

    def __init__(self, path):
        self._file = path.open("r+b")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._file.close()

    def write(self, array, offset, stream):
        host = array.get(stream=stream)
        host[-1] ^= self.wrong
        self._file.seek(offset)
        self._file.write(host.tobytes())

    def flush(self):
        self._file.flush()


def words(folder, *more):
    found = ["--directory", str(folder), "--gigabytes", "0.0005", "--block", "0.0625", "--antennas", "3", "--emulated"]
    return [*found, "--channels", "64", "--turns", "2", "--json", str(folder / "found.json"), *more]


def test_all_ways_are_measured_and_the_file_is_removed(folder, monkeypatch):
    monkeypatch.setattr(gpu_file, "GpuFile", StandIn)
    gpu_file.main(words(folder))
    found = json.loads((folder / "found.json").read_text())
    rows = found["results"]
    assert found["machine"]["file_system"] == "tmpfs"
    assert [row["case"] for row in rows] == 2 * ["cuFile", "two buffers, O_DIRECT", "plain writes"]
    assert all(row["value"] > 0 and row["cores"] > 0 for row in rows)
    assert [row["piece_bytes"] for row in rows[::3]] == [1 << 16, 6 * PAGE]  # 64 channels, 24 products of 16 bytes
    assert [row["pieces"] for row in rows[::3]] == [8, 20]
    assert rows[0]["mode"] == "compatibility" and rows[0]["ratio"] > 0 and rows[1]["ratio"] is None
    assert [path.name for path in folder.iterdir()] == ["found.json"]


def test_a_way_that_cannot_be_is_said_and_the_others_go_on(folder, monkeypatch):
    def absent(path):
        raise GpuUnavailable("libcufile is not here")

    monkeypatch.setattr(gpu_file, "GpuFile", absent)
    gpu_file.main(words(folder, "--antennas", "0"))
    rows = {row["case"]: row for row in json.loads((folder / "found.json").read_text())["results"]}
    assert rows["cuFile"]["value"] is None and rows["cuFile"]["note"] == "libcufile is not here"
    assert rows["plain writes"]["ratio"] > 0 and len(rows) == 3


def test_what_is_written_wrong_is_seen(folder, monkeypatch):
    monkeypatch.setattr(gpu_file, "GpuFile", StandIn)
    monkeypatch.setattr(StandIn, "wrong", True)
    with pytest.raises(ArithmeticError, match="piece 0 of 65536 bytes"):
        gpu_file.main(words(folder))
    assert not list(folder.iterdir())


def test_a_piece_left_out_or_too_many_is_seen(folder):
    ways = gpu_file.Ways(EmulatedGpu(), folder / "x", 2 * PAGE, 5)

    def less():
        ways.count -= 1
        ways.by_two_buffers()
        ways.count += 1

    with pytest.raises(ArithmeticError, match="piece 4"):
        ways.check(less)

    def more():
        ways.plainly()
        with ways.path.open("ab") as file:
            file.write(b"1")

    with pytest.raises(ArithmeticError, match="longer"):
        ways.check(more)
    ways.check(ways.by_two_buffers)


def test_pieces_are_whole_pages(folder):
    with pytest.raises(ValueError, match="multiple of 4096"):
        gpu_file.Ways(EmulatedGpu(), folder / "x", PAGE + 512, 2)
