"""Packets that a sender makes: every shipped format by an independent reading, payloads, counters, faults; no sockets."""

import collections
import struct

import numpy as np
import pytest

from heap_formats import ALONE
from ryle.config.addresses import endpoints
from ryle.receive import _native
from ryle.send.account import expect
from ryle.send.sending import FATES, FILLINGS, InjectedFaults, Sending, expected_payload, payload_place, plan
from ryle.send.streams import sizes
from ryle.wire.description import Format
from ryle.wire.packets import Parser
from sent_payload import MASK, payload_of

# How each shipped format is read, with struct: (header bytes, fields of the header, stream, packet's number, samples' bytes).


def word64(packet):
    return struct.unpack_from(">Q", packet)[0]


def paper(step):
    def read(p):
        w = word64(p)
        return 8, (w >> 8 & 255, w & 255), w & 0xFFFF, w >> 16, 8192

    return read


def hera(p):
    w = word64(p)
    ant, chan = w & 0xFFFF, w >> 16 & 0x1FFF
    return 8, (ant, chan), ant << 13 | chan, (w >> 29) // 2, 3 * 384 * 2 * 2


def ata_v1(p):
    w = word64(p)
    assert w >> 63 == 1
    ant, chan = w & 63, w >> 6 & 0xFFF
    return 8, (ant, chan), ant << 12 | chan, (w >> 18 & (1 << 38) - 1) // 16, 8192


def ata_v2(p):
    _, _, n, chan, feng, time = struct.unpack_from(">BBHHHQ", p)
    return 16, (feng, chan), feng << 16 | chan, time // 16, n * 32


def lwa(p):
    seq, _, npol, _, nchan, _, _, chan0, pol0 = struct.unpack_from(">QIHHHHIII", p)
    return 32, (pol0, chan0), chan0 << 32 | pol0, seq, npol * nchan


def chime(p):
    stream, high, low = struct.unpack_from("<xxHxxxxHxxI", p)
    return 16, (stream,), stream & 0xFFF, (high << 32 | low) // 2, 4096


def mwax(p):
    kind, channel, rf, gps, subsec = struct.unpack_from(">BBHIH", p)
    assert kind == 0x20
    return 16, (rf, channel), rf << 8 | channel, gps * 625 + subsec, 4096


def vdif(p):
    w = struct.unpack_from("<8I", p)
    assert w[2] & 0xFFFFFF == len(p) // 8 and w[3] >> 26 == 1
    thread, station = w[3] >> 16 & 1023, w[3] & 0xFFFF
    return 32, (station, thread), station << 10 | thread, (w[0] & (1 << 30) - 1) * 2000 + (w[1] & 0xFFFFFF), 8000


def vdif_vtp(p):
    header, *rest = vdif(p[8:])
    return 8 + header, *rest


def alma(p):
    time, antenna, band, pol, version = struct.unpack_from(">QHHBB", p)
    assert version == 1 and time % 8192 == 0
    return 14, (antenna, pol, band), antenna << 24 | pol << 16 | band, time // 8192, 8192


def rows(p):
    version, pols, channels, antenna, channel, block = struct.unpack_from(">HHIIIQ", p)
    assert version == 1
    return 64, (antenna, channel), antenna << 32 | channel, block, channels * pols * 128


def statistics(p):
    version, levels, entry, level, _, interval = struct.unpack_from(">HHIIIQ", p)
    assert version == 1 and levels >= 1
    return 64, (entry, level), entry << 32 | level, interval, 1024


def digitizer(p):
    """A SPEAD packet: 8 items."""
    words = struct.unpack_from(">8Q", p, 8)
    assert p[:8] == bytes.fromhex("5304020600000007") and [w >> 48 for w in words[:7]] == [
        *(0x8001, 0x8002, 0x8003, 0x8004, 0x9600, 0xB101, 0x3300),
    ]
    length, offset, part, time, stream, address = (word & (1 << 48) - 1 for word in words[1:7])
    assert (length, offset, part, address) == (5120, 0, 5120, 0)
    return 64, (stream,), stream, time // 4096, 5120


def counter(size):
    return lambda p: (8, (), 0, word64(p), size - 8)


READ = {
    "alma_like": alma,
    "paper_psa128": paper(16),
    "paper_psa256": paper(8),
    "hera_snap": hera,
    "ata_v1": ata_v1,
    "ata_v2": ata_v2,
    "lwa_snap2": lwa,
    "chime_ice": chime,
    "mwax": mwax,
    "vdif": vdif,
    "vdif_vtp": vdif_vtp,
    "ryle_statistics": statistics,
    "ryle_rows": rows,
    "meerkat_digitizer": digitizer,
    "counter_8192": counter(8192),
    "counter_8960": counter(8960),
}
#: Fields of the streams of sources 0 to 2 to destinations 0 and 1, as READ gives them.
SPREAD = {
    "alma_like": [(s // 2, s % 2, d) for s in range(3) for d in range(2)],
    "paper_psa128": [(s, d) for s in range(3) for d in range(2)],
    "paper_psa256": [(s, d) for s in range(3) for d in range(2)],
    "hera_snap": [(3 * s, 384 * d) for s in range(3) for d in range(2)],
    "ata_v1": [(s, 256 * d) for s in range(3) for d in range(2)],
    "ata_v2": [(s, 256 * d) for s in range(3) for d in range(2)],
    "lwa_snap2": [(64 * s, 128 * d) for s in range(3) for d in range(2)],
    "chime_ice": [(k,) for k in range(6)],
    "mwax": [(s, d) for s in range(3) for d in range(2)],
    "vdif": [(s, d) for s in range(3) for d in range(2)],
    "vdif_vtp": [(s, d) for s in range(3) for d in range(2)],
    "meerkat_digitizer": [(k,) for k in range(6)],
    "ryle_statistics": [(s, d) for s in range(3) for d in range(2)],
    "ryle_rows": [(s, 32 * d) for s in range(3) for d in range(2)],
    "counter_8192": [()] * 6,
    "counter_8960": [()] * 6,
}


def made(**asked):
    """All packets of a plan, (stream, bytes) in the order of sending, and the plan."""
    asked.setdefault("to", endpoints("127.0.0.1:9000"))
    settled = plan(Sending(**asked))
    packets = []
    for source in settled.sources:
        while source.due() >= 0:
            data, stream, _ = source.make()
            packets.append((stream, data))
    return packets, settled


def counts(settled):
    total = collections.Counter()
    for source in settled.sources:
        rows = np.zeros((len(source.streams), len(FATES) + 2), np.int64)
        source.counts_into(rows)
        total.update(dict(zip((*FATES, "packets", "bytes"), rows.sum(axis=0).tolist(), strict=True)))
    return total


def test_every_shipped_format_is_read_here():
    assert sorted(READ) == sorted(SPREAD) == ALONE


@pytest.mark.parametrize("name", READ)
def test_packets_of_every_format(name, rng):
    format, seed, first = Format.load(name), int(rng.integers(1 << 63)), int(rng.integers(1 << 20))
    packets, settled = made(
        format=format,
        to=endpoints("127.0.0.1:9000+2"),
        sources=3,
        packets=5,
        burst=2,
        seed=seed,
        start=first * format.timestamp.step,
    )
    assert len(packets) == 30 and len(settled.streams) == 6
    shared = not format.timestamp.stream
    seen = collections.defaultdict(list)
    parser = Parser(format)
    for stream, packet in packets:
        header, fields, identity, number, size = READ[name](packet)
        assert fields == SPREAD[name][stream] and identity == settled.streams[stream].identity
        assert packet[header : header + size] == payload_of(seed, identity, number, size)
        assert packet[header + size :] == bytes(format.payload.trailer_bytes[0])
        assert len(packet) == settled.packet_bytes
        parsed = parser.parse([packet])
        assert parsed.valid.all(), parsed.explain(0)
        parser.start_at(None)
        assert payload_place(format, parsed.header[0]) == (identity, number)
        seen[stream].append(number - first)
    if shared:  # one counter, in which six streams take turns of two packets
        assert [n for _, ns in sorted(seen.items()) for n in ns[:2]] == list(range(12))
        assert sorted(n for ns in seen.values() for n in ns) == [n for n in range(36) if n // 12 < 2 or n % 2 == 0]
    else:
        assert all(ns == list(range(5)) for ns in seen.values()) and len(seen) == 6
    assert [stream for stream, _ in packets[:4]] == [0, 0, 1, 1]  # bursts of one stream, then of the next


@pytest.mark.parametrize("name", READ)
def test_counters_wrap(name):
    format = Format.load(name)
    step, period = format.timestamp.step, format.period
    if period > 1 << 63:
        with pytest.raises(ValueError, match="not be valid"):
            made(format=format, packets=4, start=(1 << 63) - step)
        return
    packets, _ = made(format=format, packets=6, start=period - 3 * step)
    fields = Parser(format).parse([p for _, p in packets])
    assert fields.timestamp.tolist() == [period + k * step for k in range(-3, 3)]
    assert [READ[name](p)[3] for _, p in packets] == [(period // step + k) % (period // step) for k in range(-3, 3)]


def test_payloads_can_be_said_again(rng):
    for _ in range(20):
        seed, stream, packet = (int(x) for x in rng.integers(0, MASK, 3, np.uint64, endpoint=True))
        size = int(rng.integers(1, 3000))
        expected = expected_payload(seed, stream, packet, size)
        assert expected.tobytes() == payload_of(seed, stream, packet, size)
        assert _native.payload_differs(0, seed, stream, packet, expected) == size
        at = int(rng.integers(size))
        expected[at] ^= 1 << int(rng.integers(8))
        assert _native.payload_differs(0, seed, stream, packet, expected) == at
    assert expected_payload(1, 2, 250, 8, "ramp").tolist() == [250, 251, 252, 253, 254, 255, 0, 1]
    assert not expected_payload(1, 2, 3, 100, "zeros").any()
    assert _native.payload_differs(1, 1, 2, 250, expected_payload(1, 2, 250, 5000, "ramp")) == 5000


@pytest.mark.parametrize("filling", FILLINGS)
def test_fillings(filling):
    packets, _ = made(format=Format.load("counter_8192"), packets=3, filling=filling, start=255)
    for n, (_, packet) in enumerate(packets, 255):
        assert packet[8:] == expected_payload(1, 0, n, 8184, filling).tobytes()


def test_sizes_of_packets():
    lwa, v2, psa = (Format.load(n) for n in ("lwa_snap2", "ata_v2", "paper_psa256"))
    packets, settled = made(format=lwa, size=64, packets=2)
    assert {len(p) for _, p in packets} == {64} == {settled.packet_bytes}
    assert Parser(lwa).parse([p for _, p in packets]).valid.all()
    assert sizes(v2, {}, 16 + 96 * 32) == ({"n_chans": 96}, 3072, 0)
    assert sizes(lwa, {"nchan": 96}, 32 + 96 * 11) == ({"nchan": 96, "npol": 11}, 96 * 11, 0)
    packets, _ = made(format=psa, size=8208, packets=1)
    assert len(packets[0][1]) == 8208 and Parser(psa).parse([packets[0][1]]).valid.all()
    packets, _ = made(format=lwa, fields={"nchan": 96, "npol": 64, "sync_time": 7, "pol0": 128}, sources=2, packets=1)
    headers = Parser(lwa).parse([p for _, p in packets]).header
    assert headers["nchan"].tolist() == [96, 96] and headers["sync_time"].tolist() == [7, 7]
    assert headers["pol0"].tolist() == [128, 192]


STATED = """
title = "t"
source = "s"
header = { bytes = 8, field = [
  { name = "board", byte = 0, bytes = 1, means = "m", bits = "7:4" },
  { name = "slot", byte = 0, bytes = 1, means = "m", bits = "3:0" },
  { name = "kilo", byte = 1, bytes = 1, means = "m" },
  { name = "words", byte = 2, bytes = 2, means = "m", endian = "little" },
  { name = "n", byte = 4, bytes = 4, means = "m" } ] }
payload = { order = ["time", "input"], size = { time = 100, input = 3 } }
sample = { bits = 8, complex = true, code = "twos_complement" }
timestamp = { unit = "packets", count = { n = 1, add = 5 }, step = 1, stream = ["board", "slot"] }
placement = { input = { board = 48, slot = 3 } }
validity = { length = { kilo = 512, words = 4, add = 8 } }
"""


def test_an_own_format():
    """Lengths that headers state, numbers spread over two fields, a count with a constant."""
    format = Format.parse(STATED)
    packets, _ = made(format=format, sources=40, packets=3, start=5)
    parser = Parser(format)
    fields = parser.parse([p for _, p in packets])
    assert fields.valid.all()
    assert {(int(h["kilo"]), int(h["words"])) for h in fields.header} == {(1, 22)}  # 600 = 512 + 88
    assert sorted(set(fields.input.tolist())) == [3 * k for k in range(40)]
    assert sorted(fields.timestamp.tolist()) == [5] * 40 + [6] * 40 + [7] * 40
    with pytest.raises(ValueError, match="source 256"):
        made(format=format, sources=257, packets=1)


def received(format, packets, settled):
    """An account that a receiver might keep: what each packet is, by parsing alone."""
    parser, known = Parser(format), {s.identity for s in settled.streams}
    seen, said = set(), collections.Counter(datagrams=len(packets))
    for _, packet in packets:
        parser.start_at(None)
        fields = parser.parse([packet])
        if not fields.valid[0]:
            said["malformed"] += 1
            continue
        place = payload_place(format, fields.header[0])
        if place[0] not in known:
            said["foreign"] += 1
        elif packet[format.header.bytes :][: len(packet)].startswith(
            expected_payload(1, *place, 64).tobytes()
        ):  # in its place
            said["duplicate" if place in seen else "first"] += 1
            seen.add(place)
        else:
            said["misplaced"] += 1
    return said


@pytest.mark.parametrize("name", ["paper_psa128", "vdif", "counter_8192", "lwa_snap2"])
def test_faults_are_counted_exactly(name, rng):
    format, n = Format.load(name), 1500
    faults = InjectedFaults(
        loss=0.05,
        duplicate=0.04,
        reorder=0.06,
        corrupt=0.05,
        truncate=0.03,
        foreign=0.04,
        distance=6,
        seed=int(rng.integers(1 << 40)),
    )
    packets, settled = made(format=format, sources=2, packets=n, faults=faults, burst=3)
    said = received(format, packets, settled)
    count = counts(settled)
    expected = expect(count, count["packets"])
    assert count["packets"] == len(packets) and count["bytes"] == sum(len(p) for _, p in packets)
    for what in ("datagrams", "malformed", "foreign", "misplaced", "duplicate"):
        assert said[what] == expected[what], what
    assert said["first"] == expected["placed"] and expected["placed"] + expected["missing"] == 2 * n
    share = {"lost": 0.05, "duplicated": 0.04, "reordered": 0.06, "truncated": 0.03}
    for what, p in share.items():  # 7 standard deviations
        assert abs(count[what] - 2 * n * p) < 7 * (2 * n * p * (1 - p)) ** 0.5
    assert count["foreign_stream"] + count["foreign_format"] > 0
    events = [e for source in settled.sources for e in source.events]
    total = collections.Counter(FATES[e[0]] for e in events)
    assert total == {k: v for k, v in count.items() if v and k not in ("sent", "packets", "bytes")}
    again, _ = made(format=format, sources=2, packets=n, faults=faults, burst=3)
    assert again == packets
    split, parts = made(format=format, sources=2, packets=n, faults=faults, burst=3, threads=2)
    assert sorted(split) == sorted(packets) and counts(parts) == count


def test_order_and_distance(rng):
    format = Format.load("paper_psa128")
    faults = InjectedFaults(reorder=0.1, duplicate=0.1, distance=5, seed=int(rng.integers(1 << 40)))
    packets, settled = made(format=format, packets=2000, faults=faults)
    order = [word64(p) >> 16 for _, p in packets]
    assert sorted(set(order)) == list(range(2000))
    events = {e[2]: (FATES[e[0]], e[4]) for e in settled.sources[0].events}
    again = {n for n, (what, _) in events.items() if what == "duplicated"}
    assert {n for n, k in collections.Counter(order).items() if k == 2} == again
    plain = [n for n in order if n not in events]
    assert plain == sorted(plain)
    last = {n: at for at, n in enumerate(order)}
    for n, (_, later) in events.items():
        assert 1 <= later <= 5
        before = {m for m in order[: last[n]] if m not in events}
        assert before == {m for m in plain if m <= n + later}, n


def test_same_seed_same_faults(rng):
    format = Format.load("paper_psa128")
    seed = int(rng.integers(1 << 40))
    lossy = [
        {word64(p) >> 16 for _, p in made(format=format, packets=3000, faults=InjectedFaults(loss=0.1, seed=s))[0]}
        for s in (seed, seed, seed + 1)
    ]
    assert lossy[0] == lossy[1] != lossy[2]
    other = {
        word64(p) >> 16
        for s, p in made(format=format, sources=2, packets=3000, faults=InjectedFaults(loss=0.1, seed=seed))[0]
        if s == 1
    }
    assert other != lossy[0]  # streams lose other packets


def test_clock_jump_restart_and_skew():
    format = Format.load("paper_psa128")

    def times(**faults):
        packets, _ = made(format=format, sources=2, packets=40, pps=20.0, burst=1, faults=InjectedFaults(**faults))
        return [(s, word64(p) >> 16) for s, p in packets]

    plain = [(s, n) for n in range(40) for s in range(2)]
    assert times() == plain
    assert times(jump_at=1.5, jump=1000) == [(s, n if n < 15 else n + 1000) for s, n in plain]
    back = times(jump_at=1.5, jump=-100)
    assert [n for s, n in back if s == 0] == [n if n < 15 else (n - 100) % (1 << 48) for n in range(40)]
    assert [n for s, n in times(restart_at=2) if s == 1] == [*range(20), *range(20)]
    skewed = times(skew=(0, 300))  # three packets at 10 a second
    assert sorted(skewed) == sorted(plain)
    at = {packet: k for k, packet in enumerate(skewed)}
    assert all(at[0, n + 3] + 1 == at[1, n] for n in range(37)) and [s for s, _ in skewed[:4]] == [0, 0, 0, 0]


def test_when_packets_are_due():
    settled = plan(
        Sending(
            to=endpoints("127.0.0.1:9"), format=Format.load("paper_psa128"), sources=3, pps=3e6, packets=40, burst=4
        )
    )
    (source,) = settled.sources
    dues = []
    while source.due() >= 0:
        dues.append(source.due())
        assert source.make()[2] == dues[-1]
    # bursts of 4 packets every 4/3 us, to the ns
    assert dues == [int(b * 4 * 1e9 / 3e6) for b in range(30) for _ in range(4)]
    settled = plan(Sending(to=endpoints("127.0.0.1:9"), format=Format.load("counter_8192"), gbps=8.192, seconds=2))
    assert settled.rate == pytest.approx(125_000) and settled.packets == 250_000 and settled.until == 0


PSA = Format.load("paper_psa128")
MISTAKES = [
    ({"to": ()}, "nowhere"),
    ({"format": None}, "format or a recording"),
    ({"gbps": 1.0, "pps": 1.0}, "not both"),
    ({"pps": -1.0}, "positive"),
    ({"packets": 0}, "positive"),
    ({"threads": 0}, "at least 1"),
    ({"cores": (4096,)}, "this machine has"),
    ({"size": 100}, "8200"),
    ({"fields": {"fidd": 1}}, "no field fidd"),
    ({"fields": {"mcnt": 1}}, "--start"),
    ({"fields": {"fid": 256}}, "0 to 255"),
    ({"sources": 257}, "source 256"),
    ({"start": 5}, "cannot say"),
    ({"burst": 5000}, "at most 1024"),
    ({"faults": InjectedFaults(loss=0.6, corrupt=0.6)}, "at most 1"),
    ({"faults": InjectedFaults(loss=1.5)}, "0 to 1"),
    ({"faults": InjectedFaults(jump_at=1.0, jump=5)}, "need a rate"),
    ({"pps": 10.0, "faults": InjectedFaults(skew=(-5.0,))}, "negative"),
    ({"faults": InjectedFaults(reorder=0.1, distance=0)}, "at least 1"),
]


@pytest.mark.parametrize(("asked", "said"), MISTAKES, ids=[s for _, s in MISTAKES])
def test_mistakes(asked, said):
    with pytest.raises(ValueError, match=said):
        plan(Sending(**({"to": endpoints("127.0.0.1:9"), "format": PSA} | asked)))
