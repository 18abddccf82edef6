"""A Ray cluster: which one, and which of its nodes are which hosts."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

#: Label of a node that says which host it is: ``ray start --labels ryle-host=rack1``. Without it: the node's own name.
HOST_LABEL = "ryle-host"
#: Ray's name space in which our actors have their names.
NAMESPACE = "ryle"
#: Seconds in which a cluster's head is to answer.
_PATIENCE = 10.0


@dataclass(frozen=True)
class Node:
    """A node of a cluster that is alive.

    Parameters
    ----------
    number : str
        Ray's own name of it.
    host : str
        Of the plan's hosts, or what they would be called.
    address : str
        Of the node in Ray's network.
    cores, gpus : int
        What Ray may give away there.
    """

    number: str
    host: str
    address: str
    cores: int
    gpus: int


def connect(address: str | None = None) -> Any:
    """Join a cluster.

    Parameters
    ----------
    address : str, optional
        ``HOST:PORT`` of its head; that of ``RAY_ADDRESS``, or the cluster that this host belongs to, if absent.

    Returns
    -------
    module
        Ray.

    Raises
    ------
    RuntimeError
        If Ray is not installed, or no cluster is reached.
    """
    try:
        import ray
    except ImportError:
        raise RuntimeError("--on ray needs Ray: pip install 'ryle[ray]'") from None
    if ray.is_initialized():
        return ray
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # an observatory's machines report to nobody
    where = address or os.environ.get("RAY_ADDRESS") or "auto"
    try:
        _knock(where)
        _quieten()
        ray.init(address=where, namespace=NAMESPACE, log_to_driver=False, logging_level="ERROR")
    except (OSError, ValueError, RuntimeError) as error:
        place = "no Ray cluster runs here" if where == "auto" else f"no Ray cluster answers at {where}"
        remedy = "start one with `ray start --head`, and `ray start --address HEAD:6379` on the other hosts"
        raise RuntimeError(f"{place} ({str(error).splitlines()[0]}); {remedy}") from None
    return ray


def _knock(where: str) -> None:
    """Refuse an address at which nobody listens: Ray itself would try for minutes, and say nothing."""
    host, colon, port = where.rpartition(":")
    if colon and host and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), timeout=_PATIENCE).close()


def answers(where: str) -> bool:
    """Whether somebody listens at ``HOST:PORT``."""
    try:
        _knock(where)
    except OSError:
        return False
    return True


def _quieten() -> None:
    """Keep what Ray says of its daemons, with pages of their last words, off the console: its own logs have it."""
    worker = sys.modules.get("ray._private.worker")
    if hasattr(worker, "print_to_stdstream"):  # Ray has no option for that
        worker.print_to_stdstream = lambda *_, **__: None  # type: ignore[union-attr]


@contextmanager
def joined(address: str | None = None) -> Iterator[Any]:
    """Be in a cluster while the block runs, as `connect`; what it has started there and not awaited ends with it.

    Who was in a cluster before stays there, and so does what was started.
    """
    loaded = sys.modules.get("ray")
    before = loaded is not None and loaded.is_initialized()
    ray = connect(address)
    try:
        yield ray
    finally:
        if not before:
            ray.shutdown()


def nodes(ray: Any) -> list[Node]:
    """List a cluster's nodes that are alive, by name of host."""
    found = []
    for node in ray.nodes():
        if node["Alive"]:
            has = node["Resources"]
            host = node.get("Labels", {}).get(HOST_LABEL) or node["NodeManagerHostname"]
            cores, gpus = int(has.get("CPU", 0)), int(has.get("GPU", 0))
            found.append(Node(node["NodeID"], host, node["NodeManagerAddress"], cores, gpus))
    return sorted(found, key=lambda n: n.host)
