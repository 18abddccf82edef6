"""Which of this host's addresses is in a network, so that one observation file is right on every host."""

from __future__ import annotations

import ipaddress
import socket


def address_in(network: str) -> str:
    """Find this host's address in a network.

    Parameters
    ----------
    network : str
        As ``10.100.0.0/24``.

    Returns
    -------
    str
        The address that this host would send from.

    Raises
    ------
    ValueError
        If it has none there: the observation is not meant for this host.
    """
    there = ipaddress.ip_network(network)
    family = socket.AF_INET6 if there.version == 6 else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as s:
        try:
            s.connect((str(there[1] if there.num_addresses > 1 else there[0]), 9))  # sends nothing: asks for the route
            own = s.getsockname()[0]
        except OSError:
            own = None
    if own is None or ipaddress.ip_address(own) not in there:
        remedy = "name the network of a card that this host has, or run this elsewhere"
        raise ValueError(f"network.interface = {network}: this host has no address there; {remedy}")
    return str(own)
