"""What is timed of the X-engine on GPUs: a kernel for so many inputs, times and bits, checked before.

Inputs, lengths of integrations and forms of samples are those that its targets name.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ryle.bench.gpu_timing import Launch
from ryle.chunk import BLOCK, product_inputs, rows_from_parts
from ryle.correlate.correlator import CorrelatorConfig
from ryle.correlate.foreign import Foreign, Order
from ryle.correlate.multiply import HopperMultiply, Multiply, PortableMultiply, make_multiply
from ryle.correlate.samples import SAMPLES, SamplesMultiply
from ryle.gpu import Gpu, Stream
from ryle.gpu.interface import DeviceArray

INPUTS = (64, 128, 144, 160, 256, 512, 1024)
TIMES = 4096


@dataclass(frozen=True, slots=True)
class Case:
    """One thing that is timed.

    Parameters
    ----------
    kernel : str
        "hopper" or "portable".
    inputs, times : int
        Inputs, and spectra of an integration, a multiple of 64.
    form : str
        "K-blocks"; "packed": K-blocks of 4+4 bits; "time-major": samples [time][channel][input]; "heaps": samples
        [antenna][channel][time][polarization]. In samples -128 is looked for; they are transposed inside the kernel
        where it can, else made into K-blocks first.
    """

    kernel: str
    inputs: int
    times: int = TIMES
    form: str = "K-blocks"

    @property
    def name(self) -> str:
        """Name in the results."""
        return f"{self.kernel} kernel" + ("" if self.form == "K-blocks" else f", {self.form}")

    @property
    def polarizations(self) -> int:
        """Of an antenna."""
        return 2 - self.inputs % 2

    @property
    def bits(self) -> int:
        """Of a part."""
        return 4 if self.form == "packed" else 8

    @property
    def plain(self) -> Case:
        """The case that this one is compared with: K-blocks of 4096 times."""
        return Case(self.kernel, self.inputs)

    @property
    def order(self) -> str:
        """Order of samples, a key of `SAMPLES`; of K-blocks none."""
        return self.form.replace("-", "_")

    @property
    def transposing(self) -> type[SamplesMultiply] | None:
        """Give the kernel that transposes samples on their way; None if K-blocks are multiplied."""
        form = SAMPLES.get(self.order) if self.kernel == "hopper" else None
        return form if form is not None and form.takes(self.inputs, self.polarizations) else None

    def variant(self, gpu: Gpu) -> tuple[Path, Any]:
        """Give the source and the macros of its kernel, to be compiled beforehand."""
        if self.kernel == "portable":
            return PortableMultiply.SOURCE, PortableMultiply.defines(
                self.inputs, self.polarizations, self.bits, gpu.shared_bytes
            )
        form = self.transposing or HopperMultiply
        macros = form.defines(self.inputs, self.polarizations, self.bits, gpu.shared_bytes)
        return form.SOURCE, macros


def all_cases(kernel: str, inputs: Iterable[int] = INPUTS) -> list[Case]:
    """Every number of inputs in every form, with short integrations, and by the portable kernel."""
    cases = []
    for n in inputs:
        cases += [Case(kernel, n), Case(kernel, n, TIMES // 4), Case(kernel, n, form="packed")]
        cases += [Case(kernel, n, form=form) for form in ("time-major", "heaps")]
        cases += [Case("portable", n)] if kernel != "portable" else []
    # Integrations of other lengths, where one tile and where many do the work.
    return cases + [Case(kernel, n, times) for n in (128, 1024) for times in (256, 16384)]


def headline_cases(kernel: str) -> list[Case]:
    """Give the cases that targets refer to."""
    sizes = [n for n in INPUTS if n != 160]
    cases = [Case(kernel, n) for n in sizes] + [Case(kernel, n, TIMES // 4) for n in sizes]
    cases += [Case(kernel, n, form=form) for form in ("packed", "time-major") for n in sizes]
    return cases + ([Case("portable", n) for n in (144, 1024)] if kernel != "portable" else [])


def useful_operations(inputs: int, samples: float) -> float:
    """Operations that `samples` (channel, spectrum) pairs of all inputs need."""
    return 4.0 * inputs * (inputs + 1) * samples


def exact_sums(parts: NDArray[np.int8], polarizations: int) -> NDArray[np.int64]:
    """Sum one channel's products in float64, which holds them exactly.

    Parameters
    ----------
    parts : ndarray of int8, shape (block, input, spectrum, 2)
        Samples, (re, im).
    polarizations : int
        Polarizations of an antenna.

    Returns
    -------
    ndarray of int64, shape (product, 2)
        Sums (re, im).
    """
    inputs = parts.shape[1]
    re, im = np.ascontiguousarray(parts.astype(np.float64).transpose(3, 1, 0, 2)).reshape(2, inputs, -1)
    real, cross = re @ re.T + im @ im.T, im @ re.T
    i, j = product_inputs(inputs // polarizations, polarizations).T
    return np.stack([real[i, j], (cross - cross.T)[i, j]], axis=-1).astype(np.int64)


def random_samples(
    channels: int, blocks: int, inputs: int, polarizations: int, bits: int = 8
) -> tuple[NDArray[np.int8], NDArray[np.int64]]:
    """Draw fresh samples of all values but the least, and sum them exactly.

    Returns
    -------
    parts : ndarray of int8, shape (channel, block, input, spectrum, 2)
        Samples, (re, im).
    exact : ndarray of int64, shape (channel, product, 2)
        Their sums (re, im).
    """
    limit = 2 ** (bits - 1) - 1
    shape = channels, blocks, inputs, BLOCK, 2
    parts = np.random.default_rng().integers(-limit, limit + 1, shape, dtype=np.int8)
    return parts, np.stack([exact_sums(channel, polarizations) for channel in parts])


def in_form(parts: NDArray[np.int8], form: str) -> NDArray[np.int8]:
    """Bring samples (channel, block, input, spectrum, 2) to the order and size of a `Case`'s form."""
    if form == "packed":
        packed: NDArray[np.int8] = (parts[..., 0] << 4 | parts[..., 1] & 15).astype(np.int8)
        return packed
    if form == "time-major":
        return np.ascontiguousarray(parts.transpose(1, 3, 0, 2, 4))
    if form == "heaps":
        channels, blocks, inputs = parts.shape[:3]
        pols = Case("", inputs).polarizations
        of_antennas = parts.reshape(channels, blocks, inputs // pols, pols, BLOCK, 2)
        return np.ascontiguousarray(of_antennas.transpose(2, 0, 1, 4, 3, 5))
    return rows_from_parts(parts)


class Work:
    """A case on the GPU.

    Parameters
    ----------
    gpu : Gpu
        Where.
    case : Case
        What is done.
    source : DeviceArray of int8
        At least the samples of all channels, in the case's form.
    room : DeviceArray of int8
        As large, for what is rearranged.
    sums : DeviceArray of int32
        At least the sums of all channels.
    channels, blocks : int
        Channels of a launch, and K-blocks of each.
    """

    def __init__(
        self,
        gpu: Gpu,
        case: Case,
        source: DeviceArray,
        room: DeviceArray,
        sums: DeviceArray,
        channels: int,
        blocks: int,
    ) -> None:
        self.name, self.case = case.name, case
        config = CorrelatorConfig(case.inputs, channels, case.polarizations)
        rows = channels, blocks, case.inputs, 16 * case.bits
        self._blocks = blocks
        self._multiply: Multiply | None = None
        self._samples: SamplesMultiply | None = None
        self._arrange: Launch | None = None
        self._clamped = gpu.array(np.zeros(1, np.uint64))
        self._data = source.view(rows, np.int8)
        self.sums = sums.view((1, channels, config.products, 2), np.int32)
        self.operations = useful_operations(case.inputs, channels * blocks * BLOCK)
        self.nbytes = float(self._data.nbytes + self.sums.nbytes)
        if case.transposing is not None:
            self._samples = case.transposing(gpu, case.inputs, case.polarizations)
            shape = case.transposing.shape(case.inputs, case.polarizations, channels, blocks * BLOCK)
            self._data = self._data.view(shape, np.int8)
            return
        self._multiply = make_multiply(gpu, case.inputs, case.polarizations, case.kernel, case.bits)
        if case.order in SAMPLES:
            valid = gpu.array(np.full((1, blocks, case.inputs), ~np.uint64(0)))
            samples, self._data = self._data, room.view(rows, np.int8)
            heaps, foreign = case.form == "heaps", Foreign(gpu, config)
            order = Order.heaps(config, blocks * BLOCK) if heaps else Order.time_major(config)
            self._arrange = lambda stream: foreign.arrange(samples, order, valid, self._data, stream)
            self.nbytes += 2 * samples.nbytes

    def __call__(self, stream: Stream) -> None:
        """Enqueue a launch."""
        if self._arrange is not None:
            self._arrange(stream)
        if self._samples is not None:
            self._samples.multiply(self._data, self.sums, 0, self._blocks, clamped=self._clamped, stream=stream)
        if self._multiply is not None:
            self._multiply(self._data, self.sums, 0, self._blocks, stream=stream)


def check(gpu: Gpu, case: Case, channels: int = 3) -> None:
    """Compare every product of a few channels with the exact one, on fresh random data.

    Raises
    ------
    ArithmeticError
        If one differs.
    """
    blocks = min(case.times // BLOCK, 17)
    parts, expected = random_samples(channels, blocks, case.inputs, case.polarizations, case.bits)
    source = gpu.array(in_form(parts, case.form).reshape(-1))
    sums = gpu.array(np.full(expected.size, 77, np.int32))
    work = Work(gpu, case, source, gpu.empty(source.shape, np.int8), sums, channels, blocks)
    gpu.default_stream.synchronize()
    work(gpu.default_stream)
    wrong = np.count_nonzero(work.sums.get()[0] != expected)
    if wrong:
        raise ArithmeticError(
            f"{case.name}, {case.inputs} inputs: {wrong} of {expected.size} sums are wrong; please report it"
        )
