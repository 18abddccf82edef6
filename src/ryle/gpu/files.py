"""Files that are written from a GPU's memory, by NVIDIA's cuFile.

Where the kernel module nvidia-fs is loaded and knows the file system, the disk fetches the bytes over the bus.
Everywhere else cuFile is in its compatibility mode: it copies them to the host by itself and writes them from there.

The functions are called here and not by ``cuda.bindings.cufile``, which calls an error of the file system an unknown
status, and in versions that Ryle supports does not tell how many bytes were written.
"""

from __future__ import annotations

import ctypes
import errno
import os
import tempfile
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from ryle.gpu.interface import DeviceArray, GpuError, GpuUnavailable, Stream

__all__ = ["PAGE", "GpuFile"]

#: What direct writes begin and end at a multiple of, bytes.
PAGE = 4096
INSTALL = "install it with: pip install 'ryle[cufile]'"
_MODULES = Path("/proc/modules")
_FILE = 1  # a descriptor of Linux

#: What to do about errors that have been met, or that the library's documentation explains.
_MEANING = {
    5001: "the kernel module nvidia-fs is not loaded, and cufile.json forbids compatibility mode (allow_compat_mode)",
    5008: "this file system cannot be written directly, and cufile.json forbids compatibility mode (allow_compat_mode)",
    5011: "the CUDA driver refused",
    5018: "this is no regular file",
    5027: "it asks udev of the disk; in a container, /run/udev must be there (--volume /run/udev:/run/udev:ro)",
}


class _Status(ctypes.Structure):
    _fields_ = (("status", ctypes.c_int), ("cuda", ctypes.c_int))


class _Descriptor(ctypes.Structure):
    _fields_ = (("kind", ctypes.c_int), ("file", ctypes.c_void_p), ("operations", ctypes.c_void_p))


class _Properties(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint),
        ("minor", ctypes.c_uint),
        ("poll_threshold", ctypes.c_size_t),
        ("most_direct", ctypes.c_size_t),
        ("kinds", ctypes.c_uint),  # of file systems and disks that are written directly, a bit each
        ("control", ctypes.c_uint),
        ("rest", ctypes.c_uint * 32),
    )


class GpuFile:
    """A file that is written from a GPU's memory.

    Opening neither truncates it nor makes it shorter: what is not written stays. One thread may write at a time.

    Parameters
    ----------
    path : Path
        Made if it is not there.

    Raises
    ------
    GpuUnavailable
        If libcufile is not installed, or would hang here.
    GpuError
        If it refuses this file or this computer; the message says what is known of the reason.
    OSError
        If the file cannot be opened, or its file system takes no direct writes (EINVAL).
    """

    def __init__(self, path: Path) -> None:
        self.path, self._library = path, _library()
        self._files: list[int] = []
        self._handle = ctypes.c_void_p()
        try:
            # Direct writes bypass the page cache and need whole pages; ends that fill none go the other way.
            for flag in (0, os.O_DIRECT):
                self._files.append(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | flag, 0o666))
            descriptor = _Descriptor(_FILE, self._files[1], None)
            _check(self._library, "cuFileHandleRegister", ctypes.byref(self._handle), ctypes.byref(descriptor))
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def compatibility(self) -> bool:
        """Whether nothing on this computer is written directly: all bytes go through the host.

        Where it is False, a file on a disk that cannot be written directly goes through the host all the same.
        """
        found = _Properties()
        _check(self._library, "cuFileDriverGetProperties", ctypes.byref(found))
        return not (found.major or found.minor or found.kinds)

    def write(self, array: DeviceArray, offset: int, stream: Stream) -> None:
        """Write an array, from a place in the file on, and wait until the file system has it.

        Whole pages of the file go to cuFile; up to a page at each end goes through the host and the page cache, so that
        nothing has to be aligned and bytes beside those written stay as they are.

        Parameters
        ----------
        array : DeviceArray
            In C order; written as its bytes are.
        offset : int
            Byte of the file.
        stream : Stream
            What makes the array: its work so far is waited for.

        Raises
        ------
        OSError
            If the file system refuses, ENOSPC if it is full. Bytes before the place of the error may be written.
        GpuError
            If cuFile refuses.
        ValueError
            If the offset is negative.
        """
        if offset < 0:
            raise ValueError(f"offset is {offset}; it must not be negative")
        stream.synchronize()  # it also makes the GPU that of this thread, which cuFile asks for
        size = array.nbytes
        head = min(-offset % PAGE, size)
        whole = (size - head) // PAGE * PAGE
        self._write_end(array, 0, head, offset, stream)
        self._write_pages(array.pointer, head, whole, offset)
        self._write_end(array, head + whole, size - head - whole, offset, stream)

    def _write_pages(self, pointer: int, first: int, size: int, offset: int) -> None:
        """Write bytes of the array that are whole pages of the file; after a short write, the rest again."""
        end = first + size
        while first < end:
            written = int(self._library.cuFileWrite(self._handle, pointer, end - first, offset + first, first))
            if written < -1:
                raise GpuError(_said("cuFileWrite", -written))
            if written < PAGE:
                raise self._refusal(ctypes.get_errno() if written < 0 else errno.EIO, end - first)
            first += written // PAGE * PAGE

    def _write_end(self, array: DeviceArray, first: int, count: int, offset: int, stream: Stream) -> None:
        if not count:
            return
        left = array.view((count,), np.uint8, first).get(stream=stream).data
        while left:
            written = os.pwrite(self._files[0], left, offset + first)
            left, first = left[written:], first + written

    def _refusal(self, number: int, asked: int) -> OSError:
        """Make an error of the file system's number; cuFile calls a full one EIO."""
        there = os.fstatvfs(self._files[0])
        if number == errno.EIO and there.f_bavail * there.f_frsize < asked:
            number = errno.ENOSPC
        return OSError(number, os.strerror(number), str(self.path))

    def flush(self) -> None:
        """Wait until the disk has everything.

        Raises
        ------
        OSError
            If it has not.
        """
        os.fsync(self._files[0])

    def close(self) -> None:
        """Close the file; may be called again."""
        if self._handle:
            self._library.cuFileHandleDeregister(self._handle)
            self._handle = ctypes.c_void_p()
        while self._files:
            os.close(self._files.pop())


@cache
def _library() -> Any:
    """Load libcufile and open what it calls its driver, once."""
    try:
        _MODULES.open().close()
    except OSError as error:
        raise GpuUnavailable(
            f"cuFile cannot be used here: {_MODULES} cannot be read ({error.strerror}: a kernel without modules, or a "
            "sandbox), and libcufile, which looks there for its own, would not come back"
        ) from None
    # It writes a log, by default into the working directory.
    os.environ.setdefault("CUFILE_LOGFILE_PATH", str(Path(tempfile.gettempdir()) / f"cufile-{os.getpid()}.log"))
    try:
        library = ctypes.CDLL(_path(), use_errno=True)
    except OSError as error:
        raise GpuUnavailable(f"libcufile is not here ({error}); {INSTALL}") from None
    for name in ("cuFileDriverOpen", "cuFileDriverGetProperties", "cuFileHandleRegister"):
        getattr(library, name).restype = _Status
    library.cuFileHandleRegister.argtypes = (ctypes.c_void_p, ctypes.c_void_p)
    library.cuFileHandleDeregister.argtypes, library.cuFileHandleDeregister.restype = (ctypes.c_void_p,), None
    place, size = ctypes.c_int64, ctypes.c_size_t
    library.cuFileWrite.argtypes = (ctypes.c_void_p, ctypes.c_void_p, size, place, place)
    library.cuFileWrite.restype = ctypes.c_ssize_t
    _check(library, "cuFileDriverOpen")
    return library


def _path() -> str:
    """Give the library where its package put it, else as the system finds it."""
    try:
        from cuda.pathfinder import load_nvidia_dynamic_lib

        return str(load_nvidia_dynamic_lib("cufile").abs_path)
    except Exception:  # not installed, or not found: its errors differ from version to version
        return "libcufile.so.0"


def _check(library: Any, name: str, *arguments: Any) -> None:
    found = getattr(library, name)(*arguments)
    if found.status:
        raise GpuError(_said(name, found.status, found.cuda))


def _said(name: str, status: int, cuda: int = 0) -> str:
    meaning = f": {_MEANING[status]}" if status in _MEANING else ""
    more = f", CUDA's error {cuda}" if cuda else ""
    return f"{name} failed with {status}{more}{meaning}; {os.environ['CUFILE_LOGFILE_PATH']} may say more"
