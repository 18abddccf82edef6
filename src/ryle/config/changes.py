"""Observations made of others: other values, a band of a recording, some integrations, what a simulator makes."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import cached_property
from typing import Any

from pydantic import ValidationError

from ryle.config import checks
from ryle.config.observation import Observation
from ryle.config.tables import DigitizerTable
from ryle.problems import ConfigError, explain


def changed(observation: Observation, /, **changes: Mapping[str, Any]) -> Observation:
    """Copy with some tables' keys changed: ``changed(o, xengine={"integration": Fraction(1)})``.

    Parameters
    ----------
    observation : Observation
        Stays as it is.
    **changes : mapping
        New values by key, by table, in base units or as text with units; a table that was absent is made of them.

    Raises
    ------
    ConfigError
        If a value is not allowed or the tables no longer agree.
    """
    values = {name: getattr(observation, name) for name in Observation.model_fields}
    for name, change in changes.items():
        table = values.get(name)
        named = {} if table is None else {key: getattr(table, key) for key in table.model_fields_set}
        values[name] = named | dict(change)
    try:
        copy = Observation.model_validate(values)
    except ValidationError as error:
        raise ConfigError(observation.source, explain(error, Observation, values)) from None
    copy._source, copy._text = observation._source, observation._text
    copy._integrations = observation._integrations
    if problems := checks.run(copy):
        raise ConfigError(copy.source, problems)
    return copy


def recorded(
    observation: Observation, /, *, lo: Fraction, sideband: str, complex_samples: bool, packet_samples: int
) -> Observation:
    """One band of an observation as it comes from a recording: 32-bit float samples in packets that cross no network.

    Parameters
    ----------
    observation : Observation
        Stays as it is.
    lo, sideband
        Of the band, as in ``[band]``.
    complex_samples : bool
        Whether the recording's samples are complex.
    packet_samples : int
        Samples of one packet of the chunks that hold it.
    """
    band = observation.band.model_copy(update={"lo": lo, "sideband": sideband})
    digitizer = DigitizerTable(bits=32, complex=complex_samples, heap_samples=packet_samples)
    copy = _derived_anew(observation.model_copy(update={"band": band, "digitizer": digitizer}))
    copy.__dict__["levels"] = None  # they come decoded, in packets of any length, which no format has
    return copy


def part(observation: Observation, integrations: range) -> Observation:
    """Give an observation of which only some integrations of the file are correlated.

    Each of them is bit for bit what it is in the whole: all that it depends on counts from sync.

    Parameters
    ----------
    observation : Observation
        Stays as it is.
    integrations : range
        Which, counted from sync in steps of one: number k has the spectra from k times ``file_spectra`` on.
    """
    copy = observation.model_copy()
    copy._integrations = integrations
    return copy


def simulated(observation: Observation) -> Observation:
    """Give the observation that a simulator makes: Ryle's own F-engines stand in for others', inputs in their order."""
    if observation.fengine.packets is None:
        return observation
    own = {"packets": None, "spectra_per_heap": observation.batch_spectra}
    fengine = observation.fengine.model_copy(update=own)
    usual = {"packets": DigitizerTable().packets, "select": {}}
    digitizer = observation.digitizer.model_copy(update=usual)
    return _derived_anew(observation.model_copy(update={"fengine": fengine, "digitizer": digitizer, "inputs": []}))


#: Samples of all inputs that are channelized at a time where nobody waits for them, and live batches of that at most.
_AT_LEISURE, _LONGER = 1 << 25, 4


def at_leisure(observation: Observation, threads: int) -> Observation:
    """Give an observation as it is correlated where nobody waits for spectra: in longer batches, with all threads.

    A batch is what threads share: what they wait for each other at its ends costs less of a longer one. Its length does
    not depend on how many they are.

    Parameters
    ----------
    observation : Observation
        What it says of threads and batches stays as it is.
    threads : int
        Of each half's arithmetic, on a CPU.
    """
    o = observation
    f: dict[str, int] = {} if "threads" in o.fengine.model_fields_set else {"threads": threads}
    if o.fengine.backend == "cpu" and o.fengine.batch is None:
        batch = o.batch_spectra * o.f_batches
        f["batch"] = batch * max(1, min(_LONGER, _AT_LEISURE // (batch * o.step * o.n_inputs)))
    x = {} if "threads" in o.xengine.model_fields_set else {"threads": threads}
    update = {"fengine": o.fengine.model_copy(update=f), "xengine": o.xengine.model_copy(update=x)}
    return _derived_anew(o.model_copy(update=update))


def _derived_anew(copy: Observation) -> Observation:
    for name, value in (pair for base in Observation.__mro__ for pair in vars(base).items()):
        if isinstance(value, cached_property):
            copy.__dict__.pop(name, None)  # derived from what has just changed
    return copy
