"""What the GPU forms need for an observation, and whether this computer has it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

from ryle.channelize.channelizer import ChannelizerConfig
from ryle.channelize.cuda_plan import GROUP, INTERMEDIATE, faster_plan, make_plan
from ryle.config.observation import Observation
from ryle.config.units import show
from ryle.engines.budget import BATCHES, packet_buffers
from ryle.engines.planning import ring_packets
from ryle.gpu import GpuError, GpuUnavailable, open_gpu
from ryle.problems import Problem
from ryle.receive.windows import window_shape

if TYPE_CHECKING:
    from ryle.gpu import Gpu

#: Architecture, shared memory of a block in bytes, and GPUs that have them.
DEVICES = (
    ("sm_80", 166912, "A100"),
    ("sm_86", 101376, "GeForce RTX 30, A10, A40"),
    ("sm_89", 101376, "GeForce RTX 40, L4, L40"),
    ("sm_90a", 232448, "H100, H200"),
    ("sm_100", 232448, "B200"),
    ("sm_120", 101376, "GeForce RTX 50"),
)


def needs(o: Observation) -> str:
    """Say which GPUs an observation's channelizer runs on."""
    able = [names for arch, shared, names in DEVICES if _refusal(o, shared, arch) is None]
    suited = (
        "any from Ampere on" if len(able) == len(DEVICES) else "such as " + ", ".join(able) if able else "none known"
    )
    return f"needs an NVIDIA GPU ({suited}), its driver 580 or later, and pip install 'ryle[cuda]'"


def here(o: Observation) -> tuple[str, str | None]:
    """Find the GPU of this computer.

    Returns
    -------
    found : str
        Its name, or "none".
    problem : str or None
        Why the observation's channelizer cannot use it.
    """
    gpu, missing = _opened(*o.gpu_of("f"))
    if gpu is None:
        return "none", missing
    return gpu.name, _refusal(o, gpu.shared_bytes, gpu.arch)


def gpu_cautions(o: Observation) -> Iterator[Problem]:
    """Warn of what this computer lacks; another may run the engines."""
    if o.fengine.backend == "cuda" and (o.channelizes or o.simulate is not None):
        _, problem = here(o)
        if problem is not None:
            who, they = ("F-engines", "they") if o.fx is None else ("FX", "it")
            remedy = f'{who} will not start on this computer: {problem}; elsewhere {they} may; "cpu" runs anywhere'
            yield Problem(o.backend_key("f"), "cuda", remedy)
    if o.fx is not None:
        yield from _fx_memory(o)
    elif o.xengine.backend == "cuda":
        gpu, missing = _opened(*o.gpu_of("x"))
        needed = x_engine_sums(o)
        if gpu is not None and needed > gpu.memory_bytes:
            remedy = (
                f"makes the sums of one X-engine {show(needed, 'B')}, and the {gpu.name} here has "
                f"{show(gpu.memory_bytes, 'B')}: fewer channels for each, and more X-engines on more GPUs"
            )
            yield Problem("xengine.channels_per_substream", o.substream_channels, remedy)
        if missing is not None:
            remedy = f'X-engines will not start on this computer: {missing}; elsewhere they may; "cpu" runs anywhere'
            yield Problem("xengine.backend", "cuda", remedy)


def _fx_memory(o: Observation) -> Iterator[Problem]:
    if o.fengine.backend != "cuda":
        return
    times = Counter(tuple(o.gpu_of("f", i)) for i in range(o.fx_gpus))
    for number, parts in times.items():
        gpu, missing = _opened(*number)
        if missing is not None and number != tuple(o.gpu_of("f")):  # of the first, `here` tells
            yield Problem("fx.gpus", number[0], f"FX will not start on this computer: {missing}")
        if gpu is not None and (needed := parts * fx_bytes(o, gpu)) > gpu.memory_bytes:
            remedy = (
                f"makes FX take {show(needed, 'B')} of a GPU, and the {gpu.name} here has "
                f"{show(gpu.memory_bytes, 'B')}: lower fengine.batch or channels, name more GPUs in fx.gpus, or remove "
                "[fx] and spread engines over more GPUs"
            )
            yield Problem("fengine.channels", o.fengine.channels, remedy)
            return


def fx_bytes(o: Observation, gpu: Gpu | None = None) -> int:
    """Bytes that F and X in one process take of a GPU: samples, filtered spectra, spectra that wait, and sums.

    It is the GPU of this computer if none is given. Filtered spectra are nowhere if one kernel does all there; without
    a GPU, they are counted.
    """
    gpu = gpu or _opened(*o.gpu_of("f"))[0]
    shape, size, parts = window_shape(o), o.digitizer.heap_samples, o.fx_gpus
    _, packets = ring_packets(shape, size)
    payload = size * o.channelized_bits * (2 if o.digitizer.complex else 1) // 8
    in_place = o.receive("fx").in_place
    pool = packet_buffers(o, "fx") if o.receive("fx").copies == 0 else 0
    inputs, channels = -(-len(o.antennas) // parts) * o.pols, -(-o.fengine.channels // parts)
    spectra = inputs * o.fengine.channels * shape.batch
    exchanged = 0 if parts == 1 else o.n_inputs * channels * shape.batch * 2 * BATCHES
    samples = inputs * packets * ((8 if in_place else payload) + 1) + pool
    filtered = max(min(8 * spectra, INTERMEDIATE), 8 * inputs * GROUP * o.fengine.channels)
    faster = faster_plan(_channelizer(o), gpu.shared_bytes, gpu.arch) if gpu is not None and not in_place else None
    if faster is not None and faster.whole:
        filtered = 0
    return samples + filtered + spectra * 2 * BATCHES + exchanged + _sums(o, channels, 1)


def x_engine_sums(o: Observation) -> int:
    """Bytes of the sums of an X-engine on a GPU: int32 of what is added, int64 with counts, these once more to read."""
    return _sums(o, o.substream_channels, o.groups)


def _sums(o: Observation, channels: int, groups: int) -> int:
    visibilities, counts = channels * o.products, groups * o.products
    return visibilities * 2 * 4 + 2 * (visibilities * 2 * 8 + counts * 4)


@cache
def _opened(*numbers: int) -> tuple[Gpu | None, str | None]:
    try:
        return open_gpu(*numbers), None
    except (GpuUnavailable, GpuError) as error:
        return None, str(error)


def _refusal(o: Observation, shared_bytes: int, arch: str) -> str | None:
    """Say why a device cannot do what the observation asks for."""
    try:
        make_plan(_channelizer(o), shared_bytes, arch)
    except ValueError as error:
        return str(error)
    return None


def _channelizer(o: Observation) -> ChannelizerConfig:
    """Give what a channelizer computes of one input."""
    f, d = o.fengine, o.digitizer
    return ChannelizerConfig(1, f.channels, f.taps, bits=d.bits, complex_input=d.complex)
