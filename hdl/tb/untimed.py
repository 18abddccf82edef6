# SPDX-License-Identifier: BSD-3-Clause
"""What pytest's time limit does not count: builds, which take as long as the machine is busy."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def untimed() -> Iterator[None]:
    """Stop the clock of pytest-timeout (its signal method, an interval timer); it goes on where it stood."""
    left, _ = signal.setitimer(signal.ITIMER_REAL, 0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, left)
