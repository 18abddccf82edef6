"""CASA, xradio and dask-ms read exports as they are meant: antennas, positions, times, gains."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import fresh
from ryle.products.export import export

#: A user's manual has the commands that add a telescope to CASA's list.
MANUAL = Path(__file__).parents[3] / "docs" / "howto" / "files.md"


@pytest.fixture
def observed(tmp_path, synthetic, rng):
    """A file of six antennas with gains of their own, and one without."""
    positions = synthetic.enu(6, rng)
    meta = synthetic.metadata(
        positions,
        mount="alt-az",
        antenna_diameters=tuple(10.0 + k for k in range(6)),
        extra_keywords={"observer": "Ryle"},
    )
    clean = synthetic.observe(tmp_path / "clean.uvh5", meta, positions, synthetic.ASYMMETRIC)
    gains = rng.uniform(0.5, 2, 6) * np.exp(1j * rng.uniform(-np.pi, np.pi, 6))
    spoilt = synthetic.observe(tmp_path / "spoilt.uvh5", meta, positions, synthetic.ASYMMETRIC, gains=gains)
    return clean, spoilt, gains, meta


def test_casa_lists_a_telescope_that_was_added(tmp_path, observed, tool):
    meta = observed[3]
    export(observed[0], "ms")
    place = meta.location.to_geodetic()
    own = (meta.telescope, float(place.lon.deg), float(place.lat.deg), float(place.height.to_value("m")))
    (commands,) = re.findall(r"```python\n(from casatools.*?)```", MANUAL.read_text(), re.DOTALL)
    commands, changed = re.subn(r'= "MYARRAY", .*', f"= {own!r}", commands)
    assert changed == 1
    answer = tool(
        "import os, shutil, casadata\n"
        "for part in ('geodetic', 'ephemerides'):\n"
        "    shutil.copytree(f'{casadata.datapath}/{part}', os.path.join(os.environ['CASADATA'], part))\n"
        f"{commands}\n"
        "from casatasks import listobs\n"
        "listobs(vis='clean.ms', listfile='list.txt')\n"
        "answer = {'text': open('list.txt').read()}",
        packages="casatasks, casatools",
        CASADATA=str(tmp_path / "data"),
    )
    text = answer["text"]
    assert "Observer: Ryle" in text and f"Observation: {meta.telescope}" in text and "Antennas: 6:" in text
    assert "OBSERVE_TARGET#ON_SOURCE" in text
    for number, name in enumerate(meta.antenna_names):
        assert any(line.split()[:3] == [str(number), name, name] for line in text.splitlines())


def test_casa_finds_antennas_where_they_are_in_both_formats(observed, tool):
    path, _, _, meta = observed
    export(path, "ms"), export(path, "uvfits")
    answer = tool(
        "from casatools import table\nfrom casatasks import importuvfits\n"
        "importuvfits(fitsfile='clean.uvfits', vis='from_uvfits.ms')\n"
        "tb, answer = table(), {}\n"
        "for name in ('clean.ms', 'from_uvfits.ms'):\n"
        "    tb.open(name + '/ANTENNA')\n"
        "    answer[name] = [tb.getcol('POSITION').T.tolist(), tb.getcol('DISH_DIAMETER').tolist(), list(tb.getcol('STATION'))]\n"
        "    tb.close()",
        packages="casatasks, casatools",
    )
    centre = np.array([axis.to_value("m") for axis in meta.location.geocentric])
    for positions, diameters, names in answer.values():
        assert np.array(positions) == pytest.approx(meta.antenna_positions + centre, abs=1e-3)
        assert diameters == list(meta.antenna_diameters) and tuple(names) == meta.antenna_names


def test_casa_solves_for_the_gains_that_were_put_in(observed, tool):
    clean, spoilt, gains, _ = observed
    export(clean, "ms"), export(spoilt, "ms")
    answer = tool(
        "import numpy as np\nfrom casatools import table\nfrom casatasks import gaincal, clearcal\n"
        "clearcal(vis='spoilt.ms', addmodel=True)\n"
        "tb = table()\n"
        "tb.open('clean.ms')\nmodel = tb.getcol('DATA')\ntb.close()\n"
        "tb.open('spoilt.ms', nomodify=False)\ntb.putcol('MODEL_DATA', model)\n"
        # The solver stops where noise lets it get no better; of data without any it may give up after 50 steps.
        f"rng, data = np.random.default_rng({fresh.seed()}), tb.getcol('DATA')\n"
        "noise = rng.standard_normal((2, *data.shape)) * 1e-3 * np.abs(data).mean()\n"
        "tb.putcol('DATA', data + noise[0] + 1j * noise[1])\ntb.close()\n"
        "gaincal(vis='spoilt.ms', caltable='g.cal', solint='inf', refant='m000', gaintype='G', calmode='ap')\n"
        "tb.open('g.cal')\n"
        "g = tb.getcol('CPARAM')[:, 0]\n"
        "answer = {'antenna': tb.getcol('ANTENNA1').tolist(), 'real': g.real.tolist(), 'imag': g.imag.tolist()}",
        packages="casatasks, casatools",
    )
    want = gains * np.exp(-1j * np.angle(gains[0]))
    found = np.array(answer["real"]) + 1j * np.array(answer["imag"])
    assert sorted(answer["antenna"]) == list(range(6))
    for row, antenna in enumerate(answer["antenna"]):
        assert found[:, row] == pytest.approx(want[antenna], abs=2e-3 * abs(want[antenna]))


def test_xradio_converts_the_measurement_set(tmp_path, observed, tool):
    path, _, _, meta = observed
    done = export(path, "ms")
    answer = tool(
        "from xradio.measurement_set import convert_msv2_to_processing_set, open_processing_set\n"
        f"convert_msv2_to_processing_set({str(done.path)!r}, {str(tmp_path / 'x')!r}, parallel_mode='none')\n"
        f"(one,) = open_processing_set({str(tmp_path / 'x.ps.zarr')!r}).children.values()\n"
        "answer = {'sizes': dict(one.sizes), 'names': [str(n) for n in one['antenna_xds'].antenna_name.values],\n"
        "          'times': one.time.values.tolist(), 'field': [str(f) for f in one.field_name.values]}",
        packages="xradio.measurement_set",
    )
    assert answer["sizes"]["baseline_id"] == 21 and answer["sizes"]["frequency"] == 16 and answer["sizes"]["time"] == 3
    assert [name.split("_")[0] for name in answer["names"]] == list(meta.antenna_names)
    assert np.diff(answer["times"]) == pytest.approx(60, abs=1e-3)
    assert all(field.startswith("field") for field in answer["field"])


def test_dask_ms_reads_every_table(observed, tool):
    done = export(observed[0], "ms")
    answer = tool(
        "from daskms import xds_from_table\nimport os\n"
        f"path = {str(done.path)!r}\n"
        "answer = {}\n"
        "for name in sorted(n for n in os.listdir(path) if os.path.isdir(os.path.join(path, n))):\n"
        "    (rows,) = xds_from_table(path + '::' + name)\n"
        "    rows = rows.compute()\n"
        "    answer[name] = rows.sizes['row']",
        packages="daskms",
    )
    assert answer["ANTENNA"] == answer["FEED"] == 6 and answer["POINTING"] == answer["FLAG_CMD"] == 0
    assert {n: answer[n] for n in ("SOURCE", "FIELD", "STATE", "PROCESSOR", "OBSERVATION")} == dict.fromkeys(
        ("SOURCE", "FIELD", "STATE", "PROCESSOR", "OBSERVATION"), 1
    )
