"""Shells are offered what can stand where a person types."""

import pytest
from typer.testing import CliRunner

from ryle.cli import app, completion
from ryle.config import example_names
from ryle.monitor.publish import StatusPage
from ryle.stream.controls import Control
from ryle.wire.description import names


def offered(words, typed=""):
    """What bash is offered after some words, by the entry that its completion script calls."""
    line = ["ryle", *words]
    environment = {
        "_RYLE_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join([*line, typed]),
        "COMP_CWORD": str(len(line)),
    }
    result = CliRunner().invoke(app, prog_name="ryle", env=environment)
    assert result.exit_code == 0
    return result.stdout.split()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name in ("array.toml", "a.uvh5", "a.pcap", "b.pcapng", "ef.vdif", "notes.txt", ".hidden.toml"):
        (tmp_path / name).touch()
    (tmp_path / "a.ms").mkdir()
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "c.toml").touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_subcommands():
    assert offered([], "ex") == ["example", "export"]
    assert offered(["wire"]) == ["list", "show", "check"]
    assert offered(["engine"]) == ["f", "x", "catcher", "fx"]


def test_examples_and_formats(folder):
    assert offered(["example"]) == example_names()
    for words in (["wire", "show"], ["capture"], ["send"]):
        assert set(names()) < set(offered(words)), words
    assert offered(["wire", "show"], "paper") == [name for name in names() if name.startswith("paper")]
    assert offered(["wire", "show"], "arr") == ["array.toml"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["run"], ["array.toml", "a.ms/", "more/"]),
        (["check"], ["array.toml", "a.ms/", "more/"]),
        (["engine", "f"], ["array.toml", "a.ms/", "more/"]),
        (["plot"], ["a.uvh5", "a.ms/", "more/"]),
        (["image"], ["a.uvh5", "a.ms", "more/"]),
        (["correlate", "array.toml", "--input"], ["a.pcap", "b.pcapng", "ef.vdif", "a.ms/", "more/"]),
        (["check", "array.toml"], ["a.pcap", "b.pcapng", "ef.vdif", "a.ms/", "more/"]),
    ],
)
def test_files_of_the_right_kind(folder, words, expected):
    assert offered(words) == sorted(expected)


def test_files_in_folders(folder):
    assert offered(["run"], "more/") == ["more/c.toml"]
    assert offered(["run"], f"{folder}/more/c") == [f"{folder}/more/c.toml"]
    assert offered(["run"], "nowhere/") == []
    assert completion.files(".toml")(".h") == [".hidden.toml"]


def test_pages_and_controls_of_what_runs(tmp_path, monkeypatch):
    monkeypatch.setenv("RYLE_STATUS_DIR", str(tmp_path))
    assert offered(["status", "--page"]) == offered(["status", "set"]) == []
    with StatusPage("x3", {"interval": Control("float", get=float), "verify": Control("bool", get=bool)}) as page:
        page.publish({})
        assert offered(["status", "--page"]) == ["x3"]
        assert offered(["status", "set"]) == ["interval", "verify"]
        assert offered(["status", "set"], "ver") == ["verify"]
