# SPDX-License-Identifier: BSD-3-Clause
"""Frames to ask the receive half about: made by scapy, which computes every length and checksum.

`Frames` knows of each what must become of it, without asking the model (rx_model).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from scapy.config import conf
from scapy.contrib.igmp import IGMP
from scapy.contrib.igmpv3 import IGMPv3, IGMPv3mq
from scapy.layers.inet import ICMP, IP, TCP, UDP, IPOption_NOP, IPOption_Router_Alert
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import ARP, Dot1Q, Ether
from scapy.packet import Packet, Raw

from rx_model import ANY_MAC, MAX_FRAME, Settings, in_groups, ip_text, mac_text

conf.verb = 0


@dataclass(frozen=True)
class Case:
    """A frame, the MAC's opinion of it, and what must become of it (None: ask the model)."""

    kind: str
    frame: bytes
    bad: bool = False
    expect: str | None = None


class Frames:
    """Frames of all kinds under given settings, random in what does not matter."""

    def __init__(self, settings: Settings, seed: int) -> None:
        self.s, self.random = settings, random.Random(seed)
        #: Makers by name: each takes a payload size.
        self.kinds: dict[str, Callable[[int], Case]] = {
            name[5:]: getattr(self, name) for name in dir(self) if name.startswith("kind_")
        }

    def any(self, size: int) -> Case:
        """Make a frame of some kind."""
        name = self.random.choice(sorted(self.kinds))
        return self.kinds[name](size)

    # ---------------------------------------------------------------------------------------------------- what is common

    def payload(self, size: int) -> bytes:
        return self.random.randbytes(size)

    def other_ip(self) -> int:
        """Unicast and not the own one, nor a broadcast of the own subnet."""
        while True:
            ip = self.random.randrange(0x01000000, 0xDF000000)
            if ip != self.s.ip and ip & self.s.netmask != self.s.ip & self.s.netmask:
                return ip

    def udp(
        self, size: int, *, mac: int | None = None, ip: int | None = None, port: int | None = None, **more: object
    ) -> Ether:
        """Make a good frame, or one with other addresses; `more` goes to IP."""
        s, r = self.s, self.random
        good = s.port & s.port_mask | r.getrandbits(16) & ~s.port_mask & 0xFFFF
        p = Ether(dst=mac_text(s.mac if mac is None else mac), src=mac_text(r.getrandbits(47) & ~(1 << 40)))
        p /= IP(src=ip_text(self.other_ip()), dst=ip_text(s.ip if ip is None else ip), ttl=r.randrange(1, 256), **more)
        p /= UDP(sport=r.getrandbits(16), dport=good if port is None else port)
        return p / Raw(self.payload(size)) if size else p

    def finish(self, kind: str, p: Ether | bytes, expect: str | None, bad: bool = False) -> Case:
        """Pad as a sender's MAC does."""
        frame = bytes(p)
        return Case(kind, frame + bytes(max(0, 60 - len(frame))), bad, expect)

    def options(self) -> list[object]:
        """1 to 10 words of IPv4 options."""
        words = [[IPOption_NOP() for _ in range(4)], [IPOption_Router_Alert(alert=self.random.getrandbits(16))]]
        return [o for _ in range(self.random.randrange(1, 11)) for o in self.random.choice(words)]

    def accepted(self, size: int) -> str:
        return "app" if size else "drop_length"

    # ------------------------------------------------------------------------------------------------------------ kinds

    def kind_good(self, size: int) -> Case:
        return self.finish("good", self.udp(size), self.accepted(size))

    def kind_no_checksum(self, size: int) -> Case:
        p = self.udp(size)
        p[UDP].chksum = 0
        return self.finish("no_checksum", p, self.accepted(size))

    def kind_options(self, size: int) -> Case:
        return self.finish("options", self.udp(size, options=self.options()), self.accepted(size))

    def kind_vlan(self, size: int) -> Case:
        p = self.udp(size)
        p = Ether(dst=p.dst, src=p.src) / Dot1Q(vlan=self.random.randrange(4095), prio=self.random.randrange(8)) / p[IP]
        return self.finish("vlan", p, self.accepted(size) if self.s.accept_vlan else "drop_vlan")

    def kind_vlan_options(self, size: int) -> Case:
        p = self.udp(size, options=self.options())
        p = Ether(dst=p.dst, src=p.src) / Dot1Q(vlan=7) / p[IP]
        return self.finish("vlan_options", p, self.accepted(size) if self.s.accept_vlan else "drop_vlan")

    def kind_two_vlans(self, size: int) -> Case:
        p = self.udp(size)
        p = Ether(dst=p.dst, src=p.src) / Dot1Q(vlan=7) / Dot1Q(vlan=8) / p[IP]
        return self.finish("two_vlans", p, "cpu" if self.s.accept_vlan else "drop_vlan")

    def kind_other_mac(self, size: int) -> Case:
        mac = self.s.mac ^ (1 << self.random.randrange(40))  # one bit, not the multicast bit
        return self.finish(
            "other_mac", self.udp(size, mac=mac), self.accepted(size) if self.s.promiscuous else "drop_mac"
        )

    def kind_other_ip(self, size: int) -> Case:
        ip = self.s.ip ^ (1 << self.random.randrange(8, 28))
        return self.finish("other_ip", self.udp(size, ip=ip), self.accepted(size) if self.s.promiscuous else "drop_ip")

    def kind_other_port(self, size: int) -> Case:
        bits = [b for b in range(16) if self.s.port_mask >> b & 1]
        if not bits:
            return self.kind_good(size)
        p = self.udp(size)
        p[UDP].dport ^= 1 << self.random.choice(bits)
        return self.finish("other_port", p, "cpu" if self.s.cpu_ports else "drop_port")

    def kind_bad_ip_checksum(self, size: int) -> Case:
        p = Ether(bytes(self.udp(size)))
        p[IP].chksum ^= 1 << self.random.randrange(16)
        return self.finish("bad_ip_checksum", p, "drop_ip_checksum")

    def kind_bad_udp_checksum(self, size: int) -> Case:
        frame = bytearray(bytes(self.udp(max(size, 1))))
        frame[self.random.randrange(42, len(frame))] ^= 1 << self.random.randrange(8)
        return self.finish("bad_udp_checksum", bytes(frame), "drop_udp_checksum")

    def kind_bad_udp_address(self, size: int) -> Case:
        """The pseudo header counts: a source address other than the one summed."""
        p = Ether(bytes(self.udp(size)))
        p[IP].src = ip_text(self.s.ip ^ 0x40)
        del p[IP].chksum
        return self.finish("bad_udp_address", p, None)  # may equal the old one's sum, seldom

    def kind_truncated(self, size: int) -> Case:
        frame = bytes(self.udp(max(size, 20)))
        return Case("truncated", frame[: self.random.randrange(34, len(frame))], False, "drop_length")

    def kind_cut_header(self, size: int) -> Case:
        return Case("cut_header", bytes(self.udp(size))[: self.random.randrange(14, 34)], False, "drop_length")

    def kind_runt(self, size: int) -> Case:
        return Case("runt", bytes(self.udp(size))[: self.random.randrange(1, 14)], False, "drop_length")

    def kind_too_long(self, size: int) -> Case:
        p = self.udp(self.random.randrange(MAX_FRAME - 41, MAX_FRAME + 200) if size > 3000 else MAX_FRAME - 41)
        return self.finish("too_long", p, "drop_length")

    def kind_padded(self, size: int) -> Case:
        frame = bytes(self.udp(size)) + self.random.randbytes(self.random.randrange(1, 70))
        return self.finish("padded", frame, self.accepted(size))

    def kind_udp_short(self, size: int) -> Case:
        """UDP that ends before its IPv4 packet does: allowed, and what follows is in neither payload nor checksum."""
        good = Ether(bytes(self.udp(size)))
        total = good[IP].len + (extra := self.random.randrange(1, 40))
        good[IP].len = total
        del good[IP].chksum
        frame = bytes(good)[: 42 + size] + self.random.randbytes(extra)
        return self.finish("udp_short", frame, self.accepted(size))

    def kind_udp_long(self, size: int) -> Case:
        p = self.udp(size)
        p[UDP].len = 8 + size + self.random.randrange(1, 1000)
        return self.finish("udp_long", p, "drop_length")

    def kind_udp_tiny(self, size: int) -> Case:
        p = self.udp(size)
        p[UDP].len = self.random.randrange(8)
        return self.finish("udp_tiny", p, "drop_length")

    def kind_ip_longer(self, size: int) -> Case:
        p = self.udp(size)
        p[IP].len = 28 + max(size, 18) + self.random.randrange(1, 1000)
        return self.finish("ip_longer", p, "drop_length")

    def kind_ip_tiny(self, size: int) -> Case:
        p = self.udp(size)
        p[IP].len = self.random.randrange(20)
        return self.finish("ip_tiny", p, "drop_length")

    def kind_version(self, size: int) -> Case:
        return self.finish("version", self.udp(size, version=self.random.choice([0, 5, 6, 15])), "drop_length")

    def kind_header_tiny(self, size: int) -> Case:
        return self.finish("header_tiny", self.udp(size, ihl=self.random.randrange(5)), "drop_length")

    def kind_first_fragment(self, size: int) -> Case:
        return self.finish("first_fragment", self.udp(size, flags="MF"), "drop_fragment")

    def kind_later_fragment(self, size: int) -> Case:
        return self.finish("later_fragment", self.udp(size, frag=1 << self.random.randrange(13)), "drop_fragment")

    def kind_do_not_fragment(self, size: int) -> Case:
        return self.finish("do_not_fragment", self.udp(size, flags="DF"), self.accepted(size))

    def group_member(self) -> int:
        return (
            self.s.group & self.s.group_mask | self.random.getrandbits(32) & ~self.s.group_mask
        ) & 0x0FFFFFFF | 0xE0000000

    @staticmethod
    def group_mac(ip: int) -> int:
        return 0x01005E << 24 | ip & 0x7FFFFF

    def kind_multicast(self, size: int) -> Case:
        if not in_groups(self.s.group, self.s):
            return self.kind_multicast_other(size)
        ip = self.group_member()
        return self.finish("multicast", self.udp(size, ip=ip, mac=self.group_mac(ip)), self.accepted(size))

    def kind_multicast_other(self, size: int) -> Case:
        ip = self.random.getrandbits(28) | 0xE0000000
        return self.finish("multicast_other", self.udp(size, ip=ip, mac=self.group_mac(ip)), None)

    def kind_multicast_alias(self, size: int) -> Case:
        """The group's MAC address with another group's IPv4 address: 32 groups share a MAC address."""
        ip = self.group_member()
        wrong = ip ^ (1 << self.random.randrange(23, 28))
        return self.finish("multicast_alias", self.udp(size, ip=wrong, mac=self.group_mac(ip)), None)

    def kind_multicast_other_mac(self, size: int) -> Case:
        """A group of ours by a MAC address that is not a group's, by one of its upper 25 bits."""
        ip = self.group_member()
        mac = self.group_mac(ip) ^ 1 << self.random.randrange(23, 48)
        return self.finish(
            "multicast_other_mac", self.udp(size, ip=ip, mac=mac), None if self.s.promiscuous else "drop_mac"
        )

    def kind_multicast_crossed(self, size: int) -> Case:
        """One of our groups by the MAC address of another of them."""
        ip, other = self.group_member(), self.group_member()
        same = (ip ^ other) & 0x7FFFFF == 0
        known = not same and not self.s.promiscuous and in_groups(ip, self.s)
        return self.finish(
            "multicast_crossed", self.udp(size, ip=ip, mac=self.group_mac(other)), "drop_ip" if known else None
        )

    def kind_broadcast(self, size: int) -> Case:
        p = self.udp(size, ip=0xFFFFFFFF, mac=0xFFFFFFFFFFFF)
        return self.finish("broadcast", p, self.accepted(size))

    def kind_subnet_broadcast(self, size: int) -> Case:
        p = self.udp(size, ip=self.s.ip | ~self.s.netmask & 0xFFFFFFFF, mac=0xFFFFFFFFFFFF)
        return self.finish("subnet_broadcast", p, None)

    def kind_unicast_by_broadcast(self, size: int) -> Case:
        p = self.udp(size, mac=0xFFFFFFFFFFFF)
        return self.finish("unicast_by_broadcast", p, self.accepted(size) if self.s.promiscuous else "drop_ip")

    def kind_ping(self, size: int) -> Case:
        p = self.udp(0)
        p = Ether(dst=p.dst, src=p.src) / IP(src=p[IP].src, dst=p[IP].dst) / ICMP() / Raw(self.payload(min(size, 1400)))
        return self.finish("ping", p, "echo" if self.s.answer_ping else "cpu")

    def ping(self, size: int, **more: object) -> Ether:
        """Make an echo request; `more` goes to IP."""
        p = self.udp(0)
        ip = IP(src=p[IP].src, dst=p[IP].dst, **more)
        return Ether(dst=p.dst, src=p.src) / ip / ICMP(id=self.random.getrandbits(16)) / Raw(self.payload(size))

    def kind_ping_bad_checksum(self, size: int) -> Case:
        frame = bytearray(bytes(self.ping(max(size, 1))))
        frame[self.random.randrange(36, len(frame))] ^= 1 << self.random.randrange(8)
        return self.finish("ping_bad_checksum", bytes(frame), "drop_udp_checksum" if self.s.answer_ping else "cpu")

    def kind_ping_options(self, size: int) -> Case:
        return self.finish("ping_options", self.ping(size, options=self.options()), "cpu")

    def kind_ping_vlan(self, size: int) -> Case:
        p = self.ping(size)
        p = Ether(dst=p.dst, src=p.src) / Dot1Q(vlan=self.random.randrange(4095)) / p[IP]
        taken = "echo" if self.s.answer_ping else "cpu"
        return self.finish("ping_vlan", p, taken if self.s.accept_vlan else "drop_vlan")

    def kind_ping_from_nobody(self, size: int) -> Case:
        """By a group, a broadcast, ourselves, nobody: of these none is answered."""
        s = self.s
        whose = [0, s.ip, 0xE0000001, 0xFFFFFFFF, 0xF1234567, s.ip | ~s.netmask & 0xFFFFFFFF]
        p = self.ping(size)
        p[IP].src = ip_text(self.random.choice(whose))
        if p[IP].src == ip_text(whose[-1]) or self.random.random() < 0.2:
            p.src = "01:00:5e:00:00:07"
        return self.finish("ping_from_nobody", p, "cpu")

    def kind_ping_everybody(self, size: int) -> Case:
        p = self.ping(size)
        p.dst, p[IP].dst = ANY_MAC, "255.255.255.255"
        return self.finish("ping_everybody", p, "drop_other")

    def kind_ping_reply(self, size: int) -> Case:
        p = self.ping(size)
        p[ICMP].type = 0
        return self.finish("ping_reply", p, "cpu")

    def query(self, group: int, message: Packet) -> Ether:
        """Make an IGMP query to a group, with the option that routers add."""
        mac = 0x01005E << 24 | group & 0x7FFFFF
        ip = IP(src="10.1.2.1", dst=ip_text(group), proto=2, ttl=1, options=[IPOption_Router_Alert()])
        return Ether(dst=mac_text(mac), src="02:00:00:00:00:01") / ip / message

    def kind_igmp_query(self, size: int) -> Case:
        p = self.query(0xE0000001, IGMP(type=0x11, mrcode=self.random.randrange(256), gaddr="0.0.0.0"))
        return self.finish("igmp_query", p, None if self.s.promiscuous or not self.s.igmp else "igmp_queries")

    def kind_igmp_query_v3(self, size: int) -> Case:
        message = IGMPv3(type=0x11, mrcode=self.random.randrange(256)) / IGMPv3mq(gaddr="0.0.0.0")
        return self.finish("igmp_query_v3", self.query(0xE0000001, message), None)

    def kind_igmp_query_group(self, size: int) -> Case:
        s, r = self.s, self.random
        group = s.group & s.group_mask | r.getrandbits(32) & ~s.group_mask & 0xFFFFFFFF
        if not in_groups(group, s):
            group = 0xE1000000 | r.getrandbits(20)
        p = self.query(group, IGMP(type=0x11, mrcode=10, gaddr=ip_text(group)))
        ours = "igmp_queries" if s.igmp else "drop_other"
        return self.finish("igmp_query_group", p, ours if in_groups(group, s) else None)

    def kind_igmp_bad_checksum(self, size: int) -> Case:
        frame = bytearray(bytes(self.kind_igmp_query(0).frame))
        frame[self.random.randrange(39, 46)] ^= 1 << self.random.randrange(8)
        return Case("igmp_bad_checksum", bytes(frame), False, "drop_udp_checksum" if self.s.igmp else None)

    def kind_igmp_report(self, size: int) -> Case:
        p = self.query(0xE0000001, IGMP(type=0x16, gaddr="239.1.2.3"))
        return self.finish("igmp_report", p, None)

    def kind_pause(self, size: int) -> Case:
        frame = bytes.fromhex("0180c2000001 020000000001 8808 0001") + self.random.randbytes(2)
        return self.finish("pause", frame, "rx_pause")

    def kind_pause_of_a_class(self, size: int) -> Case:
        frame = bytes.fromhex("0180c2000001 020000000001 8808 0101") + self.random.randbytes(18)
        return self.finish("pause_of_a_class", frame, None)

    def kind_tcp(self, size: int) -> Case:
        p = self.udp(0, ip=self.s.ip)
        p = Ether(dst=p.dst, src=p.src) / IP(src=p[IP].src, dst=p[IP].dst) / TCP() / Raw(self.payload(min(size, 1400)))
        return self.finish("tcp", p, "cpu")

    def kind_ipv6(self, size: int) -> Case:
        p = (
            Ether(dst=mac_text(self.s.mac))
            / IPv6(src="fe80::1", dst="fe80::2")
            / UDP()
            / Raw(self.payload(min(size, 1400)))
        )
        return self.finish("ipv6", p, "cpu")

    def kind_ipv6_multicast(self, size: int) -> Case:
        p = (
            Ether(dst="33:33:00:00:00:01")
            / IPv6(src="fe80::1", dst="ff02::1")
            / UDP()
            / Raw(self.payload(min(size, 1400)))
        )
        return self.finish("ipv6_multicast", p, "drop_other" if self.s.promiscuous else "drop_mac")

    def kind_other_type(self, size: int) -> Case:
        p = Ether(dst=ANY_MAC, type=0x88CC) / Raw(self.payload(min(size, 1400)))
        return self.finish("other_type", p, "drop_other")

    def kind_arp_for_us(self, size: int) -> Case:
        p = Ether(dst=ANY_MAC) / ARP(op=1, hwsrc="02:00:00:00:00:09", psrc="10.1.2.9", pdst=ip_text(self.s.ip))
        return self.finish("arp_for_us", p, "cpu")

    def kind_arp_for_others(self, size: int) -> Case:
        p = Ether(dst=ANY_MAC) / ARP(op=1, hwsrc="02:00:00:00:00:09", psrc="10.1.2.9", pdst=ip_text(self.s.ip ^ 1))
        return self.finish("arp_for_others", p, "drop_other")

    def kind_bad_fcs(self, size: int) -> Case:
        return self.finish("bad_fcs", self.udp(size), "rx_bad_mac", bad=True)

    def kind_mutant(self, size: int) -> Case:
        """A good frame with some bytes changed or cut: whatever the model says."""
        frame = bytearray(bytes(self.udp(size)))
        for _ in range(self.random.randrange(1, 4)):
            frame[self.random.randrange(min(50, len(frame)))] = self.random.getrandbits(8)
        if self.random.random() < 0.3:
            frame = frame[: self.random.randrange(1, len(frame) + 1)]
        return Case("mutant", bytes(frame))
