"""The X-engine: blocks of spectra of all antennas in, integrations out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ryle.chunk import BLOCK, Exposure, Integration, PacketChunk, SpectraChunk
from ryle.config import Observation
from ryle.correlate import Correlator, CorrelatorConfig, make_correlator
from ryle.engines.beginning import Joining, WholeBand, spectra_there
from ryle.engines.gpus import gpus_for, locked
from ryle.engines.links import f_senders, measure_senders, packet_senders
from ryle.engines.serving import entrance_metrics, serve_engine
from ryle.engines.write_file import WriteFile
from ryle.receive.entrance import MappedEntrance
from ryle.receive.heaps import HeapMap
from ryle.receive.packets import packet_map
from ryle.send.visibilities import VisibilitySender
from ryle.stream.block import Block, Event
from ryle.stream.engine import Engine, Inlet
from ryle.stream.metrics import Registry
from ryle.stream.ring import Reader, Ring
from ryle.stream.step import EachBlock, Step

if TYPE_CHECKING:
    from ryle.gpu import Gpu
    from ryle.products.uvh5 import UVH5Writer

#: Chunks of spectra, each an F-engine's batch, that an X-engine keeps open: how far F-engines may be apart.
X_WINDOW = 8
#: Integrations that there is memory for: one that is sent, one that waits, one that is being read.
SUMS = 3


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
    whole_first : bool
        Leave out what comes before the first integration that is whole (`ryle.engines.beginning.Joining`): an array
        that is already sending is joined in the middle of one.
    gpus : sequence of Gpu
        If ``xengine.backend`` is "cuda": where; the first there is if empty. Several share the channels.
    """

    def __init__(
        self,
        observation: Observation,
        first_channel: int,
        channels: int,
        groups: int,
        *,
        whole_first: bool = False,
        gpus: Sequence[Gpu] = (),
    ) -> None:
        self.first_channel = first_channel
        self._spectra = observation.integration_spectra
        self._blocks = self._spectra // BLOCK
        config = CorrelatorConfig(observation.n_inputs, channels, observation.pols, groups)
        self._correlator = _correlator(observation, config, gpus)
        self._open: int | None = None  # index since sync of the integration being summed
        self._next = 0  # index of the first integration that has not been given
        self._seen: tuple[int, int] | None = None  # spectra since sync that the open one has: the first, past the last
        self._joining = Joining(self._blocks) if whole_first else None
        self._begin: int | None = None if whole_first else 0  # index of the first that could be whole
        #: Blocks dropped because their integration had been given already, and because it had begun before the first.
        self.late_blocks = self.early_blocks = 0
        #: Gives what an integration is read into; new memory each time if absent.
        self.take_room: Callable[[], Integration] | None = None
        #: What still reads the last chunk, and what fills the integration given last, on a GPU.
        self.reads: Event | None = None
        self.ready: Event | None = None

    @property
    def clamped(self) -> int:
        """Values of -128 or -8 that foreign data held and that were clamped."""
        return int(self._correlator.clamped)

    def room(self) -> Integration:
        """Make memory that an integration can be read into."""
        return self._correlator.room()

    def push(self, chunk: SpectraChunk | PacketChunk) -> Iterator[Integration]:
        """Add a chunk; give each integration that it completes.

        An integration is complete when a chunk reaches past its end. One to which nothing contributed is not given.

        Parameters
        ----------
        chunk : SpectraChunk or PacketChunk
            In time order; blocks of an integration that was given already (a sender has started again) are dropped
            and counted.
        """
        block, self.reads = 0, None
        if self._joining is not None:
            self._joining.add(chunk)
        if self._begin is None:
            self._begin = self._next = -(-chunk.first_block // self._blocks)
            self.early_blocks = self._next * self._blocks - chunk.first_block
        while block < chunk.blocks:
            index = (chunk.first_block + block) // self._blocks
            count = min(chunk.blocks - block, (index + 1) * self._blocks - (chunk.first_block + block))
            if index < (self._next if self._open is None else self._open):
                if index >= self._begin:
                    self.late_blocks += count
                block += count
                continue
            if self._open is not None and index > self._open:
                yield from self.flush()
            self._open = index
            # What lacks everything costs nothing: else a receiver that lost its memory to an engine which fell behind
            # would pass on the time that nothing was taken of, and the engine would stay behind for as long.
            if some := self._see(chunk, block, count):
                self.reads = self._correlator.accumulate(chunk, some.start, len(some)) or self.reads
            block += count
        if self._open is not None and chunk.first_block + chunk.blocks == (self._open + 1) * self._blocks:
            yield from self.flush()

    def _see(self, chunk: SpectraChunk | PacketChunk, block: int, count: int) -> range:
        """Note the first and the last spectrum that anything was there of; give the blocks from one to the other."""

        def nearest(blocks: range) -> tuple[int, int] | None:
            found = ((b, spectra_there(chunk, b)) for b in blocks)
            return next((each for each in found if each[1]), None)

        first, last = nearest(range(block, block + count)), nearest(range(block + count - 1, block - 1, -1))
        if first is None or last is None:
            return range(0)
        begin = (chunk.first_block + first[0]) * BLOCK + (first[1] & -first[1]).bit_length() - 1
        end = (chunk.first_block + last[0]) * BLOCK + last[1].bit_length()
        self._seen = begin if self._seen is None else self._seen[0], end
        return range(first[0], last[0] + 1)

    def flush(self) -> Iterator[Integration]:
        """Give the integration that is open, as it is, unless it is empty."""
        if self._open is None:
            return
        index, first = self._open, self._open * self._spectra
        self._next, self._open = index + 1, None
        seen, self._seen = self._seen, None
        if self._joining is not None:
            if not self._joining.whole(index):
                self.early_blocks += self._blocks
                self._correlator.reset()
                return
            self._joining = None
        if seen is None:  # nothing contributed
            self._correlator.reset()
            return
        room = None if self.take_room is None else self.take_room()
        reading = self._correlator.start_read(first, self._spectra, self.first_channel, room)
        self._correlator.reset()
        if room is None:
            reading.wait()
        self.ready, integration = reading.ready, reading.integration
        integration.exposure = Exposure.of(*seen)
        yield integration


def _correlator(o: Observation, config: CorrelatorConfig, gpus: Sequence[Gpu]) -> Correlator:
    if len(gpus) > 1:
        from ryle.correlate.spread import SpreadCorrelator  # nobody without a GPU needs its packages

        return SpreadCorrelator(config, gpus)
    backend = o.xengine.backend
    options: dict[str, Any] = {"threads": o.xengine.threads} if backend == "cpu" else {"gpu": gpus[0] if gpus else None}
    return make_correlator(config, backend, **options)


class Correlate(EachBlock):
    """Spectra to integrations.

    Parameters
    ----------
    source : Reader
        Of blocks of spectra.
    x : XEngine
        What sums them.
    chunk : callable
        Gives a block as the correlator takes it.
    out : Ring
        Of integrations.
    """

    enqueues = True  # on a CPU it works there, in a thread of its own as nobody before it enqueues

    def __init__(
        self, source: Reader, x: XEngine, chunk: Callable[[Block], SpectraChunk | PacketChunk], out: Ring
    ) -> None:
        super().__init__("correlate", source, [out], waits=False)
        self.x, self._chunk, self._out = x, chunk, out
        x.take_room = self._room
        self._block: Block | None = None
        #: Index since sync of the first spectrum that has not been summed.
        self.position = 0

    @property
    def clamped(self) -> int:
        """Values of -128 or -8 that foreign data held and that were clamped."""
        return self.x.clamped

    def use(self, block: Block) -> None:
        """Add a block of spectra; pass on what it completes."""
        chunk = self._chunk(block)
        for integration in self.x.push(chunk):
            self._give(integration)
        self.position = chunk.first_spectrum + chunk.spectra
        block.release(self.x.reads)

    def finish(self) -> None:
        """Pass on what is open."""
        for integration in self.x.flush():
            self._give(integration)

    def _room(self) -> Integration:
        self._block = self._out.room()
        assert self._block is not None
        room: Integration = self._block.data
        return room

    def _give(self, integration: Integration) -> None:
        assert self._block is not None
        self._block.data, self._block.start, self._block.span = (
            integration,
            integration.first_spectrum,
            integration.spectra,
        )
        self._block.ready = self.x.ready
        self._out.put(self._block)
        self._block = None


class SendVisibilities(EachBlock):
    """Integrations to packets, over the time of an integration."""

    def __init__(self, source: Reader, sender: VisibilitySender) -> None:
        super().__init__("send", source)
        self._sender = sender

    def use(self, block: Block) -> None:
        """Send an integration; takes as long as its pace asks."""
        with block:
            self._sender.send(block.data)

    def close(self) -> None:
        """Close the sender's sockets."""
        self._sender.close()


def x_steps(
    observation: Observation,
    source: Reader,
    chunk: Callable[[Block], SpectraChunk | PacketChunk],
    open_file: Callable[[], UVH5Writer],
    *,
    joins: bool = False,
) -> list[Step]:
    """Make the steps between packets of spectra of the whole band and a file: correlate, write.

    With `joins` the file begins as that of a correlator that joined an array which was already sending.
    """
    o = observation
    gpus = gpus_for(o, "x")
    x = XEngine(o, 0, o.fengine.channels, o.groups * o.substreams, whole_first=joins, gpus=gpus)
    sums = Ring("integrations", lambda: Block(_touched(x.room())), SUMS)
    return [
        Correlate(source, x, chunk, sums),
        WriteFile(
            sums.reader(),
            wanted(o),
            open_file,
            o.file_spectra,
            beginning=WholeBand(o.file_spectra) if joins else None,
        ),
    ]


def x_engine(observation: Observation, index: int) -> Engine:
    """Make X-engine `index`: receive, correlate, send.

    Raises
    ------
    ValueError
        If there is no such X-engine.
    OSError
        If it cannot receive.
    """
    o = observation
    if not 0 <= index < o.substreams:
        raise ValueError(f"X-engine {index} does not exist: there are {o.substreams}, counted from 0")
    sender = VisibilitySender(o, index)
    sender.describe()
    live = o.simulate is None
    gpus = gpus_for(o, "x", index)
    x = XEngine(o, index * o.substream_channels, o.substream_channels, o.groups, whole_first=live, gpus=gpus)
    waits, timed, memory = o.at_full_speed, not o.at_full_speed, locked(gpus)
    entrance: MappedEntrance[SpectraChunk | PacketChunk]
    endpoints = [o.spectra_endpoint(index)]
    if o.packets is not None or o.sends_rows:
        packets = packet_map(o, [index], waits=waits, timed=timed)
        entrance = MappedEntrance(o, "x", packets, endpoints, index=index, name="packets", memory=memory)
        packet_bytes, senders = packets.plan.payload_bytes, packet_senders(o, packets)
    else:
        heaps = HeapMap(o, index, o.f_batches, waits=waits, timed=timed)
        entrance = MappedEntrance(o, "x", heaps, endpoints, index=index, name="spectra", memory=memory)
        packet_bytes, senders = o.spectra_heap_bytes // o.groups, f_senders(o, range(len(o.antennas)))
    sums = Ring("integrations", lambda: Block(_touched(x.room())), SUMS)
    correlate = Correlate(entrance.reader(), x, entrance.chunk, sums)
    send = SendVisibilities(sums.reader(), sender)
    metrics = _metrics(o, entrance, correlate, sender, packet_bytes)
    measure_senders(metrics, entrance, senders)
    return Engine([entrance], [correlate, send], metrics)


def wanted(observation: Observation) -> Callable[[Block], list[list[Integration]]]:
    """Say which integrations of the whole band, one a block, are written: those whose spectra are to be correlated."""
    spectra = observation.spectra
    return lambda block: [[block.data]] if block.data.first_spectrum in spectra else []


def _touched(room: Integration) -> Integration:
    """Write to memory once: pages that are first touched while packets arrive cost packets."""
    room.visibilities.fill(0)
    room.counts.fill(0)
    return room


def _metrics(
    o: Observation, entrance: Inlet, correlate: Correlate, sender: VisibilitySender, packet_bytes: int
) -> Registry:
    m, x = entrance_metrics(entrance, packet_bytes, "packets of spectra"), correlate.x
    seconds = o.step / float(o.sample_rate)
    m.gauge("position", "s", "signal that has been summed", lambda: correlate.position * seconds)
    m.counter("sent", "integrations", "integrations sent", lambda: sender.sent)
    m.counter("clamped", "values", "parts of -128 (-8) that were taken as -127 (-7)", lambda: x.clamped)
    m.counter("late_blocks", "blocks", "blocks of integrations that were given already", lambda: x.late_blocks)
    m.counter("early_blocks", "blocks", "blocks before the first whole integration", lambda: x.early_blocks)
    return m


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
    serve_engine(x_engine(observation, index), observation, {"role": "x", "index": index}, supervised)
