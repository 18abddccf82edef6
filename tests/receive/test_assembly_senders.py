"""Who may send: each head's first sender, or those that a plan lists."""

import ipaddress
import socket
import time

import numpy as np
import pytest

from assembled import check_sums, packet, plan
from ports import free_ports
from ryle.config.endpoints import Endpoint
from ryle.receive.assembly import Assembler
from ryle.receive.udp import UdpSource

SECOND, START = 10**9, 10**18
STRANGER = (1 << 64) - 1


def take(assembler, numbers, sender, time):
    packets = [packet(0, n) for n in numbers]
    host, port = sender
    key = assembler.native.sender(ipaddress.ip_address(host).packed, port)
    assembler.native.take_bytes(packets, 0, np.full(len(packets), time, np.int64), key)
    return assembler.counts()


def test_the_first_sender_of_a_head_is_the_only_one_until_it_is_silent_for_a_second():
    right, wrong = ("10.0.0.1", 5000), ("10.0.0.1", 5001)
    assembler = Assembler(plan(1, senders="first", chunks=8))
    assert take(assembler, range(4), right, START).placed == 4
    assert take(assembler, range(4, 8), wrong, START + SECOND).foreign == 4
    assert take(assembler, range(4, 8), right, START + SECOND).placed == 8
    assert take(assembler, range(8, 10), wrong, START + 2 * SECOND).foreign == 6  # silent for no more than a second
    assert take(assembler, range(8, 10), wrong, START + 2 * SECOND + 1).placed == 10
    assert take(assembler, range(10, 12), right, START + 2 * SECOND + 2).foreign == 8
    check_sums(assembler)


def test_listed_senders_are_the_only_ones():
    assembler = Assembler(plan(1, senders=[("10.0.0.1", 5000), ("fe80::1", 7)]))
    assert take(assembler, range(2), ("10.0.0.1", 5000), START).placed == 2
    assert take(assembler, range(2, 4), ("::ffff:10.0.0.1", 5000), START).placed == 4
    assert take(assembler, range(4, 6), ("fe80::1", 7), START).placed == 6
    for stranger in (("10.0.0.2", 5000), ("10.0.0.1", 5001), ("fe80::1", 8), ("fe80::2", 7)):
        assert take(assembler, range(6, 8), stranger, START).placed == 6
    assembler.take([packet(0, 6)])  # made in memory
    counts = check_sums(assembler)
    assert (counts.placed, counts.foreign) == (7, 8)


@pytest.mark.parametrize("bits", [*range(33), *(96 + n for n in (0, 9, 32)), 128])
def test_networks_hold_what_the_library_says(bits, rng):
    """Addresses that agree in about as many bits, of both kinds, against Python's own arithmetic."""
    size = 32 if bits <= 32 else 128
    address = (ipaddress.IPv4Address if size == 32 else ipaddress.IPv6Address)(rng.bytes(size // 8))
    network = ipaddress.ip_network((address, bits), strict=False)
    assembler = Assembler(plan(1, senders=[(str(network), 0), ("192.0.2.1", 7)]))
    for agree in range(max(0, bits - 3), min(size, bits + 3)):
        other = type(address)(int(address) ^ 1 << (size - 1 - agree))  # the first `agree` bits are the same
        for found in (other, address):
            known = assembler.native.sender(found.packed, 5000) != STRANGER
            assert known == (found in network), (network, found)
    assert assembler.native.sender(b"\xc0\0\2\1", 7) != STRANGER
    assert (assembler.native.sender(b"\xc0\0\2\1", 8) == STRANGER) == (ipaddress.ip_address("192.0.2.1") not in network)


def test_strangers_are_foreign_whatever_they_send():
    assembler = Assembler(plan(1, senders=[("10.0.0.0/8", 0)]))
    stranger = assembler.native.sender(b"\x0b\0\0\1", 5000)
    assembler.native.take_bytes([b"", b"rubbish", packet(0, 0), packet(0, 10**6)], 0, None, stranger)
    counts = check_sums(assembler)
    assert (counts.foreign, counts.malformed, counts.received, counts.open) == (4, 0, 4, 0)


def test_sockets_say_who_sent():
    port = free_ports(1)  # none that a sender below may get
    senders = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2)]
    for s in senders:
        s.bind(("127.0.0.1", 0))
    assembler = Assembler(plan(1, senders=[senders[0].getsockname()]))
    with UdpSource(assembler, [Endpoint(host="127.0.0.1", port=port)]):
        for n in range(8):
            for s in senders:
                s.sendto(packet(0, n), ("127.0.0.1", port))
        end = time.monotonic() + 60
        while assembler.counts().received < 16 and time.monotonic() < end:
            time.sleep(0.01)
    for s in senders:
        s.close()
    counts = check_sums(assembler)
    assert (counts.placed, counts.foreign) == (8, 8)


def test_addresses_must_be_addresses():
    with pytest.raises(ValueError, match="somewhere"):
        Assembler(plan(1, senders=[("somewhere", 1)]))
