"""Frame headers as others write them, and reading them without trusting a byte."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fresh
from dpdk_support import needs_dpdk
from ryle.receive.dpdk import HEADERS, DpdkConfig, Path
from ryle.receive.dpdk.environment import eal_arguments

DATAGRAM, FOREIGN, MALFORMED = range(3)


def ones_complement(data):
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total > 0xFFFF:
        total = total % 0x10000 + total // 0x10000
    return total


def test_headers_say_what_they_should():
    path = Path("02:aa:bb:cc:dd:01", "02:aa:bb:cc:dd:02", "192.0.2.7", "192.0.2.9", 5000, 6000)
    head = path.headers(100)
    assert len(head) == HEADERS == 42
    assert head[:14].hex() == "02aabbccdd0202aabbccdd010800"
    version, _, total, _, flags, ttl, protocol, _, source, target = struct.unpack(">BBHHHBBH4s4s", head[14:34])
    assert (version, total, flags, ttl, protocol) == (0x45, 128, 0x4000, 64, 17)
    assert source == bytes([192, 0, 2, 7]) and target == bytes([192, 0, 2, 9])
    assert ones_complement(head[14:34]) == 0xFFFF
    assert struct.unpack(">HHHH", head[34:42]) == (5000, 6000, 108, 0)
    assert Path(target="239.1.2.3").headers(1)[:6].hex() == "01005e010203"
    assert Path(target="10.0.0.1").headers(1)[:6] == b"\xff" * 6
    assert Path(vlan=7).headers(1)[12:18].hex() == "810000070800"
    with pytest.raises(ValueError, match="65507"):
        path.headers(65508)
    with pytest.raises(ValueError, match="no Ethernet address"):
        Path(target_mac="02:00").headers(1)


@needs_dpdk
class TestReading:
    @pytest.fixture(autouse=True)
    def read(self):
        from ryle.receive import _dpdk

        return _dpdk.read_headers

    def test_whole_frames(self, read):
        for vlan in (None, 0, 4095):
            for size in (0, 1, 17, 18, 1472, 9000):
                frame = Path(target_port=4242, vlan=vlan).frame(bytes(size))
                start = HEADERS + (0 if vlan is None else 4)
                assert read(frame, len(frame)) == (DATAGRAM, start, size, 4242)
                split = frame[: start + 8]
                assert read(split, max(len(frame), len(split))) == (DATAGRAM, start, size, 4242)

    def test_each_lie(self, read):
        frame = Path().frame(bytes(100))

        def with_bytes(at, new):
            return frame[:at] + bytes(new) + frame[at + len(new) :]

        cases = {
            FOREIGN: [
                with_bytes(12, [0x86, 0xDD]),  # IPv6
                with_bytes(12, [0x08, 0x06]),  # ARP
                with_bytes(23, [6]),  # TCP
                with_bytes(20, [0x20, 0]),  # first fragment
                with_bytes(20, [0, 1]),  # later fragment
                frame[:41],
            ],
            MALFORMED: [
                with_bytes(14, [0x65]),  # version 6 in an IPv4 frame
                with_bytes(14, [0x44]),  # header of 16 bytes
                with_bytes(16, [0xFF, 0xFF]),  # longer than the frame
                with_bytes(16, [0, 27]),  # no room for UDP's header
                with_bytes(38, [0, 7]),  # UDP shorter than its header
                with_bytes(38, [0, 109]),  # UDP longer than IP
                frame[:100],  # cut
            ],
        }
        for kind, lies in cases.items():
            for lie in lies:
                assert read(lie, len(lie))[0] == kind, lie[:42].hex()
        options = with_bytes(14, [0x46])  # 24 bytes of IPv4 header: UDP's begins 4 bytes later
        assert read(options, len(options))[0] in (DATAGRAM, MALFORMED)

    @given(data=st.data())
    def test_no_frame_reaches_out_of_itself(self, data):
        from ryle.receive._dpdk import read_headers

        base = bytearray(Path(vlan=data.draw(st.sampled_from([None, 1]))).frame(bytes(data.draw(st.integers(0, 64)))))
        for _ in range(data.draw(st.integers(0, 4))):
            base[data.draw(st.integers(0, len(base) - 1))] = data.draw(st.integers(0, 255))
        frame = bytes(base[: data.draw(st.integers(0, len(base)))])
        kind, start, size, _ = read_headers(frame, len(frame))
        assert kind != DATAGRAM or (HEADERS <= start and start + size <= len(frame))


def test_arguments_are_written_in_one_place(monkeypatch):
    import os

    monkeypatch.setattr("ryle.receive.dpdk.environment.free_huge_bytes", lambda: 0)
    some = int(fresh.rng().integers(64, 4096))
    a = eal_arguments(DpdkConfig(memory=some << 20, extra=["--log-level=5"]))
    assert {"--no-huge", "--no-shconf", "--no-telemetry", "--no-pci", f"--file-prefix=ryle-{os.getpid()}"} <= set(a)
    assert a[a.index("-m") + 1] == str(some) and a[-1] == "--log-level=5" and "--in-memory" not in a
    monkeypatch.setattr("ryle.receive.dpdk.environment.free_huge_bytes", lambda: 1 << 40)
    a = eal_arguments(DpdkConfig(devices=["0000:41:00.0,dv_flow_en=1"], drivers=["/opt/x.so"]))
    assert {"--in-memory", "--allow=0000:41:00.0,dv_flow_en=1", "/opt/x.so"} <= set(a)
    assert not {"--no-huge", "--no-pci"} & set(a)
    with pytest.raises(ValueError, match="lspci"):
        DpdkConfig(devices=["eth0"])
    with pytest.raises(ValueError, match="sets this itself"):
        DpdkConfig(extra=["--file-prefix=x"])
