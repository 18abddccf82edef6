"""Clocks of streams, as engines meet them: early and forged packets, jumps ahead and back, of one stream and of all."""

import re
import signal
import socket
import struct
import time

import pytest

from formats import description
from x_heaps import spead

SAMPLES = 1024  # of a digitizer's packet, at 2 MHz
FORMAT = description(
    {"count": {"byte": 0, "bytes": 7}, "fid": {"byte": 7, "bytes": 1}},
    {"time": 16, "channel": 64, "input": 1},
    {"input": {"fid": 1}},
)
HEADS = 4
FIRST = 10_000


class Digitizers:
    """Four streams of samples to an F-engine of two antennas."""

    engine, per_second, back = "f", 2_000_000 / SAMPLES, 1.0

    def __init__(self, observation, tmp_path):
        self.path, ports = observation(duration=None, speed="1.0")
        text = self.path.read_text().replace("[fengine]", "[fengine]\nantennas_per_engine = 2")
        self.path.write_text(text[: text.index("[simulate]")])
        self._first = ports["digitizers"]

    def port(self, head):
        return self._first + head // 2

    def packet(self, head, number):
        immediates = [(1, number & 0xFFFFFF), (2, SAMPLES), (3, 0), (4, SAMPLES)]
        items = [(0x1600, number * SAMPLES), (0x3101, head), (0x3102, 0)]
        return spead([*immediates, *items], [(0x3300, 0)], bytes([1 + head]) * SAMPLES)


class Spectra:
    """Four streams of others' F-engines to an X-engine."""

    engine, per_second, back = "x", 2_000_000 / (16 * 128), 2.5  # a block is 1 s long at this rate

    def __init__(self, observation, tmp_path):
        self.path, ports = observation(duration=None, speed="1.0", sub=64)
        (tmp_path / "others.toml").write_text(FORMAT)
        text = self.path.read_text().replace("[fengine]", '[fengine]\npackets = "others.toml"\noutput_bits = 4')
        self.path.write_text(text[: text.index("[simulate]")])
        self._first = ports["spectra"]

    def port(self, head):
        return self._first

    def packet(self, head, number):
        return struct.pack(">Q", number << 8 | head) + bytes([0x11]) * 1024


@pytest.fixture(params=[Digitizers, pytest.param(Spectra, marks=pytest.mark.long)], ids=["digitizers", "spectra"])
def array(request, observation, tmp_path):
    return request.param(observation, tmp_path)


@pytest.fixture
def digitizers(observation, tmp_path):
    return Digitizers(observation, tmp_path)


def steadily(array, seconds, start=FIRST):
    """Packets of all streams, in order: lists of those of one time."""
    return [
        [(head, number) for head in range(HEADS)] for number in range(start, start + int(seconds * array.per_second))
    ]


def live(ryle, array, rounds):
    """Send packets at the rate of their times to an engine; give its last account."""
    process = ryle("engine", array.engine, array.path)
    process.wait_ready()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
        begin = time.monotonic()
        for n, packets in enumerate(rounds):
            while (left := begin + n / array.per_second - time.monotonic()) > 0:
                time.sleep(left)
            for head, number in packets:
                out.sendto(array.packet(head, number), ("127.0.0.1", array.port(head)))
    time.sleep(0.5)
    process.signal(signal.SIGTERM)
    assert process.end(60) == 0, process.said
    account = process.statuses[-1]["account"]
    assert account["datagrams"] == sum(len(packets) for packets in rounds) - account.get("ring_full", 0), str(account)
    return account


def offline(ryle, array, rounds, tmp_path, step=0):
    """Correlate a capture of the same packets, at the same rate; give the account that is printed.

    In the middle the recording host's clock is set, by so many seconds.
    """
    capture = tmp_path / "packets.pcap"
    with capture.open("wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 1))
        for n, packets in enumerate(rounds):
            at = 10**18 + int(n * 1e9 / array.per_second) + (step * 10**9 if n > len(rounds) // 2 else 0)
            for head, number in packets:
                payload = array.packet(head, number)
                udp = struct.pack(">HHHH", 5000, array.port(head), 8 + len(payload), 0) + payload
                ip = struct.pack(">BBHIBBH4s4s", 0x45, 0, 20 + len(udp), 0, 64, 17, 0, b"\x7f\0\0\1", b"\x7f\0\0\1")
                frame = bytes(12) + b"\x08\0" + ip + udp
                file.write(struct.pack("<IIII", *divmod(at, 10**9), len(frame), len(frame)) + frame)
    done = ryle("correlate", array.path, "--input", capture, "--output", tmp_path / "out", "--overwrite")
    assert done.end(120) == 0, done.said
    names = "datagrams", "placed", "late", "duplicate", "malformed", "foreign", "missing"
    said = re.search(
        ", ".join(r"(\d+) \w+" for _ in names[1:-1]).join((r"(\d+) datagrams: ", r"; (\d+) of")), done.said
    )
    assert said, done.said
    return dict(zip(names, map(int, said.groups()), strict=True))


def same(one, other):
    names = "placed", "late", "duplicate", "malformed", "foreign", "missing"
    assert [one[n] for n in names] == [other[n] for n in names], (one, other)


@pytest.mark.parametrize("ahead", [pytest.param(0.6, marks=pytest.mark.long), 4.0])
def test_one_early_packet(array, ryle, steady, ahead):
    """A packet of one input comes so many seconds early: nobody loses anything, then or later."""
    rounds = steadily(array, ahead + 1)
    rounds[300].append((0, FIRST + 300 + int(ahead * array.per_second)))
    total = len(rounds) * HEADS

    def body():
        account = live(ryle, array, rounds)
        assert account["late"] == 0 and account["missing"] == 0 and account["placed"] == total, str(account)

    steady(body)


@pytest.mark.parametrize("ahead", [0.15, *(pytest.param(s, marks=pytest.mark.long) for s in (0.19, 1.5))])
def test_forged_packets_of_one_stream(array, ryle, steady, ahead):
    """A hundred forged packets of one stream: the others lose nothing."""
    rounds = steadily(array, 2.5)
    first = FIRST + 300 + int(ahead * array.per_second)
    for i in range(100):
        rounds[300 + i // 10].insert(0, (0, first + i))
    total, own = len(rounds) * HEADS, len(rounds)

    def body():
        account = live(ryle, array, rounds)
        assert account["placed"] >= total - own and account["missing"] <= own, str(account)

    steady(body)


def test_antennas_that_are_apart(digitizers, ryle, steady):
    """The second antenna's packets come 0.4 s after the first's, more than a batch of spectra lasts: the skew allows it."""
    path = digitizers.path
    path.write_text(path.read_text().replace("[network]", '[network]\nskew = "0.5 s"'))
    lag = int(0.4 * digitizers.per_second)
    rounds = steadily(digitizers, 2.0)
    total = len(rounds) * HEADS
    for number in reversed(range(len(rounds))):
        later = [(head, n) for head, n in rounds[number] if head >= 2]
        rounds[number] = [(head, n) for head, n in rounds[number] if head < 2]
        if number + lag < len(rounds):
            rounds[number + lag] += later
        else:
            total -= len(later)

    def body():
        account = live(ryle, digitizers, rounds)
        assert account["late"] == 0 and account["placed"] == total and account["missing"] <= lag * 2, str(account)

    steady(body)


def test_a_jump_is_no_loss(digitizers, ryle, steady):
    """All counters jump ahead by 2^47 samples: what is between was never sent, so it is not missing."""
    before, after = steadily(digitizers, 0.5), steadily(digitizers, 1, start=FIRST + (1 << 47) // SAMPLES)
    total = (len(before) + len(after)) * HEADS

    def body():
        account = live(ryle, digitizers, [*before, *after])
        assert account["missing"] < 1000 and account["placed"] > total - 1000, str(account)

    steady(body)


def test_a_step_back(array, ryle, steady):
    """All counters step back by a second or more, and go on: so does the engine."""
    before = steadily(array, array.back + 0.5)
    after = steadily(array, 1.5, start=FIRST + len(before) - int(array.back * array.per_second))
    total = (len(before) + len(after)) * HEADS

    def body():
        account = live(ryle, array, [*before, *after])
        assert account["placed"] > total - 0.1 * array.per_second * HEADS, str(account)
        assert account["missing"] < 0.1 * array.per_second * HEADS, str(account)

    steady(body)


@pytest.mark.parametrize("step", [pytest.param(s, marks=pytest.mark.long) for s in (3600, -3600, -3)] + [3])
def test_the_hosts_clock_is_set(array, ryle, tmp_path, step):
    """By which packets have their times of arrival: nothing is lost, nor called late."""
    rounds = steadily(array, 3)
    account = offline(ryle, array, rounds, tmp_path, step)
    assert account["placed"] == len(rounds) * HEADS and account["late"] == account["missing"] == 0, account


@pytest.mark.long
@pytest.mark.parametrize("who", ["all", "one"])
def test_a_jump_live_and_offline(array, ryle, steady, tmp_path, who):
    """Counters jump ahead by 5000 packets, of all streams or of one: offline is as live, and the gap is no loss."""
    rounds = steadily(array, 2)
    for number, packets in enumerate(rounds[len(rounds) // 2 :]):
        first = FIRST + len(rounds) // 2 + number + 5000
        packets[:] = [(head, first if who == "all" or head == 0 else n) for head, n in packets]

    def body():
        account = live(ryle, array, rounds)
        same(account, offline(ryle, array, rounds, tmp_path))
        if who == "all":  # nothing of the gap of 20 000
            assert account["missing"] < 100 and account["placed"] == len(rounds) * HEADS, str(account)
        else:
            assert account["placed"] >= len(rounds) * (HEADS - 0.5) - 100, str(account)

    steady(body)
