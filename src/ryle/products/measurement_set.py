"""What pyuvdata leaves out of a MeasurementSet, or puts in that is not so, mended with casacore.

References: Kemball & Wieringa, "MeasurementSet definition version 2.0" (CASA note 229); where that is silent, what
CASA 6.7's importuvfits writes. What is mended here and why is listed in ``docs/howto/files.md``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from casacore.tables import table
from pyuvdata import UVData

from ryle import __version__
from ryle.products.provenance import Provenance

#: Names that CASA 6.7 knows the position of (casadata 2025.9, geodetic/Observatories); its listobs refuses others.
CASA_OBSERVATORIES = frozenset(
    "ACA ALMA AMI-LA APEX ARECIBO ASKAP ASTE ATA ATCA ATF BIMA CARMA CLRO DRAO DSA2000 DWL EFFELSBERG EOVSA EVLA EVN "
    "FAST GB GBT GMRT HERA IRAM_PDB JCMT KAT-7 LOFAR LWA1 MERLIN2 MOPRA MOST MUSER MWA MWA32T MEERKAT NGVLA NOEMA "
    "NRAO12M NRAO_GBT NRO OSF OVRO-LWA OVRO_MMA PAPER_GB PAPER_SA PKS SMA SMT SUNRISE VLA VLBA WSRT E-MERLIN".split()
)


def number_from_zero(data: UVData) -> None:
    """Count antennas from 0 in their order, in place: those are rows of MS tables, and MIRIAD's numbers less one.

    pyuvdata takes the number for the row: numbers from 1 give an antenna 0 without a name, at the Earth's centre.
    """
    numbers = list(data.telescope.antenna_numbers)
    row = {number: k for k, number in enumerate(numbers)}
    for name in ("ant_1_array", "ant_2_array"):
        setattr(data, name, np.array([row[number] for number in getattr(data, name)]))
    data.telescope.antenna_numbers = np.arange(len(numbers))
    data.baseline_array = data.antnums_to_baseline(data.ant_1_array, data.ant_2_array)


def unknown_observatory(name: str) -> str | None:
    """Say that CASA does not know a telescope, and what follows; None if it does."""
    if name.upper() in CASA_OBSERVATORIES:
        return None
    return (
        f"CASA does not know the telescope {name}: listobs and others refuse the file until it is added to CASA's list "
        "of observatories; docs/howto/files.md has the commands"
    )


def finish(path: Path, data: UVData, provenance: Provenance) -> None:
    """Complete a MeasurementSet that pyuvdata wrote.

    Parameters
    ----------
    path : Path
        The MeasurementSet; changed in place.
    data : pyuvdata.UVData
        What was written to it.
    provenance : Provenance
        Observer, project and history.
    """
    half = data.integration_time / 2 / 86400
    begin, end = ((jd - 2400000.5) * 86400 for jd in (np.min(data.time_array - half), np.max(data.time_array + half)))
    with _open(path) as main:
        for name in ("PROCESSOR_ID", "STATE_ID", "OBSERVATION_ID"):
            main.putcol(name, np.zeros(main.nrows(), np.int32))
    with _open(path, "ANTENNA") as antennas:
        antennas.putcol("TYPE", ["GROUND-BASED"] * antennas.nrows())
    with _open(path, "FEED") as feeds:
        for row in range(feeds.nrows()):  # pyuvdata leaves the response zero: no leakage is the unit matrix
            feeds.putcell("POL_RESPONSE", row, np.eye(int(feeds.getcell("NUM_RECEPTORS", row)), dtype=np.complex64))
    with _open(path, "FIELD") as fields:
        fields.putcol("TIME", np.full(fields.nrows(), begin))
        frame = fields.getcolkeyword("PHASE_DIR", "MEASINFO")
    with _open(path, "POINTING") as pointing:
        # Nobody tells a correlator where dishes point; readers take the field's centre if this table is empty.
        pointing.removerows(pointing.rownumbers())
    state = {"SIG": True, "REF": False, "CAL": 0.0, "LOAD": 0.0, "SUB_SCAN": 0, "FLAG_ROW": False}
    _put(path, "STATE", OBS_MODE="OBSERVE_TARGET#ON_SOURCE", **state)
    _put(path, "PROCESSOR", TYPE="CORRELATOR", SUB_TYPE="RYLE", TYPE_ID=-1, MODE_ID=-1, FLAG_ROW=False)
    _put(
        path,
        "OBSERVATION",
        OBSERVER=provenance.observer or "unknown",
        PROJECT=provenance.project,
        TIME_RANGE=np.array([begin, end]),
        RELEASE_DATE=end,
        LOG=[""],
        SCHEDULE=[""],
    )
    with _open(path, "HISTORY") as history:
        start = history.nrows()
        history.addrows(len(provenance.lines))
        for row, line in enumerate(provenance.lines, start):
            cells: dict[str, Any] = {
                "APPLICATION": "Ryle",
                "ORIGIN": f"Ryle {__version__}",
                "MESSAGE": line,
                "PRIORITY": "INFO",
                "OBJECT_ID": 0,
                "OBSERVATION_ID": 0,
                "TIME": end,
                "APP_PARAMS": [""],
                "CLI_COMMAND": [""],
            }
            for name, value in cells.items():
                history.putcell(name, row, value)
    with _open(path, "SOURCE") as sources:
        # Optional columns that have no value, among them one of records, which not every reader has a type for.
        empty = {"SOURCE_MODEL", "PULSAR_ID", "POSITION", "REST_FREQUENCY", "SYSVEL", "TRANSITION"}
        sources.putcol("SPECTRAL_WINDOW_ID", np.zeros(sources.nrows(), np.int32))
        sources.removecols(sorted(empty & set(sources.colnames())))
        sources.putcolkeyword("DIRECTION", "MEASINFO", frame)  # pyuvdata says J2000 whatever it is


def _open(path: Path, name: str = "") -> Any:
    return table(str(path / name), readonly=False, ack=False)


def _put(path: Path, name: str, **cells: Any) -> None:
    """Fill the first row of a table, which is made if there is none."""
    with _open(path, name) as rows:
        if rows.nrows() == 0:
            rows.addrows(1)
        for column, value in cells.items():
            rows.putcell(column, 0, value)
