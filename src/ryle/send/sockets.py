"""UDP sockets that send, unicast or multicast."""

from __future__ import annotations

import socket
from collections.abc import Sequence

from ryle.config.endpoints import Endpoint
from ryle.config.engine_tables import NetworkTable
from ryle.receive.sockets import interface_index

_SEND_BUFFER = 512 << 10  # bytes


def send_socket(endpoints: Sequence[Endpoint], network: NetworkTable) -> socket.socket:
    """Open a socket that sends to endpoints, unicast and multicast ones alike."""
    six = {":" in e.host for e in endpoints}
    if len(six) > 1:
        raise ValueError(f"{endpoints[0]} and others: one sender's addresses are all IPv4 or all IPv6")
    s = socket.socket(socket.AF_INET6 if True in six else socket.AF_INET, socket.SOCK_DGRAM)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
    if not any(e.multicast for e in endpoints):
        return s
    try:
        if True in six:
            s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, interface_index(network.own_address))
            s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, network.ttl)
        else:
            s.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(network.own_address))
            s.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, network.ttl)
    except OSError:
        s.close()
        raise
    return s
