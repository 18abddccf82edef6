"""`ryle control`: steer a correlator that runs on this machine."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

if TYPE_CHECKING:
    from ryle.serve.asking import Change
    from ryle.serve.telescope import Telescope

app = typer.Typer(
    add_completion=False,
    help="Steer a running correlator: gains, delays, phase centre, files, raw samples, from a stated sample on.",
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
File = Annotated[
    str | None, typer.Option(help="Name of the file that begins, without .uvh5; the next free one if absent.")
]
Name = Annotated[
    str | None, typer.Option("--observation", help="Name of the observation; the one that started last if absent.")
]


class Signed(TyperCommand):
    """A command that takes -30d43m17.5s for an argument, not for options."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read what was typed; numbers are read with a space before their sign as well, which no option has."""
        return super().parse_args(ctx, [f" {arg}" if re.match(r"-[\d.]", arg) else arg for arg in args])


@app.command(cls=Signed)
def gains(
    value: Annotated[
        str | None,
        typer.Argument(
            help="Complex number such as 1.5, 0.8+0.2j or 1@90 (degrees); or a .npy file. If absent, say what they are."
        ),
    ] = None,
    inputs: Inputs = None,
    at: At = None,
    observation: Name = None,
) -> None:
    """Set the complex gains of inputs, on all channels or, from a file, on each; or read them."""
    import numpy as np

    from ryle.serve.telescope import Telescope

    if value is None:
        with Telescope(observation) as telescope:
            names = telescope.inputs()
            chosen = range(len(names)) if inputs is None else telescope.numbers(inputs)
            for number, row in zip(chosen, telescope.gains(list(chosen)), strict=True):
                same = f"{row[0]:.6g}" if (row == row[0]).all() else f"{np.abs(row).mean():.6g} on average, by channel"
                typer.echo(f"{number}\t{names[number]}\t{same}")
        return
    if Path(value).suffix == ".npy":
        try:
            found = np.load(value, allow_pickle=False)
        except (OSError, ValueError) as error:
            raise typer.BadParameter(f"{value} cannot be read as an array of numpy's: {error}") from None
    else:
        found = np.complex64(_complex(value))
    with Telescope(observation) as telescope:
        _say(telescope.set_gains(found, inputs, _sample(telescope, at)))


@app.command(cls=Signed)
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


@app.command("phase-centre", cls=Signed)
def phase_centre(
    ra: Annotated[str, typer.Argument(help='Right ascension, ICRS: "12h30m49.4s", or degrees.')],
    dec: Annotated[str, typer.Argument(help='Declination, ICRS: "-30d43m17.5s", or degrees.')],
    name: Annotated[str, typer.Option(help="Of the source, in the file.")] = "phase centre",
    file: File = None,
    at: At = None,
    observation: Name = None,
) -> None:
    """Track another phase centre with all inputs, and begin a file for it."""
    from ryle.serve.telescope import Telescope

    centre = _angle(ra, "right ascension"), _angle(dec, "declination")
    with Telescope(observation) as telescope:
        _say(telescope.set_phase_centre(*centre, name, _sample(telescope, at), file))


@app.command()
def scan(
    write: Annotated[
        bool | None, typer.Option("--start/--stop", help="Whether integrations are written; as before if absent.")
    ] = None,
    file: File = None,
    integration: Annotated[
        str | None,
        typer.Option(help='Of the file, such as "4 s": a multiple of that of the X-engines. As before if absent.'),
    ] = None,
    at: At = None,
    observation: Name = None,
) -> None:
    """Begin a file, with another length of integrations if wanted; or write none until the next."""
    from ryle.serve.telescope import Telescope

    seconds = None if integration is None else _seconds(integration)
    with Telescope(observation) as telescope:
        _say(telescope.set_scan(write, file, seconds, _sample(telescope, at)))


@app.command()
def trigger(
    seconds: Annotated[str | None, typer.Option(help='How much signal, such as 0.5 or "200 ms".')] = None,
    at: Annotated[
        str | None,
        typer.Option(
            help="First sample: a time stamp, or UTC as ISO 8601; of what has passed, as far back as fengine.history "
            "keeps it. What comes next if absent."
        ),
    ] = None,
    inputs: Annotated[
        list[str] | None,
        typer.Option("--antenna", "--input", help="An antenna, or an input; may be repeated. All if absent."),
    ] = None,
    name: Annotated[str, typer.Option(help="Stands in the files' names: letters, digits and - _ .")] = "trigger",
    stop: Annotated[bool, typer.Option("--stop", help="End what is being written; that stays.")] = False,
    observation: Name = None,
) -> None:
    """Write raw samples to files while they are correlated, from a stated sample on."""
    from ryle.serve import trigger as triggers
    from ryle.serve.telescope import Telescope

    if (seconds is None) != stop:
        raise typer.BadParameter("say how much to write, such as --seconds 0.5; or --stop alone")
    with Telescope(observation) as telescope:
        if seconds is None:
            done = triggers.stop(telescope)
        else:
            sample, length = _sample(telescope, at), _seconds(seconds)
            done = triggers.trigger(telescope, seconds=length, sample=sample, inputs=inputs, name=name)
        typer.echo(f"samples {done.sample} to {done.end}, from {done.utc} on")
        for engine, written in done.engines.items():
            typer.echo(f"{engine}\t{written.sample}\t{written.end}\t{written.file}")


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
            f"{text!r} is no time: write a number of seconds, or one with a unit, 1.25 ns"
        ) from None


def _angle(text: str, what: str) -> float:
    from pydantic import TypeAdapter, ValidationError

    from ryle.config.units import Angle

    try:
        return float(TypeAdapter(Angle).validate_python(float(text) if _number(text) else text))
    except ValidationError:
        raise typer.BadParameter(f"{text!r} is no {what}: write degrees, or 12h30m49.4s, -30d43m17.5s") from None


def _number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _say(change: Change) -> None:
    typer.echo(f"data reflect it from sample {change.sample} on, {change.utc}")
    for said in change.said.values():
        if "file" in said:
            what = f"{said['file']}, {said['integration']:.6g} s an integration"
            typer.echo(f"from then on: {what}" if said["file"] else "from then on nothing is written")
            break
