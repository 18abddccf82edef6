"""The CUDA channelizer as something that can be timed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from ryle.bench.channelize import Arena, config_of, delays_of, gains_of
from ryle.bench.measured import PACKET, Case, Prepared
from ryle.channelize import cuda, cuda_kernels
from ryle.channelize.channelizer import Blocks, Heaps, Layout, Rows, output_shape
from ryle.channelize.cuda_plan import Plan, faster_plan, make_plan, suits
from ryle.chunk import BLOCK
from ryle.gpu import Gpu


def layout_of(case: Case) -> Layout:
    """Layout of a case's spectra: K-blocks, rows, or heaps of as many spectra with two polarizations."""
    pols = min(2, case.streams)
    layouts: dict[str, Layout] = {"blocks": Blocks(), "rows": Rows(pols), "interleaved": Heaps(BLOCK, pols)}
    return layouts[case.layout]


class FusedMeasured:
    """`ryle.channelize.cuda.CudaChannelizer` with samples and spectra that stay on the device.

    Parameters
    ----------
    gpu : Gpu
        Where.
    arena : Arena
        Samples, and room for the spectra.
    """

    name = "fused"

    def __init__(self, gpu: Gpu, arena: Arena) -> None:
        self.gpu, self.arena = gpu, arena

    def plan(self, case: Case) -> Plan:
        """Divide a case's work."""
        about = config_of(case), self.gpu.shared_bytes, self.gpu.arch
        faster = faster_plan(*about)
        if faster is not None and suits(faster, layout_of(case), table=case.policy == "table"):
            return faster
        return make_plan(*about)

    def variants(self, case: Case) -> list[tuple[Path, Mapping[str, int | str]]]:
        """List the sources and macros that a case compiles."""
        config, folder = config_of(case), cuda_kernels.FOLDER
        plan = self.plan(case)
        packet_bytes = PACKET * case.bits // 8 if case.policy == "table" else 0
        windows = (folder / "windows.cu", {"STEP": config.step, "TAPS": config.taps, "PARTS": 1})
        if plan.whole:
            return [
                windows,
                (folder / "whole.cu", cuda_kernels.whole_defines(config, plan, layout_of(case), packet_bytes)),
            ]
        middle = [(folder / "middle.cu", cuda_kernels.middle_defines(config, plan))] if plan.middle > 1 else []
        return [
            *middle,
            (folder / "filter.cu", cuda_kernels.filter_defines(config, plan, packet_bytes)),
            (folder / "transform.cu", cuda_kernels.transform_defines(config, plan, layout_of(case))),
            windows,
        ]

    def prepare(self, case: Case) -> Prepared | None:
        """Allocate, upload and compile all that a case needs."""
        layout = layout_of(case)
        config, delays, samples = config_of(case), delays_of(case), self.arena.samples(case)
        channelizer = cuda.CudaChannelizer(config, self.gpu, self.plan(case))
        channelizer.set_gains(gains_of(case))
        packet_bytes = PACKET * case.bits // 8
        packets = case.stream_bytes // packet_bytes
        if case.policy == "table":
            streams = samples.pointer + np.arange(case.streams, dtype=np.uint64)[:, np.newaxis] * samples.shape[1]
            addresses = streams + np.arange(packets, dtype=np.uint64) * packet_bytes
            samples = self.gpu.array(np.ascontiguousarray(addresses, np.uint64))
        shape, dtype = output_shape(config, case.spectra, layout)
        work = channelizer.work(samples, packets, PACKET, 0, 0, case.spectra, shape, dtype, layout)
        work.out = self.arena.out(case).view(shape, dtype)
        work.present.fill(1)
        work.coarse.set(np.ascontiguousarray(delays.coarse, np.int64))
        work.fine.set(delays.fine)
        work.phase.set(delays.phase)
        return Prepared(lambda stream: channelizer.launch(work, layout, stream=stream))
