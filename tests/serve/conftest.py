"""An application of looks that are given, served over real TCP."""

import json
import subprocess
import threading
import time
import urllib.parse
import urllib.request
from contextlib import contextmanager

import pytest
import uvicorn

from fake_engines import fake_engines
from ports import free_ports
from ryle.gpu import gpu_problem
from ryle.serve.app import application, server_config
from steered_runs import runs
from watched import Watched


@contextmanager
def _served_watcher(watcher, add=lambda app: None):
    """Serve what a watcher sees, and what is added to the application, as `ryle serve` does; give the port."""
    app = application(watcher)
    add(app)
    config = server_config(app)
    config.port = 0
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            thread.join(0.01)
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()


def _served(sight):
    return _served_watcher(Watched(sight))


@contextmanager
def _running_prometheus(directory, port):
    """Run a Prometheus that scrapes a port every second; give a function that asks it, once it has."""
    (directory / "scrape.yml").write_text(
        "global: {scrape_interval: 1s, scrape_timeout: 1s}\n"
        f"scrape_configs: [{{job_name: ryle, static_configs: [{{targets: ['127.0.0.1:{port}']}}]}}]\n"
    )
    own = free_ports(1)
    command = ["prometheus", "--config.file=scrape.yml", "--storage.tsdb.path=data"]

    def ask(query):
        asked = urllib.parse.urlencode({"query": query})
        with urllib.request.urlopen(f"http://127.0.0.1:{own}/api/v1/query?{asked}", timeout=20) as answer:
            return json.load(answer)["data"]["result"]

    with (directory / "log").open("w") as log:
        process = subprocess.Popen(
            [*command, f"--web.listen-address=127.0.0.1:{own}"], cwd=directory, stdout=log, stderr=log
        )
    try:
        until = time.monotonic() + 120
        while True:
            assert process.poll() is None and time.monotonic() < until, (directory / "log").read_text()
            try:
                if ask("up == 1"):
                    break
            except OSError:
                pass
            time.sleep(0.1)
        yield ask
    finally:
        process.kill()  # what it has stored is nobody's
        process.wait()


@pytest.fixture
def running_prometheus():
    return _running_prometheus


@pytest.fixture
def served():
    return _served


@pytest.fixture
def served_watcher():
    return _served_watcher


@pytest.fixture
def engines(tmp_path, monkeypatch):
    monkeypatch.setenv("RYLE_STATUS_DIR", str(tmp_path))
    with fake_engines() as make:
        yield make


@pytest.fixture(params=["cpu", "cuda"])
def run(request, tmp_path, monkeypatch, steady):
    if request.param == "cuda" and (problem := gpu_problem()):
        pytest.skip(f"needs an NVIDIA GPU: {problem}")
    return runs(tmp_path, monkeypatch, steady, request.param)
