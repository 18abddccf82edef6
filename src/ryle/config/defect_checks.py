"""What the defects of a simulated array must agree on with the array that they are of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ryle.config.checking import reads
from ryle.problems import Problem, did_you_mean, listed

if TYPE_CHECKING:
    from ryle.config.observation import Observation


def named_inputs(o: Observation, name: str) -> list[int]:
    """Find the inputs that a name is of: ``"A3"``, both polarizations, or ``"A3 x"``; none of an unknown name."""
    pols = o.array.polarizations
    found = []
    for a, antenna in enumerate(o.antennas):
        for p, polarization in enumerate(pols):
            if name in (antenna.name, f"{antenna.name} {polarization}"):
                found.append(a * len(pols) + p)
    return found


@reads("array", "simulate")
def _defects_of_inputs(o: Observation) -> Iterator[Problem]:
    """Look for names of antennas and inputs; of antennas where both polarizations are concerned."""
    antennas = [a.name for a in o.antennas]
    inputs = [f"{a} {p}" for a in antennas for p in o.array.polarizations]
    for i, defect in enumerate(o.simulate.defects if o.simulate else ()):
        key = f"simulate.defects[{i}].input"
        for name in defect.names:
            if not named_inputs(o, name):
                remedy = f"no such antenna or input; {did_you_mean(name, antennas + inputs)}there are "
                yield Problem(key, name, f"{remedy}{listed(antennas)}, and of each such as {inputs[0]}")
            elif defect.kind in ("swapped", "exchanged") and name not in antennas:
                remedy = f'whole antennas are {defect.kind}: write "{name.rpartition(" ")[0]}"'
                yield Problem(key, name, remedy)
        if defect.kind == "swapped" and o.pols < 2:
            yield Problem(f"simulate.defects[{i}].kind", defect.kind, "needs two polarizations: array.polarizations")


@reads("array", "simulate")
def _defects_once(o: Observation) -> Iterator[Problem]:
    """Allow one defect of a kind and input at a time: of two, nobody could say what is meant."""
    defects = o.simulate.defects if o.simulate else []
    for i, later in enumerate(defects):
        mine = {k for name in later.names for k in named_inputs(o, name)} or set(range(o.n_inputs))
        for j, earlier in enumerate(defects[:i]):
            theirs = {k for name in earlier.names for k in named_inputs(o, name)} or set(range(o.n_inputs))
            apart = (earlier.stop is not None and earlier.stop <= later.start) or (
                later.stop is not None and later.stop <= earlier.start
            )
            if later.kind == earlier.kind and mine & theirs and not apart:
                remedy = f"simulate.defects[{j}] is of the same kind, input and time: join the two"
                yield Problem(f"simulate.defects[{i}]", None, remedy)
                break


@reads("digitizer", "simulate")
def _defects_of_digitizers(o: Observation) -> Iterator[Problem]:
    for i, defect in enumerate(o.simulate.defects if o.simulate else ()):
        if defect.kind == "clipping" and not 1 < o.digitizer.bits < 32:
            remedy = f"digitizer.bits = {o.digitizer.bits} has no ends of its scale: use 2 to 16 bits"
            yield Problem(f"simulate.defects[{i}].kind", defect.kind, remedy)
        if defect.samples is not None and defect.samples % o.digitizer.heap_samples:
            remedy = f"must be a multiple of digitizer.heap_samples = {o.digitizer.heap_samples}"
            yield Problem(f"simulate.defects[{i}].samples", defect.samples, remedy)


@reads("band", "simulate")
def _defect_delays(o: Observation) -> Iterator[Problem]:
    """Allow delays that do not make the segments very long that signals are made of."""
    most = 1e-3
    for i, defect in enumerate(o.simulate.defects if o.simulate else ()):
        if defect.delay is not None and abs(defect.delay) > most:
            yield Problem(f"simulate.defects[{i}].delay", f"{defect.delay:.6g} s", "must be -1 to 1 ms")


@reads("fengine", "simulate")
def _defects_of_packets(o: Observation) -> Iterator[Problem]:
    """Allow no faults of digitizers' packets where others' F-engines are simulated, which get none."""
    for i, defect in enumerate(o.simulate.defects if o.simulate and o.fengine.packets is not None else ()):
        if defect.kind in ("loss", "jump"):
            remedy = "is of digitizers' packets, which fengine.packets has none of; use [simulate.faults], or remove it"
            yield Problem(f"simulate.defects[{i}].kind", defect.kind, remedy)


@reads("simulate")
def _defects_replayed(o: Observation) -> Iterator[Problem]:
    """Allow no times of a signal that comes again and again, as it has none of its own."""
    if o.simulate is None or o.simulate.replay is None:
        return
    times = [(f"simulate.defects[{i}]", d.start, d.stop) for i, d in enumerate(o.simulate.defects)]
    times += [(f"simulate.rfi[{i}]", r.start, r.stop) for i, r in enumerate(o.simulate.rfi)]
    for key, start, stop in times:
        if start > 0 or stop is not None:
            yield Problem(key, None, "the same signal comes again and again: remove start and stop, or simulate.replay")
