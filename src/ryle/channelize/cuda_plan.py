"""How the CUDA channelizer divides its work: radices, tiles and shared memory, by configuration and device."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ryle.channelize.channelizer import ChannelizerConfig

GROUP = 128  # spectra filtered together
TILE = 16  # spectra side by side in the intermediate array, and of one block of the transform kernel


@dataclass(frozen=True, slots=True)
class Plan:
    """Compile-time choices of the kernels (see filter.cu, middle.cu and transform.cu).

    Parameters
    ----------
    radix : int
        First radix of the Fourier transform, carried out by the filter kernel.
    middle : int
        Radix of a pass between the kernels, at most 32, or 1: none.
    passes : tuple of int
        One or two radices of the transform kernel, the first at most 32, the last 8 or 16.
    strip : int
        Complex points (times `radix`) of one block of the filter kernel.
    filter_threads : int
        Threads of a block of the filter kernel.
    transform_blocks : int
        Blocks of the transform kernel that should fit on a multiprocessor; of the filter kernel one does.
    kept_legs : int
        Legs of the first radix, `radix` or fewer, whose weights a block of the filter kernel keeps in shared memory.
    engine_legs : int
        Legs of the first radix whose samples the copy engine fetches for the filter kernel, out of one buffer; threads
        fetch the others.
    """

    radix: int
    middle: int
    passes: tuple[int, ...]
    strip: int
    filter_threads: int
    kept_legs: int
    transform_blocks: int
    engine_legs: int = 0

    def points(self, config: ChannelizerConfig) -> int:
        """Points of a row of the transform kernel."""
        return config.channels // self.radix // self.middle

    def filter_row(self, config: ChannelizerConfig) -> int:
        """Bytes of a row of a strip in shared memory (RAW in filter.cu)."""
        run, bits = 2 * self.strip, config.bits
        at_once = min(16, run)
        read = 4 * ((127 + (run - at_once) * bits) // 32 + -(-at_once * bits // 32) + 1)
        pieces = -(-max(15 + (7 + run * bits + 7) // 8, read) // 16)
        return 16 * (pieces if pieces in (2, 4, 8) else pieces | 1)

    def filter_shared(self, config: ChannelizerConfig) -> int:
        """Shared memory of a block of the filter kernel in bytes."""
        direct, run = config.bits > 12, 2 * self.strip
        columns, pairs = self.radix * run, filter_pairs(config)
        entry = config.taps if direct else (8 * matrix_units(config.taps) + 6) * 2
        weights = self.kept_legs * run * entry
        raw, x = self.radix * 2 * pairs * self.filter_row(config), columns * (2 * pairs if direct else 2 * (pairs - 32))
        return raw + 4 * (x + weights + self.strip * self.radix * 2) + 3 * 32 + 2 * GROUP + 32

    def filter_grid(self, config: ChannelizerConfig, blocks: int) -> int:
        """Blocks of the filter kernel to launch where `blocks` fit on the device."""
        strips = config.channels // self.radix // self.strip
        return strips * (blocks // strips) if strips <= blocks else -(-strips // -(-strips // blocks))

    @property
    def first(self) -> int:
        """First radix of the transform kernel, or 1: none; butterflies of a row in its last pass."""
        return self.passes[0] if len(self.passes) > 1 else 1

    @property
    def middle_values(self) -> int:
        """Complex values of a thread of the pass between the kernels."""
        return self.middle * (1 if self.middle > 16 else 2)

    @property
    def transform_threads(self) -> int:
        """Threads of a block of the transform kernel: each has one task in its last pass."""
        return max(32, self.first * TILE // (2 if self.passes[-1] == 8 and self.first >= 4 else 1))

    def transform_shared(self, config: ChannelizerConfig) -> int:
        """Shared memory of a block of the transform kernel in bytes."""
        points = self.points(config)
        return 2 * points * TILE * 8 + 4 * points * TILE + 16 * points + 16 * self.passes[-1] * TILE + 64 * TILE + 16


def row_bytes(config: ChannelizerConfig) -> int:
    """Bytes of a step of one input."""
    return config.channels * 2 * config.bits // 8


def filter_pairs(config: ChannelizerConfig) -> int:
    """Pairs of rows that a group of spectra reads, made a multiple of 8 (PAIRS in filter.cu)."""
    return (16 + matrix_units(config.taps)) // 2 * 2 * 4


def matrix_units(taps: int) -> int:
    """Eighths of the inner dimension of the filter's matrices (KUNITS in filter.cu)."""
    return (taps + 14) // 8


@dataclass(frozen=True, slots=True)
class _Transform:
    """Divisions of the transform for a number of channels, and blocks that fit a multiprocessor."""

    radix: int
    middle: int
    passes: tuple[int, ...]
    blocks: int


#: By channels, the fastest on Hopper first; the others are for devices with less shared memory or registers in a block,
#: and for wide samples.
_TRANSFORMS: dict[int, list[_Transform]] = {
    64: [_Transform(4, 1, (2, 8), 16), _Transform(8, 1, (8,), 16)],
    128: [_Transform(4, 1, (4, 8), 12), _Transform(8, 1, (2, 8), 16)],
    256: [_Transform(4, 1, (8, 8), 8), _Transform(8, 1, (4, 8), 12)],
    512: [_Transform(4, 1, (16, 8), 4), _Transform(8, 1, (8, 8), 8)],
    1024: [_Transform(4, 1, (32, 8), 2), _Transform(8, 1, (16, 8), 4)],
    2048: [_Transform(16, 1, (16, 8), 4), _Transform(8, 1, (32, 8), 2), _Transform(4, 2, (32, 8), 2)],
    4096: [_Transform(16, 1, (32, 8), 2), _Transform(8, 2, (32, 8), 2), _Transform(4, 4, (32, 8), 2)],
    8192: [
        _Transform(16, 1, (32, 16), 1),
        _Transform(16, 2, (32, 8), 2),
        _Transform(8, 4, (32, 8), 2),
        _Transform(4, 8, (32, 8), 2),
    ],
    16384: [_Transform(16, 8, (16, 8), 4), _Transform(8, 16, (16, 8), 4), _Transform(4, 16, (32, 8), 2)],
    32768: [_Transform(16, 16, (16, 8), 4), _Transform(8, 16, (32, 8), 2), _Transform(4, 32, (32, 8), 2)],
    65536: [_Transform(16, 16, (32, 8), 2), _Transform(8, 32, (32, 8), 2)],
}
#: By radix: points of a strip and threads of a block of the filter kernel, on Hopper and elsewhere, where the assembler
#: needs more registers.
_FILTERS = {4: [(32, 512), (16, 256), (8, 256)], 8: [(8, 256)], 16: [(8, 256)]}
_OTHER_FILTERS = {4: [(16, 256), (8, 256)], 8: [(16, 256), (8, 256)], 16: [(8, 256)]}
_OTHERS = ("sm_7", "sm_8", "sm_10", "sm_12")  # architectures that are not Hopper
_ENGINE_LEGS = 12  # of 16: so many the copy engine fetches in time


def make_plan(config: ChannelizerConfig, shared_bytes: int, arch: str = "sm_90a") -> Plan:
    """Choose a plan.

    Parameters
    ----------
    config : ChannelizerConfig
        What to compute.
    shared_bytes : int
        The most shared memory that a block may have.
    arch : str
        Architecture, for instance "sm_90a".

    Raises
    ------
    ValueError
        If the CUDA form cannot do what is asked for; says what it can.
    """
    if config.channels not in _TRANSFORMS:
        raise ValueError(
            f"channels is {config.channels}; the CUDA channelizer does powers of two from {min(_TRANSFORMS)} to "
            f"{max(_TRANSFORMS)} (backend 'cpu' does any even number)"
        )
    if config.taps > 32:
        raise ValueError(f"taps is {config.taps}; the CUDA channelizer does 1 to 32 (backend 'cpu' does 256)")
    hopper = not arch.startswith(_OTHERS)
    # Elsewhere a radix of 16 comes last, then 4.
    order = (lambda t: 0) if hopper else (lambda t: (8, 4, 16).index(t.radix))
    for transform in sorted(_TRANSFORMS[config.channels], key=order):
        radix = transform.radix
        for kept in (radix, radix // 2, 0):
            for strip, threads in (_FILTERS if hopper else _OTHER_FILTERS)[radix]:
                blocks = transform.blocks if hopper else -(-transform.blocks // 2)
                plan = Plan(radix, transform.middle, transform.passes, strip, threads, kept, blocks)
                # The copy engine writes rows that follow one another, from addresses that are multiples of 16.
                if (
                    hopper
                    and radix == 16
                    and row_bytes(config) % (16 * radix) == 0
                    and plan.filter_row(config) in (32, 48, 80)
                ):
                    plan = replace(plan, engine_legs=_ENGINE_LEGS)
                fits = max(plan.filter_shared(config), plan.transform_shared(config)) <= shared_bytes
                if fits and strip <= config.channels // radix:
                    return plan
    raise ValueError(
        f"{config.channels} channels and {config.taps} taps of {config.bits} bits do not fit the {shared_bytes} bytes "
        "of shared memory of this device; use fewer taps, channels or bits"
    )
