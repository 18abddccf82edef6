"""`ryle bench`: what this machine can sustain."""

from __future__ import annotations

import math
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class What(StrEnum):
    """What can be measured."""

    CPU = "cpu"
    ENGINE = "engine"
    CHANNELIZE = "channelize"
    CORRELATE = "correlate"
    PRECISION = "precision"
    TRANSPORT = "transport"
    PAPERS = "papers"


class Fed(StrEnum):
    """What engines are fed from."""

    NETWORK = "network"
    MEMORY = "memory"


def bench(
    what: Annotated[What, typer.Argument(help="What to measure.")] = What.CPU,
    json: Annotated[Path | None, typer.Option("--json", help="Also write the figures to this file.")] = None,
    runs: Annotated[
        int | None,
        typer.Option(help="How often: cpu, in fresh processes (5 if not given); correlate, in turns (3).", min=1),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(
            help="channelize, correlate: time for all of it; about 210, or 60 to 80; transport: of a trial (2); "
            "engine: signal of a run (20 integrations), seconds of a turn (3), or of a search's trial (20).",
            min=1,
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="channelize, correlate, transport: only what matters most.")
    ] = False,
    full: Annotated[bool, typer.Option("--full", help="channelize: all powers of two of channels too.")] = False,
    cufftdx: Annotated[Path | None, typer.Option(help="channelize: folder that ryle.bench.cufftdx made.")] = None,
    fed: Annotated[
        Fed,
        typer.Option(help="engine: from the network, in real time; or from memory, on a GPU, as fast as it goes."),
    ] = Fed.NETWORK,
    only: Annotated[
        str, typer.Option(help="engine from memory, and a search: only cases with these words, such as 'FX'.")
    ] = "",
    gpus: Annotated[
        str,
        typer.Option(help="engine from memory: FX spread over these GPUs, such as 0,1; beside one of them alone."),
    ] = "",
    backend: Annotated[str, typer.Option(help="precision, engine: form of the arithmetic.")] = "cpu",
    antennas: Annotated[int, typer.Option(help="engine: antennas of two polarizations.", min=2)] = 64,
    rate: Annotated[float, typer.Option(help="engine: samples of an input, MS/s.")] = 0.256,
    integration: Annotated[float, typer.Option(help="engine: about so many s each; X-heaps take half to send.")] = 4.0,
    copies: Annotated[
        int | None,
        typer.Option(help="engine: correlators, or engines of a search (1, then 4), at the same time.", min=1),
    ] = None,
    search: Annotated[
        bool,
        typer.Option("--search", help="engine: the highest rate without loss of F, X, FX and a capture, by trials."),
    ] = False,
    threads: Annotated[int, typer.Option(help="engine: threads of an engine's arithmetic.", min=1)] = 1,
    receivers: Annotated[
        int, typer.Option(help="engine: threads of an engine of a search that receive; as many send to it.", min=1)
    ] = 1,
    bits: Annotated[int, typer.Option(help="precision: bits of the samples for the response of a channel.")] = 16,
    confirm: Annotated[
        float, typer.Option(help="transport, a search: seconds that a lossless rate is confirmed for.", min=1)
    ] = 20.0,
    most: Annotated[float, typer.Option(help="transport, a search: highest rate to try, Gb/s.")] = 1000.0,
    within: Annotated[
        float | None,
        typer.Option(help="a search: s that it may take, engines of a kind and number; no limit if not given."),
    ] = None,
    report: Annotated[Path, typer.Option(help="transport: directory for transport.md, .png and .json.")] = Path("."),
    markdown: Annotated[Path | None, typer.Option(help="papers: also write a page of Markdown.")] = None,
    pictures: Annotated[Path | None, typer.Option(help="papers: directory for a PNG of each figure and table.")] = None,
    results: Annotated[
        Path | None, typer.Option(help="papers: directory of results, if not those that Ryle comes with.")
    ] = None,
    measure: Annotated[
        Path | None,
        typer.Option(help="papers: directory to measure into first, what this machine can; again, and it goes on."),
    ] = None,
    limit: Annotated[float, typer.Option(help="papers: s that --measure may take.", min=1)] = 540.0,
) -> None:
    """Measure this machine against named baselines.

    `engine` runs whole correlators in real time as `ryle run` does and says what was lost; with --search it finds the
    highest rate at which engines lose nothing; with --fed memory it runs F-, X- and FX-engines on a GPU beside their
    copies and their kernels alone; `cpu` takes the CPU forms, one core at a time, about a minute for each of five runs
    (--runs 1 makes one); `channelize` the F-engine and
    `correlate` the X-engine on a GPU, less than five minutes each; `precision` how pure the F-engine is, in half a
    minute; `transport` repeats two papers' experiments with packets, memory and copies to GPUs, in some minutes;
    `papers` sets all that four papers published beside results that are there, and with --measure measures them here.
    Close other programs for speeds that mean something.
    """
    if what is What.CHANNELIZE:
        from ryle.bench.channelize import bench_channelize

        bench_channelize(seconds, full, json, cufftdx, quick)
    elif what is What.CORRELATE:
        from ryle.bench.correlate import bench_correlate

        bench_correlate(json, runs or (2 if quick else 3), seconds, quick)
    elif what is What.ENGINE and fed is Fed.MEMORY:
        from ryle.bench.gpu_engine import CASES, bench_gpu_engines, over

        cases = over(_numbers(gpus)) if gpus else CASES
        bench_gpu_engines(json, seconds=seconds or 3.0, turns=runs or 3, cases=cases, only=only)
    elif what is What.ENGINE and search:
        from ryle.bench.engine_search import bench_search

        bench_search(
            json,
            copies=(1, 4) if copies is None else (copies,),
            only=only,
            seconds=seconds or 20.0,
            confirm=confirm,
            most=most,
            within=within or math.inf,
            backend=backend,
            threads=threads,
            receivers=receivers,
        )
    elif what is What.ENGINE:
        from ryle.bench.engine import Correlator, bench_engine

        correlator = Correlator(
            antennas=antennas, rate=rate * 1e6, integration=integration, backend=backend, threads=threads
        )
        bench_engine(correlator, copies=copies or 1, runs=runs or 1, seconds=seconds, path=json)
    elif what is What.PRECISION:
        from ryle.bench.precision import bench_precision

        bench_precision(backend, bits, json)
    elif what is What.TRANSPORT:
        from ryle.bench.transport import TransportOptions, bench_transport

        found = bench_transport(report, TransportOptions(confirm, seconds or 2.0, most, quick))
        if any(row.more.get("failed") for row in found):
            raise typer.Exit(1)
    elif what is What.PAPERS:
        _papers(json, markdown, pictures, results, measure, limit)
    else:
        from ryle.bench.cpu import bench_cpu

        bench_cpu(runs or 5, json)


def _papers(
    json: Path | None,
    markdown: Path | None,
    pictures: Path | None,
    results: Path | None,
    measure: Path | None,
    limit: float,
) -> None:
    """Compare with the papers; files that are wrong or missing are told in a line."""
    from ryle.bench.papers import bench_papers

    try:
        bench_papers(json, markdown, pictures, results, measure, limit)
    except (OSError, ValueError) as error:
        raise typer.BadParameter(f"{error}") from None


def _numbers(text: str) -> list[int]:
    """Read the numbers of GPUs."""
    numbers = text.replace(" ", "").split(",")
    if not all(number.isdecimal() for number in numbers):
        raise typer.BadParameter(f"{text!r} is no list of numbers of GPUs, such as 0,1", param_hint="--gpus")
    return [int(number) for number in numbers]
