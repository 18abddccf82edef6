"""Files that go to the disk as they grow: in time, in order, in a thread, and a disk that refuses is heard of."""

import errno
import os
import threading
import time

import pytest

from ryle.products import write_back
from ryle.products.journal import JournaledFile
from ryle.products.write_back import WriteBack


def until(true, seconds=120):
    end = time.monotonic() + seconds
    while not true() and time.monotonic() < end:
        time.sleep(0.005)
    assert true()


@pytest.fixture
def asked(monkeypatch):
    """What the system is asked for, which waits until it may answer, and what it answers."""
    calls, may, answer = [], threading.Semaphore(0), [0]

    def sync(fd, first, nbytes, flags):
        calls.append((os.fstat(fd).st_ino, first, nbytes, threading.current_thread().name))
        may.acquire(timeout=60)
        return answer[0]

    monkeypatch.setattr(write_back, "_SYNC", sync)
    monkeypatch.setattr(write_back, "_LEAST", 1000)
    return calls, may, answer


def test_all_of_it_goes_once_in_order_and_nobody_waits(tmp_path, asked):
    calls, may, _ = asked
    with (tmp_path / "file").open("wb") as file:
        back = WriteBack(file.fileno())
        for end in (10, 999, 1500, 2000, 2500, 4000):  # of which those by less than 1000 wait
            back.upto(end)
        inode = os.fstat(file.fileno()).st_ino
        back.close()
    may.release(10)  # the file has been closed; the thread has its own
    until(lambda: len(calls) == 3)
    assert calls == [
        (inode, 0, 1500, "write back"),
        (inode, 1500, 1000, "write back"),
        (inode, 2500, 1500, "write back"),
    ]
    until(lambda: "write back" not in {thread.name for thread in threading.enumerate()})


def test_a_disk_that_refuses_ends_the_file_at_the_last_commit(tmp_path, asked, monkeypatch):
    calls, may, answer = asked
    monkeypatch.setattr(write_back.ctypes, "get_errno", lambda: errno.EIO)
    answer[0] = -1
    file = JournaledFile(tmp_path / "file")
    file.write(bytes(5000))
    file.commit()
    file.check()  # nothing is known yet
    may.release()
    until(lambda: file._write_back.error is not None)
    file.write(bytes(10))
    with pytest.raises(OSError, match="Input/output error"):
        file.commit()
    file.close()
    assert (tmp_path / "file").stat().st_size == 5000 and len(calls) == 1


def test_where_the_system_cannot_it_is_left_alone(tmp_path, asked, monkeypatch):
    calls, may, answer = asked
    monkeypatch.setattr(write_back.ctypes, "get_errno", lambda: errno.ESPIPE)
    answer[0] = -1
    with JournaledFile(tmp_path / "file") as file:
        for _ in range(3):
            file.write(bytes(5000))
            may.release()
            file.commit()
        until(lambda: "write back" not in {thread.name for thread in threading.enumerate()})
        file.check()
    assert len(calls) == 1


def test_with_the_real_system(tmp_path):
    with JournaledFile(tmp_path / "file") as file:
        for n in range(3):
            file.write(bytes([n]) * write_back._LEAST)
            file.commit()
        until(lambda: file._write_back._ends.empty())
        file.check()
    assert (tmp_path / "file").stat().st_size == 3 * write_back._LEAST
