"""What shells offer where an argument is typed. Nothing heavy is imported: a person waits for each answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import ryle

_PACKAGE = Path(ryle.__file__).parent


def files(*endings: str) -> Callable[[str], list[str]]:
    """Offer files with one of some endings, and directories that may hold some.

    Parameters
    ----------
    *endings : str
        Such as ``".toml"``; what has such an ending is offered as a file even if it is a directory (a MeasurementSet).
    """

    def offered(incomplete: str) -> list[str]:
        return sorted(_files(incomplete, endings))

    return offered


def _files(incomplete: str, endings: tuple[str, ...]) -> Iterator[str]:
    folder, slash, start = incomplete.rpartition("/")
    try:
        found = list(Path(folder + slash or ".").expanduser().iterdir())
    except OSError:
        return
    for path in found:
        if not path.name.startswith(start) or (path.name.startswith(".") and not start):
            continue
        if path.suffix in endings:
            yield folder + slash + path.name
        elif path.is_dir():
            yield folder + slash + path.name + "/"


def _shipped(folder: str) -> list[str]:
    return sorted(path.stem for path in (_PACKAGE / folder).glob("*.toml"))


def examples(incomplete: str) -> list[str]:
    """Offer names of shipped observation files."""
    return [name for name in _shipped("examples") if name.startswith(incomplete)]


def formats(incomplete: str) -> list[str]:
    """Offer names of shipped packet formats, and files of one's own."""
    return [name for name in _shipped("wire/formats") if name.startswith(incomplete)] + files(".toml")(incomplete)


def pages(incomplete: str) -> list[str]:
    """Offer names of the status pages of what runs on this machine."""
    from ryle.monitor.page import read_pages

    return [page.name for page in read_pages() if page.name.startswith(incomplete)]


def controls(incomplete: str) -> list[str]:
    """Offer names of the controls of what runs on this machine."""
    from ryle.monitor.page import read_pages

    names = {name for page in read_pages() for name in page.controls}
    return sorted(name for name in names if name.startswith(incomplete))
