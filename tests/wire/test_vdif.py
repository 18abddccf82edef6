"""VDIF frames: against the baseband package, and against the plain decoder."""

import io

import baseband.data
import numpy as np
import pytest
from baseband import vdif as oracle
from hypothesis import given, settings
from hypothesis import strategies as st

import fresh
from ryle.wire import vdif, vdif_write
from ryle.wire.vdif_frames import FrameScanner, map_file

SAMPLES = ["SAMPLE_VDIF", "SAMPLE_VLBI_VDIF", "SAMPLE_MWA_VDIF", "SAMPLE_AROCHIME_VDIF", "SAMPLE_BPS1_VDIF"]
BASEBAND_NAMES = {
    "invalid": "invalid_data",
    "legacy": "legacy_mode",
    "epoch": "ref_epoch",
    "frame": "frame_nr",
    "version": "vdif_version",
    "log2_channels": "lg2_nchan",
    "length8": "frame_length",
    "bits_minus_1": "bits_per_sample",
    "thread": "thread_id",
    "station": "station_id",
}


def decode_row(header, file, frames, channel, firsts=None, counts=None):
    """All samples of one channel by the fast decoder, as native float32 of shape (sample, part)."""
    frames = np.asarray(frames, np.int64)
    firsts = np.zeros(len(frames), np.int64) if firsts is None else firsts
    counts = np.full(len(frames), header.samples, np.int64) if counts is None else counts
    row = np.full(int(counts.sum()) * header.parts * 4, 0xA5, np.uint8)
    destinations = np.cumsum(counts) - counts
    vdif.Decoder(header).into(row, file, frames, firsts, counts, destinations, channel)
    return row.view(">f4").astype(np.float32).reshape(-1, header.parts)


def parts(values):
    """(sample, part) of real or complex values."""
    return np.ascontiguousarray(values).view(np.float32).reshape(len(values), -1)


@pytest.mark.parametrize("name", SAMPLES)
def test_real_recordings_decode_as_baseband_does(name):
    path = getattr(baseband.data, name)
    _, data = map_file(path)
    frames = FrameScanner(data, path).read(1000)
    assert len(frames) * FrameScanner(data, path).header.frame_bytes == len(data)
    with open(path, "rb") as file:
        for index, offset in enumerate(frames.offset):
            file.seek(offset)
            frame = oracle.VDIFFrame.fromfile(file)
            header = vdif.Header.unpack(data[offset : offset + 32])
            for field in vdif.FIELDS:
                assert getattr(header, field.name) == frame.header[BASEBAND_NAMES.get(field.name, field.name)]
            assert frames.thread[index] == header.thread == frame.header["thread_id"]
            assert header.edv == (None if header.legacy else frame.header.edv)
            if frame.header.edv in (1, 3):
                assert header.sample_rate == frame.header.sample_rate.to_value("Hz")
            assert header.pack() == data[offset : offset + header.header_bytes].tobytes()
            payload = data[offset + header.header_bytes : offset + header.frame_bytes]
            expected = frame.payload.data
            assert np.array_equal(vdif.decode(payload, header), expected)
            for channel in range(0, header.channels, max(1, header.channels // 16)):
                assert np.array_equal(decode_row(header, data, [offset], channel), parts(expected[:, channel]))


layouts = st.one_of(
    st.tuples(st.sampled_from([1, 2, 4, 8, 16, 32]), st.booleans(), st.integers(0, 5)),
    st.tuples(st.integers(1, 32), st.booleans(), st.just(0)),
)


@settings(max_examples=150, deadline=None)
@given(layout=layouts, legacy=st.booleans(), seed=st.integers(0, 2**32 - 1), data=st.data())
def test_round_trip_of_codes_at_every_width(layout, legacy, seed, data):
    bits, complex_data, log2_channels = layout
    template = vdif.Header(
        legacy=int(legacy),
        log2_channels=log2_channels,
        complex_data=int(complex_data),
        bits_minus_1=bits - 1,
        station=0x5259,
        seconds=17,
        epoch=50,
        extended=(7 << 24 | 12345, 2**32 - 1, 0, 3),
    )
    per_word = vdif.elements_per_word(bits, complex_data)
    words = data.draw(st.integers(1, 9)) * 2 * template.channels * template.parts
    frame_samples = words * per_word // (template.channels * template.parts)
    threads = data.draw(st.lists(st.integers(0, 1023), min_size=1, max_size=3, unique=True))
    rng = np.random.default_rng(seed)
    shape = (len(threads), 3 * frame_samples, template.channels, template.parts)
    codes = rng.integers(0, 2**bits, shape, dtype=np.uint64).astype(np.uint32)
    file = io.BytesIO()
    vdif_write.Writer(file, template, 2 * frame_samples, frame_samples, threads).write_codes(codes)
    written = np.frombuffer(file.getvalue(), np.uint8)
    scanner = FrameScanner(written)
    frames = scanner.read(100)
    header = scanner.header
    assert header.samples == frame_samples and len(frames) == 3 * len(threads)
    assert header.extended == ((0, 0, 0, 0) if legacy else template.extended)
    assert frames.thread.tolist() == threads * 3
    assert frames.seconds[:: len(threads)].tolist() == [17, 17, 18]
    assert frames.frame[:: len(threads)].tolist() == [0, 1, 0]
    if bits <= 8:
        values = vdif.levels(bits)[codes]
    else:
        values = (codes.astype(np.int64) - 2 ** (bits - 1)).astype(np.float32)
    for index, thread in enumerate(threads):
        mine = frames.offset[frames.thread == thread]
        channel = int(rng.integers(template.channels))
        assert np.array_equal(decode_row(header, written, mine, channel), values[index, :, channel])
        firsts = rng.integers(0, frame_samples, 3)
        counts = np.array([rng.integers(0, frame_samples - first + 1) for first in firsts], np.int64)
        partial = decode_row(header, written, mine, channel, firsts, counts)
        at = np.concatenate(
            [f * frame_samples + a + np.arange(n) for f, (a, n) in enumerate(zip(firsts, counts, strict=True))]
        ).astype(int)
        assert np.array_equal(partial, values[index, at, channel])
        plain = [vdif.decode(written[o + header.header_bytes : o + header.frame_bytes], header) for o in mine]
        assert np.array_equal(parts(np.concatenate(plain)[:, channel]), values[index, :, channel])


@settings(max_examples=40, deadline=None)
@given(
    bits=st.sampled_from([1, 2, 4, 8]),
    complex_data=st.booleans(),
    log2_channels=st.integers(0, 4),
    threads=st.lists(st.integers(0, 1023), min_size=1, max_size=3, unique=True),
    seed=st.integers(0, 2**32 - 1),
)
def test_baseband_reads_what_we_write(bits, complex_data, log2_channels, threads, seed):
    template = vdif.Header(
        log2_channels=log2_channels, complex_data=int(complex_data), bits_minus_1=bits - 1, station=0x5259, epoch=50
    )
    rng = np.random.default_rng(seed)
    shape = (len(threads), 128, template.channels)
    samples = rng.normal(0, 2.2, shape)
    if complex_data:
        samples = samples + 1j * rng.normal(0, 2.2, shape)
    file = io.BytesIO()
    vdif_write.Writer(file, template, 640, 64, threads).write(samples)
    file.seek(0)
    number = 0
    for start in (0, 64):
        for index, thread in enumerate(threads):
            frame = oracle.VDIFFrame.fromfile(file)
            assert frame.header["thread_id"] == thread and frame.header["frame_nr"] == start // 64
            ours = samples[index, start : start + 64]
            # Compare with what baseband itself would have written: samples on a threshold aside, code for code.
            theirs = oracle.VDIFPayload.fromdata(
                ours.astype(np.complex64 if complex_data else np.float32), frame.header
            )
            assert np.count_nonzero(frame.payload.data != theirs.data) <= 1 + 0.01 * theirs.data.size
            number += 1
    assert file.read() == b"" and number == 2 * len(threads)


@pytest.mark.parametrize("bits", [1, 2])
def test_mark5b_codes(bits):
    from baseband.mark5b import Mark5BPayload

    rng = fresh.rng()
    words = rng.integers(0, 2**32, 2500, dtype=np.uint32)
    header = vdif.Header(bits_minus_1=bits - 1, length8=(10000 + 32) // 8, extended=(vdif.MARK5B << 24, 0, 0, 0))
    expected = Mark5BPayload(words, sample_shape=(1,), bps=bits).data
    assert np.array_equal(vdif.decode(words.tobytes(), header), expected)


def test_quantize_and_levels_are_inverse():
    for bits in range(1, 9):
        codes = np.arange(2**bits)
        assert np.array_equal(vdif_write.quantize(vdif.levels(bits), bits), codes)
        assert np.array_equal(vdif_write.quantize(np.array([-1e9, 1e9]), bits), [0, 2**bits - 1])


def test_bad_headers_are_refused_with_reasons():
    with pytest.raises(ValueError, match="thread = 1024: allowed are 0 to 1023"):
        vdif.Header(thread=1024).pack()
    with pytest.raises(ValueError, match="no room for data"):
        vdif.Decoder(vdif.Header(length8=4))
    with pytest.raises(ValueError, match="several channels need"):
        vdif.Decoder(vdif.Header(length8=100, log2_channels=3, bits_minus_1=4))
    with pytest.raises(ValueError, match="whole number of frames"):
        vdif_write.Writer(io.BytesIO(), vdif.Header(), 1000, 64)
    with pytest.raises(ValueError, match="8-byte units"):
        vdif_write.Writer(io.BytesIO(), vdif.Header(), 1000, 50)
    with pytest.raises(ValueError, match="8 channels of 5 bits"):
        FrameScanner(map_file(baseband.data.SAMPLE_DRAO_CORRUPT)[1])


def test_decoder_refuses_to_leave_its_arrays():
    header = vdif.Header(length8=8)
    file, row, one = np.zeros(64, np.uint8), np.zeros(128 * 4, np.uint8), np.ones(1, np.int64)
    decoder = vdif.Decoder(header)
    decoder.into(row, file, 0 * one, 0 * one, 128 * one, 0 * one)
    for frames, firsts, counts, destinations in ((1, 0, 1, 0), (0, 1, 128, 0), (0, 0, 128, 1), (-40, 0, 1, 0)):
        with pytest.raises(IndexError):
            decoder.into(row, file, frames * one, firsts * one, counts * one, destinations * one)


def recording(frames=40, threads=(0, 1), **fields):
    """A sound 2-bit file: its bytes, frame length in bytes, and codes."""
    rng = fresh.rng()
    codes = rng.integers(0, 4, (len(threads), 256 * frames, 1, 1)).astype(np.uint32)
    file = io.BytesIO()
    writer = vdif_write.Writer(file, vdif.Header(station=7, epoch=40, **fields), 2560, 256, threads)
    writer.write_codes(codes)
    return file.getvalue(), writer.header.frame_bytes


def scan(data, batch=7):
    scanner = FrameScanner(np.frombuffer(data, np.uint8))
    found = []
    while len(part := scanner.read(batch)):
        found += part.offset.tolist()
    return scanner, found


@pytest.mark.parametrize("legacy", [0, 1])
def test_damage_is_skipped_and_counted(legacy):
    data, length = recording(legacy=legacy)
    sound = list(range(0, len(data), length))
    cut = 10 * length + 33  # frame 10 loses its tail and everything up to the middle of frame 11 is gone
    scanner, found = scan(data[:cut] + data[11 * length + 50 :])
    expected = sound[:10] + [o - (11 * length + 50 - cut) for o in sound[12:]]
    assert found == expected
    assert (scanner.malformed, scanner.truncated) == (1, 0)
    assert scanner.skipped_bytes + len(found) * length == len(data) - (11 * length + 50 - cut)
    scanner, found = scan(data[:cut] + b"junk!" * 11 + data[11 * length :])  # inserted and lost
    assert found == sound[:10] + [o - length + 33 + 55 for o in sound[11:]] and scanner.malformed == 1
    scanner, found = scan(b"\x01\x02\x03" + data)  # leading junk of odd length
    assert found == [o + 3 for o in sound] and (scanner.malformed, scanner.skipped_bytes) == (1, 3)
    scanner, found = scan(data[: -length // 2])
    assert found == sound[:-1] and (scanner.malformed, scanner.truncated) == (0, 1)
    broken = bytearray(data)
    broken[5 * length + 8] ^= 1  # a wrong length
    scanner, found = scan(bytes(broken))
    assert found == sound[:5] + sound[6:] and (scanner.malformed, scanner.skipped_bytes) == (1, length)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_any_damage_ends_without_error_and_every_byte_is_accounted(seed):
    rng = np.random.default_rng(seed)
    data, length = recording(12)
    broken = bytearray(data)
    for _ in range(int(rng.integers(1, 6))):
        at, size = int(rng.integers(3 * length, len(broken))), int(rng.integers(1, 100))
        kind = rng.integers(3)
        if kind == 0:
            broken[at : at + size] = rng.bytes(size)
        elif kind == 1:
            del broken[at : at + size]
        else:
            broken[at:at] = rng.bytes(size)
    scanner, found = scan(bytes(broken))
    assert found[:2] == [0, length]
    rest = len(broken) - len(found) * length - scanner.skipped_bytes
    assert 0 <= rest < length + 1 and bool(rest) == bool(scanner.truncated)


def test_no_frames_at_all():
    for data in (b"x", bytes(1000), np.random.default_rng(1).bytes(100000)):
        with pytest.raises(ValueError, match="holds no VDIF frames"):
            FrameScanner(np.frombuffer(data, np.uint8))


def test_dense_damage_is_walked_in_time_proportional_to_the_file(tmp_path, monkeypatch):
    """Of a file whose every second frame is a byte too long, headers are looked at some times each, not once a frame."""
    frames = 3000
    with vdif_write.Writer(tmp_path / "a.vdif", vdif.Header(epoch=52), 8_000_000, 32) as writer:
        writer.write_codes(np.zeros((1, 32 * frames, 1, 1), np.uint32))
    one = (tmp_path / "a.vdif").stat().st_size // frames
    raw = (tmp_path / "a.vdif").read_bytes()
    odd = b"".join(raw[i * one : (i + 1) * one] + b"x" * (i % 2) for i in range(frames))
    looked = []
    sound = FrameScanner._sound
    monkeypatch.setattr(FrameScanner, "_sound", lambda s, words: looked.append(len(words)) or sound(s, words))
    scanner, found = FrameScanner(np.frombuffer(odd, np.uint8)), 0
    while len(part := scanner.read(1 << 16)):
        found += len(part)
    assert found >= frames // 2 and scanner.malformed >= frames // 2 - 1
    assert sum(looked) < 30 * frames
