"""What the receivers before the one assembler made of the captures of `old_captures`: writes ``old_receivers.json``.

It is run once, with a checkout of commit 2c96e5f installed, whose receivers of heaps are built on spead2::

    python tests/old_receivers.py path/to/old_receivers.json

A result is the account and, in the order in which they were given, the cells in which anything came: a line for each
time, with the CRC-32 of each stream's payload, or of what is valid of it.
"""

import json
import socket
import sys
import tempfile
import threading
import time
import zlib
from pathlib import Path

import numpy as np

import old_captures as old

_CLASSES = "datagrams", "placed", "late", "duplicate", "malformed", "foreign", "expected", "missing"


def crc(there, data):
    """Eight digits of an array's bytes, or dashes."""
    return f"{zlib.crc32(np.ascontiguousarray(data).tobytes()):08x}" if there else "-" * 8


def of_samples(timestamp, present, data):
    """Lines of samples: present [input][packet], data [input][packet][bytes]."""
    for p in np.flatnonzero(present.any(axis=0)).tolist():
        cells = [crc(present[i, p], data[i, p]) for i in range(len(present))]
        yield " ".join([str(timestamp + p * old.SAMPLES), *cells])


def of_spectra(first_block, data, valid):
    """Lines of K-blocks: data [channel][block][input][value], valid [group][block][input]; a cell is an input's."""
    each = old.SUB // len(valid)
    for b in range(valid.shape[1]):
        cells = []
        for i in range(valid.shape[2]):
            bits = np.unpackbits(valid[:, b, i].copy().view(np.uint8).reshape(-1, 8), axis=1, bitorder="little") == 1
            values = data[:, b, i].reshape(len(valid), each, 64, 2) * bits[:, np.newaxis, :, np.newaxis]
            cells.append(crc(bits.any(), np.concatenate([bits.ravel().view(np.int8), values.ravel()])))
        if any(cell[0] != "-" for cell in cells):
            yield " ".join([str(first_block + b), *cells])


def of_sums(first, first_channel, sums, counts, share):
    """Lines of an integration: its substreams, of `share` channels each, of which every packet came."""
    groups = len(counts) * share // len(sums)
    for s in range(len(sums) // share):
        if (counts[s * groups : (s + 1) * groups] == old.SPECTRA).all():
            values = np.asarray(sums[s * share : (s + 1) * share], np.float64)
            yield f"{first} {first_channel + s * share} {crc(True, values)}"


def of_account(account):
    """Its counts, without those that are unknown."""
    return {name: getattr(account, name) for name in _CLASSES if getattr(account, name) is not None}


def _heard(receiver, port, packets, lines):
    """Send packets to a receiver's socket, slowly, and give the lines of what it gives."""
    found = []
    thread = threading.Thread(target=lambda: found.extend(line for one in receiver for line in lines(one)))
    thread.start()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        for packet in packets:
            s.sendto(packet, ("127.0.0.1", port))
            time.sleep(0.0002)
    time.sleep(0.5)
    assert receiver.dropped_by_kernel == 0
    receiver.stop()
    thread.join(60)
    assert receiver.ended
    return {"account": of_account(receiver.account()), "lines": found}


def _old(kind, packets):
    from ryle.net.casper import DumpCapture
    from ryle.net.digitizer import DigitizerReceiver
    from ryle.net.pcap_write import PcapWriter
    from ryle.net.spectra import SpectraReceiver
    from ryle.net.visibilities import VisibilityReceiver

    from ryle.config import parse

    ports = []
    for _ in range(3):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.bind(("127.0.0.1", 0))
            ports.append(s.getsockname()[1])
    text = (old.CASPER if kind == "casper" else old.TEXT).replace("@", "")
    text = text.replace(f"packet_payload = {old.PACKET}\n", "")  # a key that came later
    for i, port in enumerate(ports):
        text = text.replace(f"PORT{i}", str(port - (i == 1)))  # substream 1 is received
    o = parse(text, "old")
    if kind == "digitizer":
        receiver = DigitizerReceiver(o, [0], chunk_packets=16)
        return _heard(receiver, ports[0], packets, lambda c: of_samples(c.timestamp, c.present == 1, c.data))
    if kind == "f":
        receiver = SpectraReceiver(o, 1, batches=2)
        return _heard(receiver, ports[1], packets, lambda c: of_spectra(c.first_block, c.data, c.valid))
    if kind == "x":
        receiver = VisibilityReceiver(o)
        return _heard(
            receiver,
            ports[2],
            packets,
            lambda c: of_sums(c.first_spectrum, c.first_channel, c.visibilities, c.counts, old.SUB),
        )
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "capture.pcap"
        with PcapWriter(file) as writer:
            for n, packet in enumerate(packets):
                writer.write(n, packet, "192.0.2.1", 7148)
        capture = DumpCapture(o, str(file))
        share = old.CHANNELS // old.ENGINES
        lines = [line for c in capture for line in of_sums(c.first_spectrum, 0, c.visibilities, c.counts, share)]
        return {"account": of_account(capture.account()), "lines": lines}


def main():
    """Run every case and write what came of it."""
    found = {}
    for kind in old.KINDS:
        for case in old.CASES:
            packets = old.capture(kind, case)
            found[f"{kind} {case}"] = {"capture": old.digest(packets), **_old(kind, packets)}
            print(kind, case, len(packets), found[f"{kind} {case}"]["account"], len(found[f"{kind} {case}"]["lines"]))
    Path(sys.argv[1]).write_text(json.dumps(found, indent=0) + "\n")


if __name__ == "__main__":
    main()
