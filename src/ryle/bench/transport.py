"""The experiments of the two transport papers, on whatever is here, with what they published beside what is measured.

HASHPIPE's benchmark (Schollar 2012) sent PAPER's packets to one and two instances and found the highest rate that they
take; the 400GbE paper (Liu et al. 2024) measured memory, copies to GPUs, and packets through host memory to two GPUs.
Here packets cross loopback: sender and receiver share the processor, and no network card takes part. So what is printed
says what this machine's processor and memory take, not what a card does.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from ryle.bench import dpdk
from ryle.bench.bandwidth import host_and_gpus, host_memory
from ryle.bench.harness import in_child
from ryle.bench.lossless import Search, Trial, highest_lossless
from ryle.bench.results import Row, host, save, table
from ryle.bench.transport_link import WAYS, Link, Way
from ryle.engines.capture import To
from ryle.gpu import Gpu, GpuUnavailable, open_gpu
from ryle.wire.description import Format

SCHOLLAR, LIU = "Schollar 2012", "Liu et al. 2024"
_START = 4.0  # Gb/s at which a search begins
_WARM_UP = 1.0  # s of traffic before it, which does not count
#: What needs a network card that this program cannot count on, Gb/s.
UNRUN = {
    "network card to one GPU, GPUDirect": 178.0,
    "network card to two GPUs, GPUDirect": 180.0,
    "two network cards to two GPUs, GPUDirect": 276.0,
}


def experiment(
    name: str,
    paper: str,
    published: float | None,
    published_on: str,
    measured: float | None,
    unit: str,
    note: str = "",
    search: Search | None = None,
) -> Row:
    """Make the row of one experiment.

    Parameters
    ----------
    name : str
        What was done.
    paper : str
        Whose experiment it repeats.
    published : float, optional
        What that found; None where it has no such figure.
    published_on : str
        With which hardware.
    measured : float, optional
        What was found here; None if it could not be done.
    unit : str
        Of both.
    note : str
        What limited it, how long it was confirmed, or why it was not done.
    search : Search, optional
        All trials of a search for the highest rate.
    """
    more = {"published_on": published_on, "note": note, "search": search}
    return Row(name, measured, unit, baseline=paper, baseline_value=published, more=more)


@dataclass(frozen=True)
class TransportOptions:
    """How much to do.

    Parameters
    ----------
    confirm : float
        Seconds for which a lossless rate is confirmed.
    seconds : float
        Of one trial of a search, and of a copy.
    most : float
        Highest rate to try, Gb/s.
    quick : bool
        Only the two papers' main cases, not every way to receive.
    ways : tuple of Way
        Ways to receive that are compared.
    """

    confirm: float = 20.0
    seconds: float = 2.0
    most: float = 1000.0
    quick: bool = False
    ways: tuple[Way, ...] = WAYS


def measure(options: TransportOptions, gpus: Sequence[Gpu], say: Callable[[str], None] = lambda _: None) -> list[Row]:
    """Do all experiments that can be done here.

    Parameters
    ----------
    options : TransportOptions
        How much.
    gpus : sequence of Gpu
        Those that are here; at most two are used.
    say : callable
        Is told what happens.
    """
    done = _memory(options, gpus, say)
    paper, counter = Format.load("paper_psa128"), Format.load("counter_8192")
    searches: list[tuple[str, str, float | None, str, Callable[[], Link]]] = [
        (
            f"PAPER's packets, {n} instance{'s' * (n > 1)}",
            SCHOLLAR,
            9.9 * n,
            f"{n} of 2 10GbE ports, 2 Xeon E5620, into HASHPIPE",
            partial(Link, paper, sources=16, instances=n),
        )
        for n in (1, 2)
    ]
    searches.append(
        ("8192-byte packets into host memory", LIU, None, "the paper went on to GPUs", partial(Link, counter))
    )
    for n in range(1, len(gpus[:2]) + 1):
        ordinals = tuple(range(n))
        searches.append(
            (
                f"8192-byte packets through host memory to {n} GPU{'s' * (n > 1)}",
                LIU,
                360.0 if n == 2 else None,
                "ConnectX-7, DRAM, 2 RTX A6000 or RTX 4070",
                partial(Link, counter, to=To.GPU, gpus=ordinals, open_device=gpus.__getitem__),
            )
        )
    if not options.quick:
        searches += [
            (f"8192-byte packets, {way.name}", "", None, "", partial(Link, counter, way=way)) for way in options.ways
        ]
    for name, whose, published, hardware, make in searches:
        say(f"[bold]{name}[/]")
        done.append(_searched(name, whose, published, hardware, make, options, say))
    if not options.quick:
        say("[bold]copy variants through DPDK[/]")
        for variant in copy_variants(options.confirm):
            done.append(variant)
            say(f"  {variant.case}: {_value(variant.value, 'Gb/s')} {variant.more['note']}")
    if len(gpus) < 2:
        hardware = "ConnectX-7, DRAM, 2 RTX A6000 or RTX 4070"
        name = "8192-byte packets through host memory to 2 GPUs"
        done.append(experiment(name, LIU, 360.0, hardware, None, "Gb/s", "not done: there are no two GPUs here"))
    for name, rate in UNRUN.items():
        why = "not done: needs a ConnectX card and GPUDirect"
        done.append(experiment(name, LIU, rate, "ConnectX-7, RTX A6000", None, "Gb/s", why))
    return done


def _memory(options: TransportOptions, gpus: Sequence[Gpu], say: Callable[[str], None]) -> list[Row]:
    say("[bold]memory[/]")
    threads = len(os.sched_getaffinity(0))
    rate = host_memory(threads, options.seconds) * 8e-9
    done = [
        experiment(
            "host memory, read and written",
            LIU,
            1013.0,
            "8 channels of DDR5-4800",
            rate,
            "Gb/s",
            f"copies by {threads} threads",
        )
    ]
    say(f"  {rate:.0f} Gb/s")
    published = {
        ("pageable", "host to device"): 8.73,
        ("pageable", "device to host"): 19.17,
        ("pinned", "host to device"): 25.11,
        ("pinned", "device to host"): 26.30,
    }
    for n in range(1, len(gpus[:2]) + 1):
        for (memory, way), found in host_and_gpus(gpus[:n], min(1.0, options.seconds)).items():
            name = f"{way}, {memory}, {n} GPU{'s' * (n > 1)}"
            value = published.get((memory, way)) if n == 1 else None
            done.append(experiment(name, LIU, value, "RTX A6000, PCIe 4.0", found * 1e-9, "GB/s"))
            say(f"  {name}: {found * 1e-9:.1f} GB/s")
    if not gpus:
        for (memory, way), value in published.items():
            name = f"{way}, {memory}, 1 GPU"
            done.append(experiment(name, LIU, value, "RTX A6000, PCIe 4.0", None, "GB/s", "not done: no GPU here"))
    return done


def copy_variants(seconds: float) -> list[Row]:
    """Measure receiving with one copy and with none over virtual devices (`ryle.bench.dpdk`), in a fresh process."""
    try:
        results = in_child(dpdk.measure, seconds=seconds)
    except (OSError, RuntimeError) as error:
        note = f"not done: {error}"
        return [experiment("1-copy and 0-copy through DPDK", "", None, "", None, "Gb/s", note)]
    return [_variant(result) for result in results]


def _variant(result: dict[str, Any]) -> Row:
    if "lossless_gbps" in result:
        rate, note = result["lossless_gbps"], f"lossless for {result['confirmed_seconds']} s from another process"
    else:
        median, low, high = (result["packets_per_second"][key] for key in ("median", "low", "high"))
        rate = median * dpdk.GBPS
        note = f"{median / 1e6:.2f} M packets/s on one core, quartiles {low / 1e6:.2f} to {high / 1e6:.2f}"
        for order, ratio in result.get("ratio", {}).items():
            note += f", {ratio:.2f} of memcpy {order.replace('_', ' ')}"
    return experiment(result["variant"], "", None, "", rate, "Gb/s", note)


def _searched(
    name: str,
    whose: str,
    published: float | None,
    hardware: str,
    make: Callable[[], Link],
    options: TransportOptions,
    say: Callable[[str], None],
) -> Row:
    def tell(trial: Trial, verdict: str) -> None:
        busy = f" (stolen {trial.stolen:.2f} s, other programs {trial.others:.2f} s)" if trial.disturbed else ""
        rate = f"{trial.offered:7.2f} of {trial.asked:.2f} Gb/s for {trial.seconds:.1f} s"
        say(f"  {rate}: {trial.lost} of {trial.sent} lost, {verdict}{busy}")

    try:
        link = make()
        link.trial(min(1.0, options.most), _WARM_UP)
        search = highest_lossless(
            link.trial,
            min(_START, options.most),
            options.most,
            seconds=options.seconds,
            confirm=options.confirm,
            say=tell,
        )
    except (OSError, RuntimeError) as error:
        row = experiment(name, whose, published, hardware, None, "Gb/s", f"not done: {error}")
        row.more["failed"] = True
        return row
    if not search.rate:
        note = f"no rate was lossless for {options.confirm:g} s"
        return experiment(name, whose, published, hardware, None, "Gb/s", note, search)
    limit = {
        "sender": "the sender gives no more",
        "receiver": "loses packets above",
        "asked for": "no more was asked for",
    }
    disturbed = sum(t.disturbed for t in search.trials)
    note = f"lossless for {search.confirmed:.1f} s; {limit[search.limit]}"
    note += f"; {disturbed} of {len(search.trials)} trials on a busy machine" if disturbed else ""
    return experiment(name, whose, published, hardware, search.rate, "Gb/s", note, search)


def _value(value: float | None, unit: str) -> str:
    return "" if value is None else f"{value:.4g} {unit}"


def markdown(machine: dict[str, Any], done: Sequence[Row], picture: str) -> str:
    """Write the report."""
    lines = [
        "# Transport: published and measured",
        "",
        f"{machine['cpu']}, {machine['cores']} cores, {machine['system']}; Ryle {machine['ryle']} "
        f"({machine['commit']}), {machine['date']}.",
        "",
        "Rates are payload without UDP headers (Gb/s) over loopback, where sender and receiver share the processor "
        "and no network card takes part. A rate counts when nothing was lost for the time in the note, after a warm-up "
        f"of {_WARM_UP:g} s that is not counted. Trials that went badly while the host took processor time away or "
        "other programs used it were repeated.",
        "",
        "| Experiment | Paper | Published | With | Measured here | Note |",
        "|---|---|---:|---|---:|---|",
    ]
    for row in done:
        published, measured = _value(row.baseline_value, row.unit), _value(row.value, row.unit)
        cells = (row.case, row.baseline, published, row.more["published_on"], measured, row.more["note"])
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", f"![Published and measured; loss by rate]({picture})", ""])


def draw(done: Sequence[Row], path: Path) -> None:
    """Draw published beside measured, and every trial."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (bars, trials) = plt.subplots(1, 2, figsize=(14, 0.35 * len(done) + 2.5), layout="constrained")
    names = [f"{row.case} ({row.unit})" for row in done]
    at = range(len(done))
    bars.barh([y - 0.2 for y in at], [row.baseline_value or 0 for row in done], 0.38, label="published", color="0.7")
    bars.barh([y + 0.2 for y in at], [row.value or 0 for row in done], 0.38, label="measured here", color="tab:blue")
    bars.set(yticks=list(at), yticklabels=names, xscale="symlog", xlabel="rate", ylim=(len(done) - 0.4, -0.6))
    bars.legend(loc="lower right")
    for row in done:
        if row.more["search"] is not None:
            tried = sorted((t.offered, t.lost / max(1, t.sent)) for t in row.more["search"].trials)
            trials.plot([x for x, _ in tried], [y for _, y in tried], "o-", ms=4, lw=0.8, label=row.case)
    trials.set(xlabel="Gb/s sent", ylabel="share lost", yscale="symlog")
    trials.set_yscale("symlog", linthresh=1e-6)
    if trials.lines:
        trials.legend(fontsize=7)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def bench_transport(
    directory: Path,
    options: TransportOptions | None = None,
    gpus: Sequence[Gpu] | None = None,
) -> list[Row]:
    """Measure, print, and write ``transport.md``, ``transport.png`` and ``transport.json`` to a directory.

    Returns
    -------
    list of Row
        What was found; ``more["failed"]`` is there, and true, where something went wrong that this computer could do.
    """
    console = Console(highlight=False, soft_wrap=True)
    done = measure(options or TransportOptions(), devices() if gpus is None else gpus, console.print)
    machine = host()
    directory.mkdir(parents=True, exist_ok=True)
    draw(done, directory / "transport.png")
    (directory / "transport.md").write_text(markdown(machine, done, "transport.png"))
    console.print(table(done, {"note": lambda row: row.more["note"]}, "published and measured"))
    save(directory / "transport.json", machine, done, console)
    console.print(f"and {directory}/transport.md, .png")
    if failed := [row.case for row in done if row.more.get("failed")]:
        console.print(f"[red]not measured, though it could be: {'; '.join(failed)}[/]")
    return done


def devices() -> list[Gpu]:
    """Open the first two GPUs, as many as there are."""
    found: list[Gpu] = []
    for ordinal in range(2):
        try:
            found.append(open_gpu(ordinal))
        except (GpuUnavailable, ValueError, RuntimeError):
            break
    return found
