"""The core's register map, read from ``registers.toml``, the one place where it is written down."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

FILE = Path(__file__).with_name("registers.toml")


@dataclass(frozen=True)
class Field:
    """Some bits of a register."""

    name: str
    low: int
    bits: int
    means: str

    @property
    def mask(self) -> int:
        """The field's ones, where they are in the register."""
        return (1 << self.bits) - 1 << self.low


@dataclass(frozen=True)
class Register:
    """A register, or a number of 64 bits in two.

    Attributes
    ----------
    address : int
        Byte offset from the core's base, of the low word.
    high : int or None
        Offset of the high word, which is held from when the low one is read; None if the number has 32 bits.
    access : str
        ``r``, ``w``, ``rw`` or ``pulse``.
    where : str
        ``core`` or ``ext``, the application behind the core's extension bus.
    """

    name: str
    address: int
    high: int | None
    access: str
    means: str
    unit: str
    where: str
    counter: bool
    fields: tuple[Field, ...]

    @property
    def bits(self) -> int:
        """Bits of the number that it holds."""
        return 32 if self.high is None else 64

    def field(self, name: str) -> Field:
        """Give the field of this name.

        Raises
        ------
        KeyError
            If there is none; says which there are.
        """
        for f in self.fields:
            if f.name == name:
                return f
        having = ", ".join(f.name for f in self.fields) or "none"
        raise KeyError(f"register {self.name} has no field {name}; its fields: {having}")


@dataclass(frozen=True)
class Memory:
    """A range of addresses that holds bytes."""

    name: str
    address: int
    bytes: int
    means: str


@dataclass(frozen=True)
class RegisterMap:
    """All registers and memories of a core."""

    title: str
    version: int
    #: Bytes of address space.
    bytes: int
    registers: tuple[Register, ...]
    memories: tuple[Memory, ...]

    @cached_property
    def by_name(self) -> dict[str, Register]:
        """Registers by name."""
        return {r.name: r for r in self.registers}

    def find(self, name: str) -> Register:
        """Give the register of this name, or at this address (``0x4c``).

        Raises
        ------
        KeyError
            If there is none; names those that are spelt alike.
        """
        from difflib import get_close_matches

        if name in self.by_name:
            return self.by_name[name]
        try:
            address = int(name, 0)
        except ValueError:
            near = get_close_matches(name, self.by_name, 3)
            hint = f"; did you mean {' or '.join(near)}?" if near else ""
            raise KeyError(f"there is no register {name}{hint} `ryle fpga registers` lists them") from None
        for r in self.registers:
            if r.address == address:
                return r
        raise KeyError(f"no register is at {address:#x}: `ryle fpga registers` lists them")

    def memory(self, name: str) -> Memory:
        """Give the memory of this name."""
        return next(m for m in self.memories if m.name == name)


def load(path: Path = FILE) -> RegisterMap:
    """Read a register map.

    Raises
    ------
    ValueError
        If two things are at one address or have one name, or a field does not fit its register.
    """
    table = tomllib.loads(path.read_text())
    registers = tuple(_register(entry, table["counter_high"]) for entry in table["register"])
    memories = tuple(Memory(**entry) for entry in table["memory"])
    made = RegisterMap(table["title"], table["version"], table["bytes"], registers, memories)
    taken: dict[int, str] = {}
    for r in registers:
        for address in (r.address, r.high):
            if address is not None and taken.setdefault(address, r.name) != r.name:
                raise ValueError(f"{path}: {r.name} and {taken[address]} are both at {address:#x}")
        if r.address % 4:
            raise ValueError(f"{path}: {r.name} is at {r.address:#x}, which is not a multiple of 4")
    for m in memories:
        inside = [name for address, name in taken.items() if m.address <= address < m.address + m.bytes]
        if inside or m.address + m.bytes > made.bytes:
            raise ValueError(f"{path}: memory {m.name} does not fit ({', '.join(inside) or 'address space'})")
    if len(made.by_name) != len(registers):
        raise ValueError(f"{path}: two registers have one name")
    return made


def _register(entry: dict[str, object], counter_high: int) -> Register:
    address = entry["address"]
    fields = entry.get("fields", {})
    assert isinstance(address, int)
    assert isinstance(fields, dict)
    counter = bool(entry.get("counter", False))
    high = address + counter_high if counter else address + 4 if entry.get("words") == 2 else None
    made = tuple(Field(name, *value) for name, value in fields.items())
    free = 0
    for f in sorted(made, key=lambda f: f.low):
        if f.low < free or f.low + f.bits > 32:
            raise ValueError(f"field {f.name} of {entry['name']} overlaps another, or has bits beyond 31")
        free = f.low + f.bits
    return Register(
        name=str(entry["name"]),
        address=address,
        high=high,
        access=str(entry["access"]),
        means=str(entry["means"]),
        unit=str(entry.get("unit", "")),
        where=str(entry.get("where", "core")),
        counter=counter,
        fields=made,
    )
