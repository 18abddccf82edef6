"""How much of what `ryle capture` receives engines receive when their operation does nothing.

F- and X-engines run as they are (entrance, rings, steps, senders), but for a channelizer and a correlator that give
results without looking at samples; a capture of the same packets counts them and keeps none. Each has one receiving
thread, and a sender on the same machine. Highest rates at which nothing is lost are searched in turns.

    python -m ryle.bench.null_operation [--seconds 2] [--rounds 3] [--start 2] [--most 40] [--engines f x] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from rich.console import Console

from ryle.array.delays import Delays
from ryle.bench.engine import Correlator, free_run
from ryle.bench.harness import Answers, Child, ratios, say, serve, take_turns
from ryle.bench.lossless import Search, highest_lossless
from ryle.bench.receiver import Receiver
from ryle.bench.results import Row, host, save
from ryle.channelize import ChannelizerConfig, Layout, Spectra, registry
from ryle.channelize.channelizer import prepared_output
from ryle.chunk import Integration, PacketChunk, SampleChunk, SampleWindow, SpectraChunk
from ryle.config import Observation, changed, example, load, parse
from ryle.correlate import BACKENDS
from ryle.correlate.cpu import CpuCorrelator
from ryle.engines.capture import Capture, CaptureOptions
from ryle.engines.f import f_engine
from ryle.engines.x import x_engine
from ryle.receive.packets import packet_map
from ryle.receive.receiving import make_source
from ryle.receive.samples import SampleMap

_WARM_UP = 0.5  # s at a tenth of a Gb/s, for memory and caches


class NullChannelizer:
    """A channelizer that gives spectra of which none is valid, whatever the samples."""

    def __init__(self, config: ChannelizerConfig) -> None:
        self.config = config

    def set_gains(self, gains: ArrayLike) -> None:
        """Do nothing."""

    def process(
        self,
        chunk: SampleChunk | SampleWindow,
        first_spectrum: int,
        spectra: int,
        delays: Delays,
        layout: Layout,
        out: NDArray[Any] | None = None,
    ) -> Spectra:
        """Give `out` as it is, nothing of it valid."""
        out = prepared_output(self.config, first_spectrum, spectra, layout, out)
        none = np.zeros(self.config.inputs, np.int64)
        valid = np.zeros((self.config.inputs, spectra), np.bool_)
        return Spectra(first_spectrum, out, valid, none, none, none, layout)


class NullCorrelator(CpuCorrelator):
    """A correlator that adds nothing."""

    def accumulate(self, chunk: SpectraChunk | PacketChunk, first_block: int = 0, blocks: int | None = None) -> None:
        """Do nothing."""

    def read(
        self, first_spectrum: int, spectra: int, first_channel: int, out: Integration | None = None
    ) -> Integration:
        """Give sums of nothing."""
        found = self.room() if out is None else out
        found.counts.fill(0)
        return found


def observation(engine: str, port: int) -> Observation:
    """Make the observation whose packets an engine of its kind receives at a port."""
    if engine == "f":
        text = Correlator(antennas=4, rate=100e6, channels=4096, taps=8, integration=1.0).text(
            [port, port + 8, port + 16]
        )
        return changed(parse(text, "null"), network={"receive_buffer": 64 << 20})
    network = {"spectra": f"127.0.0.1:{port}", "visibilities": f"127.0.0.1:{port + 16}", "receive_buffer": 64 << 20}
    return changed(load(example("paper128")), network=network)


def main_of_child(engine: str, null: bool, port: int) -> None:
    """Be an engine without an operation, or a capture of its packets, until standard input ends."""
    o = observation(engine, port)
    answers, end = (_engine if null else _capture)(o, engine)
    say({"ready": True})
    serve(answers)
    end()


def _engine(o: Observation, kind: str) -> tuple[Answers, Callable[[], None]]:
    registry.BACKENDS["cpu"] = "ryle.bench.null_operation:NullChannelizer"
    BACKENDS["cpu"] = "ryle.bench.null_operation:NullCorrelator"
    engine = f_engine(o, 0)[0] if kind == "f" else x_engine(o, 0)
    engine.start()

    def figures(asked: dict[str, Any]) -> dict[str, Any]:
        return {"placed": engine.entrances[0].account().placed}

    def end() -> None:
        engine.drain()
        engine.wait(20.0)
        engine.close()

    return {"figures": figures}, end


def _capture(o: Observation, kind: str) -> tuple[Answers, Callable[[], None]]:
    if kind == "f":
        plan, to = SampleMap(o, range(4), waits=False).plan, o.digitizer_endpoints(range(4))
    else:
        plan, to = packet_map(o, [0]).plan, [o.spectra_endpoint(0)]
    engine: Any = kind
    capture = Capture(plan, CaptureOptions(warm_up=0.0), lambda sink: make_source(o, engine, sink, to), ())
    waiting = threading.Event()
    capture.state = lambda state: waiting.set() if state == "waiting" else None
    thread = threading.Thread(target=capture.run, args=(None,), name="capture")
    thread.start()
    while not waiting.wait(0.1):
        if not thread.is_alive():
            raise RuntimeError("the capture ended before it waited for packets; see above")

    def end() -> None:
        capture.stop()
        thread.join()

    return {"figures": lambda asked: {"placed": capture.metrics.values()["account"]["placed"]}}, end


def receiver(engine: str, null: bool) -> Receiver:
    """Start an engine, or a capture, and a sender to it."""
    port = free_run(24, 23000)
    child = Child("ryle.bench.null_operation", "child", engine, str(int(null)), str(port))
    o = observation(engine, port)
    format = (SampleMap(o, range(4), waits=False) if engine == "f" else packet_map(o, [0])).plan.format
    return Receiver(child, format, [port], 8 if engine == "f" else 16)


def highest(engine: str, null: bool, seconds: float, start: float, most: float, tell: Callable[[str], None]) -> Search:
    """Search the highest rate without loss, of an engine without an operation or of a capture."""
    receives = receiver(engine, null)
    name = f"{engine.upper()}-engine without operation" if null else f"capture of {engine.upper()}'s packets"
    try:
        receives.trial(0.1, _WARM_UP)
        return highest_lossless(
            receives.trial,
            start=min(start, most),
            most=most,
            seconds=seconds,
            confirm=2 * seconds,
            say=lambda trial, verdict: tell(
                f"{name}: {trial.offered:.2f} of {trial.asked:.2f} Gb/s, {trial.lost} of {trial.sent} lost, {verdict}"
            ),
        )
    finally:
        receives.close()


def rows(
    engines: Sequence[str], seconds: float, rounds: int, start: float, most: float, tell: Callable[[str], None]
) -> list[Row]:
    """Measure both engines against captures, in turns."""
    found = []
    for engine in engines:
        work = {null: partial(highest, engine, null, seconds, start, most, tell) for null in (True, False)}
        done = take_turns(work, rounds, back_and_forth=True)
        rate = {null: [s.rate for s in searches] for null, searches in done.items()}
        of_capture = ratios(rate[True], rate[False])
        found.append(
            Row(
                case=f"{engine.upper()}-engine without operation",
                value=statistics.median(rate[True]),
                unit="Gb/s without loss",
                baseline="ryle capture",
                baseline_value=statistics.median(rate[False]),
                ratio=statistics.median(of_capture),
                spread=(min(rate[True]), max(rate[True])),
                least=0.9,
                more={"ratios": of_capture, "limits": [s.limit for s in done[True] + done[False]]},
            )
        )
        last = found[-1]
        tell(f"{last.case}: {last.value:.2f} Gb/s, {last.ratio:.2f} of a capture's {last.baseline_value:.2f}")
    return found


def main() -> None:
    """Measure, as the command line asks."""
    if sys.argv[1:2] == ["child"]:
        main_of_child(sys.argv[2], sys.argv[3] == "1", int(sys.argv[4]))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--most", type=float, default=40.0, help="highest rate to try, Gb/s")
    parser.add_argument("--start", type=float, default=2.0, help="first rate to try, Gb/s")
    parser.add_argument("--engines", nargs="+", choices=("f", "x"), default=("f", "x"))
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    console = Console(stderr=True)
    found = rows(
        asked.engines,
        asked.seconds,
        asked.rounds,
        asked.start,
        asked.most,
        lambda text: console.print(text, highlight=False),
    )
    save(asked.json, host(), found, console)
    print(json.dumps([{"case": r.case, "gbps": r.value, "ratio": r.ratio} for r in found]))


if __name__ == "__main__":
    main()
