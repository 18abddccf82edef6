import os
import threading
from pathlib import Path

import pytest

from ryle import kept
from ryle.gpu import cache
from ryle.gpu.cache import cache_folder, cache_key, cached_compile

TEXT = '#include "part.cuh"\nextern "C" __global__ void k(int *out) { *out = PART; }\n'


@pytest.fixture
def source(tmp_path):
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "part.cuh").write_text("#define PART (ONE + 1)\n")
    path = folder / "k.cu"
    path.write_text(TEXT)
    return path


@pytest.fixture
def compilations(monkeypatch):
    """Count what is really compiled."""
    counted = []

    def counting(*args):
        counted.append(args)
        return original(*args)

    original = cache.compile_source
    monkeypatch.setattr(cache, "compile_source", counting)
    return counted


def test_the_second_time_nothing_is_compiled(source, tmp_path, compilations):
    first = cached_compile(source, {"ONE": 1}, "sm_90a", tmp_path / "cache")
    again = cached_compile(source, {"ONE": 1}, "sm_90a", tmp_path / "cache")
    assert len(compilations) == 1
    assert again == first
    assert first.resources["k"].registers > 0
    (entry,) = (tmp_path / "cache").iterdir()  # and no temporary file
    assert entry.name.startswith("k-sm_90a-")


def test_whatever_the_code_depends_on_changes_the_key(source, monkeypatch):
    keys = [cache_key(source, {"ONE": 1}, "sm_90a")]
    assert cache_key(source, {"ONE": "1"}, "sm_90a") == keys[0]
    keys.append(cache_key(source, {"ONE": 2}, "sm_90a"))
    keys.append(cache_key(source, {"ONE": 1, "TWO": 2}, "sm_90a"))
    keys.append(cache_key(source, {"ONE": 1}, "sm_80"))
    source.write_text(TEXT + "// more\n")
    keys.append(cache_key(source, {"ONE": 1}, "sm_90a"))
    source.write_text(TEXT)
    (source.parent / "part.cuh").write_text("#define PART (ONE + 2)\n")
    keys.append(cache_key(source, {"ONE": 1}, "sm_90a"))
    (source.parent / "part.cuh").write_text("#define PART (ONE + 1)\n")
    assert cache_key(source, {"ONE": 1}, "sm_90a") == keys[0]
    monkeypatch.setattr(cache, "compiler_version", lambda: "13.99")
    keys.append(cache_key(source, {"ONE": 1}, "sm_90a"))
    monkeypatch.undo()
    options = cache.program_options

    def faster(*args):
        changed = options(*args)
        changed.use_fast_math = True
        return changed

    monkeypatch.setattr(cache, "program_options", faster)
    keys.append(cache_key(source, {"ONE": 1}, "sm_90a"))
    assert len(set(keys)) == len(keys)


def test_an_included_file_that_changes_is_compiled_anew(source, tmp_path, compilations):
    first = cached_compile(source, {"ONE": 1}, "sm_90a", tmp_path)
    (source.parent / "part.cuh").write_text("#define PART (ONE + 2)\n")
    second = cached_compile(source, {"ONE": 1}, "sm_90a", tmp_path)
    assert len(compilations) == 2
    assert second.cubin != first.cubin


def damaged(entry):
    middle = len(entry) // 2
    yield b""
    yield entry[:20]
    yield entry[:-1]
    yield entry + b"\0"
    yield entry[:middle] + bytes([entry[middle] ^ 1]) + entry[middle + 1 :]
    yield b"x" + entry[1:]


def test_a_damaged_entry_is_compiled_and_written_anew(source, tmp_path, compilations):
    first = cached_compile(source, {"ONE": 1}, "sm_90a", tmp_path / "cache")
    (path,) = (tmp_path / "cache").iterdir()
    good = path.read_bytes()
    for number, bad in enumerate(damaged(good), start=2):
        path.write_bytes(bad)
        assert cached_compile(source, {"ONE": 1}, "sm_90a", tmp_path / "cache") == first
        assert len(compilations) == number
        assert path.read_bytes() == good


def test_a_folder_that_cannot_be_made_does_no_harm(source, tmp_path, compilations):
    (tmp_path / "file").write_text("in the way")
    for _ in range(2):
        assert cached_compile(source, {"ONE": 1}, "sm_90a", tmp_path / "file" / "cache").cubin
    assert len(compilations) == 2


def test_a_folder_that_cannot_be_written_does_no_harm(source, tmp_path, compilations, monkeypatch):
    def refuse(*args, **options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(kept.tempfile, "mkstemp", refuse)  # as for anyone but root in a folder of another
    for _ in range(2):
        assert cached_compile(source, {"ONE": 1}, "sm_90a", tmp_path / "cache").cubin
    assert len(compilations) == 2


def test_a_write_that_breaks_off_leaves_nothing(source, tmp_path, compilations, monkeypatch):
    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    assert cached_compile(source, {"ONE": 1}, "sm_90a", tmp_path / "cache").cubin
    assert not list((tmp_path / "cache").iterdir())


def test_writers_at_once_leave_one_whole_entry(source, tmp_path):
    results = []
    threads = [
        threading.Thread(
            target=lambda: results.append(cached_compile(source, {"ONE": 1}, "sm_90a", tmp_path / "cache"))
        )
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4
    (path,) = (tmp_path / "cache").iterdir()
    assert cache._read(path) == results[0]


def test_the_folder_is_the_users_cache_unless_named(monkeypatch, tmp_path):
    monkeypatch.setenv("RYLE_CACHE_DIR", str(tmp_path / "named"))
    assert cache_folder() == tmp_path / "named" / "kernels"
    monkeypatch.delenv("RYLE_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    assert cache_folder() == tmp_path / "user" / "ryle" / "kernels"
    assert isinstance(cache_folder(), Path)
