"""Pieces of recordings that are correlated apart: what each has, which are finished, and all of them as one file.

They lie in a directory beside the file that they become, ``NAME.pieces``, which whoever correlates must reach: a list
of what they are pieces of, and a directory for each that is finished, put there at once. So whoever is killed leaves
nothing that looks finished, and who begins anew takes up what is there.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

from ryle import __version__
from ryle.config import Observation
from ryle.products.whole_time import join_times
from ryle.store.fetch import Recording
from ryle.version import commit

_LIST = "pieces.json"
#: Integrations that a last piece is to have: all there are.
_END = 1 << 40


def this_ryle() -> str:
    """Name this version of Ryle: others may make others bits."""
    return f"{__version__}, commit {commit()}"


def cut(integrations: range, pieces: int) -> list[range]:
    """Share integrations out: as many pieces as asked for, or one for each, as equal as they can be."""
    count = max(1, min(pieces, len(integrations)))
    edges = [integrations.start + len(integrations) * i // count for i in range(count + 1)]
    return [range(a, b) for a, b in pairwise(edges)]


@dataclass(frozen=True)
class Pieces:
    """What is correlated apart.

    Parameters
    ----------
    ryle : str
        Version that correlates.
    source, text : str
        Observation file: its name and what it says.
    recordings : list of Recording
        In the order in which the observation counts them.
    cuts : list of (int, int)
        Integrations that each piece has, counted from sync: the first and the one after the last.
    """

    ryle: str
    source: str
    text: str
    recordings: list[Recording]
    cuts: list[tuple[int, int]]

    @classmethod
    def of(cls, observation: Observation, recordings: Sequence[Recording], cuts: Sequence[range]) -> Pieces:
        """Say what is to be correlated with this version of Ryle."""
        o = observation
        return cls(this_ryle(), Path(o.source).name, o.text, list(recordings), [(c.start, c.stop) for c in cuts])

    @classmethod
    def read(cls, directory: Path) -> Pieces:
        """Read the list in a directory.

        Raises
        ------
        FileNotFoundError
            If this host does not see it; names both.
        ValueError
            If it is no list of pieces.
        """
        try:
            found = json.loads((directory / _LIST).read_text())
            found["recordings"] = [Recording(**each) for each in found["recordings"]]
            found["cuts"] = [(int(a), int(b)) for a, b in found["cuts"]]
            return cls(**found)
        except OSError as error:
            raise FileNotFoundError(
                f"{directory} cannot be read on {socket.gethostname()} ({error.strerror}): give a directory with "
                "--output that has the same path on all hosts of the cluster"
            ) from None
        except (ValueError, TypeError, KeyError):
            raise ValueError(f"{directory / _LIST} is no list of pieces; remove {directory}") from None

    def begin(self, directory: Path) -> tuple[Pieces, int]:
        """Make the directory, or take it up.

        Parameters
        ----------
        directory : Path
            Where pieces go. Those of something else, or of another version, that lie there are removed.

        Returns
        -------
        pieces : Pieces
            These, cut as those that are there if they are of the same.
        gone : int
            Finished pieces of something else, that have been removed.
        """
        gone = 0
        if directory.exists():
            try:
                found: Pieces | None = Pieces.read(directory)
            except (OSError, ValueError):
                found = None
            if found is not None and found.cuts and found == Pieces(**{**vars(self), "cuts": found.cuts}):
                for left in directory.glob(".*"):  # whoever was at these was killed
                    shutil.rmtree(left, ignore_errors=True)
                return found, 0
            gone = 0 if found is None else len(found.finished(directory))
            shutil.rmtree(directory)
        directory.mkdir(parents=True)
        (directory / f".{_LIST}").write_text(json.dumps(asdict(self), indent=1))
        os.replace(directory / f".{_LIST}", directory / _LIST)
        return self, gone

    def integrations(self, number: int) -> range:
        """Say which integrations a piece is made of: the first and the last have also what lies beyond."""
        first, end = self.cuts[number]
        return range(0 if number == 0 else first, _END if number == len(self.cuts) - 1 else end)

    def length(self, number: int) -> int:
        """Count the integrations of a piece, about."""
        first, end = self.cuts[number]
        return end - first

    def finished(self, directory: Path) -> list[int]:
        """Say which are."""
        return [number for number in range(len(self.cuts)) if _place(directory, number).is_dir()]

    def make(self, directory: Path, number: int, work: Callable[[Path], object]) -> None:
        """Make a piece, unless it is finished.

        Parameters
        ----------
        directory : Path
            Where pieces are.
        number : int
            Which.
        work : callable
            Writes its files into the directory that it is given.
        """
        to = _place(directory, number)
        if to.is_dir():
            return
        under_way = directory / f".{to.name}.{socket.gethostname()}.{os.getpid()}"
        under_way.mkdir()
        try:
            work(under_way)
            try:
                os.replace(under_way, to)
            except OSError:
                if not to.is_dir():  # somebody else, who was taken for dead, has made the same
                    raise
        finally:
            shutil.rmtree(under_way, ignore_errors=True)

    def join(self, directory: Path, files: Mapping[str, Path], *, overwrite: bool = False) -> dict[Path, int]:
        """Make files of the whole of finished pieces, and remove these.

        Parameters
        ----------
        directory : Path
            Where pieces are.
        files : mapping of str to Path
            What is to be made, by the name of the file that each piece has of it.
        overwrite : bool
            Replace files that are there.

        Returns
        -------
        dict of Path to int
            What was made, and how many integrations each has.

        Raises
        ------
        UVH5Error
            If a piece is damaged; says which.
        """
        places = [_place(directory, number) for number in range(len(self.cuts))]
        joined = {
            whole: join_times(whole, [place / name for place in places], overwrite=overwrite)
            for name, whole in files.items()
        }
        shutil.rmtree(directory)
        return joined


def _place(directory: Path, number: int) -> Path:
    return directory / f"{number:05d}"
