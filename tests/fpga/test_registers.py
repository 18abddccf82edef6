"""The register map: what a mistake in it says, and that what is there fits together."""

import re

import pytest

from ryle.fpga import registers
from ryle.fpga.core import MAGIC

MAP = registers.load()


def test_casper_addresses_are_where_casper_has_them():
    casper = {
        "core_type": 0x00, "buffer_sizes": 0x04, "word_lengths": 0x08, "mac_high": 0x0C, "mac_low": 0x10, "ip": 0x14,
        "gateway": 0x18, "netmask": 0x1C, "multicast_ip": 0x20, "multicast_mask": 0x24, "bytes_ready": 0x28, "control": 0x2C,
        "port": 0x30, "phy_status": 0x38, "arp_size": 0x44, "tx_packet_rate": 0x48, "tx_packets": 0x4C, "tx_bytes": 0x54,
        "rx_packets": 0x64, "rx_bytes": 0x6C, "rx_overflow": 0x70, "rx_bad": 0x74, "counter_reset": 0x78,
        "generator_ip": 0x98, "generator_length": 0xA4, "generator_enable": 0xA8, "generator_period": 0xB0,
    }  # fmt: skip
    assert {name: MAP.find(name).address for name in casper} == casper
    assert {m.name: m.address for m in MAP.memories} == {"arp": 0x1000, "cpu_tx": 0x4000, "cpu_rx": 0x8000}


def test_counters_have_their_high_word_where_the_map_says():
    counters = [r for r in MAP.registers if r.counter]
    assert len(counters) > 20
    assert all(r.high == r.address + 0x100 and r.bits == 64 for r in counters)
    assert MAP.find("checker_lost").high == MAP.find("checker_lost").address + 4


def test_registers_are_found_by_name_and_address():
    assert MAP.find("0x4c") is MAP.find("tx_packets") is MAP.find("76")
    assert MAP.find("control").field("promiscuous").mask == 0x100
    with pytest.raises(KeyError, match="did you mean tx_packets"):
        MAP.find("tx_packet")
    with pytest.raises(KeyError, match="no register is at 0x5000"):
        MAP.find("0x5000")
    with pytest.raises(KeyError, match="its fields: enable, promiscuous"):
        MAP.find("control").field("nothing")


HEAD = 'title = "t"\nversion = 1\nbytes = 0x1000\ncounter_high = 0x100\n'
ONE = '[[register]]\nname = "a"\naddress = 0x10\naccess = "r"\nmeans = "m"\n'
MEMORY = '[[memory]]\nname = "m"\naddress = 0x800\nbytes = 0x100\nmeans = "m"\n'


@pytest.mark.parametrize(
    "text, says",
    [
        (ONE + ONE.replace('"a"', '"b"') + MEMORY, "b and a are both at 0x10"),
        (ONE + "counter = true\n" + ONE.replace('"a"', '"b"').replace("0x10", "0x110") + MEMORY, "both at 0x110"),
        (ONE.replace("0x10", "0x12") + MEMORY, "not a multiple of 4"),
        (ONE + ONE.replace("0x10", "0x14") + MEMORY, "two registers have one name"),
        (ONE.replace("0x10", "0x804") + MEMORY, "memory m does not fit"),
        (ONE + MEMORY.replace("0x800", "0xf80"), "memory m does not fit"),
        (ONE + 'fields.x = [0, 8, "x"]\nfields.y = [7, 1, "y"]\n' + MEMORY, "field y of a overlaps"),
        (ONE + 'fields.x = [28, 8, "x"]\n' + MEMORY, "field x of a overlaps another, or has bits beyond 31"),
    ],
)
def test_a_mistake_in_the_map_is_named(tmp_path, text, says):
    (file := tmp_path / "map.toml").write_text(HEAD + text)
    with pytest.raises(ValueError, match=re.escape(says)):
        registers.load(file)


def test_magic_is_written_in_the_map():
    assert f"{MAGIC:#06x}" in MAP.find("ryle_version").field("magic").means
