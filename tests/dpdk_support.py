"""What the tests of DPDK share: packets of one format, and one environment a process."""

import itertools

import numpy as np
import pytest

from ryle.receive import dpdk
from ryle.receive.assembly import grid
from ryle.wire.build import build
from ryle.wire.description import Format

FORMAT = Format.load("alma_like")
PORT = 17100
PATH = dpdk.Path(target_port=PORT)
BYTES = 8192
HEADER = PATH.headers(FORMAT.header.bytes + BYTES) + build(FORMAT, {}, bytes(BYTES))[:-BYTES]
_number = itertools.count()

needs_dpdk = pytest.mark.skipif(dpdk.dpdk_problem() is not None, reason=str(dpdk.dpdk_problem()))


def started():
    """DPDK, without huge pages: tests must run anywhere."""
    dpdk.start(dpdk.DpdkConfig(huge_pages="no", memory=256 << 20))


def unique(driver):
    """A device name that no other test has used."""
    return f"{driver}{next(_number)}"


def streams(antennas):
    """What an assembler expects: one polarization and band of so many antennas."""
    return grid(FORMAT, antenna=range(antennas), pol=0, band=0)


def packet(antenna, number, payload):
    """The UDP payload of a packet."""
    return build(FORMAT, {"antenna": antenna, "timestamp": number * BYTES}, payload)


def stamps(antennas):
    """Let made packets go round the antennas."""
    return [
        dpdk.counting(FORMAT, "antenna", modulo=antennas),
        dpdk.counting(FORMAT, "timestamp", step=BYTES, every=antennas),
    ]


def random_payloads(rng, *shape):
    return rng.integers(0, 256, (*shape, BYTES), np.uint8)


def until(condition, seconds=60.0):
    """Wait until the condition holds."""
    import time

    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError("it did not come to that")
        time.sleep(0.01)
