"""What is predicted of a run on this machine, beside the run."""

import json

import pytest
from typer.testing import CliRunner

from ryle.cli import app
from ryle.config import example, load
from ryle.plan import here
from ryle.plan.here import RunError, predict, run_for


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_the_demonstration_takes_what_was_predicted_within_30_percent(steady):
    """Of processor time and memory; both of one machine that does other things too."""
    o = load(example("demo"))

    def body():
        told = CliRunner().invoke(app, ["plan", str(example("demo")), "--here", "--json"])
        found, real = json.loads(told.output)["whole"], run_for(o)
        assert found["signal"] == real.signal == pytest.approx(2.0326)
        assert found["cpu"] == pytest.approx(real.cpu, rel=0.3)
        assert found["memory"] == pytest.approx(real.memory, rel=0.3)
        assert real.cpu > 2 and real.memory > 200e6

    steady(body)


def test_what_cannot_be_predicted_is_said():
    o = load(example("meerkat_extension"))
    with pytest.raises(ValueError, match="needs an observation with"):
        predict(o)
    asked = CliRunner().invoke(app, ["plan", str(example("meerkat_extension")), "--here"])
    assert asked.exit_code == 2


def test_what_runs_is_said(monkeypatch):
    def refused(o, progress):
        progress("2 s of signal")
        raise ValueError("it does not fit")

    monkeypatch.setattr(here, "predict", refused)
    asked = CliRunner().invoke(app, ["plan", str(example("demo")), "--here"])
    assert asked.exit_code == 2 and asked.stderr.startswith("running 2 s of signal\n")


@pytest.mark.long
def test_a_run_that_fails_is_told(tmp_path):
    text = example("demo").read_text() + '\n[network]\ninterface = "203.0.113.7"\nspectra = "239.7.7.7:17600"\n'
    (file := tmp_path / "wrong.toml").write_text(text)
    with pytest.raises(RunError, match="ryle run ended with"):
        run_for(load(file), 0.3)
