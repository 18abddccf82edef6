"""Draw the pictures of how fast and how pure the GPU's F-engine is, from the files in bench/results.

``python docs/figures/channelizer.py [--speed FILE] [--precision FILE] [--output FOLDER]``; by default what was measured
on an H200, and of purity on a CPU where nothing else is there. Writes docs/_static/channelizer-*.png and the table
bench/results/channelize_h200.md.
"""

import json
import math
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from ryle.products.plots.style import COLOURS, figure, grid

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "bench" / "results"
FUSED, BASELINE = "fused", "three kernels"
PCIE = 51e9  # bytes a second each way at once, measured on an H200 (PCIe 5.0, 16 lanes)
PCIE_4 = 20e9  # what Merry (2023) reckons with for PCIe 4.0
FP32_LANES = 128  # of a multiprocessor, from Ampere on; each does a multiplication and an addition a cycle


class Speeds:
    """Rows of a file of results, found by what they are of."""

    def __init__(self, saved: dict[str, Any]) -> None:
        self.machine, self.rows = saved["machine"], saved["results"]
        self.copy = self.rows[0]["value"] * 1e9
        self.channels = self._values("channels")
        self.taps = sorted({*self._values("taps"), 16})
        self.bits = self._values("bits")
        self.forms = [form for form in (FUSED, BASELINE) if any(row["case"] == form for row in self.rows)]

    def _values(self, key: str) -> list[int]:
        """Give what the whole matrix has, if it was measured; single cases of other numbers of channels are left out."""
        long = [row for row in self.rows if row["case"] == BASELINE and row.get("streams") == 2]
        return sorted({row[key] for row in [row for row in long if row["taps"] != 16] or long})

    def value(self, case: str, channels: int, taps: int, bits: int) -> float:
        """Gsample/s of a case at long launches, two streams; NaN if it was not measured."""
        long = [row for row in self.of(case, channels, taps, bits) if row.get("streams") == 2]
        plain = [row for row in long if row["layout"] == "blocks" and row["policy"] == "flat"]
        return max(plain, key=lambda row: row["spectra"])["value"] if plain else math.nan

    def of(self, case: str, channels: int, taps: int, bits: int) -> list[dict[str, Any]]:
        """List the rows of a case that are rates."""
        shape = (case, channels, taps, bits, "Gsample/s")
        return [r for r in self.rows if (r["case"], r["channels"], r["taps"], r["bits"], r["unit"]) == shape]

    @property
    def peak(self) -> float:
        """Single-precision operations a second at the highest clock."""
        clock = float(self.machine.get("clocks.max.sm", "1980 MHz").split()[0]) * 1e6
        return self.machine["multiprocessors"] * FP32_LANES * 2 * clock

    @property
    def title(self) -> str:
        """Where and when."""
        return f"{self.machine['gpu']}, {self.machine['date']}, commit {self.machine['commit'][:10]}"


def operations(channels: int, taps: int) -> float:
    """Operations a sample that any form must do: filter, real Fourier transform, two complex products."""
    return 2 * taps + 2.5 * math.log2(2 * channels) + 6


def floor(bits: int) -> float:
    """Bytes a sample that any form must move."""
    return bits / 8 + 1


def draw_rates(speeds: Speeds, output: Path) -> None:
    """Rates by channels, of each number of taps at 10 bits and of each number of bits at 16 taps."""
    with figure(output, "Rate of the channelizer", speeds.title, (10, 4.5)) as drawing:
        left, right = grid(drawing, 1, 2, sharey=True)[0]
        panels = (
            (left, [(t, 10, f"{t} taps") for t in speeds.taps], "10 bit"),
            (right, [(16, b, f"{b} bit") for b in speeds.bits], "16 taps"),
        )
        for axes, lines, title in panels:
            for colour, (taps, bits, label) in zip(COLOURS, lines, strict=False):
                for form, style in zip(speeds.forms, ("-", "--"), strict=False):
                    rates = [speeds.value(form, n, taps, bits) for n in speeds.channels]
                    name = label if form == speeds.forms[0] else None
                    axes.plot(speeds.channels, rates, style, marker=".", color=colour, label=name)
            channel_axis(axes, speeds.channels)
            axes.set_title(title)
            axes.legend()
            axes.set_ylim(0)
        left.set_ylabel(
            f"Gsample/s ({', '.join(speeds.forms)}: {'solid, dashed' if len(speeds.forms) > 1 else 'solid'})"
        )


def draw_transforms(speeds: Speeds, output: Path) -> None:
    """Time of the library's transforms (Fig. 5 of the paper), and that of copying what they read and write."""
    with figure(output, "Fourier transforms of a library", speeds.title, (7, 4.5)) as drawing:
        axes = drawing.subplots()
        kinds = sorted({row["case"] for row in speeds.rows if row["unit"] == "Gvalue/s"})
        for colour, kind in zip(COLOURS, kinds, strict=False):
            rows = [row for row in speeds.rows if row["case"] == kind]
            axes.plot([r["channels"] for r in rows], [1e3 / r["value"] for r in rows], ".-", color=colour, label=kind)
            axes.axhline(rows[0]["bytes"] / speeds.copy * 1e12, color=colour, linestyle=":", linewidth=0.8)
        channel_axis(axes, sorted({r["channels"] for r in speeds.rows if r["case"] in kinds}))
        axes.set_xlabel("Complex values of a transform's result")
        axes.set_ylabel("ps a complex value; dotted: copying it")
        axes.set_ylim(0)
        axes.legend()


def draw_roofline(speeds: Speeds, output: Path) -> None:
    """Rooflines (Fig. 8): the filter kernel alone by the bytes that it must move, and whole forms by theirs."""
    with figure(output, "Rooflines", speeds.title, (10, 4.5)) as drawing:
        left, right = grid(drawing, 1, 2, sharey=True)[0]
        n = speeds.channels[-1]
        for colour, taps in zip(COLOURS, speeds.taps, strict=False):
            rates = [speeds.value(f"{BASELINE}: FIR", n, taps, bits) for bits in speeds.bits]
            x = np.array([2 * taps / (bits / 8 + 4) for bits in speeds.bits])
            left.plot(x, 2 * taps * np.array(rates) / 1e3, ".", color=colour, label=f"{taps} taps")
            for form, marker in zip(speeds.forms, ("o", "x"), strict=False):
                rates = [speeds.value(form, n, taps, bits) for bits in speeds.bits]
                x = np.array([operations(n, taps) / floor(bits) for bits in speeds.bits])
                label = f"{taps} taps" if form == speeds.forms[0] else None
                y = operations(n, taps) * np.array(rates) / 1e3
                right.plot(x, y, linestyle="", marker=marker, markersize=4, color=colour, label=label)
        left.set_title(f"filter kernel of the three, {n} channels")
        markers = ", ".join(f"{form} {mark}" for form, mark in zip(speeds.forms, ("dots", "crosses"), strict=False))
        right.set_title(f"whole, by the byte floor: {markers}")
        for axes in (left, right):
            x = np.geomspace(0.5, 200, 100)
            axes.plot(x, np.minimum(x * speeds.copy, speeds.peak) / 1e12, color="0.4")
            axes.set_xscale("log", base=2)
            axes.set_yscale("log")
            axes.set_xticks([2.0**k for k in range(-1, 8)], [f"{2.0**k:g}" for k in range(-1, 8)])
            axes.set_yticks([2, 5, 10, 20, 50], ["2", "5", "10", "20", "50"])
            axes.minorticks_off()
            axes.set_xlabel("operations a byte")
            axes.legend(fontsize=7)
        left.set_ylabel("Top/s in single precision; line: copies, arithmetic")


def draw_floor(speeds: Speeds, output: Path) -> None:
    """Share of what the memory would allow were every byte moved once, of whole channelizers."""
    with figure(output, "Share of the byte floor", speeds.title, (10, 2.6 * len(speeds.forms))) as drawing:
        shares = {
            (form, n): np.array(
                [
                    [speeds.value(form, n, taps, bits) * 1e9 * floor(bits) / speeds.copy for bits in speeds.bits]
                    for taps in speeds.taps
                ]
            )
            for form in speeds.forms
            for n in speeds.channels
        }
        greatest = max(float(np.nanmax(share)) for share in shares.values() if not np.isnan(share).all())
        panels = grid(drawing, len(speeds.forms), len(speeds.channels), sharex=True, sharey=True)
        for row, form in zip(panels, speeds.forms, strict=True):
            for axes, n in zip(row, speeds.channels, strict=True):
                axes.imshow(shares[form, n], vmin=0, vmax=greatest, cmap="cividis", aspect="auto")
                for (i, j), share in np.ndenumerate(shares[form, n]):
                    text = "" if math.isnan(share) else f"{100 * share:.0f}"
                    colour = "white" if share < 0.6 * greatest else "black"
                    axes.text(j, i, text, ha="center", va="center", color=colour, fontsize=8)
                axes.set_xticks(range(len(speeds.bits)), map(str, speeds.bits))
                axes.set_yticks(range(len(speeds.taps)), map(str, speeds.taps))
                axes.set_title(f"{form}, {n} channels", fontsize=9)
        drawing.supxlabel("bits of a sample", fontsize=10)
        drawing.supylabel("taps; numbers are per cent", fontsize=10)


def draw_parts(speeds: Speeds, output: Path) -> None:
    """Share of their own byte floor of the filter (Fig. 9) and of what follows the transform (Fig. 10), of the three."""
    with figure(output, "Efficiency of the three kernels", speeds.title, (10, 4.5)) as drawing:
        left, right = grid(drawing, 1, 2, sharey=True)[0]
        n, width = speeds.channels[-1], 0.8 / len(speeds.bits)
        for j, (colour, bits) in enumerate(zip(COLOURS, speeds.bits, strict=False)):
            x = np.arange(len(speeds.taps)) + (j - (len(speeds.bits) - 1) / 2) * width
            rates = np.array([speeds.value(f"{BASELINE}: FIR", n, taps, bits) for taps in speeds.taps])
            left.bar(x, 100 * rates * 1e9 * (bits / 8 + 4) / speeds.copy, width, color=colour, label=f"{bits} bit")
        left.set_xticks(range(len(speeds.taps)), map(str, speeds.taps))
        left.set_xlabel("taps")
        left.set_title(f"filter, {n} channels: samples in, 4 bytes a sample out")
        left.legend(loc="upper right")
        rates = np.array([speeds.value(f"{BASELINE}: rest", n, 16, 10) for n in speeds.channels])
        right.bar(range(len(speeds.channels)), 100 * rates * 1e9 * 5 / speeds.copy, 0.6)
        right.set_xticks(range(len(speeds.channels)), map(str, speeds.channels))
        right.set_xlabel("channels")
        right.set_title("after the transform: 4 bytes a sample in, 1 out")
        left.set_ylabel("per cent of what the copy's rate allows")


def draw_pcie(speeds: Speeds, output: Path) -> None:
    """Memory bandwidth that a GPU needs for the PCIe bus to be the limit (Fig. 11), as the paper estimates it."""
    first, last = speeds.channels[0], speeds.channels[-1]
    with figure(output, "Memory bandwidth needed to fill PCIe", speeds.title, (10, 4.5)) as drawing:
        panels = grid(drawing, 1, len(speeds.forms), sharey=True)[0]
        width = 0.8 / len(speeds.bits)
        for axes, form in zip(panels, speeds.forms, strict=True):
            for j, (colour, bits) in enumerate(zip(COLOURS, speeds.bits, strict=False)):
                x = np.arange(len(speeds.taps)) + (j - (len(speeds.bits) - 1) / 2) * width
                needed = {
                    n: [needed_bandwidth(speeds, form, n, taps, bits) for taps in speeds.taps] for n in (first, last)
                }
                axes.bar(x, np.array(needed[last]) / 1e12, width, color=colour, label=f"{bits} bit")
                axes.hlines(np.array(needed[first]) / 1e12, x - width / 2, x + width / 2, color="black", linewidth=1)
            axes.axhline(speeds.copy / 1e12, color="0.4", linestyle="--", linewidth=0.8)
            axes.set_xticks(range(len(speeds.taps)), map(str, speeds.taps))
            axes.set_xlabel("taps")
            axes.set_title(f"{form}; bars {last}, lines {first} channels")
            axes.legend()
        panels[0].set_ylabel(f"TB/s for {PCIE / 1e9:g} GB/s each way; dashed: this GPU")


def needed_bandwidth(speeds: Speeds, form: str, channels: int, taps: int, bits: int, pcie: float = PCIE) -> float:
    """Bytes a second of a memory that feeds the kernels as fast as PCIe feeds it, PCIe's own traffic included."""
    rate = pcie / max(bits / 8, 1)
    return speeds.copy * rate / (speeds.value(form, channels, taps, bits) * 1e9) + rate * floor(bits)


def channel_axis(axes: Any, channels: list[int]) -> None:
    """Label powers of two."""
    axes.set_xscale("log", base=2)
    axes.set_xticks(channels, [str(n) for n in channels], rotation=45 if len(channels) > 6 else 0)
    axes.minorticks_off()
    axes.set_xlabel("channels")


def described(precision: dict[str, Any]) -> str:
    """Which form of the channelizer was studied, where."""
    return ", ".join([f"{precision['backend']} channelizer", *filter(None, [precision.get("where")])])


def draw_harmonics(precision: dict[str, Any], output: Path) -> None:
    """What a dithered tone leaves in other channels (Fig. 6)."""
    found = precision["harmonics"]
    subtitle = f"{described(precision)}; {found['bits']}-bit tone in channel {found['channel']}, {found['spectra']} spectra averaged"
    with figure(output, "Harmonics of a tone", subtitle, (8, 2 * len(found["power"]) + 1)) as drawing:
        for axes, (name, power) in zip(
            grid(drawing, len(found["power"]), 1, sharex=True, sharey=True)[:, 0], found["power"].items(), strict=True
        ):
            label = f"{name} ({precision['backend']})" if name == "channelizer" else name
            axes.plot(np.maximum(power, -160), linewidth=0.6)
            axes.axhline(-110, color="0.4", linestyle="--", linewidth=0.8)
            axes.set_title(f"{label}: greatest beside it {found['worst'][name]:.1f} dB", loc="left", fontsize=9)
        drawing.supxlabel("channel", fontsize=10)
        drawing.supylabel("power, dB of the tone's", fontsize=10)


def draw_response(precision: dict[str, Any], output: Path) -> None:
    """Response of a channel, measured and by the weights (Fig. 7)."""
    found = precision["response"]
    subtitle = f"{described(precision)}; {found[0]['bits']}-bit tones, {found[0]['taps']} taps"
    with figure(output, "Response of a channel", subtitle, (10, 4.5)) as drawing:
        for axes, response in zip(grid(drawing, 1, len(found), sharey=True)[0], found, strict=True):
            axes.plot(
                response["offset"], np.maximum(response["expected"], -170), color="0.6", label="transform of weights"
            )
            axes.plot(response["offset"], np.maximum(response["measured"], -170), ".", markersize=2.5, label="measured")
            axes.axhline(-120, color="0.4", linestyle="--", linewidth=0.8)
            axes.set_title(f"{response['channels']} channels: differences up to {response['worst']:.1f} dB")
            axes.set_xlabel("channels from the tone")
            axes.legend()
        drawing.supylabel("power, dB", fontsize=10)


def form_of(row: dict[str, Any]) -> str:
    """What is special about a row: bits, streams, order of the output, packets, a short launch."""
    streams, samples = row.get("streams", 2), row.get("spectra", 0) * 2 * row["channels"]
    parts = [row["case"]]
    parts += [f"{row['bits']} bit"] if row["bits"] != 10 else []
    parts += ["one stream"] if streams == 1 else []
    parts += [f"{streams} streams of {'2^20 samples' if samples <= 1 << 20 else 'more'}"] if streams > 2 else []
    parts += [row["layout"]] if row.get("layout", "blocks") != "blocks" else []
    parts += ["packet table"] if row.get("policy") == "table" else []
    parts += ["2 streams of 2^20 samples"] if streams == 2 and 0 < samples <= 1 << 22 else []
    return ", ".join(parts)


def rates_table(speeds: Speeds) -> str:
    """Every rate at 16 taps and 10 bits, of 8 bits too, and of all forms, as a Markdown table."""
    names: dict[str, dict[int, str]] = {}
    for row in speeds.rows:
        if row["taps"] != 16 or row["bits"] not in (8, 10) or row["channels"] not in speeds.channels:
            continue
        cells = {f"{form_of(row)}, {row['unit']}": f"{row['value']:.3g}"}
        what = form_of(row) + (", energy" if row["unit"].startswith("J") else "")
        if row["ratio"]:
            least = f" (to keep: {row['least']:g})" if row.get("least") else ""
            cells[f"{what} / {row['baseline']}{least}"] = f"{row['ratio']:.2f}"
        if row["target"]:
            cells[f"{form_of(row)}, to reach"] = f"{row['target']:g}"
        for name, text in cells.items():
            names.setdefault(name, {})[row["channels"]] = text
    lines = [("what", *(f"{n} channels" for n in speeds.channels)), ("---", *["--:"] * len(speeds.channels))]
    lines += [(name, *(found.get(n, "") for n in speeds.channels)) for name, found in names.items()]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def main(
    speed: Annotated[Path, typer.Option(help="What `ryle bench channelize --json` saved.")] = RESULTS
    / "channelize_h200.json",
    precision: Annotated[Path | None, typer.Option(help="What `ryle bench precision --json` saved.")] = None,
    output: Annotated[Path, typer.Option(help="Where pictures go.")] = ROOT / "docs" / "_static",
) -> None:
    measured = RESULTS / "precision_h200.json"
    found = precision or (measured if measured.exists() else RESULTS / "precision_cpu.json")
    studied = json.loads(found.read_text())
    draw_harmonics(studied, output / "channelizer-harmonics.png")
    draw_response(studied, output / "channelizer-response.png")
    if not speed.exists():
        print(f"{speed} is not there; make it on a GPU with: ryle bench channelize --json {speed}")
        return
    speeds = Speeds(json.loads(speed.read_text()))
    for name, draw in DRAWINGS.items():
        draw(speeds, output / f"channelizer-{name}.png")
    copies = [
        f"{row['case'].removeprefix('HBM copy: ')} {row['value']:.0f}" for row in speeds.rows if "copy:" in row["case"]
    ]
    about = f"{speeds.title}; copies in memory, GB/s read and written: {', '.join(copies) or round(speeds.copy / 1e9)}."
    speed.with_suffix(".md").write_text(f"{about}\n\n{rates_table(speeds)}")


DRAWINGS = {
    "rates": draw_rates,
    "transforms": draw_transforms,
    "roofline": draw_roofline,
    "floor": draw_floor,
    "parts": draw_parts,
    "pcie": draw_pcie,
}

if __name__ == "__main__":
    typer.run(main)
