"""Kubernetes: a Deployment of one pod for each engine, on its host and its host's network.

No data pass through Kubernetes. A pod has the host's network and IPC, since packets are UDP multicast and rings lie in
shared memory; a Deployment starts it again where it was, and never runs two of it.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from ryle.config import files_read
from ryle.deploy.site import Process, Site

#: s: of draining and closing files after SIGTERM; then it is killed.
_STOP = 90


def files(site: Site, ryle: str, file: str, data: str, image: str = "ryle:latest") -> dict[str, str]:
    """Make the manifests, as JSON, which `kubectl apply -f` takes.

    Parameters
    ----------
    site : Site
        What runs where.
    ryle, file, data : str
        The command and the observation file in the image; the directory for data on hosts.
    image : str
        With Ryle in it.

    Returns
    -------
    dict of str to str
        Text by path.
    """
    made = [_observation(site, Path(file).name)]
    made += [
        _deployment(site, p, p.command(ryle, file, data), str(Path(file).parent), data, image) for p in site.processes
    ]
    return {"ryle.json": json.dumps({"apiVersion": "v1", "kind": "List", "items": made}, indent=2) + "\n"}


def _labels(site: Site, process: Process | None = None) -> dict[str, str]:
    found = {"app.kubernetes.io/name": "ryle", "app.kubernetes.io/instance": site.name}
    return found if process is None else found | {"app.kubernetes.io/component": process.name}


def _observation(site: Site, name: str) -> dict[str, Any]:
    """Make the map of the observation file, and of what it reads from beside it."""
    first, *beside = files_read(Path(site.observation.source))
    found: dict[str, Any] = {"data": {name: first.read_text()} | {p.name: p.read_text() for p in beside}}
    if gains := site.observation.fengine.gains_file:
        path = first.parent / gains
        found["binaryData"] = {path.name: base64.b64encode(path.read_bytes()).decode()}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": f"ryle-{site.name}", "labels": _labels(site)},
        **found,
    }


def _deployment(
    site: Site, process: Process, command: list[str], configured: str, data: str, image: str
) -> dict[str, Any]:
    labels = _labels(site, process)
    limits: dict[str, str | int] = {"cpu": max(1, len(process.cores))}
    if process.gpu is not None:
        limits["nvidia.com/gpu"] = 1  # which one, NVIDIA's device plugin says
    container = {
        "name": "engine",
        "image": image,
        "command": command,
        "resources": {"limits": limits, "requests": {"cpu": limits["cpu"]}},
        "securityContext": {"capabilities": {"add": ["IPC_LOCK", *(["NET_RAW"] if site.raw_sockets(process) else [])]}},
        "volumeMounts": [
            {"name": "observation", "mountPath": configured, "readOnly": True},
            {"name": "data", "mountPath": data},
            {"name": "shared-memory", "mountPath": "/dev/shm"},
        ],
    }
    pod = {
        "nodeSelector": {"kubernetes.io/hostname": process.host},
        "hostNetwork": True,
        "dnsPolicy": "ClusterFirstWithHostNet",
        "terminationGracePeriodSeconds": _STOP,
        "containers": [container],
        "volumes": [
            {"name": "observation", "configMap": {"name": f"ryle-{site.name}"}},
            {"name": "data", "hostPath": {"path": data, "type": "DirectoryOrCreate"}},
            {"name": "shared-memory", "hostPath": {"path": "/dev/shm", "type": "Directory"}},
        ],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": f"ryle-{site.name}-{process.name}", "labels": labels},
        "spec": {
            "replicas": 1,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }
