"""Files in shared memory, where any user of the machine may put anything."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO


def open_shared(path: Path, most: int | None = None) -> BinaryIO:
    """Open a file to read it; nobody can make the reader wait, follow, or take what another user put there.

    Parameters
    ----------
    path : Path
        The file.
    most : int, optional
        Bytes that it may have.

    Raises
    ------
    OSError
        If there is none, or it is a link, a pipe, a device, too long, or of another user who is not root.
    """
    file = open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC), "rb")
    found = os.fstat(file.fileno())
    if not stat.S_ISREG(found.st_mode):
        why = "is no file"
    elif found.st_uid not in (os.geteuid(), 0):
        why = f"belongs to user {found.st_uid}; who runs as that user or shares what root runs can read it"
    elif most is not None and found.st_size > most:
        why = f"has {found.st_size} bytes, more than the {most} that it may have"
    else:
        return file
    file.close()
    raise OSError(errno.EINVAL, f"{path} {why}")
