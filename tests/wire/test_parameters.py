"""Numbers that are worked out from what a format's user supplies."""

import pytest

from ryle.problems import ConfigError
from ryle.wire.description import Format
from ryle.wire.packets import Parser, Reason

TEXT = """
title = "t"
source = "s"
[parameters]
a = { means = "a", default = 3 }
b = { means = "b", default = 8 }
least = { means = "least", default = "any" }
since = { means = "since", default = 0 }
[header]
bytes = 8
field = [{ name = "n", byte = 0, bytes = 8, means = "m", min = "least", max = "least" }]
[payload]
order = ["time"]
size = { time = "SIZE" }
[sample]
bits = 8
complex = false
code = "unsigned"
[timestamp]
unit = "samples"
count = { n = 1, add = "since" }
step = 1
"""


def sized(size, **given):
    return Format.parse(TEXT.replace("SIZE", size)).given(**given)


@pytest.mark.parametrize(
    ("text", "number"),
    [("a", 3), ("2 * b / 4", 4), ("(a + 1) * b / 2 - 3", 13), ("a * b / 2 / 4", 3), ("b - (a - 1) - 1", 5), (" b ", 8)],
)
def test_worked_out(text, number):
    assert sized(text).payload.size["time"] == number


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("b / a", "is 8/3 with b = 8, a = 3; it must be a whole number"),
        ("b / (a - 3)", "divides by a - 3 = 0"),
        ("2 * c", "c is no parameter"),
        ("2 * least", "least is no parameter that has a number"),
        ("2 ** a", "made of numbers"),
        ("a b", "made of numbers"),
        ("(" * 5000 + "a" + ")" * 5000, "made of numbers"),
        ("+".join(["a"] * 20000), "made of numbers"),
        ("a - b", "must be 1 to"),
    ],
)
def test_what_cannot_be_worked_out(text, said):
    with pytest.raises(ConfigError) as found:
        sized(text)
    assert [p.key for p in found.value.problems] == ["payload.size.time"] and said in found.value.problems[0].remedy


def test_a_format_spells_what_makes_it():
    vdif = Format.load("vdif")
    given = vdif.given(bits=8, heap_samples=640, start=-(10**15), complex=0)
    assert vdif.spelled == "vdif" and given.spelled == "vdif:bits=8,heap_samples=640,start=-1000000000000000"
    assert Format.load(given.spelled).values == given.values


def test_any_demands_nothing():
    packets = [n.to_bytes(8, "big") + bytes(3) for n in (0, 5, 7)]
    assert Parser(sized("a")).parse(packets).valid.all()
    assert Parser(sized("a", least=5)).parse(packets).valid.tolist() == [False, True, False]


def test_times_before_the_first_are_malformed():
    packets = [n.to_bytes(8, "big") + bytes(3) for n in (1000, 999, 1001, 0)]
    fields = Parser(sized("a", since=-1000)).parse(packets)
    assert fields.reason.tolist() == [0, Reason.TIMESTAMP, 0, Reason.TIMESTAMP]
    assert fields.timestamp[[0, 2]].tolist() == [0, 1] and "negative" in fields.explain(1)
