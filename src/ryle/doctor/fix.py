"""A script of what mends findings: now, and at each start from then on; what a person has to do stands in it too."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ryle.doctor.finding import Boot, Command, Finding, Hand, Sysctl, Write

_SYSCTL, _TMPFILES = "/etc/sysctl.d/90-ryle.conf", "/etc/tmpfiles.d/ryle.conf"


def script(findings: Iterable[Finding]) -> str:
    """Write a script for a shell of root's.

    Kernel values go to ``/etc/sysctl.d`` and values below ``/sys`` to ``/etc/tmpfiles.d``, which systemd writes at each
    start, and are set at once; commands hold until then.
    """
    wrong = [f for f in findings if f.wrong]
    return "\n".join(_lines(wrong)) + "\n"


def _lines(wrong: list[Finding]) -> Iterator[str]:
    yield "#!/bin/sh"
    yield "# What `ryle doctor` found to mend on this machine. Read it, then run it as root."
    yield "set -u"
    values = {m.name: m.value for f in wrong for m in f.mends if isinstance(m, Sysctl)}
    if values:
        yield from ("", f"mkdir -p /etc/sysctl.d && cat > {_SYSCTL} <<'END'")
        yield from (f"{name} = {value}" for name, value in values.items())
        yield from ("END", f"sysctl -p {_SYSCTL}")
    writes = {m.path: m.value for f in wrong for m in f.mends if isinstance(m, Write)}
    kept = {path: value for path, value in writes.items() if path.startswith("/sys/") and "/cgroup/" not in path}
    if kept:
        yield from ("", f"mkdir -p /etc/tmpfiles.d && cat > {_TMPFILES} <<'END'")
        yield from (f"w {path} - - - - {value}" for path, value in kept.items())
        yield "END"
    for path, value in writes.items():
        yield str(Write(path, value))
    commands = [(f, m) for f in wrong for m in f.mends if isinstance(m, Command)]
    if commands:
        yield from ("", "# These hold until the next start.")
        yield from dict.fromkeys(m.line for _, m in commands)
    words = dict.fromkeys(word for f in wrong for m in f.mends if isinstance(m, Boot) for word in m.words.split())
    if words:
        yield from ("", f"# From the next start on, on the kernel's command line: {' '.join(words)}")
    hands = [(f, m) for f in wrong for m in f.mends if isinstance(m, Hand)]
    if hands:
        yield from ("", "# By hand:")
        yield from (f"#   {f.key}{f' ({f.where})' if f.where else ''}: {m.text}" for f, m in hands)
