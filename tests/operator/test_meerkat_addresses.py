"""An array that sends as MeerKAT's does today: each polarization to eight multicast groups, a heap to each in turn."""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import spead2
import spead2.send

from ports import free_ports

HEAP_SAMPLES, BITS, GROUPS = 4096, 10, 8
OBSERVATION = """
[observation]
sync_time = "2026-03-20T20:00:00Z"
[array]
location = {{ latitude = "-30.7 deg", longitude = "21.4 deg", height = "1050 m" }}
{antennas}
[band]
sample_rate = "4 MHz"
[fengine]
channels = 256
taps = 4
spectra_per_heap = 64
[xengine]
integration = "0.1 s"
[network]
spectra = "127.0.0.1:{spectra}"
visibilities = "127.0.0.1:{visibilities}"
receive_buffer = "4 MiB"
"""


@pytest.fixture
def groups():
    """Addresses of 16 groups that no other test uses, as they are written, and one by one."""
    base, port = f"239.77.{os.getpid() % 256}", free_ports(1)
    written = [f"{base}.64+7:{port}", f"{base}.72+7:{port}"]
    return written, [(f"{base}.{64 + i}", port) for i in range(2 * GROUPS)]


def send(groups, heaps, pace):
    """Send heaps of both polarizations with spead2, as katgpucbf's digitizer simulator spreads them."""
    flavour = spead2.Flavour(4, 64, 48)
    config = spead2.send.StreamConfig(max_packet_size=9000, max_heaps=64, rate=pace, burst_size=8192)
    stream = spead2.send.UdpStream(spead2.ThreadPool(), groups, config, ttl=1, interface_address="127.0.0.1")
    payload = np.random.default_rng().integers(0, 256, HEAP_SAMPLES * BITS // 8, np.uint8)
    for number in range(heaps):
        for pol in range(2):
            heap = spead2.send.Heap(flavour)
            heap.repeat_pointers = True
            for item, value in ((0x1600, number * HEAP_SAMPLES), (0x3101, pol), (0x3102, 0)):
                heap.add_item(spead2.Item(item, "", "", shape=(), format=[("u", 48)], value=value))
            heap.add_item(spead2.Item(0x3300, "", "", shape=payload.shape, dtype=payload.dtype, value=payload))
            stream.send_heap(heap, substream_index=pol * GROUPS + number % GROUPS)
    del stream


@pytest.mark.parametrize(
    "form",
    [
        pytest.param("antenna file", marks=pytest.mark.long),
        "antenna table",
        pytest.param("inputs", marks=pytest.mark.long),
    ],
)
def test_all_groups_of_both_polarizations_are_received(form, groups, tmp_path, steady):
    (x, y), ends = groups
    table = 'antennas = [{ name = "m000", enu = ["0 m", "0 m", "0 m"]%s }]'
    antennas = {
        "antenna file": 'antenna_file = "antennas.txt"',
        "antenna table": table % f', digitizers = ["{x}", "{y}"]',
        "inputs": table % "",
    }[form]
    text = OBSERVATION.format(antennas=antennas, spectra=free_ports(1), visibilities=free_ports(1))
    if form == "inputs":
        for stream, (pol, where) in enumerate((("x", x), ("y", y))):
            text += f'[[inputs]]\nstream = {stream}\nantenna = "m000"\npolarization = "{pol}"\ndigitizers = "{where}"\n'
    (tmp_path / "antennas.txt").write_text(f"m000 0 0 0 {x} {y}\n")
    file = tmp_path / "array.toml"
    file.write_text(text)

    def body():
        heaps = 400
        process = subprocess.Popen(
            [sys.executable, "-m", "ryle", "engine", "f", str(file)], stdout=subprocess.PIPE, text=True
        )
        lines = queue.Queue()

        def read():
            for line in process.stdout:
                lines.put(json.loads(line))

        reader = threading.Thread(target=read)
        reader.start()
        try:
            wait(lines, lambda line: line.get("state") == "ready")
            send(ends, heaps, 20e6)
            time.sleep(0.5)
            process.send_signal(signal.SIGTERM)
            process.wait(60)
        finally:
            process.kill()
            process.wait()
            reader.join()
        last = [line for line in lines.queue if "account" in line][-1]
        assert last["received"] == 2 * heaps, last
        assert last["account"]["missing"] == last["account"]["late"] == 0, last

    steady(body)


def wait(lines, condition, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition(lines.get(timeout=seconds)):
            return
    raise AssertionError("nothing happened")


def test_simulated_digitizers_spread_their_packets_in_the_same_way(groups, tmp_path):
    """`ryle simulate --pcap` says where each packet goes: packet n of an input to group n modulo 8."""
    (x, y), ends = groups
    antennas = f'antennas = [{{ name = "m000", enu = ["0 m", "0 m", "0 m"], digitizers = ["{x}", "{y}"] }}]'
    file = tmp_path / "array.toml"
    text = OBSERVATION.format(antennas=antennas, spectra=free_ports(1), visibilities=free_ports(1))
    file.write_text(text.replace("[array]", 'duration = "0.1 s"\n[array]') + "[simulate]\n")
    capture = tmp_path / "sent.pcap"
    subprocess.run(
        [sys.executable, "-m", "ryle", "simulate", str(file), "--pcap", str(capture)], check=True, capture_output=True
    )
    raw, at, seen = capture.read_bytes(), 24, []
    while at < len(raw):  # Ethernet, IPv4, UDP, SPEAD with 8 items
        length = int.from_bytes(raw[at + 8 : at + 12], "little")
        ip = raw[at + 16 : at + 16 + length][14:]
        spead = ip[28:]
        items = dict(
            (int.from_bytes(spead[i : i + 2], "big") & 0x7FFF, int.from_bytes(spead[i + 2 : i + 8], "big"))
            for i in range(8, 8 + 8 * spead[7], 8)
        )
        seen.append((".".join(map(str, ip[16:20])), items[0x3101], items[0x1600] // HEAP_SAMPLES))
        at += 16 + length
    assert len(seen) > 100
    assert all(host == ends[pol * GROUPS + number % GROUPS][0] for host, pol, number in seen)
