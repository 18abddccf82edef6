"""Where a core's registers are, in words that people write.

============================  ===================================================================================
``sim:PATH``                  a simulated FPGA (`ryle fpga simulate`), by the Unix socket that it listens on
``map:FILE``, ``map:FILE@N``  a file that can be mapped, from byte N on: a PCIe BAR
                              (``map:/sys/bus/pci/devices/0000:41:00.0/resource0``), ``/dev/mem``, a plain file
``tapcp:HOST``                a TAPCP server: CASPER's protocol over UDP, of a board's processor or of `ryle fpga serve`
                              (``tapcp:HOST:PORT``; ``tapcp:HOST/DEVICE`` if the core has another name there than ryle)
============================  ===================================================================================
"""

from __future__ import annotations

from pathlib import Path

from ryle.fpga import tapcp
from ryle.fpga.transport import FpgaError, Mapped, Simulated, Transport


def opened(where: str) -> Transport:
    """Open the transport that `where` describes.

    Raises
    ------
    FpgaError
        If it is of no known kind, or cannot be opened; says what to do.
    """
    kind, _, rest = where.partition(":")
    if kind == "sim" and rest:
        return Simulated(Path(rest))
    if kind == "map" and rest:
        path, _, offset = rest.partition("@")
        try:
            return Mapped(Path(path), int(offset, 0) if offset else 0)
        except ValueError:
            raise FpgaError(f"{where}: {offset} is no offset in bytes; write map:FILE@0x10000") from None
    if kind == "tapcp" and rest:
        place, _, device = rest.partition("/")
        host, _, port = place.partition(":")
        if not host or (port and not (port.isascii() and port.isdigit() and 0 < int(port) < 65536)):
            raise FpgaError(f"{where}: write tapcp:HOST, tapcp:HOST:PORT or tapcp:HOST:PORT/DEVICE, PORT 1 to 65535")
        return tapcp.Tapcp(host, int(port or tapcp.PORT), device or tapcp.DEVICE)
    raise FpgaError(
        f"where is {where!r}? Write sim:SOCKET of a simulated FPGA, map:FILE of a PCIe BAR (map:FILE@OFFSET), or "
        "tapcp:HOST of a board's TAPCP server"
    )
