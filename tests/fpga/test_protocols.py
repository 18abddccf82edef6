"""Groups, pings and headers by `ryle fpga`, over a plain file: what is written lands where the map says."""

import json
import struct
import threading
import time

import pytest
import typer
from typer.testing import CliRunner

from ryle.cli import app
from ryle.cli.fpga import app as commands
from ryle.fpga import registers
from ryle.fpga.core import MAGIC, Core
from ryle.fpga.protocols import join, leave, membership, ping, set_header, set_vlan
from ryle.fpga.transport import FpgaError

MAP = registers.load()
CONTROL, TX_HEADER, TX_VLAN, IGMP_STATUS = 0x2C, 0x300, 0x304, 0x308
ENABLE, ACCEPT_VLAN, ANSWER_PING, IGMP, PAUSE = 1, 1 << 25, 1 << 28, 1 << 29, 1 << 30


def word(path, address):
    return struct.unpack_from("<I", path.read_bytes(), address)[0]


def poke(path, address, value):
    with path.open("r+b") as file:
        file.seek(address)
        file.write(value if isinstance(value, bytes) else struct.pack("<I", value))


def ones_sum(data):
    """Of 16-bit words, in ones' complement: 0 if their checksum is right."""
    data += bytes(len(data) % 2)
    return sum(struct.unpack(f"!{len(data) // 2}H", data)) % 65535


@pytest.fixture
def bar(tmp_path):
    """A file as large as a core's address space that says it is one, enabled."""
    (path := tmp_path / "resource0").write_bytes(bytes(0x10000))
    words = {
        "ryle_version": MAGIC << 16 | MAP.version,
        "buffer_sizes": 2048 | 8192 << 16,
        "control": ENABLE,
        "tx_header": 64,
    }
    for name, value in words.items():
        poke(path, MAP.find(name).address, value)
    return path


@pytest.fixture
def core(bar):
    with Core(f"map:{bar}") as core:
        yield core


def run(bar, *words):
    return CliRunner().invoke(app, ["fpga", *words], env={"RYLE_FPGA": f"map:{bar}", "COLUMNS": "300"})


def test_joining_sets_groups_and_waits_for_the_core(core, bar):
    with pytest.raises(FpgaError, match=r"has not joined after 0 s"):
        join(core, "239.1.2.0/24", seconds=0.01)
    poke(bar, IGMP_STATUS, 1)
    poke(bar, MAP.find("igmp_sent").address, 5)
    now = join(core, "239.1.2.0/24")
    assert (word(bar, 0x20), word(bar, 0x24)) == (0xEF010200, 0xFFFFFF00)
    assert word(bar, CONTROL) == ENABLE | IGMP
    assert (now.groups, now.igmp, now.joined, now.sent) == ("239.1.2.0/24", True, True, 5)
    with pytest.raises(FpgaError, match="has not left"):
        leave(core, seconds=0.01)
    poke(bar, IGMP_STATUS, 0)
    assert leave(core).groups == ""
    assert word(bar, 0x24) == 0
    poke(bar, 0x24, 0xFFFFFF0F)
    assert membership(core).groups == "239.1.2.0/255.255.255.15"


@pytest.mark.parametrize(
    ("groups", "says"),
    [
        ("239.0.0.0/16", "65536 groups.*1024"),
        ("10.0.0.1", "no multicast group"),
        ("239.1.2.3/24", "such as 239.1.2.3"),
        ("everyone", "'everyone' is not"),
    ],
)
def test_groups_that_cannot_be_joined(core, bar, groups, says):
    with pytest.raises(FpgaError, match=says):
        join(core, groups)
    assert word(bar, 0x20) == 0


def test_a_disabled_core_joins_when_it_is_enabled(core, bar):
    poke(bar, CONTROL, 0)
    with pytest.raises(FpgaError, match=r"disabled.*--enable"):
        join(core, "239.1.2.3")
    assert word(bar, 0x24) == 0xFFFFFFFF


def test_headers_and_tags(core, bar):
    set_header(core, dscp=46)
    set_header(core, ttl=5)
    assert word(bar, TX_HEADER) == 46 << 10 | 5
    for wrong in ({"ttl": 0}, {"ttl": 256}, {"dscp": 64}, {"dscp": -1}, {"ttl": 7, "dscp": 99}):
        with pytest.raises(FpgaError, match="cannot be"):
            set_header(core, **wrong)
    assert word(bar, TX_HEADER) == 46 << 10 | 5
    set_vlan(core, "100")
    assert word(bar, TX_VLAN) == 1 << 16 | 100
    assert word(bar, CONTROL) == ENABLE | ACCEPT_VLAN
    set_vlan(core, "4094:7")
    assert word(bar, TX_VLAN) == 1 << 16 | 7 << 13 | 4094
    for wrong in ("0", "4095", "-1", "x", "", "10:8", "10:x", "10:77", "²"):
        with pytest.raises(FpgaError, match="VLAN"):
            set_vlan(core, wrong)
    set_vlan(core, "none")
    assert word(bar, TX_VLAN) >> 16 == 0


def network(bar, change, stop):
    """Answer what is sent by the processor's buffer as a host and its network might."""
    while not stop.is_set():
        if size := word(bar, 0x28) & 0xFFFF:
            f = bar.read_bytes()[0x4000 : 0x4000 + size]
            reply = f[6:12] + f[:6] + f[12:26] + f[30:34] + f[26:30] + b"\0\0" + f[36:]
            frame = change(reply.ljust(60, b"\0"))
            poke(bar, 0x8000, frame)
            poke(bar, 0x28, len(frame) << 16)
            while word(bar, 0x28) and not stop.is_set():
                time.sleep(0.001)
        time.sleep(0.001)


def answering(bar, change=lambda frame: frame):
    stop = threading.Event()
    thread = threading.Thread(target=network, args=(bar, change, stop))
    thread.start()
    return stop, thread


GROUP = "239.9.9.9"  # whose MAC address is known without ARP


@pytest.mark.parametrize(
    ("change", "heard"),
    [
        (lambda f: f, True),
        (lambda f: f[:12] + b"\x81\0\0\x07" + f[12:], True),
        (lambda f: f[:34] + b"\x03" + f[35:], False),  # unreachable
        (lambda f: f[:40] + b"\xff\xff" + f[42:], False),  # another's
        (lambda f: f[:12] + b"\x08\x06" + f[14:], False),
        (lambda f: f[:30], False),
    ],
)
def test_pings_leave_and_answers_are_recognised(core, bar, change, heard):
    core.set_addresses(mac="02:00:00:00:00:05", ip="10.0.0.5/24")
    stop, thread = answering(bar, change)
    try:
        got = ping(core, GROUP, 3, 57, 10 if heard else 0.1)
    finally:
        stop.set()
        thread.join()
    sent = bar.read_bytes()[0x4000 : 0x4000 + 14 + 20 + 8 + 57]
    assert sent[:14] == bytes.fromhex("01005e090909 020000000005 0800")
    assert sent[14:24] == bytes([0x45, 0, 0, 85, 0, 0, 0x40, 0, 64, 1])
    assert sent[26:34] == bytes([10, 0, 0, 5, 239, 9, 9, 9])
    assert (sent[34:36], sent[40:42]) == (b"\x08\0", b"\0\3")
    assert ones_sum(sent[14:34]) == ones_sum(sent[34:]) == 0
    assert (got.milliseconds is not None) == heard


def test_pings_that_cannot_be_sent(core, bar):
    with pytest.raises(FpgaError, match="has no address"):
        ping(core, GROUP, 1)
    core.set_addresses(ip="10.0.0.5/24")
    with pytest.raises(FpgaError, match=r"3000 B.*0 to 2006"):
        ping(core, GROUP, 1, 3000)
    with pytest.raises(FpgaError, match="'nobody' is not an address"):
        ping(core, "nobody", 1)


def test_commands_print_json(bar):
    poke(bar, IGMP_STATUS, 1)
    said = json.loads(run(bar, "igmp", "join", "239.1.2.3", "--json").output)
    assert said == {"groups": "239.1.2.3/32", "igmp": True, "joined": True, "queries": 0, "sent": 0}
    assert "239.1.2.3/32 is received, and joined" in run(bar, "igmp", "show").output
    assert run(bar, "igmp", "join", "10.0.0.1").exit_code == 1
    words = "--ttl 9 --dscp 10 --vlan 5:1 --pause --no-answer-ping --no-igmp --json"
    said = json.loads(run(bar, "set", *words.split()).output)
    assert {n: said[n] for n in ("ttl", "dscp", "vlan", "pause", "answer_ping", "igmp")} == {
        "ttl": 9, "dscp": 10, "vlan": "5:1", "pause": True, "answer_ping": False, "igmp": "off",
    }  # fmt: skip
    assert word(bar, CONTROL) == ENABLE | ACCEPT_VLAN | PAUSE
    assert "TTL 9 DSCP 10 VLAN 5:1 · pause honoured" in run(bar, "status").output
    run(bar, "set", "--no-pause", "--answer-ping", "--igmp")
    assert word(bar, CONTROL) == ENABLE | ACCEPT_VLAN | ANSWER_PING | IGMP
    poke(bar, IGMP_STATUS, 0)
    assert json.loads(run(bar, "igmp", "leave", "--json").output)["groups"] == ""
    assert json.loads(run(bar, "write", "gateway", "0x0a000001", "--json").output) == {
        "name": "gateway", "written": 0x0A000001,
    }  # fmt: skip
    poke(bar, 0x14, 0x0A000005)
    got = run(bar, "ping", GROUP, "-c", "1", "-W", "0.05", "--json")
    assert got.exit_code == 1
    assert json.loads(got.output) == {
        "host": GROUP, "size": 56, "sent": 1, "answered": 0,
        "answers": [{"sequence": 1, "milliseconds": None}],
    }  # fmt: skip
    poke(bar, 0x28, 0)  # before there is somebody who would answer what was sent to nobody
    stop, thread = answering(bar)
    try:
        assert "1 of 1 answered" in run(bar, "ping", GROUP, "-c", "1", "-W", "10").output
    finally:
        stop.set()
        thread.join()


def test_every_command_of_a_core_prints_json():
    def below(command, name=""):
        for word_, its in getattr(command, "commands", {}).items():
            yield from below(its, f"{name} {word_}")
        if not getattr(command, "commands", None):
            yield name, command

    fpga = typer.main.get_command(commands)
    without = [name for name, command in below(fpga) if all("--json" not in p.opts for p in command.params)]
    assert not without


def test_control_bits_are_the_maps():
    fields = MAP.find("control")
    bits = {f.name: 1 << f.low for f in fields.fields}
    assert (bits["answer_ping"], bits["igmp"], bits["honour_pause"]) == (ANSWER_PING, IGMP, PAUSE)
