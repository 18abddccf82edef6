"""What all benchmarks share: turns, ratios, processes that are told what to do; and that nothing else does it."""

import os
import sys
from pathlib import Path

import pytest

from ryle.bench.harness import Child, in_child, quartiles, ratios, take_turns

ROOT = Path(__file__).resolve().parents[2]


def test_results_lie_in_bench_and_nothing_that_runs():
    assert {path.name for path in (ROOT / "bench").iterdir()} == {"results"}
    assert {path.suffix for path in (ROOT / "bench").rglob("*") if path.is_file()} <= {".json", ".md"}


def test_turns_are_taken():
    order, told = [], []

    def work(name):
        order.append(name)
        return len(order)

    found = take_turns(
        {name: lambda name=name: work(name) for name in "abc"}, 3, back_and_forth=True, progress=told.append
    )
    assert "".join(order) == "abccbaabc" and told == [0, 1, 2]
    assert found == {"a": [1, 6, 7], "b": [2, 5, 8], "c": [3, 4, 9]}
    order.clear()
    take_turns({name: lambda name=name: work(name) for name in "ab"}, 2)
    assert "".join(order) == "abab"


def test_ratios_are_of_one_turn():
    assert ratios([2.0, 4.0, 20.0], [1.0, 2.0, 10.0]) == [2.0] * 3
    with pytest.raises(ValueError):
        ratios([1.0, 2.0], [1.0])
    assert quartiles([3.0, 1.0, 2.0]) == (1.0, 3.0)  # too few for quartiles
    assert quartiles([1.0, 2.0, 3.0, 4.0, 5.0]) == (1.5, 4.5)


PROGRAM = """
import os, sys
from ryle.bench.harness import say, serve
say({"ready": sys.argv[1]})
if sys.argv[1] == "dies":
    sys.exit("for a reason")
serve({"double": lambda asked: {"is": 2 * asked["n"]}, "pid": lambda asked: {"is": os.getpid()}})
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    (tmp_path / "asked_things.py").write_text(PROGRAM)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    return "asked_things"


def test_a_process_answers_what_it_is_asked(module):
    with Child(module, "one", prefix=["env", "A=1"]) as one, Child(module, "two") as two:
        assert (one.answer(), two.answer()) == ({"ready": "one"}, {"ready": "two"})
        for child, n in ((one, 2), (two, 21)):  # both at work at once
            child.ask("double", n=n)
        assert (one.answer(), two.answer()) == ({"is": 4}, {"is": 42})
        two.ask("pid")
        assert two.answer() == {"is": two.pid}
        pid = two.pid
    assert not Path(f"/proc/{pid}").exists()


def test_a_process_that_ends_by_itself_is_told(module, capfd):
    with Child(module, "dies") as child:
        assert child.answer() == {"ready": "dies"}
        with pytest.raises(RuntimeError, match=r"a process \(asked_things dies\) ended by itself; see above"):
            child.answer()
    assert "for a reason" in capfd.readouterr().err


def test_a_function_is_called_in_a_fresh_process():
    assert in_child(os.getpid) != os.getpid()
    assert in_child(sys.intern, "x") == "x"
    with pytest.raises(ZeroDivisionError):
        in_child(divmod, 1, 0)
