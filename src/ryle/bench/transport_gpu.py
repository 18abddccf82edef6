"""Packets between processes into a GPU's memory, every byte verified there: what a machine with many cores takes.

    python -m ryle.bench.transport_gpu look check search            # some 4 minutes
    python -m ryle.bench.transport_gpu soak --gbps 96 --minutes 8   # 0.8 of the lossless rate that was found

Senders, each a process with one thread on its own core, send over loopback to one capture (or several) whose receiving
threads have cores of their own too. Parts, in the order in which they are named:

look    what the machine is and what it lets us do
check   page-locked memory, copies, and verification on the GPU: deliberately wrong bytes are found, each one
search  settings next to each other at full speed, the highest lossless rate of the best, and 60 s at it
soak    minutes at a given rate: every lost packet counted, memory, the steal counter

Results are written to --json after each part. With --emulated (PYTHONPATH=tests) and a low --most all of it is tried
without a GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from ryle.bench.lossless import Trial, highest_lossless
from ryle.bench.results import computer
from ryle.bench.soak import in_words, line, summary
from ryle.bench.traffic import Traffic
from ryle.bench.traffic_account import Account, Second, Setting
from ryle.bench.transport_gpu_check import check
from ryle.bench.transport_gpu_look import cores_in_order, look, touch
from ryle.version import commit

BEGAN = time.monotonic()


def say(text: str) -> None:
    """Print a line with the time."""
    print(f"[{time.monotonic() - BEGAN:6.1f} s] {text}", flush=True)


# -- settings ---------------------------------------------------------------------------------------------------------


def settings(given: argparse.Namespace) -> list[tuple[str, Setting]]:
    """List ways to share the cores out: senders and receivers as neighbours, or apart; one capture or several."""
    cores = cores_in_order()
    common = Setting(
        gpu=0,
        emulated=given.emulated,
        verify=True,
        buffer=given.buffer << 20,
        packets=64 if given.emulated else 1024,
        skew=given.skew,
        memif=given.memif,
    )
    found = []
    for pairs in given.pairs:
        if 2 * pairs > len(cores):
            continue
        mine, rest = cores[: 2 * pairs], cores[2 * pairs :]
        for name, send, receive in (
            ("neighbours", mine[::2], mine[1::2]),
            ("apart", mine[:pairs], mine[pairs:]),
        ):
            for captures in (1, pairs):
                setting = replace(
                    common, senders=pairs, captures=captures, send_cores=send, receive_cores=receive, main_cores=rest
                )
                found.append((f"{pairs} pairs, {name}, {captures} captures", setting))
    if not found:  # fewer than two cores for each pair: let the system place threads
        found = [("2 pairs, anywhere, 1 capture", replace(common, senders=2))]
    return found


def told(account: Account) -> str:
    """Write what became of traffic at one rate."""
    v, classes = account.verified, {k: n for k, n in account.classes.items() if n}
    return (
        f"asked {account.asked:6.1f}, sent {account.offered:6.1f} Gb/s for {account.seconds:.1f} s: missing "
        f"{account.missing}, {classes}, uncounted {account.uncounted}, verified {v.get('packets')} of "
        f"{account.placed}, wrong {v.get('wrong_packets')}, behind {1e3 * account.behind:.1f} ms, stolen "
        f"{account.stolen:.2f} s, resyncs {account.resyncs}, sender busy {account.busy['sender']:.2f}, "
        f"{busiest(account)}"
    )


def busiest(account: Account) -> str:
    """Write how busy the busiest thread of each kind was."""
    threads: dict[str, float] = {}
    for capture in account.busy["captures"]:
        for name, share in (capture or {}).items():
            kind = "receiver" if name.startswith(("udp", "dpdk")) else name
            threads[kind] = max(threads.get(kind, 0.0), share)
    return ", ".join(f"{kind} {share:.2f}" for kind, share in threads.items())


class TimeIsUpError(Exception):
    """The part has had its time."""


# -- parts ------------------------------------------------------------------------------------------------------------


def search(given: argparse.Namespace, keep: Any) -> dict[str, Any]:
    """Compare settings at full speed, search the best one's lossless rate, confirm it."""
    found: dict[str, Any] = {"settings": [], "searches": []}
    deadline = time.monotonic() + given.settings_limit
    for name, setting in settings(given):
        if given.setting not in name:
            continue
        if time.monotonic() > deadline:
            say(f"no time for {name}")
            continue
        try:
            with Traffic(setting) as traffic:
                traffic.run(given.start, 0.5)  # everything is touched once
                account = traffic.run(given.most, given.trial)
        except RuntimeError as error:
            say(f"{name}: {error}")
            continue
        came = account.placed + sum(account.classes.values())  # at full speed senders drift apart: late is received too
        reached = came / max(account.sent, 1) * account.offered
        say(f"{name}: {reached:6.1f} Gb/s received; {told(account)}")
        found["settings"].append({"name": name, "setting": asdict(setting), "received_gbps": reached} | lean(account))
        keep(found)
    byname = dict(settings(given))
    for captures in ("one", "several"):
        candidates = [s for s in found["settings"] if (s["setting"]["captures"] == 1) == (captures == "one")]
        for best in sorted(candidates, key=lambda s: -s["received_gbps"])[:1]:
            one = highest(best["name"], byname[best["name"]], best["received_gbps"], given)
            found["searches"].append(one)
            keep(found)
        if any(s["confirmed_gbps"] >= given.goal for s in found["searches"]):
            break
    best = max(found["searches"], key=lambda s: s["confirmed_gbps"], default=None)
    if best is not None:
        length = f"{best['confirmed_seconds']:.0f} s"
        say(f"highest confirmed: {best['confirmed_gbps']:.1f} Gb/s for {length} ({best['name']})")
        say(f'for the soak: --gbps {0.8 * best["confirmed_gbps"]:.1f} --setting "{best["name"]}"')
    return found


def highest(name: str, setting: Setting, reached: float, given: argparse.Namespace) -> dict[str, Any]:
    """Search a setting's highest lossless rate, and confirm it."""
    say(f"search: {name}")
    trials: list[dict[str, Any]] = []
    best = 0.0
    confirmed: Account | None = None
    with Traffic(setting) as traffic:
        deadline = time.monotonic() + given.search_limit

        def run(gbps: float, seconds: float) -> Trial:
            nonlocal best
            if time.monotonic() + seconds > deadline:
                raise TimeIsUpError
            account = traffic.run(gbps, seconds)
            trial = account.trial()
            if trial.lossless:
                best = max(best, trial.offered)
            trials.append(lean(account))
            say("  " + told(account))
            return trial

        try:
            run(given.start, 0.5)
            rate = highest_lossless(
                run, min(0.6 * reached, given.most), given.most, seconds=given.trial, confirm=5.0, resolution=0.06
            ).rate
            best = rate or best
        except TimeIsUpError:
            say("  no time to go on searching")
        # The whole length at a little less than what held for seconds; the first loss ends an attempt.
        for rate in (0.97 * best, 0.92 * best, 0.85 * best, 0.75 * best):
            if not rate:
                break
            account = traffic.run(rate, given.confirm, lambda second: second.missing > 0)
            trials.append(lean(account))
            say("  confirmation: " + told(account))
            if account.trial().lossless and account.uncounted == 0:
                confirmed = account
                break
    return {
        "name": name,
        "setting": asdict(setting),
        "highest_gbps": best,
        "confirmed_gbps": confirmed.offered if confirmed else 0.0,
        "confirmed_seconds": confirmed.seconds if confirmed else 0.0,
        "confirmation": summary(confirmed, setting) if confirmed else None,
        "trials": trials,
    }


def soak(given: argparse.Namespace) -> dict[str, Any]:
    """Run for minutes at a given rate, in the setting that is named or the first."""
    listed = settings(given)
    name, setting = next((x for x in listed if given.setting in x[0]), listed[0])
    length, missing = 60 * given.minutes, 0
    setting = replace(setting, linger=1.0)
    say(f"soak: {given.gbps} Gb/s for {given.minutes} minutes, {name}")

    def look_at(second: Second) -> None:
        nonlocal missing
        missing += second.missing
        if second.missing or round(second.at) % 10 == 0 or second.at < 3:
            say(line(second, length, missing))

    with Traffic(setting) as traffic:
        traffic.run(given.start, 1.0)
        found = summary(traffic.run(given.gbps, length, look_at), setting)
    for words in in_words(found):
        say(words)
    return {"name": name} | found


def lean(account: Account) -> dict[str, Any]:
    """Give an account without its seconds."""
    return {k: v for k, v in asdict(account).items() if k != "looks"} | {"uncounted": account.uncounted}


def main() -> None:
    """Do the parts that are named."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("parts", nargs="+", choices=("look", "check", "search", "soak"))
    arguments.add_argument("--json", type=Path)
    arguments.add_argument("--emulated", action="store_true")
    arguments.add_argument("--pairs", type=int, nargs="+", default=[6, 7, 5, 4])
    arguments.add_argument("--start", type=float, default=10.0, help="Gb/s of a first half second, to touch everything")
    arguments.add_argument("--most", type=float, default=400.0, help="Gb/s: more than can be")
    arguments.add_argument("--goal", type=float, default=100.0)
    arguments.add_argument("--trial", type=float, default=2.0, help="seconds of a trial")
    arguments.add_argument("--confirm", type=float, default=60.0, help="seconds of the confirmation")
    arguments.add_argument("--settings-limit", type=float, default=90.0, help="seconds for comparing settings")
    arguments.add_argument("--search-limit", type=float, default=70.0, help="seconds for a search, confirmation apart")
    arguments.add_argument("--gbps", type=float, default=80.0, help="of the soak")
    arguments.add_argument("--minutes", type=float, default=8.0)
    arguments.add_argument(
        "--setting", default="", help="only those whose name has this in it; of the soak, the first of them"
    )
    arguments.add_argument(
        "--skew", type=int, default=32768, help="packets by which the senders of a capture may be apart"
    )
    arguments.add_argument("--memif", action="store_true", help="through shared memory (DPDK) in place of sockets")
    arguments.add_argument("--buffer", type=int, default=256, help="MiB of each socket's buffer")
    arguments.add_argument(
        "--memory", type=float, default=12.0, help="GiB touched first, as guests get memory on demand"
    )
    given = arguments.parse_args()
    results: dict[str, Any] = {
        "commit": commit(),
        "began": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "cores": len(os.sched_getaffinity(0)),
        "arguments": {k: str(v) for k, v in vars(given).items() if k != "json"},
        "machine": computer(not given.emulated and given.parts != ["look"]),
    }

    def keep(part: str, what: Any) -> None:
        results[part] = what
        if given.json:
            given.json.write_text(json.dumps(results, indent=1, default=float) + "\n")

    for part in given.parts:
        say(part)
        if part == "look":
            keep(part, look(say))
        elif part == "check":
            keep(part, check(given.emulated, say))
        else:
            touch(given.memory, say)
            if part == "search":
                keep(part, search(given, lambda found: keep("search", found)))
            else:
                keep(part, soak(given))
    say("done")


if __name__ == "__main__":
    main()
