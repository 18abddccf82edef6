"""Feeds of any direction: every reader gets the sky's Stokes parameters, from the file as it stands."""

from __future__ import annotations

import io

import h5py
import numpy as np
import pytest
import typer
from astropy.io import fits
from casacore.tables import table
from pyuvdata import UVData
from pyuvdata.uvdata.aipy_extracts import UV
from rich.console import Console
from typer.testing import CliRunner

from ryle.cli import files
from ryle.config import example, parse
from ryle.engines.deliver import deliver
from ryle.products.export import SUFFIXES, export, polarizations
from ryle.products.feeds import Placement
from ryle.products.stokes import stokes

SKY = ((0.0021, 0.0034, (1.0, 0.2, -0.1, 0.15)), (-0.004, 0.0012, (0.7, -0.1, 0.3, -0.2)))

#: Feeds, their angles, and by how much readers that look at no angles find positions angles of polarization too small;
#: None where antennas differ.
CASES = {
    "x east": ("xy", [90, 0], 0),
    "x north": ("xy", [0, 90], 0),
    "y first": ("yx", [0, 90], 0),
    "the other way": ("xy", [-90, 0], 0),
    "45": ("xy", [45, 135], 45),
    "crossed 45": ("xy", [45, -45], 45),
    "-30, y first": ("yx", [60, -30], -30),
    "multiples of 90": ("xy", [[90, 0], [0, 90], [180, -90], [270, 180]], 0),
    "of each antenna": ("xy", [[90, 0], [30, 120], [-50, 40], [10, 280]], None),
    "circular": ("rl", [0, 0], 0),
    "circular at 20": ("rl", [20, 20], 20),
}


def observed(tmp_path, synthetic, rng, pols, degrees):
    """A UVH5 file of the sky, and visibilities (channel, a, b) of its Stokes parameters, of sky voltages X_a conj(X_b)."""
    positions = synthetic.enu(4, rng)
    meta = synthetic.metadata(positions, pols=pols, channels=4, feed_angles=np.radians(degrees))
    sky = [synthetic.Source(*s) for s in SKY]
    path = synthetic.observe(tmp_path / "a.uvh5", meta, positions, sky, integrations=1)
    time = meta.midpoint(0, round(60 * 64e6 / meta.spectrum_samples))
    ideal = synthetic.metadata(positions, pols="xy", channels=4, feed_angles=np.radians([0, 90]))
    (nn, ne), (en, ee) = synthetic.correlations(ideal, positions, sky, time, meta.phase_centre).transpose(3, 4, 0, 1, 2)
    return path, np.array([nn + ee, nn - ee, ne + en, -1j * (ne - en)])


def read(path) -> UVData:
    data = UVData()
    data.read(str(path), strict_uvw_antpos_check=not path.suffix == ".mir")
    data.conjugate_bls("ant1<ant2")
    return data


@pytest.mark.parametrize(
    ("case", "as_recorded"), [(c, False) for c in CASES] + [("x east", True), ("of each antenna", True)]
)
def test_stokes_parameters_from_every_format(tmp_path, synthetic, rng, case, as_recorded):
    pols, degrees, _ = CASES[case]
    path, want = observed(tmp_path, synthetic, rng, pols, degrees)
    files = [] if as_recorded else [path]
    files += [export(path, form, as_recorded=as_recorded).path for form in SUFFIXES]
    for file in files:
        data = read(file)
        start = data.telescope.antenna_numbers[0]
        for parameter, visibilities in zip("IQUV", want, strict=True):
            got = stokes(data, parameter)[0] / synthetic.SCALE
            true = visibilities[:, data.ant_1_array - start, data.ant_2_array - start].T.conj()
            assert got == pytest.approx(true, abs=3e-5), (file.suffix, parameter)


@pytest.mark.parametrize("case", [name for name, (_, _, error) in CASES.items() if error is not None])
@pytest.mark.parametrize("form", ["ms", "uvfits"])
def test_what_readers_make_of_the_products_alone(tmp_path, synthetic, rng, case, form):
    """CASA's, AIPS' and WSClean's formulas on what stands in the file, read without pyuvdata."""
    pols, degrees, small = CASES[case]
    path, want = observed(tmp_path, synthetic, rng, pols, degrees)
    file = export(path, form).path
    first, second, values = (from_measurement_set if form == "ms" else from_uvfits)(file)
    pq = {name: values[..., k] / synthetic.SCALE for k, name in enumerate(["pp", "pq", "qp", "qq"])}
    if pols == "rl":
        i, v, q, u = (pq["pp"] + pq["qq"], pq["pp"] - pq["qq"], pq["pq"] + pq["qp"], -1j * (pq["pq"] - pq["qp"]))
    else:
        i, q, u, v = (pq["pp"] + pq["qq"], pq["pp"] - pq["qq"], pq["pq"] + pq["qp"], -1j * (pq["pq"] - pq["qp"]))
    c, s = np.cos(2 * np.radians(small)), np.sin(2 * np.radians(small))
    for name, got, true in zip("IQUV", (i, c * q - s * u, s * q + c * u, v), want, strict=True):
        assert got == pytest.approx(true[:, first, second].T, abs=3e-5), name


def from_measurement_set(file):
    """Antennas by place, and products pp, pq, qp, qq of X_1 conj(X_2), shape (row, channel, 4)."""
    with table(f"{file}::ANTENNA", ack=False) as antennas:
        place = {k: int(name[1:]) for k, name in enumerate(antennas.getcol("NAME")) if name}
    with table(f"{file}::POLARIZATION", ack=False) as polarization:
        kinds = polarization.getcol("CORR_TYPE")[0].tolist()
    wanted = [9, 10, 11, 12] if 9 in kinds else [5, 6, 7, 8]  # casacore's Stokes: XX XY YX YY, RR RL LR LL
    with table(str(file), ack=False) as ms:
        first, second = (np.array([place[a] for a in ms.getcol(f"ANTENNA{n}")]) for n in (1, 2))
        return first, second, ms.getcol("DATA")[..., [kinds.index(kind) for kind in wanted]]


def from_uvfits(file):
    """The same of a UVFITS file, by AIPS memo 117."""
    with fits.open(file) as hdus:
        header, rows = hdus[0].header, hdus[0].data
        axis = next(n for n in range(1, 10) if header.get(f"CTYPE{n}") == "STOKES")
        codes = header[f"CRVAL{axis}"] + header[f"CDELT{axis}"] * np.arange(header[f"NAXIS{axis}"])
        wanted = [-5, -7, -8, -6] if codes[0] <= -5 else [-1, -3, -4, -2]
        baseline = rows["BASELINE"].astype(int)
        parts = rows["DATA"].reshape(len(baseline), -1, len(codes), 3)
        values = (parts[..., 0] + 1j * parts[..., 1])[..., [codes.tolist().index(code) for code in wanted]]
        return baseline // 256 - 1, baseline % 256 - 1, values


def test_angles_stand_where_formats_keep_them(tmp_path, synthetic, rng):
    path, _ = observed(tmp_path, synthetic, rng, "xy", [[45, -45], [135, 45], [-135, 135], [45, 135]])
    done = {form: export(path, form) for form in SUFFIXES}
    with table(f"{done['ms'].path}::FEED", ack=False) as feed, table(f"{done['ms'].path}::ANTENNA", ack=False) as names:
        rows = [k for k in range(feed.nrows()) if names.getcol("NAME")[feed.getcell("ANTENNA_ID", k)]]
        assert len(rows) == 4
        for k in rows:
            assert feed.getcell("POLARIZATION_TYPE", k) == ["X", "Y"]
            assert np.degrees(feed.getcell("RECEPTOR_ANGLE", k)) == pytest.approx([45, 135])
            assert np.array_equal(feed.getcell("POL_RESPONSE", k), np.eye(2))
    with fits.open(done["uvfits"].path) as hdus:
        table_of_antennas = hdus["AIPS AN"]
        assert table_of_antennas.data["POLAA"] == pytest.approx(45) and table_of_antennas.data[
            "POLAB"
        ] == pytest.approx(135)
        assert set(table_of_antennas.data["POLTYA"]) == {"X"} and table_of_antennas.header["POLTYPE"] == ""
    dataset = UV(str(done["miriad"].path))
    assert dataset["evector"] == dataset["chi"] == pytest.approx(np.pi / 4)
    for form, word in (("ms", "RECEPTOR_ANGLE"), ("uvfits", "POLAA and POLAB"), ("miriad", "evector")):
        notes = "\n".join(done[form].notes)
        assert f"45 deg from where readers take them, through east: {word} says so and " in notes
        assert "feeds x and y of m001 are exchanged" in notes and "negated: m000 y, m002 x" in notes
        assert "add 45 deg" in notes and "turn on the sky" not in notes


def test_what_is_said(tmp_path, synthetic, rng):
    path, _ = observed(tmp_path, synthetic, rng, "xy", [90, 0])
    (note,) = (n for n in export(path, "ms").notes if n.startswith("feeds"))
    assert note.startswith(
        "feeds x and y are exchanged, and with them xx and yy, xy and yx: readers take x to the north"
    )
    (note,) = (n for n in export(path, "ms", overwrite=True, as_recorded=True).notes if n.startswith("feeds"))
    assert note.startswith("feeds are as recorded, x 90 deg, y 0 deg from north through east: RECEPTOR_ANGLE says so")
    meta = synthetic.metadata(
        (place := synthetic.enu(2, rng)), channels=4, mount="alt-az", feed_angles=np.radians([[0, 90], [20, 100]])
    )
    path = synthetic.observe(tmp_path / "b.uvh5", meta, place, [synthetic.Source(*SKY[0])], integrations=1)
    notes = [n for n in export(path, "uvfits").notes if n.startswith("feeds")]
    assert notes[0].startswith("feeds of antennas point in different directions, 0 deg to 20 deg")
    assert notes[1] == "feeds of m001 are not perpendicular, which readers take them to be"
    assert notes[2].startswith("feeds turn on the sky (alt-az mount): Q and U are right after CASA's applycal")


def test_one_feed_is_what_its_direction_says(tmp_path, synthetic, rng):
    """x to the east alone is y; antennas that differ cannot be renamed with one product."""
    path, _ = observed(tmp_path, synthetic, rng, "x", [90])
    assert polarizations(path) == ["yy"] and polarizations(path, as_recorded=True) == ["xx"]
    data = read(export(path, "uvfits").path)
    assert data.polarization_array == [-6] and data.telescope.feed_array.tolist() == [["y"]] * 4
    assert data.telescope.feed_angle == pytest.approx(np.pi / 2)
    data = read(export(path, "ms", polarization="yy").path)
    assert data.polarization_array == [-6]
    (tmp_path / "b").mkdir()
    path, _ = observed(tmp_path / "b", synthetic, rng, "x", [[90], [0], [90], [90]])
    done = export(path, "uvfits")
    assert read(done.path).polarization_array == [-5]
    assert any("different directions, 0 deg to 90 deg" in note for note in done.notes)


def test_products_of_antennas_that_differ_can_be_split(tmp_path, synthetic, rng):
    pols, degrees, _ = CASES["multiples of 90"]
    path, want = observed(tmp_path, synthetic, rng, pols, degrees)
    assert polarizations(path) == ["xx", "yy", "xy", "yx"]
    got = read(export(path, "uvfits", polarization="xy").path)
    assert got.polarization_array == [-7]
    true = (want[2] + 1j * want[3])[:, got.ant_1_array - 1, got.ant_2_array - 1].T.conj() / 2
    assert got.data_array[..., 0] / synthetic.SCALE == pytest.approx(true, abs=3e-5)


def test_a_file_that_does_not_say_where_feeds_point_is_left_as_it_is(tmp_path, synthetic, rng):
    path, _ = observed(tmp_path, synthetic, rng, "xy", [90, 0])
    want = read(path).data_array
    with h5py.File(path, "r+") as file:
        for name in ("feed_array", "feed_angle", "x_orientation", "mount_type", "Nfeeds"):
            del file["Header"][name]
    done = export(path, "uvfits")
    assert any("does not say where its feeds point" in note for note in done.notes)
    assert read(done.path).data_array == pytest.approx(want, rel=1e-6, abs=1)


def test_as_recorded_is_asked_for_by_option_and_by_key(tmp_path, synthetic, rng):
    path, _ = observed(tmp_path, synthetic, rng, "xy", [90, 0])
    recorded = read(path).get_data(1, 2, "xx")
    app, command = typer.Typer(), [str(path), "--to", "uvfits", "-o", str(tmp_path)]
    app.command()(files.export)
    for option, product in ((["--as-recorded"], "xx"), (["--overwrite"], "yy")):
        done = CliRunner().invoke(app, command + option)
        assert done.exit_code == 0, done.output
        assert ("note: feeds are as recorded" in done.stderr) == ("--as-recorded" in option)
        assert read(tmp_path / "a.uvfits").get_data(1, 2, product) == pytest.approx(recorded, rel=1e-6)
    text = example("demo").read_text().split("[output]")[0]
    for key, product in (("as_recorded = true", "xx"), ("", "yy")):
        o = parse(f'{text}\n[output]\nformats = ["uvfits"]\n{key}\n')
        deliver(o, path, Console(file=io.StringIO()))
        assert read(tmp_path / "a.uvfits").get_data(1, 2, product) == pytest.approx(recorded, rel=1e-6)


@pytest.mark.parametrize("feeds", ["xy", "yx"])
def test_any_pair_becomes_right_handed_with_x_nearest_the_north(rng, feeds):
    """Over all directions: the signed voltages are those of feeds at the angles said, x within 45 degrees of north."""
    first = rng.uniform(-2 * np.pi, 2 * np.pi, 500)
    angles = np.stack([first, first + rng.choice([-1, 1], 500) * np.pi / 2], axis=-1)
    placed = Placement.northward(list(feeds), angles, products=4)
    recorded = np.take_along_axis(angles, placed.source, axis=1)
    for component in (np.cos, np.sin):
        assert component(placed.angles) == pytest.approx(placed.sign * component(recorded), abs=1e-9)
    x, y = placed.angles.T
    assert (np.abs(x) <= np.pi / 4 + 1e-5).all() and y - x == pytest.approx(np.pi / 2)
    assert placed.exchanged.any() and not placed.exchanged.all() and (placed.sign < 0).any()
