"""What a finding of something wrong is, and from where on something is wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeGuard

from ryle.watch.sight import EngineSight

#: States in which an engine is at work.
RUNNING = ("running", "draining")


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
    link_loss : float
        Share of what was expected of one input or sender there, over so long that a packet now and then is none.
    loss_over : float
        Seconds over which that is taken.
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
    link_loss: float = 2e-3
    loss_over: float = 5.0
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


def engine_name(engine: EngineSight) -> str:
    """Say what people call an engine."""
    words = {"simulate": "simulator", "catcher": "catcher", "fx": "FX-engine", "f": "F-engine", "x": "X-engine"}
    word = words.get(engine.role, engine.role)
    return f"{word} {engine.index}" if engine.role in ("f", "x", "catcher") else word


def is_number(value: object) -> TypeGuard[float]:
    """Whether a figure, which may be of any type, is a number."""
    return isinstance(value, int | float) and not isinstance(value, bool)
