"""Draw feeds on the sky, as recorded and as exported, and what Stokes parameters are there.

``python docs/figures/polarization.py [--output FOLDER]`` writes docs/_static/polarization-feeds.png. What stands for x′
and y′ is asked of `ryle.products.feeds`, which exports go through.
"""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from matplotlib.patches import Arc, FancyArrowPatch

from ryle.products.feeds import Placement
from ryle.products.plots.style import COLOURS, figure, grid

STATIC = Path(__file__).parents[1] / "_static"
RECORDED, EXPORTED, SKY = COLOURS[1], COLOURS[0], COLOURS[2]

#: What stands in the observation file, and the position angles of x and y that it means, degrees.
ARRAYS = {
    'x_orientation = "east"\n(the default)': (90, 0),
    'x_orientation = "north"': (0, 90),
    'feed_angles =\n["45 deg", "-45 deg"]': (45, -45),
    'feed_angles =\n["100 deg", "10 deg"]': (100, 10),
}


def towards(angle: float, length: float) -> tuple[float, float]:
    """Place on a drawing with north up and east to the left, of a position angle in radians."""
    return -length * np.sin(angle), length * np.cos(angle)


def placed(degrees: tuple[float, float]) -> tuple[list[str], list[float]]:
    """Recorded feeds, with their signs, that x′ and y′ are made of, and the angles of x′ and y′ in radians."""
    found = Placement.northward(["x", "y"], np.radians([degrees]), products=4)
    made = [("−" if sign < 0 else "") + "xy"[k] for k, sign in zip(found.source[0], found.sign[0], strict=True)]
    return made, found.angles[0].tolist()


def compass(axes: Any, title: str) -> None:
    """Prepare a piece of sky: circle, north and east."""
    axes.set(xlim=(-1.35, 1.35), ylim=(-1.3, 1.35), aspect="equal")
    axes.set_axis_off()
    axes.set_title(title, fontsize=9)
    axes.add_patch(Arc((0, 0), 2, 2, color="0.8"))
    for name, angle in (("N", 0.0), ("E", np.pi / 2)):
        axes.text(*towards(angle, 1.18), name, ha="center", va="center", color="0.45")


def feed(axes: Any, angle: float, label: str, colour: str) -> None:
    """Draw a feed as an arrow, from behind the middle so that it looks like what it is."""
    start, end = towards(angle, -0.3), towards(angle, 0.95)
    axes.add_patch(FancyArrowPatch(start, end, arrowstyle="-|>", mutation_scale=16, lw=2.5, color=colour))
    side = np.copysign(0.16 + 0.06 * len(label) * abs(np.cos(angle)), 2 - angle)
    beside = np.array(towards(angle, 0.68)) + towards(angle - np.pi / 2, side)
    axes.text(*beside, label, ha="center", va="center", color=colour, fontsize=11)


def turning(axes: Any, angles: tuple[float, float], radius: float, label: str, colour: str) -> None:
    """Draw a field that turns from one position angle to another."""
    x, y = np.array([towards(a, radius) for a in np.linspace(*angles, 40)]).T
    axes.plot(x, y, color=colour, lw=2.5)
    axes.add_patch(FancyArrowPatch((x[-3], y[-3]), (x[-1], y[-1]), arrowstyle="-|>", mutation_scale=16, color=colour))
    axes.text(
        *towards(float(np.mean(angles)), radius - 0.2), label, ha="center", va="center", color=colour, fontsize=11
    )


def stokes(axes: Any) -> None:
    """Draw the fields of positive Q, U and V as an observer sees them."""
    compass(axes, "The sky: fields of\nQ, U and V > 0")
    for name, angle in (("Q", 0.0), ("U", np.pi / 4)):
        ends = np.array([towards(angle, 0.9), towards(angle, -0.9)]).T
        axes.plot(*ends, color=SKY, lw=2.5)
        axes.text(*np.add(towards(angle, 0.72), (0.16, 0.06)), name, color=SKY, fontsize=11)
    turning(axes, (1.0, 2.6), 0.6, "V", SKY)


def circular(axes: Any) -> None:
    """Draw what circular feeds answer to."""
    compass(axes, 'polarizations = ["r", "l"]\nare exported as they are')
    turning(axes, (0.7, 2.4), 0.75, "r", RECORDED)
    turning(axes, (-0.7, -2.4), 0.75, "l", RECORDED)


def draw(output: Path) -> Path:
    """Draw the sky, and arrays as recorded above what becomes of them."""
    target = output / "polarization-feeds.png"
    about = "Seen from the ground: north up (the zenith of a steerable dish), east left. Above as recorded, below as exported"
    with figure(target, "Feeds on the sky", about, (11, 5.6)) as drawing:
        axes = grid(drawing, 2, len(ARRAYS) + 1)
        stokes(axes[0, 0])
        circular(axes[1, 0])
        for above, below, (title, degrees) in zip(axes[0, 1:], axes[1, 1:], ARRAYS.items(), strict=True):
            compass(above, title)
            for name, angle in zip("xy", np.radians(degrees), strict=True):
                feed(above, angle, name, RECORDED)
            made, angles = placed(degrees)
            compass(below, f"RECEPTOR_ANGLE\n{', '.join(f'{np.degrees(a):g}°' for a in angles)}")
            for name, source, angle in zip("xy", made, angles, strict=True):
                feed(below, angle, f"{name}′ = {source}", EXPORTED)
    return target


def main(output: Annotated[Path, typer.Option(help="Folder.")] = STATIC) -> None:
    """Draw the figure of docs/explanation/polarization.md."""
    typer.echo(draw(output))


if __name__ == "__main__":
    typer.run(main)
