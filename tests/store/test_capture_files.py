"""Recordings: what was captured and nothing else, in rings of files that open however the writer ends."""

import ipaddress
import json
import os
import resource
import struct
import time

import numpy as np
import pytest

from paper import feed, packet, plan
from ryle.config.endpoints import Endpoint
from ryle.receive import _native
from ryle.receive.assembly import Assembler
from ryle.receive.pcap import PcapFile
from ryle.receive.sources import Discard
from ryle.store.chunk_file import ChunkFile, Layout
from ryle.store.recording import ChunkRecorder, Files, PacketRecorder
from ryle.store.shared import open_shared


def record(tmp_path, chunks, rng, **limits):
    """Record chunks with random losses; give the recorder and what was in them."""
    p = plan(chunks=6)
    assembler = Assembler(p)
    recorder = ChunkRecorder(Files(str(tmp_path / "run"), **limits), Layout.of(p), assembler)
    seen = []
    for n in range(chunks):
        skip = {(int(h), int(k)) for h, k in zip(rng.integers(0, 2, 3), rng.integers(4 * n, 4 * n + 4, 3), strict=True)}
        feed(assembler, 4 * n, 4 * n + 4, skip)
        assembler.flush()
        chunk = assembler.next(1.0)
        seen.append((chunk.number, chunk.timestamp, chunk.placed, chunk.data.copy(), chunk.present.copy()))
        recorder.put(chunk, lambda c: c.release())
    return recorder, assembler, seen


def read(paths):
    return [c for path in paths for c in ChunkFile(path)]


def assert_same(chunks, seen):
    assert len(chunks) == len(seen)
    for c, (number, timestamp, placed, data, present) in zip(chunks, seen, strict=True):
        assert (c.number, c.timestamp, c.placed) == (number, timestamp, placed)
        assert (c.data == data).all() and (c.present == present).all()


@pytest.mark.parametrize("direct", [True, False])
def test_chunks_come_back(tmp_path, rng, direct):
    recorder, assembler, seen = record(tmp_path, 9, rng, direct=direct)
    recorder.close()
    assert assembler.counts().free == 6
    (path,) = tmp_path.iterdir()
    assert path.name == "run-000000.chunks"
    assert_same(read([path]), seen)
    figures = recorder.figures()
    assert figures["chunks"] == 9 and figures["written"] == 9 * recorder._layout.record_bytes
    assert ChunkFile(path).damaged == 0 and ChunkFile(path).layout == Layout.of(assembler.plan)


def test_a_ring_of_files_by_size(tmp_path, rng):
    limit = 3 * Layout.of(plan()).record_bytes + 4096
    recorder, _, seen = record(tmp_path, 14, rng, bytes=limit, keep=2)
    recorder.close()
    names = sorted(p.name for p in tmp_path.iterdir())
    assert names == ["run-000003.chunks", "run-000004.chunks"]
    assert all(p.stat().st_size <= limit for p in tmp_path.iterdir())
    assert_same(read(sorted(tmp_path.iterdir())), seen[9:])


def test_a_ring_of_files_by_time(tmp_path, rng):
    recorder, _, seen = record(tmp_path, 6, rng, seconds=1e-6)
    recorder.close()
    assert len(list(tmp_path.iterdir())) == 6
    assert_same(read(sorted(tmp_path.iterdir())), seen)


def test_a_file_that_was_cut_anywhere(tmp_path, rng):
    """Whole chunks are read, whatever a kill left behind them."""
    recorder, _, seen = record(tmp_path, 4, rng)
    recorder.close()
    (path,) = tmp_path.iterdir()
    whole, size = path.read_bytes(), recorder._layout.record_bytes
    start = len(whole) - 4 * size
    for cut in [*rng.integers(start, len(whole), 20).tolist(), start, start + size, len(whole) - 1]:
        path.write_bytes(whole[:cut])
        assert_same(read([path]), seen[: (cut - start) // size])
    path.write_bytes(whole[: start + size] + bytes(4096) + whole[start + size + 4096 :])  # the second was being written
    assert_same(read([path]), [seen[0], *seen[2:]])
    assert ChunkFile(path).damaged == 1
    path.write_bytes(b"x" * 10000)
    with pytest.raises(ValueError, match="no file of chunks"):
        ChunkFile(path)


@pytest.mark.parametrize(
    "changes",
    [{"packets": 1 << 50}, {"shape": [1 << 30] * 3}, {"shape": [-1, 8]}, {"parts": 0}, {"heads": []}, {"shape": ["x"]}],
    ids=str,
)
def test_headers_are_judged_before_anything_of_their_size_is_made(tmp_path, changes):
    text = json.dumps(json.loads(Layout.of(plan()).to_json()) | changes).encode()
    (tmp_path / "a").write_bytes((b"RYLECHNK" + struct.pack("<II", 4096, len(text)) + text).ljust(8192, b"\0"))
    with pytest.raises(ValueError, match="makes no sense"):
        ChunkFile(tmp_path / "a")


@pytest.mark.parametrize(("start", "length"), [(4096, 1 << 31), (1 << 31, 10), (0, 10), (4097, 10)])
def test_headers_beyond_the_end_of_a_file(tmp_path, start, length):
    (tmp_path / "a").write_bytes((b"RYLECHNK" + struct.pack("<II", start, length)).ljust(8192, b"\0"))
    with pytest.raises(ValueError, match="no file of chunks"):
        ChunkFile(tmp_path / "a")


def test_shared_files_of_others_are_not_read(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"0123456789")
    with open_shared(path, 10) as file:
        assert file.read() == b"0123456789"
    with pytest.raises(OSError, match="more than the 9"):
        open_shared(path, 9)
    (tmp_path / "link").symlink_to(path)
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe"):
        with pytest.raises(OSError):
            open_shared(tmp_path / name)
    if os.geteuid() == 0:  # others cannot give files away
        os.chown(path, 12345, 12345)
        with pytest.raises(OSError, match="belongs to user 12345"):
            open_shared(path)


@pytest.fixture
def small_disk():
    """Files that cannot grow beyond some size; what a full disk does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def limit(size):
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))

    yield limit
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk(tmp_path, rng, small_disk):
    record_bytes = Layout.of(plan()).record_bytes
    small_disk(4096 + 5 * record_bytes // 2)
    with pytest.raises(OSError, match=r"run-000000\.chunks takes no more: File too large; what it holds is whole"):
        record(tmp_path, 9, rng)[0].close()
    small_disk(resource.RLIM_INFINITY)
    file = ChunkFile(tmp_path / "run-000000.chunks")
    assert [c.number for c in file] == [0, 1] and file.damaged == 0


# -- packets ------------------------------------------------------------------------------------------------------------


V4 = [Endpoint(host="127.0.0.1", port=8511), Endpoint(host="239.1.2.3", port=8512)]
V6 = [Endpoint(host="fd00::1", port=8511), Endpoint(host="ff15::7", port=8512)]


def packets_of(rng, count, largest=9000):
    sizes = rng.integers(0, largest, count)
    return [(rng.bytes(int(n)), int(rng.integers(0, 2))) for n in sizes]


def take(recorder, packets):
    """Give packets as they come, but wait for the disk, so that nothing is left out."""
    for data, port in packets:
        recorder.native.take_bytes([data], port)
        while recorder.figures()["fill"] > 0.6:
            time.sleep(0.001)


def datagrams(paths):
    return [(str(d.address), d.port, bytes(d.payload)) for path in paths for d in PcapFile(path)]


@pytest.mark.parametrize("endpoints", [V4, V6])
@pytest.mark.parametrize("direct", [True, False])
def test_packets_come_back(tmp_path, rng, endpoints, direct):
    """All of them, to their addresses, malformed or not; and the next sink gets them too."""
    sink = Discard()
    before = time.time_ns()
    recorder = PacketRecorder(Files(str(tmp_path / "p"), direct=direct), endpoints, sink, 1 << 18, 3)
    packets = packets_of(rng, 200)
    take(recorder, packets)
    recorder.close()
    (path,) = tmp_path.iterdir()
    expected = [(endpoints[port].host, endpoints[port].port, data) for data, port in packets]
    assert [(str(ipaddress.ip_address(a)), p, d) for a, p, d in datagrams([path])] == expected
    assert all(before <= d.time <= time.time_ns() for d in PcapFile(path))
    assert sink.packets == 200 and sink.bytes == sum(len(d) for d, _ in packets)
    figures = recorder.figures()
    assert figures["packets"] == 200 and figures["unrecorded"] == 0
    assert figures["written"] == path.stat().st_size


def checksum_ok(data):
    if len(data) % 2:
        data += b"\0"
    total = int(np.frombuffer(data, ">u2").sum(dtype=np.int64))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total == 0xFFFF


def test_checksums(tmp_path, rng):
    """Of IPv4's header; of IPv6's datagram with its pseudo-header."""
    for endpoints, name in ((V4, "four"), (V6, "six")):
        recorder = PacketRecorder(Files(str(tmp_path / name)), endpoints, Discard())
        take(recorder, packets_of(rng, 20))
        recorder.close()
        raw = (tmp_path / f"{name}-000000.pcap").read_bytes()
        at, seen = 24, 0
        while at < len(raw):
            size = int.from_bytes(raw[at + 8 : at + 12], "little")
            frame = raw[at + 16 : at + 16 + size]
            at, seen = at + 16 + size, seen + 1
            if name == "four":
                assert checksum_ok(frame[14:34]) and int.from_bytes(frame[16:18], "big") == size - 14
            else:
                udp = frame[54:]
                assert checksum_ok(frame[22:54] + len(udp).to_bytes(4, "big") + b"\0\0\0\x11" + udp)
        assert seen == 20


def test_rings_of_packet_files(tmp_path, rng):
    """By size, to the byte; the newest are kept; each file opens by itself."""
    recorder = PacketRecorder(Files(str(tmp_path / "p"), bytes=50_000, keep=3), V4, Discard())
    packets = packets_of(rng, 100)
    take(recorder, packets)
    recorder.close()
    paths = sorted(tmp_path.iterdir())
    assert len(paths) == 3 and all(p.stat().st_size <= 50_000 for p in paths)
    kept = datagrams(paths)
    assert kept == [(V4[port].host, V4[port].port, data) for data, port in packets][-len(kept) :]
    assert all(not PcapFile(p).account.cut for p in paths)


def test_what_lies_goes_to_the_disk(tmp_path, rng):
    """After a second or so, in whole packets; and more behind it later."""
    recorder = PacketRecorder(Files(str(tmp_path / "p")), V4, Discard())
    path, packets = tmp_path / "p-000000.pcap", packets_of(rng, 9)
    for n in (3, 6, 9):
        take(recorder, packets[n - 3 : n])
        deadline = time.monotonic() + 60
        while not path.stat().st_size or len(datagrams([path])) < n:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert [d for _, _, d in datagrams([path])] == [d for d, _ in packets[:n]]
    recorder.close()
    assert [d for _, _, d in datagrams([path])] == [d for d, _ in packets]


def test_a_disk_that_takes_no_more_packets(tmp_path, rng, small_disk):
    """What was written stays; the rest is counted; the other sink gets all."""
    small_disk(1 << 20)
    sink = Discard()
    recorder = PacketRecorder(Files(str(tmp_path / "p")), V4, sink, 1 << 18, 2)
    packets = packets_of(rng, 400)
    take(recorder, packets)
    with pytest.raises(OSError, match=r"writing .*p-000000\.pcap: File too large"):
        recorder.close()
    small_disk(resource.RLIM_INFINITY)
    kept = datagrams([tmp_path / "p-000000.pcap"])
    figures = recorder.figures()
    assert figures["packets"] + figures["unrecorded"] == 400 == sink.packets
    assert 0 < figures["packets"] and figures["unrecorded"] > 0
    assert set(kept) <= {(V4[port].host, V4[port].port, data) for data, port in packets}


def test_a_folder_that_cannot_be_written(tmp_path):
    with pytest.raises(OSError, match="nowhere"):
        PacketRecorder(Files(str(tmp_path / "nowhere" / "p")), V4, Discard())
    p = plan()
    with pytest.raises(OSError, match="nowhere"):
        ChunkRecorder(Files(str(tmp_path / "nowhere" / "p")), Layout.of(p), Assembler(p))


def test_many_threads_record_at_once(tmp_path):
    """Each thread's packets in its order, none twice, none broken."""
    import threading

    recorder = PacketRecorder(Files(str(tmp_path / "p")), V4, Discard(), 1 << 20, 8)

    def run(thread):
        for n in range(0, 600, 20):
            recorder.native.take_bytes(
                [bytes([thread]) * 8 + n.to_bytes(4, "big") + os.urandom(500) for n in range(n, n + 20)], 0
            )

    threads = [threading.Thread(target=run, args=(t,)) for t in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    recorder.close()
    seen = [d for _, _, d in datagrams([tmp_path / "p-000000.pcap"])]
    assert recorder.figures()["unrecorded"] == 0
    for t in range(3):
        assert [int.from_bytes(d[8:12], "big") for d in seen if d[:8] == bytes([t]) * 8] == list(range(600))


def test_recorder_arguments():
    with pytest.raises(ValueError, match="no ports"):
        _native.Recorder(None, "/tmp/x", [], 0, 0.0, 0, 1 << 20, 2, True)
    with pytest.raises(ValueError, match="two buffers"):
        _native.Recorder(None, "/tmp/x", [bytes(42)], 0, 0.0, 0, 1 << 20, 1, True)


def test_packets_of_paper(tmp_path):
    """A format's packets, recorded and parsed again."""
    p = plan()
    assembler = Assembler(p)
    recorder = PacketRecorder(Files(str(tmp_path / "p")), V4[:1], assembler)
    sent = [packet(h, n) for n in range(8) for h in range(2)]
    recorder.native.take_bytes(sent, 0)
    recorder.close()
    assert assembler.counts().placed == 16
    assert [d for _, _, d in datagrams([tmp_path / "p-000000.pcap"])] == sent
