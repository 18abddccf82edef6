"""The F-engine on a GPU: samples go there by themselves, and spectra come from there, while kernels run.

The thread here only enqueues: uploads on one stream, kernels on another, and whoever takes the spectra waits for them
on the GPU, or for their download. What is to be done has been planned ahead (`ryle.engines.planning`).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ryle.channelize import Layout
from ryle.channelize.channelizer import output_shape
from ryle.config import Observation
from ryle.engines.f_config import channelizer_config
from ryle.engines.planning import Append, Batch, PlanBatches, Planned, Restart, Samples, Tables, plan_ring, ring_packets
from ryle.engines.steering import Steering
from ryle.engines.totals import InputTotals
from ryle.gpu import Event, Gpu
from ryle.gpu.staging import Uploads
from ryle.receive.windows import window_shape
from ryle.stream.block import Block, Place
from ryle.stream.ring import Reader, Ring
from ryle.stream.step import EachBlock, Step
from ryle.wire.samples import packed_bytes

if TYPE_CHECKING:
    from ryle.channelize.cuda_work import Own, Work
    from ryle.engines.exchange import Rooms

#: Batches that are planned, of which so many may be under way on the GPU: two keep it busy while a third is enqueued.
_PLANS, _UNDER_WAY = 7, 3
#: Seconds after which a GPU's clocks are up.
_AWAKE = 0.2
#: Batches of spectra on the GPU: one that is made, one that is read, one between them.
_ON_GPU = 3


class Channelize(EachBlock):
    """Samples to spectra, both on a GPU.

    Parameters
    ----------
    gpu : Gpu
        Device.
    observation : Observation
        What is observed.
    antennas : sequence of int
        Consecutive antennas.
    layout : Blocks, Heaps or Rows
        How the spectra are laid out.
    source : Reader
        Of `Planned`.
    totals : InputTotals
        What is counted.
    statistics : Ring, optional
        Of `InputTotals.totals` at the end of each interval.
    table : bool
        Whether samples come as addresses of payloads that a GPU reads.
    share : (Rooms, int), optional
        Where the channels go that this GPU sums itself, and which of the GPUs it is.
    """

    enqueues = True

    def __init__(
        self,
        gpu: Gpu,
        observation: Observation,
        antennas: Sequence[int],
        layout: Layout,
        source: Reader,
        totals: InputTotals,
        statistics: Ring | None = None,
        *,
        table: bool = False,
        share: tuple[Rooms, int] | None = None,
    ) -> None:
        from ryle.channelize.cuda import CudaChannelizer  # nobody without a GPU needs its packages
        from ryle.channelize.cuda_samples import SampleRing

        o, config, shape = observation, channelizer_config(observation, antennas), window_shape(observation)
        self._size, self._batch, self._layout, self._table = o.digitizer.heap_samples, shape.batch, layout, table
        self.gpu, self._totals, self._statistics, self._share = gpu, totals, statistics, share
        self._length, self._interval = o.statistics_samples, -1
        self._channelizer = CudaChannelizer(config, gpu)
        self._compute = gpu.stream()
        self._uploads = Uploads(gpu, self._compute)
        _, packets = ring_packets(shape, self._size)
        self._ring = SampleRing(
            gpu,
            config.inputs,
            packed_bytes(self._size, config.bits, complex_samples=config.complex_input),
            packets,
            self._uploads.stream,
            table=table,
        )
        made, dtype = output_shape(config, shape.batch, layout)
        place = Place("gpu", getattr(gpu, "ordinal", 0))
        self.out = Ring("spectra", lambda: Block(gpu.empty(made, dtype), place=place), _ON_GPU, device_writer=True)
        self.output = made, dtype
        super().__init__("channelize", source, [self.out, *([statistics] if statistics else [])], waits=False)
        self._work: Work = self._channelizer.work(
            self._ring.samples, packets, self._size, 0, 0, shape.batch, (0,), dtype, layout
        )
        self._work.present = self._ring.present
        self._pending: deque[tuple[Event, Block]] = deque()  # batches under way, oldest first
        self._held: deque[tuple[int, Block]] = deque()  # samples read where they lie, and the packet behind them
        self._nothing = Tables.make(config.inputs, shape.batch, lambda n: np.zeros(n, np.uint8))
        self._rehearse()

    def wake(self) -> None:
        """Rehearse until the GPU's clocks are up: an idle one makes its first batches several times as slowly."""
        end = time.monotonic() + _AWAKE
        while time.monotonic() < end:
            self._rehearse()

    def _rehearse(self) -> None:
        """Make batches of nothing: kernels are compiled and loaded, and memory is there, before samples come."""
        room = self.out.room()
        assert room is not None
        self._work.own = self.any_place()
        for _ in range(2):
            self._launch(Batch(0, 0, 0, 0), self._nothing, room)
        self._compute.synchronize()
        self.out.unused(room)

    def any_place(self) -> Own | None:
        """Give a place for this GPU's own channels, if they have one; of no batch."""
        return None if self._share is None else self._share[0].any_place(self._share[1])

    @property
    def totals(self) -> InputTotals:
        """What is counted."""
        return self._totals

    def use(self, block: Block) -> None:
        """Enqueue what has been planned."""
        self._settle()
        plan: Planned = block.data
        for move in plan.moves:
            if isinstance(move, Restart):
                self._give_back(None, self._compute.record())  # all that is held: nothing older is read again
                self._ring.restart(move.packet)
            elif isinstance(move, Append):
                part = slice(move.first, move.end)
                self._ring.append(move.chunk.data[:, part], move.chunk.present[:, part], move.needed)
            else:
                self._ring.skip(move.packets, move.needed)
        plan.moves = []
        if plan.source is not None:
            source, plan.source = plan.source, None
            if self._table:
                self._held.append((self._ring.end, source))
            else:
                source.release(self._uploads.stream.record())
        if plan.batch is None:
            block.release()
            return
        room = self.out.room()
        assert room is not None
        room.free_on(self._compute)
        if plan.gains is not None:
            self._channelizer.set_gains(plan.gains, self._compute)
        if self._share is not None:
            rooms, number = self._share
            self._work.own = rooms.place(number, plan.batch.first, self._compute)
        done = self._launch(plan.batch, plan.tables, room)
        self._ring.read(plan.batch.low, plan.batch.high, done)
        self._give_back(plan.batch.needed, done)
        room.ready, room.start, room.span = done, plan.batch.first, self._batch
        room.planes["valid"] = block.planes["valid"]
        self.out.put(room)
        self._pending.append((done, block))

    def _give_back(self, needed: int | None, after: Event | None = None) -> None:
        """Release the samples read where they lie, before a packet; None: all of them."""
        while self._held and (needed is None or self._held[0][0] <= needed):
            self._held.popleft()[1].release(after)

    def finish(self) -> None:
        """Wait for what is under way."""
        self._settle(0)
        self._give_back(None)
        self._tell()

    def _launch(self, batch: Batch, tables: Tables, room: Block) -> Event:
        work, shape = self._work, tables.coarse.shape
        (there,) = self._uploads.upload(tables.memory[: 3 * tables.coarse.nbytes])
        size = tables.coarse.nbytes
        work.coarse, work.fine, work.phase = (
            there.view(shape, dtype, i * size) for i, dtype in enumerate((np.int64, np.float64, np.float64))
        )
        work.timestamp, work.first_spectrum, work.out = self._ring.first * self._size, batch.first, room.data
        self._channelizer.launch(work, self._layout, stream=self._compute)
        work.counters.copy_to(tables.counters, self._compute)
        return self._uploads.done()

    def _settle(self, most: int = _UNDER_WAY) -> None:
        """Count what is done; wait if more than so many batches are under way."""
        while self._pending and (len(self._pending) > most or self._pending[0][0].passed):
            done, block = self._pending.popleft()
            done.synchronize()
            counters = block.data.tables.counters
            power = counters[:, 1].view(np.float64 if self._channelizer.config.bits == 32 else np.int64)
            if (now := block.start * self._channelizer.config.step // self._length) != self._interval:
                self._tell()
                self._interval = now
            self._totals.count(block.start, block.planes["valid"], counters[:, 0], power)
            block.release()

    def _tell(self) -> None:
        """Give the totals at the end of an interval; if nobody takes them, those of the next have it all."""
        if self._statistics is None or self._interval < 0:
            return
        if (block := self._statistics.room()) is not None:
            block.data, block.start = self._totals.totals(), self._interval
            self._statistics.put(block)


class Download(EachBlock):
    """Blocks of a GPU to blocks of page-locked memory, on a stream of its own.

    Parameters
    ----------
    gpu : Gpu
        Where they are.
    source : Reader
        Of blocks there.
    out : Ring
        Of blocks with page-locked arrays of the same shape and type.
    """

    def __init__(self, gpu: Gpu, source: Reader, out: Ring) -> None:
        super().__init__("download", source, [out], waits=False)
        self._stream, self._out = gpu.stream(), out

    def use(self, block: Block) -> None:
        """Enqueue the copy of a block."""
        room = self._out.room()
        assert room is not None
        if block.ready is not None:
            self._stream.wait(block.ready)
        block.data.copy_to(room.data, self._stream)
        room.ready = self._stream.record()
        room.planes.update(block.planes)
        room.epoch, room.start, room.span = block.epoch, block.start, block.span
        block.release(room.ready)
        self._out.put(room)


def gpu_f_steps(
    gpu: Gpu,
    observation: Observation,
    antennas: Sequence[int],
    layout: Layout,
    source: Reader,
    samples: Samples,
    *,
    steering: Steering | None = None,
    statistics: Ring | None = None,
    share: tuple[Rooms, int] | None = None,
) -> tuple[list[Step], InputTotals, Channelize]:
    """Make the steps from samples on the host to spectra on the GPU; the last of them writes `Channelize.out`."""
    o, shape = observation, window_shape(observation)
    inputs = len(antennas) * o.pols
    totals = InputTotals(o, inputs)
    piece, _ = ring_packets(shape, o.digitizer.heap_samples)
    plans = plan_ring(inputs, shape.batch, _PLANS, lambda n: gpu.pinned((n,), np.uint8))
    plan = PlanBatches(source, samples, shape, steering or Steering(o, antennas), totals, plans, piece)
    channelize = Channelize(
        gpu, o, antennas, layout, plans.reader(), totals, statistics, table=samples.in_place, share=share
    )
    return [plan, channelize], totals, channelize
