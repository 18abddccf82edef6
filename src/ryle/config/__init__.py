"""The observation file: TOML in, one checked object out."""

from ryle.config.cautions import FOREIGN_X_HEAPS
from ryle.config.changes import at_leisure, changed, part, recorded, simulated
from ryle.config.endpoints import Endpoint
from ryle.config.observation import Observation
from ryle.config.reading import example, example_files, example_names, example_title, load, parse
from ryle.config.units import show
from ryle.problems import ConfigError, Problem

__all__ = [
    "FOREIGN_X_HEAPS",
    "ConfigError",
    "Endpoint",
    "Observation",
    "Problem",
    "at_leisure",
    "changed",
    "example",
    "example_files",
    "example_names",
    "example_title",
    "load",
    "parse",
    "part",
    "recorded",
    "show",
    "simulated",
]
