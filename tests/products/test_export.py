"""Exports read back by pyuvdata equal the UVH5 file; signs and swapped products survive."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
from astropy.io import fits
from casacore.tables import table
from pyuvdata import UVData
from pyuvdata.uvdata.aipy_extracts import UV

from ryle.products import export as module
from ryle.products.export import SUFFIXES, ExportError, export, polarizations
from ryle.products.readable import UVH5Error


def polarizations_of(data: UVData) -> list[str]:
    return [{-5: "xx", -6: "yy", -7: "xy", -8: "yx"}[int(number)] for number in data.polarization_array]


def read(path, **options) -> UVData:
    data = UVData()
    data.read(str(path), **options)
    return data


SKY = ((0.0021, 0.0034, (1.0, 0.2, -0.1, 0.15)), (-0.004, 0.0012, (0.7, 0.0, 0.3, -0.2)))


def names(data, numbers):
    """Antennas' names, whatever they are counted from."""
    name = dict(zip(data.telescope.antenna_numbers, data.telescope.antenna_names, strict=True))
    return [name[number] for number in numbers]


@pytest.mark.parametrize(("pols", "sideband"), [("xy", 1), ("xy", -1), ("x", 1), ("rl", 1)])
@pytest.mark.parametrize("form", ["ms", "uvfits", "miriad"])
def test_round_trip(tmp_path, synthetic, rng, form, pols, sideband):
    positions = synthetic.enu(4, rng)
    meta = synthetic.metadata(positions, pols=pols, sideband=sideband)
    sky = [synthetic.Source(*s) for s in SKY]
    path = synthetic.observe(tmp_path / "a.uvh5", meta, positions, sky, integrations=2)
    done = export(path, form, as_recorded=True)
    assert done.path == tmp_path / f"a{SUFFIXES[form]}" and done.path.exists() and not list(tmp_path.glob("*.partial"))
    want, got = read(path), read(done.path)
    for data in (want, got):
        data.conjugate_bls("ant1<ant2")
        data.reorder_blts("time", minor_order="baseline")
        data.reorder_pols("AIPS")
    assert np.array_equal(got.polarization_array, want.polarization_array)
    assert names(got, got.ant_1_array) == names(want, want.ant_1_array)
    assert names(got, got.ant_2_array) == names(want, want.ant_2_array)
    assert got.freq_array == pytest.approx(want.freq_array, rel=1e-9)
    # MIRIAD keeps times to a fraction of a second of the day and recomputes uvw from them
    assert got.time_array == pytest.approx(want.time_array, abs=1e-8)
    assert got.uvw_array == pytest.approx(want.uvw_array, abs=0.02)
    top = float(np.abs(want.data_array).max())
    assert got.data_array == pytest.approx(want.data_array, abs=1e-5 * top)
    assert np.array_equal(got.flag_array, want.flag_array)


@pytest.mark.parametrize("form", ["miriad", "uvfits"])
def test_one_polarization_each(tmp_path, synthetic, rng, form):
    """Together the parts hold what the file holds, each under its own name."""
    positions = synthetic.enu(3, rng)
    sky = [synthetic.Source(*s) for s in SKY]
    path = synthetic.observe(tmp_path / "a.uvh5", synthetic.metadata(positions), positions, sky, integrations=2)
    want = read(path)
    top = float(np.abs(want.data_array).max())
    assert polarizations(path) == ["xx", "yy", "xy", "yx"]
    for product in polarizations(path):
        done = export(path, form, polarization=product)
        assert done.path == tmp_path / f"a.{product}{SUFFIXES[form]}"
        # x is to the east: readers take it for y.
        recorded = product.translate(str.maketrans("xy", "yx"))
        part, got = want.select(polarizations=[recorded], inplace=False), read(done.path)
        for data in (part, got):
            data.conjugate_bls("ant1<ant2")
            data.reorder_blts("time", minor_order="baseline")
        assert polarizations_of(got) == [product]
        assert got.data_array == pytest.approx(part.data_array, abs=1e-5 * top)
        assert np.array_equal(got.flag_array, part.flag_array)


def test_measurement_set_rows_hold_the_opposite_product_and_baseline(tmp_path, synthetic, rng):
    """Read with casacore, not pyuvdata: X_a conj(X_b), uvw = r_a − r_b, XY = X of antenna 1 with Y of antenna 2.

    X is the northern feed, the recorded y.
    """
    positions = synthetic.enu(3, rng)
    meta = synthetic.metadata(positions)
    sky = [synthetic.Source(*s) for s in SKY]
    path = synthetic.observe(tmp_path / "a.uvh5", meta, positions, sky, integrations=1)
    done = export(path, "ms")
    spectra = round(60 * 64e6 / meta.spectrum_samples)
    truth = synthetic.correlations(meta, positions, sky, meta.midpoint(0, spectra), meta.phase_centre)
    want = read(path)
    with table(str(done.path / "ANTENNA"), ack=False) as antennas:
        index = {k: int(name[1:]) for k, name in enumerate(antennas.getcol("NAME"))}
    with table(str(done.path), ack=False) as ms, table(str(done.path / "POLARIZATION"), ack=False) as pol:
        assert pol.getcol("CORR_TYPE")[0].tolist() == [9, 10, 11, 12]  # XX XY YX YY
        for row in ms:
            a, b = index[row["ANTENNA1"]], index[row["ANTENNA2"]]
            assert row["DATA"] / synthetic.SCALE == pytest.approx(truth[:, a, b, ::-1, ::-1].reshape(16, 4), abs=1e-5)
            if a != b:
                uvw = want.uvw_array[(want.ant_1_array == min(a, b) + 1) & (want.ant_2_array == max(a, b) + 1)][0]
                assert row["UVW"] == pytest.approx(-uvw if a < b else uvw, abs=1e-6)


@pytest.mark.parametrize("form", ["ms", "uvfits"])
def test_unprojected_data_are_phased_to_the_zenith_at_mid_file_and_it_is_said(tmp_path, synthetic, rng, form):
    positions = synthetic.enu(3, rng)
    meta = synthetic.metadata(positions, tracked=False)
    path = synthetic.observe(tmp_path / "a.uvh5", meta, positions, synthetic.ASYMMETRIC, integrations=3)
    done = export(path, form)
    assert any("phased to the zenith at mid-file, 2026-01-01T00:01:30" in note for note in done.notes)
    (entry,) = read(done.path).phase_center_catalog.values()
    raw = read(path)
    assert entry["cat_type"] == "sidereal"
    assert entry["cat_lat"] == pytest.approx(raw.telescope.location.lat.rad, abs=5e-3)
    assert entry["cat_lon"] == pytest.approx(np.median(raw.lst_array), abs=2e-2)


def test_overwriting_is_asked_for(tmp_path, synthetic, rng):
    positions = synthetic.enu(2, rng)
    path = synthetic.observe(tmp_path / "a.uvh5", synthetic.metadata(positions), positions, synthetic.ASYMMETRIC)
    first = export(path, "uvfits")
    with pytest.raises(FileExistsError, match="allow it to be overwritten"):
        export(path, "uvfits")
    assert export(path, "uvfits", overwrite=True).path == first.path
    with pytest.raises(ValueError, match="input itself"):
        export(path, "uvfits", path)
    with pytest.raises(ValueError, match="choose one of ms, uvfits, miriad"):
        export(path, "fitsidi")
    with pytest.raises(FileNotFoundError):
        export(tmp_path / "b.uvh5", "ms")


def test_a_failed_export_leaves_the_old_one_and_nothing_half_written(tmp_path, synthetic, rng, monkeypatch):
    positions = synthetic.enu(2, rng)
    path = synthetic.observe(tmp_path / "a.uvh5", synthetic.metadata(positions), positions, synthetic.ASYMMETRIC)
    old = export(path, "uvfits").path.read_bytes()

    def fails(self, name):
        Path(name).write_text("half")
        raise OSError("No space left on device")

    monkeypatch.setattr(module.UVData, "write_uvfits", fails)
    with pytest.raises(ExportError, match="cannot be written as uvfits"):
        export(path, "uvfits", overwrite=True)
    assert (tmp_path / "a.uvfits").read_bytes() == old and not list(tmp_path.glob("*.partial"))
    (tmp_path / "c.uvh5").write_text("not HDF5")
    with pytest.raises(UVH5Error, match="is no HDF5 file"):
        export(tmp_path / "c.uvh5", "ms")


def observation_json():
    return json.dumps({"source": "my.toml", "toml": '[observation]\nobserver = "Jocelyn Bell"  # naïve\n' + "x" * 100})


def test_measurement_set_tables_say_what_is_known_and_nothing_else(tmp_path, synthetic, rng):
    """Read with casacore: no antenna but the array's, no pointing that nobody knows, and who, when and from what."""
    positions = synthetic.enu(3, rng)
    said = {"observer": "Jocelyn Bell", "project": "LGM-1"}
    meta = synthetic.metadata(
        positions,
        antenna_diameters=(25.0, 12.0, 6.0),
        extra_keywords=said,
        observation=observation_json(),
        history="made so",
    )
    path = synthetic.observe(tmp_path / "a.uvh5", meta, positions, synthetic.ASYMMETRIC, integrations=2)
    done = export(path, "ms")
    assert any("CASA does not know the telescope Synthetic" in note for note in done.notes)
    data = read(path)
    begin, end = (
        (jd - 2400000.5) * 86400 for jd in (data.time_array.min() - 30 / 86400, data.time_array.max() + 30 / 86400)
    )
    centre = np.array([axis.to_value("m") for axis in meta.location.geocentric])
    with opened(done.path) as main:
        assert set(main.getcol("ANTENNA1")) | set(main.getcol("ANTENNA2")) == {0, 1, 2} and main.nrows() == 12
        assert not main.getcol("STATE_ID").any() and not main.getcol("PROCESSOR_ID").any()
    with opened(done.path, "ANTENNA") as antennas:
        assert antennas.getcol("NAME") == list(meta.antenna_names)
        assert antennas.getcol("POSITION") == pytest.approx(meta.antenna_positions + centre, abs=1e-6)
        assert antennas.getcol("DISH_DIAMETER").tolist() == [25, 12, 6]
    with opened(done.path, "FEED") as feeds:
        assert feeds.getcol("ANTENNA_ID").tolist() == [0, 1, 2]
        assert np.array_equal(feeds.getcol("POL_RESPONSE"), np.broadcast_to(np.eye(2), (3, 2, 2)))
    with opened(done.path, "POINTING") as pointing:
        assert pointing.nrows() == 0
    with opened(done.path, "OBSERVATION") as about:
        assert about.getcol("OBSERVER") == ["Jocelyn Bell"] and about.getcol("PROJECT") == ["LGM-1"]
        assert about.getcol("TIME_RANGE")[0] == pytest.approx([begin, end], abs=1e-4)
    with opened(done.path, "FIELD") as fields, opened(done.path, "SOURCE") as sources:
        assert fields.getcol("NAME") == sources.getcol("NAME") == ["field"]
        assert fields.getcolkeyword("PHASE_DIR", "MEASINFO") == sources.getcolkeyword("DIRECTION", "MEASINFO")
        assert not any(sources.getcoldesc(name)["valueType"] == "record" for name in sources.colnames())
        for name in sources.colnames():
            assert sources.iscelldefined(name, 0), name
    with opened(done.path, "STATE") as state, opened(done.path, "PROCESSOR") as processor:
        assert state.getcol("OBS_MODE") == ["OBSERVE_TARGET#ON_SOURCE"] and processor.getcol("TYPE") == ["CORRELATOR"]
    with opened(done.path, "HISTORY") as history:
        messages = history.getcol("MESSAGE")
    assert "made so" in messages and "Observation file my.toml:" in messages and "  [observation]" in messages
    assert any(message.startswith("Of the signal 0.0000% is missing") for message in messages)


@pytest.mark.parametrize("form", [None, "ms", "uvfits", "miriad"])
@pytest.mark.parametrize("pols", ["xy", "rl"])
def test_pyuvdata_finds_nothing_wrong_however_strict(tmp_path, synthetic, rng, form, pols):
    """uvw fit the antennas, sidereal times the place, autocorrelations are real; no warning of any kind."""
    positions = synthetic.enu(4, rng)
    meta = synthetic.metadata(positions, pols=pols, mount="alt-az", antenna_diameters=(12.0,) * 4)
    path = synthetic.observe(tmp_path / "a.uvh5", meta, positions, synthetic.ASYMMETRIC, integrations=2)
    path = path if form is None else export(path, form).path
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data = UVData.from_file(str(path), strict_uvw_antpos_check=form != "miriad", check_autos=True, fix_autos=False)
        data.check(check_extra=True, run_check_acceptability=True, check_autos=True)
    centre = np.array([axis.to_value("m") for axis in meta.location.geocentric])
    place = np.array([axis.to_value("m") for axis in data.telescope.location.geocentric])
    order = [list(data.telescope.antenna_names).index(name) for name in meta.antenna_names]
    assert data.telescope.antenna_positions[order] + place == pytest.approx(meta.antenna_positions + centre, abs=1e-3)


def opened(path, name=""):
    return table(str(path / name), ack=False)


def test_uvfits_read_by_hand(tmp_path, synthetic, rng):
    """With the FITS standard and AIPS memo 117 alone: positions, baselines, times and visibilities."""
    positions = synthetic.enu(3, rng)
    meta = synthetic.metadata(
        positions, extra_keywords={"observer": "Jocelyn Bell"}, observation=observation_json(), history="made so"
    )
    path = synthetic.observe(tmp_path / "a.uvh5", meta, positions, synthetic.ASYMMETRIC, integrations=2)
    want = read(path)
    with fits.open(export(path, "uvfits").path) as file:
        header, groups, antennas = file[0].header, file[0].data, file["AIPS AN"]
        assert header["OBSERVER"] == "Jocelyn Bell" and "made so" in str(header["HISTORY"])
        assert "Observation file my.toml:" in str(header["HISTORY"]) and "na\\xefve" in str(header["HISTORY"])
        # The centre is the Earth's and the frame ITRF: nothing to add, nothing to turn.
        assert [antennas.header[f"ARRAY{axis}"] for axis in "XYZ"] == [0, 0, 0] and antennas.header["FRAME"] == "ITRF"
        place = dict(zip(antennas.data["NOSTA"].tolist(), antennas.data["STABXYZ"], strict=True))
        name = dict(zip(antennas.data["NOSTA"].tolist(), antennas.data["ANNAME"], strict=True))
        centre = np.array([axis.to_value("m") for axis in meta.location.geocentric])
        for number, antenna in name.items():
            index = meta.antenna_names.index(antenna)
            assert place[number] == pytest.approx(meta.antenna_positions[index] + centre, abs=1e-6)
        types = [header[f"PTYPE{k}"] for k in range(1, header["PCOUNT"] + 1)]
        par = {t: sum(groups.par(k).astype(np.float64) for k, n in enumerate(types) if n == t) for t in set(types)}
        assert np.unique(par["DATE"]) == pytest.approx(np.unique(want.time_array), abs=1e-9)
        stokes = header["CRVAL3"] + header["CDELT3"] * np.arange(header["NAXIS3"])
        light = 299792458.0
        for row in range(len(groups)):
            a, b = divmod(int(par["BASELINE"][row]), 256)
            low, high = min(a, b), max(a, b)
            at = np.isclose(want.time_array, par["DATE"][row], rtol=0, atol=1e-8)
            (source,) = np.flatnonzero((want.ant_1_array == low) & (want.ant_2_array == high) & at)
            uvw = np.array([par[axis][row] for axis in ("UU", "VV", "WW")]) * light
            sign = -1 if a == low else 1  # UVFITS: r_a − r_b, X_a conj(X_b); UVH5 has the opposite
            assert uvw == pytest.approx(sign * want.uvw_array[source], abs=1e-3)
            vis = groups.data[row, 0, 0, 0, :, :, 0] + 1j * groups.data[row, 0, 0, 0, :, :, 1]
            for column, number in enumerate(stokes):
                turned = {-7: -8, -8: -7}.get(number, number)  # the pair the other way round: XY is YX
                (k,) = np.flatnonzero(want.polarization_array == (number if a <= b else turned))
                expected = want.data_array[source, :, k]
                assert vis[:, column] == pytest.approx(expected.conj() if a <= b else expected, rel=1e-5, abs=1e-6)


def test_miriad_stamps_are_the_beginning_of_an_integration(tmp_path, synthetic, rng):
    """Of Miriad's uv variables, "time" is the time at which an integration began; antennas count from 1."""
    positions = synthetic.enu(3, rng)
    path = synthetic.observe(tmp_path / "a.uvh5", synthetic.metadata(positions), positions, synthetic.ASYMMETRIC)
    raw, stamps, seen = UV(str(export(path, "miriad").path)), set(), set()
    for (_, time, pair), _, _ in raw.all_data(raw=True):
        stamps.add(round(float(time), 9))
        seen |= set(pair)
    assert raw["inttime"] == pytest.approx(60) and seen == {0, 1, 2}  # aipy counts from 0 what the file counts from 1
    assert sorted(stamps) == pytest.approx(np.unique(read(path).time_array) - 30 / 86400, abs=1e-7)
