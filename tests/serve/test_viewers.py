"""Ten viewers of a live run, one of whom reads nothing: it loses nothing, and works no more than when nobody looks on."""

import json
import re
import subprocess
import sys
import threading
import time

import pytest
from websockets.sync.client import connect

from ports import free_ports
from ryle.config import example

VIEWERS, SECONDS = 10, 12


class Watching:
    """Viewers of a page: all but the first read what they want as soon as it comes."""

    def __init__(self, port):
        self.seen, self._ended = [0] * VIEWERS, threading.Event()
        self._threads = [threading.Thread(target=self._watch, args=(port, number)) for number in range(VIEWERS)]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def _watch(self, port, number):
        with connect(f"ws://127.0.0.1:{port}/api/live", max_size=None, max_queue=1) as viewer:
            viewer.send('{"want": ["bandpass", "spectra/1-4", "image"]}')
            if number == 0:
                self._ended.wait()
                return
            while not self._ended.is_set():
                try:
                    viewer.recv(timeout=0.5)
                    self.seen[number] += 1
                except TimeoutError:
                    pass


def observation(directory):
    """The demo in real time, so slowly that two cores are not busy."""
    text = example("demo").read_text()
    for pattern, value in (
        (r'duration = "[^"]*"', f'duration = "{SECONDS} s"'),
        (r'sample_rate = "[^"]*"', 'sample_rate = "1 MHz"'),
        (r'speed = "max"', "speed = 1.0"),
        (r'integration = "[^"]*"', 'integration = "0.5 s"'),
        (r"formats = .*\npictures = true", 'formats = ["uvh5"]'),
    ):
        text, changes = re.subn(pattern, value, text, count=1)
        assert changes == 1, pattern
    (directory / "demo.toml").write_text(text)
    return directory / "demo.toml"


def run(file, output):
    """Run it; give its account, and the seconds of processor time that its engines used."""
    done = subprocess.run(
        [sys.executable, "-m", "ryle", "run", file, "-o", output, "--json", output.with_suffix(".json")],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = json.loads(output.with_suffix(".json").read_text())
    engines = {name: status["cpu"] * 1e-3 for name, status in told["statuses"].items() if name != "simulate"}
    return told["losses"], told["accounts"], engines


@pytest.mark.long
@pytest.mark.timeout(600)
def test_ten_viewers_cost_a_run_nothing(tmp_path, steady):
    file = observation(tmp_path)

    def body():
        alone = run(file, tmp_path / f"alone-{time.monotonic_ns()}")
        port = free_ports(1)
        page = subprocess.Popen([sys.executable, "-m", "ryle", "serve", "--port", str(port)], stdout=subprocess.PIPE)
        try:
            assert b"watch it at" in page.stdout.readline()
            with Watching(port) as viewers:
                watched = run(file, tmp_path / f"watched-{time.monotonic_ns()}")
        finally:
            page.terminate()
            page.wait(20)
        print(alone[2], watched[2], viewers.seen)
        assert alone[0] == watched[0] == 0
        for name, account in alone[1].items():
            assert watched[1][name]["missing"] == 0 and watched[1][name]["placed"] == account["placed"], name
        assert viewers.seen[0] == 0 and min(viewers.seen[1:]) >= 3 * SECONDS
        assert alone[2].keys() == watched[2].keys() and len(alone[2]) >= 5
        assert sum(watched[2].values()) < 1.25 * sum(alone[2].values()) + 0.5

    steady(body)
