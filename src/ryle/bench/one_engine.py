"""One engine, or a capture of its packets, in a process of its own, and a sender to it: what is lost at a rate.

    python -m ryle.bench.one_engine {"kind": "f", "work": "whole", …}

Engines run as `ryle run` runs them (entrance, rings, steps, senders). What they send goes to sockets of the same
process that drop everything, so that nobody refuses it.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from ryle.bench.engine import Correlator, free_run
from ryle.bench.harness import Answers, Child, say, serve
from ryle.bench.receiver import Receiver
from ryle.channelize import registry
from ryle.config import Endpoint, Observation, changed, example, load, parse
from ryle.correlate import BACKENDS
from ryle.engines.capture import Capture, CaptureOptions
from ryle.engines.f import f_engine
from ryle.engines.fx_engine import fx_engine
from ryle.engines.steering import Steering
from ryle.engines.x import x_engine
from ryle.products.observed import metadata
from ryle.products.uvh5 import UVH5Writer
from ryle.receive.packet_ring import deaf_sockets
from ryle.receive.packets import packet_map
from ryle.receive.receiving import make_source
from ryle.receive.samples import SampleMap
from ryle.stream.engine import Engine
from ryle.wire.description import Format

Kind = Literal["f", "x", "fx"]
#: What becomes of packets: the engine's operation, nothing in its place, or they are counted and dropped by a capture.
Work = Literal["whole", "nothing", "counted"]

_ANTENNAS = 4
#: Engines send at the pace of the array that they are for. So that it is never what limits them here, X-engines' array
#: is so many times as fast as PAPER, and spectra are sent at so many times their rate.
_FASTER, _PACE = 4, 100
#: Streams to each port: an antenna's two, PAPER's sixteen boards.
_STREAMS: dict[Kind, int] = {"f": 2, "x": 16, "fx": 2}


@dataclass(frozen=True)
class OneEngine:
    """Which engine.

    Parameters
    ----------
    kind : "f", "x" or "fx"
        F- and FX-engines get samples of four antennas, X-engines PAPER's spectra of 128 inputs.
    work : "whole", "nothing" or "counted"
        What becomes of packets.
    backend : "cpu" or "cuda"
        What the arithmetic runs on.
    threads : int
        Of arithmetic, on a CPU.
    receivers : int
        Threads that receive.
    port : int
        The first of 24 that are free.
    """

    kind: Kind
    work: Work = "whole"
    backend: str = "cpu"
    threads: int = 1
    receivers: int = 1
    port: int = 0

    @property
    def observation(self) -> Observation:
        """The observation that it is of."""
        receive = {"receive": {"threads": self.receivers, "buffer": 64 << 20}}
        arithmetic = {"backend": self.backend, "threads": self.threads}
        if self.kind == "x":
            network = {"spectra": f"127.0.0.1:{self.port}", "visibilities": f"127.0.0.1:{self.port + 16}"}
            o = load(example("paper128")).live
            return changed(
                o,
                band={"sample_rate": o.sample_rate * _FASTER},
                xengine=arithmetic | {"integration": o.xengine.integration / _FASTER},
                catcher={"integration": None},
                observation={"duration": None},
                network=network | receive,
            )
        ports = [self.port, self.port + 8, self.port + 16]
        array = Correlator(antennas=_ANTENNAS, rate=100e6, channels=4096, taps=8, integration=1.0)
        fx = {"fx": {"backend": self.backend}} if self.kind == "fx" else {}
        o = parse(array.text(ports), "one").live
        f = arithmetic | {"pace": _PACE}
        return changed(o, network=receive, fengine=f, xengine=arithmetic, **fx)

    @property
    def endpoints(self) -> list[Endpoint]:
        """Where it receives."""
        return self.observation.engine_endpoints(self.kind)

    @property
    def format(self) -> Format:
        """What its packets are."""
        o = self.observation
        return (packet_map(o, [0]) if self.kind == "x" else SampleMap(o, range(_ANTENNAS), waits=False)).plan.format


def receiver(engine: OneEngine, copies: int = 1, cores: Sequence[int] = ()) -> Receiver:
    """Start engines of a kind, each in a process of its own, and what sends to each of them.

    Parameters
    ----------
    engine : OneEngine
        Which; its port is chosen here.
    copies : int
        How many at the same time.
    cores : sequence of int
        Of the sending threads, to each as many as receive.
    """
    children: list[Child] = []
    ports: list[list[int]] = []
    for _ in range(copies):
        port = free_run(24, ports[-1][0] + 24 if ports else 23000)
        asked = asdict(engine) | {"port": port}
        children.append(Child("ryle.bench.one_engine", json.dumps(asked)))
        ports.append(list(dict.fromkeys(e.port for e in OneEngine(**asked).endpoints)))
    format = OneEngine(engine.kind, port=23000).format
    return Receiver(children, format, ports, _STREAMS[engine.kind], engine.receivers, cores)


def _whole(engine: OneEngine, o: Observation, stack: ExitStack) -> Engine:
    if engine.work == "nothing":
        registry.BACKENDS["cpu"] = "ryle.bench.null_operation:NullChannelizer"
        BACKENDS["cpu"] = "ryle.bench.null_operation:NullCorrelator"
    if engine.kind == "fx":
        file = Path(stack.enter_context(TemporaryDirectory(prefix="ryle-one-"))) / "one.uvh5"
        return fx_engine(o, lambda: UVH5Writer(file, metadata(o)), Steering(o, range(_ANTENNAS)))[0]
    if engine.kind == "f":
        to: Iterable[Endpoint] = [o.spectra_endpoint(s) for s in range(o.substreams)]
        made = f_engine(o, 0)[0]
    else:
        to, made = [o.visibilities_endpoint(0)], x_engine(o, 0)
    for s in deaf_sockets([*to, *([o.statistics] if o.statistics else [])], o.network.own_address):
        stack.callback(s.close)
    return made


def _run(engine: OneEngine, stack: ExitStack) -> Answers:
    """Start it; gives what answers questions."""
    o = engine.observation
    if engine.work == "counted":
        return _capture(engine, o, stack)
    made = _whole(engine, o, stack)
    made.start()

    def end() -> None:
        made.drain()
        made.wait(20.0)
        made.close()

    stack.callback(end)
    return {"figures": lambda asked: {"placed": made.entrances[0].account().placed}}


def _capture(engine: OneEngine, o: Observation, stack: ExitStack) -> Answers:
    plan = (packet_map(o, [0]) if engine.kind == "x" else SampleMap(o, range(_ANTENNAS), waits=False)).plan
    kind: Any = engine.kind
    capture = Capture(plan, CaptureOptions(warm_up=0.0), lambda sink: make_source(o, kind, sink, engine.endpoints), ())
    waiting = threading.Event()
    capture.state = lambda state: waiting.set() if state == "waiting" else None
    thread = threading.Thread(target=capture.run, args=(None,), name="capture")
    thread.start()
    while not waiting.wait(0.1):
        if not thread.is_alive():
            raise RuntimeError("the capture ended before it waited for packets; see above")
    stack.callback(thread.join)
    stack.callback(capture.stop)
    return {"figures": lambda asked: {"placed": capture.metrics.values()["account"]["placed"]}}


def main() -> None:
    """Be it, until standard input ends."""
    with ExitStack() as stack:
        answers = _run(OneEngine(**json.loads(sys.argv[1])), stack)
        say({"ready": True})
        serve(answers)


if __name__ == "__main__":
    main()
