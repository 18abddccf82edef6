"""The other end of a `ryle.products.publisher`: integrations as they are written, from any host."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any, Self

from ryle.chunk import Integration
from ryle.products.framing import Frame, StreamError, read_frame


class Listener:
    """Integrations that a correlator serves, from ``with`` to its end.

    Iterating gives each integration's header and pieces, until the correlator has ended. Sums are as they were sent, in
    the order of bytes that their type says; what is done with them meanwhile makes this listener miss others, and holds
    up nobody.

    Parameters
    ----------
    host, port
        What ``output.stream`` says; of several catchers, each has a port of its own.
    patience : float
        Seconds to wait for the connection.

    Attributes
    ----------
    about : dict
        ``observation``: source and toml, the observation file; ``channels``: first and number of those served;
        ``products`` of each.
    missed : int
        Integrations that passed since the connection while this listener was not ready.

    Raises
    ------
    StreamError
        By all methods, if nobody serves there, or what comes is no stream of visibilities.
    """

    def __init__(self, host: str, port: int, *, patience: float = 10.0) -> None:
        try:
            self._from = socket.create_connection((host, port), timeout=patience)
        except OSError as error:
            raise StreamError(
                f"nobody serves visibilities at {host} port {port} ({error.strerror or error}): give the address of "
                "output.stream, while the correlator runs"
            ) from None
        self._from.settimeout(None)
        self.missed = 0
        try:
            first = self._next()
            if first is None or first.header["kind"] != "observation":
                raise StreamError("the stream does not begin with what is observed")
        except BaseException:
            self._from.close()
            raise
        self.about = first.header

    def __iter__(self) -> Iterator[tuple[dict[str, Any], list[Integration]]]:
        while (frame := self._next()) is not None:
            self.missed = int(frame.header.get("missed", self.missed))
            if frame.header["kind"] == "end":
                return
            if frame.header["kind"] == "integration":  # later versions may tell more
                yield frame.header, frame.pieces()

    def _next(self) -> Frame | None:
        try:
            return read_frame(self._from.recv_into)
        except StreamError:
            raise
        except OSError as error:
            raise StreamError(f"the connection to the correlator broke: {error.strerror or error}") from None

    def close(self) -> None:
        """Hang up."""
        self._from.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
