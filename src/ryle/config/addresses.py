"""Addresses and ports as people write them on a command line."""

from __future__ import annotations

import ipaddress
import re

from ryle.config.endpoints import Endpoint, read_ranges


def endpoints(text: str, what: str = "--to") -> list[Endpoint]:
    """Read addresses with ports: ``10.0.0.1:7148``, ``10.0.0.1:7148+4`` for four ports, several with commas.

    Of multicast groups ``+4`` counts the group up. IPv6 addresses stand in brackets. What an observation file takes
    is understood too: ``239.102.0.64+7:7148``, that group and seven more.

    Raises
    ------
    ValueError
        If that is not what the text is.
    """
    found: list[Endpoint] = []
    for part in text.split(","):
        if re.fullmatch(r"[^+]+\+\d+:\d+", part.strip()):
            try:
                found += [e for r in read_ranges(part.strip()) for e in r.endpoints()]
            except ValueError as error:
                raise ValueError(f"{what} {error}") from None
            continue
        match = re.fullmatch(r"\s*(?:\[([^\]]+)\]|([^:\[\]]+)):(\d+)(?:\+(\d+))?\s*", part)
        try:
            if match is None:
                raise ValueError
            host = ipaddress.ip_address(match[1] or match[2])
            port, count = int(match[3]), int(match[4] or 1)
            if not 1 <= port <= 65535 or not 1 <= count <= 65536:
                raise ValueError
            first = Endpoint(host=str(host), port=port)
            run = [first, *(first.nth(i) for i in range(1, count))]
            if isinstance(host, ipaddress.IPv6Address) and host.scope_id:  # of a group, as ff15::1%eth1
                run[1:] = [Endpoint(host=f"{e.host.split('%')[0]}%{host.scope_id}", port=e.port) for e in run[1:]]
            if run[-1].port > 65535:
                raise ValueError
        except ValueError:
            raise ValueError(
                f"{what} {part.strip()!r} is no address and port; write 10.0.0.1:7148, [fd00::1]:7148, "
                "10.0.0.1:7148+4 for four ports, several with commas"
            ) from None
        found += run
    return found


def senders(text: str) -> list[Endpoint]:
    """Read own addresses, with or without ports: ``10.0.0.5``, ``10.0.0.5:5000+2``; see `endpoints`."""
    found: list[Endpoint] = []
    for part in text.split(","):
        try:
            found.append(Endpoint(host=str(ipaddress.ip_address(part.strip().strip("[]"))), port=0))
        except ValueError:
            found += endpoints(part, "--from")
    return found
