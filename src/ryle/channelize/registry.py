"""The forms of the channelizer, by name."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from ryle.channelize.channelizer import Channelizer, ChannelizerConfig

#: Forms and where they live; one is imported when it is asked for.
BACKENDS = {
    "cpu": "ryle.channelize.cpu:CpuChannelizer",
    "cuda": "ryle.channelize.cuda:CudaChannelizer",
    "reference": "ryle.channelize.reference:ReferenceChannelizer",
}


def make_channelizer(config: ChannelizerConfig, backend: str = "cpu") -> Channelizer:
    """Make the form of the channelizer called `backend`.

    Raises
    ------
    ValueError
        If there is no such form; the message lists those there are.
    """
    if backend not in BACKENDS:
        raise ValueError(f"channelizer backend {backend!r} is unknown; use one of {', '.join(BACKENDS)}")
    module, name = BACKENDS[backend].split(":")
    form: Callable[[ChannelizerConfig], Channelizer] = getattr(import_module(module), name)
    return form(config)
