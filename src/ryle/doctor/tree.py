"""Files of ``/proc`` and ``/sys``, as text and as numbers; what is not there, or must not be read, is None."""

from __future__ import annotations

import re
from pathlib import Path

from ryle.engines.places import listed_cores, ranges


class Tree:
    """The two file systems in which the kernel tells of itself.

    Parameters
    ----------
    root : Path
        Where they are.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root

    def __call__(self, path: str) -> Path:
        """Give the file that a path from the root on means."""
        return self._root / path.lstrip("/")

    def text(self, path: str) -> str | None:
        """Read a file."""
        try:
            return self(path).read_text(errors="replace").strip()
        except OSError:
            return None

    def number(self, path: str) -> int | None:
        """Read the first whole number of a file, which may also be written as 0x…."""
        words = (self.text(path) or "").split()
        try:
            return int(words[0], 0) if words else None
        except ValueError:
            return None

    def octets(self, path: str) -> bytes:
        """Read a file of bytes; what cannot be read of it is missing at its end."""
        try:
            return self(path).read_bytes()
        except OSError:
            return b""

    def sysctl(self, name: str) -> int | None:
        """Read a number of the kernel's by its name, ``net.core.rmem_max``."""
        return self.number(f"proc/sys/{name.replace('.', '/')}")

    def chosen(self, path: str) -> str | None:
        """Read which of several words is in brackets: ``always [madvise] never``."""
        found = re.search(r"\[(\S+)\]", self.text(path) or "")
        return found[1] if found else None

    def names(self, folder: str) -> list[str]:
        """List what is in a folder, in order."""
        try:
            return sorted(p.name for p in self(folder).iterdir())
        except OSError:
            return []

    def exists(self, path: str) -> bool:
        """Whether there is such a file or folder."""
        return self(path).exists()

    def link(self, path: str) -> str | None:
        """Give the last name of what a link leads to."""
        try:
            return self(path).readlink().name
        except OSError:
            return None

    def cores(self, path: str) -> list[int]:
        """Read a list of cores, ``0-3,8``."""
        return listed_cores(self.text(path) or "")

    def each_core(self, name: str) -> dict[int, str]:
        """Read a file of each core's folder below ``/sys/devices/system/cpu``, of those that have it."""
        folder = "sys/devices/system/cpu"
        found = {}
        for core in sorted(int(n[3:]) for n in self.names(folder) if re.fullmatch(r"cpu\d+", n)):
            if (text := self.text(f"{folder}/cpu{core}/{name}")) is not None:
                found[core] = text
        return found


def cores_text(cores: list[int]) -> str:
    """Write cores as people do."""
    return f"core{'s' if len(cores) > 1 else ''} {ranges(cores)}"
