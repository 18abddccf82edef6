"""F-engine, X-engine and catcher as processes, fed by senders on the same machine: the highest rate without loss.

    python -m ryle.bench.engines_apart [--seconds 60] [--start 5] [--most 60] [--backend cuda] [--json FILE]

Samples of 8 bits in packets of 8192 bytes go to sockets of this machine, spectra and visibilities through sockets too.
What is lost anywhere is counted while senders send, from seconds after they have begun to a second before they end:
engines that hear nothing for a second close what is open, and book the rest of it as missing.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from rich.console import Console

from ryle.bench.engine import free_run
from ryle.bench.network_engine import PACKET, SOURCES, antennas_on_a_line
from ryle.bench.results import Row, computer, save
from ryle.config import Endpoint, parse
from ryle.receive.samples import SampleMap
from ryle.send.sender import Sender
from ryle.send.sending import Sending

_SETTLE = 3.0  # s after which what is sent arrives everywhere; engines say so twice a second
_STEPS = 1.25  # from a rate to the next
_LOSSES = ("missing", "late", "duplicate", "malformed", "kernel_drops", "ring_full")

_FILE = """
observation = {{name = "fed", sync_time = "2026-03-20T20:00:00Z"}}
band = {{sample_rate = "{rate} Hz", lo = "1.4 GHz"}}
digitizer = {{bits = 8, heap_samples = {packet}}}
network = {{digitizers = "127.0.0.1:{port}", spectra = "127.0.0.1:{spectra}", visibilities = "127.0.0.1:{sums}"}}
phase_centre = {{name = "field", ra = "07h00m00s", dec = "-30d00m00s"}}
[fengine]
channels = {channels}
taps = 16
antennas_per_engine = {antennas}
max_delay = "10 us"
backend = "{backend}"
receive = {{threads = {threads}, buffer = "{buffer} MiB"}}
[xengine]
integration = "{integration} s"
channels_per_substream = {channels}
backend = "{backend}"
receive = {{threads = 2, buffer = "{buffer} MiB"}}
[array]
name = "line"
location = {{latitude = "-30.7 deg", longitude = "21.4 deg", height = "1000 m"}}
polarizations = ["x", "y"]
antennas = [{names}]
"""


class Engines:
    """The three processes, by what they say of themselves.

    Parameters
    ----------
    text : str
        Of their observation file.
    folder : Path
        Where it and the visibilities go.

    Raises
    ------
    RuntimeError
        If one does not start, or ends by itself; it has said why.
    """

    def __init__(self, text: str, folder: Path) -> None:
        file = folder / "fed.toml"
        file.write_text(text)
        self.status: dict[str, dict[str, Any]] = {}
        self._processes: dict[str, subprocess.Popen[str]] = {}
        for role in ("catcher", "x", "f"):
            more = ["-o", str(folder)] if role == "catcher" else ["--index", "0"]
            command = [sys.executable, "-m", "ryle", "engine", role, str(file), "--live", *more]
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
            self._processes[role] = process
            threading.Thread(target=self._read, args=(role, process), daemon=True).start()
        end = time.monotonic() + 120
        while len(self.status) < len(self._processes):
            self.check()
            if time.monotonic() > end:
                raise RuntimeError(f"engines did not start in time; there are {', '.join(self.status) or 'none'}")
            time.sleep(0.1)

    def _read(self, role: str, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            said = json.loads(line)
            if said.get("state") in ("ready", "running"):
                self.status[role] = said

    def check(self) -> None:
        """Raise RuntimeError if one has ended."""
        for role, process in self._processes.items():
            if process.poll() is not None:
                raise RuntimeError(f"the {role} process ended ({process.returncode}); see above")

    def counts(self) -> dict[str, dict[str, int]]:
        """Say what each has placed and lost so far."""
        self.check()
        accounts = {role: status["account"] for role, status in self.status.items()}
        return {role: {k: int(a.get(k) or 0) for k in ("placed", *_LOSSES)} for role, a in accounts.items()}

    def close(self) -> None:
        """End them in the order of the signal path."""
        for role in ("f", "x", "catcher"):
            self._processes[role].terminate()
            self._processes[role].wait(60)


def hold(engines: Engines, sending: Sending) -> dict[str, Any]:
    """Send; say what was lost by whom while it flowed, and what came."""
    sender = Sender(sending)
    assert sending.seconds is not None
    sender.start()
    time.sleep(_SETTLE)
    before, began = engines.counts(), time.monotonic()
    time.sleep(sending.seconds - _SETTLE - 1.0)
    after, took = engines.counts(), time.monotonic() - began
    sender.join()
    done = sender.progress()
    change = {role: {k: after[role][k] - before[role][k] for k in after[role]} for role in after}
    lost = {role: {k: n for k, n in c.items() if k != "placed" and n} for role, c in change.items()}
    return {
        "gbps": done.bytes * 8e-9 / max(done.seconds, 1e-9),
        "seconds": took,
        "placed": {role: c["placed"] for role, c in change.items()},
        "lost": {role: c for role, c in lost.items() if c},
        "packets": -(-done.packets // (sending.sources * len(sending.to))),
    }


def measure(asked: dict[str, Any], console: Console) -> Row:
    """Raise the rate until something is lost, then hold what was not."""
    antennas = asked["antennas"]
    asked |= {"port": free_run(antennas, 24000), "spectra": free_run(1, 25000), "sums": free_run(2, 25100)}
    rate = round(asked["most"] * 1e9 / 8 / (2 * antennas))
    text = _FILE.format(names=antennas_on_a_line(antennas), rate=rate, packet=PACKET, **asked)
    o = parse(text, "fed")
    format = SampleMap(o, range(antennas)).plan.format
    ports = [Endpoint(host="127.0.0.1", port=asked["port"] + i) for i in range(2 * antennas // SOURCES)]
    start = 0

    def at(gbps: float, seconds: float) -> dict[str, Any]:
        nonlocal start
        sending = Sending(
            to=ports, format=format, sources=SOURCES, gbps=gbps, seconds=seconds, start=start, threads=asked["threads"]
        )
        found = hold(engines, sending)
        start += found.pop("packets") * format.timestamp.step
        console.print(f"{found['gbps']:.2f} Gb/s for {found['seconds']:.1f} s: lost {found['lost'] or 'nothing'}")
        return found

    with tempfile.TemporaryDirectory(prefix="ryle-apart-") as folder:
        engines = Engines(text, Path(folder))
        try:
            best, gbps = 0.0, asked["start"]
            while gbps <= asked["most"] and not at(gbps, _SETTLE + 1.0 + asked["trial"])["lost"]:
                best, gbps = gbps, gbps * _STEPS
            held: dict[str, Any] = {"gbps": 0.0, "seconds": 0.0, "lost": {}, "placed": {}}
            for share in (1.0, 0.9, 0.8, 0.7) if best else ():
                held = at(share * best, _SETTLE + 1.0 + asked["seconds"])
                if not held["lost"]:
                    break
        finally:
            engines.close()
    return Row(
        case="F, X and catcher as processes",
        value=0.0 if held["lost"] else held["gbps"],
        unit="Gb/s without loss",
        size={"inputs": 2 * antennas, "channels": asked["channels"], "bits": 8},
        target=25.0 if asked["backend"] == "cuda" else None,
        more={**{k: held[k] for k in ("seconds", "lost", "placed")}, "found": best, "threads": asked["threads"]},
    )


def main() -> None:
    """Measure, as the command line asks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help="that the rate found is held for")
    parser.add_argument("--trial", type=float, default=3.0)
    parser.add_argument("--start", type=float, default=5.0, help="first rate to try, Gb/s")
    parser.add_argument("--most", type=float, default=60.0, help="highest rate to try, Gb/s")
    parser.add_argument("--threads", type=int, default=3, help="that send, and as many that receive samples")
    parser.add_argument("--antennas", type=int, default=16)
    parser.add_argument("--channels", type=int, default=1024)
    parser.add_argument("--integration", type=float, default=0.5)
    parser.add_argument("--buffer", type=int, default=256, help="MiB of a socket's")
    parser.add_argument("--backend", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--json", type=Path)
    given = vars(parser.parse_args())
    console, path = Console(stderr=True, highlight=False), given.pop("json")
    row = measure(given, console)
    console.print(f"{row.case}: {row.value:.2f} Gb/s for {row.more['seconds']:.0f} s; {row.more}")
    save(path, computer(given["backend"] == "cuda"), [row], console)


if __name__ == "__main__":
    main()
