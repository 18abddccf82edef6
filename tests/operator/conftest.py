"""What an operator has: the command line, packets, files. Tests here import nothing of Ryle."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from ports import free_ports

FILE = """
[observation]
name = "small"
sync_time = "2026-03-20T20:00:00Z"
{duration}
[array]
name = "SMALL"
location = {{ latitude = "-30.7215 deg", longitude = "21.4284 deg", height = "1051 m" }}
polarizations = ["x", "y"]
antennas = [
  {{ name = "A0", enu = ["0 m", "0 m", "0 m"] }},
  {{ name = "A1", enu = ["210 m", "40 m", "0.3 m"] }},
]
[band]
sample_rate = "{rate} Hz"
lo = "1.4 GHz"
[digitizer]
bits = 8
heap_samples = 1024
[fengine]
channels = {channels}
taps = 4
max_delay = "10e-6 s"
[xengine]
integration = "{integration} s"
channels_per_substream = {sub}
{xengine}
[phase_centre]
name = "field"
ra = "07h00m00s"
dec = "-30d00m00s"
[network]
digitizers = "127.0.0.1:{digitizers}"
spectra = "127.0.0.1:{spectra}"
visibilities = "127.0.0.1:{visibilities}"
packet_size = "2048 B"
receive_buffer = "4 MiB"
[output]
pictures = false
[simulate]
seed = 1
sefd = "400 Jy"
speed = {speed}
sources = [{{ name = "S1", ra = "07h00m00s", dec = "-30d00m00s", flux = "800 Jy" }}]
"""

#: Digitizer heap, spectra and so on of a file, so that a test can make packets that fit it.
RATE, CHANNELS = 2_000_000, 64


@pytest.fixture
def observation(tmp_path):
    """Write a small observation file on free ports: 2 antennas, 2 polarizations; give its path and ports."""

    def make(duration=2.0, spectra=128, channels=CHANNELS, sub=None, speed='"max"', rate=RATE, xengine="", **ports):
        ports = {"digitizers": free_ports(2), "spectra": free_ports(8), "visibilities": free_ports(1)} | ports
        text = FILE.format(
            duration=f'duration = "{duration} s"' if duration else "",
            rate=rate,
            channels=channels,
            integration=spectra * 2 * channels / rate,
            sub=sub or channels // 2,
            speed=speed,
            xengine=xengine,
            **ports,
        )
        path = tmp_path / "small.toml"
        path.write_text(text)
        return path, ports

    return make


class Process:
    """One `python -m ryle ...`; what it says is kept, line by line."""

    def __init__(self, *arguments, stdin=None, prefix=(), **how):
        self.process = subprocess.Popen(
            [*prefix, sys.executable, "-m", "ryle", *map(str, arguments)],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env=os.environ | {"PYTHONUNBUFFERED": "1", "COLUMNS": "200"},
            **how,
        )
        self.lines, self.errors = [], []
        self._readers = [
            threading.Thread(target=self._read, args=a, daemon=True)
            for a in ((self.process.stdout, self.lines), (self.process.stderr, self.errors))
        ]
        for reader in self._readers:
            reader.start()

    def _read(self, stream, lines):
        for line in stream:
            lines.append(line.rstrip("\n"))

    @property
    def said(self):
        """Everything on standard output and standard error."""
        return "\n".join([*self.lines, *self.errors])

    @property
    def statuses(self):
        """Status lines so far."""
        found = []
        for line in list(self.lines):
            with contextlib.suppress(json.JSONDecodeError):
                found.append(json.loads(line))
        return [f for f in found if isinstance(f, dict) and "state" in f]

    def wait_for(self, what, timeout=120):
        """Wait until `what(self)` is true."""
        deadline = time.monotonic() + timeout
        while not what(self):
            if time.monotonic() > deadline:
                raise TimeoutError(f"nothing of the kind within {timeout} s; it said:\n{self.said}")
            if self.process.poll() is not None and not what(self):
                raise RuntimeError(f"ended with {self.process.returncode}; it said:\n{self.said}")
            time.sleep(0.02)

    def wait_ready(self, timeout=120):
        """Wait until an engine has said that its sockets are open."""
        self.wait_for(lambda p: any(s["state"] != "starting" for s in p.statuses), timeout)

    def tell(self, text):
        self.process.stdin.write(text)
        self.process.stdin.flush()

    def signal(self, number):
        os.kill(self.process.pid, number)

    def end(self, timeout=120):
        """Wait for the end; its exit status. Killed, and TimeoutExpired raised, if it does not come."""
        try:
            code = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        for reader in self._readers:
            reader.join(10)
        return code

    def kill(self):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def children(self):
        """Engines that it runs: role and index to process id, by their command lines."""
        found = {}
        for entry in os.listdir("/proc"):
            with contextlib.suppress(OSError, ValueError, IndexError):
                with open(f"/proc/{int(entry)}/stat") as f:
                    parent = int(f.read().rsplit(")", 1)[1].split()[1])
                if parent != self.process.pid:
                    continue
                with open(f"/proc/{entry}/cmdline") as f:
                    words = f.read().split("\0")
                name = words[4] if words[3] == "engine" else words[3]
                index = words[words.index("--index") + 1] if "--index" in words else "0"
                found[f"{name}{index}"] = int(entry)
        return found


@pytest.fixture
def ryle():
    """Start `python -m ryle ...`; what still runs when the test ends is killed, its engines too."""
    started = []

    def start(*arguments, **how):
        started.append(Process(*arguments, **how))
        return started[-1]

    yield start
    for process in started:
        engines = process.children().values()
        process.kill()
        for pid in engines:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@pytest.fixture
def load():
    """Keep every core busy while a block runs."""

    @contextlib.contextmanager
    def busy():
        spinners = [
            subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * (os.cpu_count() or 1))
        ]
        try:
            yield
        finally:
            for s in spinners:
                s.kill()
                s.wait()

    return busy


@pytest.fixture
def send():
    """Send datagrams to a port of this host."""
    out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

    def to(port, packets):
        for packet in packets:
            out.sendto(packet, ("127.0.0.1", port))

    yield to
    out.close()
