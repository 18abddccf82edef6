"""Pages of engines elsewhere, mirrored here: the same to read, and to set."""

import os
import time

import pytest

from ryle.deploy.mirror import Mirror, Mirrored, PageThere
from ryle.monitor.control import ControlClient, set_control
from ryle.monitor.page import read_pages
from ryle.monitor.page_files import GLANCE, OBSERVATION
from ryle.monitor.publish import StatusPage
from ryle.stream.controls import Control, StatusError


@pytest.fixture
def two(tmp_path, monkeypatch):
    """Switch between two hosts' directories for pages."""
    for host in "ab":
        (tmp_path / host).mkdir()

    def at(host):
        monkeypatch.setenv("RYLE_STATUS_DIR", str(tmp_path / host))

    at("b")
    return at


class Gain:
    """A control."""

    def __init__(self):
        self.value = 1.0

    def set(self, value):
        if value > 10:
            raise ValueError("more than 10")
        self.value = value
        return {"sample": 4096}

    def control(self):
        return Control("float", 0.0, 100.0, means="of all inputs", get=lambda: self.value, set=self.set)


def page_of(name, **values):
    """Publish a page of this process, with a gain."""
    page = StatusPage(name, {"gain": (gain := Gain()).control()}, kinds={"heaps": ("counter", "heaps", "that came")})
    page.publish(values)
    return page, gain


def test_a_page_elsewhere_is_here_too_and_can_be_set(two):
    page, gain = page_of("f1", heaps=3, state="running")
    page.keep(OBSERVATION, b"[observation]")
    there = PageThere()
    mirrored = Mirrored(lambda request: there.ask(os.getpid(), request))
    first = there.news(os.getpid(), mirrored.seen)
    assert set(first.files) == {"status.json", OBSERVATION}
    two("a")
    mirrored.take(first)
    (found,) = read_pages()
    assert found.name == "f1" and found.alive and found.values == {"heaps": 3, "state": "running", "gain": 1.0}
    assert found.kinds == {"heaps": ("counter", "heaps", "that came")}
    assert (found.path / OBSERVATION).read_bytes() == b"[observation]"
    # A value that is set here is set there, and what that says of it is said here.
    asked, answer = set_control("gain", "2.5")
    assert asked.name == "f1" and answer == {"key": "gain", "value": 2.5, "sample": 4096} and gain.value == 2.5
    with ControlClient(found) as client:
        for _ in range(2):  # the owner's refusal, and one who is refused may go on
            with pytest.raises(StatusError, match="more than 10"):
                client.set("gain", 11.0)
        with pytest.raises(StatusError, match="nothing is no control"):
            client.set("nothing", 1)
        client.ask("gain")
        assert client.answer()["value"] == 2.5
    # What changes, and nothing else, comes again.
    two("b")
    assert there.news(os.getpid(), mirrored.seen).files == {}
    page.keep(GLANCE, b"a look")
    page.publish({"heaps": 4})
    news = there.news(os.getpid(), mirrored.seen)
    assert set(news.files) == {"status.json", GLANCE}
    two("a")
    mirrored.take(news)
    (found,) = read_pages()
    assert found.values["heaps"] == 4 and (found.path / GLANCE).read_bytes() == b"a look"
    # It ends there: here too. Its client is told.
    two("b")
    page.close()
    assert there.news(None, mirrored.seen) is None and there.news(os.getpid(), {}) is None
    assert "does not run" in there.ask(None, {"key": "gain"})["refused"]
    two("a")
    mirrored.take(None)
    assert read_pages() == []


def test_an_engine_of_this_host_is_not_mirrored(two):
    page, _ = page_of("f0")
    there = PageThere()
    mirrored = Mirrored(lambda request: {})
    mirrored.take(there.news(os.getpid(), {}))
    mirrored.take(there.news(os.getpid(), mirrored.seen))
    (found,) = read_pages()
    assert found.path == page.path and (found.path / "control").exists()
    mirrored.close()
    assert len(read_pages()) == 1
    page.close()


def test_one_that_has_controls_only_when_it_starts_again(two):
    there, asked = PageThere(), []
    mirrored = Mirrored(lambda request: asked.append(request) or {"key": "gain", "value": 7})
    plain = StatusPage("x0")
    news = there.news(os.getpid(), {})
    plain.close()
    page, _ = page_of("x0")
    later = PageThere().news(os.getpid(), mirrored.seen)
    page.close()
    two("a")
    mirrored.take(news)
    assert not (read_pages()[0].path / "control").exists()
    mirrored.take(later)
    with ControlClient(read_pages()[0]) as client:
        assert client.set("gain", 7.0)["value"] == 7 and asked == [{"key": "gain", "value": 7.0}]
    mirrored.close()


def test_a_mirror_looks_by_itself_and_minds_nobody_who_is_silent(two):
    page, _ = page_of("f1", heaps=1)
    there = PageThere()
    news = there.news(os.getpid(), {})
    two("a")
    seen = []

    def look(times):
        seen.append({name: dict(its) for name, its in times.items()})
        return {"f1": news if len(seen) == 1 else None} if len(seen) != 2 else {}

    mirror = Mirror(look, lambda name, request: {"key": "gain", "refused": name})
    mirror.add("f1"), mirror.add("x0")
    mirror.start()
    end = time.monotonic() + 60
    while not read_pages() and time.monotonic() < end:
        time.sleep(0.01)
    assert [p.name for p in read_pages()] == ["f1"]
    with ControlClient(read_pages()[0]) as client, pytest.raises(StatusError, match="f1"):
        client.set("gain", 1.0)
    while read_pages() and time.monotonic() < end:
        time.sleep(0.01)
    assert read_pages() == [] and seen[0] == {"f1": {}, "x0": {}} and "status.json" in seen[1]["f1"]
    mirror.close()
    two("b")
    page.close()
