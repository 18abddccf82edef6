"""Formats with items and heaps, against spead2 as the sender, `ryle.wire.spead.read`, and packets made by hand."""

import itertools
import struct

import numpy as np
import pytest
import spead2
import spead2.recv
import spead2.send

import fresh
from heap_formats import GIVEN, PLAIN, small
from ryle.config import ConfigError
from ryle.wire import spead
from ryle.wire.build import build, build_heap
from ryle.wire.description import Format, names
from ryle.wire.packets import ABSENT, Parser, Reason

SPEAD = ("meerkat_digitizer", "meerkat_f", "meerkat_x", "ryle_x")


def test_every_format_with_items_is_tested():
    assert sorted([*PLAIN, *GIVEN]) == names()


def immediate(item, value):
    return spead.immediate(item, np.array(value, ">u8"))


def packets_of(heap, packet_bytes=1472, cnt=5):
    return [bytes(p) for p in spead2.send.PacketGenerator(heap, cnt, packet_bytes)]


def heap_of(items, repeat=True):
    made = spead2.send.Heap(spead.FLAVOUR)
    made.repeat_pointers = repeat
    for item in items:
        made.add_item(item)
    return made


def sent(name, rng, time=3, tail=False, repeat=True, order=None, extra=()):
    """A heap as spead2 sends it; its fields, placement and samples in the order of `Format.axes`."""
    f = small(name)
    stamp = time * f.timestamp.step
    items = [immediate(spead.TIMESTAMP, stamp)]
    arrays = []
    if name == "meerkat_digitizer":
        x = rng.integers(-512, 512, 256)
        bits = "".join(f"{v & 1023:010b}" for v in x.tolist())
        items += [immediate(spead.DIGITISER_ID, 7), immediate(spead.STATUS, 3 << 32)]
        arrays = [spead.array(spead.ADC_SAMPLES, np.array([int(bits[i : i + 8], 2) for i in range(0, 2560, 8)], "u1"))]
        want = {"digitiser_id": 7, "status": 3 << 32}
    elif name == "meerkat_f":
        x = rng.integers(-128, 128, (8, 16, 2, 2)).astype(np.int8)
        items += [immediate(spead.FENG_ID, 2), immediate(spead.FREQUENCY, 24)]
        arrays = [spead.array(spead.FENG_RAW, x)]
        if tail:
            arrays.append(spead.array(spead.FENG_VALID, rng.integers(0, 256, (2, 2)).astype(np.uint8)))
        want = {"feng_id": 2, "frequency": 24, "feng_valid": 512 if tail else 0}
    elif name == "meerkat_x":
        x = rng.integers(-(2**31), 2**31, (4, 10, 2))
        items += [immediate(spead.FREQUENCY, 12)]
        arrays = [spead.array(spead.XENG_RAW, x.astype("<i4"))]
        want = {"frequency": 12}
    else:
        x = rng.integers(-(2**63), 2**63 - 1, (4, 10, 2))
        items += [immediate(spead.FREQUENCY, 12), immediate(spead.SPECTRA, 99)]
        counts = rng.integers(0, 2**32, (2, 10)).astype(">u4")
        arrays = [spead.array(spead.XENG_SUMS, x.astype(">i8")), spead.array(spead.XENG_COUNTS, counts)]
        want = {"frequency": 12, "spectra": 99}
    if order is not None:
        items = [items[i] for i in order]
    return f, heap_of([*items, *extra, *arrays], repeat), want, stamp, x


@pytest.mark.parametrize("name", SPEAD)
@pytest.mark.parametrize("packet_bytes", [200, 9000])
def test_heaps_that_spead2_sends(name, packet_bytes):
    rng = fresh.rng()
    if name == "meerkat_digitizer":
        packet_bytes = 9000
    for tail in (False, True):
        f, heap, want, stamp, x = sent(name, rng, tail=tail)
        packets = packets_of(heap, packet_bytes)
        parser = Parser(f)
        fields = parser.parse(packets)
        assert fields.valid.all(), fields.explain(int(np.argmin(fields.valid)))
        assert (fields.timestamp == stamp).all()
        place = {"channel": want["frequency"] if "frequency" in want else -1, "antenna": want.get("feng_id", -1)}
        assert all((getattr(fields, axis) == value).all() for axis, value in place.items())
        for i, packet in enumerate(packets):
            immediates, _, payload = spead.read(packet)
            assert {k: int(fields.header[k][i]) for k in want} == want
            assert fields.offset[i] == immediates[spead.PAYLOAD_OFFSET] and fields.bytes[i] == len(payload)
            assert packet[fields.payload[i] :] == bytes(payload)
        assert len(packets) > 1 or packet_bytes > 1000
        shuffled = [packets[i] for i in rng.permutation(len(packets))]
        decoded = parser.decode(shuffled, integers=True)
        assert decoded.shape == (1, *x.shape)
        np.testing.assert_array_equal(decoded[0], x)
        floating = parser.decode(packets)[0]
        want_values = x if not f.sample.complex else x[..., 0].astype(float) + 1j * x[..., 1].astype(float)
        np.testing.assert_array_equal(floating, want_values)
        wide = f.sample.bits > 16
        assert floating.dtype == (np.float32 if not f.sample.complex else np.complex128 if wide else np.complex64)


@pytest.mark.parametrize("name", SPEAD)
def test_items_in_any_order_and_unknown_ones(name):
    rng = fresh.rng()
    count = 3 if name in ("meerkat_digitizer", "meerkat_f", "ryle_x") else 2
    unknown = [immediate(0x3999, 1), immediate(0x1601, 2)]
    for order in itertools.permutations(range(count)):
        f, heap, want, stamp, x = sent(name, rng, order=order, extra=unknown)
        packets = packets_of(heap, 9000)
        fields = Parser(f).parse(packets)
        assert fields.valid.all() and (fields.timestamp == stamp).all()
        assert {k: int(fields.header[k][0]) for k in want} == want
        np.testing.assert_array_equal(Parser(f).decode(packets, integers=True)[0], x)
    head, items, payload = taken_apart(packets[0])
    for _ in range(20):
        mixed = [*items, int(rng.integers(1 << 48)) | 0x7123 << 48]
        again = Parser(f).parse([put_together(head, rng.permutation(np.array(mixed, np.uint64)).tolist(), payload)])
        assert again.valid.all() and {k: int(again.header[k][0]) for k in want} == want


def taken_apart(packet):
    count = int.from_bytes(packet[6:8], "big")
    return packet[:6], list(struct.unpack_from(f">{count}Q", packet, 8)), packet[8 + 8 * count :]


def put_together(head, items, payload, count=None):
    return head + struct.pack(f">H{len(items)}Q", len(items) if count is None else count, *items) + payload


def changed(packet, key, value):
    head, items, payload = taken_apart(packet)
    assert any(word >> 48 == key for word in items)
    return put_together(head, [key << 48 | value if word >> 48 == key else word for word in items], payload)


@pytest.mark.parametrize("name", ["meerkat_f", "meerkat_x", "ryle_x"])
def test_heaps_whose_timestamp_is_not_repeated_are_known_by_name(name):
    f, heap, _, stamp, _ = sent(name, fresh.rng(), repeat=False)
    packets = packets_of(heap, 200)
    fields = Parser(f).parse(packets)
    assert fields.reason.tolist() == [Reason.VALID] + [Reason.ITEM] * (len(packets) - 1) and len(packets) > 2
    assert fields.timestamp[0] == stamp and int(fields.header["timestamp"][1]) == ABSENT
    assert "has no timestamp (item 0x9600)" in fields.explain(1)
    assert "heap.repeat_pointers = True" in fields.explain(1)


@pytest.mark.parametrize("name", SPEAD)
def test_descriptors_and_ends_are_foreign_not_malformed(name):
    f = small(name)
    group = spead2.send.ItemGroup(flavour=spead.FLAVOUR)
    group.add_item(spead.TIMESTAMP, "timestamp", "ADC samples", shape=(), format=[("u", 48)])
    (described,) = packets_of(group.get_heap(descriptors="all", data="none"))
    (ended,) = packets_of(group.get_end())
    (started,) = packets_of(group.get_start())
    own = {"meerkat_digitizer": spead.DIGITISER_ID, "meerkat_f": spead.FENG_ID}.get(name, spead.FREQUENCY)
    (named,) = packets_of(spead.end_heap(own, 7))
    fields = Parser(f).parse([described, ended, started, named])
    assert fields.reason.tolist() == [Reason.CONTROL, Reason.STOP, Reason.CONTROL, Reason.STOP]
    assert not fields.valid.any() and all(Reason(r).foreign for r in fields.reason)
    stream = f.timestamp.stream[0]
    assert [int(n) for n in fields.header[stream]] == [ABSENT, ABSENT, ABSENT, 7]
    assert fields.explain(1) == "ends the stream"


@pytest.mark.parametrize("name", SPEAD)
def test_samples_that_read_as_an_end_are_malformed(name):
    """A damaged count of items makes items of the first samples, and random ones may be those of an end."""
    f, heap, _, _, _ = sent(name, fresh.rng())
    head, items, payload = taken_apart(packets_of(heap, 9000)[0])
    (end,) = packets_of(spead2.send.ItemGroup(flavour=spead.FLAVOUR).get_end())
    _, said, rest = taken_apart(end)
    unsaid = [word for word in said if word >> 48 != 0x8004]
    packets = []
    for pointer in (0x8006 << 48 | 2, 0x8006 << 48 | 9, 0x0005 << 48 | 1):  # ends, starts, describes
        packets.append(put_together(head, items, struct.pack(">Q", pointer) + payload[8:], len(items) + 1))
        packets.append(put_together(head, [*items, pointer], payload))
    packets += [end + b"\0", end, put_together(head, unsaid, rest + b"\0")]
    found = [Reason(r) for r in Parser(f).parse(packets).reason]
    damaged = [Reason.STATED_LENGTH] * 3
    assert found[0:6:2] == damaged and found[1:6:2] == [Reason.STOP, Reason.CONTROL, Reason.CONTROL]
    assert found[6:] == [Reason.STATED_LENGTH, Reason.STOP, Reason.STOP]


HOSTILE = [
    (0x8002, 1 << 39, Reason.HEAP),
    (0x8002, (1 << 48) - 1, Reason.HEAP),
    (0x8002, 0, Reason.HEAP),
    (0x8003, 1 << 39, Reason.HEAP),
    (0x8003, (1 << 48) - 1, Reason.HEAP),
    (0x8003, 1, Reason.HEAP),
    (0x8004, (1 << 48) - 1, Reason.HEAP),
    (0x8004, 0, Reason.HEAP),
    (0x8004, 100, None),
]


@pytest.mark.parametrize("name", SPEAD)
def test_impossible_lengths_are_malformed(name):
    f, heap, _, _, _ = sent(name, fresh.rng())
    (good,) = packets_of(heap, 9000)
    assert Parser(f).parse([good]).valid.all()
    for key, value, reason in HOSTILE:
        fields = Parser(f).parse([changed(good, key, value)])
        wanted = reason or (Reason.HEAP if name == "meerkat_digitizer" else Reason.STATED_LENGTH)
        assert fields.reason.tolist() == [wanted], (hex(key), value)
        assert fields.explain(0)
    head, items, payload = taken_apart(good)
    for count in (len(items) + len(payload) // 8 + 1, 0xFFFF):
        short = Parser(f).parse([put_together(head, items, payload, count)])
        assert short.reason.tolist() == [Reason.SHORT] and short.explain(0)
    for cut in range(8, len(good) - len(payload)):
        assert Parser(f).parse([good[:cut]]).reason.tolist() == [Reason.SHORT]
    fields = Parser(f).parse([good[:-1], good + b"\0", good[:7], b"\x53\x04\x03\x05" + good[4:]])
    assert fields.reason.tolist() == [Reason.STATED_LENGTH, Reason.STATED_LENGTH, Reason.SHORT, Reason.FIELD]
    for key in {word >> 48 for word in items} - {0xB102}:  # a status is optional
        lacking = put_together(head, [word for word in items if word >> 48 != key], payload)
        assert Parser(f).parse([lacking]).reason.tolist() == [Reason.ITEM]
    array = next(word for word in items if word >> 63 == 0) >> 48
    assert Parser(f).parse([changed(good, array, 8)]).reason.tolist() == [Reason.FIELD]


def test_of_items_that_come_twice_the_last_counts_as_in_spead2():
    f, heap, _, stamp, _ = sent("meerkat_digitizer", fresh.rng())
    (good,) = packets_of(heap, 9000)
    head, items, payload = taken_apart(good)
    twice = put_together(head, [0x9600 << 48 | 4096, 0x8003 << 48 | 9, 0x8001 << 48 | 77, *items], payload)
    fields = Parser(f).parse([twice])
    assert fields.valid.all() and fields.timestamp.tolist() == [stamp]
    stream = spead2.recv.Stream(spead2.ThreadPool(), spead2.recv.StreamConfig())
    stream.add_buffer_reader(twice)
    received = stream.get()
    assert received.cnt == int(fields.header["heap_count"][0]) == 5
    other = {item.id: item for item in received.get_items()}
    np.testing.assert_array_equal(np.frombuffer(other[spead.ADC_SAMPLES], np.uint8), np.frombuffer(payload, np.uint8))


@pytest.mark.parametrize("name", GIVEN)
def test_built_heaps_are_parsed_and_decoded(name):
    f, rng = small(name), fresh.rng()
    parser = Parser(f)
    shape = (*parser.shape(), *([2] if f.sample.complex else []))
    if f.sample.code == "float":
        x = rng.normal(size=shape).astype(np.float32)
    else:
        half = 1 << (f.sample.bits - 1)
        x = rng.integers(-half, half - 1, shape)
    fields = {name: 5 for name in f.timestamp.stream} | dict.fromkeys(f.timestamp.count, 6)
    packets = build_heap(f, fields, x, 1 << 20 if f.heap.packets == "one" else 96)
    parsed = parser.parse(packets)
    assert parsed.valid.all(), parsed.explain(int(np.argmin(parsed.valid)))
    np.testing.assert_array_equal(parser.decode(packets, integers=True)[0], x)
    whole = build(f, fields, x)
    assert parser.heaps([whole]).tobytes() == parser.heaps(packets).tobytes()
    header = {n: int(parsed.header[n][0]) for n, field in f.fields.items() if not field.optional}
    assert build(f, header, packets[0][parsed.payload[0] :]) == packets[0]
    if name in SPEAD:
        assert spead.read(packets[0])[0][spead.TIMESTAMP] == 6
    for missing in (packets[:-1], packets[1:]) if len(packets) > 1 else ():
        with pytest.raises(ValueError, match="lacks"):
            parser.decode(missing)
    if len(packets) > 1:
        with pytest.raises(ValueError, match="another heap"):
            parser.decode([packets[0], packets[0], *packets[1:]])


def test_digitizer_packets_for_capture_files_are_of_the_format():
    f = small("meerkat_digitizer")
    packet = spead.digitizer_packet(512, 9, 1 << 32, bytes(320))
    fields = Parser(f).parse([packet])
    assert fields.valid.all() and fields.timestamp.tolist() == [512] and int(fields.header["digitiser_id"][0]) == 9


def test_parameters_are_asked_for_by_name():
    with pytest.raises(ConfigError, match=r"(?s)parameters.channels.*such as meerkat_f:channels=64.*parameters.step"):
        Parser(Format.load("meerkat_f"))
    with pytest.raises(ConfigError, match="did you mean channels"):
        Format.load("meerkat_f").given(chanels=3)
    with pytest.raises(ConfigError, match=r"is 17/4 with .*spectra = 17.*whole number"):
        Format.load("meerkat_f:channels=2,spectra=17,step=1")
    some = Format.load("meerkat_f").given(channels=4)
    assert some.lacking == ("spectra", "step") and some.given(spectra=8, step=9).lacking == ()
    assert Format.load("meerkat_f:channels=4,spectra=8,step=9").heap_bytes == (128, 130)
    assert Format.load("meerkat_digitizer").lacking == ()
    assert Parser(Format.load("meerkat_digitizer:bits=32,code=float,heap_samples=64")).shape() == (64,)


def casper(engine, offset, samples, time=5, instrument=4, order=None, more=()):
    words = [0x32 << 48 | instrument << 32 | engine, 0x33 << 48 | len(samples) << 24, 0x03 << 48 | time]
    words += [0x05 << 48 | offset, *more]
    words = [words[i] for i in order] if order is not None else words
    return struct.pack(f">4H{len(words)}Q", 0x4B52, 3, 0, len(words), *words) + samples


def test_casper_packets():
    f, rng = small("casper_x"), fresh.rng()
    x = rng.normal(size=(4, 12, 2)).astype("<f4")
    whole = x.tobytes()
    packets = [
        casper(2, at, whole[at : at + 96], order=rng.permutation(5).tolist(), more=[0x77 << 48 | 1])
        for at in range(0, len(whole), 96)
    ]
    parser = Parser(f)
    fields = parser.parse(packets)
    assert fields.valid.all() and (fields.timestamp == 5 * 256).all()
    assert fields.channel.tolist() == [8, 9, 10, 11] and fields.offset.tolist() == [0, 96, 192, 288]
    np.testing.assert_array_equal(parser.decode(packets)[0], x[..., 0] + 1j * x[..., 1])
    bad = [
        (casper(2, 384, whole[:96]), Reason.HEAP),
        (casper(2, 4, whole[:96]), Reason.HEAP),
        (casper(2, 0, whole[:92]), Reason.HEAP),
        (casper(2, 0, b""), Reason.HEAP),
        (casper(2, 0, whole[:96]) + b"\0", Reason.STATED_LENGTH),
        (casper(2, 0, whole[:96], order=[0, 1, 2]), Reason.ITEM),
        (b"\x54\x53" + packets[0][2:], Reason.FIELD),
    ]
    assert parser.parse([p for p, _ in bad]).reason.tolist() == [reason for _, reason in bad]
