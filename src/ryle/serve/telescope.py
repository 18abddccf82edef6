"""Steers a running correlator as a whole: engines get their inputs' share of what is asked, all from one time on."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ryle.array.observed import sync_time
from ryle.config import Observation
from ryle.monitor.page import Page
from ryle.problems import listed
from ryle.products.observed import input_labels, output_file
from ryle.serve.asking import Ask, Change, Engines, SteeringError


class Telescope:
    """The engines of one observation that runs on this machine, steered together. From any thread.

    Parameters
    ----------
    observation : str, optional
        Its name; that which started last if absent.
    patience : float
        Seconds that an engine may take to answer.
    """

    def __init__(self, observation: str | None = None, patience: float = 10.0) -> None:
        self._engines = Engines(observation, patience)
        self._lock = threading.RLock()

    def close(self) -> None:
        """Hang up."""
        with self._lock:
            self._engines.close()

    def __enter__(self) -> Telescope:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def observation(self) -> Observation:
        """What is observed.

        Raises
        ------
        SteeringError
            If nothing runs.
        """
        with self._lock:
            self._engines.look()
            return self._engines.observation

    def inputs(self) -> list[str]:
        """Names of all inputs, antenna and polarization, in order."""
        return input_labels(self.observation)

    def sample_at(self, time: str) -> int:
        """Give the sample count at an instant: UTC as ISO 8601.

        Raises
        ------
        SteeringError
            If it is none, or before sync.
        """
        try:
            sample = sync_time(self.observation).count(time)
        except ValueError as error:
            raise SteeringError(f"{time!r} is no time: {error}") from None
        if sample < 0:
            raise SteeringError(f"{time} is before the observation's sync_time")
        return sample

    def sample_at_unix(self, seconds: Fraction) -> int:
        """Give the sample count at a Unix time, rounded to the nearest."""
        sync = sync_time(self.observation)
        sample = round((seconds - sync.unix) * self.observation.sample_rate)
        if sample < 0:
            raise SteeringError(f"{float(seconds)} s is before the observation's sync_time, {float(sync.unix)} s")
        return sample

    def numbers(self, names: Sequence[str | int]) -> list[int]:
        """Give the numbers of inputs, by number, name (``"A1 x"``) or antenna (all its polarizations).

        Raises
        ------
        SteeringError
            If there is none of that name.
        """
        known, found = self.inputs(), []
        pols = self.observation.pols
        antennas = [a.name for a in self.observation.antennas]
        for name in names:
            if isinstance(name, int) or (name not in known and name not in antennas and name.isdecimal()):
                if not 0 <= int(name) < len(known):
                    raise SteeringError(f"there is no input {name}: they are 0 to {len(known) - 1}")
                found.append(int(name))
            elif name in known:
                found.append(known.index(name))
            elif name in antennas:
                first = antennas.index(name) * pols
                found += range(first, first + pols)
            else:
                raise SteeringError(f"there is no input {name!r}: there are {listed(known)}")
        if len(set(found)) < len(found):
            raise SteeringError(f"inputs {listed(map(str, names))} name one twice")
        return found

    def set_gains(self, gains: Any, inputs: Sequence[str | int] | None = None, sample: int | None = None) -> Change:
        """Change the complex gains of inputs.

        Parameters
        ----------
        gains : array_like of complex
            One for all; or of shape (input,), (input, 1) or (input, channel), in the order of `inputs`; or (channel,)
            for one input.
        inputs : sequence of str or int, optional
            See `numbers`; all if absent.
        sample : int, optional
            Time stamp from which on they are to hold; as soon as all engines can if absent.

        Raises
        ------
        SteeringError
            If they do not fit or are late: says why. Nothing has changed then.
        """
        mine = list(range(len(self.inputs()))) if inputs is None else self.numbers(inputs)
        channels = self.observation.fengine.channels
        try:
            with np.errstate(over="ignore"):  # what is too large is not finite
                found = np.asarray(gains, np.complex64)
        except (ValueError, TypeError):
            raise SteeringError("gains must be complex numbers") from None
        if found.shape == (channels,) and len(mine) == 1 and channels > 1:
            found = found[np.newaxis]
        elif found.ndim == 1:
            found = found[:, np.newaxis]
        if found.ndim > 2 or (
            found.ndim == 2 and (len(found) not in (1, len(mine)) or found.shape[1] not in (1, channels))
        ):
            raise SteeringError(f"gains of shape {found.shape} do not fit {len(mine)} inputs and {channels} channels")
        if not np.isfinite(found).all():
            raise SteeringError("gains must be finite; 0 blanks a channel")
        rows = np.broadcast_to(found, (len(mine), found.shape[-1] if found.ndim == 2 else 1))
        return self._change("gains", mine, {"gains": rows}, sample)

    def gains(self, inputs: Sequence[str | int] | None = None) -> NDArray[np.complex64]:
        """Give the gains that inputs have, or are to have, after all that has been asked; shape (input, channel)."""
        with self._lock:
            mine = list(range(len(self.inputs()))) if inputs is None else self.numbers(inputs)
            shares = self._shares(self._engines.having("read_gains"), mine)
            said = self._engines.ask([Ask(page, "read_gains", {"inputs": some}) for page, some in shares])
            found = np.empty((len(mine), self.observation.fengine.channels), np.complex64)
            row = {number: row for row, number in enumerate(mine)}
            for page, some in shares:
                found[[row[i] for i in some]] = said[page.name]["gains"]
            return found

    def set_delays(
        self,
        models: Any,
        inputs: Sequence[str | int] | None = None,
        sample: int | None = None,
        start: int | None = None,
    ) -> Change:
        """Steer inputs by delay models, and by geometry no longer.

        Parameters
        ----------
        models : array_like of float, shape (4,) or (input, 4)
            Delay in seconds, its rate in s/s, total phase at the centre of the band in radians, its rate in rad/s.
        inputs : sequence of str or int, optional
            See `numbers`; all if absent.
        sample : int, optional
            Time stamp from which on they are to hold; as soon as all engines can if absent.
        start : int, optional
            Time stamp at which `models` are reached; `sample` if absent.

        Raises
        ------
        SteeringError
            If they do not fit, are too large or late: says why. Nothing has changed then.
        """
        mine = list(range(len(self.inputs()))) if inputs is None else self.numbers(inputs)
        try:
            found = np.broadcast_to(np.asarray(models, np.float64), (len(mine), 4))
        except (ValueError, TypeError):
            raise SteeringError("models must be delay, rate, phase and phase rate of each input, or of all") from None
        if not np.isfinite(found).all():
            raise SteeringError("delay models must be finite")
        most, rate = self.observation.fengine.max_delay, float(np.abs(found[:, 1]).max(initial=0.0))
        if rate >= 1:
            raise SteeringError(f"a delay's rate of {rate:g} s/s is not less than 1: is it in ns/s?")
        if (largest := float(np.abs(found[:, 0]).max(initial=0.0))) > most and start is None:
            raise SteeringError(f"a delay of {largest:.6g} s is beyond fengine.max_delay, {most:.6g} s")
        return self._change("delays", mine, {"models": found}, sample, {} if start is None else {"start": start})

    def set_polynomials(
        self,
        delay: Any,
        seconds: float,
        phase: Any = (0.0,),
        inputs: Sequence[str | int] | None = None,
        sample: int | None = None,
        start: int | None = None,
    ) -> Change:
        """Steer inputs by polynomials of time, and by geometry no longer.

        Parameters
        ----------
        delay : array_like of float, shape (coefficient,) or (input, coefficient)
            c0 + c1·t + c2·t² …: s, s/s …
        seconds : float
            For how long they hold; what follows is a straight line.
        phase : array_like of float, shape (coefficient,) or (input, coefficient)
            Of the total phase at the centre of the band, rad, rad/s …
        inputs : sequence of str or int, optional
            See `numbers`; all if absent.
        sample : int, optional
            Time stamp from which on they are to hold; as soon as all engines can if absent.
        start : int, optional
            Time stamp at which t is 0; `sample` if absent.

        Raises
        ------
        SteeringError
            If they do not fit, are too large, bend too much or are late: says why. Nothing has changed then.
        """
        mine = list(range(len(self.inputs()))) if inputs is None else self.numbers(inputs)
        arrays = {}
        for name, given in (("delay", delay), ("phase", phase)):
            try:
                found = np.atleast_1d(np.asarray(given, np.float64))
                arrays[name] = np.broadcast_to(found, (len(mine), found.shape[-1]))
            except (ValueError, TypeError):
                raise SteeringError(f"{name} must be coefficients of each input, or of all") from None
            if not np.isfinite(found).all():
                raise SteeringError(f"coefficients of {name} must be finite")
        more = {"seconds": seconds} if start is None else {"seconds": seconds, "start": start}
        return self._change("polynomials", mine, arrays, sample, more)

    def set_phase_centre(
        self, ra: float, dec: float, name: str = "phase centre", sample: int | None = None, file: str | None = None
    ) -> Change:
        """Track another phase centre with all inputs, also with those that were steered, and begin a file for it.

        It holds from an integration of the X-engines on, so that none has two.

        Parameters
        ----------
        ra, dec : float
            Degrees, ICRS.
        name : str
            In the file.
        sample : int, optional
            Time stamp from which on it is to hold, rounded up to an integration; as soon as all engines can if absent.
        file : str, optional
            Name of the file, without ``.uvh5``; the next that is free if absent.

        Raises
        ------
        SteeringError
            If it is none, beyond the reach of delays, or late; says why. Nothing has changed then.
        """
        with self._lock:
            every = self._shares(self._engines.having("phase_centre"), list(range(self.observation.n_inputs)))
            tracking = [Ask(page, "phase_centre", {"ra": ra, "dec": dec}) for page, _ in every]
            centre = {"ra": ra, "dec": dec, "name": name}
            return self._scan({"phase_centre": centre}, sample, file, tracking)

    def set_scan(
        self,
        write: bool | None = None,
        file: str | None = None,
        integration: float | None = None,
        sample: int | None = None,
    ) -> Change:
        """Begin a file, or write none.

        Parameters
        ----------
        write : bool, optional
            Whether integrations are to be written from then on; as before if absent.
        file : str, optional
            Name of the file, without ``.uvh5``; the next that is free if absent.
        integration : float, optional
            Length of an integration of the file in seconds, rounded to a multiple of that of the X-engines.
        sample : int, optional
            Time stamp from which on, rounded up to an integration of the X-engines; as soon as can be if absent.

        Raises
        ------
        SteeringError
            If it is not allowed, or late; says why. Nothing has changed then.
        """
        value: dict[str, Any] = {} if write is None else {"write": write}
        if integration is not None:
            value["integration"] = integration
        with self._lock:
            return self._scan(value, sample, file)

    def writes(self) -> bool:
        """Say whether integrations are written, or are to be after all that was asked."""
        with self._lock:
            said = self._engines.ask([Ask(page, "scan") for page in self._engines.having("scan", "catcher is")])
        return any([each["value"], *each["value"]["queued"]][-1]["file"] for each in said.values())

    def _scan(self, value: dict[str, Any], sample: int | None, file: str | None, first: Sequence[Ask] = ()) -> Change:
        writing, o = self._engines.having("scan", "catcher is"), self._engines.observation
        if len(writing) < (wanted := 1 if o.fx is not None else o.catchers):
            raise SteeringError(f"{len(writing)} of {wanted} catchers run on this machine: all begin a file together")
        if file is not None:
            value["name"] = file
        elif len(writing) > 1 and (value["write"] if "write" in value else self.writes()):  # all are to choose the same
            places = [str(p.values.get("directory") or "") for p in writing]
            value["name"] = output_file(o, Path(places[0])).stem
        asks = [*first, *(Ask(page, "scan", value) for page in writing)]
        return self._engines.change(asks, sample, o.integration_spectra * o.step)

    # -- others ------------------------------------------------------------------------------------------------------

    def sharing(self, key: str, inputs: Sequence[int]) -> list[tuple[Page, list[int]]]:
        """Give the engines that have a control and some of these inputs, and which.

        Raises
        ------
        SteeringError
            If none has it, or an input is of none.
        """
        with self._lock:
            return self._shares(self._engines.having(key), list(inputs))

    def ask(self, asks: Sequence[Ask], sample: int | None = None) -> dict[str, dict[str, Any]]:
        """Ask engines; see `ryle.serve.asking.Engines.ask`."""
        with self._lock:
            return self._engines.ask(asks, sample)

    # -- inputs ------------------------------------------------------------------------------------------------------

    def _change(
        self,
        key: str,
        inputs: list[int],
        arrays: Mapping[str, NDArray[Any]],
        sample: int | None,
        more: Mapping[str, Any] | None = None,
    ) -> Change:
        """Ask each engine for its share of what is asked of inputs."""
        row = {number: row for row, number in enumerate(inputs)}
        with self._lock:
            asks = []
            for page, mine in self._shares(self._engines.having(key), inputs):
                value: dict[str, Any] = {"inputs": mine, **(more or {})}
                asks.append(Ask(page, key, value | {n: array[[row[i] for i in mine]] for n, array in arrays.items()}))
            return self._engines.change(asks, sample)

    def _shares(self, pages: Sequence[Page], inputs: list[int]) -> list[tuple[Page, list[int]]]:
        """Say which of the inputs each engine has."""
        shares, left = [], set(inputs)
        for page in pages:
            first, names = page.values.get("first_input"), page.values.get("inputs")
            if type(first) is not int or not isinstance(names, list):
                continue
            mine = [i for i in inputs if first <= i < first + len(names)]
            if mine:
                shares.append((page, mine))
                left -= set(mine)
        if left:
            raise SteeringError(f"inputs {listed(map(str, sorted(left)))} are of no engine that runs on this machine")
        return shares
