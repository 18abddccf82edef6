"""The X-engine's arithmetic: K-blocks of spectra in, exact visibilities and contribution counts out.

`ryle.correlate.reference` is the oracle, `ryle.correlate.cpu` the form for processors; `make_correlator` chooses one.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from ryle.chunk import product_inputs
from ryle.correlate.correlator import Correlator, CorrelatorConfig

__all__ = ["BACKENDS", "Correlator", "CorrelatorConfig", "make_correlator", "product_inputs"]

#: Backends and where they live; a backend is imported when it is asked for.
BACKENDS = {"cpu": "ryle.correlate.cpu:CpuCorrelator", "cuda": "ryle.correlate.cuda:CudaCorrelator"}


def make_correlator(config: CorrelatorConfig, backend: str = "cpu", **options: Any) -> Correlator:
    """Make a correlator of the named backend.

    Parameters
    ----------
    config : CorrelatorConfig
        Size of the correlation.
    backend : str
        One of `BACKENDS`.
    **options
        Passed to the backend, for instance ``threads`` to `ryle.correlate.cpu.CpuCorrelator`.

    Raises
    ------
    ValueError
        If there is no backend of that name.
    RuntimeError
        If the backend cannot be loaded here; the message says why.
    """
    if backend not in BACKENDS:
        raise ValueError(f"backend is {backend!r}; it must be one of {', '.join(map(repr, BACKENDS))}")
    module, name = BACKENDS[backend].split(":")
    try:
        make: Callable[..., Correlator] = getattr(import_module(module), name)
    except ImportError as error:
        raise RuntimeError(
            f"the X-engine's {backend!r} backend cannot be loaded here ({error}); "
            "install what it needs or choose another backend ('cpu' runs anywhere)"
        ) from error
    return make(config, **options)
