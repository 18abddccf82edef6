"""A TAPCP server for a core's registers, whatever transport leads to them: a simulated FPGA's socket, a PCIe BAR.

So CASPER's software on other hosts, and `ryle fpga --at tapcp:HOST`, reach a core whose board has no processor for
that. Each transfer is answered from a port of its own, as RFC 1350 has it: many clients at a time, and a copy of a
request that comes late begins a transfer which nobody goes on with. Data that come twice are written once.
"""

from __future__ import annotations

import selectors
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable

from ryle.fpga import registers, tapcp
from ryle.fpga.tapcp import ACCESS, ACK, BLOCK, DATA, ERROR, ILLEGAL, NOT_DEFINED, NOT_FOUND, RRQ, WRQ, Device
from ryle.fpga.transport import FpgaError, Transport

#: What casperfpga reads to see whether somebody is there, and how words lie: the board's ID has its highest byte 0.
CLOCK, BOARD = "sys_clkcounter", "sys_board_id"
BOARD_ID = 0x5279

HELP = """Available TAPCP commands:
  /help    - this message
  /listdev - list devices
  [/dev/]DEVNAME[.OFFSET[.LENGTH]] - words of a device
  /fpga.OFFSET[.LENGTH] - bytes of all registers
"""


class RefusedError(Exception):
    """A request that cannot be carried out: TFTP's error code, and what to say."""

    def __init__(self, code: int, says: str) -> None:
        super().__init__(says)
        self.code = code


def devices(name: str = tapcp.DEVICE) -> list[Device]:
    """List what there is: the core, each of its registers, and the two that casperfpga asks every board for."""
    core = registers.load()
    found = [Device(name, 0, core.bytes), Device(CLOCK, core.bytes, 4, False), Device(BOARD, core.bytes + 4, 4, False)]
    for r in core.registers:
        for part, address in ((r.name, r.address), (f"{r.name}_high", r.high)):
            if address is not None:
                found.append(Device(f"{name}_{part}", address, 4, r.access != "r"))
    return found


class TapcpServer:
    """Serves registers until it is closed.

    Parameters
    ----------
    transport : Transport
        Where the registers are; used by one transfer at a time.
    host, port : str, int
        Where it listens; port 0 takes a free one.
    name : str
        What the core is called.
    seconds : float
        A transfer that nobody goes on with ends after so long, and a finished write is forgotten: longer than clients
        try.

    Raises
    ------
    FpgaError
        If it cannot listen there; says what to do.
    """

    #: Seconds until a packet is sent again.
    AGAIN = 0.25
    #: Transfers at a time, and finished writes whose last acknowledgement may still be asked for again.
    TRANSFERS, FINISHED = 64, 256

    def __init__(
        self,
        transport: Transport,
        host: str = "127.0.0.1",
        port: int = tapcp.PORT,
        name: str = tapcp.DEVICE,
        seconds: float = 15.0,
    ) -> None:
        self._transport, self._seconds = transport, seconds
        self._bytes = registers.load().bytes
        self._devices = {d.name: d for d in devices(name)}
        self._lock = threading.Lock()
        self._began = time.monotonic()
        self._running = threading.BoundedSemaphore(self.TRANSFERS)
        self._closed = threading.Event()
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            self._socket.bind((host, port))
        except OSError as fault:
            self._socket.close()
            hint = "; below 1024 it takes root: --listen HOST:PORT" if isinstance(fault, PermissionError) else ""
            raise FpgaError(f"TAPCP cannot be served at {host}:{port} ({fault.strerror}){hint}") from None
        self._socket.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._socket, selectors.EVENT_READ)
        # Of finished writes: the transfer's socket, the block that was last, and until when it is remembered.
        self._finished: deque[tuple[socket.socket, int, float]] = deque()
        self.host, self.port = self._socket.getsockname()
        self._thread = threading.Thread(target=self._listen, name="tapcp", daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Wait until it is closed."""
        self._closed.wait()

    def close(self) -> None:
        """Serve no more; transfers under way end within their time."""
        self._closed.set()
        self._thread.join()
        for s in (self._socket, *(s for s, _, _ in self._finished)):
            s.close()
        self._selector.close()

    def __enter__(self) -> TapcpServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _listen(self) -> None:
        while not self._closed.is_set():
            for key, _ in self._selector.select(0.1):
                try:
                    if key.fileobj is self._socket:
                        self._begin(*self._socket.recvfrom(65535))
                    else:
                        self._repeat(*key.data)
                except OSError:
                    pass  # a client has gone
            with self._lock:
                while self._finished and (
                    len(self._finished) > self.FINISHED or self._finished[0][2] < time.monotonic()
                ):
                    s, _, _ = self._finished.popleft()
                    self._selector.unregister(s)
                    s.close()

    def _begin(self, packet: bytes, client: tuple[str, int]) -> None:
        if len(packet) < 2 or struct.unpack_from("!H", packet)[0] == ERROR:
            return
        if not self._running.acquire(blocking=False):
            self._socket.sendto(tapcp.error(NOT_DEFINED, "too many transfers at a time: try again"), client)
            return
        threading.Thread(target=self._serve, args=(packet, client), name="tapcp transfer", daemon=True).start()

    @staticmethod
    def _repeat(s: socket.socket, block: int) -> None:
        """Say again that a finished write's last block has come, to a client that did not hear it."""
        if s.recv(65535)[:4] == struct.pack("!HH", DATA, block & 0xFFFF):
            s.send(tapcp.acknowledgement(block))

    def _serve(self, packet: bytes, client: tuple[str, int]) -> None:
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        last = None
        try:
            s.bind((self.host, 0))
            s.connect(client)  # what others send to this port is not heard
            last = self._transfer(s, packet)
        except OSError:
            pass  # the client has gone
        finally:
            self._running.release()
        with self._lock:
            if last is None or self._closed.is_set():
                s.close()
            else:
                s.setblocking(False)
                self._finished.append((s, last, time.monotonic() + self._seconds))
                self._selector.register(s, selectors.EVENT_READ, (s, last))

    def _transfer(self, s: socket.socket, packet: bytes) -> int | None:
        """Carry a request out; of a write, the block that was last."""
        try:
            operation, name, octets = _asked(packet)
            if operation == WRQ:
                return self._receive(s, self._writer(name, octets))
            self._send(s, self._reader(name, octets))
        except RefusedError as refused:
            s.send(tapcp.error(refused.code, str(refused)))
        except FpgaError as fault:
            s.send(tapcp.error(NOT_DEFINED, str(fault)))
        return None

    def _send(self, s: socket.socket, read: Callable[[int], bytes]) -> None:
        """Send blocks until one is short; each is read when the one before has arrived."""
        block = 1
        while True:
            payload = read(block - 1)
            if self._exchange(s, tapcp.data(block, payload), ACK, block) is None or len(payload) < BLOCK:
                return
            block += 1

    def _receive(self, s: socket.socket, write: Callable[[int, bytes], None]) -> int | None:
        """Write blocks until one is short; which that was, None if it did not come."""
        block = 0
        while (payload := self._exchange(s, tapcp.acknowledgement(block), DATA, block + 1)) is not None:
            write(block, payload)
            block += 1
            if len(payload) < BLOCK:
                s.send(tapcp.acknowledgement(block))
                return block
        return None

    def _exchange(self, s: socket.socket, packet: bytes, kind: int, block: int) -> bytes | None:
        """Send until the answer comes; None if none does, or the client ends it."""
        end = time.monotonic() + self._seconds
        while time.monotonic() < end and not self._closed.is_set():
            s.send(packet)
            until = time.monotonic() + self.AGAIN
            while (left := until - time.monotonic()) > 0:
                s.settimeout(left)
                try:
                    answer = s.recv(65535)
                except TimeoutError:
                    break
                if len(answer) < 4:
                    continue
                operation, number = struct.unpack_from("!HH", answer)
                if operation == ERROR:
                    return None
                if (operation, number) == (kind, block & 0xFFFF):
                    return answer[4:]
        return None

    # -- what names mean ----------------------------------------------------------------------------------------------

    def _reader(self, name: str, octets: bool) -> Callable[[int], bytes]:
        """Give what makes block n of what is at a name."""
        if name in ("/help", "/listdev"):
            found = sorted(self._devices.values(), key=lambda d: d.name)
            table = "".join(f"{d.name}\t{3 if d.writable else 1}\t{d.address:X}\t{d.bytes:X}\t0\n" for d in found)
            whole = HELP.encode() if name == "/help" else tapcp.device_list(found) if octets else table.encode()
            return lambda n: whole[n * BLOCK : (n + 1) * BLOCK]
        address, size = self._place(name, RRQ)
        if octets:
            return lambda n: self._words(address + n * BLOCK, min(BLOCK, size - n * BLOCK))
        lines = (self._words(address + at, min(16, size - at)).hex(" ", 4).upper() for at in range(0, size, 16))
        dump = "".join(f"{16 * n:08X}: {line}\n" for n, line in enumerate(lines)).encode()
        return lambda n: dump[n * BLOCK : (n + 1) * BLOCK]

    def _writer(self, name: str, octets: bool) -> Callable[[int, bytes], None]:
        """Give what writes block n."""
        address, room = self._place(name, WRQ)
        if not octets:
            raise RefusedError(ACCESS, "words are written in octet (binary) mode")

        def write(n: int, payload: bytes) -> None:
            if len(payload) % 4 or n * BLOCK + len(payload) > room:
                raise RefusedError(ACCESS, f"{name} takes whole words of 4 B, {room} B at most")
            with self._lock:
                for at in range(0, len(payload), 4):
                    word = int.from_bytes(payload[at : at + 4], "big")
                    self._transport.write(address + n * BLOCK + at, word)

        return write

    def _place(self, name: str, operation: int) -> tuple[int, int]:
        """Address and bytes that a name means."""
        plain, *numbers = name.removeprefix("/dev/").split(".")
        try:
            first, count = (int(n, 16) if n else 0 for n in (*numbers, "", "")[:2])
        except ValueError:
            raise RefusedError(NOT_FOUND, f"{name}: offset and length are hexadecimal numbers") from None
        if plain == "/fpga":
            device = Device(plain, 0, self._bytes)
            first, last = first & ~3, (first & ~3) + ((count or 4) + 3 & ~3)
        elif plain in self._devices:
            device = self._devices[plain]
            first, last = 4 * first, 4 * (first + count) if count else device.bytes
        else:
            raise RefusedError(NOT_FOUND, f"{plain} is not here")
        if operation == WRQ:
            if not device.writable:
                raise RefusedError(ACCESS, f"{plain} can only be read")
            last = device.bytes  # the client's data say how long they are
        if not 0 <= first < last <= device.bytes:
            raise RefusedError(NOT_FOUND, f"{name}: {plain} has {device.bytes // 4:#x} words")
        return device.address + first, last - first

    def _words(self, address: int, size: int) -> bytes:
        with self._lock:
            return b"".join(self._word(address + at).to_bytes(4, "big") for at in range(0, max(size, 0), 4))

    def _word(self, address: int) -> int:
        if address < self._bytes:
            return self._transport.read(address)
        # The two that are of no core: a clock of a MHz since the server's start, and the board's ID.
        return int((time.monotonic() - self._began) * 1e6) & 0xFFFFFFFF if address == self._bytes else BOARD_ID


def _asked(packet: bytes) -> tuple[int, str, bool]:
    """Operation, name and mode of a request; options (RFC 2347) are ignored, as a server may."""
    (operation,) = struct.unpack_from("!H", packet)
    if operation not in (RRQ, WRQ):
        raise RefusedError(ILLEGAL, "a transfer begins with a request")
    name, *rest = packet[2:].split(b"\0")
    if len(rest) < 2 or rest[0].lower() not in (b"octet", b"netascii"):
        raise RefusedError(ILLEGAL, "a request has a name and a mode, octet or netascii, each with a 0 behind it")
    return operation, name.decode(errors="replace"), rest[0].lower() == b"octet"
