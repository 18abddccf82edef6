"""Captures that the receivers before and after the one assembler were given, made from a seed; nothing of Ryle's is used.

Of each kind (digitizer heaps, F-heaps, X-heaps, dumps of CASPER's X-engines) there is a whole one and, of the same
packets, one with losses, with repeated packets, out of order, with packets damaged, with some far too late, and with
all senders started again at an earlier time.
"""

import hashlib
import struct

import numpy as np

KINDS = "digitizer", "f", "x", "casper"
CASES = "whole", "loss", "duplicates", "disorder", "damage", "late", "restart"

RATE, CHANNELS, SUB, PER_HEAP, ANTENNAS, POLS = 8e6, 64, 32, 64, 2, 2
STEP, PRODUCTS = 2 * CHANNELS, 12
SAMPLES, PACKET, SPECTRA = 1024, 2048, 128  # of a digitizer heap, bytes of others' packets, of an integration
ENGINES, STAMP = 4, 16  # CASPER's, and samples of which they count
F_PACKETS = SUB * PER_HEAP * POLS * 2 // PACKET

# `sends`, which observations before had not, is put where @ stands.
TEXT = f"""
observation = {{ name = "old", sync_time = "2026-03-20T20:00:00Z" }}
band = {{ sample_rate = "8 MHz" }}
digitizer = {{ heap_samples = {SAMPLES} }}
fengine = {{ channels = {CHANNELS}, taps = 4, spectra_per_heap = {PER_HEAP}@ }}
xengine = {{ integration = "{SPECTRA * STEP / RATE} s", channels_per_substream = {SUB} }}
[array]
location = {{ latitude = "0 deg", longitude = "0 deg", height = "0 m" }}
polarizations = ["x", "y"]
antennas = [ {{ name = "A0", enu = ["0 m", "0 m", "0 m"] }}, {{ name = "A1", enu = ["9 m", "0 m", "0 m"] }} ]
[network]
digitizers = "127.0.0.1:PORT0"
spectra = "127.0.0.1:PORT1"
visibilities = "127.0.0.1:PORT2"
packet_size = "{PACKET} B"
receive_buffer = "16 MiB"
"""
CASPER = TEXT.replace(f"channels_per_substream = {SUB}", f"channels_per_substream = {CHANNELS // ENGINES}").replace(
    "[array]", f'[catcher]\npackets = "casper"\npacket_payload = {PACKET}\nstamp_samples = {STAMP}\n[array]'
) + "".join(
    f'[[inputs]]\nstream = {n}\nantenna = "A{n // 2}"\npolarization = "{"xy"[n % 2]}"\n' for n in range(ANTENNAS * POLS)
)


def spead(immediates, arrays, payload):
    words = [1 << 63 | i << 48 | v for i, v in immediates] + [i << 48 | at for i, at in arrays]
    return struct.pack(f">BBBBHH{len(words)}Q", 0x53, 4, 2, 6, 0, len(words), *words) + payload


def heap(number, body, size, items, arrays):
    """Packets of a SPEAD heap, all of which repeat its items."""
    for at in range(0, len(body), size):
        part = body[at : at + size]
        yield spead([(1, number), (2, len(body)), (3, at), (4, len(part)), *items], arrays, part)


def digitizer(rng, first, times):
    """Heaps of antenna 0's two polarizations."""
    for n in range(first, first + times):
        for stream in range(POLS):
            body = rng.bytes(SAMPLES * 10 // 8)
            items = [(0x1600, n * SAMPLES), (0x3101, stream), (0x3102, 0)]
            yield from heap(n * POLS + stream, body, len(body), items, [(0x3300, 0)])


def f(rng, first, times):
    """F-heaps of substream 1, some of them with validity behind the spectra."""
    for n in range(first, first + times):
        for antenna in range(ANTENNAS):
            body = rng.bytes(F_PACKETS * PACKET)
            items = [(0x1600, n * PER_HEAP * STEP), (0x4101, antenna), (0x4103, SUB)]
            arrays = [(0x4300, 0)]
            made = heap(n * ANTENNAS + antenna, body, PACKET, items, arrays)
            if n % 5 == antenna:
                arrays.append((0x4301, len(body)))
                body += rng.bytes(POLS * PER_HEAP // 8)
                made = heap(n * ANTENNAS + antenna, body, PACKET, items, arrays)
            yield from made


def x(rng, first, times):
    """X-heaps of both substreams."""
    for n in range(first, first + times):
        for substream in range(CHANNELS // SUB):
            sums = rng.integers(-(2**40), 2**40, SUB * PRODUCTS * 2).astype(">i8").tobytes()
            groups = SUB * PER_HEAP * POLS * 2 // PACKET
            body = sums + np.full((groups, PRODUCTS), SPECTRA, ">u4").tobytes()
            items = [(0x1600, n * SPECTRA * STEP), (0x4103, substream * SUB), (0x4104, SPECTRA)]
            arrays = [(0x1801, 0), (0x1802, len(sums))]
            yield from heap(2 * n + substream, body, PACKET, items, arrays)


def casper(rng, first, times):
    """Dumps of all X-engines."""
    size = CHANNELS // ENGINES * PRODUCTS * 8
    for n in range(first, first + times):
        for engine in range(ENGINES):
            body = rng.integers(-(2**20), 2**20, size // 4).astype("<f4").tobytes()
            for at in range(0, size, PACKET):
                part = body[at : at + PACKET]
                stamp = n * SPECTRA * STEP // STAMP
                options = 0x32 << 48 | 4 << 32 | engine, 0x33 << 48 | len(part) << 24, 3 << 48 | stamp, 5 << 48 | at
                yield struct.pack(">4H5Q", 0x4B52, 3, 0, 5, *options, 4 << 48) + part


#: How many times each kind has, and the packets among which order is lost: well within every receiver's window.
TIMES = {"digitizer": 240, "f": 24, "x": 24, "casper": 48}
AMONG = {"digitizer": 12, "f": 12, "x": 7, "casper": 8}


#: Seconds of signal from one time to the next.
SPANS = {
    "digitizer": SAMPLES / RATE,
    "f": PER_HEAP * STEP / RATE,
    "x": SPECTRA * STEP / RATE,
    "casper": SPECTRA * STEP / RATE,
}


def apart(kind):
    """Nanoseconds between packets in real time, about."""
    return round(1e9 * SPANS[kind] * TIMES[kind] / len(capture(kind, "whole")))


def damaged(rng, packet):
    """A packet cut, lengthened, or with header bits turned that no receiver can take for right."""
    how = int(rng.integers(4))
    if how == 0:
        return packet[: int(rng.integers(1, len(packet)))]
    if how == 1:
        return packet + bytes(int(rng.integers(1, 200)))
    if how == 2:
        return bytes([packet[0] ^ 0x80]) + packet[1:]  # the magic number
    return rng.bytes(len(packet))


def capture(kind, case):
    """Give the datagrams of a kind and case, in order of arrival."""
    rng = np.random.default_rng([KINDS.index(kind), 17])
    make, times = globals()[kind], TIMES[kind]
    packets = list(make(rng, 4, times))
    rng = np.random.default_rng([KINDS.index(kind), CASES.index(case)])
    some = rng.random(len(packets)) < 0.05
    some[: len(packets) // 8] = some[-len(packets) // 8 :] = False  # what is first and last expected stays
    if case == "loss":
        return [p for p, lost in zip(packets, some, strict=True) if not lost]
    if case == "duplicates":
        return [p for p, twice in zip(packets, some, strict=True) for _ in range(1 + twice)]
    if case == "disorder":
        order = np.argsort(np.arange(len(packets)) + rng.uniform(0, AMONG[kind], len(packets)))
        return [packets[i] for i in order]
    if case == "damage":
        return [damaged(rng, p) if bad else p for p, bad in zip(packets, some, strict=True)]
    if case == "late":
        held = [p for p, late in zip(packets, some, strict=True) if late]
        return [p for p, late in zip(packets, some, strict=True) if not late] + held
    if case == "restart":
        return list(make(rng, 50_000, times)) + list(make(rng, 10_000, times))
    return packets


def digest(packets):
    """One number for a capture."""
    return hashlib.sha256(b"".join(struct.pack(">I", len(p)) + p for p in packets)).hexdigest()[:16]
