"""The simulator as a process: a simulated array's digitizers, sending real packets."""

from __future__ import annotations

import threading
from typing import Any

from ..config import Observation
from ..monitor.status import StatusReporter
from ..net.digitizer import DigitizerSender
from ..simulate import VoltageSimulator
from .control import DrainControl


def serve(observation: Observation, supervised: bool) -> None:
    """Make samples and send them as digitizer heaps, to the observation's end or until told to stop.

    Parameters
    ----------
    observation : Observation
        Must have a ``[simulate]`` table.
    supervised : bool
        Whether standard input is a supervisor's pipe.
    """
    simulator = VoltageSimulator(observation)
    assert observation.simulate is not None
    speed = observation.simulate.speed
    sender = DigitizerSender(observation, speed=0.0 if isinstance(speed, str) else speed)
    stop = threading.Event()
    position = 0

    def status() -> dict[str, Any]:
        digitizer = simulator.digitizer
        made = digitizer.samples * observation.n_inputs
        return {
            "bytes": sender.sent * observation.digitizer_heap_bytes,
            "sent": sender.sent,
            "position": position / float(observation.sample_rate),
            "saturated": float(digitizer.saturated.sum() / max(1, made)),
        }

    with StatusReporter({"role": "simulate", "index": 0}, status) as reporter:
        DrainControl(stop.set, supervised)
        reporter.set_state("running")
        for chunk in simulator.chunks():
            if stop.is_set():
                break
            sender.send(chunk, chunk.saturated)
            position = chunk.end
