"""systemd: a unit an engine, and a target that starts all of a host."""

from __future__ import annotations

import shlex

from ryle.deploy.site import Process, Site

#: s: of draining and closing files after SIGTERM; then systemd kills.
_STOP = 90


def files(site: Site, ryle: str, file: str, data: str, user: str = "") -> dict[str, str]:
    """Make the units.

    Parameters
    ----------
    site : Site
        What runs where.
    ryle, file, data : str
        The command, the observation file and the directory for data, as hosts have them.
    user : str
        Whom engines run as; root if empty.

    Returns
    -------
    dict of str to str
        Texts by path: a directory a host.
    """
    found = {}
    for host in site.hosts:
        mine = site.on(host)
        for process in mine:
            before = [p for p in mine if site.processes.index(p) < site.processes.index(process)]
            found[f"{host}/{unit(site, process)}"] = _service(site, process, before, (ryle, file, data), user)
        found[f"{host}/{target(site)}"] = _target(site, host, mine)
    return found


def unit(site: Site, process: Process) -> str:
    """Name a unit."""
    return f"ryle-{site.name}-{process.name}.service"


def target(site: Site) -> str:
    """Name the target of a host."""
    return f"ryle-{site.name}.target"


def _target(site: Site, host: str, mine: list[Process]) -> str:
    return f"""# Made by `ryle deploy` from {site.source}: all of {site.name} on {host}.
# Copy the files beside this one to /etc/systemd/system there; systemctl daemon-reload; systemctl start {target(site)}
[Unit]
Description=Correlator {site.name} on {host}
Wants={" ".join(unit(site, p) for p in mine)}

[Install]
WantedBy=multi-user.target
"""


def _service(site: Site, process: Process, before: list[Process], words: tuple[str, str, str], user: str) -> str:
    # What starts later stops earlier: F-engines, then X-engines, then the catcher, so that nothing on its way is lost.
    after = " ".join(["network-online.target", "time-sync.target", *(unit(site, p) for p in before)])
    service = [f"ExecStart={shlex.join(process.command(*words))}"]
    service += [f"User={user}"] if user else []
    service += [f"Environment={name}={value}" for name, value in process.environment.items()]
    service += [f"CPUAffinity={' '.join(map(str, process.cores))}"] if process.cores else []
    if user and site.raw_sockets(process):
        service.append("AmbientCapabilities=CAP_NET_RAW CAP_IPC_LOCK")
    return "\n".join(
        [
            f"# Made by `ryle deploy` from {site.source}.",
            "[Unit]",
            f"Description=Correlator {site.name}, engine {process.name}",
            "Wants=network-online.target time-sync.target",
            f"After={after}",
            f"PartOf={target(site)}",
            "# However often it ends: what it observed is in its file, and it goes on with the next integration.",
            "StartLimitIntervalSec=0",
            "",
            "[Service]",
            "Type=exec",
            *service,
            "# Rings and packet buffers are page-locked.",
            "LimitMEMLOCK=infinity",
            "LimitNOFILE=65536",
            "Restart=on-failure",
            "RestartSec=1",
            "# SIGTERM drains: it finishes what it has, and closes its files.",
            "KillSignal=SIGTERM",
            f"TimeoutStopSec={_STOP}",
            "",
            "[Install]",
            f"WantedBy={target(site)}",
            "",
        ]
    )
