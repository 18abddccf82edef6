"""Scans: each integration goes to one file, that of the scan in which it lies, and what cannot be is refused."""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import h5py
import numpy as np
import pytest

from ryle.chunk import Integration
from ryle.config import changed
from ryle.engines.listen import listen
from ryle.engines.output import open_file
from ryle.engines.scans import Scan, Scans
from ryle.engines.write_file import WriteFile
from ryle.monitor.control import pack, unpack
from ryle.products.publisher import Publisher
from ryle.stream.block import Block
from ryle.stream.controls import Late
from ryle.stream.metrics import Registry
from ryle.stream.ring import Ring

UNIT = 128  # spectra of an integration of the X-engines


@pytest.fixture
def o(observe):
    return observe(antennas=2, channels=32, integration_spectra=UNIT)


class Writing:
    """The step that writes, given integrations one by one."""

    def __init__(self, o, directory, index=None):
        self.o, self._ring = o, Ring("integrations", lambda: Block(None), 2)
        file, opens = directory / "small.uvh5", partial(open_file, catcher=index)
        self._reader, self.published, self.begun = self._ring.reader(), [], []
        self.write = WriteFile(self._reader, lambda b: [[b.data]], lambda: opens(o, file), o.file_spectra)
        self.scans = self.write.scans = Scans(Scan(0, o, file, None), opens, self.begun.append)
        self.write.publish = lambda number, pieces: self.published.append((number, pieces[0].spectra))
        self.metrics = Registry()
        self.scans.register(self.metrics)
        self.write.open()

    def give(self, integration):
        block = self._ring.room()
        block.data = integration
        self._ring.put(block)
        self.write.use(self._reader.get())

    def end(self):
        self.write.finish()
        self.write.close()

    def set(self, **value):
        """As somebody who asks over a socket."""
        return self.scans.set(unpack(*message(value)))


def message(value):
    made = pack(value)
    return made[12:], b""


def integration(o, rng, index, channels=None):
    channels = channels or o.fengine.channels
    sums = rng.integers(-(2**40), 2**40, (channels, o.products, 2))
    counts = np.full((1, o.products), UNIT, np.uint32)
    return Integration(index * UNIT, UNIT, 0, sums, counts)


def rows(path):
    """First spectra, exposures in seconds, visibilities by integration, and what is tracked."""
    with h5py.File(path) as file:
        firsts, baselines = file["Ryle/first_spectrum"][...], int(file["Header/Nbls"][()])
        centre = file["Header/phase_center_catalog/0/cat_name"][()].decode()
        times = file["Header/integration_time"][...][::baselines]
        said = json.loads(file["Ryle/observation"][()])
        return firsts, times, file["Data/visdata"][...].reshape(len(firsts), -1), centre, said


def written_alone(o, path, integrations, spectra):
    """What a file has in which nothing changes."""
    write = Writing(changed(o, catcher={"integration": spectra * o.step / o.sample_rate}), path)
    for each in integrations:
        write.give(each)
    write.end()
    return rows(path / "small.uvh5")


def test_every_integration_is_in_the_file_of_its_scan(o, rng, tmp_path):
    unit, seconds = UNIT * o.step, UNIT * o.step / float(o.sample_rate)
    w = Writing(o, tmp_path)
    many = [integration(o, rng, n) for n in range(20)]
    assert w.set(integration=3 * seconds, sample=4 * unit)["sample"] == 4 * unit
    for n in (0, 1):
        w.give(many[n])
    answer = w.set(phase_centre={"ra": 100.0, "dec": -31.0, "name": "other"}, name="on-other", sample=8 * unit - 5)
    assert answer == {
        "sample": 8 * unit,
        "file": str(tmp_path / "on-other.uvh5"),
        "integration": pytest.approx(3 * seconds),
        "phase_centre": {"ra": 100.0, "dec": -31.0, "name": "other"},
    }
    assert w.set(write=False, sample=13 * unit)["file"] == ""
    assert w.set(write=True, integration=seconds, sample=15 * unit)["file"] == str(tmp_path / "small-3.uvh5")
    said = w.metrics.controls["scan"].get()
    assert [each["sample"] // unit for each in said["queued"]] == [4, 8, 13, 15] and said["file"].endswith("small.uvh5")
    for n in (*range(2, 10), *range(11, 20)):  # 10 did not come
        w.give(many[n])
    w.end()
    scans = {
        "small": (range(0, 4), 1, "field"),
        "small-2": (range(4, 8), 3, "field"),
        "on-other": ([8, 9, 11, 12], 3, "other"),
        "small-3": (range(15, 20), 1, "other"),
    }
    assert {p.stem for p in tmp_path.glob("*")} == set(scans)
    for number, (name, (which, length, centre)) in enumerate(scans.items()):
        apart = tmp_path / f"apart-{number}"
        apart.mkdir()
        firsts, times, values, tracked, _ = rows(tmp_path / f"{name}.uvh5")
        wanted = written_alone(o, apart, [many[n] for n in which], length * UNIT)
        assert tracked == centre
        np.testing.assert_array_equal(firsts, wanted[0])
        np.testing.assert_array_equal(values, wanted[2])
        np.testing.assert_allclose(times, wanted[1])
        # What began, or ended, in the middle of a sum says how long it is.
        assert times.sum() == pytest.approx(len(which) * seconds)
    assert [scan.begin // UNIT for scan in w.begun] == [4, 8, 13, 15]
    assert w.write.integrations == 4 + 2 + 3 + 5 and w.write.unwritten == 1  # of three
    assert [n for n, _ in w.published] == list(range(1, 16))
    assert [spectra // UNIT for _, spectra in w.published] == [1] * 4 + [3] * 6 + [1] * 5


def test_as_soon_as_can_be_and_what_is_late(o, rng, tmp_path):
    unit = UNIT * o.step
    w = Writing(o, tmp_path)
    assert w.set()["sample"] == 0  # nothing has come: from the first on
    for n in (7, 8):
        w.give(integration(o, rng, n))
    assert w.metrics.values()["next_scan"] == 9 * unit
    with pytest.raises(
        Late, match=f"late: sample {8 * unit} has passed; changes can be made from sample {9 * unit} on"
    ):
        w.set(sample=8 * unit)
    assert w.set(sample=8 * unit + 1)["sample"] == 9 * unit
    assert w.set(write=False)["sample"] == 9 * unit  # in place of that
    values = w.metrics.values()
    assert (values["late_scans"], values["scans"]) == (1, 3)
    assert [scan["file"] for scan in w.scans.said()["queued"]] == [""]
    w.end()
    assert {p.name for p in tmp_path.glob("*")} == {"small-2.uvh5"}, "files without an integration are removed"


def test_what_was_queued_is_replaced_by_what_begins_before_it(o, rng, tmp_path):
    unit = UNIT * o.step
    w = Writing(o, tmp_path)
    w.give(integration(o, rng, 0))
    for n in (3, 5, 7):
        w.set(name=f"at-{n}", sample=n * unit)
    w.set(name="at-7", sample=8 * unit)  # the same file, later: engines that were asked in vain for a time ask again
    assert {p.stem for p in tmp_path.glob("*")} == {"small", "at-3", "at-5", "at-7"}
    w.set(name="at-4", sample=4 * unit)
    assert {p.stem for p in tmp_path.glob("*")} == {"small", "at-3", "at-4"}
    w.give(integration(o, rng, 9))  # what was to begin meanwhile has nothing
    w.end()
    assert {p.stem for p in tmp_path.glob("*")} == {"small", "at-4"}
    assert rows(tmp_path / "at-4.uvh5")[0].tolist() == [9 * UNIT]


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (3, "give integration, name, phase_centre, sample, write"),
        ({"stop": True}, "give .*, and no stop"),
        ({"write": 1}, "write is 1: it is true or false"),
        ({"sample": 1.5}, r"sample is 1\.5"),
        ({"sample": -1}, "sample is -1"),
        ({"name": "../there"}, "letters, digits"),
        ({"name": "/etc/passwd"}, "letters, digits"),
        ({"name": ".hidden"}, "letters, digits"),
        ({"name": "a" * 101}, "letters, digits"),
        ({"name": "a\n"}, "letters, digits"),
        ({"name": "a.uvh5"}, "letters, digits"),
        ({"name": 7}, "letters, digits"),
        ({"name": "small"}, "is there already"),
        ({"name": "taken"}, "is there already"),
        ({"name": "a", "write": False}, "leave it out"),
        ({"integration": 0}, "catcher.integration cannot be"),
        ({"integration": 1e9}, "catcher.integration cannot be 1 Gs: at most 86.4 ks: a day"),
        ({"integration": 1e-5}, "multiple of the X-engines' integration"),
        ({"integration": float("nan")}, "catcher.integration cannot be"),
        ({"integration": [1]}, "catcher.integration cannot be"),
        ({"phase_centre": 5}, "takes ra and dec in degrees"),
        ({"phase_centre": {"ra": 5}}, "takes ra and dec in degrees"),
        ({"phase_centre": {"ra": 5, "dec": 6, "az": 1}}, "takes ra and dec in degrees"),
        ({"phase_centre": {"ra": 5, "dec": 96}}, "phase_centre.dec cannot be 96"),
        ({"phase_centre": {"ra": float("inf"), "dec": 6}}, "phase_centre.ra cannot be"),
        ({"phase_centre": {"ra": 5, "dec": 6, "name": 5}}, "phase_centre.name cannot be"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_changes(o, rng, tmp_path, value, why):
    w = Writing(o, tmp_path)
    (tmp_path / "taken.ms").mkdir()
    with pytest.raises(ValueError, match=why):
        w.scans.set(value)
    w.give(integration(o, rng, 0))
    w.end()
    assert not w.begun and w.metrics.values()["scans"] == 0
    assert {p.name for p in tmp_path.glob("*")} == {"small.uvh5", "taken.ms"}


def test_a_file_that_cannot_be_made_is_refused(o, tmp_path):
    w = Writing(o, tmp_path)

    def full(*_):
        raise OSError(28, "No space left on device")

    w.scans._open_file = full
    with pytest.raises(ValueError, match=r"no file can be made there: .*No space left"):
        w.set(name="next")
    assert not w.scans.said()["queued"]
    w.end()


def test_catchers_of_bands_write_each_its_own(observe, rng, tmp_path):
    disks = [tmp_path / "a", tmp_path / "b"]
    o = changed(
        observe(antennas=2, channels=32, sub=16, integration_spectra=UNIT),
        catcher={"directories": list(map(str, disks))},
    )
    both = [Writing(o, tmp_path / "whole", n) for n in range(2)]
    for w in both:
        w.set(name="next", sample=2 * UNIT * o.step)
    for n in range(3):
        for w in both:
            w.give(integration(o, rng, n, 16))
    for w in both:
        w.end()
    for n, disk in enumerate(disks):
        assert {p.name for p in disk.glob("*")} == {f"small.band{n}.uvh5", f"next.band{n}.uvh5"}
        assert rows(disk / f"next.band{n}.uvh5")[0].tolist() == [2 * UNIT]


def test_who_listens_writes_a_file_for_each_phase_centre(o, rng, tmp_path):
    """Also where the first was turned from before anything came."""
    about = {
        "observation": {"source": "a.toml", "toml": o.text},
        "channels": [0, o.fengine.channels],
        "products": o.products,
    }
    said, many = [], [integration(o, rng, n) for n in range(5)]
    centres = [{"ra": 100.0 + n // 2, "dec": -31.0, "name": f"C{n // 2}"} for n in range(5)]
    with Publisher("127.0.0.1", 0, about) as publisher:
        args = "127.0.0.1", publisher.port, tmp_path / "copy.uvh5", said.append
        with ThreadPoolExecutor() as pool:
            done = pool.submit(listen, *args)
            end = time.monotonic() + 30
            for number, (each, centre) in enumerate(zip(many, centres, strict=True), 1):
                while (
                    len(said) < number - 1 + len({c["name"] for c in centres[: number - 1]}) or not publisher.listeners
                ):
                    assert time.monotonic() < end and not done.done(), said
                    time.sleep(0.005)
                publisher.publish(number, [each], {"phase_centre": centre})
            while publisher.missed == 0 and len(said) < 8:
                assert time.monotonic() < end
                time.sleep(0.005)
            publisher.close()
            assert done.result(20) == 5
    assert [f for f in said if "from now on" in f] == [
        f"from now on: {tmp_path}/{name}.uvh5" for name in ("copy", "copy-2", "copy-3")
    ]
    for n, name in enumerate(("copy", "copy-2", "copy-3")):
        firsts, _, _, tracked, _ = rows(tmp_path / f"{name}.uvh5")
        assert (firsts // UNIT).tolist() == [i for i in range(5) if i // 2 == n] and tracked == f"C{n}"
