"""The channelizer on an NVIDIA GPU.

Three kernels: `windows.cu` finds which samples each spectrum reads and whether they are all there, `filter.cu` unpacks
and filters them and does the first radix of the Fourier transform, `transform.cu` does the rest and
everything after it up to the layout of the output. Between the last two lies the only intermediate array, in single
precision; of many channels, `middle.cu` does another radix there, in place, or `transform.cu` three passes of half as
many spectra at a time, where that is faster. Of 1024 channels `whole.cu` does what both do, with nothing between, where
that is. docs/explanation/channelizer.md has the reasons and the measurements.

Spectra are filtered in groups aligned since sync and every value is computed the same way wherever it falls, so that a
stream cut into chunks gives the same bits as the whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ryle.array.delays import Delays
from ryle.channelize.channelizer import (
    ChannelizerConfig,
    Heaps,
    Layout,
    Rows,
    Spectra,
    check_arguments,
    check_delays,
    checked_gains,
    output_shape,
    prepared_output,
)
from ryle.channelize.cuda_form import Form
from ryle.channelize.cuda_launch import Kernels, compile_kernels
from ryle.channelize.cuda_plan import (
    GROUP,
    PASS_BYTES,
    PASSES,
    TILE,
    Plan,
    faster_plan,
    make_plan,
    most_intermediate,
    suits,
)
from ryle.channelize.cuda_work import Own, Work
from ryle.channelize.dither import round_keys
from ryle.channelize.payloads import Payloads
from ryle.chunk import BLOCK, SampleChunk, SampleWindow
from ryle.gpu import DeviceArray, Gpu, Stream, open_gpu
from ryle.wire.samples import packed_bytes

_ALIGN = 16  # spectra: groups begin at its multiples since sync


class CudaChannelizer:
    """Form of `ryle.channelize.Channelizer` for an NVIDIA GPU.

    Parameters
    ----------
    config : ChannelizerConfig
        What to compute: 64 to 65536 channels, a power of two, and 1 to 32 taps.
    gpu : Gpu, optional
        Where; the first device by default.
    plan : Plan, optional
        How to divide the work; chosen for the configuration and the layout by default.

    Raises
    ------
    ValueError
        If this form cannot do what is asked for.
    GpuUnavailable
        If there is no GPU to use; the message says why.
    """

    def __init__(self, config: ChannelizerConfig, gpu: Gpu | None = None, plan: Plan | None = None) -> None:
        self.config = config
        self.gpu = open_gpu() if gpu is None else gpu
        about = self.gpu.shared_bytes, self.gpu.arch
        self._form = Form.make(self.gpu, config, make_plan(config, *about) if plan is None else plan)
        faster = None if plan is not None else faster_plan(config, *about)
        self._faster = None if faster is None else Form.make(self.gpu, config, faster)
        conjugated = np.zeros(config.inputs, np.uint8)
        conjugated[list(config.conjugated)] = 1
        self._conjugated = self.gpu.array(conjugated)
        self._keys = {f"key_{r}": np.uint64(k0 | k1 << 32) for r, (k0, k1) in enumerate(round_keys(config.seed))}
        self.set_gains(1.0)
        self.gpu.default_stream.synchronize()  # kernels, and other gains, may be enqueued on other streams from now on
        self._kernels: dict[tuple[Layout | None, bool, int, bool], Kernels] = {}
        self.slab_bytes = most_intermediate(self.gpu.memory_bytes)
        #: Complex values clamped in the last call (or that would have been, of `spectra_float`), int64 (input,).
        self.saturated: NDArray[np.int64] = np.zeros(config.inputs, np.int64)
        #: Sum of the squared magnitudes of the quantized values of the last call, int64 (input, channel).
        self.output_power: NDArray[np.int64] = np.zeros((config.inputs, config.channels), np.int64)

    def set_gains(self, gains: ArrayLike, stream: Stream | None = None) -> None:
        """Set the complex gains, broadcast to (input, channel), of what is enqueued on a stream from now on."""
        self.gains = checked_gains(self.config, gains)
        half = 1.0 if self.config.complex_input else 0.5  # of the transform from pairs of real samples
        values = (self.gains * np.float32(half)).astype(np.complex64)
        for form in (self._form, self._faster):
            if form is not None:
                form.set_gains(values, stream)

    def form(self, layout: Layout | None, *, table: bool = False) -> Form:
        """Say how the work is divided for a layout, and for samples that are read through a table of payloads."""
        faster = self._faster
        return self._form if faster is None or not suits(faster.plan, layout, table=table) else faster

    def process(
        self,
        chunk: SampleChunk | SampleWindow | Payloads,
        first_spectrum: int,
        spectra: int,
        delays: Delays,
        layout: Layout,
        out: NDArray[Any] | None = None,
    ) -> Spectra:
        """Channelize the spectra [first_spectrum, first_spectrum + spectra); see `ryle.channelize.Channelizer`.

        Samples may also lie where their packets were received (`ryle.channelize.payloads.Payloads`).
        """
        self._check(chunk, first_spectrum, spectra, delays)
        data = None if out is None else prepared_output(self.config, first_spectrum, spectra, layout, out)
        if data is None:
            prepared_output(self.config, first_spectrum, spectra, layout, None)
        shape, dtype = output_shape(self.config, spectra, layout)
        found = self._at_once(chunk, first_spectrum, spectra, delays, layout, shape, dtype)
        result = self._result(found, first_spectrum, spectra, layout)
        if data is not None:
            data[...] = result.data
            result.data = data
        return result

    def _result(self, found: _Finished, first_spectrum: int, spectra: int, layout: Layout) -> Spectra:
        valid = self._account(found, first_spectrum, spectra)
        power = found.counters[:, 1].view(np.float64 if self.config.bits == 32 else np.int64)
        count = valid.sum(axis=1, dtype=np.int64) * self.config.step
        return Spectra(first_spectrum, found.out, valid, self.saturated, power.copy(), count, layout)

    def spectra_float(
        self,
        chunk: SampleChunk | SampleWindow | Payloads,
        first_spectrum: int,
        spectra: int,
        delays: Delays,
        *,
        dithered: bool = False,
    ) -> tuple[NDArray[np.complexfloating[Any, Any]], NDArray[np.bool_]]:
        """Give the values before dither (or, if `dithered`, just before they are rounded), and validity.

        Returns
        -------
        values : ndarray of complex64, shape (input, spectrum, channel)
            Zero where invalid.
        valid : ndarray of bool, shape (input, spectrum)
            Whether the whole window was there.
        """
        config = self.config
        self._check(chunk, first_spectrum, spectra, delays)
        shape = (config.inputs, spectra, config.channels)
        found = self._at_once(chunk, first_spectrum, spectra, delays, None, shape, np.complex64, dithered=dithered)
        return found.out, self._account(found, first_spectrum, spectra)

    def work(
        self,
        samples: DeviceArray,
        packets: int,
        packet_samples: int,
        timestamp: int,
        first_spectrum: int,
        spectra: int,
        shape: tuple[int, ...],
        dtype: Any,
        layout: Layout | None,
    ) -> Work:
        """Allocate all that a call needs for a layout beside samples that are on the device already."""
        inputs, n = self.config.inputs, self.config.channels
        groups = -(-(first_spectrum % _ALIGN + spectra) // GROUP)
        padded = (inputs, groups, GROUP)
        empty, slab = self.gpu.empty, groups
        if between := not self.form(layout, table=samples.dtype == np.uint64).plan.whole:
            slab = self._slab(groups)
        return Work(
            samples=samples,
            packets=packets,
            packet_samples=packet_samples,
            timestamp=timestamp,
            first_spectrum=first_spectrum,
            spectra=spectra,
            groups=groups,
            present=empty((inputs, packets), np.uint8),
            coarse=empty((inputs, spectra), np.int64),
            fine=empty((inputs, spectra), np.float64),
            phase=empty((inputs, spectra), np.float64),
            turns=empty((*padded, 8), np.float32),
            segment=empty(padded, np.uint8),
            passes=empty((inputs * slab * PASSES, PASS_BYTES), np.uint8),
            intermediate=empty((slab * inputs * GROUP * n if between else 0,), np.complex64),
            out=empty(shape, dtype),
            counters=empty((inputs, 2), np.uint64),
            output_power=empty((inputs, n), np.uint64),
        )

    def _slab(self, groups: int) -> int:
        """Give the number of groups of each input to work on at a time."""
        return min(groups, max(1, self.slab_bytes // (self.config.inputs * GROUP * self.config.channels * 8)))

    def launch(self, work: Work, layout: Layout | None, *, dithered: bool = True, stream: Stream | None = None) -> None:
        """Enqueue the kernels.

        Parameters
        ----------
        work : Work
            Samples, presence and delays in; output and counters out.
        layout : Blocks, Heaps, Rows or None
            What to write, as `work` was told; None for complex64 (input, spectrum, channel) before rounding.
        dithered : bool
            Whether to add the dither, if the configuration has one.
        stream : Stream, optional
            Where to enqueue them.
        """
        config, form = self.config, self.form(layout, table=work.samples.dtype == np.uint64)
        plan = form.plan
        if plan.whole != (work.intermediate.shape == (0,)):
            raise ValueError(f"work was allocated for another layout than {layout}")
        kernels = self._compiled(layout, dithered, packet_bytes(config, work), work.own is not None)
        inputs, i32, i64 = config.inputs, np.int32, np.int64
        parts = 2 if config.complex_input else 1
        before = -(work.first_spectrum % _ALIGN)
        first = parts * (config.step * (work.first_spectrum + before) - work.timestamp)
        slab = work.groups if plan.whole else self._slab(work.groups)
        own = work.own or Own(work.out, 0, 0, 0, 0)
        channel, block, antenna = _row_strides(config, work.spectra, layout)
        main = self.gpu.default_stream if stream is None else stream
        kernels.clear.launch(
            self.gpu.multiprocessors, 256, counters=work.counters, output_power=work.output_power,
            streams=i32(inputs), channels=i32(config.channels), stream=main,
        )  # fmt: skip
        for group in range(0, work.groups, slab):
            here = min(slab, work.groups - group)
            kernels.place.launch(
                (here, inputs, 1), GROUP,
                coarse=work.coarse, fine=work.fine, phase=work.phase, present=work.present,
                turns=work.turns, segment=work.segment, passes=work.passes,
                spectra=i32(work.spectra), before=i32(before), groups=i32(work.groups), first_group=i32(group),
                packets=i32(work.packets), packet_samples=i32(work.packet_samples), first_value=i64(first),
                shared=GROUP * 16, stream=main,
            )  # fmt: skip
            source: dict[str, Any] = {
                "samples": work.samples, "weights": form.weights, "passes": work.passes,
                "conjugated": self._conjugated, "counters": work.counters, "stride": i64(work.samples.shape[1]),
                "bytes": i64(work.packets * work.packet_samples * config.bits * parts // 8),
            }  # fmt: skip
            sink: dict[str, Any] = {
                "turns": form.turns, "mirror": form.mirror, "gains": form.gains, "spectra": work.turns,
                "out": work.out, "own": own.array, "output_power": work.output_power, "counters": work.counters,
                "groups": i32(work.groups), "streams": i32(inputs), "before": i32(before), "count": i32(work.spectra),
                "heap": i32(layout.spectra if isinstance(layout, Heaps) else 1),
                "pols": i32(layout.pols if isinstance(layout, (Heaps, Rows)) else 1),
                "channel_bytes": i64(channel), "block_bytes": i64(block), "antenna_bytes": i64(antenna),
                "own_first": i32(own.first), "own_end": i32(own.end),
                "own_block_bytes": i64(own.block_bytes), "own_antenna_bytes": i64(own.antenna_bytes),
                "key_0": self._keys["key_0"],
                "first_low": np.uint32(work.first_spectrum & 0xFFFFFFFF),
                "first_high": np.uint32(work.first_spectrum >> 32), "first_input": i32(config.input_offset),
            }  # fmt: skip
            if kernels.transform is None:
                kernels.filter.launch(
                    kernels.filter_grid, 512, **(source | sink | self._keys), shared=kernels.filter_shared, stream=main
                )
                continue
            kernels.filter.launch(
                kernels.filter_grid, plan.filter_threads, **source, radix_turns=form.radix_turns, y=work.intermediate,
                units=i32(here * inputs), shared=kernels.filter_shared, stream=main,
            )  # fmt: skip
            if kernels.middle is not None:
                tiles = here * inputs * GROUP // TILE
                kernels.middle.launch(
                    -(-tiles * TILE * config.channels // (plan.middle_values * 256)), 256,
                    y=work.intermediate, turns=form.middle_turns, tiles=i32(tiles), stream=main,
                )  # fmt: skip
            kernels.transform.launch(
                kernels.transform_grid, plan.transform_threads, **sink, y=work.intermediate, first_group=i32(group),
                slab=i32(here), shared=kernels.transform_shared, stream=main,
            )  # fmt: skip

    def _compiled(self, layout: Layout | None, dithered: bool, packet_bytes: int, own: bool) -> Kernels:
        """Give the kernels of a kind of call; looked up once, as engines make hundreds of calls a second."""
        key = layout, dithered, packet_bytes, own
        plan = self.form(layout, table=packet_bytes > 0).plan
        if key not in self._kernels:
            self._kernels[key] = compile_kernels(
                self.gpu, self.config, plan, layout, dithered=dithered, packet_bytes=packet_bytes, own=own
            )
        return self._kernels[key]

    def _check(
        self, chunk: SampleChunk | SampleWindow | Payloads, first_spectrum: int, spectra: int, delays: Delays
    ) -> None:
        if isinstance(chunk, Payloads):
            chunk.check(self.config)
            check_delays(self.config, first_spectrum, spectra, delays)
        else:
            check_arguments(self.config, chunk, first_spectrum, spectra, delays)

    def _at_once(
        self,
        chunk: SampleChunk | SampleWindow | Payloads,
        first_spectrum: int,
        spectra: int,
        delays: Delays,
        layout: Layout | None,
        shape: tuple[int, ...],
        dtype: Any,
        *,
        dithered: bool = True,
    ) -> _Finished:
        """Make a call and wait for it."""
        if isinstance(chunk, Payloads):  # the samples are on the device already
            samples, packets = self.gpu.array(np.ascontiguousarray(chunk.addresses)), chunk.present.shape[1]
        else:
            chunk = chunk.gathered() if isinstance(chunk, SampleWindow) else chunk
            packets, nbytes = chunk.data.shape[1], chunk.data.shape[1] * chunk.data.shape[2]
            samples = self.gpu.empty((self.config.inputs, -(-nbytes // 16) * 16), np.uint8)
            samples.set_columns(0, chunk.data)
        about = chunk.packet_samples, chunk.timestamp, first_spectrum, spectra, shape, dtype, layout
        work = self.work(samples, packets, *about)
        work.present.set(np.ascontiguousarray(chunk.present, np.uint8))
        work.coarse.set(np.ascontiguousarray(delays.coarse, np.int64))
        work.fine.set(np.ascontiguousarray(delays.fine, np.float64))
        work.phase.set(np.ascontiguousarray(delays.phase, np.float64))
        self.launch(work, layout, dithered=dithered)
        segment = work.segment.get().reshape(self.config.inputs, -1)
        return _Finished(work.out.get(), segment, work.counters.get(), work.output_power.get())

    def _account(self, found: _Finished, first_spectrum: int, spectra: int) -> NDArray[np.bool_]:
        """Keep the counts of a call that its result has no room for; give validity."""
        self.saturated = found.counters[:, 0].astype(np.int64)
        self.output_power = found.output_power.view(np.int64)
        skipped = first_spectrum % _ALIGN
        return np.ascontiguousarray(found.segment[:, skipped : skipped + spectra] != 255)


@dataclass(slots=True)
class _Finished:
    """What a call left.

    Parameters
    ----------
    out : ndarray
        Of the shape and type asked for.
    segment : ndarray of uint8, shape (input, spectrum)
        255 where a spectrum is not valid, whole groups of them.
    counters : ndarray of uint64, shape (input, 2)
        Saturated values, and the bits of the input power.
    output_power : ndarray of uint64, shape (input, channel)
        Power of the quantized values.
    """

    out: NDArray[Any]
    segment: NDArray[np.uint8]
    counters: NDArray[np.uint64]
    output_power: NDArray[np.uint64]


def _row_strides(config: ChannelizerConfig, spectra: int, layout: Layout | None) -> tuple[int, int, int]:
    """Bytes between channels, blocks and antennas of rows; to `Blocks`, every input is an antenna of one pol."""
    row = 2 * BLOCK
    if isinstance(layout, Rows):
        return layout.pols * row, config.inputs * config.channels * row, layout.pols * config.channels * row
    return spectra // BLOCK * config.inputs * row, config.inputs * row, row


def packet_bytes(config: ChannelizerConfig, work: Work) -> int:
    """Bytes of a packet if samples are read through a table of payloads, or 0."""
    if work.samples.dtype != np.uint64:
        return 0
    return packed_bytes(work.packet_samples, config.bits, complex_samples=config.complex_input)
