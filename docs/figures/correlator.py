"""Draw the pictures of how fast the GPU's X-engine is, from the file in bench/results.

``python docs/figures/correlator.py [--speed FILE] [--output FOLDER]``; by default what was measured on an H200. Writes
docs/_static/correlator-*.png and a table beside the file of results.
"""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from ryle.products.plots.style import COLOURS, figure, grid

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "bench" / "results"
#: Useful TOPS of the best published kernel on an H200, by inputs; measured another day, not in the run that is drawn.
PUBLISHED = {64: 177, 128: 268, 144: 144, 256: 396, 512: 406, 1024: 454}


class Speeds:
    """Rows of a file of results, by case."""

    def __init__(self, saved: dict[str, Any]) -> None:
        self.machine, self.rows = saved["machine"], saved["results"]
        self.copy = self.rows[0]["value"]
        product = [row["value"] for row in self.rows if "matrix product" in row["case"]]
        self.product = product[0] if product else None
        self.cases = list(dict.fromkeys(row["case"] for row in self.rows if row["inputs"]))
        self.best = self.cases[0]

    def of(self, case: str, **wanted: int) -> list[dict[str, Any]]:
        """List the rows of a case, by inputs and times."""
        rows = [r for r in self.rows if r["case"] == case and all(r[key] == value for key, value in wanted.items())]
        return sorted(rows, key=lambda row: (row["inputs"], row["times"]))

    @property
    def times(self) -> int:
        """Length of the plain integrations."""
        return max((row["times"] for row in self.rows if row["inputs"] and row.get("target")), default=4096)

    @property
    def title(self) -> str:
        """Where and when."""
        return f"{self.machine['gpu']}, {self.machine['date']}, commit {self.machine['commit'][:10]}"


def bars(axes: Any, rows: list[dict[str, Any]], colour: str, label: str) -> None:
    """Draw values by inputs, with the spread of the turns."""
    values = [row["value"] for row in rows]
    low = [max(0, row["value"] - row["spread"][0]) for row in rows]
    high = [max(0, row["spread"][1] - row["value"]) for row in rows]
    inputs = [row["inputs"] for row in rows]
    axes.errorbar(inputs, values, (low, high), fmt=".-", color=colour, label=label, capsize=2, linewidth=1)


def draw_inputs(speeds: Speeds, output: Path) -> None:
    """Useful TOPS by inputs, of every kernel and form, beside the matrix product and what others have."""
    with figure(
        output, "Useful operations of the correlator", f"{speeds.title}; {speeds.times} times", (8, 5)
    ) as drawing:
        axes = drawing.subplots()
        for colour, case in zip(COLOURS, speeds.cases, strict=False):
            bars(axes, speeds.of(case, times=speeds.times), colour, case)
        axes.plot(
            list(PUBLISHED),
            list(PUBLISHED.values()),
            "x:",
            color="0.5",
            linewidth=1,
            label="best published kernel, another day",
        )
        goals = [row for row in speeds.of(speeds.best, times=speeds.times) if row["target"]]
        inputs, targets = [row["inputs"] for row in goals], [row["target"] for row in goals]
        axes.plot(inputs, targets, "_", color="black", markersize=14, label="to reach")
        if speeds.product:
            axes.axhline(speeds.product, color="0.4", linestyle="--", linewidth=0.8)
            axes.annotate("int8 matrix product of the vendor", (64, speeds.product), va="bottom", fontsize=8)
        input_axis(axes, sorted({row["inputs"] for row in speeds.of(speeds.best)}))
        axes.set_ylabel("TOPS, useful")
        axes.set_ylim(0)
        axes.legend()


def draw_times(speeds: Speeds, output: Path) -> None:
    """Rates by length of an integration, as shares of that of plain integrations."""
    with figure(output, "Short and long integrations", speeds.title, (8, 4.5)) as drawing:
        axes = drawing.subplots()
        lengths = set()
        inputs = sorted({row["inputs"] for row in speeds.of(speeds.best)})
        for colour, n in zip(COLOURS, inputs, strict=False):
            rows = speeds.of(speeds.best, inputs=n)
            plain = next((row["value"] for row in rows if row["times"] == speeds.times), None)
            if plain is None or len(rows) < 2:
                continue
            lengths |= {row["times"] for row in rows}
            shares = [100 * row["value"] / plain for row in rows]
            axes.plot([row["times"] for row in rows], shares, ".-", color=colour, label=f"{n} inputs")
            goals = [row for row in rows if row["target"]]
            targets = [100 * row["target"] / plain for row in goals]
            axes.plot([row["times"] for row in goals], targets, "_", color=colour, markersize=14)
        axes.set_xscale("log", base=2)
        axes.set_xticks(sorted(lengths), [str(n) for n in sorted(lengths)])
        axes.minorticks_off()
        axes.set_xlabel("times of an integration")
        axes.set_ylabel(f"per cent of the rate at {speeds.times} times; bars: to reach")
        axes.set_ylim(0)
        axes.legend()


def draw_limits(speeds: Speeds, output: Path) -> None:
    """Share of the dense peak and of the copy's rate, and energy, by inputs."""
    with figure(output, "Limits and energy", f"{speeds.title}; {speeds.times} times", (10, 4.5)) as drawing:
        left, right = grid(drawing, 1, 2)[0]
        kernels = [case for case in speeds.cases if "," not in case]
        for colour, case in zip(COLOURS, kernels, strict=False):
            rows = speeds.of(case, times=speeds.times)
            inputs = [row["inputs"] for row in rows]
            for key, style, what in (("peak", "-", "arithmetic peak"), ("memory", "--", "copy")):
                if all(key in row for row in rows):
                    shares = [100 * row[key] for row in rows]
                    left.plot(inputs, shares, style, marker=".", color=colour, label=f"{case}, of {what}")
            if all("joules" in row for row in rows):
                right.plot(inputs, [row["joules"] for row in rows], ".-", color=colour, label=case)
        for row in speeds.rows:
            if "matrix product" in row["case"] and "joules" in row:
                right.axhline(row["joules"], color="0.4", linestyle="--", linewidth=0.8, label="matrix product")
        for axes in (left, right):
            input_axis(axes, sorted({row["inputs"] for row in speeds.of(speeds.best)}))
            axes.set_ylim(0)
            if axes.get_legend_handles_labels()[0]:
                axes.legend(fontsize=8)
        left.set_ylabel("per cent")
        right.set_ylabel("J for 10¹² complex products")


def input_axis(axes: Any, inputs: list[int]) -> None:
    """Label numbers of inputs."""
    axes.set_xscale("log", base=2)
    axes.set_xticks(inputs, [str(n) for n in inputs], rotation=45)
    axes.minorticks_off()
    axes.set_xlabel("inputs (antennas × polarizations)")


def rates_table(speeds: Speeds) -> str:
    """Every figure as a Markdown table."""
    head = (
        "case",
        "inputs",
        "times",
        "value",
        "turns",
        "to reach",
        "ratio",
        "to",
        "of product",
        "of peak",
        "of copy",
        "J",
    )
    lines = [head, ("---", *["--:"] * 6, "---", *["--:"] * 4)]
    for row in speeds.rows:
        ratio = "" if row["ratio"] is None else f"{row['ratio']:.2f}"
        shares = [f"{row[key]:.0%}" if key in row else "" for key in ("product", "peak", "memory")]
        lines.append(
            (
                row["case"],
                *("" if row[key] is None else str(row[key]) for key in ("inputs", "times")),
                f"{row['value']:.4g} {row['unit']}",
                f"{row['spread'][0]:.4g} to {row['spread'][1]:.4g}",
                "" if row["target"] is None else f"{row['target']:g}",
                ratio + (f" (to keep: {row['least']:g})" if row["least"] else ""),
                row["baseline"],
                *shares,
                f"{row['joules']:.2f}" if "joules" in row else "",
            )
        )
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


DRAWINGS = {"inputs": draw_inputs, "times": draw_times, "limits": draw_limits}


def main(
    speed: Annotated[Path, typer.Option(help="What `ryle bench correlate --json` saved.")] = RESULTS
    / "correlate_h200.json",
    output: Annotated[Path, typer.Option(help="Where pictures go.")] = ROOT / "docs" / "_static",
) -> None:
    speeds = Speeds(json.loads(speed.read_text()))
    for name, draw in DRAWINGS.items():
        draw(speeds, output / f"correlator-{name}.png")
    speed.with_suffix(".md").write_text(f"{speeds.title}.\n\n{rates_table(speeds)}")


if __name__ == "__main__":
    typer.run(main)
