"""What ``[fx]``, F and X in one process, must agree on with the tables of engines that there are not then."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ryle.config.checking import reads
from ryle.problems import Problem, listed

if TYPE_CHECKING:
    from ryle.config.observation import Observation


@reads("fengine", "fx", "xengine")
def _one_backend(o: Observation) -> Iterator[Problem]:
    """Both halves run on the same, and a GPU is named where there is one to be used."""
    if o.fx is None:
        return
    backend = o.fengine.backend
    if o.xengine.backend != backend:
        remedy = (
            f'[fx] runs both halves on one backend, and fengine.backend is "{backend}": remove it, or set fx.backend'
        )
        yield Problem("xengine.backend", o.xengine.backend, remedy)
    if o.fx.gpus and backend == "cpu":
        remedy = (
            f'needs a backend that uses it, and {o.backend_key("f")} is "cpu": set fx.backend = "cuda", or remove it'
        )
        yield Problem("fx.gpus", o.fx.gpus, remedy)


@reads("array", "fengine", "fx", "xengine")
def _whole(o: Observation) -> Iterator[Problem]:
    """One process has all antennas and the whole band."""
    if o.fx is None:
        return
    antennas, share, channels = len(o.antennas), o.xengine.channels_per_substream, o.fengine.channels
    if o.fengine.antennas_per_engine < antennas:
        remedy = f"[fx] is one process for all {antennas} antennas: remove it, or remove [fx] to have F-engines"
        yield Problem("fengine.antennas_per_engine", o.fengine.antennas_per_engine, remedy)
    if share is not None and share != channels:
        remedy = f"[fx] is one process for all {channels} channels: remove it, or remove [fx] to have X-engines"
        yield Problem("xengine.channels_per_substream", share, remedy)


@reads("array", "fengine", "fx")
def _gpus(o: Observation) -> Iterator[Problem]:
    """Each GPU has an antenna and a channel at least."""
    if o.fx is not None and len(o.fx.gpus) > (most := min(len(o.antennas), o.fengine.channels)):
        remedy = f"each of them takes some antennas: give at most {most}, such as {o.fx.gpus[:most]}"
        yield Problem("fx.gpus", o.fx.gpus, remedy)


_OTHERS = ("fengine", "xengine", "catcher")


def _placed(value: Any, name: str = "cores") -> tuple[Any, bool, str]:
    return value, value not in (None, []), f"is one process, whose place fx.{name} says"


@reads("catcher", "fengine", "fx", "network", "xengine")
def _nobody_else(o: Observation) -> Iterator[Problem]:
    """Nothing is said of packets between engines that are one."""
    if o.fx is None:
        return
    x_engines = o.network.x_engines
    said: list[tuple[str, Any, bool, str]] = [
        ("fengine.packets", o.fengine.packets, o.fengine.packets is not None, "begins with samples, not with spectra"),
        ("catcher.packets", o.catcher.packets, o.catcher.packets is not None, "begins with samples, not with sums"),
        ("fengine.sends", o.fengine.sends, o.fengine.sends != "rows", "sends no spectra: it keeps them"),
        ("xengine.sends", o.xengine.sends, o.xengine.sends != "native", "sends no sums: it writes them to a file"),
        ("fengine.gpus", listed(map(str, o.fengine.gpus)), bool(o.fengine.gpus), "runs on fx.gpus"),
        ("xengine.gpus", listed(map(str, o.xengine.gpus)), bool(o.xengine.gpus), "runs on fx.gpus"),
        *((f"{name}.cores", *_placed(getattr(o, name).cores)) for name in _OTHERS),
        *((f"{name}.numa", *_placed(getattr(o, name).numa, "numa")) for name in _OTHERS),
        ("network.x_engines", listed(map(str, x_engines)), bool(x_engines), "sends no spectra: it keeps them"),
        ("xengine.receive", None, o.xengine.receive is not None, "receives samples alone, as fengine.receive says"),
        ("catcher.receive", None, o.catcher.receive is not None, "receives samples alone, as fengine.receive says"),
    ]
    for key, value, wrong, why in said:
        if wrong:
            yield Problem(key, value, f"[fx] {why}; remove it, or remove [fx] to have F-engines, X-engines and catcher")
