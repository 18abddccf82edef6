"""``ryle example`` prints a shipped observation file, or writes it with what it reads."""

import pytest
import typer
from typer.testing import CliRunner

from ryle.cli.example import example as command
from ryle.config import example, example_names, example_title, load

app = typer.Typer()
app.command()(command)


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


@pytest.mark.parametrize("name", example_names())
def test_written_with_all_that_it_reads(tmp_path, name):
    result = run(name, "-o", tmp_path / "new")
    written = tmp_path / "new" / f"{name}.toml"
    assert result.exit_code == 0 and str(written) in result.stderr
    assert load(written).array == load(example(name)).array
    again = run(name, "-o", tmp_path / "new")
    assert again.exit_code == 1 and "exists already" in again.stderr


def test_printed():
    listed = run()
    assert [line.split()[0] for line in listed.stdout.splitlines()] == example_names()
    assert all(example_title(name) in listed.stdout and 0 < len(example_title(name)) < 80 for name in example_names())
    assert "ryle check" in listed.stderr
    result = run("paper128")
    assert result.stdout == example("paper128").read_text() and "paper128.txt" in result.stderr
    assert run("demo").stdout == example("demo").read_text() and run("demo").stderr == ""
