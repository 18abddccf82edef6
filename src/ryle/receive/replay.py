"""Captures as a source: datagrams of a pcap file, at the times at which they were recorded or as fast as it goes."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Sequence

from ryle.config.endpoints import Endpoint
from ryle.receive import _native
from ryle.receive.pcap import CaptureAccount, PcapFile
from ryle.receive.sources import NativeSource, Sink


class PcapSource(NativeSource):
    """Feed the datagrams of a capture, in the order of the file and with its times of arrival, from native threads.

    What `ryle.receive.pcap.PcapFile` reads is read, by the same rules. Nothing is dropped: a sink that waits holds it
    up.

    Parameters
    ----------
    sink : Assembler or Discard
        What to feed.
    path : path
        pcap or pcapng file.
    endpoints : sequence of Endpoint, optional
        Destinations to take, whose place in this list is a packet's port number; all, as number 0, if not given.
    speed : float
        1 as recorded, 2 twice as fast, 0 as fast as it goes.
    loops : int, optional
        Times to go through the file; forever if None. Timestamps start again each time.
    threads : int
        Threads that hand them over and copy them, if there is no pace.
    cores : sequence of int
        Cores that they run on.

    Raises
    ------
    ValueError
        If the file is no capture.
    """

    def __init__(
        self,
        sink: Sink,
        path: str | os.PathLike[str],
        endpoints: Sequence[Endpoint] | None = None,
        *,
        speed: float = 0.0,
        loops: int | None = 1,
        threads: int = 1,
        cores: Sequence[int] = (),
    ) -> None:
        if speed < 0 or (loops is not None and loops < 1):
            raise ValueError(f"speed = {speed} must not be negative, and loops = {loops} must be at least 1")
        self.bytes_total = PcapFile(path).bytes_total  # which says what is wrong with a file
        ends = None if endpoints is None else [(ipaddress.ip_address(e.host).packed, e.port) for e in endpoints]
        self._counts = _native.PcapCounts()
        passes = -1 if loops is None else loops
        self._native = _native.pcap_source(
            sink.native, os.fspath(path), ends, speed, passes, threads, self._counts, list(cores)
        )

    @property
    def account(self) -> CaptureAccount:
        """What the capture holds, datagrams or not, as far as it was read this time."""
        return CaptureAccount(**self._counts.account)

    @property
    def bytes_done(self) -> int:
        """How far the file was read this time."""
        return self._counts.bytes
