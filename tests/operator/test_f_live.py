"""An F-engine in real time: it is never behind, though it sends what it makes; and antennas may be apart."""

import signal
import socket
import time

from x_heaps import spead

RATE, SAMPLES, SECONDS = 16_000_000, 4096, 12.0


def packet(head, number):
    immediates = [(1, number & 0xFFFFFF), (2, SAMPLES), (3, 0), (4, SAMPLES)]
    noise = bytes((i * i * 31 + head * 7) >> 3 & 0xFF for i in range(SAMPLES))
    return spead([*immediates, (0x1600, number * SAMPLES), (0x3101, head), (0x3102, 0)], [(0x3300, 0)], noise)


def test_an_f_engine_keeps_up(observation, ryle, steady):
    """Two polarizations of 16 MS/s for 12 s: all is placed, and all is channelized when the last packet has come."""
    path, ports = observation(duration=None, rate=RATE, channels=1024, spectra=1024, speed="1.0")
    text = path.read_text().replace("heap_samples = 1024", f"heap_samples = {SAMPLES}").replace("2048 B", "8192 B")
    path.write_text(text[: text.index("[simulate]")])
    made = [packet(head, 0) for head in range(2)]
    at = made[0].index((0x8000 | 0x1600).to_bytes(2, "big")) + 2
    total = int(SECONDS * RATE / SAMPLES)

    def body():
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as there, socket.socket(type=socket.SOCK_DGRAM) as out:
            there.bind(("127.0.0.1", ports["spectra"]))  # somebody who takes spectra, and drops them
            process = ryle("engine", "f", path)
            process.wait_ready()
            begin = time.monotonic()
            for number in range(1000, 1000 + total):
                while (left := begin + (number - 1000) * SAMPLES / RATE - time.monotonic()) > 0:
                    time.sleep(left)
                stamp = (number * SAMPLES).to_bytes(6, "big")
                for head in range(2):
                    out.sendto(made[head][:at] + stamp + made[head][at + 6 :], ("127.0.0.1", ports["digitizers"]))
            time.sleep(1.0)  # packets may wait for others for the skew, and statuses come twice a second
            behind = (1000 + total) * SAMPLES / RATE - process.statuses[-1]["position"]
            process.signal(signal.SIGTERM)
            assert process.end(60) == 0, process.said
        account = process.statuses[-1]["account"]
        assert account["placed"] == account["datagrams"] == 2 * total and account["missing"] == 0, account
        assert behind < 0.4, f"{behind:.2f} s behind {process.statuses[-1]}"

    steady(body)
