"""The application answers who may ask, tells what is there, and no more; and whatever lies on a page, it answers."""

import http.client
import json
import signal
import socket
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from fastapi.testclient import TestClient
from hypothesis import given as examples
from hypothesis import strategies as st

from glances import glance_of, noise
from ryle.serve.app import SECURITY, Server, application, is_known, server_config
from ryle.serve.pages import POLICY, static_files
from ryle.serve.plain import plain
from ryle.watch.sight import Sight
from sights import ACCOUNT, alarm, engine, look
from watched import Watched


@pytest.fixture
def ask():
    """Give a function that asks an application of a look."""

    def client(sight, names=(), host="127.0.0.1:8080"):
        app = application(Watched(sight), names)
        return TestClient(app, base_url=f"http://{host}", raise_server_exceptions=True)

    return client


def test_the_state_as_json(ask, rng):
    glance = glance_of(noise(rng, 1, 2, 16, 4))
    answer = ask(look(glance=glance, alarms=(alarm(),))).get("/api/sight")
    assert answer.status_code == 200 and answer.headers["content-type"] == "application/json"
    found = answer.json()
    assert found["observation"] == "night 3" and found["disk_free"] == 2e12
    assert found["engines"][0]["values"]["account"] == ACCOUNT  # what is unknown is null
    assert found["inputs"][0]["present"] == {"ring": 0.99, "F": 0.98, "X": None, "file": None}
    assert found["inputs"][1]["rms"] is None
    assert found["alarms"][0]["kind"] == "dead" and found["alarms"][0]["cure"] == "mend it"
    assert "glance" not in found


def test_metrics(ask):
    answer = ask(look()).get("/metrics", headers={"accept": "text/plain"})
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert 'ryle_engine_up{engine="f0"' in answer.text
    answer = ask(look()).get("/metrics", headers={"accept": "application/openmetrics-text; version=1.0.0"})
    assert answer.headers["content-type"].startswith("application/openmetrics-text")


def test_nothing_runs(ask):
    assert ask(Sight(5.0)).get("/api/sight").json()["engines"] == []
    assert "ryle_engine" not in ask(Sight(5.0)).get("/metrics").text


@pytest.mark.parametrize("path", ["/metrics", "/api/sight", "/openapi.json", "/none"])
def test_browsers_are_told_to_keep_off(ask, path):
    answer = ask(look()).get(path)
    assert {name: answer.headers.get(name) for name in SECURITY} == SECURITY
    assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize("path", ["/", "/docs", *(f"/static/{name}" for name in sorted(static_files()))])
def test_pages_load_what_is_here_and_nothing_else(ask, path):
    answer = ask(look()).get(path)
    assert answer.status_code == 200
    wanted = SECURITY | {"content-security-policy": POLICY}
    assert {name: answer.headers.get(name) for name in wanted} == wanted
    if not path.startswith("/static/uplot"):
        assert "http://" not in answer.text.replace("http://www.w3.org/2000/svg", "") and "https://" not in answer.text


@pytest.mark.parametrize(
    "path",
    [
        "/redoc",
        "/docs/oauth2-redirect",
        "/../etc/passwd",
        "/api/sight/x",
        "/static/",
        "/static/..%2fapp.py",
        "/static/%2e%2e/app.py",
        "/static/..%5capp.py",
        "/static//etc/passwd",
        "/static/app.js%00",
        "/static/__init__.py",
    ],
)
def test_nothing_else_is_there(ask, path):
    assert ask(look()).get(path).status_code == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
@pytest.mark.parametrize("path", ["/metrics", "/api/sight"])
def test_nothing_can_be_changed(ask, method, path):
    assert ask(look()).request(method, path, json={"gains": 0}).status_code == 405


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "LOCALHOST:8080", "[::1]:8080", "10.1.2.3:80", "obs7", "obs7."]
)
def test_own_names_and_addresses_are_served(ask, host):
    assert ask(look(), ["obs7"]).get("/metrics", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "evil.example:8080",
        "",
        "[::1",
        "a@127.0.0.1",
    ],
)
def test_names_of_others_are_refused(ask, host):
    for path in ("/metrics", "/api/sight", "/openapi.json", "/none"):
        answer = ask(look(), ["obs7"]).get(path, headers={"host": host})
        assert answer.status_code == 421 and "ryle_" not in answer.text
        assert answer.headers["x-content-type-options"] == "nosniff"


def test_this_machines_own_name_is_known(ask):
    assert ask(look()).get("/metrics", headers={"host": f"{socket.gethostname()}:8080"}).status_code == 200


@examples(st.text(max_size=20))
def test_any_host_is_judged(host):
    assert is_known(host, frozenset({"localhost"})) in (True, False)


def test_two_hosts_are_one_too_many(served):
    with served(look()) as port, socket.create_connection(("127.0.0.1", port), timeout=20) as client:
        client.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\nConnection: close\r\n\r\n")
        assert client.recv(12).split()[1] in (b"400", b"421")


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@examples(st.dictionaries(st.text(st.characters(codec=None), max_size=5), anything, max_size=5))
def test_whatever_lies_on_a_page_is_json(values):
    text = json.dumps(plain(look(replace(engine(), values=values))))
    assert json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))["observation"] == "night 3"
    text.encode()


def test_what_is_very_deep_is_cut_off():
    deep = []
    for _ in range(900):
        deep = [deep]
    assert json.dumps(plain(look(engine(deep=deep)))).count("[") < 100


def test_many_ask_at_the_same_time_and_one_does_not_read(served):
    with served(look()) as port:
        stalled = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        stalled.request("GET", "/metrics")

        def fetch(_):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
            connection.request("GET", "/metrics")
            return connection.getresponse().read()

        with ThreadPoolExecutor(10) as pool:
            assert len(set(pool.map(fetch, range(40)))) == 1
        stalled.close()


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:1", "https://127.0.0.1.evil.example:8080"]
)
def test_pages_from_elsewhere_change_nothing(ask, origin):
    answer = ask(look()).put("/api/control/gains", json={}, headers={"origin": origin})
    assert answer.status_code == 403


def test_its_own_page_is_let_through(ask):
    answer = ask(look()).put("/api/control/gains", json={}, headers={"origin": "http://127.0.0.1:8080"})
    assert answer.status_code == 404  # nobody steers here


def test_who_asks_for_the_end_again_is_served_no_traceback():
    """A second Ctrl-C does not break off what ends: there is nothing to wait for longer than some seconds."""
    server = Server(server_config(application(Watched(Sight(0.0)), ["localhost"])))
    for number in (signal.SIGINT, signal.SIGINT, signal.SIGTERM):
        with server.capture_signals():
            signal.raise_signal(number)
        assert server.should_exit and not server.force_exit
