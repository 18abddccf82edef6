"""Four hosts, each with a node of one Ray cluster: network namespaces of this machine, on a bridge that floods multicast.

Hosts share the machine's disk and its processors; each has its own directory for status pages.
"""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from placements import hosts, plan_of

HOSTS = "abcd"
BIN = Path(sys.executable).parent
#: In which Ray notices that a node is gone; its own default is half a minute. And engines' keepers outlive a head's pause.
PROMPT = {
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "2000",
    "RAY_health_check_failure_threshold": "3",
    "RAY_health_check_initial_delay_ms": "0",
    "RAY_gcs_rpc_server_reconnect_timeout_s": "60",
}


def ip(*words, netns=None):
    subprocess.run(["ip", *(["-n", netns] if netns else []), *words], check=True, capture_output=True)


def until(true, seconds, said=lambda: ""):
    """Wait for something to be true, and give it."""
    end = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < end, said()
        time.sleep(0.1)
    return found


class Rack:
    """See the module; a context. Hosts a to d are 10.55.0.1 to 10.55.0.4; a has the head of the cluster.

    Ray is told that each has so many bytes of memory; nothing takes them.
    """

    def __init__(self, memory=8_000_000_000):
        self._memory = memory
        self.directory = Path(tempfile.mkdtemp(prefix="rack", dir="/tmp"))  # short: sockets of Ray's lie there
        self.address = "10.55.0.1:6379"
        self._switch = f"rk{os.getpid()}"

    def netns(self, host):
        return f"{self._switch}{host}"

    def __enter__(self):
        with contextlib.ExitStack() as undo:
            undo.callback(self._remove)
            self._wire()
            for host in HOSTS:
                self.start_node(host)
            undo.pop_all()
        return self

    def __exit__(self, *_):
        self._remove()

    def _wire(self):
        ip("netns", "add", self._switch)
        ip("link", "add", "br0", "type", "bridge", "mcast_snooping", "0", netns=self._switch)
        ip("link", "set", "br0", "up", netns=self._switch)
        for n, host in enumerate(HOSTS, 1):
            own = self.netns(host)
            ip("netns", "add", own)
            there = ["peer", "name", f"p{host}", "mtu", "9000", "netns", self._switch]
            ip("link", "add", "eth0", "mtu", "9000", "type", "veth", *there, netns=own)
            ip("link", "set", f"p{host}", "master", "br0", "up", netns=self._switch)
            ip("addr", "add", f"10.55.0.{n}/24", "dev", "eth0", netns=own)
            ip("link", "set", "lo", "up", netns=own)
            self.link(host, True)
            (self.directory / f"pages-{host}").mkdir()

    def link(self, host, up):
        """Plug a host's cable in, or out."""
        ip("link", "set", "eth0", "up" if up else "down", netns=self.netns(host))
        if up:
            ip("route", "add", "224.0.0.0/4", "dev", "eth0", netns=self.netns(host))

    def _remove(self):
        for host in HOSTS:
            self.end(host)
        for name in (*map(self.netns, HOSTS), self._switch):
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
        shutil.rmtree(self.directory, ignore_errors=True)

    def environment(self, host):
        own = {"RYLE_STATUS_DIR": str(self.directory / f"pages-{host}"), "TMPDIR": str(self.directory)}
        return os.environ | PROMPT | own

    def on(self, host, *command, **options):
        """Start a command on a host."""
        words = ["ip", "netns", "exec", self.netns(host), *map(str, command)]
        return subprocess.Popen(words, env=self.environment(host), text=True, **options)

    def start_node(self, host, label=None):
        """Start Ray there; as a host of another name, if so told."""
        n = HOSTS.index(host) + 1
        words = ["--node-ip-address", f"10.55.0.{n}", "--num-cpus", 8, "--num-gpus", 0, "--memory", self._memory]
        words += ["--object-store-memory", 80_000_000, "--labels", f"ryle-host={label or host}"]
        head = ["--head", "--port", 6379, "--include-dashboard", "false", "--temp-dir", self.directory / "ray"]
        words += ["--disable-usage-stats", *(head if host == "a" else ["--address", self.address])]
        with (self.directory / f"node-{host}.log").open("a") as log:
            started = self.on(host, BIN / "ray", "start", *words, stdout=log, stderr=log)
        assert started.wait(90) == 0, (self.directory / f"node-{host}.log").read_text()[-2000:]

    def pids(self, host):
        said = subprocess.run(["ip", "netns", "pids", self.netns(host)], capture_output=True, text=True, check=False)
        return [int(line) for line in said.stdout.split()]

    def find(self, host, *words):
        """Give the processes of a host whose command has these words, one after the other."""
        found = {}
        for pid in self.pids(host):
            with contextlib.suppress(OSError):
                command = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
                if "\0".join(words) in command and not command.startswith("sh\0"):
                    found[pid] = command.split("\0")
        return found

    def engine(self, kind, index=0):
        """Give the number of an engine's process, wherever it is; None if it is nowhere. Twice is an error."""
        found = [
            pid
            for host in HOSTS
            for pid, words in self.find(host, "ryle", "engine", kind).items()
            if words[words.index("--index") + 1] == str(index)
        ]
        assert len(found) < 2, f"{kind} {index} runs twice: {found}"
        return found[0] if found else None

    def kill_node(self, host):
        """Kill Ray there, with all that it keeps; engines are not its own."""
        for name in ("gcs_server", "raylet/raylet", "ray::"):  # of which the last may wait for the first
            for pid in self.find(host, name):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        until(lambda: not self.find(host, "ray::"), 30)

    def end(self, host):
        """Kill all that runs there."""
        for _ in range(50):
            if not (left := self.pids(host)):
                return
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.1)


class Ran:
    """A run across the rack that has been started on host a; what it says."""

    def __init__(self, rack, observation, placement, output, *more):
        self.rack, self.lines, self.begun = rack, [], time.monotonic()
        words = [BIN / "ryle", "run", observation, "--on", "ray", "--ray", rack.address, "--placement", placement]
        words += ["-o", output, *more]
        self.process = rack.on("a", *words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.append(f"{time.monotonic() - self.begun:6.1f} {line}")

    def said(self):
        return "".join(self.lines)

    def integrations(self):
        return max((int(n) for n in re.findall(r"(\d+) integrations written", self.said())), default=0)

    def reach(self, count, seconds=200):
        """Wait until so many integrations have been written."""
        until(lambda: self.process.poll() is not None or self.integrations() >= count, seconds, self.said)
        assert self.integrations() >= count, self.said()

    def hear(self, text, seconds=60):
        """Wait until it has said something."""
        until(lambda: text in self.said(), seconds, self.said)

    def wait(self, seconds=300):
        self.process.wait(seconds)
        self._reader.join(10)
        return self.process.returncode


def small(directory, duration="4 s", speed=0.1):
    """Write the small observation for a rack, and its plan: F on a and b, X on c and d, the catcher on d; two files."""
    text = (Path(__file__).parent / "small.toml").read_text()
    text = text.replace('"4 s"', f'"{duration}"').replace('speed = "max"', f"speed = {speed}")
    text = text.replace("taps = 8", "taps = 8\nantennas_per_engine = 2")
    text += (
        '\n[network]\ndigitizers = "239.77.5.0:7148"\nspectra = "239.77.5.32:7148"\n'
        'visibilities = "239.77.5.64:7148"\nstatistics = "239.77.5.80:7149"\ninterface = "10.55.0.0/24"\n'
    )
    (observation := directory / "small.toml").write_text(text)
    places = {"f0": ("a", [0]), "f1": ("b", [0]), "x0": ("c", [0]), "x1": ("d", [0]), "catcher0": ("d", [1])}
    *_, placement = plan_of(observation, directory, hosts(**dict.fromkeys(HOSTS, (8, 0))), **places)
    return observation, placement
