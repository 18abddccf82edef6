"""VDIF files as sample chunks: alignment, gaps, order, and the account."""

from dataclasses import replace
from fractions import Fraction

import baseband.data
import numpy as np
import pytest
from baseband import vdif as oracle
from hypothesis import given, settings
from hypothesis import strategies as st

import fresh
from ryle.store.vdif_files import VdifInput, VdifSource
from ryle.wire.vdif import Header, levels
from ryle.wire.vdif_write import Writer

RATE = 64000
EPOCH = Header(epoch=40, seconds=1000, bits_minus_1=7, station=1)
SYNC = Fraction(1577836800 + 1000)  # 2020-01-01, start of epoch 40, plus the first second


def write(path, codes, frame_samples=320, threads=(0,), start_frame=0, lose=(), header=EPOCH, invalid=()):
    """Write codes (thread, sample, channel, part), leaving out some frames."""
    with Writer(path, replace(header, frame=start_frame), RATE, frame_samples, threads) as writer:
        for number, start in enumerate(range(0, codes.shape[1], frame_samples)):
            if number in lose:
                writer.skip(1)
            else:
                writer.write_codes(codes[:, start : start + frame_samples], invalid=number in invalid)
    return path


def collect(source, band=0):
    """All of a band's chunks joined: first time stamp, samples (input, sample[, part]), present (input, packet)."""
    chunks = [chunk for index, chunk in source if index == band]
    at = chunks[0].timestamp
    for chunk in chunks:
        assert chunk.timestamp == at and chunk.data.flags.c_contiguous
        at = chunk.end
    data = np.concatenate([chunk.data.reshape(chunk.inputs, -1) for chunk in chunks], axis=1)
    present = np.concatenate([chunk.present for chunk in chunks], axis=1)
    assert chunks[0].timestamp == source.start and at == source.stop
    return chunks[0].timestamp, data.view(">f4").astype(np.float32), present


def check(account):
    """Nothing is lost sight of."""
    a = account
    assert a.frames == a.placed + a.invalid + a.duplicate + a.late + a.outside + a.foreign + a.bad_time
    assert a.expected == a.placed + a.invalid + a.missing


def random_codes(rng, threads, samples, channels=1, parts=1):
    return rng.integers(0, 256, (threads, samples, channels, parts)).astype(np.uint32)


def test_real_recording_equals_baseband():
    inputs = [VdifInput(0, thread, 0, thread // 2, thread % 2) for thread in range(8)]
    with oracle.open(baseband.data.SAMPLE_VDIF, "rs") as file:
        expected = file.read()
    source = VdifSource(
        [baseband.data.SAMPLE_VDIF], inputs, 32_000_000, timestamp_of=lambda e, s: (s - 14363767) * 32_000_000
    )
    at, data, present = collect(source)
    assert at == 0 and present.shape == (8, 2) and present.all() and source.packet_samples == 20000
    assert np.array_equal(data, expected.T)
    check(source.accounts[0])
    assert source.bytes_done == source.bytes_total == 80512


def test_real_recording_of_many_complex_channels_is_one_band_a_channel():
    inputs = [VdifInput(0, t, c, t, 0, band=c) for c in range(0, 1024, 64) for t in (0, 1)]
    with oracle.open(baseband.data.SAMPLE_AROCHIME_VDIF, "rs", sample_rate=390625 * oracle_hz()) as file:
        expected = file.read()  # (sample, thread, channel)
    source = VdifSource(
        [baseband.data.SAMPLE_AROCHIME_VDIF],
        inputs,
        390625,
        timestamp_of=lambda e, s: (s - 514629935) * 390625 - 308109,
        packet_samples=1,
        chunk_samples=2,
    )
    bands = {}
    for band, chunk in source:
        assert chunk.data.shape[2] == 8
        bands.setdefault(band, []).append(chunk.data.reshape(2, -1).view(">f4").astype(np.float32).view(np.complex64))
        assert chunk.present.all()
    assert sorted(bands) == list(range(0, 1024, 64))
    for band, parts in bands.items():
        assert np.array_equal(np.concatenate(parts, axis=1), expected[:, :, band].T)


def oracle_hz():
    from astropy import units

    return units.Hz


def test_two_files_with_different_starts_frames_and_clocks(tmp_path):
    rng = fresh.rng()
    signal = rng.integers(0, 256, 40000).astype(np.uint32)
    # File b starts 9 of its frames (400 samples) late, and its clock reads 123.25 samples too little.
    a = write(tmp_path / "a", signal[None, :32000, None, None], 320)
    b = write(tmp_path / "b", signal[None, 3723:35723, None, None], 400, start_frame=9)
    inputs = [VdifInput(0, 0, 0, 0, 0), VdifInput(1, 0, 0, 1, 0)]
    offsets = [0, Fraction(12325, 100 * RATE)]
    source = VdifSource([a, b], inputs, RATE, SYNC, clock_offsets=offsets, packet_samples=100, chunk_samples=1700)
    at, data, present = collect(source)
    assert (at, source.stop) == (3800, 32000)  # b's first whole packet; a's end
    assert present.all()
    truth = levels(8)[signal[at : source.stop]]
    assert np.array_equal(data[0], truth) and np.array_equal(data[1], truth)
    assert source.residuals[0].tolist() == [0.0, 0.25]
    for account in source.accounts:
        check(account)
        assert account.missing == 0
    everything = VdifSource([a, b], inputs, RATE, SYNC, clock_offsets=offsets, packet_samples=100, overlap=False)
    at, data, present = collect(everything)
    assert (at, everything.stop) == (0, 35800)
    assert present[0].tolist() == [1] * 320 + [0] * 38
    assert present[1].tolist() == [0] * 38 + [1] * 319 + [0]
    assert not data[0, 32000:].any() and not data[1, :3800].any()  # what is missing is zero, never stale
    assert everything.accounts[0].missing == 12 and everything.accounts[1].missing == 11


def test_sync_time_between_samples_is_reported(tmp_path):
    codes = random_codes(fresh.rng(), 1, 6400)
    path = write(tmp_path / "a", codes)
    source = VdifSource([path], [VdifInput(0, 0, 0, 0, 0)], RATE, SYNC - Fraction(7, 10 * RATE), packet_samples=10)
    at, data, _ = collect(source)
    assert at == 10 and source.residuals[0][0] == pytest.approx(-0.3)
    assert np.array_equal(data[0], levels(8)[codes[0, 9:-1, 0, 0]])


def test_gaps_invalid_duplicate_and_unordered_frames(tmp_path):
    rng = fresh.rng()
    codes = random_codes(rng, 3, 320 * 60)
    path = write(tmp_path / "a", codes, threads=(5, 9, 700), lose=(10, 11, 30), invalid=(20,))
    frames = np.frombuffer(path.read_bytes(), np.uint8).reshape(57 * 3, -1)
    # Swap within about four frame times, as a recorder with several network queues does; add copies nearby.
    copies = rng.choice(57 * 3, 12, replace=False)
    order = np.concatenate([np.arange(57 * 3), copies])
    order = order[np.argsort(order + rng.uniform(0, 12, len(order)))]
    path.write_bytes(frames[order].tobytes())
    inputs = [VdifInput(0, 5, 0, 0, 0), VdifInput(0, 700, 0, 0, 1)]
    source = VdifSource([path], inputs, RATE, SYNC, packet_samples=320, chunk_samples=320 * 3, polarizations=2)
    _, data, present = collect(source)
    missing = [10, 11, 20, 30]
    expected = np.ones((2, 60), np.uint8)
    expected[:, missing] = 0
    assert np.array_equal(present, expected)
    truth = levels(8)[codes[[0, 2], :, 0, 0]].reshape(2, 60, 320)
    truth[:, missing] = 0
    assert np.array_equal(data.reshape(2, 60, 320), truth)
    account = source.accounts[0]
    check(account)
    foreign_copies = int((copies % 3 == 1).sum())
    assert account.foreign == 57 + foreign_copies
    assert (account.placed, account.invalid, account.missing) == (56 * 2, 2, 6)
    assert account.duplicate + account.late == 12 - foreign_copies
    assert account.frames == 57 * 3 + 12


@pytest.mark.parametrize("paused", [False, True])
def test_threads_in_blocks(tmp_path, paused):
    """Half a second of one thread, then of the other; and a thread that is away for longer than that."""
    codes = random_codes(fresh.rng(), 2, 320 * 1200)
    path = write(tmp_path / "a", codes, threads=(0, 1))
    frames = np.frombuffer(path.read_bytes(), np.uint8).reshape(12, 100, 2, -1).transpose(0, 2, 1, 3)
    frames = frames.reshape(24, 100, -1)
    if paused:
        frames = np.delete(frames, range(5, 18, 2), axis=0)
    path.write_bytes(frames.tobytes())
    inputs = [VdifInput(0, 0, 0, 0, 0), VdifInput(0, 1, 0, 1, 0)]
    source = VdifSource([path], inputs, RATE, SYNC, packet_samples=320, chunk_samples=3200)
    _, data, present = collect(source)
    expected = np.ones((2, 1200), np.uint8)
    if paused:
        expected[1, 200:900] = 0
    assert np.array_equal(present, expected)
    truth = levels(8)[codes[:, :, 0, 0]] * np.repeat(expected, 320, axis=1)
    assert np.array_equal(data, truth)
    check(source.accounts[0])
    assert source.accounts[0].late == 0 and source.accounts[0].missing == 700 * paused


def test_a_lone_damaged_time_stamp_moves_nothing(tmp_path):
    codes = random_codes(fresh.rng(), 1, 320 * 400)
    path = write(tmp_path / "a", codes)
    data = bytearray(path.read_bytes())
    length = 320 + 32
    data[50 * length + 3] ^= 0x20  # seconds, far into the future
    data[60 * length + 1] ^= 0x02  # seconds, into the past
    data[70 * length + 6] ^= 0x40  # frame number, beyond a second
    data[399 * length + 2] ^= 0x10  # and in the last frame
    path.write_bytes(data)
    source = VdifSource([path], [VdifInput(0, 0, 0, 0, 0)], RATE, SYNC, packet_samples=320, chunk_samples=3200)
    _, found, present = collect(source)
    assert np.flatnonzero(present[0] == 0).tolist() == [50, 60, 70] and present.shape[1] == 399
    keep = np.repeat(present[0], 320).astype(bool)
    assert np.array_equal(found[0][keep], levels(8)[codes[0, : 399 * 320, 0, 0]][keep])
    account = source.accounts[0]
    check(account)
    assert (account.bad_time, account.outside, account.missing) == (1, 3, 3)


def test_damaged_and_truncated_file(tmp_path):
    codes = random_codes(fresh.rng(), 1, 320 * 100)
    path = write(tmp_path / "a", codes)
    data, length = path.read_bytes(), 320 + 32
    cut = data[: 40 * length + 100] + data[43 * length + 9 : 70 * length] + b"noise" + data[70 * length : -50]
    path.write_bytes(cut)
    source = VdifSource([path], [VdifInput(0, 0, 0, 0, 0)], RATE, SYNC, packet_samples=320, chunk_samples=6400)
    _, found, present = collect(source)
    assert np.flatnonzero(present[0] == 0).tolist() == [40, 41, 42, 43, 69] and present.shape[1] == 99
    keep = np.repeat(present[0], 320).astype(bool)
    assert np.array_equal(found[0][keep], levels(8)[codes[0, : 99 * 320, 0, 0]][keep])
    account = source.accounts[0]
    check(account)
    assert (account.malformed, account.truncated, account.missing) == (2, 1, 5)
    assert account.frames * length + account.skipped_bytes == len(cut) - (length - 50)


@settings(max_examples=40, deadline=None)
@given(data=st.data(), seed=st.integers(0, 2**32 - 1))
def test_any_arrangement_against_a_sample_by_sample_model(tmp_path_factory, data, seed):
    rng = np.random.default_rng(seed)
    complex_data = data.draw(st.booleans())
    parts = 1 + complex_data
    bits = data.draw(st.sampled_from([1, 2, 4, 8, 16]))
    path = tmp_path_factory.mktemp("vdif")
    files, offsets, inputs, truth = [], [], [], {}
    for index in range(2):
        channels = data.draw(st.sampled_from([1, 2, 4]))
        threads = data.draw(st.lists(st.integers(0, 1023), min_size=1, max_size=2, unique=True))
        ns = data.draw(st.sampled_from([64, 320, 640]))
        count = int(rng.integers(8, 20)) * 640 // ns
        start = int(rng.integers(0, 5))
        header = replace(EPOCH, log2_channels=channels.bit_length() - 1, complex_data=int(complex_data))
        header = replace(header, bits_minus_1=bits - 1)
        codes = rng.integers(0, 2**bits, (len(threads), count * ns, channels, parts)).astype(np.uint32)
        lose = set(rng.choice(count, 3).tolist()) - {0, count - 1}
        files.append(write(path / str(index), codes, ns, threads, start, lose, header))
        shift = int(rng.integers(-900, 900))
        offsets.append(Fraction(shift, RATE))
        values = levels(bits)[codes] if bits <= 8 else (codes.astype(np.int64) - 2 ** (bits - 1)).astype(np.float32)
        valid = np.repeat([i not in lose for i in range(count)], ns)
        for t, thread in enumerate(threads):
            for channel in {0, channels - 1}:
                band = min(channel, 1)
                inputs.append(VdifInput(index, thread, channel, index, t, band))
                truth[band, index, t] = (start * ns + shift, values[t, :, channel], valid)
    packet = data.draw(st.sampled_from([1, 50, 64, 333]))
    chunk = data.draw(st.sampled_from([500, 3000, 10**6]))
    source = VdifSource(
        files, inputs, RATE, SYNC, clock_offsets=offsets, packet_samples=packet, overlap=data.draw(st.booleans()),
        chunk_samples=chunk, antennas=2, polarizations=2,
        reuse=data.draw(st.booleans()),
    )  # fmt: skip
    seen = set()
    for band, chunk in source:
        at = np.arange(chunk.timestamp, chunk.end)
        assert chunk.data.shape == (4, chunk.samples // packet, packet * 4 * parts)
        for row in range(4):
            found = chunk.data[row].reshape(-1).view(">f4").reshape(-1, packet, parts)
            key = (band, row // 2, row % 2)
            if key not in truth:
                assert not chunk.present[row].any() and not chunk.data[row].any()
                continue
            first, values, valid = truth[key]
            inside = (at >= first) & (at < first + len(values))
            index = np.where(inside, at - first, 0)
            whole = (inside & valid[index]).reshape(-1, packet).all(axis=1)
            assert np.array_equal(chunk.present[row], whole)
            expected = values[index].reshape(-1, packet, parts)
            assert np.array_equal(found[whole], expected[whole]) and not found[~whole].any()
            seen.add(key)
    assert seen == set(truth)
    for account in source.accounts:
        check(account)


def test_mistakes_are_named(tmp_path):
    codes = random_codes(fresh.rng(), 2, 3200, 2)
    header = replace(EPOCH, log2_channels=1)
    a = write(tmp_path / "a", codes, threads=(1, 4), header=header)
    far = write(tmp_path / "far", codes, threads=(1, 4), header=replace(header, seconds=5000))
    turned = write(tmp_path / "c", random_codes(fresh.rng(), 1, 3200, 1, 2), header=replace(EPOCH, complex_data=1))
    one = VdifInput(0, 1, 0, 0, 0)

    def make(files, inputs, rate=RATE, **more):
        return VdifSource(files, inputs, rate, SYNC, **more)

    with pytest.raises(ValueError, match=r"has threads \[1, 4\], not \[2\]"):
        make([a], [replace(one, thread=2)])
    with pytest.raises(ValueError, match="has channels 0 to 1, not 2"):
        make([a], [replace(one, channel=2)])
    with pytest.raises(ValueError, match="names file 1; there are 1"):
        make([a], [replace(one, file=1)])
    with pytest.raises(ValueError, match="is given twice"):
        make([a], [one, replace(one, thread=4)])
    with pytest.raises(ValueError, match="mixes real and complex"):
        make([a, turned], [one, VdifInput(1, 0, 0, 1, 0)])
    with pytest.raises(ValueError, match=r"(?s)no whole packet.*the inputs cover.*thread 1: 0 to 3200"):
        make([a, far], [one, replace(one, file=1, antenna=1)])
    with pytest.raises(ValueError, match="no whole number of frames"):
        make([a], [one], RATE + 1)
    with pytest.raises(ValueError, match="must be higher"):
        make([a], [one], 640)
    with pytest.raises(ValueError, match="2 clock offsets for 1 files"):
        make([a], [one], clock_offsets=[0, 0])
    (tmp_path / "empty").touch()
    with pytest.raises(ValueError, match="is empty"):
        make([tmp_path / "empty"], [one])
