"""What the channelizer's kernels are compiled with."""

from __future__ import annotations

from pathlib import Path

from ryle.channelize.channelizer import Blocks, ChannelizerConfig, Heaps, Layout, Rows
from ryle.channelize.cuda_plan import Plan, make_plan, with_long_rows, with_one_kernel
from ryle.gpu import KernelVariant

#: Where they are.
FOLDER = Path(__file__).parent


def filter_defines(config: ChannelizerConfig, plan: Plan, packet_bytes: int = 0) -> dict[str, int | str]:
    """Give the macros of filter.cu; with `packet_bytes`, samples are read through a table of payloads."""
    pointers = {"POINTERS": 1, "PACKET_BYTES": packet_bytes} if packet_bytes else {}
    return {
        "CHANNELS": config.channels,
        "RADIX": plan.radix,
        "SIDE": plan.side,
        "TAPS": config.taps,
        "BITS": config.bits,
        "COMPLEX": int(config.complex_input),
        "THREADS": plan.filter_threads,
        "BLOCKS_PER_SM": plan.filter_blocks,
        "SHARED": plan.filter_shared(config),
        **pointers,
    }


def whole_defines(
    config: ChannelizerConfig,
    plan: Plan,
    layout: Layout | None,
    packet_bytes: int = 0,
    *,
    dithered: bool = True,
    own: bool = False,
) -> dict[str, int | str]:
    """Give the macros of whole.cu."""
    return {
        **filter_defines(config, plan, packet_bytes),
        **transform_defines(config, plan, layout, dithered=dithered, own=own),
        "THREADS": 512,
        "BLOCKS_PER_SM": 1,
        "SHARED": plan.whole_shared(config),
    }


def middle_defines(config: ChannelizerConfig, plan: Plan) -> dict[str, int | str]:
    """Give the macros of middle.cu."""
    return {"CHANNELS": config.channels, "RADIX": plan.radix, "MIDDLE": plan.middle}


def transform_defines(
    config: ChannelizerConfig, plan: Plan, layout: Layout | None, *, dithered: bool = True, own: bool = False
) -> dict[str, int | str]:
    """Definitions that transform.cu is compiled with; without a layout it writes complex floats.

    With `own` some channels of rows go to another array.
    """
    return {
        "CHANNELS": config.channels,
        "RADIX": plan.radix,
        "MIDDLE": plan.middle,
        "SIDE": plan.side,
        "FIRST": plan.first,
        "SECOND": plan.second,
        "LAST": plan.passes[-1],
        "THREADS": plan.transform_threads,
        "BLOCKS_PER_SM": plan.transform_blocks,
        "COMPLEX": int(config.complex_input),
        "OUTPUT": 2 if layout is None else 1 if isinstance(layout, Heaps) else 0,  # rows are strided K-blocks
        "OUTPUT_BITS": config.output_bits,
        "TOGETHER": (together := plan.together(layout)),
        "OWN": int(own),
        "DITHER": int(dithered and config.dither == "uniform"),
        "SHARED": plan.transform_shared(config, together),
    }


#: Architectures that the tests compile for, and shared memory of a block there.
_DEVICES = (
    ("sm_80", 166912),
    ("sm_86", 101376),
    ("sm_89", 101376),
    ("sm_90a", 232448),
    ("sm_100", 232448),
    ("sm_120", 101376),
)


def compile_variants() -> list[KernelVariant]:
    """List the variants of the kernels that the tests compile (see `ryle.gpu.kernels`)."""
    variants = [KernelVariant(FOLDER / "windows.cu", {"STEP": 2048, "TAPS": 16, "PARTS": 1})]
    for arch, shared in _DEVICES:
        for channels in (64, 1024, 4096, 8192, 32768, 65536):
            config = ChannelizerConfig(1, channels)
            plan = make_plan(config, shared, arch)
            variants.append(KernelVariant(FOLDER / "transform.cu", transform_defines(config, plan, Blocks()), (arch,)))
            for defines in (
                transform_defines(config, plan, Rows(), own=True),
                transform_defines(config, plan, Heaps(256)),
            ):
                variants.append(KernelVariant(FOLDER / "transform.cu", defines, (arch,)))
            if plan.middle > 1:
                variants.append(KernelVariant(FOLDER / "middle.cu", middle_defines(config, plan), (arch,)))
            if arch == "sm_90a" and channels == 32768:
                long = with_long_rows(plan, config, shared)
                for packet_bytes in (0, 5120):
                    defines = filter_defines(config, long, packet_bytes)
                    variants.append(KernelVariant(FOLDER / "filter.cu", defines, (arch,)))
                for own in (False, True):
                    defines = transform_defines(config, long, Rows(), own=own)
                    variants.append(KernelVariant(FOLDER / "transform.cu", defines, (arch,)))
            if arch == "sm_90a" and channels == 1024:
                whole = with_one_kernel(plan, config, shared)
                for layout in (Blocks(), Heaps(256)):
                    defines = whole_defines(config, whole, layout)
                    variants.append(KernelVariant(FOLDER / "whole.cu", defines, (arch,)))
        for channels, bits, taps in ((1024, 10, 16), (8192, 10, 16), (256, 12, 4), (512, 16, 8), (64, 32, 4)):
            config = ChannelizerConfig(1, channels, bits=bits, taps=taps)
            defines = filter_defines(config, make_plan(config, shared, arch))
            variants.append(KernelVariant(FOLDER / "filter.cu", defines, (arch,)))
        config = ChannelizerConfig(1, 1024)
        defines = filter_defines(config, make_plan(config, shared, arch), packet_bytes=5120)
        variants.append(KernelVariant(FOLDER / "filter.cu", defines, (arch,)))
    return variants
