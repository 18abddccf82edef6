"""A Ray cluster on this machine, for as long as something needs it: a head, and nodes that are held to cores.

Its ports are its own, and so is its directory. The head's cores are not really given away: Ray counts them only.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

_RAY = str(Path(sys.executable).with_name("ray"))
_PATIENCE, _ENDING = 90.0, 30.0  # s that a node may take to come up, and to end
_COUNT = "import ray; ray.init('{}', logging_level='ERROR'); print(sum(node['Alive'] for node in ray.nodes()))"


@contextmanager
def cluster(cores: int = 0, nodes: Sequence[Sequence[int]] = ()) -> Iterator[str]:
    """Run a cluster.

    Parameters
    ----------
    cores : int
        That Ray counts at the head.
    nodes : sequence of sequence of int
        Cores of this machine of each further node, which is held to them.

    Yields
    ------
    str
        Its address.

    Raises
    ------
    RuntimeError
        If it does not come up; says what Ray said.
    """
    directory = Path(tempfile.mkdtemp(prefix="ryle-ray-", dir="/tmp"))  # paths of sockets must be short
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    common = "--block --disable-usage-stats --object-store-memory 80000000 --node-ip-address 127.0.0.1".split()
    common += "--min-worker-port 0 --max-worker-port 0".split()
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, directory, ignore_errors=True)
        log = stack.enter_context((directory / "said").open("w"))

        def start(own: Sequence[str], held: Sequence[int], came: Callable[[], bool]) -> None:
            process = subprocess.Popen(
                [_RAY, "start", *common, *own],
                stdout=log,
                stderr=log,
                preexec_fn=partial(os.sched_setaffinity, 0, held),
                start_new_session=True,
            )
            stack.callback(_end, process)
            end = time.monotonic() + _PATIENCE
            while not came():
                if process.poll() is not None or time.monotonic() > end:
                    raise RuntimeError(f"ray start did not come up: {Path(log.name).read_text()[-3000:]}")
                time.sleep(0.3)

        head = ["--head", "--port", address.rpartition(":")[2], "--num-cpus", str(cores), "--temp-dir", str(directory)]
        head += ["--include-dashboard", "false"]
        start(head, sorted(os.sched_getaffinity(0)), lambda: _said("health-check", "--address", address) is not None)
        # One after another: nodes that start at the same time on one host take each other's ports.
        for number, held in enumerate(nodes, 1):
            own = ["--address", address, "--num-cpus", str(len(held))]
            start(own, held, lambda wanted=1 + number: _count(address) == wanted)  # type: ignore[misc]
        yield address


def _said(*question: str) -> str | None:
    """Give what Ray answers; None if it fails."""
    done = subprocess.run([_RAY, *question], capture_output=True, text=True)
    return None if done.returncode else done.stdout


def _count(address: str) -> int:
    """Count the nodes that have joined; in another process, as a process is in one cluster only."""
    done = subprocess.run([sys.executable, "-c", _COUNT.format(address)], capture_output=True, text=True)
    return int((done.stdout.split() or ["0"])[-1]) if done.returncode == 0 else 0


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a node, which ends all that it has started."""
    process.terminate()
    try:
        process.wait(_ENDING)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
