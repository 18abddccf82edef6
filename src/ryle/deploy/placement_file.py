"""What stands in a ``placement.toml``."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class PlanTable(_Table):
    """``[plan]``: what is placed."""

    observation: str = Field(description="observation file, from this file's directory")
    engines: int = Field(0, ge=0, description="how many there are")


class HostTable(_Table):
    """``[[hosts]]``: a server."""

    name: str = Field(min_length=1, pattern=r"^[A-Za-z0-9][A-Za-z0-9.-]*$", description="its name, as hosts call it")
    kind: str = Field("", description="a [servers.NAME] of the hardware, whose cores, GPUs and cards it has")
    used: dict[str, float] = Field(default_factory=dict, description="share of each resource that is used")


class EngineTable(_Table):
    """``[[engines]]``: an engine and its place."""

    kind: Literal["f", "x", "catcher", "fx"] = Field(description="which kind of engine")
    index: int = Field(ge=0, description="which of these")
    host: str = Field(description="name of one of [[hosts]]")
    gpu: int | None = Field(None, ge=0, description="number of the host's GPU")
    cores: tuple[int, ...] = Field((), description="the host's cores that are its own")
    receives: tuple[str, ...] = Field((), description="addresses that it receives at")
    sends: tuple[str, ...] = Field((), description="addresses that it sends to")
    bottleneck: str = Field("", description="what it uses most")
    used: float = Field(0.0, ge=0, description="how much of it")


class PlacementFile(_Table):
    """A placement, as ``ryle plan -o`` writes it."""

    plan: PlanTable
    hosts: tuple[HostTable, ...]
    engines: tuple[EngineTable, ...]
