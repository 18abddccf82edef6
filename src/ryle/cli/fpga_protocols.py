"""`ryle fpga igmp` and `ryle fpga ping`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ryle.cli.fpga_core import NO_FPGA, At, Json, opened, print_json

if TYPE_CHECKING:
    from ryle.fpga.protocols import Membership

igmp = typer.Typer(help="The multicast groups that the core is a member of.")


def _show(now: Membership, json: bool) -> None:
    from dataclasses import asdict

    if json:
        print_json(asdict(now))
        return
    if not now.groups:
        typer.echo("no group is received: `ryle fpga igmp join 239.1.2.3`")
    else:
        off = "" if now.igmp else ": IGMP is off, `ryle fpga set --igmp`"
        typer.echo(f"{now.groups} is received, and {'joined' if now.joined else 'not joined'}{off}")
    typer.echo(f"{now.queries} queries received, {now.sent} reports and leaves sent")


@igmp.command("show")
def igmp_show(at: At = NO_FPGA, json: Json = False) -> None:
    """Print which groups are received, and whether switches and routers know it."""
    from ryle.fpga.protocols import membership

    with opened(at) as core:
        _show(membership(core), json)


@igmp.command("join")
def igmp_join(
    groups: Annotated[str, typer.Argument(help="239.1.2.3, or 239.1.2.0/24; the only ones from then on.")],
    at: At = NO_FPGA,
    json: Json = False,
) -> None:
    """Receive groups, and report them to the network as often as it asks."""
    from ryle.fpga.protocols import join

    with opened(at) as core:
        _show(join(core, groups), json)


@igmp.command("leave")
def igmp_leave(at: At = NO_FPGA, json: Json = False) -> None:
    """Receive no group any more, and say so to the network."""
    from ryle.fpga.protocols import leave

    with opened(at) as core:
        _show(leave(core), json)


def ping(
    host: Annotated[str, typer.Argument(help="IPv4 address.")],
    at: At = NO_FPGA,
    count: Annotated[int, typer.Option("--count", "-c", help="Requests.", min=1, max=65535)] = 3,
    size: Annotated[int, typer.Option("--size", "-s", help="Bytes behind the ICMP header.", min=0)] = 56,
    timeout: Annotated[float, typer.Option("--timeout", "-W", help="Seconds for an answer.", min=0.001)] = 1.0,
    json: Json = False,
) -> None:
    """Ask a host, from the core, whether it is there; ends with 1 if it never answers.

    Times have the register accesses in them. Frames that wait for a processor beside the core are lost meanwhile.
    """
    from dataclasses import asdict

    from ryle.fpga.protocols import ping as ask

    answers = []
    with opened(at) as core:
        for sequence in range(1, count + 1):
            answers.append(ask(core, host, sequence, size, timeout))
            took = answers[-1].milliseconds
            if not json:
                typer.echo(f"{host}: {sequence} " + ("no answer" if took is None else f"after {took:.3g} ms"))
    heard = sum(a.milliseconds is not None for a in answers)
    if json:
        print_json(
            {"host": host, "size": size, "sent": count, "answered": heard, "answers": [asdict(a) for a in answers]}
        )
    else:
        typer.echo(f"{heard} of {count} answered")
    if not heard:
        raise typer.Exit(1)
