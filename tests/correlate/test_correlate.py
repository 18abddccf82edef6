"""The X-engine's arithmetic: every kernel against the integer oracle, and the oracle against the definition."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fresh
from emulation import EmulatedGpu
from ryle.bench.correlations import exact_sums
from ryle.chunk import BLOCK, SpectraChunk, parts_from_rows, rows_from_parts
from ryle.correlate import BACKENDS, CorrelatorConfig, make_correlator, product_inputs
from ryle.correlate.cpu import RUN_BLOCKS, CpuCorrelator, available_kernels, choose_kernel, kernel_status
from ryle.correlate.cuda import CudaCorrelator
from ryle.correlate.multiply import KERNELS as CUDA_KERNELS
from ryle.correlate.multiply import kernel_for, make_multiply
from ryle.correlate.reference import correlate
from ryle.gpu import gpu_problem, open_gpu

FULL = np.uint64(2**64 - 1)


CUDA_FORMS = [f"{where} {kernel}" for where in ("emulated", "cuda") for kernel in CUDA_KERNELS]


def maker(form):
    """What makes correlators of a form: a kernel of the CPU, or of a GPU, emulated or real."""
    where, _, kernel = form.rpartition(" ")
    if not where:
        if (reason := kernel_status()[kernel]) is not None:
            pytest.skip(f"kernel {kernel}: {reason}")
        return lambda config, threads=1: CpuCorrelator(config, kernel=kernel, threads=threads)
    if where == "cuda" and (reason := gpu_problem()) is not None:
        pytest.skip(f"no GPU: {reason}")
    gpu = EmulatedGpu(multiprocessors=3, seed=fresh.seed()) if where == "emulated" else open_gpu()
    if where == "cuda" and kernel != "portable" and kernel_for(gpu) != kernel:
        pytest.skip(f"{gpu.name} cannot run the kernel {kernel}")
    return lambda config, threads=1, bits=8: CudaCorrelator(config, gpu=gpu, kernel=kernel, bits=bits)


@pytest.fixture(params=[*kernel_status(), *CUDA_FORMS])
def make(request):
    return maker(request.param)


@pytest.fixture(params=CUDA_FORMS)
def make_cuda(request):
    return maker(request.param)


def random_chunk(rng, channels, blocks, inputs, groups=1, lowest=-127):
    """Spectra whose validity words are full, empty and anything between."""
    data = rng.integers(lowest, 128, (channels, blocks, inputs, 2 * BLOCK), dtype=np.int8)
    words = rng.integers(0, 2**64, (groups, blocks, inputs), dtype=np.uint64)
    kind = rng.integers(0, 4, words.shape)
    words[kind == 0] = 0
    words[kind == 1] = FULL
    words[kind == 2] |= rng.integers(0, 2**64, words.shape, dtype=np.uint64)[kind == 2]
    return SpectraChunk(int(rng.integers(0, 1000)), data, words)


def present(valid):
    """Validity words as booleans (group, block, input, spectrum, 1), not by the oracle's way."""
    return np.unpackbits(valid.view(np.uint8), bitorder="little").reshape(*valid.shape, BLOCK, 1).astype(bool)


def assert_equal(correlator, data, valid):
    result = correlator.read(0, correlator.spectra, 0)
    visibilities, counts = correlate(data, valid, correlator.config.polarizations)
    np.testing.assert_array_equal(result.visibilities, visibilities)
    np.testing.assert_array_equal(result.counts, counts)
    assert result.visibilities.dtype == np.int64
    assert result.counts.dtype == np.uint32


def test_the_oracle_is_the_definition(rng):
    """Complex arithmetic in Python integers, one product and one spectrum at a time."""
    antennas, pols, channels, blocks = 3, 2, 2, 2
    chunk = random_chunk(rng, channels, blocks, antennas * pols, groups=2)
    visibilities, counts = correlate(chunk.data, chunk.valid, pols)

    def sample(c, i, s):
        group = chunk.data[c, s // 64, i, s % 64 // 16 * 32 :]
        return complex(int(group[s % 16]), int(group[16 + s % 16]))

    def valid(g, i, s):
        return int(chunk.valid[g, s // 64, i]) >> s % 64 & 1

    for c in range(channels):
        for a2 in range(antennas):
            for a1 in range(a2 + 1):
                for p1 in range(pols):
                    for p2 in range(pols):
                        product = pols**2 * (a2 * (a2 + 1) // 2 + a1) + p1 + pols * p2
                        i, j = pols * a1 + p1, pols * a2 + p2
                        both = [s for s in range(64 * blocks) if valid(c, i, s) and valid(c, j, s)]
                        total = sum((sample(c, i, s) * sample(c, j, s).conjugate() for s in both), 0j)
                        assert complex(*visibilities[c, product]) == total
                        assert counts[c, product] == len(both)


def test_product_order():
    assert product_inputs(2, 1).tolist() == [[0, 0], [0, 1], [1, 1]]
    assert product_inputs(2, 2)[:4].tolist() == [[0, 0], [1, 0], [0, 1], [1, 1]]
    assert product_inputs(2, 2)[4:8].tolist() == [[0, 2], [1, 2], [0, 3], [1, 3]]


@pytest.mark.parametrize("pols", [1, 2])
@pytest.mark.parametrize("antennas", [1, 3, 4, 19, 33, 64])
def test_exact_for_arrays(make, antennas, pols, rng):
    channels, blocks, inputs = 3, 5, antennas * pols
    chunk = random_chunk(rng, channels, blocks, inputs)
    correlator = make(CorrelatorConfig(inputs, channels, pols))
    correlator.accumulate(chunk)
    assert_equal(correlator, chunk.data, chunk.valid)


@settings(max_examples=25, deadline=None)
@given(
    st.integers(1, 40),
    st.integers(1, 2),
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(0, 40),
    st.integers(1, 3),
    st.integers(0, 2**32),
)
def test_exact_for_any_shape(antennas, pols, groups, channels_in_group, blocks, threads, seed):
    inputs, channels = antennas * pols, groups * channels_in_group
    chunk = random_chunk(np.random.default_rng(seed), channels, blocks, inputs, groups, lowest=-128)
    for kernel in available_kernels():
        correlator = CpuCorrelator(CorrelatorConfig(inputs, channels, pols, groups), kernel=kernel, threads=threads)
        correlator.accumulate(chunk)
        assert_equal(correlator, chunk.data, chunk.valid)


@pytest.mark.parametrize("inputs", [1, 2, 3, 7, 8, 38, 127, 144])
def test_exact_for_odd_numbers_of_inputs(make, inputs, rng):
    chunk = random_chunk(rng, 1, 2, inputs)
    correlator = make(CorrelatorConfig(inputs, 1))
    correlator.accumulate(chunk)
    assert_equal(correlator, chunk.data, chunk.valid)


@pytest.mark.parametrize("signs", [(127, 127), (-127, 127), (127, -127), (-127, -127)])
def test_saturated_data_do_not_overflow(make, signs):
    """Extremes for longer than 32 bits hold, so that a missed flush, or one too late, shows."""
    inputs, blocks = 3, 2 * RUN_BLOCKS + 3
    parts = np.empty((1, blocks, inputs, BLOCK, 2), np.int8)
    parts[:] = signs
    parts[:, :, 1, :, 1] *= -1  # the imaginary part of a product at its extreme, too
    parts[:, :, 2] *= -1
    data = rows_from_parts(parts)
    chunk = SpectraChunk(0, data, np.full((1, blocks, inputs), FULL))
    correlator = make(CorrelatorConfig(inputs, 1))
    correlator.accumulate(chunk)
    assert_equal(correlator, data, chunk.valid)
    auto = int(correlator.read(0, 0, 0).visibilities[0, 0, 0])
    assert auto == 2 * 127**2 * BLOCK * blocks > 2**32
    assert correlator.clamped == 0


def test_run_length_is_the_longest_that_fits():
    assert RUN_BLOCKS * BLOCK * 2 * 127**2 < 2**31 <= (RUN_BLOCKS + 1) * BLOCK * 2 * 127**2


def test_rows_that_are_missing_altogether(make, rng):
    chunk = random_chunk(rng, 2, 4, 6)
    chunk.valid[:, :, 3] = 0
    chunk.valid[:, 2] = 0
    correlator = make(CorrelatorConfig(6, 2, 2))
    correlator.accumulate(chunk)
    assert_equal(correlator, chunk.data, chunk.valid)
    i, j = product_inputs(3, 2).T
    assert not correlator.read(0, 0, 0).counts[:, (i == 3) | (j == 3)].any()


@pytest.mark.parametrize("poison", [-128, -1, 127, 85])
def test_what_is_invalid_does_not_matter(make, poison, rng):
    """Whatever lies under an invalid bit, -128 included: same sums, and not counted as clamped."""
    inputs, channels, blocks = 21, 3, 3
    chunk = random_chunk(rng, channels, blocks, inputs)
    missing = ~present(chunk.valid)
    assert missing.any()
    poisoned = parts_from_rows(chunk.data)
    np.copyto(poisoned, np.int8(poison), where=missing)
    results = []
    for data in (chunk.data, rows_from_parts(poisoned)):
        correlator = make(CorrelatorConfig(inputs, channels))
        correlator.accumulate(SpectraChunk(0, data, chunk.valid))
        assert correlator.clamped == 0
        results.append(correlator.read(0, 0, 0).visibilities)
    np.testing.assert_array_equal(*results)
    assert_equal(correlator, chunk.data, chunk.valid)


def test_valid_minus_128_is_clamped_and_counted(make, rng):
    inputs, channels, blocks = 5, 2, 3
    chunk = random_chunk(rng, channels, blocks, inputs)
    chunk.data[rng.random(chunk.data.shape) < 0.2] = -128
    low = np.count_nonzero((parts_from_rows(chunk.data) == -128) & present(chunk.valid))
    correlator = make(CorrelatorConfig(inputs, channels), threads=2)
    correlator.accumulate(chunk)
    assert correlator.clamped == low > 0
    assert_equal(correlator, chunk.data, chunk.valid)


def test_runs_of_blocks_add_up(make, rng):
    """Several chunks, each in several runs, are one sum; a reset starts anew; a result that was read stays."""
    inputs, channels, groups = 14, 6, 3
    chunks = [random_chunk(rng, channels, blocks, inputs, groups) for blocks in (7, 1, 4)]
    correlator = make(CorrelatorConfig(inputs, channels, 2, groups))
    correlator.accumulate(chunks[0])
    correlator.reset()
    assert correlator.spectra == 0
    for chunk in chunks:
        correlator.accumulate(chunk, blocks=1)
        correlator.accumulate(chunk, 1, (chunk.blocks - 1) // 2)
        correlator.accumulate(chunk, 1 + (chunk.blocks - 1) // 2)
    data = np.concatenate([chunk.data for chunk in chunks], axis=1)
    valid = np.concatenate([chunk.valid for chunk in chunks], axis=1)
    assert correlator.spectra == 12 * BLOCK
    assert_equal(correlator, data, valid)
    before = correlator.read(64, 12 * BLOCK, 5)
    assert (before.first_spectrum, before.spectra, before.first_channel) == (64, 12 * BLOCK, 5)
    kept = before.visibilities.copy()
    correlator.accumulate(chunks[0])
    np.testing.assert_array_equal(before.visibilities, kept)


def test_views_of_larger_arrays(make, rng):
    """Channels and blocks may lie anywhere in memory, read-only memory included; other strides are copied."""
    whole = random_chunk(rng, 6, 9, 10)
    whole.data.flags.writeable = False
    for inputs in (slice(None), slice(0, 10, 2), slice(4, 5)):
        data, valid = whole.data[1:6:2, 2:8, inputs], whole.valid[:, 2:8, inputs]
        correlator = make(CorrelatorConfig(data.shape[2], 3), threads=2)
        correlator.accumulate(SpectraChunk(0, data, valid))
        assert_equal(correlator, data, valid)


def as_rows(chunk, pols):
    """The same chunk as packets of rows lie: views of [block][antenna][channel][pol][128] and [group][antenna][...]."""
    channels, blocks, inputs, row = chunk.data.shape
    rows = chunk.data.reshape(channels, blocks, inputs // pols, pols, row).transpose(1, 2, 0, 3, 4).copy()
    words = chunk.valid.reshape(-1, blocks, inputs // pols, pols).transpose(2, 0, 1, 3).copy()
    return SpectraChunk(chunk.first_block, rows.transpose(2, 0, 1, 3, 4), words.transpose(1, 2, 0, 3))


@pytest.mark.parametrize(("antennas", "pols", "groups"), [(1, 1, 1), (1, 2, 3), (5, 2, 1), (7, 1, 2), (19, 2, 2)])
def test_rows_as_packets_bring_them(make, antennas, pols, groups, rng):
    inputs, channels, blocks = antennas * pols, 6, 5
    chunk = random_chunk(rng, channels, blocks, inputs, groups)
    correlator = make(CorrelatorConfig(inputs, channels, pols, groups))
    rows = as_rows(chunk, pols)
    correlator.accumulate(rows, 1, 3)
    correlator.accumulate(rows, 4)
    assert_equal(correlator, chunk.data[:, 1:], chunk.valid[:, 1:])


def test_a_kernel_can_be_forced(monkeypatch):
    slowest = available_kernels()[-1]
    monkeypatch.delenv("RYLE_CPU_KERNEL", raising=False)
    assert choose_kernel() == available_kernels()[0]
    monkeypatch.setenv("RYLE_CPU_KERNEL", slowest)
    assert choose_kernel() == slowest == CpuCorrelator(CorrelatorConfig(1, 1)).kernel
    monkeypatch.setenv("RYLE_CPU_KERNEL", "abacus")
    with pytest.raises(ValueError, match=r"RYLE_CPU_KERNEL is 'abacus'.*portable"):
        choose_kernel()


def test_a_kernel_that_cannot_run_is_refused(monkeypatch):
    monkeypatch.setattr(
        "ryle.correlate.cpu.kernel_status", lambda: {"amx": "this CPU has no AMX int8", "portable": None}
    )
    with pytest.raises(RuntimeError, match="no AMX int8; choose one of portable"):
        choose_kernel("amx")


def test_backends():
    config = CorrelatorConfig(2, 1)
    assert make_correlator(config, threads=2).config is config
    with pytest.raises(ValueError, match=r"backend is 'fpga'; it must be one of 'cpu', 'cuda'"):
        make_correlator(config, backend="fpga")


def test_a_backend_that_cannot_be_loaded(monkeypatch):
    monkeypatch.setitem(BACKENDS, "absent", "ryle.correlate.absent:AbsentCorrelator")
    with pytest.raises(RuntimeError, match=r"'absent' backend cannot be loaded here.*choose another backend"):
        make_correlator(CorrelatorConfig(2, 1), backend="absent")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 1), "inputs is 0"),
        ((2, 0), "channels is 0"),
        ((2, 1, 3), "polarizations is 3; it must be 1 or 2"),
        ((3, 1, 2), "inputs is 3, not a multiple of 2"),
        ((2, 8, 1, 3), "channels is 8, not a multiple of 3 groups"),
    ],
)
def test_bad_configurations(arguments, message):
    with pytest.raises(ValueError, match=message):
        CorrelatorConfig(*arguments)


def test_bad_chunks(rng):
    correlator = CpuCorrelator(CorrelatorConfig(4, 2, 2))
    chunk = random_chunk(rng, 2, 3, 4)
    with pytest.raises(ValueError, match=r"data has shape \(1, 3, 4, 128\).*\(2, 3, 4, 128\)"):
        correlator.accumulate(SpectraChunk(0, chunk.data[:1], chunk.valid))
    with pytest.raises(ValueError, match=r"valid has shape \(1, 2, 4\)"):
        correlator.accumulate(SpectraChunk(0, chunk.data, chunk.valid[:, :2]))
    with pytest.raises(TypeError, match="data is uint8"):
        correlator.accumulate(SpectraChunk(0, chunk.data.view(np.uint8), chunk.valid))
    with pytest.raises(ValueError, match="blocks 2 to 4 asked for; the chunk has blocks 0 to 3"):
        correlator.accumulate(chunk, 2, 2)
    with pytest.raises(ValueError, match="blocks -1"):
        correlator.accumulate(chunk, -1, 2)
    with pytest.raises(ValueError, match="threads is 0"):
        CpuCorrelator(CorrelatorConfig(4, 2, 2), threads=0)
    assert correlator.spectra == 0
    correlator.spectra = 2**32 - BLOCK
    with pytest.raises(OverflowError, match="limit of 4294967295"):
        correlator.accumulate(chunk)


@pytest.mark.parametrize(
    ("inputs", "pols"),
    [(2, 2), (64, 2), (129, 1), (272, 2)]
    + [pytest.param(*size, marks=pytest.mark.long) for size in ((160, 2), (255, 1), (386, 2), (514, 2), (576, 2))],
)
def test_tiles_of_gpus(make_cuda, inputs, pols, rng):
    """Sizes that the kernels cut in other ways than those above, written and then added to."""
    channels = 3 if inputs < 400 else 1
    chunk = random_chunk(rng, channels, 4, inputs)
    correlator = make_cuda(CorrelatorConfig(inputs, channels, pols))
    correlator.accumulate(chunk, 0, 3)
    correlator.accumulate(chunk, 3, 1)
    assert_equal(correlator, chunk.data, chunk.valid)


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("inputs", [1, 2, 3, 8, 38, 64, 127, 128, 144, 160, 256, 511, 1024])
@pytest.mark.parametrize("form", [form for form in CUDA_FORMS if form.startswith("cuda")])
def test_exact_on_gpus(form, inputs, bits, rng):
    """Large arrays, too, against float64 matrix products, which are exact: the reference would take minutes."""
    pols, channels, blocks, least = 2 - inputs % 2, 3, 5, -(2 ** (bits - 1))
    correlator = maker(form)(CorrelatorConfig(inputs, channels, pols), bits=bits)
    chunk = random_chunk(rng, channels, blocks, inputs)
    parts = rng.integers(least, -least, (channels, blocks, inputs, BLOCK, 2), dtype=np.int8)
    rows = rows_from_parts(parts) if bits == 8 else (parts[..., 0] << 4 | parts[..., 1] & 15).astype(np.int8)
    data, valid = correlator.gpu.array(rows), correlator.gpu.array(chunk.valid)
    correlator.accumulate_device(data, valid, 0, 3, clamp=True)
    correlator.accumulate_device(data, valid, 3, 2, clamp=True)
    there = present(chunk.valid)
    kept = np.maximum(parts, least + 1) * there
    result = correlator.read(0, correlator.spectra, 0)
    for channel in range(channels):
        np.testing.assert_array_equal(result.visibilities[channel], exact_sums(kept[channel], pols))
    seen = np.moveaxis(there[0, ..., 0], 1, 0).reshape(inputs, -1).astype(np.float64)
    i, j = product_inputs(inputs // pols, pols).T
    np.testing.assert_array_equal(result.counts, (seen @ seen.T)[np.newaxis, i, j])
    assert correlator.clamped == np.count_nonzero((parts == least) & there)


def test_spectra_on_the_gpu(make_cuda, rng):
    """What is there already is added in place; with no look for -128 only what is invalid is touched."""
    inputs, channels, groups, blocks = 14, 6, 3, 5
    chunk = random_chunk(rng, channels, blocks, inputs, groups)
    correlator = make_cuda(CorrelatorConfig(inputs, channels, 2, groups))
    data, valid = correlator.gpu.array(chunk.data), correlator.gpu.array(chunk.valid)
    correlator.accumulate_device(data, valid, 1, 3)
    assert_equal(correlator, chunk.data[:, 1:4], chunk.valid[:, 1:4])
    kept = parts_from_rows(chunk.data) * np.repeat(present(chunk.valid), channels // groups, axis=0)
    np.testing.assert_array_equal(parts_from_rows(data.get())[:, 1:4], kept[:, 1:4])
    np.testing.assert_array_equal(data.get()[:, [0, 4]], chunk.data[:, [0, 4]])
    with pytest.raises(ValueError, match="data and valid have shapes"):
        correlator.accumulate_device(valid, data)
    with pytest.raises(ValueError, match="blocks 4 to 6 asked for"):
        correlator.accumulate_device(data, valid, 4, 2)


@pytest.mark.parametrize(("antennas", "pols", "clamp"), [(7, 2, True), (5, 1, False), (33, 2, False), (80, 2, True)])
def test_rows_on_the_gpu(make_cuda, antennas, pols, clamp, rng):
    """Rows as packets bring them, in an array of several antennas, or of more than a run of inputs."""
    inputs, channels, groups, blocks = antennas * pols, 6, 3, 5
    chunk = random_chunk(rng, channels, blocks, inputs, groups, lowest=-128 if clamp else -127)
    rows = as_rows(chunk, pols).data.transpose(1, 2, 0, 3, 4)
    correlator = make_cuda(CorrelatorConfig(inputs, channels, pols, groups))
    data, valid = correlator.gpu.array(rows), correlator.gpu.array(chunk.valid)
    correlator.accumulate_device(data, valid, 1, 3, clamp=clamp)
    correlator.accumulate_device(data, valid, 4, 1, clamp=clamp)
    assert_equal(correlator, chunk.data[:, 1:], chunk.valid[:, 1:])
    there = np.repeat(present(chunk.valid), channels // groups, axis=0)
    low = (parts_from_rows(chunk.data) == -128) & there
    assert correlator.clamped == (np.count_nonzero(low[:, 1:]) if clamp else 0)
    np.testing.assert_array_equal(data.get()[0], rows[0])
    with pytest.raises(ValueError, match="data and valid have shapes"):
        correlator.accumulate_device(
            data.view((blocks, antennas * pols, channels, 1, 128), np.int8) if pols == 2 else valid, valid
        )


def test_integrations_of_two_lengths(rng):
    config = CorrelatorConfig(8, 2, 2)
    correlator = CudaCorrelator(config, gpu=EmulatedGpu(), long=True)
    whole = random_chunk(rng, 2, 6, 8)
    for first in (0, 2, 4):
        correlator.accumulate(whole, first, 2)
        if first == 2:
            reading = correlator.start_read(0, 128, 0)
        correlator.reset()
    visibilities, counts = correlate(whole.data[:, 2:4], whole.valid[:, 2:4], 2)
    np.testing.assert_array_equal(reading.wait().visibilities, visibilities)
    np.testing.assert_array_equal(reading.wait().counts, counts)
    result = correlator.read_long(0, correlator.long_spectra, 0)
    visibilities, counts = correlate(whole.data, whole.valid, 2)
    np.testing.assert_array_equal(result.visibilities, visibilities)
    np.testing.assert_array_equal(result.counts, counts)
    assert correlator.long_spectra == 6 * BLOCK
    correlator.reset_long()
    assert not correlator.read_long(0, 0, 0).visibilities.any()
    with pytest.raises(RuntimeError, match="make it with long=True"):
        CudaCorrelator(config, gpu=EmulatedGpu()).reset_long()


def test_kernels_of_gpus():
    class Ada:
        name, arch = "an Ada", "sm_89"

    class Hopper:
        name, arch = "a Hopper", "sm_90a"

    assert (kernel_for(Ada()), kernel_for(Hopper())) == ("portable", "hopper")
    assert kernel_for(Hopper(), "portable") == "portable"
    with pytest.raises(RuntimeError, match="an Ada is sm_89; choose 'portable'"):
        kernel_for(Ada(), "hopper")
    with pytest.raises(ValueError, match=r"'abacus'.*hopper, portable"):
        kernel_for(Ada(), "abacus")


@pytest.mark.parametrize(
    ("inputs", "pols"),
    [(1, 1), (38, 2), (144, 2)]
    + [pytest.param(*size, marks=pytest.mark.long) for size in ((128, 2), (255, 1), (272, 2))],
)
@pytest.mark.parametrize("kernel", CUDA_KERNELS)
def test_four_bits(kernel, inputs, pols, rng):
    """Packed rows are multiplied as they are, by kernels of their own."""
    gpu = EmulatedGpu(multiprocessors=3, seed=fresh.seed())
    channels, blocks = 3, 6
    parts = rng.integers(-7, 8, (channels, blocks, inputs, BLOCK, 2), dtype=np.int8)
    packed = (parts[..., 0] << 4 | parts[..., 1] & 15).astype(np.int8)
    full = np.full((1, blocks, inputs), FULL)
    expected, _ = correlate(rows_from_parts(parts), full, pols)
    sums = gpu.array(np.full((1, *expected.shape), 99, np.int32))
    multiply = make_multiply(gpu, inputs, pols, kernel, bits=4)
    data = gpu.array(packed)
    multiply(data, sums, 0, 2)
    multiply(data, sums, 2, 4, add=True)
    np.testing.assert_array_equal(sums.get()[0], expected)
