"""Status pages: whole whatever happens to their writers, found by name, owned by processes that can be told apart."""

import io
import json
import multiprocessing
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from ryle.monitor.control import ControlClient, pack, set_control
from ryle.monitor.owner import Owner
from ryle.monitor.page import clean_pages, read_pages
from ryle.monitor.publish import PageTakenError, StatusPage, published
from ryle.monitor.view import PagesView
from ryle.stream.controls import Control, StatusError


@pytest.fixture(autouse=True)
def directory(tmp_path, monkeypatch):
    monkeypatch.setenv("RYLE_STATUS_DIR", str(tmp_path))
    return tmp_path


def page(name):
    (found,) = read_pages(name)
    return found


def hammer(directory, name, lengths):
    """Publish versions that name themselves in every value, as fast as can be."""
    os.environ["RYLE_STATUS_DIR"] = directory
    with StatusPage(name) as p:
        n = 0
        while True:
            n += 1
            p.publish({"first": n, "text": f"{n} " * lengths[n % len(lengths)], "last": n})


def hammering(directory, name, lengths=(1, 1000, 30, 5000)):
    process = multiprocessing.get_context("spawn").Process(
        target=hammer, args=(str(directory), name, lengths), daemon=True
    )
    process.start()
    deadline = time.monotonic() + 60
    while not (read_pages(name) and page(name).values):
        assert time.monotonic() < deadline and process.is_alive()
        time.sleep(0.01)
    return process


def assert_whole(found):
    v = found.values
    assert v["first"] == v["last"] and set(v["text"].split()) == {str(v["first"])}


def test_values_of_all_types_come_back(rng):
    values = {
        "count": int(rng.integers(1 << 62, 1 << 63)),
        "wide": 1 << 80,
        "ratio": float(rng.standard_normal()),
        "a key longer than eight characters": "päge " * 1000,
        "none": None,
        "flag": True,
        "list": [1, [2.5, "x"], None],
        "deep": {"account": {"missing": 0, "late": None}},
    }
    with StatusPage("typed") as p:
        p.publish(values)
        found = page("typed")
        assert found.values == values
        assert {k: type(v) for k, v in found.values.items()} == {k: type(v) for k, v in values.items()}
        p.publish({"rms": np.float32(1.5), "levels": np.arange(3), "path": Path("/x")})
        assert page("typed").values == {"rms": 1.5, "levels": [0, 1, 2], "path": "/x"}
        assert page("typed").version == found.version + 1
    assert read_pages("typed") == []


def test_nobody_reads_half_of_a_version(directory):
    writer = hammering(directory, "torn")
    versions = set()
    deadline = time.monotonic() + 60
    while len(versions) < 300:
        assert time.monotonic() < deadline
        found = page("torn")  # there always is one
        assert_whole(found)
        versions.add(found.version)
    writer.kill()
    writer.join()


def test_killed_at_any_moment(directory, rng):
    """The last version stays whole; the next of that name starts at once; nothing is left behind."""
    for _ in range(5):
        writer = hammering(directory, "killed", (1, 20000))
        time.sleep(rng.uniform(0, 0.1))
        os.kill(writer.pid, signal.SIGKILL)
        writer.join()
        found = page("killed")
        assert_whole(found)
        assert not found.alive
    with StatusPage("killed") as p:
        assert p.name == "killed" and page("killed").alive
    hammered = hammering(directory, "killed")
    hammered.kill()
    hammered.join()
    assert clean_pages() == ["killed"]
    assert list(directory.iterdir()) == []


def test_killed_while_making_pages(directory, rng):
    """Owners that come and go all the time leave only what `clean_pages` knows."""
    code = "from ryle.monitor.publish import StatusPage\nwhile True:\n    with StatusPage('brief') as p: p.publish({'a': 1})"
    for _ in range(4):
        process = subprocess.Popen([sys.executable, "-c", code])
        deadline = time.monotonic() + 60
        while not any(directory.glob("ryle.brief")):
            assert process.poll() is None and time.monotonic() < deadline
        time.sleep(rng.uniform(0, 0.05))
        process.kill()
        process.wait()
        with StatusPage("brief") as p:
            assert p.name == "brief"
    for left in directory.iterdir():  # what has no status yet is given some time
        os.utime(left, (time.time() - 60,) * 2)
    clean_pages()
    assert list(directory.iterdir()) == []


def test_a_page_without_controls(directory, monkeypatch, capsys):
    with published("brief") as publish:
        assert page("brief").values == {}
        publish({"packets": 3})
        assert page("brief").values == {"packets": 3}
        clean = list(directory.iterdir())
        clean[0].rename(directory / "elsewhere")
        publish({"packets": 4})
    monkeypatch.setenv("RYLE_STATUS_DIR", "/nowhere")
    with published("brief") as publish:
        publish({"packets": 5})
    assert "no status page" in capsys.readouterr().err


def test_a_name_that_is_taken(directory):
    with StatusPage("one") as first, StatusPage("one") as second:
        assert second.name == f"one-{os.getpid()}"
        assert [p.name for p in read_pages()] == [first.name, second.name]
        with pytest.raises(PageTakenError, match=f"process {os.getpid()} has the status page one"):
            StatusPage("one", exact=True)
        assert clean_pages() == []
    assert list(directory.iterdir()) == []


@pytest.mark.parametrize("name", ["", "a/b", "..", ".x", "a b"])
def test_names_that_no_file_can_have(name):
    with pytest.raises(ValueError, match="cannot name a status page"):
        StatusPage(name)


def test_a_process_that_took_the_number_of_another(directory):
    """A page is its owner's, not that of whoever has the same number now."""
    with StatusPage("reused") as p:
        path = p.path / "status.json"
        whole = json.loads(path.read_text())
        path.write_text(json.dumps(whole | {"started": whole["started"] - 1}))
        assert not page("reused").alive
        path.write_text(json.dumps(whole | {"namespace": "pid:[1]", "pid": 1 << 22}))
        assert page("reused").alive  # as far as can be seen from here
        path.write_text(json.dumps(whole))
        assert page("reused").alive


def test_a_zombie_is_not_alive():
    process = subprocess.Popen([sys.executable, "-c", "pass"])
    deadline = time.monotonic() + 30
    while Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z":
        assert time.monotonic() < deadline
        time.sleep(0.01)
    started = int(Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()[19])
    assert not Owner(process.pid, started, Owner.this().namespace).alive
    process.wait()


def test_what_is_no_page_is_passed_over(directory):
    (directory / "ryle.file").write_text("x")
    (directory / "ryle.empty").mkdir()
    (directory / "ryle.wrong").mkdir()
    (directory / "ryle.wrong" / "status.json").write_text('{"pid": 1}')
    assert read_pages() == []
    with StatusPage("empty") as p:
        assert p.name == "empty"


def test_wrong_types_and_deep_nests_are_no_pages(directory):
    """A page whose parts are replaced, one by one, by what has another type; the view draws what is left."""
    with StatusPage("right", {"depth": Control("int", 1, 64, get=lambda: 4)}) as page:
        page.publish({"packets": 7, "text": "\x1b[2Jgone"})
        right = json.loads((page.path / "status.json").read_text())
        wrong = directory / "ryle.wrong"
        wrong.mkdir()
        deep = "[" * 100 + "]" * 100
        for key in right:
            for text in ("null", '"x"', "[[]]", '{"a": [1]}', f'{{"a": {deep}}}', "[" * 10**6):
                if key == "values" and text == '{"a": [1]}':
                    continue
                if key == "namespace" and text == '"x"':
                    continue
                whole = json.dumps({**right, key: 17.25}).replace("17.25", text)
                (wrong / "status.json").write_text(whole)
                assert [p.name for p in read_pages()] == ["right"], (key, text[:20])
        drawn = io.StringIO()
        Console(file=drawn, width=100).print(PagesView().render(read_pages()))
        assert "\x1b" not in drawn.getvalue() and "?[2Jgone" in drawn.getvalue()


class Settable:
    """A page whose owner takes requests."""

    def __init__(self, name="set"):
        self.values = {"depth": 4, "gain": 1.0, "verify": False, "mode": "raw", "note": "", "table": None}
        one = {
            "depth": Control("int", 1, 64, means="chunks"),
            "gain": Control("float", 0.0, 2.5),
            "verify": Control("bool"),
            "mode": Control("str", choices=("raw", "pcap")),
            "note": Control("str"),
            "table": Control("json"),
        }
        self.sets = 0
        self.page = StatusPage(name, {k: self.owned(k, c) for k, c in one.items()}, on_set=self.count)
        self.page.publish({"packets": 7})

    def owned(self, key, c):
        def take(value):
            if value == "refuse":
                raise StatusError("not today")
            self.values[key] = value
            return {"sample": 123} if key == "table" else None

        return Control(c.type, c.minimum, c.maximum, c.choices, c.means, lambda: self.values[key], take)

    def count(self):
        self.sets += 1

    def close(self):
        self.page.close()


@pytest.fixture
def settable():
    s = Settable()
    yield s
    s.close()


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("depth", "64", 64),
        ("depth", "0x10", 16),
        ("gain", "2.5", 2.5),
        ("gain", "1", 1.0),
        ("verify", "on", True),
        ("verify", "False", False),
        ("mode", "pcap", "pcap"),
        ("note", "12", "12"),
        ("table", '{"a": [1, null]}', {"a": [1, None]}),
    ],
)
def test_set(settable, key, text, value):
    found, answer = set_control(key, text)
    assert settable.values[key] == value == answer["value"] and found.name == "set"
    assert type(answer["value"]) is type(value)
    assert settable.sets == 1
    settable.page.publish({})
    assert page("set").values[key] == value


@pytest.mark.parametrize(
    ("key", "text", "why"),
    [
        ("depth", "65", "depth cannot be 65: allowed is a whole number from 1 to 64"),
        ("depth", "4.5", "depth cannot be '4.5': allowed is a whole number from 1 to 64"),
        ("gain", "-1", "gain cannot be -1.0: allowed is a number from 0 to 2.5"),
        ("gain", "nan", "gain cannot be nan: allowed is a number from 0 to 2.5"),
        ("verify", "2", "verify cannot be '2': allowed is true or false"),
        ("mode", "null", "mode cannot be 'null': allowed is one of raw, pcap"),
        ("note", "refuse", "not today"),
        ("packets", "8", r"packets can only be read; controls here: depth \(set\), gain"),
        ("dept", "8", r"nobody has a control dept; controls here: depth \(set\), gain"),
    ],
)
def test_set_what_is_not_allowed(settable, key, text, why):
    before = dict(settable.values)
    with pytest.raises(StatusError, match=why):
        set_control(key, text)
    assert settable.values == before


def test_the_owner_checks_too(settable):
    """Whatever is asked, a control keeps its type and range."""
    with ControlClient(page("set")) as client:
        for key, value, why in [
            ("depth", 1000, "from 1 to 64"),
            ("depth", [5], "whole number"),
            ("nothing", 1, "nothing is no control"),
            (None, 1, "None is no control"),
            ({"a": 1}, 1, "is no control"),
        ]:
            with pytest.raises(StatusError, match=why):
                client.set(key, value)
        assert client.set("depth", 7)["value"] == 7
    assert settable.values["depth"] == 7 and settable.sets == 1


def test_arrays_come_as_they_are(settable, rng):
    """Any number of them, of any shape, anywhere in the value; the answer has what the control says of it."""
    wanted = {
        "gains": (rng.normal(size=(3, 4097, 2)) @ [1, 1j]).astype(np.complex64),
        "nested": [{"delays": rng.normal(size=7)}, np.zeros((0, 3), np.int64)],
        "empty": np.zeros((2, 0), np.complex64),
    }
    with ControlClient(page("set")) as client:
        answer = client.set("table", wanted)
    found = settable.values["table"]
    assert answer["sample"] == 123
    for a, b in [
        (found["gains"], wanted["gains"]),
        (found["nested"][0]["delays"], wanted["nested"][0]["delays"]),
        (found["nested"][1], wanted["nested"][1]),
        (found["empty"], wanted["empty"]),
    ]:
        assert a.dtype == b.dtype and a.shape == b.shape and (a == b).all()
    np.testing.assert_array_equal(answer["value"]["gains"], wanted["gains"])


def test_many_requests_on_their_way(settable):
    """Asked before any answer is read; answered in their order."""
    with ControlClient(page("set")) as client:
        wanted = [n % 70 for n in range(5000)]
        threading.Thread(target=lambda: [client.ask("depth", n) for n in wanted]).start()
        for n in wanted:
            if 1 <= n <= 64:
                assert client.answer()["value"] == n
            else:
                with pytest.raises(StatusError):
                    client.answer()


HOSTILE = {
    "no message": b"GET / HTTP/1.1\r\n\r\n",
    "long": b"RCT1" + b"\xff" * 8,
    "no JSON": b"RCT1" + struct.pack("<II", 3, 0) + b"{{{",
    "a list": b"RCT1" + struct.pack("<II", 2, 0) + b"[]",
    "deep": b"RCT1" + struct.pack("<II", 100_000, 0) + b"[" * 100_000,
    "an array beyond": pack({"key": "table", "value": np.zeros(9)}).replace(b"[9]", b"[99]"),
    "an array of objects": pack({"key": "table", "value": np.zeros(9)}).replace(b"<f8", b"|O8"),
    "a negative shape": pack({"key": "table", "value": np.zeros(99)}).replace(b"[99]", b"[-1]"),
    "half": pack({"key": "depth", "value": 5})[:-1],
    "nothing": b"",
}


@pytest.mark.parametrize("what", HOSTILE)
def test_what_is_no_request_costs_nobody_else(settable, what):
    with ControlClient(page("set")) as other, ControlClient(page("set")) as client:
        client._socket.sendall(HOSTILE[what])
        client._socket.shutdown(socket.SHUT_WR)
        client._socket.settimeout(60)
        while client._socket.recv(1 << 16):  # hung up on
            pass
        assert other.set("depth", 9)["value"] == 9
    assert settable.values["depth"] == 9


def test_who_takes_no_answers_holds_nobody_up(settable):
    with ControlClient(page("set")) as other, ControlClient(page("set")) as client:
        client._socket.setblocking(False)
        with pytest.raises(BlockingIOError):
            while True:
                client._socket.send(pack({"key": "depth", "value": 2}) * 1000)
        assert other.set("depth", 9)["value"] == 9


def test_only_the_owner_may_connect(settable):
    assert (settable.page.path / "control").stat().st_mode & 0o777 == 0o600


def test_a_page_whose_path_is_long(tmp_path, monkeypatch):
    """Longer than an address of a socket can be."""
    long = tmp_path / ("x" * 200)
    long.mkdir()
    monkeypatch.setenv("RYLE_STATUS_DIR", str(long))
    s = Settable()
    try:
        assert set_control("depth", "5")[1]["value"] == 5
    finally:
        s.close()


def test_files_beside_a_page(settable):
    """One takes the place of the other; they go with the page."""
    for data in (b"first", b"second"):
        settable.page.keep("glance", data)
        assert (settable.page.path / "glance").read_bytes() == data
    settable.page.close()
    assert not settable.page.path.exists()


def test_which_page(settable):
    other = Settable("other")
    try:
        with pytest.raises(StatusError, match="depth is on other, set: say which"):
            set_control("depth", "5")
        set_control("depth", "5", "other")
        assert (settable.values["depth"], other.values["depth"]) == (4, 5)
    finally:
        other.close()
    with pytest.raises(StatusError, match="no running process has the status page other"):
        set_control("depth", "5", "other")


def test_many_set_at_once(settable):
    """Each gets its own answer."""
    failed = []

    def ask(n):
        try:
            set_control("depth", str(n))
            if n > 64:
                failed.append(n)
        except StatusError:
            if n <= 64:
                failed.append(n)

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(50, 80)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failed


def test_an_owner_that_does_not_listen():
    """Its kernel takes connections for it, and it answers none."""
    going = threading.Event()
    with StatusPage("deaf", {"depth": Control("int", get=lambda: 1, set=lambda _: going.wait(60) and None)}):
        try:
            with pytest.raises(TimeoutError, match=r"took no notice of .* within 0\.1 s"):
                set_control("depth", "5", patience=0.1)
        finally:
            going.set()


def test_an_owner_that_ends():
    """While it is asked, and before; its page may be left."""
    s = Settable("ends")
    with ControlClient(page("ends")) as client:
        s.page.close(leave=True)
        with pytest.raises(StatusError, match="ended before it"):
            client.set("depth", 5)
    with pytest.raises(StatusError, match="takes no requests: it has ended"):
        set_control("depth", "5")
    s.close()
