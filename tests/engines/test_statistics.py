"""Statistics of inputs: from F-engines in packets, through the assembler, to the file."""

import socket
import time

import h5py
import numpy as np
import pytest

from ports import free_ports
from ryle.config import Endpoint, changed
from ryle.engines.catcher import catcher_engine
from ryle.engines.f import FEngine
from ryle.engines.statistics import CollectStatistics, SendStatistics
from ryle.products.observed import input_labels, metadata
from ryle.products.uvh5 import UVH5Writer
from ryle.receive.assembly import Assembler
from ryle.receive.entrance import block_of
from ryle.receive.statistics import StatisticsMap
from ryle.send.statistics import StatisticsSender
from ryle.simulate import VoltageSimulator
from ryle.stream.block import Block
from ryle.stream.ring import Ring
from ryle.wire.packets import Parser
from ryle.wire.statistics import LEVELS, NUMBERS, parts


@pytest.fixture
def here():
    """A socket that receives statistics; give it and its endpoint."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
        s.bind(("127.0.0.1", 0))
        s.settimeout(5)
        yield s, Endpoint(host="127.0.0.1", port=s.getsockname()[1])


def random_totals(rng, observation, inputs):
    levels = len(FEngine(observation, range(1), None).adc.levels)
    return rng.integers(0, 1 << 30, (inputs, levels + len(NUMBERS)))


def sent(observation, endpoint, totals):
    """Send totals of each of some antennas' intervals; how many packets that were."""
    packets = 0
    for antennas, of_antennas in totals:
        sender = StatisticsSender(observation, antennas, endpoint)
        ring = Ring("statistics", lambda: Block(None), 9)
        step = SendStatistics(ring.reader(), sender)
        for interval, one in of_antennas:
            block = ring.room()
            block.data, block.start = one, interval
            ring.put(block)
        ring.close()
        step.run()
        step.close()
        packets += sender.sent
    return packets


def collected(observation, packets):
    """Give what a catcher makes of packets, and how many it misses."""
    map = StatisticsMap(observation)
    assembler = Assembler(map.plan)
    assembler.take(packets)
    assembler.finish()
    ring = Ring("packets", lambda: Block(None), 99)
    collect = CollectStatistics(ring.reader(), map)
    for chunk in assembler:
        block, seen = ring.room(), block_of(chunk, map.plan)
        block.data, block.planes = seen.data.copy(), {name: plane.copy() for name, plane in seen.planes.items()}
        chunk.release()
        ring.put(block)
    ring.close()
    collect.run()
    return collect, assembler.counts()


def test_totals_come_over(observe, here, rng):
    """Two F-engines, three intervals in disorder: what was counted in all, to the last one."""
    o, (s, endpoint) = observe(), here
    a, b = random_totals(rng, o, 2), random_totals(rng, o, 4)
    more = [a, a + random_totals(rng, o, 2), a + a]
    more[2] = more[1] + a
    count = sent(o, endpoint, [([0], zip([7, 8, 9], more, strict=True)), ([1, 2], [(7, b)])])
    assert count == 3 * 2 * parts(o.digitizer.bits) + 4 * parts(o.digitizer.bits)
    packets = [s.recv(9000) for _ in range(count)]
    rng.shuffle(packets)
    collect, counts = collected(o, packets)
    assert counts.placed == count and counts.foreign == counts.malformed == 0
    wanted = np.concatenate((more[2], b))
    np.testing.assert_array_equal(collect._totals[0], wanted[:, : -len(NUMBERS)])
    np.testing.assert_array_equal(collect._totals[1], wanted[:, -len(NUMBERS) :])


def test_packets_are_as_described(observe, here, rng):
    o, (s, endpoint) = observe(), here
    totals = random_totals(rng, o, 2)
    count = sent(o, endpoint, [([1], [(5, totals)])])
    format = StatisticsMap(o).plan.format
    packets = [s.recv(9000) for _ in range(count)]
    fields = Parser(format).parse(packets).header
    samples = Parser(format).decode(packets, integers=True).reshape(count, LEVELS)
    each = parts(o.digitizer.bits)
    for i, (row, values) in enumerate(zip(fields, samples, strict=True)):
        of_input, at = totals[i // each], i % each * LEVELS
        assert [row[n] for n in ("input", "level", "interval")] == [2 + i // each, at, 5]
        assert [row[name] for name in NUMBERS] == of_input[-len(NUMBERS) :].tolist()
        there = of_input[: -len(NUMBERS)][at : at + LEVELS]
        np.testing.assert_array_equal(values[: len(there)], there)
        assert not values[len(there) :].any()


def recorded(observation, path, totals):
    """Let a catcher receive totals of some antennas; give what is in its file's group /Ryle."""
    visibilities = Endpoint(host="127.0.0.1", port=free_ports(2))
    observation = changed(observation, network={"visibilities": visibilities})
    engine, write, record = catcher_engine(observation, lambda: UVH5Writer(path, metadata(observation)), None)
    with engine:
        write.open()
        engine.start()
        count, end = sent(observation, observation.statistics, totals), time.monotonic() + 60
        while engine.entrances[1].account().placed < count and time.monotonic() < end:
            time.sleep(0.02)
        engine.drain()
        engine.wait()
        record()
    with h5py.File(path) as file:
        return {name: value[()] for name, value in file["Ryle"].items()}


def test_file_has_what_the_channelizer_counts(observe, tmp_path):
    """Channelized in this process and sent: the file has the same numbers, also if a packet is missing, and says so."""
    o = observe(duration=0.2)
    f = FEngine(o, range(3), None)
    for chunk in VoltageSimulator(o).chunks():
        f.adc.add(chunk)
    f.samples += 11
    f.values += 5
    totals = f.totals()

    found = recorded(o, tmp_path / "a.uvh5", [(range(3), [(3, totals)])])
    np.testing.assert_array_equal(found["adc_histogram"], f.adc.counts)
    np.testing.assert_array_equal(found["adc_levels"], f.adc.levels)
    assert found["adc_labels"].astype(str).tolist() == input_labels(o)
    assert (found["adc_samples"] == 11).all() and (found["spectra_values"] == 5).all()
    assert "adc_missing" not in found

    found = recorded(o, tmp_path / "b.uvh5", [(range(2), [(3, totals[:4])])])
    np.testing.assert_array_equal(found["adc_histogram"][:4], f.adc.counts[:4])
    assert not found["adc_histogram"][4:].any() and found["adc_missing"].decode().startswith(
        f"{2 * parts(o.digitizer.bits)} packets"
    )

    found = recorded(o, tmp_path / "c.uvh5", [])
    assert "adc_histogram" not in found and "network.statistics" in found["adc_missing"].decode()
