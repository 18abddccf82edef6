"""Packet formats as data: what a TOML description may say, and every mistake in one.

A description names the bit fields of the header, the order of the payload's axes, the code of its samples, what the
timestamp counts and what makes a packet valid. `ryle.wire.packets` compiles it. ``docs/howto/wire-formats.md`` shows
how to write one; those shipped are in ``src/ryle/wire/formats``.
"""

from __future__ import annotations

import os
import re
import tomllib
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ryle.config.problems import ConfigError, Problem, did_you_mean, explain, file_order, listed

FORMATS = Path(__file__).parent / "formats"
#: Axes of a payload in canonical order, in which samples are decoded whatever the order in the packet.
AXES = ("channel", "time", "antenna", "input", "pol", "element")
#: What a packet's samples can be placed by; -1 where a description does not say.
PLACES = ("antenna", "input", "channel")
#: Axes' sizes: a UDP datagram holds no more samples than this.
MOST_SAMPLES = 1 << 19
Axis = Literal["channel", "time", "antenna", "input", "pol", "element"]
Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
Total = dict[str, int]  # field -> factor; the key "add" is a constant


class Table(BaseModel):
    """A table of a description: unknown keys are errors, ``"8"`` is no number, values do not change after reading."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class HeaderField(Table):
    """A bit field of the header."""

    name: Name = Field(description="lower-case letters, digits and _", examples=['"mcnt"'])
    byte: int = Field(ge=0, le=65535, description="first byte of the word that holds the field", examples=["0"])
    bytes: int = Field(ge=1, le=8, description="bytes of that word", examples=["8"])
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

    @property
    def shift(self) -> int:
        """Lowest bit in the word."""
        return int(self.bits.split(":")[-1]) if self.bits else 0

    @property
    def width(self) -> int:
        """Number of bits."""
        return int(self.bits.split(":")[0]) - self.shift + 1 if self.bits else 8 * self.bytes

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
    """The bytes before the samples."""

    bytes: int = Field(ge=0, le=9000, description="length of the header", examples=["8"])
    endian: Literal["big", "little"] = Field(default="big", description="byte order of fields that give none")
    field: list[HeaderField] = Field(min_length=1, description="the fields")


class Payload(Table):
    """The samples and what follows them."""

    order: list[Axis] = Field(
        min_length=1, description="axes, the slowest first", examples=['["time", "channel", "input"]']
    )
    size: dict[Axis, int | str] = Field(
        description="size of each axis, or the header field that gives it", examples=["{ time = 16, channel = 64 }"]
    )
    trailer_bytes: list[Annotated[int, Field(ge=0, le=9000)]] = Field(
        default=[0], min_length=1, description="lengths that may follow the samples; the first is written"
    )


class Sample(Table):
    """The code of one sample."""

    bits: int = Field(ge=1, le=16, description="bits of a real sample or of one part of a complex one", examples=["4"])
    complex: bool = Field(description="whether a sample has two parts", examples=["true"])
    code: Literal["twos_complement", "offset_binary", "symmetric", "unsigned"] = Field(
        description="value of code c: offset_binary, c - 2^(bits-1); symmetric, 2c - (2^bits - 1)",
        examples=['"twos_complement"'],
    )
    bit_order: Literal["msb", "lsb"] = Field(
        default="msb", description="where in a byte the first sample starts; of 16 bits, which byte comes first"
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
    step: int = Field(gt=0, description="from one packet of a stream to the next", examples=["16"])
    stream: list[str] = Field(default=[], description="fields that tell streams with own counters apart")


class Validity(Table):
    """What makes a packet valid besides its fields and the length that its samples need."""

    length: Total | None = Field(default=None, description="what header fields say that the packet's bytes are")


class Format(Table):
    """A checked description of a packet format.

    Attributes
    ----------
    name : str
        Name of the shipped format, or of the file.
    """

    title: str = Field(description="one line", examples=['"PAPER F-engine packets"'])
    source: str = Field(description="where the layout is written down", examples=['"memo 12"'])
    notes: str = Field(default="", description="what a user should know")
    header: Header
    payload: Payload
    sample: Sample
    timestamp: Timestamp
    placement: dict[Literal["antenna", "input", "channel"], Total] = Field(
        default={}, description="first antenna, input and channel of the packet: sums of fields times factors"
    )
    validity: Validity = Validity()
    _name: str = "format"

    @property
    def name(self) -> str:
        """Name of the shipped format, or of the file."""
        return self._name

    @property
    def fields(self) -> dict[str, HeaderField]:
        """The header's fields by name."""
        return {field.name: field for field in self.header.field}

    @property
    def period(self) -> int:
        """What the timestamp counts to before it starts again, in its unit."""
        return max(factor << self.fields[name].width for name, factor in self.timestamp.count.items() if name != "add")

    @property
    def axes(self) -> tuple[Axis, ...]:
        """Axes of decoded samples."""
        return tuple(axis for axis in AXES if axis in self.payload.order)

    @property
    def fixed(self) -> bool:
        """Whether all packets have one shape."""
        return not any(isinstance(size, str) for size in self.payload.size.values())

    @classmethod
    def load(cls, name_or_path: str | os.PathLike[str]) -> Self:
        """Read a description.

        Parameters
        ----------
        name_or_path : str or path
            Name of a shipped format (`names`), or a TOML file.

        Raises
        ------
        ConfigError
            With every mistake found: key, value, what is allowed and how to mend it.
        """
        given = os.fspath(name_or_path)
        shipped = FORMATS / f"{given}.toml"
        path = shipped if re.fullmatch(r"\w+", given) and shipped.is_file() else Path(given)
        try:
            text = path.read_bytes().decode()
        except FileNotFoundError:
            remedy = f"no such format, nor such a file; {did_you_mean(given, names())}shipped are {', '.join(names())}"
            raise ConfigError(given, [Problem("(file)", None, remedy)]) from None
        except (OSError, ValueError) as error:
            raise ConfigError(given, [Problem("(file)", None, f"cannot be read: {error}")]) from None
        return cls.parse(text, path.stem if path == shipped else given)

    @classmethod
    def parse(cls, text: str, name: str = "format") -> Self:
        """Read a description from TOML text; see `load`."""
        try:
            raw = tomllib.loads(text)
        except (ValueError, RecursionError) as error:
            raise ConfigError(name, [Problem("(file)", None, f"not valid TOML: {error}")]) from None
        try:
            found = cls.model_validate(raw)
        except ValidationError as error:
            raise ConfigError(name, file_order(explain(error, cls, raw), raw)) from None
        if problems := _mistakes(found):
            raise ConfigError(name, file_order(problems, raw))
        found._name = name
        return found


def names() -> list[str]:
    """Names of the shipped formats, sorted."""
    return sorted(path.stem for path in FORMATS.glob("*.toml"))


def _mistakes(f: Format) -> list[Problem]:
    """Find what no single key can tell: overlaps, unknown names, sizes that do not fill bytes."""
    problems = _field_mistakes(f)
    if problems:
        return problems  # what follows counts on the fields
    known = f.fields

    def check_total(key: str, total: Total, limit: int, most_add: int = 1 << 62) -> None:
        if not set(total) - {"add"}:
            problems.append(Problem(key, total, f"names no field; there are {listed(known)}"))
        for name, factor in total.items():
            if name != "add" and name not in known:
                remedy = f"no such field; {did_you_mean(name, known)}there are {listed(known)}, and add for a constant"
                problems.append(Problem(f"{key}.{name}", factor, remedy))
            elif not (0 <= factor <= most_add if name == "add" else 1 <= factor <= limit):
                allowed = f"0 to {most_add}" if name == "add" else f"1 to {limit}"
                problems.append(Problem(f"{key}.{name}", factor, f"must be {allowed}"))

    check_total("timestamp.count", f.timestamp.count, 1 << 62)
    for place, total in f.placement.items():
        check_total(f"placement.{place}", total, 1 << 31, 1 << 31)
    if f.validity.length is not None:
        check_total("validity.length", f.validity.length, 65536, 65536)
    for i, name in enumerate(f.timestamp.stream):
        if name not in known:
            remedy = f"no such field; {did_you_mean(name, known)}there are {listed(known)}"
            problems.append(Problem(f"timestamp.stream[{i}]", name, remedy))
    if not problems and f.period > 1 << 64:
        problems.append(
            Problem("timestamp.count", f.timestamp.count, "counts beyond 64 bits; lower the factors or the field")
        )
    return problems + _payload_mistakes(f)


def _field_mistakes(f: Format) -> list[Problem]:
    problems: list[Problem] = []
    taken: list[tuple[int, int, str]] = []
    seen: set[str] = set()
    for i, field in enumerate(f.header.field):
        key = f"header.field[{i}]"
        if field.name in seen or field.name == "add":
            problems.append(Problem(f"{key}.name", field.name, "is taken; give every field its own name"))
        seen.add(field.name)
        if field.byte + field.bytes > f.header.bytes:
            remedy = (
                f"the word ends at byte {field.byte + field.bytes}, behind the header's {f.header.bytes} bytes; "
                "mend byte or bytes, or raise header.bytes"
            )
            problems.append(Problem(f"{key}.byte", field.byte, remedy))
        if field.width < 1 or field.shift + field.width > 8 * field.bytes:
            remedy = (
                f'must be "high:low" with {8 * field.bytes - 1} >= high >= low >= 0, as the word has {field.bytes} B'
            )
            problems.append(Problem(f"{key}.bits", field.bits, remedy))
            continue
        most = (1 << field.width) - 1
        for name in ("equals", "min", "max"):
            value = getattr(field, name)
            if value is not None and value > most:
                problems.append(Problem(f"{key}.{name}", value, f"must be at most {most}: it has {field.width} bits"))
        if field.low > field.high:
            problems.append(Problem(f"{key}.min", field.min, f"must be at most max = {field.max}"))
        if field.equals is not None and (field.min is not None or field.max is not None):
            problems.append(Problem(f"{key}.equals", field.equals, "says all; leave out min and max"))
        endian = field.endian or f.header.endian
        for bit in range(
            field.shift, field.shift + field.width
        ):  # bits as places in the packet, 0 the first byte's low
            byte = field.bytes - 1 - bit // 8 if endian == "big" else bit // 8
            taken.append((8 * (field.byte + byte) + bit % 8, i, field.name))
    taken.sort()
    clashes = {(b[1], a[2]) for a, b in pairwise(taken) if a[0] == b[0]}
    for i, other in sorted(clashes):
        remedy = f"shares bits with {other}; mend byte, bytes or bits"
        problems.append(Problem(f"header.field[{i}].name", f.header.field[i].name, remedy))
    return problems


def _payload_mistakes(f: Format) -> list[Problem]:
    problems: list[Problem] = []
    payload, sample = f.payload, f.sample
    if len(set(payload.order)) < len(payload.order):
        problems.append(Problem("payload.order", payload.order, "names an axis twice"))
    if missing := [axis for axis in payload.order if axis not in payload.size]:
        problems.append(Problem("payload.size", None, f"add the size of {', '.join(missing)}"))
    for axis, size in payload.size.items():
        key = f"payload.size.{axis}"
        if axis not in payload.order:
            problems.append(Problem(key, size, "is not in payload.order; add it there or remove it here"))
        elif isinstance(size, str) and size not in f.fields:
            remedy = f"must be a number or a field; {did_you_mean(size, f.fields)}fields are {listed(f.fields)}"
            problems.append(Problem(key, size, remedy))
        elif isinstance(size, int) and not 1 <= size <= MOST_SAMPLES:
            problems.append(Problem(key, size, f"must be 1 to {MOST_SAMPLES}"))
    if sample.bits > 15 and sample.code in ("symmetric", "unsigned"):
        problems.append(Problem("sample.bits", sample.bits, f"must be at most 15 for {sample.code} samples"))
    if not sample.complex and sample.first == "imag":
        problems.append(Problem("sample.first", "imag", "real samples have one part; remove it"))
    if sample.arranged == "rows":
        if (sample.bits, sample.complex, sample.first) != (8, True, "real"):
            problems.append(Problem("sample.arranged", "rows", "needs complex samples of 8 bits, real part first"))
        fastest = payload.size.get(payload.order[-1])
        if not isinstance(fastest, int) or fastest % 64:
            remedy = f"needs a multiple of 64 {payload.order[-1]}, the fastest axis, not {fastest}"
            problems.append(Problem("sample.arranged", "rows", remedy))
    if problems:
        return problems
    elements = sample.parts
    for axis in payload.order:
        size = payload.size[axis]
        elements *= size if isinstance(size, int) else 1
    if f.fixed and elements * sample.bits % 8:
        remedy = f"{elements * sample.bits} bits are no whole number of bytes; mend the sizes or sample.bits"
        problems.append(Problem("payload.size", payload.size, remedy))
    total = f.header.bytes + elements * sample.bits // 8 + max(payload.trailer_bytes)
    if f.fixed and total > 65507:
        problems.append(Problem("payload.size", payload.size, f"makes {total} bytes; a UDP datagram holds 65507"))
    return problems
