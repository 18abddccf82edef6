"""Where status pages (`ryle.monitor.page`) lie; how a file there is read, put in another's place and taken away."""

from __future__ import annotations

import json
import os
import shutil
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any

from ryle.store.shared import open_shared

PREFIX = "ryle."
BUILDING = ".ryle."  # a page that its owner is just making or taking away
STATUS = "status.json"
CONTROL = "control"
#: What engines of an observation leave beside their pages: its file's text, a look at visibilities, and ADC values.
OBSERVATION, GLANCE, HISTOGRAMS = "observation.toml", "glance", "histograms"
_LONGEST = 64 << 20  # bytes of a version
_SHARED = "/dev/shm"


def pages_directory() -> Path:
    """Where pages lie: memory that all processes of the machine share, or what RYLE_STATUS_DIR names."""
    return Path(os.environ.get("RYLE_STATUS_DIR", _SHARED))


def read_json(path: Path) -> Any:
    """Read a file that anybody may have put there; ValueError if it is too long, nested too deep or no JSON."""
    with open_shared(path, _LONGEST) as file:
        text = file.read(_LONGEST + 1)
    if len(text) > _LONGEST:
        raise ValueError(f"{path} is too long")
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError(f"{path} is nested too deep") from None


def replace(path: Path, data: bytes) -> None:
    """Put a file in the place of another; readers find one or the other."""
    aside = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        aside.write_bytes(data)
        aside.rename(path)
    except BaseException:
        with suppress(OSError):
            aside.unlink()
        raise


def remove(path: Path) -> None:
    """Take a page away at once: nobody finds half of it."""
    aside = path.with_name(f"{BUILDING}{path.name}.{uuid.uuid4().hex}")
    with suppress(OSError):
        path.rename(aside)
        shutil.rmtree(aside, ignore_errors=True)
