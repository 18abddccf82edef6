"""Exports read back by pyuvdata equal the UVH5 file; signs and swapped products survive."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from casacore.tables import table
from pyuvdata import UVData

from ryle.products import export as module
from ryle.products.export import SUFFIXES, ExportError, export, polarizations


def read(path, **options) -> UVData:
    data = UVData()
    data.read(str(path), **options)
    return data


SKY = ((0.0021, 0.0034, (1.0, 0.2, -0.1, 0.15)), (-0.004, 0.0012, (0.7, 0.0, 0.3, -0.2)))


@pytest.mark.parametrize(("pols", "sideband"), [("xy", 1), ("xy", -1), ("x", 1), ("rl", 1)])
@pytest.mark.parametrize("form", ["ms", "uvfits", "miriad"])
def test_round_trip(tmp_path, synthetic, rng, form, pols, sideband):
    positions = synthetic.enu(4, rng)
    meta = synthetic.metadata(positions, pols=pols, sideband=sideband)
    sky = [synthetic.Source(*s) for s in SKY]
    path = synthetic.observe(tmp_path / "a.uvh5", meta, positions, sky, integrations=2)
    done = export(path, form)
    assert done.path == tmp_path / f"a{SUFFIXES[form]}" and done.path.exists() and not list(tmp_path.glob("*.partial"))
    want, got = read(path), read(done.path)
    for data in (want, got):
        data.conjugate_bls("ant1<ant2")
        data.reorder_blts("time", minor_order="baseline")
        data.reorder_pols("AIPS")
    assert np.array_equal(got.polarization_array, want.polarization_array)
    assert np.array_equal(got.ant_1_array, want.ant_1_array) and np.array_equal(got.ant_2_array, want.ant_2_array)
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
        part, got = want.select(polarizations=[product], inplace=False), read(done.path)
        for data in (part, got):
            data.conjugate_bls("ant1<ant2")
            data.reorder_blts("time", minor_order="baseline")
        assert got.polarization_array.tolist() == part.polarization_array.tolist()
        assert got.data_array == pytest.approx(part.data_array, abs=1e-5 * top)
        assert np.array_equal(got.flag_array, part.flag_array)


def test_measurement_set_rows_hold_the_opposite_product_and_baseline(tmp_path, synthetic, rng):
    """Read with casacore, not pyuvdata: X_a conj(X_b), uvw = r_a − r_b, XY = X of antenna 1 with Y of antenna 2."""
    positions = synthetic.enu(3, rng)
    meta = synthetic.metadata(positions)
    sky = [synthetic.Source(*s) for s in SKY]
    path = synthetic.observe(tmp_path / "a.uvh5", meta, positions, sky, integrations=1)
    done = export(path, "ms")
    spectra = round(60 * 64e6 / meta.spectrum_samples)
    truth = synthetic.correlations(meta, positions, sky, meta.midpoint(0, spectra), meta.phase_centre)
    want = read(path)
    with table(str(done.path / "ANTENNA"), ack=False) as antennas:
        index = {k: int(name[1:]) for k, name in enumerate(antennas.getcol("NAME")) if name}
    with table(str(done.path), ack=False) as ms, table(str(done.path / "POLARIZATION"), ack=False) as pol:
        assert pol.getcol("CORR_TYPE")[0].tolist() == [9, 10, 11, 12]  # XX XY YX YY
        for row in ms:
            a, b = index[row["ANTENNA1"]], index[row["ANTENNA2"]]
            assert row["DATA"] / synthetic.SCALE == pytest.approx(truth[:, a, b].reshape(16, 4), abs=1e-5)
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
    with pytest.raises(ExportError, match="cannot be written"):
        export(tmp_path / "c.uvh5", "ms")
