"""``ryle control`` takes what it says it takes."""

import math

import numpy as np
import pytest
from typer.testing import CliRunner

from ryle.cli.control import app
from ryle.serve import telescope
from ryle.serve.asking import Change


class Asked(list):
    """Stands for a telescope; notes what is asked of it."""

    def __call__(self, observation):
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def __getattr__(self, name):
        if not name.startswith("set_"):
            raise AttributeError(name)

        def note(*arguments):
            self.append((name, *arguments))
            return Change(0, "2026-03-20T20:00:00Z", {}, {})

        return note


@pytest.fixture
def asked(monkeypatch):
    noted = Asked()
    monkeypatch.setattr(telescope, "Telescope", noted)
    return noted


def run(*arguments):
    return CliRunner().invoke(app, arguments, prog_name="ryle control")


@pytest.mark.parametrize(
    ("words", "dec"),
    [(["-30d43m17.5s"], -(30 + 43 / 60 + 17.5 / 3600)), (["-30.5"], -30.5), (["--", "-.5"], -0.5), (["2d"], 2.0)],
)
def test_a_phase_centre_of_either_hemisphere(asked, words, dec):
    result = run("phase-centre", "--name", "A", "12h30m00s", *words)
    assert result.exit_code == 0, result.output
    ((what, *centre, name, sample, file),) = asked
    assert what == "set_phase_centre" and (name, sample, file) == ("A", None, None)
    np.testing.assert_allclose(centre, [187.5, dec], rtol=1e-12)


def test_negative_delays_and_gains(asked):
    assert run("delays", "-1.25 ns", "--rate", "-1e-12", "--phase", "-30", "--input", "A3").exit_code == 0
    assert run("gains", "-0.5", "--input", "A3 x").exit_code == 0
    (_, model, inputs, _), (_, gain, which, _) = asked
    np.testing.assert_allclose(model, [-1.25e-9, -1e-12, math.radians(-30), 0])
    assert (inputs, gain, which) == (["A3"], -0.5, ["A3 x"])


@pytest.mark.parametrize("words", [["1d", "--fly"], ["1d", "-x"], ["-30d", "--fly"], ["-30d", "-30d"], ["-30x"]])
def test_options_that_are_not_there(asked, words):
    assert run("phase-centre", "12h30m00s", *words).exit_code == 2 and not asked


def test_a_wrong_option_beside_a_negative_number_is_named(asked):
    found = run("delays", "--inputs", "A3", "-1 ns")
    assert found.exit_code == 2 and "No such option: --inputs" in found.output and not asked
