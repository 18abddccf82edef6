"""Dashboards for Grafana, and alert rules and an example of its settings for Prometheus: files that Ryle ships."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path


def write_dashboards(directory: Path) -> list[Path]:
    """Write them all into a directory, which is made if it is not there.

    Parameters
    ----------
    directory : Path
        Files of the same names in it are replaced.

    Returns
    -------
    list of Path
        What was written: dashboards (``*.json``), ``alerts.yml`` and ``prometheus.yml``, by name.

    Raises
    ------
    OSError
        If it cannot be made or written to.
    """
    directory.mkdir(parents=True, exist_ok=True)
    shipped = [file for folder in ("grafana", "prometheus") for file in files("ryle.serve").joinpath(folder).iterdir()]
    written = []
    for file in sorted(shipped, key=lambda file: file.name):
        if file.name.endswith((".json", ".yml")):
            path = directory / file.name
            path.write_bytes(file.read_bytes())
            written.append(path)
    return written
