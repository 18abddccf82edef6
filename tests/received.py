"""Entrances under test: read by a thread as an engine's are, what their blocks held kept."""

import threading
import time
from dataclasses import dataclass, replace
from typing import Any

from faulty_link import FaultyLink
from ryle.chunk import joined
from ryle.receive.entrance import MappedEntrance
from ryle.send.pacing import LocalQueues


@dataclass
class Kept:
    """What a block was when it came: its time, planes, and what its map gave of it, copied."""

    epoch: int
    start: int
    span: int
    present: Any
    given: Any

    @property
    def void(self):
        return not self.present.any()


class Receiving:
    """An entrance on its sockets while the ``with`` block lasts; what it gave is in `blocks` after `stop`.

    Parameters
    ----------
    entrance : Entrance
        Started, and stopped at the end.
    copy : callable
        Gives something of a block that may be kept.
    slow : float
        Seconds that the reader takes for each block.
    """

    def __init__(self, entrance, copy, slow=0.0):
        self.entrance, self.blocks = entrance, []
        self._copy, self._slow = copy, slow
        self._reader = entrance.reader()
        self._thread = threading.Thread(target=self._take)

    def _take(self):
        for block in self._reader:
            with block:
                at = block.epoch, block.start, block.span, block.planes["present"].copy()
                self.blocks.append(Kept(*at, self._copy(block)))
            time.sleep(self._slow)

    def __enter__(self):
        self.entrance.start()
        self._thread.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        """Receive no more, and let the reader get to the end."""
        self.entrance.stop()
        self._thread.join(60)
        assert not self._thread.is_alive()
        return self.blocks

    def settle(self, *endpoints):
        """Wait until everything that was sent to the endpoints has been received."""
        settle(self.entrance, *endpoints)

    def counts(self):
        """What the assembler counted; its sums hold, and the account says the same."""
        c, account = self.entrance.assembler.counts(), self.entrance.account()
        assert account.balanced() and c.malformed == sum(c.faults.values())
        assert c.received == c.datagrams + c.ring_full
        classes = "datagrams", "placed", "late", "duplicate", "malformed", "foreign", "expected", "missing", "ring_full"
        assert [getattr(account, name) for name in classes] == [getattr(c, name) for name in classes]
        return c

    def faults(self):
        """Malformed packets by reason, those that there were."""
        return {fault: n for fault, n in self.counts().faults.items() if n}


def settle(entrance, *endpoints):
    """Wait until an entrance has received everything that was sent to the endpoints."""
    queues, before, since = LocalQueues(endpoints), -1, time.monotonic()
    while time.monotonic() < since + 60:
        time.sleep(0.05)
        now = entrance.assembler.counts().received
        if queues.fill() == 0 and now == before:
            return
        before = now
    raise TimeoutError("packets still come")


def samples(o, mapped, antennas=None, **kwargs):
    """Receive some antennas' samples."""
    antennas = range(len(o.antennas)) if antennas is None else antennas
    entrance = MappedEntrance(o, "f", mapped, o.digitizer_endpoints(antennas), name="digitizer")

    def copy(block):
        chunk = mapped.given(block)
        assert (chunk.timestamp, chunk.packet_samples) == (block.start, o.digitizer.heap_samples)
        return chunk.data.copy(), mapped.saturated(block)

    return Receiving(entrance, copy, **kwargs)


def spectra(o, mapped, substream, **kwargs):
    """Receive a substream's F-heaps."""
    entrance = MappedEntrance(o, "x", mapped, [o.spectra_endpoint(substream)], index=substream, name="spectra")

    def copy(block):
        chunk = mapped.given(block)
        return replace(chunk, packets=chunk.packets.copy())

    return Receiving(entrance, copy, **kwargs)


def visibilities(o, mapped, **kwargs):
    """Receive integrations."""
    entrance = MappedEntrance(o, "catcher", mapped, [o.network.visibilities], name="visibilities")

    def copy(block):
        (pieces,) = mapped.given(block)
        return joined(pieces)

    return Receiving(entrance, copy, **kwargs)


def dumps(o, mapped, **kwargs):
    """Receive others' integrations: a list of those of each block."""
    entrance = MappedEntrance(o, "catcher", mapped, [o.network.visibilities], name="visibilities")
    return Receiving(entrance, mapped.given, **kwargs)


class RecordedLink(FaultyLink):
    """A link that keeps what it sends on, for an oracle to read."""

    def __init__(self, *args, **kwargs):
        self.sent = []
        super().__init__(*args, **kwargs)

    def _send(self, route, datagrams):
        self.sent += datagrams
        super()._send(route, datagrams)
