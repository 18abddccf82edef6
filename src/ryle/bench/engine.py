"""Whole correlators in real time, as `ryle run` runs them: how much signal, how large visibilities, what was lost.

The simulator makes a moment of signal once and sends it again and again, in real time; F-engines, X-engines and catcher
are the processes of `ryle run`, over loopback. X-heaps are as large as those of a large array, integrations so short
that sending them takes half of each. Several correlators may run at the same time; nothing must be missing.
"""

from __future__ import annotations

import json
import resource
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import h5py
from rich.console import Console

from ryle.bench.results import Columns, Row, computer, save, table
from ryle.host_time import stolen_seconds

_LOSSES = ("missing", "late", "duplicate", "malformed", "kernel_drops", "ring_full")
_GRACE = 300.0  # s that processes have to start and end

FILE = """
[observation]
name = "engines"
sync_time = "2026-03-20T20:00:00Z"
duration = "{duration} s"
[array]
location = {{ latitude = "-30.7 deg", longitude = "21.4 deg", height = "1000 m" }}
polarizations = ["x", "y"]
antennas = [{antennas}]
[band]
sample_rate = "{rate} Hz"
lo = "1.4 GHz"
[digitizer]
bits = 10
heap_samples = 4096
[fengine]
channels = {channels}
taps = {taps}
antennas_per_engine = {per_engine}
backend = "{backend}"
threads = {threads}
[xengine]
integration = "{integration} s"
channels_per_substream = {channels}
backend = "{backend}"
threads = {threads}
[network]
digitizers = "127.0.0.1:{digitizers}"
spectra = "127.0.0.1:{spectra}"
visibilities = "127.0.0.1:{visibilities}"
packet_size = "8192 B"
[simulate]
speed = 1.0
replay = "{replay} s"
"""


@dataclass(frozen=True)
class Correlator:
    """A correlator to run in real time.

    Parameters
    ----------
    antennas : int
        Of two polarizations.
    rate : float
        Samples a second of an input, 10 bits each.
    channels, taps : int
        Of the filter bank; one X-engine takes all channels.
    integration : float
        Seconds of an integration.
    count : int
        Integrations to write.
    engines : int
        F-engines that share the antennas.
    backend : str
        "cpu" or "cuda".
    threads : int
        Of an engine's arithmetic, on a CPU.
    """

    antennas: int = 64
    rate: float = 256e3
    channels: int = 1024
    taps: int = 8
    integration: float = 4.0
    count: int = 20
    engines: int = 1
    backend: str = "cpu"
    threads: int = 1

    @property
    def spectra(self) -> int:
        """Spectra of an integration, a multiple of 64."""
        return max(1, round(self.integration * self.rate / (2 * self.channels) / 64)) * 64

    @property
    def seconds(self) -> float:
        """Signal of an integration."""
        return self.spectra * 2 * self.channels / self.rate

    @property
    def heap_bytes(self) -> int:
        """Payload of an X-heap: sums and counts."""
        products = 2 * self.antennas * (self.antennas + 1)
        return 16 * self.channels * products

    @property
    def gbps(self) -> float:
        """Gb/s of samples."""
        return 2 * self.antennas * self.rate * 10e-9

    def text(self, ports: Sequence[int]) -> str:
        """Give the observation file, with the first port of digitizers, spectra and visibilities."""
        names = ", ".join(
            f'{{ name = "A{a}", enu = ["{20 * (a % 8)} m", "{20 * (a // 8)} m", "0 m"] }}' for a in range(self.antennas)
        )
        return FILE.format(
            duration=self.count * self.seconds,
            antennas=names,
            rate=round(self.rate),
            channels=self.channels,
            taps=self.taps,
            per_engine=-(-self.antennas // self.engines),
            backend=self.backend,
            threads=self.threads,
            integration=self.seconds,
            digitizers=ports[0],
            spectra=ports[1],
            visibilities=ports[2],
            replay=max(0.02, 3 * 4096 / self.rate),
        )


def free_run(count: int, start: int) -> int:
    """Find ports of this machine in a row that nobody has.

    Parameters
    ----------
    count : int
        How many.
    start : int
        Where to begin to look.
    """
    for first in range(start, 65536 - count, count):
        opened: list[socket.socket] = []
        try:
            for port in range(first, first + count):
                opened.append(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
                opened[-1].bind(("127.0.0.1", port))
            return first
        except OSError:
            continue
        finally:
            for s in opened:
                s.close()
    raise RuntimeError(f"this machine has no {count} free ports in a row")


def run_together(correlators: Sequence[Correlator], folder: Path) -> list[dict[str, Any]]:
    """Run correlators at the same time, each by the command `ryle run`.

    Parameters
    ----------
    correlators : sequence of Correlator
        What runs.
    folder : Path
        Where observation files and visibilities go.

    Returns
    -------
    list of dict
        For each: ``lost`` packets by hand-over and class, ``placed``, ``integrations``, ``whole`` (integrations
        without anything missing between the first and the last), ``wall`` seconds.

    Raises
    ------
    RuntimeError
        If a run fails; with its last words.
    """
    started, next_port = [], 20000
    for i, correlator in enumerate(correlators):
        here = folder / f"run{i}"
        here.mkdir()
        ports = []
        for count in (correlator.antennas, 1, 2):  # statistics come next to visibilities
            ports.append(free_run(count, next_port))
            next_port = ports[-1] + count
        (here / "engines.toml").write_text(correlator.text(ports))
        command = [sys.executable, "-m", "ryle", "run", "engines.toml", "-o", ".", "--json", "result.json"]
        with (here / "words").open("wb") as words:
            started.append((here, subprocess.Popen(command, cwd=here, stdout=words, stderr=words)))
    began = time.monotonic()
    found = []
    for (here, process), correlator in zip(started, correlators, strict=True):
        try:
            status = process.wait(max(1.0, began + correlator.count * correlator.seconds + _GRACE - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.terminate()
            status = process.wait()
        if status:
            raise RuntimeError(f"ryle run failed ({status}):\n{(here / 'words').read_text()[-2000:]}")
        found.append(_found(here) | {"wall": time.monotonic() - began})
    return found


def _found(here: Path) -> dict[str, Any]:
    result = json.loads((here / "result.json").read_text())
    accounts = result["accounts"]
    lost = {name: {k: a.get(k) or 0 for k in _LOSSES if a.get(k)} for name, a in accounts.items()}
    with h5py.File(here / result["file"]) as file:
        times = int(file["Header/Ntimes"][()])
        rows = file["Data/nsamples"].shape[0] // times
        whole = [bool((file["Data/nsamples"][t * rows : (t + 1) * rows] == 1).all()) for t in range(times)]
    return {
        "lost": {name: classes for name, classes in lost.items() if classes},
        "placed": {name: a.get("placed") for name, a in accounts.items()},
        "integrations": times,
        "whole": sum(whole[1:-1]),
    }


def _row(correlator: Correlator, copies: int, found: Sequence[dict[str, Any]], more: dict[str, Any]) -> Row:
    lost = sum(n for f in found for classes in f["lost"].values() for n in classes.values())
    return Row(
        case=f"{copies} × ryle run, real time" if copies > 1 else "ryle run, real time",
        value=copies * correlator.gbps,
        unit="Gb/s of samples",
        size={"antennas": correlator.antennas, "channels": correlator.channels, "taps": correlator.taps, "bits": 10},
        more={
            "backend": correlator.backend,
            "heap_mb": round(correlator.heap_bytes * 1e-6, 1),
            "integration_s": round(correlator.seconds, 3),
            "integrations": [f["integrations"] for f in found],
            "whole_between_first_and_last": [f["whole"] for f in found],
            "lost_packets": lost,
            "lost": [f["lost"] for f in found],
            "placed": [f["placed"] for f in found],
            **more,
        },
    )


def _inner(row: Row) -> str:
    counts = zip(row.more["whole_between_first_and_last"], row.more["integrations"], strict=True)
    return "\n".join(f"{n}; inner {w} of {n - 2} whole" for w, n in counts)


#: Columns of the table, beside those of all rows.
SHOWN: Columns = {
    "X-heaps": lambda row: f"{row.more['heap_mb']:g} MB\nevery {row.more['integration_s']:g} s",
    "integrations": _inner,
    "lost": lambda row: f"[{'red' if row.more['lost_packets'] else 'green'}]{row.more['lost_packets']} packets[/]",
    "CPU (stolen)": lambda row: f"{row.more['cpu_s']:.0f} s in {row.more['wall_s']:.0f}\n({row.more['stolen_s']:.1f})",
}


def bench_engine(
    correlator: Correlator, *, copies: int = 1, runs: int = 1, seconds: float | None = None, path: Path | None = None
) -> list[Row]:
    """Run correlators in real time, say what was lost, and write it down if asked to.

    Parameters
    ----------
    correlator : Correlator
        What to run.
    copies : int
        How many at the same time.
    runs : int
        How often.
    seconds : float, optional
        Signal of a run, if not 20 integrations.
    path : Path, optional
        File for the figures.
    """
    console = Console(stderr=True)
    if seconds is not None:
        correlator = replace(correlator, count=max(3, round(seconds / correlator.seconds)))
    rows = []
    for run in range(runs):
        console.print(
            f"run {run + 1} of {runs}: {copies} × {correlator.antennas} antennas at {correlator.rate * 1e-6:g} MHz, "
            f"{correlator.count} integrations of {correlator.seconds:.3g} s, X-heaps of "
            f"{correlator.heap_bytes * 1e-6:.0f} MB: about {correlator.count * correlator.seconds:.0f} s"
        )
        with tempfile.TemporaryDirectory(prefix="ryle-engine-") as folder:
            stolen, before = stolen_seconds(), resource.getrusage(resource.RUSAGE_CHILDREN)
            found = run_together([correlator] * copies, Path(folder))
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        more = {"cpu_s": cpu, "wall_s": max(f["wall"] for f in found), "stolen_s": stolen_seconds() - stolen}
        rows.append(_row(correlator, copies, found, more))
        console.print(table(rows[-1:], SHOWN))
    save(path, computer(correlator.backend == "cuda"), rows, console)
    return rows
