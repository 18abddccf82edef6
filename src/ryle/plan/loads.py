"""How much of each resource an engine takes on a piece of hardware: what is largest is its bottleneck.

The model is that of Merry (2023), Fig. 11, with more resources: kernels, energy, the bus each way, the card each way,
memory of the host and receiving threads. Each is a share, 1 if the resource is used up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ryle.engines.machine import LIMITS
from ryle.plan.hardware import Gpu, Server
from ryle.plan.work import Work

#: Times that a byte from the network crosses the host's memory: written by the card, read by the bus; each way.
_CROSSINGS = 2


@dataclass(frozen=True)
class Load:
    """Shares of resources.

    Parameters
    ----------
    shares : dict of str to float
        By resource: "kernels", "power", "bus in", "bus out", "card in", "card out", "host memory", "threads", "disk".
    watts : float
        Of the GPU.
    """

    shares: dict[str, float]
    watts: float

    @property
    def bottleneck(self) -> str:
        """The resource that is used most."""
        return max(self.shares, key=lambda name: self.shares[name])

    @property
    def most(self) -> float:
        """How much of it."""
        return self.shares[self.bottleneck]


def f_load(work: Work, inputs: float, gpu: Gpu, server: Server) -> Load:
    """Say what an F-engine for some inputs takes of one GPU, and of what a server has for each GPU."""
    samples = inputs * work.samples
    come, go = inputs * work.input_wire, inputs * work.spectra_wire
    both = gpu.bus_both / gpu.bus  # what is left of the bus when both ways are busy
    watts = samples * gpu.f_energy(work.channels)
    return Load(
        {
            "kernels": samples / gpu.f_rate(work.channels),
            "power": watts / gpu.watts,
            "bus in": come / (gpu.bus * both),
            "bus out": go / (gpu.bus * both),
            **_network(come, go, server),
        },
        watts,
    )


def x_load(work: Work, band: float, gpu: Gpu, server: Server) -> Load:
    """Say what an X-engine for a part of the band takes of one GPU.

    Parameters
    ----------
    band : float
        Hz of all inputs.
    """
    come = work.inputs * band * 2 * work.spectrum_bits * work.wire_spectra
    go = 8 * work.output_bytes * band / (work.bandwidth * work.bands)
    operations = work.x_operations * band / (work.bandwidth * work.bands)
    watts = operations * gpu.x_joules
    return Load(
        {
            "kernels": operations / gpu.x_rate(work.inputs),
            "power": watts / gpu.watts,
            "bus in": come / gpu.bus,
            "bus out": go / gpu.bus,
            **_network(come, go, server),
        },
        watts,
    )


def fx_load(work: Work, share: float, gpu: Gpu, server: Server) -> Load:
    """Say what a share of F and X in one process takes of one GPU; spectra stay on GPUs."""
    samples = share * work.inputs * work.samples * work.bands
    come, go = share * work.inputs * work.input_wire * work.bands, 8 * share * work.output_bytes
    operations = share * work.x_operations
    watts = samples * (gpu.f_energy(work.channels) + gpu.fx_joules) + operations * gpu.x_joules
    return Load(
        {
            "kernels": samples / gpu.f_rate(work.channels) + operations / gpu.x_rate(work.inputs),
            "power": watts / (gpu.engine * gpu.watts),
            "bus in": come / gpu.bus,
            "bus out": go / gpu.bus,
            **_network(come, go, server),
        },
        watts,
    )


def fx_rate(work: Work, gpu: Gpu, *, fed: bool) -> float:
    """Give the samples a second that FX on one GPU takes, all inputs together.

    Parameters
    ----------
    fed : bool
        Whether samples come over the bus; else they are on the GPU already.
    """
    whole = work.inputs * work.samples * work.bands
    shares = fx_load(work, 1.0, gpu, _NO_LIMITS).shares
    limits = ("kernels", "power", "bus in") if fed else ("kernels", "power")
    # What engines reach of copies is what they reach of kernels.
    bus = {"bus in": shares["bus in"] / work.wire_in / gpu.engine}
    return whole / max((shares | bus)[name] for name in limits)


_NO_LIMITS = Server(
    name="",
    gpu="",
    gpus=1,
    cards=1,
    card=math.inf,
    cores=1 << 20,
    memory=math.inf,
    memory_bandwidth=math.inf,
    disk=math.inf,
    watts=0,
)


def _network(come: float, go: float, server: Server) -> dict[str, float]:
    """Shares of what a server has for each of its GPUs: a card or a part of one, memory, cores."""
    cards = server.cards * server.card / server.gpus
    threads = max(1.0, come / LIMITS[server.receive].bits)
    return {
        "card in": come / cards,
        "card out": go / cards,
        "host memory": _CROSSINGS * (come + go) * server.gpus / server.memory_bandwidth,
        "threads": threads * server.gpus / server.cores,
    }
