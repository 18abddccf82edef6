# SPDX-License-Identifier: BSD-3-Clause
"""What pytest needs to know of the benches, which `make hdl-test` runs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import simulation


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "soak: long; run by `make hdl-soak` alone")
    config.addinivalue_line("markers", "first: begun first, as what takes longest of all")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the long benches to `make hdl-soak`, which asks for them by ``-m soak``; limit the others.

    The limit is for what hangs, on a machine that may have other work: builds are not counted (untimed.py), and a bench takes
    a minute or two of a machine of its own.
    """
    for item in items:
        if item.get_closest_marker("timeout") is None and config.getvalue("timeout") is None:
            item.add_marker(pytest.mark.timeout(1200))
    if not config.option.markexpr:
        chosen = [i for i in items if i.get_closest_marker("soak") is None]
        config.hook.pytest_deselected(items=[i for i in items if i not in chosen])
        items[:] = chosen
    items.sort(key=lambda i: i.get_closest_marker("first") is None)


@pytest.fixture(autouse=True)
def _ran(request: pytest.FixtureRequest) -> Iterator[None]:
    """Note the simulated tests that ran inside a pytest one (in its report, so that it also works with pytest-xdist)."""
    before = len(simulation.ran)
    yield
    request.node.user_properties.extend(("simulated", f"{top}: {name}") for top, name in simulation.ran[before:])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say how many simulated tests there were inside the pytest ones; with -v, which."""
    passed = terminalreporter.stats.get("passed", [])
    ran = [value for report in passed for key, value in report.user_properties if key == "simulated"]
    if ran:
        modules = {r.split(":")[0] for r in ran}
        terminalreporter.write_line(f"hdl: {len(ran)} simulated tests of {len(modules)} modules passed")
        for line in sorted(ran) if config.option.verbose > 0 else ():
            terminalreporter.write_line(f"  {line}")
