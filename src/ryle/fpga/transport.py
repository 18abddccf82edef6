"""What leads to a core's registers, 32-bit words at byte addresses; `ryle.fpga.where` opens it."""

from __future__ import annotations

import mmap
import os
import socket
import struct
from pathlib import Path
from typing import Protocol


class FpgaError(RuntimeError):
    """The FPGA cannot be reached, or does not do what was asked; says what to do."""


class Transport(Protocol):
    """A way to registers."""

    def read(self, address: int) -> int:
        """Read the 32-bit word at a byte address."""

    def write(self, address: int, value: int) -> None:
        """Write a 32-bit word."""

    def close(self) -> None:
        """Let go of it."""


class Simulated:
    """Registers of a simulated FPGA, by a Unix socket; `hdl/sim/main.cpp` is the other end."""

    READ, WRITE, STATISTIC, LOOPBACK, END = range(5)
    _STATISTICS = ("clocks", "clocks_high", "frames", "payloads", "failed", "bad", "underflows")

    def __init__(self, path: Path, seconds: float = 60.0) -> None:
        self._path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(seconds)
        try:
            self._socket.connect(str(path))
        except OSError as error:
            self._socket.close()
            raise FpgaError(
                f"no simulated FPGA listens at {path} ({error.strerror}): start one, "
                f"`ryle fpga simulate --socket {path}`, or say where the FPGA is with --at"
            ) from None

    def _ask(self, operation: int, address: int, value: int = 0) -> int:
        try:
            self._socket.sendall(struct.pack("<3I", operation, address, value))
            reply = b""
            while len(reply) < 8:
                more = self._socket.recv(8 - len(reply))
                if not more:
                    raise FpgaError(
                        f"the simulated FPGA at {self._path} has ended: start it again, `ryle fpga simulate`"
                    )
                reply += more
        except OSError as error:
            raise FpgaError(
                f"the simulated FPGA at {self._path} does not answer ({error}): is it still running?"
            ) from None
        failed, got = struct.unpack("<2I", reply)
        if failed:
            raise FpgaError(
                f"the core answers with an error at {address:#x}: `ryle fpga registers` lists what is there"
            )
        return int(got)

    def read(self, address: int) -> int:
        """Read the 32-bit word at a byte address."""
        return self._ask(self.READ, address)

    def write(self, address: int, value: int) -> None:
        """Write a 32-bit word."""
        self._ask(self.WRITE, address, value)

    def statistics(self) -> dict[str, int]:
        """Say what the simulation did: clocks, frames at the far end, payloads passed on, and what failed."""
        found = {name: self._ask(self.STATISTIC, n) for n, name in enumerate(self._STATISTICS)}
        found["clocks"] |= found.pop("clocks_high") << 32
        return found

    def loopback(self, on: bool) -> None:
        """Connect the core's wire to itself, or to the far end again."""
        self._ask(self.LOOPBACK, 0, int(on))

    def end(self) -> None:
        """End the simulation."""
        self._ask(self.END, 0)

    def close(self) -> None:
        """Let go of the socket; the simulation goes on."""
        self._socket.close()


class Mapped:
    """Registers in a file that can be mapped: a PCIe BAR, /dev/mem, or a plain file."""

    def __init__(self, path: Path, offset: int = 0, size: int = 0x10000) -> None:
        begin = offset - offset % mmap.ALLOCATIONGRANULARITY
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_SYNC)
        except OSError as error:
            hint = "; it may take root" if isinstance(error, PermissionError) else ""
            raise FpgaError(f"{path} cannot be opened ({error.strerror}){hint}") from None
        try:
            self._map = mmap.mmap(descriptor, offset - begin + size, offset=begin)
        except (OSError, ValueError) as error:
            raise FpgaError(
                f"{path} cannot be mapped from {offset:#x} for {size:#x} bytes ({error}): is the core's BAR that large?"
            ) from None
        finally:
            os.close(descriptor)
        # Casting makes accesses whole words: a device sees one 32-bit read or write, not four of a byte.
        self._bytes = memoryview(self._map)
        self._words = self._bytes[offset - begin :].cast("I")

    def read(self, address: int) -> int:
        """Read the 32-bit word at a byte address."""
        return self._words[address // 4]

    def write(self, address: int, value: int) -> None:
        """Write a 32-bit word."""
        self._words[address // 4] = value

    def close(self) -> None:
        """Unmap the file."""
        self._words.release()
        self._bytes.release()
        self._map.close()
