"""A simulated FPGA as a process: the core in Verilator, its registers at a socket, its frames in the real world."""

from __future__ import annotations

import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from ryle.fpga.core import Core
from ryle.fpga.transport import FpgaError, Simulated
from ryle.fpga.verilate import ROOT, build

#: Clocks that make a second for the core's rates: a simulation is some thousand times slower than an FPGA.
CLOCK_HZ = 250_000

#: What stands between core and line: mac_model, or a board's adapter with the model of that board's MAC, by the number
#: that hdl/sim/sim_mac.sv has for it, and the bits of a beat that it needs.
MACS: dict[str, tuple[int, int | None]] = {"model": (0, None), "cmac": (1, 512), "dcmac": (2, 1024)}


def width_of(mac: str, width: int | None) -> int:
    """Bits of a beat of the core in front of a MAC.

    Parameters
    ----------
    mac : str
        A name of `MACS`.
    width : int or None
        What was asked for, if anything.

    Raises
    ------
    FpgaError
        If there is no such MAC, it cannot have that width, or no core can.
    """
    if mac not in MACS:
        raise FpgaError(f"there is no MAC {mac}: {', '.join(MACS)}")
    needs = MACS[mac][1]
    if width is None:
        return needs or 1024
    if width not in (64, 128, 256, 512, 1024):
        raise FpgaError(f"beats cannot have {width} bits: 64, 128, 256, 512 or 1024")
    if needs not in (None, width):
        raise FpgaError(
            f"beats of the MAC {mac} have {needs} bits, not {width}: leave the width out, or use the MAC model"
        )
    return width


@dataclass(frozen=True)
class Network:
    """Where the simulated core's frames go.

    Attributes
    ----------
    pcap : path, optional
        Every frame, as it came over the wire, into this file.
    udp : str
        Payloads of UDP packets are sent on to this address, port by port; to multicast groups as they are.
    tap : str
        Frames pass to and from this TAP interface: the kernel is at the other end. Takes root.
    loopback : bool
        The core receives what it sends.
    """

    pcap: Path | None = None
    udp: str = ""
    tap: str = ""
    loopback: bool = False

    def arguments(self) -> list[str]:
        """Arguments of the simulation's program."""
        if self.udp and self.tap:
            raise FpgaError("--udp and --tap exclude each other: with a TAP the kernel takes the packets itself")
        named = {"--pcap": self.pcap, "--udp": self.udp, "--tap": self.tap}
        found = [part for key, value in named.items() if value for part in (key, str(value))]
        return [*found, "--loopback"] if self.loopback else found


def program(width: int | None = None, clock_hz: int = CLOCK_HZ, mac: str = "model") -> Path:
    """Build the simulation (half a minute, once) and say where its program is.

    Raises
    ------
    BuildError
        If Verilator is not there, or fails.
    FpgaError
        As `width_of`.
    """
    sim, adapters = ROOT / "hdl" / "sim", ROOT / "hdl" / "vendor" / "common"
    width = width_of(mac, width)
    made = build(
        "ethernet_core_sim",
        also=[sim, adapters],
        main=sim / "main.cpp",
        options=["-CFLAGS", f"-DCLOCK_HZ={clock_hz}"],
        WIDTH=width,
        CLOCK_HZ=clock_hz,
        MAC=MACS[mac][0],
    )
    return made.program


class SimulatedFpga:
    """A running simulation; ends with the ``with`` block.

    Parameters
    ----------
    network : Network
        Where its frames go.
    width : int, optional
        Bits of a beat: 64, 128, 256, 512 or 1024, or what the MAC needs.
    mac : str
        A name of `MACS`.
    socket : path, optional
        Where its registers are reached; a temporary one if absent.
    quiet : bool
        Do not let it say every few seconds how far it is.
    """

    def __init__(
        self,
        network: Network,
        *,
        width: int | None = None,
        mac: str = "model",
        socket: Path | None = None,
        quiet: bool = False,
        clock_hz: int = CLOCK_HZ,
    ) -> None:
        arguments = network.arguments()
        executable = program(width, clock_hz, mac)
        self._folder = tempfile.TemporaryDirectory(prefix="ryle-fpga-") if socket is None else None
        self.socket = Path(self._folder.name) / "registers" if self._folder else Path(str(socket))
        self.process = subprocess.Popen(
            [str(executable), "--socket", str(self.socket), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL if quiet else None,
            text=True,
        )
        assert self.process.stdout is not None
        if not self.process.stdout.readline().startswith("ready"):
            raise FpgaError(f"the simulated FPGA ended at once with {self.process.wait()}; it says why above")

    @property
    def where(self) -> str:
        """What `Core` opens."""
        return f"sim:{self.socket}"

    def core(self) -> Core:
        """Open the core."""
        return Core(self.where)

    def statistics(self) -> dict[str, int]:
        """Ask the simulation what it did."""
        transport = Simulated(self.socket)
        try:
            return transport.statistics()
        finally:
            transport.close()

    def close(self) -> None:
        """End it, and wait until its files are whole."""
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(30)
        if self.process.stdout is not None:
            self.process.stdout.close()
        if self._folder is not None:
            self._folder.cleanup()

    def __enter__(self) -> SimulatedFpga:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
