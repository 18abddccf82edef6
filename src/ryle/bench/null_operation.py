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
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from rich.console import Console

from ryle.array.delays import Delays
from ryle.bench.harness import ratios, take_turns
from ryle.bench.lossless import Search, highest_lossless
from ryle.bench.one_engine import Kind, OneEngine, receiver
from ryle.bench.receiver import Receiver
from ryle.bench.results import Row, host, save
from ryle.channelize import ChannelizerConfig, Layout, Spectra
from ryle.channelize.channelizer import prepared_output
from ryle.chunk import Integration, PacketChunk, SampleChunk, SampleWindow, SpectraChunk
from ryle.correlate.cpu import CpuCorrelator

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


def _receiver(kind: Kind, null: bool) -> Receiver:
    return receiver(OneEngine(kind, "nothing" if null else "counted"))


def highest(engine: Kind, null: bool, seconds: float, start: float, most: float, tell: Callable[[str], None]) -> Search:
    """Search the highest rate without loss, of an engine without an operation or of a capture."""
    receives = _receiver(engine, null)
    name = f"{engine.upper()}-engine without operation" if null else f"capture of {engine.upper()}'s packets"
    try:
        receives.trial(0.1, _WARM_UP)
        return highest_lossless(
            receives.attempt,
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
    engines: Sequence[Kind], seconds: float, rounds: int, start: float, most: float, tell: Callable[[str], None]
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
