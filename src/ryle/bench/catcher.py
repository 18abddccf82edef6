"""Catchers beside the disks that they write to: the writer alone, and whole processes fed by packets over loopback.

    python -m ryle.bench.catcher --directory /disk1 [--directory /disk2 ...] [--seconds 20] [--json FILE]

The writer, the writer of sums of which a tenth of the packets were lost, and plain writes of as many bytes take turns,
a process for each directory, all at once; each ends when the disk has all (fsync). Then X-engines' senders, a process
for each substream, send integrations in real time to a catcher for each directory, over UDP on this machine: what is
lost, and how far behind the files are when the last has been sent, says whether they keep up. ``--hold`` has them do so
for longer than a turn, between plain writes that last a while too: a disk may be quick for its first gigabytes alone,
and catchers come after those. ``--keep`` gives the disk back what it has of earlier integrations (and of plain writes),
where it has no room for all. The default is 80 antennas of two polarizations and 8192 channels every 0.5 s (longer if
disks need it): 849 MB of visibilities, which leave X-engines as 1.7 GB of sums.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from ryle.bench.disk_room import DiskRoom, pieces, to_disk
from ryle.bench.engine import free_run
from ryle.bench.harness import Child, quartiles, ratios, say, serve, take_turns
from ryle.bench.network_engine import antennas_on_a_line
from ryle.bench.results import Row, host, save, table, wide_console
from ryle.chunk import Integration
from ryle.config import Observation, parse

_FILE = """
observation = {{name = "caught", sync_time = "2026-03-20T20:00:00Z"}}
band = {{sample_rate = "1712 MHz", lo = "0.856 GHz"}}
network = {{spectra = "127.0.0.1:{spectra}", visibilities = "127.0.0.1:{port}", packet_size = "{packet} B"}}
[fengine]
channels = {channels}
[xengine]
integration = "{integration} s"
channels_per_substream = {share}
[catcher]
directories = {directories}
receive = {{threads = {threads}, buffer = "{buffer} MiB"}}
[array]
name = "line"
location = {{latitude = "-30.7 deg", longitude = "21.4 deg", height = "1000 m"}}
polarizations = ["x", "y"]
antennas = [{names}]
"""
_LOST = 0.1  # of the packets of sums that have losses
_PIECE, _PIECES = 8 << 20, 32  # bytes of a plain write, and how many of them are memory that no cache holds
_AHEAD = 2.0  # s from an order to the first packet
_STILL = 15.0  # s without another integration, after which there will be none
_SETTLE = 120.0  # s that catchers may take to end


def random_piece(o: Observation, substreams: range, first_channel: int = 0) -> Integration:
    """Make sums of noise in the wire's order of bytes, every spectrum of which contributed."""
    rng = np.random.default_rng(substreams.start)
    channels = len(substreams) * o.substream_channels
    some = rng.integers(-(10**9), 10**9, (min(16, channels), o.products, 2))
    sums = np.empty((channels, o.products, 2), ">i8")
    for low in range(0, channels, len(some)):
        sums[low : low + len(some)] = some[: channels - low]
    counts = np.full((len(substreams) * o.groups, o.products), o.integration_spectra, np.uint32)
    return Integration(0, o.integration_spectra, first_channel, sums, counts)


def with_losses(o: Observation, part: Integration) -> Integration:
    """Leave out a tenth of the packets: runs of products of a group of channels, of which nothing is known."""
    counts = part.counts.copy()
    run = max(1, o.network.packet_size // 16 // (part.channels // len(counts)))
    packets = counts.reshape(-1)[: counts.size // run * run].reshape(-1, run)
    packets[np.random.default_rng(1).random(len(packets)) < _LOST] = 0
    return Integration(part.first_spectrum, part.spectra, part.first_channel, part.visibilities, counts)


def _child(text: str, index: int) -> None:
    """Write, plainly or as a catcher does, to one of the directories; or be the sender of a substream."""
    o = parse(text, "caught")

    def plain(asked: dict[str, Any]) -> dict[str, Any]:
        """Write so many bytes, or for so many seconds, as fast as the disk takes them."""
        path = Path(o.catcher.directories[index]) / f".ryle-bench-{os.getpid()}"
        size, seconds = int(asked.get("bytes", 1 << 62)), asked.get("seconds", np.inf)
        random = [np.random.default_rng(n).bytes(_PIECE) for n in range(_PIECES)]
        began, at = time.perf_counter(), 0
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        keep = -(-int(asked.get("keep", 0)) // _PIECE)
        try:
            with DiskRoom(lambda: [path], keep, pieces(_PIECE)) as room:
                while at < size and time.perf_counter() - began < seconds:
                    at += os.pwrite(fd, random[at // _PIECE % _PIECES][: size - at], at)
            given = time.perf_counter() - began
            os.fsync(fd)
            if room.problem is not None:
                raise room.problem
            return {"bytes": at, "given": given, "seconds": time.perf_counter() - began}
        finally:
            os.close(fd)
            path.unlink()

    kept: list[tuple[Integration, Integration]] = []

    def writer(asked: dict[str, Any]) -> dict[str, Any]:
        from ryle.products.observed import metadata
        from ryle.products.uvh5 import UVH5Writer

        mine = o.catcher_substreams(index)
        if not kept:
            whole = random_piece(o, mine)
            kept.append((whole, with_losses(o, whole)))
        part = kept[0][asked.get("lossy", False)]
        path = Path(o.catcher.directories[index]) / f".ryle-bench-{os.getpid()}.uvh5"
        spectra, size = o.integration_spectra, 8 * part.channels * o.products
        try:
            with UVH5Writer(path, metadata(o, mine), overwrite=True) as file:
                file.append(part)  # loads what the first integration loads
                began = time.perf_counter()
                while time.perf_counter() - began < asked["seconds"] or file.integrations < 3:
                    first = file.integrations * spectra
                    file.append(Integration(first, spectra, 0, part.visibilities, part.counts))
                given, count = time.perf_counter() - began, file.integrations - 1
                fd = os.open(path, os.O_RDONLY)
                os.fsync(fd)
                os.close(fd)
                return {"bytes": size * count, "given": given, "seconds": time.perf_counter() - began}
        finally:
            path.unlink(missing_ok=True)

    def send(asked: dict[str, Any]) -> dict[str, Any]:
        from ryle.send.visibilities import VisibilitySender

        part = random_piece(o, range(index, index + 1), index * o.substream_channels)
        late = 0.0
        with VisibilitySender(o, index, rate=1.25 * (part.visibilities.nbytes / o.integration_time)) as sender:
            say({})  # ready
            start = json.loads(sys.stdin.readline())["start"]
            for k in range(asked["integrations"]):
                wait = start + (k + 1) * o.integration_time - time.time()
                time.sleep(max(0.0, wait))
                late = max(late, -wait)
                spectra = o.integration_spectra
                sender.send(Integration(k * spectra, spectra, part.first_channel, part.visibilities, part.counts))
            sender.end()
        return {"late": late}

    serve({"plain": plain, "writer": writer, "send": send})


def _together(children: list[Child], what: str, asked: list[dict[str, Any]]) -> dict[str, Any]:
    """Let all children do the same at once; the slowest says how long it took."""
    for child, each in zip(children, asked, strict=True):
        child.ask(what, **each)
    found = [child.answer() for child in children]
    longest = max(each["seconds"] for each in found)
    return {"each": [f["bytes"] for f in found], "rate": sum(f["bytes"] for f in found) / longest}


def writers(text: str, directories: int, seconds: float, turns: int, console: Console) -> list[Row]:
    """Let writers, writers under loss, and plain writes of as many bytes take turns."""
    with ExitStack() as stack:
        children = [
            stack.enter_context(Child("ryle.bench.catcher", "--child", text, str(i))) for i in range(directories)
        ]
        last: list[int] = []

        def write(lossy: bool) -> float:
            found = _together(children, "writer", [{"seconds": seconds, "lossy": lossy}] * directories)
            last[:] = found["each"]
            return float(found["rate"])

        def plain() -> float:
            return float(_together(children, "plain", [{"bytes": size} for size in last])["rate"])

        work = {"writer": lambda: write(False), "lossy": lambda: write(True), "disk": plain}
        found = take_turns(work, turns)
    value, lossy, base = (statistics.median(found[name]) * 8e-9 for name in ("writer", "lossy", "disk"))
    console.print(
        f"writers to {directories} directories: {value:.2f} Gb/s, with losses {lossy:.2f}, disks alone {base:.2f} Gb/s"
    )

    def row(case: str, value: float, name: str, baseline: str, base: float, than: str) -> Row:
        each = ratios(found[name], found[than])
        return Row(
            case=case,
            value=value,
            unit="Gb/s",
            size={"directories": directories},
            baseline=baseline,
            baseline_value=base,
            ratio=statistics.median(each),
            ratio_spread=quartiles(each),
            least=0.8,
        )

    return [
        row("writer", value, "writer", "plain writes", base, "disk"),
        row("writer, a tenth lost", lossy, "lossy", "writer", value, "writer"),
    ]


def disks(text: str, directories: int, seconds: float, keep: int, console: Console) -> float:
    """Write plainly for a while; give Gb/s."""
    with ExitStack() as stack:
        children = [
            stack.enter_context(Child("ryle.bench.catcher", "--child", text, str(i))) for i in range(directories)
        ]
        rate = 8e-9 * float(_together(children, "plain", [{"seconds": seconds, "keep": keep}] * directories)["rate"])
    console.print(f"disks alone for {seconds:.0f} s: {rate:.2f} Gb/s")
    return rate


class _Catcher:
    """A catcher as a process, by what it says of itself."""

    def __init__(self, file: Path, index: int) -> None:
        command = [sys.executable, "-m", "ryle", "engine", "catcher", str(file), "--index", str(index), "--live"]
        command += ["-o", str(file.parent), "--overwrite"]
        self.status: dict[str, Any] = {}
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            said = json.loads(line)
            if "state" in said:
                self.status = said

    def __enter__(self) -> _Catcher:
        end = time.monotonic() + 120
        while self.status.get("state") not in ("ready", "running"):
            if self.process.poll() is not None or time.monotonic() > end:
                raise RuntimeError("a catcher did not start; see above")
            time.sleep(0.1)
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait(_SETTLE)
        self._reader.join(5)


def processes(text: str, o: Observation, seconds: float, keep: int, console: Console) -> Row:
    """Feed catchers in real time, and see whether they keep up with what is sent."""
    count = max(3, round(seconds / o.integration_time))
    with tempfile.TemporaryDirectory(prefix="ryle-catcher-") as folder, ExitStack() as stack:
        file = Path(folder) / "caught.toml"
        file.write_text(text)
        directories = [Path(d) for d in o.catcher.directories]
        for directory in directories:
            stack.callback(_remove, directory)
        catchers = [stack.enter_context(_Catcher(file, i)) for i in range(o.catchers)]
        senders = [
            stack.enter_context(Child("ryle.bench.catcher", "--child", text, str(i))) for i in range(o.substreams)
        ]
        for sender in senders:
            sender.ask("send", integrations=count)
        for sender in senders:
            sender.answer()
        room = stack.enter_context(DiskRoom(lambda: [f for d in directories for f in _files(d)], keep))
        start = time.time() + _AHEAD
        for sender in senders:
            sender.tell({"start": start})
        late = max(sender.answer()["late"] for sender in senders)
        sent = time.time()
        done, moved = -1, sent
        while done < count - 1 and time.time() < moved + _STILL and all(c.process.poll() is None for c in catchers):
            if (now := min(c.status.get("integrations", 0) for c in catchers)) > done:
                done, moved = now, time.time()
            time.sleep(0.05)
        behind = moved - sent
        flushed = to_disk([f for d in directories for f in _files(d)])
    accounts = [c.status["account"] for c in catchers]
    classes = ("missing", "late", "malformed", "kernel_drops", "ring_full")
    lost = {k: n for k in classes if (n := sum(a.get(k) or 0 for a in accounts))}
    done = min(c.status.get("integrations", 0) for c in catchers)
    rate = _gigabits(o) / o.integration_time
    # Senders that a busy machine makes late send less than they were to: what counts is how long all of it took.
    took = (sent - start + max(0.0, behind + flushed - o.integration_time)) / o.integration_time
    said = f"{done} of {count} integrations written, lost {lost or 'nothing'}, {behind:.2f} s behind at the end"
    console.print(f"{o.catchers} catchers, {rate:.2f} Gb/s offered: {said}; senders at most {late:.2f} s late")
    console.print(f"the disk had all {flushed:.2f} s later; {room.given_back * 1e-9:.1f} GB were given back to it")
    if room.problem is not None:
        console.print(f"[red]{room.problem}[/]")
    return Row(
        case="catchers",
        value=rate * done / took,
        unit="Gb/s of visibilities",
        size={"directories": o.catchers},
        baseline="offered",
        baseline_value=rate,
        ratio=done / took,
        more={
            "offered": rate,
            "lost": lost,
            "behind": behind,
            "late": late,
            "integrations": [done, count],
            "seconds": sent - start,
            "flushed": flushed,
            "given_back_gb": room.given_back * 1e-9,
        },
    )


def beside_disks(row: Row, alone: list[float]) -> Row:
    """Compare what catchers did with what their disks took of plain writes, in Gb/s, instead of with what was sent."""
    base = statistics.mean(alone)
    row = replace(row, ratio=(row.value or 0.0) / base, least=0.8, more=row.more | {"alone": alone})
    return replace(row, baseline="disks alone, before and after", baseline_value=base)


def _gigabits(o: Observation) -> float:
    """Size of an integration of visibilities."""
    return 8e-9 * 8 * o.fengine.channels * o.products


def _files(directory: Path) -> list[Path]:
    return sorted(directory.glob("caught.band*.uvh5"))


def _remove(directory: Path) -> None:
    for path in directory.glob("caught.band*.uvh5*"):
        path.unlink()


def main() -> None:
    """Measure, as the command line asks."""
    if sys.argv[1:2] == ["--child"]:
        return _child(sys.argv[2], int(sys.argv[3]))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--directory", action="append", required=True, help="where to write; several for several disks")
    parser.add_argument("--catchers", type=int, nargs="*", help="how many directories to take; one, and all, if absent")
    parser.add_argument("--seconds", type=float, default=20.0, help="of a turn of the writer, and of packets")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--hold", type=float, help="s of packets, if not a turn's")
    parser.add_argument("--alone", type=float, help="s of plain writes before and after that; a quarter if absent")
    parser.add_argument("--share", type=float, default=0.85, help="of what disks take, to send at most")
    parser.add_argument("--keep", type=int, default=0, help="integrations that stay on the disk; all if absent")
    parser.add_argument("--antennas", type=int, default=80)
    parser.add_argument("--channels", type=int, default=8192)
    parser.add_argument("--integration", type=float, default=0.5, help="s; what sets the rate of packets")
    parser.add_argument("--senders", type=int, default=8, help="substreams, each with a sending process")
    parser.add_argument("--packet", type=int, default=8192, help="bytes of a packet")
    parser.add_argument("--threads", type=int, default=2, help="that receive in a catcher")
    parser.add_argument("--buffer", type=int, default=256, help="MiB of a socket's")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    console, rows = wide_console(), []
    everywhere = [str(Path(d).resolve()) for d in given.directory]
    for count in given.catchers or sorted({1, len(everywhere)}):
        make = partial(
            _FILE.format,
            names=antennas_on_a_line(given.antennas),
            channels=given.channels,
            share=given.channels // given.senders,
            packet=given.packet,
            threads=given.threads,
            buffer=given.buffer,
            directories=json.dumps((everywhere * count)[:count]),
            spectra=free_run(given.senders, 25000),
            port=free_run(count + 1, 25500),
        )
        text = make(integration=given.integration)
        rows += writers(text, count, given.seconds, given.turns, console)
        o, taken = parse(text, "caught"), rows[-2].baseline_value or 0.0
        if given.hold:
            keep = int(given.keep * _gigabits(o) * 1e9 / 8 / count)
            plain = partial(disks, text, count, given.alone or given.hold / 4, keep, console)
            taken = plain()
        least = _gigabits(o) / (given.share * taken)  # to send more than disks take would show nothing
        if least > given.integration:
            text = make(integration=round(least, 6))
            o = parse(text, "caught")
        rows.append(processes(text, o, given.hold or given.seconds, given.keep, console))
        if given.hold:
            save(given.json, host(), rows, console)  # plain writes take long where catchers have filled the disk
            rows[-1] = beside_disks(rows[-1], [taken, plain()])
    for row in rows:
        row.size |= {"antennas": given.antennas, "channels": given.channels}
    console.print(table(rows))
    save(given.json, host(), rows, console)


if __name__ == "__main__":
    main()
