"""Random cases for every form of the channelizer."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from emulation import EmulatedGpu
from ryle.channelize import ChannelizerConfig, Delays, Heaps, Rows, cuda, make_channelizer
from ryle.channelize.cuda import CudaChannelizer
from ryle.channelize.cuda_kernels import filter_defines, transform_defines, whole_defines
from ryle.chunk import SampleChunk, parts_from_rows
from ryle.gpu import gpu_problem, open_gpu
from ryle.gpu.cache import cached_compile
from ryle.wire.samples import pack

try:
    from ryle.channelize.cpu import CpuChannelizer, instruction_sets

    FORMS = [f"cpu/{isa}" for isa in instruction_sets()]
except ImportError:  # a machine for tests of the GPU need not have what the CPU form needs
    FORMS = []

NO_GPU = gpu_problem()
NEEDS_GPU = pytest.mark.skipif(NO_GPU is not None, reason=f"needs an NVIDIA GPU: {NO_GPU}")
CUDA_FORMS = ["cuda/emulated", pytest.param("cuda", marks=NEEDS_GPU)]


@dataclass
class Case:
    config: ChannelizerConfig
    chunk: SampleChunk
    first: int
    spectra: int
    delays: Delays
    gains: np.ndarray


class PoisonedCuda(CudaChannelizer):
    """The CUDA form with all its buffers filled: floats with NaN, output with bytes that none can be."""

    def work(self, *args, **kwargs):
        work = super().work(*args, **kwargs)
        buffers = [getattr(work, field.name) for field in fields(work) if field.name not in ("samples", "out")]
        for buffer in (b for value in buffers for b in (value if isinstance(value, list) else [value])):
            if hasattr(buffer, "fill"):
                buffer.fill(0xFF)
        work.out.fill({"int8": 0x80, "uint8": 0x88}.get(work.out.dtype.name, 0xFF))
        self.gpu.default_stream.synchronize()  # uploads go by another stream, and must come later
        return work


@cache
def gpu_of(form):
    return open_gpu() if form == "cuda" else EmulatedGpu(optimization="-O0")


def compile_ahead(tested, layout):
    """Compile what a test of all results needs on all cores; emulated kernels are left to be compiled when launched."""
    if isinstance(tested.gpu, EmulatedGpu):
        return
    config, variants = tested.config, {}
    for to, dithered in ((None, False), (None, True), (layout, True)):
        plan = tested.form(to).plan
        if plan.whole:
            variants["whole.cu", to, dithered] = whole_defines(config, plan, to, dithered=dithered)
        else:
            variants["filter.cu", None, False] = filter_defines(config, plan)
            variants["transform.cu", to, dithered] = transform_defines(config, plan, to, dithered=dithered)
    folder = Path(cuda.__file__).parent
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda v: cached_compile(folder / v[0][0], v[1], tested.gpu.arch), variants.items()))


def make_form(config, form, plan=None):
    backend, _, isa = form.partition("/")
    if backend == "cuda":
        return PoisonedCuda(config, gpu_of(form), plan)
    return CpuChannelizer(config, isa) if isa else make_channelizer(config, backend)


def make_case(seed, *, spectra=64, unit=64, inputs=2, loss=0.3, level=None, margin=300, packet=None, **settings):
    """Noise with random gains and delays whose coarse part steps, a random timestamp and some packets lost.

    What lies in the place of a lost packet is garbage: all ones, which is NaN in 32 bits. `loss` is the expected number
    of packets lost per input. The chunk may lack samples for the first or last spectra, unless `margin` is 0; then
    there is no coarse delay.
    """
    rng = np.random.default_rng(seed)
    config = ChannelizerConfig(inputs, seed=int(rng.integers(1 << 64, dtype=np.uint64)), input_offset=3, **settings)
    packet = int(packet or rng.choice([8, 40, 256, 4096]))
    first = unit * int(rng.choice([0, 1, 5, 1 << 20, (1 << 33) // unit]))
    begin = config.step * first + int(rng.integers(-margin, margin + 1))
    timestamp = max(0, begin) // packet * packet
    packets = -(-(config.step * (spectra - 1) + config.window_samples + margin + packet) // packet)
    scale = 2.0 ** (config.bits - 1) / 4 if config.bits < 32 else 25.0
    noise = rng.normal(0, scale, (inputs, packets * packet))
    if config.complex_input:
        noise = noise + 1j * rng.normal(0, scale, noise.shape)
    packed, _ = pack(noise, config.bits)
    data = packed.reshape(inputs, packets, -1)
    present = rng.random((inputs, packets)) > loss / packets
    data[~present] = 0xFF
    chunk = SampleChunk(timestamp, data, present.astype(np.uint8), packet)
    coarse = rng.integers(-margin // 2, margin // 2 + 1, (inputs, 1)) + np.cumsum(
        rng.integers(-5, 6, (inputs, spectra)) * (rng.random((inputs, spectra)) < 0.05) * (margin > 0), axis=1
    )
    delays = Delays(coarse, rng.uniform(-0.5, 0.5, coarse.shape), rng.uniform(-40, 40, coarse.shape))
    level = level if level is not None else config.limit / 3
    sigma = np.sqrt(np.mean(np.abs(noise) ** 2))
    gains = level / sigma * np.exp(2j * np.pi * rng.random((inputs, config.channels)))
    gains *= rng.uniform(0.5, 1.5, gains.shape)
    return Case(config, chunk, first, spectra, delays, gains.astype(np.complex64))


def unlaid(result, config):
    """Quantized values as int (input, spectrum, channel, 2), whatever their layout."""
    data, layout = result.data, result.layout
    spectra = result.valid.shape[1]
    if not isinstance(layout, Heaps):
        if isinstance(layout, Rows):
            data = data.transpose(2, 0, 1, 3, 4).reshape(config.channels, spectra // 64, config.inputs, 128)
        values = parts_from_rows(data).transpose(2, 1, 3, 0, 4)
        return values.reshape(config.inputs, spectra, config.channels, 2).astype(int)
    if config.output_bits == 4:
        signed = data.view(np.int8)
        data = np.stack([signed >> 4, (data << 4).view(np.int8) >> 4], axis=-1)
    return data.transpose(0, 4, 1, 3, 2, 5).reshape(config.inputs, spectra, config.channels, 2).astype(int)


def check_alike(case, layout, form, other):
    """Check that two plans make the same of a case but for rounding; of floats, if there is no layout."""
    for channelizer in (form, other):
        channelizer.set_gains(case.gains)
    about = case.chunk, case.first, case.spectra, case.delays
    if layout is None:
        (found, valid), (wanted, same) = (c.spectra_float(*about) for c in (form, other))
        np.testing.assert_array_equal(same, valid)
        scale = np.sqrt(np.mean(np.abs(wanted) ** 2)) or 1.0
        print("largest difference of the rms", np.abs(found - wanted).max() / scale)
        assert np.abs(found - wanted).max() < 1e-5 * scale
        return
    found, wanted = (c.process(*about, layout) for c in (form, other))
    np.testing.assert_array_equal(found.valid, wanted.valid)
    np.testing.assert_array_equal(found.input_power, wanted.input_power)
    np.testing.assert_array_equal(found.input_samples, wanted.input_samples)
    whole_bytes = case.config.output_bits == 8
    a, b = (np.asarray(x.data).view(np.int8 if whole_bytes else np.uint8).astype(int) for x in (found, wanted))
    differ = a != b
    print("differ", differ.mean())
    assert differ.mean() < 1e-4
    if whole_bytes:
        assert np.abs(a - b).max() <= 1
    assert abs(form.output_power - other.output_power).sum() <= 400 * differ.sum()
    assert abs(form.saturated - other.saturated).sum() <= differ.sum()


@pytest.fixture(scope="session")
def cases():
    """The functions of this file, for tests in modules that cannot import it."""

    class Cases:
        make = staticmethod(make_case)
        form = staticmethod(make_form)
        check_alike = staticmethod(check_alike)
        unlaid = staticmethod(unlaid)
        gpu = staticmethod(gpu_of)
        compile_ahead = staticmethod(compile_ahead)

    return Cases


@pytest.fixture(params=FORMS)
def form(request):
    """A form for a CPU; these are compiled already and take any even number of channels."""
    return request.param


@pytest.fixture(params=CUDA_FORMS)
def cuda_form(request):
    """The form for NVIDIA GPUs, on one and emulated."""
    return request.param
