"""Packet captures, byte by byte and against what was written."""

import ipaddress
import struct

import pytest

import fresh
from ryle.receive.pcap import PcapFile
from ryle.receive.replay import PcapSource
from ryle.receive.sources import Discard
from ryle.store.pcap_write import PcapWriter

TIME = 1_700_000_000_123_456_789


def udp(payload, port=7148, length=None):
    return struct.pack("!HHHH", 4000, port, 8 + len(payload) if length is None else length, 0) + payload


def ipv4(body, address="239.10.0.1", protocol=17, fragment=0, options=b"", total=None):
    size = 20 + len(options) + len(body) if total is None else total
    head = struct.pack("!BBHHHBBH", 0x45 + len(options) // 4, 0, size, 9, fragment, 64, protocol, 0)
    return head + ipaddress.ip_address("10.0.0.9").packed + ipaddress.ip_address(address).packed + options + body


def ipv6(body, address="ff15::7", following=17):
    head = struct.pack("!IHBB", 6 << 28, len(body), following, 64)
    return head + ipaddress.ip_address("fe80::1").packed + ipaddress.ip_address(address).packed + body


def ether(body, kind=0x0800, tags=b""):
    return bytes(range(12)) + tags + struct.pack("!H", kind) + body


def pcap(packets, link=1, order="<", nanoseconds=False, time=TIME):
    data = struct.pack(order + "IHHiIII", 0xA1B23C4D if nanoseconds else 0xA1B2C3D4, 2, 4, 0, 0, 65535, link)
    for packet in packets:
        captured, original = packet if isinstance(packet, tuple) else (packet, len(packet))
        fraction = time % 10**9 if nanoseconds else time % 10**9 // 1000
        data += struct.pack(order + "IIII", time // 10**9, fraction, len(captured), original) + captured
    return data


def block(order, kind, body):
    body += bytes(-len(body) % 4)
    return struct.pack(order + "II", kind, len(body) + 12) + body + struct.pack(order + "I", len(body) + 12)


def option(order, code, value):
    return struct.pack(order + "HH", code, len(value)) + value + bytes(-len(value) % 4)


def section(order):
    return block(order, 0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1))


def interface(order, link, options=b""):
    return block(order, 1, struct.pack(order + "HHI", link, 0, 0) + options)


def enhanced(order, index, ticks, packet, options=b""):
    body = struct.pack(order + "IIIII", index, ticks >> 32, ticks & 0xFFFFFFFF, len(packet), len(packet))
    return block(order, 6, body + packet + bytes(-len(packet) % 4) + options)


def natively(path):
    """What a capture gives as a source: account, datagrams, their bytes, time of the last."""
    sink = Discard()
    source = PcapSource(sink, path)
    source.start()
    assert source.join(60) and source.bytes_done == source.bytes_total
    return source.account, sink.packets, sink.bytes, sink.arrived[1]


@pytest.fixture
def read(tmp_path):
    def read(data):
        path = tmp_path / "capture"
        path.write_bytes(data)
        capture = PcapFile(path)
        found = [(d.time, str(d.address), d.port, bytes(d.payload)) for d in capture]
        account = capture.account
        lost = account.fragments + account.truncated + account.other + account.malformed
        assert account.records == account.datagrams + lost and account.datagrams == len(found)
        assert capture.bytes_done == capture.bytes_total == len(data)
        assert natively(path) == (account, len(found), sum(len(f[3]) for f in found), found[-1][0] if found else 0)
        return found, account

    return read


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("nanoseconds", [False, True])
def test_both_byte_orders_and_clocks(read, order, nanoseconds):
    found, account = read(pcap([ether(ipv4(udp(b"hello")))], order=order, nanoseconds=nanoseconds))
    time = TIME if nanoseconds else TIME // 1000 * 1000
    assert found == [(time, "239.10.0.1", 7148, b"hello")]
    assert account.cut == 0


TAG = struct.pack("!HH", 0x8100, 5)
LINKS = {
    "ethernet": (1, ether(ipv4(udp(b"x1")))),
    "vlan": (1, ether(ipv4(udp(b"x1")), tags=TAG)),
    "double vlan": (1, ether(ipv4(udp(b"x1")), tags=struct.pack("!HH", 0x88A8, 9) + TAG)),
    "padded": (1, ether(ipv4(udp(b"x1"))) + bytes(20)),
    "ethernet with FCS bits": (0x10000001 | 0x40000000, ether(ipv4(udp(b"x1"))) + b"FCS!"),
    "ip options": (1, ether(ipv4(udp(b"x1"), options=bytes(8)))),
    "length left to the card": (1, ether(ipv4(udp(b"x1"), total=0))),
    "sll": (113, struct.pack("!HHH8sH", 0, 1, 6, b"", 0x0800) + ipv4(udp(b"x1"))),
    "sll2": (276, struct.pack("!HHIHBB8s", 0x0800, 0, 3, 1, 0, 6, b"") + ipv4(udp(b"x1"))),
    "raw": (101, ipv4(udp(b"x1"))),
    "raw bsd": (12, ipv4(udp(b"x1"))),
    "ipv4": (228, ipv4(udp(b"x1"))),
    "null little": (0, struct.pack("<I", 2) + ipv4(udp(b"x1"))),
    "null big": (0, struct.pack(">I", 2) + ipv4(udp(b"x1"))),
    "loop": (108, struct.pack(">I", 2) + ipv4(udp(b"x1"))),
}
LINKS_6 = {
    "ethernet": (1, ether(ipv6(udp(b"x1")), kind=0x86DD)),
    "raw": (101, ipv6(udp(b"x1"))),
    "ipv6": (229, ipv6(udp(b"x1"))),
    "null macos": (0, struct.pack("<I", 30) + ipv6(udp(b"x1"))),
    "extension headers": (101, ipv6(bytes([60, 1]) + bytes(14) + bytes([17, 0]) + bytes(6) + udp(b"x1"), following=0)),
}


@pytest.mark.parametrize("name", LINKS)
def test_link_types(read, name):
    link, packet = LINKS[name]
    found, _ = read(pcap([packet], link=link))
    assert [f[1:] for f in found] == [("239.10.0.1", 7148, b"x1")]


@pytest.mark.parametrize("name", LINKS_6)
def test_link_types_with_ipv6(read, name):
    link, packet = LINKS_6[name]
    found, _ = read(pcap([packet], link=link))
    assert [f[1:] for f in found] == [("ff15::7", 7148, b"x1")]


def test_what_is_not_a_whole_datagram_is_counted(read):
    whole = ether(ipv4(udp(b"abcdefgh")))
    packets = [
        whole,
        ether(ipv4(udp(b"abcdefgh"), fragment=0x2000)),  # first fragment
        ether(ipv4(b"tail", fragment=5)),  # last fragment
        ether(ipv6(bytes([17, 0, 0, 1]) + bytes(4) + udp(b"a"), following=44), kind=0x86DD),
        (whole[:-3], len(whole)),  # cut by the snapshot length, in the payload
        (whole[:36], len(whole)),  # and in the UDP header
        ether(b"\x00\x01", kind=0x0806),  # ARP
        ether(ipv4(bytes(20), protocol=6)),  # TCP
        b"",
        ether(ipv4(udp(b"abc", length=7))),
        ether(ipv4(udp(b"abc", length=900))),
        ether(b"\x41" + ipv4(udp(b"abc"))[1:]),
        whole,
    ]
    found, account = read(pcap(packets))
    assert [f[3] for f in found] == [b"abcdefgh"] * 2
    assert (account.fragments, account.truncated, account.other, account.malformed) == (3, 2, 3, 3)
    found, account = read(pcap([whole], link=147))
    assert not found and account.other == 1


def test_a_file_cut_short_keeps_what_it_has(read):
    whole = pcap([ether(ipv4(udp(bytes([i]) * 30))) for i in range(5)])
    for end in range(24, len(whole) + 1):
        found, account = read(whole[:end])
        kept, rest = divmod(end - 24, 16 + 14 + 28 + 30)
        assert [f[3][0] for f in found] == list(range(kept)) and account.cut == (rest > 0)


@pytest.mark.parametrize("order", ["<", ">"])
def test_pcapng(read, order):
    ns = option(order, 9, b"\x09") + option(order, 14, struct.pack(order + "q", 1000)) + option(order, 0, b"")
    binary = option(order, 2, b"eth0") + option(order, 9, bytes([0x80 | 20]))
    packet = ether(ipv4(udp(b"hello there")))
    other = "<" if order == ">" else ">"
    data = (
        section(order)
        + interface(order, 1)
        + interface(order, 101, ns)
        + interface(order, 1, binary)
        + block(order, 4, b"names")  # a block of no interest
        + enhanced(order, 0, TIME // 1000, packet)
        + enhanced(order, 1, TIME, ipv4(udp(b"raw")), option(order, 1, b"comment"))
        + enhanced(order, 2, 5 << 20 | 1 << 19, packet)
        + block(order, 3, struct.pack(order + "I", len(packet)) + packet)
        + block(order, 2, struct.pack(order + "HHIIII", 1, 77, 0, 9, 38, 38) + ipv4(udp(b"old block!")))
        + section(other)  # a second section, of the other byte order, with its own interfaces
        + interface(other, 101)
        + enhanced(other, 0, 8, ipv4(udp(b"second")))
    )
    found, account = read(data)
    assert [(f[0], f[3]) for f in found] == [
        (TIME // 1000 * 1000, b"hello there"),
        (TIME + 1000 * 10**9, b"raw"),
        (5_500_000_000, b"hello there"),
        (0, b"hello there"),
        (9 + 1000 * 10**9, b"old block!"),
        (8000, b"second"),
    ]
    assert account.cut == 0
    found, account = read(data[:-5])
    assert len(found) == 5 and account.cut == 1


@pytest.mark.parametrize("next_generation", [False, True])
def test_batches_equal_single_packets(tmp_path, next_generation):
    """Long runs, broken by every kind of difference at random places."""
    rng = fresh.rng()
    packets, expected = [], []
    for number in range(9000):
        payload = struct.pack("<I", number) + rng.bytes(28)
        draw = rng.integers(400)
        port, address = int(rng.integers(7000, 7004)), f"239.1.{number % 7}.{number % 250}"
        packet = ether(ipv4(udp(payload, port), address))
        size = len(packet)
        if draw == 0:
            packet = ether(ipv4(udp(payload, port), address, protocol=6))
        elif draw == 1:
            packet = ether(ipv4(udp(payload, port), address, fragment=0x2000))
        elif draw == 2:
            packet = ether(ipv4(udp(payload[:-4], port), address)) + bytes(4)  # same record, shorter datagram
            payload = payload[:-4]
        elif draw == 3:
            payload += b"more"
            packet = ether(ipv4(udp(payload, port), address))
        elif draw == 5:
            packet = ether(ipv4(udp(payload[:-4], port) + bytes(4), address))  # same IP length, shorter datagram
            payload = payload[:-4]
        elif draw == 4:
            packet = (packet[:-9], size)
        packets.append(packet)
        if draw not in (0, 1, 4):
            expected.append((address, port, payload))
    path = tmp_path / "capture"
    if next_generation:
        body = [enhanced("<", 0, i, p[0] if isinstance(p, tuple) else p) for i, p in enumerate(packets)]
        path.write_bytes(section("<") + interface("<", 1) + b"".join(body))
    else:
        path.write_bytes(pcap(packets))
    capture = PcapFile(path)
    batches = list(capture.batches())
    found = [
        (str(ipaddress.ip_address(b.address[i].tobytes())), int(b.port[i]), b.payload[i].tobytes())
        for b in batches
        for i in range(len(b.time))
    ]
    assert found == expected
    assert capture.account.datagrams == len(expected) and capture.account.records == len(packets)
    assert len(batches) < 500
    account, datagrams, size, _ = natively(path)
    assert (account, datagrams, size) == (capture.account, len(expected), sum(len(e[2]) for e in expected))
    assert [(str(d.address), d.port, bytes(d.payload)) for d in capture] == expected  # a second pass


@pytest.mark.parametrize("order", ["<", ">"])
def test_times_beyond_what_can_be_counted(read, order):
    """Offsets and clocks that cannot be give the latest time that there is, not an error."""
    end = 1 << 62  # sums with it are still 64 bits
    cases = [
        (struct.pack(order + "q", 1 << 40), b"\x06", 5, end),
        (struct.pack(order + "q", -(1 << 40)), b"\x06", 5, -end),
        (struct.pack(order + "q", 0), b"\x00", (1 << 64) - 1, end),
        (struct.pack(order + "q", 1), b"\x26", 5 << 60, 10**9),  # 10^-38 s
        (struct.pack(order + "q", 1), b"\xff", (1 << 64) - 1, 10**9),  # 2^-127 s
        (struct.pack(order + "q", 1), b"\xbf", (1 << 64) - 1, 2999999999),  # 2^-63 s
        (struct.pack(order + "q", 1), b"\x13", 10**19, 2 * 10**9),  # 10^-19 s
    ]
    for offset, clock, ticks, time in cases:
        options = option(order, 9, clock) + option(order, 14, offset)
        data = section(order) + interface(order, 1, options) + enhanced(order, 0, ticks, ether(ipv4(udp(b"a"))))
        found, _ = read(data)
        assert [f[0] for f in found] == [time], (offset, clock)


def test_both_readers_agree_on_damaged_captures(read):
    rng = fresh.rng()
    packets = [
        ether(ipv4(udp(b"hello there"))),
        ether(ipv6(udp(b"hello there")), kind=0x86DD),
        ether(ipv4(udp(b"hi"), options=bytes(4)), tags=b"\x81\x00\x00\x07"),
        ether(ipv6(bytes([60, 1]) + bytes(14) + bytes([17, 0]) + bytes(6) + udp(b"x1"), following=0), kind=0x86DD),
    ] * 3
    options = option("<", 9, b"\x09") + option("<", 14, struct.pack("<q", 1000))
    blocks = [enhanced("<", 0, TIME, p) + block("<", 3, struct.pack("<I", len(p)) + p) for p in packets]
    for whole in (pcap(packets), section("<") + interface("<", 1, options) + b"".join(blocks)):
        for _ in range(300):
            data = bytearray(whole)
            for _ in range(int(rng.integers(1, 6))):
                at = int(rng.integers(28, len(data)))
                data[at] = int(rng.choice([0, 1, 4, 6, 0x45, 0x60, 0xFF, int(rng.integers(256))]))
            read(bytes(data[: int(rng.integers(len(data) // 2, len(data) + 1))]))


def test_writer_reads_back_and_checksums_hold(tmp_path):
    rng = fresh.rng()
    path = tmp_path / "written.pcap"
    sent = []
    with PcapWriter(path) as writer:
        for i, address in enumerate(["239.2.3.4", "10.1.2.3", "ff15::7", "2001:db8::5"] * 3):
            payload = rng.bytes(int(rng.integers(0, 9000)))
            writer.write(TIME + i, payload, address, 7000 + i)
            sent.append((TIME + i, address, 7000 + i, payload))
        with pytest.raises(ValueError, match="at most 65507"):
            writer.write(0, bytes(65508), "10.0.0.1", 1)
        with pytest.raises(ValueError, match="both"):
            writer.write(0, b"", "10.0.0.1", 1, source="::1")
    assert [(d.time, str(d.address), d.port, bytes(d.payload)) for d in PcapFile(path)] == sent

    def ones_complement(data):
        data += bytes(len(data) % 2)
        total = sum(struct.unpack(f"!{len(data) // 2}H", data))
        while total >> 16:
            total = (total & 0xFFFF) + (total >> 16)
        return total

    data, at = path.read_bytes(), 24
    while at < len(data):
        size = struct.unpack_from("<I", data, at + 8)[0]
        frame, at = data[at + 16 : at + 16 + size], at + 16 + size
        if frame[12:14] == b"\x08\x00":
            assert ones_complement(frame[14:34]) == 0xFFFF
            if frame[30] == 239:
                assert frame[:6] == b"\x01\x00\x5e" + bytes([2, 3, 4])
        else:
            pseudo = frame[22:54] + struct.pack("!II", size - 54, 17)
            assert ones_complement(pseudo + frame[54:]) == 0xFFFF


def test_not_a_capture(tmp_path):
    path = tmp_path / "capture"
    path.write_bytes(b"short")
    with pytest.raises(ValueError, match="at least 24"):
        PcapFile(path)
    path.write_bytes(b"x" * 100)
    with pytest.raises(ValueError, match="neither a pcap nor a pcapng"):
        PcapFile(path)
