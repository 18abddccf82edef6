"""Processors: their clock, sleep and sharing, and what takes time from threads that must not wait."""

from __future__ import annotations

from collections.abc import Iterator

from ryle.doctor.finding import MERRY, Boot, Finding, Hand, Sysctl, Write, judge
from ryle.doctor.machine import Machine
from ryle.doctor.needs import Needs
from ryle.doctor.tree import Tree, cores_text
from ryle.engines.places import listed_cores

_CPU = "/sys/devices/system/cpu"
#: A thread that sleeps wakes so much later; a receiving thread's socket fills meanwhile.
_SLEEP_US = 20
_STEAL = 0.005


def processors(machine: Machine, needs: Needs) -> Iterator[Finding]:
    """Look at the processors."""
    tree = machine.tree
    yield from _governor(tree)
    yield from _idle(tree)
    yield from _siblings(tree, needs)
    yield from _mitigations(tree)
    yield from _realtime(tree)
    yield from _clock_source(tree)
    yield from _quota(tree)
    yield from _steal(tree)


def _governor(tree: Tree) -> Iterator[Finding]:
    each = tree.each_core("cpufreq/scaling_governor")
    if not each:
        yield Finding(
            "governor", "", "unknown", "the system does not set the processors' clock: firmware, or a host, does"
        )
        return
    slow = [core for core, governor in each.items() if governor != "performance"]
    yield judge(
        "governor",
        cores_text(slow or list(each)),
        not slow,
        "poor",
        ", ".join(sorted({each[core] for core in slow or each})),
        "performance",
        "the clock rises some ms after the work does, and each batch of an engine is such a rise",
        Write(f"{_CPU}/cpu*/cpufreq/scaling_governor", "performance"),
        effect=f"one F-engine at 48 % of its rate with ondemand, four at 99 % ({MERRY}, Table 2)",
    )


def _idle(tree: Tree) -> Iterator[Finding]:
    folder = "sys/devices/system/cpu/cpu0/cpuidle"
    states = [name for name in tree.names(folder) if name.startswith("state")]
    if not states:
        yield Finding("idle", "", "unknown", "the system does not put cores to sleep by states that it tells of")
        return
    deep = [
        name
        for name in states
        if (tree.number(f"{folder}/{name}/latency") or 0) > _SLEEP_US and not tree.number(f"{folder}/{name}/disable")
    ]
    said = [f"{tree.text(f'{folder}/{n}/name')} ({tree.number(f'{folder}/{n}/latency')} us)" for n in deep]
    yield judge(
        "idle",
        "all cores",
        not deep,
        "poor",
        f"cores may sleep as deep as {said[-1]}" if deep else f"no state takes over {_SLEEP_US} us to leave",
        f"no sleep that takes over {_SLEEP_US} us to leave",
        "a thread that waited for packets begins so much later",
        *(Write(f"{_CPU}/cpu*/cpuidle/{name}/disable", "1") for name in deep),
        effect=f"one F-engine at 99.5 % of its rate with them, at full load; maybe less at half ({MERRY}, Table 2)",
    )


def _siblings(tree: Tree, needs: Needs) -> Iterator[Finding]:
    if tree.number("sys/devices/system/cpu/smt/active") is None:
        yield Finding("smt", "", "unknown", "the system does not say whether cores are shared by threads")
        return
    shared = []
    for core, text in tree.each_core("topology/thread_siblings_list").items():
        if core in needs.receiving:
            shared += [(core, other) for other in listed_cores(text) if other != core and other in needs.cores]
    active = tree.number("sys/devices/system/cpu/smt/active")
    yield judge(
        "smt",
        ", ".join(f"cores {a} and {b}" for a, b in shared),
        not shared,
        "poor",
        "are one core's two threads, and one of them receives" if shared else f"threads of a core: {1 + (active or 0)}",
        "receiving threads have a core for themselves",
        "two threads of a core get little more than half of it each",
        Hand(f"cores in the observation: leave out the sibling of each core that receives; or {_CPU}/smt/control: off"),
    )


def _mitigations(tree: Tree) -> Iterator[Finding]:
    line = tree.text("proc/cmdline")
    if line is None:
        return
    off = "mitigations=off" in line.split()
    yield judge(
        "mitigations",
        "",
        off,
        "note",
        "off" if off else "on",
        "off, if nobody else runs programs on this machine",
        "each system call costs more with them: a decision about security first",
        Boot("mitigations=off"),
        effect=f"one F-engine at 94 % of its rate with them, four at 99.5 % ({MERRY}, Table 2)",
    )


def _realtime(tree: Tree) -> Iterator[Finding]:
    period, most = tree.sysctl("kernel.sched_rt_period_us"), tree.sysctl("kernel.sched_rt_runtime_us")
    if most is None or not period:
        yield Finding("realtime", "", "unknown", "the system does not say what threads of real-time priority may take")
        return
    share = 1.0 if most < 0 else most / period
    yield judge(
        "realtime",
        "",
        share >= 0.999,
        "poor",
        f"{1e2 * share:.4g} % of the time",
        "99.9 % of the time",
        f"what has real-time priority stands still {1e-3 * (1 - share) * period:.3g} ms of each {period / 1e6:.3g} s",
        Sysctl("kernel.sched_rt_runtime_us", f"{int(0.999 * period)}"),
        effect=f"one F-engine with real-time priority at 83 % of its rate, four at 100 % ({MERRY}, Table 2)",
    )


def _clock_source(tree: Tree) -> Iterator[Finding]:
    folder = "sys/devices/system/clocksource/clocksource0"
    source = tree.text(f"{folder}/current_clocksource")
    if source is None:
        yield Finding("clocksource", "", "unknown", "the system does not say what it reads time from")
        return
    offered = (tree.text(f"{folder}/available_clocksource") or "").split()
    mends = [Write(f"/{folder}/current_clocksource", "tsc")] if "tsc" in offered else []
    yield judge(
        "clocksource",
        "",
        source not in ("hpet", "acpi_pm", "jiffies"),
        "poor",
        source,
        "tsc, or what a host gives in its place",
        "each packet's time of arrival is a reading, of about 1 us with hpet and 0.02 with tsc",
        *mends,
        Hand("the kernel's log says why it left tsc: dmesg | grep -i tsc"),
    )


def _quota(tree: Tree) -> Iterator[Finding]:
    path = (tree.text("proc/self/cgroup") or "").rpartition("::")[2].strip("/")
    limits = {}
    while True:
        text = tree.text(f"sys/fs/cgroup/{path}/cpu.max" if path else "sys/fs/cgroup/cpu.max")
        if text:
            limits[path or "/"] = text.split()
        if not path:
            break
        path = path.rpartition("/")[0]
    held = {name: words for name, words in limits.items() if words[0] != "max"}
    shares = {name: int(words[0]) / int(words[1]) for name, words in held.items() if len(words) == 2}
    least = min(shares.values(), default=0.0)
    yield judge(
        "quota",
        ", ".join(shares),
        not shares,
        "bad",
        f"{least:.3g} cores' time" if shares else "none",
        "none",
        "when its share of a tenth of a second is used up, everything in this container stands still for the rest",
        *(Write(f"/sys/fs/cgroup/{name.strip('/')}/cpu.max".replace("//", "/"), "max") for name in shares),
        Hand("start the container without --cpus, with --cpuset-cpus in its place"),
    )


def _steal(tree: Tree) -> Iterator[Finding]:
    words = (tree.text("proc/stat") or "").split("\n")[0].split()
    if len(words) < 9:
        return
    times = [int(w) for w in words[1:9]]
    share = times[7] / max(1, sum(times))
    yield judge(
        "steal",
        "",
        share < _STEAL,
        "poor",
        f"{1e2 * share:.2g} % of the time since the start",
        f"under {1e2 * _STEAL:.2g} %",
        "this is a virtual machine whose host gave its cores to others, for ms or seconds at a time",
        Hand("ask for cores of your own (dedicated, pinned), or a machine of your own"),
    )
