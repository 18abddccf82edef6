"""The three kernels against the oracle: emulated with numpy's transforms, and with the library's where there is a GPU."""

import numpy as np
import pytest

import fresh
from emulation import EmulatedGpu
from ryle.bench.cufft import Cufft, cufft_problem
from ryle.bench.three_kernels import ThreeKernels, Tuning, kernel_order
from ryle.channelize import ChannelizerConfig, Delays
from ryle.channelize.dither import philox4x32
from ryle.channelize.reference import ReferenceChannelizer
from ryle.chunk import BLOCK, SampleChunk
from ryle.gpu import gpu_problem, open_gpu

PACKET = 256


class NumpyTransforms:
    """Single-precision transforms of rows of an emulated array."""

    name = "numpy"

    def plan(self, size, batch):
        def transform(source, result, stream):
            rows = source.get()
            assert rows.shape == (batch, size)
            result.set(np.fft.fft(rows.astype(np.complex64)).astype(np.complex64))

        return transform


@pytest.fixture(
    params=["emulated", pytest.param("real", marks=pytest.mark.skipif(bool(gpu_problem()), reason=f"{gpu_problem()}"))]
)
def device(request):
    if request.param == "emulated":
        return EmulatedGpu(), NumpyTransforms()
    if problem := cufft_problem():
        pytest.skip(problem)
    return open_gpu(), Cufft()


def dithered(config, first_spectrum, values):
    """Add the dither, complex (input, spectrum, channel): a counter serves channels a quarter of the band apart."""
    inputs, spectra, channels = values.shape
    quarter = channels // 4
    counter = np.empty((inputs, spectra, quarter, 4), np.uint64)
    counter[..., 0] = np.arange(quarter)
    since_sync = np.arange(first_spectrum, first_spectrum + spectra, dtype=np.uint64)[:, np.newaxis]
    counter[..., 1], counter[..., 2] = since_sync & 0xFFFFFFFF, since_sync >> np.uint64(32)
    counter[..., 3] = (config.input_offset + np.arange(inputs))[:, np.newaxis, np.newaxis]
    words = philox4x32(counter, (config.seed & 0xFFFFFFFF, config.seed >> 32))
    words = words.swapaxes(-1, -2).reshape(values.shape)
    return values + ((words >> 16) + 0.5) / 65536 - 0.5 + 1j * (((words & 0xFFFF) + 0.5) / 65536 - 0.5)


def expected_blocks(values, interleaved):
    """Quantize (input, spectrum, channel) to K-blocks (channel, block, input, 128)."""
    parts = np.clip(np.rint(np.stack([values.real, values.imag], axis=-1)), -127, 127).astype(np.int8)
    inputs, spectra, channels, _ = parts.shape
    rows = parts.reshape(inputs, spectra // BLOCK, BLOCK, channels, 2).transpose(3, 1, 0, 4, 2)
    if interleaved:
        return np.ascontiguousarray(rows.swapaxes(-1, -2)).reshape(channels, spectra // BLOCK, inputs, 2 * BLOCK)
    return kernel_order(np.ascontiguousarray(rows).reshape(channels, spectra // BLOCK, inputs, 2 * BLOCK))


@pytest.mark.parametrize(
    ("channels", "taps", "bits", "inputs", "blocks", "interleaved", "tuning"),
    [
        (64, 16, 10, 3, 2, False, Tuning(chunk_samples=1, lanes=2)),
        (128, 4, 8, 1, 3, True, Tuning(per_thread=48, columns=4)),
        (256, 12, 12, 2, 1, False, Tuning(columns=1, blocks_first=True)),
        (512, 32, 4, 1, 1, False, Tuning(per_thread=20)),
        (64, 1, 16, 4, 2, True, Tuning(chunk_samples=1 << 14, per_thread=1000)),
        (64, 7, 3, 2, 1, False, Tuning(columns=4, blocks_first=True)),
        (128, 6, 9, 1, 2, False, Tuning()),
        (64, 8, 10, 2, 1, True, Tuning(split=True)),
        (512, 4, 12, 1, 1, False, Tuning(split=True, per_thread=30)),
    ],
)
def test_against_the_oracle(device, channels, taps, bits, inputs, blocks, interleaved, tuning):
    gpu, transforms = device
    rng = fresh.rng()
    spectra, first = blocks * BLOCK, BLOCK * int(rng.integers(1 << 40))
    config = ChannelizerConfig(
        inputs,
        channels,
        taps,
        bits=bits,
        seed=int(rng.integers(1 << 64, dtype=np.uint64)),
        input_offset=int(rng.integers(1 << 20)),
    )
    lead = 2 * PACKET
    packets = -(-(lead + PACKET + (spectra + taps) * config.step) // PACKET)
    data = rng.integers(0, 256, (inputs, packets, PACKET * bits // 8), np.uint8)
    start = first * config.step
    chunk = SampleChunk(start - lead, data, np.ones((inputs, packets), np.uint8), PACKET)
    coarse = np.repeat(rng.integers(-PACKET, lead, (inputs, 1)), spectra, axis=1)
    delays = Delays(coarse, rng.uniform(-0.5, 0.5, coarse.shape), rng.uniform(-9, 9, coarse.shape))
    size = 40 / 2.0**bits * 24**0.5  # some values saturate
    gains = size * np.exp(1j * rng.uniform(0, 6.3, (inputs, channels)))

    oracle = ReferenceChannelizer(config)
    oracle.set_gains(gains)
    values, valid = oracle.spectra_float(chunk, first, spectra, delays)
    assert valid.all()
    wanted = expected_blocks(dithered(config, first, values), interleaved)

    kernels = ThreeKernels(gpu, config, spectra, transforms, interleaved=interleaved, tuning=tuning)
    kernels.set_gains(gains)
    kernels.set_delays(delays, lead)
    rows = np.zeros((inputs, data[0].size + 64), np.uint8)
    rows[:, :-64] = data.reshape(inputs, -1)
    stream = gpu.stream()
    out = gpu.empty(wanted.shape, np.int8)
    out.fill(0x80, stream)  # which is never a result
    kernels.launch(gpu.array(rows, stream), out, first, stream)
    found = out.get(stream=stream)

    assert found.min() >= -127
    assert (np.abs(wanted) == 127).any()
    difference = np.abs(found.astype(int) - wanted)
    assert difference.max() <= 1
    assert np.count_nonzero(difference) <= max(5, 1e-4 * wanted.size)


def test_parts_together_are_the_launch(device):
    gpu, transforms = device
    rng = fresh.rng()
    config = ChannelizerConfig(2, 64, 4, bits=8)
    kernels = ThreeKernels(gpu, config, BLOCK, transforms)
    samples = gpu.array(rng.integers(0, 256, (2, (BLOCK + 4) * config.step + 64), np.uint8))
    stream = gpu.stream()
    out = [gpu.empty((64, 1, 2, 128), np.int8) for _ in range(2)]
    kernels.launch(samples, out[0], 0, stream)
    for name in ("FIR", "FFT", "rest"):
        kernels.part(name, samples, out[1], stream)
    whole, parts = (array.get(stream=stream) for array in out)
    assert np.array_equal(whole, parts)


@pytest.mark.parametrize(
    ("config", "spectra", "message"),
    [
        (ChannelizerConfig(1, 96), 64, "power of two"),
        (ChannelizerConfig(1, 64), 65, "whole K-blocks"),
        (ChannelizerConfig(1, 64, bits=32), 64, "2 to 16 bits"),
        (ChannelizerConfig(1, 64, complex_input=True), 64, "real samples"),
    ],
)
def test_what_there_is_no_form_for(config, spectra, message):
    with pytest.raises(ValueError, match=message):
        ThreeKernels(EmulatedGpu(), config, spectra, NumpyTransforms())


def test_coarse_delays_that_change_are_refused():
    kernels = ThreeKernels(EmulatedGpu(), ChannelizerConfig(1, 64, 1), BLOCK, NumpyTransforms())
    delays = Delays.zero(1, BLOCK)
    delays.coarse[0, 5] = 1
    with pytest.raises(ValueError, match="one coarse delay"):
        kernels.set_delays(delays)
