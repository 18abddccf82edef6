"""The X-engine: blocks of spectra of all antennas in, integrations out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..chunk import BLOCK, Integration, PacketChunk, SpectraChunk
from ..config import Observation
from ..correlate import CorrelatorConfig, make_correlator
from ..monitor.status import StatusReporter
from ..net.packets import PacketReceiver
from ..net.spectra import SpectraReceiver
from ..net.visibilities import VisibilitySender
from .control import DrainControl
from .window import f_batch

#: Chunks of spectra, each an F-engine's batch, that an X-engine keeps open: how far F-engines may be apart.
X_WINDOW = 8


class XEngine:
    """Integrates a run of channels over stretches aligned to multiples of their length since sync.

    Parameters
    ----------
    observation : Observation
        What is observed.
    first_channel, channels : int
        The run of channels.
    groups : int
        Channel groups that the chunks' validity words distinguish.
    """

    def __init__(self, observation: Observation, first_channel: int, channels: int, groups: int) -> None:
        self.first_channel = first_channel
        self._spectra = observation.integration_spectra
        self._blocks = self._spectra // BLOCK
        backend = observation.xengine.backend
        options: dict[str, Any] = {"threads": observation.xengine.threads} if backend == "cpu" else {}
        config = CorrelatorConfig(observation.n_inputs, channels, observation.pols, groups)
        self._correlator = make_correlator(config, backend, **options)
        self._open: int | None = None  # index since sync of the integration being summed
        self._next = 0  # index of the first integration that has not been given
        #: Blocks dropped because their integration had been given already.
        self.late_blocks = 0

    @property
    def clamped(self) -> int:
        """Values of -128 or -8 that foreign data held and that were clamped."""
        return int(self._correlator.clamped)

    def push(self, chunk: SpectraChunk | PacketChunk) -> Iterator[Integration]:
        """Add a chunk; give each integration that it completes.

        An integration is complete when a chunk reaches past its end. One to which nothing contributed is not given.

        Parameters
        ----------
        chunk : SpectraChunk or PacketChunk
            In time order; blocks of an integration that was given already (a sender has started again) are dropped
            and counted.
        """
        block = 0
        while block < chunk.blocks:
            index = (chunk.first_block + block) // self._blocks
            count = min(chunk.blocks - block, (index + 1) * self._blocks - (chunk.first_block + block))
            if index < (self._next if self._open is None else self._open):
                self.late_blocks += count
                block += count
                continue
            if self._open is not None and index > self._open:
                yield from self.flush()
            self._open = index
            self._correlator.accumulate(chunk, block, count)
            block += count
        if self._open is not None and chunk.first_block + chunk.blocks == (self._open + 1) * self._blocks:
            yield from self.flush()

    def flush(self) -> Iterator[Integration]:
        """Give the integration that is open, as it is, unless it is empty."""
        if self._open is None:
            return
        first, self._next, self._open = self._open * self._spectra, self._open + 1, None
        integration = self._correlator.read(first, self._spectra, self.first_channel)
        self._correlator.reset()
        if integration.counts.any():
            yield integration


def serve(observation: Observation, index: int, supervised: bool) -> None:
    """Be X-engine `index`: receive a substream's spectra, send its visibilities, until told to drain.

    Parameters
    ----------
    observation : Observation
        What is observed.
    index : int
        Which substream.
    supervised : bool
        Whether standard input is a supervisor's pipe.
    """
    if not 0 <= index < observation.substreams:
        raise ValueError(f"X-engine {index} does not exist: there are {observation.substreams}, counted from 0")
    packet_bytes = observation.spectra_heap_bytes // observation.groups
    receiver: SpectraReceiver | PacketReceiver
    if observation.packets is None and not observation.sends_rows:
        receiver = SpectraReceiver(observation, index, batches=f_batch(observation), window=X_WINDOW, spare=2)
    else:
        at_full_speed = observation.simulate is not None and observation.simulate.speed == "max"
        receiver = PacketReceiver(observation, [index], held_up=at_full_speed)
        if observation.packets is not None:
            packet_bytes = observation.packets.payload_bytes
    with VisibilitySender(observation, index) as sender, receiver:
        engine = XEngine(observation, receiver.first_channel, observation.substream_channels, observation.groups)
        position = 0

        def status() -> dict[str, Any]:
            account = receiver.account()
            return {
                "received": account.placed,
                "pending": receiver.pending,
                "bytes": (account.placed or 0) * packet_bytes,
                "account": account.as_dict(),
                "position": position * observation.step / float(observation.sample_rate),
                "sent": sender.sent,
                "clamped": engine.clamped,
                "late_blocks": engine.late_blocks,
            }

        with StatusReporter({"role": "x", "index": index}, status) as reporter:
            control = DrainControl(receiver.stop, supervised)
            reporter.set_state("ready")
            for chunk in receiver:
                reporter.state = "draining" if control.draining.is_set() else "running"
                for integration in engine.push(chunk):
                    sender.send(integration)
                position = chunk.first_spectrum + chunk.spectra
            for integration in engine.flush():
                sender.send(integration)
