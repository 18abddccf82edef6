"""The registry of the papers' numbers is whole and right, and what `ryle bench papers` makes of it."""

import json
import math
import os
import re
import time
import tomllib
from pathlib import Path

import pytest

import ryle
from ryle.bench.gpu_engine import CASES
from ryle.bench.papers import bench_papers
from ryle.bench.papers.lookup import committed, find
from ryle.bench.papers.measure import Done, lacking, measure, named
from ryle.bench.papers.registry import (
    Command,
    Entry,
    Lookup,
    Point,
    RegistryError,
    load_commands,
    load_paper,
    load_papers,
)
from ryle.bench.papers.report import as_json, markdown, number, summary
from ryle.bench.papers.verdicts import Verdict, compare, ratio, sheets
from ryle.cli.bench import What

PACKAGE = Path(ryle.__file__).parent
REPOSITORY = PACKAGE.parents[1]
INVENTORY = tomllib.loads((Path(__file__).parent / "papers_inventory.toml").read_text())
PAPERS = {paper.key: paper for paper in load_papers()}
ENTRIES = [
    pytest.param(entry, id=f"{key} {entry.label} {entry.name}") for key, p in PAPERS.items() for entry in p.entry
]
NUMBER = re.compile(r"(?<![\w.])\d+(?:,\d{3})*(?:\.\d+)?")


def numbers(text):
    """Numbers of a text that do not belong to a name such as A6000."""
    return {float(found.replace(",", "")) for found in NUMBER.findall(text)}


def told(entry):
    """All numbers that an entry has, in its points and in its words."""
    words = " ".join([entry.name, entry.how, *(f"{point.at}" for point in entry.points)])
    return numbers(words) | {abs(point.value) for point in entry.points}


# The registry


def test_four_papers_are_there_and_no_number_twice():
    assert set(PAPERS) == set(INVENTORY) == {"gpu_fengine", "dpdk_correlator", "ethernet_core", "hashpipe"}
    for paper in PAPERS.values():
        keys = [(entry.label, entry.name) for entry in paper.entry]
        assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("key", INVENTORY)
def test_every_table_and_figure_is_there(key):
    assert set(INVENTORY[key]["labels"]) <= set(PAPERS[key].labels)


@pytest.mark.parametrize("key", INVENTORY)
def test_every_number_of_the_tables_is_there(key):
    for label, wanted in INVENTORY[key].get("numbers", {}).items():
        there = set().union(*(told(entry) for entry in PAPERS[key].entry if entry.label == label))
        assert set(map(float, wanted)) <= there, (label, sorted(set(map(float, wanted)) - there))


@pytest.mark.parametrize("command", load_commands().values(), ids=lambda command: command.key)
def test_commands_exist_and_are_named(command):
    assert command in named(list(PAPERS.values()), load_commands())
    words = command.words
    if words[:2] == ["ryle", "bench"]:
        assert words[2] in {what.value for what in What}
    elif words[:2] == ["python", "-m"]:
        module = PACKAGE.parent.joinpath(*words[2].split(".")).with_suffix(".py")
        assert "__main__" in module.read_text()
    else:
        assert words[0] == "make" and re.search(rf"^{words[1]}:", (REPOSITORY / "Makefile").read_text(), re.M)
    assert not command.writes or command.writes in command.run or (command.writes == "transport.json")


@pytest.mark.parametrize("command", load_commands().values(), ids=lambda command: command.key)
def test_options_of_commands_exist(command):
    words = command.words
    options = [word for word in words if word.startswith("--")]
    if words[0] == "ryle":
        text = (PACKAGE / "cli" / "bench.py").read_text()
        assert all(f'"{option}"' in text or re.search(rf"^    {option[2:]}: ", text, re.M) for option in options)
    elif words[0] == "python":
        text = PACKAGE.parent.joinpath(*words[2].split(".")).with_suffix(".py").read_text()
        assert all(f'"{option}"' in text for option in options)


@pytest.mark.parametrize("entry", ENTRIES)
def test_values_that_are_named_are_in_the_committed_results(entry):
    wanted = {(lookup.point, lookup.file) for lookup in entry.measured if lookup.file}
    found = {(one.lookup.point, one.stamp.file): one for one in find(entry, committed())}
    for key in wanted:
        assert key in found, f"{key}: no row fits"
        one = found[key]
        assert all(math.isfinite(value) for value in one.values.values())
        assert one.stamp.card and re.fullmatch(r"\d{4}-\d\d-\d\d", one.stamp.date), one.stamp


def test_points_along_numbers_that_are_measured_meet_the_published_ones():
    name = "filter's share of the memory's bandwidth, 16 bits"
    found = compare(next(one for one in PAPERS["gpu_fengine"].entry if one.name == name), committed())
    assert found[0].published == 75 and found[0].at == 16 and found[0].measured is not None
    assert {one.at for one in found[1:]} == {4, 8, 12, 32}


WRONG = {
    "better": ('better = "more"', 'better = "most"', "better"),
    "unknown": ('unit = "Gb/s"', 'unit = "Gb/s"\ncolour = "red"', "colour"),
    "missing": ('unit = "Gb/s"\n', "", "unit"),
    "type": ("points = [[1, 2]]", "points = [[1, '2']]", "points"),
    "twice at a place": ("points = [[1, 2]]", "points = [[1, 2], [1, 3]]", "points"),
    "hardware": ('on = "a"', 'on = "b"', "on"),
    "command": ('on = "a"', 'on = "a"\ncommand = "fly"', "command"),
    "needs": ('needs = "a card"', "", "needs"),
    "lookup": ('needs = "a card"', 'measured = { key = "value", wher = {} }', "wher"),
    "point": ('needs = "a card"', 'measured = { key = "value", point = 7 }', "point"),
    "log": ('needs = "a card"', 'needs = "a card"\nlog = "z"', "log"),
    "paper": ("year = 2000", 'year = "2000"', "year"),
}
RIGHT = """
title = "T"
authors = "A. Bee"
reference = "R"
year = 2000
[hardware]
a = "card"
[drawings]
[[entry]]
label = "Fig. 1"
name = "rate"
unit = "Gb/s"
better = "more"
on = "a"
how = "so"
ours = "so too"
points = [[1, 2]]
needs = "a card"
"""


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_told_by_file_entry_and_key(tmp_path, case):
    old, new, key = WRONG[case]
    path = tmp_path / "bad.toml"
    assert old in RIGHT
    path.write_text(RIGHT)
    assert load_paper(path, {}).entry[0].points == (Point(1, 2),)
    path.write_text(RIGHT.replace(old, new))
    with pytest.raises(RegistryError, match=rf"^bad\.toml.*\b{key}: ") as error:
        load_paper(path, {})
    assert case == "paper" or "entry" in f"{error.value}"


def test_two_of_one_name_and_broken_files_are_told(tmp_path):
    path = tmp_path / "bad.toml"
    path.write_text(RIGHT + RIGHT[RIGHT.index("[[entry]]") :])
    with pytest.raises(RegistryError, match="name: there are two"):
        load_paper(path, {})
    path.write_text("title = ")
    with pytest.raises(RegistryError, match=r"^bad\.toml: "):
        load_paper(path, {})
    path.write_text('[one]\nrun = "x"\nseconds = 1\nneeds = ["luck"]\n')
    with pytest.raises(RegistryError, match=r"bad\.toml: command 'one': needs: 'luck'"):
        load_commands(path)


# Comparing


@pytest.mark.parametrize(
    ("published", "measured", "better", "unit", "times"),
    [
        (10, 20, "more", "Gb/s", 2),
        (10, 20, "less", "W", 0.5),
        (-75, -85, "less", "dB", 10),
        (10, 20, "neither", "Gb/s", None),
        (10, 0, "less", "W", None),
    ],
)
def test_above_one_is_better(published, measured, better, unit, times):
    assert ratio(published, measured, better, unit) == (None if times is None else pytest.approx(times))


def entry(**more):
    about = {"label": "Fig. 1", "name": "rate", "unit": "Gb/s", "better": "more", "on": "a", "how": "so", "ours": "too"}
    return Entry(**about | more)


def results(folder, rows, **more):
    folder.mkdir(exist_ok=True)
    about = {"gpu": "card", "date": "2026-01-02", "commit": "abc"}
    (folder / "x.json").write_text(json.dumps({"machine": about, "results": rows} | more))
    return folder


def test_verdicts(tmp_path):
    rows = [{"case": name, "value": value, "spread": [low, high]} for name, value, low, high in (
        ("a", 20, 19, 21), ("b", 9.5, 9, 10.5), ("c", 5, 4, 6))]  # fmt: skip
    folder = results(tmp_path / "r", rows)
    points = tuple(Point(at, 10) for at in "abcde")
    lookups = tuple(Lookup("value", "x.json", where={"case": at}, point=at) for at in "abcd")
    found = compare(entry(points=points, measured=lookups, needs="a card"), folder)
    assert [one.verdict for one in found] == [
        Verdict.BETTER, Verdict.EQUAL, Verdict.WORSE, Verdict.OPEN, Verdict.LACKING]  # fmt: skip
    assert found[0].ratio == 2 and f"{found[0].stamp}" == "card, 2026-01-02, commit abc"


def test_curves_meet_where_both_have_points_and_keep_the_rest(tmp_path):
    rows = [{"n": n, "value": 2 * n, "bytes": 3} for n in (1, 2, 4)] + [{"case": "copy", "value": 12}]
    lookup = Lookup("value", "x.json", at="n", times="bytes", over={"case": "copy"}, scale=2, offset=1)
    found = compare(entry(points=(Point(2, 1.5), Point(3, 1)), measured=(lookup,)), results(tmp_path / "r", rows))
    assert [(one.at, one.published, one.measured) for one in found[:2]] == [(2, 1.5, 3.0), (3, 1, None)]
    assert {one.at: one.measured for one in found[2:] if one.at in (1, 4)} == {1: 2.0, 4: 5.0}


def test_readings_are_one_number_their_median():
    found = compare(entry(points=(Point(1, 1), Point(2, 5), Point(3, 6)), readings=True, needs="a card"), Path("none"))
    assert [(one.published, one.verdict) for one in found] == [(5, Verdict.LACKING)]


def test_measurements_come_before_committed_results_and_the_best_row_is_taken(tmp_path):
    folder = results(tmp_path / "r", [{"value": 1}, {"value": 3}])
    one = entry(points=(Point(1, 2),), command="run", measured=(Lookup("value", "x.json", best=True),))
    assert compare(one, folder)[0].measured == 3
    mine = tmp_path / "m"
    mine.mkdir()
    (mine / "run.json").write_text(
        json.dumps({"measured": {"card": "mine", "date": "2026-03-04"}, "results": [{"value": 8}]})
    )
    found = compare(one, folder, mine)[0]
    assert found.measured == 8 and found.stamp.card == "mine" and found.stamp.file == "run.json"


def test_numbers_are_written_as_published():
    assert [number(value) for value in (129708.23, 8.72653, 6260.0, 0.985, -75.0)] == [
        "129708.23", "8.72653", "6260", "0.985", "-75"]  # fmt: skip


# The report


def test_report_holds_every_label_and_counts_every_number():
    compared = sheets(list(PAPERS.values()), committed())
    page = markdown(compared, load_commands())
    saved = json.loads(as_json(compared))
    for sheet in compared:
        assert all(label in page for label in sheet.paper.labels)
        published = sum(1 if e.readings else len(e.points) for e in sheet.paper.entry)
        assert sum(sheet.count().values()) == published
    assert len(saved["comparisons"]) == sum(len(sheet.comparisons) for sheet in compared)
    assert saved["summary"] == summary(compared)
    assert all(
        f"{one.verdict}*" in page for sheet in compared for one in sheet.comparisons if one.differs and one.verdict
    )


def test_command_writes_page_json_and_pictures(tmp_path, capsys):
    bench_papers(tmp_path / "x.json", tmp_path / "docs" / "x.md", tmp_path / "pictures")
    page = (tmp_path / "docs" / "x.md").read_text()
    linked = re.findall(r"!\[[^]]*\]\((.*?)\)", page)
    assert linked and all((tmp_path / "docs" / link).stat().st_size > 5000 for link in linked)
    assert len(json.loads((tmp_path / "x.json").read_text())["summary"]) == 4
    assert "published and measured" in capsys.readouterr().out


def test_results_are_the_repository_s_or_those_installed_with_the_package(tmp_path):
    package = tmp_path / "src" / "ryle"
    assert committed(package) == package / "bench" / "papers" / "results"
    (tmp_path / "bench" / "results").mkdir(parents=True)
    assert committed(package) == tmp_path / "bench" / "results"
    assert committed() == REPOSITORY / "bench" / "results"
    install = re.search(
        r"install\(DIRECTORY bench/results/ DESTINATION (\S+)", (REPOSITORY / "CMakeLists.txt").read_text()
    )
    assert install and install[1] == "ryle/bench/papers/results"


def test_no_folder_of_results_is_said(tmp_path):
    with pytest.raises(FileNotFoundError, match="--results"):
        bench_papers(results=tmp_path / "none")


def test_committed_page_is_of_this_registry():
    page = (REPOSITORY / "docs" / "explanation" / "papers.md").read_text()
    folder = REPOSITORY / "docs" / "explanation"
    pictures = [(folder / link).resolve() for link in re.findall(r"\]\((\S+\.png)\)", page)]
    assert pictures and all(picture.is_file() for picture in pictures)
    assert page == markdown(sheets(list(PAPERS.values()), committed()), load_commands(), pictures, folder), (
        "write it again: ryle bench papers --markdown docs/explanation/papers.md --pictures docs/_static/papers"
    )


# Measuring


def fake(key, code, seconds=30.0, writes=True, needs=()):
    return Command(key, f'python -c "{code}"', seconds, f"{key}.json" if writes else "", needs)


def test_measuring_goes_on_where_it_stopped(tmp_path):
    write = "open('{0}.json', 'w').write('{{}}'); open('{1}', 'a').write('x')"
    ran = tmp_path / "ran"
    commands = [
        fake("fails", "import sys; print('no luck'); sys.exit(3)"),
        fake("long", "import time; time.sleep(60)", seconds=0.5),
        fake("good", write.format("good", ran)),
        fake("silent", "pass"),
        fake("huge", "pass", seconds=1000),
        fake("gpu", "pass", needs=("gpu",)),
    ]
    said = []
    began = time.monotonic()
    done = measure(commands, tmp_path / "m", 60, said.append, lambda one: "no GPU" if one.needs else None)
    assert time.monotonic() - began < 40
    assert done.measured == ["good"] and done.lacking == {"gpu": "no GPU"} and set(done.left) == {"huge"}
    assert set(done.failed) == {"fails", "long", "silent"}
    assert "exit status 3" in done.failed["fails"] and "more than 0.5 s" in done.failed["long"]
    assert "no luck" in (tmp_path / "m" / "fails.log").read_text()
    assert len(said) >= len(commands)
    saved = json.loads((tmp_path / "m" / "good.json").read_text())["measured"]
    assert saved["card"] and saved["date"] and saved["commit"] and saved["command"].startswith("python -c")
    again = measure(commands[:3], tmp_path / "m", 60, said.append, lambda one: None)
    assert again.already == ["good"] and ran.read_text() == "x"
    assert set(again.failed) == {"fails", "long"}
    assert not list((tmp_path / "m").glob("*.part"))


def test_what_a_command_had_found_when_its_time_was_over_is_kept(tmp_path):
    path, cut = tmp_path / "slow.py", tmp_path / "m" / "c.cut"
    path.write_text("import time\nopen('c.json', 'w').write('[1]')\ntime.sleep(60)\n")
    done = measure([Command("c", f"python {path}", 4.0, "c.json")], tmp_path / "m", 60, lambda _: None, lambda _: None)
    assert str(cut) in done.failed["c"] and cut.read_text() == "[1]"
    assert not (tmp_path / "m" / "c.json").exists()  # the report does not take half of a command
    path.write_text("open('c.json', 'w').write('[1, 2]')\n")
    done = measure([Command("c", f"python {path}", 9.0, "c.json")], tmp_path / "m", 60, lambda _: None, lambda _: None)
    assert done.measured == ["c"] and not cut.exists()


def test_engines_from_memory_are_all_measured_and_once():
    commands = [command.words for command in load_commands().values() if "--only" in command.words]
    parts = [words[words.index("--only") + 1] for words in commands if "memory" in words]
    assert len(parts) == 2
    assert all(sum(part in case.name for part in parts) == 1 for case in CASES)


def test_what_a_command_started_ends_with_it(tmp_path):
    path, number = tmp_path / "starts.py", tmp_path / "number"
    path.write_text(
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(120)'])\n"
        f"open({str(number)!r}, 'w').write(str(child.pid))\ntime.sleep(60)\n"
    )
    measure([Command("c", f"python {path}", 4.0, "c.json")], tmp_path / "m", 60, lambda _: None, lambda _: None)
    stat, until = Path(f"/proc/{number.read_text()}/stat"), time.monotonic() + 20
    while stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z":
        assert time.monotonic() < until
        time.sleep(0.05)


def test_nothing_begins_that_could_pass_the_limit(tmp_path):
    done = measure([fake("a", "pass", seconds=50)], tmp_path, 40, lambda _: None, lambda _: None)
    assert set(done.left) == {"a"} and done.lines()[0] == "done: nothing"
    assert Done(measured=["a"]).lines() == ["done: a"]


def test_lacking_names_what_is_missing(monkeypatch):
    monkeypatch.setattr("ryle.bench.papers.measure.gpu_problem", lambda: "no GPU")
    assert lacking(Command("a", "x", 1)) is None
    assert lacking(Command("a", "x", 1, needs=("gpu",))) == "no GPU"
    assert lacking(Command("a", "x", 1, needs=("repository", "gpu"))) == "no GPU"


# Against the papers themselves


def texts():
    """Give each paper's text: that which begins with its title, for others cite it."""
    folder = os.environ.get("RYLE_PAPERS")
    if not folder:
        pytest.skip("RYLE_PAPERS names no folder with the papers' texts")
    found = {}
    for path in Path(folder).glob("*.txt"):
        text = path.read_text(errors="replace")
        begins = re.sub(r"\W+", "", text[:1000]).lower()
        found |= {key: text for key, one in PAPERS.items() if re.sub(r"\W+", "", one.title).lower() in begins}
    assert set(found) == set(PAPERS), f"no text has the title of {set(PAPERS) - set(found)}"
    return found


def test_inventory_misses_no_label_of_the_papers():
    for key, text in texts().items():
        labels = {
            f"{'Table' if kind == 'Table' else 'Fig.'} {which}"
            for kind, which in re.findall(r"\b(Table|Fig\.|Figur)\w{0,2}\s*[$\[]*e?\s*(\d+)", text)
        }
        assert labels <= set(INVENTORY[key]["labels"]), labels - set(INVENTORY[key]["labels"])


def tabled(text):
    """Give the lines of each table: after a caption where tabs part cells, before it where bars do."""
    lines = text.splitlines()
    for at, line in enumerate(lines):
        caption = re.match(r"Table (\d+)", line)
        if not caption:
            continue
        after = [k for k in range(at + 1, min(at + 4, len(lines))) if "\t" in lines[k]]
        rows = []
        if after:
            k = after[0]
            while k < len(lines) and "\t" in lines[k]:
                rows.append(lines[k])
                k += 1
        else:
            k = at - 1
            while k >= 0 and not lines[k].strip():
                k -= 1
            while k >= 0 and lines[k].startswith("|"):
                rows.append(lines[k])
                k -= 1
        if rows:
            yield f"Table {caption[1]}", rows


def test_inventory_misses_no_number_of_the_papers_tables():
    for key, text in texts().items():
        assert {label for label, _ in tabled(text)} == {name for name in INVENTORY[key]["labels"] if "Table" in name}
        for label, rows in tabled(text):
            there = {value for row in rows for value in numbers(row)}
            wanted = set(map(float, INVENTORY[key]["numbers"][label]))
            assert len(there) > 3 and there <= wanted, (key, label, sorted(there - wanted))


def test_registry_misses_no_reading_that_a_figure_prints():
    for key, text in texts().items():
        there = {value for one in PAPERS[key].entry for value in told(one)}
        printed = re.findall(r"Bandwidth: ([\d.]+) Gbps|bandwidth \(GB/s\): ([\d.]+)", text)
        values = {float(a or b) for a, b in printed}
        assert values <= there, (key, sorted(values - there))
