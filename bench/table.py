"""Make the table of all figures that `bench/cpu.py --json` saved in bench/results: ``python bench/table.py``."""

import json
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
COLUMNS = "case", "value", "baseline", "time ratio", "range of runs", "target", "share of limit"
HEAD = f"| {' | '.join(COLUMNS)} |\n|---{'|--:' * (len(COLUMNS) - 1)}|\n"


def row(figure: dict[str, Any]) -> str:
    def shown(key: str, form: str = "{:.3g}") -> str:
        return "" if figure[key] is None else form.format(figure[key])

    spread = figure["spread"]
    cells = (
        figure["case"],
        f"{figure['value']:.3g} {figure['unit']}",
        shown("baseline_value"),
        shown("ratio", "{:.3f}"),
        f"{spread[0]:.3f} to {spread[1]:.3f}" if spread else "",
        shown("target", "≤ {:g}"),
        f"{figure['value'] / figure['limit']:.0%}" if figure["limit"] else "",
    )
    return f"| {' | '.join(cells)} |\n"


def section(path: Path) -> str:
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
    (RESULTS / "cpu.md").write_text("\n".join(section(path) for path in sorted(RESULTS.glob("cpu_*.json"))))
