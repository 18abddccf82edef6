"""Sum up long traffic: what was lost, when, and whether anything outside can be blamed."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from .traffic_account import Account, Second, Setting

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
