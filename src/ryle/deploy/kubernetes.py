"""Kubernetes manifests: a StatefulSet of one for each process, on its node and with that node's network.

A pod sees the cards of its node (`hostNetwork`): no data passes through Kubernetes, which only starts processes. Whole
cores go to pods whose requests are their limits, where the kubelet's CPU manager is static; which ones, and which GPUs,
is the kubelet's and the device plugin's choice, not the plan's.
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

from ryle import __version__
from ryle.deploy.processes import PATIENCE, Deployment, Process
from ryle.problems import ConfigError, Problem

_MOUNT = "/etc/ryle"
_SHARED = "/dev/shm"
#: Bytes that an object may have, and with it a ConfigMap.
_LARGEST = 1 << 20


def manifests(d: Deployment, *, image: str | None = None, data: str = "/data") -> dict[str, str]:
    """Write a deployment as manifests.

    Parameters
    ----------
    d : Deployment
        Which; its commands name the observation as `OBSERVATION` does.
    image : str, optional
        Image with Ryle in it; ``ryle:VERSION`` if absent.
    data : str
        Directory of nodes where engines write.

    Returns
    -------
    dict of str to str
        Texts of files, by their names, which are in the order in which they are to be applied.

    Raises
    ------
    ConfigError
        If engines share GPUs, which Kubernetes does not give twice, or files of the observation lie elsewhere.
    """
    if shared := _shared_gpus(d):
        raise ConfigError(str(d.plan), shared)
    image = image or f"ryle:{__version__}"
    words = (
        f"Run it with: kubectl apply --filename DIRECTORY      # {image} is an image with Ryle in it",
        "End it stage by stage, f, then x, then catcher:",
        f"    kubectl delete statefulset --selector app.kubernetes.io/instance={d.name},ryle/stage=f",
        "Nodes need cpuManagerPolicy: static, topologyManagerPolicy: single-numa-node, and a runtime whose processes",
        "may lock memory (LimitMEMLOCK=infinity in containerd's unit): a pod cannot ask for that.",
    )
    found = {"0-config.yaml": _document(d.header(*words), _config(d))}
    for stage_number, stage in enumerate(d.stages(), 1):
        for p in d.processes:
            if p.stage == stage:
                text = _document(d.header(f"{p.name} on {p.host}. {words[0]}"), _set(d, p, image, data))
                found[f"{stage_number}-{p.name}.yaml"] = text
    return found


#: Where the observation file is in a container.
OBSERVATION = f"{_MOUNT}/observation.toml"


def _shared_gpus(d: Deployment) -> list[Problem]:
    """Find GPUs of several processes."""
    owner: dict[tuple[str, int], str] = {}
    found = []
    for p in d.processes:
        for gpu in p.gpus:
            if (other := owner.setdefault((p.host, gpu), p.name)) != p.name:
                what = (
                    f"is GPU {gpu} of {p.host} for {p.name} and {other}, and Kubernetes gives a GPU to one container:"
                )
                found.append(Problem("engines.gpu", gpu, f"{what} give each engine one, or use systemd or Slurm"))
    return found


def _labels(d: Deployment, p: Process | None = None) -> dict[str, str]:
    labels = {"app.kubernetes.io/name": "ryle", "app.kubernetes.io/instance": d.name}
    return labels if p is None else labels | {"app.kubernetes.io/component": p.name, "ryle/stage": p.stage}


def _config(d: Deployment) -> dict[str, Any]:
    """Make the ConfigMap: observation and plan, whose text is small beside an object's bound but for large arrays."""
    texts = {"observation.toml": d.observation.text} | _beside(d)
    plan = d.plan.read_text()
    if len(plan) + sum(map(len, texts.values())) < _LARGEST:
        texts["placement.toml"] = plan
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": f"ryle-{d.name}", "labels": _labels(d)},
        "data": texts,
    }


def _beside(d: Deployment) -> dict[str, str]:
    """Give the file of antennas that the observation reads, which must lie beside it in a container too."""
    name = tomllib.loads(d.observation.text).get("array", {}).get("antenna_file")
    if name is None:
        return {}
    if Path(name).name != name:
        remedy = "a container has it beside the observation: give it without a folder"
        raise ConfigError(d.observation.source, [Problem("array.antenna_file", name, remedy)])
    return {name: (Path(d.observation.source).parent / name).read_text()}


def _set(d: Deployment, p: Process, image: str, data: str) -> dict[str, Any]:
    """Make the StatefulSet of a process: unlike a pod alone it starts again when its node does."""
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": f"ryle-{d.name}-{p.name}", "labels": _labels(d, p)},
        "spec": {
            "replicas": 1,
            "serviceName": f"ryle-{d.name}",
            "selector": {"matchLabels": _labels(d, p)},
            "template": {"metadata": {"labels": _labels(d, p)}, "spec": _pod(d, p, image, data)},
        },
    }


def _pod(d: Deployment, p: Process, image: str, data: str) -> dict[str, Any]:
    resources = {"cpu": str(max(1, len(p.cores))), "memory": f"{-(-(p.memory - p.huge) // (1 << 20))}Mi"}
    resources |= {"hugepages-2Mi": f"{p.huge >> 20}Mi"} if p.huge else {}
    resources |= {"nvidia.com/gpu": str(len(p.gpus))} if p.gpus else {}
    # The device plugin numbers the GPUs that it gives from 0.
    environment = {name: value for name, value in p.environment.items() if not name.startswith("CUDA")}
    mounts = [("config", _MOUNT, True), ("shared", _SHARED, False), ("data", data, False)]
    volumes: list[dict[str, Any]] = [
        {"name": "config", "configMap": {"name": f"ryle-{d.name}"}},
        # The node's: `ryle serve` and `ryle monitor` look there at what all engines of a node say.
        {"name": "shared", "hostPath": {"path": _SHARED, "type": "Directory"}},
        {"name": "data", "hostPath": {"path": data, "type": "DirectoryOrCreate"}},
    ]
    if p.huge:
        mounts.append(("huge", "/dev/hugepages", False))
        volumes.append({"name": "huge", "emptyDir": {"medium": "HugePages-2Mi"}})
    return {
        "nodeSelector": {"kubernetes.io/hostname": p.host},
        "hostNetwork": True,
        "hostPID": True,  # who looks at engines asks whether their processes are there
        "dnsPolicy": "ClusterFirstWithHostNet",
        "terminationGracePeriodSeconds": PATIENCE,
        "containers": [
            {
                "name": p.stage,
                "image": image,
                "command": list(p.command),
                "workingDir": data,
                "env": [{"name": name, "value": value} for name, value in environment.items()],
                # Requests are limits, so that cores are whole, and its own.
                "resources": {"requests": resources, "limits": resources},
                # Locked memory, cards' rings, priority of receiving threads, memory of a node.
                "securityContext": {"capabilities": {"add": ["IPC_LOCK", "NET_RAW", "NET_ADMIN", "SYS_NICE"]}},
                "volumeMounts": [{"name": n, "mountPath": path, "readOnly": only} for n, path, only in mounts],
            }
        ],
        "volumes": volumes,
    }


def _document(header: str, value: dict[str, Any]) -> str:
    return header + "---\n" + "\n".join(_yaml(value)) + "\n"


def _yaml(value: Any, depth: int = 0) -> list[str]:
    """Write mappings and lists as YAML; all texts in double quotes, which YAML has from JSON."""
    pad = "  " * depth
    lines: list[str] = []
    for key, inner in value.items() if isinstance(value, dict) else ((None, each) for each in value):
        head = f"{pad}{key}:" if key is not None else f"{pad}-"
        if isinstance(inner, str) and "\n" in inner and _plain(inner):
            lines += [f"{head} |{'' if inner.endswith(chr(10)) else '-'}"]
            lines += [f"{pad}  {line}" if line else "" for line in inner.rstrip("\n").split("\n")]
        elif isinstance(inner, dict | list) and inner:
            below = _yaml(inner, depth + 1)
            if key is None:  # the first key stands on the hyphen's line
                below[0] = f"{pad}- {below[0].lstrip()}"
                lines += below
            else:
                lines += [head, *below]
        else:
            lines.append(f"{head} {json.dumps(inner, ensure_ascii=False)}")
    return lines


def _plain(text: str) -> bool:
    """Whether a text can stand as a block: printable lines, the first not indented, at most one line end behind it."""
    lines = text.removesuffix("\n").split("\n")
    return all(line.isprintable() for line in lines) and lines[0][:1] not in (" ", "") and lines[-1] != ""
