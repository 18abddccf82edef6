"""A correlator's packets, recorded as they arrive and correlated afterwards, give the correlator's file, bit for bit."""

import ctypes
import signal
import socket
import struct
import threading
import time

import h5py
import numpy as np
import pytest

from formats import description, word
from ryle.monitor.page import read_pages

pytestmark = pytest.mark.timeout(900)

SO_ATTACH_FILTER, SO_RCVBUFFORCE, SO_TIMESTAMPNS, SOL_PACKET, PACKET_STATISTICS = 26, 33, 35, 263, 6
FORMAT = description(word(), {"time": 16, "channel": 32, "input": 4}, {"input": {"fid": 4}, "channel": {"xid": 32}})
FAULTS = """
[simulate.faults]
loss = 0.02
duplicate = 0.02
reorder = 0.05
seed = 3
"""


def only(ports):
    """A filter of the kernel's (classic BPF) for UDP packets to a range of ports, IPv4 on Ethernet."""
    load_half, load_byte, jump_equal, jump_least, end = 0x28, 0x30, 0x15, 0x35, 0x06
    return b"".join(
        struct.pack("HBBI", *instruction)
        for instruction in (
            (load_byte, 0, 0, 23),
            (jump_equal, 0, 4, 17),
            (load_half, 0, 0, 36),
            (jump_least, 0, 2, ports.start),
            (jump_least, 1, 0, ports.stop),
            (end, 0, 0, 65535),
            (end, 0, 0, 0),
        )
    )


class Tap:
    """Record what sockets of this host get at some ports, in order of arrival and with its times: a pcap file."""

    def __init__(self, path, ports):
        self._path, self._ports = path, ports

    def __enter__(self):
        self._stop = threading.Event()
        self.packets = 0
        try:
            self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800))
        except PermissionError:
            pytest.skip("packets are recorded with AF_PACKET, which needs CAP_NET_RAW")
        self._socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 256 << 20)
        self._socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        wanted = only(self._ports)
        instructions = ctypes.create_string_buffer(wanted)
        program = struct.pack("HL", len(wanted) // 8, ctypes.addressof(instructions))
        self._socket.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, program)
        self._socket.bind(("lo", 0x0800))
        self._socket.settimeout(0.1)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        return self

    def _run(self):
        with self._path.open("wb") as file:
            file.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 1))
            while True:
                try:
                    frame, extra, _, at = self._socket.recvmsg(65536, 64)
                except TimeoutError:
                    if self._stop.is_set():
                        return
                    continue
                if at[2] == socket.PACKET_OUTGOING:  # what is sent is then received, on this interface
                    continue
                seconds, ns = struct.unpack("<qq", extra[0][2])
                file.write(struct.pack("<IIII", seconds, ns, len(frame), len(frame)) + frame)
                self.packets += 1

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()
        dropped = struct.unpack("<II", self._socket.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))[1]
        self._socket.close()
        assert not dropped and self.packets


class Case:
    """An observation, and the ports of what comes in."""

    def __init__(self, observation, ryle, tmp_path, kind):
        self._ryle, self._directory = ryle, tmp_path
        self.path, ports = observation(duration=0.4)
        text = self.path.read_text() + FAULTS
        if kind == "spectra":
            (tmp_path / "others.toml").write_text(FORMAT)
            text = text.replace("[fengine]", '[fengine]\npackets = "others.toml"\noutput_bits = 4')
        self.path.write_text(text)
        #: Ports that engines receive at.
        self.ports = {ports["visibilities"], ports["spectra"], ports["spectra"] + 1, ports[kind], ports[kind] + 1}
        self.recorded = Tap(tmp_path / "recorded.pcap", range(ports[kind], ports[kind] + 2))

    def correlated(self, *options):
        """Correlate what was recorded; give the file's contents."""
        output = self._directory / "offline"
        process = self._ryle(
            "correlate", self.path, "-i", self._directory / "recorded.pcap", "-o", output, "--overwrite", *options
        )
        assert process.end(120) == 0, process.said
        return contents(output / "small.uvh5")


def bound():
    """UDP ports that somebody receives at."""
    with open("/proc/net/udp") as table:
        return {int(line.split()[1].split(":")[1], 16) for line in list(table)[1:]}


def contents(path):
    with h5py.File(path) as file:
        names = "Header/time_array", "Data/nsamples", "Data/flags", "Data/visdata"
        return {name: file[name][()] for name in names}


def same(live, offline, integrations):
    """Compare all of them, exactly; there are at least so many."""
    for name, found in live.items():
        np.testing.assert_array_equal(offline[name], found, err_msg=name)
    assert len(np.unique(live["Header/time_array"])) >= integrations
    assert live["Data/nsamples"].any() and (live["Data/nsamples"] < 1).any()  # something came, and something was lost


def listening():
    """Whether F-engines (if any), X-engines and catcher were told to go: what came before is not theirs."""
    states = {
        p.name: p.values.get("state") for p in read_pages() if p.alive and p.values.get("role") in ("f", "x", "catcher")
    }
    return "catcher0" in states and set(states.values()) <= {"listening", "running"}


@pytest.fixture(params=["digitizers", "spectra"])
def case(request, observation, ryle, tmp_path):
    return Case(observation, ryle, tmp_path, request.param)


@pytest.mark.long
def test_at_full_speed(case, ryle, tmp_path, steady):
    """Packets lost, sent twice and out of order."""

    def body():
        with case.recorded:
            process = ryle("run", case.path, "-o", tmp_path / "live", "--overwrite")
            assert process.end(300) == 0, process.said
        same(contents(tmp_path / "live" / "small.uvh5"), case.correlated(), 47)

    steady(body)


def datagrams(path):
    """Ports and payloads of a pcap file of IPv4 packets on Ethernet."""
    data = path.read_bytes()
    at = 24
    while at < len(data):
        size = struct.unpack_from("<I", data, at + 8)[0]
        frame = data[at + 16 : at + 16 + size]
        yield struct.unpack_from(">H", frame, 36)[0], frame[42:]
        at += 16 + size


def jumped(payload, by):
    """A packet of a clock that is ahead by so many packets."""
    if payload[0] == 0x53:  # SPEAD: the timestamp is an item
        for at in range(8, 8 + 8 * struct.unpack_from(">H", payload, 6)[0], 8):
            word = struct.unpack_from(">Q", payload, at)[0]
            if word >> 48 == 0x8000 | 0x1600:
                return payload[:at] + struct.pack(">Q", word + 1024 * by) + payload[at + 8 :]
    return struct.pack(">Q", struct.unpack_from(">Q", payload)[0] + (by << 16)) + payload[8:]


@pytest.mark.long
def test_of_a_clock_that_jumps(case, ryle, tmp_path, steady):
    """In real time, from the middle of an integration on, and in the middle all counters go ahead by 5000 packets."""
    sent = tmp_path / "sent.pcap"
    made = ryle("simulate", case.path, "--pcap", sent)
    assert made.end(120) == 0, made.said
    packets = list(datagrams(sent))[150:]

    def body():
        with case.recorded, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
            process = ryle("run", case.path, "--no-simulate", "-o", tmp_path / "live", "--overwrite")
            process.wait_for(lambda _: case.ports <= bound() and listening())
            begin = time.monotonic()
            for n, (port, payload) in enumerate(packets):
                while (left := begin + 4 * n / len(packets) - time.monotonic()) > 0:
                    time.sleep(min(left, 1e-3))
                out.sendto(jumped(payload, 5000 if n > len(packets) // 2 else 0), ("127.0.0.1", port))
            time.sleep(3)
            process.signal(signal.SIGINT)
            assert process.end(120) == 0, process.said
        # 0.4 s have 48 whole integrations, of which 150 packets of spectra are 9.4
        same(contents(tmp_path / "live" / "small.uvh5"), case.correlated("--live"), 39)

    steady(body)
