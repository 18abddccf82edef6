"""Small observations on free ports, and a whole correlator in this process with real sockets between its parts."""

import gc
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from types import SimpleNamespace

import pytest

from faulty_link import FaultyLink, kernel_drops
from ports import free_ports
from ryle.array.delays import DelaySchedule, evaluate_inputs, window_centres
from ryle.array.observed import phase_centre, phase_tracker
from ryle.channelize import Heaps
from ryle.chunk import SampleChunk, joined
from ryle.config import changed, parse
from ryle.config.simulation import FaultsTable
from ryle.engines.f import FEngine
from ryle.engines.x import XEngine
from ryle.receive.entrance import MappedEntrance
from ryle.receive.heaps import HeapMap
from ryle.receive.samples import SampleMap
from ryle.receive.sums import SumMap
from ryle.send.digitizer import DigitizerSender
from ryle.send.spectra import SpectraSender
from ryle.send.visibilities import VisibilitySender

FILE = """
[observation]
name = "small"
sync_time = "2026-03-20T20:00:00Z"
{duration}
[array]
name = "SMALL"
location = {{ latitude = "-30.7215 deg", longitude = "21.4284 deg", height = "1051 m" }}
polarizations = {pols}
antennas = [
{antennas}
]
[band]
sample_rate = "{rate} Hz"
lo = "1.4 GHz"
nyquist_zone = {zone}
[digitizer]
bits = {bits}
complex = {complex}
heap_samples = {heap_samples}
[fengine]
channels = {channels}
taps = {taps}
output_bits = {output_bits}
spectra_per_heap = {spectra}
sends = "{sends}"
max_delay = "{max_delay} s"
antennas_per_engine = {per_engine}
gain = {gain}
[xengine]
integration = "{integration} s"
channels_per_substream = {sub}
[phase_centre]
name = "field"
ra = "07h00m00s"
dec = "-30d00m00s"
[network]
digitizers = "127.0.0.1:{port}"
spectra = "127.0.0.1:{port2}"
visibilities = "127.0.0.1:{port3}"
packet_size = "{packet} B"
receive_buffer = "32 MiB"
[simulate]
seed = {seed}
sefd = "400 Jy"
sources = [{{ name = "S1", ra = "07h00m00s", dec = "-30d00m00s", flux = "{flux} Jy" }}]
{simulate}
"""

#: Metres east, north, up: delays of up to some tens of samples, all different.
POSITIONS = [(0, 0, 0), (210, 40, 0.3), (-60, 330, -0.4), (-310, -95, 0.8), (95, -260, -0.2)]


def small_file(
    *,
    antennas=3,
    pols=("x", "y"),
    rate=2_000_000,
    zone=1,
    bits=8,
    complex_samples=False,
    heap_samples=1024,
    channels=64,
    taps=4,
    output_bits=8,
    spectra=64,
    max_delay=10e-6,
    per_engine=None,
    gain=1.0,
    integration_spectra=128,
    sub=None,
    packet=2048,
    sends="meerkat",
    seed=1,
    flux=800,
    duration=None,
    simulate="",
):
    """Text of a small observation file on free ports."""
    step = channels * (1 if complex_samples else 2)
    names = "\n".join(
        f'  {{ name = "A{a}", enu = ["{e} m", "{n} m", "{u} m"] }},' for a, (e, n, u) in enumerate(POSITIONS[:antennas])
    )
    return FILE.format(
        duration=f'duration = "{duration} s"' if duration else "",
        pols=list(pols),
        antennas=names,
        rate=rate,
        zone=zone,
        bits=bits,
        complex=str(complex_samples).lower(),
        heap_samples=heap_samples,
        channels=channels,
        taps=taps,
        output_bits=output_bits,
        spectra=spectra,
        max_delay=max_delay,
        per_engine=per_engine or antennas,
        gain=gain,
        integration=integration_spectra * step / rate,
        sub=sub or channels // 2,
        packet=packet,
        sends=sends,
        port=free_ports(antennas),
        port2=free_ports(8),
        port3=free_ports(3),
        seed=seed,
        flux=flux,
        simulate=simulate,
    )


@pytest.fixture
def observation_text():
    """Text of a small observation file, made from a few numbers."""
    return small_file


@pytest.fixture(scope="session")
def observe():
    """Make a small observation from a few numbers."""
    return lambda **kwargs: parse(small_file(**{"duration": 60} | kwargs), "small.toml")


class HostLossError(Exception):
    """The machine itself lost packets: a socket buffer was full because nobody ran in time to empty it."""


def _pieces(chunk, packets):
    """The same samples in chunks of at most `packets` packets."""
    for first in range(0, chunk.data.shape[1], packets):
        part = slice(first, first + packets)
        timestamp = chunk.timestamp + first * chunk.packet_samples
        yield SampleChunk(timestamp, chunk.data[:, part], chunk.present[:, part], chunk.packet_samples)


def _passed_on(link, sent):
    """Datagrams that a link passes on when it has got all that were sent; more than there are before that."""
    counts = link.counts
    return counts["passed"] - counts["lost"] + counts["duplicated"] if counts["passed"] == sent else float("inf")


def _arrived(entrances, count, dropped):
    """Stop entrances when all that was sent has come, or the machine has lost some of it."""
    end = time.monotonic() + 60
    while sum(e.account().datagrams for e in entrances) < count() and not dropped() and time.monotonic() < end:
        time.sleep(0.01)
    for e in entrances:
        e.stop()


def _chain(observation, chunk, digitizer_faults, spectra_faults, rate, chunk_packets):
    o, none = observation, FaultsTable()
    behind = changed(
        o,
        network={
            "digitizers": o.network.digitizers.model_copy(update={"port": free_ports(len(o.antennas))}),
            "spectra": o.network.spectra.model_copy(update={"port": free_ports(o.substreams)}),
        },
    )
    antennas = range(len(o.antennas))
    result = SimpleNamespace(integrations=[], senders={})
    samples = SampleMap(behind, antennas, chunk_packets * o.digitizer.heap_samples, waits=True)
    heaps = [HeapMap(behind, s, 1, waits=True) for s in range(o.substreams)]
    sums = SumMap(o, waits=True, timed=False)
    with ExitStack() as stack:
        digitizers = MappedEntrance(
            behind, "f", samples, [behind.digitizer_endpoints(a)[0] for a in antennas], name="digitizer"
        )
        spectra = [
            MappedEntrance(behind, "x", heaps[s], [behind.spectra_endpoint(s)], index=s, name="spectra")
            for s in range(o.substreams)
        ]
        visibilities = MappedEntrance(o, "catcher", sums, [o.network.visibilities], name="visibilities")
        entrances = [digitizers, *spectra, visibilities]
        readers = [e.reader() for e in entrances]
        for e in entrances:
            e.start()
            stack.callback(e.close)
        routes = [(o.digitizer_endpoints(a)[0], behind.digitizer_endpoints(a)[0]) for a in antennas]
        link_d = stack.enter_context(FaultyLink(routes, digitizer_faults or none))
        routes = [(o.spectra_endpoint(s), behind.spectra_endpoint(s)) for s in range(o.substreams)]
        link_s = stack.enter_context(FaultyLink(routes, spectra_faults or none))
        link_sockets = [r.incoming for link in (link_d, link_s) for r in link._routes]

        def dropped():
            return (kernel_drops(link_sockets) or 0) + sum(e.account().kernel_drops or 0 for e in entrances)

        def digitize():
            with DigitizerSender(o, speed=rate / (o.n_inputs * float(o.sample_rate))) as sender:
                for piece in _pieces(chunk, 32):
                    sender.send(piece)
            _arrived([digitizers], lambda: _passed_on(link_d, sender.sent), dropped)
            return sender

        def channelize():
            engine = FEngine(o, antennas, Heaps(o.fengine.spectra_per_heap, o.pols))
            bytes_a_sample = o.value_bytes * (1 if o.digitizer.complex else 0.5)
            held = deque()
            with SpectraSender(o, antennas, rate=1.5 * rate * bytes_a_sample) as sender:
                for block in readers[0]:
                    held.append(block)
                    for s in engine.push(samples.given(block)):
                        sender.send(s.data, s.valid, s.first_spectrum)
                    while held and held[0].end <= engine.needed:
                        held.popleft().release()
                for s in engine.flush():
                    sender.send(s.data, s.valid, s.first_spectrum)
            _arrived(spectra, lambda: _passed_on(link_s, sender.packets), dropped)
            return sender

        def correlate(substream):
            engine = XEngine(o, heaps[substream].first_channel, o.substream_channels, o.groups)
            with VisibilitySender(o, substream, rate=100e6) as sender:
                for block in readers[1 + substream]:
                    with block:
                        for integration in engine.push(heaps[substream].given(block)):
                            sender.send(integration)
                for integration in engine.flush():
                    sender.send(integration)
            return engine.late_blocks, sender.sent * len(sums.plan.parts)

        def catch():
            for block in readers[-1]:
                with block:
                    if block.planes["present"].any():
                        result.integrations += map(joined, sums.given(block))

        with ThreadPoolExecutor(3 + o.substreams) as pool:
            caught = pool.submit(catch)
            xs = [pool.submit(correlate, s) for s in range(o.substreams)]
            f = pool.submit(channelize)
            d = pool.submit(digitize)
            result.d_sender, result.f_sender = d.result(), f.result()
            late, sent = (sum(each) for each in zip(*(x.result() for x in xs), strict=True))
            _arrived([visibilities], lambda: sent, dropped)
            caught.result()
        assert not late
        drops = kernel_drops(link_sockets)
        result.digitizer, result.spectra = digitizers.account(), [s.account() for s in spectra]
        result.visibilities = visibilities.account()
    result.link_d, result.link_s = link_d, link_s
    accounts = [result.digitizer, *result.spectra, result.visibilities]
    drops += sum(a.kernel_drops for a in accounts)
    if drops:
        raise HostLossError(f"{drops} packets lost by the machine: {[a.as_dict() for a in accounts]}")
    assert link_d.counts["passed"] == result.d_sender.sent
    assert link_s.counts["passed"] == result.f_sender.packets
    return result


@pytest.fixture(scope="session")
def correlate_over_udp():
    """Correlate samples with every hand-over a real socket, in which a link may do harm to order.

    Runs again (at most 5 times) where the kernel says that the machine itself lost packets; nothing else is forgiven.
    """

    def run(observation, chunk, *, digitizer_faults=None, spectra_faults=None, rate=12e6, chunk_packets=64):
        for attempt in range(5):
            gc.collect()  # an entrance frees its ports with its source, which functions of an earlier chain still hold
            try:
                return _chain(observation, chunk, digitizer_faults, spectra_faults, rate, chunk_packets)
            except HostLossError:
                if attempt == 4:
                    raise
        return None

    return run


@pytest.fixture(scope="session")
def coarse_delays():
    """Whole samples by which each input is delayed at each spectrum, (input, spectrum), from geometry alone."""

    def find(observation, spectra):
        o = observation
        schedules = [DelaySchedule() for _ in range(o.n_inputs)]
        centres = window_centres(0, spectra, o.fengine.channels, o.fengine.taps, not o.digitizer.complex)
        phase_tracker(o, phase_centre(o)).load(schedules, 0, int(centres[-1]) + 1)
        return evaluate_inputs(schedules, centres).coarse

    return find
