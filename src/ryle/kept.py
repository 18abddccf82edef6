"""What is worked out once and kept on disk: in the user's cache, and whole or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path


def kept_folder(name: str) -> Path:
    """Give the folder of what is kept under a name: ``$RYLE_CACHE_DIR/name``, else below the user's cache."""
    named = os.environ.get("RYLE_CACHE_DIR")
    if named:
        return Path(named) / name
    from platformdirs import user_cache_path

    return user_cache_path("ryle") / name


def write_whole(path: Path, content: bytes) -> None:
    """Write a file beside its place and move it there: whoever looks finds the whole of it or none.

    Parameters
    ----------
    path : Path
        Where; its folder is made.
    content : bytes
        What.

    Raises
    ------
    OSError
        If it cannot be written; nothing is left behind.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
