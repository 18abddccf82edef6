"""`ryle bench papers`: read the registry, measure if asked to, compare, and show."""

from __future__ import annotations

from pathlib import Path

from ryle.bench.papers.lookup import committed
from ryle.bench.papers.measure import measure, named
from ryle.bench.papers.pictures import draw
from ryle.bench.papers.registry import load_commands, load_papers
from ryle.bench.papers.report import as_json, markdown, tables
from ryle.bench.papers.verdicts import Sheet, sheets
from ryle.bench.results import wide_console


def bench_papers(
    json: Path | None = None,
    page: Path | None = None,
    pictures: Path | None = None,
    results: Path | None = None,
    measurements: Path | None = None,
    limit: float = 540.0,
) -> list[Sheet]:
    """Set four papers' numbers beside what was measured.

    Parameters
    ----------
    json, page : Path, optional
        Files to write the comparison to, as JSON and as Markdown.
    pictures : Path, optional
        Folder for a PNG of each figure and table.
    results : Path, optional
        Folder of files of results, if not those that Ryle comes with.
    measurements : Path, optional
        Folder to measure into first; what it has comes before `results`.
    limit : float
        Seconds that measuring may take.

    Returns
    -------
    list of Sheet
        One a paper.

    Raises
    ------
    FileNotFoundError
        If there is no folder of results.
    """
    console = wide_console()
    results = committed() if results is None else results
    if not results.is_dir():
        raise FileNotFoundError(f"{results}: no folder of results; name one with --results")
    commands = load_commands()
    papers = load_papers(commands=commands)
    if measurements is not None:
        done = measure(named(papers, commands), measurements, limit, lambda line: console.print(line, markup=False))
        for line in done.lines():
            console.print(line, markup=False)
    compared = sheets(papers, results, measurements)
    for table in tables(compared):
        console.print(table)
    drawn = draw(compared, pictures) if pictures is not None else []
    if page is not None:
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(markdown(compared, commands, drawn, page.parent))
    if json is not None:
        json.write_text(as_json(compared))
    for path in (pictures, page, json):
        if path is not None:
            console.print(f"written: {path}", markup=False)
    return compared
