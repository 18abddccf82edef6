import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fresh
from ryle.wire import _native
from ryle.wire.samples import (
    SAMPLE_BITS,
    check_bits,
    count_levels,
    instruction_sets,
    pack,
    packed_bytes,
    sum_squares,
    unpack,
    unpack_reference,
)

INTEGER_BITS = [bits for bits in SAMPLE_BITS if bits < 32]
seeds = st.integers(0, 2**32 - 1)


@pytest.mark.parametrize("isa", instruction_sets())
@pytest.mark.parametrize("bits", SAMPLE_BITS)
@given(seed=seeds, groups=st.integers(1, 70), rows=st.integers(1, 3))
@settings(max_examples=10, deadline=None)
def test_unpack_equals_reference(bits, isa, seed, groups, rows):
    rng = np.random.default_rng(seed)
    if bits == 32:
        data = rng.standard_normal((rows, 8 * groups)).astype(">f4").view(np.uint8)
    else:
        data = rng.integers(0, 256, (rows, groups * bits), dtype=np.uint8)
    got = unpack(data, bits, isa=isa)
    assert got.dtype == np.float32 and got.shape == (rows, 8 * groups)
    np.testing.assert_array_equal(got, unpack_reference(data, bits))
    got = unpack(data, bits, complex_samples=True, isa=isa)
    assert got.dtype == np.complex64 and got.shape == (rows, 4 * groups)
    np.testing.assert_array_equal(got, unpack_reference(data, bits, complex_samples=True))


@pytest.mark.parametrize("isa", instruction_sets())
@given(bits=st.sampled_from(SAMPLE_BITS), seed=seeds, first=st.integers(0, 100), count=st.integers(0, 9000))
@settings(max_examples=40, deadline=None)
def test_ranges_start_anywhere(isa, bits, seed, first, count):
    rng = np.random.default_rng(seed)
    values = rng.normal(0, 2 ** (min(bits, 16) - 2), -(-(first + count) // 8) * 8 + 8)
    packed, _ = pack(values, bits)
    expected = unpack_reference(packed, bits)[first : first + count]
    out = np.full(count, np.nan, np.float32)
    _native.unpack(packed, bits, first, out, isa)
    np.testing.assert_array_equal(out, expected)
    total = sum_squares(packed, bits, first, count, isa=isa)
    if bits == 32:
        np.testing.assert_allclose(total, np.sum(expected**2), rtol=1e-12)
    else:
        assert total == np.sum(expected.astype(np.int64) ** 2)


@pytest.mark.parametrize("isa", instruction_sets())
@given(bits=st.sampled_from(SAMPLE_BITS), seed=seeds, first=st.integers(0, 100), count=st.integers(0, 5000))
@settings(max_examples=40, deadline=None)
def test_levels_are_counted(isa, bits, seed, first, count):
    rng = np.random.default_rng(seed)
    packed, _ = pack(rng.normal(0, 2 ** (min(bits, 16) - 2), -(-(first + count) // 8) * 8 + 8), bits)
    values = unpack_reference(packed, bits)[first : first + count].astype(np.float64)
    level, reach = 1 << max(0, min(bits, 16) - 10), 1 << (min(bits, 10) - 1)
    counts = np.full(2 * reach + 1, 7)  # what was counted before stays
    count_levels(packed, bits, first, count, counts, level, isa)
    wanted = np.bincount(np.rint(values / level).clip(-reach, reach).astype(int) + reach, minlength=2 * reach + 1)
    np.testing.assert_array_equal(counts, 7 + wanted)


def test_levels_of_what_is_no_number_are_not_counted():
    data = np.array([np.nan, -np.inf, np.inf, 0.5, 1.5, -2.5, 1e30, np.nan], ">f4").view(np.uint8)
    counts = np.zeros(7, np.int64)
    count_levels(data, 32, 0, 8, counts)
    assert counts.tolist() == [1, 1, 0, 1, 0, 1, 2]
    with pytest.raises(ValueError, match="past the end"):
        count_levels(data, 32, 0, 9, counts)
    with pytest.raises(ValueError, match="from -n to n"):
        count_levels(data, 32, 0, 8, counts[:6].copy())


@pytest.mark.parametrize("bits", INTEGER_BITS)
@pytest.mark.parametrize("isa", instruction_sets())
def test_sum_squares_is_exact_at_full_scale(bits, isa):
    data = np.tile(np.packbits(np.array([1] + [0] * (bits - 1), np.uint8).repeat(1).tolist() * 8), 4000)
    least = -1 if bits == 1 else -(2 ** (bits - 1))
    assert np.all(unpack(data, bits) == least)
    assert sum_squares(data, bits, 0, 32000, isa=isa) == 32000 * least * least


@pytest.mark.parametrize("bits", INTEGER_BITS)
@given(seed=seeds, is_complex=st.booleans())
@settings(max_examples=10, deadline=None)
def test_pack_rounds_clamps_and_counts(bits, seed, is_complex):
    rng = np.random.default_rng(seed)
    limit = 2 ** (bits - 1) - 1 if bits > 1 else 1
    values = rng.normal(0, limit, (2, 800))
    values[0, :5] = [0.5, 1.5, -2.5, limit + 0.5, -limit - 0.5]
    packed, saturated = pack(values[..., ::2] + 1j * values[..., 1::2] if is_complex else values, bits)
    got = unpack_reference(packed, bits)
    if bits == 1:
        np.testing.assert_array_equal(got, np.where(values < 0, -1, 1))
        assert saturated == 0
        return
    rounded = np.rint(values)
    np.testing.assert_array_equal(got, np.clip(rounded, -limit, limit))
    clamped = np.abs(rounded) > limit
    if is_complex:
        clamped = clamped[..., ::2] | clamped[..., 1::2]
    assert saturated == np.count_nonzero(clamped) > 0
    assert packed.shape == (2, packed_bytes(800, bits))


def test_pack_takes_what_unpack_gives():
    for bits in INTEGER_BITS[1:]:
        limit = 2 ** (bits - 1) - 1
        values = fresh.rng().integers(-limit, limit + 1, (3, 64))
        for dtype in (np.int64, np.int16, np.float32, np.float64):
            packed, saturated = pack(values.astype(dtype), bits)
            assert saturated == 0
            np.testing.assert_array_equal(unpack(packed, bits), values)
    values = fresh.rng().standard_normal(64).astype(np.float32)
    np.testing.assert_array_equal(unpack(pack(values, 32)[0], 32), values)


def test_known_bytes():
    # 10 bits, most significant first: 1, -1, 511, -512.
    np.testing.assert_array_equal(unpack(np.array([0x00, 0x7F, 0xF7, 0xFE, 0x00], np.uint8), 10), [1, -1, 511, -512])
    np.testing.assert_array_equal(unpack(np.array([0b10100000], np.uint8), 1), [-1, 1, -1, 1, 1, 1, 1, 1])
    np.testing.assert_array_equal(unpack(np.array([0x12, 0xF0], np.uint8), 4, complex_samples=True), [1 + 2j, -1 + 0j])
    np.testing.assert_array_equal(pack([1, -1, 511, -513], 10)[0], [0x00, 0x7F, 0xF7, 0xFE, 0x01])


@pytest.mark.parametrize("bits", [0, -1, 11, 13, 14, 15, 17, 24, 33, 64])
def test_unsupported_bits_name_what_is_allowed(bits):
    for call in (check_bits, lambda b: packed_bytes(8, b), lambda b: unpack(np.zeros(80, np.uint8), b)):
        with pytest.raises(ValueError, match=rf"{bits} bits.*1 to 10, 12, 16, or 32"):
            call(bits)


def test_partial_bytes_are_refused():
    with pytest.raises(ValueError, match="multiple of 8 samples"):
        pack(np.zeros(3), 10)
    with pytest.raises(ValueError, match="whole samples"):
        unpack(np.zeros(3, np.uint8), 10)
    with pytest.raises(ValueError, match="no instruction set"):
        unpack(np.zeros(5, np.uint8), 10, isa="mmx")
    with pytest.raises(ValueError, match="past the end"):
        _native.unpack(np.zeros(5, np.uint8), 10, 1, np.zeros(4, np.float32))
