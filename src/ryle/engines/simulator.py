"""The simulator as a process: a simulated array's digitizers, sending real packets."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ryle.array.observed import sync_time
from ryle.config import ConfigError, Endpoint, Observation, Problem, changed, load
from ryle.config.units import parse_quantity
from ryle.engines.control import Orders
from ryle.engines.generator import PacketGenerator
from ryle.engines.load import measure_load
from ryle.monitor.page_files import OBSERVATION
from ryle.monitor.progress import track_samples
from ryle.monitor.status import StatusReporter
from ryle.problems import naming
from ryle.send.datagrams import Datagrams, Injector
from ryle.send.digitizer import DigitizerSender
from ryle.send.packets import PacketSender
from ryle.send.samples import SampleMaker, SampleSender
from ryle.simulate import VoltageSimulator
from ryle.store.pcap_write import PcapWriter
from ryle.stream.metrics import Registry
from ryle.wire.description import Format

# First sample, packets of shape (time, stream, bytes), where each goes, and which are sent.
_Batch = tuple[int, NDArray[np.uint8], list[list[Endpoint]], NDArray[np.bool_]]

#: Format of MeerKAT's digitizer heaps.
MEERKAT = "meerkat_digitizer"


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
    stop = threading.Event()
    position = 0

    def saturated() -> float:
        digitizer = simulator.digitizer
        return float(digitizer.saturated.sum() / max(1, digitizer.samples * observation.n_inputs))

    with ExitStack() as stack:
        sender = _digitizer_sender(observation)
        stack.callback(sender.close)
        payload = observation.digitizer_heap_bytes
        metrics = _metrics(sender, payload, lambda: position / float(observation.sample_rate), saturated)
        reporter = StatusReporter({"role": "simulate", "index": 0}, metrics)
        reporter.keep(OBSERVATION, observation.text.encode())
        stack.enter_context(reporter)
        orders = Orders(stop.set, supervised)
        reporter.set_state("ready")
        orders.wait_go()
        reporter.set_state("running")
        for chunk in simulator.chunks():
            if stop.is_set():
                break
            if simulator.defects.jump and isinstance(sender, SampleSender):
                shifts = simulator.defects.shifts(chunk.timestamp, chunk.data.shape[1])
                sender.send(chunk, chunk.saturated, shifts=shifts)
            else:
                sender.send(chunk, chunk.saturated)
            position = chunk.end
        sender.close()  # before the last status, which tells what was held back


def _metrics(
    sender: DigitizerSender | SampleSender | PacketSender,
    payload_bytes: int,
    seconds: Callable[[], float],
    saturated: Callable[[], float],
) -> Registry:
    """Say how far a simulation is."""

    def faults() -> dict[str, int]:
        return {} if isinstance(sender, DigitizerSender) else sender.counts

    m = Registry()
    measure_load(m)
    m.counter("sent", "packets", "that were sent", lambda: sender.sent)
    m.counter("bytes", "B", "payload of these packets", lambda: sender.sent * payload_bytes)
    m.gauge("position", "s", "of the observation, that has been sent", seconds)
    m.gauge("saturated", "", "share of values that were clipped", saturated)
    m.gauge("faults", "packets", "that were injected", faults)
    return m


def _digitizer_sender(o: Observation) -> DigitizerSender | SampleSender:
    """Open spead2's sender of MeerKAT's heaps, with descriptors; other packets, and faulty ones, leave natively.

    spead2 takes about half the processor time for them: it gives the kernel many packets to one address as one.
    """
    assert o.simulate is not None
    speed = 0.0 if isinstance(o.simulate.speed, str) else o.simulate.speed
    wrong = o.simulate.faults.any or any(d.kind == "jump" for d in o.simulate.defects)
    if o.digitizer_format.name == MEERKAT and not wrong:
        sender = DigitizerSender(o, speed=speed)
        sender.describe()
        return sender
    ways = [o.input_endpoints(i) for i in range(o.n_inputs)]
    return SampleSender(o, o.digitizer_format, _heads(o), ways, speed=speed)


def _heads(o: Observation) -> list[tuple[int, ...]]:
    """Give the values of the fields that tell streams apart, of each input."""
    return [o.digitizer_head(i) for i in range(o.n_inputs)]


def _serve_packets(observation: Observation, supervised: bool) -> None:
    """Make and send the packets of others' F-engines."""
    generator, sender = PacketGenerator(observation), PacketSender(observation)
    stop = threading.Event()
    position = 0

    def seconds() -> float:
        return position * observation.step / float(observation.sample_rate)

    def saturated() -> float:
        return float(generator.f.saturated.sum() / max(1, generator.f.values.sum()))

    metrics = _metrics(sender, generator.maker.layout.payload_bytes, seconds, saturated)
    reporter = StatusReporter({"role": "simulate", "index": 0}, metrics)
    reporter.keep(OBSERVATION, observation.text.encode())
    with closing(sender), reporter:
        orders = Orders(stop.set, supervised)
        reporter.set_state("ready")
        orders.wait_go()
        reporter.set_state("running")
        for first, packets in generator:
            if stop.is_set():
                break
            sender.send(packets, first, stop.is_set)
            position = first + len(packets) * generator.maker.layout.spectra
        sender.close()


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

    They suffer the observation's faults on the way, as those that are sent do.

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
    maker = SampleMaker(observation.digitizer_format, _heads(observation))
    ways = [observation.input_endpoints(i) for i in range(observation.n_inputs)]
    each = maker.format.timestamp.step

    def batches() -> Iterator[_Batch]:
        for chunk in simulator.chunks():
            shifts = simulator.defects.shifts(chunk.timestamp, chunk.data.shape[1])
            packets = maker.packets(chunk, chunk.saturated, shifts)
            numbers = range(chunk.timestamp // each, chunk.timestamp // each + len(packets))
            to = [[way[n % len(way)] for way in ways] for n in numbers]
            yield chunk.timestamp, packets, to, chunk.present.T.astype(np.bool_)

    _write(observation, path, maker.format, each, batches())


def _record_packets(observation: Observation, path: str) -> None:
    """Write the packets of others' F-engines to a capture file."""
    generator = PacketGenerator(observation)
    layout, step = generator.maker.layout, observation.step
    to = [observation.spectra_endpoint(s) for s in generator.maker.substreams.tolist()]
    batches = (
        (first * step, packets, [to] * len(packets), np.ones(packets.shape[:2], np.bool_))
        for first, packets in generator
    )
    _write(observation, path, layout.format, layout.spectra * step, batches)


def _write(
    observation: Observation,
    path: str,
    format: Format,
    each: int,
    batches: Iterable[_Batch],
) -> None:
    """Write packets to a capture file, as they arrive.

    Parameters
    ----------
    each : int
        ADC samples from one time to the next.
    batches : iterable of (int, ndarray of uint8, list, ndarray of bool)
        First sample, packets of shape (time, stream, bytes), where each goes, and which are sent.
    """
    assert observation.simulate is not None and observation.end_sample is not None
    clock = sync_time(observation)
    injector: Injector | None = None
    when = 0
    known: dict[Endpoint, int] = {}
    ends_of: list[Endpoint] = []
    progress = track_samples(observation.end_sample, f"writing {path}")
    with naming(path), Path(path).open("wb") as file, progress as advance:
        capture = PcapWriter(file)

        def write(datagrams: Datagrams) -> None:
            packed, lengths, marks = datagrams
            ends = np.cumsum(lengths, dtype=np.int64)
            for begin, end, mark in zip((ends - lengths).tolist(), ends.tolist(), marks.tolist(), strict=True):
                to = ends_of[mark]
                capture.write(when, packed[begin:end].tobytes(), to.host, to.port)

        for first, packets, ways, there in batches:
            if injector is None:
                injector = Injector(observation.simulate.faults, format, packets.shape[1])
            streams = np.arange(packets.shape[1], dtype=np.uint32)
            for t, of_time in enumerate(packets):
                when = int(clock.unix_seconds(first + (t + 1) * each) * 10**9)
                for to in ways[t]:
                    if to not in known:
                        known[to] = len(ends_of)
                        ends_of.append(to)
                marks = np.array([known[to] for to in ways[t]], np.uint32)
                write(injector.handle(of_time[there[t]], streams[there[t]], marks[there[t]]))
            advance(first + len(packets) * each)
        if injector is not None:
            write(injector.flush())
