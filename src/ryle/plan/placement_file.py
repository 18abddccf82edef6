"""``placement.toml`` as it is read again: hosts with what they have, engines with their places and addresses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ryle.config import ConfigError
from ryle.config.observation import Engine
from ryle.problems import explain
from ryle.toml_file import read_text, read_toml


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class PlanTable(_Table):
    """``[plan]``: of which observation, and how many engines there are to be."""

    observation: str = Field(min_length=1, description="the observation file", examples=['"array.toml"'])
    engines: int = Field(ge=1, description="how many engines follow", examples=[5])


class HostTable(_Table):
    """``[[hosts]]``: a host and what it has; `link` is the bit/s of all its cards together, each way."""

    name: str = Field(
        pattern=r"^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$", description="a host's name", examples=['"node0"']
    )
    kind: str = ""
    cores: int = Field(ge=1, description="how many cores it has", examples=[64])
    gpus: int = Field(ge=0, description="how many GPUs it has", examples=[2])
    link: float = Field(gt=0, description="bit/s of its cards together, each way", examples=["400e9"])
    used: dict[str, float] = {}


class EngineTable(_Table):
    """``[[engines]]``: an engine, its place, where it receives and where it sends to, what share of its GPU it uses."""

    kind: Engine
    index: int = Field(ge=0, description="which of its kind, from 0", examples=[0])
    host: str = Field(description="name of one of [[hosts]]", examples=['"node0"'])
    gpu: int | None = Field(None, ge=0)
    cores: tuple[int, ...] = Field(description="its cores", examples=["[0, 1]"])
    numa: int | None = Field(None, ge=0)
    receives: tuple[str, ...] = Field(description="addresses where it receives", examples=['["239.102.0.64:7148"]'])
    sends: tuple[str, ...] = ()
    bottleneck: str = ""
    used: float = Field(0.0, ge=0)
    of_gpu: dict[str, float] = {}

    @property
    def name(self) -> str:
        """What it is called everywhere: f0, x12, catcher0, fx0."""
        return f"{self.kind}{self.index}"


class PlacementFile(_Table):
    """The whole file."""

    plan: PlanTable
    hosts: tuple[HostTable, ...] = Field(min_length=1)
    engines: tuple[EngineTable, ...] = Field(min_length=1)


def read_placement(path: Path) -> PlacementFile:
    """Read a placement as it stands, without looking at whether it makes sense.

    Raises
    ------
    ConfigError
        If it is none; says every key that is wrong, and how to mend it.
    """
    return parse_placement(read_text(path, str(path), _absent), str(path))


def parse_placement(text: str, source: str) -> PlacementFile:
    """Read a placement's text, as `read_placement` reads its file; `source` is what errors call it."""
    values: dict[str, Any] = read_toml(text, source)
    try:
        return PlacementFile.model_validate(values)
    except ValidationError as error:
        raise ConfigError(source, explain(error, PlacementFile, values)) from None


def _absent() -> str:
    return "no such file; write it with `ryle plan array.toml --output placement.toml`"
