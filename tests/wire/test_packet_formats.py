"""Every shipped format against packets written here with struct, from what is published about it."""

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fresh
from heap_formats import PLAIN
from ryle.wire.build import build
from ryle.wire.description import Format, terms
from ryle.wire.packets import Parser, Reason
from ryle.wire.vdif import Header, decode

SHORT = """
title = "t"
source = "s"
header = { bytes = 1, field = [{ name = "n", byte = 0, bytes = 1, means = "m" }] }
payload = { order = ["element"], size = { element = 1 } }
sample = { bits = 8, complex = false, code = "unsigned" }
timestamp = { unit = "packets", count = { n = 3 }, step = 3 }
"""


def nibbles(real, imag, offset=0):
    """One byte a complex sample: real part in the high nibble."""
    return bytes(((r + offset) & 15) << 4 | (i + offset) & 15 for r, i in zip(real, imag, strict=True))


def four_bit(rng, *shape):
    """Random 4-bit samples as (re, im) pairs, all codes among them, and their bytes in the order given."""
    values = rng.integers(-8, 8, (*shape, 2))
    values.reshape(-1, 2)[:16] = [(k - 8, 7 - k) for k in range(16)]
    flat = values.reshape(-1, 2)
    return values, nibbles(flat[:, 0].tolist(), flat[:, 1].tolist())


def paper_psa128(rng):
    mcnt, fid, xid = int(rng.integers(1 << 48)), int(rng.integers(256)), int(rng.integers(256))
    x, payload = four_bit(rng, 16, 64, 8)  # time, channel, input
    packet = struct.pack(">Q", mcnt << 16 | fid << 8 | xid) + payload
    want = {"mcnt": mcnt, "fid": fid, "xid": xid}
    return packet, want, 16 * mcnt, {"input": 8 * fid, "channel": 64 * xid}, np.einsum("tcip->ctip", x)


def paper_psa256(rng):
    mcnt, fid, xid = int(rng.integers(1 << 48)), int(rng.integers(256)), int(rng.integers(256))
    x = rng.integers(0, 256, (8, 32, 32))
    packet = struct.pack(">Q", mcnt << 16 | fid << 8 | xid) + bytes(x.reshape(-1).tolist()) + bytes(8)  # with a CRC
    want = {"mcnt": mcnt, "fid": fid, "xid": xid}
    return packet, want, 8 * mcnt, {"input": 32 * fid}, np.einsum("tci->cti", x)


def hera_snap(rng):
    seq, chan, ant = int(rng.integers(1 << 35)), int(rng.integers(1 << 13)), int(rng.integers(1 << 16))
    x, payload = four_bit(rng, 3, 384, 2, 2)  # antenna, channel, time, pol
    packet = struct.pack(">Q", seq << 29 | chan << 16 | ant) + payload
    want = {"seq": seq, "chan": chan, "ant": ant}
    return packet, want, seq, {"antenna": ant, "channel": chan}, np.einsum("actpx->ctapx", x)


def lwa_snap2(rng):
    seq, chan0, pol0, nchan, npol = int(rng.integers(1 << 62)), 96, 128, 96, 64
    x, payload = four_bit(rng, nchan, npol)
    packet = struct.pack(">QIHHHHIII", seq, 1_700_000_000, npol, 704, nchan, 192, 1, chan0, pol0) + payload
    want = {"seq": seq, "sync_time": 1_700_000_000, "npol": npol, "npol_tot": 704, "nchan": nchan, "nchan_tot": 192}
    return packet, want | {"chan0": chan0, "pol0": pol0}, seq, {"channel": chan0, "input": pol0}, x


def ata_v1(rng):
    seq, chan, ant, version = (int(rng.integers(1 << n)) for n in (38, 12, 6, 7))
    x, payload = four_bit(rng, 16, 256, 2)  # time, channel, pol
    packet = struct.pack(">Q", 1 << 63 | version << 56 | seq << 18 | chan << 6 | ant) + payload
    want = {"mode": 1, "version": version, "seq": seq, "chan": chan, "ant": ant}
    return packet, want, seq, {"antenna": ant, "channel": chan}, np.einsum("tcpx->ctpx", x)


def ata_v2(rng):
    t, chan, feng = int(rng.integers(1 << 62)), int(rng.integers(1 << 16)), int(rng.integers(1 << 16))
    x, payload = four_bit(rng, 96, 16, 2)  # channel, time, pol
    packet = struct.pack(">BBHHHQ", 2, 3, 96, chan, feng, t) + payload
    want = {"version": 2, "type": 3, "n_chans": 96, "chan": chan, "feng_id": feng, "timestamp": t}
    return packet, want, t, {"antenna": feng, "channel": chan}, x


def chime_ice(rng):
    seq, link, slot, crate = int(rng.integers(1 << 48)), 5, 14, 1
    x = rng.integers(-8, 8, (2, 2048, 2))
    flat = x.reshape(-1, 2).tolist()
    stream = crate << 8 | slot << 4 | link
    header = struct.pack("<HHIHHI", 0xCF, stream, 0, seq >> 32, 0, seq & 0xFFFFFFFF)
    packet = header + nibbles(*zip(*flat, strict=True), offset=8) + bytes(774)
    assert len(packet) == 4928 - 14 - 20 - 8
    want = {"link": link, "slot": slot, "crate": crate, "seq_high": seq >> 32, "seq_low": seq & 0xFFFFFFFF}
    return packet, want, seq, {}, x


def mwax(rng):
    gps, subsec, rf, channel = int(rng.integers(1 << 32)), int(rng.integers(625)), int(rng.integers(512)), 109
    x = rng.integers(-128, 128, (2048, 2))
    samples = struct.pack("4096b", *x.reshape(-1).tolist())
    packet = struct.pack(">BBHIHBBHH", 0x20, channel, rf, gps, subsec, 0, 7, 4242, 0) + samples
    want = {"packet_type": 0x20, "freq_channel": channel, "rf_input": rf, "gps_time": gps, "subsec_time": subsec}
    return packet, want, (gps * 625 + subsec) * 2048, {"input": rf, "channel": channel}, x


def vdif(rng):
    seconds, frame, thread, station = int(rng.integers(1 << 30)), int(rng.integers(2000)), 3, 0x4162
    codes = rng.integers(0, 4, 32000).tolist()
    words = [sum(c << 2 * k for k, c in enumerate(codes[i : i + 16])) for i in range(0, 32000, 16)]
    header = struct.pack(
        "<8I", seconds, 46 << 24 | frame, 1 << 29 | 8032 // 8, 1 << 26 | thread << 16 | station, 0, 0, 0, 0
    )
    packet = header + struct.pack("<2000I", *words)
    want = {"seconds": seconds, "epoch": 46, "frame": frame, "thread": thread, "station": station, "version": 1}
    x = np.array([(-3, -1, 1, 3)[c] for c in codes])
    return packet, want, seconds * 64_000_000 + frame * 32000, {"antenna": station, "input": 2 * station + thread}, x


def vdif_vtp(rng):
    packet, want, *rest = vdif(rng)
    sequence = int(rng.integers(1 << 63))
    return struct.pack("<Q", sequence) + packet, want | {"sequence": sequence}, *rest


def alma_like(rng):
    time, antenna, band, pol = int(rng.integers(1 << 62)), int(rng.integers(72)), int(rng.integers(1 << 16)), 1
    x = rng.integers(-128, 128, 8192)
    packet = struct.pack(">QHHBB", time, antenna, band, pol, 1) + struct.pack("8192b", *x.tolist())
    assert len(packet) + 14 + 20 + 8 == 56 + 8192  # behind Ethernet's, IP's and UDP's headers
    want = {"timestamp": time, "antenna": antenna, "band": band, "pol": pol, "version": 1}
    return packet, want, time, {"antenna": antenna, "input": 2 * antenna + pol}, x


def ryle_rows(rng):
    antenna, channel, block = int(rng.integers(1 << 32)), int(rng.integers(1 << 32)), int(rng.integers(1 << 48))
    valid = [int(word) for word in rng.integers(0, 1 << 63, 2)]
    x = rng.integers(-128, 128, (5, 2, 64, 2))  # channel, pol, spectrum
    payload = b""
    for row in x.reshape(10, 4, 16, 2):
        for sixteen in row:
            payload += struct.pack("16b", *sixteen[:, 0].tolist()) + struct.pack("16b", *sixteen[:, 1].tolist())
    packet = struct.pack(">HHIIIQQQ24x", 1, 2, 5, antenna, channel, block, *valid) + payload
    want = {"version": 1, "pols": 2, "channels": 5, "antenna": antenna, "channel": channel, "block": block}
    want |= {"valid_0": valid[0], "valid_1": valid[1]}
    return packet, want, 64 * block, {"antenna": antenna, "channel": channel}, np.einsum("cptx->ctpx", x)


def ryle_statistics(rng):
    interval, one_input, level = int(rng.integers(1 << 48)), int(rng.integers(1 << 32)), 256 * int(rng.integers(5))
    numbers = [int(word) for word in rng.integers(0, 1 << 63, 4)]
    counts = rng.integers(0, 1 << 31, 256)
    header = struct.pack(">HHII4xQQQQQ8x", 1, 1025, one_input, level, interval, *numbers)
    packet = header + struct.pack(">256I", *counts)
    want = {"version": 1, "levels": 1025, "input": one_input, "level": level, "interval": interval}
    want |= dict(zip(("samples", "power", "values", "saturated"), numbers, strict=True))
    return packet, want, interval, {"input": one_input}, counts


def counter(size):
    def packets(rng):
        n, filling = int(rng.integers(1 << 62)), rng.integers(0, 256, size - 8)
        return struct.pack(">Q", n) + bytes(filling.tolist()), {"counter": n}, n, {}, filling

    return packets


GOLDEN = {
    "alma_like": alma_like,
    "paper_psa128": paper_psa128,
    "paper_psa256": paper_psa256,
    "hera_snap": hera_snap,
    "lwa_snap2": lwa_snap2,
    "ata_v1": ata_v1,
    "ata_v2": ata_v2,
    "chime_ice": chime_ice,
    "mwax": mwax,
    "vdif": vdif,
    "vdif_vtp": vdif_vtp,
    "ryle_rows": ryle_rows,
    "ryle_statistics": ryle_statistics,
    "counter_8192": counter(8192),
    "counter_8960": counter(8960),
}


def test_every_shipped_format_has_golden_packets():
    assert sorted(GOLDEN) == PLAIN


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_packets(name):
    rng = fresh.rng()
    made = [GOLDEN[name](rng) for _ in range(3)]
    format = Format.load(name)
    for packet, want, time, place, samples in made:
        parser = Parser(format)
        fields = parser.parse([packet])
        assert fields.valid.tolist() == [True], fields.explain(0)
        assert {key: int(fields.header[key][0]) for key in want} == want
        assert fields.timestamp.tolist() == [time]
        got = {"antenna": fields.antenna[0], "input": fields.input[0], "channel": fields.channel[0]}
        assert got == {"antenna": -1, "input": -1, "channel": -1} | place
        integers = parser.decode([packet], integers=True)
        np.testing.assert_array_equal(integers[0], samples)
        assert integers.shape[1 : 1 + len(format.axes)] == parser.shape(fields.header[0])
        values = parser.decode([packet])
        if format.sample.complex:
            assert values.dtype == np.complex64
            np.testing.assert_array_equal(values[0], samples[..., 0] + 1j * samples[..., 1])
        else:
            assert values.dtype == (np.float32 if format.sample.bits <= 16 else np.float64)
            np.testing.assert_array_equal(values[0], samples)
        header = {key: int(fields.header[key][0]) for key in format.fields}
        again = build(format, header, integers[0])
        trailer = format.payload.trailer_bytes[0]
        part = slice(format.header.bytes, len(again) - trailer)
        assert again[part] == packet[part] and parser.parse([again]).header.tolist() == fields.header.tolist()
        if format.sample.complex:
            assert build(format, header, values[0]) == again


@pytest.mark.parametrize("name", GOLDEN)
def test_three_ways_of_handing_packets_over(name):
    rng = fresh.rng()
    packets = [GOLDEN[name](rng)[0] for _ in range(3)]
    format = Format.load(name)
    spaced = np.zeros((3, len(packets[0]) + 5), np.uint8)
    rows = spaced[:, 2:-3]
    rows[:] = np.frombuffer(b"".join(packets), np.uint8).reshape(3, -1)
    starts = np.arange(3) * spaced.shape[1] + 2
    lengths = np.full(3, rows.shape[1])
    one, two = Parser(format).parse(packets), Parser(format).parse(rows)
    three = Parser(format).parse(spaced.reshape(-1), starts, lengths)
    for other in (two, three):
        assert other.header.tolist() == one.header.tolist()
        assert other.timestamp.tolist() == one.timestamp.tolist() and other.valid.all()
    parser = Parser(format)
    np.testing.assert_array_equal(parser.decode(rows), parser.decode(packets))


@pytest.mark.parametrize("name", GOLDEN)
def test_lengths_and_fields_are_checked(name):
    packet = GOLDEN[name](fresh.rng())[0]
    format = Format.load(name)
    parser = Parser(format)
    header = format.header.bytes
    fields = parser.parse([packet + b"\0", packet[:-1], packet[:header], packet[: header - 1], b""])
    reasons = [Reason.LENGTH, Reason.LENGTH, Reason.LENGTH, Reason.SHORT, Reason.SHORT]
    assert fields.reason.tolist() == reasons and not fields.valid.any()
    assert fields.timestamp.tolist() == [0] * 5 and (fields.channel == -1).all() and (fields.input == -1).all()
    assert all(fields.explain(i) for i in range(5))
    with pytest.raises(ValueError, match=r"packet [01] is not"):
        parser.decode([packet, packet[:-1]] if format.fixed else [packet[:-1]])
    for i, field in enumerate(format.header.field):
        if field.equals is None and field.max is None:
            continue
        header = {n: int(v) for n, v in zip(format.fields, Parser(format).parse([packet]).header[0], strict=True)}
        bad = header | {field.name: field.high + 1 if field.high + 1 < 1 << field.width else field.low - 1}
        fields = parser.parse([build(format, bad, packet[format.header.bytes :])])
        assert fields.reason.tolist() == [Reason.FIELD] and format.header.field[i].name in fields.explain(0)


@pytest.mark.parametrize("name", GOLDEN)
def test_every_counter_wraps(name):
    """Packets around the wrap keep counting; late ones fall back before it; 64-bit counters end instead."""
    format = Format.load(name)
    packet = GOLDEN[name](fresh.rng())[0]
    parser = Parser(format)
    base = {n: int(v) for n, v in zip(format.fields, parser.parse([packet]).header[0], strict=True)}
    samples = parser.decode([packet], integers=True)[0]
    counted = sorted(terms(format.timestamp.count).items(), key=lambda term: -term[1])

    def at(count):
        fields, rest = dict(base), count % format.period
        for field, factor in counted:
            fields[field], rest = divmod(rest, factor)
        assert rest == 0
        return build(format, fields, samples)

    step = format.timestamp.step
    parser.start_at(None)
    if format.period >= 1 << 63:
        last = (1 << 63) - 1
        fields = parser.parse([at(last), at(last + 1), at((1 << 64) - 1)])
        assert fields.reason.tolist() == [Reason.VALID, Reason.TIMESTAMP, Reason.TIMESTAMP]
        assert fields.timestamp[0] == last
        return
    end = format.period
    times = [end - 2 * step, end - step, end, end + 2 * step, end - 3 * step, end + step, end + 3 * step]
    fields = parser.parse([at(t) for t in times])
    assert fields.valid.all() and fields.timestamp.tolist() == times
    far = 5 * end + 7 * step  # another lap
    parser.start_at(far)
    assert parser.parse([at(far + step), at(far - step)]).timestamp.tolist() == [far + step, far - step]


@given(first=st.integers(0, 255), hops=st.lists(st.integers(-128, 127), max_size=60), batch=st.integers(1, 7))
def test_timestamps_are_the_nearest(first, hops, batch):
    """Up to half a period back and less than half ahead of the packet before: the count goes on, over any laps."""
    format = Format.parse(SHORT)
    times = [3 * int(t) for t in np.cumsum([first, *hops])]
    packets = [bytes([t // 3 % 256, 0]) for t in times]
    parser = Parser(format)
    got = [t for i in range(0, len(packets), batch) for t in parser.parse(packets[i : i + batch]).timestamp.tolist()]
    assert got == times and format.period == 768


def test_counts_that_leave_63_bits_are_refused():
    parser = Parser(Format.parse(SHORT))
    lap = ((1 << 63) - 1) // 768 * 768  # the last one, cut short after 511
    parser.start_at(lap)
    fields = parser.parse([bytes([n, 0]) for n in (120, 170, 171, 160)])
    assert fields.timestamp.tolist() == [lap + 360, lap + 510, 0, lap + 480]
    assert fields.reason.tolist() == [0, 0, Reason.TIMESTAMP, 0]


def test_invalid_packets_do_not_move_the_clock():
    format = Format.load("paper_psa128")
    good = [struct.pack(">Q", (m % (1 << 48)) << 16) + bytes(8192) for m in ((1 << 48) - 1, 1 << 48)]
    bad = struct.pack(">Q", 1 << 62) + bytes(8191)
    fields = Parser(format).parse([good[0], bad, good[1]])
    assert fields.timestamp.tolist() == [16 * ((1 << 48) - 1), 0, 16 << 48]


def test_vdif_agrees_with_the_reader_of_recordings():
    packet = GOLDEN["vdif"](fresh.rng())[0]
    parser = Parser(Format.load("vdif"))
    fields = parser.parse([packet]).header
    header = Header.unpack(packet)
    shared = [name for name in parser.format.fields if hasattr(header, name)]
    assert len(shared) == 12 and {n: int(fields[n][0]) for n in shared} == {n: getattr(header, n) for n in shared}
    levels = decode(packet[32:], header)[:, 0]
    np.testing.assert_array_equal(np.sign(levels) * np.where(abs(levels) > 1, 3, 1), parser.decode([packet])[0])


def test_stated_length():
    text = (
        'title="t"\nsource="s"\nheader.bytes=2\n'
        '[[header.field]]\nname="n"\nbyte=0\nbytes=2\nmeans="payload bytes"\n'
        '[payload]\norder=["time"]\nsize={time=4}\ntrailer_bytes=[0, 4]\n[sample]\nbits=8\ncomplex=false\n'
        'code="unsigned"\n[timestamp]\nunit="packets"\ncount={n=1}\nstep=1\n[validity]\nlength={n=1, add=2}\n'
    )
    parser = Parser(Format.parse(text))
    fields = parser.parse([b"\0\4abcd", b"\0\4abcd....", b"\0\10abcd....", b"\0\10abcd"])
    assert fields.reason.tolist() == [0, Reason.STATED_LENGTH, 0, Reason.STATED_LENGTH]
    assert fields.explain(1) == "the header says 6 bytes"


def test_build_refuses_what_does_not_fit():
    format = Format.load("paper_psa128")
    zeros = np.zeros((64, 16, 8), np.complex64)
    with pytest.raises(ValueError, match="no field mcount"):
        build(format, {"mcount": 1}, zeros)
    with pytest.raises(ValueError, match="allowed are 0 to 255"):
        build(format, {"fid": 256}, zeros)
    with pytest.raises(ValueError, match="quantize"):
        build(format, {}, zeros + 0.5)
    with pytest.raises(ValueError, match="quantize"):
        build(format, {}, zeros + 8)
    with pytest.raises(ValueError, match="do not fit"):
        build(format, {}, zeros[:1])


def test_buffers_are_checked():
    parser = Parser(Format.load("mwax"))
    buffer = np.zeros(100, np.uint8)
    for start, length in ((-1, 5), (0, 101), (101, 0), (96, 5), (5, -1), (1 << 62, 1 << 62)):
        with pytest.raises(IndexError, match="beyond the buffer"):
            parser.parse(buffer, np.array([start]), np.array([length]))
    with pytest.raises(ValueError, match="give both"):
        parser.parse(buffer)
