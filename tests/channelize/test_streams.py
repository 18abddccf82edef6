"""Which spectra are valid, and that cutting a stream into chunks changes nothing."""

import itertools

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ryle.channelize import Blocks, Delays, Heaps, Rows
from ryle.chunk import SampleChunk, SampleWindow
from ryle.wire.samples import unpack_reference

relaxed = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


def cut(chunk, begin_packet, end_packet):
    return SampleChunk(
        chunk.timestamp + begin_packet * chunk.packet_samples,
        np.ascontiguousarray(chunk.data[:, begin_packet:end_packet]),
        np.ascontiguousarray(chunk.present[:, begin_packet:end_packet]),
        chunk.packet_samples,
    )


def part(delays, begin, end):
    return Delays(delays.coarse[:, begin:end], delays.fine[:, begin:end], delays.phase[:, begin:end])


@settings(relaxed, max_examples=15)
@given(
    seed=st.integers(0, 2**63),
    channels=st.sampled_from([8, 64, 66, 1024]),
    taps=st.integers(1, 17),
    bits=st.sampled_from([3, 8, 10, 32]),
    is_complex=st.booleans(),
    threads=st.sampled_from([1, 2, 8]),
)
def test_chunks_equal_the_whole(cases, form, seed, channels, taps, bits, is_complex, threads):
    rng = np.random.default_rng(seed)
    case = cases.make(
        seed, channels=channels, taps=taps, bits=bits, complex_input=is_complex, spectra=256, loss=2, threads=threads
    )
    config, chunk = case.config, case.chunk
    tested = cases.form(config, form)
    tested.set_gains(case.gains)
    whole = tested.process(chunk, case.first, case.spectra, case.delays, Blocks())
    whole_float, _ = tested.spectra_float(chunk, case.first, case.spectra, case.delays)
    cuts = sorted({0, 256, *(64 * rng.integers(1, 4, 2)).tolist()})
    saturated, power, samples = 0, 0, 0
    for begin, end in itertools.pairwise(cuts):
        # Each chunk holds the samples of its spectra, plus a random number of packets more.
        low = config.step * (case.first + begin) - case.delays.coarse[:, begin:end].max() - chunk.timestamp
        high = config.step * (case.first + end) - case.delays.coarse[:, begin:end].min() - chunk.timestamp
        high += config.window_samples
        first_packet = max(0, low // chunk.packet_samples - int(rng.integers(0, 3)))
        last_packet = -(-high // chunk.packet_samples) + int(rng.integers(0, 3))
        some = cut(chunk, first_packet, max(last_packet, first_packet + 1))
        first = case.first + begin
        delays = part(case.delays, begin, end)
        got = tested.process(some, first, end - begin, delays, Blocks())
        np.testing.assert_array_equal(got.valid, whole.valid[:, begin:end])
        np.testing.assert_array_equal(got.data, whole.data[:, begin // 64 : end // 64])
        values, _ = tested.spectra_float(some, first, end - begin, delays)
        np.testing.assert_array_equal(values, whole_float[:, begin:end])
        saturated, power, samples = saturated + got.saturated, power + got.input_power, samples + got.input_samples
        # Heaps of odd lengths hold the same values.
        heaps = tested.process(some, first, end - begin, delays, Heaps(16, 1))
        np.testing.assert_array_equal(cases.unlaid(heaps, config), cases.unlaid(got, config))
    np.testing.assert_array_equal(saturated, whole.saturated)
    np.testing.assert_array_equal(samples, whole.input_samples)
    np.testing.assert_allclose(power, whole.input_power, rtol=1e-12 if bits == 32 else 0)


@pytest.mark.parametrize("channels", [4, 32, 512, 4096])
def test_values_do_not_depend_on_how_many_spectra_are_asked_for(cases, form, channels):
    case = cases.make(5, channels=channels, taps=3, bits=10, loss=0, spectra=70, unit=1, inputs=1)
    tested = cases.form(case.config, form)
    whole, _ = tested.spectra_float(case.chunk, case.first, 70, case.delays)
    for begin, end in ((0, 1), (1, 2), (3, 20), (17, 70), (69, 70)):
        some, _ = tested.spectra_float(case.chunk, case.first + begin, end - begin, part(case.delays, begin, end))
        np.testing.assert_array_equal(some, whole[:, begin:end])


@settings(relaxed, max_examples=15)
@given(seed=st.integers(0, 2**63), is_complex=st.booleans(), bits=st.sampled_from([10, 32]))
def test_missing_packets_cost_only_what_they_touch(cases, form, seed, is_complex, bits):
    """Other garbage in missing packets changes nothing, and validity is what the windows say."""
    rng = np.random.default_rng(seed)
    case = cases.make(seed, channels=16, taps=4, bits=bits, complex_input=is_complex, loss=2, spectra=128)
    config, chunk = case.config, case.chunk
    tested = cases.form(config, form)
    arguments = (case.first, case.spectra, case.delays, Blocks())
    got = tested.process(chunk, *arguments)
    poisoned = chunk.data.copy()
    missing = chunk.present == 0
    poisoned[missing] = rng.integers(0, 256, (np.count_nonzero(missing), chunk.data.shape[2]), dtype=np.uint8)
    again = tested.process(
        SampleChunk(chunk.timestamp, poisoned, chunk.present, chunk.packet_samples),
        *arguments,
        out=np.full_like(got.data, -128),
    )
    np.testing.assert_array_equal(again.data, got.data)
    np.testing.assert_array_equal(again.saturated, got.saturated)
    np.testing.assert_array_equal(again.input_power, got.input_power)
    here = np.repeat(chunk.present, chunk.packet_samples, axis=1)
    for i in range(config.inputs):
        for s in range(case.spectra):
            start = config.step * (case.first + s) - int(case.delays.coarse[i, s]) - chunk.timestamp
            end = start + config.window_samples
            assert got.valid[i, s] == (start >= 0 and end <= here.shape[1] and bool(here[i, start:end].all()))
    assert np.all(cases.unlaid(got, config)[~got.valid] == 0)


@settings(relaxed, max_examples=10)
@given(seed=st.integers(0, 2**63), is_complex=st.booleans(), bits=st.sampled_from([3, 8, 12, 16]))
def test_power_of_the_samples_that_valid_spectra_advance_over(cases, form, seed, is_complex, bits):
    case = cases.make(seed, channels=8, taps=2, bits=bits, complex_input=is_complex, loss=2, spectra=128)
    chunk, config, coarse = case.chunk, case.config, case.delays.coarse
    got = cases.form(config, form).process(chunk, case.first, case.spectra, case.delays, Blocks())
    np.testing.assert_array_equal(got.input_samples, got.valid.sum(axis=1) * config.step)
    for i in range(config.inputs):
        samples = unpack_reference(chunk.data[i].reshape(-1), bits, complex_samples=is_complex)
        squares = np.rint(np.abs(samples.astype(complex)) ** 2).astype(int)
        starts = config.step * (case.first + np.flatnonzero(got.valid[i])) - coarse[i, got.valid[i]] - chunk.timestamp
        assert got.input_power[i] == sum(squares[start : start + config.step].sum() for start in starts)


def test_chunk_of_blocks(cases, form):
    case = cases.make(4, channels=8, taps=2, bits=8, loss=2, spectra=192)
    got = cases.form(case.config, form).process(case.chunk, case.first, 192, case.delays, Blocks())
    chunk = got.chunk()
    assert chunk.first_spectrum == case.first and chunk.spectra == 192 and chunk.valid.shape == (1, 3, 2)
    for i in range(2):
        for s in range(192):
            assert bool(int(chunk.valid[0, s // 64, i]) >> (s % 64) & 1) == got.valid[i, s]
    heaps = cases.form(case.config, form).process(case.chunk, case.first, 192, case.delays, Heaps(64, 2))
    with pytest.raises(ValueError, match="laid out as heaps"):
        heaps.chunk()


def test_a_chunk_of_nothing_gives_zeros(cases, form):
    case = cases.make(6, channels=8, taps=2, bits=8)
    case.chunk.present[:] = 0
    out = np.full((8, 1, 2, 128), 55, np.int8)
    got = cases.form(case.config, form).process(case.chunk, case.first, 64, case.delays, Blocks(), out)
    assert got.data is out and not out.any() and not got.valid.any()
    assert not got.saturated.any() and not got.input_power.any() and not got.input_samples.any()


@pytest.mark.parametrize("layout", [Blocks(), Heaps(64, 2), Rows(2)])
def test_nothing_for_a_while_gives_zeros_between_what_is_there(cases, form, layout):
    case = cases.make(7, channels=64, taps=4, bits=8, spectra=64 * 5, loss=0)
    whole = cases.form(case.config, form).process(case.chunk, case.first, case.spectra, case.delays, layout)
    packets = case.chunk.present.shape[1]
    case.chunk.present[1, packets // 5 : packets * 4 // 5] = 0
    out = np.full_like(whole.data, -77)
    got = cases.form(case.config, form).process(case.chunk, case.first, case.spectra, case.delays, layout, out)
    np.testing.assert_array_equal(got.valid[0], whole.valid[0])
    assert not got.valid[1, 128:192].any() and got.valid[1, 5] and got.valid[1, -5]
    values, wanted = cases.unlaid(got, case.config), cases.unlaid(whole, case.config)
    np.testing.assert_array_equal(values, np.where(got.valid[..., None, None], wanted, 0))


@settings(relaxed, max_examples=15)
@given(
    seed=st.integers(0, 2**63),
    channels=st.sampled_from([8, 66, 1024]),
    bits=st.sampled_from([1, 3, 8, 10, 12]),
    is_complex=st.booleans(),
)
def test_samples_in_pieces_equal_the_whole(cases, form, seed, channels, bits, is_complex):
    """Windows over several chunks, cut anywhere, give the same bits as one chunk; nobody has to gather them."""
    rng = np.random.default_rng(seed)
    loss = float(rng.choice([0.0, 0.1]))
    case = cases.make(seed, channels=channels, taps=4, bits=bits, complex_input=is_complex, spectra=128, loss=loss)
    chunk, tested = case.chunk, cases.form(case.config, form)
    tested.set_gains(case.gains)
    whole = tested.process(chunk, case.first, case.spectra, case.delays, Blocks())
    packets = chunk.data.shape[1]
    at = sorted({0, packets, *rng.integers(1, packets + 1, 3).tolist()})
    apart = [cut(chunk, a, b) for a, b in itertools.pairwise(at)]
    window = SampleWindow(tuple(apart))
    assert (window.samples, window.end, window.inputs) == (chunk.samples, chunk.end, chunk.inputs)
    got = tested.process(window, case.first, case.spectra, case.delays, Blocks())
    assert np.array_equal(got.valid, whole.valid) and (loss or got.valid.any())
    assert np.array_equal(got.data, whole.data) and np.array_equal(got.saturated, whole.saturated)
    assert np.array_equal(got.input_power, whole.input_power)
    if len(apart) > 1:
        with pytest.raises(ValueError, match="follow one another"):
            tested.process(SampleWindow(tuple(apart[::-1])), case.first, case.spectra, case.delays, Blocks())


@pytest.mark.parametrize("bits", [8, 32])
def test_threads_change_nothing(cases, bits):
    """Not the last bit of the power of floats, either: files are the same wherever they are made."""
    seed = int(np.random.default_rng().integers(2**63))
    found = []
    for threads in (1, 3, 8):
        case = cases.make(seed, channels=1024, taps=4, bits=bits, spectra=512, loss=2, threads=threads)
        channelizer = cases.form(case.config, "cpu")
        found.append(channelizer.process(case.chunk, case.first, case.spectra, case.delays, Blocks()))
    for other in found[1:]:
        for name in ("data", "valid", "saturated", "input_power", "input_samples"):
            np.testing.assert_array_equal(getattr(other, name), getattr(found[0], name), err_msg=name)
