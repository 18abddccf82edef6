"""Who may send: each head's first sender, or those that a plan lists."""

import ipaddress
import socket
import time

import numpy as np
import pytest

from assembled import check_sums, packet, plan
from ryle.config.tables import Endpoint
from ryle.receive import _native
from ryle.receive.assembly import Assembler
from ryle.receive.sources import UdpSource

SECOND, START = 10**9, 10**18


def key(host, port):
    return _native.sender_key(ipaddress.ip_address(host).packed, port)


def take(assembler, numbers, sender, time):
    packets = [packet(0, n) for n in numbers]
    assembler.native.take_bytes(packets, 0, np.full(len(packets), time, np.int64), key(*sender))
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
    assembler.take([packet(0, 6)])  # nobody knows from where
    assert check_sums(assembler).foreign == 9


def test_sockets_say_who_sent():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    senders = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2)]
    for s in senders:
        s.bind(("127.0.0.1", 0))
    assembler = Assembler(plan(1, senders=[senders[0].getsockname()]))
    with UdpSource(assembler, [Endpoint(host="127.0.0.1", port=port)]):
        for n in range(8):
            for s in senders:
                s.sendto(packet(0, n), ("127.0.0.1", port))
        end = time.monotonic() + 10
        while assembler.counts().received < 16 and time.monotonic() < end:
            time.sleep(0.01)
    for s in senders:
        s.close()
    counts = check_sums(assembler)
    assert (counts.placed, counts.foreign) == (8, 8)


def test_addresses_must_be_addresses():
    with pytest.raises(ValueError, match="somewhere"):
        Assembler(plan(1, senders=[("somewhere", 1)]))
