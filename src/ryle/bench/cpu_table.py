"""Make cpu.md of all that ``ryle bench cpu --json`` saved: ``python -m ryle.bench.cpu_table bench/results``."""

import json
import sys
from pathlib import Path
from typing import Any

COLUMNS = "case", "value", "baseline", "time ratio", "range of runs", "target", "share of limit"
HEAD = f"| {' | '.join(COLUMNS)} |\n|---{'|--:' * (len(COLUMNS) - 1)}|\n"


def row(figure: dict[str, Any]) -> str:
    """Write a figure's line."""

    def shown(key: str, form: str = "{:.3g}") -> str:
        return "" if figure.get(key) is None else form.format(figure[key])

    spread = figure.get("ratio_spread")
    cells = (
        figure["case"],
        f"{figure['value']:.3g} {figure['unit']}",
        shown("baseline_value"),
        shown("ratio", "{:.3f}"),
        f"{spread[0]:.3f} to {spread[1]:.3f}" if spread else "",
        shown("most", "≤ {:g}"),
        f"{figure['value'] / figure['limit']:.0%}" if figure.get("limit") else "",
    )
    return f"| {' | '.join(cells)} |\n"


def section(path: Path) -> str:
    """Write what one file holds."""
    saved = json.loads(path.read_text())
    about = saved["machine"]
    busy = ""
    if "stolen" in about:
        busy = f"load {about['load_before']:.1f}, {about['stolen']:.1%} of the time stolen by the hypervisor; "
    return (
        f"**{about['cpu']}**, one core of {about['cores']}; {about['date']}, commit {about['commit']}; medians of "
        f"{about['runs']} runs; {busy}numpy {about['numpy']}, scipy {about['scipy']}.\n\n"
        f"{HEAD}{''.join(map(row, saved['results']))}"
    )


if __name__ == "__main__":
    results = Path(sys.argv[1])
    (results / "cpu.md").write_text("\n".join(section(path) for path in sorted(results.glob("cpu_*.json"))))
