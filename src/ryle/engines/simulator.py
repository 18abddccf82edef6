"""The simulator as a process: a simulated array's digitizers, sending real packets."""

from __future__ import annotations

import threading
from collections import Counter
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from ..array.observed import sync_time
from ..config import ConfigError, Endpoint, Observation, Problem, changed, load
from ..config.units import parse_quantity
from ..monitor.progress import track_samples
from ..monitor.status import StatusReporter
from ..net.digitizer import DigitizerSender
from ..net.faults import Fault, FaultyLink, FaultyStream
from ..net.packet_send import PacketSender
from ..net.pcap_write import PcapWriter
from ..simulate import VoltageSimulator
from ..wire.spead import digitizer_packet
from .control import DrainControl
from .generator import PacketGenerator


def serve(observation: Observation, supervised: bool) -> None:
    """Make samples and send them as digitizer heaps, to the observation's end or until told to stop.

    Parameters
    ----------
    observation : Observation
        Must have a ``[simulate]`` table.
    supervised : bool
        Whether standard input is a supervisor's pipe.
    """
    if observation.packets is not None:
        return _serve_packets(observation, supervised)
    simulator = VoltageSimulator(observation, mount=observation.array.mount)
    assert observation.simulate is not None
    speed = observation.simulate.speed
    link, through = _faulty_link(observation) if observation.simulate.faults.any else (None, None)
    stop = threading.Event()
    position = 0

    def status() -> dict[str, Any]:
        digitizer = simulator.digitizer
        made = digitizer.samples * observation.n_inputs
        return {
            "bytes": sender.sent * observation.digitizer_heap_bytes,
            "sent": sender.sent,
            "position": position / float(observation.sample_rate),
            "saturated": float(digitizer.saturated.sum() / max(1, made)),
            "faults": {} if link is None else dict(link.counts),
        }

    with ExitStack() as stack:
        if link is not None:
            stack.enter_context(link)
        pace = 0.0 if isinstance(speed, str) else speed
        sender = stack.enter_context(DigitizerSender(observation, speed=pace, through=through))
        reporter = stack.enter_context(StatusReporter({"role": "simulate", "index": 0}, status))
        DrainControl(stop.set, supervised)
        reporter.set_state("running")
        if link is None:  # faults are dealt out packet by packet, so that a seed does the same again
            sender.describe()
        for chunk in simulator.chunks():
            if stop.is_set():
                break
            sender.send(chunk, chunk.saturated)
            position = chunk.end
        if link is not None:
            link.close()  # before the last status, which tells what it held back


def _serve_packets(observation: Observation, supervised: bool) -> None:
    """Make and send the packets of others' F-engines."""
    generator, sender = PacketGenerator(observation), PacketSender(observation)
    stop = threading.Event()
    position = 0

    def status() -> dict[str, Any]:
        f = generator.f
        return {
            "bytes": sender.sent * generator.maker.layout.payload_bytes,
            "sent": sender.sent,
            "position": position * observation.step / float(observation.sample_rate),
            "saturated": float(f.saturated.sum() / max(1, f.values.sum())),
            "faults": dict(sender.counts),
        }

    with closing(sender), StatusReporter({"role": "simulate", "index": 0}, status) as reporter:
        DrainControl(stop.set, supervised)
        reporter.set_state("running")
        for first, packets in generator:
            if stop.is_set():
                break
            sender.send(packets, first, stop.is_set)
            position = first + len(packets) * generator.maker.layout.spectra
        sender.close()


def _faulty_link(observation: Observation) -> tuple[FaultyLink, dict[Endpoint, Endpoint]]:
    """Open a relay that injects the observation's faults; give it, and where to send to instead of to each endpoint."""
    assert observation.simulate is not None
    to = observation.digitizer_endpoints(range(len(observation.antennas)))
    for first in range(47100, 65000 - len(to), len(to)):
        start = Endpoint(host="127.0.0.1", port=first)
        try:
            link = FaultyLink(
                [(start.nth(i), end) for i, end in enumerate(to)],
                observation.simulate.faults,
                interface=observation.network.interface,
            )
        except OSError:
            continue  # some port of this run is taken
        return link, {end: start.nth(i) for i, end in enumerate(to)}
    raise OSError(f"no {len(to)} free UDP ports in a row on 127.0.0.1 for the relay that injects faults")


def overridden(file: Path, speed: str, duration: str, faults: dict[str, float]) -> Observation:
    """Read an observation file that must have ``[simulate]``; what else is given replaces the file's."""
    observation = load(file)
    if observation.simulate is None:
        raise ConfigError(
            str(file), [Problem("simulate", None, "is missing: add a [simulate] table with sky and receivers")]
        )
    if speed:
        try:
            value: float | str = "max" if speed == "max" else float(speed)
        except ValueError:
            raise ConfigError("--speed", [Problem("speed", speed, 'give a fraction of real time, or "max"')]) from None
        observation = changed(observation, simulate={"speed": value})
    if faults:
        assert observation.simulate is not None
        table = observation.simulate.faults.model_copy(update=faults)
        observation = changed(observation, simulate={"faults": table})
    if duration:
        try:
            seconds = parse_quantity(duration, "time")
        except ValueError as error:
            raise ConfigError("--duration", [Problem("duration", duration, str(error))]) from None
        observation = changed(observation, observation={"duration": seconds})
    return observation


def record(observation: Observation, path: str) -> None:
    """Write the digitizer packets of a whole simulated observation to a capture file instead of sending them.

    They suffer the observation's faults on the way, each endpoint's by themselves.

    Parameters
    ----------
    observation : Observation
        Must have a ``[simulate]`` table and a duration.
    path : str
        pcap file to create.
    """
    if observation.end_sample is None:
        raise ConfigError(
            observation.source, [Problem("observation.duration", None, "is missing: a capture needs an end")]
        )
    if observation.packets is not None:
        return _record_packets(observation, path)
    simulator = VoltageSimulator(observation, mount=observation.array.mount)
    clock = sync_time(observation)
    table = observation.simulate.faults if observation.simulate is not None else None
    inputs = [observation.input_endpoints(i) for i in range(observation.n_inputs)]
    ends = observation.digitizer_endpoints(range(len(observation.antennas)))
    ways = {end: FaultyStream(table, i) for i, end in enumerate(ends)} if table is not None and table.any else {}
    faults: list[Fault] = []
    counts: Counter[str] = Counter()
    when = 0
    with Path(path).open("wb") as file, track_samples(observation.end_sample, f"writing {path}") as advance:
        capture = PcapWriter(file)
        for chunk in simulator.chunks():
            for packet in range(chunk.data.shape[1]):
                timestamp = chunk.timestamp + packet * chunk.packet_samples
                when = int(clock.unix_seconds(timestamp + chunk.packet_samples) * 10**9)
                for i, stream in enumerate(observation.streams):
                    to = inputs[i][timestamp // chunk.packet_samples % len(inputs[i])]
                    status = min(int(chunk.saturated[i, packet]), 0xFFFF) << 32
                    datagram = digitizer_packet(timestamp, stream.stream, status, chunk.data[i, packet].tobytes())
                    for arrived in ways[to].handle(datagram, faults, counts) if ways else [datagram]:
                        capture.write(when, arrived, to.host, to.port)
            advance(chunk.end)
        for to, way in ways.items():
            for arrived in way.flush():
                capture.write(when, arrived, to.host, to.port)


def _record_packets(observation: Observation, path: str) -> None:
    """Write the packets of others' F-engines to a capture file."""
    generator = PacketGenerator(observation)
    layout, substreams = generator.maker.layout, generator.maker.substreams.tolist()
    clock, step = sync_time(observation), observation.step
    to = [observation.spectra_endpoint(s) for s in substreams]
    table = observation.simulate.faults if observation.simulate is not None else None
    ways = [FaultyStream(table, i, header=False) for i in range(len(to))] if table is not None and table.any else []
    faults: list[Fault] = []
    counts: Counter[str] = Counter()
    when = 0
    assert observation.end_sample is not None
    with Path(path).open("wb") as file, track_samples(observation.end_sample, f"writing {path}") as advance:
        capture = PcapWriter(file)
        for first, packets in generator:
            for t, of_time in enumerate(packets):
                when = int(clock.unix_seconds((first + (t + 1) * layout.spectra) * step) * 10**9)
                for i, packet in enumerate(of_time):
                    datagram = packet.tobytes()
                    for arrived in ways[i].handle(datagram, faults, counts) if ways else [datagram]:
                        capture.write(when, arrived, to[i].host, to[i].port)
            advance((first + len(packets) * layout.spectra) * step)
        for i, way in enumerate(ways):
            for arrived in way.flush():
                capture.write(when, arrived, to[i].host, to[i].port)
