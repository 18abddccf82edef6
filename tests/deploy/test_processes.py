"""What runs where: commands that an engine takes, its place, its memory; and the command that writes it down."""

import pytest
from typer.testing import CliRunner

from ryle.cli import app
from ryle.deploy.processes import PATIENCE, ranges
from ryle.engines.budget import memory
from ryle.engines.places import listed_cores


def test_every_engine_of_the_plan_runs_where_it_says(planned, tmp_path):
    d = planned(program="/opt/ryle", data="/data")
    assert [(p.name, p.host, p.cores) for p in d.processes] == [
        ("catcher0", "b", (2, 3)),
        ("x0", "a", (1,)),
        ("x1", "b", (0, 1, 4)),
        ("f0", "a", (0,)),
    ]
    file = str(tmp_path / "small.toml")
    commands = {p.name: p.command for p in d.processes}
    assert commands["f0"] == ("/opt/ryle", "engine", "f", file, "--index", "0", "--output", "/data", "--live")
    assert commands["x1"] == ("/opt/ryle", "engine", "x", file, "--index", "1", "--live")
    assert all(p.numa == 0 and p.gpus == () for p in d.processes)
    of_x = sum(m.bytes for m in memory(d.observation) if m.engine == "x")
    assert next(p for p in d.processes if p.name == "x0").memory == of_x + (1 << 30)


def test_commands_are_those_of_ryle(planned):
    """Each is parsed to its end, and ends for want of a file only."""
    for p in planned(observation="/nowhere.toml", simulate=True).processes:
        ended = CliRunner().invoke(app, list(p.command[1:]))
        assert ended.exit_code and "nowhere.toml" in str(ended.exception), (p.command, ended.output)


def test_the_simulator_comes_last_and_needs_a_table(planned):
    d = planned(simulate=True)
    assert [p.stage for p in d.processes] == ["catcher", "x", "x", "f", "simulate"]
    assert all("--live" not in p.command for p in d.processes)
    with pytest.raises(ValueError, match="no table"):
        planned(lambda text: text[: text.index("[simulate]")] + text[text.index("[network]") :], simulate=True)


def test_an_engine_sees_the_plans_gpus_unless_the_observation_names_them(planned):
    def on_gpus(more=""):
        return lambda text: text.replace("taps = 8", f'taps = 8\nbackend = "cuda"{more}')

    f = {p.name: p for p in planned(on_gpus(), gpus=((1,), ())).processes}["f0"]
    assert f.gpus == (1,) and f.environment["CUDA_VISIBLE_DEVICES"] == "1"
    named = {p.name: p for p in planned(on_gpus("\ngpus = [1]"), gpus=((1,), ())).processes}["f0"]
    assert named.gpus == (1,) and "CUDA_VISIBLE_DEVICES" not in named.environment


def test_cores_are_written_as_they_are_read():
    assert ranges((3, 0, 1, 2, 8, 10, 11)) == "0-3,8,10-11"
    assert listed_cores(ranges((0, 2, 3, 127))) == [0, 2, 3, 127]
    assert ranges(()) == ""


def test_an_engine_is_given_as_long_to_end_as_a_run_gives_it():
    from ryle.engines.supervisor import _PATIENCE

    assert PATIENCE > _PATIENCE


@pytest.mark.parametrize("to, files", [("slurm", 1), ("systemd", 6), ("kubernetes", 5)])
def test_command(planned, tmp_path, to, files):
    planned()
    ended = CliRunner().invoke(
        app, ["deploy", str(tmp_path / "placement.toml"), "--to", to, "-o", str(tmp_path / "out")]
    )
    assert ended.exit_code == 0, ended.output
    written = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert len(written) == files and f"{files} file" in ended.output
    for path in written:
        lines = path.read_text().splitlines()
        first = lines[1] if lines[0].startswith("#!") else lines[0]
        assert first.startswith("# Made by `ryle deploy` from") and "placement.toml" in first
    wrong = (tmp_path / "placement.toml").read_text().replace('host = "a"', 'host = "c"')
    (tmp_path / "placement.toml").write_text(wrong)
    refused = CliRunner().invoke(
        app, ["deploy", str(tmp_path / "placement.toml"), "--to", to, "-o", str(tmp_path / "no")]
    )
    assert refused.exit_code and "is no host here" in str(refused.exception) and not (tmp_path / "no").exists()
