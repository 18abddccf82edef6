"""The observation file: TOML in, one checked object out."""

from .observation import Observation, changed, load, parse
from .problems import ConfigError, Problem
from .tables import Endpoint
from .units import show

__all__ = ["ConfigError", "Endpoint", "Observation", "Problem", "changed", "load", "parse", "show"]
