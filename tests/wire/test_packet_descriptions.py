"""Random descriptions there and back, random bytes against a plain reading of the description, and wrong descriptions."""

import copy
import ctypes
import itertools
import mmap

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from formats import text
from heap_formats import small
from ryle.config import ConfigError
from ryle.wire.build import build, build_heap
from ryle.wire.description import AXES, Format, names
from ryle.wire.packets import Parser, Reason

seeds = st.integers(0, 2**32 - 1)


def random_description(rng):
    """A description and the size of every axis."""
    fields, byte = [], 0
    for word in range(rng.integers(1, 6)):
        byte += int(rng.integers(0, 4))  # a hole
        size = int(rng.integers(1, 9))
        endian = str(rng.choice(["big", "little"]))
        cuts = sorted({0, 8 * size, *rng.integers(0, 8 * size, rng.integers(0, 4)).tolist()})
        for low, high in itertools.pairwise(cuts):
            place = {"byte": byte, "bytes": size, "bits": f"{high - 1}:{low}", "endian": endian}
            fields.append({"name": f"f{word}_{low}", "means": "m"} | place)
        byte += size
    axes = rng.permutation(AXES)[: rng.integers(1, len(AXES) + 1)].tolist()
    size = {axis: int(rng.integers(1, 4)) for axis in axes}
    size[axes[0]] *= 8
    wide = [f for f in fields if int(f["bits"].split(":")[0]) - int(f["bits"].split(":")[1]) >= 4]
    said = dict(size)
    if wide and rng.random() < 0.5:
        said[axes[-1]] = wide[0]["name"]
    code = str(rng.choice(["twos_complement", "offset_binary", "symmetric", "unsigned"]))
    bits = int(rng.integers(1, 17 if code in ("twos_complement", "offset_binary") else 16))
    is_complex = bool(rng.random() < 0.5)
    sample = {"bits": bits, "complex": is_complex, "code": code, "bit_order": str(rng.choice(["msb", "lsb"]))}
    if is_complex:
        sample["first"] = str(rng.choice(["real", "imag"]))
    counter = fields[int(rng.integers(len(fields)))]["name"]
    description = {
        "title": "random",
        "source": "none",
        "header": {"bytes": byte + int(rng.integers(0, 4)), "field": fields},
        "payload": {"order": axes, "size": said, "trailer_bytes": [int(rng.integers(0, 9)), 40]},
        "sample": sample,
        "timestamp": {"unit": "packets", "count": {counter: 1}, "step": 1, "stream": []},
        "placement": {"channel": {fields[0]["name"]: int(rng.integers(1, 1000)), "add": 5}},
    }
    return description, size


def codes_of(payload, count, bits, msb):
    """Codes one by one, from a string of bits."""
    stream = "".join(f"{b:08b}" if msb else f"{b:08b}"[::-1] for b in payload)
    chunks = [stream[i * bits : (i + 1) * bits] for i in range(count)]
    return [int(c if msb else c[::-1], 2) for c in chunks]


def value(code, bits, kind):
    half = 2 ** (bits - 1)
    return {
        "twos_complement": code - 2 * half if code >= half else code,
        "offset_binary": code - half,
        "symmetric": 2 * code - (2 * half - 1),
        "unsigned": code,
    }[kind]


@given(seed=seeds)
@settings(max_examples=150, deadline=None)
def test_random_descriptions_round_trip(seed):
    rng = np.random.default_rng(seed)
    description, size = random_description(rng)
    format = Format.parse(text(description))
    axes = [axis for axis in AXES if axis in size]
    assert list(format.axes) == axes
    sample = description["sample"]
    parts = 2 if sample["complex"] else 1
    bits, kind = sample["bits"], sample["code"]
    codes = rng.integers(0, 1 << bits, (*(size[a] for a in axes), parts)).astype(object)
    values = np.vectorize(lambda c: value(int(c), bits, kind), otypes=[np.int64])(codes)
    samples = values if parts == 2 else values[..., 0]
    header = {f.name: int(rng.integers(0, 1 << f.width, dtype=np.uint64, endpoint=False)) for f in format.header.field}
    header |= {said: size[a] for a, said in description["payload"]["size"].items() if isinstance(said, str)}
    packet = build(format, header, samples)

    for field in description["header"]["field"]:  # the header, read plainly
        word = int.from_bytes(packet[field["byte"] : field["byte"] + field["bytes"]], field["endian"])
        high, low = (int(b) for b in field["bits"].split(":"))
        assert word >> low & (2 ** (high - low + 1) - 1) == header[field["name"]]
    order = description["payload"]["order"]
    wire = np.transpose(codes, [*(axes.index(a) for a in order), len(axes)])
    if sample.get("first") == "imag":
        wire = wire[..., ::-1]
    flat = [int(c) for c in wire.reshape(-1)]
    start = description["header"]["bytes"]
    assert codes_of(packet[start:], len(flat), bits, sample["bit_order"] == "msb") == flat
    assert len(packet) == start + (len(flat) * bits + 7) // 8 + description["payload"]["trailer_bytes"][0]

    parser = Parser(format)
    fields = parser.parse([packet])
    (counter,) = description["timestamp"]["count"]
    if format.fields[counter].width == 64 and header[counter] >= 1 << 63:
        assert fields.reason.tolist() == [Reason.TIMESTAMP]
        return
    assert fields.valid.tolist() == [True], fields.explain(0)
    assert {n: int(fields.header[n][0]) for n in header} == header
    assert fields.timestamp.tolist() == [header[counter]]
    first, factor = next(iter(description["placement"]["channel"].items()))
    placed = (header[first] * factor + 5) & (2**64 - 1)
    assert int(fields.channel[0]) & (2**64 - 1) == placed
    np.testing.assert_array_equal(parser.decode([packet], integers=True)[0], samples)
    floating = parser.decode([packet])[0]
    want = values[..., 0] + 1j * values[..., 1] if parts == 2 else values[..., 0]
    np.testing.assert_array_equal(floating, want)
    assert build(format, header, floating) == packet


@pytest.fixture(scope="module")
def fenced():
    """Put bytes right before a page that must not be touched, or right after one."""
    page = mmap.PAGESIZE
    room = 1024 * page
    area = mmap.mmap(-1, room + 2 * page)
    libc = ctypes.CDLL(None, use_errno=True)
    start = ctypes.addressof(ctypes.c_char.from_buffer(area))
    for fence in (start, start + page + room):
        assert libc.mprotect(ctypes.c_void_p(fence), ctypes.c_size_t(page), 0) == 0
    middle = np.frombuffer(area, np.uint8, room, page)

    def place(data, at_end):
        part = middle[room - len(data) :] if at_end else middle[: len(data)]
        part[:] = np.frombuffer(data, np.uint8)
        return part

    yield place
    for fence in (start, start + page + room):
        libc.mprotect(ctypes.c_void_p(fence), ctypes.c_size_t(page), mmap.PROT_READ | mmap.PROT_WRITE)


def plain_verdict(format, packet):
    """Examine a packet in plain Python."""
    header, count_field, begin = {}, format.header.items, format.header.bytes
    if len(packet) < begin:
        return Reason.SHORT
    starts = [f for f in format.header.field if f.item is None]
    for f in starts:
        word = int.from_bytes(packet[f.byte : f.byte + f.bytes], f.endian or format.header.endian)
        header[f.name] = word >> f.shift & (2**f.width - 1)
    if any(not f.low <= header[f.name] <= f.high for f in starts):
        return Reason.FIELD
    if count_field is not None:
        end = begin + 8 * header[count_field]
        if len(packet) < end:
            return Reason.SHORT
        words = [int.from_bytes(packet[at : at + 8], "big") for at in range(begin, end, 8)]
        items, begin = {word >> 48: word & 2**48 - 1 for word in words}, end
        control = [f for f in format.header.field if f.control and f.item in items]
        held = [f for f in format.header.field if f.item in items]
        if control:
            said = header | {f.name: items[f.item] >> f.shift & (2**f.width - 1) for f in held}
            rule = format.heap.bytes if format.heap else {}
            named = rule.keys() - {"add", "over"}
            if rule and named <= said.keys():
                part = rule.get("add", 0) + sum(said[name] * rule[name] for name in named)
                if part != len(packet) - begin:
                    return Reason.STATED_LENGTH
            return Reason.STOP if any(items[f.item] == f.stop for f in control) else Reason.CONTROL
        if any(f.item is not None and f.item not in items and not f.optional for f in format.header.field):
            return Reason.ITEM
        header |= {f.name: items[f.item] >> f.shift & (2**f.width - 1) for f in held}
        if any(not f.low <= header[f.name] <= f.high for f in held):
            return Reason.FIELD

    def total(rule):
        names = {name: factor for name, factor in rule.items() if name not in ("add", "over")}
        return sum(header[name] * factor for name, factor in names.items()) + rule.get("add", 0)

    count = format.sample.parts
    for axis in format.payload.order:
        size = format.payload.size[axis]
        count *= header[size] if isinstance(size, str) else size
    samples = (count * format.sample.bits + 7) // 8
    lengths, held = [samples + t for t in format.payload.trailer_bytes], len(packet) - begin
    if heap := format.heap:
        length = total(heap.length) if heap.length else lengths[0]
        offset, part = total(heap.offset), total(heap.bytes)
        aligned = offset % heap.unit == 0 and (part % heap.unit == 0 or offset + part == length)
        whole = heap.packets == "several" or part == length
        if length not in lengths or not part or offset + part > length or not aligned or not whole:
            return Reason.HEAP
        if part != held:
            return Reason.STATED_LENGTH
    elif count == 0 or held not in lengths:
        return Reason.LENGTH
    if (rule := format.validity.length) and len(packet) != total(rule):
        return Reason.STATED_LENGTH
    if format.period > 1 << 63 and total(format.timestamp.count) >= 1 << 63:
        return Reason.TIMESTAMP
    return Reason.VALID


def valid_bytes(format, rng):
    size = {s: int(rng.integers(0, 40)) for s in format.payload.size.values() if isinstance(s, str)}
    count = format.sample.parts
    for s in format.payload.size.values():
        count *= size[s] if isinstance(s, str) else s
    header = {
        f.name: int(rng.integers(f.low, f.high, dtype=np.uint64, endpoint=True))
        for f in format.header.field
        if f.name != format.header.items and not (f.optional and rng.random() < 0.9)
    }
    header |= {k: min(v, (1 << format.fields[k].width) - 1) for k, v in size.items()}
    payload = rng.bytes((count * format.sample.bits + 7) // 8)
    if format.heap is None:
        return build(format, header, payload)
    said = [total for total in (format.heap.length, format.heap.offset, format.heap.bytes) if total is not None]
    header = {name: value for name, value in header.items() if all(name not in total for total in said)}
    payload += rng.bytes(format.payload.trailer_bytes[0])
    packets = build_heap(format, header, payload, len(payload) if format.heap.packets == "one" else 64)
    packet = packets[rng.integers(len(packets))]
    order = rng.permutation(int.from_bytes(packet[6:8], "big"))
    items = [packet[8 + 8 * i : 16 + 8 * i] for i in range(len(order))]
    return packet[:8] + b"".join(items[i] for i in order) + packet[8 + 8 * len(order) :]


@pytest.mark.parametrize("name", [*names(), *(f"random{i}" for i in range(10))])
@given(seed=seeds)
@example(seed=1224)  # a packet of 154 KB
@settings(max_examples=30, deadline=None)
def test_random_bytes_are_never_read_beyond(fenced, name, seed):
    """Valid, damaged, cut and random packets at the edges of memory: the verdict is the plain one."""
    rng = np.random.default_rng(seed)
    format = small(name) if name in names() else Format.parse(text(random_description(rng)[0]))
    parser = Parser(format)
    good = valid_bytes(format, rng)
    damaged = bytearray(good)
    near = len(damaged) if rng.random() < 0.5 else min(len(damaged), 120)
    for _ in range(rng.integers(1, 4)):
        damaged[rng.integers(near)] ^= 1 << rng.integers(8)
    cut = good[: rng.integers(0, len(good) + 1)]
    packets = [good, bytes(damaged), cut, rng.bytes(rng.integers(0, 2 * format.header.bytes + 20)), good + rng.bytes(3)]
    for packet in packets:
        want = plain_verdict(format, packet)
        for at_end in (True, False):
            memory = fenced(packet, at_end)
            fields = parser.parse(memory, np.array([0]), np.array([len(memory)]))
            assert fields.reason.tolist() == [want], fields.explain(0)
            parser.start_at(None)
            if want == Reason.VALID and format.heap is not None:
                at, held = int(fields.payload[0]), int(fields.bytes[0])
                assert memory[at : at + held].tobytes() == packet[at:] and at + held == len(packet)
            elif want == Reason.VALID:
                decoded = parser.decode(memory[None], integers=True)
                np.testing.assert_array_equal(decoded, parser.decode([packet], integers=True))
            elif len(memory):
                with pytest.raises(ValueError, match="not"):
                    parser.decode(memory[None])


GOOD = {
    "title": "t",
    "source": "s",
    "header": {
        "bytes": 8,
        "field": [
            {"name": "count", "byte": 0, "bytes": 8, "bits": "63:16", "means": "m"},
            {"name": "id", "byte": 0, "bytes": 8, "bits": "15:0", "means": "m"},
        ],
    },
    "payload": {"order": ["time", "channel"], "size": {"time": 16, "channel": 4}},
    "sample": {"bits": 4, "complex": True, "code": "twos_complement"},
    "timestamp": {"unit": "spectra", "count": {"count": 16}, "step": 16, "stream": ["id"]},
}


def changed(path, new):
    description = copy.deepcopy(GOOD)
    *parents, last = path
    table = description
    for part in parents:
        table = table[part] if isinstance(part, int) else table.setdefault(part, {})
    if new is None:
        del table[last]
    else:
        table[last] = new
    return text(description)


def test_the_good_one_is_good():
    assert Format.parse(text(GOOD)).period == 16 << 48


@pytest.mark.parametrize(
    ("path", "new", "key", "remedy"),
    [
        (["titel"], "x", "titel", "did you mean title?"),
        (["title"], None, "title", "is missing"),
        (["header", "field", 0, "bits"], "64:16", "header.field[0].bits", "63 >= high >= low"),
        (["header", "field", 0, "bits"], "1:9", "header.field[0].bits", "63 >= high >= low"),
        (["header", "field", 0, "bits"], "x", "header.field[0].bits", "high:low"),
        (["header", "field", 0, "bits"], "63:15", "header.field[1].name", "shares bits with count"),
        (["header", "field", 1, "name"], "count", "header.field[1].name", "is taken"),
        (["header", "field", 1, "name"], "Id", "header.field[1].name", "lower-case"),
        (["header", "field", 1, "byte"], 1, "header.field[1].byte", "behind the header's 8 bytes"),
        (["header", "field", 1, "bytes"], 9, "header.field[1].bytes", "at most 8"),
        (["header", "field", 1, "equals"], 65536, "header.field[1].equals", "at most 65535"),
        (["header", "field", 1, "endian"], "middle", "header.field[1].endian", '"big", "little"'),
        (["payload", "order"], ["time"], "payload.size.channel", "not in payload.order"),
        (["payload", "order"], ["time", "channel", "pol"], "payload.size", "add the size of pol"),
        (["payload", "order"], ["time", "channel", "time"], "payload.order", "twice"),
        (["payload", "size", "time"], "cuont", "payload.size.time", "did you mean count?"),
        (["payload", "size", "time"], 0, "payload.size.time", "must be 1 to"),
        (["payload", "size", "time"], 100000, "payload.size", "a UDP datagram holds 65507"),
        (["sample", "bits"], 17, "sample.bits", "at most 16"),
        (["sample", "code"], "twos_compliment", "sample.code", "did you mean twos_complement?"),
        (["timestamp", "count"], {"mcnt": 1}, "timestamp.count.mcnt", "no such field"),
        (["timestamp", "count"], {"add": 1}, "timestamp.count", "names no field"),
        (["timestamp", "count"], {"count": 0}, "timestamp.count.count", "must be 1 to"),
        (["timestamp", "count"], {"count": 1 << 17}, "timestamp.count", "beyond 64 bits"),
        (["timestamp", "stream"], ["idd"], "timestamp.stream[0]", "did you mean id?"),
        (["timestamp", "step"], 0, "timestamp.step", "more than 0"),
        (["placement"], {"input": {"x": 1}}, "placement.input.x", "no such field"),
        (["placement"], {"beam": {"id": 1}}, "placement.beam", None),
        (["validity"], {"length": {"id": -1}}, "validity.length.id", "must be 1 to"),
    ],
)
def test_wrong_descriptions_are_explained(path, new, key, remedy):
    with pytest.raises(ConfigError) as caught:
        Format.parse(changed(path, new), "mine.toml")
    problems = {p.key: p.remedy for p in caught.value.problems}
    assert any(k.startswith(key) for k in problems), problems
    found = next(r for k, r in problems.items() if k.startswith(key))
    assert remedy is None or remedy in found
    assert caught.value.source == "mine.toml"


def test_samples_that_fill_no_bytes():
    bad = copy.deepcopy(GOOD)
    bad["payload"]["size"] = {"time": 1, "channel": 1}
    bad["sample"] = {"bits": 3, "complex": True, "code": "unsigned"}
    with pytest.raises(ConfigError, match="6 bits are no whole number of bytes"):
        Format.parse(text(bad))


def test_unknown_formats_are_explained(tmp_path):
    with pytest.raises(ConfigError, match="did you mean paper_psa128"):
        Format.load("paper_psa182")
    with pytest.raises(ConfigError, match="no such format, nor such a file"):
        Format.load(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("title = ")
    with pytest.raises(ConfigError, match="not valid TOML"):
        Format.load(tmp_path / "bad.toml")
    (tmp_path / "mine.toml").write_text(text(GOOD))
    assert Format.load(tmp_path / "mine.toml").title == "t"
