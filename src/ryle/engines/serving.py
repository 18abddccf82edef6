"""An engine as a process: it says what it does, finishes when it is told to, and fails with its reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ryle.config import Observation
from ryle.engines.control import Orders
from ryle.engines.gpus import gpu_numbers
from ryle.engines.load import measure_load
from ryle.monitor.page_files import OBSERVATION
from ryle.monitor.status import StatusReporter
from ryle.receive.entrance import Entrance
from ryle.stream.engine import Engine, Inlet
from ryle.stream.metrics import Registry

_TURN = 0.1  # seconds between two looks at what state the engine is in


def entrance_metrics(entrance: Inlet, payload_bytes: int, what: str) -> Registry:
    """Begin an engine's metrics with those that every entrance has.

    Parameters
    ----------
    entrance : Inlet
        Where packets come in.
    payload_bytes : int
        Of a packet.
    what : str
        What the packets are, for people.
    """
    m = Registry()

    def placed() -> int:
        return entrance.account().placed or 0

    m.counter("received", "packets", f"{what} that were placed", placed)
    m.counter("discarded", "packets", "that came before everybody was ready", lambda: entrance.discarded)
    m.gauge("pending", "", "what has arrived and was not yet used", lambda: entrance.pending)
    m.counter("bytes", "B", "payload of these packets", lambda: placed() * payload_bytes)
    m.gauge("account", "", "what became of every packet", lambda: entrance.account().as_dict())
    m.gauge("advice", "", "what to do about malformed packets", lambda: entrance.advice)
    if isinstance(entrance, Entrance):
        assembler = entrance.assembler

        def ring() -> dict[str, int]:
            counts = assembler.counts()
            return {name: getattr(counts, name) for name in ("open", "ready", "taken", "free")}

        m.gauge("ring", "blocks", "of the entrance's ring: being filled, waiting, held by readers, unused", ring)
        m.counter("ring_full", "packets", "that found no memory free", lambda: assembler.counts().ring_full)
        m.counter("resyncs", "", "times that time stamps jumped", lambda: assembler.counts().resyncs)
    return m


def serve_engine(
    engine: Engine,
    observation: Observation,
    identity: dict[str, Any],
    supervised: bool,
    reporter: StatusReporter | None = None,
    at_end: Callable[[], None] = lambda: None,
) -> None:
    """Run an engine until it is told to drain and has, or fails.

    A supervised engine says that it is "ready" when all that it needs is there, waits for "go", and is "listening" from
    then on. One without a supervisor goes at once, and says that it is "ready" when it listens.

    Parameters
    ----------
    engine : Engine
        Not yet started; closed in the end.
    observation : Observation
        What is observed; its file's text lies beside the status page.
    identity : dict
        Stands in every status line: role, index.
    supervised : bool
        Whether standard input is a supervisor's pipe.
    reporter : StatusReporter, optional
        What says it, if a step has events of its own to tell.
    at_end : callable
        Called when all is done.
    """
    measure_load(engine.metrics, gpu_numbers(observation, identity["role"], identity["index"]))
    if reporter is None:
        reporter = StatusReporter(identity, engine.metrics)
    reporter.keep(OBSERVATION, observation.text.encode())
    with engine, reporter:
        orders = Orders(engine.drain, supervised)
        if supervised:
            reporter.set_state("ready")
            orders.wait_go()
        engine.start()
        reporter.set_state("listening" if supervised else "ready")
        while not engine.wait(_TURN):
            if orders.draining.is_set():
                reporter.state = "draining"
            elif any(entrance.given for entrance in engine.entrances):
                reporter.state = "running"
        at_end()
