"""TAPCP: registers by CASPER's protocol, which is TFTP (RFC 1350) with names that mean registers.

The names and formats are those of CASPER's server, ``jasper_library/sw/jam/casper_tapcp.c`` of casper-astro/mlib_devel:

=============================  =====================================================================================
``/dev/NAME[.WORD[.WORDS]]``   words of a device, numbers in hexadecimal; no or 0 WORDS: to its end
``NAME[.WORD[.WORDS]]``        the same
``/fpga.BYTE[.BYTES]``         the whole address space, 4 bytes if not said; rounded outwards to words
``/listdev``                   the devices: compressed (octet mode), or a table (netascii)
``/help``                      what there is
=============================  =====================================================================================

Words go as 4 bytes, highest first. Writes are in octet mode; how much is written is how much is sent.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterable
from dataclasses import dataclass

from ryle.fpga.transport import FpgaError

PORT = 69
BLOCK = 512
RRQ, WRQ, DATA, ACK, ERROR = range(1, 6)
NOT_DEFINED, NOT_FOUND, ACCESS, _, ILLEGAL, UNKNOWN_ID = range(6)

#: What a core is called if the address does not say.
DEVICE = "ryle"


def request(operation: int, name: str, mode: str = "octet") -> bytes:
    """Make the packet that asks for a transfer (`RRQ` or `WRQ`)."""
    return struct.pack("!H", operation) + name.encode() + b"\0" + mode.encode() + b"\0"


def data(block: int, payload: bytes) -> bytes:
    """Make a packet of data; one of less than 512 B is the last."""
    return struct.pack("!HH", DATA, block & 0xFFFF) + payload


def acknowledgement(block: int) -> bytes:
    """Make the packet that says that a block has come."""
    return struct.pack("!HH", ACK, block & 0xFFFF)


def error(code: int, says: str) -> bytes:
    """Make the packet that ends a transfer."""
    return struct.pack("!HH", ERROR, code) + says.encode() + b"\0"


@dataclass(frozen=True)
class Device:
    """What a server has at a name.

    Attributes
    ----------
    address, bytes : int
        Where it is among all registers, and its size.
    writable : bool
        Whether it can be written.
    """

    name: str
    address: int
    bytes: int
    writable: bool = True


def device_list(devices: Iterable[Device], typecode: int = 0) -> bytes:
    """Compress a list of devices as CASPER's ``cit2csl.py`` does: each name without what it shares with the last."""
    made, last = b"", b""
    for d in sorted(devices, key=lambda d: d.name.encode()):
        name = d.name.encode()
        shared = 0
        while shared < min(len(last), len(name)) and last[shared] == name[shared]:
            shared += 1
        # There is nothing to share with before the first name: there the bytes of what follows each name are said.
        first = shared if made else 9
        entry = struct.pack("!IIB", d.address | (not d.writable), d.bytes, typecode)
        made += bytes((first, len(name) - shared)) + name[shared:] + entry
        last = name
    made += b"\0\0"
    return struct.pack("!H", len(made)) + made


class Tapcp:
    """Registers behind a TAPCP server.

    Parameters
    ----------
    host : str
        Name or address of the board, or of the host that serves it.
    port : int
        UDP port.
    device : str
        Name of the core there.
    seconds : float
        How long to try. Until then what is not answered is sent again, each time a little later.
    """

    #: Seconds until a packet is sent again, the first time and at most.
    AGAIN = (0.1, 1.0)

    def __init__(self, host: str, port: int = PORT, device: str = DEVICE, seconds: float = 5.0) -> None:
        self._where = f"{host}:{port}"
        self._device, self._seconds = device, seconds
        try:
            self._server = (socket.gethostbyname(host), port)
        except (OSError, UnicodeError) as fault:
            raise FpgaError(f"there is no host {host} ({fault}): write tapcp:HOST or tapcp:HOST:PORT") from None

    def read(self, address: int) -> int:
        """Read the 32-bit word at a byte address."""
        got = self._transfer(RRQ, f"/dev/{self._device}.{address // 4:x}.1", b"")
        if len(got) != 4:
            raise FpgaError(f"{self._where} gave {len(got)} B for a word of 4: is it a TAPCP server?")
        return int.from_bytes(got, "big")

    def write(self, address: int, value: int) -> None:
        """Write a 32-bit word."""
        self._transfer(WRQ, f"/dev/{self._device}.{address // 4:x}.0", value.to_bytes(4, "big"))

    def get(self, name: str) -> bytes:
        """Read all that is at a name, such as ``/listdev``."""
        return self._transfer(RRQ, name, b"")

    def put(self, name: str, payload: bytes) -> None:
        """Write to a name."""
        self._transfer(WRQ, name, payload)

    def close(self) -> None:
        """Let go of it: nothing is held between transfers."""

    def _transfer(self, operation: int, name: str, payload: bytes) -> bytes:
        """Read what is at a name, or write there; a transfer has a port of its own, so that nothing old can join it."""
        end = time.monotonic() + self._seconds
        while True:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
                try:
                    return _Transfer(s, self._server, self._where, name, end).run(operation, payload)
                except _BusyError:
                    if time.monotonic() > end:
                        raise FpgaError(f"{self._where} is busy with others all the time: try again") from None
            time.sleep(0.05)


class _BusyError(Exception):
    """The server serves one at a time, and now another."""


class _Transfer:
    """One transfer, by a socket that no other uses."""

    def __init__(self, s: socket.socket, server: tuple[str, int], where: str, name: str, end: float) -> None:
        self._socket, self._server, self._where, self._name, self._end = s, server, where, name, end
        self._peer: tuple[str, int] | None = None  # answers come from a port that the server chose for this transfer

    def run(self, operation: int, payload: bytes) -> bytes:
        """Carry it out; what was read."""
        packet, sent, got, block = request(operation, self._name), 0, b"", int(operation == RRQ)
        while True:
            answer = self._ask(packet, DATA if operation == RRQ else ACK, block)
            if operation == RRQ:
                got += answer
                packet, block = acknowledgement(block), block + 1
                if len(answer) < BLOCK:
                    self._send(packet)
                    return got
            elif block and len(payload) - sent < BLOCK:
                return b""
            else:
                sent += BLOCK if block else 0
                packet, block = data(block + 1, payload[sent : sent + BLOCK]), block + 1

    def _send(self, packet: bytes) -> None:
        try:
            self._socket.sendto(packet, self._peer or self._server)
        except OSError as fault:
            raise FpgaError(f"nothing can be sent to {self._where} ({fault.strerror})") from None

    def _ask(self, packet: bytes, kind: int, block: int) -> bytes:
        """Send until the answer is there: data of this block, or its acknowledgement."""
        again, longest = Tapcp.AGAIN
        while (now := time.monotonic()) < self._end:
            self._send(packet)
            until = min(now + again, self._end)
            again = min(2 * again, longest)
            while (left := until - time.monotonic()) > 0:
                self._socket.settimeout(left)
                try:
                    answer, sender = self._socket.recvfrom(65535)
                except TimeoutError:
                    break
                except OSError as fault:
                    raise FpgaError(f"no TAPCP server answers at {self._where} ({fault.strerror})") from None
                if sender[0] != self._server[0] or len(answer) < 4:
                    continue
                if self._peer is not None and sender != self._peer:
                    # A second transfer that a copy of our request began.
                    self._socket.sendto(error(UNKNOWN_ID, "another transfer answers this one"), sender)
                    continue
                operation, number = struct.unpack_from("!HH", answer)
                if operation == ERROR:
                    self._refused(number, answer[4:].split(b"\0")[0].decode(errors="replace"))
                if (operation, number) == (kind, block & 0xFFFF):
                    self._peer = sender
                    return answer[4:]
        if self._peer is None:
            raise FpgaError(
                f"no TAPCP server answers at {self._where}: is the board up, or `ryle fpga serve` running there?"
            )
        raise FpgaError(
            f"{self._where} answers no more, in the middle of {self._name}: what was written may have been carried out"
        )

    def _refused(self, code: int, says: str) -> None:
        if self._peer is None and ("one connection" in says.lower() or "too many transfers" in says):
            raise _BusyError
        hint = {NOT_FOUND: "`/listdev` says what is there: tapcp:HOST:PORT/DEVICE names the core"}.get(code, "")
        raise FpgaError(f"{self._where} refuses {self._name}: {says or f'error {code}'}{'; ' if hint else ''}{hint}")
