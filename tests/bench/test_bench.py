"""What `ryle bench` says of its own measurements; how fast anything is, is no matter of tests."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from ryle.bench import cpu, fengine, fx, start, xengine
from ryle.bench.results import Row
from ryle.bench.timing import compare, interleave
from ryle.correlate.cpu import available_kernels


def test_rounds_are_interleaved_after_a_warm_up():
    calls = []
    times = interleave({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, 3)
    assert calls == ["a", "b"] * 4
    assert {name: len(values) for name, values in times.items()} == {"a": 3, "b": 3}


def test_ratios_are_of_one_round():
    """A machine that slows down during the run changes both times, not their ratio."""
    assert compare([2.0, 4.0, 20.0, 200.0], [1.0, 2.0, 10.0, 100.0]) == (2.0, (2.0, 2.0))
    middle, (low, high) = compare([1.0, 2.0, 3.0], [1.0, 1.0, 1.0])
    assert middle == 2
    assert low < 2 < high


def test_several_runs_make_one_figure():
    runs = [
        Row("case", v, "s", baseline="base", baseline_value=1.0, ratio=r, ratio_spread=(r, r), most=3.0, more={"n": v})
        for v, r in ((4, 2), (5, 2.5), (9, 7))
    ]
    row = cpu.combine(runs)
    assert (row.value, row.ratio, row.ratio_spread, row.most, row.baseline) == (5, 2.5, (2, 7), 3.0, "base")
    assert row.more == {"n": 5}


def test_what_takes_minutes_says_how_far_it_is(monkeypatch, capsys, tmp_path):
    """In lines, where no terminal is: a log shows them too."""
    monkeypatch.setattr(cpu, "PARTS", {"F-engine": None, "X-engine": None})
    monkeypatch.setattr(cpu, "in_child", lambda call: [Row("case", 1.0, "s", baseline="base")])
    cpu.bench_cpu(2, tmp_path / "cpu.json")
    said = capsys.readouterr().err.splitlines()
    assert said == [f"run {n} of 2: {part}" for n in (1, 2) for part in ("F-engine", "X-engine")]


def test_every_kernel_is_measured_against_its_target(monkeypatch):
    def timed(work, rounds):
        """Seconds of some machine, different for all."""
        for call in work.values():
            call()
        return {name: [0.5 + k] * rounds for k, name in enumerate(work)}

    monkeypatch.setattr(xengine, "interleave", timed)
    figures = {figure.case: figure for figure in xengine.run(rounds=2, channels=2, blocks=8)}
    for kernel in available_kernels():
        figure = figures[f"X-engine {kernel}, 64 inputs"]
        assert figure.most == xengine.TARGETS.get(kernel)
        assert figure.ratio is not None
        # Both work on the same samples, so the ratio of speeds is that of times.
        assert figure.value * figure.ratio == pytest.approx(figure.baseline_value)


def test_f_engine_and_its_parts():
    figures = fengine.run(channels=64, spectra=128, rounds=2)
    assert [figure.most for figure in figures if figure.most] == [3.0]
    assert len(figures) == 5
    assert all(figure.value > 0 and figure.ratio is not None for figure in figures)


def test_the_whole_correlator_is_given_whole_batches():
    """Every chunk completes one batch, or the rate would be wrong."""
    observed = fx.observation(2)
    engine = fx.OneThread(observed)
    samples = engine.f.shape.batch * engine.f.shape.step
    chunk = fengine.noise_chunk(4, samples)
    assert chunk.samples == samples
    stream = fx._Stream(observed, chunk)
    positions = []
    for _ in range(4):
        stream.push()
        positions.append(stream.engine.f.position)
    assert np.diff(positions[1:]).tolist() == [samples, samples]
    assert stream.engine.f.values.all()


def test_command(monkeypatch, tmp_path):
    from ryle.cli import app

    row = Row(
        "case",
        0.123456,
        "Gsample/s",
        baseline="base",
        baseline_value=0.1,
        ratio=4.0,
        ratio_spread=(3.9, 4.1),
        most=3.0,
        more={"limit": 0.2, "clock_mhz": 3000.0},
    )
    monkeypatch.setattr(cpu, "measure", lambda runs, progress: [row] * runs)
    saved = tmp_path / "figures.json"
    result = CliRunner().invoke(app, ["bench", "cpu", "--runs", "2", "--json", str(saved)])
    assert result.exit_code == 0, result.output
    assert "4.000" in result.output
    assert "≤ 3, missed" in result.output
    assert "clock mhz 3000, share of limit 62%" in result.output
    figures = json.loads(saved.read_text())
    assert figures["machine"]["x_kernel"] == available_kernels()[0]
    assert [row["value"] for row in figures["results"]] == [0.12346] * 2


def test_starting_is_measured_against_python_alone(monkeypatch):
    monkeypatch.setattr(start, "_ROUNDS", 2)
    rows = {row.case: row for row in start.run()}
    assert set(rows) == set(start.COMMANDS) and rows["ryle --help"].most == 8
    for row in rows.values():
        assert row.ratio > 1 and row.value > row.baseline_value > 0
