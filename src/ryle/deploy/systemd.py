"""systemd units: a service for each process and a target for all of a host, in a directory a host.

`After=` puts services of a host in the order in which stages start, and with it the end in the order of the signal
path: systemd stops in reverse. SIGTERM is what drains an engine; one that ends by itself has failed, and starts again.
"""

from __future__ import annotations

import shlex

from ryle.deploy.processes import AGAIN, PATIENCE, STARTING, Deployment, Process, ranges

_USAGE = 2  # exit status of what was asked wrongly, an observation file for instance: no new start mends that


def units(d: Deployment) -> dict[str, str]:
    """Write a deployment as systemd units.

    Parameters
    ----------
    d : Deployment
        Which.

    Returns
    -------
    dict of str to str
        Texts of files, by their paths: the host's name, then the unit's.
    """
    found: dict[str, str] = {}
    for host in d.hosts:
        its = d.on(host.name)
        found[f"{host.name}/{_target(d)}"] = _of_host(d, host.name, its)
        for process in its:
            found[f"{host.name}/{unit_name(d, process)}"] = _service(d, process, its)
    return found


def unit_name(d: Deployment, p: Process) -> str:
    """Name the service of a process."""
    return f"ryle-{d.name}-{p.name}.service"


def _target(d: Deployment) -> str:
    return f"ryle-{d.name}.target"


def _of_host(d: Deployment, host: str, its: list[Process]) -> str:
    name = _target(d)
    order = ", ".join(f"ryle-{d.name}-{stage}*" for stage in d.stages())
    return (
        d.header(
            f"All that runs on {host}. Copy this directory's files to /etc/systemd/system there, then, as root:",
            f"    systemctl daemon-reload && systemctl enable --now {name}",
            f"    systemctl stop {name}       # drains the engines; those of a host in signal-path order",
            "With several hosts begin at the end of the signal path, and stop at its beginning:",
            f"    {order}",
        )
        + f"""
[Unit]
Description=Ryle: {d.name} on {host}
Wants={" ".join(unit_name(d, p) for p in its)}

[Install]
WantedBy=multi-user.target
"""
    )


def _service(d: Deployment, p: Process, its: list[Process]) -> str:
    """Write the service of a process."""
    place = STARTING.index(p.stage)
    before = [unit_name(d, other) for other in its if STARTING.index(other.stage) < place]
    lines = [
        "",
        "[Unit]",
        f"Description=Ryle: {p.name} of {d.name}",
        f"After={' '.join(['network-online.target', 'time-sync.target', *before])}",
        "Wants=network-online.target time-sync.target",
        f"PartOf={_target(d)}",
        "# However often it fails: an engine that is missing costs its part of the band or of the antennas only.",
        "StartLimitIntervalSec=0",
        "",
        "[Service]",
        "Type=exec",
        f"ExecStart={_command(p)}",
        *(f"Environment={_quoted(f'{name}={value}')}" for name, value in p.environment.items()),
    ]
    lines += [f"CPUAffinity={ranges(p.cores)}"] if p.cores else []
    lines += ["NUMAPolicy=preferred", f"NUMAMask={p.numa}"] if p.numa is not None else []
    lines += [
        "# Page-locked memory of GPUs and packet rings; receiving threads' priority; a file descriptor a socket.",
        "LimitMEMLOCK=infinity",
        "LimitRTPRIO=99",
        "LimitNOFILE=65536",
        f"# It needs {p.memory / (1 << 30):.1f} GiB.",
        "OOMScoreAdjust=-500",
        "# SIGTERM: it finishes what it has, closes its files and ends with success.",
        "KillSignal=SIGTERM",
        "KillMode=mixed",
        f"TimeoutStopSec={PATIENCE}",
    ]
    if p.stage != "simulate":
        lines += ["Restart=on-failure", f"RestartSec={AGAIN}", f"RestartPreventExitStatus={_USAGE}"]
    lines += ["", "[Install]", f"WantedBy={_target(d)}", ""]
    words = (
        f"{p.name} on {p.host}: copy to /etc/systemd/system there; {_target(d)} starts it with the others of the host.",
        f"    systemctl status {unit_name(d, p)}; journalctl -u {unit_name(d, p)}",
    )
    return d.header(*words) + "\n".join(lines)


def _command(p: Process) -> str:
    """Write a command line: % and $ mean something to systemd."""
    return " ".join(_quoted(word).replace("$", "$$") for word in p.command)


def _quoted(word: str) -> str:
    """Quote as systemd reads it: backslashes and quotes escaped within double quotes."""
    word = word.replace("%", "%%")
    if word == shlex.quote(word):
        return word
    return '"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"'
