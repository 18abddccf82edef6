"""Send and receive for long at a share of what the machine takes, find every lost packet, and whom to blame for it.

    python -m ryle.bench.soak --gbps 17 --minutes 30 --json bench/results/soak_lo.json

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

from ryle.bench.traffic import Traffic
from ryle.bench.traffic_account import Account, Second, Setting
from ryle.version import commit

GROWTH = 2.0  # MB by which a process may seem to grow
_SETTLED = 60  # s after which memory is to stay as it is


def summary(account: Account, setting: Setting) -> dict[str, Any]:
    """Sum up, with the seconds in which something was lost.

    A loss is laid to the host if the steal counter moved in that second or in the one before, as a packet is known to
    be missing only when its chunk closes.
    """
    looks = account.looks
    lost = [i for i, s in enumerate(looks) if s.missing]
    stolen = [i for i, s in enumerate(looks) if s.stolen > 0]
    near = {j for i in stolen for j in (i, i + 1)}
    unexplained = [i for i in lost if i not in near]
    settled = looks[min(_SETTLED, len(looks) // 4)]
    growth = [b - a for a, b in zip(settled.rss, looks[-1].rss, strict=True)]
    verified = account.verified
    passed = {
        "every packet counted": account.uncounted == 0,
        "no loss but when the host took processor time": not unexplained,
        "memory flat": max(growth) < GROWTH,
    }
    if verified:
        passed["every byte right"] = verified["wrong_packets"] == 0 and verified["packets"] == account.placed
    return {
        "passed": passed,
        "setting": asdict(setting),
        "total": {k: v for k, v in asdict(account).items() if k != "looks"} | {"uncounted": account.uncounted},
        "loss": 1 - account.placed / account.sent,
        "seconds": len(looks),
        "seconds_with_stolen_time": len(stolen),
        "seconds_with_loss": len(lost),
        "seconds_with_unexplained_loss": len(unexplained),
        "lost_in_unexplained": sum(looks[i].missing for i in unexplained),
        "most_wait_for_a_core_in_a_second": max(s.waited for s in looks),
        "memory_mb": {
            "settled": settled.rss,
            "end": looks[-1].rss,
            "most": [max(of_one) for of_one in zip(*(s.rss for s in looks), strict=True)],
        },
        "losses": [asdict(looks[i]) | {"explained": i in near} for i in lost],
        "every_minute": [asdict(s) for s in looks[59::60]],
    }


def in_words(found: dict[str, Any]) -> list[str]:
    """Say what came of it, a line each."""
    total = found["total"]
    lines = [f"{'yes' if passed else 'NO'}: {what}" for what, passed in found["passed"].items()]
    lines.append(
        f"offered {total['offered']:.2f} Gb/s for {total['seconds']:.0f} s; sent {total['sent']}, placed "
        f"{total['placed']}, missing {total['missing']}, of these {total['classes']}; uncounted {total['uncounted']}"
    )
    lines.append(
        f"{found['seconds_with_loss']} of {found['seconds']} seconds with loss, "
        f"{found['seconds_with_unexplained_loss']} of them unexplained; {found['seconds_with_stolen_time']} with "
        f"stolen time; memory {found['memory_mb']['settled']} -> {found['memory_mb']['end']} MB"
    )
    return lines


def line(second: Second, length: float, missing: int) -> str:
    """Write a status line; `missing` is the total."""
    return (
        f"{second.at:6.0f} of {length:.0f} s · {second.gbps:.2f} Gb/s · missing {missing} (+{second.missing}) · "
        f"stolen {second.stolen:.2f} s · waited for a core {1e3 * second.waited:.2f} ms · ring {second.ring_fill:.0%}"
        f" · memory {' '.join(f'{n:.0f}' for n in second.rss)} MB"
    )


def main() -> int:
    """Send, receive, and say whether all went as it must."""
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
    console = Console(stderr=True, highlight=False, soft_wrap=True)
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
        if console.is_terminal or second.missing or round(second.at) % 10 == 0:
            console.print(line(second, length, missing))

    with Traffic(setting) as traffic:
        found = about | summary(traffic.run(given.gbps, length, say), setting)
    console.print("\n".join(in_words(found)))
    if given.json:
        given.json.write_text(json.dumps(found, indent=1) + "\n")
    return 0 if all(found["passed"].values()) else 1


if __name__ == "__main__":
    sys.exit(main())
