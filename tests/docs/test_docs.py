"""Documentation that can be checked: commands parse, examples exist, links lead somewhere."""

import importlib.util
import re
import shlex
import shutil
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

import fresh
from ryle.config import example, example_names, load
from ryle.plan.hardware import read_hardware
from ryle.plan.placement import place, written
from ryle.wire.build import build
from ryle.wire.description import Format
from ryle.wire.packets import Parser

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(
    p for p in [*ROOT.glob("*.md"), *DOCS.rglob("*.md")] if not {"_build", "generated"} & set(p.relative_to(ROOT).parts)
)
IDS = [str(p.relative_to(ROOT)) for p in PAGES]

_FENCE = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```", re.M | re.S)


def _command_line():
    spec = importlib.util.spec_from_file_location("command_line", DOCS / "command_line.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["command_line"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


LINE = _command_line()
COMMANDS = LINE.commands()


def commands_in(text):
    """Each `ryle …` of shell blocks and of code spans."""
    shell = "\n".join(body for _, language, body in _FENCE.findall(text) if language in ("sh", "bash"))
    lines = [line.strip() for line in shell.splitlines()]
    spans = re.findall(r"`(ryle [^`\n]+)`", _FENCE.sub("", text))
    return [c.split("#")[0].strip() for c in lines + spans if re.match(r"ryle( |$)", c)]


def mistakes(command):
    """What is wrong with one command line."""
    words = shlex.split(command.split(">")[0])[1:]
    if words[:1] in (["--version"], ["--install-completion"], ["COMMAND"]):
        return []
    groups = {" ".join(name.split()[:n]) for name in COMMANDS for n in range(1, len(name.split()))}
    name = words[0]
    for word in words[1:]:
        if name not in groups or word[0] == "-":
            break
        name += f" {word}"
    if name in groups and name not in COMMANDS:
        return []
    if name not in COMMANDS:
        return [f"no such command: {name}"]
    known = {n: p for p in LINE.parameters(COMMANDS[name]) for n in p.names if n.startswith("-")}
    given = words[len(name.split()) :]
    found = []
    while given:
        word = given.pop(0)
        if not word.startswith("-") or word in ("--help", "-h"):
            continue
        option = known.get(word)
        if option is None:
            found.append(f"ryle {name} has no {word}")
        elif not option.flag and given:
            value = given.pop(0)
            if option.choices and value not in option.choices:
                found.append(f"{word} is not one of {option.choices}: {value}")
    return found


def test_commands_are_found():
    """The checks below mean something: README names the daily commands, and a wrong one is noticed."""
    named = {shlex.split(c)[1] for c in commands_in((ROOT / "README.md").read_text())}
    assert named >= {"check", "run", "simulate", "correlate", "plot", "image", "export", "recover", "example"}
    assert mistakes("ryle run array.toml -o out") == []
    assert mistakes("ryle engine x array.toml --index 1") == []
    assert mistakes("ryle status --watch") == [] and mistakes("ryle status set interval 2 --page f0") == []
    assert mistakes("ryle status --live") and mistakes("ryle status fly")
    assert mistakes("ryle run array.toml --speed 2") and mistakes("ryle fly") and mistakes("ryle export a --to fits")


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_commands_parse(page):
    wrong = [f"{c}: {m}" for c in commands_in(page.read_text()) for m in mistakes(c)]
    assert not wrong


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_examples_exist(page):
    for command in commands_in(page.read_text()):
        words = command.split()
        if words[1] == "example" and len(words) > 2 and words[2] != ">":
            assert words[2] in example_names(), command


def _anchors(page):
    """Anchors of headings, as GitHub and MyST make them."""
    headings = re.findall(r"^#+ (.*)$", _FENCE.sub("", page.read_text()), re.M)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_links_lead_somewhere(page):
    text = _FENCE.sub("", page.read_text())
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        to = (page.parent / path).resolve() if path else page
        assert to.exists(), f"{target} does not exist"
        if anchor:
            assert anchor in _anchors(to), f"{target}: no such heading"


def test_make_targets_exist():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    for page in PAGES:
        for words in re.findall(r"(?:^|`)make ((?:[a-z-]+ ?)+)(?:`|#|$)", page.read_text(), re.M):
            assert set(words.split()) <= targets, f"{page.name}: make {words}"


def test_readme_pictures_are_small():
    pictures = re.findall(r"!\[[^]]+\]\(([^)]+)\)", (ROOT / "README.md").read_text())
    assert pictures
    for picture in pictures:
        assert 0 < (ROOT / picture).stat().st_size < 400_000, picture


def test_pages_stand_in_a_table_of_contents():
    index = (DOCS / "index.md").read_text()
    for page in DOCS.rglob("*.md"):
        if not {"_build", "generated"} & set(page.relative_to(DOCS).parts) and page.name != "index.md":
            name = str(page.relative_to(DOCS).with_suffix(""))
            assert name in index or f"{page.parent.name}/*" in index, name


FORMAT_PAGE = "docs/howto/wire-formats.md"
PACKET_PAGE = "docs/howto/existing-f-engines.md"


def test_packet_format_shown_is_valid(tmp_path):
    """The first description of the how-to page is one, and is what the page says of it."""
    whole, *_excerpts = [b for _, kind, b in _FENCE.findall((ROOT / FORMAT_PAGE).read_text()) if kind == "toml"]
    format = Format.parse(whole)
    samples = fresh.rng().integers(-128, 128, (128, 8, 2, 2))
    packet = build(format, {"ant": 3, "chan": 256, "spectrum": 8}, samples)
    parser = Parser(format)
    fields = parser.parse([packet])
    assert fields.valid.all() and (fields.antenna[0], fields.channel[0], fields.timestamp[0]) == (3, 256, 8)
    np.testing.assert_array_equal(parser.decode([packet], integers=True)[0], samples)


PLAN_PAGE = "docs/howto/plan.md"


def test_hardware_and_placement_shown_are_what_is_read_and_written(tmp_path):
    hardware, engine = [b for _, kind, b in _FENCE.findall((ROOT / PLAN_PAGE).read_text()) if kind == "toml"]
    (file := tmp_path / "ours.toml").write_text(hardware)
    ours = read_hardware(file)
    o = load(example("meerkat_extension"))
    made = tomllib.loads(written(o, place(o, ours), ours.servers["h200"]))["engines"][0]
    (shown,) = tomllib.loads(engine)["engines"]
    assert shown.keys() == made.keys()
    assert shown["receives"][0] == made["receives"][0] and shown["sends"][0] == made["sends"][0]
    assert ours.servers["ours"].price == 15000 and ours.gpus["h200"].price == 30000
    assert place(o, ours, "ours", ["rack1", "rack2"]).hosts[0].name == "rack1"


def _toml_blocks():
    return [
        (i, b)
        for i, p in zip(IDS, PAGES, strict=True)
        for _, kind, b in _FENCE.findall(p.read_text())
        if kind == "toml" and i not in (FORMAT_PAGE, PLAN_PAGE)
    ]


@pytest.mark.parametrize(("page", "block"), _toml_blocks(), ids=[i for i, _ in _toml_blocks()])
def test_tables_shown_are_valid(page, block, tmp_path):
    """Tables shown in a page replace those of the demonstration's file, and the whole is read without a mistake."""
    shown = tomllib.loads(block)
    base = example("paper128" if page == PACKET_PAGE else "demo")
    parts = re.split(r"(?m)^(?=\[)", base.read_text())
    replaced = [*shown, *(["simulate"] if "packets" in shown.get("catcher", {}) else [])]
    kept = [p for p in parts if not any(re.match(rf"\[\[?{name}[].]", p) for name in replaced)]
    shutil.copy(example("paper128").with_suffix(".txt"), tmp_path)
    if set(shown.get("simulate", {})) == {"faults"}:
        kept = parts
    file = tmp_path / "shown.toml"
    file.write_text("".join(kept) + "\n" + block)
    load(file)


def test_loss_of_the_tutorial():
    """24 spectra for a lost packet: what the tutorial says follows from its file."""
    o = load(example("demo"))
    heap = o.digitizer.heap_samples
    assert (heap + o.window) / o.step == 24
    assert heap * 3 == heap + o.window  # 1 % of packets costs 3 % of an input
    lost = np.zeros(100 * heap, bool)
    lost[50 * heap : 51 * heap] = True
    touched = sum(lost[s : s + o.window].any() for s in range(0, len(lost) - o.window, o.step))
    assert abs(touched - 24) <= 1
