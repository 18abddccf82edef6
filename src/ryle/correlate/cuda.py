"""The X-engine on NVIDIA GPUs: exact sums of K-blocks that come from the host or are on the GPU already.

Chunks pass through `ryle.gpu.staging` to the GPU, where missing spectra become zero, products are summed in int32
by one of the kernels of `ryle.correlate.multiply`, and those sums pass to int64 before they can overflow. Results leave
by `ryle.correlate.results`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ryle.chunk import BLOCK, Integration, PacketChunk, SpectraChunk
from ryle.correlate import multiply as multiplication
from ryle.correlate import samples as sample_orders
from ryle.correlate.correlator import CorrelatorConfig, by_antenna, check_chunk
from ryle.correlate.forms import Form
from ryle.correlate.multiply import RUN_BLOCKS, kernel_for, make_multiply
from ryle.correlate.packets import check_packets
from ryle.correlate.packets_cuda import SOURCE as PACKETS_SOURCE
from ryle.correlate.packets_cuda import PacketUploads
from ryle.correlate.reading import DeviceSpectra, Reading
from ryle.correlate.results import FormReading, Results, Sums
from ryle.correlate.samples import SAMPLES, SampleOrder, SamplesMultiply
from ryle.correlate.tensor_maps import Lying
from ryle.gpu import open_gpu
from ryle.gpu.interface import DeviceArray, Event, Gpu, Stream
from ryle.gpu.staging import Uploads

_FOLDER = Path(__file__).parent
_MAX_COUNT = 2**32 - 1
#: Bytes of spectra that are on their way to the GPU at once; two such pieces fit in the ring.
_PIECE_BYTES = 1 << 27
_THREADS = 256
_MANY = 4096  # blocks of threads of kernels that loop over their work


class CudaCorrelator:
    """Sums the products of spectra over time, exactly, on a GPU.

    Parameters
    ----------
    config : CorrelatorConfig
        Size of the correlation.
    gpu : Gpu, optional
        Device; by default the first.
    kernel : str, optional
        ``"hopper"`` or ``"portable"``; by default the fastest that the device runs.
    bits : int
        Of a part, 8 or 4: packed rows of four bits can be added from the GPU's memory only.
    long : bool
        Also keep sums over several integrations: `reset` adds each to the long one, which `read_long` returns and
        `reset_long` starts anew.

    Raises
    ------
    GpuUnavailable
        If there is no GPU that can be used.
    ValueError
        If `kernel` is unknown, or `bits` neither 8 nor 4.
    RuntimeError
        If this GPU cannot run it.
    """

    def __init__(
        self,
        config: CorrelatorConfig,
        *,
        gpu: Gpu | None = None,
        kernel: str | None = None,
        bits: int = 8,
        long: bool = False,
    ) -> None:
        self.config = config
        self.gpu = open_gpu() if gpu is None else gpu
        self.kernel = kernel_for(self.gpu, kernel)
        self.spectra = 0
        self.long_spectra = 0
        self._multiply = make_multiply(self.gpu, config.inputs, config.polarizations, kernel, bits)
        self.bits = bits
        zero_invalid = "zero_invalid" if bits == 8 else "zero_invalid_packed"
        self._zero_invalid = self.gpu.kernel(_FOLDER / "prepare.cu", zero_invalid, {})
        sums = {"INPUTS": config.inputs, "POLS": config.polarizations}
        self._count_valid, self._add_sums, self._add_integration = (
            self.gpu.kernel(_FOLDER / "sums.cu", name, sums) for name in ("count_valid", "add_sums", "add_integration")
        )
        self._samples: dict[str, SamplesMultiply] = {}
        self._stream = self.gpu.stream()
        self._results = Results(self.gpu, config, self._stream)
        self._uploads, self._words = Uploads(self.gpu, self._stream), Uploads(self.gpu, self._stream)
        self._packets: PacketUploads | None = None
        self._arranged: DeviceArray | None = None
        self._run = self.gpu.empty((1, config.channels, config.products, 2), np.int32)
        self._run_blocks = 0  # summed in self._run and not yet in self._sums
        self._sums = Sums.zero(self.gpu, config, self._stream)
        self._long = Sums.zero(self.gpu, config, self._stream) if long else None
        self._clamped = self.gpu.array(np.zeros(1, np.uint64), self._stream)
        self._stream.synchronize()

    @property
    def clamped(self) -> int:
        """Valid parts of -128 (-8) that were taken as -127 (-7), since construction; waits for the GPU."""
        return int(self._clamped.get(stream=self._stream)[0])

    @property
    def stream(self) -> Stream:
        """Where the sums are made: what others write to device arrays that are added must be done before."""
        return self._stream

    def accumulate(
        self, chunk: SpectraChunk | PacketChunk, first_block: int = 0, blocks: int | None = None
    ) -> Event | None:
        """Add a run of a chunk's K-blocks, without waiting; see `ryle.correlate.Correlator`."""
        if isinstance(chunk, PacketChunk):
            check_packets(self.config, chunk)
        elif isinstance(chunk, DeviceSpectra):
            self._check_device(chunk.there.shape, chunk.valid.shape)
        else:
            check_chunk(self.config, chunk)
        if self.bits != 8:
            raise ValueError("chunks have eight bits; this correlator is made for four: use accumulate_device")
        count = self._checked(chunk.blocks, first_block, blocks)
        bytes_of_block = self.config.channels * self.config.inputs * 2 * BLOCK
        piece = max(1, min(_PIECE_BYTES // bytes_of_block, RUN_BLOCKS))
        if not count:
            return None
        if isinstance(chunk, PacketChunk):
            return self._add_packets(chunk, first_block, count, piece)
        if isinstance(chunk, DeviceSpectra):
            return self._add_device(chunk, first_block, count)
        host_data, host_valid = by_antenna(self.config, chunk)
        rows = host_data.transpose(1, 2, 0, 3, 4)  # as packets bring them; then they are copied as they lie
        as_rows = rows.flags.c_contiguous and not host_data.flags.c_contiguous
        inputs = self.config.inputs
        for begin in range(first_block, first_block + count, piece):
            run = slice(begin, min(begin + piece, first_block + count))
            data, valid = self._uploads.upload(rows[run] if as_rows else host_data[:, run], host_valid[:, run])
            if not as_rows:
                data = data.view((*data.shape[:2], inputs, 2 * BLOCK), data.dtype)
            valid = valid.view((*valid.shape[:2], inputs), valid.dtype)
            self._add(data, valid, 0, run.stop - run.start, clamp=True)
            self._uploads.done()
        return self._uploads.copied

    def _add_device(self, chunk: DeviceSpectra, first_block: int, count: int) -> Event:
        if chunk.ready is not None:
            self._stream.wait(chunk.ready)
        (valid,) = self._words.upload(chunk.valid)
        valid = valid.view((*valid.shape[:2], self.config.inputs), valid.dtype)
        for begin in range(first_block, first_block + count, RUN_BLOCKS):
            self._add(chunk.there, valid, begin, min(RUN_BLOCKS, first_block + count - begin), clamp=False)
        return self._words.done()

    def _add_packets(self, chunk: PacketChunk, first_block: int, count: int, piece: int) -> Event:
        if self._packets is None:
            self._packets = PacketUploads(self.gpu, self._stream, self._clamped)
        packets = self._packets.upload(chunk)
        for begin in range(first_block, first_block + count, piece):
            blocks = min(piece, first_block + count - begin)
            data, valid = self._packets.arrange(chunk, packets, begin, blocks)
            self._add(data, valid, 0, blocks, clamp=False)
            self._packets.added()
        self._packets.done()
        return self._packets.copied

    def accumulate_device(
        self,
        data: DeviceArray,
        valid: DeviceArray,
        first_block: int = 0,
        blocks: int | None = None,
        clamp: bool = False,
    ) -> None:
        """Add a run of K-blocks that are on the GPU, without waiting.

        Parameters
        ----------
        data : DeviceArray of int8, shape (channel, block, input, 128) or (block, antenna, channel, polarization, 128)
            K-blocks, or rows as packets bring them; of four bits, rows of 64 bytes, one a spectrum, its real part in
            the high nibble. Invalid spectra of the run are set to zero there, where the kernel reads it as it lies.
        valid : DeviceArray of uint64, shape (channel group, block, input)
            Bit ``s`` is set where spectrum ``s`` of the block is valid.
        first_block, blocks
            As of `accumulate`.
        clamp : bool
            Also look for -128, or -8, and count it. Ryle's own F-engine never makes one.

        Raises
        ------
        ValueError, OverflowError
            As by `accumulate`.
        """
        self._check_device(data.shape, valid.shape)
        held = valid.shape[1]
        count = self._checked(held, first_block, blocks)
        for begin in range(first_block, first_block + count, RUN_BLOCKS):
            self._add(data, valid, begin, min(RUN_BLOCKS, first_block + count - begin), clamp)

    def _check_device(self, data: tuple[int, ...], valid: tuple[int, ...]) -> None:
        config, row = self.config, 16 * self.bits
        held = valid[1]
        words = (config.groups, held, config.inputs)
        blocks_of = (config.channels, held, config.inputs, row)
        rows_of = (held, config.antennas, config.channels, config.polarizations, row)
        if data not in (blocks_of, rows_of) or valid != words:
            raise ValueError(
                f"data and valid have shapes {data} and {valid}; they must be {(blocks_of, words)}, or data {rows_of}"
            )

    def accumulate_samples(
        self,
        samples: DeviceArray,
        valid: DeviceArray,
        order: SampleOrder,
        first_block: int = 0,
        blocks: int | None = None,
        clamp: bool = True,
    ) -> None:
        """Add a run of samples that are on the GPU in another order, transposed on their way, without waiting.

        Parameters
        ----------
        samples : DeviceArray of int8
            Real and imaginary parts of a multiple of 64 spectra. Invalid spectra of the run are set to zero there.
        valid : DeviceArray of uint64, shape (channel group, block, input)
            As of `accumulate_device`.
        order : "time_major" or "heaps"
            Samples (spectrum, channel, input, 2), or (antenna, channel, spectrum, polarization, 2).
        first_block, blocks
            As of `accumulate`, blocks of 64 spectra.
        clamp : bool
            Take -128 as -127 and count it. Without it there must be none.

        Raises
        ------
        ValueError, OverflowError
            As by `accumulate`, and if this kernel does not take samples: `takes_samples` tells.
        """
        config = self.config
        if not self.takes_samples(order):
            raise ValueError(
                f"samples of {config.inputs} inputs and {self.bits} bits, {order}, cannot be multiplied by the kernel "
                f"{self.kernel!r}; make K-blocks of them with ryle.correlate.foreign.Foreign.arrange"
            )
        if order not in self._samples:
            self._samples[order] = SAMPLES[order](self.gpu, config.inputs, config.polarizations)
        multiply, held = self._samples[order], valid.shape[1]
        expected = multiply.shape(config.inputs, config.polarizations, config.channels, held * BLOCK)
        shapes = expected, (config.groups, held, config.inputs)
        if (samples.shape, valid.shape) != shapes:
            raise ValueError(f"samples and valid have shapes {samples.shape} and {valid.shape}; they must be {shapes}")
        count = self._checked(held, first_block, blocks)
        for begin in range(first_block, first_block + count, RUN_BLOCKS):
            run = min(RUN_BLOCKS, first_block + count - begin)
            multiply.zero_invalid(samples, valid, begin, run, self._stream)
            self._begin_run(valid, held, begin, run)
            multiply.multiply(
                samples,
                self._run,
                begin,
                run,
                add=self._run_blocks > 0,
                clamped=self._clamped if clamp else None,
                stream=self._stream,
            )
            self._run_blocks += run
            self.spectra += run * BLOCK

    def takes_samples(self, order: SampleOrder) -> bool:
        """Whether `accumulate_samples` can be used."""
        if order not in SAMPLES:
            raise ValueError(f"order is {order!r}; it must be one of {', '.join(map(repr, SAMPLES))}")
        takes = SAMPLES[order].takes(self.config.inputs, self.config.polarizations)
        return self.kernel == "hopper" and self.bits == 8 and takes

    def _checked(self, held: int, first_block: int, blocks: int | None) -> int:
        count = held - first_block if blocks is None else blocks
        if first_block < 0 or count < 0 or first_block + count > held:
            raise ValueError(
                f"blocks {first_block} to {first_block + count} asked for; the chunk has blocks 0 to {held}"
            )
        if self.spectra + count * BLOCK > _MAX_COUNT:
            raise OverflowError(
                f"{self.spectra} spectra are summed and {count * BLOCK} more would pass the limit of {_MAX_COUNT}; "
                "read and reset, or shorten the integration"
            )
        return count

    def _add(self, data: DeviceArray, valid: DeviceArray, first_block: int, blocks: int, clamp: bool) -> None:
        config, pols = self.config, self.config.polarizations
        lies = Lying.of(data, pols)
        to = data
        if len(data.shape) == 5 and not self._multiply.reads_rows:
            to = self._arranged_in(blocks)
        goes, group_channels = Lying.of(to, pols), config.channels // config.groups
        self._zero_invalid.launch(
            (-(-blocks * config.inputs * 32 // _THREADS), min(group_channels, 64), config.groups),
            _THREADS,
            data=data,
            to=to,
            valid=valid,
            clamped=self._clamped,
            inputs=np.int32(config.inputs),
            pols=np.int32(pols),
            channel=np.int64(lies.channel),
            block=np.int64(lies.block),
            antenna=np.int64(lies.antenna),
            to_channel=np.int64(goes.channel),
            to_block=np.int64(goes.block),
            to_antenna=np.int64(goes.antenna),
            all_blocks=np.int32(lies.blocks),
            first_block=np.int32(first_block),
            blocks=np.int32(blocks),
            group_channels=np.int32(group_channels),
            clamp=np.int32(clamp),
            stream=self._stream,
        )
        self._begin_run(valid, lies.blocks, first_block, blocks)
        first = first_block if to is data else 0
        self._multiply(to, self._run, first, blocks, add=self._run_blocks > 0, stream=self._stream)
        self._run_blocks += blocks
        self.spectra += blocks * BLOCK

    def _arranged_in(self, blocks: int) -> DeviceArray:
        """Give room for so many K-blocks, which rows are laid out as for a kernel that does not read them."""
        config = self.config
        shape = (config.channels, blocks, config.inputs, 16 * self.bits)
        if self._arranged is None or self._arranged.nbytes < int(np.prod(shape)):
            self._stream.synchronize()
            self._arranged = self.gpu.empty((int(np.prod(shape)),), np.int8)
        return self._arranged.view(shape, np.int8)

    def _begin_run(self, valid: DeviceArray, held: int, first_block: int, blocks: int) -> None:
        """Make room for the sums of so many blocks, and count what is valid in them."""
        if self._run_blocks + blocks > RUN_BLOCKS:
            self._pass_on()
        self._count_valid.launch(
            (-(-self.config.products // _THREADS), self.config.groups),
            _THREADS,
            valid=valid,
            counts=self._sums.counts,
            all_blocks=np.int32(held),
            first_block=np.int32(first_block),
            blocks=np.int32(blocks),
            stream=self._stream,
        )

    def _pass_on(self) -> None:
        """Add what was summed in 32 bits to the sums of 64."""
        if self._run_blocks:
            count = self._run.nbytes // 4
            self._add_sums.launch(
                min(-(-count // _THREADS), _MANY),
                _THREADS,
                to=self._sums.visibilities,
                added=self._run,
                count=np.int64(count),
                stream=self._stream,
            )
        self._run_blocks = 0

    def room(self) -> Integration:
        """Make page-locked memory that sums can be read into; see `ryle.correlate.Correlator`."""
        return self._results.room()

    def read(
        self, first_spectrum: int, spectra: int, first_channel: int, out: Integration | None = None
    ) -> Integration:
        """Return the sums as an integration; see `ryle.correlate.Correlator`."""
        return self.start_read(first_spectrum, spectra, first_channel, out).wait()

    def start_read(
        self, first_spectrum: int, spectra: int, first_channel: int, out: Integration | None = None
    ) -> Reading:
        """Begin to read the sums as they are now, and return at once; parameters as of `read`.

        Returns
        -------
        Reading
            Whose ``wait()`` gives the integration. Sums made meanwhile do not change it.
        """
        self._pass_on()
        return self._results.start(self._sums, first_spectrum, spectra, first_channel, out)

    def start_read_as(self, form: Form) -> FormReading:
        """Begin to read the sums as they are now in another form, half as large, and return at once.

        Parameters
        ----------
        form : "int32" or "float32"
            Saturated, with MeerKAT's marker where nothing contributed; or normalized, see `ryle.correlate.forms`.

        Returns
        -------
        FormReading
            Whose ``wait()`` gives the values and what contributed to them.

        Raises
        ------
        ValueError
            If there is no such form.
        """
        self._pass_on()
        return self._results.start_as(form, self._sums)

    def read_long(self, first_spectrum: int, spectra: int, first_channel: int) -> Integration:
        """Return the sums over the integrations that were reset since `reset_long`; parameters as of `read`.

        Raises
        ------
        RuntimeError
            If the correlator was made without ``long``.
        """
        return self._results.start(self._long_sums(), first_spectrum, spectra, first_channel).wait()

    def reset(self) -> None:
        """Start new sums; the old ones become part of the long integration, if there is one."""
        if self._long is not None:
            self._pass_on()
            count, counted = self._sums.visibilities.nbytes // 8, self._sums.counts.nbytes // 4
            self._add_integration.launch(
                min(-(-count // _THREADS), _MANY),
                _THREADS,
                to=self._long.visibilities,
                added=self._sums.visibilities,
                count=np.int64(count),
                to_counts=self._long.counts,
                added_counts=self._sums.counts,
                counted=np.int64(counted),
                stream=self._stream,
            )
            self.long_spectra += self.spectra
        self._run_blocks = 0
        self._sums.clear(self._stream)
        self.spectra = 0

    def reset_long(self) -> None:
        """Start a new long integration."""
        self._long_sums().clear(self._stream)
        self.long_spectra = 0

    def _long_sums(self) -> Sums:
        if self._long is None:
            raise RuntimeError("this correlator keeps no long integration; make it with long=True")
        return self._long


def compile_variants() -> list[tuple[Any, ...]]:
    """List the kernels that the tests compile for every architecture."""
    return [
        *multiplication.compile_variants(),
        *sample_orders.compile_variants(),
        (_FOLDER / "prepare.cu", {}),
        (PACKETS_SOURCE, {}),
        (_FOLDER / "sums.cu", {"INPUTS": 144, "POLS": 2}),
    ]
