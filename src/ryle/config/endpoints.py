"""UDP addresses and ports as an observation file writes them: one, a run, a range of groups, or who may send."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, WithJsonSchema

_SENDER = re.compile(r"(?:\[(.+)\]|([^:\[\]]+))(?::(\d{1,5}))?")  # all but IPv6 without brackets
_ADDRESS = re.compile(r"\[?([0-9a-fA-F.:]+?)\]?(?:\+(\d{1,5}))?:(\d{1,5})")


class Endpoint(BaseModel):
    """A UDP address and port, the first of a run: `nth` gives the others."""

    model_config = ConfigDict(frozen=True)
    host: str
    port: int

    @property
    def multicast(self) -> bool:
        """Whether the address is a multicast group."""
        return ipaddress.ip_address(self.host).is_multicast

    def nth(self, index: int) -> Endpoint:
        """Endpoint `index` of the run: multicast counts the group up, unicast the port."""
        if self.multicast:
            return Endpoint(host=str(ipaddress.ip_address(self.host) + index), port=self.port)
        return Endpoint(host=self.host, port=self.port + index)

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class EndpointRange(BaseModel):
    """Neighbouring addresses with one port, as MeerKAT writes them: ``239.102.0.64+7:7148`` is eight groups."""

    model_config = ConfigDict(frozen=True)
    first: Endpoint
    more: int = 0

    def endpoints(self) -> list[Endpoint]:
        """All of them, in order."""
        start = ipaddress.ip_address(self.first.host)
        return [Endpoint(host=str(start + i), port=self.first.port) for i in range(self.more + 1)]

    def __str__(self) -> str:
        host = f"[{self.first.host}]" if ":" in self.first.host else self.first.host
        return f"{host}{f'+{self.more}' if self.more else ''}:{self.first.port}"


class Sender(BaseModel):
    """Who may send: neighbouring addresses, written as ``10.1.0.0/16``, and a port; 0: any."""

    model_config = ConfigDict(frozen=True)
    network: str
    port: int = 0

    def holds(self, host: str) -> bool:
        """Whether it is one of these addresses, at whatever port."""
        return ipaddress.ip_address(host) in ipaddress.ip_network(self.network)

    def __str__(self) -> str:
        network = ipaddress.ip_network(self.network)
        text = str(network.network_address) if network.num_addresses == 1 else str(network)
        return text if not self.port else f"[{text}]:{self.port}" if ":" in text else f"{text}:{self.port}"


@dataclass(frozen=True)
class Run:
    """Neighbouring endpoints that a key claims: ports of one address, or addresses of one port."""

    key: str
    first: Endpoint
    count: int
    by_port: bool

    @property
    def line(self) -> tuple[object, ...]:
        """What two runs share that can meet."""
        address = ipaddress.ip_address(self.first.host)
        return (address,) if self.by_port else (address.version, self.first.port)

    @property
    def numbers(self) -> range:
        """Ports, or addresses as numbers."""
        start = self.first.port if self.by_port else int(ipaddress.ip_address(self.first.host))
        return range(start, start + self.count)

    @property
    def what(self) -> str:
        """Name of its numbers."""
        return "ports" if self.by_port else "groups"

    def __str__(self) -> str:
        return str(self.first if self.by_port else EndpointRange(first=self.first, more=self.count - 1))


def run_of(name: str, first: Endpoint, count: int) -> Run:
    """Give what a key of ``[network]`` claims: a run of so many."""
    return Run(f"network.{name}", first, count, by_port=not first.multicast)


def own_runs(key: str, ranges: list[EndpointRange]) -> list[Run]:
    """Give what an antenna or input claims by its own addresses; of unicast ones each is a line of its own."""
    return [
        Run(key, first, count, by_port=not first.multicast)
        for r in ranges
        for first, count in ([(r.first, r.more + 1)] if r.first.multicast else [(e, 1) for e in r.endpoints()])
    ]


def read_endpoint(value: Any) -> Any:
    """Read ``"address:port"``; ValueError says what to write."""
    if isinstance(value, Endpoint):
        return value
    try:
        found = _read(value)
    except ValueError:
        found = None
    if found is None or found.more:
        raise ValueError('write "address:port" with a numeric address, such as "127.0.0.1:7148" or "239.102.0.64:7148"')
    return found.first


def read_ranges(value: Any) -> Any:
    """Read one range, or a list of them; ValueError says what to write."""
    parts = value if isinstance(value, list | tuple) else [value]
    found = []
    for part in parts:
        try:
            found.append(part if isinstance(part, EndpointRange) else _read(part))
        except ValueError as error:
            why = f"{part!r} {str(error) or 'is none'}; " if str(error) or len(parts) > 1 else ""
            raise ValueError(
                f'{why}write "address:port", or "239.102.0.64+7:7148" for that group and 7 more, or a list of these'
            ) from None
    return found


def read_senders(value: Any) -> Any:
    """Read one address or network, or a list of them; ValueError says what to write."""
    found = []
    for part in value if isinstance(value, list | tuple) else [value]:
        try:
            found.append(part if isinstance(part, Sender) else _sender(part))
        except ValueError as error:
            raise ValueError(
                f'{part!r} {error}; write an address, a network, or either with a port, such as "10.1.0.7", '
                '"10.1.0.0/16", "10.1.0.7:7148" or "[fd00::7]:7148"'
            ) from None
    return found


def _sender(value: Any) -> Sender:
    if not isinstance(value, str):
        raise ValueError("is no text")
    match = _SENDER.fullmatch(value)
    text, port = (match[1] or match[2], match[3]) if match else (value, None)
    if port is not None and not 0 < int(port) < 65536:
        raise ValueError("has an impossible port")
    try:
        network = ipaddress.ip_network(text)
    except ValueError:
        try:
            network = ipaddress.ip_network(text, strict=False)
        except ValueError:
            raise ValueError("is none") from None
        raise ValueError(f"begins in the middle of the network {network}") from None
    return Sender(network=str(network), port=int(port or 0))


def _read(value: Any) -> EndpointRange:
    match = _ADDRESS.fullmatch(value) if isinstance(value, str) else None
    if match is None or not 0 < int(match[3]) < 65536:
        raise ValueError
    more = int(match[2] or 0)
    try:
        first = ipaddress.ip_address(match[1])
    except ValueError:
        raise ValueError from None
    try:
        last = first + more
    except ValueError:
        raise ValueError("runs past the last address") from None
    if first.is_multicast != last.is_multicast:
        raise ValueError("runs past the multicast addresses")
    return EndpointRange(first=Endpoint(host=str(first), port=int(match[3])), more=more)


EndpointText = Annotated[Endpoint, BeforeValidator(read_endpoint)]
EndpointRanges = Annotated[
    list[EndpointRange], BeforeValidator(read_ranges), WithJsonSchema({"kind": "address range or list of them"})
]
Senders = Annotated[
    list[Sender], BeforeValidator(read_senders), WithJsonSchema({"kind": "address, network or list of them"})
]
