"""Run every form of the F-engine's kernels, small, for a sanitizer to watch.

    compute-sanitizer --report-api-errors no --tool racecheck python -m ryle.bench.sanitize_channelizer [--only WORDS]

and with memcheck. One multiprocessor's blocks do all, so that each has several tiles; a packet is missing, and a delay
steps within a tile. What comes out is compared with the CPU form's. Exit status 1 says that some of it is wrong.
"""

import sys
from typing import Annotated, Any

import numpy as np
import typer

from ryle.bench.sanitize import FewBlocks
from ryle.channelize import Blocks, ChannelizerConfig, Delays, Heaps, Layout, Rows
from ryle.channelize.cpu import CpuChannelizer
from ryle.channelize.cuda import CudaChannelizer
from ryle.chunk import SampleChunk
from ryle.gpu import GpuUnavailable, open_gpu
from ryle.wire.samples import pack

PACKET, INPUTS = 512, 2
LAYOUTS: dict[str, Layout] = {"K-blocks": Blocks(), "rows": Rows(INPUTS), "heaps": Heaps(64, INPUTS)}
#: Channels, taps and bits: a size of each way that the kernels divide their work.
SHAPES = ((1024, 16, 10), (1024, 5, 8), (64, 16, 10), (4096, 16, 10), (8192, 4, 12), (32768, 16, 10))
_MOST = 1e-3  # of all values may be rounded otherwise


def small(channels: int, taps: int, bits: int, spectra: int) -> tuple[ChannelizerConfig, SampleChunk, Delays]:
    """Make noise, of which a packet is missing, and delays that step."""
    config = ChannelizerConfig(INPUTS, channels, taps, bits=bits, seed=1)
    rng = np.random.default_rng(channels + taps)
    packets = -(-(config.step * spectra + config.window_samples + 2 * PACKET) // PACKET)
    data, _ = pack(rng.normal(0, 2 ** (bits - 4), (INPUTS, packets * PACKET)), bits)
    present = np.ones((INPUTS, packets), np.uint8)
    present[1, packets // 2] = 0
    coarse = np.full((INPUTS, spectra), PACKET)
    coarse[0, spectra // 3 + 5 :] += 3
    fine, phase = rng.uniform(-0.5, 0.5, (INPUTS, spectra)), rng.uniform(-3, 3, (INPUTS, spectra))
    chunk = SampleChunk(0, data.reshape(INPUTS, packets, -1), present, PACKET)
    return config, chunk, Delays(-coarse + 2 * PACKET, fine, phase)


def main(only: Annotated[str, typer.Option(help="Words that a form has to have.")] = "") -> None:
    """Run all forms."""
    try:
        few: Any = FewBlocks(open_gpu())
    except GpuUnavailable as error:
        sys.exit(f"there is no GPU to run them on: {error}")
    few.multiprocessors = 1
    failed = 0
    for channels, taps, bits in SHAPES:
        for name, layout in LAYOUTS.items():
            form = f"{channels} channels, {taps} taps, {bits} bits, {name}"
            if only not in form:
                continue
            spectra = 192 if channels < 8192 else 64
            config, chunk, delays = small(channels, taps, bits, spectra)
            gains = 2.0**-3 * np.ones((INPUTS, channels))
            made = []
            for channelizer in (CudaChannelizer(config, few), CpuChannelizer(config)):
                channelizer.set_gains(gains)
                made.append(channelizer.process(chunk, 0, spectra, delays, layout))
            values, wanted = (np.asarray(each.data).view(np.int8).astype(int) for each in made)
            same = np.array_equal(made[0].valid, made[1].valid) and np.abs(values - wanted).max() <= 1
            share = float(np.mean(values != wanted))
            wrong = not same or share > _MOST or made[1].valid.mean() < 0.5 or not wanted.any()
            failed += wrong
            print(f"{form}: {'WRONG' if wrong else 'right'}, {share:.1e} of values rounded otherwise", flush=True)
    sys.exit(failed > 0)


if __name__ == "__main__":
    typer.run(main)
