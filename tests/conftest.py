"""Fresh random numbers (`fresh`, whose seed a failed test says), and patience where others take the CPU's time."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

import fresh
from ports import free_ports

# How long an example takes is a matter of what else the machine does.
settings.register_profile("ryle", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.load_profile("ryle")


@pytest.fixture
def rng() -> np.random.Generator:
    """Random numbers, fresh in each test of each run."""
    return fresh.rng()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.failed:
        report.sections.append(("Random numbers", f"RYLE_TEST_RNG={fresh.SEED} gives this test the same again"))
    return report


@pytest.fixture(scope="session", autouse=True)
def status_directory(tmp_path_factory):
    """Keep the status pages of tested processes, those that are killed too, out of the machine's own."""
    directory = tmp_path_factory.mktemp("status")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RYLE_STATUS_DIR", str(directory))
        yield directory


def _trouble() -> tuple[int, int]:
    """Hundredths of a second of CPU time that the host took away, and datagrams lost because a socket was full."""
    stolen = int(Path("/proc/stat").read_text().split(None, 9)[8])
    names, values = (x.split() for x in Path("/proc/net/snmp").read_text().splitlines() if x.startswith("Udp:"))
    full = int(values[names.index("RcvbufErrors")])
    six = Path("/proc/net/snmp6")
    counters = dict(line.split() for line in six.read_text().splitlines()) if six.exists() else {}
    return stolen, full + int(counters.get("Udp6RcvbufErrors", 0))


@pytest.fixture
def ports():
    return free_ports


@pytest.fixture
def steady():
    """Run a test body again (at most 5 times) if it failed while the host took CPU time away or a socket was full.

    A socket that nobody reads in time loses packets, whatever the program does; that is not what is tested here.
    """

    def run(body):
        for attempt in range(5):
            stolen, full = _trouble()
            try:
                return body()
            except Exception:
                now = _trouble()
                if attempt == 4 or (now[0] - stolen <= 2 and now[1] == full):
                    raise
        return None

    return run
