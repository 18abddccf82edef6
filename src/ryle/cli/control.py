"""`ryle control`: steer a correlator that runs on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from ryle.serve.telescope import Change, Telescope

app = typer.Typer(
    add_completion=False,
    help="Steer a running correlator: gains and delays of its inputs, from a stated sample on.",
    no_args_is_help=True,
)

Inputs = Annotated[
    list[str] | None,
    typer.Option(
        "--input", help="An input: its number, its name (antenna and polarization), or an antenna. All if absent."
    ),
]
At = Annotated[
    str | None,
    typer.Option(help="When: a time stamp (samples since sync_time), or UTC as ISO 8601. As soon as can be if absent."),
]
Name = Annotated[
    str | None, typer.Option("--observation", help="Name of the observation; the one that started last if absent.")
]


@app.command()
def gains(
    value: Annotated[
        str, typer.Argument(help="Complex number such as 1.5, 0.8+0.2j or 1@90 (degrees); or a .npy file.")
    ],
    inputs: Inputs = None,
    at: At = None,
    observation: Name = None,
) -> None:
    """Set the complex gains of inputs, on all channels or, from a file, on each."""
    import numpy as np

    from ryle.serve.telescope import Telescope

    if Path(value).suffix == ".npy":
        try:
            found = np.load(value, allow_pickle=False)
        except (OSError, ValueError) as error:
            raise typer.BadParameter(f"{value} cannot be read as an array of numpy's: {error}") from None
    else:
        found = np.complex64(_complex(value))
    with Telescope(observation) as telescope:
        _say(telescope.set_gains(found, inputs, _sample(telescope, at)))


@app.command()
def delays(
    delay: Annotated[str, typer.Argument(help='Delay, such as "1.25 ns" or "-3e-9"; positive delays the input.')],
    rate: Annotated[float, typer.Option(help="Its rate, s/s.")] = 0.0,
    phase: Annotated[float, typer.Option(help="Total phase at the centre of the band, degrees.")] = 0.0,
    phase_rate: Annotated[float, typer.Option(help="Its rate, degrees/s.")] = 0.0,
    inputs: Inputs = None,
    at: At = None,
    observation: Name = None,
) -> None:
    """Steer inputs by a delay model of one's own, in place of the phase centre's, from its time on."""
    import math

    from ryle.serve.telescope import Telescope

    seconds = _seconds(delay)
    model = [seconds, rate, math.radians(phase), math.radians(phase_rate)]
    with Telescope(observation) as telescope:
        _say(telescope.set_delays(model, inputs, _sample(telescope, at)))


@app.command()
def inputs(observation: Name = None) -> None:
    """List the inputs of the observation that runs, by number and name."""
    from ryle.serve.telescope import Telescope

    with Telescope(observation) as telescope:
        for number, name in enumerate(telescope.inputs()):
            typer.echo(f"{number}\t{name}")


def _sample(telescope: Telescope, at: str | None) -> int | None:
    if at is None:
        return None
    return int(at) if at.isdecimal() else telescope.sample_at(at)


def _complex(text: str) -> complex:
    import cmath
    import math

    size, turned, angle = text.replace(" ", "").partition("@")
    try:
        return cmath.rect(float(size), math.radians(float(angle))) if turned else complex(size)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no complex number: write 1.5, 0.8+0.2j or 1@90") from None


def _seconds(text: str) -> float:
    from pydantic import TypeAdapter, ValidationError

    from ryle.config.units import Seconds

    try:
        return float(TypeAdapter(Seconds).validate_python(text if not _number(text) else float(text)))
    except ValidationError:
        raise typer.BadParameter(
            f"{text!r} is no delay: write a number of seconds, or one with a unit, 1.25 ns"
        ) from None


def _number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _say(change: Change) -> None:
    typer.echo(f"data reflect it from sample {change.sample} on, {change.utc}")
