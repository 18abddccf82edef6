"""When a run of an array that sends by itself has had the ``duration`` that its observation file asks for."""

from __future__ import annotations

import time

from ryle.config import Observation

_SILENCE = 10.0  # seconds without a packet after which an array whose time is over is taken to have ended


class LiveEnd:
    """Counts an array's signal from the first integration that is written: it has sent for long before.

    A simulator ends by itself, an array does not; and it may end a little early, so that its last integration never
    becomes whole. Methods may be called from any thread.

    Parameters
    ----------
    observation : Observation
        What is run.

    Attributes
    ----------
    reached : bool
        Whether all whole integrations are written that the duration has room for.
    silent : bool
        Whether the time is over and nothing comes any more.
    """

    def __init__(self, observation: Observation) -> None:
        self._end = observation.end_sample
        self._step, self._rate = observation.step, float(observation.sample_rate)
        self._silence = max(_SILENCE, 2 * observation.file_time)
        self._first: int | None = None
        self._since = 0.0
        self.reached = self.silent = False

    def written(self, first_spectrum: int, spectra: int) -> None:
        """Take note of an integration that is safe in a file; of several catchers' in any order."""
        first, length = first_spectrum * self._step, spectra * self._step
        if self._first is None:
            self._first, self._since = first, time.monotonic()
        # Reached when another one would go beyond it, by more than what a duration in decimals is short of.
        if self._end is not None and first + 2 * length - self._first > self._end + self._step:
            self.reached = True

    def over(self, heard: float) -> bool:
        """Tell whether the run is to end.

        A slow replay takes longer than its signal lasts: it is not silent meanwhile.

        Parameters
        ----------
        heard : float
            When a packet last came, of `time.monotonic`.
        """
        if self._end is not None and self._first is not None and not self.reached:
            now = time.monotonic()
            self.silent |= now - self._since > self._end / self._rate and now - heard > self._silence
        return self.reached or self.silent
