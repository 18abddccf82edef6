"""The observation file: TOML in, one checked object out."""

from .cautions import FOREIGN_X_HEAPS
from .observation import Observation, changed, recorded, simulated
from .problems import ConfigError, Problem
from .reading import example, example_files, example_names, load, parse
from .tables import Endpoint
from .units import show

__all__ = [
    "FOREIGN_X_HEAPS",
    "ConfigError",
    "Endpoint",
    "Observation",
    "Problem",
    "changed",
    "example",
    "example_files",
    "example_names",
    "load",
    "parse",
    "recorded",
    "show",
    "simulated",
]
