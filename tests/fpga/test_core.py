"""A core by names, over a plain file and over a socket: what is written lands where the map says."""

import json
import random
import re
import socket
import struct
import threading
from fractions import Fraction

import pytest
from typer.testing import CliRunner

import fresh
from ryle.cli import app
from ryle.fpga import registers
from ryle.fpga.addresses import ip_number, ip_text, mac_number, mac_text
from ryle.fpga.core import MAGIC, Core
from ryle.fpga.generate import Generate, Stream, beats_in_period, streams_to
from ryle.fpga.pattern import Pattern
from ryle.fpga.simulator import Network
from ryle.fpga.transport import FpgaError, Simulated
from ryle.fpga.where import opened

MAP = registers.load()
VERSION = MAGIC << 16 | MAP.version


def word(path, address, offset=0):
    return struct.unpack_from("<I", path.read_bytes(), offset + address)[0]


def poke(path, address, *values):
    """Change bytes, or words, of a file that may be mapped."""
    with path.open("r+b") as file:
        file.seek(address)
        file.write(b"".join(v if isinstance(v, bytes) else struct.pack("<I", v) for v in values))


@pytest.fixture
def bar(tmp_path):
    """A file as large as a core's address space that says it is one."""
    memory = bytearray(0x10000)
    for name, value in {
        "ryle_version": VERSION,
        "word_lengths": 128 | 128 << 16,
        "buffer_sizes": 2048 | 2048 << 16,
        "generator_streams": 16 << 16,
        "generator_clock": 390_625_000,
    }.items():
        struct.pack_into("<I", memory, MAP.find(name).address, value)
    (path := tmp_path / "resource0").write_bytes(memory)
    return path


@pytest.fixture
def core(bar):
    with Core(f"map:{bar}") as core:
        yield core


@pytest.mark.parametrize("status", [1, 3])
def test_a_clock_that_stands_is_said(bar, status):
    poke(bar, MAP.find("ryle_version").address, 0xFFFFFFFF)  # what a PCIe bus makes of an error
    with pytest.raises(FpgaError, match="no core of this register map"):
        Core(f"map:{bar}")
    poke(bar, MAP.find("clock_status").address, 0xFFFFFFFF)
    with pytest.raises(FpgaError, match="no core of this register map"):
        Core(f"map:{bar}")
    poke(bar, MAP.find("clock_status").address, status)
    with pytest.raises(FpgaError, match="the core's clock stands"):
        Core(f"map:{bar}")


def test_addresses_land_in_their_registers(core, bar):
    core.set_addresses(
        mac="02:01:02:03:04:05", ip="10.1.2.3/20", gateway="10.1.0.1", port=7148, multicast="239.2.0.0/16"
    )
    wanted = {0x0C: 0x0201, 0x10: 0x02030405, 0x14: 0x0A010203, 0x1C: 0xFFFFF000, 0x18: 0x0A010001, 0x30: 0xFFFF1BEC}
    wanted |= {0x20: 0xEF020000, 0x24: 0xFFFF0000}
    assert {a: word(bar, a) for a in wanted} == wanted
    core.set_addresses(port=9, port_mask=0xFFF0)
    assert word(bar, 0x30) == 0xFFF00009
    core.enable(promiscuous=True)
    assert word(bar, 0x2C) == 0x04000101
    status = core.status()
    assert (status.mac, status.ip, status.netmask, status.port) == (
        "02:01:02:03:04:05",
        "10.1.2.3",
        "255.255.240.0",
        "9/0xfff0",
    )
    assert (status.multicast, status.link, status.enabled) == ("239.2.0.0/255.255.0.0", "down", True)


def test_enabling_leaves_what_is_not_given(core, bar):
    core.write("control", 1 << 27 | 1 << 24)  # cpu_ports, udp_checksum
    core.enable()
    assert word(bar, 0x2C) == 1 << 27 | 1 << 26 | 1 << 24 | 1
    core.enable(promiscuous=True, udp_checksum=False)
    assert word(bar, 0x2C) == 1 << 27 | 1 << 26 | 1 << 8 | 1


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"mac": "01:00:5e:00:00:01"}, "MAC address of a group"),
        ({"mac": "ff:ff:ff:ff:ff:ff"}, "MAC address of a group"),
        ({"mac": "00:00:00:00:00:00"}, "nobody's"),
        (
            {"ip": "10.1.16.0/20"},
            "10.1.16.0 cannot be a station's address: with netmask 255.255.240.0 it is the address of",
        ),
        ({"ip": "10.1.31.255/20"}, "it is the broadcast address"),
        ({"ip": "10.0.0.255"}, "it is the broadcast address"),  # with the netmask that is there
        ({"ip": "239.1.1.1/24"}, "it is a group"),
        ({"ip": "127.0.0.1/8"}, "of a range that no host has"),
        ({"ip": "0.1.2.3/8"}, "of a range that no host has"),
        ({"netmask": "255.0.255.0"}, "255.0.255.0 is no netmask: its ones come first"),
        ({"ip": "10.0.0.5/24", "gateway": "10.0.1.1"}, "the gateway 10.0.1.1 is not in the subnet of 10.0.0.5"),
        ({"ip": "10.0.0.5/24", "gateway": "10.0.0.5"}, "its own gateway"),
        ({"gateway": "224.0.0.1"}, "224.0.0.1 cannot be a station's gateway"),
        ({"ip": "10.0.0.5/24", "multicast": "10.0.0.1"}, "no multicast group"),
    ],
)
def test_addresses_that_no_station_has(core, bar, given, says):
    """Nothing is set then: not what is right beside it either."""
    core.write("netmask", 0xFFFFFF00)
    before = bar.read_bytes()
    with pytest.raises(FpgaError, match=re.escape(says)):
        core.set_addresses(**({"mac": "02:00:00:00:00:01"} | given))
    assert bar.read_bytes() == before


def test_links_of_two_and_single_hosts_have_no_broadcast(core):
    core.set_addresses(ip="10.0.0.4/31", gateway="10.0.0.5")
    core.set_addresses(ip="10.0.0.4/32", gateway="0.0.0.0")
    assert core.status().netmask == "255.255.255.255"


class Entries:
    """A transport of a core whose ARP table has entries, by the last byte of their addresses."""

    def __init__(self, own, entries):
        self.words = {MAP.find("ryle_version").address: VERSION, MAP.find("ip").address: ip_number(own)}
        self.entries = {ip_number(ip) & 0xFF: (ip_number(ip), mac_number(mac)) for ip, mac in entries.items()}

    def read(self, address):
        if 0 <= (at := address - MAP.memory("arp").address) < MAP.memory("arp").bytes:
            _, mac = self.entries.get(at // 8, (0, 0))
            return mac & 0xFFFFFFFF if at % 8 else mac >> 32
        return self.words.get(address, 0)

    def write(self, address, value):
        self.words[address] = value
        if address == MAP.find("arp_command").address and value == 2:
            number, mac = self.entries.get(self.words[MAP.find("arp_ip").address] & 0xFF, (0, 0))
            found = {"arp_entry_ip": number, "arp_mac_high": mac >> 32, "arp_mac_low": mac & 0xFFFFFFFF}
            self.words |= {MAP.find(name).address: word for name, word in found.items()}

    def close(self):
        pass


def test_neighbours_of_a_large_subnet_have_their_own_addresses():
    """Entries are by the last byte: of 10.1.0.0/20 any of sixteen may be in one."""
    entries = {"10.1.7.9": "02:00:00:00:07:09", "10.1.15.200": "02:00:00:00:15:c8", "10.1.2.1": "02:00:00:00:00:01"}
    with Core(Entries("10.1.2.3", entries)) as core:
        assert core.arp_table() == entries


def test_a_field_is_written_without_touching_the_others(core, bar):
    core.write("control", 0x10F)
    core.write("control.enable", 0)
    assert word(bar, 0x2C) == core.read("control") == 0x10E
    assert core.read("control.promiscuous") == 1
    core.write("generator_sequence", 0x0123456789ABCDEF)
    assert core.read("generator_sequence") == 0x0123456789ABCDEF
    assert word(bar, 0x224) == 0x01234567


@pytest.mark.parametrize(
    "do, says",
    [
        (lambda c: c.write("tx_packets", 1), "tx_packets can only be read"),
        (lambda c: c.write("control.enable", 2), "2 does not fit into control.enable, which has 1 bits"),
        (lambda c: c.write("ip", -1), "-1 does not fit"),
        (lambda c: c.read("nothing"), "`ryle fpga registers` lists them"),
        (lambda c: c.read("control.nothing"), "has no field nothing"),
        (lambda c: c.set_addresses(mac="1:2:3"), "write 02:00:00:00:00:01"),
        (lambda c: c.set_addresses(ip="10.0.0"), "'10.0.0' is not an address, such as 10.0.0.1"),
        (lambda c: c.set_addresses(ip="10.0.0.1/40"), "is not an address, such as 10.0.0.5/24"),
        (lambda c: c.set_addresses(multicast="10.0.0.1"), "10.0.0.1 is no multicast group"),
        (lambda c: c.start(Generate([])), "room for 1 to 16 streams, not 0"),
        (lambda c: c.start(Generate([Stream("10.0.0.1", 1)], length=7)), "they must have 8 to 9000 bytes"),
        (lambda c: c.start(Generate([Stream("10.0.0.1", 1)], length=72, digitizer=Pattern())), "73 to 9000"),
        (lambda c: c.start(Generate([Stream("10.0.0.1", 1)], gbps=500)), "leave with 400 Gb/s at most"),
        (lambda c: c.set_rate(-1), "a rate of -1"),
        (lambda c: c.send_frame(bytes(13)), "must have 14 to 2048"),
    ],
)
def test_errors_say_what_to_do(core, do, says):
    with pytest.raises(FpgaError, match=re.escape(says)):
        do(core)


def test_another_core_is_refused(bar):
    poke(bar, 0xFC, 0x12345678)
    with pytest.raises(FpgaError, match="no core of this register map is there: ryle_version reads 0x12345678"):
        Core(f"map:{bar}")


def test_a_core_further_in_a_file_is_found(bar, tmp_path):
    (whole := tmp_path / "whole").write_bytes(bytes(0x21000) + bar.read_bytes())
    with Core(f"map:{whole}@0x21000") as core:
        core.write("ip", 0x01020304)
    assert word(whole, 0x14, 0x21000) == 0x01020304


@pytest.mark.parametrize(
    "where, says",
    [
        ("nowhere", "Write sim:SOCKET"),
        ("tapcp::69", "write tapcp:HOST, tapcp:HOST:PORT"),
        ("tapcp:127.0.0.1:x", "PORT 1 to 65535"),
        ("map:/does/not/exist", "cannot be opened (No such file or directory)"),
        ("sim:/does/not/exist", "`ryle fpga simulate --socket /does/not/exist`"),
        ("map:FILE@here", "here is no offset"),
        ("map:FILE@0x8000", "cannot be mapped from 0x8000"),
    ],
)
def test_a_transport_that_cannot_be_opened_says_why(bar, where, says):
    with pytest.raises(FpgaError, match=re.escape(says)):
        opened(where.replace("FILE", str(bar)))


def test_words_pass_a_socket(tmp_path):
    """Against a core of words in a dict, at the other end of the socket, in pieces."""
    memory, path = {0xFC: VERSION}, tmp_path / "registers"
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(path))
    server.listen()

    def serve():
        connection, _ = server.accept()
        with connection:
            while (request := connection.recv(12, socket.MSG_WAITALL)) and len(request) == 12:
                operation, address, value = struct.unpack("<3I", request)
                if operation == Simulated.WRITE:
                    memory[address] = value
                reply = struct.pack("<2I", int(address not in memory), memory.get(address, 0))
                connection.sendall(reply[:3])
                connection.sendall(reply[3:])
                if address == 0x4000:
                    return

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with Core(f"sim:{path}") as core:
            core.write("ip", 0xCAFE0001)
            assert core.read("ip") == memory[0x14] == 0xCAFE0001
            with pytest.raises(FpgaError, match="answers with an error at 0x18"):
                core.read("gateway")
            core.transport.write(0x4000, 1)
            with pytest.raises(FpgaError, match=r"has ended|does not answer"):
                core.read("ip")
    finally:
        thread.join()
        server.close()


def test_rates_are_never_more_than_asked_for_and_hardly_less():
    rng = random.Random(fresh.seed())
    for _ in range(2000):
        length, beat = rng.randint(8, 9000), 1 << rng.randint(3, 7)
        clock = rng.choice([250_000, 390_625_000])
        most = Fraction(clock * length * 8, -(-length // beat)) / 10**9
        gbps = float(most * rng.choice([1, rng.random(), 10 ** rng.uniform(-9.6, -5)])) * 0.999999
        beats, period = beats_in_period(gbps, length, beat, clock)
        got = most * beats / period
        assert got <= gbps
        assert got >= gbps * 0.996
        assert 1 <= beats <= period < 2**32
    assert beats_in_period(0, 100, 8, 1) == (0xFFFFFFFF, 1)
    with pytest.raises(FpgaError, match=r"too little: packets of 64 B leave with 4\.65661e-08 Gb/s at least"):
        beats_in_period(4.6e-8, 64, 64, 390_625_000)
    assert beats_in_period(4.7e-8, 64, 64, 390_625_000)[0] == 1


def test_generator_is_set_up_stream_by_stream(core, bar):
    pattern = Pattern(5, 1, 2, 99)
    rate = core.start(
        Generate(streams_to([("10.0.0.1", 1), ("10.0.0.2", 2)], id=8), 4168, 100, 10, pattern, source_port=77)
    )
    assert 99.9 < rate <= 100
    names = ("generator_format", "generator_length", "generator_limit", "pattern_tone", "pattern_noise", "pattern_seed")
    assert [core.read(n) for n in names] == [1, 4168, 10, 0x105, 2, 99]
    last = [core.read(n) for n in ("generator_select", "stream_ip", "stream_port", "stream_id")]
    assert last == [1, ip_number("10.0.0.2"), 2, 9]
    assert core.read("generator_enable") == 1
    assert core.read("generator_streams.streams") == 2


def test_addresses_are_read_as_written():
    for _ in range(100):
        mac, ip = fresh.seed(48), fresh.seed()
        assert mac_number(mac_text(mac)) == mac
        assert ip_number(ip_text(ip)) == ip
    assert mac_number("02-00-00-00-00-ff") == 0x0200000000FF


def test_frames_pass_the_processors_buffers(core, bar):
    frame = fresh.rng().bytes(61)
    core.send_frame(frame)
    assert bar.read_bytes()[0x4000 : 0x4000 + 61] == frame
    assert word(bar, 0x28) == 61
    with pytest.raises(FpgaError, match="is the core enabled"):
        core.send_frame(frame, seconds=0.01)
    poke(bar, 0x8000, frame)
    poke(bar, 0x28, 61 << 16)
    assert core.receive_frame() == frame
    assert core.receive_frame() is None


def test_a_tap_and_a_socket_exclude_each_other():
    with pytest.raises(FpgaError, match="exclude each other"):
        Network(udp="127.0.0.1", tap="tap0").arguments()
    assert Network(tap="t", loopback=True).arguments() == ["--tap", "t", "--loopback"]


class TestCommands:
    def run(self, bar, *words):
        result = CliRunner().invoke(app, ["fpga", *words], env={"RYLE_FPGA": f"map:{bar}", "COLUMNS": "200"})
        return result

    def test_set_and_status(self, bar):
        result = self.run(bar, "set", "--ip", "10.0.0.5/24", "--mac", "02:00:00:00:00:07", "--enable", "--promiscuous")
        assert result.exit_code == 0, result.output
        assert "02:00:00:00:00:07 10.0.0.5 netmask 255.255.255.0" in result.output
        assert word(bar, 0x2C) == 0x04000101
        said = self.run(bar, "status").output
        assert "link down · enabled" in said
        assert "tx_packets" in said
        assert "drop_port" not in said
        assert "drop_port" in self.run(bar, "status", "--all").output
        figures = json.loads(self.run(bar, "status", "--json").output)
        assert figures["ip"] == "10.0.0.5"
        assert figures["counters"]["tx_packets"] == 0
        shown = json.loads(self.run(bar, "set", "--gateway", "10.0.0.1", "--json").output)
        assert (shown["ip"], shown["gateway"], shown["enabled"]) == ("10.0.0.5", "10.0.0.1", True)
        assert "no netmask" in str(self.run(bar, "set", "--netmask", "255.0.255.0").exception)
        assert self.run(bar, "set", "--disable").exit_code == 0
        assert word(bar, 0x2C) == 0x04000100

    def test_read_and_write(self, bar):
        assert self.run(bar, "write", "port.port", "0x1bec").exit_code == 0
        said = self.run(bar, "read", "port").output
        assert "port = 7148 (0x1bec)" in said
        assert "mask = 0" in said
        found = json.loads(self.run(bar, "read", "port", "--json").output)
        assert found == {"name": "port", "value": 7148, "fields": {"port": 7148, "mask": 0}}
        assert json.loads(self.run(bar, "read", "port.port", "--json").output)["value"] == 7148
        assert "write 17 or 0x11" in self.run(bar, "write", "port", "many").output

    def test_generator(self, bar):
        result = self.run(
            bar, "generator", "start", "--to", "10.0.0.1:7148+2", "--gbps", "40", "--delays", "1,2", "--digitizer"
        )
        assert "2 streams of 8192 B packets at 40 Gb/s" in result.output, result.output
        assert "the core is disabled" in result.output
        assert word(bar, 0xA8) == 1
        assert "as fast as it goes" in self.run(bar, "generator", "rate", "0").output
        assert json.loads(self.run(bar, "generator", "rate", "0", "--json").output) == {"gbps": None}
        made = json.loads(self.run(bar, "generator", "start", "--to", "10.0.0.1:7148+3", "--json").output)
        assert made == {"streams": 3, "length": 8192, "gbps": None, "enabled": False}
        assert json.loads(self.run(bar, "generator", "stop", "--json").output) == {"sent": 0}
        assert self.run(bar, "generator", "stop").exit_code == 0
        assert word(bar, 0xA8) == 0
        assert (
            "--delays has 1 numbers"
            in self.run(bar, "generator", "start", "--to", "10.0.0.1:1+2", "--delays", "1").output
        )

    def test_registers_and_arp(self, bar):
        said = self.run(bar, "registers").output
        assert all(r.name in said for r in MAP.registers)
        listed = json.loads(self.run(bar, "registers", "--json").output)["registers"]
        assert [r["name"] for r in listed] == [r.name for r in MAP.registers]
        poke(bar, 0x1000 + 8 * 9, 0x0200, 0x17, 0)
        poke(bar, 0x14, ip_number("10.0.0.5"))
        poke(bar, 0x94, ip_number("10.0.0.9"))
        assert json.loads(self.run(bar, "arp", "show", "--json").output) == {"10.0.0.9": "02:00:00:00:00:17"}
        assert "10.0.0.9        02:00:00:00:00:17" in self.run(bar, "arp", "show").output
        assert self.run(bar, "arp", "set", "10.0.0.8", "02:00:00:00:00:01").exit_code == 0
        assert word(bar, 0x80) == ip_number("10.0.0.8")
        assert self.run(bar, "arp", "clear").exit_code == 0
