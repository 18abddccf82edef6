"""How the CUDA channelizer divides its work: radices, tiles and shared memory, by configuration and device."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ryle.channelize.channelizer import ChannelizerConfig, Heaps, Layout

GROUP = 128  # spectra filtered together
#: Bytes of the intermediate array at most, and its share of the device's memory: fewer and larger launches are faster.
INTERMEDIATE, _SHARE = 2 << 30, 1 / 24
PASS_BYTES, PASSES = 48, 128  # of what the filter is told of a pass; passes of a unit at most (passes.cuh)
TILE = 16  # spectra side by side in the intermediate array, and of one block of the transform kernel


def most_intermediate(memory_bytes: int) -> int:
    """Give the bytes of the intermediate array on a device of so much memory; one group of each input may be more."""
    return min(INTERMEDIATE, int(_SHARE * memory_bytes))


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
        One to three radices of the transform kernel, the first at most 32, the last 8 or 16. Three are of rows too
        long for 16 spectra at a time.
    filter_threads : int
        Threads of a block of the filter kernel, one for each complex point of a strip and leg of the first radix.
    filter_blocks : int
        Blocks of the filter kernel that should fit on a multiprocessor.
    transform_blocks : int
        Blocks of the transform kernel that should.
    heap_inputs : int
        Inputs of heaps for whose spectra side by side a block of the transform kernel has room.
    whole : bool
        Whether one kernel does all (whole.cu), and no other.
    side : int
        Spectra side by side that a block of the transform kernel works on at a time: 16 or 8.
    """

    radix: int
    middle: int
    passes: tuple[int, ...]
    filter_threads: int
    filter_blocks: int
    transform_blocks: int
    heap_inputs: int = 1
    whole: bool = False
    side: int = TILE

    def points(self, config: ChannelizerConfig) -> int:
        """Points of a row of the transform kernel."""
        return config.channels // self.radix // self.middle

    def whole_shared(self, config: ChannelizerConfig) -> int:
        """Shared memory of a block of the kernel that does all in one, in bytes (see whole_shape.cuh)."""
        rows = 2 * TILE * 32 * (2 * config.bits + 1) * 4
        return config.channels * TILE * 8 + rows + 2 * TILE * 32 + 32 * 16 * 8 + 4 * 512 * 4 + 3 * 56 + 40

    def filter_shared(self, config: ChannelizerConfig) -> int:
        """Shared memory of a block of the filter kernel in bytes."""
        threads = self.filter_threads
        segment = min(32, threads // self.radix)
        row = 32 // segment * 16 * (-(-(127 + 2 * segment * config.bits) // 128))
        warp = 2 * (TILE * row + 16) + 4 * PASS_BYTES
        return threads // 32 * warp + 2 * TILE * (threads + 1) * 8 + threads * 8

    def filter_grid(self, config: ChannelizerConfig, blocks: int) -> int:
        """Blocks of the filter kernel to launch where `blocks` fit on the device."""
        strips = config.channels // self.filter_threads
        return strips * (blocks // strips) if strips <= blocks else -(-strips // -(-strips // blocks))

    @property
    def first(self) -> int:
        """First radix of the transform kernel, or 1: none."""
        return self.passes[0] if len(self.passes) > 1 else 1

    @property
    def second(self) -> int:
        """Radix of a pass between its first and its last, or 1: none."""
        return self.passes[1] if len(self.passes) > 2 else 1

    @property
    def butterflies(self) -> int:
        """Butterflies of a row in its last pass."""
        return self.first * self.second

    @property
    def middle_values(self) -> int:
        """Complex values of a thread of the pass between the kernels."""
        return self.middle * (1 if self.middle > 16 else 2)

    @property
    def transform_threads(self) -> int:
        """Threads of a block of the transform kernel: each has one task in its last pass."""
        wide = 2 if self.passes[-1] == 8 and self.butterflies >= 4 else 1
        return max(32, self.butterflies * self.side // wide)

    def transform_shared(self, config: ChannelizerConfig, together: int = 1) -> int:
        """Shared memory in bytes of a block of the transform kernel, which takes some inputs together."""
        points = self.points(config)
        return (
            2 * points * self.side * 8
            + together * (4 * points * TILE + 16 * points)
            + (16 * self.passes[-1] * self.side + 64 * TILE + 16)
        )

    def together(self, layout: Layout | None) -> int:
        """Give the number of inputs that a block of the transform kernel takes together: 2 of heaps, if it has room."""
        if isinstance(layout, Heaps) and layout.pols <= self.heap_inputs and layout.spectra % TILE == 0:
            return layout.pols
        return 1


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
    2048: [_Transform(8, 1, (32, 8), 2), _Transform(16, 1, (16, 8), 4), _Transform(4, 2, (32, 8), 2)],
    4096: [_Transform(16, 1, (32, 8), 2), _Transform(8, 2, (32, 8), 2), _Transform(4, 4, (32, 8), 2)],
    8192: [
        _Transform(16, 1, (32, 16), 1),
        _Transform(16, 2, (32, 8), 2),
        _Transform(8, 4, (32, 8), 2),
        _Transform(4, 8, (32, 8), 2),
    ],
    16384: [_Transform(4, 16, (32, 8), 2), _Transform(8, 16, (16, 8), 4), _Transform(16, 8, (16, 8), 4)],
    32768: [_Transform(4, 32, (32, 8), 2), _Transform(8, 16, (32, 8), 2), _Transform(16, 16, (16, 8), 4)],
    65536: [_Transform(8, 32, (32, 8), 2), _Transform(16, 16, (32, 8), 2)],
}
_FILTER_THREADS = 512  # of a multiprocessor: half of their registers hold sums and weights of up to 16 taps
_OTHERS = ("sm_7", "sm_8", "sm_10", "sm_12")  # architectures that are not Hopper


def with_one_kernel(plan: Plan, config: ChannelizerConfig, shared_bytes: int) -> Plan:
    """Give a plan by the kernel that does all of 1024 channels in one block.

    Raises
    ------
    ValueError
        If it cannot do it on this device; says why.
    """
    if config.channels != 1024 or config.taps > 16 or config.bits > 10:
        raise ValueError(
            f"{config.channels} channels, {config.taps} taps, {config.bits} bits in one block: it does 1024 channels "
            "of up to 16 taps and 10 bits"
        )
    whole = replace(plan, radix=32, middle=1, passes=(32,), heap_inputs=1, whole=True)
    if (needed := whole.whole_shared(config)) > shared_bytes:
        raise ValueError(
            f"1024 channels in one block need {needed} bytes of shared memory; this device has {shared_bytes}"
        )
    return whole


def with_long_rows(plan: Plan, config: ChannelizerConfig, shared_bytes: int) -> Plan:
    """Give a plan of 16384 or 32768 channels without a kernel between the two.

    Raises
    ------
    ValueError
        If that cannot be done of so many channels or taps, or on this device; says why.
    """
    n = config.channels
    if n not in (16384, 32768) or config.taps > 16:
        raise ValueError(
            f"{n} channels, {config.taps} taps without a kernel between the two: 16384 and 32768 channels of up to 16 "
            "taps are done so"
        )
    radix = n // 1024
    found = replace(plan, radix=radix, middle=1, passes=(16, 8, 8), filter_threads=16 * radix, side=TILE // 2)
    found = replace(found, filter_blocks=_FILTER_THREADS // (16 * radix), transform_blocks=1, heap_inputs=1)
    if (needed := max(found.filter_shared(config), found.transform_shared(config))) > shared_bytes:
        raise ValueError(
            f"{n} channels without a kernel between the two need {needed} bytes of shared memory; this device has "
            f"{shared_bytes}"
        )
    return found


def faster_plan(config: ChannelizerConfig, shared_bytes: int, arch: str) -> Plan | None:
    """Give the plan that is faster than that of `make_plan` for what it `suits`, on devices where there is one."""
    if arch.startswith(_OTHERS):
        return None
    make = with_one_kernel if config.channels == 1024 else with_long_rows
    try:
        return make(make_plan(config, shared_bytes, arch), config, shared_bytes)
    except ValueError:
        return None


def suits(plan: Plan, layout: Layout | None, *, table: bool) -> bool:
    """Say whether a plan of `faster_plan` is for a layout, and for samples through a table of payloads or not.

    Of heaps it writes half sectors; and one kernel for all fetches samples that lie in packets word by word.
    """
    return not isinstance(layout, Heaps) and not (table and plan.whole)


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
    # Elsewhere, where the assembler needs more registers, small radices come first.
    order = (lambda t: 0) if hopper else (lambda t: t.radix)
    resident = _FILTER_THREADS if config.taps <= 16 else _FILTER_THREADS // 2
    for transform in sorted(_TRANSFORMS[config.channels], key=order):
        for threads in (128, 64) if transform.radix == 4 else (256, 128, 64):
            plan = Plan(
                transform.radix,
                transform.middle,
                transform.passes,
                threads,
                max(1, resident // threads),
                transform.blocks if hopper else -(-transform.blocks // 2),
            )
            fits = max(plan.filter_shared(config), plan.transform_shared(config)) <= shared_bytes
            if fits and threads <= min(resident, config.channels):
                return replace(plan, heap_inputs=2 if plan.transform_shared(config, 2) <= shared_bytes else 1)
    raise ValueError(
        f"{config.channels} channels and {config.taps} taps of {config.bits} bits do not fit the {shared_bytes} bytes "
        "of shared memory of this device; use fewer taps, channels or bits"
    )
