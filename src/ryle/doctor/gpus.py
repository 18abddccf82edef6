"""GPUs: driver, readiness, clock, power and errors."""

from __future__ import annotations

from collections.abc import Iterator

from ryle.config import show
from ryle.doctor.finding import Command, Finding, Hand, judge
from ryle.doctor.machine import GpuFacts, Machine
from ryle.doctor.needs import Needs


def gpus(machine: Machine, needs: Needs) -> Iterator[Finding]:
    """Look at the GPUs that an observation uses; without one at all."""
    if needs.gpus == ():
        return
    found, problem = machine.gpus
    wanted = needs.gpus if needs.gpus is not None else tuple(g.number for g in found)
    missing = sorted(set(wanted) - {g.number for g in found})
    if missing:
        yield Finding(
            "gpu",
            f"GPU {missing[0]}",
            "bad",
            problem or f"CUDA shows {len(found)}",
            "a GPU that can be used",
            "the observation names it",
            (Hand(problem or "CUDA_VISIBLE_DEVICES, or gpus in the observation"),),
        )
    elif not found:
        yield Finding("gpu", "", "unknown", problem)
    for gpu in found:
        if gpu.number in wanted:
            yield from _looked_at(gpu, needs)


def _looked_at(gpu: GpuFacts, needs: Needs) -> Iterator[Finding]:
    where, which = f"GPU {gpu.number}", f"nvidia-smi -i {gpu.pci}"
    if gpu.persistence is not None:
        yield judge(
            "persistence",
            where,
            gpu.persistence,
            "poor",
            "on" if gpu.persistence else "off",
            "on",
            "the driver lets go of a GPU that nobody uses: the next start takes seconds, and clock and power are reset",
            Command(f"{which} -pm 1"),
            Hand("systemctl enable --now nvidia-persistenced, for good"),
        )
    if gpu.ecc is not None:
        yield judge(
            "ecc",
            where,
            gpu.ecc,
            "note",
            "on" if gpu.ecc else "off",
            "on",
            "a flipped bit of a sum is a visibility that nobody can tell from a right one; on HBM it costs nothing",
            Command(f"{which} -e 1"),
        )
    if gpu.uncorrected is not None:
        yield judge(
            "gpu-errors",
            where,
            not gpu.uncorrected,
            "bad",
            f"{gpu.uncorrected} errors of its memory that could not be corrected",
            "none",
            "results may be wrong; the driver ends whoever met one",
            Hand("start the machine again; if they come back, have the card exchanged"),
        )
    yield from _speed(gpu, where, which)
    if gpu.exclusive is not None and needs.shared_gpus:
        yield judge(
            "exclusive",
            where,
            not gpu.exclusive,
            "bad",
            "one process alone may use it",
            "any may",
            "several engines of this observation share it",
            Command(f"{which} -c DEFAULT"),
        )


def _speed(gpu: GpuFacts, where: str, which: str) -> Iterator[Finding]:
    if gpu.clock is not None and gpu.clock_most is not None:
        yield judge(
            "gpu-clock",
            where,
            gpu.clock >= 0.99 * gpu.clock_most,
            "poor",
            show(gpu.clock, "Hz"),
            show(gpu.clock_most, "Hz"),
            "applications are not allowed its full clock; kernels that compute take longer by as much",
            Command(f"{which} -rac"),
            Command(f"{which} -rgc"),
            effect="a correlator with a quarter of its time to spare saves 96 W with a lower one (Romein, Fig. 7)",
        )
    if gpu.power is not None and gpu.power_usual is not None:
        yield judge(
            "gpu-power",
            where,
            gpu.power >= gpu.power_usual,
            "poor",
            show(gpu.power, "W"),
            show(gpu.power_usual, "W"),
            "at full load the driver lowers the clock to stay below",
            Command(f"{which} -pl {gpu.power_usual:.0f}"),
        )
    hot = [why for why in gpu.slowed if why != "power"]
    yield judge(
        "gpu-slowed",
        where,
        not hot,
        "bad",
        f"slowed down because of {', '.join(hot)}" if hot else "no",
        "no",
        "its clock is a fraction of the usual one until the cause is gone",
        Hand("air and its way through the machine; the card's power cables"),
    )
