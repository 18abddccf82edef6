"""Visibilities into a UVH5 file, one integration at a time, so that a killed correlator loses nothing it reported.

The layout is UVH5 1.2 (pyuvdata memo "UVH5 file format"). Rows (a, b) have a <= b by antenna number and hold
conj(X_a)·X_b with uvw = r_b − r_a, autocorrelations included; a source at (l, m) gives e^{+2πi(ul+vm+w(n−1))f/c}.
Visibilities are sums divided by the number of spectra summed. Time and length of an integration are those of its
exposure, from the first spectrum that was there to the last; ``nsamples`` is the fraction of that which contributed.
What nobody contributed to is zero, flagged, with ``nsamples`` 0; of what less than `ObservationMetadata.min_fraction`
of the integration contributed to, the flag alone says so. The group ``/Ryle``, which other readers
pass over, keeps the observation file, the first spectrum since sync of each integration, and the arrays given to
`UVH5Writer.record`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import h5py
import numpy as np

from ryle.chunk import Exposure, Integration
from ryle.products.cuts import chunk_shape
from ryle.products.journal import JournaledFile, journal_path, replay
from ryle.products.metadata import ObservationMetadata
from ryle.products.projection import project
from ryle.products.readable import UVH5Error, damaged, no_uvh5, open_uvh5
from ryle.products.slabs import Slabs
from ryle.products.uvh5_layout import ROWS, Rows, create

#: Seconds; a Julian date in float64 has steps of 40 µs, and pyuvdata takes times within 1 ms for one.
_SHORTEST = 1e-3


@dataclass(frozen=True)
class Recovery:
    """What `recover` found and did.

    Parameters
    ----------
    path : Path
        The file.
    integrations : int
        Integrations it now holds.
    journal : str
        ``"clean"``, ``"completed"`` or ``"discarded"``, see `ryle.products.journal.replay`.
    """

    path: Path
    integrations: int
    journal: str

    def __str__(self) -> str:
        return f"{self.path} holds {self.integrations} integrations (journal {self.journal})"


@dataclass(frozen=True)
class _Grown:
    """What grows with every integration: columns of the header, its numbers, first spectra, and arrays."""

    columns: list[h5py.Dataset]
    times: h5py.Dataset
    rows: h5py.Dataset
    firsts: h5py.Dataset
    data: dict[str, h5py.Dataset]

    @classmethod
    def of(cls, file: h5py.File) -> _Grown:
        header, data = file["Header"], file["Data"]
        arrays = {name: data[name] for name in ("visdata", "nsamples", "flags")}
        return cls(
            [header[name] for name in ROWS], header["Ntimes"], header["Nblts"], file["Ryle/first_spectrum"], arrays
        )


class UVH5Writer:
    """Stream of integrations into one UVH5 file.

    Once `append` has returned, the integration is in the file for any reader, however the process ends: kill -9
    included, and power failures with ``fsync``. A killed process leaves a file that opens as it is, or, if the kill
    fell into the few microseconds in which the index is replaced, after `recover`. The file can be read while written.

    Parameters
    ----------
    path : str or Path
        File to create.
    metadata : ObservationMetadata
        What the file states about the observation.
    overwrite : bool
        Replace an existing file.
    fsync : bool
        Wait for the disk at every integration.

    Raises
    ------
    FileExistsError
        If the file exists and ``overwrite`` is false.
    UVH5Error
        If the file cannot be created.
    """

    def __init__(
        self, path: str | Path, metadata: ObservationMetadata, *, overwrite: bool = False, fsync: bool = False
    ) -> None:
        self.path = Path(path)
        self.metadata = metadata
        self._rows = Rows.of(metadata)
        baselines, polarizations = self._rows.product.shape
        chunk = chunk_shape(baselines, polarizations, metadata.channels)
        self._slabs = Slabs(self._rows, metadata.channels, metadata.sideband, chunk)
        self._next_spectrum: int | None = None
        self._integrations = 0
        # What a first projection loads (tables of the Earth's rotation, a second) would hold up the first integration,
        # with packets of the next ones behind it.
        project(metadata, metadata.midpoint(0, 1), self._rows.antenna_1, self._rows.antenna_2)
        if overwrite:
            self.path.unlink(missing_ok=True)
        try:
            self._raw = JournaledFile(self.path, fsync=fsync)
        except FileExistsError:
            raise FileExistsError(f"{self.path} exists; choose another name or allow it to be overwritten") from None
        except OSError as error:
            raise UVH5Error(
                f"cannot create {self.path}: {error.strerror}; choose a directory you may write to"
            ) from error
        self._file: h5py.File | None = None
        self._grown: _Grown | None = None
        try:
            self._file = h5py.File(self._raw, "w")
            create(self._file, metadata, self._rows)
            # Looking up what grows with every integration would take a third of writing a small one.
            self._grown = _Grown.of(self._file)
            self._commit()
        except BaseException as error:
            self._fail(error)

    @property
    def integrations(self) -> int:
        """Integrations safely written."""
        return self._integrations

    def append(self, pieces: Integration | Sequence[Integration]) -> int:
        """Write one integration and return once it is safe.

        Parameters
        ----------
        pieces : Integration or sequence of Integration
            The whole band, or the substreams of it that arrived, in any order; channels in none of them are flagged.

        Returns
        -------
        int
            Integrations now safely in the file.

        Raises
        ------
        ValueError
            If the pieces do not fit together or into the file; nothing is written and the writer goes on.
        UVH5Error
            If the disk refuses, when full for example. The file is closed and holds all earlier integrations.
        """
        if self._file is None:
            raise UVH5Error(f"{self.path} is closed; open another file for further integrations")
        parts = [pieces] if isinstance(pieces, Integration) else list(pieces)
        self._check(parts)
        try:
            exposure = max((part.exposed for part in parts), key=lambda each: each.spectra)
            self._write_header_rows(parts[0].first_spectrum, exposure)
            self._write_data(parts, exposure.spectra)
            self._commit()
        except BaseException as error:  # Ctrl-C too: half an integration must never be committed
            self._fail(error)
        self._integrations += 1
        self._next_spectrum = parts[0].first_spectrum + parts[0].spectra
        return self._integrations

    def record(self, name: str, value: Any) -> None:
        """Keep an array, number or text under ``/Ryle/<name>``, replacing an earlier one of that name.

        It is safe once the next integration is, or the file is closed.

        Parameters
        ----------
        name : str
            For example ``adc_histogram``: shape (input, level), with ``adc_levels`` (level,).
        value : array_like or str
            Anything that h5py stores.
        """
        if self._file is None:
            raise UVH5Error(f"{self.path} is closed; nothing more can be recorded in it")
        group = self._file["Ryle"]
        if name in group:
            del group[name]
        group[name] = value

    def close(self) -> None:
        """Finish the file.

        Raises
        ------
        UVH5Error
            If the disk refuses what `record` left; all integrations are in the file all the same.
        """
        if self._file is None:
            return
        try:
            self._commit()
        except BaseException as error:
            self._fail(error)
        self._shut()

    def __enter__(self) -> UVH5Writer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check(self, parts: Sequence[Integration]) -> None:
        if not parts:
            raise ValueError("an integration needs at least one piece of the band")
        meta, head = self.metadata, parts[0]
        if head.spectra < 1:
            raise ValueError(f"an integration of {head.spectra} spectra cannot be written; it needs at least one")
        if self._next_spectrum is not None and head.first_spectrum < self._next_spectrum:
            raise ValueError(
                f"integration at spectrum {head.first_spectrum} overlaps or precedes the last one, which ends at "
                f"{self._next_spectrum}; integrations must be in order"
            )
        if meta.duration(head.spectra) < _SHORTEST:
            raise ValueError(
                f"integrations of {head.spectra} spectra last {meta.duration(head.spectra):.3g} s; the Julian dates "
                f"of the file cannot tell times less than {_SHORTEST} s apart: integrate longer"
            )
        taken = np.zeros(meta.channels, bool)
        for part in parts:
            first, channels = part.first_channel, part.channels
            if (part.first_spectrum, part.spectra) != (head.first_spectrum, head.spectra):
                raise ValueError(
                    f"pieces of different integrations: {part.spectra} spectra from {part.first_spectrum} "
                    f"and {head.spectra} from {head.first_spectrum}"
                )
            if first < 0 or first + channels > meta.channels:
                raise ValueError(
                    f"channels {first} to {first + channels - 1} are not all within 0 to {meta.channels - 1}"
                )
            if part.visibilities.shape[1:] != (meta.products, 2):
                raise ValueError(
                    f"visibilities have shape {part.visibilities.shape}; {meta.antennas} antennas with "
                    f"{len(meta.polarizations)} polarizations need (channel, {meta.products}, 2)"
                )
            groups = part.counts.shape[0]
            if part.counts.shape[1:] != (meta.products,) or groups == 0 or channels % groups:
                raise ValueError(
                    f"counts have shape {part.counts.shape}; they need (group, {meta.products}), "
                    f"the number of groups dividing {channels} channels"
                )
            if part.counts.size and int(part.counts.max()) > part.exposed.spectra:
                raise ValueError(f"counts reach {part.counts.max()} in an exposure of {part.exposed.spectra} spectra")
            if taken[first : first + channels].any():
                raise ValueError(f"channels {first} to {first + channels - 1} came in more than one piece")
            taken[first : first + channels] = True

    def _write_header_rows(self, first_spectrum: int, exposure: Exposure) -> None:
        time = self.metadata.centre(exposure)
        projection = project(self.metadata, time, self._rows.antenna_1, self._rows.antenna_2)
        rows = self._rows.antenna_1.size
        start = self._integrations * rows
        values = (
            time.utc.jd,
            self.metadata.duration(exposure.spectra),
            projection.lst,
            projection.uvw,
            self._rows.antenna_1,
            self._rows.antenna_2,
            0,
            projection.app_ra,
            projection.app_dec,
            projection.frame_pa,
        )
        assert self._grown is not None
        for column, value in zip(self._grown.columns, values, strict=True):
            column.resize(start + rows, axis=0)
            column[start:] = value
        self._grown.firsts.resize(self._integrations + 1, axis=0)
        self._grown.firsts[-1] = first_spectrum
        self._grown.times[()] = self._integrations + 1
        self._grown.rows[()] = (self._integrations + 1) * rows

    def _write_data(self, parts: Sequence[Integration], exposed: int) -> None:
        rows = self._rows.sign.size
        least = max(1, math.ceil(self.metadata.min_fraction * parts[0].spectra))
        start = self._integrations * rows
        assert self._grown is not None
        data = self._grown.data
        for dataset in data.values():
            dataset.resize(start + rows, axis=0)
        for chunk in self._slabs.make(parts, exposed, least):
            data[chunk.name].id.write_direct_chunk((start + chunk.row, chunk.channel, 0), chunk.content)
            self._raw.check()

    def _commit(self) -> None:
        assert self._file is not None
        self._file.flush()
        self._raw.commit()

    def _fail(self, error: BaseException) -> NoReturn:
        """Close at the last commit and say so."""
        self._raw.abandon()
        try:
            self._shut()
        except Exception:  # HDF5 may trip over what it could not write; the file itself is at its last commit
            self._file = None
            self._raw.close()
            self._slabs.close()
        if not isinstance(error, OSError | RuntimeError):
            raise error
        advice = (
            f"its journal {journal_path(self.path).name} has the rest: make room and run `ryle recover {self.path}`"
            if journal_path(self.path).exists()
            else f"it is closed and holds the {self._integrations} integrations reported before"
        )
        raise UVH5Error(f"writing {self.path} failed: {error}; {advice}") from error

    def _shut(self) -> None:
        # Else they would live until whatever thread collects them, at the process's end for instance.
        self._grown = None
        if self._file is not None:
            self._file.close()
            self._file = None
        self._raw.close()
        self._slabs.close()


def recover(path: str | Path) -> Recovery:
    """Bring a file that a killed process left behind to its last complete integration.

    Safe at any time and any number of times, also when nothing needs to be done; not while the writer runs.

    Parameters
    ----------
    path : str or Path
        UVH5 file written by `UVH5Writer`.

    Returns
    -------
    Recovery
        What was found and what the file holds now.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    UVH5Error
        If it is not a file of `UVH5Writer`, or was killed before its first commit and holds nothing.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist; give the name of the UVH5 file that was being written")
    if path.is_dir():
        raise no_uvh5(path, "is a directory, not a UVH5 file")
    journal = replay(path)
    with open_uvh5(path) as file:
        try:
            integrations = int(file["Header/Ntimes"][()])
        except (KeyError, TypeError, ValueError, OSError, RuntimeError):
            raise damaged(path, "Header/Ntimes, which counts the integrations, is no number") from None
    if integrations < 0:
        raise damaged(path, f"Header/Ntimes says that it holds {integrations} integrations")
    return Recovery(path, integrations, journal)
