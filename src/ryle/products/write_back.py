"""A file that grows for hours goes to the disk as it grows.

Left alone, the system keeps what is written in memory, tens of gigabytes on a large computer, until it is too much;
then whoever writes waits, and packets are lost. An error of the disk would not be noticed at all: nobody asks.
"""

from __future__ import annotations

import ctypes
import errno
import os
import threading
from queue import SimpleQueue

_LEAST = 64 << 20  # bytes: less waits for more
_ALL = 1 | 2 | 4  # SYNC_FILE_RANGE_WAIT_BEFORE | _WRITE | _WAIT_AFTER
_TOLD = (errno.EIO, errno.ENOSPC, errno.EDQUOT)
_SYNC = getattr(ctypes.CDLL(None, use_errno=True), "sync_file_range", None)
if _SYNC is not None:
    _SYNC.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)


def write_back(fd: int, offset: int, size: int) -> bool:
    """Have a part of a file written to the disk, and wait for it.

    Parameters
    ----------
    fd : int
        Of the file.
    offset, size : int
        Bytes.

    Returns
    -------
    bool
        Whether the file system can do that.

    Raises
    ------
    OSError
        If the disk refuses.
    """
    if _SYNC is None:
        return False
    if not _SYNC(fd, offset, size, _ALL):
        return True
    if (number := ctypes.get_errno()) in _TOLD:
        raise OSError(number, os.strerror(number))
    return False


class WriteBack:
    """Writes a file's data back, in a thread, while more is written; nobody waits for it.

    Parameters
    ----------
    fd : int
        Of the file; a copy of it is used.

    Attributes
    ----------
    error : OSError or None
        What the disk has refused.
    """

    def __init__(self, fd: int) -> None:
        self._fd, self._begun, self._thread = fd, 0, False
        self._ends: SimpleQueue[int | None] = SimpleQueue()
        self.error: OSError | None = None

    def upto(self, end: int) -> None:
        """Write back what lies before byte `end`, if it is much."""
        if _SYNC is None or end - self._begun < _LEAST:
            return
        self._begun = end
        if not self._thread:
            self._thread = True
            threading.Thread(target=self._run, args=(os.dup(self._fd),), name="write back", daemon=True).start()
        self._ends.put(end)

    def close(self) -> None:
        """Begin nothing more."""
        self._ends.put(None)

    def _run(self, fd: int) -> None:
        done = 0
        try:
            while (end := self._ends.get()) is not None:
                if not write_back(fd, done, end - done):
                    return  # then it is left to the system
                done = end
        except OSError as error:
            self.error = error
        finally:
            os.close(fd)
