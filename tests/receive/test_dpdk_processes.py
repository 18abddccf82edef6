"""Two processes over shared memory (net_memif), and what they leave when killed: nothing."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from dpdk_support import BYTES, FORMAT, PORT, needs_dpdk, started, streams, unique, until
from ryle.receive import dpdk
from ryle.receive.assembly import Assembler, Plan

pytestmark = needs_dpdk
ANTENNAS = 2
# What the other process sends: packet n of antenna a is filled with bytes of a generator seeded by both.
SENDER = """
import sys, time
import numpy as np
from dpdk_support import BYTES, HEADER, PATH, packet, stamps, started
from ryle.receive import dpdk
from ryle.send.dpdk import Generator
name, socket, first, count = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
started()
pool = dpdk.Pool(2048)
device = dpdk.Device(f"{name},role=client,id=0,socket-abstract=yes,socket=@{socket},bsize=9216,rsize=10", [pool])
device.begin()
while not device.up:
    time.sleep(0.005)
print("up", flush=True)
if count:
    for n in range(first, first + count):
        for a in range(2):
            payload = np.random.default_rng([a, n]).integers(0, 256, BYTES, np.uint8).tobytes()
            while not device.send([PATH.frame(packet(a, n, payload))], pool):
                time.sleep(0.001)
    print("sent", flush=True)
    while device.up:
        time.sleep(0.01)
else:
    with Generator(device, pool, HEADER, stamps(2), BYTES, rate=20_000, wait=False):
        time.sleep(60)
"""
RECEIVER = """
import sys, time
from dpdk_support import FORMAT, PORT, started, streams
from ryle.receive import dpdk
from ryle.send.dpdk import Generator
from ryle.receive.assembly import Assembler, Plan
name, socket = sys.argv[1:3]
started()
assembler = Assembler(Plan(FORMAT, streams(2), 64, pointers=True, linger=0.2))
pool = dpdk.Pool(4096, memory="host", payload_at=56)
device = dpdk.Device(f"{name},role=server,id=0,socket-abstract=yes,socket=@{socket},bsize=9216,rsize=10", [pool])
with dpdk.DpdkSource(assembler, device, [PORT]) as source:
    print("ready", flush=True)
    up = False
    while True:
        if device.up != up:
            up = device.up
            print("up" if up else "down", flush=True)
        if (chunk := assembler.next(0.1)) is not None:
            chunk.release()
            print("chunk", flush=True)
"""


@pytest.fixture(scope="module", autouse=True)
def environment():
    started()


@pytest.fixture
def run():
    """Start a program in another process, which ends with the test."""
    running = []

    def start(program, *arguments):
        tests = str(Path(__file__).parents[1])
        environment = {**os.environ, "PYTHONPATH": tests, "PYTHONUNBUFFERED": "1"}
        process = subprocess.Popen(
            [sys.executable, "-c", program, *map(str, arguments)], stdout=subprocess.PIPE, text=True, env=environment
        )
        running.append(process)
        return process

    yield start
    for process in running:
        process.kill()
        process.wait()
        process.stdout.close()


def said(process, word):
    """Wait until the process says so."""
    for line in process.stdout:
        if line.strip() == word:
            return
    raise AssertionError(f"the process ended, with exit status {process.wait()}, without {word!r}")


def device(socket, pool):
    name = unique("net_memif")
    arguments = f"role=server,id=0,socket-abstract=yes,socket=@{socket},bsize=9216,rsize=10"
    return dpdk.Device(f"{name},{arguments}", [pool])


def left_behind():
    """Files in the places where DPDK and shared memory leave some."""
    found = set()
    for place in ("/var/run/dpdk", "/dev/shm", "/dev/hugepages", "/tmp/dpdk"):
        for directory, directories, files in os.walk(place):  # passes over what vanishes meanwhile
            found |= {os.path.join(directory, name) for name in (*directories, *files)}
    # Those of Python's tempfile are other tests'.
    return {path for path in found if not path.startswith("/dev/shm/tmp")}


def nothing_is_left(files, pages):
    """Whether there is no more than there was: other tests' own files and pages come, and go again."""
    return left_behind() <= files and huge_pages() <= pages


def huge_pages():
    """Huge pages in use."""
    words = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    return int(words["HugePages_Total"]) - int(words["HugePages_Free"])


@pytest.mark.parametrize("pointers", [False, True], ids=["1-copy", "0-copy"])
def test_every_byte_comes_over(run, pointers):
    import ctypes

    count, first = 48, 5
    plan = Plan(FORMAT, streams(ANTENNAS), 16, chunks=8, pointers=pointers, linger=0.0)
    assembler = Assembler(plan)
    pool = dpdk.Pool(2048, memory="host", payload_at=56)
    socket = f"ryle-{os.getpid()}-{int(pointers)}"
    port = device(socket, pool)
    with dpdk.DpdkSource(assembler, port, [PORT]) as source:
        sender = run(SENDER, "net_memif0", socket, first, count)
        said(sender, "sent")
        until(lambda: source.counts()[0].packets == ANTENNAS * count)
    assembler.finish()
    seen = 0
    for chunk in assembler:
        for a, i in np.argwhere(chunk.present):
            n = chunk.timestamp // BYTES + int(i)
            wanted = np.random.default_rng([a, n]).integers(0, 256, BYTES, np.uint8).tobytes()
            got = ctypes.string_at(int(chunk.addresses[a, i]), BYTES) if pointers else chunk.data[a, i].tobytes()
            assert got == wanted
            seen += 1
    c = assembler.counts()
    assert seen == c.placed == ANTENNAS * count and c.missing == c.duplicate == c.malformed == 0
    assert pool.available == pool.buffers


def test_what_came_before_the_start_is_dropped_and_counted(run):
    assembler = Assembler(Plan(FORMAT, streams(ANTENNAS), 16, chunks=8, linger=0.0))
    socket = f"ryle-{os.getpid()}-d"
    port = device(socket, dpdk.Pool(2048))
    port.begin()
    sender = run(SENDER, "net_memif0", socket, 0, 24)
    said(sender, "sent")
    with dpdk.DpdkSource(assembler, port, [PORT]) as source:
        until(lambda: source.reports()[0].discarded == 24 * ANTENNAS)
        assert source.counts()[0].packets == assembler.counts().datagrams == 0


def test_a_killed_sender_leaves_nothing_and_the_next_one_connects(run):
    files, pages = left_behind(), huge_pages()
    plan = Plan(FORMAT, streams(ANTENNAS), 16, chunks=8, pointers=True, linger=0.1)
    assembler = Assembler(plan)
    pool = dpdk.Pool(2048, memory="host", payload_at=56)
    socket = f"ryle-{os.getpid()}-k"
    port = device(socket, pool)
    with dpdk.DpdkSource(assembler, port, [PORT]) as source:
        for turn in range(2):
            sender = run(SENDER, "net_memif0", socket, 24 * turn, 24)
            said(sender, "sent")
            until(lambda n=48 * (turn + 1), s=source: s.counts()[0].packets == n)
            sender.send_signal(signal.SIGKILL)
            sender.wait()
            until(lambda: not port.up)
            while (chunk := assembler.next(0.3)) is not None:
                chunk.release()
        until(lambda: source.waiting == 0)
    assembler.finish()
    for chunk in assembler:
        chunk.release()
    assert assembler.counts().placed == 96
    assert pool.available == pool.buffers
    until(lambda: nothing_is_left(files, pages))


def test_senders_killed_while_packets_fly_cost_the_receiver_nothing_else(run):
    """Its driver unmaps what a burst may be reading, and does so only between two bursts."""
    socket = f"ryle-{os.getpid()}-f"
    receiver = run(RECEIVER, "net_memif0", socket)
    said(receiver, "ready")
    for _ in range(4):
        sender = run(SENDER, "net_memif0", socket, 0, 0)
        for word in ("up", "chunk"):
            said(receiver, word)
        sender.send_signal(signal.SIGKILL)
        said(receiver, "down")
    assert receiver.poll() is None


@pytest.mark.parametrize("first", ["receiver", "sender"])
def test_killed_while_packets_fly_both_leave_nothing(run, first):
    files, pages = left_behind(), huge_pages()
    socket = f"ryle-{os.getpid()}-{first}"
    processes = {"receiver": run(RECEIVER, "net_memif0", socket)}
    said(processes["receiver"], "ready")
    processes["sender"] = run(SENDER, "net_memif0", socket, 0, 0)
    said(processes["sender"], "up")
    said(processes["receiver"], "chunk")
    for name in (first, "sender" if first == "receiver" else "receiver"):
        processes[name].send_signal(signal.SIGKILL)
        processes[name].wait()
    until(lambda: nothing_is_left(files, pages))


def test_a_program_that_ends_without_stopping_ends(run):
    """Threads that still receive do not hold up or break the end of their process."""
    program = RECEIVER.replace("with dpdk.DpdkSource(assembler, device, [PORT]) as source:", "if True:").replace(
        'print("ready", flush=True)', "source = dpdk.DpdkSource(assembler, device, [PORT]); source.start()"
    )
    ending = program[: program.index("    while True:")] + "    print('ready', flush=True)\n"
    process = run(ending, "net_memif0", f"ryle-{os.getpid()}-e")
    said(process, "ready")
    assert process.wait(60) == 0
