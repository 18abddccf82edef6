"""Which kernel multiplies K-blocks on a GPU, in what shape it is compiled, and how it is launched.

`hopper` needs Hopper's matrix instructions and copy engine, `portable` runs on every GPU since Ampere. Both sum in
int32 and write, or add to, the products in the order of the X-engine's output.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ryle.correlate.tensor_maps import encode_rows
from ryle.gpu.interface import DeviceArray, Gpu, Stream

#: Kernels by name, the faster first.
KERNELS = ("hopper", "portable")

#: K-blocks whose products surely fit in 32 bits, for parts of at most 127: 2 · 127² · 64 · 1040 < 2³¹.
RUN_BLOCKS = (2**31 - 1) // (2 * 127**2 * 64)

_FOLDER = Path(__file__).parent
_KEPT = 64


class Multiply(Protocol):
    """A kernel that sums the products of K-blocks on the GPU."""

    name: str
    #: Whether it also reads rows (block, antenna, channel, polarization, 128), as packets bring them, where they lie.
    reads_rows: bool

    def __call__(
        self,
        data: DeviceArray,
        sums: DeviceArray,
        first_block: int,
        blocks: int,
        integrations: int = 1,
        add: bool = False,
        stream: Stream | None = None,
    ) -> None:
        """Enqueue the sums of several integrations that follow each other.

        Parameters
        ----------
        data : DeviceArray of int8, shape (channel, block, input, 128), or as `reads_rows` says
            K-blocks without -128 and with zeros where spectra are invalid; of four bits, rows of 64 bytes without -8.
        sums : DeviceArray of int32, shape (integration, channel, product, 2)
            What is written: (re, im) of each product.
        first_block : int
            Block of `data` that the first integration begins with.
        blocks : int
            Blocks of each integration, at most `RUN_BLOCKS`.
        integrations : int
            Number of integrations.
        add : bool
            Add to `sums` instead of overwriting them.
        stream : Stream, optional
            Where it is enqueued.
        """
        ...


def kernel_for(gpu: Gpu, kernel: str | None = None) -> str:
    """Name of the kernel for a GPU: the one asked for, else the fastest that it runs.

    Raises
    ------
    ValueError
        If there is no such kernel.
    RuntimeError
        If this GPU cannot run it.
    """
    hopper = gpu.arch == "sm_90a"
    if kernel is None:
        return "hopper" if hopper else "portable"
    if kernel not in KERNELS:
        raise ValueError(f"kernel is {kernel!r}; the X-engine on GPUs has the kernels {', '.join(KERNELS)}")
    if kernel == "hopper" and not hopper and gpu.arch != "emulated":
        raise RuntimeError(f"kernel is 'hopper', but {gpu.name} is {gpu.arch}; choose 'portable' or leave it open")
    return kernel


def make_multiply(gpu: Gpu, inputs: int, polarizations: int, kernel: str | None = None, bits: int = 8) -> Multiply:
    """Compile and load the kernel for so many inputs and bits of a part, 8 or 4; else as `kernel_for`."""
    if bits not in (4, 8):
        raise ValueError(f"bits is {bits}; parts of 4 and of 8 bits can be multiplied")
    if kernel_for(gpu, kernel) == "hopper":
        return HopperMultiply(gpu, inputs, polarizations, bits)
    return PortableMultiply(gpu, inputs, polarizations, bits)


def check_run(
    data: DeviceArray, sums: DeviceArray, first_block: int, blocks: int, integrations: int, inputs: int, bits: int
) -> None:
    """Raise ValueError unless K-blocks, or rows, and sums are as `Multiply` wants them."""
    if len(data.shape) == 5:
        held, antennas, channels, pols, row = data.shape
        fits = (antennas * pols, row) == (inputs, 16 * bits)
    else:
        channels, held = data.shape[:2]
        fits = data.shape[2:] == (inputs, 16 * bits)
    if not fits:
        raise ValueError(f"data has shape {data.shape}; it must end with {(inputs, 16 * bits)}")
    if not 1 <= blocks <= RUN_BLOCKS:
        raise ValueError(f"blocks is {blocks}; from 1 to {RUN_BLOCKS} can be summed in 32 bits: sum in several runs")
    if first_block < 0 or first_block + blocks * integrations > held:
        raise ValueError(
            f"{integrations} x {blocks} blocks from block {first_block} on asked for; the data have {held} blocks"
        )
    if sums.shape[:2] != (integrations, channels):
        raise ValueError(f"sums has shape {sums.shape}; it must begin with {(integrations, channels)}")


class PortableMultiply:
    """`portable.cu`: one block of threads a tile.

    Parameters
    ----------
    gpu : Gpu
        Device.
    inputs, polarizations : int
        Number of inputs and polarizations of an antenna.
    bits : int
        Of a part, 8 or 4.
    """

    name = "portable"
    reads_rows = False
    #: What is compiled.
    SOURCE = _FOLDER / "portable.cu"
    #: The most stages of the ring in shared memory; fewer where there is less of it.
    STAGES = 4
    #: Rows and columns of a warp where all inputs are one tile, and the most warps that registers allow.
    WHOLE, MOST = ((48, 24), (32, 32), (32, 48)), 12
    #: Shapes of square tiles: rows and columns of a warp, warps along rows and columns, blocks on a multiprocessor.
    SQUARES = ((48, 48, 2, 2, 2), (32, 64, 4, 2, 1))

    def __init__(self, gpu: Gpu, inputs: int, polarizations: int, bits: int = 8) -> None:
        self._inputs, self._bits = inputs, bits
        defines = self.defines(inputs, polarizations, bits, gpu.shared_bytes)
        rows, columns = defines["WM"], defines["WN"]
        if defines["WHOLE"]:
            self._tiles, self._threads = 1, 32 * len(_units(inputs, rows, columns))
        else:
            side = -(-inputs // (rows * defines["GM"]))
            self._tiles, self._threads = side * (side + 1) // 2, 32 * defines["GM"] * defines["GN"]
        self._shared = defines["STAGES"] * self._stage(defines)
        self._kernel = gpu.kernel(self.SOURCE, "correlate", defines)

    @classmethod
    def shape(cls, inputs: int) -> dict[str, int]:
        """Choose the shape that keeps matrix units busy for the shortest time."""
        shapes = []
        for rows, columns in cls.WHOLE:
            warps = len(_units(inputs, rows, columns))
            if warps <= cls.MOST:
                # Four warps work at once; several small blocks share a multiprocessor.
                blocks = cls.MOST // warps
                cost = -(-warps * blocks // 4) * 4 / blocks * rows * columns
                shapes.append((cost, dict(WM=rows, WN=columns, GM=1, GN=1, BLOCKS_PER_SM=blocks, WHOLE=1)))
        for rows, columns, down, across, blocks in cls.SQUARES:
            side = -(-inputs // (rows * down))
            cost = side * (side + 1) / 2 * rows * down * columns * across
            shapes.append(
                (cost, dict(WM=rows, WN=columns, GM=down, GN=across, BLOCKS_PER_SM=blocks, WHOLE=0)),
            )
        return min(shapes, key=lambda shape: shape[0])[1]

    @classmethod
    def defines(cls, inputs: int, polarizations: int, bits: int = 8, shared: int = 101376) -> dict[str, int]:
        """Macros of the kernel."""
        defines = cls.shape(inputs) | {"INPUTS": inputs, "POLS": polarizations, "PACKED": int(bits == 4)}
        room = (shared + 1024) // defines["BLOCKS_PER_SM"] - 1024  # a block takes 1 KiB more
        return defines | {"STAGES": max(2, min(cls.STAGES, room // cls._stage(defines)))}

    @staticmethod
    def _stage(defines: Mapping[str, int]) -> int:
        """Bytes of a K-block's rows and columns."""
        inputs, rows, columns = (defines[name] for name in ("INPUTS", "WM", "WN"))
        if defines["WHOLE"]:
            tile = max(-(-inputs // rows) * rows, -(-inputs // columns) * columns)
        else:
            tile = rows * defines["GM"]
        return (1 + (inputs > tile)) * tile * (64 if defines["PACKED"] else 128)

    def __call__(
        self,
        data: DeviceArray,
        sums: DeviceArray,
        first_block: int,
        blocks: int,
        integrations: int = 1,
        add: bool = False,
        stream: Stream | None = None,
    ) -> None:
        """Enqueue the sums; see `Multiply`."""
        check_run(data, sums, first_block, blocks, integrations, self._inputs, self._bits)
        channels, held = data.shape[:2]
        self._kernel.launch(
            (self._tiles, channels, integrations),
            self._threads,
            data=data,
            sums=sums,
            all_blocks=np.int32(held),
            first_block=np.int32(first_block),
            blocks=np.int32(blocks),
            add=np.int32(add),
            shared=self._shared,
            stream=stream,
        )


def _units(inputs: int, rows: int, columns: int) -> list[tuple[int, int]]:
    """First row and column of each rectangle that is not wholly above the diagonal."""
    return [(row, column) for row in range(0, inputs, rows) for column in range(0, min(inputs, row + rows), columns)]


class HopperMultiply:
    """`hopper.cu`: blocks of threads that live as long as the kernel; parameters as of `PortableMultiply`."""

    name = "hopper"
    reads_rows = True
    #: What is compiled.
    SOURCE = _FOLDER / "hopper.cu"
    #: Whether a warpgroup of its own makes the columns even of parts of 8 bits.
    BESIDE = False

    def __init__(self, gpu: Gpu, inputs: int, polarizations: int, bits: int = 8) -> None:
        self._inputs, self._bits, self._pols = inputs, bits, polarizations
        self._gpu = gpu
        # As in the kernel: a first run of inputs with the few that would be left over, then runs of 128.
        self._first = -(-inputs // 16) * 16 if inputs <= 64 else 128 + self.spare(inputs)
        self._runs = 1 + max(0, -(-(inputs - self._first) // 128))
        self._threads = 512 if bits == 4 or self.BESIDE else 384
        self._shared = gpu.shared_bytes
        defines = self.defines(inputs, polarizations, bits, self._shared)
        self._kernel = gpu.kernel(self.SOURCE, "correlate", defines)
        self._counter = gpu.array(np.zeros(1, np.int32))
        gpu.default_stream.synchronize()  # launches may come on other streams
        self._maps: OrderedDict[tuple[int, tuple[int, ...]], DeviceArray] = OrderedDict()
        self._tiles: OrderedDict[tuple[int, int], DeviceArray] = OrderedDict()

    @property
    def tiles(self) -> int:
        """Tiles of a channel."""
        return self._runs * (self._runs + 1) // 2

    @staticmethod
    def spare(inputs: int) -> int:
        """Give the inputs that the first run has beyond 128."""
        rest = inputs % 128
        return -(-rest // 16) * 16 if inputs > 128 and rest <= (32 if inputs < 256 else 16) else 0

    @classmethod
    def defines(cls, inputs: int, polarizations: int, bits: int = 8, shared: int = 232448) -> Mapping[str, int]:
        """Macros of the kernel."""
        return {"INPUTS": inputs, "POLS": polarizations, "PACKED": int(bits == 4), "SHARED_SIZE": shared}

    def __call__(
        self,
        data: DeviceArray,
        sums: DeviceArray,
        first_block: int,
        blocks: int,
        integrations: int = 1,
        add: bool = False,
        stream: Stream | None = None,
    ) -> None:
        """Enqueue the sums; see `Multiply`. Calls on several streams must not overlap."""
        check_run(data, sums, first_block, blocks, integrations, self._inputs, self._bits)
        self._launch(data, sums, first_block, blocks, add, stream)

    def _launch(
        self,
        data: DeviceArray,
        sums: DeviceArray,
        first_block: int,
        blocks: int,
        add: bool,
        stream: Stream | None,
        **more: DeviceArray | np.int32,
    ) -> None:
        """Enqueue the kernel, with what more arguments it takes."""
        integrations, channels = sums.shape[:2]
        tiles = self._tiles_of(channels, integrations, stream)
        works = tiles.shape[0] - 1
        self._kernel.launch(
            min(works, self._gpu.multiprocessors),
            self._threads,
            maps=self._maps_of(data, stream),
            tiles=tiles,
            sums=sums,
            counter=self._counter,
            works=np.int32(works),
            channels=np.int32(channels),
            first_block=np.int32(first_block),
            blocks=np.int32(blocks),
            add=np.int32(add),
            **more,
            shared=self._shared,
            stream=stream,
        )

    def _maps_of(self, data: DeviceArray, stream: Stream | None) -> DeviceArray:
        """Describe the data to the copy engine: boxes of the first run's rows and of 128."""

        def make() -> NDArray[np.uint8]:
            encode = getattr(self._gpu, "encode_rows", encode_rows)  # an emulated GPU has maps of its own
            return np.stack([encode(data, self._inputs, self._pols, rows) for rows in (self._first, 128)])

        return self._kept(self._maps, (data.pointer, data.shape), make, stream)

    def _tiles_of(self, channels: int, integrations: int, stream: Stream | None) -> DeviceArray:
        """List the tiles (integration, channel, rows, columns) in the order in which they are drawn, and an end."""

        def make() -> NDArray[np.int32]:
            shape = np.column_stack(np.tril_indices(self._runs))
            # The long ones of a channel first; all of a channel one after the other, for the cache.
            shape = shape[np.argsort(shape[:, 0] == shape[:, 1], kind="stable")]
            tiles = np.empty((integrations, channels, len(shape), 4), np.int32)
            tiles[..., 0] = np.arange(integrations)[:, None, None]
            tiles[..., 1] = np.arange(channels)[:, None]
            tiles[..., 2:] = shape
            return np.append(tiles.reshape(-1, 4), np.full((1, 4), -1, np.int32), 0)

        return self._kept(self._tiles, (channels, integrations), make, stream)

    def _kept(
        self, kept: OrderedDict[Any, DeviceArray], key: object, make: Callable[[], NDArray[Any]], stream: Stream | None
    ) -> DeviceArray:
        """Give what was made of this key before, or make it."""
        if key not in kept:
            kept[key] = self._gpu.array(make(), stream)
        kept.move_to_end(key)
        if len(kept) > _KEPT:
            kept.popitem(last=False)
        return kept[key]


def compile_variants() -> list[tuple[Any, ...]]:
    """List what the tests compile: sources, macros and, for Hopper's, the architecture."""
    variants: list[tuple[Any, ...]] = []
    # A size of each way that the inputs are cut.
    two = [(inputs, 2) for inputs in (64, 128, 144, 160, 256, 272, 400, 576)]
    for inputs, pols in [(1, 1), *two, (400, 1), (511, 1)]:
        for bits in (8, 4):
            variants.append((HopperMultiply.SOURCE, HopperMultiply.defines(inputs, pols, bits), ("sm_90a",)))
    traced = {**HopperMultiply.defines(128, 2), "TRACED": 64}  # as ryle.bench.compare_kernels wants it
    variants.append((HopperMultiply.SOURCE, traced, ("sm_90a",)))
    for inputs, pols in ((1, 1), (64, 2), (144, 2), (160, 2), (192, 2), (1024, 2)):
        for bits in (8, 4):
            variants.append((PortableMultiply.SOURCE, PortableMultiply.defines(inputs, pols, bits)))
    return variants
