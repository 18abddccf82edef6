"""Fresh random numbers, patience where others take the CPU's time, and which tests run at the same time, or only if asked for.

``pytest -n 2`` (`make test`) shares the tests out among processes. Those of a file stay together, so that what they share is
made once; those of `TAKE_TURNS` are never under way at the same time. Tests marked ``long`` are left to `make test-long`,
those marked ``soak`` to `make test-soak`.
"""

import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

import fresh
from ports import free_ports
from ryle.host_time import stolen_seconds

# How long an example takes is a matter of what else the machine does.
settings.register_profile("ryle", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.load_profile("ryle")


#: Tests of what a machine has once: ports, buffers of the kernel, namespaces, shared memory, DPDK, real time.
TAKE_TURNS = (
    *("receive/", "send/", "store/", "engines/", "operator/"),
    *("cli/test_send.py", "bench/test_traffic.py", "bench/test_transport.py", "bench/test_engine.py"),
    *("bench/test_catcher.py::test_measures", "plan/test_corner_turn.py::test_a_real_sender"),
    *("watch/test_live.py", "serve/test_steered_run.py", "serve/test_web.py::test_a_delay", "deploy/test_slurm.py"),
    *("deploy/test_offline_ray.py", "deploy/test_on_ray.py", "bench/test_offline_ray.py"),
)
#: What needs none of that though it lies there; and tests of a file that share nothing.
EACH_FILE = (
    *("receive/test_assembly", "receive/test_fuzz.py", "receive/test_pcap.py", "store/test_vdif_files.py"),
    *("send/test_send_sanitized.py", "store/test_recorder_sanitized.py", "engines/test_devices.py"),
)
EACH_TEST = ("gpu/test_compile.py::test_every_kernel",)


def group_of(test):
    """Name what a test, given by its ID, must share a process with."""
    test = test.removeprefix("tests/")
    if test.startswith(EACH_TEST):
        return test
    return "machine" if test.startswith(TAKE_TURNS) and not test.startswith(EACH_FILE) else test.partition("::")[0]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    from xdist.scheduler import LoadScopeScheduling

    class Grouped(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            return group_of(nodeid)

    return Grouped(config, log)


def pytest_configure(config):
    config.addinivalue_line("markers", "long: run by `make test-long`, and wherever -m is given")
    config.addinivalue_line("markers", "soak: what is tried for minutes, by `make test-soak`, and wherever -m is given")
    config.addinivalue_line("markers", "tools: run by `make test-tools`, against others' software")


def pytest_collection_modifyitems(config, items):
    """Leave long tests, longer ones, and those of others' software, out unless marks are asked for."""
    if not config.option.markexpr:
        out = [item for item in items if any(map(item.get_closest_marker, ("long", "soak", "tools")))]
        config.hook.pytest_deselected(items=out)
        items[:] = [item for item in items if item not in set(out)]


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
    stolen = round(100 * stolen_seconds())
    names, values = (x.split() for x in Path("/proc/net/snmp").read_text().splitlines() if x.startswith("Udp:"))
    full = int(values[names.index("RcvbufErrors")])
    six = Path("/proc/net/snmp6")
    counters = dict(line.split() for line in six.read_text().splitlines()) if six.exists() else {}
    return stolen, full + int(counters.get("Udp6RcvbufErrors", 0))


def _wait_for_calm(most: float) -> None:
    """Wait until the host has taken nothing away for a second, at most so long."""
    end = time.monotonic() + most
    while time.monotonic() < end:
        before = _trouble()[0]
        time.sleep(1)
        if _trouble()[0] - before <= 2:
            return


@pytest.fixture
def ports():
    return free_ports


@pytest.fixture
def steady(request):
    """Run a test body again (at most 5 times) if it failed while the host took CPU time away or a socket was full.

    A socket that nobody reads in time loses packets, whatever the program does; that is not what is tested here. Others
    that take the CPU's time do so for seconds: what comes again waits until they have let it be for one.
    """

    own = request.node.get_closest_marker("timeout")
    allowed = 0.8 * float(own.args[0] if own else request.config.getini("timeout"))

    def run(body):
        began = time.monotonic()
        for attempt in range(5):
            stolen, full = _trouble()
            tried = time.monotonic()
            try:
                return body()
            except (Exception, pytest.fail.Exception):  # that which `pytest.raises` misses is no Exception
                now, took = _trouble(), time.monotonic() - tried
                left = allowed - (time.monotonic() - began) - took  # if it takes as long again
                if attempt == 4 or left < 0 or (now[0] - stolen <= 2 and now[1] == full):
                    raise
                _wait_for_calm(min(left, 20))
        return None

    return run
