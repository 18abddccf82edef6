"""Which Ryle this is."""

from __future__ import annotations

import os
import subprocess
from functools import cache
from pathlib import Path


@cache
def commit() -> str:
    """Commit of the source tree that this module lies in; RYLE_COMMIT, if set, names it for a copy of that tree."""
    if named := os.environ.get("RYLE_COMMIT"):
        return named
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
