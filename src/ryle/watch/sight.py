"""One look at a running correlator: everything that views draw, metrics count and alarms judge, at one instant.

A `Sight` is plain data. It is made by `ryle.watch.watcher.Watcher` from status pages and glances, or read back from a
recorded session; nothing that uses one can touch the engines.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ryle.products.glance import Glance
from ryle.products.histograms import Histograms

#: Hand-overs that an input's samples pass, in the order of the signal: what share was there behind each is told.
STAGES = ("ring", "F", "X", "file")


@dataclass(frozen=True, slots=True)
class EngineSight:
    """One engine process.

    Parameters
    ----------
    name : str
        Of its status page: ``"f0"``, ``"x3"``, ``"catcher0"``, ``"fx0"``, ``"simulate0"``.
    role : str
        "simulate", "f", "x", "fx" or "catcher"; anything else that has a page has its own word.
    index : int
        Which of its role.
    pid : int
        Its process.
    alive : bool
        Whether that still runs.
    state : str
        "starting", "ready", "listening", "running", "draining", "done" or "failed".
    updated : float
        When it last said something, Unix seconds.
    values : mapping of str to object
        All its figures, as on its page (`ryle.stream.metrics.Registry`).
    rates : mapping of str to float
        By how much its counters grew a second, over the last few seconds; members of ``account`` as "account.missing".
    kinds : mapping of str to (str, str, str)
        Of each figure "counter" or "gauge", its unit and what it means.
    controls : mapping of str to dict
        What can be set, as `ryle.stream.controls.Control.as_dict` says.
    """

    name: str
    role: str
    index: int
    pid: int
    alive: bool
    state: str
    updated: float
    values: Mapping[str, Any]
    rates: Mapping[str, float] = field(default_factory=dict)
    kinds: Mapping[str, tuple[str, str, str]] = field(default_factory=dict)
    controls: Mapping[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def account(self) -> dict[str, Any]:
        """What became of every packet (`ryle.stream.account.Account`); empty if it counts none."""
        found = self.values.get("account")
        return found if isinstance(found, dict) else {}


@dataclass(frozen=True, slots=True)
class InputSight:
    """One input: a polarization of an antenna. None: nobody has told yet.

    Parameters
    ----------
    index : int
        Antenna · pols + polarization.
    antenna, polarization : str
        Their names.
    rms : float or None
        Of its ADC values lately, steps.
    dbfs : float or None
        The same against a full-scale sine wave, dB.
    clipped : float or None
        Share of its ADC values lately that stood at an end of the range.
    saturated : float or None
        Share of its spectra's values lately that saturated when they were quantized.
    present : mapping of str to (float or None)
        Share of its samples or spectra lately that were there, behind each of `STAGES`.
    delay : float or None
        Seconds, as it is applied now.
    codes : str or None
        What is wrong with its converter's codes: a bit that is stuck, codes that are missing; empty if nothing is.
    """

    index: int
    antenna: str
    polarization: str
    rms: float | None = None
    dbfs: float | None = None
    clipped: float | None = None
    saturated: float | None = None
    present: Mapping[str, float | None] = field(default_factory=dict)
    delay: float | None = None
    codes: str | None = None

    @property
    def label(self) -> str:
        """What people call it."""
        return f"{self.antenna} {self.polarization}"


@dataclass(frozen=True, slots=True)
class Alarm:
    """Something that is wrong, from when it was noticed until some time after it ended.

    Parameters
    ----------
    kind : str
        "dead", "clipping", "interference", "no fringe", "time jump", "loss", "late control", "disk" or "engine".
    subject : str
        What it is about, for people: "antenna 3 x", "F-engine 0", "/data".
    severity : "warning" or "error"
        Whether data are lost or spoiled by it.
    text : str
        What is wrong, with its figure, in one sentence.
    cure : str
        What to do about it, in one sentence.
    since : float
        When it was noticed, Unix seconds.
    ended : float or None
        When it was over; None while it is not.
    """

    kind: str
    subject: str
    severity: Literal["warning", "error"]
    text: str
    cure: str
    since: float
    ended: float | None = None


@dataclass(frozen=True, slots=True)
class Sight:
    """All of it.

    Parameters
    ----------
    time : float
        Of the look, Unix seconds.
    observation : str
        Its name; empty if nothing runs.
    telescope : str
        The array's name.
    text : str
        The observation file, TOML, as the engines read it; empty if nobody told.
    file : str
        What is written; empty if nothing is.
    integrations : int
        That are safe in it.
    position : float or None
        Seconds of signal since sync up to which it goes.
    begin : float or None
        Seconds of signal since sync at which its first integration begins.
    duration : float or None
        Seconds of signal in the whole observation; None if it has no end.
    engines : tuple of EngineSight
        In the order of the signal path.
    inputs : tuple of InputSight
        In order.
    alarms : tuple of Alarm
        Those under way first, the newest first; then those that ended lately.
    disk_free : float or None
        Bytes left where the file is.
    log : tuple of str
        Last lines that engines said on standard error, each with its engine's name before it.
    glance : Glance or None
        The newest look at visibilities.
    histograms : Histograms or None
        The newest of ADC values, of all inputs, the first being 0; of one that nobody told, all counts are 0.
    """

    time: float
    observation: str = ""
    telescope: str = ""
    text: str = ""
    file: str = ""
    integrations: int = 0
    position: float | None = None
    duration: float | None = None
    engines: tuple[EngineSight, ...] = ()
    inputs: tuple[InputSight, ...] = ()
    alarms: tuple[Alarm, ...] = ()
    disk_free: float | None = None
    log: tuple[str, ...] = ()
    glance: Glance | None = None
    histograms: Histograms | None = None
    begin: float | None = None
