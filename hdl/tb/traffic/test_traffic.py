# SPDX-License-Identifier: BSD-3-Clause
"""Generator and checker behind their registers: packets equal those that ryle.fpga.pattern computes, faults are counted."""

import random

import cocotb
import pytest
from cocotb.triggers import ClockCycles, RisingEdge

from buses import MAP, ExtensionBus
from ryle.fpga.pattern import DIGITIZER_HEADER, Pattern, counter_packet, digitizer_packet
from simulation import WIDTHS, simulate
from streams import Sink, Source, never, pauses, start

SIDEBAND = ("dst_ip", "dst_port", "src_port")


class Bench:
    def __init__(self, dut, pause=never):
        self.dut = dut
        self.sink = Sink(dut, "m_axis", dut.clk, pause=pause, sideband=SIDEBAND)
        self.source = Source(dut, "s_axis", dut.clk, sideband=("dst_port", "length"))
        self.bus = ExtensionBus(dut, dut.clk, hold=bool(random.getrandbits(1)))
        self.keep = len(dut.m_axis_tdata) // 8

    async def streams(self, streams):
        """Set the table: a dict of stream_* and sequence for each."""
        await self.bus.write_fields("generator_streams", streams=len(streams))
        for number, entry in enumerate(streams):
            await self.bus.write("generator_select", number)
            for name, value in entry.items():
                await self.bus.write(name, value)

    async def run(self, packets):
        await self.bus.write("generator_limit", packets)
        await self.bus.write("generator_enable", 1)

    async def stopped(self):
        while await self.bus.read("generator_enable") & 2:
            await ClockCycles(self.dut.clk, 20)
        await self.bus.write("generator_enable", 0)

    async def checked(self):
        await ClockCycles(self.dut.clk, 12)
        names = ("packets", "bytes", "lost", "late", "wrong", "short")
        return {n: await self.bus.read(f"checker_{n}") for n in names}


def random_streams(rng, count, limit=64):
    return [
        {
            "stream_ip": rng.getrandbits(32),
            "stream_port": rng.getrandbits(16),
            "stream_id": rng.getrandbits(16),
            "stream_delay": rng.randrange(10000),
            "generator_sequence": rng.getrandbits(limit),
        }
        for _ in range(count)
    ]


@cocotb.test()
@cocotb.parametrize(pause=["never", "half", "mostly", "bursts"])
async def counter_packets_are_those_of_the_format(dut, pause):
    rng = random.Random(random.getrandbits(32))
    bench = Bench(dut, pauses(rng.getrandbits(32))[pause])
    await start(dut)
    for shared in (0, 1):
        # One beat and less, the format's own length, and lengths around a beat's end.
        for length in (
            8,
            9,
            rng.randint(10, bench.keep + 8),
            3 * bench.keep,
            3 * bench.keep + 1,
            rng.randint(200, 1000),
        ):
            streams = random_streams(rng, rng.randint(1, 5))
            streams[0]["generator_sequence"] |= (1 << 64) - 3  # over the counter's end
            await bench.bus.write("generator_length", length)
            await bench.bus.write("generator_source_port", source := rng.getrandbits(16))
            await bench.bus.write_fields("generator_format", format=0, shared=shared)
            await bench.streams(streams)
            await bench.run(3)
            number = [s["generator_sequence"] for s in streams]
            for _ in range(3):
                for s, entry in enumerate(streams):
                    got = await bench.sink.receive()
                    place = 0 if shared else s
                    assert got.data == counter_packet(number[place] % 2**64, length)
                    assert got.sideband == {
                        "dst_ip": entry["stream_ip"], "dst_port": entry["stream_port"], "src_port": source
                    }  # fmt: skip
                    number[place] += 1
            await bench.stopped()
            assert await bench.bus.read("generator_sent") == 3 * len(streams)
            await bench.bus.write("generator_select", 0)
            assert await bench.bus.read("generator_sequence") == number[0] % 2**64
    assert not bench.sink.frames


@cocotb.test()
@cocotb.parametrize(pause=["never", "half", "bursts"])
async def digitizer_packets_carry_the_pattern(dut, pause):
    rng = random.Random(random.getrandbits(32))
    bench = Bench(dut, pauses(rng.getrandbits(32))[pause])
    await start(dut)
    for tone_shift, noise_shift in ((8, 0), (0, 8), (1, 1), (0, 0)):
        pattern = Pattern(rng.randrange(256), tone_shift, noise_shift, rng.getrandbits(32))
        samples = rng.choice([1, 7, 128, 333, 640])
        streams = random_streams(rng, 3, limit=47)
        streams[0]["generator_sequence"] |= 0xFFFFFFFF  # over the end of its lower half
        await bench.bus.write("generator_length", samples + DIGITIZER_HEADER)
        await bench.bus.write_fields("generator_format", format=1)
        await bench.bus.write_fields("pattern_tone", step=pattern.tone_step, shift=tone_shift)
        await bench.bus.write_fields("pattern_noise", shift=noise_shift)
        await bench.bus.write("pattern_seed", pattern.seed)
        await bench.streams(streams)
        await bench.run(3)
        for packet in range(3):
            for entry in streams:
                at = entry["generator_sequence"] + packet * samples
                wanted = digitizer_packet(
                    at, entry["stream_id"], samples + DIGITIZER_HEADER, pattern, entry["stream_delay"]
                )
                assert (await bench.sink.receive()).data == wanted
        await bench.stopped()


@cocotb.test()
async def defect_6_the_generator_keeps_tvalid_until_tready(dut):
    """Whatever tready does, a beat that is offered stays, unchanged, and none is lost: looked at in every clock."""
    rng = random.Random(random.getrandbits(32))
    bus = ExtensionBus(dut, dut.clk)
    dut.s_axis_tvalid.value = 0
    dut.m_axis_tready.value = 0
    await start(dut)
    await bus.write("generator_length", length := rng.randint(9, 900))
    await bus.write("generator_limit", 5)
    await bus.write("generator_enable", 1)
    keep, waiting, waits, got, packets = len(dut.m_axis_tdata) // 8, None, 0, bytearray(), []
    while len(packets) < 5:
        ready = waits > 0 and rng.random() < 0.3  # the first beat waits, whatever is drawn
        dut.m_axis_tready.value = ready
        await RisingEdge(dut.clk)
        valid = int(dut.m_axis_tvalid.value)
        assert valid or waiting is None, "tvalid fell before tready"
        if valid:
            beat = int(dut.m_axis_tdata.value), int(dut.m_axis_tkeep.value), int(dut.m_axis_tlast.value)
            assert waiting in (None, beat), "the beat that was offered changed"
            waiting = None if ready else beat
            waits += not ready
            if ready:
                got += beat[0].to_bytes(keep, "little")[: beat[1].bit_length()]
                if beat[2]:
                    packets.append(bytes(got))
                    got.clear()
    assert packets == [counter_packet(n, length) for n in range(5)]


@cocotb.test()
async def rate_is_beats_per_period(dut):
    rng = random.Random(random.getrandbits(32))
    bench = Bench(dut)
    await start(dut)
    length = 4 * bench.keep
    await bench.bus.write("generator_length", length)
    for beats, period in ((63, 70), (1, 9), (rng.randint(5, 15), 16), (0xFFFFFFFF, 1)):
        await bench.bus.write("generator_beats", beats)
        await bench.bus.write("generator_period", period)
        packets = 400 if beats > period else 40
        await bench.run(packets)
        got = [await bench.sink.receive() for _ in range(packets)]
        clocks = got[-1].last - got[0].first + 1
        wanted = 4 * packets * max(1.0, period / beats)
        assert abs(clocks - wanted) <= period, (beats, period, clocks, wanted)
        await bench.stopped()


@cocotb.test()
async def disabling_ends_after_a_whole_packet(dut):
    bench = Bench(dut)
    await start(dut)
    await bench.bus.write("generator_length", 5 * bench.keep)
    for _ in range(5):
        await bench.run(0)
        await ClockCycles(dut.clk, random.randint(30, 60))
        await bench.bus.write("generator_enable", 0)
        await bench.stopped()
        await ClockCycles(dut.clk, 20)
        sent = await bench.bus.read("generator_sent")
        assert len(bench.sink.frames) == sent > 0
        assert all(len(f.data) == 5 * bench.keep for f in bench.sink.frames)
        bench.sink.frames.clear()


@cocotb.test()
async def registers_hold_what_is_written(dut):
    rng = random.Random(random.getrandbits(32))
    bench = Bench(dut)
    await start(dut)
    defaults = {
        "generator_length": 8192, "generator_source_port": 10000, "generator_port": 10000, "generator_beats": 0xFFFFFFFF,
        "generator_period": 1, "generator_limit": 0, "generator_format": 0, "generator_ip": 0, "pattern_tone": 0x800,
        "pattern_noise": 0, "pattern_seed": 0, "generator_enable": 0, "checker_enable": 0, "stream_delay": 0, "stream_id": 0,
        "generator_sequence": 0, "generator_sent": 0,
    }  # fmt: skip
    assert {name: await bench.bus.read(name) for name in defaults} == defaults
    assert await bench.bus.read("generator_streams") & 0xFFFF == 1
    plain = [r for r in MAP.registers if r.where == "ext" and r.access == "rw"]
    assert len(plain) > 15
    # Bits that are no field's are not stored; running and capacity are read only; a whole word if there are no fields.
    read_only = {"generator_enable": 2, "generator_streams": 0xFF0000}
    written = {}
    for r in plain:
        if r.name in ("generator_select", "generator_enable"):
            continue
        bits = sum(f.mask for f in r.fields) or (1 << r.bits) - 1
        if r.name == "generator_format":
            bits = 0x101
        await bench.bus.write(r.name, value := rng.getrandbits(r.bits))
        written[r.name] = value & bits & ~read_only.get(r.name, 0)
    # The first stream can be reached by two names.
    written["generator_ip"], written["generator_port"] = written["stream_ip"], written["stream_port"]
    for name, value in written.items():
        assert await bench.bus.read(name) & ~read_only.get(name, 0) == value, name
    assert await bench.bus.read("generator_streams") >> 16 == 16
    assert await bench.bus.read("generator_clock") == 390_625_000
    await bench.bus.write("generator_select", 5)
    assert await bench.bus.read("generator_select") == 5
    await bench.bus.write("stream_ip", 77)
    assert await bench.bus.read("generator_ip") == written["stream_ip"]
    for address in (0x94, 0x22C, 0x248, 0x2FC):
        assert await bench.bus.read_at(address) == 0


@cocotb.test()
@cocotb.parametrize(throttle=[0, 200])
async def faults_of_received_packets_are_counted(dut, throttle):
    """Good, lost, late, duplicate, changed, cut and too short packets of several streams, in random order."""
    rng = random.Random(random.getrandbits(32))
    bench = Bench(dut)
    await start(dut)
    await bench.bus.write_fields("checker_enable", enable=1, throttle=throttle)
    expected: dict[int, int] = {}
    wanted = dict.fromkeys(("packets", "bytes", "lost", "late", "wrong", "short"), 0)
    stream = 0
    for stream in range(4):  # seven bytes are no number: they say nothing of what comes next
        bench.source.send(rng.randbytes(7), dst_port=stream, length=7)
        for name, more in (("packets", 1), ("bytes", 7), ("short", 1)):
            wanted[name] += more
    for _ in range(150):
        stream = rng.choice([stream, rng.randrange(16)])  # often one behind the other
        fault = rng.choice(["good", "good", "lost", "late", "byte", "cut", "tiny", "length"])
        ends = [(1 << bits) - rng.randrange(1, 4) for bits in (16, 32, 48)]  # numbers with carries soon
        number = expected.get(stream, rng.choice([rng.getrandbits(63), *ends]))
        if fault == "lost":
            number += rng.randrange(1, 1 << 40)
        elif fault == "late":
            number -= rng.randrange(1, 1000)
        data = counter_packet(number, rng.choice([9, max(9, bench.keep), rng.randint(9, 4 * bench.keep)]))
        length = len(data)
        if fault == "byte":
            place = rng.choice([8, rng.randrange(8, len(data))])
            data = data[:place] + bytes([data[place] ^ 1 << rng.randrange(8)]) + data[place + 1 :]
        elif fault == "cut":
            data = data[: rng.randrange(8, len(data))]
        elif fault == "tiny":
            data, length = data[: rng.randrange(1, 8)], length
        elif fault == "length":
            length += rng.choice([-1, 1])
        bench.source.send(data, dst_port=rng.getrandbits(12) << 4 | stream, length=length)
        wanted["packets"] += 1
        wanted["bytes"] += len(data)
        wanted["wrong"] += fault == "byte"
        wanted["short"] += fault in ("cut", "tiny", "length")
        if fault != "tiny":
            due = expected.get(stream)
            if due is not None:
                wanted["lost"] += max(0, number - due)
                wanted["late"] += number < due
            expected[stream] = number + 1 if due is None else max(due, number + 1)
    await bench.source.idle()
    assert await bench.checked() == wanted
    assert wanted["lost"] > 0 < wanted["late"]
    assert 0 < wanted["wrong"]
    # A reset forgets counts and sequences: what a stream sends first is neither late nor behind a gap, wherever it was before.
    for stream in (3, 4):
        bench.source.send(counter_packet(1000, 100), dst_port=stream, length=100)
    await bench.source.idle()
    await bench.checked()
    await bench.bus.write("checker_reset", 1)
    assert set((await bench.checked()).values()) == {0}
    for stream, number in ((3, 5), (4, 1 << 63)):
        bench.source.send(counter_packet(number, 100), dst_port=stream, length=100)
    await bench.source.idle()
    assert await bench.checked() == {"packets": 2, "bytes": 200, "lost": 0, "late": 0, "wrong": 0, "short": 0}
    # Without enable nothing is counted.
    await bench.bus.write_fields("checker_enable", enable=0)
    bench.source.send(counter_packet(9, 100), dst_port=3, length=100)
    await bench.source.idle()
    assert (await bench.checked())["packets"] == 2


@cocotb.test()
async def halves_of_a_counter_are_of_one_moment(dut):
    """The upper one is held when the lower one is read."""
    bench = Bench(dut)
    await start(dut)
    await bench.bus.write_fields("checker_enable", enable=1)
    lost = MAP.find("checker_lost")
    for number in (0, 5 << 32):
        bench.source.send(counter_packet(number, 16), dst_port=0, length=16)
    await bench.source.idle()
    await ClockCycles(dut.clk, 20)
    low = await bench.bus.read_at(lost.address)
    bench.source.send(counter_packet(9 << 32, 16), dst_port=0, length=16)
    await bench.source.idle()
    await ClockCycles(dut.clk, 20)
    assert await bench.bus.read_at(lost.high) << 32 | low == (5 << 32) - 1
    assert await bench.bus.read("checker_lost") == (9 << 32) - 2


@cocotb.test()
async def no_clock_is_idle_between_packets(dut):
    """8192-byte payloads leave back to back; so do payloads of one beat."""
    bench = Bench(dut)
    await start(dut)
    for length in (8192, bench.keep, 8):
        await bench.bus.write("generator_length", length)
        await bench.run(6)
        got = [await bench.sink.receive() for _ in range(6)]
        assert got[-1].last - got[0].first + 1 == 6 * -(-length // bench.keep)
        await bench.stopped()
        await RisingEdge(dut.clk)


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(count=[1, 2, 3, 16], shared=[0, 1])
async def numbers_go_up_in_every_clock(dut, count, shared):
    """Packets of one beat, one a clock: every number is the next of its stream, over carries, and is there to be read."""
    rng = random.Random(random.getrandbits(32))
    bench = Bench(dut)
    await start(dut)
    await bench.bus.write("generator_length", 8)
    await bench.bus.write_fields("generator_format", format=0, shared=shared)
    streams = random_streams(rng, count)
    for s in streams:
        ones = rng.choice([16, 17, 32, 48, 63, 64])
        s["generator_sequence"] = (s["generator_sequence"] | (1 << ones) - 1) - rng.randrange(4)
    await bench.streams(streams)
    number = [s["generator_sequence"] for s in streams]
    rounds = 20 if count < 3 else 4
    for _ in range(2):  # the second run begins where the first ended
        await bench.run(rounds)
        got = [await bench.sink.receive() for _ in range(rounds * count)]
        assert got[-1].last - got[0].first + 1 == rounds * count
        for n, packet in enumerate(got):
            place = 0 if shared else n % count
            assert packet.data == counter_packet(number[place] % 2**64, 8)
            number[place] += 1
        await bench.stopped()
    for s in range(count):
        await bench.bus.write("generator_select", s)
        assert await bench.bus.read("generator_sequence") == number[s] % 2**64


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def it_runs_until_the_last_beat_is_taken(dut):
    """`running` covers what waits in the stages, and a new start that comes meanwhile cuts no packet."""
    bench = Bench(dut, held := Held())
    await start(dut)
    await bench.bus.write("generator_length", length := 5 * bench.keep)
    for _ in range(4):
        held.on = False
        await bench.run(0)
        await ClockCycles(dut.clk, random.randint(30, 60))
        held.on = True
        await ClockCycles(dut.clk, 30)
        await bench.bus.write("generator_enable", 0)
        await bench.bus.write("generator_limit", 1)
        await ClockCycles(dut.clk, 30)
        assert await bench.bus.read("generator_enable") == 2
        await bench.bus.write("generator_enable", 1)
        held.on = False
        await bench.stopped()
        assert not await bench.bus.read("generator_enable") & 2
        assert await bench.bus.read("generator_sent") == 1
    assert [f.data for f in bench.sink.frames] == [counter_packet(n, length) for n in range(len(bench.sink.frames))]
    assert len(bench.sink.frames) > 12
    await bench.bus.write("generator_select", 0)
    assert await bench.bus.read("generator_sequence") == len(bench.sink.frames)
    # So it does when the last packet has begun, and has left the stage that decides, but stands in those behind it.
    held.on = True
    await bench.run(1)
    await ClockCycles(dut.clk, 60)
    assert await bench.bus.read("generator_enable") & 2
    held.on = False
    await bench.stopped()


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(pause=["half", "bursts"], count=[1, 3])
async def numbers_wait_with_the_pipeline(dut, pause, count):
    """More packets of one beat than there are stages, to somebody who is slow: none gets the number of the one behind it."""
    rng = random.Random(random.getrandbits(32))
    bench = Bench(dut, pauses(rng.getrandbits(32))[pause])
    await start(dut)
    await bench.bus.write("generator_length", bench.keep)
    await bench.streams(streams := random_streams(rng, count, 63))
    await bench.run(rounds := 60 // count)
    for n in range(rounds):
        for entry in streams:
            got = await bench.sink.receive()
            assert got.data == counter_packet(entry["generator_sequence"] + n, bench.keep)
    await bench.stopped()


class Held:
    """A pause that is switched on and off."""

    on = False

    def __call__(self):
        return self.on


@pytest.mark.parametrize("width", WIDTHS)
def test_traffic(width):
    simulate("traffic", __file__, WIDTH=width)
