"""The machine's clock: whether something keeps it on time."""

from __future__ import annotations

from collections.abc import Iterator

from ryle.config import show
from ryle.doctor.finding import Command, Finding, judge
from ryle.doctor.machine import Machine
from ryle.doctor.needs import Needs

#: Steering is promised for instants of UTC, and a stream's outage told from a leap by times of arrival: both bear this.
_ERROR = 0.05


def clock(machine: Machine, needs: Needs) -> Iterator[Finding]:
    """Look at the clock."""
    found = machine.clock
    if found.synchronized is None:
        yield Finding("time", "", "unknown", "the kernel does not say whether its clock is kept")
        return
    said = f"kept, to {show(found.error, 's')} at worst" if found.synchronized else "kept by nobody"
    yield judge(
        "time",
        "",
        found.synchronized and found.error <= _ERROR,
        "poor",
        said,
        f"kept by NTP or PTP, to {show(_ERROR, 's')}",
        "samples have the digitizers' time, but delays are steered, scans begun and losses judged by this clock",
        Command("apt-get install -y chrony && systemctl enable --now chrony"),
    )
