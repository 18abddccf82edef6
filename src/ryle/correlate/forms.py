"""Other forms of exact sums, made on the GPU, so that half as much leaves it.

int32
    As MeerKAT's X-heaps hold them: saturated at ±(2³¹ - 1), and (-2³¹, 1) where nothing contributed.
float32
    Divided by the number of spectra that contributed, rounded once from float64; zero where none did. Files hold these.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np

from ryle.correlate.correlator import CorrelatorConfig
from ryle.gpu.interface import DeviceArray, Gpu, Stream

Form = Literal["int32", "float32"]

_SOURCE = Path(__file__).with_name("sums.cu")
_THREADS = 256
_KERNELS = {"int32": "saturate", "float32": "normalize"}


class Forms:
    """Makes other forms of sums.

    Parameters
    ----------
    gpu : Gpu
        Device.
    config : CorrelatorConfig
        Size of the correlation.
    """

    def __init__(self, gpu: Gpu, config: CorrelatorConfig) -> None:
        self._gpu, self._config = gpu, config
        defines = {"INPUTS": config.inputs, "POLS": config.polarizations}
        self._kernels = {form: gpu.kernel(_SOURCE, name, defines) for form, name in _KERNELS.items()}

    def make(self, form: Form, sums: DeviceArray, counts: DeviceArray, stream: Stream | None = None) -> DeviceArray:
        """Enqueue making a form of sums.

        Parameters
        ----------
        form : "int32" or "float32"
            Which.
        sums : DeviceArray of int64, shape (channel, product, 2)
            Exact sums (re, im).
        counts : DeviceArray of uint32, shape (channel group, product)
            Spectra that contributed.
        stream : Stream, optional
            Where it is enqueued.

        Returns
        -------
        DeviceArray of int32 or float32, shape (channel, product, 2)

        Raises
        ------
        ValueError
            If there is no such form, or an array has another shape.
        """
        config = self._config
        if form not in self._kernels:
            raise ValueError(f"form is {form!r}; it must be one of {', '.join(map(repr, self._kernels))}")
        shapes = (config.channels, config.products, 2), (config.groups, config.products)
        if (sums.shape, counts.shape) != shapes:
            raise ValueError(f"sums and counts have shapes {sums.shape} and {counts.shape}; they must be {shapes}")
        made = self._gpu.empty(sums.shape, np.dtype(form))
        self._kernels[form].launch(
            (-(-config.products // _THREADS), min(config.channels, 65535)),
            _THREADS,
            sums=sums,
            counts=counts,
            to=made,
            channels=np.int32(config.channels),
            group_channels=np.int32(config.channels // config.groups),
            stream=stream,
        )
        return made
