"""Free ports for tests, each given out once in a process; processes of one run (pytest-xdist) have ranges of their own."""

import os
import random
import socket

_worker, _workers = os.environ.get("PYTEST_XDIST_WORKER", "gw0"), os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")
_share = 12000 // int(_workers)
_first = 20000 + int(_worker.removeprefix("gw")) * _share
#: Below those that the kernel takes for senders.
PORTS = range(_first, _first + _share)
_next = random.choice(PORTS)


def free_ports(count):
    """First of `count` neighbouring UDP ports that nobody has and that were not given out before."""
    global _next
    for _ in PORTS:
        base = _next if _next + count <= PORTS.stop else PORTS.start
        _next = base + count
        try:
            for port in range(base, base + count):
                with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
                    s.bind(("127.0.0.1", port))
        except OSError:
            continue
        return base
    raise OSError("no free ports")
