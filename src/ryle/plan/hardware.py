"""What a GPU, a server and a switch can do: measured figures that ship with Ryle, or those of a file of the user's."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ryle.problems import ConfigError, Problem, explain, listed
from ryle.toml_file import read_text, read_toml


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Gpu(_Table):
    """``[gpus.NAME]``: a GPU.

    Rates `f` (samples/s by channels) and `x` (operations/s by inputs) are those of kernels; an engine reaches the part
    `engine` of them. `bus` is in bit/s, energies in J a sample (`f_joules` by channels) or an operation.
    """

    name: str
    watts: float = Field(gt=0)
    memory: float = Field(gt=0)
    bus: float = Field(gt=0)
    bus_both: float = Field(gt=0)
    f: dict[int, float]
    f_joules: dict[int, float]
    x: dict[int, float]
    x_joules: float = Field(ge=0)
    fx_joules: float = Field(ge=0)
    engine: float = Field(0.95, gt=0, le=1)
    price: float = Field(0, ge=0)

    def f_rate(self, channels: int) -> float:
        """Give the samples a second that an F-engine reaches."""
        return self.engine * _between(self.f, channels)

    def f_energy(self, channels: int) -> float:
        """Give the joules that a sample costs in an F-engine."""
        return _between(self.f_joules, channels)

    def x_rate(self, inputs: int) -> float:
        """Give the operations a second that an X-engine reaches; of few inputs fewer, as tiles stay empty."""
        least = min(self.x)
        rate = _between(self.x, max(inputs, least))
        return self.engine * rate * min(1.0, inputs / least)


class Server(_Table):
    """``[servers.NAME]``: a server with its GPUs and cards; rates in bit/s, `disk` in byte/s.

    Its cores are counted node by node, equally many of each of `nodes` parts of its memory.
    """

    name: str
    gpu: str
    gpus: int = Field(ge=1)
    cards: int = Field(ge=1)
    card: float = Field(gt=0)
    cores: int = Field(ge=1)
    nodes: int = Field(1, ge=1)
    memory: float = Field(gt=0)
    memory_bandwidth: float = Field(gt=0)
    receive: Literal["udp", "packet_ring", "dpdk"] = "dpdk"
    disk: float = Field(gt=0)
    watts: float = Field(ge=0)
    price: float = Field(0, ge=0)

    def node_of(self, cores: Sequence[int]) -> int | None:
        """Say on which node some cores are; None if there is one only, or they are on several."""
        found = {core * self.nodes // self.cores for core in cores}
        return found.pop() if self.nodes > 1 and len(found) == 1 else None


class Switch(_Table):
    """``[switch]``: a switch between servers."""

    name: str
    ports: int = Field(ge=2)
    port: float = Field(gt=0)
    watts: float = Field(ge=0)
    price: float = Field(0, ge=0)


class Money(_Table):
    """``[money]``: what energy costs, and for how long."""

    kilowatt_hour: float = Field(0, ge=0)
    overhead: float = Field(1.3, ge=1)
    years: float = Field(5, ge=0)


class Hardware(_Table):
    """A file of hardware."""

    gpus: dict[str, Gpu]
    servers: dict[str, Server]
    switch: Switch
    money: Money


def read_hardware(path: Path | None = None) -> Hardware:
    """Read what ships with Ryle, and a file over it.

    Raises
    ------
    ConfigError
        If the file is not one of hardware; says every key that is wrong, and how to mend it.
    """
    values: dict[str, Any] = tomllib.loads((files("ryle.plan") / "hardware.toml").read_text())
    source = "hardware.toml" if path is None else str(path)
    if path is not None:
        text = read_text(path, source, lambda: "no such file")
        values = _over(values, read_toml(text, source))
    try:
        found = Hardware.model_validate(values)
    except ValidationError as error:
        raise ConfigError(source, explain(error, Hardware, values)) from None
    problems = [
        Problem(f"servers.{name}.gpu", server.gpu, f"is no GPU here: {listed(found.gpus)}; or add [gpus.{server.gpu}]")
        for name, server in found.servers.items()
        if server.gpu not in found.gpus
    ]
    if problems:
        raise ConfigError(source, problems)
    return found


def _over(values: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Lay tables over tables, key by key; a table of rates takes the place of the whole one."""
    found = dict(values)
    for key, value in more.items():
        known = found.get(key)
        whole = key in ("f", "x") or not isinstance(value, Mapping) or not isinstance(known, Mapping)
        found[key] = value if whole else _over(known or {}, value)
    return found


def _between(rates: Mapping[int, float], at: int) -> float:
    """Read a rate between measured ones, on a logarithmic axis; beyond them, that at the end."""
    sizes = sorted(rates)
    if at <= sizes[0]:
        return rates[sizes[0]]
    for low, high in pairwise(sizes):
        if at <= high:
            share = math.log(at / low) / math.log(high / low)
            return float(rates[low] * (rates[high] / rates[low]) ** share)
    return rates[sizes[-1]]
