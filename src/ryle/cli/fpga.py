"""`ryle fpga`: the FPGA core's registers, addresses, generator and counters; a simulated one to try it on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ryle.cli.fpga_core import NO_FPGA, At, Json, opened, print_json
from ryle.cli.fpga_protocols import igmp, ping

app = typer.Typer(
    add_completion=False,
    help="Ryle's FPGA Ethernet core: registers, addresses, packet generator, counters, simulation.",
)
arp = typer.Typer(help="The core's ARP table.")
generator = typer.Typer(help="The packet generator behind the core.")
app.add_typer(arp, name="arp")
app.add_typer(generator, name="generator")
app.add_typer(igmp, name="igmp")
app.command()(ping)

_SAMPLES = "Samples, with --digitizer"
_FRAMES = "Frames and protocols"


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

    with opened(at) as core:
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
    promiscuous: Annotated[
        bool | None, typer.Option("--promiscuous/--no-promiscuous", help="--enable: receive all addresses.")
    ] = None,
    udp_checksum: Annotated[
        bool | None, typer.Option("--udp-checksum/--no-udp-checksum", help="--enable: compute UDP checksums.")
    ] = None,
    accept_vlan: Annotated[
        bool | None, typer.Option("--accept-vlan/--no-accept-vlan", help="--enable: receive tagged frames.")
    ] = None,
    ttl: Annotated[int | None, typer.Option(help="Time to live of sent packets.", rich_help_panel=_FRAMES)] = None,
    dscp: Annotated[
        int | None, typer.Option(help="Differentiated services of sent packets, 0 to 63.", rich_help_panel=_FRAMES)
    ] = None,
    vlan: Annotated[
        str | None,
        typer.Option(
            help="Tag what is sent: 100, 100:5 with a priority, none; --accept-vlan goes with it.",
            rich_help_panel=_FRAMES,
        ),
    ] = None,
    pause: Annotated[
        bool | None,
        typer.Option("--pause/--no-pause", help="Honour pause frames of the other end.", rich_help_panel=_FRAMES),
    ] = None,
    answer_ping: Annotated[
        bool | None,
        typer.Option("--answer-ping/--no-answer-ping", help="Answer pings in hardware.", rich_help_panel=_FRAMES),
    ] = None,
    igmp: Annotated[
        bool | None,
        typer.Option("--igmp/--no-igmp", help="Join the groups of --multicast.", rich_help_panel=_FRAMES),
    ] = None,
    json: Json = False,
) -> None:
    """Set addresses, what frames say, and switch the core on or off. What is not given stays as it is."""
    from ryle.fpga.protocols import set_header, set_vlan

    with opened(at) as core:
        set_header(core, ttl=ttl, dscp=dscp)
        core.set_addresses(
            mac=mac,
            ip=ip,
            netmask=netmask,
            gateway=gateway,
            port=port,
            port_mask=None if port_mask is None else int(port_mask, 0),
            multicast=multicast,
        )
        if vlan is not None:
            set_vlan(core, vlan)
        for name, on in (("honour_pause", pause), ("answer_ping", answer_ping), ("igmp", igmp)):
            if on is not None:
                core.write(f"control.{name}", int(on))
        if enable:
            core.enable(promiscuous=promiscuous, udp_checksum=udp_checksum, accept_vlan=accept_vlan)
        elif enable is False:
            core.write("control.enable", 0)
        elif (promiscuous, udp_checksum, accept_vlan) != (None, None, None):
            raise typer.BadParameter("--promiscuous, --udp-checksum and --accept-vlan go with --enable")
        now = core.status()
        if json:
            addresses = ("mac", "ip", "netmask", "gateway", "port", "multicast")
            names = (*addresses, "enabled", "ttl", "dscp", "vlan", "pause", "answer_ping", "igmp")
            print_json({name: getattr(now, name) for name in names})
            return
        typer.echo(f"{now.mac} {now.ip} netmask {now.netmask} gateway {now.gateway} port {now.port}, "
                   f"{'enabled' if now.enabled else 'disabled: --enable switches it on'}")  # fmt: skip


@app.command()
def read(
    name: Annotated[str, typer.Argument(help="Register, REGISTER.FIELD, or an address.", metavar="REGISTER")],
    at: At = NO_FPGA,
    json: Json = False,
) -> None:
    """Read a register."""
    with opened(at) as core:
        value = core.read(name)
        fields = {} if "." in name else {f.name: (value & f.mask) >> f.low for f in core.map.find(name).fields}
        if json:
            print_json({"name": name, "value": value, "fields": fields})
            return
        typer.echo(f"{name} = {value} ({value:#x})")
        for part, number in fields.items():
            typer.echo(f"  {part} = {number}  {core.map.find(name).field(part).means}")


@app.command()
def write(
    name: Annotated[str, typer.Argument(help="Register, REGISTER.FIELD, or an address.", metavar="REGISTER")],
    value: Annotated[str, typer.Argument(help="Number; 0x for hexadecimal.")],
    at: At = NO_FPGA,
    json: Json = False,
) -> None:
    """Write a register, or one of its fields."""
    with opened(at) as core:
        try:
            core.write(name, int(value, 0))
        except ValueError:
            raise typer.BadParameter(f"{value!r} is no number; write 17 or 0x11") from None
        if json:
            print_json({"name": name, "written": int(value, 0)})


@app.command("registers")
def registers_(json: Json = False) -> None:
    """List the register map."""
    from rich.console import Console

    from ryle.fpga.registers import load
    from ryle.fpga.view import register_table

    if json:
        from dataclasses import asdict

        print_json(asdict(load()))
        return
    Console().print(register_table(load()))


@arp.command("show")
def arp_show(at: At = NO_FPGA, json: Json = False) -> None:
    """List the neighbours whose MAC addresses are known."""
    with opened(at) as core:
        found = core.arp_table()
        if json:
            print_json(found)
            return
        lines = [f"{ip:<15} {mac}" for ip, mac in found.items()]
        typer.echo(
            "\n".join(lines) or "no entry: the core asks when it has something to send, or `ryle fpga arp set IP MAC`"
        )


@arp.command("set")
def arp_set(
    ip: Annotated[str, typer.Argument(help="Neighbour's address.")],
    mac: Annotated[str, typer.Argument(help="Its MAC address.")],
    at: At = NO_FPGA,
    json: Json = False,
) -> None:
    """Write an entry."""
    with opened(at) as core:
        core.arp_set(ip, mac)
        if json:
            print_json({"ip": ip, "mac": core.arp_get(ip)})


@arp.command("ask")
def arp_ask(
    ip: Annotated[str, typer.Argument(help="Where packets are to go.")], at: At = NO_FPGA, json: Json = False
) -> None:
    """Find out the MAC address of the next hop to an address, so that the first packet to it is not lost."""
    with opened(at) as core:
        mac = core.resolve(ip)
        if json:
            print_json({"ip": ip, "mac": mac})
            return
        typer.echo(mac)


@arp.command("clear")
def arp_clear(at: At = NO_FPGA, json: Json = False) -> None:
    """Forget all entries."""
    with opened(at) as core:
        core.arp_clear()
        if json:
            print_json(core.arp_table())


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
    json: Json = False,
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
    with opened(at) as core:
        rate = core.start(what)
        full = "as fast as it goes" if not rate else f"at {rate:.6g} Gb/s of payload"
        if json:
            enabled = bool(core.read("control.enable"))
            print_json({"streams": len(streams), "length": length, "gbps": rate or None, "enabled": enabled})
            return
        typer.echo(f"{len(streams)} stream{'s' * (len(streams) > 1)} of {length} B packets {full}")
        if not core.read("control.enable"):
            typer.echo("the core is disabled, nothing leaves it: `ryle fpga set --enable`", err=True)


@generator.command("stop")
def generator_stop(at: At = NO_FPGA, json: Json = False) -> None:
    """Stop the packet generator after the packet that it is sending."""
    with opened(at) as core:
        core.stop()
        if json:
            print_json({"sent": core.read("generator_sent")})
            return
        typer.echo(f"{core.read('generator_sent')} packets were made")


@generator.command("rate")
def generator_rate(
    gbps: Annotated[float, typer.Argument(help="Gb/s of payload; as fast as it goes if 0.", min=0)],
    at: At = NO_FPGA,
    json: Json = False,
) -> None:
    """Change the rate of the packet generator."""
    with opened(at) as core:
        rate = core.set_rate(gbps)
        if json:
            print_json({"gbps": rate or None})
            return
        typer.echo(f"{rate:.6g} Gb/s of payload" if rate else "as fast as it goes")


Width = Annotated[
    int | None,
    typer.Option(help="Bits of a beat: 64, 128, 256, 512 or 1024.", show_default="1024, or what the MAC needs"),
]
Mac = Annotated[
    str,
    typer.Option(
        help="MAC between core and line: model; or, with a board's adapter before it, the model of that board's MAC: "
        "cmac (100G, 512 bits) or dcmac (400G, 1024 bits)."
    ),
]


def _width(mac: str, width: int | None) -> int:
    """Bits of a beat, or an error that says which of the options is wrong."""
    from ryle.fpga.simulator import MACS, width_of
    from ryle.fpga.transport import FpgaError

    try:
        return width_of(mac, width)
    except FpgaError as error:
        option = f"--width {width}" if mac in MACS else f"--mac {mac}"
        raise typer.BadParameter(f"{option}: {error}") from None


@app.command()
def simulate(
    socket: Annotated[Path, typer.Option(help="Where its registers are reached.")] = Path("/tmp/ryle-fpga"),
    udp: Annotated[str, typer.Option(help="Send payloads on to this address, port by port: 127.0.0.1.")] = "",
    tap: Annotated[str, typer.Option(help="Frames pass to and from this TAP interface (root).")] = "",
    pcap: Annotated[Path | None, typer.Option(help="Write every frame to this file.", dir_okay=False)] = None,
    loopback: Annotated[bool, typer.Option("--loopback", help="The core receives what it sends.")] = False,
    width: Width = None,
    mac: Mac = "model",
    json: Annotated[bool, typer.Option("--json", help="Print where it is as JSON, when it runs.")] = False,
) -> None:
    """Run the core in a simulator, with its generator and checker, until Ctrl-C; `--at sim:SOCKET` reaches it.

    The first time it is built, which takes a minute.
    """
    from ryle.fpga.simulator import Network, SimulatedFpga

    width = _width(mac, width)
    typer.echo("building the simulation (kept for the next time)", err=True)
    with SimulatedFpga(Network(pcap, udp, tap, loopback), width=width, mac=mac, socket=socket) as fpga:
        if json:
            print_json({"at": fpga.where, "width": width, "mac": mac})
        typer.echo(f"the FPGA runs: `ryle fpga status --at {fpga.where}`; Ctrl-C ends it", err=True)
        try:
            fpga.process.wait()
        except KeyboardInterrupt:
            fpga.process.wait(30)


@app.command()
def serve(
    at: At = NO_FPGA,
    listen: Annotated[
        str, typer.Option(help="Address to serve at: HOST, or HOST:PORT. Whoever reaches it can write registers.")
    ] = "127.0.0.1:69",
    name: Annotated[str, typer.Option(help="What the core is called there.")] = "ryle",
    json: Annotated[bool, typer.Option("--json", help="Print where it is served as JSON, when it is.")] = False,
) -> None:
    """Serve registers by TAPCP, CASPER's protocol over UDP, until Ctrl-C: to casperfpga, and to `--at tapcp:HOST`."""
    from ryle.fpga.core import Core
    from ryle.fpga.tapcp import PORT
    from ryle.fpga.tapcp_server import TapcpServer

    host, _, port = listen.partition(":")
    if not host or (port and not (port.isascii() and port.isdigit() and int(port) < 65536)):
        raise typer.BadParameter(f"--listen {listen}: write HOST, or HOST:PORT such as 0.0.0.0:69")
    if not name or set(name) & set("./"):
        raise typer.BadParameter(f"--name {name!r}: a name without dots and slashes")
    with Core(at) as core, TapcpServer(core.transport, host, int(port or PORT), name) as server:
        if json:
            print_json({"name": name, "at": at, "host": server.host, "port": server.port})
        typer.echo(f"{name} of {at} is served at {server.host}:{server.port}; Ctrl-C ends it", err=True)
        try:
            server.wait()
        except KeyboardInterrupt:
            pass


@app.command()
def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Directory for what is written.")] = Path("fpga-demo"),
    width: Width = None,
    mac: Mac = "model",
    json: Annotated[bool, typer.Option("--json", help="Print whether all was right as JSON.")] = False,
) -> None:
    """Let a simulated FPGA's packets be captured, and correlated to visibilities; say whether all is as it was sent."""
    from rich.console import Console

    from ryle.fpga.demo import run

    right = run(output, _width(mac, width), Console(stderr=json), mac=mac)
    if json:
        print_json({"right": right, "output": str(output)})
    if not right:
        raise typer.Exit(1)
