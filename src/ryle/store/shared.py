"""Files in shared memory, where any user of the machine may put anything."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO


def open_shared(path: Path) -> BinaryIO:
    """Open a file to read it; nobody can make the reader wait or follow.

    Raises
    ------
    OSError
        If there is none, or it is a link, a pipe, a device.
    """
    file = open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC), "rb")
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, f"{path} is no file")
    return file
