"""`ryle fpga`: the FPGA core's registers, addresses, generator and counters; a simulated one to try it on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from ryle.fpga.core import Core

app = typer.Typer(
    add_completion=False,
    help="Ryle's FPGA Ethernet core: registers, addresses, packet generator, counters, simulation.",
)
arp = typer.Typer(help="The core's ARP table.")
generator = typer.Typer(help="The packet generator behind the core.")
app.add_typer(arp, name="arp")
app.add_typer(generator, name="generator")

At = Annotated[
    str,
    typer.Option(
        "--at", help="Where the registers are: sim:SOCKET, map:FILE (a PCIe BAR), map:FILE@OFFSET.", envvar="RYLE_FPGA"
    ),
]
NO_FPGA = "sim:/tmp/ryle-fpga"
_SAMPLES = "Samples, with --digitizer"


@contextmanager
def _opened(at: str) -> Iterator[Core]:
    from ryle.fpga.core import Core

    with Core(at) as core:
        yield core


@app.command()
def status(
    at: At = NO_FPGA,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Show it live until Ctrl-C.")] = False,
    interval: Annotated[float, typer.Option(help="--watch: seconds between pictures.", min=0.05)] = 1.0,
    json: Annotated[bool, typer.Option("--json", help="Print JSON; with --watch a line each time.")] = False,
    all_: Annotated[bool, typer.Option("--all", help="Counters that are 0 too.")] = False,
) -> None:
    """Print link, addresses, rates and counters of a core."""
    from ryle.fpga.view import show

    with _opened(at) as core:
        show(core, interval=interval if watch else None, json=json, everything=all_)


@app.command("set")
def set_(
    at: At = NO_FPGA,
    mac: Annotated[str | None, typer.Option(help="Own MAC address: 02:00:00:00:00:01.")] = None,
    ip: Annotated[str | None, typer.Option(help="Own address: 10.0.0.5, or 10.0.0.5/24 with the subnet.")] = None,
    netmask: Annotated[str | None, typer.Option(help="Of the subnet.")] = None,
    gateway: Annotated[str | None, typer.Option(help="Next hop of what leaves the subnet.")] = None,
    port: Annotated[int | None, typer.Option(help="UDP port that is received.", min=0, max=65535)] = None,
    port_mask: Annotated[
        str | None, typer.Option(help="Bits of --port that are compared: 0xfffc for four ports, 0 for all.")
    ] = None,
    multicast: Annotated[str | None, typer.Option(help="Groups that are received: 239.1.2.0/24.")] = None,
    enable: Annotated[bool | None, typer.Option("--enable/--disable", help="Send and receive.")] = None,
    promiscuous: Annotated[bool, typer.Option("--promiscuous", help="--enable: receive all addresses.")] = False,
    udp_checksum: Annotated[bool, typer.Option("--udp-checksum", help="--enable: compute UDP checksums.")] = False,
    accept_vlan: Annotated[bool, typer.Option("--accept-vlan", help="--enable: receive tagged frames.")] = False,
) -> None:
    """Set addresses, and switch the core on or off."""
    with _opened(at) as core:
        core.set_addresses(
            mac=mac,
            ip=ip,
            netmask=netmask,
            gateway=gateway,
            port=port,
            port_mask=None if port_mask is None else int(port_mask, 0),
            multicast=multicast,
        )
        if enable:
            core.enable(promiscuous=promiscuous, udp_checksum=udp_checksum, accept_vlan=accept_vlan)
        elif enable is False:
            core.write("control.enable", 0)
        elif promiscuous or udp_checksum or accept_vlan:
            raise typer.BadParameter("--promiscuous, --udp-checksum and --accept-vlan go with --enable")
        now = core.status()
        typer.echo(f"{now.mac} {now.ip} netmask {now.netmask} gateway {now.gateway} port {now.port}, "
                   f"{'enabled' if now.enabled else 'disabled: --enable switches it on'}")  # fmt: skip


@app.command()
def read(
    name: Annotated[str, typer.Argument(help="Register, REGISTER.FIELD, or an address.", metavar="REGISTER")],
    at: At = NO_FPGA,
) -> None:
    """Read a register."""
    with _opened(at) as core:
        value = core.read(name)
        typer.echo(f"{name} = {value} ({value:#x})")
        if "." not in name:
            for f in core.map.find(name).fields:
                typer.echo(f"  {f.name} = {(value & f.mask) >> f.low}  {f.means}")


@app.command()
def write(
    name: Annotated[str, typer.Argument(help="Register, REGISTER.FIELD, or an address.", metavar="REGISTER")],
    value: Annotated[str, typer.Argument(help="Number; 0x for hexadecimal.")],
    at: At = NO_FPGA,
) -> None:
    """Write a register, or one of its fields."""
    with _opened(at) as core:
        try:
            core.write(name, int(value, 0))
        except ValueError:
            raise typer.BadParameter(f"{value!r} is no number; write 17 or 0x11") from None


@app.command("registers")
def registers_() -> None:
    """List the register map."""
    from rich.console import Console

    from ryle.fpga.registers import load
    from ryle.fpga.view import register_table

    Console().print(register_table(load()))


@arp.command("show")
def arp_show(at: At = NO_FPGA) -> None:
    """List the neighbours whose MAC addresses are known."""
    with _opened(at) as core:
        found = core.arp_table()
        lines = [f"{ip:<15} {mac}" for ip, mac in found.items()]
        typer.echo(
            "\n".join(lines) or "no entry: the core asks when it has something to send, or `ryle fpga arp set IP MAC`"
        )


@arp.command("set")
def arp_set(
    ip: Annotated[str, typer.Argument(help="Neighbour's address.")],
    mac: Annotated[str, typer.Argument(help="Its MAC address.")],
    at: At = NO_FPGA,
) -> None:
    """Write an entry."""
    with _opened(at) as core:
        core.arp_set(ip, mac)


@arp.command("ask")
def arp_ask(ip: Annotated[str, typer.Argument(help="Where packets are to go.")], at: At = NO_FPGA) -> None:
    """Find out the MAC address of the next hop to an address, so that the first packet to it is not lost."""
    with _opened(at) as core:
        typer.echo(core.resolve(ip))


@arp.command("clear")
def arp_clear(at: At = NO_FPGA) -> None:
    """Forget all entries."""
    with _opened(at) as core:
        core.arp_clear()


@generator.command("start")
def generator_start(
    to: Annotated[str, typer.Option(help="Where to, a stream each: 10.0.0.1:7148, 10.0.0.1:7148+4, commas.")],
    at: At = NO_FPGA,
    length: Annotated[int, typer.Option(help="Bytes of a UDP payload.")] = 8192,
    gbps: Annotated[float, typer.Option(help="Gb/s of payload; as fast as it goes if 0.", min=0)] = 0.0,
    packets: Annotated[int, typer.Option(help="Of each stream; without end if 0.", min=0)] = 0,
    shared: Annotated[bool, typer.Option("--shared", help="All streams share one sequence number.")] = False,
    source_port: Annotated[int, typer.Option(help="Of all packets.", min=0, max=65535)] = 10000,
    digitizer: Annotated[
        bool, typer.Option("--digitizer", help="SPEAD heaps of 8-bit samples, not counted packets.")
    ] = False,
    first_id: Annotated[
        int, typer.Option(help="digitiser_id of the first stream.", min=0, rich_help_panel=_SAMPLES)
    ] = 0,
    delays: Annotated[
        str, typer.Option(help="Samples by which each stream lags: 0,5,9.", rich_help_panel=_SAMPLES)
    ] = "",
    tone: Annotated[
        int, typer.Option(help="Tone, 256ths of the sample rate; none if 0.", min=0, max=255, rich_help_panel=_SAMPLES)
    ] = 0,
    noise_shift: Annotated[
        int, typer.Option(help="Noise is divided by 2 so many times; 8: none.", min=0, max=8, rich_help_panel=_SAMPLES)
    ] = 1,
    seed: Annotated[int, typer.Option(help="Of the noise.", min=0, rich_help_panel=_SAMPLES)] = 1,
) -> None:
    """Start the packet generator."""
    from ryle.cli.arguments import numbers
    from ryle.config.addresses import endpoints
    from ryle.fpga.generate import Generate, Stream
    from ryle.fpga.pattern import OFF, Pattern

    ends = endpoints(to)
    lags = [int(d) for d in numbers(delays, "--delays")] or [0] * len(ends)
    if len(lags) != len(ends):
        raise typer.BadParameter(f"--delays has {len(lags)} numbers for {len(ends)} streams")
    streams = [Stream(e.host, e.port, first_id + n, lag) for n, (e, lag) in enumerate(zip(ends, lags, strict=True))]
    pattern = Pattern(tone, 1 if tone else OFF, noise_shift, seed) if digitizer else None
    what = Generate(streams, length, gbps, packets, pattern, shared, source_port)
    with _opened(at) as core:
        rate = core.start(what)
        full = "as fast as it goes" if not rate else f"at {rate:.6g} Gb/s of payload"
        typer.echo(f"{len(streams)} stream{'s' * (len(streams) > 1)} of {length} B packets {full}")
        if not core.read("control.enable"):
            typer.echo("the core is disabled, nothing leaves it: `ryle fpga set --enable`", err=True)


@generator.command("stop")
def generator_stop(at: At = NO_FPGA) -> None:
    """Stop the packet generator after the packet that it is sending."""
    with _opened(at) as core:
        core.stop()
        typer.echo(f"{core.read('generator_sent')} packets were made")


@generator.command("rate")
def generator_rate(
    gbps: Annotated[float, typer.Argument(help="Gb/s of payload; as fast as it goes if 0.", min=0)], at: At = NO_FPGA
) -> None:
    """Change the rate of the packet generator."""
    with _opened(at) as core:
        rate = core.set_rate(gbps)
        typer.echo(f"{rate:.6g} Gb/s of payload" if rate else "as fast as it goes")


@app.command()
def simulate(
    socket: Annotated[Path, typer.Option(help="Where its registers are reached.")] = Path("/tmp/ryle-fpga"),
    udp: Annotated[str, typer.Option(help="Send payloads on to this address, port by port: 127.0.0.1.")] = "",
    tap: Annotated[str, typer.Option(help="Frames pass to and from this TAP interface (root).")] = "",
    pcap: Annotated[Path | None, typer.Option(help="Write every frame to this file.", dir_okay=False)] = None,
    loopback: Annotated[bool, typer.Option("--loopback", help="The core receives what it sends.")] = False,
    width: Annotated[int, typer.Option(help="Bits of a beat: 64, 128, 256, 512 or 1024.")] = 1024,
) -> None:
    """Run the core in a simulator, with its generator and checker, until Ctrl-C; `--at sim:SOCKET` reaches it.

    The first time it is built, which takes a minute.
    """
    from ryle.fpga.simulator import Network, SimulatedFpga

    if width not in (64, 128, 256, 512, 1024):
        raise typer.BadParameter(f"--width {width}: 64, 128, 256, 512 or 1024")
    typer.echo("building the simulation (kept for the next time)", err=True)
    with SimulatedFpga(Network(pcap, udp, tap, loopback), width=width, socket=socket) as fpga:
        typer.echo(f"the FPGA runs: `ryle fpga status --at {fpga.where}`; Ctrl-C ends it", err=True)
        try:
            fpga.process.wait()
        except KeyboardInterrupt:
            fpga.process.wait(30)


@app.command()
def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Directory for what is written.")] = Path("fpga-demo"),
    width: Annotated[int, typer.Option(help="Bits of a beat: 64, 128, 256, 512 or 1024.")] = 1024,
) -> None:
    """Let a simulated FPGA's packets be captured, and correlated to visibilities; say whether all is as it was sent."""
    from rich.console import Console

    from ryle.fpga.demo import run

    if not run(output, width, Console()):
        raise typer.Exit(1)
