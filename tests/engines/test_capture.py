"""``ryle capture`` as people run it: equal to what `ryle send` injected, and whole however it ends."""

import json
import signal
import subprocess
import sys
import time
from contextlib import suppress

import pytest

from ryle.config.endpoints import Endpoint
from ryle.monitor.page import clean_pages, read_pages
from ryle.receive.pcap import PcapFile
from ryle.send.account import account
from ryle.send.sender import Sender
from ryle.send.sending import InjectedFaults, Sending
from ryle.store.chunk_file import ChunkFile
from ryle.store.ring_file import RingReader
from ryle.store.verify import Filling, PayloadRule, Verified, verify
from ryle.wire.description import Format
from ryle.wire.packets import Parser

FORMAT = Format.load("paper_psa128")
STREAMS = ("--stream", "fid=0-3", "--stream", "xid=0")


@pytest.fixture(autouse=True)
def directory(tmp_path, monkeypatch):
    pages = tmp_path / "pages"
    pages.mkdir()
    monkeypatch.setenv("RYLE_STATUS_DIR", str(pages))
    return pages


class Running:
    """A capture process."""

    def __init__(self, port, tmp_path, *options, streams=STREAMS, prefix=(), format=FORMAT.name):
        self.port, self.json = port, tmp_path / "figures.jsonl"
        command = [sys.executable, "-m", "ryle", "capture", format, "--at", f"127.0.0.1:{port}", *streams]
        self.process = subprocess.Popen(
            [*prefix, *command, "--chunk", "32", "--buffer", "16", "--json", str(self.json), *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def wait_until(self, condition, patience=60):
        deadline = time.monotonic() + patience
        while not condition():
            assert self.process.poll() is None, self.process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def ready(self):
        self.wait_until(lambda: self.page().get("state") == "waiting")
        return self

    def page(self):
        return next((p.values for p in read_pages("capture")), {})

    def figures(self):
        return [json.loads(line) for line in self.json.read_text().splitlines()]

    def end(self, status=0):
        out, err = self.process.communicate(timeout=60)
        assert self.process.returncode == status, (out, err)
        return out, err

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        with suppress(ValueError):
            self.process.communicate()


@pytest.fixture
def start(tmp_path, ports):
    started = []

    def begin(*options, **settings):
        started.append(Running(ports(1), tmp_path, *options, **settings))
        return started[-1]

    yield begin
    for running in started:
        running.close()


def sending(port, **settings):
    to = [Endpoint(host="127.0.0.1", port=port)]
    given = {"sources": 4, "gbps": 0.25, "seed": 1, "format": FORMAT, "to": to}
    return Sending(**(given | settings))


def send(port, **settings):
    """Send to the end; what a receiver should have found."""
    with Sender(sending(port, **settings)) as sender:
        sender.start()
        sender.join()
        return account(sender)


# Without turned header bits: such packets are placed where others belong, and only --verify can tell.
FAULTS = {
    "loss": InjectedFaults(loss=0.03, duplicate=0.02, seed=5),
    "all": InjectedFaults(loss=0.01, duplicate=0.01, reorder=0.02, truncate=0.02, foreign=0.02, seed=6),
}


@pytest.mark.parametrize("faults", FAULTS)
def test_counters_equal_what_was_injected(start, steady, faults):
    """Every class, and every payload byte; the last JSON line, the page and the words say it."""

    def body():
        running = start("--warm-up", "0", "--idle", "1", "--verify").ready()
        expected = send(running.port, packets=1500, faults=FAULTS[faults])["expect"]
        out, _ = running.end()
        last = running.figures()[-1]
        account = last["account"]
        assert last["state"] == "done" and account["kernel_drops"] == 0
        assert {k: account[k] for k in ("datagrams", "placed", "duplicate", "malformed", "foreign")} == {
            k: expected[k] for k in ("datagrams", "placed", "duplicate", "malformed", "foreign")
        }
        assert account["late"] == 0
        # What is lost after a stream's last packet nobody can see.
        assert expected["missing"] - 8 <= account["missing"] <= expected["missing"] > 10
        assert account["expected"] == account["placed"] + account["missing"]
        assert (last["verified"]["packets"], last["verified"]["wrong_packets"]) == (account["placed"], 0)
        assert last["first_loss"] and "first loss" in out
        assert f"missing {account['missing']} " in out.splitlines()[-1] and last["warm_up"] is None
        assert read_pages() == []

    steady(body)


def test_wrong_payloads_end_with_status_1(start, steady):
    def body():
        running = start("--warm-up", "0", "--idle", "1", "--verify", "--seed", "2").ready()
        send(running.port, packets=100)
        running.end(1)
        assert running.figures()[-1]["verified"]["wrong_packets"] == 400

    steady(body)


def test_streams_are_found_and_the_warm_up_is_left_out(start, steady):
    """Without --stream a second is listened first; without --warm-up 0 another is not counted, and said."""

    def body():
        running = start("--seconds", "1.5", "--warm-up", "0.5", streams=())
        with Sender(sending(running.port, gbps=0.1, seconds=60)) as sender:
            sender.start()
            out, err = running.end()
        assert "4 streams: fid=0 xid=0; fid=1 xid=0; fid=2 xid=0; fid=3 xid=0" in err
        last = running.figures()[-1]
        assert last["warm_up"]["seconds"] >= 0.5 and last["warm_up"]["packets"] > 0
        assert "warm-up of 0." in out.splitlines()[-1]
        rate = last["packets"] / last["elapsed"]
        assert 0.5 < rate / (0.1e9 / 8 / 8200) < 1.5 and 1.4 < last["elapsed"] < 4
        assert last["account"]["missing"] == 0 and last["mean"]["payload_gbps"] < last["mean"]["wire_gbps"]
        states = [f["state"] for f in running.figures()]
        assert [s for i, s in enumerate(states) if s not in states[:i]] == [
            "waiting",
            "warming up",
            "running",
            "draining",
            "done",
        ]

    steady(body)


def whole(chunks):
    """Every byte of every chunk is what was sent."""
    found = Verified()
    for file in chunks:
        layout = file.layout
        streams = PayloadRule.of(_plan_of(layout), Filling.RANDOM, 1)
        for chunk in file:
            verify(streams, chunk, found)
            assert chunk.placed == chunk.present.sum()
    assert found.wrong_packets == 0
    return found.packets


def _plan_of(layout):
    from ryle.receive.assembly import Plan

    return Plan(FORMAT, layout.heads, layout.packets)


def test_an_orderly_end(start, tmp_path, rng):
    """Ctrl-C or SIGTERM: status 0, all that was placed is in the files."""
    number = rng.choice([signal.SIGINT, signal.SIGTERM])
    running = start("--warm-up", "0", "--to", "chunks", "--files", str(tmp_path / "c")).ready()
    with Sender(sending(running.port, gbps=0.1, seconds=60)) as sender:
        sender.start()
        running.wait_until(lambda: running.page().get("chunks", 0) > 3)
        running.process.send_signal(number)
        running.end()
    files = [ChunkFile(p) for p in sorted(tmp_path.glob("*.chunks"))]
    assert whole(files) == running.figures()[-1]["account"]["placed"] > 0
    assert all(f.damaged == 0 for f in files) and read_pages() == []


@pytest.mark.parametrize("to", ["chunks", "pcap"])
def test_killed_at_any_moment(start, tmp_path, directory, rng, to):
    """Files open with whole chunks or packets; the page is known to be dead; its ring can be read; nothing is locked."""
    options = ("--warm-up", "0", "--to", to, "--files", str(tmp_path / "k"), "--file-bytes", "2e6")
    running = start(*options).ready()
    with Sender(sending(running.port, gbps=0.3, seconds=60)) as sender:
        sender.start()
        running.wait_until(lambda: running.page().get("disk", {}).get("files", 0) > 2)
        time.sleep(float(rng.uniform(0, 0.3)))
        running.process.kill()
        running.process.wait()
        (page,) = read_pages()
        assert not page.alive and page.values["state"] == "running"
        reader = RingReader(page.path / "ring")
        for chunk in reader.chunks():
            assert chunk.data.shape == reader.layout.shape
        again = start(*options).ready()  # takes the name, with the dead one's page and ring
        assert [(p.name, p.owner.pid) for p in read_pages()] == [("capture", again.process.pid)]
        again.process.kill()
        again.process.wait()
    assert clean_pages() == ["capture"] and list(directory.iterdir()) == []
    paths = sorted(tmp_path.glob("k-*"))
    if to == "chunks":
        assert whole([ChunkFile(p) for p in paths if p.stat().st_size >= 4096]) > 0
    else:
        count = 0
        for path in paths:
            if path.stat().st_size >= 24:
                parsed = Parser(FORMAT).parse([bytes(d.payload) for d in PcapFile(path)])
                assert parsed.valid.all()
                count += len(parsed.valid)
        assert count > 0


def test_a_sender_that_is_killed(start, tmp_path):
    """The capture says what came and ends when it was told to end without packets."""
    running = start("--warm-up", "0", "--idle", "5").ready()
    command = [sys.executable, "-m", "ryle", "send", FORMAT.name, "--to", f"127.0.0.1:{running.port}", "--quiet"]
    sender = subprocess.Popen([*command, "--sources", "4", "--gbps", "0.1"])
    running.wait_until(lambda: running.page().get("chunks", 0) > 0)
    sender.kill()
    sender.wait()
    running.end()
    last = running.figures()[-1]
    assert last["state"] == "done" and last["account"]["placed"] > 0


def test_a_full_disk(start, tmp_path):
    """An error that names the file; what it holds is whole; its page says that it failed."""
    limit = 1_500_000
    options = ("--warm-up", "0", "--to", "chunks", "--files", str(tmp_path / "full"))
    # The limit is set on the process once its ring is made, which lies in a file too.
    running = start(*options).ready()
    subprocess.run(["prlimit", "--pid", str(running.process.pid), f"--fsize={limit}"], check=True)
    with Sender(sending(running.port, gbps=0.2, seconds=60)) as sender:
        sender.start()
        _, err = running.end(1)
    assert "full-000000.chunks takes no more: " in " ".join(err.split())
    (path,) = tmp_path.glob("*.chunks")
    assert path.stat().st_size <= limit and whole([ChunkFile(path)]) > 0
    assert running.figures()[-1]["state"] == "failed"
    (page,) = read_pages()
    assert not page.alive and page.values["state"] == "failed"
    assert [path.name for path in page.path.iterdir()] == ["status.json"]  # the ring's memory is given back


def test_controls_and_dumps_of_a_running_capture(start, tmp_path, steady):
    """Verification is turned on, blocks are copied out, another process reads along: nothing is lost by it."""

    def ryle(*arguments):
        ended = subprocess.run([sys.executable, "-m", "ryle", *arguments], capture_output=True, text=True, timeout=60)
        return ended.returncode, ended.stdout + ended.stderr

    def body():
        running = start("--warm-up", "0", "--idle", "2", "--to", "shm").ready()
        with Sender(sending(running.port, gbps=0.1, seconds=60)) as sender:
            sender.start()
            running.wait_until(lambda: running.page().get("chunks", 0) > 2)
            assert ryle("status", "set", "verify", "on") == (0, "capture: verify = True\n")
            status, said = ryle("status", "set", "verify", "2")
            assert status == 2 and "allowed is true or false" in said
            status, said = ryle("status", "dump", "newest", str(tmp_path / "one.chunks"))
            assert status == 0, said
            follower = RingReader(next(iter(read_pages())).path / "ring").follow()
            numbers = [next(follower).number for _ in range(5)]
            assert numbers == list(range(numbers[0], numbers[0] + 5))
            running.wait_until(lambda: running.page()["verified"]["packets"] > 0)
            sender.stop()
            sender.join()
            running.end()
        account = running.figures()[-1]["account"]
        assert account["missing"] == account["ring_full"] == account["kernel_drops"] == 0
        file = ChunkFile(tmp_path / "one.chunks")
        assert len(file) == 1 and whole([file]) == 128

    steady(body)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--to", "chunks"), "say where with --files"),
        (("--stream", "fud=1"), "fields of paper_psa128: fid or xid"),
        (("--stream", "fid=1"), "give values of xid too"),
        (("--stream", "fid=1", "--stream", "xid=1", "--chunks", "2"), "give 6 or more"),
        (("--stream", "fid=1", "--stream", "xid=1", "--chunk", "1", "--window", "500"), "or a longer --chunk than 1"),
    ],
)
def test_what_cannot_be(options, said, monkeypatch, capsys):
    from ryle import cli

    monkeypatch.setattr(sys, "argv", ["ryle", "capture", FORMAT.name, "--at", "127.0.0.1:1", *options])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2 and said in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("heard", [True, pytest.param(False, marks=pytest.mark.long)])
def test_heaps_of_several_packets(start, tmp_path, steady, heard):
    """`ryle send` and `ryle capture` agree on F-heaps, packet by packet, and every byte is verified and stored."""
    format = Format.load("meerkat_f:channels=16,spectra=128,step=1048576")  # heaps of 8192 bytes
    name, size = "meerkat_f:channels=16,spectra=128,step=1048576", 72 + 3000
    streams = () if heard else ("--stream", "feng_id=0-2", "--stream", "frequency=0", "--part", "3000")

    def body():
        files = tmp_path / f"heaps-{time.monotonic_ns()}"
        options = ("--warm-up", "0", "--idle", "2", "--verify", "--seed", "3", "--to", "chunks", "--files", str(files))
        running = start(*options, streams=streams, format=name)
        settings = {"format": format, "size": size, "sources": 3, "seed": 3, "gbps": None, "pps": 2000.0}
        if heard:
            with Sender(sending(running.port, **settings, seconds=60)) as sender:
                sender.start()
                running.wait_until(lambda: running.page().get("chunks", 0) > 2)
        else:
            running.ready()
            faults = InjectedFaults(loss=0.03, duplicate=0.02, reorder=0.02, truncate=0.02, seed=4)
            expected = send(running.port, **settings, packets=1200, faults=faults)["expect"]
        _, err = running.end()
        last = running.figures()[-1]
        account = last["account"]
        assert (last["verified"]["packets"], last["verified"]["wrong_packets"]) == (account["placed"], 0)
        if heard:
            assert "3 streams: feng_id=0 frequency=0" in err and account["placed"] > 500
            # Of three packets in a heap of 8192 bytes; validity, which nobody sent, is not one of them.
            payload = last["mean"]["payload_gbps"] * last["elapsed"] / 8e-9
            assert payload == pytest.approx(account["placed"] * 8192 / 3, rel=0.02)
        else:
            assert {k: account[k] for k in ("datagrams", "placed", "duplicate", "malformed", "foreign")} == {
                k: expected[k] for k in ("datagrams", "placed", "duplicate", "malformed", "foreign")
            }
            assert account["late"] == 0 and expected["missing"] - 8 <= account["missing"] <= expected["missing"]
        stored = [chunk for path in sorted(tmp_path.glob(f"{files.name}-*.chunks")) for chunk in ChunkFile(path)]
        assert sum(chunk.placed for chunk in stored) == account["placed"]
        assert stored[0].present.shape == (3, 32, 3) and stored[0].data.shape == (3, 32, 8192)

    steady(body)
