"""F and X in one process on a GPU, fed by senders on the same machine through sockets: the highest rate without loss.

    python -m ryle.bench.network_engine [--seconds 60] [--most 120] [--threads 6] [--json FILE]

Samples of 8 bits in packets of 8192 bytes go to sockets of this machine; what comes in is channelized and correlated,
and visibilities are written to a file. The highest rate is searched in seconds, then held for the time asked for.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import h5py
from rich.console import Console

from ryle.bench.engine import free_run
from ryle.bench.harness import Child, say, serve
from ryle.bench.lossless import Trial, highest_lossless
from ryle.bench.receiver import Receiver
from ryle.bench.results import Row, host, save
from ryle.config import Observation, parse
from ryle.engines.fx_engine import fx_engine
from ryle.products.observed import metadata
from ryle.products.uvh5 import UVH5Writer
from ryle.receive.samples import SampleMap

PACKET = 8192  #: samples, and bytes
SOURCES = 8  #: streams to a port

_FILE = """
observation = {{name = "fed", sync_time = "2026-03-20T20:00:00Z"}}
band = {{sample_rate = "{rate} Hz", lo = "1.4 GHz"}}
digitizer = {{bits = 8, heap_samples = {packet}}}
xengine = {{integration = "{integration} s"}}
fx = {{backend = "{backend}", cores = {cores}}}
network = {{digitizers = "127.0.0.1:{port}"}}
phase_centre = {{name = "field", ra = "07h00m00s", dec = "-30d00m00s"}}
[fengine]
channels = {channels}
taps = 16
max_delay = "10 us"
backend = "{backend}"
receive = {{threads = {threads}, buffer = "{buffer} MiB"}}
[array]
name = "line"
location = {{latitude = "-30.7 deg", longitude = "21.4 deg", height = "1000 m"}}
polarizations = ["x", "y"]
antennas = [{antennas}]
"""


def antennas_on_a_line(count: int) -> str:
    """List antennas as an observation file does."""
    return ",".join(f'{{name = "A{a}", enu = ["{20 * a} m", "{a} m", "0 m"]}}' for a in range(count))


def observation(asked: dict[str, Any]) -> Observation:
    """Make the observation of antennas whose samples are `gbps` in real time."""
    names = antennas_on_a_line(asked["antennas"])
    rate = round(asked["gbps"] * 1e9 / 8 / (2 * asked["antennas"]))
    return parse(_FILE.format(**(asked | {"antennas": names, "rate": rate, "packet": PACKET})), "fed")


def main_of_child(asked: dict[str, Any]) -> None:
    """Be the engine until standard input ends; then say what the file holds."""
    o, file = observation(asked), Path(asked["file"])
    engine, write = fx_engine(o, lambda: UVH5Writer(file, metadata(o), overwrite=True))
    engine.start()

    def figures(asked: dict[str, Any]) -> dict[str, Any]:
        account = engine.entrances[0].account()
        return {"placed": account.placed, "account": account.as_dict(), "integrations": write.integrations}

    say({"ready": True})
    serve({"figures": figures})
    engine.drain()
    engine.wait(60.0)
    engine.close()


def measure(asked: dict[str, Any], seconds: float, trial: float, most: float, console: Console) -> Row:
    """Search the highest rate, and hold it."""
    ports = 2 * asked["antennas"] // SOURCES
    cores = sorted(os.sched_getaffinity(0))
    threads = asked["threads"]
    # Neighbours, senders and receivers, share caches; what is left is the engine's.
    send, receive = (cores[: 2 * threads : 2], cores[1 : 2 * threads : 2]) if 2 * threads < len(cores) else ([], [])
    asked |= {"port": free_run(asked["antennas"], 24000), "cores": [",".join(map(str, receive))] if receive else []}
    with tempfile.TemporaryDirectory(prefix="ryle-fed-") as folder:
        asked["file"] = str(Path(folder) / "fed.uvh5")
        child = Child("ryle.bench.network_engine", "child", json.dumps(asked))
        o = observation(asked)
        format = SampleMap(o, range(asked["antennas"])).plan.format
        receiver = Receiver(child, format, range(asked["port"], asked["port"] + ports), SOURCES, threads, send)
        try:

            def tell(found: Trial, verdict: str) -> None:
                lost = f"{found.lost} of {found.sent} lost"
                console.print(
                    f"{found.offered:.1f} of {found.asked:.1f} Gb/s for {found.seconds:.1f} s: {lost}, {verdict}"
                )

            receiver.trial(1.0, 2.0)
            found = highest_lossless(receiver.trial, start=20.0, most=most, seconds=trial, confirm=2 * trial, say=tell)
            held = None
            for share in (0.97, 0.9, 0.8, 0.7):
                held = receiver.trial(share * found.rate, seconds)
                tell(held, f"held at {share} of the rate found")
                if held.lost == 0:
                    break
            receiver.child.ask("figures")
            figures = receiver.child.answer()
        finally:
            receiver.close()
        with h5py.File(asked["file"]) as file:
            samples = file["Data/nsamples"][...]
    assert held is not None
    return Row(
        case="FX from the network to a file",
        value=held.offered if held.lost == 0 else 0.0,
        unit="Gb/s without loss",
        size={"inputs": 2 * asked["antennas"], "channels": asked["channels"], "bits": 8},
        target=60.0,
        more={
            "seconds": held.seconds,
            "found": found.rate,
            "lost": held.lost,
            "sent": held.sent,
            "threads": threads,
            "account": figures["account"],
            "integrations": figures["integrations"],
            "nsamples_mean": float(samples.mean()),
            "stolen": held.stolen,
        },
    )


def main() -> None:
    """Measure, as the command line asks."""
    if sys.argv[1:2] == ["child"]:
        main_of_child(json.loads(sys.argv[2]))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help="that the rate found is held for")
    parser.add_argument("--trial", type=float, default=2.0)
    parser.add_argument("--most", type=float, default=120.0, help="highest rate to try, Gb/s")
    parser.add_argument("--threads", type=int, default=6, help="that send, and as many that receive")
    parser.add_argument("--antennas", type=int, default=32)
    parser.add_argument("--channels", type=int, default=1024)
    parser.add_argument("--integration", type=float, default=0.5)
    parser.add_argument("--buffer", type=int, default=256, help="MiB of a socket's")
    parser.add_argument("--backend", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    console = Console(stderr=True, highlight=False)
    asked = {k: getattr(given, k) for k in ("threads", "antennas", "channels", "integration", "buffer", "backend")}
    row = measure(asked | {"gbps": given.most}, given.seconds, given.trial, given.most, console)
    console.print(f"{row.case}: {row.value:.1f} Gb/s for {row.more['seconds']:.0f} s; {row.more}")
    save(given.json, host(), [row], console)


if __name__ == "__main__":
    main()
