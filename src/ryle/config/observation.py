"""The observation file as one object: what is observed, and who does it with which memory, at which addresses."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Literal

from ryle.config.endpoints import Endpoint
from ryle.config.engine_tables import ReceiveTable, Receiving
from ryle.config.observed import Observed

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

Engine = Literal["f", "x", "catcher", "fx"]


class Observation(Observed):
    """An observation file, read and checked, with everything derived from it."""

    # -- heaps and packets --------------------------------------------------------------------------------------------

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

    # -- batches ------------------------------------------------------------------------------------------------------

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

    # -- processes ----------------------------------------------------------------------------------------------------

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
