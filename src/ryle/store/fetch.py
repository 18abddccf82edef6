"""Recordings wherever they are: files that are there already, or copies of what lies behind a URL, one a host."""

from __future__ import annotations

import fcntl
import hashlib
import os
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: What an object store or a server says of a file that changes with it.
_STAMPS = ("ETag", "Last-Modified", "LastModified", "mtime", "md5Hash", "content_settings")


@dataclass(frozen=True)
class Recording:
    """A recording, as it was when somebody looked.

    Parameters
    ----------
    where : str
        Path, or a URL of a kind that `fsspec <https://filesystem-spec.readthedocs.io>`_ knows: ``s3://``, ``https://``.
    size : int
        Bytes.
    stamp : str
        Changes with its content: when a file was last written, or what a server says.
    """

    where: str
    size: int
    stamp: str

    @classmethod
    def of(cls, where: str) -> Recording:
        """Look at a recording.

        Raises
        ------
        FileNotFoundError
            If it is not there; names this host.
        RuntimeError
            If a URL needs a package that is not installed.
        """
        if not is_url(where):
            path = Path(where).absolute()
            try:
                status = path.stat()
            except OSError as error:
                raise _absent(str(path), error) from None
            return cls(str(path), status.st_size, str(status.st_mtime_ns))
        files, path_there = _behind(where)
        try:
            about: dict[str, Any] = files.info(path_there)
        except OSError as error:
            raise _absent(where, error) from None
        return cls(where, int(about.get("size") or 0), " ".join(str(about[k]) for k in _STAMPS if k in about))

    def local(self) -> Path:
        """Give a file that has it here: itself, or a copy that the first who asks on a host makes for all.

        Raises
        ------
        FileNotFoundError
            If this host does not have it; names both.
        RuntimeError
            If it has another size here, or a URL needs a package that is not installed.
        """
        if not is_url(self.where):
            path = Path(self.where)
        else:
            files, path_there = _behind(self.where)
            path = cache() / f"{hashlib.sha256(repr(self).encode()).hexdigest()[:20]}-{Path(path_there).name}"
            _copy(files, path_there, path, self.where)
        try:
            size = path.stat().st_size
        except OSError as error:
            raise _absent(self.where, error) from None
        if size != self.size:
            raise RuntimeError(
                f"{self.where} has {size} bytes on {socket.gethostname()}, and had {self.size} where the work was "
                "shared out: give all hosts the same file, complete, and correlate again"
            )
        return path


def is_url(where: str) -> bool:
    """Whether a recording is not named by a path."""
    return "://" in where


def cache() -> Path:
    """Where copies of recordings lie, until somebody removes them: ``RYLE_CACHE``, or a folder for caches at home."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("RYLE_CACHE") or Path(base) / "ryle" / "recordings")


def _absent(where: str, error: OSError) -> FileNotFoundError:
    return FileNotFoundError(
        f"{where} cannot be read on {socket.gethostname()} ({error.strerror or error}): recordings must have the same "
        "path on all hosts (a shared directory), or be named by URLs that all reach"
    )


def _behind(where: str) -> tuple[Any, str]:
    """Give the file system that a URL is of, and the path in it."""
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise RuntimeError(f"{where} is a URL, which needs fsspec: pip install 'ryle[ray]'") from None
    try:
        files, path = url_to_fs(where)
    except (ImportError, ValueError) as error:  # of a kind whose package is not there, or that nobody knows
        raise RuntimeError(f"{where} cannot be reached from {socket.gethostname()}: {error}") from None
    return files, str(path)


def _copy(files: Any, source: str, path: Path, where: str) -> None:
    """Copy a file once, whoever else on this host asks for it at the same time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_name(f"{path.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if path.exists():
            return
        part = path.with_name(f"{path.name}.part")
        try:
            files.get_file(source, str(part))
        except OSError as error:
            raise _absent(where, error) from None
        os.replace(part, path)
