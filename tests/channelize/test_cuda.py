"""The form for NVIDIA GPUs against the oracle on fresh random inputs, on a GPU and emulated.

Each variant of the kernels is compiled for its test, which takes longer than running it: shapes are few in emulation, more
on a GPU, and each meets several inputs. A failure prints the shape and the seed of the inputs.
"""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import fresh
from ryle.channelize import Blocks, ChannelizerConfig, Delays, Heaps, Rows, make_channelizer
from ryle.channelize.cuda_plan import make_plan, with_one_kernel
from ryle.channelize.dither import dither
from ryle.chunk import SampleChunk
from ryle.wire.samples import SAMPLE_BITS

EMULATED = "cuda/emulated"


def random_case(cases, rng, shape, layout, **changes):
    """Inputs for a shape: few or many spectra, with or without lost packets, delays and missing ends."""
    unit = 64 if isinstance(layout, Blocks) else layout.spectra
    spectra = unit * int(rng.integers(1, 1 + max(1, 192 // unit)))
    step = shape["channels"] * (1 if shape["complex_input"] else 2)
    wanted = {
        "inputs": 2,
        "loss": float(rng.choice([0, 1, 3])),
        "margin": int(rng.choice([0, 300, 3 * step])),
        "conjugated": (1,) if shape["complex_input"] else (),
        **changes,
    }
    seed = int(rng.integers(1 << 62))
    print(f"seed {seed}, {spectra} spectra, {layout}, {wanted}, {shape}")
    return cases.make(seed, spectra=spectra, unit=unit, **wanted, **shape)


def heaps(rng, inputs=2):
    return Heaps(int(rng.choice([1, 7, 16, 24, 60, 256])), pols=int(rng.choice([1, 2])) if inputs % 2 == 0 else 1)


def recomputed(values, limit):
    """Complex values clamped (input,), and output power (input, channel), of values just before they are rounded."""
    rounded = np.rint(np.stack([values.real, values.imag], axis=-1))
    clamped = np.any(np.abs(rounded) > limit, axis=-1).sum(axis=(1, 2))
    return clamped, np.sum(np.clip(rounded, -limit, limit).astype(np.int64) ** 2, axis=(1, 3))


def noise_of(case, valid):
    """Dither of the valid spectra, complex128 (input, spectrum, channel)."""
    config = case.config
    noise = np.zeros((*valid.shape, config.channels, 2))
    if config.dither == "uniform":
        for i, s in np.argwhere(valid):
            noise[i, s] = dither(config.seed, config.input_offset + int(i), case.first + int(s), config.channels)
    return noise[..., 0] + 1j * noise[..., 1]


def compare(cases, tested, case, layout):
    """Everything that a call gives, against the oracle and against itself; gives how many spectra were valid."""
    config = case.config
    cases.compile_ahead(tested, layout)
    oracle = make_channelizer(config, "reference")
    arguments = (case.chunk, case.first, case.spectra, case.delays)
    for one in (oracle, tested):
        one.set_gains(case.gains)
    exact, valid = oracle.spectra_float(*arguments)
    oracle.spectra_float = lambda *_: (exact, valid)  # process() need not make them again
    expected = oracle.process(*arguments, layout)

    single, tested_valid = tested.spectra_float(*arguments)
    np.testing.assert_array_equal(tested_valid, valid)
    assert np.all(single[~valid] == 0)
    if valid.any():
        error = np.sqrt(np.mean(np.abs(single - exact) ** 2) / np.mean(np.abs(exact) ** 2))
        assert error <= 1e-6

    # Counters against the values of the same launch.
    before, _ = tested.spectra_float(*arguments, dithered=True)
    clamped, power = recomputed(before, config.limit)
    np.testing.assert_array_equal(tested.saturated, clamped)
    np.testing.assert_array_equal(tested.output_power, power)
    noise = noise_of(case, valid)

    got = tested.process(*arguments, layout)
    np.testing.assert_array_equal(got.valid, valid)
    assert got.data.shape == expected.data.shape and got.data.dtype == expected.data.dtype
    wanted, values = cases.unlaid(expected, config), cases.unlaid(got, config)
    assert np.abs(values).max() <= config.limit  # what was not written is -128 or -8
    assert np.all(values[~valid] == 0)
    difference = np.abs(values - wanted)
    assert difference.max() <= 1
    assert np.count_nonzero(difference) <= max(5, 1e-4 * difference.size)
    np.testing.assert_array_equal(tested.output_power, np.sum(values.astype(np.int64) ** 2, axis=(1, 3)))
    largest = np.maximum(np.abs((exact + noise).real), np.abs((exact + noise).imag))
    doubtful = np.abs(largest - (config.limit + 0.5)) < 1e-4
    assert np.all(np.abs(got.saturated - expected.saturated) <= doubtful.sum(axis=(1, 2)))
    np.testing.assert_array_equal(got.input_samples, expected.input_samples)
    if config.bits == 32:
        np.testing.assert_allclose(got.input_power, expected.input_power, rtol=1e-12)
    else:
        assert got.input_power.dtype == np.int64
        np.testing.assert_array_equal(got.input_power, expected.input_power)
    return np.count_nonzero(valid)


@pytest.fixture(scope="session")
def families():
    """What the second half of the channelizer is compiled for, by form: few in emulation."""
    rng = fresh.rng()
    random = [
        {
            "channels": int(rng.choice([64, 128, 256])),
            "complex_input": bool(complex_input),
            "output_bits": int(bits),
            "dither": str(rng.choice(["uniform", "uniform", "none"])),
        }
        for complex_input, bits in ((False, 8), (True, rng.choice([4, 8])), (False, 4))
    ]
    return {EMULATED: random[:2], "cuda": random}


@pytest.mark.parametrize("bits", SAMPLE_BITS)
def test_all_widths_of_samples(cases, cuda_form, families, rng, bits):
    family = families[cuda_form][SAMPLE_BITS.index(bits) % len(families[cuda_form])]
    shape = {"bits": bits, "taps": int(rng.integers(1, 33)), **family}
    valid = 0
    for layout, more in ((Blocks(), {}), (heaps(rng), {}), (Blocks(), {"loss": 0})):
        case = random_case(cases, rng, shape, layout, **more)
        tested = cases.form(case.config, cuda_form)
        tested.slab_bytes = int(rng.choice([1, 1 << 27]))  # one group at a time, or all
        cases.gpu(EMULATED).multiprocessors = int(rng.integers(1, 8))
        valid += compare(cases, tested, case, layout)
    assert valid


shapes = st.fixed_dictionaries(
    {
        "channels": st.sampled_from([64, 128, 256, 512, 1024]),
        "taps": st.integers(1, 32),
        "window": st.sampled_from(["hann", "hamming", "blackman", "rect"]),
        "w_cutoff": st.sampled_from([1.0, 0.9, 0.0]),
        "bits": st.sampled_from(SAMPLE_BITS),
        "complex_input": st.booleans(),
        "output_bits": st.sampled_from([8, 4]),
        "dither": st.sampled_from(["uniform", "none"]),
    }
)
#: Architecture and shared memory of a block, which decide how the work is divided; every division runs everywhere.
DEVICES = {"sm_80": 166912, "sm_86": 101376, "sm_90a": 232448}


def test_any_shape(cases, cuda_form):
    @settings(
        max_examples=3 if cuda_form == EMULATED else 12,
        phases=[Phase.explicit, Phase.reuse, Phase.generate],  # simpler shapes are compiled no sooner
        suppress_health_check=list(HealthCheck),
    )
    @given(
        seed=st.integers(0, 2**63), shape=shapes, arch=st.sampled_from(sorted(DEVICES)), inputs=st.sampled_from([1, 3])
    )
    def check(seed, shape, arch, inputs):
        rng = np.random.default_rng(seed)
        for layout in (Blocks(), heaps(rng, inputs)):
            case = random_case(
                cases, rng, shape, layout, inputs=inputs, conjugated=(0,) if shape["complex_input"] else ()
            )
            plan = make_plan(case.config, DEVICES[arch], arch)
            compare(cases, cases.form(case.config, cuda_form, plan), case, layout)

    check()


@pytest.mark.parametrize("complex_input", [False, True])
def test_one_kernel_for_all(cases, cuda_form, rng, complex_input):
    """`whole.cu`, of 1024 channels, also where the default plan leaves them to two kernels."""
    shape = {
        "channels": 1024,
        "taps": int(rng.integers(1, 17)),
        "bits": int(rng.choice([b for b in SAMPLE_BITS if b <= 10])),
        "complex_input": complex_input,
        "output_bits": int(rng.choice([8, 8, 4])),
    }
    valid = 0
    for layout in (Blocks(), heaps(rng)):
        case = random_case(cases, rng, shape, layout)
        gpu = cases.gpu(cuda_form)
        if gpu.shared_bytes < DEVICES["sm_90a"]:
            pytest.skip(f"a block has {gpu.shared_bytes} bytes of shared memory, and needs those of a Hopper")
        plan = with_one_kernel(make_plan(case.config, gpu.shared_bytes, gpu.arch), case.config, gpu.shared_bytes)
        tested = cases.form(case.config, cuda_form, plan)
        cases.gpu(EMULATED).multiprocessors = int(rng.integers(1, 8))
        valid += compare(cases, tested, case, layout)
    assert valid


@pytest.mark.parametrize(("output_bits", "pols"), [(8, 2), (4, 2), (8, 1)])
def test_heaps_hold_what_blocks_do(cases, cuda_form, rng, output_bits, pols):
    """To the bit: in whole sectors, or value by value where 16 spectra lie in two heaps or a device lacks the room."""
    shape = {"channels": int(rng.choice([64, 128, 256])), "bits": 8, "taps": 3, "output_bits": output_bits}
    case = random_case(cases, rng, {**shape, "complex_input": False}, Blocks(), inputs=4, loss=2)
    plan = make_plan(case.config, DEVICES[arch := str(rng.choice(sorted(DEVICES)))], arch)
    tested = cases.form(case.config, cuda_form, plan)
    assert tested.form(Heaps(48, pols)).plan.together(Heaps(48, pols)) == pols
    tested.set_gains(case.gains)
    tested.slab_bytes = int(rng.choice([1, 1 << 27]))
    cases.gpu(EMULATED).multiprocessors = int(rng.integers(1, 8))
    whole = tested.process(case.chunk, case.first, case.spectra, case.delays, Blocks())
    wanted, power, saturated = cases.unlaid(whole, case.config), tested.output_power, tested.saturated
    for spectra in (16, 64, 8):
        got = tested.process(case.chunk, case.first, case.spectra, case.delays, Heaps(spectra, pols))
        np.testing.assert_array_equal(cases.unlaid(got, case.config), wanted)
        np.testing.assert_array_equal(tested.output_power, power)
        np.testing.assert_array_equal(tested.saturated, saturated)
    later = cut_short(case, 48, 16)  # amid a group
    got = tested.process(later.chunk, later.first, later.spectra, later.delays, Heaps(16, pols))
    np.testing.assert_array_equal(cases.unlaid(got, case.config), wanted[:, 16:64])
    tested = cases.form(case.config, cuda_form, replace(plan, heap_inputs=1))
    tested.set_gains(case.gains)
    got = tested.process(case.chunk, case.first, case.spectra, case.delays, Heaps(64, pols))
    np.testing.assert_array_equal(cases.unlaid(got, case.config), wanted)


BIG = [(4096, False, 10, 16), (8192, True, 8, 4), (16384, False, 12, 8), (32768, False, 10, 16), (65536, False, 8, 16),
       (65536, True, 4, 3)]  # fmt: skip


@pytest.mark.parametrize(("channels", "complex_input", "bits", "taps"), BIG)
def test_many_channels(cases, cuda_form, rng, channels, complex_input, bits, taps):
    if cuda_form == EMULATED and channels not in (4096, 32768):
        pytest.skip("would take minutes in emulation; a GPU runs it")
    shape = {"channels": channels, "complex_input": complex_input, "bits": bits, "taps": taps}
    layout = Blocks() if cuda_form != EMULATED or channels == 32768 else Heaps(20, pols=1)
    case = random_case(
        cases, rng, shape, layout, inputs=1, loss=0, margin=300, conjugated=(0,) if complex_input else ()
    )
    case = cut_short(case, 64 if isinstance(layout, Blocks) else 20)
    assert compare(cases, cases.form(case.config, cuda_form), case, layout)


def test_dither_bits(cases, cuda_form, families, rng):
    """Dither has steps of 1/65536, and single precision leaves less than a quarter of one in values below 16."""
    for family in families[cuda_form]:
        shape = {"bits": 8, "taps": 2, **family, "dither": "uniform"}
        case = random_case(cases, rng, shape, Blocks(), level=3.0, loss=0)
        tested = cases.form(case.config, cuda_form)
        tested.set_gains(case.gains)
        arguments = (case.chunk, case.first, case.spectra, case.delays)
        plain, valid = tested.spectra_float(*arguments)
        dithered, _ = tested.spectra_float(*arguments, dithered=True)
        assert valid.any()
        small = np.maximum(np.abs(plain.real), np.abs(plain.imag)) < 15
        assert small.mean() > 0.9
        found, noise = (dithered - plain)[small], noise_of(case, valid)[small]
        assert np.abs((found - noise).view(np.float64)).max() < 0.25 / 65536


@pytest.mark.parametrize("output_bits", [8, 4])
def test_saturation(cases, cuda_form, rng, output_bits):
    shape = {"channels": 64, "complex_input": False, "bits": 8, "taps": 4, "output_bits": output_bits}
    limit = 127 if output_bits == 8 else 7
    case = random_case(cases, rng, shape, Blocks(), level=0.6 * limit, loss=0, margin=0)
    tested = cases.form(case.config, cuda_form)
    compare(cases, tested, case, Blocks())
    assert np.all(tested.saturated > 20)


@pytest.mark.parametrize(("antennas", "pols"), [(1, 2), (3, 1), (2, 2)])
def test_rows_are_blocks_rearranged(cases, cuda_form, rng, antennas, pols):
    shape = {"channels": 64, "complex_input": False, "bits": 8, "taps": 4}
    case = random_case(cases, rng, shape, Blocks(), inputs=antennas * pols)
    tested = cases.form(case.config, cuda_form)
    tested.set_gains(case.gains)
    arguments = (case.chunk, case.first, case.spectra, case.delays)
    blocks = tested.process(*arguments, Blocks()).data
    rows = tested.process(*arguments, Rows(pols)).data
    split = blocks.reshape(64, case.spectra // 64, antennas, pols, 128)
    np.testing.assert_array_equal(rows, split.transpose(1, 2, 0, 3, 4))


def test_a_chunk_of_nothing_gives_zeros(cases, cuda_form):
    case = cases.make(6, channels=64, taps=2, bits=8)
    case.chunk.present[:] = 0
    tested = cases.form(case.config, cuda_form)
    out = np.full((64, 1, 2, 128), 55, np.int8)
    got = tested.process(case.chunk, case.first, 64, case.delays, Blocks(), out)
    assert got.data is out and not out.any() and not got.valid.any() and not tested.output_power.any()
    assert not got.saturated.any() and not got.input_power.any() and not got.input_samples.any()


def cut(chunk, begin, end):
    """Packets [begin, end) of a chunk."""
    size = chunk.packet_samples
    data, present = (np.ascontiguousarray(array[:, begin:end]) for array in (chunk.data, chunk.present))
    return SampleChunk(chunk.timestamp + begin * size, data, present, size)


def part(delays, begin, end):
    return Delays(delays.coarse[:, begin:end], delays.fine[:, begin:end], delays.phase[:, begin:end])


def cut_short(case, spectra, begin=0):
    delays = part(case.delays, begin, begin + spectra)
    return replace(case, first=case.first + begin, spectra=spectra, delays=delays)


@pytest.mark.parametrize("bits", [10, 16])
def test_chunks_equal_the_whole(cases, cuda_form, families, rng, bits):
    """Bit for bit, cut where no group ends, with steps of the delay and lost packets, and input of other lengths."""
    shape = {"bits": bits, "taps": int(rng.integers(1, 17)), **families[cuda_form][0]}
    for unit, layout in ((64, Blocks()), (24, Heaps(24, pols=1))):
        case = cases.make(int(rng.integers(1 << 62)), spectra=8 * unit, unit=unit, loss=1, **shape)
        config, chunk = case.config, case.chunk
        chunk.present[0, chunk.present.shape[1] // 2] = 0
        tested = cases.form(config, cuda_form)
        tested.set_gains(case.gains)
        whole = tested.process(chunk, case.first, case.spectra, case.delays, layout)
        power = tested.output_power
        assert np.any(np.diff(case.delays.coarse)) and whole.valid.any() and not whole.valid.all()
        floats, _ = tested.spectra_float(chunk, case.first, case.spectra, case.delays)
        sums = [np.zeros_like(total) for total in (whole.saturated, power, whole.input_power, whole.input_samples)]
        cuts = sorted({0, case.spectra, *(unit * rng.integers(1, 8, 2)).tolist()})
        for begin, end in itertools.pairwise(cuts):
            coarse, first = case.delays.coarse[:, begin:end], case.first + begin
            low = config.step * first - coarse.max() - chunk.timestamp
            high = config.step * (first + end - begin - 1) + config.window_samples - coarse.min() - chunk.timestamp
            first_packet = max(0, low // chunk.packet_samples - int(rng.integers(0, 3)))
            last_packet = -(-high // chunk.packet_samples) + int(rng.integers(0, 3))
            some = cut(chunk, first_packet, max(last_packet, first_packet + 1))
            delays = part(case.delays, begin, end)
            tested.slab_bytes = int(rng.choice([1, 1 << 27]))
            values, _ = tested.spectra_float(some, first, end - begin, delays)
            np.testing.assert_array_equal(values, floats[:, begin:end])
            got = tested.process(some, first, end - begin, delays, layout)
            np.testing.assert_array_equal(got.valid, whole.valid[:, begin:end])
            np.testing.assert_array_equal(got.data, whole.data[:, begin // unit : end // unit])
            one = (got.saturated, tested.output_power, got.input_power, got.input_samples)
            sums = [total + more for total, more in zip(sums, one, strict=True)]
        for total, wanted in zip(sums, (whole.saturated, power, whole.input_power, whole.input_samples), strict=True):
            np.testing.assert_array_equal(total, wanted)


@pytest.mark.parametrize("count", [1, 2, 17, 113])
def test_values_do_not_depend_on_how_many_spectra_are_asked_for(cases, cuda_form, families, rng, count):
    shape = {"bits": 8, "taps": 3, **families[cuda_form][0]}
    case = cases.make(int(rng.integers(1 << 62)), spectra=150, unit=1, loss=0, margin=0, **shape)
    tested = cases.form(case.config, cuda_form)
    whole, valid = tested.spectra_float(case.chunk, case.first, 150, case.delays)
    assert valid.all()
    begin = int(rng.integers(0, 151 - count))
    delays = part(case.delays, begin, begin + count)
    some, _ = tested.spectra_float(case.chunk, case.first + begin, count, delays)
    np.testing.assert_array_equal(some, whole[:, begin : begin + count])


@pytest.mark.long
def test_other_divisions_of_the_work(cases, cuda_form, rng):
    """Other radices, with and without a pass between the kernels; strips of other widths."""
    for channels, changes in (
        (256, {"radix": 8, "passes": (2, 16), "filter_threads": 128}),
        (256, {"radix": 8, "passes": (16,), "middle": 2}),
        (256, {"radix": 4, "passes": (8, 8), "filter_threads": 64}),
        (256, {"radix": 4, "passes": (8,), "middle": 8}),
        (1024, {"radix": 4, "passes": (8,), "middle": 32}),
        (512, {"radix": 16, "passes": (4, 8), "filter_threads": 256}),
        (512, {"radix": 16, "passes": (4, 8), "filter_threads": 512}),
    ):
        shape = {"channels": channels, "complex_input": False, "bits": int(rng.choice([9, 10])), "taps": 5}
        case = random_case(cases, rng, shape, Blocks(), loss=1)
        plan = replace(make_plan(case.config, DEVICES["sm_90a"]), **changes)
        tested = cases.form(case.config, cuda_form, plan)
        got = tested.process(case.chunk, case.first, case.spectra, case.delays, Blocks())
        want = cases.form(case.config, "reference").process(case.chunk, case.first, case.spectra, case.delays, Blocks())
        difference = np.abs(got.data.astype(int) - want.data)
        assert difference.max() <= 1 and np.count_nonzero(difference) <= max(5, 1e-4 * difference.size)
        np.testing.assert_array_equal(got.input_power, want.input_power)


def test_what_this_form_cannot_do_is_refused(cases):
    for shape, message in (
        ({"channels": 66}, "channels is 66; the CUDA channelizer does powers of two from 64 to 65536"),
        ({"channels": 64, "taps": 33}, "taps is 33; the CUDA channelizer does 1 to 32"),
    ):
        with pytest.raises(ValueError, match=message):
            cases.form(ChannelizerConfig(2, **shape), EMULATED)
    with pytest.raises(ValueError, match="65536 channels and 32 taps of 32 bits do not fit the 49152 bytes"):
        make_plan(ChannelizerConfig(2, 65536, taps=32, bits=32), 49152)


def test_slabs_of_another_size_get_buffers_of_their_own(cases, cuda_form):
    case = cases.make(5, spectra=512, unit=64, loss=1, channels=64, bits=10, taps=4)
    tested = cases.form(case.config, cuda_form)
    tested.set_gains(case.gains)
    found = []
    for size in (1, 1 << 27):
        tested.slab_bytes = size
        found.append(tested.process(case.chunk, case.first, 512, case.delays, Blocks()).data.copy())
    np.testing.assert_array_equal(found[0], found[1])
