"""UDP sockets that receive, unicast or multicast, with a large buffer."""

from __future__ import annotations

import ctypes
import ipaddress
import os
import socket
import struct
import warnings
from pathlib import Path

from ryle.config.endpoints import Endpoint

_SO_RCVBUFFORCE = 33
_SO_ATTACH_FILTER = 26
_IP_MULTICAST_ALL = 49


class SmallBufferWarning(UserWarning):
    """The kernel granted a smaller socket buffer than was asked for."""


def receive_socket(
    endpoint: Endpoint, interface: str, buffer_size: int, *, shared: bool = False, deaf: bool = False
) -> socket.socket:
    """Open a UDP socket that receives what is sent to `endpoint`.

    Parameters
    ----------
    endpoint : Endpoint
        Own address, or multicast group to join, and port.
    interface : str
        Address of the interface on which to join a multicast group.
    buffer_size : int
        Bytes of socket buffer asked for; a warning says how to allow it if the kernel grants less.
    shared : bool
        Whether other sockets receive at the same endpoint, so that flows are dealt out among them (SO_REUSEPORT).
    deaf : bool
        Let a filter drop everything until somebody takes it off (SO_DETACH_FILTER); such packets are kernel drops.

    Raises
    ------
    OSError
        If the address is not this host's or the port is taken; the message names both.
    """
    address = ipaddress.ip_address(endpoint.host)
    family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
    s = socket.socket(family, socket.SOCK_DGRAM)
    try:
        _grow_buffer(s, buffer_size)
        if deaf:  # before it has a name to which anything could come
            s.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, _drop_all())
        if address.is_multicast:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        s.bind((endpoint.host, endpoint.port))
        if address.is_multicast and family == socket.AF_INET:
            s.setsockopt(socket.IPPROTO_IP, _IP_MULTICAST_ALL, 0)
            request = address.packed + socket.inet_aton(interface)
            s.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, request)
        elif address.is_multicast:
            request = address.packed + struct.pack("@I", interface_index(interface))
            s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, request)
    except OSError as error:
        s.close()
        where = f"{endpoint}" + (f" on interface {interface}" if address.is_multicast else "")
        raise OSError(
            error.errno,
            f"cannot receive at {where}: {os.strerror(error.errno or 0)}. Is the address one of this host's, and is "
            f"no other process on port {endpoint.port}?",
        ) from None
    return s


_DROP = ctypes.create_string_buffer(struct.pack("=HBBI", 6, 0, 0, 0))  # BPF: return 0


def _drop_all() -> bytes:
    """Give the ``struct sock_fprog`` of a filter that lets nothing pass."""
    return struct.pack("@HP", 1, ctypes.addressof(_DROP))


def interface_index(address: str) -> int:
    """Index of the interface that has an IPv6 `address`."""
    wanted = ipaddress.ip_address(address)
    for line in Path("/proc/net/if_inet6").read_text().splitlines():
        packed, index, *_ = line.split()
        if ipaddress.ip_address(bytes.fromhex(packed)) == wanted:
            return int(index, 16)
    raise OSError(f"no interface has the address {address}; see 'ip -6 address'")


def granted_buffer(size: int) -> int:
    """Bytes of socket buffer that the kernel of this computer gives who asks for `size`."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        return _grown(s, size)


def _grown(s: socket.socket, size: int) -> int:
    """Ask for a buffer; give what was granted."""
    try:
        s.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, size)
    except OSError:  # not root
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size)
    return s.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) // 2  # Linux reports twice what was asked for


def _grow_buffer(s: socket.socket, size: int) -> None:
    if (granted := _grown(s, size)) < size:
        warnings.warn(
            f"the kernel granted {granted} B of socket buffer, not {size} B; packets will be lost at high rates. "
            f"Allow it with: sysctl net.core.rmem_max={size}",
            SmallBufferWarning,
            stacklevel=4,
        )
