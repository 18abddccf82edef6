"""Receiving through DPDK over virtual devices: exact placing, counts, and every buffer back where it came from."""

import gc
import os
import struct

import numpy as np
import pytest

import fresh
from dpdk_support import (
    BYTES,
    FORMAT,
    HEADER,
    PATH,
    PORT,
    needs_dpdk,
    packet,
    random_payloads,
    stamps,
    started,
    streams,
    unique,
    until,
)
from ryle.channelize.payloads import chunk_payloads
from ryle.receive import dpdk
from ryle.receive.assembly import Assembler, Plan, grid
from ryle.receive.dpdk.environment import native
from ryle.receive.pcap import PcapFile
from ryle.send.dpdk import Emulation, Generator, way_out

pytestmark = needs_dpdk


@pytest.fixture(scope="module", autouse=True)
def environment():
    started()


def plan(antennas=3, packets=8, **more):
    return Plan(FORMAT, streams(antennas), packets, chunks=more.pop("chunks", 4), linger=0.0, **more)


def collect(assembler):
    """All chunks' contents by (antenna, packet number); pointer mode reads through the addresses."""
    import ctypes

    got = {}
    assembler.finish()
    for chunk in assembler:
        first = chunk.timestamp // BYTES
        for antenna, i in np.argwhere(chunk.present):
            if assembler.plan.pointers:
                data = ctypes.string_at(int(chunk.addresses[antenna, i]), BYTES)
            else:
                data = chunk.data[antenna, i].tobytes()
            got[int(antenna), first + int(i)] = data
    return got


def wait_for(source, packets):
    until(lambda: sum(c.packets for c in source.counts()) >= packets)


@pytest.mark.parametrize("pointers", [False, True], ids=["1-copy", "0-copy"])
@pytest.mark.parametrize("memory", ["dpdk", "host"])
def test_places_packets_exactly_and_gives_all_buffers_back(pointers, memory):
    rng = fresh.rng()
    antennas, numbers = 3, 40
    assembler = Assembler(plan(antennas, pointers=pointers, window=4 * BYTES, chunks=8))
    pool = dpdk.Pool(2048, memory=memory, payload_at=56)
    device = dpdk.Device(unique("net_ring"), [pool])
    sent = random_payloads(rng, antennas, numbers)
    frames = [(a, n) for n in range(numbers) for a in range(antennas)]
    twice = [frames[i] for i in rng.integers(len(frames) - 6, len(frames), 5)]
    with dpdk.DpdkSource(assembler, device, [PORT]) as source:
        made = [PATH.frame(packet(a, n, sent[a, n].tobytes())) for a, n in [*frames, *twice]]
        made.append(dpdk.Path(target_port=PORT + 1).frame(packet(0, 0, sent[0, 0].tobytes())))
        made.append(b"\xff" * 12 + b"\x08\x06" + bytes(46))  # ARP
        made.append(PATH.frame(packet(0, 0, b"\0" * 100)))  # too short: malformed to the assembler
        made.append(made[0][:600])  # shorter than its headers say
        made.append(PATH.frame(packet(antennas, 0, sent[0, 0].tobytes())))  # an antenna that we do not have
        assert device.send(made, pool) == len(made)
        wait_for(source, len(made))
    counts, account = source.counts()[0], source.account()
    assert (counts.foreign, counts.malformed, counts.delivered) == (2, 1, len(made) - 3)
    got = collect(assembler)
    assert got == {(a, n): sent[a, n].tobytes() for a, n in frames}
    c = assembler.counts()
    assert (c.placed, c.duplicate, c.malformed, c.foreign, c.late) == (len(frames), len(twice), 1, 1, 0)
    assert account.datagrams == len(made) == c.placed + account.duplicate + account.malformed + account.foreign
    assert pool.available == pool.buffers
    stats = device.stats()
    assert stats.received == stats.sent == len(made)


def test_receives_on_a_core_that_the_rest_of_the_process_has_left():
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        pytest.skip("one core")
    assembler, pool = Assembler(plan(1, 4)), dpdk.Pool(1024)
    device = dpdk.Device(unique("net_ring"), [pool])
    with pytest.raises(native().DpdkError, match="core 1023"):
        dpdk.DpdkSource(assembler, device, [PORT], cores=[1023]).start()
    try:
        os.sched_setaffinity(0, cores[:-1])
        with dpdk.DpdkSource(assembler, device, [PORT], cores=[cores[-1]]) as source:
            device.send([PATH.frame(packet(0, n, bytes(BYTES))) for n in range(4)], pool)
            wait_for(source, 4)
            assert os.sched_getaffinity(0) == set(cores[:-1])
    finally:
        os.sched_setaffinity(0, cores)


def test_zero_copy_hands_over_the_buffers_that_were_sent():
    """Over net_ring nothing is copied at all: addresses in the chunk lie in the sender's own pool, 64-byte aligned."""
    assembler = Assembler(plan(1, 4, pointers=True))
    pool = dpdk.Pool(1024, memory="host", payload_at=56)
    device = dpdk.Device(unique("net_ring"), [pool])
    with dpdk.DpdkSource(assembler, device, [PORT]) as source:
        device.send([PATH.frame(packet(0, n, bytes([n]) * BYTES)) for n in range(4)], pool)
        wait_for(source, 4)
    assembler.finish()
    chunk = assembler.next()
    assert np.isin(chunk.addresses, pool.addresses(at=56)).all() and not np.any(chunk.addresses % 64)
    assert pool.available == pool.buffers - 4
    table = chunk_payloads(assembler.plan, chunk, BYTES)
    assert np.array_equal(table.addresses, chunk.addresses) and table.present.all() and table.timestamp == 0
    chunk.release()
    assert pool.available == pool.buffers


def test_one_copy_gives_the_gpu_a_table_of_the_chunk():
    import ctypes

    rng = fresh.rng()
    sent = random_payloads(rng, 2, 4)
    assembler = Assembler(plan(2, 4))
    assembler.take([packet(a, n, sent[a, n].tobytes()) for a in range(2) for n in range(4) if (a, n) != (1, 2)])
    assembler.finish()
    with assembler.next() as chunk:
        table = chunk_payloads(assembler.plan, chunk, BYTES)
        assert table.present.tolist() == chunk.present.tolist() and table.present.sum() == 7
        for a, n in np.argwhere(table.present):
            assert ctypes.string_at(int(table.addresses[a, n]), BYTES) == sent[a, n].tobytes()


@pytest.mark.parametrize("burst", [1, 32, 64])
def test_deferred_freeing_goes_on_for_ever(burst):
    """Many more packets than buffers pass through a pool of just the size that is needed, split and not."""
    antennas, packets, chunks, count = 4, 64, 4, 20_000
    held = antennas * packets * chunks
    for split in (False, True):
        assembler = Assembler(plan(antennas, packets, pointers=True, chunks=chunks))
        size = dpdk.needed(held, descriptors=512, cache=64)
        whole = dpdk.Pool(size, memory="host", payload_at=56, cache=64)
        headers, parts = dpdk.Pool(1024, 128, cache=64), dpdk.Pool(size, BYTES, memory="host", split=True, cache=64)
        device = dpdk.Device(unique("net_null"), [headers if split else whole], descriptors=512)
        made = Emulation(device, HEADER, stamps(antennas), BYTES, payloads=parts if split else None, count=count)
        pools = [parts] if split else None
        with dpdk.DpdkSource(assembler, device, [PORT], burst=burst, payload_pools=pools) as source:
            total = 0
            while total < count - assembler.counts().ring_full - packets * antennas:
                if (chunk := assembler.next(2.0)) is not None:
                    with chunk:
                        assert chunk.placed == np.count_nonzero(chunk.addresses)
                        total += chunk.placed
            until(lambda s=source: s.waiting == 0)
        c = assembler.counts()
        assert made.made == count and made.no_buffer == 0
        assert c.received == count and c.placed + c.ring_full == count and c.malformed == c.duplicate == 0
        assembler.finish()
        for chunk in assembler:
            chunk.release()
        assert (headers.available, parts.available) == (headers.buffers, parts.buffers)
        assert whole.available == whole.buffers


def test_split_payloads_lie_in_their_own_pool():
    antennas, packets = 2, 8
    assembler = Assembler(plan(antennas, packets, pointers=True))
    headers, parts = dpdk.Pool(1024, 128), dpdk.Pool(1024, BYTES, memory="host", split=True)
    device = dpdk.Device(unique("net_null"), [headers], descriptors=64)
    _made = Emulation(device, HEADER, stamps(antennas), BYTES, payloads=parts, count=antennas * packets)
    with dpdk.DpdkSource(assembler, device, [PORT], payload_pools=[parts]) as source:
        wait_for(source, antennas * packets)
    assembler.finish()
    with assembler.next() as chunk:
        assert np.isin(chunk.addresses, parts.addresses()).all()
        assert len(np.unique(chunk.addresses)) == antennas * packets
    assert parts.available == parts.buffers


def test_an_exhausted_pool_is_loss_and_no_deadlock():
    """Chunks that are never released take all buffers; once they are, packets arrive again."""
    antennas, packets, chunks = 2, 256, 6
    assembler = Assembler(Plan(FORMAT, streams(antennas), packets, chunks=chunks, pointers=True, linger=0.1))
    pool = dpdk.Pool(1536, memory="host", payload_at=56, cache=32)  # less than half of what the chunks could hold
    device = dpdk.Device(unique("net_ring"), [pool], descriptors=256)
    generator = Generator(device, pool, HEADER, stamps(antennas), BYTES, rate=20_000, wait=False)

    def more_placed_than(count):
        if (chunk := assembler.next(0.0)) is not None:
            chunk.release()
        return assembler.counts().placed > count

    with dpdk.DpdkSource(assembler, device, [PORT]) as source:
        with generator:
            until(lambda: source.counts()[0].starved + generator.dropped > 1000)
            held = assembler.counts().placed
            assert held <= pool.buffers
            until(lambda: more_placed_than(held + 2 * pool.buffers))
        until(lambda: source.counts()[0].packets == generator.sent)
    assembler.finish()
    for chunk in assembler:
        chunk.release()
    c, lost = assembler.counts(), source.counts()[0].starved
    assert c.received == source.counts()[0].delivered and c.received == c.datagrams + c.ring_full
    assert generator.sent == source.counts()[0].packets and lost + generator.dropped > 1000
    assert c.missing >= 1000 or c.resyncs > 0
    assert pool.available == pool.buffers


def test_a_pool_that_cannot_work_is_refused():
    assembler = Assembler(plan(pointers=True))
    pool = dpdk.Pool(128, memory="host")
    device = dpdk.Device(unique("net_null"), [pool], descriptors=512)
    with pytest.raises(RuntimeError, match="pool of 128 buffers is too small"):
        dpdk.DpdkSource(assembler, device, [PORT])


def test_reads_a_capture_through_net_pcap(tmp_path):
    """A capture with VLAN tags, written here by hand, read by DPDK and by Ryle's own reader."""
    rng = fresh.rng()
    antennas, numbers = 2, 24
    sent = random_payloads(rng, antennas, numbers)
    path = tmp_path / "some.pcap"
    with path.open("wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        for n in range(numbers):
            for a in range(antennas):
                tagged = dpdk.Path(target_port=PORT, vlan=[None, 5, 4095][rng.integers(3)])
                frame = tagged.frame(packet(a, n, sent[a, n].tobytes()))
                file.write(struct.pack("<IIII", n, a, len(frame), len(frame)) + frame)
    pool = dpdk.Pool(1024)
    assembler = Assembler(plan(antennas))
    device = dpdk.Device(unique("net_pcap") + f",rx_pcap={path}", [pool])
    with dpdk.DpdkSource(assembler, device, [PORT]) as source:
        wait_for(source, antennas * numbers)
    expected = {(a, n): sent[a, n].tobytes() for a in range(antennas) for n in range(numbers)}
    assert collect(assembler) == expected
    own = Assembler(plan(antennas))
    for batch in PcapFile(path).batches():
        own.take(np.ascontiguousarray(batch.payload))
    assert collect(own) == expected


def test_two_queues_feed_two_assemblers():
    """One consumer a GPU: each queue's packets in chunks of its own, by UDP port, the rest foreign."""
    rng = fresh.rng()
    pools = [dpdk.Pool(1024, memory="host", payload_at=56), dpdk.Pool(1024, memory="host", payload_at=56)]
    sender = dpdk.Pool(1024)
    device = dpdk.Device(unique("net_ring"), pools, tx_queues=2)
    assert device.steer({PORT: 0, PORT + 1: 1}) == "software"  # net_ring knows no ports; transmit queue i is queue i
    ends = [Assembler(plan(1, pointers=True)) for _ in pools]
    sources = [dpdk.DpdkSource(end, device, [PORT + q], queues=[q]) for q, end in enumerate(ends)]
    sent = random_payloads(rng, 2, 16)
    for source in sources:
        source.start()
    for q in (0, 1):
        path, other = dpdk.Path(target_port=PORT + q), dpdk.Path(target_port=PORT + 1 - q)
        assert device.send([path.frame(packet(0, n, sent[q, n].tobytes())) for n in range(16)], sender, q) == 16
        assert device.send([other.frame(packet(0, 99, sent[q, 0].tobytes()))], sender, q) == 1
    for source in sources:
        wait_for(source, 17)
        source.stop()
        assert source.join() and not source.running
        assert source.counts()[0].foreign == 1
    for q in (0, 1):
        assert collect(ends[q]) == {(0, n): sent[q, n].tobytes() for n in range(16)}
    assert sender.available == sender.buffers


def test_two_queues_share_one_assembler_and_keep_their_own_buffers():
    pools = [dpdk.Pool(2048, memory="host", payload_at=56) for _ in range(2)]
    device = dpdk.Device(unique("net_ring"), pools, tx_queues=2)
    assembler = Assembler(plan(2, 512, pointers=True))
    with dpdk.DpdkSource(assembler, device, [PORT]) as source:
        for n in range(64):
            for q in (0, 1):
                assert device.send([PATH.frame(packet(q, n, bytes(BYTES)))], pools[q], q) == 1
        wait_for(source, 128)
        assert [p.available for p in pools] == [p.buffers - 64 for p in pools]
        assembler.flush()
        with assembler.next() as chunk:
            assert chunk.placed == 128
            for q in (0, 1):
                assert np.isin(chunk.addresses[q, :64], pools[q].addresses(at=56)).all()
        until(lambda: [p.available for p in pools] == [p.buffers for p in pools])
    assert [c.packets for c in source.counts()] == [64, 64]


def test_threads_run_where_they_are_told_and_report_themselves():
    import os

    core = min(os.sched_getaffinity(0))
    pool = dpdk.Pool(1024)
    device = dpdk.Device(unique("net_ring"), [pool])
    with dpdk.DpdkSource(Assembler(plan(1)), device, [PORT], cores=[core]) as source:
        device.send([PATH.frame(packet(0, n, bytes(BYTES))) for n in range(8)], pool)
        wait_for(source, 8)
        assert source.running
        (report,) = source.reports()
        assert (report.name, report.core, report.packets) == ("dpdk-rx0", core, 8)
        assert 0 <= report.busy <= 1 and report.wall_seconds > 0
    assert os.sched_getaffinity(0) >= {core}
    with pytest.raises(RuntimeError, match="core 4000"):
        dpdk.DpdkSource(Assembler(plan(1)), device, [PORT], cores=[4000]).start()


def test_what_cannot_be_says_so():
    pool = dpdk.Pool(512)
    with pytest.raises(RuntimeError, match="net_nothing0"):
        dpdk.Device("net_nothing0", [pool])
    with pytest.raises(RuntimeError, match="cannot split headers"):
        dpdk.Device(unique("net_null"), [pool], headers=[pool], header_bytes=56)
    device = dpdk.Device(unique("net_null"), [pool])
    with pytest.raises(RuntimeError, match="no receive queue 3"):
        dpdk.DpdkSource(Assembler(plan(1)), device, [PORT], queues=[3])
    with pytest.raises(RuntimeError, match="do not fit"):
        Generator(device, pool, HEADER, [], 60_000)
    with pytest.raises(ValueError, match="no order"):
        pool.addresses()


@pytest.mark.parametrize("threads", [1, 2])
def test_the_sender_of_all_formats_sends_through_dpdk(threads):
    """Every byte of every stream, as the sender's rule for payloads says; headers as the network wants them."""
    from ryle.config.endpoints import Endpoint
    from ryle.send.sender import Sender
    from ryle.send.sending import Sending, expected_payload
    from ryle.wire.description import Format

    form = Format.load("counter_8192")
    numbers, first = 40, 1000
    ends = [Endpoint(host="10.1.2.3", port=PORT + i) for i in range(2)]
    pool = dpdk.Pool(2048)
    device = dpdk.Device(unique("net_ring"), [dpdk.Pool(512) for _ in range(threads)], tx_queues=threads)
    sending = Sending(to=ends, format=form, packets=numbers, start=first, seed=7, threads=threads, pps=4000)
    # Nothing in these packets tells streams apart: they share one counter.
    assembler = Assembler(Plan(form, grid(form), 2 * numbers, linger=0.0, window=2 * numbers, origin=first))
    with dpdk.DpdkSource(assembler, device, [e.port for e in ends]) as source:
        sender = Sender(sending, way_out(device, pool))
        sender.start()
        sender.join()
        assert sender.progress().packets == 2 * numbers
        until(lambda: sum(c.packets for c in source.counts()) == 2 * numbers)
    assembler.finish()
    with assembler.next() as chunk:
        assert chunk.present.all() and chunk.timestamp == first
        for i in range(2 * numbers):
            np.testing.assert_array_equal(chunk.data[0, i], expected_payload(7, 0, first + i, 8184))
    counts = assembler.counts()
    assert counts.placed == counts.received == 2 * numbers
    del sender  # and the buffers that it was lent
    gc.collect()
    assert pool.available == pool.buffers
