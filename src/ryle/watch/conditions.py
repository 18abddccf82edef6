"""What is wrong in one look at a correlator: named, with its figure and what to do about it.

Thresholds are far from what healthy inputs do: alarms that are often false are soon not read at all. The arithmetic on
visibilities is in `ryle.watch.suspicions`; when a finding is an alarm, in `ryle.watch.alarms`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ryle.config import Observation
from ryle.products.glance import Glance
from ryle.watch.finding import RUNNING, Finding, Thresholds, engine_name, is_number
from ryle.watch.losses import Losses
from ryle.watch.sight import EngineSight, InputSight, Sight
from ryle.watch.suspicions import Interference, Suspicion, fringe_suspicions

_GLANCES_APART = 1.0  # seconds between two glances that are judged
_NAMED = 4  # inputs that one finding names at most
_MANY = 16  # of as many inputs each has a finding of its own; of more, one is about them all
_MISSED = 300.0  # seconds for which an engine that has left is missed


@dataclass
class _Past:
    """What the last look had, to tell what is new."""

    counters: dict[str, float] = field(default_factory=dict)
    until: dict[str, float] = field(default_factory=dict)  # when a counter's growth is no news any more
    engines: dict[str, EngineSight] = field(default_factory=dict)
    left: dict[str, tuple[EngineSight, float]] = field(default_factory=dict)  # when


class Conditions:
    """Finds what is wrong in the looks at one run, in their order.

    Parameters
    ----------
    observation : Observation or None
        What is observed; None if nobody knows.
    thresholds : Thresholds
        From where on something is wrong.
    """

    def __init__(self, observation: Observation | None, thresholds: Thresholds) -> None:
        self._observation, self._t = observation, thresholds
        self._past = _Past()
        self._interference, self._losses = Interference(observation), Losses(thresholds)
        self._glance: Glance | None = None  # the last that was judged, when, and what was found
        self._glance_at, self._glance_findings = -np.inf, list[Finding]()
        self._disk: list[tuple[float, float]] = []
        self._time = -np.inf

    def shift(self, by: float) -> None:
        """Let the times that are kept be those of a clock that was set by so many seconds."""
        past = self._past
        past.left = {name: (engine, when + by) for name, (engine, when) in past.left.items()}
        past.until = {name: when + by for name, when in past.until.items()}
        self._losses.clear()
        self._disk.clear()

    def findings(self, sight: Sight) -> Iterator[Finding]:
        """Find what is wrong in a look, newer than those before."""
        self._time = sight.time
        if sight.engines:
            yield from _together([*self._of_inputs(sight.inputs), *self._losses.findings(sight)])
            yield from self._of_counters(sight)
            yield from self._of_disk(sight)
            yield from self._of_visibilities(sight)
        yield from self._of_engines(sight)

    # -- inputs -----------------------------------------------------------------------------------------------------

    def _of_inputs(self, inputs: Sequence[InputSight]) -> Iterator[Finding]:
        """Dead inputs, and those that are driven too hard."""
        t = self._t
        rms = {i.index: i.rms for i in inputs if i.rms is not None}
        present = {i.index: i.present.get("F") for i in inputs}
        known = [p for p in present.values() if p is not None]
        others = float(np.median(known)) if known else 0.0
        middle = float(np.median(list(rms.values()))) if len(rms) > 1 else 0.0
        for each in inputs:
            share = present[each.index]
            if share is not None and share < t.dead_present and others > t.others_present:
                yield Finding(
                    "dead",
                    each.label,
                    "error",
                    f"{each.label} sends nothing that can be used: {share:.1%} of its spectra are there, of the others "
                    f"{others:.1%}",
                    "See that its digitizer runs and sends to the address that network.digitizers gives it.",
                )
            elif (level := rms.get(each.index)) is not None and middle > 0 and level < t.dead_rms * middle:
                yield Finding(
                    "dead",
                    each.label,
                    "error",
                    f"{each.label} has no signal: rms {level:.3g} ADC steps, the others' median is {middle:.3g}",
                    "Look at its receiver, its power and its cable up to the digitizer.",
                )
        bits = None if self._observation is None else self._observation.digitizer.bits
        for each in inputs:
            if each.clipped is not None and each.clipped > t.clipped and (bits is None or bits >= t.clipping_bits):
                at = "" if each.dbfs is None else f" at {each.dbfs:.1f} dBFS"
                yield Finding(
                    "clipping",
                    each.label,
                    "error",
                    f"{each.label} clips: {each.clipped:.1%} of its ADC values are at an end of the range{at}",
                    "Attenuate it before its digitizer, or find what interferes; -15 to -12 dBFS leaves room.",
                )
            elif each.saturated is not None and each.saturated > t.saturated:
                yield Finding(
                    "clipping",
                    each.label,
                    "error",
                    f"{each.label} saturates: {each.saturated:.1%} of its spectra's values do not fit their bits",
                    "Lower its gain: ryle control gain, or fengine.gain in the observation file.",
                )

    # -- counters ------------------------------------------------------------------------------------------------------

    def _of_counters(self, sight: Sight) -> Iterator[Finding]:
        """Tell what must not grow: times that the clock moved, controls that came too late."""
        for engine in sight.engines:
            name = engine_name(engine)
            if self._grew(engine, "resyncs"):
                yield Finding(
                    "time jump",
                    name,
                    "error",
                    f"time stamps of packets that come to {name} have jumped, {engine.values['resyncs']} times so far",
                    "Look at the clock that the digitizers count by, and whether one was started again: sync_time may "
                    "have to be set anew.",
                )
            if self._grew(engine, "late_controls"):
                yield Finding(
                    "late control",
                    name,
                    "warning",
                    f"{name} was given gains or delays for a time that it had passed: {engine.values['late_controls']} "
                    "so far, which were refused",
                    "Send them earlier: answers say from which sample on changes can still be made.",
                )

    def _grew(self, engine: EngineSight, counter: str) -> bool:
        """Whether a counter is larger than `gone` before; it is told for as long, so that one jump is an alarm."""
        count = engine.values.get(counter)
        if not is_number(count):
            return False
        key = f"{engine.name} {engine.pid} {counter}"
        before = self._past.counters.get(key)
        if before is not None and count > before:
            self._past.until[key] = self._time + self._t.holds + self._t.gone
        self._past.counters[key] = count
        return self._time <= self._past.until.get(key, -np.inf)

    # -- disk -------------------------------------------------------------------------------------------------------

    def _of_disk(self, sight: Sight) -> Iterator[Finding]:
        """Disks that are about to be full, and writers that fall behind."""
        if sight.disk_free is not None:
            self._disk = [p for p in self._disk if sight.time - p[0] <= self._t.disk_over] + [
                (sight.time, sight.disk_free)
            ]
            (t0, free0), (t1, free1) = self._disk[0], self._disk[-1]
            where = str(Path(sight.file).parent)
            # A file grows in leaps: of a shorter time nothing can be said.
            rate = (free0 - free1) / (t1 - t0) if t1 - t0 >= 0.5 * self._t.disk_over else 0.0
            writes = any(e.state in RUNNING and e.rates.get("integrations", 0) > 0 for e in sight.engines)
            if writes and (free1 < 1 << 20 or (rate > 0 and free1 / rate < self._t.disk)):
                lasts = f"full in {free1 / rate / 60:.1f} minutes" if rate > 0 else "full"
                yield Finding(
                    "disk",
                    where,
                    "error" if free1 < 0.1 * self._t.disk * max(rate, 0) or free1 < 1 << 20 else "warning",
                    f"{where} has {free1 / 1e9:.3g} GB left, {lasts} at {rate / 1e6:.0f} MB a second",
                    "Make room there: what has been exported, or is of earlier runs.",
                )
        for engine in sight.engines:
            if engine.role != "catcher" or not engine.alive or engine.state != "running":
                continue
            ring = engine.values.get("ring")
            blocks = {k: v for k, v in ring.items() if is_number(v)} if isinstance(ring, dict) else {}
            waiting, whole = blocks.get("ready", 0), sum(blocks.values())
            # At full speed everybody waits for the slowest: nothing is lost by it.
            waits = self._observation is not None and self._observation.at_full_speed
            if whole and waiting > self._t.behind * whole and not waits:
                yield Finding(
                    "disk",
                    engine_name(engine),
                    "warning",
                    f"{engine_name(engine)} is behind: {waiting:.0f} integrations wait to be written, and it "
                    f"has memory for {whole:.0f}",
                    "See what else uses the disk, write to a faster one, or integrate longer.",
                )

    # -- engines ----------------------------------------------------------------------------------------------------

    def _of_engines(self, sight: Sight) -> Iterator[Finding]:
        """Engines that were killed, failed, are silent or have left alone."""
        there = {e.name: e for e in sight.engines}
        now, past = sight.time, self._past
        for name, engine in past.engines.items():
            if name not in there:
                past.left[name] = engine, now
        past.left = {n: one for n, one in past.left.items() if n not in there and now - one[1] < _MISSED}
        past.engines = there
        for engine in sight.engines:
            name = engine_name(engine)
            if engine.state == "failed":
                yield _engine_finding(name, f"{name} has failed", sight.log, engine)
            elif not engine.alive and engine.state != "done":
                yield _engine_finding(name, f"{name} (process {engine.pid}) is gone: it was killed", sight.log, engine)
            elif engine.alive and engine.state in RUNNING:
                interval = engine.values.get("interval")
                patience = self._t.silent + (2 * interval if is_number(interval) else 0.0)
                if now - engine.updated > patience:
                    yield Finding(
                        "engine",
                        name,
                        "error",
                        f"{name} (process {engine.pid}) has said nothing for {now - engine.updated:.0f} s",
                        "See whether it is stopped (ps, state T), or its machine out of memory (dmesg).",
                    )
        for engine, when in past.left.values():
            # Engines end one kind after the other; one that ends alone was not meant to.
            others = [e for e in sight.engines if e.role == engine.role and e.alive and e.state == "running"]
            failed = engine.state == "failed"
            if (failed and sight.engines) or (others and engine.state in RUNNING and now - when > self._t.vanished):
                name = engine_name(engine)
                what = "has failed" if failed else f"has left, while {len(others)} of its kind go on"
                yield _engine_finding(name, f"{name} {what}", sight.log, engine)

    # -- visibilities -----------------------------------------------------------------------------------------------

    def _of_visibilities(self, sight: Sight) -> list[Finding]:
        """Judge glances, once each, and no more often than once a second: of large arrays it takes a while."""
        glance = sight.glance
        if glance is None:
            return []
        if glance is not self._glance and abs(sight.time - self._glance_at) >= _GLANCES_APART:
            labels = [i.label for i in sight.inputs]
            found: list[Suspicion] = []
            if len(labels) == glance.antennas * glance.pols:
                found += self._interference.look(glance, labels)
                if self._observation is not None:
                    found += fringe_suspicions(glance, self._observation, labels)
            self._glance, self._glance_at = glance, sight.time
            self._glance_findings = [
                Finding(s.kind, s.subject, "error" if s.spoils else "warning", s.text, s.cure) for s in found
            ]
        return self._glance_findings


def _together(findings: Sequence[Finding]) -> Iterator[Finding]:
    """Give findings of inputs and links; where there are very many of a kind, one in their place."""
    for kind in dict.fromkeys(f.kind for f in findings):
        some = [f for f in findings if f.kind == kind]
        if len(some) <= _MANY:
            yield from some
            continue
        named = ", ".join(f.subject for f in some[:_NAMED])
        what = "links" if kind == "loss" else "inputs"
        text = f"{len(some)} {what} at once: {named} and others; {some[0].text}"
        cure = f"Look for what they have in common: power, clock, switch, interference. {some[0].cure}"
        yield Finding(kind, f"many {what}", some[0].severity, text, cure)


def _engine_finding(name: str, text: str, log: Iterable[str], engine: EngineSight) -> Finding:
    last = [line for line in log if line.startswith(f"{engine.role}{engine.index}: ")]
    said = f"; its last words: {last[-1].partition(': ')[2]}" if last else ""
    return Finding(
        "engine", name, "error", text + said, f"Read its log, logs/{engine.role}{engine.index}.log beside the file."
    )
