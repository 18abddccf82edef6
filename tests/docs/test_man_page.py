"""The manual page holds every command, option and example, and troff has nothing to say against it."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    file = tmp_path_factory.mktemp("man") / "man1" / "ryle.1"
    subprocess.run([sys.executable, DOCS / "man_page.py", file], check=True)
    return file


def test_all_commands_and_options_are_there(page, monkeypatch):
    monkeypatch.syspath_prepend(DOCS)
    from command_line import commands, parameters

    from ryle.cli.worked import WORKED

    sections = dict(re.findall(r'^\.SS "ryle (.*?)"\n(.*?)(?=^\.S[SH])', page.read_text(), re.M | re.S))
    assert set(sections) == set(commands())
    for name, command in commands().items():
        said = sections[name].replace("\\-", "-")
        assert WORKED[name] in said
        assert all(option in said for p in parameters(command) for option in p.names), name


@pytest.mark.skipif(shutil.which("groff") is None, reason="needs groff")
def test_it_renders(page):
    done = subprocess.run(["groff", "-man", "-ww", "-Kutf8", "-Tutf8", page], capture_output=True, text=True)
    shown = re.sub(r"\x1b\[[0-9;]*m|.\x08", "", done.stdout)
    assert done.returncode == 0 and done.stderr == "", done.stderr[:2000]
    assert "EXIT STATUS" in shown and "ryle run demo.toml -o out" in shown.replace("−", "-").replace("‐", "-")
