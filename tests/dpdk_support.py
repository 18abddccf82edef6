"""What the tests of DPDK share: a format, made packets of it, and one environment a process."""

import itertools

import numpy as np
import pytest

from ryle.net import dpdk
from ryle.wire.description import Format

FORMAT = Format.parse(
    """
title = "Raw digitizer packets"
source = "tests: 42 + 14 header bytes and 8192 of samples, as in the 1.2 Tb/s correlator"
[header]
bytes = 14
[[header.field]]
name = "antenna"
byte = 0
bytes = 2
means = "antenna"
[[header.field]]
name = "time"
byte = 2
bytes = 8
means = "samples since sync"
[payload]
order = ["time"]
size = { time = 8192 }
[sample]
bits = 8
complex = false
code = "twos_complement"
[timestamp]
unit = "samples"
count = { time = 1 }
step = 8192
stream = ["antenna"]
[placement]
antenna = { antenna = 1 }
""",
    "raw8192",
)
PORT = 17100
PATH = dpdk.Path(target_port=PORT)
BYTES = 8192
HEADER = PATH.headers(14 + BYTES) + bytes(14)
_number = itertools.count()

needs_dpdk = pytest.mark.skipif(dpdk.dpdk_problem() is not None, reason=str(dpdk.dpdk_problem()))


def started():
    """DPDK, without huge pages: tests must run anywhere."""
    dpdk.start(dpdk.DpdkConfig(huge_pages="no", memory=256 << 20))


def unique(driver):
    """A device name that no other test has used."""
    return f"{driver}{next(_number)}"


def packet(antenna, number, payload):
    """The UDP payload of a packet."""
    return antenna.to_bytes(2, "big") + (number * BYTES).to_bytes(8, "big") + bytes(4) + payload


def stamps(antennas):
    """Let made packets go round the antennas."""
    return [
        dpdk.counting(FORMAT, "antenna", modulo=antennas),
        dpdk.counting(FORMAT, "time", step=BYTES, every=antennas),
    ]


def random_payloads(rng, *shape):
    return rng.integers(0, 256, (*shape, BYTES), np.uint8)


def until(condition, seconds=20.0):
    """Wait until the condition holds."""
    import time

    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError("it did not come to that")
        time.sleep(0.01)
