"""Shows that what a simulated FPGA sends arrives: captured with zero loss, and correlated to the right visibilities.

1. Counted packets to two ports pass a UDP socket each to `ryle capture --verify`, which compares every byte.
2. Digitizer heaps of six inputs, the same noise with other delays and a tone, pass to `ryle run`: F-engines, X-engines
   and catcher as processes, as for any array. Every packet that left is compared with what `ryle.fpga.pattern` says,
   and the visibilities with those that `ryle correlate` makes of packets that Python wrote: equal to the last bit.
   Their phases show the delays, and the tone stands in its channel.
"""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from ryle.config import load
from ryle.fpga.generate import Generate, Stream
from ryle.fpga.pattern import DIGITIZER_HEADER, Pattern, digitizer_packet
from ryle.fpga.simulator import Network, SimulatedFpga, width_of
from ryle.fpga.transport import FpgaError
from ryle.monitor.page import read_pages
from ryle.monitor.page_files import OBSERVATION
from ryle.receive.pcap import PcapFile
from ryle.send.pacing import LocalQueues
from ryle.store.pcap_write import PcapWriter
from ryle.store.shared import open_shared

#: Samples by which antennas' inputs lag, x and y of each.
DELAYS = (0, 0, 3, 3, 7, 7)
PATTERN = Pattern(tone_step=37, tone_shift=3, noise_shift=2, seed=2026)
_HEAP = 4096
_HOST = "10.0.0.9"


@dataclass
class Outcome:
    """What was asked, and whether it is so."""

    what: str
    right: bool
    figures: str


def run(
    output: Path,
    width: int | None,
    console: Console,
    *,
    mac: str = "model",
    packets: int = 4000,
    integrations: int = 8,
) -> bool:
    """Show it, and say whether all is as it was sent.

    Parameters
    ----------
    output : Path
        Directory for captures and visibilities; made if it is not there.
    width : int or None
        Bits of a beat of the simulated core, or what the MAC needs.
    mac : str
        What stands between core and line: a name of `ryle.fpga.simulator.MACS`.
    packets : int
        Counted packets.
    integrations : int
        Integrations of 64 heaps to correlate.
    """
    width = width_of(mac, width)
    output.mkdir(parents=True, exist_ok=True)
    outcomes: list[Outcome] = []
    for step in (
        capture_counter(output, width, mac, packets, console),
        correlate_digitizer(output, width, mac, integrations, console),
    ):
        for outcome in step:
            outcomes.append(outcome)
            mark = "[bold green]yes[/]" if outcome.right else "[bold red]NO[/] "
            console.print(f"{mark} {outcome.what}: {outcome.figures}", highlight=False)
    return all(o.right for o in outcomes)


def _connected(fpga: SimulatedFpga) -> None:
    with fpga.core() as core:
        core.set_addresses(mac="02:00:00:00:00:05", ip="10.0.0.5/24", gateway="10.0.0.1", port=10000)
        core.enable()
        core.resolve(_HOST)
        core.reset_counters()


def capture_counter(output: Path, width: int, mac: str, packets: int, console: Console) -> Iterable[Outcome]:
    """Let `ryle capture` check counted packets of two streams, byte by byte."""
    port, figures = free_ports(2), output / "capture.jsonl"
    console.print(f"[dim]counted packets: simulated FPGA, {width} bits, MAC {mac} → UDP → ryle capture --verify[/]")
    with SimulatedFpga(Network(udp="127.0.0.1"), width=width, mac=mac, quiet=True) as fpga:
        _connected(fpga)
        command = ["capture", "counter_8192", "--at", f"127.0.0.1:{port}+2", "--verify", "--payload", "ramp"]
        command += ["--warm-up", "0", "--idle", "3", "--json", str(figures), "--name", (name := f"fpga-demo-{port}")]
        with subprocess.Popen([sys.executable, "-m", "ryle", *command], stdout=subprocess.DEVNULL) as receiver:
            _wait("ryle capture listens", lambda: _captures(name), receiver)
            with fpga.core() as core:
                streams = [Stream(_HOST, port), Stream(_HOST, port + 1)]
                core.start(Generate(streams, packets=packets // 2))
                core.wait(600)
            receiver.wait(300)
        with fpga.core() as core:  # now that nothing is on its way any more
            sent = core.read("tx_packets")
        statistics = fpga.statistics()
    last = json.loads(figures.read_text().splitlines()[-1])
    account, verified = last["account"], last["verified"]
    faults = [account[k] for k in ("missing", "late", "duplicate", "malformed", "foreign")]
    right = account["placed"] == account["expected"] == verified["packets"] == packets and not any(faults)
    yield Outcome(
        "every counted packet was captured, every byte right",
        right and verified["wrong_packets"] == 0 and sent == packets == statistics["payloads"],
        f"{sent} sent, {account['placed']} captured, {account['missing']} missing, {verified['wrong_packets']} wrong",
    )


def correlate_digitizer(output: Path, width: int, mac: str, integrations: int, console: Console) -> Iterable[Outcome]:
    """Let `ryle run` correlate digitizer packets, and compare samples and visibilities."""
    heaps = 64 * integrations
    ports = free_ports(3), free_ports(2), free_ports(1)
    text = Path(__file__).with_name("demo.toml").read_text()
    for name, port in zip(("DIGITIZERS", "SPECTRA", "VISIBILITIES"), ports, strict=True):
        text = text.replace(name, str(port))
    (file := output / "fpga.toml").write_text(text)
    observation = load(file)
    streams = [
        Stream(_HOST, observation.input_endpoints(n)[0].port, observation.streams[n].stream, delay)
        for n, delay in enumerate(DELAYS)
    ]
    length = _HEAP + DIGITIZER_HEADER
    console.print(f"[dim]digitizer packets: simulated FPGA, {width} bits, MAC {mac} → UDP → ryle run[/]")
    sent_file = output / "fpga.pcap"
    with SimulatedFpga(Network(pcap=sent_file, udp="127.0.0.1"), width=width, mac=mac, quiet=True) as fpga:
        _connected(fpga)
        command = [sys.executable, "-m", "ryle", "run", str(file), "--no-simulate", "--overwrite"]
        command += ["--output", str(output)]
        with (output / "run.log").open("w") as log, subprocess.Popen(command, stdout=log, stderr=log) as receiver:
            _wait("all engines of ryle run listen", lambda: _listening(text) == observation.f_engines, receiver)
            with fpga.core() as core:
                core.start(Generate(streams, length, packets=heaps, digitizer=PATTERN))
                core.wait(600)
            packets, queues = heaps * len(streams), LocalQueues(observation.digitizer_endpoints(range(3)))
            _wait("all packets have left", lambda: fpga.statistics()["payloads"] >= packets, receiver)
            _wait("F-engines have taken them", lambda: not queues.fill(), receiver)
            receiver.send_signal(signal.SIGINT)
            receiver.wait(300)
    live = output / "fpga.live.uvh5"
    (output / "fpga.uvh5").replace(live)

    wanted = [digitizer_packet(heap * _HEAP, s.id, length, PATTERN, s.delay) for heap in range(heaps) for s in streams]
    payloads = [bytes(d.payload) for d in PcapFile(sent_file)]
    same = sum(a == b for a, b in zip(payloads, wanted, strict=False))
    yield Outcome(
        "every packet has the samples that the pattern says",
        same == len(wanted) == len(payloads),
        f"{same} of {len(wanted)} packets, {same * _HEAP} samples",
    )

    with PcapWriter(output / "python.pcap") as writer:
        for n, packet in enumerate(wanted):
            writer.write(n * 1000, packet, _HOST, streams[n % len(streams)].port)
    command = [sys.executable, "-m", "ryle", "correlate", str(file), "--input", str(output / "python.pcap")]
    command += ["--overwrite", "--output", str(output)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    (output / "fpga.uvh5").replace(reference := output / "fpga.python.uvh5")
    (got, got_counts), (ref, ref_counts) = visibilities(live), visibilities(reference)
    equal = got.shape == ref.shape and bool(np.array_equal(got, ref)) and bool(np.array_equal(got_counts, ref_counts))
    yield Outcome(
        "visibilities of the live run equal those of packets made by Python",
        equal and got.size > 0,
        f"{got.shape[0]} rows of {got.shape[1]} channels and {got.shape[2]} products, weights too",
    )
    yield from _physics(observation.fengine.channels, got)


def _physics(channels: int, got: NDArray[np.complex64]) -> Iterable[Outcome]:
    """See the delays in the phases of the baselines, and the tone in its channel."""
    baselines = 6  # of three antennas
    full = got[: len(got) // baselines * baselines].reshape(-1, baselines, channels, got.shape[2])
    mean = full[:, :, :, 0].mean(axis=0)  # xx
    k = np.arange(channels)
    tone = PATTERN.tone_step * 2 * channels // 256
    band = (k > 8) & (k < channels - 8) & (abs(k - tone) > 4)
    found = []
    lags = np.arange(-16, 17)
    for row in mean:
        turned = np.exp(2j * np.pi * np.outer(lags, k[band]) / (2 * channels)) @ row[band]
        found.append(int(abs(lags[np.argmax(abs(turned))])))
    a = [DELAYS[0], DELAYS[2], DELAYS[4]]
    wanted = sorted(abs(a[i] - a[j]) for i in range(3) for j in range(i + 1))
    yield Outcome("the phases show the delays that were set", sorted(found) == wanted, f"{sorted(found)} samples")
    autos = abs(mean[[i for i, lag in enumerate(found) if lag == 0]]).mean(axis=0)
    yield Outcome("the tone stands in its channel", int(np.argmax(autos)) == tone, f"channel {int(np.argmax(autos))}")


def visibilities(file: Path) -> tuple[NDArray[np.complex64], NDArray[np.float32]]:
    """Read visibilities and weights, [row][channel][product]."""
    import h5py

    with h5py.File(file) as f:
        return f["Data/visdata"][...], f["Data/nsamples"][...]


def free_ports(count: int) -> int:
    """Find the first of so many neighbouring UDP ports that nobody has."""
    for base in range(20000 + time.monotonic_ns() // 1000 % 8000, 32000, count):
        try:
            for port in range(base, base + count):
                with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
                    s.bind(("127.0.0.1", port))
        except OSError:
            continue
        return base
    raise FpgaError("there are no free UDP ports between 20000 and 32000: end what uses them")


def _captures(name: str) -> bool:
    return any(page.alive and page.values.get("state") in ("waiting", "running") for page in read_pages(name))


def _listening(text: str) -> int:
    """Count the F-engines that take packets: they are told to go last, and what came before is not theirs."""
    return sum(
        page.alive
        and page.values.get("role") == "f"
        and page.values.get("state") in ("listening", "running")
        and _observation(page.path) == text
        for page in read_pages()
    )


def _observation(page: Path) -> str:
    try:
        with open_shared(page / OBSERVATION, 1 << 20) as file:
            return file.read().decode()
    except (OSError, ValueError):
        return ""  # another run's, which is just taken away


def _wait(what: str, so: Callable[[], bool], receiver: subprocess.Popen[bytes], seconds: float = 300.0) -> None:
    """Wait until something is so, as long as the receiver runs."""
    end = time.monotonic() + seconds
    while not so():
        if (status := receiver.poll()) is not None:
            raise FpgaError(f"waited until {what}, and the receiver ended with exit status {status}; its log says why")
        if time.monotonic() > end:
            raise FpgaError(f"waited {seconds:g} s until {what}, in vain; the receiver's log may say why")
        time.sleep(0.05)
