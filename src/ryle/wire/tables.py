"""What a TOML description of a packet format may say: its tables and keys.

`ryle.wire.description` reads descriptions, `ryle.wire.mistakes` finds what no single key can tell, and
`ryle.wire.packets` compiles them.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

#: Axes of a payload in canonical order, in which samples are decoded whatever the order in the packet.
AXES = ("channel", "time", "antenna", "input", "pol", "product", "element")
#: What a packet's samples can be placed by; -1 where a description does not say.
PLACES = ("antenna", "input", "channel")
#: Axes' sizes: a UDP datagram holds no more samples than this; a heap no more than that.
MOST_SAMPLES, MOST_HEAP_SAMPLES = 1 << 19, 1 << 32
#: Bits of an item's value, and of an item.
ITEM_BITS, ITEM_BYTES = 48, 8
Axis = Literal["channel", "time", "antenna", "input", "pol", "product", "element"]
Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
Total = dict[
    str, int
]  # field -> factor; the key "add" is a constant, "over" what the sum is divided by (rounding down)


def terms(total: Total) -> dict[str, int]:
    """Give a sum's fields and their factors."""
    return {name: factor for name, factor in total.items() if name not in ("add", "over")}


class Table(BaseModel):
    """A table of a description: unknown keys are errors, ``"8"`` is no number, values do not change after reading."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Parameter(Table):
    """A number that the user of a format supplies: `ryle.wire.description.Format.given`."""

    means: str = Field(description="what it is", examples=['"channels of a heap"'])
    default: int | str | None = Field(default=None, description="value if none is given")
    example: int | str | None = Field(default=None, description="a usual value, where there is no default")


class HeaderField(Table):
    """A bit field of the header: of a word at a fixed place, or of an item's value."""

    name: Name = Field(description="lower-case letters, digits and _", examples=['"mcnt"'])
    byte: int = Field(
        default=0, ge=0, le=65535, description="first byte of the word that holds the field", examples=["0"]
    )
    bytes: int = Field(default=8, ge=1, le=8, description="bytes of that word", examples=["8"])
    item: int | None = Field(
        default=None,
        ge=0,
        le=65535,
        description="key of the item whose value holds the field, in place of byte and bytes",
        examples=["0x9600"],
    )
    bits: str | None = Field(
        default=None,
        pattern=r"^\d{1,2}(:\d{1,2})?$",
        description='bits of the word, "high:low" or one; all of it if absent',
    )
    endian: Literal["big", "little"] | None = Field(default=None, description="byte order; the header's if absent")
    means: str = Field(description="what it means", examples=['"packet counter"'])
    equals: int | None = Field(default=None, ge=0, description="a packet with any other value is not of this format")
    min: int | None = Field(default=None, ge=0, description="least value of a valid packet")
    max: int | None = Field(default=None, ge=0, description="greatest value of a valid packet")
    default: int | None = Field(
        default=None, ge=0, description="value of packets without the item; it is then optional"
    )
    control: bool = Field(
        default=False, description="a packet with this item describes or steers its stream and holds no samples"
    )
    stop: int | None = Field(default=None, ge=0, description="value of a control item that ends the stream")
    remedy: str = Field(default="", description="what to do about packets without the item")

    @property
    def shift(self) -> int:
        """Lowest bit in the word."""
        return int(self.bits.split(":")[-1]) if self.bits else 0

    @property
    def width(self) -> int:
        """Number of bits."""
        return int(self.bits.split(":")[0]) - self.shift + 1 if self.bits else self.word_bits

    @property
    def word_bits(self) -> int:
        """Number of bits of the word that holds it."""
        return 8 * self.bytes if self.item is None else ITEM_BITS

    @property
    def optional(self) -> bool:
        """Whether packets need not have it."""
        return self.default is not None or self.control

    @property
    def low(self) -> int:
        """Least value allowed."""
        return self.equals if self.equals is not None else self.min or 0

    @property
    def high(self) -> int:
        """Greatest value allowed."""
        most = (1 << self.width) - 1
        return self.equals if self.equals is not None else most if self.max is None else min(self.max, most)


class Header(Table):
    """The bytes before the samples: a start of fixed length, and items if a field of it counts them."""

    bytes: int = Field(ge=0, le=9000, description="length of the header, or of what stands before its items")
    endian: Literal["big", "little"] = Field(default="big", description="byte order of fields that give none")
    items: str | None = Field(
        default=None,
        description="field that says how many 64-bit items follow: 16 bits of key, 48 of value, in any order",
    )
    field: list[HeaderField] = Field(min_length=1, description="the fields")


class Payload(Table):
    """The samples and what follows them, in a packet; or in a heap, if packets hold parts of heaps."""

    order: list[Axis] = Field(
        min_length=1, description="axes, the slowest first", examples=['["time", "channel", "input"]']
    )
    size: dict[Axis, int | str] = Field(
        description="size of each axis, or the header field that gives it", examples=["{ time = 16, channel = 64 }"]
    )
    trailer_bytes: list[Annotated[int, Field(ge=0, le=1 << 40)]] = Field(
        default=[0], min_length=1, description="lengths that may follow the samples; the first is written"
    )


class Heap(Table):
    """Heaps: payloads that are sent in parts."""

    length: Total | None = Field(default=None, min_length=1, description="bytes of the heap's payload, if packets say")
    offset: Total = Field(min_length=1, description="where in the heap's payload this packet's part begins, bytes")
    bytes: Total = Field(min_length=1, description="bytes of that part")
    unit: int = Field(default=1, ge=1, description="offset and bytes are multiples of this, but for a heap's end")
    number: str | None = Field(default=None, description="field that tells heaps apart that are sent at the same time")
    packets: Literal["one", "several"] = Field(default="several", description="packets of a heap")


class Sample(Table):
    """The code of one sample."""

    bits: int = Field(
        ge=1, le=64, description="bits of a real sample or of one part of a complex one: 1 to 16, 32 or 64"
    )
    complex: bool = Field(description="whether a sample has two parts", examples=["true"])
    code: Literal["twos_complement", "offset_binary", "symmetric", "unsigned", "float"] = Field(
        description="value of code c: offset_binary, c - 2^(bits-1); symmetric, 2c - (2^bits - 1)",
        examples=['"twos_complement"'],
    )
    bit_order: Literal["msb", "lsb"] = Field(
        default="msb", description="where in a byte the first sample starts; of 16 or more bits, which byte comes first"
    )
    word: int | None = Field(
        default=None, ge=8, le=64, description="bits of a word, if samples do not cross words; bits must divide it"
    )
    levels: Literal["linear", "vdif"] = Field(
        default="linear",
        description="what F-engines take codes for: the values of code, or those that VLBI's software correlators take",
    )
    first: Literal["real", "imag"] = Field(default="real", description="which part of a complex sample comes first")
    arranged: Literal["pairs", "rows"] = Field(
        default="pairs",
        description="rows: of 64 samples one after the other, 16 real parts, their imaginary ones, 4 times",
    )

    @property
    def parts(self) -> int:
        """2 for complex samples, 1 for real."""
        return 2 if self.complex else 1


class Timestamp(Table):
    """What a packet's time counts."""

    unit: Literal["spectra", "samples", "packets"] = Field(description="what is counted", examples=['"spectra"'])
    count: Total = Field(min_length=1, description="sum of fields times factors", examples=["{ mcnt = 16 }"])
    step: int = Field(gt=0, description="from one packet (or heap) of a stream to the next", examples=["16"])
    stream: list[str] = Field(default=[], description="fields that tell streams with own counters apart")


class Validity(Table):
    """What makes a packet valid besides its fields and the length that its samples need."""

    length: Total | None = Field(default=None, description="what header fields say that the packet's bytes are")


class Description(Table):
    """All that a description says."""

    title: str = Field(description="one line", examples=['"PAPER F-engine packets"'])
    source: str = Field(description="where the layout is written down", examples=['"memo 12"'])
    notes: str = Field(default="", description="what a user should know")
    parameters: dict[Name, Parameter] = Field(
        default={}, description="numbers that the format's user supplies; any number may be worked out from such names"
    )
    header: Header
    payload: Payload
    heap: Heap | None = Field(default=None, description="says that packets hold parts of heaps")
    sample: Sample
    timestamp: Timestamp
    placement: dict[Literal["antenna", "input", "channel"], Total] = Field(
        default={}, description="first antenna, input and channel of the packet: sums of fields times factors"
    )
    validity: Validity = Validity()

    @property
    def fields(self) -> dict[str, HeaderField]:
        """The header's fields by name."""
        return {field.name: field for field in self.header.field}

    @property
    def items(self) -> dict[int, list[HeaderField]]:
        """Fields of each item, by its key, in the order in which items are sent."""
        found: dict[int, list[HeaderField]] = {}
        for field in self.header.field:
            if field.item is not None:
                found.setdefault(field.item, []).append(field)
        return found

    @property
    def period(self) -> int:
        """What the timestamp counts to before it starts again, in its unit."""
        return max(factor << self.fields[name].width for name, factor in terms(self.timestamp.count).items())

    @property
    def axes(self) -> tuple[Axis, ...]:
        """Axes of decoded samples."""
        return tuple(axis for axis in AXES if axis in self.payload.order)

    @property
    def fixed(self) -> bool:
        """Whether all packets (or heaps) have one shape."""
        return not any(isinstance(size, str) for size in self.payload.size.values())

    @property
    def heap_bytes(self) -> tuple[int, ...]:
        """Lengths that the payload of a heap, or of a packet with its trailer, may have; only if it is `fixed`."""
        bits = self.sample.parts * self.sample.bits
        for size in self.payload.size.values():
            bits *= int(size)
        return tuple((bits + 7) // 8 + trailer for trailer in self.payload.trailer_bytes)
