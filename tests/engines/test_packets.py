"""Others' F-engines: packets to visibilities, exact, over real sockets and out of a capture."""

import io
import json
import socket
import struct
import subprocess
import sys
import time
from dataclasses import dataclass

import h5py
import numpy as np
import pytest
from pyuvdata import UVData
from rich.console import Console

from formats import description, word
from ports import free_ports
from ryle.chunk import BLOCK, Integration, SpectraChunk, parts_from_rows, rows_from_parts
from ryle.config import ConfigError, load, parse
from ryle.correlate.reference import correlate
from ryle.engines.deliver import deliver
from ryle.engines.offline import correlate as correlate_files
from ryle.engines.offline import run_in_process
from ryle.engines.run import run_processes
from ryle.engines.simulator import record
from ryle.engines.summing import Summing
from ryle.engines.x import XEngine
from ryle.receive.entrance import MappedEntrance
from ryle.receive.packets import PacketMap, packet_map
from ryle.receive.replay import PcapSource
from ryle.send.packets import PacketMaker
from ryle.store.pcap_write import PcapWriter
from ryle.wire.build import build
from ryle.wire.packets import Parser

TIMES, CHANNELS, INPUTS = 16, 8, 4  # of a packet
FORMAT = description(
    word("mcnt"),
    {"time": TIMES, "channel": CHANNELS, "input": INPUTS},
    {"input": {"fid": INPUTS}, "channel": {"xid": CHANNELS}},
)


def observation(tmp_path, rng, *, antennas=5, channels=32, share=16, blocks=5, mapped=True, more=""):
    """An array whose inputs are any of 16 that four F-engines have, some of them conjugated."""
    names = [(f"A{a}", p) for a in range(antennas) for p in "xy"]
    wire = rng.choice(16, len(names), replace=False)
    inputs = ""
    for number, (antenna, pol) in zip(wire.tolist(), names, strict=True):
        place = f"stream = {number}" if number % 3 else f"stream = {number // 4}\ninput = {number % 4}"
        conjugate = str(rng.random() < 0.4).lower()
        inputs += f'[[inputs]]\n{place}\nantenna = "{antenna}"\npolarization = "{pol}"\nconjugate = {conjugate}\n'
    places = "\n".join(
        f'  {{ name = "A{a}", enu = ["{50 * a * a} m", "{30 * a} m", "0 m"] }},' for a in range(antennas)
    )
    (tmp_path / "format.toml").write_text(FORMAT)
    path = tmp_path / "observation.toml"
    path.write_text(f"""
[observation]
sync_time = "2026-03-20T20:00:00Z"
duration = "2 s"
[array]
location = {{ latitude = "-30.7215 deg", longitude = "21.4284 deg", height = "1051 m" }}
antennas = [
{places}
]
[band]
sample_rate = "1 MHz"
nyquist_zone = 2
[fengine]
packets = "format.toml"
channels = {channels}
taps = 4
output_bits = 4
[digitizer]
heap_samples = 512
[xengine]
integration = "{blocks * BLOCK * 2 * channels / 1e6} s"
channels_per_substream = {share}
[network]
spectra = "127.0.0.1:{free_ports(channels // share)}"
{inputs if mapped else ""}
{more}
""")
    return load(path)


SKY = """
[catcher]
integration = "0.2 s"
[output]
formats = ["uvh5", "miriad"]
split_polarizations = true
[simulate]
seed = 5
speed = "max"
rms = 6.0
sefd = "400 Jy"
sources = [{ ra = "07h00m00s", dec = "-30d00m00s", flux = "900 Jy" }]
[simulate.faults]
loss = 0.05
seed = 3
"""


@dataclass
class Stream:
    """Random packets of all 16 inputs, in the order in which they are sent, and what they hold."""

    packets: list[bytes]
    samples: np.ndarray  # (channel, spectrum, wire input, 2)
    there: np.ndarray  # (channel group, spectrum, wire input)
    first: int


def random_packets(o, rng, *, blocks, first_mcnt, loss=0.1):
    """Every sample a random byte; some packets lost, some twice, some late."""
    format = o.packets.format
    groups, times = o.fengine.channels // CHANNELS, blocks * BLOCK // TIMES
    samples = rng.integers(-8, 8, (o.fengine.channels, times * TIMES, 16, 2))
    samples[rng.random(samples.shape) < 0.02] = -8
    there = np.ones((groups, times * TIMES, 16), bool)
    order = []
    for t in range(times):
        for fid in range(4):
            for xid in range(groups):
                spectra, inputs = slice(t * TIMES, (t + 1) * TIMES), slice(4 * fid, 4 * fid + 4)
                fields = {"mcnt": (first_mcnt + t) % (1 << 48), "fid": fid, "xid": xid}
                packet = build(format, fields, samples[xid * CHANNELS : (xid + 1) * CHANNELS, spectra, inputs])
                # The ends are there, so that both ways agree on what was expected.
                if rng.random() < loss and 0 < t < times - 1:
                    there[xid, spectra, inputs] = False
                    continue
                late = 0 if t < 4 or rng.random() < 0.8 else rng.integers(1, 40)
                order.append((len(order) + late, packet))
                if rng.random() < 0.02:
                    order.append((len(order) + late + 1, packet))
    packets = [packet for _, packet in sorted(order, key=lambda entry: entry[0])]
    return Stream(packets, samples, there, first_mcnt * TIMES)


def expected(o, stream, first, spectra):
    """Visibilities and counts of a stretch of spectra, by the oracle, from what the packets hold."""
    low = first - stream.first
    begin, end = max(0, low), min(stream.samples.shape[1], low + spectra)
    parts = np.maximum(stream.samples[:, begin:end], -7)[:, :, o.wire_inputs]
    conjugated = [s.conjugate for s in o.streams]
    parts[:, :, conjugated, 1] *= -1
    there = stream.there[:, begin:end][:, :, o.wire_inputs]
    keep = np.repeat(there, CHANNELS, axis=0)[..., None]
    blocked = (parts * keep).reshape(len(parts), -1, BLOCK, o.n_inputs, 2).swapaxes(2, 3)
    bits = there.reshape(len(there), -1, BLOCK, o.n_inputs).swapaxes(2, 3)
    words = np.ascontiguousarray(np.packbits(bits, axis=-1, bitorder="little")).view("<u8")[..., 0].astype(np.uint64)
    return correlate(rows_from_parts(blocked.astype(np.int8)), words, o.pols)


def check(o, stream, integrations, first_channel, channels):
    """All integrations are there, and each is what the oracle says, of a run of channels."""
    spectra = o.integration_spectra
    firsts = range(stream.first // spectra * spectra, stream.first + stream.samples.shape[1], spectra)
    assert [i.first_spectrum for i in integrations] == list(firsts)
    groups = slice(first_channel // CHANNELS, (first_channel + channels) // CHANNELS)
    for found in integrations:
        visibilities, counts = expected(o, stream, found.first_spectrum, spectra)
        np.testing.assert_array_equal(found.visibilities, visibilities[first_channel : first_channel + channels])
        np.testing.assert_array_equal(found.counts, counts[groups])
        assert found.first_channel == first_channel and found.spectra == spectra


def lowest(o, stream):
    """How many samples that came and are mapped are -8."""
    keep = np.repeat(stream.there, CHANNELS, axis=0)[..., None]
    return np.count_nonzero(((stream.samples == -8) & keep)[:, :, o.wire_inputs])


def received(o, stream, substream, held_up):
    """Receive one substream's packets by UDP, and correlate them."""
    mine = [p for p in stream.packets if p[7] * CHANNELS // o.substream_channels == substream]
    engine = XEngine(o, substream * o.substream_channels, o.substream_channels, o.groups)
    integrations = []
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    to = o.spectra_endpoint(substream)
    mine_ = packet_map(o, [substream], waits=held_up, timed=not held_up)
    receiver = MappedEntrance(o, "x", mine_, [to], index=substream, name="packets")
    assert mine_.first_channel == engine.first_channel
    blocks = receiver.reader()
    receiver.start()
    with sender:
        for n, packet in enumerate(mine):
            sender.sendto(packet, (to.host, to.port))
            deadline = time.monotonic() + 60
            while receiver.account().datagrams < n - 20 and time.monotonic() < deadline:
                time.sleep(0.001)
        while receiver.account().datagrams < len(mine) and time.monotonic() < deadline:
            time.sleep(0.001)
        receiver.stop()
        for block in blocks:
            with block:
                integrations += engine.push(receiver.chunk(block))
        integrations += engine.flush()
        account = receiver.account()
    assert account.datagrams == len(mine) and account.balanced() and not account.kernel_drops
    return integrations, account, engine.clamped


@pytest.mark.parametrize(("first_mcnt", "held_up"), [(1200, True), ((1 << 48) - 37, False)], ids=["held", "wrap"])
def test_live_and_capture(tmp_path, rng, steady, first_mcnt, held_up):
    """Lost, late and repeated packets, shuffled and conjugated inputs, samples of -8, the 48-bit counter's wrap."""
    o = observation(tmp_path, rng)
    stream = random_packets(o, rng, blocks=20, first_mcnt=first_mcnt // 4 * 4)
    path = tmp_path / "packets.pcap"
    with path.open("wb") as file:
        writer = PcapWriter(file)
        for packet in stream.packets:
            writer.write(0, packet, "10.0.0.1", 8511 + packet[7])

    def body():
        return [received(o, stream, s, held_up) for s in range(o.substreams)]

    live = steady(body)
    everything = packet_map(o, range(o.substreams), waits=True)
    capture = MappedEntrance(o, "x", everything, [], source=lambda sink: PcapSource(sink, path), name="capture")
    engine, blocks, whole = XEngine(o, 0, o.fengine.channels, o.groups * o.substreams), capture.reader(), []
    capture.start()
    for block in blocks:
        with block:
            whole += engine.push(everything.given(block))
    whole += engine.flush()
    check(o, stream, whole, 0, o.fengine.channels)
    for substream, (integrations, _, _) in enumerate(live):
        check(o, stream, integrations, substream * o.substream_channels, o.substream_channels)
    accounts = [account for _, account, _ in live]
    offline = capture.account()
    assert offline.balanced() and offline.datagrams == len(stream.packets)
    for name in ("placed", "late", "duplicate", "malformed", "missing", "expected"):
        assert sum(getattr(a, name) for a in accounts) == getattr(offline, name), name
    # Packets of F-engines of which no input is mapped are nobody's.
    mapped = np.unique(o.wire_inputs // INPUTS)
    lost = ~stream.there[:, ::TIMES, ::INPUTS][:, :, mapped]
    assert offline.missing == lost.sum() and not offline.late and offline.duplicate
    assert engine.clamped == sum(clamped for _, _, clamped in live) == lowest(o, stream) > 0


def test_packets_made(rng, tmp_path):
    """Packets hold the spectra, inputs where the map says, and are placed by the format's parser."""
    o = observation(tmp_path, rng)
    maker = PacketMaker(o)
    parts = rng.integers(-7, 8, (32, 2, o.n_inputs, BLOCK, 2)).astype(np.int8)
    chunk = SpectraChunk(7, rows_from_parts(parts), np.full((1, 2, o.n_inputs), ~np.uint64(0)))
    first = (1 << 52) - 16  # the counter wraps behind the first packet
    packets = maker.packets(maker.payloads(chunk), first)
    assert packets.shape == (8, len(np.unique(o.wire_inputs // 4)) * 4, 8 + TIMES * CHANNELS * INPUTS)
    fields = Parser(o.packets.format)
    fields.start_at(first)
    flat = packets.reshape(-1, packets.shape[-1])
    found = fields.parse(flat)
    assert found.valid.all()
    np.testing.assert_array_equal(np.unique(found.timestamp), first + 16 * np.arange(8))
    samples = fields.decode(flat, integers=True)
    wire = np.zeros((32, 128, 16, 2), np.int8)
    for i in range(len(flat)):
        c, t, w = int(found.channel[i]), int(found.timestamp[i]) - first, int(found.input[i])
        wire[c : c + 8, t : t + 16, w : w + 4] = samples[i]
    wire[:, :, o.wire_inputs[[s.conjugate for s in o.streams]], 1] *= -1
    np.testing.assert_array_equal(wire[:, :, o.wire_inputs], parts.swapaxes(2, 3).reshape(32, 128, -1, 2))
    np.testing.assert_array_equal(parts_from_rows(chunk.data), parts)
    substreams = found.channel.reshape(8, -1)[0] // o.substream_channels
    np.testing.assert_array_equal(maker.substreams, substreams)


SHIPPED = """
[observation]
sync_time = "2026-03-20T20:00:00Z"
[array]
location = {{ latitude = "0 deg", longitude = "0 deg", height = "0 m" }}
antennas = [{antennas}]
[band]
sample_rate = "500 MHz"
lo = "100 MHz"
[fengine]
packets = "{name}"
channels = {channels}
[xengine]
integration = "1 s"
channels_per_substream = {share}
"""


@pytest.mark.parametrize(
    ("name", "channels", "share", "heads"),
    [
        ("hera_snap", 6144, 384, [(a, 384) for a in range(0, 12, 3)]),
        ("ata_v1", 4096, 512, [(a, c) for a in range(12) for c in (512, 768)]),
        ("paper_psa128", 1024, 64, [(f, 1) for f in range(3)]),
    ],
)
def test_streams_of_shipped_formats(name, channels, share, heads):
    """The second X-engine's packets of twelve dual-polarization antennas, by antenna, channel, F-engine and X-engine."""
    antennas = ", ".join(f'{{ name = "A{a}", enu = ["{a} m", "0 m", "0 m"] }}' for a in range(12))
    o = parse(SHIPPED.format(name=name, channels=channels, share=share, antennas=antennas))
    made = PacketMap(o, [1])
    plan = made.plan
    assert plan.heads == heads and made.first_channel == share and plan.span % o.batch_spectra == 0
    assert plan.compiled()


def quiet():
    return Console(file=io.StringIO(), width=200)


def test_nothing_found(tmp_path, rng):
    o = observation(tmp_path, rng)
    path = tmp_path / "other.pcap"
    with path.open("wb") as file:
        PcapWriter(file).write(0, b"x" * 100, "10.0.0.1", 8511)
    with pytest.raises(ConfigError, match="1 are malformed and 0 foreign"):
        correlate_files(o, [path], tmp_path, quiet())


def test_summing_is_exact(rng):
    """Sums of what came, in stretches of their own length since sync, however the parts begin; gaps stay gaps."""
    for phase in (0, 17):
        summing, given = Summing(400), []
        parts = [
            Integration(
                phase + 100 * n,
                100,
                0,
                rng.integers(-(2**60), 2**60, (3, 4, 2)),
                rng.integers(0, 101, (1, 4), np.uint32),
            )
            for n in (2, 3, 4, 6, 7, 13, 14)
        ]
        copies = [(p.visibilities.copy(), p.counts.copy()) for p in parts]
        for part in parts:
            given += (whole for (whole,) in summing.push([part]))
        assert [g.first_spectrum for g in given] == [phase, phase + 400]
        given += (whole for (whole,) in summing.flush())
        assert [g.first_spectrum - phase for g in given] == [0, 400, 1200] and {g.spectra for g in given} == {400}
        for whole, of in zip(given, ((0, 2), (2, 5), (5, 7)), strict=True):
            exposures = [parts[i].exposed for i in range(*of)]
            lengths, middles = zip(*((e.spectra, float(e.centre)) for e in exposures), strict=True)
            assert whole.exposed.spectra == sum(lengths)
            assert float(whole.exposed.centre) == pytest.approx(np.average(middles, weights=lengths), rel=1e-12)
        for whole, of in zip(given, ((0, 2), (2, 5), (5, 7)), strict=True):
            np.testing.assert_array_equal(whole.visibilities, sum(v for v, _ in copies[slice(*of)]))
            np.testing.assert_array_equal(whole.counts, sum(c for _, c in copies[slice(*of)]))
    with pytest.raises(ValueError, match="no multiple"):
        list(Summing(150).push([Integration(0, 100, 0, np.zeros((1, 1, 2), np.int64), np.zeros((1, 1), np.uint32))]))


def test_processes_and_recording_agree(tmp_path, rng, steady):
    """Running, and correlating what was recorded, give the same file, and MIRIAD of each product."""
    o = observation(tmp_path, rng, antennas=3, blocks=16, more=SKY)
    assert o.file_spectra == 3 * o.integration_spectra and o.fengine.gain == 1
    record(o, tmp_path / "packets.pcap")
    (offline,) = correlate_files(o, [tmp_path / "packets.pcap"], tmp_path / "offline", quiet())
    deliver(o, offline.file, quiet())

    def body():
        live = run_processes(o, tmp_path / "live", console=quiet())
        with h5py.File(live.file) as a, h5py.File(offline.file) as b:
            for name in ("visdata", "nsamples", "flags"):
                np.testing.assert_array_equal(a["Data"][name], b["Data"][name])
            for name in ("time_array", "uvw_array", "integration_time"):
                np.testing.assert_array_equal(a["Header"][name], b["Header"][name])
            assert live.integrations == offline.integrations == len(b["Header/time_array"]) // 6 >= 10
        return live

    live = steady(body)
    whole = UVData()
    whole.read(str(offline.file))
    assert whole.phase_center_catalog[0]["cat_type"] == "unprojected"
    assert 0.8 < whole.nsample_array[:-6].min() < whole.nsample_array.max() <= 1
    assert live.losses == offline.accounts["capture"]["missing"] > 0
    top = np.abs(whole.data_array).max()
    for product in ("xx", "yy", "xy", "yx"):
        recorded = product.translate(str.maketrans("xy", "yx"))  # x is to the east: what MIRIAD calls y
        part, found = whole.select(polarizations=[recorded], inplace=False), UVData()
        found.read(str(offline.file.with_suffix(f".{product}.mir")))
        for data in (part, found):
            data.conjugate_bls("ant1<ant2")
            data.reorder_blts("time", minor_order="baseline")
        np.testing.assert_allclose(found.data_array, part.data_array, atol=1e-6 * top)
        np.testing.assert_array_equal(found.flag_array, part.flag_array)


OTHERS = {
    "by antenna": {
        "size": {"channel": 8, "antenna": 2, "time": 16, "pol": 2},
        "placement": {"antenna": {"fid": 2}, "channel": {"xid": 8}},
        "bits": 4,
        "code": "twos_complement",
    },
    "offset binary": {
        "size": {"channel": 8, "time": 16, "input": 4},
        "placement": {"input": {"fid": 4}, "channel": {"xid": 8}},
        "bits": 8,
        "code": "offset_binary",
    },
}


@pytest.mark.parametrize("name", list(OTHERS))
def test_other_formats(tmp_path, rng, name):
    """Packets of a simulated array, in formats unlike PAPER's, give the file that comes without any packets."""
    other = OTHERS[name]
    o = observation(tmp_path, rng, antennas=4, mapped=name == "offset binary", more=SKY.replace("0.05", "0"))
    text = description(
        word("mcnt"), other["size"], other["placement"], bits=other["bits"], code=other["code"], first="imag"
    )
    (tmp_path / "format.toml").write_text(text)
    file = tmp_path / "observation.toml"
    file.write_text(file.read_text().replace("output_bits = 4", f"output_bits = {other['bits']}"))
    o = load(file)
    assert o.packets.swapped and o.packets.bits == other["bits"]
    record(o, tmp_path / "packets.pcap")
    (packets,) = correlate_files(o, [tmp_path / "packets.pcap"], tmp_path / "packets", quiet())
    own = run_in_process(o, tmp_path / "own", quiet())
    with h5py.File(packets.file) as a, h5py.File(own.file) as b:
        whole = slice(0, (packets.integrations - 1) * o.baselines)  # the last has spectra of which samples are missing
        assert packets.integrations > 1
        for dataset in ("visdata", "nsamples"):
            np.testing.assert_array_equal(a["Data"][dataset][whole], b["Data"][dataset][whole])
        assert np.abs(a["Data/visdata"][whole]).min() > 0


def test_catcher_takes_others_visibilities(tmp_path):
    """`ryle engine catcher` listens for CASPER's packets, and writes what came when it is told to end."""
    text = f"""
[observation]
sync_time = "2026-03-20T20:00:00Z"
[array]
location = {{ latitude = "-30.7215 deg", longitude = "21.4284 deg", height = "1051 m" }}
antennas = [{{ name = "A", enu = ["0 m", "0 m", "0 m"] }}, {{ name = "B", enu = ["9 m", "0 m", "0 m"] }}]
[band]
sample_rate = "1 MHz"
nyquist_zone = 2
[fengine]
channels = 16
[xengine]
integration = "0.131072 s"
channels_per_substream = 8
[catcher]
packets = "casper"
stamp_samples = 32
stamp_offset = 0
[network]
visibilities = "127.0.0.1:{free_ports(1)}"
"""
    file = tmp_path / "casper.toml"
    file.write_text(text)
    o = load(file)
    command = [sys.executable, "-m", "ryle", "engine", "catcher", str(file), "--output", str(tmp_path), "--supervised"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as catcher:
        for line in catcher.stdout:
            if json.loads(line).get("state") == "ready":
                catcher.stdin.write("go\n")
                catcher.stdin.flush()
            if json.loads(line).get("state") == "listening":
                break
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            for dump in range(3):
                for engine in range(2):
                    words = 0x32 << 48 | 4 << 32 | engine, 0x33 << 48 | 768 << 24, 3 << 48 | 4096 * dump, 5 << 48
                    values = np.full(192, 256.0 * 4096 * (dump + 1), "<f4").tobytes()
                    packet = struct.pack(">4H4Q", 0x4B52, 3, 0, 4, *words) + values
                    sender.sendto(packet, ("127.0.0.1", o.network.visibilities.port))
        last = json.loads(catcher.communicate("drain\n", timeout=60)[0].splitlines()[-1])
    assert catcher.returncode == 0 and last["integrations"] == 3 and last["account"]["placed"] == 6
    with h5py.File(tmp_path / "observation.uvh5") as found:
        values = found["Data/visdata"][()].reshape(3, -1)
        np.testing.assert_array_equal(np.abs(values.real), np.arange(1, 4)[:, None] * np.ones_like(values.real))
        assert found["Data/nsamples"][()].min() == 1
