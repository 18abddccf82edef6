"""A small Ray cluster on this machine, for as long as a module's tests need it.

Its ports are its own, and so is its directory; no core is really given away: Ray counts them only.
"""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ports import free_ports

RAY = Path(sys.executable).with_name("ray")


@contextlib.contextmanager
def cluster(cores):
    """Start one whose head has so many cores; give its address."""
    import ray

    directory = tempfile.mkdtemp(prefix="ryle-ray-", dir="/tmp")  # paths of sockets must be short
    port = free_ports(1)
    command = [RAY, "start", "--head", "--port", port, "--num-cpus", cores, "--temp-dir", directory]
    command += ["--include-dashboard", "false", "--object-store-memory", 80_000_000, "--disable-usage-stats"]
    command += ["--node-ip-address", "127.0.0.1", "--min-worker-port", 0, "--max-worker-port", 0, "--block"]
    here = {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])}
    log = (Path(directory) / "head.log").open("w")
    head = subprocess.Popen(
        list(map(str, command)), env=os.environ | here, stdout=log, stderr=log, start_new_session=True
    )
    address = f"127.0.0.1:{port}"
    try:
        _wait(head, address, Path(log.name))
        yield address
    finally:
        ray.shutdown()
        head.terminate()  # which ends all that it has started
        try:
            head.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(head.pid, 9)
            head.wait()
        log.close()
        shutil.rmtree(directory, ignore_errors=True)


def _wait(head, address, log):
    """Wait until it answers."""
    end = time.monotonic() + 90
    while time.monotonic() < end:
        if head.poll() is not None:
            break
        answers = subprocess.run([RAY, "health-check", "--address", address], capture_output=True, check=False)
        if answers.returncode == 0:
            return
        time.sleep(0.3)
    raise RuntimeError(f"ray start did not come up: {log.read_text()[-2000:]}")
