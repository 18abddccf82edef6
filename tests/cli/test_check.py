"""``ryle check`` prints what follows from a file, or all its mistakes and exit status 1."""

import io
import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
import typer
from rich.cells import cell_len
from rich.console import Console
from typer.testing import CliRunner

from observations import own_paper
from ryle.cli.check import check, mistakes, report
from ryle.config import ConfigError, changed, example, load, parse, rates, show
from ryle.engines import budget
from ryle.engines import devices as gpu

SMALL = Path(__file__).parents[1] / "small.toml"


app = typer.Typer()
app.command()(check)


@pytest.fixture(autouse=True)
def roomy(monkeypatch):
    """As on a machine with memory enough, and a kernel that grants it."""
    monkeypatch.setattr("ryle.engines.budget.available", lambda: 1 << 60)
    monkeypatch.setattr("ryle.engines.machine.granted_buffer", lambda size: size)
    monkeypatch.setattr("ryle.engines.machine.os.cpu_count", lambda: 64)


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments], env={"COLUMNS": "140"})


def drawn(renderable):
    out = io.StringIO()
    Console(file=out, width=140).print(renderable)
    return out.getvalue()


@pytest.mark.parametrize("name", ["demo", "meerkat_extension", "paper128", "alma72", "vdif2"])
def test_examples(name):
    result = run(example(name))
    assert result.exit_code == 0, result.output
    assert name in result.output
    sums = "FX sums" if name == "alma72" else "X-engine sums"
    for title in ("Each link", "Memory, arithmetic, disk", sums, "GB/h"):
        assert title in result.output


@pytest.mark.parametrize("width", [80, 40, 200])
@pytest.mark.parametrize("name", ["demo", "meerkat_extension", "paper128", "alma72", "vdif2"])
def test_tables_fit(name, width):
    """Nothing is wider than the terminal, cut short or broken within a value."""
    out, o = io.StringIO(), load(example(name))
    Console(file=out, width=width).print(report(o))
    text = out.getvalue()
    assert max(map(cell_len, text.splitlines())) <= width and "…" not in text and "\x1b" not in text
    for link in rates.links(o):
        for value in (show(link.wire, "b/s"), f"{link.heap} B", f"{link.count}"):
            assert re.search(rf"(^|\s){re.escape(value)}(\s|$)", text, re.M), value
        assert (link.name in text.splitlines()) == (width == 40), link.name
    for buffer in budget.memory(o):
        assert show(buffer.bytes * buffer.count, "B") in text
    assert len([line for line in text.splitlines() if line.startswith("X-engine in ")]) == (width != 40) * (
        "X-engine in" in text
    )


def test_piped(monkeypatch):
    """As wide as a terminal usually is, and without colours."""
    monkeypatch.delenv("COLUMNS", raising=False)
    text = CliRunner().invoke(app, [str(example("paper128"))]).output
    assert max(map(cell_len, text.splitlines())) <= 80 and "\x1b" not in text and "97 656.25" in text


def test_rows_are_shown():
    o = changed(load(example("meerkat_extension")), fengine={"sends": "rows"})
    text = drawn(report(o))
    assert (
        "rows: 32 channels x 2 polarizations in a packet, 1.6 % more on the wire" in text
        and "rows of F-engines 64 B" in text
    )
    small = drawn(report(changed(o, network={"packet_size": 1400}, digitizer={"heap_samples": 1024})))
    assert "rows: 4 channels x 2 polarizations in a packet, 12.7 % more" in small


def test_paper_figures_are_shown():
    text = drawn(report(load(example("paper128"))))
    for figure in ("97 656.25", "6.4 Gb/s", "8192 B", "6.605 TOP/s", "2080 baselines", "falls with the channel index"):
        assert figure in text
    assert "10.7374182 s = 8 integrations of the X-engines" in text and "16 spectra x 64 channels x 8 inputs" in text
    assert "10.7374182 s = 1048576 spectra" in drawn(report(own_paper()))
    assert "Nothing to be wary of" in text


def test_cautions_are_shown():
    text = drawn(report(load(example("meerkat_extension"))))
    assert "To be wary of: 4" in text and "jumbo frames" in text


def test_what_the_gpu_form_needs_is_shown(monkeypatch):
    o = changed(own_paper(), fengine={"backend": "cuda"})
    monkeypatch.setattr(gpu, "_opened", lambda: (None, "there is no NVIDIA driver here"))
    text = " ".join(drawn(report(o)).split())
    assert "F-engine on GPU needs an NVIDIA GPU (any from Ampere on)" in text and "here: none" in text
    assert "To be wary of: 1" in text and "there is no NVIDIA driver here" in text
    monkeypatch.setattr(
        gpu, "_opened", lambda: (SimpleNamespace(name="Emu 1", shared_bytes=232448, arch="sm_90a"), None)
    )
    text = " ".join(drawn(report(o)).split())
    assert "here: Emu 1" in text and "Nothing to be wary of" in text
    assert "on GPU" not in drawn(report(load(example("paper128"))))


def test_one_process_is_shown(monkeypatch):
    """What F and X in one process takes, and that it needs a GPU."""
    monkeypatch.setattr(gpu, "_opened", lambda number: (None, "there is no NVIDIA driver here"))
    text = " ".join(drawn(report(load(example("alma72")))).split())
    assert "FX on GPU needs an NVIDIA GPU (any from Ampere on)" in text and "here: none" in text
    assert "FX will not start on this computer: there is no NVIDIA driver here" in text
    assert "one process (FX) in place of F-engines, X-engines and catcher" in text
    for what in ("of its memory", "FX receive ring", "FX sums, 4 integrations", "live FX: packets wait"):
        assert what in text
    assert "F-engine" not in text.replace("F-engines, X-engines and catcher", "") and "X-engine in" not in text


def test_names_that_look_like_markup():
    text = SMALL.read_text().replace('name = "field"', 'name = "[red]x[/blue]"')
    assert "[red]x[/blue]" in drawn(report(parse(text, "[bold]file[/red]")))


def test_json():
    result = run(example("paper128"), "--json")
    found = json.loads(result.output)
    assert result.exit_code == 0
    assert next(x for x in found["links"] if x["name"] == "X-engine in")["packets"] == 97656.25
    assert found["cautions"] == []


@pytest.fixture
def wrong(tmp_path):
    path = tmp_path / "wrong.toml"
    path.write_text(SMALL.read_text().replace("taps = 8", "tabs = 8").replace('"8 MHz"', '"8"'))
    return path


def test_mistakes(wrong):
    result = run(wrong)
    assert result.exit_code == 2
    assert "2 mistakes" in result.output
    assert "did you mean taps?" in result.output and '"8 MHz"' in result.output
    assert "Traceback" not in result.output


def test_mistakes_as_json(wrong):
    result = run(wrong, "--json")
    assert result.exit_code == 2
    found = json.loads(result.stdout)
    assert [p["key"] for p in found["problems"]] == ["band.sample_rate", "fengine.tabs"]


def test_missing_file(tmp_path):
    result = run(tmp_path / "none.toml")
    assert result.exit_code == 2
    assert "no such file" in result.output


def test_mistakes_with_markup_in_values():
    with pytest.raises(ConfigError) as error:
        parse(SMALL.read_text().replace('"8 MHz"', '"[/red] 8"'))
    assert "[/red] 8" in drawn(mistakes(error.value))
