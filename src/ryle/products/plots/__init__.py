"""Pictures of a visibility file, as PNG."""

from __future__ import annotations

from pathlib import Path

from ryle.products.plots import autos, coverage, fringes, health
from ryle.products.plots.source import VisibilityFile

__all__ = ["VisibilityFile", "autos", "coverage", "fringes", "health", "plot_all"]


def plot_all(path: str | Path, outdir: str | Path) -> list[Path]:
    """Draw every picture that the file has data for.

    Parameters
    ----------
    path : str or Path
        UVH5 file.
    outdir : str or Path
        Directory, made if need be; pictures of the same names are replaced.

    Returns
    -------
    list of Path
        ``bandpass.png``, ``waterfall.png``, ``loss.png`` always; ``fringes.png``, ``lags.png``, ``matrix.png`` and
        ``uv.png`` with two antennas or more, ``closure.png`` with three; ``adc.png`` if the file has an
        ``adc_histogram`` (`ryle.products.uvh5.UVH5Writer.record`).

    Raises
    ------
    OSError, ValueError
        If the file cannot be read or is empty.
    """
    out = Path(outdir)
    out.mkdir(parents=True, exist_ok=True)
    with VisibilityFile(path) as file:
        drawn = [
            autos.bandpass(file, out / "bandpass.png"),
            autos.waterfalls(file, out / "waterfall.png"),
            health.loss_map(file, out / "loss.png"),
        ]
        if file.baselines(1):
            drawn += [
                fringes.fringes(file, out / "fringes.png"),
                fringes.lags(file, out / "lags.png"),
                fringes.baseline_matrix(file, out / "matrix.png"),
                coverage.uv_coverage(file, out / "uv.png"),
            ]
        if len(file.antennas) >= 3:
            drawn.append(fringes.closure(file, out / "closure.png"))
        histogram = file.record("adc_histogram")
        if histogram is not None:
            labels = file.record("adc_labels")
            drawn.append(
                health.adc_histogram(
                    histogram,
                    out / "adc.png",
                    levels=file.record("adc_levels"),
                    labels=None if labels is None else [x.decode() for x in labels.tolist()],
                    subtitle=file.subtitle,
                )
            )
    return drawn
