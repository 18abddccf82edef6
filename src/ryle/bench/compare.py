"""Whether two correlations of the same samples agree, as far as quantization lets them.

Two runs whose spectra are rounded independently, each part with an error of variance q (1/12, and as much again with
dither), give visibilities of M spectra whose difference has the variance::

    E|V − V'|² = 2 (P_a σ² + P_b σ² + σ⁴) / M,   σ² = 2q

where P is the power of a spectrum's values before rounding. That is computed for each visibility from the powers in the
files; nothing is fitted. Runs of the same seed round nearly everything alike and must do better.

``python -m ryle.bench.compare [--engine fengine|xengine|both] [FILE_A FILE_B]`` simulates packets of capture.toml and
correlates them on the CPU, then with the F-engine on the GPU, which must agree within quantization noise, and with the
X-engine on it, which must be equal in data, flags and nsamples. With two UVH5 files of the same samples, these are
compared. Exit status 1 says that they do not agree.
"""

from __future__ import annotations

import json
import math
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import h5py
import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console

from ryle.config import Observation, changed, load
from ryle.gpu import GpuUnavailable
from ryle.products.metadata import AIPS_POLARIZATIONS

_CHANCE = 1e-9  # that agreeing files are said to differ


@dataclass(frozen=True)
class Comparison:
    """What came of it.

    Parameters
    ----------
    visibilities : int
        How many were compared: those that neither file flags.
    same_presence : bool
        Whether flags and ``nsamples`` are equal.
    identical : bool
        Whether data, flags and ``nsamples`` are equal as arrays, what is flagged included.
    equal : int
        Visibilities that are equal in every bit.
    rms : float
        Root mean square of the differences in units of their standard deviation; 1 for independent roundings.
    largest, limit : float
        Largest of them, and what all of them stay below but for a chance of 1e-9.
    largest_mean, mean_limit : float
        The same for means over times and channels, one a baseline and polarization product: small errors of delay,
        phase or gain show here.
    as_if : float
        Fraction of the quantized parts that would have to differ by one to give these differences.
    """

    visibilities: int
    same_presence: bool
    identical: bool
    equal: int
    rms: float
    largest: float
    limit: float
    largest_mean: float
    mean_limit: float
    as_if: float

    @property
    def rms_limit(self) -> float:
        """What `rms` stays below: 1, five of its own standard deviations, and 2 % for powers known from the files."""
        return 1.02 + 5 / math.sqrt(max(1, self.visibilities))

    @property
    def agree(self) -> bool:
        """Whether the files agree within quantization noise and entirely in what is missing."""
        within = self.rms <= self.rms_limit and self.largest <= self.limit and self.largest_mean <= self.mean_limit
        return self.same_presence and self.visibilities > 0 and within

    def __str__(self) -> str:
        return "\n".join(
            (
                f"flags and nsamples: {'equal' if self.same_presence else 'DIFFERENT'}",
                f"data, flags and nsamples as arrays: {'equal' if self.identical else 'not equal'}",
                f"visibilities compared: {self.visibilities}, {self.equal} of them equal in every bit",
                "differences in units of their standard deviation for independent roundings:",
                f"  r.m.s. {self.rms:.3g} (limit {self.rms_limit:.3g}),",
                f"  largest {self.largest:.3g} (limit {self.limit:.3g}),",
                f"  largest of the means over time and frequency {self.largest_mean:.3g} (limit {self.mean_limit:.3g})",
                f"as if {self.as_if:.2g} of the quantized parts differed by one",
                "the files agree within quantization noise" if self.agree else "THE FILES DO NOT AGREE",
            )
        )


def backends(observation: Observation, engine: str, folder: Path, console: Console | None = None) -> Comparison:
    """Capture the packets of an observation's simulated array, correlate them twice, and compare.

    Parameters
    ----------
    observation : Observation
        With a ``[simulate]`` table.
    engine : str
        Table whose backend is "cuda" in the second correlation, "fengine" or "xengine"; all others are "cpu".
    folder : Path
        Where capture and correlations are kept; a capture that is there is used again.

    Raises
    ------
    GpuUnavailable
        If there is no GPU.
    """
    from ryle.engines.offline import correlate
    from ryle.engines.simulator import record

    folder.mkdir(parents=True, exist_ok=True)
    capture = folder / "capture.pcap"
    if not capture.exists():
        record(observation, str(capture))
    on_cpu = changed(observation, fengine={"backend": "cpu"}, xengine={"backend": "cpu"})
    runs = {"cpu": on_cpu, f"{engine}-cuda": changed(on_cpu, **{engine: {"backend": "cuda"}})}
    files = [correlate(o, [capture], folder / name, console)[0].file for name, o in runs.items()]
    return compare(*files)


def compare(file_a: Path, file_b: Path) -> Comparison:
    """Compare two UVH5 files of one observation that Ryle has written.

    Parameters
    ----------
    file_a, file_b : Path
        Of the same samples, correlated with different backends or seeds.

    Raises
    ------
    ValueError
        If the files are not of the same antennas, channels and times.
    """
    a, b = _Read(file_a), _Read(file_b)
    if a.data.shape != b.data.shape or not all(np.array_equal(x, y) for x, y in zip(a.axes, b.axes, strict=True)):
        raise ValueError(f"{file_a} and {file_b} differ in antennas, polarizations, channels or times")
    there = ~(a.flags | b.flags)
    count = a.nsamples * a.spectra
    error = a.error + b.error  # of both roundings; powers before rounding are known less the error's own
    first, second = a.powers()
    total = (first + second)[there]
    first, second = np.maximum(first - a.error, 0), np.maximum(second - a.error, 0)
    variance = (error * (first + second) + a.error**2 + b.error**2)[there] / count[there]
    difference = np.abs(a.data - b.data)[there]
    z = difference / np.sqrt(variance)
    number = z.size
    means, mean_variances = _by_product(a, there, (a.data - b.data), variance)
    # A part off by one in a fraction p of all: E|V − V'|² = 2p (P_a + P_b) / M, powers after rounding.
    as_if = float(np.mean(difference**2 * count[there] / np.maximum(total, a.error)) / 2) if number else 0.0
    mean_z = np.abs(means) / np.sqrt(mean_variances)
    same_presence = np.array_equal(a.flags, b.flags) and np.array_equal(a.nsamples, b.nsamples)
    return Comparison(
        visibilities=number,
        same_presence=same_presence,
        identical=same_presence and np.array_equal(a.data, b.data),
        equal=int(np.count_nonzero(difference == 0)),
        rms=float(np.sqrt(np.mean(z**2))) if number else 0.0,
        largest=float(z.max(initial=0)),
        limit=_limit(number),
        largest_mean=float(mean_z.max(initial=0)),
        mean_limit=_limit(mean_z.size),
        as_if=as_if,
    )


def _limit(number: int) -> float:
    """Give what so many values of standard deviation 1, real or complex, all stay below."""
    return math.sqrt(2 * math.log(max(number, 1) / _CHANCE))


class _Read:
    """What of a file is compared, and what its errors follow from."""

    def __init__(self, path: Path) -> None:
        with h5py.File(path) as file:
            header = file["Header"]
            self.first, self.second = header["ant_1_array"][()], header["ant_2_array"][()]
            self.polarizations = header["polarization_array"][()]
            self.axes = (
                self.first, self.second, self.polarizations, header["time_array"][()], header["freq_array"][()]
            )  # fmt: skip
            self.data: NDArray[np.complex128] = file["Data/visdata"][()].astype(np.complex128)
            self.flags: NDArray[np.bool_] = file["Data/flags"][()]
            self.nsamples: NDArray[np.float64] = file["Data/nsamples"][()].astype(np.float64)
            width = float(np.atleast_1d(header["channel_width"][()])[0])
            # Of each row: of an integration of which less was there, fewer.
            self.spectra: NDArray[np.float64] = np.rint(header["integration_time"][()] * width)[
                :, np.newaxis, np.newaxis
            ]
            written = tomllib.loads(json.loads(file["Ryle/observation"][()])["toml"])
        if not len(self.data):
            raise ValueError(f"{path} holds no integration")
        dithered = written.get("fengine", {}).get("dither", "uniform") == "uniform"
        self.error = 2 * (1 / 6 if dithered else 1 / 12)

    def powers(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Mean power over time of both inputs of each visibility, of the shape of the data."""
        names = {number: name for name, number in AIPS_POLARIZATIONS.items()}
        products = [names[int(k)] for k in self.polarizations]
        of: dict[tuple[int, str], NDArray[np.float64]] = {}
        for antenna in np.unique(self.first):
            rows = (self.first == antenna) & (self.second == antenna)
            for k, product in enumerate(products):
                if product[0] == product[1]:
                    weight = self.nsamples[rows, :, k]
                    total = (self.data[rows, :, k].real * weight).sum(axis=0)
                    of[int(antenna), product[0]] = total / np.maximum(weight.sum(axis=0), 1e-9)
        found = [np.empty(self.data.shape), np.empty(self.data.shape)]
        for row, antennas in enumerate(zip(self.first.tolist(), self.second.tolist(), strict=True)):
            for k, product in enumerate(products):
                for side in (0, 1):
                    found[side][row, :, k] = of[antennas[side], product[side]]
        return found[0], found[1]


def _by_product(
    a: _Read, there: NDArray[np.bool_], difference: NDArray[np.complex128], variance: NDArray[np.float64]
) -> tuple[NDArray[np.complex128], NDArray[np.float64]]:
    """Mean difference of each baseline and polarization product, and its variance."""
    spread = np.zeros(there.shape)
    spread[there] = variance
    difference = np.where(there, difference, 0)
    means, variances = [], []
    baselines = a.first.astype(np.int64) << 32 | a.second.astype(np.int64)
    for baseline in np.unique(baselines):
        rows = baselines == baseline
        number = there[rows].sum(axis=(0, 1))
        some = number > 0
        means.append(difference[rows].sum(axis=(0, 1))[some] / number[some])
        variances.append(spread[rows].sum(axis=(0, 1))[some] / number[some] ** 2)
    return np.concatenate(means), np.concatenate(variances)


CAPTURE = Path(__file__).with_name("capture.toml")


class Engine(StrEnum):
    """What runs on the GPU."""

    FENGINE = "fengine"
    XENGINE = "xengine"
    BOTH = "both"


def main(
    files: Annotated[
        list[Path] | None, typer.Argument(help="Two correlations of the same samples.", exists=True)
    ] = None,
    engine: Annotated[Engine, typer.Option(help="What runs on the GPU; both: one after the other.")] = Engine.BOTH,
    observation: Annotated[Path, typer.Option(help="What is simulated.")] = CAPTURE,
    output: Annotated[Path | None, typer.Option(help="Keep capture and correlations here.")] = None,
) -> None:
    """Compare, and say what differs."""
    if files:
        if len(files) != 2:
            raise typer.BadParameter(f"{len(files)} files given; give two, or none")
        found = compare(*files)
        print(found)
        raise typer.Exit(not found.agree)
    wrong = False
    with tempfile.TemporaryDirectory() as folder:
        for name in ("fengine", "xengine") if engine is Engine.BOTH else (str(engine),):
            try:
                found = backends(load(observation), name, output or Path(folder))
            except GpuUnavailable as reason:
                sys.exit(f"there is no GPU to compare with: {reason}")
            wrong |= not (found.identical if name == "xengine" else found.agree)
            print(f"CPU, and CPU with the {name} on the GPU:\n{found}\n")
    raise typer.Exit(wrong)


if __name__ == "__main__":
    typer.run(main)
