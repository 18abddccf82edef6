"""`ryle serve` as it is typed: finds what runs, says where it is, ends in good order, and refuses what cannot be."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest

from fake_engines import fake_engines
from ryle.monitor.publish import StatusPage

KINDS = {"received": ("counter", "packets", "that came")}
TEXT = (Path(__file__).parents[1] / "small.toml").read_text()


@pytest.fixture(autouse=True)
def directory(tmp_path, monkeypatch):
    pages = tmp_path / "pages"
    pages.mkdir()
    monkeypatch.setenv("RYLE_STATUS_DIR", str(pages))
    return pages


def command(*arguments):
    return [sys.executable, "-m", "ryle", "serve", *arguments]


@contextmanager
def serving(*arguments):
    """Run it; give where it says that it is."""
    process = subprocess.Popen(
        command("--port", "0", *arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        said = process.stdout.readline()
        yield process, re.search(r"(http://\S+)/metrics", said)[1]
    finally:
        process.kill()
        process.communicate()


def get(url):
    with urllib.request.urlopen(url, timeout=60) as answer:
        return answer.read().decode()


def engines_seen(where, observation, **wanted):
    """Wait until an engine of it is seen that has these figures: a page is there before what stands on it."""
    until = time.monotonic() + 60
    while True:
        sight = json.loads(get(f"{where}/api/sight"))
        if sight["observation"] == observation and any(wanted.items() <= e["values"].items() for e in sight["engines"]):
            return sight
        assert time.monotonic() < until, sight
        time.sleep(0.05)


@pytest.mark.parametrize("ends", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_what_runs_until_it_is_told_to_end(ends):
    with StatusPage("f0", kinds=KINDS) as page, serving() as (process, where):
        page.keep("observation.toml", TEXT.encode())
        page.publish({"role": "f", "index": 0, "state": "running", "received": 77})
        engines_seen(where, name := "demo", received=77)  # of small.toml
        metrics = get(f"{where}/metrics")
        assert f'ryle_engine_up{{engine="f0",index="0",observation="{name}",role="f"}} 1.0' in metrics
        assert f'ryle_received_packets_total{{engine="f0",index="0",observation="{name}",role="f"}} 77.0' in metrics
        process.send_signal(ends)
        assert process.wait(60) == 0
        assert process.stderr.read() == ""


def run(*arguments, **environment):
    return subprocess.run(
        command(*arguments), capture_output=True, text=True, timeout=60, env={**os.environ, **environment}
    )


def test_a_client_that_stays_does_not_hold_up_the_end():
    with serving() as (process, where), socket.create_connection(("127.0.0.1", int(where.rpartition(":")[2]))) as stays:
        stays.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n")
        get(f"{where}/metrics")
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0


def test_names_of_others_are_refused():
    with serving() as (_, where), pytest.raises(urllib.error.HTTPError, match="421"):
        urllib.request.urlopen(urllib.request.Request(f"{where}/metrics", headers={"Host": "evil.example"}), timeout=30)


def test_it_listens_on_this_machine_alone_unless_asked():
    with serving() as (_, where):
        assert where.startswith("http://127.0.0.1:")
    with serving("--host", "::1") as (_, where):
        assert where.startswith("http://[::1]:")
        assert "ryle_build_info" in get(f"{where}/metrics")


def test_a_port_that_is_taken():
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        done = run("--port", str(port))
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr == f"error: port {port} of 127.0.0.1 is taken: give another with --port, or end what has it\n"


@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-host.invalid", "a..b", "", "x" * 300, "127.0.0.1:80"])
def test_an_address_of_others(host):
    done = run("--host", host, "--port", "0")
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: --host {host!r} is no address of this machine: ")


@pytest.mark.parametrize("name", ["fastapi", "uvicorn", "prometheus_client"])
def test_without_the_extra_it_says_what_to_install(tmp_path, name):
    (tmp_path / f"{name}.py").write_text(f"raise ImportError('no {name}', name='{name}')")
    done = run("--port", "0", PYTHONPATH=str(tmp_path))
    assert done.returncode == 1
    assert done.stderr == f"error: ryle serve needs {name}: pip install 'ryle[watch]'\n"


def put(where, token, body):
    """Ask for gains; give the status and the answer."""
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
    asked = urllib.request.Request(f"{where}/api/control/gains", json.dumps(body).encode(), headers, method="PUT")
    try:
        with urllib.request.urlopen(asked, timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_it_steers_if_it_is_asked_to(tmp_path):
    """With the token that it prints, or that it is given; and by katcp."""
    with fake_engines() as make:
        engine = make(0, range(20), 1000)
        with serving("--control", "--katcp", "0") as (process, where):
            token = re.search(r"this token: (\S+)", process.stdout.readline())[1]
            port = int(re.search(r"katcp at 127.0.0.1 port (\d+)", process.stdout.readline())[1])
            body = {"inputs": [3], "gains": {"re": 2.0}}
            for wrong in (None, token[:-1], token + "x"):
                assert put(where, wrong, body)[0] == 401
            assert not engine.asked
            status, answer = put(where, token, body)
            assert status == 200 and answer["sample"] == 1000 and engine.asked[0][1]["inputs"] == [3]
            status, answer = put(where, token, {"gains": {"re": 1}, "sample": 5})
            assert status == 409 and "late: sample 5" in answer
            with socket.create_connection(("127.0.0.1", port), 60) as katcp:
                katcp.sendall(b"?gain stream 4 3\n")
                said = b""
                while b"!gain" not in said:
                    said += katcp.recv(4096)
            assert b"!gain ok" in said and engine.asked[-1][1]["inputs"] == [4]
        secret = tmp_path / "token"
        secret.write_text("correct-horse-battery\n")
        with serving("--control", "--token-file", str(secret)) as (process, where):
            assert "correct" not in process.stdout.readline()
            assert put(where, "correct-horse-battery", body)[0] == 200
        with serving() as (_, where):
            assert put(where, token, body)[0] in (404, 405)
    secret.write_text("short")
    done = subprocess.run(command("--control", "--token-file", str(secret)), capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "holds no token" in done.stderr


def test_requests_that_are_too_long_are_not_read():
    with (
        serving("--control") as (_, where),
        socket.create_connection(("127.0.0.1", int(where[-5:].split(":")[-1]))) as to,
    ):
        to.sendall(b"PUT /api/sight HTTP/1.1\r\nHost: localhost\r\nContent-Length: 999999999999\r\n\r\n")
        assert b" 413 " in to.recv(4096)


def test_a_recorded_session_is_served(tmp_path, directory):
    """What one recorded, another shows; a session cannot be steered."""
    session = tmp_path / "night.session"
    with StatusPage("f0", kinds=KINDS) as page, serving("--record", str(session)) as (process, where):
        page.keep("observation.toml", TEXT.encode())
        page.publish({"role": "f", "index": 0, "state": "running", "received": 77})
        seen = engines_seen(where, "demo", received=77)["time"]
        until = time.monotonic() + 60
        while json.loads(get(f"{where}/api/sight"))["time"] == seen:  # a look after that, at the least
            assert time.monotonic() < until
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    with serving("--replay", str(session), "--speed", "1000") as (_, where):
        assert engines_seen(where, "demo", received=77)["engines"][0]["name"] == "f0"
    found = subprocess.run(command("--replay", str(session), "--control"), capture_output=True, text=True, timeout=60)
    assert found.returncode == 2 and "leave --record" in found.stderr
