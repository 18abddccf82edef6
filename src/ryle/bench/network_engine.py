"""F and X in one process on a GPU, fed by senders on the same machine through sockets: the highest rate without loss.

    python -m ryle.bench.network_engine [--seconds 60] [--most 120] [--share 0.97] [--threads 6] [--json FILE]

Samples of 8 bits in packets of 8192 bytes go to sockets of this machine; what comes in is channelized and correlated,
and visibilities are written to a file. The highest rate is searched in seconds, then a share of it is held for the time
asked for, while delay models of inputs, and gains, are set so many times a second. Memory is to stay as it is then, on
the host and on the GPU. Latency is from when the last packet of an integration was to be sent until it is in the file.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from rich.console import Console

from ryle.array.delays import LinearDelayModel
from ryle.bench.engine import free_run
from ryle.bench.harness import Child, say, serve
from ryle.bench.held import Memory, Seconds, losses, whereabouts
from ryle.bench.lossless import Trial, highest_lossless
from ryle.bench.receiver import Receiver
from ryle.bench.results import Row, computer, save
from ryle.config import Observation, parse
from ryle.engines.fx_engine import fx_engine
from ryle.engines.steering import Steering
from ryle.products.observed import metadata
from ryle.products.uvh5 import UVH5Writer
from ryle.receive.samples import SampleMap
from ryle.stream.engine import Engine

PACKET = 8192  #: samples, and bytes
SOURCES = 8  #: streams to a port
_LONG = 120  # seconds: nobody waits for another try of these
_MESSAGE = 65507  # bytes of a UDP message over IPv4, which a train of packets shares

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
    steering = Steering(o, range(len(o.antennas)))
    engine, write = fx_engine(o, lambda: UVH5Writer(file, metadata(o), overwrite=True), steering)
    written: list[tuple[int, float]] = []  # last sample of an integration, and when it was in the file
    write.written = lambda _, one: written.append(((one.first_spectrum + one.spectra) * o.step, time.monotonic()))
    engine.start()
    stop, updates = threading.Event(), [0]
    steers = threading.Thread(target=_steer, args=(o, steering, engine, asked, stop, updates))
    steers.start()
    watched = Seconds(lambda: engine.entrances[0].account().missing or 0)

    def figures(asked: dict[str, Any]) -> dict[str, Any]:
        account = engine.entrances[0].account()
        return {
            "placed": account.placed,
            "account": account.as_dict(),
            "integrations": write.integrations,
            "updates": updates[0],
            "written": written,
            "seconds": watched.seen,
        }

    say({"ready": True})
    with watched:
        serve({"figures": figures})
    stop.set()
    steers.join()
    engine.drain()
    engine.wait(60.0)
    engine.close()


def _steer(
    o: Observation,
    steering: Steering,
    engine: Engine,
    asked: dict[str, Any],
    stop: threading.Event,
    updates: list[int],
) -> None:
    """Set delays and gains at random, ahead of where the engine is."""
    rate, random, number, began = float(o.sample_rate), np.random.default_rng(), 0, time.monotonic()
    gains = 0
    while not stop.wait(0.01) and (asked["delays"] or asked["gains"]):
        ahead = int((engine.metrics.values()["position"] + 0.2) * rate)
        while number < asked["delays"] * (time.monotonic() - began):
            delay, slope, phase = random.uniform(-1e-6, 1e-6), random.uniform(-1e-9, 1e-9), random.uniform(-3, 3)
            steering.set_delay(number % o.n_inputs, LinearDelayModel(ahead, rate, delay, slope, phase))
            number += 1
        if gains < asked["gains"] * (time.monotonic() - began):
            steering.gains.set(random.uniform(0.5, 1.5, (o.n_inputs, o.fengine.channels)), ahead // o.step)
            gains += 1
        updates[0] = number + gains


def latencies(
    written: list[tuple[int, float]], began: tuple[int, float], samples_per_second: float, seconds: float
) -> dict[str, float]:
    """Say how long after the last packet of integrations was to be sent they were in the file, s.

    Parameters
    ----------
    written : list of (int, float)
        Sample after the last of an integration, and when it was in the file.
    began : tuple of (int, float)
        First sample that was sent, and when.
    samples_per_second, seconds : float
        Of each input, and for how long.
    """
    first, at = began
    last = first + samples_per_second * seconds
    found = [then - (at + (end - first) / samples_per_second) for end, then in written if first < end < last]
    if not found:
        return {}
    return dict(zip(("median", "p99", "most"), np.quantile(found, [0.5, 0.99, 1.0]).round(4).tolist(), strict=True))


def measure(asked: dict[str, Any], seconds: float, trial: float, most: float, console: Console) -> Row:
    """Search the highest rate, and hold it."""
    inputs = 2 * asked["antennas"]
    ports = inputs // SOURCES
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
        receiver = Receiver([child], format, [range(asked["port"], asked["port"] + ports)], SOURCES, threads, send)
        try:

            def tell(found: Trial, verdict: str) -> None:
                lost = f"{found.lost} of {found.sent} lost"
                console.print(
                    f"{found.offered:.1f} of {found.asked:.1f} Gb/s for {found.seconds:.1f} s: {lost}, {verdict}"
                )

            receiver.trial(1.0, 2.0)
            found = highest_lossless(
                receiver.attempt, start=min(20.0, most / 2), most=most, seconds=trial, confirm=2 * trial, say=tell
            )
            held = None
            for share in (asked["share"], *(each for each in (0.9, 0.8, 0.7) if each < asked["share"])):
                before = receiver.figures()[0]["account"]
                with Memory(child.pid, seconds) as memory:
                    held = receiver.trial(share * found.rate, seconds)
                tell(held, f"held at {share} of the rate found")
                figures = receiver.figures()[0]
                counted = whereabouts(held.sent, before, figures["account"], _MESSAGE // PACKET)
                console.print(str(counted))
                console.print(str(losses(figures["seconds"], receiver.began[1], held.seconds)))
                if held.lost == 0 or seconds > _LONG:
                    break
        finally:
            receiver.close()
        with h5py.File(asked["file"]) as file:
            samples = file["Data/nsamples"][...]
    assert held is not None
    return Row(
        case="FX from the network to a file",
        value=held.offered if held.lost == 0 else 0.0,
        unit="Gb/s without loss",
        size={"inputs": inputs, "channels": asked["channels"], "bits": 8},
        target=60.0,
        more={
            "seconds": held.seconds,
            "found": found.rate,
            "lost": held.lost,
            "sent": held.sent,
            "threads": threads,
            "account": figures["account"],
            "counted": counted,
            "integrations": figures["integrations"],
            "nsamples_mean": float(samples.mean()),
            "stolen": held.stolen,
            "by_second": losses(figures["seconds"], receiver.began[1], held.seconds),
            "latency": latencies(
                figures["written"], receiver.began, held.sent * PACKET / inputs / held.seconds, held.seconds
            ),
            "memory_mib": memory.seen,
            "updates": figures["updates"],
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
    parser.add_argument("--share", type=float, default=0.97, help="of the rate found, to hold")
    parser.add_argument("--delays", type=float, default=0.0, help="models set a second")
    parser.add_argument("--gains", type=float, default=0.0, help="of all inputs, set a second")
    parser.add_argument("--threads", type=int, default=6, help="that send, and as many that receive")
    parser.add_argument("--antennas", type=int, default=32)
    parser.add_argument("--channels", type=int, default=1024)
    parser.add_argument("--integration", type=float, default=0.5)
    parser.add_argument("--buffer", type=int, default=256, help="MiB of a socket's")
    parser.add_argument("--backend", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    console = Console(stderr=True, highlight=False)
    keys = ("threads", "antennas", "channels", "integration", "buffer", "backend", "share", "delays", "gains")
    asked = {k: getattr(given, k) for k in keys}
    row = measure(asked | {"gbps": given.most}, given.seconds, given.trial, given.most, console)
    console.print(f"{row.case}: {row.value:.1f} Gb/s for {row.more['seconds']:.0f} s; {row.more}")
    save(given.json, computer(given.backend == "cuda"), [row], console)


if __name__ == "__main__":
    main()
