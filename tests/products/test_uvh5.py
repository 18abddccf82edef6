"""The UVH5 writer: values, metadata, pieces of the band, errors."""

from __future__ import annotations

import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import h5py
import numpy as np
import pytest
from astropy.time import Time
from astropy.utils import iers
from pyuvdata import UVData

from ryle.chunk import Exposure, Integration
from ryle.products.metadata import AIPS_POLARIZATIONS, PhaseCentre
from ryle.products.uvh5 import UVH5Error, UVH5Writer, recover


def read(path: Path) -> UVData:
    data = UVData()
    data.read(path)
    data.check(check_extra=True, run_check_acceptability=True, strict_uvw_antpos_check=True, check_autos=True)
    return data


@pytest.mark.parametrize("sideband", [1, -1])
@pytest.mark.parametrize("pols", ["xy", "yx", "x", "rl"])
@pytest.mark.parametrize("numbers", [(), (7, 3, 12, 1)])
def test_values_equal_the_sums_taken_one_by_one(tmp_path, synthetic, rng, sideband, pols, numbers):
    positions = synthetic.enu(4, rng)
    meta = synthetic.metadata(positions, pols=pols, sideband=sideband, channels=12, antenna_numbers=numbers)
    spectra = 10**6
    given = [synthetic.random_integration(meta, rng, i * spectra, spectra, groups=3) for i in range(2)]
    with UVH5Writer(tmp_path / "a.uvh5", meta) as writer:
        assert [writer.append(x) for x in given] == [1, 2]
    data = read(tmp_path / "a.uvh5")
    assert np.all(np.diff(data.freq_array) > 0)
    assert data.Nbls == 10 and data.Ntimes == 2
    p = len(pols)
    codes = list(data.polarization_array)
    checked = 0
    for t, part in enumerate(given):
        for a2 in range(4):
            for a1 in range(a2 + 1):
                one, two = meta.antenna_numbers[a1], meta.antenna_numbers[a2]
                here = np.flatnonzero((data.ant_1_array == min(one, two)) & (data.ant_2_array == max(one, two)))
                for p1 in range(p):
                    for p2 in range(p):
                        k = p * p * (a2 * (a2 + 1) // 2 + a1) + p1 + p * p2
                        name = pols[p1] + pols[p2] if one <= two else pols[p2] + pols[p1]
                        column = codes.index(AIPS_POLARIZATIONS[name])
                        for c in range(12):
                            count = int(part.counts[c // 4, k])
                            re, im = (int(x) for x in part.visibilities[c, k])
                            # x(a1) conj(x(a2)); the sky's is its conjugate in a lower sideband; rows hold conj(X_1) X_2
                            sky = complex(re, im * sideband) / max(count, 1)
                            want = sky.conjugate() if one <= two else sky
                            at = (here[t], c if sideband > 0 else 11 - c, column)
                            assert data.data_array[at] == pytest.approx(want, rel=1e-6)
                            assert data.nsample_array[at] == pytest.approx(count / spectra)
                            assert data.flag_array[at] == (count == 0)
                            assert data.freq_array[at[1]] == meta.frequencies[c]
                            checked += 1
    assert checked == 2 * 10 * p * p * 12


@pytest.mark.parametrize("sideband", [1, -1])
def test_phases_follow_the_formula_for_uvw_of_the_file(tmp_path, synthetic, rng, sideband):
    positions = synthetic.enu(5, rng)
    meta = synthetic.metadata(positions, sideband=sideband)
    path = synthetic.observe(tmp_path / "a.uvh5", meta, positions, synthetic.ASYMMETRIC)
    data = read(path)
    want = np.zeros(data.data_array.shape[:2], complex)
    for s in synthetic.ASYMMETRIC:
        path_length = data.uvw_array @ [s.l, s.m, np.sqrt(1 - s.l**2 - s.m**2) - 1]
        want += s.stokes[0] / 2 * np.exp(2j * np.pi * path_length[:, None] * data.freq_array / synthetic.C)
    # Differential aberration, 1e-4 of an offset, is in the sky and not in the formula.
    assert np.abs(data.data_array[..., 0] / synthetic.SCALE - want).max() < 1e-2
    assert np.abs(np.conj(data.data_array[..., 0]) / synthetic.SCALE - want).max() > 0.1


def test_times_are_midpoints(tmp_path, synthetic, rng):
    meta = synthetic.metadata(synthetic.enu(2, rng), channels=8)
    with UVH5Writer(tmp_path / "a.uvh5", meta) as writer:
        for first in (0, 4_000_000, 12_000_000):  # with a gap
            writer.append(synthetic.random_integration(meta, rng, first, 4_000_000))
    data = read(tmp_path / "a.uvh5")
    # sync + (2n·m0 + n(M + T − 1)) / fs, n = 8, T = 4, fs = 64 MHz
    want = [1767225600.25 + (16 * m0 + 8 * (4_000_000 + 3)) / 64e6 for m0 in (0, 4_000_000, 12_000_000)]
    assert (np.unique(data.time_array) - 2440587.5) * 86400 == pytest.approx(want, abs=1e-4)
    assert data.integration_time == pytest.approx(1.0)


def test_a_remnant_has_its_own_time_and_length(tmp_path, synthetic, rng):
    """Time, exposure, uvw and nsamples are of what was there; flags are of the part of the whole that this is."""
    positions = synthetic.enu(3, rng)
    meta = synthetic.metadata(positions, channels=8, min_fraction=0.5)  # 4 000 000 spectra are a second
    counts = np.full((2, meta.products), 1_500_000, np.uint32)
    counts[1] = 2_000_000
    whole = synthetic.random_integration(meta, rng, 0, 4_000_000)
    whole.counts[...] = 4_000_000
    rest = synthetic.random_integration(meta, rng, 4_000_000, 4_000_000)
    rest.counts, rest.exposure = counts, Exposure.of(5_000_000, 7_000_000)
    with UVH5Writer(tmp_path / "a.uvh5", meta) as writer:
        writer.append(whole)
        writer.append(rest)
        little = synthetic.random_integration(meta, rng, 8_000_000, 4_000_000)
        little.counts[...], little.exposure = 40_000, Exposure.of(11_960_000, 12_000_000)
        writer.append(little)
    data = read(tmp_path / "a.uvh5")
    times, first = np.unique(data.time_array, return_index=True)
    after = 8 * 3 / 64e6  # the windows of a spectrum reach 3 steps on
    want = [1767225600.25 + s + after for s in (0.5, 1.5, 2.995)]
    assert (times - 2440587.5) * 86400 == pytest.approx(want, abs=25e-6)
    assert data.integration_time[first] == pytest.approx([1, 0.5, 0.01], rel=1e-12)
    uvw = data.uvw_array.copy()
    data.set_uvws_from_antenna_positions()
    assert uvw == pytest.approx(data.uvw_array, abs=1e-6)
    samples, flags = (a.reshape(3, -1, 8, 4) for a in (data.nsample_array, data.flag_array))
    assert (samples[0] == 1).all() and (samples[1, :, :4] == 0.75).all() and (samples[1:, :, 4:] == 1).all()
    assert not flags[0].any() and flags[1, :, :4].all() and not flags[1, :, 4:].any() and flags[2].all()
    assert np.abs(data.data_array.reshape(3, -1, 8, 4)[1:]).min(axis=(1, 2, 3)).max() > 0  # what is flagged is kept


@pytest.mark.parametrize(
    ("sync", "tai"),  # seconds from the end of 2016-12-31, which had 86401: TAI was 36 s ahead of UTC, then 37
    [
        ("1483228799", -1),
        ("2016-12-31T23:59:59Z", -1),
        ("2016-12-31T23:59:60.25Z", 0.25),
        ("2016-12-31T12:00:00Z", -43200),
    ],
)
def test_days_with_a_leap_second(tmp_path, synthetic, rng, sync, tai):
    """What astropy reads back is the instant, to the rounding of a Julian date in float64 (steps of 40 µs)."""
    meta = synthetic.metadata(synthetic.enu(2, rng), sync_time=sync, channels=8)
    seconds = (0, 1, 2, 43200)
    with UVH5Writer(tmp_path / "a.uvh5", meta) as writer:
        for s in seconds:
            writer.append(synthetic.random_integration(meta, rng, s * 4_000_000, 4_000_000))
    data = read(tmp_path / "a.uvh5")
    found = Time(np.unique(data.time_array), format="jd", scale="utc").tai
    since = (found - Time("2017-01-01T00:00:36", scale="tai")).sec
    assert since == pytest.approx([tai + s + 0.5 + 8 * 3 / 64e6 for s in seconds], abs=25e-6)


def test_leap_seconds_between_sync_and_data_are_counted(synthetic, rng):
    meta = synthetic.metadata(synthetic.enu(2, rng), sync_time="2016-12-31T23:59:59Z")
    assert meta.time(64_000_000).isot == "2016-12-31T23:59:60.000"
    assert meta.time(2 * 64_000_000).isot == "2017-01-01T00:00:00.000"


def test_unprojected_data_say_so(tmp_path, synthetic, rng):
    positions = synthetic.enu(3, rng)
    meta = synthetic.metadata(positions, tracked=False)
    data = read(synthetic.observe(tmp_path / "a.uvh5", meta, positions, synthetic.ASYMMETRIC[:1], integrations=2))
    assert [c["cat_type"] for c in data.phase_center_catalog.values()] == ["unprojected"]
    rows = (data.ant_1_array == 1) & (data.ant_2_array == 3)
    assert data.uvw_array[rows] == pytest.approx(np.tile(positions[2] - positions[0], (2, 1)), abs=1e-3)


def test_metadata_comes_back(tmp_path, synthetic, rng):
    positions = synthetic.enu(3, rng)
    meta = synthetic.metadata(positions, extra_keywords={"gain": 2.5, "obsid": "x7"}, antenna_diameters=(13.5,) * 3)
    with UVH5Writer(tmp_path / "a.uvh5", meta) as writer:
        writer.append(synthetic.random_integration(meta, rng, 0, 10**6))
        writer.record("adc_histogram", np.arange(12).reshape(6, 2))
        writer.record("adc_histogram", np.arange(12).reshape(6, 2) + 1)
    data = read(tmp_path / "a.uvh5")
    assert list(data.telescope.antenna_names) == list(meta.antenna_names)
    assert data.telescope.get_enu_antpos() == pytest.approx(positions, abs=1e-5)
    assert data.telescope.feed_angle[0] == pytest.approx([np.pi / 2, 0])
    assert data.telescope.get_x_orientation_from_feeds() == "east"
    assert data.extra_keywords == {"gain": 2.5, "obsid": "x7", "stokconv": "sum"}
    (entry,) = data.phase_center_catalog.values()
    assert (entry["cat_name"], entry["cat_type"], entry["cat_frame"]) == ("field", "sidereal", "icrs")
    with h5py.File(tmp_path / "a.uvh5") as file:
        assert file["Ryle/observation"].asstr()[()] == meta.observation
        assert file["Ryle/adc_histogram"][()].tolist() == (np.arange(12).reshape(6, 2) + 1).tolist()


def test_missing_substreams_are_flagged_and_order_does_not_matter(tmp_path, synthetic, rng):
    meta = synthetic.metadata(synthetic.enu(3, rng), sideband=-1)
    whole = synthetic.random_integration(meta, rng, 0, 10**6, groups=4)

    def piece(k: int) -> Integration:
        return Integration(0, 10**6, 4 * k, whole.visibilities[4 * k : 4 * k + 4], whole.counts[k : k + 1])

    for name, pieces in (("all", [whole]), ("some", [piece(3), piece(0), piece(1)])):
        with UVH5Writer(tmp_path / f"{name}.uvh5", meta) as writer:
            writer.append(pieces)
    full, some = read(tmp_path / "all.uvh5"), read(tmp_path / "some.uvh5")
    lost = slice(4, 8)  # internal channels 8 to 11, reversed
    assert (
        some.flag_array[:, lost].all() and not some.nsample_array[:, lost].any() and not some.data_array[:, lost].any()
    )
    kept = [0, 1, 2, 3, 8, 9, 10, 11, 12, 13, 14, 15]
    for array in ("data_array", "flag_array", "nsample_array"):
        assert np.array_equal(getattr(full, array)[:, kept], getattr(some, array)[:, kept])


def test_bad_integrations_are_refused_and_the_writer_goes_on(tmp_path, synthetic, rng):
    meta = synthetic.metadata(synthetic.enu(3, rng))
    good = synthetic.random_integration(meta, rng, 10**6, 10**6)
    v, c = good.visibilities, good.counts
    with UVH5Writer(tmp_path / "a.uvh5", meta) as writer:
        writer.append(good)
        for bad, message in (
            ([], "at least one piece"),
            (good, "overlaps or precedes"),
            (Integration(2 * 10**6, 10**6, 1, v, c), "not all within"),
            (Integration(2 * 10**6, 10**6, 0, v[:, 1:], c), "need \\(channel, 24, 2\\)"),
            (Integration(2 * 10**6, 10**6, 0, v, c.repeat(3, axis=0)), "dividing 16"),
            (Integration(2 * 10**6, 10, 0, v, np.minimum(c, 10)), "integrate longer"),
            (Integration(2 * 10**6, 10**5, 0, v, c | np.uint32(1 << 20)), "counts reach"),
            ([Integration(2 * 10**6, 10**6, 0, v, c)] * 2, "more than one piece"),
            ([Integration(m * 10**6, 10**6, 0, v, c) for m in (2, 3)], "different integrations"),
        ):
            with pytest.raises(ValueError, match=message):
                writer.append(bad)
        assert writer.append(Integration(2 * 10**6, 10**6, 0, v, c)) == 2
    assert read(tmp_path / "a.uvh5").Ntimes == 2
    with pytest.raises(UVH5Error, match="closed"):
        writer.append(good)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("polarizations", ("x", "l"), "one or two different feeds"),
        ("antenna_numbers", (0, 1), "2 different positive numbers"),
        ("antenna_names", ("a", "a"), "all different"),
        ("frequencies", np.array([2e9, 1e9]), "ascending"),
        ("sideband", 0, "1 or -1"),
        ("feed_angles", np.zeros(3), "shape"),
        ("pol_convention", "half", "'sum' or 'avg'"),
        ("phase_centre", PhaseCentre("x", 0.0, 2.0), "dec"),
        ("mount", "tripod", "alt-az"),
    ],
)
def test_metadata_names_what_is_wrong(synthetic, rng, field, value, message):
    with pytest.raises(ValueError, match=message) as caught:
        synthetic.metadata(synthetic.enu(2, rng), **{field: value})
    assert field in str(caught.value)


def test_what_the_first_integration_needs_is_loaded_when_the_file_is_opened(tmp_path, synthetic, rng, monkeypatch):
    """Tables of the Earth's rotation take a second to read, in which integrations would pile up behind the first."""
    meta = synthetic.metadata(synthetic.enu(3, rng))
    loaded = []
    table = type(iers.earth_orientation_table.get())
    monkeypatch.setattr(table, "ut1_utc", lambda *a, real=table.ut1_utc, **k: loaded.append(1) or real(*a, **k))
    with UVH5Writer(tmp_path / "a.uvh5", meta):
        assert loaded


def test_an_existing_file_is_kept_unless_told_otherwise(tmp_path, synthetic, rng):
    meta = synthetic.metadata(synthetic.enu(2, rng))
    path = tmp_path / "a.uvh5"
    path.write_text("precious")
    with pytest.raises(FileExistsError, match="allow it to be overwritten"):
        UVH5Writer(path, meta)
    assert path.read_text() == "precious"
    with UVH5Writer(path, meta, overwrite=True) as writer:
        writer.append(synthetic.random_integration(meta, rng, 0, 10**6))
    assert read(path).Ntimes == 1
    with pytest.raises(UVH5Error, match="choose a directory"):
        UVH5Writer(tmp_path / "no" / "a.uvh5", meta)


def run_writer(path: Path, body: str) -> subprocess.Popen[str]:
    """A process that has `writer`, `meta`, `rng` and the synthetic module as `s`, and runs `body`."""
    script = f"""
    import importlib.util, sys, time
    import numpy as np
    spec = importlib.util.spec_from_file_location("s", {str(Path(__file__).with_name("conftest.py"))!r})
    s = importlib.util.module_from_spec(spec); sys.modules["s"] = s; spec.loader.exec_module(s)
    from ryle.products.uvh5 import UVH5Writer, UVH5Error
    rng = np.random.default_rng(5)
    meta = s.metadata(s.enu(5, rng), channels=64)
    some = [s.random_integration(meta, rng, i * 10**6, 10**6) for i in range(3)]
    def nth(i):
        x = some[i % 3]
        return s.Integration(i * 10**6, 10**6, 0, x.visibilities, x.counts)
    """
    text = textwrap.dedent(script) + textwrap.dedent(body).replace("PATH", repr(str(path)))
    return subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("fsync", [False, True])
def test_kill_at_any_moment_loses_no_reported_integration(tmp_path, synthetic, rng, fsync):
    """One process forks a writer again and again, kills it at a random moment, and says what it had reported."""
    body = f"""
    import os, pathlib, signal
    with UVH5Writer(PATH, meta) as warm:  # loads what the first integration loads
        warm.append(nth(0))
    for k in range(14):
        path = PATH + f".{{k}}.uvh5"
        r, w = os.pipe()
        child = os.fork()
        if child == 0:
            writer = UVH5Writer(path, meta, fsync={fsync})
            i = 0
            while True:
                os.write(w, bytes([writer.append(nth(i))]))
                i += 1
        os.close(w)
        said = b""
        while len(said) <= k % 5:
            said += os.read(r, 1)
        time.sleep(rng.uniform(0, 0.05))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        while more := os.read(r, 4096):
            said += more
        os.close(r)
        print(k, said[-1], flush=True)
    """
    path = tmp_path / "a.uvh5"
    process = run_writer(path, body.replace("default_rng(5)", f"default_rng({rng.integers(2**31)})"))
    reports = [line.split() for line in process.communicate(timeout=240)[0].splitlines()]
    assert process.returncode == 0 and len(reports) == 14
    example = None
    for k, said in reports:
        left = path.with_name(f"a.uvh5.{k}.uvh5")
        found = recover(left)
        assert found.integrations in (int(said), int(said) + 1)
        assert recover(left).journal == "clean"
        with h5py.File(left) as file:
            header, data = file["Header"], file["Data"]
            assert (
                header["Nblts"][()]
                == data["visdata"].shape[0]
                == header["time_array"].shape[0]
                == 15 * found.integrations
            )
            assert (
                np.isfinite(data["visdata"][()].view(np.float32)).all() and data["nsamples"][()].any(axis=(1, 2)).all()
            )
            blocks = data["visdata"][()].reshape(found.integrations, 15, 64, 4)
        example = blocks[0] if example is None else example
        assert np.array_equal(blocks[0], example) and np.array_equal(
            blocks[::3], np.broadcast_to(example, blocks[::3].shape)
        )
    assert max(int(said) for _, said in reports) >= 5
    assert read(left).Ntimes == found.integrations


def test_a_kill_between_journal_and_file_is_made_good(tmp_path, synthetic, rng, monkeypatch):
    """Die at every single write of the copying in turn: the file may be unreadable as left, `recover` completes it."""
    from ryle.products import journal

    meta = synthetic.metadata(synthetic.enu(3, rng))
    parts = [synthetic.random_integration(meta, rng, i * 10**6, 10**6) for i in range(2)]
    real, outcomes = journal._pwrite_all, []
    for stop in range(100):
        path = tmp_path / f"{stop}.uvh5"
        writer = UVH5Writer(path, meta)
        writer.append(parts[0])
        copying = [0]

        def dies(fd, view, offset, copying=copying, stop=stop, path=path):
            if journal.journal_path(path).exists():
                copying[0] += 1
                if copying[0] == stop + 1:
                    shutil.copy(path, path.with_suffix(".dead.uvh5"))
                    shutil.copy(journal.journal_path(path), journal.journal_path(path.with_suffix(".dead.uvh5")))
            real(fd, view, offset)

        monkeypatch.setattr(journal, "_pwrite_all", dies)
        writer.append(parts[1])
        monkeypatch.setattr(journal, "_pwrite_all", real)
        writer.close()
        if copying[0] <= stop:
            break
        dead = recover(path.with_suffix(".dead.uvh5"))
        outcomes.append((dead.journal, dead.integrations))
        assert read(path.with_suffix(".dead.uvh5")).Ntimes == dead.integrations
    # The first write is the journal itself, still empty: its commit is dropped. After it every commit is completed.
    assert outcomes[0] == ("discarded", 1)
    assert len(outcomes) > 3 and set(outcomes[1:]) == {("completed", 2)}


def test_a_full_disk_leaves_every_earlier_integration(tmp_path):
    body = """
    import resource
    writer = UVH5Writer(PATH, meta)
    resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, 600_000))  # writes beyond fail as on a full disk
    try:
        for i in range(100):
            print(writer.append(nth(i)), flush=True)
    except UVH5Error as error:
        print("error", error, flush=True)
    """
    path = tmp_path / "a.uvh5"
    process = run_writer(path, body)
    lines = process.communicate(timeout=240)[0].splitlines()
    assert process.returncode == 0
    assert (
        lines[-1].startswith(f"error writing {path} failed") and f"holds the {len(lines) - 1} integrations" in lines[-1]
    )
    assert len(lines) > 2
    assert read(path).Ntimes == len(lines) - 1 and path.stat().st_size <= 600_000


def test_the_file_can_be_read_while_it_is_written(tmp_path, synthetic, rng):
    meta = synthetic.metadata(synthetic.enu(3, rng))
    with UVH5Writer(tmp_path / "a.uvh5", meta) as writer:
        for i in range(3):
            writer.append(synthetic.random_integration(meta, rng, i * 10**6, 10**6))
            with h5py.File(tmp_path / "a.uvh5", "r") as file:
                assert file["Header/Ntimes"][()] == i + 1


def test_recover_refuses_what_is_not_a_visibility_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        recover(tmp_path / "none.uvh5")
    (tmp_path / "text.uvh5").write_text("hello")
    with pytest.raises(UVH5Error, match="is no HDF5 file"):
        recover(tmp_path / "text.uvh5")


def test_ctrl_c_within_an_integration_leaves_the_earlier_ones(tmp_path, synthetic, rng, monkeypatch):
    meta = synthetic.metadata(synthetic.enu(3, rng))

    def interrupted(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), UVH5Writer(tmp_path / "a.uvh5", meta) as writer:
        writer.append(synthetic.random_integration(meta, rng, 0, 10**6))
        monkeypatch.setattr(writer, "_write_data", interrupted)  # the columns of the header have grown by then
        writer.append(synthetic.random_integration(meta, rng, 10**6, 10**6))
    assert read(tmp_path / "a.uvh5").Ntimes == 1


@pytest.mark.parametrize(
    ("pols", "degrees", "orientation"),
    [
        ("xy", [90, 0], "east"),
        ("yx", [180, -90], "east"),
        ("xy", [0, 90], "north"),
        ("xy", [[0, 90], [180, -90], [0, 270]], "north"),
        ("y", [90], "north"),
        ("xy", [[0, 90], [90, 0], [0, 90]], None),
        ("xy", [45, -45], None),
        ("rl", [0, 0], None),
    ],
)
def test_feeds_are_said_as_they_are(tmp_path, synthetic, rng, pols, degrees, orientation):
    """``feed_array`` and ``feed_angle`` for today's readers, ``x_orientation`` for older ones, where it is defined."""
    angles = np.radians(degrees)
    meta = synthetic.metadata(synthetic.enu(3, rng), pols=pols, feed_angles=angles)
    with UVH5Writer(tmp_path / "a.uvh5", meta) as writer:
        writer.append(synthetic.random_integration(meta, rng, 0, 10**6))
    data = read(tmp_path / "a.uvh5")
    assert data.telescope.feed_array.tolist() == [list(pols)] * 3
    np.testing.assert_array_equal(data.telescope.feed_angle, np.broadcast_to(angles, (3, len(pols))))
    with h5py.File(tmp_path / "a.uvh5") as file:
        said = file["Header/x_orientation"][()].decode() if "x_orientation" in file["Header"] else None
    assert said == orientation
    if pols != "rl":
        assert data.telescope.get_x_orientation_from_feeds() == orientation
