"""Packets as others' F-engines send them: made of simulated spectra, sent at a rate or as fast as they are taken."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from ryle.chunk import BLOCK, SpectraChunk, parts_from_rows
from ryle.config import Observation
from ryle.send.datagrams import DatagramSender, Injector
from ryle.wire.description import terms
from ryle.wire.spectra import headers


class PacketMaker:
    """Makes the packets that others' F-engines would send of spectra.

    Parameters
    ----------
    observation : Observation
        With ``fengine.packets``.
    """

    def __init__(self, observation: Observation) -> None:
        layout = observation.packets
        assert layout is not None
        if layout.bits != observation.fengine.output_bits:
            raise ValueError(
                f"{layout.format.name} holds {layout.bits}-bit samples: set fengine.output_bits = {layout.bits}"
            )
        self.layout = layout
        self._inputs = observation.wire_inputs
        self._conjugated = np.array([s.conjugate for s in observation.streams])
        self._senders = layout.senders(self._inputs)
        self._substream_channels = observation.substream_channels
        self._channels = observation.fengine.channels
        groups = self._channels // layout.channels
        self._streams = [
            layout.header(0, int(s) * layout.inputs, g * layout.channels) for s in self._senders for g in range(groups)
        ]
        #: Which substream each of a time's packets goes to, in the order of `make`.
        self.substreams = np.tile(np.arange(groups) * layout.channels // self._substream_channels, len(self._senders))

    def payloads(self, chunk: SpectraChunk) -> NDArray[np.uint8]:
        """Give the samples of packets, shape (time, packet of that time, bytes); the chunk holds the whole band."""
        layout = self.layout
        blocks, inputs = chunk.data.shape[1:3]
        parts = parts_from_rows(chunk.data).swapaxes(2, 3)  # channel, block, spectrum, input, part
        parts = parts.reshape(self._channels, blocks * BLOCK, inputs, 2)
        times, groups = blocks * BLOCK // layout.spectra, self._channels // layout.channels
        wire = np.zeros((self._channels, blocks * BLOCK, len(self._senders) * layout.inputs, 2), np.int8)
        at = (
            np.searchsorted(self._senders, self._inputs // layout.inputs) * layout.inputs + self._inputs % layout.inputs
        )
        wire[:, :, at] = parts
        wire[:, :, at[self._conjugated], 1] *= -1
        first, second = (wire[..., 1], wire[..., 0]) if layout.swapped else (wire[..., 0], wire[..., 1])
        if layout.bits == 4:
            samples = ((first << 4 | second & 15).view(np.uint8) ^ np.uint8(layout.flip))[..., np.newaxis]
        else:
            samples = np.stack([first, second], -1).view(np.uint8) ^ np.uint8(layout.flip)
        split = samples.reshape(
            groups, layout.channels, times, layout.spectra, len(self._senders), layout.inputs, layout.sample_bytes
        ).transpose(2, 4, 0, 3, 1, 5, 6)  # time, sender, group, spectrum, channel, input, byte
        out = np.empty((times, len(self._streams), layout.payload_bytes), np.uint8)
        place = np.add.outer(
            np.add.outer(
                np.arange(layout.spectra) * layout.spectrum_bytes, np.arange(layout.channels) * layout.channel_bytes
            ),
            np.add.outer(layout.input_bytes, np.arange(layout.sample_bytes)),
        ).ravel()
        out[:, :, place] = split.reshape(times, len(self._streams), -1)
        return out

    def packets(self, payloads: NDArray[np.uint8], first_spectrum: int) -> NDArray[np.uint8]:
        """Put headers before samples.

        Parameters
        ----------
        payloads : ndarray of uint8, shape (time, packet of that time, bytes)
            As `payloads` gives them.
        first_spectrum : int
            Of the first time, a multiple of the spectra of a packet.

        Returns
        -------
        ndarray of uint8, shape (time, packet of that time, bytes)
            Packets as they are sent.
        """
        layout, format = self.layout, self.layout.format
        times, streams, _ = payloads.shape
        out = np.zeros((times, streams, layout.packet_bytes), np.uint8)
        names = [field.name for field in format.header.field]
        counters = list(terms(format.timestamp.count))
        for t in range(times):
            now = layout.header(first_spectrum + t * layout.spectra, 0, 0)
            fields: dict[str, NDArray[np.uint64] | int] = {
                name: np.array([s[name] for s in self._streams], np.uint64)
                for name in names
                if name in self._streams[0] and name not in counters
            }
            fields |= {name: now[name] for name in counters}
            out[t, :, : format.header.bytes] = headers(format, fields, streams)
        out[..., format.header.bytes : format.header.bytes + layout.payload_bytes] = payloads
        return out


class PacketSender:
    """Sends packets of a simulated array to the X-engines, with the observation's faults on their way.

    Parameters
    ----------
    observation : Observation
        With ``fengine.packets`` and ``[simulate]``.
    substreams : sequence of int, optional
        Send to these only.
    """

    def __init__(self, observation: Observation, substreams: Sequence[int] | None = None) -> None:
        o = observation
        assert o.simulate is not None
        self.maker = PacketMaker(o)
        chosen = list(range(o.substreams)) if substreams is None else list(substreams)
        self._chosen = np.flatnonzero(np.isin(self.maker.substreams, chosen)).astype(np.uint32)
        endpoints = [o.spectra_endpoint(s) for s in chosen]
        self._to = np.array([chosen.index(s) for s in self.maker.substreams[self._chosen].tolist()], np.uint32)
        speed = 0.0 if isinstance(o.simulate.speed, str) else o.simulate.speed
        self._second = float(o.sample_rate / o.step)  # spectra of it
        injector = Injector(o.simulate.faults, self.maker.layout.format, len(self.maker.substreams))
        self._out = DatagramSender(o.network, endpoints, injector, speed=speed)

    @property
    def sent(self) -> int:
        """Packets sent so far."""
        return self._out.sent

    @property
    def counts(self) -> dict[str, int]:
        """What became of packets; see `ryle.send.datagrams.Injector.counts`."""
        return self._out.counts

    def send(self, packets: NDArray[np.uint8], first_spectrum: int, stop: Callable[[], bool] = lambda: False) -> None:
        """Send packets in order of time, as fast as the observation's speed says."""
        to = np.broadcast_to(self._to, (len(packets), len(self._to)))
        each = self.maker.layout.spectra / self._second
        there = np.ones(to.shape, np.bool_)
        self._out.send(packets[:, self._chosen], self._chosen, to, there, first_spectrum / self._second, each, stop)

    def close(self) -> None:
        """Send what faults held back, and close."""
        self._out.close()
