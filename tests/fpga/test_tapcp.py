"""TAPCP: packets byte by byte as RFC 1350 and CASPER's server have them, and registers by UDP that loses and doubles.

The bytes here are written by hand from RFC 1350 (requests 1 and 2, data 3, acknowledgements 4, errors 5, all numbers
highest byte first) and from ``jasper_library/sw/jam/casper_tapcp.c`` and ``util/cit2csl.py`` of casper-astro/mlib_devel
(245f399e, 2cd0879c): names, words highest byte first, the compressed list of devices.
"""

import random
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections import Counter

import pytest
from typer.testing import CliRunner

import fresh
from ryle.cli import app
from ryle.fpga import registers
from ryle.fpga.core import MAGIC, Core
from ryle.fpga.tapcp import Device, Tapcp, device_list
from ryle.fpga.tapcp_server import TapcpServer
from ryle.fpga.transport import FpgaError
from ryle.fpga.where import opened

MAP = registers.load()


class Words:
    """Registers in a dictionary, which remember what was done; `fault` is an address that answers with an error."""

    fault = -1

    def __init__(self):
        self.words = {MAP.find("ryle_version").address: MAGIC << 16 | MAP.version}
        self.done = []

    def read(self, address):
        if address == self.fault:
            raise FpgaError(f"the core answers with an error at {address:#x}")
        self.done.append(("read", address))
        return self.words.get(address, 0)

    def write(self, address, value):
        self.done.append(("write", address, value))
        self.words[address] = value

    def close(self):
        pass


@pytest.fixture
def served():
    words = Words()
    with TapcpServer(words, port=0, seconds=60) as server:
        yield words, server


class Raw:
    """A client of bytes; it answers where the last packet came from, as RFC 1350 has it.

    It may be slow, as its machine may be: the server repeats nothing meanwhile.
    """

    def __init__(self, server):
        server.AGAIN = 60.0
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.socket.settimeout(30)
        self.server, self.peer = (server.host, server.port), None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def ask(self, packet, to=None):
        self.socket.sendto(packet, to or self.peer or self.server)
        answer, self.peer = self.socket.recvfrom(2000)
        return answer


def test_a_read_and_a_write_are_these_bytes(served):
    words, server = served
    words.words |= {0x4C: 0x01020304, 0x50: 0xA0B0C0D0}
    with Raw(server) as c:
        # casperfpga asks for 'NAME.OFFSET.WORDS', words in hexadecimal: 0x13 is 0x4c / 4.
        assert c.ask(b"\0\1ryle.13.2\0octet\0") == b"\0\3\0\1\1\2\3\4\xa0\xb0\xc0\xd0"
        assert c.peer != c.server
        c.socket.sendto(b"\0\4\0\1", c.peer)
    with Raw(server) as c:
        assert c.ask(b"\0\2/dev/ryle.5.0\0OCTET\0") == b"\0\4\0\0"
        assert c.ask(b"\0\3\0\1\x0a\0\0\5\xff\xff\xff\0") == b"\0\4\0\1"
        assert (words.words[0x14], words.words[0x18]) == (0x0A000005, 0xFFFFFF00)
        # The acknowledgement was lost: the data come again, are acknowledged and not written again.
        assert c.ask(b"\0\3\0\1\x0a\0\0\5\xff\xff\xff\0") == b"\0\4\0\1"
    assert [d for d in words.done if d[0] == "write"] == [("write", 0x14, 0x0A000005), ("write", 0x18, 0xFFFFFF00)]


def test_fpga_counts_bytes_and_rounds_to_words(served):
    words, server = served
    words.words |= {0x10: 0x11111111, 0x14: 0x22222222}
    for name, payload in ((b"/fpga.13", b"\x11" * 4), (b"/fpga.10.5", b"\x11" * 4 + b"\x22" * 4)):
        with Raw(server) as c:
            assert c.ask(b"\0\1" + name + b"\0octet\0") == b"\0\3\0\1" + payload
    with Raw(server) as c:
        c.ask(b"\0\2/fpga.20\0octet\0")
        c.ask(b"\0\3\0\1\xef\1\2\3")
    assert words.words[0x20] == 0xEF010203


def test_blocks_of_512_bytes_end_with_a_shorter_one(served):
    words, server = served
    words.words |= {0x4000 + 4 * n: n * 0x01010101 & 0xFFFFFFFF for n in range(256)}
    with Raw(server) as c:
        first = c.ask(b"\0\1ryle.1000.100\0octet\0")
        assert (len(first), first[:4], first[8:12]) == (516, b"\0\3\0\1", b"\1\1\1\1")
        second = c.ask(b"\0\4\0\1")
        assert (len(second), second[:4]) == (516, b"\0\3\0\2")
        assert c.ask(b"\0\4\0\2") == b"\0\3\0\3"
    with Raw(server) as c:
        c.ask(b"\0\2ryle.1100\0octet\0")
        assert c.ask(b"\0\3\0\1" + b"\7" * 512) == b"\0\4\0\1"
        assert c.ask(b"\0\3\0\2") == b"\0\4\0\2"
    assert [words.words[0x4400 + 4 * n] for n in range(128)] == [0x07070707] * 128
    assert 0x4600 not in words.words


def test_list_of_devices_is_compressed_as_casper_does_it(served):
    made = device_list([Device("ryle", 0, 0x10000), Device("rye", 0x20, 4, False), Device("sys", 0x100, 8)])
    assert made == (
        b"\0\x2b"  # 43 bytes follow
        b"\x09\3rye\0\0\0\x21\0\0\0\4\0"  # 9 bytes behind each name: address with 1 for read only, size, type
        b"\2\2le\0\0\0\0\0\1\0\0\0"  # 2 letters as before
        b"\0\3sys\0\0\1\0\0\0\0\x08\0"
        b"\0\0"
    )
    _, server = served
    whole = Tapcp("127.0.0.1", server.port).get("/listdev")
    assert struct.unpack(">H", whole[:2])[0] == len(whole) - 2
    names, at, last = {}, 2, b""
    while at < len(whole) - 2:
        same, more = (0 if at == 2 else whole[at]), whole[at + 1]
        last = last[:same] + whole[at + 2 : at + 2 + more]
        at += 2 + more
        names[last.decode()] = struct.unpack(">IIB", whole[at : at + 9])
        at += 9
    assert names["ryle"] == (0, 0x10000, 0)
    assert names["ryle_tx_packets"] == (0x4C | 1, 4, 0)
    assert names["ryle_tx_packets_high"] == (0x14C | 1, 4, 0)
    assert names["ryle_ip"] == (0x14, 4, 0)
    assert len(names) == 3 + sum(1 + (r.high is not None) for r in MAP.registers)


def test_text_for_people(served):
    words, server = served
    words.words |= {0x14: 0x0A0000FE, 0x24: 0xFFFF0000}
    with Raw(server) as c:
        assert c.ask(b"\0\1ryle.5.5\0netascii\0") == (
            b"\0\3\0\00100000000: 0A0000FE 00000000 00000000 00000000\n00000010: FFFF0000\n"
        )
    with Raw(server) as c:
        assert b"/listdev" in c.ask(b"\0\1/help\0netascii\0")
    with Raw(server) as c:
        lines = c.ask(b"\0\1/listdev\0netascii\0")[4:].split(b"\n")
        assert lines[0] == b"ryle\t3\t0\t10000\t0"
        assert b"ryle_arp_command\t3\t8C\t4\t0" in lines


def test_what_casperfpga_asks_every_board_for(served):
    _, server = served
    clock = Tapcp("127.0.0.1", server.port, "sys_clkcounter")
    first = clock.read(0)
    assert clock.read(0) > first
    assert 0 < Tapcp("127.0.0.1", server.port, "sys_board_id").read(0) < 1 << 24  # else words are taken as swapped


@pytest.mark.parametrize(
    "packet, code, says",
    [
        (b"\0\1nothing.0.1\0octet\0", 1, "nothing is not here"),
        (b"\0\1/temp\0octet\0", 1, "/temp is not here"),
        (b"\0\1ryle.xyz.1\0octet\0", 1, "hexadecimal"),
        (b"\0\1ryle.4000.1\0octet\0", 1, "has 0x4000 words"),
        (b"\0\1ryle.3fff.2\0octet\0", 1, "has 0x4000 words"),
        (b"\0\1ryle.-1.1\0octet\0", 1, "has 0x4000 words"),
        (b"\0\1/fpga.10000\0octet\0", 1, "has 0x4000 words"),
        (b"\0\1/fpga.\xff\0octet\0", 1, "hexadecimal"),
        (b"\0\2ryle_tx_packets\0octet\0", 2, "can only be read"),
        (b"\0\2/listdev\0octet\0", 1, "is not here"),
        (b"\0\2ryle.5\0netascii\0", 2, "octet"),
        (b"\0\1ryle\0mail\0", 4, "octet or netascii"),
        (b"\0\1ryle", 4, "octet or netascii"),
        (b"\0\1", 4, "octet or netascii"),
        (b"\0\3\0\1abcd", 4, "begins with a request"),
        (b"\0\4\0\1", 4, "begins with a request"),
        (b"\xff\xff", 4, "begins with a request"),
    ],
)
def test_bad_requests_are_refused_in_words_and_do_nothing(served, packet, code, says):
    words, server = served
    with Raw(server) as c:
        answer = c.ask(packet)
    assert answer[:4] == struct.pack(">HH", 5, code)
    assert says in answer[4:-1].decode()
    assert answer[-1] == 0
    assert not words.done


def test_data_that_do_not_fit_are_not_written(served):
    words, server = served
    for name, payload in ((b"ryle.3fff", bytes(8)), (b"ryle.5", b"abc"), (b"ryle_ip", bytes(8))):
        with Raw(server) as c:
            assert c.ask(b"\0\2" + name + b"\0octet\0") == b"\0\4\0\0"
            assert b"whole words" in c.ask(b"\0\3\0\1" + payload)
    assert not words.done


def test_random_packets_do_not_end_it(served):
    words, server = served
    rng = random.Random(fresh.seed())
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        for _ in range(300):
            packet = rng.randbytes(rng.randint(0, 40))
            if rng.random() < 0.5:
                packet = b"\0\1" + packet
            s.sendto(packet, (server.host, server.port))
    words.words[0x14] = 7
    assert Tapcp("127.0.0.1", server.port).read(0x14) == 7


def test_an_error_of_the_core_is_told_and_the_next_access_works(served):
    words, server = served
    words.fault = 0x18
    t = Tapcp("127.0.0.1", server.port)
    with pytest.raises(FpgaError, match=r"refuses /dev/ryle\.6\.1: the core answers with an error at 0x18"):
        t.read(0x18)
    t.write(0x14, 5)
    assert t.read(0x14) == 5
    with pytest.raises(FpgaError, match=r"has 0x4000 words; `/listdev` says what is there"):
        t.read(0x10000)


class Lossy:
    """A network between clients and a server: datagrams are lost and doubled.

    A host whose port nobody listens at any more says so (ICMP), as on every network; without that a transfer which
    nobody goes on with would be heard by whoever is given that port next.
    """

    def __init__(self, server, seed, loss=0.2, twice=0.2):
        self.rng, self.loss, self.twice = random.Random(seed), loss, twice
        self.front = self._socket()
        self.port = self.front.getsockname()[1]
        self.server = (server.host, server.port)
        self.counts = Counter()
        # client -> its socket on the server's side; (client, the server's port) -> the port that the client sees
        self.to_server, self.to_client = {}, {}
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    @staticmethod
    def _socket():
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        s.bind(("127.0.0.1", 0))
        return s

    def _pass(self, send):
        if self.rng.random() < self.loss:
            self.counts["lost"] += 1
            return
        for _ in range(1 + (self.rng.random() < self.twice)):
            send()
            self.counts["passed"] += 1

    def _toward(self, client, transfer):
        if (client, transfer) not in self.to_client:
            self.to_client[client, transfer] = self._socket()
            self.to_client[client, transfer].connect(client)  # hears this client alone, and when it has gone
        return self.to_client[client, transfer]

    def _gone(self, client):
        """The client's port is closed: so is its way, and what the server sends there is refused."""
        self.to_server.pop(client).close()
        for key in [k for k in self.to_client if k[0] == client]:
            self.to_client.pop(key).close()

    def _run(self):
        while not self._end.is_set():
            # Every socket that a client or a transfer has made so far; those towards clients know whom they go to.
            ways = {self.front: None}
            ways |= {s: (client, None) for client, s in self.to_server.items()}
            ways |= {s: key for key, s in self.to_client.items()}
            for s in select.select(list(ways), [], [], 0.02)[0]:
                if s.fileno() < 0:
                    continue  # its client has gone, as another socket was told
                client, transfer = ways[s] or (None, None)
                try:
                    packet, sender = s.recvfrom(2000)
                    if client is None:
                        to_server = self.to_server.get(sender) or self.to_server.setdefault(sender, self._socket())
                        self._pass(lambda: to_server.sendto(packet, self.server))  # noqa: B023
                    elif transfer is None:  # from a transfer of the server
                        self._pass(lambda: self._toward(client, sender).send(packet))  # noqa: B023
                    else:  # from a client to its transfer
                        self._pass(lambda: self.to_server[client].sendto(packet, transfer))  # noqa: B023
                except ConnectionRefusedError:
                    self._gone(client)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._end.set()
        self._thread.join()
        for s in (self.front, *self.to_server.values(), *self.to_client.values()):
            s.close()


def test_every_write_is_carried_out_once_whatever_the_network_does(served):
    words, server = served
    rng = random.Random(seed := fresh.seed())
    with Lossy(server, seed) as net:
        t = Tapcp("127.0.0.1", net.port, seconds=30)
        model, writes = {}, []
        for n in range(60):
            address = 4 * rng.randrange(0x20, 0x40)
            if n % 2:
                model[address] = rng.getrandbits(32)
                t.write(address, model[address])
                writes.append(("write", address, model[address]))
            else:
                assert t.read(address) == model.get(address, words.words.get(address, 0))
        assert net.counts["lost"] > 20
    assert [d for d in words.done if d[0] == "write"] == writes


def test_a_long_transfer_arrives_whole_through_a_bad_network(served):
    words, server = served
    rng = random.Random(seed := fresh.seed())
    words.words |= {0x4000 + 4 * n: rng.getrandbits(32) for n in range(2048)}
    with Lossy(server, seed, loss=0.1) as net:
        got = Tapcp("127.0.0.1", net.port, seconds=60).get("/dev/ryle.1000.800")
    assert got == b"".join(struct.pack(">I", words.words[0x4000 + 4 * n]) for n in range(2048))


def test_clients_at_the_same_time_do_not_disturb_each_other(served):
    words, server = served
    wrong = []

    def client(n):
        t = Tapcp("127.0.0.1", server.port, seconds=60)
        for k in range(40):
            t.write(0x4000 + 4 * n, n << 16 | k)
            if t.read(0x4000 + 4 * n) != n << 16 | k:
                wrong.append((n, k))

    threads = [threading.Thread(target=client, args=(n,)) for n in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
    assert Counter(d[1] for d in words.done if d[0] == "write") == {0x4000 + 4 * n: 40 for n in range(8)}


@pytest.fixture
def patient(monkeypatch):
    """Clients that repeat nothing, for servers that may be slow as their machine may be."""
    monkeypatch.setattr(Tapcp, "AGAIN", (60.0, 60.0))


def test_a_server_of_one_transfer_at_a_time_is_asked_again(patient):
    """CASPER's (lwIP's) answers from port 69 itself, and others meanwhile with this error."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.bind(("127.0.0.1", 0))
        s.settimeout(30)
        got = []

        def board():
            for answer in (b"\0\5\0\2Only one connection at a time is supported\0", b"\0\3\0\1\0\0\0\x07"):
                packet, sender = s.recvfrom(2000)
                got.append(packet)
                s.sendto(answer, sender)
            got.append(s.recvfrom(2000)[0])

        thread = threading.Thread(target=board)
        thread.start()
        assert Tapcp("127.0.0.1", s.getsockname()[1], "gbe0", seconds=30).read(0x4C) == 7
        thread.join()
    assert got == [b"\0\1/dev/gbe0.13.1\0octet\0"] * 2 + [b"\0\4\0\1"]


def test_what_another_transfer_sends_is_refused_and_not_taken(patient):
    """The port that answers first is the transfer's, to its end; who else sends gets error 5 (RFC 1350, section 4)."""
    sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2)]
    for s in sockets:
        s.bind(("127.0.0.1", 0))
        s.settimeout(30)
    board, stranger = sockets
    refused = []

    def serve():
        _, client = board.recvfrom(2000)
        board.sendto(b"\0\3\0\1" + bytes(512), client)
        board.recvfrom(2000)
        stranger.sendto(b"\0\3\0\2wrong", client)
        refused.append(stranger.recvfrom(2000)[0])
        board.sendto(b"\0\3\0\2good", client)

    thread = threading.Thread(target=serve)
    thread.start()
    got = Tapcp("127.0.0.1", board.getsockname()[1], seconds=30).get("/dev/ryle")
    thread.join()
    for s in sockets:
        s.close()
    assert got == bytes(512) + b"good"
    assert refused[0][:4] == b"\0\5\0\5"


def test_nobody_there_is_said_in_time():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.bind(("127.0.0.1", 0))
        with pytest.raises(FpgaError, match=r"no TAPCP server answers at 127\.0\.0\.1:"):
            Tapcp("127.0.0.1", s.getsockname()[1], seconds=0.5).read(0)
    with pytest.raises(FpgaError, match=r"there is no host no\.such\.host\.invalid"):
        Tapcp("no.such.host.invalid")


def test_a_board_that_falls_silent_is_said():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.bind(("127.0.0.1", 0))
        s.settimeout(30)

        def board():
            _, sender = s.recvfrom(2000)
            s.sendto(b"\0\4\0\0", sender)

        thread = threading.Thread(target=board)
        thread.start()
        with pytest.raises(FpgaError, match=r"in the middle of /dev/ryle\.5\.0: what was written may have been"):
            Tapcp("127.0.0.1", s.getsockname()[1], seconds=3).write(0x14, 1)
        thread.join()


def test_port_that_is_taken_and_names_of_ports(served):
    _, server = served
    with pytest.raises(
        FpgaError, match=re.escape(f"cannot be served at 127.0.0.1:{server.port} (Address already in use)")
    ):
        TapcpServer(Words(), port=server.port)
    for listen in ("127.0.0.1:x", ":69", "127.0.0.1:99999"):
        assert CliRunner().invoke(app, ["fpga", "serve", "--listen", listen]).exit_code == 2
    assert CliRunner().invoke(app, ["fpga", "serve", "--name", "a.b"]).exit_code == 2


def test_a_core_by_name_through_tapcp(served):
    words, server = served
    with Core(f"tapcp:127.0.0.1:{server.port}") as core:
        core.set_addresses(ip="10.1.2.3/20", port=7148)
        assert (words.words[0x14], words.words[0x1C], words.words[0x30]) == (0x0A010203, 0xFFFFF000, 0xFFFF1BEC)
        words.words |= {0x4C: 5, 0x14C: 1}
        assert core.read("tx_packets") == 1 << 32 | 5
    where = f"tapcp:127.0.0.1:{server.port}/ryle_ip"
    assert opened(where).read(0) == 0x0A010203
    said = CliRunner().invoke(app, ["fpga", "read", "ip", "--at", f"tapcp:127.0.0.1:{server.port}"])
    assert said.output.startswith("ip = 167838211 (0xa010203)")


def test_a_mapped_board_is_served_until_ctrl_c(tmp_path):
    memory = bytearray(MAP.bytes)
    struct.pack_into("<I", memory, MAP.find("ryle_version").address, MAGIC << 16 | MAP.version)
    (bar := tmp_path / "resource0").write_bytes(memory)
    line = ["fpga", "serve", "--at", f"map:{bar}", "--listen", "127.0.0.1:0", "--name", "gbe0"]
    with subprocess.Popen([sys.executable, "-m", "ryle", *line], stderr=subprocess.PIPE, text=True) as process:
        said = process.stderr.readline()
        port = re.search(r"gbe0 of map:.* is served at 127\.0\.0\.1:(\d+); Ctrl-C", said)[1]
        with Core(f"tapcp:127.0.0.1:{port}/gbe0") as core:
            core.write("gateway", 0x0A000001)
            assert core.read("gateway") == 0x0A000001
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    assert struct.unpack_from("<I", bar.read_bytes(), 0x18) == (0x0A000001,)
