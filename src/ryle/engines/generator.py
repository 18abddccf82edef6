"""Others' F-engines, simulated: sky and receivers, through Ryle's own channelizer, to the packets that they send."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ryle.channelize import Blocks, Spectra
from ryle.config import Observation, simulated
from ryle.engines.f import FEngine
from ryle.send.packets import PacketMaker
from ryle.simulate import VoltageSimulator


class PacketGenerator:
    """Makes all packets of an observation, in order of time.

    With ``simulate.replay`` the first stretch of signal is made once, and its samples come again and again in packets
    with advancing counters: as fast as memory can be copied.

    Parameters
    ----------
    observation : Observation
        With ``fengine.packets`` and ``[simulate]``.

    Attributes
    ----------
    maker : PacketMaker
        What the packets are.
    f : FEngine
        What stands in for the F-engines.
    """

    def __init__(self, observation: Observation) -> None:
        self._observation = observation
        own = simulated(observation)
        assert own.simulate is not None
        self._replay = own.simulate.replay
        once = own.model_copy(update={"simulate": own.simulate.model_copy(update={"replay": None})})
        self._voltages = VoltageSimulator(once, mount=once.array.mount)
        self.maker = PacketMaker(observation)
        self.f = FEngine(once, range(len(once.antennas)), Blocks())

    def __iter__(self) -> Iterator[tuple[int, NDArray[np.uint8]]]:
        """Give (first spectrum, packets (time, packet of that time, bytes)), in order of time."""
        end = self._observation.end_sample
        last = None if end is None else end // self._observation.step
        for first, payloads in self._repeated(last) if self._replay is not None else self._made(last):
            yield first, self.maker.packets(payloads, first)

    def _made(self, last: int | None) -> Iterator[tuple[int, NDArray[np.uint8]]]:
        """Give samples of packets, from signal that is made as it is needed; none without a valid spectrum."""
        per = self.maker.layout.spectra
        for spectra in self._spectra():
            wanted: NDArray[np.bool_] = np.array(spectra.valid.any(axis=0).reshape(-1, per).any(axis=1))
            if last is not None:
                wanted &= spectra.first_spectrum + per * np.arange(1, len(wanted) + 1) <= last
            there = np.flatnonzero(wanted)
            if there.size:
                low, high = int(there[0]), int(there[-1]) + 1
                yield spectra.first_spectrum + low * per, self.maker.payloads(spectra.chunk())[low:high]

    def _spectra(self) -> Iterator[Spectra]:
        for chunk in self._voltages.chunks():
            yield from self.f.push(chunk)
        yield from self.f.flush()

    def _repeated(self, last: int | None) -> Iterator[tuple[int, NDArray[np.uint8]]]:
        """Give the samples of the first stretch again and again."""
        layout, o = self.maker.layout, self._observation
        assert self._replay is not None
        wanted = math.ceil(self._replay * o.sample_rate / o.step)
        held: list[NDArray[np.uint8]] = []
        spectra = 0
        for _, payloads in self._made(None):
            held.append(payloads)
            spectra += len(payloads) * layout.spectra
            if spectra >= wanted:
                break
        first = 0
        while last is None or first + layout.spectra <= last:
            for payloads in held:
                times = len(payloads) if last is None else min(len(payloads), (last - first) // layout.spectra)
                if not times:
                    return
                yield first, payloads[:times]
                first += times * layout.spectra
