"""The manual page ``man ryle``, from the commands themselves, as the command-line reference is: ``make man``."""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path

from command_line import Parameter, commands, parameters

from ryle import __version__, cli
from ryle.cli.worked import WORKED

_STATUS = {"0": "All is well.", "1": "It failed.", "2": "The command line or a file given is wrong.", "130": "Ctrl-C."}


def page() -> str:
    """Write all commands with their arguments and options as one page of man(7) macros."""
    about = _roff(str(cli.app.info.help))
    parts = [
        f'.TH RYLE 1 "" "ryle {__version__}" "Ryle"',
        f".SH NAME\nryle \\- {about[0].lower()}{about[1:].rstrip('.')}",
        ".SH SYNOPSIS\n.B ryle\n.I COMMAND\n[\n.I arguments\n]",
        f".SH DESCRIPTION\n{about}\n.SH COMMANDS",
        *(_command(name) for name in commands()),
        ".SH EXIT STATUS",
        *(f".TP\n.B {status}\n{_roff(text)}" for status, text in _STATUS.items()),
    ]
    return "\n".join(parts) + "\n"


def _command(name: str) -> str:
    command = commands()[name]
    lines = [f'.SS "ryle {name}"', ".PP\n".join(_roff(p) + "\n" for p in (inspect.getdoc(command) or "").split("\n\n"))]
    lines += [_parameter(p) for p in parameters(command)]
    lines.append(f".PP\nExample:\n.PP\n.RS\n.B {_roff(WORKED[name])}\n.RE")
    return "\n".join(lines)


def _parameter(p: Parameter) -> str:
    text = p.help[:1].upper() + p.help[1:].rstrip(".") + "."
    if p.choices:
        text += f" One of {', '.join(p.choices)}."
    if p.default:
        text += f" Default: {p.default}."
    return f".TP\n.B {_roff(', '.join(p.names))}\n{_roff(text)}"


def _roff(text: str) -> str:
    """Write text as one line in which nothing is a macro."""
    flat = re.sub(r"`+|\*\*", "", " ".join(text.split())).replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + flat if flat.startswith((".", "'")) else flat


if __name__ == "__main__":
    to = Path(sys.argv[1])
    to.parent.mkdir(parents=True, exist_ok=True)
    to.write_text(page(), encoding="utf-8")
