"""A core by the names of its registers: addresses, ARP, counters, generator and checker."""

from __future__ import annotations

import ipaddress
import struct
import time
from dataclasses import dataclass, field

from ryle.fpga import registers
from ryle.fpga.addresses import check_station, ip_number, ip_text, mac_number, mac_text, parsed, station_mac
from ryle.fpga.generate import Generate, beats_in_period
from ryle.fpga.pattern import COUNTER_HEADER, DIGITIZER_HEADER
from ryle.fpga.registers import Register, RegisterMap
from ryle.fpga.transport import FpgaError, Transport
from ryle.fpga.where import opened

_ARP_WRITE, _ARP_READ, _ARP_CLEAR = 1, 2, 3

#: What ryle_version's upper half says if there is such a core at all.
MAGIC = 0x5279


@dataclass
class Status:
    """What a core says of itself."""

    version: int
    link: str
    enabled: bool
    mac: str
    ip: str
    netmask: str
    gateway: str
    port: str
    multicast: str
    ttl: int
    dscp: int
    #: ID:PRIORITY, or none.
    vlan: str
    #: Whether pause frames are honoured, pings answered.
    pause: bool
    answer_ping: bool
    #: joined, not joined, or off.
    igmp: str
    #: Counters and rates by name, in the register map's order.
    counters: dict[str, int] = field(default_factory=dict)
    generator: dict[str, int] = field(default_factory=dict)
    checker: dict[str, int] = field(default_factory=dict)


class Core:
    """A core behind a transport.

    Parameters
    ----------
    where : str or Transport
        As `ryle.fpga.where` describes.
    check : bool
        See whether it is Ryle's core.

    Raises
    ------
    FpgaError
        If it cannot be reached, or is another core.
    """

    def __init__(self, where: str | Transport, *, check: bool = True, map: RegisterMap | None = None) -> None:
        self.map = registers.load() if map is None else map
        self.transport = opened(where) if isinstance(where, str) else where
        if check:
            try:
                version = self.transport.read(self.map.find("ryle_version").address)
            except FpgaError:
                self._see_clock()
                raise
            if version >> 16 != MAGIC or version & 0xFFFF != self.map.version:
                self._see_clock()
                self.transport.close()
                raise FpgaError(
                    f"no core of this register map is there: ryle_version reads {version:#010x}, not "
                    f"{MAGIC << 16 | self.map.version:#010x}. Is the FPGA loaded, and the offset right?"
                )

    def _see_clock(self) -> None:
        """Raise FpgaError if registers do not answer because the core's clock stands; an error may read as all ones."""
        if self.transport.read(self.map.find("clock_status").address) & ~2 == 1:
            self.transport.close()
            raise FpgaError(
                "the core's clock stands: clock_status.stopped is 1, and no other register answers. The MAC makes that "
                "clock: is its reference clock there, and are its transceivers out of reset?"
            )

    def __enter__(self) -> Core:
        return self

    def __exit__(self, *_: object) -> None:
        self.transport.close()

    # -- by name ------------------------------------------------------------------------------------------------------

    def read(self, name: str) -> int:
        """Read a register (its 64 bits, if it has them), or a field: ``control.enable``."""
        r, part = self._find(name)
        value = self.transport.read(r.address)
        if r.high is not None:
            value |= self.transport.read(r.high) << 32
        return value if part is None else (value & part.mask) >> part.low

    def write(self, name: str, value: int) -> None:
        """Write a register, or a field of it: the others stay as they are.

        Raises
        ------
        FpgaError
            If it cannot be written, or the value does not fit.
        """
        r, part = self._find(name)
        if r.access == "r":
            raise FpgaError(f"{r.name} can only be read: it is {r.means}")
        bits = r.bits if part is None else part.bits
        if not 0 <= value < 1 << bits:
            raise FpgaError(f"{value} does not fit into {name}, which has {bits} bits")
        if part is not None:
            old = 0 if r.access == "pulse" else self.transport.read(r.address)
            value = old & ~part.mask | value << part.low
        self.transport.write(r.address, value & 0xFFFFFFFF)
        if r.high is not None:
            self.transport.write(r.high, value >> 32)

    def _find(self, name: str) -> tuple[Register, registers.Field | None]:
        register, _, part = name.partition(".")
        try:
            r = self.map.find(register)
            return r, r.field(part) if part else None
        except KeyError as error:
            raise FpgaError(str(error.args[0])) from None

    # -- addresses ----------------------------------------------------------------------------------------------------

    def set_addresses(
        self,
        *,
        mac: str | None = None,
        ip: str | None = None,
        netmask: str | None = None,
        gateway: str | None = None,
        port: int | None = None,
        port_mask: int | None = None,
        multicast: str | None = None,
    ) -> None:
        """Set what is given. `ip` may carry the prefix (10.0.0.5/24), `multicast` too (239.1.2.0/24).

        Raises
        ------
        FpgaError
            If they are no addresses of a host, or do not fit together or with those that stay; nothing is set then.
        """
        if ip is not None and "/" in ip:
            interface = parsed(ipaddress.IPv4Interface, ip, "an address, such as 10.0.0.5/24")
            ip, netmask = str(interface.ip), netmask or str(interface.netmask)
        station = {
            name: ip_number(value)
            for name, value in (("ip", ip), ("netmask", netmask), ("gateway", gateway))
            if value is not None
        }
        if station:
            check_station(**{name: self.read(name) for name in ("ip", "netmask", "gateway")} | station)
        own_mac = None if mac is None else station_mac(mac)
        groups = None
        if multicast is not None:
            groups = parsed(ipaddress.IPv4Network, multicast, "a group or groups, such as 239.1.2.3 or 239.1.2.0/24")
            if not groups.is_multicast:
                raise FpgaError(f"{multicast} is no multicast group: those begin with 224 to 239")
        if own_mac is not None:
            self.write("mac_high", own_mac >> 32)
            self.write("mac_low", own_mac & 0xFFFFFFFF)
        for name, number in station.items():
            self.write(name, number)
        if port is not None:
            self.write("port.port", port)
            self.write("port.mask", 0xFFFF if port_mask is None else port_mask)
        elif port_mask is not None:
            self.write("port.mask", port_mask)
        if groups is not None:
            self.write("multicast_ip", int(groups.network_address))
            self.write("multicast_mask", int(groups.netmask))

    def enable(
        self,
        *,
        promiscuous: bool | None = None,
        udp_checksum: bool | None = None,
        accept_vlan: bool | None = None,
    ) -> None:
        """Send and receive, and answer ARP. What is not given, and all else in ``control``, stays as it is."""
        fields = {"promiscuous": promiscuous, "udp_checksum": udp_checksum, "accept_vlan": accept_vlan}
        control, value = self.map.find("control"), self.read("control")
        for name, on in (fields | {"enable": True, "answer_arp": True}).items():
            if on is not None:
                part = control.field(name)
                value = value & ~part.mask | int(on) << part.low
        self.write("control", value)

    # -- ARP ----------------------------------------------------------------------------------------------------------

    def arp_set(self, ip: str, mac: str) -> None:
        """Write an entry of the ARP table."""
        number = mac_number(mac)
        self.write("arp_ip", ip_number(ip))
        self.write("arp_mac_high", number >> 32)
        self.write("arp_mac_low", number & 0xFFFFFFFF)
        self._arp(_ARP_WRITE)

    def arp_get(self, ip: str) -> str | None:
        """Look an address up; None if the table does not have it."""
        self.write("arp_ip", ip_number(ip))
        self._arp(_ARP_READ)
        if not self.read("arp_status.hit"):
            return None
        return mac_text(self.read("arp_mac_high") << 32 | self.read("arp_mac_low"))

    def arp_clear(self) -> None:
        """Forget all entries."""
        self._arp(_ARP_CLEAR)

    def arp_table(self) -> dict[str, str]:
        """Give the MAC address of each neighbour that is known; entries are by the last byte of their addresses."""
        table, own = self.map.memory("arp"), self.read("ip")
        found = {}
        for n in range(table.bytes // 8):
            high, low = (self.transport.read(table.address + 8 * n + 4 * w) for w in range(2))
            if number := (high & 0xFFFF) << 32 | low:
                self.write("arp_ip", own & ~0xFF | n)
                self._arp(_ARP_READ)
                found[ip_text(self.read("arp_entry_ip"))] = mac_text(number)
        return found

    def resolve(self, ip: str, seconds: float = 5.0) -> str:
        """Find out the MAC address that packets to `ip` go to, by an ARP request if the table does not have it.

        Raises
        ------
        FpgaError
            If nobody answers.
        """
        number = ip_number(ip)
        if number >> 28 == 0xE:
            return mac_text(0x01005E000000 | number & 0x7FFFFF)
        own, mask = self.read("ip"), self.read("netmask")
        hop = ip_text(number if (number ^ own) & mask == 0 else self.read("gateway"))
        end = time.monotonic() + seconds
        while (found := self.arp_get(hop)) is None:
            mac = (self.read("mac_high") << 32 | self.read("mac_low")).to_bytes(6, "big")
            question = struct.pack("!HHBBH6sI6sI", 1, 0x0800, 6, 4, 1, mac, own, bytes(6), ip_number(hop))
            self.send_frame(b"\xff" * 6 + mac + b"\x08\x06" + question)
            asked = time.monotonic()
            while time.monotonic() < asked + 0.5 and self.arp_get(hop) is None:
                time.sleep(0.005)
            if time.monotonic() > end:
                raise FpgaError(
                    f"{hop}, the next hop to {ip}, does not answer ARP: is it up, and the core's link? "
                    f"`ryle fpga status` shows it; `ryle fpga arp set {hop} MAC` does without"
                )
        return found

    def send_frame(self, frame: bytes, seconds: float = 1.0) -> None:
        """Send a frame (destination MAC to payload, no FCS) through the processor's buffer."""
        memory = self.map.memory("cpu_tx")
        if not 14 <= len(frame) <= self.read("buffer_sizes.tx"):
            raise FpgaError(f"a frame of {len(frame)} B: it must have 14 to {self.read('buffer_sizes.tx')}")
        end = time.monotonic() + seconds
        while self.read("bytes_ready.tx"):
            if time.monotonic() > end:
                raise FpgaError("the frame before still waits in cpu_tx: is the core enabled? `ryle fpga set --enable`")
        for at in range(0, len(frame), 4):
            self.transport.write(memory.address + at, int.from_bytes(frame[at : at + 4], "little"))
        self.transport.write(self.map.find("bytes_ready").address, len(frame))

    def receive_frame(self) -> bytes | None:
        """Take the frame in the processor's buffer, if there is one."""
        if not (size := self.read("bytes_ready.rx")):
            return None
        memory = self.map.memory("cpu_rx")
        words = [self.transport.read(memory.address + at) for at in range(0, size, 4)]
        self.transport.write(self.map.find("bytes_ready").address, 0)
        return struct.pack(f"<{len(words)}I", *words)[:size]

    def _arp(self, command: int) -> None:
        self.write("arp_command", command)
        for _ in range(1000):
            if not self.read("arp_status.busy"):
                return
        raise FpgaError("the ARP table stays busy: is the core's clock running? `ryle fpga status` shows the link")

    # -- status -------------------------------------------------------------------------------------------------------

    def status(self) -> Status:
        """Read all that tells how the core is doing."""
        version = self.read("ryle_version.version")
        phy, control, port = self.read("phy_status"), self.read("control"), self.read("port")
        faults = {"link": 1, "local fault": 2, "remote fault": 4}
        says = [name for name, bit in faults.items() if phy & bit and bit > 1]
        link = "up" if phy & 1 else ", ".join(says) or "down"
        header, tag = self.read("tx_header"), self.read("tx_vlan")
        mask = self.read("multicast_mask")
        group = ip_text(self.read("multicast_ip"))
        counters = {r.name: self.read(r.name) for r in self.map.registers if r.counter or r.name.endswith("_rate")}
        made = Status(
            version=version,
            link=link,
            enabled=bool(control & 1),
            mac=mac_text(self.read("mac_high") << 32 | self.read("mac_low")),
            ip=ip_text(self.read("ip")),
            netmask=ip_text(self.read("netmask")),
            gateway=ip_text(self.read("gateway")),
            port="all"
            if port >> 16 == 0
            else str(port & 0xFFFF) + ("" if port >> 16 == 0xFFFF else f"/{port >> 16:#x}"),
            multicast=f"{group}/{ip_text(mask)}" if mask else "none",
            ttl=header & 0xFF,
            dscp=header >> 10 & 0x3F,
            vlan=f"{tag & 0xFFF}:{tag >> 13 & 7}" if tag >> 16 & 1 else "none",
            pause=bool(control >> 30 & 1),
            answer_ping=bool(control >> 28 & 1),
            igmp=("joined" if self.read("igmp_status.joined") else "not joined") if control >> 29 & 1 else "off",
            counters=counters,
        )
        made.generator = {n: self.read(f"generator_{n}") for n in ("enable", "sent", "length", "beats", "period")}
        names = ("packets", "bytes", "lost", "late", "wrong", "short")
        made.checker = {n: self.read(f"checker_{n}") for n in names}
        return made

    def reset_counters(self) -> None:
        """Make all counters 0, the checker's too."""
        self.write("counter_reset", 1)
        self.write("checker_reset", 1)

    # -- generator ----------------------------------------------------------------------------------------------------

    def start(self, what: Generate) -> float:
        """Start the packet generator; the rate in Gb/s of payload that was set (0: as fast as it goes).

        Raises
        ------
        FpgaError
            If there are too many streams, or packets are too short or too long.
        """
        self.stop()
        room = self.read("generator_streams.capacity")
        if not 1 <= len(what.streams) <= room:
            raise FpgaError(f"the generator has room for 1 to {room} streams, not {len(what.streams)}")
        header = COUNTER_HEADER if what.digitizer is None else DIGITIZER_HEADER + 1
        if not header <= what.length <= 9000:
            raise FpgaError(f"packets of {what.length} B: they must have {header} to 9000 bytes")
        self.write("generator_format", (what.digitizer is not None) | what.shared << 8)
        self.write("generator_length", what.length)
        self.write("generator_source_port", what.source_port)
        self.write("generator_limit", what.packets)
        self.write("generator_streams.streams", len(what.streams))
        for number, s in enumerate(what.streams):
            self.write("generator_select", number)
            self.write("stream_ip", ip_number(s.ip))
            self.write("stream_port", s.port)
            self.write("stream_id", s.id)
            self.write("stream_delay", s.delay)
            self.write("generator_sequence", s.sequence)
        if (p := what.digitizer) is not None:
            self.write("pattern_tone", p.tone_step | p.tone_shift << 8)
            self.write("pattern_noise", p.noise_shift)
            self.write("pattern_seed", p.seed)
        set_ = self.set_rate(what.gbps)
        self.write("generator_enable.enable", 1)
        return set_

    def set_rate(self, gbps: float) -> float:
        """Set the generator's rate, Gb/s of payload; 0 is as fast as it goes. Returns what could be set."""
        if gbps < 0:
            raise FpgaError(f"a rate of {gbps} Gb/s cannot be: 0 is as fast as it goes")
        beats, period = beats_in_period(
            gbps, self.read("generator_length"), self.read("word_lengths.tx"), self.read("generator_clock")
        )
        self.write("generator_beats", beats)
        self.write("generator_period", period)
        if not gbps:
            return 0.0
        size, length = self.read("word_lengths.tx"), self.read("generator_length")
        return beats / period * self.read("generator_clock") * length / -(-length // size) * 8 / 1e9

    def stop(self, seconds: float = 30.0) -> None:
        """Stop the generator and wait until its last packet has left it."""
        self.write("generator_enable.enable", 0)
        self.wait(seconds)

    def wait(self, seconds: float) -> None:
        """Wait until the generator has sent what it was to send."""
        end = time.monotonic() + seconds
        while self.read("generator_enable.running"):
            if time.monotonic() > end:
                raise FpgaError(
                    f"the generator still runs after {seconds:.0f} s: `ryle fpga status` shows whether it sends"
                )
            time.sleep(0.01)
