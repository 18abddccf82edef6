# SPDX-License-Identifier: BSD-3-Clause
"""Writes the frames that rx_vectors.sv replays, with what must become of each (rx_model)."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from rx_frames import Case, Frames
from rx_model import Settings, decide

ROW = 128
#: Numbers of verdicts in hdl/rtl/rx_pkg.sv.
VERDICTS = """drop_mac drop_ip drop_port drop_ip_checksum drop_udp_checksum drop_length drop_fragment drop_other drop_vlan
rx_bad_mac cpu app echo igmp_queries rx_pause""".split()


def _rows(data: bytes) -> bytes:
    """Whole rows, each with its last byte first, as $fread fills a vector."""
    data += bytes(-len(data) % ROW)
    return b"".join(data[at : at + ROW][::-1] for at in range(0, len(data), ROW))


def _settings(count: int, s: Settings) -> bytes:
    flags = s.promiscuous | s.accept_vlan << 1 | s.cpu_ports << 2 | s.answer_ping << 3 | s.igmp << 4
    row = struct.pack("<IIQIIIIHHI", count, 0, s.mac, 0, 0, 0, 0, 0, 0, 0)[:16]
    row += struct.pack("<IIIIHHI", s.ip, s.netmask, s.group, s.group_mask, s.port, s.port_mask, flags)
    return _rows(row.ljust(ROW, b"\0"))


def write(path: Path, cases: Iterable[Case], settings: Settings) -> Counter[str]:
    """Write a file of vectors; return how many frames get which verdict."""
    verdicts: Counter[str] = Counter()
    with open(path.with_suffix(".part"), "wb") as file:
        file.write(bytes(ROW))
        for c in cases:
            o = decide(c.frame, c.bad, settings)
            assert c.expect in (None, o.verdict), (
                f"{c.kind}: made to be {c.expect}, the model says {o.verdict}: {c.frame.hex()}"
            )
            side = o.sideband or dict.fromkeys(("src_ip", "src_port", "dst_ip", "dst_port"), 0)
            fields = struct.pack("<HHBBH", len(c.frame), len(o.payload), VERDICTS.index(o.verdict), c.bad, 0)
            fields += struct.pack("<IHHIH", side["src_ip"], side["src_port"], 0, side["dst_ip"], side["dst_port"])
            file.write(_rows(fields.ljust(ROW, b"\0")) + _rows(c.frame) + _rows(o.payload))
            verdicts[o.verdict] += 1
        file.seek(0)
        file.write(_settings(verdicts.total(), settings))
    path.with_suffix(".part").rename(path)
    return verdicts


def of_sizes(make: Frames, sizes: Iterable[int], also: Iterable[int]) -> Iterator[Case]:
    """Give a good frame of each size, and of sizes that are in `also` one of a further kind, which take turns."""
    kinds = sorted(make.kinds)
    also = set(also)
    for n, size in enumerate(sizes):
        yield make.kind_good(size)
        if size in also:
            yield make.kinds[kinds[n % len(kinds)]](size)
