"""A file that changes by whole commits: a process killed at any moment leaves the last commit, or the next, complete.

HDF5 rewrites its index in place, so a process that dies while a dataset grows can leave a file that nothing opens.
`JournaledFile` is the file object given to h5py in order to rule this out. What HDF5 appends goes straight to the
file, beyond the end that the committed index knows, where nobody looks. What it rewrites is held in memory as 4 KiB
pages until `JournaledFile.commit`, which writes the pages to ``<path>.journal`` with a checksum, copies them into the
file and removes the journal: a write-ahead log. A journal found later is complete, and `replay` finishes its commit, or
it is not, and the file has not been touched.

A commit does not wait for the disk unless ``fsync`` is asked for: the operating system keeps what a killed process
wrote, but not through a power failure. What is committed goes to the disk meanwhile (`ryle.products.write_back`).
"""

from __future__ import annotations

import io
import os
import struct
import zlib
from pathlib import Path
from typing import Any

from ryle.products.write_back import WriteBack

_PAGE = 4096
_MAGIC = b"RYLEJNL1"
_COUNT = struct.Struct("<Q")
_ENTRY = struct.Struct("<QI")
_CRC = struct.Struct("<I")


def journal_path(path: Path) -> Path:
    """Name of the journal that belongs to a file."""
    return path.with_name(path.name + ".journal")


class JournaledFile(io.RawIOBase):
    """A new file whose content changes only by `commit`.

    Parameters
    ----------
    path : Path
        File to create; it must not exist.
    fsync : bool
        Wait in each commit until the disk has the data, so that it also survives a power failure.

    Raises
    ------
    OSError
        If the file exists or cannot be created.
    """

    def __init__(self, path: Path, *, fsync: bool = False) -> None:
        super().__init__()
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
        self._journal = journal_path(path)
        self._journal.unlink(missing_ok=True)  # left by a former file of this name
        self._fsync = fsync
        self._position = 0
        self._end = 0
        self._committed = 0
        self._pages: dict[int, bytearray] = {}
        self._abandoned = False
        self._error: OSError | None = None
        self._write_back = WriteBack(self._fd)

    def readable(self) -> bool:
        """Whether it can be read: yes."""
        return True

    def writable(self) -> bool:
        """Whether it can be written: yes."""
        return True

    def seekable(self) -> bool:
        """Whether it is random access: yes."""
        return True

    def tell(self) -> int:
        """Position of the next read or write."""
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Set the position of the next read or write."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._end}[whence]
        self._position = base + offset
        return self._position

    def readinto(self, buffer: Any) -> int:
        """Fill ``buffer`` from the uncommitted state of the file; what was never written reads as zero."""
        view = memoryview(buffer).cast("B")
        start, size = self._position, len(view)
        got = os.preadv(self._fd, [view], start) if size else 0
        view[got:] = bytes(size - got)
        for page in self._overlapping(start, min(start + size, self._committed)):
            low = max(start, page * _PAGE)
            high = min(start + size, (page + 1) * _PAGE, self._committed)
            view[low - start : high - start] = self._pages[page][low - page * _PAGE : high - page * _PAGE]
        self._position += size
        return size

    def write(self, data: Any) -> int:
        """Write: beyond the committed end to the file itself, before it to memory until the next commit.

        It never raises, because HDF5 does not survive that here: an error of the disk is kept for `check`.
        """
        view = memoryview(data).cast("B")
        if not self._abandoned:
            inside = max(0, min(len(view), self._committed - self._position))
            self._hold(view[:inside], self._position)
            try:
                _pwrite_all(self._fd, view[inside:], self._position + inside)
            except OSError as error:
                self._error = error
                self.abandon()
        self._position += len(view)
        self._end = max(self._end, self._position)
        return len(view)

    def truncate(self, size: int | None = None) -> int:
        """Set the length of the file; a shorter one takes effect only for what is not committed."""
        self._end = self._position if size is None else size
        return self._end

    def check(self) -> None:
        """Raise the error, if any, that a write met since the last commit, or the disk with what was written before.

        Raises
        ------
        OSError
            The first error; the file is `abandon`-ed.
        """
        if self._error is None and self._write_back.error is not None:
            self._error = self._write_back.error
            self.abandon()
        if self._error is not None:
            raise self._error

    def commit(self) -> None:
        """Make all that was written since the last commit part of the file, or raise and leave the last commit.

        Raises
        ------
        OSError
            If the disk refuses, when full for example. The file is then `abandon`-ed.
        """
        self.check()
        try:
            if self._end > os.fstat(self._fd).st_size:  # claim the room now: a hole could not be filled on a full disk
                os.posix_fallocate(self._fd, self._committed, self._end - self._committed)
            self._sync(self._fd)
            if self._pages:
                self._write_journal()
        except OSError:
            self.abandon()
            self._journal.unlink(missing_ok=True)
            raise
        # From here on the commit stands: should the copying fail, the journal stays and `replay` completes it.
        try:
            for page, content in self._pages.items():
                _pwrite_all(self._fd, self._in_committed(page, content), page * _PAGE)
            self._sync(self._fd)
        except OSError:
            self.abandon()
            raise
        self._journal.unlink(missing_ok=True)
        self._pages.clear()
        self._committed = max(self._committed, self._end)
        self._write_back.upto(self._committed)

    def abandon(self) -> None:
        """Ignore all writes from now on: the last commit is the last."""
        self._abandoned = True

    def close(self) -> None:
        """Close the file and cut off what was never committed."""
        if not self.closed:
            self._write_back.close()
            os.ftruncate(self._fd, self._committed)
            os.close(self._fd)
        super().close()

    def _overlapping(self, start: int, stop: int) -> list[int]:
        pages = range(start // _PAGE, -(-stop // _PAGE)) if stop > start else range(0)
        if len(pages) > len(self._pages):
            return [page for page in self._pages if page in pages]
        return [page for page in pages if page in self._pages]

    def _hold(self, view: memoryview, offset: int) -> None:
        while view:
            page, within = divmod(offset, _PAGE)
            if page not in self._pages:
                self._pages[page] = bytearray(os.pread(self._fd, _PAGE, page * _PAGE).ljust(_PAGE, b"\0"))
            taken = min(len(view), _PAGE - within)
            self._pages[page][within : within + taken] = view[:taken]
            view, offset = view[taken:], offset + taken

    def _in_committed(self, page: int, content: bytearray) -> memoryview:
        return memoryview(content)[: self._committed - page * _PAGE]

    def _write_journal(self) -> None:
        parts: list[bytes | memoryview] = [_MAGIC, _COUNT.pack(len(self._pages))]
        for page, content in self._pages.items():
            piece = self._in_committed(page, content)
            parts += [_ENTRY.pack(page * _PAGE, len(piece)), piece]
        log = b"".join(parts)
        fd = os.open(self._journal, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        try:
            _pwrite_all(fd, memoryview(log + _CRC.pack(zlib.crc32(log))), 0)
            self._sync(fd)
        finally:
            os.close(fd)

    def _sync(self, fd: int) -> None:
        if self._fsync:
            os.fsync(fd)


def replay(path: Path) -> str:
    """Finish or discard the commit that a killed process left behind.

    Parameters
    ----------
    path : Path
        File that was written through `JournaledFile`.

    Returns
    -------
    str
        ``"clean"`` if there was no journal, ``"completed"`` if its commit was finished, ``"discarded"`` if the journal
        was itself unfinished (the file is then as the commit before left it).

    Raises
    ------
    OSError
        If the file cannot be written, or what lies there is no journal of Ryle's.
    """
    journal = journal_path(path)
    if not journal.exists():
        return "clean"
    log = journal.read_bytes()
    if not log.startswith(_MAGIC[: len(log)]):
        raise OSError(f"{journal} is no journal of Ryle's: nothing was changed; move it elsewhere and try again")
    pages = _entries(log, path.stat().st_size)
    if pages is not None:
        fd = os.open(path, os.O_WRONLY)
        try:
            for offset, page in pages:
                _pwrite_all(fd, page, offset)
            os.fsync(fd)
        finally:
            os.close(fd)
    journal.unlink()
    return "discarded" if pages is None else "completed"


def _entries(log: bytes, size: int) -> list[tuple[int, memoryview]] | None:
    """Read the pages of a journal for a file of `size` bytes, all of them before any is written.

    None if the journal is unfinished, or its entries lie outside it or the file: then it is nobody's commit.
    """
    body, checksum = log[: -_CRC.size], log[-_CRC.size :]
    if not body.startswith(_MAGIC) or checksum != _CRC.pack(zlib.crc32(body)):
        return None
    view, pages, at = memoryview(body), [], len(_MAGIC) + _COUNT.size
    if len(body) < at:
        return None
    (count,) = _COUNT.unpack_from(body, len(_MAGIC))
    if count > (len(body) - at) // _ENTRY.size:
        return None
    for _ in range(count):
        if len(body) - at < _ENTRY.size:
            return None
        offset, length = _ENTRY.unpack_from(body, at)
        at += _ENTRY.size
        if length > len(body) - at or offset + length > size + _PAGE:
            return None
        pages.append((offset, view[at : at + length]))
        at += length
    return pages


def _pwrite_all(fd: int, view: memoryview, offset: int) -> None:
    while view:
        written = os.pwrite(fd, view, offset)
        view, offset = view[written:], offset + written
