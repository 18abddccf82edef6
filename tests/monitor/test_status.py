"""An engine's figures, printed and on its page: the same; ``ryle status`` shows them, live too."""

import io
import json
import re
import subprocess
import sys
import time

import pytest
from rich.console import Console
from typer.testing import CliRunner

from ryle import cli
from ryle.monitor.page import clean_pages, read_pages
from ryle.monitor.publish import StatusPage
from ryle.monitor.status import StatusReporter
from ryle.monitor.view import PagesView, flat, shown, watch
from ryle.stream.metrics import Registry


@pytest.fixture(autouse=True)
def directory(tmp_path, monkeypatch):
    monkeypatch.setenv("RYLE_STATUS_DIR", str(tmp_path))
    return tmp_path


def ryle(*arguments):
    return CliRunner().invoke(cli.app, list(arguments), env={"COLUMNS": "120"})


def registry(figures):
    metrics = Registry()
    for name, value in figures.items():
        metrics.gauge(name, "", "as given", lambda value=value: value)
    return metrics


def test_reporter_says_the_same_twice():
    out = io.StringIO()
    figures = {"received": 5, "account": {"missing": 1, "late": None}}
    with StatusReporter({"role": "x", "index": 3}, registry(figures), stream=out, interval=0.05) as reporter:
        reporter.set_state("running")
        (page,) = read_pages("x3")
        assert page.values == {"role": "x", "index": 3, "state": "running", "interval": 0.05} | figures
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert lines[-1]["state"] == "done" and lines[-1]["account"] == figures["account"]
    assert read_pages() == []


def test_interval_is_a_control():
    out = io.StringIO()
    with StatusReporter({"role": "f", "index": 0}, Registry(), stream=out, interval=3600):
        before = len(out.getvalue().splitlines())
        result = ryle("status", "set", "interval", "0.05")
        assert result.exit_code == 0 and result.output == "f0: interval = 0.05\n"
        deadline = time.monotonic() + 60
        while len(out.getvalue().splitlines()) < before + 5:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        refused = ryle("status", "set", "interval", "0")
        assert refused.exit_code == 1 and "a number from 0.05 to 3600" in str(refused.exception)


def test_no_shared_memory_stops_nothing(monkeypatch, capsys):
    monkeypatch.setenv("RYLE_STATUS_DIR", "/nowhere")
    out = io.StringIO()
    with StatusReporter({"role": "x", "index": 0}, Registry(), stream=out) as reporter:
        assert reporter.page is None
    assert "no status page" in capsys.readouterr().err and '"done"' in out.getvalue()


def test_a_page_that_was_taken_away_stops_nothing(capsys):
    out = io.StringIO()
    with StatusReporter({"role": "x", "index": 0}, Registry(), stream=out) as reporter:
        reporter.page.close()
        reporter.set_state("running")
    assert "no status page any more" in capsys.readouterr().err and '"done"' in out.getvalue()


def test_printed():
    assert "nothing of Ryle runs here" in ryle("status").output
    with StatusPage("x0") as page:
        page.publish({"state": "running", "account": {"missing": 12, "late": None}, "levels": list(range(100))})
        text = ryle("status").output
        for cell in ("x0", "running", r"account\.missing +12", r"account\.late +\?", r"7, … 100 in all"):
            assert re.search(cell, text), text
        (found,) = json.loads(ryle("status", "--json").output)
        assert found["values"]["levels"] == list(range(100)) and found["alive"] is True
        assert ryle("status", "--page", "x1").exit_code == 1
    assert json.loads(ryle("status", "--json").output) == []


def test_a_dead_owner_is_shown_and_cleaned():
    code = "import os; from ryle.monitor.publish import StatusPage; p = StatusPage('dead'); p.publish({'n': 42}); os._exit(9)"
    subprocess.run([sys.executable, "-c", code], check=False, timeout=60)
    text = ryle("status").output
    assert "it is gone, these are its last words" in text and "42" in text
    assert ryle("status", "clean").output == "removed dead\n"
    assert ryle("status", "clean").output == "nothing to remove\n"
    assert clean_pages() == []


@pytest.mark.parametrize("terminal", [True, False])
def test_watch_in_a_headless_console(terminal):
    out = io.StringIO()
    console = Console(file=out, width=100, height=40, force_terminal=terminal, _environ={"TERM": "xterm"})
    with StatusPage("x0") as page:
        pictures = 0

        def until():
            nonlocal pictures
            page.publish({"packets": 1000 * pictures})
            pictures += 1
            return pictures > 5

        begun = time.monotonic()
        watch(console, interval=0.02, until=until)
        took = time.monotonic() - begun
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", out.getvalue())
    seen = [int(n) for n in re.findall(r"packets +(\d+)", text)]
    assert seen == [0, 1000, 2000, 3000, 4000]
    rates = [float(n) for n in re.findall(r"packets +\d+ +([\d.e+]+)", text)]
    assert len(rates) == 4 and all(r > 900 / took for r in rates)  # 1000 in a part of that time
    assert ("\x1b[?1049h" in out.getvalue()) == terminal  # the alternate screen


def test_rates_belong_to_one_process():
    """A counter that starts again with its process shows no negative rate."""
    view = PagesView()
    for count in (10**6, 0):
        with StatusPage("x0") as page:
            page.publish({"packets": count})
            out = io.StringIO()
            Console(file=out, width=100).print(view.render(read_pages()))
    assert "-" not in out.getvalue()


def test_flat_and_shown():
    assert list(flat({"a": {"b": {"c": 1}}, "d": {}, "e": [1]})) == [("a.b.c", 1), ("d", {}), ("e", [1])]
    assert [shown(v) for v in (None, True, 0.1 + 0.2, "x", [1.0, None])] == ["?", "true", "0.3", "x", "[1, ?]"]
