"""How a CUDA channelizer's work is divided, with what that needs on the device: tables, and gains in their order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ryle.channelize.channelizer import ChannelizerConfig
from ryle.channelize.cuda_plan import Plan
from ryle.channelize.cuda_tables import (
    by_butterfly,
    filter_weights,
    middle_turns,
    mirror_turns,
    point_turns,
    radix_turns,
    whole_weights,
)
from ryle.gpu import DeviceArray, Gpu, Stream


@dataclass(frozen=True, slots=True)
class Form:
    """A plan and its tables, see `ryle.channelize.cuda_tables`; gains [input][butterfly]."""

    plan: Plan
    weights: DeviceArray
    radix_turns: DeviceArray
    turns: DeviceArray
    middle_turns: DeviceArray
    mirror: DeviceArray
    gains: DeviceArray

    @classmethod
    def make(cls, gpu: Gpu, config: ChannelizerConfig, plan: Plan) -> Form:
        """Bring a plan's tables to a device."""
        order = by_butterfly(plan, np.empty((config.inputs, config.channels), np.complex64))
        return cls(
            plan,
            gpu.array(whole_weights(config) if plan.whole else filter_weights(config)),
            gpu.array(radix_turns(config, plan)),
            gpu.array(point_turns(config, plan)),
            gpu.array(middle_turns(config, plan)),
            gpu.array(mirror_turns(config, plan)),
            gpu.empty(order.shape, order.dtype),
        )

    def set_gains(self, gains: NDArray[np.complex64], stream: Stream | None) -> None:
        """Set the gains, shape (input, channel), of what is enqueued on a stream from now on."""
        self.gains.set(by_butterfly(self.plan, gains), stream)
