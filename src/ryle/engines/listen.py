"""What a person does with integrations that a correlator serves: see them come, and keep them in a file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import numpy as np

from ryle.chunk import Integration
from ryle.config import ConfigError, changed, parse
from ryle.engines.scans import finish, phase_centre
from ryle.products.framing import StreamError
from ryle.products.listener import Listener
from ryle.products.observed import metadata
from ryle.products.uvh5 import UVH5Writer


def listen(
    host: str,
    port: int,
    file: Path | None,
    say: Callable[[str], None],
    *,
    integrations: int | None = None,
    overwrite: bool = False,
) -> int:
    """Receive integrations until the correlator ends.

    Parameters
    ----------
    host, port
        Where it serves them.
    file : Path, optional
        UVH5 file to write; what comes with another phase centre goes to one of its own, ``NAME-2.uvh5`` and so on.
    say : callable
        Told a line of each integration.
    integrations : int, optional
        How many are enough.
    overwrite : bool
        Replace the file if it exists.

    Returns
    -------
    int
        How many came.

    Raises
    ------
    StreamError
        If nobody serves there, or what comes is no such stream.
    UVH5Error, FileExistsError
        If the file cannot be written.
    """
    came = 0
    with ExitStack() as stack:
        listener = stack.enter_context(Listener(host, port))
        files = None if file is None else stack.enter_context(_Files(listener, file, overwrite))
        for header, pieces in listener:
            came += 1
            if files is not None and files.append(header, pieces):
                say(f"from now on: {files.path}")
            there = np.mean([np.mean(p.counts) for p in pieces]) / pieces[0].exposed.spectra
            size = sum(p.visibilities.nbytes + p.counts.nbytes for p in pieces)
            missed = f", {listener.missed} missed" if listener.missed else ""
            first, end = pieces[0].first_spectrum, pieces[0].first_spectrum + pieces[0].spectra
            what = f"{100 * there:.1f} % there, {size / 1e6:.1f} MB{missed}"
            say(f"integration {header['number']}: spectra {first} to {end}, {what}")
            if came == integrations:
                break
    return came


class _Files:
    """Files of what comes, one for each phase centre in turn; the first is opened at once."""

    def __init__(self, listener: Listener, file: Path, overwrite: bool) -> None:
        said = listener.about.get("observation") or {}
        try:
            self._observation = parse(str(said["toml"]), str(said["source"]))
            first, many = listener.about["channels"]
        except (KeyError, TypeError, ValueError, ConfigError) as error:
            raise StreamError(
                f"the stream's observation file cannot be read here, so no file can be written: {error}"
            ) from None
        wide = self._observation.substream_channels
        self._substreams = range(first // wide, (first + many) // wide)
        self._file, self._overwrite, self._count = file, overwrite, 1
        self._centre = phase_centre(self._observation)
        self._writer = UVH5Writer(file, metadata(self._observation, self._substreams), overwrite=overwrite)

    @property
    def path(self) -> Path:
        """The file that is written."""
        return self._writer.path

    def append(self, header: dict[str, Any], pieces: Sequence[Integration]) -> bool:
        """Write an integration; say whether a file begins with it."""
        centre: Any = header.get("phase_centre", self._centre)
        begins: bool = centre != self._centre
        if begins:
            try:
                self._observation = changed(self._observation, phase_centre=dict(centre))
            except (ConfigError, TypeError, ValueError) as error:
                raise StreamError(f"the stream's phase centre {centre!r} makes no sense: {error}") from None
            if self._writer.integrations:
                self._count += 1
            finish(self._writer)
            path = self._file if self._count == 1 else self._file.with_stem(f"{self._file.stem}-{self._count}")
            self._writer = UVH5Writer(path, metadata(self._observation, self._substreams), overwrite=self._overwrite)
            self._centre = centre
        self._writer.append(pieces)
        return begins

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.close()
