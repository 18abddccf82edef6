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
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console

from ryle.bench.results import commit
from ryle.bench.traffic import Account, Second, Setting, Traffic

OUT = Console(stderr=True)
GROWTH = 2.0  # MB by which a process may seem to grow


def report(account: Account, setting: Setting, began: float) -> dict[str, Any]:
    """Sum up, with the seconds in which something happened."""
    looks = account.looks
    lost = [i for i, s in enumerate(looks) if s.missing]
    stolen = [i for i, s in enumerate(looks) if s.stolen > 0]
    near = {j for i in stolen for j in (i, i + 1)}
    unexplained = [i for i in lost if i not in near]
    settled = looks[min(60, len(looks) // 4)]
    growth = [b - a for a, b in zip(settled.rss, looks[-1].rss, strict=True)]
    passed = {
        "every packet counted": account.uncounted == 0,
        "no loss but when the host took processor time": not unexplained,
        "memory flat": max(growth) < GROWTH,
    }
    total = {k: v for k, v in asdict(account).items() if k != "looks"} | {"uncounted": account.uncounted}
    return {
        "passed": passed,
        "began": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(began)),
        "commit": commit(),
        "cores": os.cpu_count(),
        "load": os.getloadavg(),
        "setting": asdict(setting),
        "total": total,
        "loss": 1 - account.placed / account.sent,
        "seconds": len(looks),
        "seconds_with_stolen_time": len(stolen),
        "seconds_with_loss": len(lost),
        "seconds_with_unexplained_loss": len(unexplained),
        "lost_in_unexplained": sum(looks[i].missing for i in unexplained),
        "most_wait_for_a_core_in_a_second": max(s.waited for s in looks),
        "memory_mb": {"settled": settled.rss, "end": looks[-1].rss, "most": list(map(max, zip(*(s.rss for s in looks), strict=True)))},
        "losses": [asdict(looks[i]) | {"explained": i in near} for i in lost],
        "every_minute": [asdict(s) for s in looks[59::60]],
    }  # fmt: skip


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--gbps", type=float, default=17.0, help="of packets; a quarter of the highest lossless rate")
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
    began, missing = time.time(), 0

    def say(second: Second) -> None:
        nonlocal missing
        missing += second.missing
        line = (
            f"{second.at:6.0f} of {60 * given.minutes:.0f} s · {second.gbps:.2f} Gb/s · missing {missing} "
            f"(+{second.missing}) · stolen {second.stolen:.2f} s · waited for a core {1e3 * second.waited:.2f} ms · "
            f"ring {second.ring_fill:.0%} · memory {' '.join(f'{n:.1f}' for n in second.rss)} MB"
        )
        if OUT.is_terminal or second.missing or round(second.at) % 10 == 0:
            OUT.print(line, highlight=False, soft_wrap=True)

    with Traffic(setting) as traffic:
        account = traffic.run(given.gbps, 60 * given.minutes, say)
    found = report(account, setting, began)
    for what, passed in found["passed"].items():
        OUT.print(f"{'yes' if passed else '[bold red]NO[/]'}: {what}")
    OUT.print(
        f"sent {account.sent}, placed {account.placed}, missing {account.missing}, of these {account.classes}, "
        f"uncounted {account.uncounted}; {found['seconds_with_loss']} seconds with loss, "
        f"{found['seconds_with_stolen_time']} with stolen time",
        highlight=False,
        soft_wrap=True,
    )
    if given.json:
        given.json.write_text(json.dumps(found, indent=1) + "\n")
    return 0 if all(found["passed"].values()) else 1


if __name__ == "__main__":
    sys.exit(main())
