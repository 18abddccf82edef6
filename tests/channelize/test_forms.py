"""Every form of the channelizer against the oracle, on fresh random inputs."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fresh
from ryle.channelize import Blocks, Heaps, Rows, make_channelizer
from ryle.wire.samples import SAMPLE_BITS

seeds = st.integers(0, 2**63)
relaxed = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
channels = st.one_of(st.sampled_from([4, 8, 16, 64, 128, 512]), st.integers(2, 200).map(lambda half: 2 * half))
shapes = st.fixed_dictionaries(
    {
        "channels": channels,
        "taps": st.integers(1, 32),
        "window": st.sampled_from(["hann", "hamming", "blackman", "rect"]),
        "w_cutoff": st.sampled_from([1.0, 0.9, 0.0]),
        "bits": st.sampled_from(SAMPLE_BITS),
        "complex_input": st.booleans(),
        "output_bits": st.sampled_from([8, 4]),
        "dither": st.sampled_from(["uniform", "none"]),
    }
)


def compare(cases, form, case, layout):
    oracle, tested = make_channelizer(case.config, "reference"), cases.form(case.config, form)
    arguments = (case.chunk, case.first, case.spectra, case.delays)
    for one in (oracle, tested):
        one.set_gains(case.gains)
    exact, valid = oracle.spectra_float(*arguments)
    single, tested_valid = tested.spectra_float(*arguments)
    np.testing.assert_array_equal(tested_valid, valid)
    assert np.all(single[~valid] == 0)
    if valid.any():
        assert np.sqrt(np.mean(np.abs(single - exact) ** 2) / np.mean(np.abs(exact) ** 2)) <= 1e-6
    expected, got = oracle.process(*arguments, layout), tested.process(*arguments, layout)
    np.testing.assert_array_equal(got.valid, valid)
    assert got.data.shape == expected.data.shape and got.data.dtype == expected.data.dtype
    wanted, values = cases.unlaid(expected, case.config), cases.unlaid(got, case.config)
    assert np.abs(values).max() <= case.config.limit
    assert np.all(values[~valid] == 0)
    difference = np.abs(values - wanted)
    assert difference.max() <= 1
    differing = np.count_nonzero(difference)
    assert differing <= max(5, 1e-3 * difference.size)
    # Only a value whose rounding differs can be saturated in one form and not in the other.
    assert np.abs(got.saturated - expected.saturated).max() <= max(5, 1e-3 * difference.size)
    np.testing.assert_array_equal(got.input_samples, expected.input_samples)
    if case.config.bits == 32:
        np.testing.assert_allclose(got.input_power, expected.input_power, rtol=1e-12)
    else:
        assert got.input_power.dtype == np.int64
        np.testing.assert_array_equal(got.input_power, expected.input_power)
    return expected, got


@settings(relaxed, max_examples=30)
@given(seed=seeds, shape=shapes)
def test_blocks_agree_with_oracle(cases, form, seed, shape):
    compare(cases, form, cases.make(seed, **shape), Blocks())


@settings(relaxed, max_examples=20)
@given(seed=seeds, shape=shapes, heap=st.integers(1, 80), pols=st.sampled_from([1, 2]), heaps=st.integers(1, 3))
def test_heaps_agree_with_oracle(cases, form, seed, shape, heap, pols, heaps):
    case = cases.make(seed, spectra=heap * heaps, unit=heap, inputs=4, **shape)
    compare(cases, form, case, Heaps(heap, pols))


@settings(relaxed, max_examples=12)
@given(seed=seeds, shape=shapes, antennas=st.integers(1, 3), pols=st.sampled_from([1, 2]), blocks=st.integers(1, 3))
def test_rows_are_blocks_rearranged(cases, form, seed, shape, antennas, pols, blocks):
    case = cases.make(seed, spectra=64 * blocks, inputs=antennas * pols, **shape)
    arguments = (case.chunk, case.first, case.spectra, case.delays)
    for backend in (form, "reference"):
        tested = cases.form(case.config, backend)
        tested.set_gains(case.gains)
        expected = tested.process(*arguments, Blocks())
        got = tested.process(
            *arguments, Rows(pols), np.full((blocks, antennas, case.config.channels, pols, 128), -128, np.int8)
        )
        split = expected.data.reshape(case.config.channels, blocks, antennas, pols, 128)
        np.testing.assert_array_equal(got.data, split.transpose(1, 2, 0, 3, 4))
        for name in ("valid", "saturated", "input_power", "input_samples"):
            np.testing.assert_array_equal(getattr(got, name), getattr(expected, name))
        one, other = got.chunk(), expected.chunk()
        np.testing.assert_array_equal(one.valid.reshape(other.valid.shape), other.valid)
        np.testing.assert_array_equal(one.data.reshape(other.data.shape), other.data)
        assert one.first_block == other.first_block and np.shares_memory(one.data, got.data)


@pytest.mark.parametrize(("channels", "complex_input", "bits"), [(4096, False, 10), (8192, False, 8), (4096, True, 12)])
def test_many_channels(cases, form, channels, complex_input, bits):
    seed = fresh.seed(62)
    case = cases.make(seed, channels=channels, taps=4, bits=bits, complex_input=complex_input, inputs=1, loss=1)
    expected, _ = compare(cases, form, case, Blocks())
    assert expected.valid.any(), f"seed {seed}"


@pytest.mark.parametrize("output_bits", [8, 4])
def test_saturation(cases, form, output_bits):
    seed = fresh.seed(62)
    level = 1.5 * (7 if output_bits == 4 else 127)  # of 4 bits too, some values of each input just reach the limit
    case = cases.make(seed, channels=128, taps=4, output_bits=output_bits, level=level, loss=0, margin=0, spectra=128)
    _, got = compare(cases, form, case, Blocks())
    values = cases.unlaid(got, case.config)
    clamped = np.any(np.abs(values) == case.config.limit, axis=-1).sum(axis=(1, 2))
    assert np.all(got.saturated > 1000), f"seed {seed}"
    assert np.all(got.saturated < clamped)  # a value may reach the limit without being clamped
    assert np.all(got.saturated < values[..., 0].size // got.saturated.size)
    # Limits are reached on both sides and a value is counted once even if both parts are clamped.
    assert values.max() == case.config.limit and values.min() == -case.config.limit
    assert np.any(np.all(np.abs(values) == case.config.limit, axis=-1))


def test_saturated_values_are_counted_exactly(cases, form):
    """Gains of whole numbers on a constant leave no rounding in doubt."""
    case = cases.make(0, channels=4, taps=1, bits=8, complex_input=True, dither="none", loss=0, margin=0, window="rect",
                      w_cutoff=0.0)  # fmt: skip
    case.chunk.data[:] = 0x04  # 4 + 4j in every sample: 2·(4 + 4j) at zero frequency with weights of 1/2
    zero = type(case.delays).zero(2, case.spectra)
    for gain, expected in ((15.0, 0), (15.875, 0), (16.0, 64), (-16.0, 64), (1e30, 64)):
        tested = cases.form(case.config, form)
        tested.set_gains(gain)
        got = tested.process(case.chunk, case.first, case.spectra, zero, Blocks())
        assert got.valid.all()
        np.testing.assert_array_equal(got.saturated, [expected, expected])
        values = cases.unlaid(got, case.config)
        assert np.all(values[:, :, 2] == np.clip(8 * gain, -127, 127)) and np.all(values[:, :, [0, 1, 3]] == 0)


@pytest.mark.parametrize("channels", [4, 6, 64, 130, 256, 258, 300, 514])
def test_dither_bits(cases, form, channels):
    """Half a step goes up exactly where the dither is positive, which no rounding before it can change."""
    case = cases.make(1, channels=channels, taps=2, loss=0, margin=0, bits=32)
    tested, oracle = cases.form(case.config, form), make_channelizer(case.config, "reference")
    # An impulse at the start of each frame is the same in all channels, exactly.
    times = case.chunk.timestamp + np.arange(case.chunk.samples)
    values = np.tile((times % case.config.step == 0).astype(">f4"), (2, 1))
    case.chunk.data[:] = values.view(np.uint8).reshape(case.chunk.data.shape)
    zero = type(case.delays).zero(2, case.spectra)
    spectra, _ = oracle.spectra_float(case.chunk, case.first, case.spectra, zero)
    gains = 0.5 * (1 + 1j) / spectra[:, 0]
    for one in (tested, oracle):
        one.set_gains(gains)
    got = cases.unlaid(tested.process(case.chunk, case.first, case.spectra, zero, Blocks()), case.config)
    want = cases.unlaid(oracle.process(case.chunk, case.first, case.spectra, zero, Blocks()), case.config)
    np.testing.assert_array_equal(got, want)
    assert np.all((want == 0) | (want == 1)) and 0.35 < np.mean(want) < 0.65
    assert not np.array_equal(want[0], want[1])  # inputs do not share their dither


@pytest.mark.parametrize("complex_input", [False, True])
def test_white_noise_keeps_its_power(cases, form, complex_input):
    case = cases.make(2, channels=64, taps=8, bits=12, complex_input=complex_input, loss=0, margin=0, spectra=1024)
    tested = cases.form(case.config, form)
    values, valid = tested.spectra_float(case.chunk, case.first, case.spectra, case.delays)
    assert valid.all()
    power = np.abs(values[valid][:, 1:]) ** 2
    result = tested.process(case.chunk, case.first, case.spectra, case.delays, Blocks())
    np.testing.assert_allclose(power.mean(), np.sum(result.input_power) / np.sum(result.input_samples), rtol=0.02)
