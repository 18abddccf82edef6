"""CASPER X-engines' visibilities, encoded here as PAPER's gateware and GPU code did, become integrations and files."""

import io
import socket
import struct
import time
from fractions import Fraction

import numpy as np
import pytest
from pyuvdata import UVData
from rich.console import Console

from ports import free_ports
from received import dumps
from ryle.config import changed, load
from ryle.correlate import product_inputs
from ryle.engines.offline import correlate
from ryle.receive.assembly import Assembler
from ryle.receive.dumps import DumpMap, baseline_order, dump_products
from ryle.receive.entrance import block_of
from ryle.store.pcap_write import PcapWriter

CHANNELS, ENGINES, SPECTRA = 32, 4, 4096
SCALE = 256


def observation(tmp_path, rng, *, antennas=6, pols=("x", "y"), zone=2):
    wire = rng.permutation(antennas * len(pols))
    inputs = "".join(
        f'[[inputs]]\nstream = {n}\nantenna = "A{i // len(pols)}"\npolarization = "{pols[i % len(pols)]}"\n'
        for i, n in enumerate(wire.tolist())
    )
    places = "\n".join(
        f'  {{ name = "A{a}", enu = ["{50 * a * a} m", "{30 * a} m", "0 m"] }},' for a in range(antennas)
    )
    path = tmp_path / "casper.toml"
    path.write_text(f"""
[observation]
name = "casper"
sync_time = "2026-03-20T20:00:00Z"
[array]
location = {{ latitude = "-30.7215 deg", longitude = "21.4284 deg", height = "1051 m" }}
polarizations = {list(pols)}
mount = "fixed"
antennas = [
{places}
]
[band]
sample_rate = "1 MHz"
nyquist_zone = {zone}
[fengine]
channels = {CHANNELS}
taps = 4
[xengine]
integration = "{SPECTRA * 2 * CHANNELS / 1e6} s"
channels_per_substream = {CHANNELS // ENGINES}
[catcher]
packets = "casper"
packet_payload = 2048
stamp_samples = 16
[network]
visibilities = "127.0.0.1:{free_ports(1)}"
{inputs}
""")
    return load(path)


def casper_index(in0, in1, n):
    """Place of the product of inputs in0 <= in1 of n, as a formula: two triangles and a rectangle between them."""
    a0, a1, p0, p1 = in0 // 2, in1 // 2, in0 % 2, in1 % 2
    half = n // 4
    triangle = (half + 1) * half // 2
    if a1 - a0 > half:
        i, j = half - 2 - a0, n // 2 - 1 - a1
        cell = 4 * triangle - half - 1 - (i * (i + 1) // 2 + j)
    elif a1 < half:
        cell = a1 * (a1 + 1) // 2 + a0
    else:
        cell = triangle + (a1 - half) * (half + 1) + half - (a1 - a0)
    return 4 * cell + 2 * (p0 ^ p1) + p0


@pytest.mark.parametrize("antennas", [2, 4, 6, 10, 64])
def test_order_is_that_of_the_gpu_code(antennas):
    wire = dump_products(antennas, 2)
    place = {(i, j): n for n, (i, j) in enumerate(wire.tolist())}
    assert len(place) == len(wire) == 2 * antennas * (antennas + 1)  # N (N/2 + 1) of N inputs
    for a1 in range(antennas):
        for a0 in range(a1 + 1):
            for p in range(4):
                pair = 2 * a0 + p // 2, 2 * a1 + p % 2
                assert place[pair] == casper_index(*pair, 2 * antennas), pair


def test_order_of_any_number_of_antennas():
    for antennas in range(1, 12):
        pairs = baseline_order(antennas).tolist()
        assert sorted(map(tuple, pairs)) == [(i, j) for i in range(antennas) for j in range(i, antennas)]
    assert baseline_order(4).tolist()[:6] == [[0, 0], [0, 1], [1, 1], [0, 2], [1, 2], [2, 2]]


def packet(engine, stamp, offset, samples, instrument=4, shuffle=False):
    """One packet, written with plain struct."""
    payload = samples.astype("<f4").tobytes()
    options = [
        0x0032 << 48 | instrument << 32 | engine,
        0x0033 << 48 | len(payload) << 24,
        0x0003 << 48 | stamp % (1 << 48),
        0x0005 << 48 | offset,
        0x0004 << 48,
    ]
    if shuffle:
        options = options[::-1]
    return struct.pack(">4H5Q", 0x4B52, 3, 0, 5, *options) + payload


def voltages(rng, o, dumps):
    """Correlations of random noise in the X-engine's inputs: (dump, channel, wire input, wire input), x_i conj(x_j)."""
    shape = dumps, o.fengine.channels, o.n_inputs, 40
    x = rng.integers(-7, 8, shape) + 1j * rng.integers(-7, 8, shape)
    return np.einsum("dcit,dcjt->dcij", x, x.conj())


def packets_of(o, sums, first, size=512):
    """All packets of some dumps: (dump, engine, offset in floats, bytes), dumps in order of time."""
    wire = dump_products(len(o.antennas), o.pols)
    share, unit = o.substream_channels, o.catcher.stamp_samples
    made = []
    for d, of_dump in enumerate(sums):
        stamp = (first + d * SPECTRA + SPECTRA - 1024) * o.step // unit
        for engine in range(o.substreams):
            values = of_dump[engine * share : (engine + 1) * share, wire[:, 0], wire[:, 1]].ravel() * SCALE
            floats = np.stack([values.real, values.imag], -1).ravel()
            for at in range(0, len(floats), size):
                piece = floats[at : at + size]
                made.append((d, engine, at, packet(engine, stamp, 4 * at, piece, shuffle=bool(at % 3))))
    return made


def wanted(o, sums):
    """Sums (dump, channel, product) of the array's inputs."""
    i, j = o.wire_inputs[product_inputs(len(o.antennas), o.pols)].T
    return sums[:, :, i, j]


def assembled(o, packets):
    """Integrations of packets that come one behind the other, and what became of the packets."""
    mapped = DumpMap(o)
    assembler = Assembler(mapped.plan)
    given = []

    def take():
        while (chunk := assembler.next(0.0)) is not None:
            with chunk:
                given.extend(i for (i,) in mapped.given(block_of(chunk, mapped.plan)))

    for p in packets:
        assembler.take([p])
        take()
    assembler.finish()
    take()
    return given, assembler.counts()


@pytest.mark.parametrize(("antennas", "pols"), [(6, ("x", "y")), (5, ("x", "y")), (4, ("x",))])
def test_dumps(tmp_path, rng, antennas, pols):
    """Shuffled inputs, lost and late packets, another instrument's, the 48-bit time's wrap."""
    o = observation(tmp_path, rng, antennas=antennas, pols=pols)
    first = ((1 << 48) * 16 // o.step) - 2 * SPECTRA - 123 * 64  # the time wraps in the third dump
    sums = voltages(rng, o, 4)
    made = packets_of(o, sums, first)
    # An engine is expected from its first packet on, and where a stream ends that loses its last, nobody can know.
    lost = {n for n, (d, _, at, _) in enumerate(made) if rng.random() < 0.1 and (d > 0 or at > 0) and d < 3}
    kept = [p for n, (*_, p) in enumerate(made) if n not in lost]
    nothing = np.zeros(min(512, 2 * o.substream_channels * o.products))
    strange = [
        packet(0, 0, 0, nothing, instrument=3),
        packet(o.substreams, 0, 0, nothing),
        struct.pack(">4HQ", 0x5453, 3, 0, 1, 12345),  # the catcher's time lock: not of the format
        kept[3][:-1],
        kept[3][:30],
        b"",
        packet(0, 1, 0, nothing),  # a time between spectra
        packet(0, made[0][3][24:32] and 1 << 40, 1 << 40, nothing),
    ]
    given, counts = assembled(o, [kept[0], *strange, *kept, kept[0]])
    truth = wanted(o, sums)
    assert [g.first_spectrum for g in given] == [first + d * SPECTRA for d in range(4)]
    there = np.ones((4, o.substreams, o.substream_channels * o.products * 2), bool)
    for n in lost:
        d, engine, at, _ = made[n]
        there[d, engine, at : at + 512] = False
    cells = there[..., ::2].reshape(4, o.fengine.channels, -1)
    wire = dump_products(antennas, len(pols)).tolist()
    place = {tuple(pair): n for n, pair in enumerate(wire)}
    pairs = o.wire_inputs[product_inputs(antennas, len(pols))].tolist()
    at = [place.get((i, j), place.get((j, i))) for i, j in pairs]
    for d, integration in enumerate(given):
        present = cells[d][:, at]
        np.testing.assert_array_equal(integration.counts, present * SPECTRA)
        np.testing.assert_array_equal(integration.visibilities[..., 0], truth[d].real * present)
        np.testing.assert_array_equal(integration.visibilities[..., 1], truth[d].imag * present)
        assert integration.spectra == SPECTRA
    assert counts.missing == len(lost) and counts.placed == len(kept)
    # The last comes when its dump may still be open.
    assert (counts.late + counts.duplicate, counts.foreign, counts.malformed) == (2, 2, 6)


def test_capture_to_file(tmp_path, rng):
    """A saved capture becomes a UVH5 file that pyuvdata reads, unprojected, with true times, signs and weights."""
    o = changed(observation(tmp_path, rng), catcher={"integration": Fraction(2 * SPECTRA * 2 * CHANNELS, 10**6)})
    sums = voltages(rng, o, 5)
    made = packets_of(o, sums, 12 * SPECTRA)
    lost = len(made) // 2
    path = tmp_path / "dump.pcap"
    with path.open("wb") as file:
        writer = PcapWriter(file)
        for n, (*_, p) in enumerate(made):
            if n != lost:
                writer.write(n, p, "10.0.0.9", 7148)
    (result,) = correlate(o, [path], tmp_path, Console(file=io.StringIO()))
    data = UVData()
    data.read(str(result.file))
    assert data.Ntimes == result.integrations == 3 and data.phase_center_catalog[0]["cat_type"] == "unprojected"
    middle = (12 * SPECTRA + SPECTRA + 1.5) * 2 * CHANNELS / 1e6  # s after sync
    sync = 2461120.3333333335  # 2026-03-20T20:00:00Z
    assert data.time_array[0] == pytest.approx(sync + middle / 86400, abs=2e-9)
    dump = SPECTRA * 2 * CHANNELS / 1e6
    times, first = np.unique(data.time_array, return_index=True)
    assert data.integration_time[first] == pytest.approx([2 * dump, 2 * dump, dump])
    assert (times - times[0]) * 86400 == pytest.approx([0, 2 * dump, 3.5 * dump], abs=1e-4)
    assert not data.flag_array[data.time_array == times[2]].any()  # half of it is enough
    truth = wanted(o, sums)
    pairs = product_inputs(6, 2)
    numbers = data.telescope.antenna_numbers
    for n, (i, j) in enumerate(pairs.tolist()):
        a, b, pol = i // 2, j // 2, "xy"[i % 2] + "xy"[j % 2]
        found = data.get_data(numbers[a], numbers[b], pol)
        weight = data.get_nsamples(numbers[a], numbers[b], pol)
        # Second Nyquist zone: channels backwards; the sky's spectrum is the conjugate, and so are rows of the file.
        want = truth[:, ::-1, n]
        np.testing.assert_array_equal(weight[0], 1.0)
        np.testing.assert_allclose(found[0], (want[0] + want[1]) / (2 * SPECTRA), rtol=1e-6)
        full = weight[1] == 1
        np.testing.assert_allclose(found[1][full], ((want[2] + want[3]) / (2 * SPECTRA))[full], rtol=1e-6)
        np.testing.assert_array_equal(weight[2], 1.0)  # of the exposure, which is of one dump
        np.testing.assert_allclose(found[2], want[4] / SPECTRA, rtol=1e-6)
    assert result.accounts["capture"]["missing"] == 1


def moved(packets, samples, engines=range(99)):
    """Packets of some X-engines, so many samples later."""
    out = []
    for d, engine, at, p in packets:
        words = list(struct.unpack_from(">5Q", p, 8))
        for n, word in enumerate(words):
            if word >> 48 == 0x0003 and engine in engines:
                words[n] = word + samples // 16
        out.append((d, engine, at, p[:8] + struct.pack(">5Q", *words) + p[48:]))
    return out


def sent_as(o, sums, firsts):
    """What integrations must be, of the X-engines that began at each of some spectra."""
    truth, share = wanted(o, sums), o.substream_channels
    for d in range(len(sums)):
        for first, engines in firsts.items():
            values, counts = np.zeros(truth.shape[1:], complex), np.zeros(truth.shape[1:], np.uint32)
            for e in engines:
                channels = slice(e * share, (e + 1) * share)
                values[channels], counts[channels] = truth[d, channels], SPECTRA
            yield first + d * SPECTRA, values, counts


def assert_same(given, wanted):
    """Integrations are those, in this order."""
    wanted = list(wanted)
    assert [g.first_spectrum for g in given] == [first for first, _, _ in wanted]
    for found, (_, values, counts) in zip(given, wanted, strict=True):
        np.testing.assert_array_equal(found.counts, counts)
        np.testing.assert_array_equal(found.visibilities @ [1, 1j], values)


def test_x_engines_that_began_at_different_times(tmp_path, rng):
    """Each integration holds what is of its time, and of no other."""
    o = observation(tmp_path, rng)
    sums = voltages(rng, o, 3)
    first, later = 8 * SPECTRA + 100, 900  # not a multiple of an integration since sync
    made = moved(packets_of(o, sums, first), later * o.step, engines=(1, 3))
    given, counts = assembled(o, [p for *_, p in made])
    assert_same(given, sent_as(o, sums, {first: (0, 2), first + later: (1, 3)}))
    assert counts.placed == len(made) and not counts.malformed and not counts.missing


@pytest.mark.parametrize("silent", [True, False])
def test_x_engines_that_begin_again(tmp_path, rng, silent):
    """At other times than before: after a silence all of it is there; without one, from eight packets on."""
    o = changed(observation(tmp_path, rng), catcher={"packet_payload": 256})
    sums = voltages(rng, o, 3)
    first, again = 8 * SPECTRA + 100, 11 * SPECTRA + 1234
    before, after = packets_of(o, sums, first, 64), packets_of(o, sums, again, 64)
    mapped = DumpMap(o)
    assembler, given, now = Assembler(mapped.plan), [], 10**18
    for packets in (before, after):
        for *_, p in packets:
            assembler.take([p], times=now)
            now += 10**5
            if (chunk := assembler.next(0.0)) is not None:
                with chunk:
                    given += (i for (i,) in mapped.given(block_of(chunk, mapped.plan)))
        if silent:
            now += 10**10
    assembler.finish()
    while (chunk := assembler.next(0.0)) is not None:
        with chunk:
            given += (i for (i,) in mapped.given(block_of(chunk, mapped.plan)))
    everything = [*sent_as(o, sums, {first: range(4)}), *sent_as(o, sums, {again: range(4)})]
    counts = assembler.counts()
    if silent:
        assert_same(given, everything)
        assert counts.malformed == 0 and counts.placed == len(before) + len(after)
        return
    assert counts.faults["off_step"] == counts.malformed == 7 * o.substreams
    assert_same(given[:3] + given[4:], everything[:3] + everything[4:])
    broken, (first, values, whole) = given[3], everything[3]
    assert broken.first_spectrum == first and 0 < (broken.counts < whole).sum()
    np.testing.assert_array_equal(broken.visibilities @ [1, 1j], np.where(broken.counts, values, 0))


def test_a_forged_time_costs_nothing(tmp_path, rng):
    """Packets of another time now and then are malformed, and nobody else's data suffers."""
    o = observation(tmp_path, rng)
    sums = voltages(rng, o, 3)
    made = packets_of(o, sums, 8 * SPECTRA)
    forged = [p for *_, p in moved(made, 77 * o.step)]
    packets = [q for n, (*_, p) in enumerate(made) for q in ([p, forged[n]] if n % 3 == 1 else [p])]
    given, counts = assembled(o, packets)
    assert_same(given, sent_as(o, sums, {8 * SPECTRA: range(4)}))
    assert counts.faults["off_step"] == counts.malformed == len(packets) - len(made)


def test_live(tmp_path, rng, steady):
    """By UDP the same comes as out of the packets themselves; what waits at the end is still taken."""
    o = observation(tmp_path, rng)
    packets = [p for *_, p in packets_of(o, voltages(rng, o, 3), 8 * SPECTRA)]
    direct, _ = assembled(o, packets)

    def body():
        with dumps(o, DumpMap(o)) as receiving:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
                for n, p in enumerate(packets):
                    sender.sendto(p, ("127.0.0.1", o.network.visibilities.port))
                    if n % 20 == 0:
                        time.sleep(0.002)
            receiving.settle(o.network.visibilities)
            got = [i for block in receiving.stop() for (i,) in block.given]
            counts = receiving.counts()
        assert counts.placed == len(packets) and counts.missing == 0
        assert [g.first_spectrum for g in got] == [d.first_spectrum for d in direct]
        for a, b in zip(got, direct, strict=True):
            np.testing.assert_array_equal(a.visibilities, b.visibilities)
            np.testing.assert_array_equal(a.counts, b.counts)

    steady(body)
