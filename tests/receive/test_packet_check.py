"""`ryle wire`: captures with known faults, explained."""

import json
import subprocess
import sys

import numpy as np
import pytest

import fresh
from ryle.config.addresses import endpoints
from ryle.receive.packet_check import PacketCheck
from ryle.send.account import account
from ryle.send.sender import Sender
from ryle.send.sending import InjectedFaults, Sending
from ryle.store.pcap_write import PcapWriter
from ryle.wire.build import build
from ryle.wire.description import FORMATS, Format, names
from ryle.wire.packets import Reason


@pytest.fixture
def capture(tmp_path):
    def capture(packets, port=8511):
        path = tmp_path / "some.pcap"
        with PcapWriter(path) as file:
            for i, packet in enumerate(packets):
                file.write(10**18 + i, packet, "10.0.0.1", port)
        return path

    return capture


def paper(mcnt, fid=3, xid=1):
    payload = fresh.rng().bytes(8192)
    return build(Format.load("paper_psa128"), {"mcnt": mcnt % (1 << 48), "fid": fid, "xid": xid}, payload)


def ryle(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "ryle", *map(str, arguments)], capture_output=True, text=True, timeout=120
    )


def test_a_clean_capture_over_the_wrap(capture):
    top = 1 << 48
    path = capture([paper(top + m, fid) for m in range(-5, 5) for fid in (0, 9)])
    found = PacketCheck(Format.load("paper_psa128"), path)
    explained = list(found)
    assert found.clean and not any(p.remarks for p in explained)
    assert [p.timestamp for p in explained[::2]] == [16 * (top + m) for m in range(-5, 5)]
    assert explained[3].fields == {"mcnt": top - 4, "fid": 9, "xid": 1} and explained[3].size == 8200
    assert set(found.streams) == {(0, 1), (9, 1)} and all(s.packets == 10 for s in found.streams.values())


def test_every_fault_is_named_and_counted(capture):
    counts = [100, 101, 104, 103, 104, 105, 99, 107]
    packets = [paper(m) for m in counts]
    packets[5:5] = [packets[0][:-1], b"abc"]
    found = PacketCheck(Format.load("paper_psa128"), capture(packets))
    explained = list(found)
    assert [p.remarks for p in explained] == [
        (),
        (),
        ("gap: 2 missing before it",),
        ("late by 2 packets",),
        ("duplicate",),
        ("must be 8200 bytes long",),
        ("shorter than the header of 8 bytes",),
        (),
        ("earlier than the first of its stream",),
        ("gap: 1 missing before it",),
    ]
    (stream,) = found.streams.values()
    assert (stream.packets, stream.missing, stream.late, stream.duplicate, stream.off) == (8, 2, 2, 1, 0)
    assert found.reasons[Reason.VALID] == 8 and found.reasons[Reason.LENGTH] == found.reasons[Reason.SHORT] == 1
    assert not found.clean
    assert explained[6].fields == {} and explained[6].timestamp is None


@pytest.mark.parametrize("time", range(5))
def test_counts_agree_with_what_was_sent(capture, rng, time):
    """Random loss, repetition and order: every number that was lost is missing, every repeated one a duplicate."""
    sent = [0, *(m for m in range(1, 300) if rng.random() > 0.1), 300]
    repeated = [int(m) for m in rng.choice(sent[1:-1], 20, replace=False)]
    middle = sent[1:-1] + repeated
    order = np.argsort(np.array(middle) + rng.uniform(0, 9, len(middle)))
    format = Format.load("counter_8192")
    path = capture([build(format, {"counter": c}, bytes(8184)) for c in [0, *(middle[i] for i in order), 300]])
    found = PacketCheck(format, path)
    assert len(list(found)) == len(sent) + 20
    (stream,) = found.streams.values()
    assert (stream.missing, stream.duplicate, stream.packets) == (301 - len(sent), 20, len(sent) + 20)


def test_other_ports_do_not_count(tmp_path):
    """Packets to another port, though of the same format, are neither counted nor do they move the clock."""
    top, path = 1 << 48, tmp_path / "two.pcap"
    with PcapWriter(path) as file:
        for i, (mcnt, port) in enumerate([(top - 1, 1), (top // 3, 2), (2 * top // 3, 2), (top, 1)]):
            file.write(10**18 + i, paper(mcnt), "10.0.0.1", port)
    found = PacketCheck(Format.load("paper_psa128"), path, port=1)
    assert [(p.number, p.port, p.timestamp, p.time) for p in found] == [
        (0, 1, 16 * (top - 1), 10**18),
        (3, 1, 16 * top, 10**18 + 3),
    ]
    assert found.clean


def test_timestamps_between_steps(capture):
    format = Format.load("ata_v1")
    path = capture([build(format, {"seq": s}, bytes(8192)) for s in (0, 16, 35, 32)])
    found = PacketCheck(format, path)
    assert [p.remarks for p in found] == [(), (), ("timestamp is 3 off the steps of 16",), ()]
    assert not found.clean


def test_commands(capture, tmp_path):
    listed = ryle("wire", "list")
    assert listed.returncode == 0 and all(name in listed.stdout for name in names())
    for name in names():
        shown = ryle("wire", "show", name) if name == "vdif" else None
        assert shown is None or (shown.returncode == 0 and "seconds" in shown.stdout and "64000000" in shown.stdout)
    good = capture([paper(m) for m in range(40)])
    done = ryle("wire", "check", "paper_psa128", "--pcap", good)
    assert done.returncode == 0 and "40 valid" in done.stdout and "mcnt=19 fid=3" in done.stdout
    assert "mcnt=20 " not in done.stdout
    bad = capture([paper(m) for m in (*range(30), 35)])
    mine = tmp_path / "mine.toml"
    mine.write_text((FORMATS / "paper_psa128.toml").read_text())
    done = ryle("wire", "check", mine, "--pcap", bad, "--packets", "0")
    assert done.returncode == 1 and "gap: 5 missing before it" in done.stdout
    assert ryle("wire", "check", "paper_psa128", "--pcap", bad, "--port", "9").returncode == 1  # nothing there
    mine.write_text(mine.read_text().replace("mcnt = 16", "mcnnt = 16"))
    wrong = ryle("wire", "show", mine)
    assert wrong.returncode == 2 and "did you mean mcnt?" in wrong.stderr and "Traceback" not in wrong.stderr


def test_for_other_programs(capture, rng):
    """What a sender injected into a capture is what the check finds in it."""
    faults = InjectedFaults(loss=0.05, duplicate=0.05, reorder=0.1, truncate=0.05, seed=int(rng.integers(1 << 40)))
    asked = Sending(
        to=endpoints("127.0.0.1:9"), format=Format.load("paper_psa128"), sources=2, packets=400, faults=faults
    )
    sender = Sender(asked)
    (source,) = sender.plan.sources
    packets = []
    while source.due() >= 0:
        packets.append(source.make()[0])
    injected = account(sender)["injected"]
    done = ryle("wire", "check", "paper_psa128", "--pcap", capture(packets), "--json")
    found = json.loads(done.stdout)
    assert done.returncode == 1 and not found["clean"] and found["format"] == "paper_psa128"
    assert found["packets"]["length"] + found["packets"]["short"] == injected["truncated"]
    assert found["packets"]["valid"] == len(packets) - injected["truncated"] and found["capture"]["cut"] == 0
    assert [(s["fid"], s["xid"]) for s in found["streams"]] == [(0, 0), (1, 0)]
    assert sum(s["duplicate"] for s in found["streams"]) == injected["duplicated"]
    held = {(e["stream"], e["packet"]) for e in account(sender)["events"]["list"] if e["what"] in ("lost", "truncated")}
    # what never came, but for runs at a stream's ends, which no capture tells
    ends = sum(k < first or k > last for s, k in held for first, last in [_span(packets, s)])
    assert sum(s["missing"] for s in found["streams"]) == len(held) - ends
    assert found["wrong"]["total"] >= len(found["wrong"]["packets"]) > 0
    shown, listed = json.loads(ryle("wire", "show", "vdif", "--json").stdout), ryle("wire", "list", "--json")
    assert shown["name"] == "vdif" and shown["timestamp"]["step"] == 32000
    assert [f["name"] for f in json.loads(listed.stdout)] == names()


def _span(packets, fid):
    """First and last number of a stream among whole packets, by what was sent first: earlier ones are not missing."""
    numbers = [int.from_bytes(p[:6], "big") for p in packets if len(p) == 8200 and p[6] == fid]
    return numbers[0], max(numbers)
