"""Compiled kernels on disk: a kernel is compiled once for an architecture and found there ever after.

An entry's name is a hash of all that its contents depend on, so an entry is never out of date, and the folder may be
deleted at any time. Entries are written whole or not at all, and checked when read. Where nothing can be written,
kernels are compiled each time.
"""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Mapping
from pathlib import Path

from ryle.gpu.compile import Compiled, compile_source, compiler_version, included_files, program_options, read_resources
from ryle.kept import kept_folder, write_whole

__all__ = ["cache_folder", "cached_compile"]

_log = logging.getLogger(__name__)
_MAGIC = b"ryle kernel 1\n"  # a change of the format changes this


def cache_folder() -> Path:
    """Give the folder of compiled kernels."""
    return kept_folder("kernels")


def cached_compile(source: Path, defines: Mapping[str, int | str], arch: str, folder: Path | None = None) -> Compiled:
    """Compile a source file unless it lies compiled on disk.

    Parameters
    ----------
    source, defines, arch
        As of `ryle.gpu.compile.compile_source`.
    folder : Path, optional
        Where compiled kernels lie; `cache_folder` if not given.

    Returns
    -------
    Compiled
        The same whether compiled now or before.

    Raises
    ------
    CompileError, GpuUnavailable, FileNotFoundError
        As `ryle.gpu.compile.compile_source`.
    """
    folder = cache_folder() if folder is None else folder
    path = folder / f"{source.stem}-{arch}-{cache_key(source, defines, arch)}.bin"
    compiled = _read(path)
    if compiled is None:
        begin = time.perf_counter()
        compiled = compile_source(source, defines, arch)
        _log.info("compiled %s for %s in %.2f s", source.name, arch, time.perf_counter() - begin)
        _write(path, compiled)
    return compiled


def cache_key(source: Path, defines: Mapping[str, int | str], arch: str) -> str:
    """Hash all that a compilation depends on: the source and what it includes, all options, the compiler's version.

    Parameters
    ----------
    source, defines, arch
        As of `ryle.gpu.compile.compile_source`.

    Returns
    -------
    str
        40 hexadecimal digits.
    """
    parts = [compiler_version().encode(), *program_options(source, defines, arch).as_bytes("nvrtc", "cubin")]
    for file in included_files(source):
        parts += [str(file).encode(), file.read_bytes()]
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()[:40]


def _write(path: Path, compiled: Compiled) -> None:
    body = json.dumps({"log": compiled.log}).encode() + b"\n" + compiled.cubin
    entry = _MAGIC + hashlib.sha256(body).digest() + body
    try:
        write_whole(path, entry)
    except OSError as error:
        _log.info("compiled kernels cannot be kept in %s (%s); they are compiled at every start", path.parent, error)


def _read(path: Path) -> Compiled | None:
    """Read an entry; None if there is none or it is not what was written."""
    try:
        entry = path.read_bytes()
    except OSError:
        return None
    begin = len(_MAGIC) + hashlib.sha256().digest_size
    body = entry[begin:]
    if entry[:begin] != _MAGIC + hashlib.sha256(body).digest():
        _log.info("%s is damaged; the kernel is compiled again", path)
        return None
    head, _, cubin = body.partition(b"\n")
    log = json.loads(head)["log"]
    return Compiled(cubin, log, read_resources(log))
