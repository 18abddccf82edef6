"""The list of subcommands says what each says of itself, and comes without what they import."""

import re
import shlex
import subprocess
import sys
from importlib import import_module

import pytest
import typer
from typer.testing import CliRunner

from ryle.cli import COMMANDS, app, load
from ryle.cli.worked import WORKED

#: What takes a second to import, and nothing but work needs.
HEAVY = ("numpy", "scipy", "pydantic", "astropy", "spead2", "h5py", "pyuvdata", "matplotlib", "rich", "ryle._native")


def invoke(*arguments, **environment):
    return CliRunner().invoke(app, list(arguments), prog_name="ryle", env={"COLUMNS": "100", **environment})


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_says_what_the_subcommand_does(name):
    entry = COMMANDS[name]
    what = getattr(import_module(f"ryle.cli.{entry.module}"), entry.name)
    own = what.info.help if isinstance(what, typer.Typer) else what.__doc__
    assert " ".join(own.split()).startswith(entry.help.removesuffix("."))
    shown = " ".join(invoke("--help").output.split())
    assert entry.help in shown


def test_help_lists_every_subcommand_once():
    words = [line.split()[0] for line in invoke("--help").output.splitlines() if re.match(r"  [a-z]", line)]
    assert sorted(words) == sorted(COMMANDS)


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["-h"]])
def test_help_and_version_import_nothing_heavy(arguments):
    code = (
        f"import sys\nsys.argv = ['ryle', *{arguments!r}]\nfrom ryle.__main__ import main\ntry:\n    main()\nfinally:\n"
    )
    code += f"    print([m for m in {HEAVY!r} if m in sys.modules], file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr.strip() == "[]" and "ryle" in done.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_each_subcommand_has_help_by_name(name):
    assert load(name).name == name
    shown = invoke(name, "--help")
    assert shown.exit_code == 0 and f"ryle {name}" in " ".join(shown.output.split())


def test_a_name_that_is_almost_right_is_suggested():
    assert "Did you mean 'export'" in " ".join(invoke("exprot").output.split())
    assert invoke("exprot").exit_code == 2


def _commands(name, command):
    yield name, command
    for below, its in getattr(command, "commands", {}).items():
        yield from _commands(f"{name} {below}", its)


@pytest.fixture(scope="module")
def commands():
    return dict(pair for name in COMMANDS for pair in _commands(name, load(name)))


def test_each_command_has_an_example_that_it_takes(commands, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out").mkdir()
    for name in ("demo.pcap", "out/demo.uvh5", "out/demo.band0.uvh5", "out/demo.band1.uvh5"):
        (tmp_path / name).touch()
    assert set(WORKED) == set(commands)
    for name, typed in WORKED.items():
        assert commands[name].epilog == f"Example: {typed}"
        words = shlex.split(typed)
        assert words.pop(0) == "ryle"
        said = max((n for n in commands if words[: len(n.split())] == n.split()), key=len)
        assert said.startswith(name), typed
        commands[said].make_context(said, words[len(said.split()) :])  # raises what a person would see
