"""When a run of an array that sends by itself has had the ``duration`` that its observation file asks for."""

from __future__ import annotations

import time

from ryle.config import Observation

_SILENCE = 10.0  # seconds without a packet after which an array whose time is over is taken to have ended


class LiveEnd:
    """Counts an array's signal from the first integration on: it has sent for long before.

    A simulator ends by itself, an array does not; and it may end a little early, so that its last integration never
    becomes whole.

    Parameters
    ----------
    observation : Observation
        What is run.

    Attributes
    ----------
    reached : bool
        Whether all whole integrations are there that the duration has room for.
    silent : bool
        Whether the time is over and nothing comes any more.
    """

    def __init__(self, observation: Observation) -> None:
        o = observation
        self._duration = None if o.end_sample is None else float(o.end_sample / o.sample_rate)
        self._integration, self._spectrum = o.file_time, o.step / float(o.sample_rate)
        self._begin: float | None = None
        self._since = 0.0
        self.reached = self.silent = False

    def over(self, begin: float, position: float, heard: float) -> bool:
        """Tell whether the run is to end.

        A slow replay takes longer than its signal lasts: it is not silent meanwhile.

        Parameters
        ----------
        begin, position : float
            Seconds from ``sync_time`` at which the first integration begins and the last one ends. Who has been started
            again says a later begin than the one before it.
        heard : float
            When a packet last came, of `time.monotonic`.
        """
        if self._duration is None:
            return False
        now = time.monotonic()
        if self._begin is None:
            self._begin, self._since = begin, now
        self._begin = min(self._begin, begin)
        # Reached when another one would go beyond it, by more than what a duration in decimals is short of.
        self.reached |= position + self._integration - self._begin > self._duration + self._spectrum
        waits = max(_SILENCE, 2 * self._integration)
        self.silent |= not self.reached and now - self._since > self._duration and now - heard > waits
        return self.reached or self.silent
