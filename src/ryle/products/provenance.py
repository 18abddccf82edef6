"""Where a file's visibilities come from, in words: version, losses, observation file. It goes with every export."""

from __future__ import annotations

import json
import textwrap
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np
from pyuvdata import UVData


@dataclass(frozen=True)
class Provenance:
    """What an export says of the file that it was made from.

    Parameters
    ----------
    lines : tuple of str
        History: what correlated it, what was lost, the observation file line by line.
    observer, project : str
        Of ``[observation]``; empty if it does not say.
    """

    lines: tuple[str, ...]
    observer: str
    project: str

    @classmethod
    def of(cls, path: Path, data: UVData) -> Provenance:
        """Read what a UVH5 file says of itself.

        Parameters
        ----------
        path : Path
            UVH5 file; one that Ryle did not write has no observation file.
        data : pyuvdata.UVData
            The same, as read.
        """
        with h5py.File(path) as file:
            lines = str(file["Header/history"].asstr()[()]).splitlines()
            kept = file.get("Ryle/observation")
            text = "{}" if kept is None else str(kept.asstr()[()])
        try:
            observation = json.loads(text)
        except ValueError:
            observation = {}
        lines.append(losses(data))
        if isinstance(observation, dict) and "toml" in observation:
            lines.append(f"Observation file {observation.get('source', '')}:")
            lines += [f"  {line}" for line in str(observation["toml"]).splitlines()]
        said = {str(name).lower(): str(value) for name, value in data.extra_keywords.items()}
        return cls(tuple(lines), said.get("observer", ""), said.get("project", ""))

    @property
    def text(self) -> str:
        """The lines as one text for FITS: in ASCII, none longer than a card."""
        text = "\n".join(self.lines).encode("ascii", "backslashreplace").decode()
        return (
            "\n".join(part for line in text.splitlines() for part in textwrap.wrap(line, 70, drop_whitespace=False))
            + "\n"
        )


def losses(data: UVData) -> str:
    """Say what of the data is missing: spectra that were not summed, visibilities that are flagged."""
    missing = 1 - float(np.mean(data.nsample_array, dtype=np.float64)) if data.nsample_array.size else 0.0
    flagged = float(np.mean(data.flag_array)) if data.flag_array.size else 0.0
    return f"Of the signal {missing:.4%} is missing; {flagged:.4%} of the visibilities are flagged."
