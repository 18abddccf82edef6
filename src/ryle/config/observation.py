"""The observation file as one object, and the numbers that follow from it.

Everything that two parts of the correlator must agree on (heap
sizes, integration length, channel frequencies, endpoints) is derived here, once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PrivateAttr, model_validator

from ryle.chunk import BLOCK
from ryle.config import digitizers, tables
from ryle.config.simulation import SimulateTable
from ryle.config.tables import (
    AntennaTable,
    ArrayTable,
    BandTable,
    CatcherTable,
    DigitizerTable,
    Endpoint,
    FengineTable,
    FxTable,
    InputTable,
    NetworkTable,
    ObservationTable,
    OutputTable,
    PhaseCentreTable,
    ReceiveTable,
    Receiving,
    VdifTable,
    XengineTable,
)

if TYPE_CHECKING:
    from ryle.wire.description import Format
    from ryle.wire.levels import Levels
    from ryle.wire.spectra import SpectraLayout

_CHUNK_BYTES = 4 << 20  # what X-engines work on at a time,
_GPU_CHUNK_BYTES, _GPU_CHUNK_SECONDS = 64 << 20, Fraction(1, 100)  # and at most on a GPU
#: Spectra that an F-engine's batch should hold, so that overlaps and calls cost little, and bounds on its samples of
#: one input, so that short spectra come in good numbers and long ones do not fill the memory.
_F_SPECTRA = 256
_LEAST_SAMPLES, _MOST_SAMPLES = 1 << 19, 1 << 21
#: The same on a GPU, and bytes of the samples of all inputs: sums are read and written once a batch, calls take time.
_GPU_SPECTRA, _GPU_BYTES = 1024, 3 << 29
#: Chunks of others' packets that an X-engine has room for besides those that F-engines may be apart.
SPARE_CHUNKS = 7
#: Bytes of a packet ring, if nothing else is said.
RING_BYTES = 128 << 20
#: Degrees, by ``array.x_orientation``; circular feeds have their phase 0 at north.
_POINTING = {"east": {"x": 90.0, "y": 0.0}, "north": {"x": 0.0, "y": 90.0}}

#: Spectra of an observation that is not cut: 2**62 of them outlast any.
EVERY = range(1 << 62)

Engine = Literal["f", "x", "catcher", "fx"]


class Observation(tables.Table):
    """An observation file, read and checked, with everything derived from it."""

    observation: ObservationTable
    array: ArrayTable
    band: BandTable
    inputs: list[InputTable] = Field(default_factory=list, description="stream = input if absent")
    digitizer: DigitizerTable = DigitizerTable()
    fengine: FengineTable
    xengine: XengineTable
    catcher: CatcherTable = CatcherTable()
    fx: FxTable | None = None
    phase_centre: PhaseCentreTable | None = None
    network: NetworkTable = NetworkTable()
    output: OutputTable = OutputTable()
    simulate: SimulateTable | None = None
    vdif: VdifTable | None = None
    _source: str = PrivateAttr("observation")
    _text: str = PrivateAttr("")
    _integrations: range | None = PrivateAttr(None)

    @model_validator(mode="after")
    def _one_process(self) -> Observation:
        """Say in the tables of both halves what ``[fx]`` rules: one backend, all antennas."""
        if self.fx is not None:
            backend = self.fx.backend or self.fengine.backend
            f: dict[str, Any] = {"backend": backend}
            if "antennas_per_engine" not in self.fengine.model_fields_set:
                f["antennas_per_engine"] = len(self.antennas)
            self.__dict__["fengine"] = self.fengine.model_copy(update=f)
            if self.fx.backend is not None or "backend" not in self.xengine.model_fields_set:
                self.__dict__["xengine"] = self.xengine.model_copy(update={"backend": backend})
        return self

    @property
    def live(self) -> Observation:
        """The same without ``[simulate]``: an array sends, which waits for nobody."""
        return self.model_copy(update={"simulate": None})

    @property
    def at_full_speed(self) -> bool:
        """Whether it is simulated without a clock, as fast as everything goes."""
        return self.simulate is not None and self.simulate.speed == "max"

    @property
    def arrival_rate(self) -> float:
        """Samples of an input that come in a second; 0 if they are simulated without a clock."""
        if self.simulate is None:
            return float(self.sample_rate)
        return 0.0 if self.simulate.speed == "max" else float(self.sample_rate) * self.simulate.speed

    # -- array ------------------------------------------------------------------------------------------------------

    @property
    def source(self) -> str:
        """The file that this was read from."""
        return self._source

    @property
    def text(self) -> str:
        """The file's text, kept for the history of what is written."""
        return self._text

    @property
    def spectra(self) -> range:
        """Spectra since sync that are correlated: all, or those of some integrations (`ryle.config.part`)."""
        if (some := self._integrations) is None:
            return EVERY
        return range(some.start * self.file_spectra, min(some.stop * self.file_spectra, EVERY.stop))

    @property
    def antennas(self) -> list[AntennaTable]:
        """The antennas, in the order that indices refer to."""
        return self.array.antennas

    @property
    def pols(self) -> int:
        """Polarizations of an antenna."""
        return len(self.array.polarizations)

    @cached_property
    def feed_angles(self) -> NDArray[np.float64]:
        """Position angle of every feed in degrees, from north (zenith if steered) through east, (antenna, pol)."""
        pointing = _POINTING[self.array.x_orientation]
        common = self.array.feed_angles or [pointing.get(p, 0.0) for p in self.array.polarizations]
        return np.array([a.feed_angles or common for a in self.antennas], np.float64)

    @property
    def n_inputs(self) -> int:
        """Inputs of the X-engine; input = antenna · pols + pol."""
        return len(self.antennas) * self.pols

    @property
    def baselines(self) -> int:
        """Pairs of antennas, autos included."""
        return len(self.antennas) * (len(self.antennas) + 1) // 2

    @property
    def products(self) -> int:
        """Visibilities of one channel and integration."""
        return self.baselines * self.pols**2

    @cached_property
    def streams(self) -> list[InputTable]:
        """What stands in ``[[inputs]]`` for each input, by input index; without it, stream = input."""
        by_key = {(i.antenna, i.polarization): i for i in self.inputs}
        found: list[InputTable] = []
        for antenna in self.antennas:
            for pol in self.array.polarizations:
                default = InputTable(stream=len(found), antenna=antenna.name, polarization=pol)
                found.append(by_key.get((antenna.name, pol), default))
        return found

    # -- others' F-engines ------------------------------------------------------------------------------------------

    @cached_property
    def packets(self) -> SpectraLayout | None:
        """Layout of the packets of others' F-engines; None if Ryle channelizes.

        Raises
        ------
        ConfigError
            If there is no such format, or it has mistakes.
        ValueError
            If its packets do not hold spectra.
        """
        if self.fengine.packets is None:
            return None
        from ryle.wire.description import Format
        from ryle.wire.spectra import SpectraLayout

        beside = Path(self._source).parent / self.fengine.packets
        return SpectraLayout.of(Format.load(beside if beside.is_file() else self.fengine.packets))

    @cached_property
    def digitizer_format(self) -> Format:
        """Format of digitizers' packets, with this observation's sizes.

        Raises
        ------
        ConfigError
            If there is no such format, or it has mistakes, or does not hold such samples.
        """
        return digitizers.sized(self, digitizers.described(self))

    @cached_property
    def levels(self) -> Levels | None:
        """What decodes digitizers' samples for the channelizer; None if it takes them as they are."""
        from ryle.wire.levels import Levels, plain

        return None if plain(self.digitizer_format.sample) else Levels(self.digitizer_format)

    @property
    def channelized_bits(self) -> int:
        """Bits of a sample, or of each part of a complex one, as the channelizer takes it."""
        from ryle.wire.levels import DECODED_BITS

        return self.digitizer.bits if self.levels is None else DECODED_BITS

    def digitizer_head(self, index: int) -> tuple[int, ...]:
        """Values of the fields that tell an input's packets from those of others.

        Raises
        ------
        ValueError
            If the format's placement has no packet of this input's stream.
        """
        return digitizers.head(self.digitizer_format, self.digitizer, self.streams[index])

    @cached_property
    def wire_inputs(self) -> NDArray[np.int64]:
        """Number on the wire of each input, as others' F-engines count them, shape (input,)."""
        per = self.packets.inputs if self.packets is not None else 1
        found = [s.stream if s.input is None else s.stream * per + s.input for s in self.streams]
        return np.array(found, np.int64)

    @property
    def packet_senders(self) -> int:
        """Others' F-engines, or runs of antennas, whose packets hold inputs of this array."""
        return 0 if self.packets is None else len(self.packets.senders(self.wire_inputs))

    def chunk_spectra(self, substreams: int = 1) -> int:
        """Spectra of a chunk of packets of so many substreams: whole batches, of some 4 MiB; on a GPU up to 10 ms."""
        batch = self.batch_bytes * substreams
        batches = max(1, _CHUNK_BYTES // batch)
        if self.xengine.backend == "cuda":  # calls cost time, memory of a CPU's caches does not matter
            in_time = int(_GPU_CHUNK_SECONDS * self.sample_rate / self.step / self.batch_spectra)
            batches = max(batches, min(in_time, _GPU_CHUNK_BYTES // batch))
        return batches * self.batch_spectra

    @property
    def batch_bytes(self) -> int:
        """Bytes of a batch of one substream's spectra in packets, of others' F-engines or of rows."""
        if self.packets is None:
            return self.n_inputs * self.substream_channels * 2 * self.batch_spectra
        packets = self.batch_spectra // self.packets.spectra * self.packet_senders * self.groups
        return packets * self.packets.payload_bytes

    def skew_chunks(self, substreams: int = 1) -> int:
        """Chunks of packets by which F-engines may be apart."""
        spectra = self.network.skew * float(self.sample_rate / self.step)
        return max(1, math.ceil(spectra / self.chunk_spectra(substreams)))

    # -- band -------------------------------------------------------------------------------------------------------

    @property
    def sample_rate(self) -> Fraction:
        """Samples (complex ones counted once) a second, exact."""
        return self.band.sample_rate

    @property
    def sideband_sign(self) -> int:
        """Sign s of the design: +1 if sky frequency rises with baseband frequency, else -1."""
        zone = -1 if self.band.nyquist_zone % 2 == 0 else 1
        return zone * (-1 if self.band.sideband == "lower" else 1)

    @property
    def step(self) -> int:
        """Samples from one spectrum to the next: 2 · channels if real, channels if complex."""
        return self.fengine.channels * (1 if self.digitizer.complex else 2)

    @property
    def window(self) -> int:
        """Samples that one spectrum reads."""
        return self.step * self.fengine.taps

    @property
    def channel_width(self) -> float:
        """Channel width and spacing in Hz."""
        return float(self.sample_rate / self.step)

    @cached_property
    def sky_frequencies(self) -> NDArray[np.float64]:
        """Sky frequency in Hz of each channel's centre, by channel index (it falls with the index if s = -1)."""
        k = np.arange(self.fengine.channels) - (self.fengine.channels // 2 if self.digitizer.complex else 0)
        return np.asarray(self._zero_frequency + self.sideband_sign * k * self.channel_width, np.float64)

    @property
    def _zero_frequency(self) -> float:
        """Sky frequency of baseband zero."""
        if self.digitizer.complex:
            return float(self.band.lo)
        edge = self.band.nyquist_zone // 2 * self.sample_rate  # zones 2 and 3 fold at fs, 4 and 5 at 2 fs
        return float(self.band.lo + (edge if self.band.sideband == "upper" else -edge))

    @property
    def centre_frequency(self) -> float:
        """Sky frequency in Hz of channel n/2, where phases are referred to."""
        return float(self.sky_frequencies[self.fengine.channels // 2])

    # -- time -------------------------------------------------------------------------------------------------------

    @property
    def end_sample(self) -> int | None:
        """Sample count at which the observation ends, or None."""
        duration = self.observation.duration
        return None if duration is None else math.floor(duration * self.sample_rate)

    @property
    def batch_spectra(self) -> int:
        """Spectra that every stage can handle at once: lcm(64, spectra per heap, or of others' packet)."""
        return math.lcm(BLOCK, self.heap_spectra if self.packets is None else self.packets.spectra)

    @property
    def f_batches(self) -> int:
        """How many `batch_spectra` an F-engine channelizes at a time: ``fengine.batch``, or what suits its form."""
        f = self.fengine
        if f.batch:
            return max(1, round(f.batch / self.batch_spectra))
        if f.backend == "cuda":
            parts = 2 if self.digitizer.complex else 1
            inputs = -(-(f.antennas_per_engine or len(self.antennas)) // self.fx_gpus) * self.pols  # of a GPU
            spectrum = inputs * self.step * parts * self.channelized_bits // 8
            return max(1, min(_GPU_SPECTRA * self.fx_gpus, _GPU_BYTES // spectrum) // self.batch_spectra)
        samples = min(max(_F_SPECTRA * self.step, _LEAST_SAMPLES), _MOST_SAMPLES)
        return max(1, round(samples / (self.batch_spectra * self.step)))

    @property
    def integration_spectra(self) -> int:
        """Length of an integration in spectra: what was asked for, rounded to a multiple of `batch_spectra`."""
        wanted = self.xengine.integration * self.sample_rate / self.step
        return max(1, round(wanted / self.batch_spectra)) * self.batch_spectra

    @property
    def integration_time(self) -> float:
        """True length of an integration in s."""
        return float(self.integration_spectra * self.step / self.sample_rate)

    @property
    def file_spectra(self) -> int:
        """Length in spectra of an integration in the file: a multiple of `integration_spectra`."""
        wanted = (self.catcher.integration or 0) * self.sample_rate / self.step
        return max(1, round(wanted / self.integration_spectra)) * self.integration_spectra

    @property
    def file_time(self) -> float:
        """True length in s of an integration in the file."""
        return float(self.file_spectra * self.step / self.sample_rate)

    @property
    def max_delay_samples(self) -> int:
        """Largest delay, either sign, in samples, rounded up."""
        return math.ceil(self.fengine.max_delay * self.sample_rate)

    def integration_centre(self, first_spectrum: int) -> Fraction:
        """Centre of an integration in samples since sync: t0 + step · (M + T - 1) / 2."""
        spectra = self.integration_spectra
        return Fraction(self.step * (2 * first_spectrum + spectra + self.fengine.taps - 1), 2)

    # -- heaps and packets ------------------------------------------------------------------------------------------

    @property
    def sample_bits(self) -> int:
        """Bits of one sample, both parts of a complex one."""
        return self.digitizer.bits * (2 if self.digitizer.complex else 1)

    @property
    def digitizer_heap_bytes(self) -> int:
        """Payload of a digitizer heap, which is one packet."""
        return self.digitizer.heap_samples * self.sample_bits // 8

    @property
    def substream_channels(self) -> int:
        """Channels of one substream, the share of one X-engine."""
        return self.xengine.channels_per_substream or self.fengine.channels

    @property
    def substreams(self) -> int:
        """Number of substreams and X-engines."""
        return self.fengine.channels // self.substream_channels

    @property
    def sends_rows(self) -> bool:
        """Whether Ryle's F-engines send packets of rows (`ryle.send.rows`)."""
        return self.fengine.packets is None and self.fengine.sends == "rows"

    @property
    def heap_spectra(self) -> int:
        """Spectra of an F-heap, or of packets of rows: a block."""
        return BLOCK if self.sends_rows else self.fengine.spectra_per_heap

    @property
    def value_bytes(self) -> int:
        """Bytes of one complex value in an F-heap; of rows always 2."""
        return 2 if self.fengine.output_bits == 8 or self.sends_rows else 1

    @property
    def packet_channels(self) -> int:
        """Channels of one F packet: the most that divide a substream and fit the packet size; 0 if none fit."""
        if self.packets is not None:
            return self.packets.channels
        column = self.heap_spectra * self.pols * self.value_bytes
        most = self.network.packet_size // column
        fitting = (c for c in range(min(most, self.substream_channels), 0, -1) if self.substream_channels % c == 0)
        return next(fitting, 0)

    @property
    def groups(self) -> int:
        """Channel groups (packets of an F-heap) of one substream."""
        return self.substream_channels // self.packet_channels

    @property
    def spectra_heap_bytes(self) -> int:
        """Payload of an F-heap whose spectra are all valid; of rows, of one antenna's block for one X-engine."""
        return self.substream_channels * self.heap_spectra * self.pols * self.value_bytes

    # -- processes --------------------------------------------------------------------------------------------------

    @property
    def channelizes(self) -> bool:
        """Whether Ryle channelizes samples, and others' F- or X-engines do not send."""
        return self.fengine.packets is None and self.catcher.packets is None

    @property
    def engines(self) -> dict[Engine, int]:
        """How many engines there are, of each kind that there is, in the order of the signal path."""
        if self.fx is not None:
            return {"fx": 1}
        found: dict[Engine, int] = {"f": self.f_engines} if self.channelizes else {}
        return found | ({"x": self.substreams} if self.catcher.packets is None else {}) | {"catcher": self.catchers}

    def gpu_of(self, half: Literal["f", "x"], index: int = 0) -> list[int]:
        """Give the number of the GPU that an engine is to take, of those that CUDA shows; none: the first."""
        table = self.fx or (self.fengine if half == "f" else self.xengine)
        return [table.gpus[index % len(table.gpus)]] if table.gpus else []

    @property
    def fx_gpus(self) -> int:
        """How many GPUs F and X in one process are spread over, if they run on GPUs."""
        return max(1, len(self.fx.gpus)) if self.fx is not None else 1

    def backend_key(self, half: Literal["f", "x"]) -> str:
        """Name the key that says what the arithmetic of F or X runs on."""
        if self.fx is not None:
            return "fx.backend" if self.fx.backend is not None else "fengine.backend"
        return f"{half}engine.backend"

    @property
    def f_engines(self) -> int:
        """Number of Ryle's F-engines; none if others' send packets, or F and X are one process."""
        if not self.channelizes or self.fx is not None:
            return 0
        return -(-len(self.antennas) // self.fengine.antennas_per_engine)

    def f_engine_antennas(self, engine: int) -> range:
        """Antennas of one F-engine."""
        per = self.fengine.antennas_per_engine
        return range(engine * per, min(len(self.antennas), (engine + 1) * per))

    def input_endpoints(self, index: int) -> list[Endpoint]:
        """Where the digitizer of an input sends its packets to, in turn."""
        antenna, pol = divmod(index, self.pols)
        ranges = self.streams[index].digitizers
        if not ranges and (own := self.antennas[antenna].digitizers):
            ranges = [own[pol] if len(own) > 1 else own[0]]
        if not ranges:
            return [self.network.digitizers.nth(antenna)]
        return [endpoint for each in ranges for endpoint in each.endpoints()]

    def digitizer_endpoints(self, antennas: int | Iterable[int]) -> list[Endpoint]:
        """Where the digitizers of one antenna, or of some, send to: all polarizations, all groups, each once."""
        which = [antennas] if isinstance(antennas, int) else antennas
        ends = (e for a in which for p in range(self.pols) for e in self.input_endpoints(a * self.pols + p))
        return list(dict.fromkeys(ends))

    def spectra_endpoint(self, substream: int) -> Endpoint:
        """Where F-engines send the heaps of a substream."""
        each = self.network.x_engines
        return each[substream] if each else self.network.spectra.nth(substream)

    @property
    def catchers(self) -> int:
        """How many catchers share the substreams."""
        return max(1, len(self.catcher.directories))

    def catcher_substreams(self, index: int) -> range:
        """Substreams that a catcher gets: neighbours, as many as others get or one more."""
        return range(index * self.substreams // self.catchers, (index + 1) * self.substreams // self.catchers)

    def catcher_endpoint(self, index: int) -> Endpoint:
        """Where a catcher receives visibilities."""
        return self.network.visibilities.nth(index)

    def engine_endpoints(self, engine: Engine, index: int = 0) -> list[Endpoint]:
        """Where an engine receives, each address once; F and X in one process receive what all F-engines would."""
        if engine == "catcher":
            return [self.catcher_endpoint(index)]
        if engine == "x":
            return [self.spectra_endpoint(index)]
        return self.digitizer_endpoints(range(len(self.antennas)) if engine == "fx" else self.f_engine_antennas(index))

    def visibilities_endpoint(self, substream: int) -> Endpoint:
        """Where the X-engine of a substream sends its visibilities."""
        mine = next(c for c in range(self.catchers) if substream in self.catcher_substreams(c))
        return self.catcher_endpoint(mine)

    @property
    def statistics(self) -> Endpoint | None:
        """Where F-engines send statistics of their inputs; None if there are none, or others write the file."""
        if not self.channelizes or self.fx is not None or self.xengine.sends == "meerkat":
            return None
        from ryle.config.runs import free_port

        return self.network.statistics or Endpoint(host=self.network.visibilities.host, port=free_port(self))

    @property
    def statistics_samples(self) -> int:
        """Samples of an interval that statistics are of: integrations of a second or more."""
        return self.integration_spectra * self.step * math.ceil(1 / self.integration_time)

    def engine_table(self, engine: Engine) -> Literal["fengine", "xengine", "catcher", "fx"]:
        """Name the table that says where engines of a kind run."""
        tables: dict[Engine, Literal["fengine", "xengine", "catcher", "fx"]] = {"f": "fengine", "x": "xengine"}
        return tables.get(engine, "fx" if engine == "fx" else "catcher")

    def engine_cores(self, engine: Engine, index: int = 0) -> tuple[int, ...]:
        """Give the cores that an engine runs on; none: anywhere."""
        sets: list[tuple[int, ...]] = getattr(self, self.engine_table(engine)).cores
        return sets[index % len(sets)] if sets else ()

    def engine_node(self, engine: Engine) -> int | Literal["auto"] | None:
        """Give the node that memory of engines of a kind is from, or that it is to be found; None: any."""
        node: int | Literal["auto"] | None = getattr(self, self.engine_table(engine)).numa
        return node

    def receive(self, engine: Engine, index: int = 0) -> Receiving:
        """How an engine receives: ``[network]`` with what its own table says instead, and the cores that are its.

        Parameters
        ----------
        engine : "f", "x", "catcher" or "fx"
            Which kind; F and X in one process receive as F-engines do.
        index : int
            Which of these.
        """
        f, x, catcher = self.fengine.receive, self.xengine.receive, self.catcher.receive
        own = {"f": f, "x": x, "catcher": catcher, "fx": f}[engine]
        keys = {name: getattr(self.network.receive, name) for name in ReceiveTable.model_fields}
        keys |= {} if own is None else {name: getattr(own, name) for name in own.model_fields_set}
        if keys["buffer"] is None:
            keys["buffer"] = RING_BYTES if keys["by"] == "packet_ring" else self.network.receive_buffer
        cores = list(self.engine_cores(engine, index)[: keys["threads"]])
        return Receiving.model_construct(**keys, cores=cores)

    # -- gains ------------------------------------------------------------------------------------------------------

    @cached_property
    def gains(self) -> NDArray[np.complex64]:
        """Complex gain of each input and channel, shape (input, channel)."""
        gains = np.full((self.n_inputs, self.fengine.channels), self.fengine.gain, np.complex64)
        if self.fengine.gains_file is not None:
            gains *= np.load(Path(self._source).parent / self.fengine.gains_file)
        return gains
