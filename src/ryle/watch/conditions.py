"""What is wrong in one look at a correlator: named, with its figure and what to do about it.

Thresholds are far from what healthy inputs do: alarms that are often false are soon not read at all. The arithmetic on
visibilities is in `ryle.watch.suspicions`; when a finding is an alarm, in `ryle.watch.alarms`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeGuard

import numpy as np

from ryle.config import Observation
from ryle.products.glance import Glance
from ryle.watch.sight import EngineSight, InputSight, Sight
from ryle.watch.suspicions import Interference, Suspicion, fringe_suspicions

_GLANCES_APART = 1.0  # seconds between two glances that are judged
_NAMED = 4  # inputs that one finding names at most
_MANY = 16  # of as many inputs each has a finding of its own; of more, one is about them all
_MISSED = 300.0  # seconds for which an engine that has left is missed
_RUNNING = ("running", "draining")


@dataclass(frozen=True)
class Thresholds:
    """From where on something is wrong.

    Parameters
    ----------
    looks, holds : int, float
        Looks, and seconds, for which a condition must hold: a status page that was read at a bad moment is one look.
    gone : float
        Seconds for which it must be gone: a loss of a packet a second is one alarm.
    dead_rms : float
        Share of the other inputs' median rms below which an input has no receiver behind it: 26 dB down; gains of
        a healthy array differ by some dB.
    dead_present : float
        Share of its spectra below which an input is gone, while others' median is above `others_present`.
    others_present : float
        That share.
    clipped, saturated : float
        Share of values: 1 % of a Gaussian signal is clipped at 2.6 times its rms, where a tenth of a dB of
        the power is lost.
    clipping_bits : int
        Bits of an ADC below which its ends are in use in good order.
    loss : float
        Share of what was expected at a hand-over.
    silent : float
        Seconds for which an engine that runs may say nothing, beyond twice its own interval.
    vanished : float
        Seconds after which an engine that has left is missed, if others of its kind go on.
    disk : float
        Seconds for which the disk must last at the rate at which it fills.
    disk_over : float
        Seconds of looks over which that rate is taken.
    behind : float
        Share of a catcher's memory for integrations that may wait for the writer.
    """

    looks: int = 2
    holds: float = 1.0
    gone: float = 5.0
    dead_rms: float = 0.05
    dead_present: float = 0.01
    others_present: float = 0.5
    clipped: float = 0.01
    saturated: float = 0.01
    clipping_bits: int = 6
    loss: float = 1e-3
    silent: float = 5.0
    vanished: float = 10.0
    disk: float = 600.0
    disk_over: float = 20.0
    behind: float = 0.5


@dataclass(frozen=True)
class Finding:
    """Something that is wrong in one look.

    Parameters
    ----------
    kind, subject, severity, text, cure
        As of `Alarm`.
    """

    kind: str
    subject: str
    severity: Literal["warning", "error"]
    text: str
    cure: str


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
        self._interference = Interference(observation)
        self._glance: Glance | None = None  # the last that was judged, when, and what was found
        self._glance_at, self._glance_findings = -np.inf, list[Finding]()
        self._disk: list[tuple[float, float]] = []
        self._time = -np.inf

    def shift(self, by: float) -> None:
        """Let the times that are kept be those of a clock that was set by so many seconds."""
        past = self._past
        past.left = {name: (engine, when + by) for name, (engine, when) in past.left.items()}
        past.until = {name: when + by for name, when in past.until.items()}
        self._disk.clear()

    def findings(self, sight: Sight) -> Iterator[Finding]:
        """Find what is wrong in a look, newer than those before."""
        self._time = sight.time
        if sight.engines:
            yield from _together(list(self._of_inputs(sight.inputs)))
            yield from self._of_losses(sight)
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

    # -- packets ----------------------------------------------------------------------------------------------------

    def _of_losses(self, sight: Sight) -> Iterator[Finding]:
        """Tell what did not come, at each hand-over; of which inputs, if that is known."""
        for engine in sight.engines:
            if not engine.alive or engine.state not in _RUNNING:
                continue
            expected, missing = (engine.rates.get(f"account.{k}", 0.0) for k in ("expected", "missing"))
            full = engine.rates.get("ring_full", 0.0)
            if expected <= 0 or missing <= self._t.loss * expected:
                continue
            name = engine_name(engine)
            text = f"{missing / expected:.2%} of the packets that {name} expects do not come ({missing:.3g} a second)"
            cure = (
                "Look at the link and its switch (ethtool -S), at the kernel's buffers (sysctl net.core.rmem_max), and "
                "whether the cores of this engine are its own."
            )
            if full > 0:
                text += f"; {full:.3g} a second found its memory full"
                cure = "It is too slow for what comes: give it more cores or a GPU, or fewer antennas or channels."
            elif dropped := engine.rates.get("account.kernel_drops", 0.0):
                text += f"; the kernel dropped {dropped:.3g} a second of them because a socket's buffer was full"
                cure = "Raise net.core.rmem_max and network.buffer, or give its receiving threads cores of their own."
            if losing := self._losing(sight, engine):
                text += f"; of {losing}"
                cure = "Look at the cable, the transceiver and the switch port of who sends these."
            severity: Literal["warning", "error"] = "error" if missing > 10 * self._t.loss * expected else "warning"
            yield Finding("loss", name, severity, text, cure)

    def _losing(self, sight: Sight, engine: EngineSight) -> str:
        """Name the inputs that lose, if only some of an engine's do."""
        labels, shares = engine.values.get("inputs"), engine.values.get("input_placed")
        if not isinstance(labels, list) or not isinstance(shares, list) or len(labels) != len(shares):
            return ""
        bad = [str(n) for n, s in zip(labels, shares, strict=True) if _is_number(s) and s < 1 - self._t.loss]
        if not bad or 2 * len(bad) > len(labels):  # most do: it is not the inputs' own
            return ""
        more = f" and {len(bad) - _NAMED} more" if len(bad) > _NAMED else ""
        return ", ".join(bad[:_NAMED]) + more

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
        if not _is_number(count):
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
            writes = any(e.state in _RUNNING and e.rates.get("integrations", 0) > 0 for e in sight.engines)
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
            blocks = {k: v for k, v in ring.items() if _is_number(v)} if isinstance(ring, dict) else {}
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
            elif engine.alive and engine.state in _RUNNING:
                interval = engine.values.get("interval")
                patience = self._t.silent + (2 * interval if _is_number(interval) else 0.0)
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
            if (failed and sight.engines) or (others and engine.state in _RUNNING and now - when > self._t.vanished):
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
    """Give findings of inputs; where there are very many of a kind, one in their place."""
    for kind in dict.fromkeys(f.kind for f in findings):
        some = [f for f in findings if f.kind == kind]
        if len(some) <= _MANY:
            yield from some
            continue
        named = ", ".join(f.subject for f in some[:_NAMED])
        text = f"{len(some)} inputs at once: {named} and others; {some[0].text}"
        cure = f"Look for what they have in common: power, clock, switch, interference. {some[0].cure}"
        yield Finding(kind, "many inputs", some[0].severity, text, cure)


def engine_name(engine: EngineSight) -> str:
    """Say what people call an engine."""
    words = {"simulate": "simulator", "catcher": "catcher", "fx": "FX-engine", "f": "F-engine", "x": "X-engine"}
    word = words.get(engine.role, engine.role)
    return f"{word} {engine.index}" if engine.role in ("f", "x", "catcher") else word


def _engine_finding(name: str, text: str, log: Iterable[str], engine: EngineSight) -> Finding:
    last = [line for line in log if line.startswith(f"{engine.role}{engine.index}: ")]
    said = f"; its last words: {last[-1].partition(': ')[2]}" if last else ""
    return Finding(
        "engine", name, "error", text + said, f"Read its log, logs/{engine.role}{engine.index}.log beside the file."
    )


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
