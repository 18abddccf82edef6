"""The CUDA channelizer's kernels for one kind of call, compiled, and how they are launched."""

from __future__ import annotations

from dataclasses import dataclass

from ryle.channelize.channelizer import ChannelizerConfig, Layout
from ryle.channelize.cuda_kernels import FOLDER, filter_defines, middle_defines, transform_defines, whole_defines
from ryle.channelize.cuda_plan import Plan
from ryle.gpu import Gpu, Kernel


@dataclass(frozen=True, slots=True)
class Kernels:
    """What a call launches, in this order, with the blocks and bytes of shared memory of the last ones.

    Of a plan by one kernel, that is `filter`, and there is no `transform`.
    """

    clear: Kernel
    place: Kernel
    filter: Kernel
    middle: Kernel | None
    transform: Kernel | None
    filter_grid: int
    transform_grid: int
    filter_shared: int
    transform_shared: int


def compile_kernels(
    gpu: Gpu,
    config: ChannelizerConfig,
    plan: Plan,
    layout: Layout | None,
    *,
    dithered: bool,
    packet_bytes: int,
    own: bool,
) -> Kernels:
    """Compile what a kind of call launches; parameters as of `ryle.channelize.cuda_kernels`."""
    parts = 2 if config.complex_input else 1
    windows: dict[str, int | str] = {"STEP": config.step, "TAPS": config.taps, "PARTS": parts}
    clear, place = (gpu.kernel(FOLDER / "windows.cu", name, windows) for name in ("clear", "place_windows"))
    if plan.whole:
        defines = whole_defines(config, plan, layout, packet_bytes, dithered=dithered, own=own)
        whole = gpu.kernel(FOLDER / "whole.cu", "whole_channelizer", defines)
        return Kernels(clear, place, whole, None, None, gpu.multiprocessors, 0, plan.whole_shared(config), 0)
    filter_ = gpu.kernel(FOLDER / "filter.cu", "filter", filter_defines(config, plan, packet_bytes))
    transform = gpu.kernel(
        FOLDER / "transform.cu", "transform", transform_defines(config, plan, layout, dithered=dithered, own=own)
    )
    middle = gpu.kernel(FOLDER / "middle.cu", "middle", middle_defines(config, plan)) if plan.middle > 1 else None
    shared = plan.filter_shared(config), plan.transform_shared(config, plan.together(layout))
    filters = max(1, filter_.blocks_per_multiprocessor(plan.filter_threads, shared[0]))
    transforms = max(1, transform.blocks_per_multiprocessor(plan.transform_threads, shared[1]))
    grids = plan.filter_grid(config, gpu.multiprocessors * filters), gpu.multiprocessors * transforms
    return Kernels(clear, place, filter_, middle, transform, *grids, *shared)
