"""Whether packets as large as an observation's reach other hosts: an echo of that size, in one piece, is asked for."""

from __future__ import annotations

import errno
import os
import socket
import struct
import time
from collections.abc import Iterator

from ryle.doctor.finding import Command, Finding, Hand, judge
from ryle.doctor.machine import Machine
from ryle.doctor.needs import Needs
from ryle.fpga.protocols import checksum

_IP_MTU_DISCOVER, _IP_PMTUDISC_PROBE, _IP_HEADER, _ICMP_HEADER = 10, 3, 20, 8
_SECONDS, _TRIES, _SMALL = 0.4, 3, 64


def way(machine: Machine, needs: Needs) -> Iterator[Finding]:
    """Try the way to each other host that is sent to by its own address."""
    own = {a for i in machine.interfaces for a in i.addresses}
    for host in needs.hosts:
        if host not in own and ":" not in host:
            yield _tried(host, needs.datagram)


def _tried(host: str, size: int) -> Finding:
    small, large = echoes(host, _SMALL), echoes(host, size)
    if large:
        return Finding("path", host, "good", f"packets of {size} B arrive", f"packets of {size} B arrive")
    if not small:
        return Finding("path", host, "unknown", "it answers no echo (ping): not there, or not allowed to")
    return judge(
        "path",
        host,
        False,
        "bad",
        f"packets of {_SMALL} B arrive, of {size} B do not",
        f"packets of {size} B arrive",
        "some interface or switch between here and there has a smaller MTU, and drops them",
        Command(f"tracepath -n -l {size} {host}"),
        Hand("jumbo frames on each switch port of the way, and on that host"),
    )


def echoes(host: str, size: int) -> bool:
    """Ask a host for an echo of an IP packet of so many bytes, in one piece, some times; whether one came back."""
    kind = socket.SOCK_RAW if os.geteuid() == 0 else socket.SOCK_DGRAM
    try:
        s = socket.socket(socket.AF_INET, kind, socket.IPPROTO_ICMP)
    except OSError:
        return False  # no echoes for who is not root here (net.ipv4.ping_group_range)
    with s:
        s.setsockopt(socket.IPPROTO_IP, _IP_MTU_DISCOVER, _IP_PMTUDISC_PROBE)
        mark = os.urandom(8)
        for turn in range(_TRIES):
            body = mark + bytes(max(0, size - _IP_HEADER - _ICMP_HEADER - len(mark)))
            packet = struct.pack("!BBHHH", 8, 0, 0, os.getpid() & 0xFFFF, turn) + body
            packet = packet[:2] + checksum(packet) + packet[4:]
            try:
                s.sendto(packet, (host, 0))
            except OSError as error:
                if error.errno == errno.EMSGSIZE:
                    return False
                continue
            if _answered(s, mark):
                return True
    return False


def _answered(s: socket.socket, mark: bytes) -> bool:
    end = time.monotonic() + _SECONDS
    while (left := end - time.monotonic()) > 0:
        s.settimeout(left)
        try:
            answer = s.recv(65535)
        except OSError:
            return False
        if s.type == socket.SOCK_RAW:
            answer = answer[4 * (answer[0] & 15) :]
        if answer[:1] == b"\0" and answer[8:16] == mark:
            return True
    return False
