"""What Prometheus reads of a running correlator: a look at it as families of metrics.

Names follow Prometheus: ``ryle_``, the figure, its base unit, ``_total`` for what only grows. A count that nobody knows
is absent and never 0. Figures that engines tell of are exported by what they say of themselves, so that a new one needs
no line here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from fastapi import APIRouter, Request, Response
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from ryle import __version__
from ryle.version import commit
from ryle.watch.sight import STAGES, EngineSight, InputSight, Sight
from ryle.watch.watcher import Watching

#: States that an engine may be in; one of another word has a series too.
STATES = ("starting", "ready", "listening", "running", "draining", "done", "failed")
#: Members of an account that say what became of packets.
CLASSES = ("placed", "late", "duplicate", "malformed", "foreign", "missing", "kernel_drops", "ring_full")

#: What a unit is called at the end of a name, and how many of that it is.
UNITS: Mapping[str, tuple[str, float]] = {
    **{"": ("", 1), "s": ("seconds", 1), "ms": ("seconds", 1e-3), "us": ("seconds", 1e-6), "ns": ("seconds", 1e-9)},
    **{"B": ("bytes", 1), "KiB": ("bytes", 1024), "MiB": ("bytes", 1024**2), "GiB": ("bytes", 1024**3)},
    **{"Hz": ("hertz", 1), "MHz": ("hertz", 1e6), "W": ("watts", 1), "J": ("joules", 1), "V": ("volts", 1)},
    **{"C": ("celsius", 1), "°C": ("celsius", 1), "dB": ("decibels", 1), "%": ("ratio", 0.01)},
    "ADC steps": ("steps", 1),
}
#: Figures whose own word says too little, or the unit twice.
WORDS: Mapping[str, str] = {
    "bytes": "payload",
    "saturated": "saturated_ratio",
    "sender_loss": "sender_loss_ratio",
    "next_sample": "next_change",
}
#: Figures of inputs that `Sight.inputs` has, joined.
_JOINED = ("input_rms", "input_clipped", "input_saturated", "input_placed", "input_present", "input_delay")
_Kind = Literal["counter", "gauge"]


@dataclass(frozen=True)
class Told:
    """A family of metrics that every correlator has.

    Parameters
    ----------
    name : str
        In full.
    kind : "counter" or "gauge"
        Whether it only grows.
    means : str
        What it is, for people.
    labels : tuple of str
        By which its series differ, besides ``observation``.
    """

    name: str
    kind: _Kind
    means: str
    labels: tuple[str, ...] = ()


_ENGINE, _INPUT = ("engine", "role", "index"), ("input", "antenna", "polarization")

#: Of the correlator, of each engine and of each input; `named` names those that engines tell of.
TOLD = {
    told.name: told
    for told in (
        Told("ryle_build_info", "gauge", "1; which Ryle serves this", ("version", "commit")),
        Told("ryle_look_timestamp_seconds", "gauge", "when the engines were looked at, Unix time"),
        Told("ryle_file_integrations", "gauge", "integrations that are safe in the visibility file"),
        Told("ryle_file_begin_seconds", "gauge", "signal since sync at which its first integration begins"),
        Told("ryle_file_position_seconds", "gauge", "signal since sync up to which the file goes"),
        Told("ryle_observation_duration_seconds", "gauge", "signal in the whole observation"),
        Told("ryle_disk_free_bytes", "gauge", "left where the file is"),
        Told("ryle_alarm_active", "gauge", "1 while an alarm is under way, 0 for some minutes after it",
             ("kind", "subject", "severity")),
        Told("ryle_alarms", "gauge", "alarms that are under way", ("severity",)),
        Told("ryle_engine_up", "gauge", "1 if its process runs", _ENGINE),
        Told("ryle_engine_state", "gauge", "1 of the state that it is in", (*_ENGINE, "state")),
        Told("ryle_engine_status_age_seconds", "gauge", "since it said anything last", _ENGINE),
        Told("ryle_account_total", "counter", "what became of the packets (or heaps) that came to it, or did not",
             (*_ENGINE, "class", "unit")),
        Told("ryle_account_arrived_total", "counter", "packets (or heaps) that came to it, of any kind",
             (*_ENGINE, "unit")),
        Told("ryle_account_expected_total", "counter", "packets (or heaps) that should have come to it",
             (*_ENGINE, "unit")),
        Told("ryle_input_rms_steps", "gauge", "rms of its ADC values lately, in steps", _INPUT),
        Told("ryle_input_level_dbfs", "gauge", "the same against a full-scale sine wave, dB", _INPUT),
        Told("ryle_input_clipped_ratio", "gauge", "share of its ADC values at an end of the range", _INPUT),
        Told("ryle_input_saturated_ratio", "gauge", "share of its spectra's values that saturated", _INPUT),
        Told("ryle_input_present_ratio", "gauge", "share of its signal that was there, behind a stage",
             (*_INPUT, "stage")),
        Told("ryle_input_delay_seconds", "gauge", "delay that it is given now", _INPUT),
    )
}  # fmt: skip


def named(figure: str, kind: str, unit: str) -> tuple[str, float]:
    """Name the metric of a figure that an engine tells of.

    Parameters
    ----------
    figure, kind, unit : str
        As of `ryle.stream.metrics.Metric`.

    Returns
    -------
    name : str
        Of letters, digits and underscores.
    scale : float
        What the figure is multiplied by.
    """
    suffix, scale = UNITS.get(unit, (unit, 1.0))
    words = [_word(WORDS.get(figure, figure))]
    if (suffix := _word(suffix)) and suffix not in words[0].split("_"):
        words.append(suffix)
    name = "_".join(["ryle", *words]).removesuffix("_total")
    return (f"{name}_total" if kind == "counter" else name), scale


def exposition(sight: Sight) -> bytes:
    """Write a look in Prometheus' text format 0.0.4."""
    return content(sight)[0]


def content(sight: Sight, accept: str = "") -> tuple[bytes, str]:
    """Write a look in the format that a scraper asks for.

    Parameters
    ----------
    sight : Sight
        The look.
    accept : str
        Header of the request: OpenMetrics if it asks for that, else Prometheus' text format.

    Returns
    -------
    body : bytes
        The metrics.
    content_type : str
        Header of the answer.
    """
    encode, content_type = choose_encoder(accept)
    return encode(_registry(sight)), content_type


def router(watcher: Watching) -> APIRouter:
    """Make the route ``GET /metrics``.

    Parameters
    ----------
    watcher : Watching
        Where looks come from.
    """
    routes = APIRouter()

    @routes.get("/metrics", response_class=Response, summary="All figures, for Prometheus")
    def metrics(request: Request) -> Response:
        body, content_type = content(watcher.sight(), request.headers.get("accept", ""))
        return Response(body, headers={"content-type": content_type})

    return routes


def _registry(sight: Sight) -> CollectorRegistry:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_OneLook(sight))
    return registry


class _OneLook(Collector):
    """What the library asks for metrics."""

    def __init__(self, sight: Sight) -> None:
        self._sight = sight

    def collect(self) -> Iterable[Metric]:
        return _Families(self._sight).metrics()


class _Families:
    """Series by family, made of one look."""

    def __init__(self, sight: Sight) -> None:
        self._sight = sight
        self._observation = _text(sight.observation)
        self._families: dict[str, tuple[Told, dict[tuple[str, ...], float]]] = {}
        self._of_correlator()
        for engine in sight.engines:
            self._of_engine(engine)
        for each in sight.inputs:
            self._of_input(each)

    def metrics(self) -> Iterator[Metric]:
        """Give them in the library's own form."""
        for told, series in self._families.values():
            # The library's own counters are named without their ending; samples have it.
            metric = Metric(told.name.removesuffix("_total") if told.kind == "counter" else told.name,
                            told.means, told.kind)  # fmt: skip
            names = ("observation", *told.labels)
            for labels, value in series.items():
                metric.add_sample(told.name, dict(zip(names, (self._observation, *labels), strict=True)), value)
            yield metric

    def _add(self, told: Told, value: Any, *labels: str) -> None:
        number = _number(value)
        if number is None or (told.kind == "counter" and number < 0):
            return
        _, series = self._families.setdefault(told.name, (told, {}))
        series[labels] = number

    def _of_correlator(self) -> None:
        s = self._sight
        self._add(TOLD["ryle_build_info"], 1, __version__, commit())
        self._add(TOLD["ryle_look_timestamp_seconds"], s.time)
        if not s.engines:
            return
        if any("integrations" in e.values for e in s.engines):
            self._add(TOLD["ryle_file_integrations"], s.integrations)
        self._add(TOLD["ryle_file_begin_seconds"], s.begin)
        self._add(TOLD["ryle_file_position_seconds"], s.position)
        self._add(TOLD["ryle_observation_duration_seconds"], s.duration)
        self._add(TOLD["ryle_disk_free_bytes"], s.disk_free)
        under_way = [a for a in s.alarms if a.ended is None]
        for alarm in (*(a for a in s.alarms if a.ended is not None), *under_way):  # one that is back is under way
            labels = _text(alarm.kind), _text(alarm.subject), _text(alarm.severity)
            self._add(TOLD["ryle_alarm_active"], alarm.ended is None, *labels)
        for severity in ("warning", "error"):
            self._add(TOLD["ryle_alarms"], sum(a.severity == severity for a in under_way), severity)

    def _of_engine(self, e: EngineSight) -> None:
        mine = _text(e.name), _text(e.role), str(e.index)
        self._add(TOLD["ryle_engine_up"], e.alive, *mine)
        for state in dict.fromkeys((*STATES, _text(e.state))):
            self._add(TOLD["ryle_engine_state"], state == e.state, *mine, state)
        self._add(TOLD["ryle_engine_status_age_seconds"], max(0.0, self._sight.time - e.updated), *mine)
        account = e.account
        unit = _text(account.get("unit", "packets"))
        for kind in CLASSES:
            self._add(TOLD["ryle_account_total"], account.get(kind), *mine, kind, unit)
        arrived, full = (_number(account.get(name)) for name in ("datagrams", "ring_full"))
        self._add(TOLD["ryle_account_arrived_total"], None if arrived is None else arrived + (full or 0), *mine, unit)
        self._add(TOLD["ryle_account_expected_total"], account.get("expected"), *mine, unit)
        for figure, about in e.kinds.items():
            if figure != "account" and figure not in _JOINED and figure in e.values:
                self._of_figure(e, mine, figure, *about)

    def _of_figure(self, e: EngineSight, mine: tuple[str, ...], figure: str, kind: str, unit: str, means: str) -> None:
        """Add what an engine tells of itself: a number, a number of each of its inputs, or of each part of a table."""
        value = e.values[figure]
        name, scale = named(figure, kind, unit)
        which: _Kind = "counter" if kind == "counter" else "gauge"
        if name in TOLD or name.removesuffix("_total") in TOLD or not self._fits(name, which):
            return
        means = _text(f"{figure}: {means}")
        if isinstance(value, dict):
            told = Told(name, which, means, (*_ENGINE, "part"))
            for part, number in value.items():
                self._add(told, _times(number, scale), *mine, _text(part))
        elif isinstance(value, list):
            told = Told(name, which, means, (*_ENGINE, *_INPUT))
            for labels, number in zip(_inputs_of(e, len(value)), value, strict=False):
                self._add(told, _times(number, scale), *mine, *labels)
        else:
            self._add(Told(name, which, means, _ENGINE), _times(value, scale), *mine)

    def _fits(self, name: str, kind: str) -> bool:
        """Whether no family of another kind has a name already that would be the same to Prometheus."""
        base = name.removesuffix("_total")
        others = (self._families.get(n) for n in (base, f"{base}_total"))
        return all(other is None or (other[0].kind == kind and other[0].name == name) for other in others)

    def _of_input(self, i: InputSight) -> None:
        mine = str(i.index), _text(i.antenna), _text(i.polarization)
        self._add(TOLD["ryle_input_rms_steps"], i.rms, *mine)
        self._add(TOLD["ryle_input_level_dbfs"], i.dbfs, *mine)
        self._add(TOLD["ryle_input_clipped_ratio"], i.clipped, *mine)
        self._add(TOLD["ryle_input_saturated_ratio"], i.saturated, *mine)
        for stage in STAGES:
            self._add(TOLD["ryle_input_present_ratio"], i.present.get(stage), *mine, stage)
        self._add(TOLD["ryle_input_delay_seconds"], i.delay, *mine)


def _inputs_of(e: EngineSight, count: int) -> list[tuple[str, str, str]]:
    """Label an engine's own inputs; none if a list is not of them."""
    labels, first = e.values.get("inputs"), e.values.get("first_input")
    if not isinstance(labels, list) or len(labels) != count or type(first) is not int:
        return []
    found = []
    for n, label in enumerate(labels):
        antenna, _, polarization = _text(label).rpartition(" ")
        found.append((str(first + n), antenna, polarization))
    return found


def _number(value: Any) -> float | None:
    """Give a finite number as one, yes as 1; None for all else, which anybody may have put on a page."""
    if not isinstance(value, bool | int | float):
        return None
    return float(value) if abs(value) < 1e300 else None  # NaN is not


def _times(value: Any, scale: float) -> float | None:
    number = _number(value)
    return None if number is None else number * scale


def _word(text: str) -> str:
    """Make of any text what a metric may be called."""
    return re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")


def _text(value: Any) -> str:
    """Make of anything a label that can be written as UTF-8."""
    return str(value).encode("utf-8", "replace").decode()
