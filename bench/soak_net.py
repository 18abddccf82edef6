"""Send and receive for long at a share of what the machine takes, and find every lost packet: ``make soak-net``.

    python bench/soak_net.py --gbps 17 --minutes 30 --json bench/results/soak_lo.json

One sender and one capture, each a process with real-time priority (as ``chrt -f`` gives it; root) and its packet thread
on a core of its own, over loopback. Every second the counters, the steal counter of /proc/stat, the processes' memory
and how long their packet threads had to wait for a core are looked at. It passes if every packet that was sent was
placed or counted as missing, nothing was lost but in seconds in which the host took processor time away (or the second
after), and no process uses more memory at the end than after the first minute.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

from rich.console import Console

from ryle.bench.results import commit
from ryle.bench.soak import in_words, line, summary
from ryle.bench.traffic import Traffic
from ryle.bench.traffic_account import Second, Setting

OUT = Console(stderr=True, highlight=False, soft_wrap=True)


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument(
        "--gbps", type=float, default=17.0, help="of packets; a quarter of the highest lossless rate"
    )
    arguments.add_argument("--minutes", type=float, default=30.0)
    arguments.add_argument("--priority", type=int, default=20, help="real-time priority; 0: none")
    arguments.add_argument("--cores", type=int, nargs=2, default=(0, 1), help="of the sender, of the receiver")
    arguments.add_argument("--buffer", type=int, default=256, help="MiB of socket buffer")
    arguments.add_argument("--json", type=Path)
    given = arguments.parse_args()
    setting = Setting(
        send_cores=given.cores[:1],
        receive_cores=given.cores[1:],
        priority=given.priority,
        linger=1.0,
        spare=14,
        buffer=given.buffer << 20,
    )
    about = {
        "began": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "commit": commit(),
        "cores": os.cpu_count(),
        "load": os.getloadavg(),
    }
    missing, length = 0, 60 * given.minutes

    def say(second: Second) -> None:
        nonlocal missing
        missing += second.missing
        if OUT.is_terminal or second.missing or round(second.at) % 10 == 0:
            OUT.print(line(second, length, missing))

    with Traffic(setting) as traffic:
        found = about | summary(traffic.run(given.gbps, length, say), setting)
    OUT.print("\n".join(in_words(found)))
    if given.json:
        given.json.write_text(json.dumps(found, indent=1) + "\n")
    return 0 if all(found["passed"].values()) else 1


if __name__ == "__main__":
    sys.exit(main())
