"""Viewers get the newest of what they want; one that stalls, or talks nonsense, costs the others nothing."""

import json
import re
import socket
import time
from contextlib import ExitStack
from dataclasses import replace

import pytest
from hypothesis import given as examples
from hypothesis import strategies as st
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from adc_values import histograms_of
from fresh import rng
from glances import glance_of, noise
from ryle.serve.live import MOST_VIEWERS, wanted
from ryle.serve.pictures import sight_part
from serve_parts import unpacked
from sights import look
from watched import Watched


@pytest.fixture
def watcher():
    return Watched(look())


@pytest.fixture
def glance():
    return glance_of(noise(rng(), 3, 2, 32, 8))


def test_a_viewer_gets_each_look_and_what_it_wants(served_watcher, watcher, glance):
    with served_watcher(watcher) as port, connect(f"ws://127.0.0.1:{port}/api/live") as viewer:
        first, _ = unpacked(viewer.recv(timeout=20))
        assert first["sight"]["time"] == 1002.5
        watcher.show(time=1003.0, glance=glance)
        assert unpacked(viewer.recv(timeout=20))[0]["sight"]["time"] == 1003.0
        viewer.send('{"want": ["bandpass", "spectra/1-4"]}')
        header, arrays = unpacked(viewer.recv(timeout=20))
        assert header["part"] == "bandpass" and arrays["power"].shape == (6, 16)
        assert unpacked(viewer.recv(timeout=20))[0]["part"] == "spectra/1-4"
        watcher.show(time=1004.0)  # the same glance: nothing new
        watcher.show(time=1005.0, glance=replace(glance, number=4))
        assert unpacked(viewer.recv(timeout=20))[0]["number"] == 4
    assert 4 * (2 * 3 // 2 + 0) + 1 in watcher.chosen  # antenna 0 y × antenna 2 x: its whole spectrum is asked for


def test_before_an_integration_was_seen_that_is_said(served_watcher, watcher):
    with served_watcher(watcher) as port, connect(f"ws://127.0.0.1:{port}/api/live") as viewer:
        viewer.recv(timeout=20)
        viewer.send('{"want": ["image"]}')
        assert "no integration" in unpacked(viewer.recv(timeout=20))[0]["problem"]


def test_levels_come_with_each_new_histogram(served_watcher, watcher):
    with served_watcher(watcher) as port, connect(f"ws://127.0.0.1:{port}/api/live") as viewer:
        viewer.recv(timeout=20)
        viewer.send('{"want": ["levels", "levels/1", "levels/9"]}')
        assert [unpacked(viewer.recv(timeout=20))[0].get("problem") for _ in range(3)] == [
            "no ADC values have been seen yet"
        ] * 3
        watcher.show(time=1003.0, histograms=histograms_of([[1, 2, 2], [3, 3, 3]], bits=4))
        header, arrays = unpacked(viewer.recv(timeout=20))
        assert header["part"] == "levels" and arrays["share"].shape == (2, 17)
        header, arrays = unpacked(viewer.recv(timeout=20))
        assert header["part"] == "levels/1" and arrays["lately"][8 + 3] == 3
        assert unpacked(viewer.recv(timeout=20))[0]["problem"] == "there is no such input"
        watcher.show(time=1004.0)  # the same: nothing new
        watcher.show(time=1005.0, histograms=histograms_of([[0], [7]], bits=4))
        unpacked(viewer.recv(timeout=20))
        header, arrays = unpacked(viewer.recv(timeout=20))
        assert header["part"] == "levels/1" and arrays["lately"].tolist() == [0.0] * 15 + [1.0, 0.0]


def test_a_look_that_cannot_be_told_ends_nothing(served_watcher, watcher, monkeypatch, capfd):
    """Nobody knows what lies in shared memory: it is said once, and the next look may be better."""

    def broken(sight, observation):
        if sight.time < 1004:
            raise TypeError("what is this")
        return sight_part(sight, observation)

    monkeypatch.setattr("ryle.serve.live.sight_part", broken)
    with served_watcher(watcher) as port, connect(f"ws://127.0.0.1:{port}/api/live") as viewer:
        with pytest.raises(TimeoutError):
            viewer.recv(timeout=0.5)
        watcher.show(time=1004.0)
        assert unpacked(viewer.recv(timeout=20))[0]["sight"]["time"] == 1004.0
    assert capfd.readouterr().err.count("what is this") == 1


def test_a_glance_that_makes_no_sense_is_a_problem_told(served_watcher, watcher, glance):
    watcher.show(time=1003.0, glance=replace(glance, coarse=None, power=None))
    with served_watcher(watcher) as port, connect(f"ws://127.0.0.1:{port}/api/live") as viewer:
        viewer.recv(timeout=20)
        viewer.send('{"want": ["bandpass", "products", "closure/0", "spectra/0-2"]}')
        for part in ("bandpass", "products", "closure/0", "spectra/0-2"):
            header, _ = unpacked(viewer.recv(timeout=20))
            assert header["part"] == part and header["problem"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        "{",
        '{"want": "sight"}',
        '{"want": [1]}',
        '{"want": ["../x"]}',
        '{"want": [], "x": 1}',
        "[" * 4000,
    ],
)
def test_who_talks_nonsense_is_sent_away(served_watcher, watcher, text):
    with served_watcher(watcher) as port, connect(f"ws://127.0.0.1:{port}/api/live") as viewer:
        viewer.recv(timeout=20)
        viewer.send(text)
        with pytest.raises(ConnectionClosed):
            viewer.recv(timeout=20)
        assert viewer.close_code == 1008


@examples(st.text(max_size=30) | st.none())
def test_whatever_is_said_is_judged(text):
    found = wanted(text)
    assert found is None or isinstance(found, tuple)


def test_a_wish_has_an_end():
    assert wanted(json.dumps({"want": ["sight"] * 16})) == ("sight",)
    assert wanted(json.dumps({"want": ["sight"] * 17})) is None
    assert wanted('{"want": []' + " " * 5000 + "}") is None


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Host": "evil.example"},
        {"Origin": "file://127.0.0.1"},
    ],
)
def test_pages_from_elsewhere_see_nothing(served, headers):
    with served(look()) as port, socket.create_connection(("127.0.0.1", port), timeout=20) as client:
        said = {"Host": f"127.0.0.1:{port}", "Connection": "Upgrade", "Upgrade": "websocket"} | headers
        said |= {"Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}
        lines = "".join(f"{name}: {value}\r\n" for name, value in said.items())
        client.sendall(f"GET /api/live HTTP/1.1\r\n{lines}\r\n".encode())
        assert client.recv(100).split()[1] == b"403"


def test_its_own_page_sees_it(served):
    with served(look()) as port:
        origin = f"http://localhost:{port}"
        with connect(f"ws://localhost:{port}/api/live", origin=origin) as viewer:
            assert unpacked(viewer.recv(timeout=20))[0]["part"] == "sight"
        with pytest.raises(InvalidStatus):
            connect(f"ws://localhost:{port}/api/live", origin="http://localhost")


def test_too_many_are_told(served):
    with served(look()) as port, ExitStack() as stack:
        for _ in range(MOST_VIEWERS):
            stack.enter_context(connect(f"ws://127.0.0.1:{port}/api/live")).recv(timeout=20)
        with connect(f"ws://127.0.0.1:{port}/api/live") as one_more:
            with pytest.raises(ConnectionClosed):
                one_more.recv(timeout=20)
            assert one_more.close_code == 1013 and "watch already" in one_more.close_reason


def test_a_stalled_viewer_costs_the_others_nothing(served_watcher):
    """Nine get every look though a tenth reads nothing for as long, and that one then gets what is newest."""
    big = look(log=tuple("x" * 100 for _ in range(20_000)))  # 2 MB a look, far more than sockets hold
    watcher = Watched(big)
    with served_watcher(watcher) as port, ExitStack() as stack:
        address = f"ws://127.0.0.1:{port}/api/live"
        stalled = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=20))
        stalled.sendall(
            f"GET /api/live HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n".encode()
        )
        others = [stack.enter_context(connect(address, max_size=None)) for _ in range(9)]
        for viewer in others:
            viewer.recv(timeout=20)
        for n in range(20):
            watcher.show(time=2000.0 + n)
            for viewer in others:
                assert unpacked(viewer.recv(timeout=20))[0]["sight"]["time"] == 2000.0 + n
        told = re.compile(rb'"sight": {"time": (\d+)[^\d]')  # to its end: what came may be cut anywhere
        got, seen = b"", []
        until = time.monotonic() + 20
        while seen[-1:] != [2019] and time.monotonic() < until:
            got += stalled.recv(1 << 20)
            seen += [int(found) for found in told.findall(got)]
            got = got[-30:] if told.search(got[-30:]) is None else b""
        assert seen[-1] == 2019 and 2 <= len(seen) < 15, seen
