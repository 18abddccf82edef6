"""The demonstration: a simulated array observes a known sky through the whole correlator.

Everything on the way is real: packets on UDP sockets, processes, files. The sky is known, so the last table can say
whether positions and phases came out as they went in.
"""

from __future__ import annotations

import itertools
import json
import shutil
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import h5py
import numpy as np
from astropy.coordinates import SkyCoord
from astropy.time import Time
from numpy.typing import NDArray
from pyuvdata import UVData
from rich.console import Console
from rich.table import Table

from ryle.config import Observation, example, load
from ryle.engines.deliver import deliver
from ryle.engines.run import RunResult, run_processes
from ryle.monitor.progress import working
from ryle.products.clean import clean
from ryle.products.image import Image, make_image
from ryle.products.plots.coverage import sky_image
from ryle.products.sources import FoundSource, find_sources
from ryle.simulate import VoltageSimulator

#: A position is recovered if it is off by less than this fraction of the beam's minor axis.
POSITION_TOLERANCE = 0.1
#: Largest rms over baselines of the phase left between measured and expected visibilities, degrees.
PHASE_TOLERANCE = 2.0
#: Side of the image: the field that the sources are in. Far from its centre a snapshot's beam changes shape.
FIELD_PIXELS = 160


@dataclass(frozen=True)
class Recovered:
    """An injected source and how far from it one was found.

    Parameters
    ----------
    name : str
        Of the injected source.
    injected, found : str
        Right ascension and declination, ICRS; found is empty if there is none near.
    offset : float
        Arcseconds between them.
    beams : float
        The same in units of the beam's minor axis.
    """

    name: str
    injected: str
    found: str
    offset: float
    beams: float

    @property
    def good(self) -> bool:
        """Whether it is close enough."""
        return self.beams < POSITION_TOLERANCE


def run_demo(output: Path, console: Console | None = None, *, overwrite: bool = False) -> bool:
    """Observe, export, draw, compare.

    Parameters
    ----------
    output : Path
        Directory for everything made; another, of a similar name, if an earlier demonstration's files are there.
    overwrite : bool
        Replace these files.

    Returns
    -------
    bool
        Whether all sources were found where they are, with phases that agree.
    """
    console = console or Console()
    started = time.monotonic()
    if not overwrite and (output / "demo.uvh5").exists():
        earlier = output
        for count in itertools.count(2):
            if not (output := earlier.with_name(f"{earlier.name}-{count}")).exists():
                break
        note = f"{earlier}/ is of an earlier demonstration and stays: this one goes to {output}/ (--overwrite replaces)"
        console.print(f"[yellow]{note}[/]", highlight=False, soft_wrap=True)
    output.mkdir(parents=True, exist_ok=True)
    source = output / "demo.toml"
    shutil.copyfile(example("demo"), source)
    observation = load(source)
    console.rule("[bold]1 of 3 · observing")
    console.print(
        f"{len(observation.antennas)} antennas · {float(observation.sample_rate) / 1e6:g} Msample/s a polarization · "
        f"{observation.fengine.channels} channels · packets on 127.0.0.1 · {source}",
        highlight=False,
    )
    result = run_processes(observation, output, console=console, overwrite=True)
    console.rule("[bold]2 of 3 · files and pictures")
    made = deliver(observation, result.file, console)
    with working("drawing images", console):
        image = make_image(result.file, pixels=FIELD_PIXELS)
        found = find_sources(image)
        cleaned = clean(image, found, threshold=5.0)
        made.append(sky_image(image, output / "image.png", found=found, cleaned=cleaned, file=result.file.name))
        made.append(sky_image(image, output / "dirty.png", found=found, file=result.file.name))
    console.rule("[bold]3 of 3 · what went in and what came out")
    recovered = compare_positions(observation, image, found.sources)
    phase = residual_phase(observation, result.file)
    valid = valid_fraction(result.file)
    good = all(r.good for r in recovered) and phase < PHASE_TOLERANCE
    summary = {
        "good": good,
        "seconds": round(time.monotonic() - started, 1),
        "integrations": result.integrations,
        "losses": result.losses,
        "valid_fraction": valid,
        "residual_phase_rms_deg": round(phase, 4),
        "beam_arcsec": None
        if image.beam is None
        else [3600 * float(np.degrees(x)) for x in (image.beam.major, image.beam.minor)],
        "sources": [asdict(r) for r in recovered],
        "accounts": result.accounts,
        "files": [result.file.name, *(p.name for p in made)],
    }
    (output / "summary.json").write_text(json.dumps(summary, indent=2) + "\n")
    console.print(_table(recovered, phase, result, valid))
    console.print(f"{output}/ holds it all; start with image.png and fringes.png", highlight=False)
    return good


def _sources(observation: Observation) -> list[tuple[str, SkyCoord]]:
    assert observation.simulate is not None
    return [(s.name, SkyCoord(s.ra, s.dec, unit="deg")) for s in observation.simulate.sources]


def compare_positions(observation: Observation, image: Image, found: list[FoundSource]) -> list[Recovered]:
    """For each injected source, the nearest of those found."""
    rows = []
    for name, position in _sources(observation):
        injected = position.to_string("hmsdms", precision=1)
        if not found or image.beam is None:
            rows.append(Recovered(name, injected, "", float("inf"), float("inf")))
            continue
        nearest = min(found, key=lambda f: float(f.position.separation(position).arcsec))
        offset = float(nearest.position.separation(position).arcsec)
        beams = offset / float(np.degrees(image.beam.minor) * 3600)
        rows.append(Recovered(name, injected, nearest.position.to_string("hmsdms", precision=1), offset, beams))
    return rows


def residual_phase(observation: Observation, file: Path) -> float:
    """Rms over baselines and parallel products of the phase between measured and expected visibilities, degrees."""
    data = UVData.from_file(str(file))
    simulator = VoltageSimulator(observation, mount=observation.array.mount)
    times, index = np.unique(data.time_array, return_inverse=True)
    names = list(data.telescope.antenna_names)
    numbers = {number: names.index(name) for number, name in zip(data.telescope.antenna_numbers, names, strict=True)}
    # The file's channels are in order of sky frequency whatever the sideband.
    expected = simulator.expected_visibilities(Time(times, format="jd"), data.freq_array, phased=True)
    residuals: dict[tuple[int, int, int], complex] = {}
    pols = observation.pols
    for row in np.flatnonzero(data.ant_1_array != data.ant_2_array):
        a, b = numbers[data.ant_1_array[row]], numbers[data.ant_2_array[row]]
        low, high = min(a, b), max(a, b)
        for p in range(pols):
            model: NDArray[np.complex128] = expected[
                index[row], :, pols**2 * (high * (high + 1) // 2 + low) + p + pols * p
            ]
            # A row (a, b) holds conj(X_a)·X_b; the product of (low, high) is X_low·conj(X_high).
            model = np.conj(model) if a == low else model
            code = {"x": -5, "y": -6, "r": -1, "l": -2}[observation.array.polarizations[p]]
            pol = list(data.polarization_array).index(code)
            weight = data.nsample_array[row, :, pol] * ~data.flag_array[row, :, pol]
            key = (low, high, p)
            turn = np.vdot(model, weight * data.data_array[row, :, pol])
            residuals[key] = residuals.get(key, 0j) + complex(turn if a == low else np.conj(turn))
    return float(np.degrees(np.sqrt(np.mean(np.angle(list(residuals.values())) ** 2))))


def valid_fraction(file: Path) -> float:
    """Share of the observation's samples that the file's visibilities are made of."""
    with h5py.File(file) as opened:
        return float(np.mean(opened["Data/nsamples"], dtype=np.float64))


def _table(recovered: list[Recovered], phase: float, result: RunResult, valid: float) -> Table:
    table = Table(title="demonstration", title_justify="left")
    for column in ("", "went in", "came out", "off by", "allowed", ""):
        table.add_column(column)

    def mark(good: bool) -> str:
        return "[green]✓[/]" if good else "[bold red]✗[/]"

    for r in recovered:
        off = f"{r.offset:.2f}″ = {r.beams:.3f} beam"
        table.add_row(
            f"source {r.name}", r.injected, r.found or "not found", off, f"{POSITION_TOLERANCE:g} beam", mark(r.good)
        )
    table.add_row(
        "residual fringe phase", "0°", f"{phase:.2f}° rms", "", f"{PHASE_TOLERANCE:g}°", mark(phase < PHASE_TOLERANCE)
    )
    sent = sum(int(s.get("sent", 0)) for s in result.statuses.values())
    table.add_row("packets and heaps", f"{sent} sent", f"{result.losses} lost", "", "0", mark(result.losses == 0))
    table.add_row("valid data", "100 %", f"{100 * valid:.2f} %", "", "99.9 %", mark(valid >= 0.999))
    return table
