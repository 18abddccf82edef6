"""What CASPER's drivers do to a core's registers, as a table, from the list that a test carries out."""

from __future__ import annotations

import tomllib
from pathlib import Path

_LIST = Path(__file__).parents[1] / "hdl" / "tb" / "cosim" / "casperfpga.toml"


def page() -> str:
    """Write the list as MyST."""
    rows = ["| call | accesses | | source |", "|---|---|---|---|"]
    for call in tomllib.loads(_LIST.read_text())["call"]:
        accesses = "<br>".join(f"`{a}`" for a in call["accesses"])
        rows.append(f"| `{call['name']}` | {accesses} | {call['means']} | {call['source']} |")
    return "\n".join(rows) + "\n"
