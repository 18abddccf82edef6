"""What a person does with integrations that a correlator serves: see them come, and keep them in a file."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from ryle.config import ConfigError, parse
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
        UVH5 file to write.
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
        writer = None if file is None else stack.enter_context(_open(listener, file, overwrite))
        for header, pieces in listener:
            came += 1
            if writer is not None:
                writer.append(pieces)
            there = np.mean([np.mean(p.counts) for p in pieces]) / pieces[0].exposed.spectra
            size = sum(p.visibilities.nbytes + p.counts.nbytes for p in pieces)
            missed = f", {listener.missed} missed" if listener.missed else ""
            first, end = pieces[0].first_spectrum, pieces[0].first_spectrum + pieces[0].spectra
            what = f"{100 * there:.1f} % there, {size / 1e6:.1f} MB{missed}"
            say(f"integration {header['number']}: spectra {first} to {end}, {what}")
            if came == integrations:
                break
    return came


def _open(listener: Listener, file: Path, overwrite: bool) -> UVH5Writer:
    said = listener.about.get("observation") or {}
    try:
        o = parse(str(said["toml"]), str(said["source"]))
        first, many = listener.about["channels"]
    except (KeyError, TypeError, ValueError, ConfigError) as error:
        raise StreamError(
            f"the stream's observation file cannot be read here, so no file can be written: {error}"
        ) from None
    wide = o.substream_channels
    return UVH5Writer(file, metadata(o, range(first // wide, (first + many) // wide)), overwrite=overwrite)
