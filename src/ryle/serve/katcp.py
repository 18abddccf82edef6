"""Steering by katcp, the protocol of MeerKAT's control software, with its correlator's request names.

``?gain``, ``?gain-all`` and ``?delays`` take what those of katgpucbf's product controller do, which name a stream and
then all inputs or one by its label, so that clients written for it work. Any name of a stream is taken: there is one.
Inputs have the labels of `ryle.serve.telescope.Telescope.inputs`, with ``_`` for the space, or their numbers.
"""

# Without annotations as text, which aiokatcp does not read.
import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from fractions import Fraction
from typing import TypeVar

import aiokatcp

from ryle import __version__
from ryle.serve.asking import Change, SteeringError
from ryle.serve.telescope import Telescope
from ryle.watch.sight import InputSight, Sight
from ryle.watch.watcher import Watching

T = TypeVar("T")
_EVERY = 1.0  # seconds between two looks for sensors
_MODEL = "delay,rate:phase,rate"


class KatcpServer(aiokatcp.DeviceServer):
    """Takes requests, and has sensors of what is seen.

    Parameters
    ----------
    telescope : Telescope
        What is steered.
    watcher : Watching
        Where sensors' values come from.
    host, port
        Where it listens; port 0 takes a free one.
    """

    VERSION = f"ryle-{__version__}"
    BUILD_STATE = f"ryle-{__version__}"

    def __init__(self, telescope: Telescope, watcher: Watching, host: str, port: int) -> None:
        super().__init__(host, port)
        self._telescope, self._watcher = telescope, watcher
        self._steady: aiokatcp.Sensor[int] = aiokatcp.Sensor(
            int,
            "steady-state-timestamp",
            "Time stamp from which on data reflect all requests so far, samples since sync",
            default=0,
            initial_status=aiokatcp.Sensor.Status.NOMINAL,
        )
        self._status: aiokatcp.Sensor[str] = aiokatcp.Sensor(
            str, "device-status", "ok, degraded (a warning is on) or fail (data are lost or spoiled)"
        )
        self.sensors.add(self._steady)
        self.sensors.add(self._status)
        self._looking: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Listen."""
        await super().start()
        self._looking = asyncio.create_task(self._look())

    async def on_stop(self) -> None:
        """End the looks for sensors."""
        if self._looking is not None:
            self._looking.cancel()
            with suppress(asyncio.CancelledError):
                await self._looking

    async def request_gain(
        self, ctx: aiokatcp.RequestContext, stream: str, input: str, *values: str
    ) -> tuple[str, ...]:
        """Set the complex gain of an input: one value, or one a channel; or read what it has, if none is given.

        Replies with the gains that it has then: one if they are the same on all channels.
        """
        if not values:
            found = await self._told(lambda: self._telescope.gains(self._named(input))[0])
            return tuple(map(_written, found[:1] if (found == found[0]).all() else found))
        gains = self._gains(values)
        await self._do(lambda: self._telescope.set_gains(gains if len(gains) > 1 else gains[0], self._named(input)))
        return tuple(map(_written, gains))

    async def request_gain_all(self, ctx: aiokatcp.RequestContext, stream: str, *values: str) -> None:
        """Set the complex gains of all inputs: one value, one a channel, or "default", as the observation file has."""

        def change() -> Change:
            if values == ("default",):
                return self._telescope.set_gains(self._telescope.observation.gains)
            gains = self._gains(values)
            return self._telescope.set_gains([gains])

        await self._do(change)

    async def request_delays(
        self, ctx: aiokatcp.RequestContext, stream: str, start_time: aiokatcp.Timestamp, *models: str
    ) -> None:
        """Steer all inputs from a Unix time on: delay,rate:phase,rate of each, in s, s/s, rad and rad/s."""
        rows = [_model(text) for text in models]
        moment = Fraction(str(float(start_time)))

        def change() -> Change:
            inputs = self._telescope.inputs()
            if len(rows) != len(inputs):
                raise SteeringError(f"{len(rows)} models for {len(inputs)} inputs: give {_MODEL} of each")
            sample = self._telescope.sample_at_unix(moment)
            try:
                return self._telescope.set_delays(rows, None, sample, sample)
            except SteeringError as error:
                if not str(error).startswith("late: "):
                    raise
            # As MeerKAT's: a model whose time has passed holds as soon as it can, extrapolated.
            return self._telescope.set_delays(rows, None, None, sample)

        await self._do(change)

    async def request_capture_start(
        self, ctx: aiokatcp.RequestContext, stream: str, start_time: aiokatcp.Timestamp | None = None
    ) -> None:
        """Write integrations to a new file, from a Unix time on if one is given, unless they are written already."""
        await self._write(True, start_time)

    async def request_capture_stop(
        self, ctx: aiokatcp.RequestContext, stream: str, stop_time: aiokatcp.Timestamp | None = None
    ) -> None:
        """Write no integrations, from a Unix time on if one is given; delays, gains and views go on."""
        await self._write(False, stop_time)

    async def _write(self, write: bool, time: aiokatcp.Timestamp | None) -> None:
        moment = None if time is None else Fraction(str(float(time)))

        def change() -> Change | None:
            if self._telescope.writes() == write:
                return None
            sample = None if moment is None else self._telescope.sample_at_unix(moment)
            return self._telescope.set_scan(write, sample=sample)

        await self._do(change)

    async def _do(self, change: Callable[[], Change | None]) -> None:
        """Do what was asked, and note from when on data reflect it."""
        if (done := await self._told(change)) is not None:
            self._steady.value = max(self._steady.value, done.sample)

    async def _told(self, what: Callable[[], T]) -> T:
        """Ask engines in a thread, for that waits for them; refusals are told as katcp has them."""
        try:
            return await asyncio.to_thread(what)
        except SteeringError as error:
            raise aiokatcp.FailReply(str(error)) from None

    def _gains(self, values: Sequence[str]) -> list[complex]:
        if not values:
            raise aiokatcp.FailReply("give a complex gain, or one for each channel")
        try:
            return [complex(value) for value in values]
        except ValueError:
            raise aiokatcp.FailReply("gains must be complex numbers, such as 1.5 or 0.8+0.2j") from None

    def _named(self, label: str) -> list[str | int]:
        known = self._telescope.inputs()
        return [next((name for name in known if label in (name, name.replace(" ", "_"))), label)]

    # -- sensors -----------------------------------------------------------------------------------------------------

    async def _look(self) -> None:
        while True:
            self._tell(self._watcher.sight())
            await asyncio.sleep(_EVERY)

    def _tell(self, sight: Sight) -> None:
        alarms = [alarm for alarm in sight.alarms if alarm.ended is None]
        status, word = aiokatcp.Sensor.Status.NOMINAL, "ok"
        if any(alarm.severity == "error" for alarm in alarms):
            status, word = aiokatcp.Sensor.Status.ERROR, "fail"
        elif alarms:
            status, word = aiokatcp.Sensor.Status.WARN, "degraded"
        self._status.set_value(word, status, sight.time)
        for seen in sight.inputs:
            for name, means, unit, value in _figures(seen):
                if value is None:
                    continue
                if name not in self.sensors:
                    self.sensors.add(aiokatcp.Sensor(float, name, means, unit))
                self.sensors[name].set_value(value, aiokatcp.Sensor.Status.NOMINAL, sight.time)


def _figures(seen: InputSight) -> list[tuple[str, str, str, float | None]]:
    label = seen.label.replace(" ", "_")
    return [
        (f"{label}.dig-rms-dbfs", "RMS of the digitizer's samples against a full-scale sine", "dBFS", seen.dbfs),
        (f"{label}.dig-clip-ratio", "Share of the digitizer's samples at an end of the range", "", seen.clipped),
        (f"{label}.feng-clip-ratio", "Share of quantized values that saturated", "", seen.saturated),
        (f"{label}.delay", "Delay that is applied", "s", seen.delay),
    ]


def _model(text: str) -> list[float]:
    """Read ``delay,rate:phase,rate``."""
    try:
        found = [float(number) for half in text.split(":") for number in half.split(",")]
        if [len(half.split(",")) for half in text.split(":")] != [2, 2]:
            raise ValueError
    except ValueError:
        raise aiokatcp.FailReply(f"{text!r} is no delay model: write {_MODEL}, such as 1e-9,0:0.5,0") from None
    return found


def _written(gain: complex) -> str:
    """Write a complex number as MeerKAT's software does."""
    return f"{gain.real}{gain.imag:+}j"
